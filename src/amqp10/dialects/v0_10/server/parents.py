"""What sessions of a server know of the engine, and links of the session that they are on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ..link import EndpointSession
from ..parents import EndpointEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ....engine import BranchId, Link, OutgoingDelivery, Request, SessionKeeper
    from ....messaging import Error
    from ..codes import SessionFault
    from ..command_ids import CommandOwner, PendingCommand
    from ..wire.struct import Command, Struct
    from .requests import Answer


class ServerSessionEngine(EndpointEngine, Protocol):
    """A server's engine, as its sessions see it.

    Attributes:
        stopping: names of those that ask publishers to stop.
        branches: the branches of transactions, by name.
    """

    @property
    def stopping(self) -> set[str]: ...

    @property
    def branches(self) -> dict[BranchId, Any]: ...

    @property
    def session_keeper(self) -> SessionKeeper | None: ...

    def in_portions(
        self, numbers: Sequence[int], settle: Callable[[Sequence[int]], None], then: Callable[[], None]
    ) -> None:
        """Call `settle` with deliveries, if there are many in several portions of the input; at last call `then`."""

    def hold(self, messages: int, octets: int) -> None:
        """Count `messages` and `octets` that wait for the owner; negative if they no longer wait."""


class ServerLinkSession(EndpointSession, Protocol):
    """A server's session, as its links see it.

    Attributes:
        deliveries: transfers of this side whose outcome is still open, by command id.
        transaction: the transaction that the session's work is part of; None outside of transactions.
        current: the command that a transaction waits for.
        ended_locally: this side sends nothing more on the session, and drops the commands that still come.
    """

    deliveries: dict[int, OutgoingDelivery]
    transaction: bytes | None

    @property
    def engine(self) -> ServerSessionEngine: ...

    @property
    def channel(self) -> int: ...

    @property
    def current(self) -> int: ...

    @property
    def ended_locally(self) -> bool: ...

    def hold(self, messages: int, octets: int) -> None:
        """Count what waits on the session for the owner, or no longer does."""

    def send(self, frames: bytearray, owner: CommandOwner | None, about: Any, size: int = 0) -> PendingCommand:
        """Send the frames of one command."""

    def complete(self, number: int) -> None:
        """Complete the client's command `number`, with the next output."""

    def outcome(self, link: Link, delivery: OutgoingDelivery) -> None:
        """Tell the outcome of `delivery` with the next events."""

    def next_tag(self) -> bytes:
        """Return the tag of another delivery."""

    def forget_delivery(self, delivery: OutgoingDelivery) -> None:
        """Forget a delivery whose outcome is known."""

    def reject(self, number: int, code: int, text: str) -> None:
        """Reject a transfer of the client's, with the next output."""

    def refuse_all(self, error: Error) -> None:
        """End the session, for the owner takes nothing from it."""

    def fail(self, fault: SessionFault, number: int, command: Command | type[Command] | None) -> None:
        """End the session with the execution.exception for the command `number`."""

    def result_of(self, number: int, value: Struct | None) -> None:
        """Complete the command `number`, with its result."""

    def ask(self, number: int, command: Command, request: Request[Any], answer: Answer) -> None:
        """Ask the owner what the command `number` asks for."""

    def answered(self) -> None:
        """Go on, for the owner has answered a command that later ones waited for."""

    def pause(self) -> None:
        """Execute nothing until `go_on`."""

    def go_on(self) -> None:
        """Execute what waited."""

    def when_taken(self, call: Callable[[], None]) -> None:
        """Call `call` when the owner has taken all messages before."""
