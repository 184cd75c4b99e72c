"""What sessions of a client use of the engine, and links of the session that they are on."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ..engine import V010Engine
from ..session import SessionEndpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ....engine import Address, IncomingDelivery
    from ....messaging import DeliveryState, Error
    from ..login import ClientLogin
    from ..wire.commands import Xid
    from .branches import Transactions
    from .command_sequence import Commands


S = TypeVar("S")


class BranchCleanup(Protocol):
    """Ends the branches that sessions leave."""

    def left(self, branches: Iterable[Any], sentinel: Xid) -> None: ...


class ConnectionCore(V010Engine):
    """A client's engine, as its sessions see it.

    Attributes:
        orphaned_branches: takes over the branches that sessions leave.
    """

    login: ClientLogin
    orphaned_branches: BranchCleanup

    @abstractmethod
    def begin_as(self, kind: Callable[[int], S]) -> S:
        """Make a session with `kind`, on a channel that is free.

        Raises:
            LocalProtocolError: no channel is free.
        """


class SessionCore(SessionEndpoint):
    """A client's session, as its links see it.

    Attributes:
        publisher_credit: messages that the server still takes on this session; None: it does not limit them.
        transactions: those that are declared.
    """

    engine: ConnectionCore
    publisher_credit: int | None
    transactions: Transactions

    @property
    @abstractmethod
    def to_qpid(self) -> bool:
        """Return whether the server is Qpid's: among other things, it keeps the branches of a session that ends."""

    @abstractmethod
    def run_commands(self, commands: Commands, done: Callable[[Any], None], failed: Callable[[Error], None]) -> None:
        """Send the commands of `commands`, and call `done` with what it returns, or `failed`."""

    @abstractmethod
    def after_round_trip(self, call: Callable[..., None], *arguments: Any) -> None:
        """Call `call` after a round trip."""

    @abstractmethod
    def find(self, link: Any, address: Address | None, found: Callable[[Address], None]) -> None:
        """Look for the node of `link`, make it if the link asks for that, and call `found`."""

    @abstractmethod
    def used_credit(self) -> None:
        """Count a transfer that was sent."""

    @abstractmethod
    def credit_changed(self, link: Any) -> None:
        """Tell the owner that the credit of a sender changed."""

    @abstractmethod
    def dispose(self, number: int, state: DeliveryState | None) -> None:
        """Tell the server the outcome of one of its transfers, with the next output."""

    @abstractmethod
    def dispose_exactly(self, link: Any, delivery: IncomingDelivery, state: DeliveryState | None) -> None:
        """Do as `dispose`, and settle the delivery when the server has its outcome."""

    @abstractmethod
    def release(self, number: int | None) -> None:
        """Release a transfer, with the next output."""

    @abstractmethod
    def flush_dispositions(self) -> None:
        """Write all outcomes that wait."""
