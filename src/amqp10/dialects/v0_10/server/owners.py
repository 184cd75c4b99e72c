"""What sessions of a server use of the engine, and links of the session that they are on."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from ..engine import V010Engine
from ..session import SessionEndpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from ....engine import BranchId, OutgoingDelivery, Request
    from ....messaging import Error
    from ..codes import SessionFault
    from ..login import ServerLogin
    from ..wire.struct import Command, Struct
    from .declare import Answer


class ConnectionCore(V010Engine):
    """A server's engine, as its sessions see it.

    Attributes:
        stopping: names of those that ask publishers to stop.
        branches: the branches of transactions, by name.
    """

    login: ServerLogin
    stopping: set[str]
    branches: dict[BranchId, Any]

    @abstractmethod
    def hold(self, messages: int, octets: int) -> None:
        """Count `messages` and `octets` that wait for the owner; negative if they no longer wait."""


class SessionCore(SessionEndpoint):
    """A server's session, as its links see it.

    Attributes:
        deliveries: transfers of this side whose outcome is still open, by command id.
        transaction: the transaction that the session's work is part of; None outside of transactions.
        current: the command that a transaction waits for.
    """

    engine: ConnectionCore
    deliveries: dict[int, OutgoingDelivery]
    transaction: bytes | None
    current: int

    @abstractmethod
    def hold(self, messages: int, octets: int) -> None:
        """Count what waits on the session for the owner, or no longer does."""

    @abstractmethod
    def next_tag(self) -> bytes:
        """Return the tag of another delivery."""

    @abstractmethod
    def forget_delivery(self, delivery: OutgoingDelivery) -> None:
        """Forget a delivery whose outcome is known."""

    @abstractmethod
    def reject(self, number: int, code: int, text: str) -> None:
        """Reject a transfer of the client's, with the next output."""

    @abstractmethod
    def refuse_all(self, error: Error) -> None:
        """End the session, for the owner takes nothing from it."""

    @abstractmethod
    def fail(self, fault: SessionFault, number: int, command: Command | type[Command] | None) -> None:
        """End the session with the execution.exception for the command `number`."""

    @abstractmethod
    def result_of(self, number: int, value: Struct | None) -> None:
        """Complete the command `number`, with its result."""

    @abstractmethod
    def ask(self, number: int, command: Command, request: Request[Any], answer: Answer) -> None:
        """Ask the owner what the command `number` asks for."""

    @abstractmethod
    def answered(self) -> None:
        """Go on, for the owner has answered a command that later ones waited for."""

    @abstractmethod
    def pause(self) -> None:
        """Execute nothing until `go_on`."""

    @abstractmethod
    def go_on(self) -> None:
        """Execute what waited."""

    @abstractmethod
    def when_taken(self, call: Callable[[], None]) -> None:
        """Call `call` when the owner has taken all messages before."""
