"""What sessions of a client know of the engine, and links of the session that they are on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ..link import EndpointSession
from ..parents import EndpointEngine, EngineSession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ....engine import Address, IncomingDelivery, Link, OutgoingDelivery, SenderLink
    from ....messaging import DeliveryState, Error
    from ..command_ids import CommandOwner, PendingCommand
    from ..link import LinkEndpoint
    from ..login import ClientLogin
    from ..wire.commands import Xid
    from ..wire.struct import Command
    from .branches import Branch, Transactions
    from .command_sequence import Commands

S = TypeVar("S", bound=EngineSession)


class BranchCleanup(Protocol):
    """Ends the branches that sessions leave."""

    def left(self, branches: Iterable[Branch], sentinel: Xid) -> None: ...


class ClientSessionEngine(EndpointEngine, Protocol):
    """A client's engine, as its sessions see it.

    Attributes:
        orphaned_branches: takes over the branches that sessions leave.
    """

    @property
    def login(self) -> ClientLogin: ...

    @property
    def orphaned_branches(self) -> BranchCleanup: ...

    def begin_as(self, kind: Callable[[int], S]) -> S:
        """Make a session with `kind`, on a channel that is free.

        Raises:
            LocalProtocolError: no channel is free.
        """

    def take_messages_of(self, size: int) -> None:
        """Put together messages of up to `size` octets, if smaller ones were the limit."""


class ExactReceiver(Protocol):
    """A receiver that settles a delivery when the server has its outcome."""

    @property
    def ended(self) -> bool: ...

    def settled_exactly(self, delivery: IncomingDelivery) -> None: ...


class ClientLinkSession(EndpointSession, Protocol):
    """A client's session, as its links see it.

    Attributes:
        publisher_credit: messages that the server still takes on this session; None: it does not limit them.
        transactions: those that are declared.
    """

    @property
    def engine(self) -> ClientSessionEngine: ...

    @property
    def channel(self) -> int: ...

    @property
    def publisher_credit(self) -> int | None: ...

    @property
    def transactions(self) -> Transactions: ...

    @property
    def to_qpid(self) -> bool:
        """Return whether the server is Qpid's: among other things, it keeps the branches of a session that ends."""

    def invoke(self, command: Command, owner: CommandOwner | None = None, about: Any = None) -> PendingCommand:
        """Send `command`; `owner` hears of its completion."""

    def send(self, frames: bytearray, owner: CommandOwner | None, about: Any, size: int = 0) -> PendingCommand:
        """Send the frames of one command."""

    def complete(self, number: int) -> None:
        """Complete the server's command `number`, with the next output."""

    def run_commands(self, commands: Commands, done: Callable[[Any], None], failed: Callable[[Error], None]) -> None:
        """Send the commands of `commands`, and call `done` with what it returns, or `failed`."""

    def after_round_trip(self, call: Callable[..., None], *arguments: Any) -> None:
        """Call `call` after a round trip."""

    def find(self, link: LinkEndpoint, address: Address | None, found: Callable[[Address], None]) -> None:
        """Look for the node of `link`, make it if the link asks for that, and call `found`."""

    def used_credit(self) -> None:
        """Count a transfer that was sent."""

    def credit_changed(self, link: SenderLink) -> None:
        """Tell the owner that the credit of a sender changed."""

    def outcome(self, link: Link, delivery: OutgoingDelivery) -> None:
        """Tell the outcome of `delivery` with the next events."""

    def settlement(self, link: Link, delivery: IncomingDelivery) -> None:
        """Tell the settlement of `delivery` by the server with the next events."""

    def dispose(self, number: int, state: DeliveryState | None) -> None:
        """Tell the server the outcome of one of its transfers, with the next output."""

    def dispose_exactly(self, link: ExactReceiver, delivery: IncomingDelivery, state: DeliveryState | None) -> None:
        """Do as `dispose`, and settle the delivery when the server has its outcome."""

    def release(self, number: int | None) -> None:
        """Release a transfer, with the next output."""

    def flush_dispositions(self) -> None:
        """Write all outcomes that wait."""
