"""What handles and links of a server know of the channel and the connection that they are on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ..link import EndpointSession
from ..session import EndpointEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ....engine import OutgoingDelivery, ReceiverLink
    from ....errors import AmqpError
    from ....messaging import DeliveryState, Error
    from ..wire.command_table import Command
    from ..wire.commands import HandleOpen
    from ..wire.fragments import Assembly
    from .work import ChannelWork, SendingLink


class ServerSessionEngine(EndpointEngine, Protocol):
    """A server's engine, as its channels see it.

    Attributes:
        uncommitted: octets of messages that are sent in a transaction and not committed yet.
        channels, handles: those that are not closed by both sides, by number.
    """

    uncommitted: int
    channels: dict[int, EngineChannel]
    handles: dict[int, EngineHandle]

    def count_uncommitted(self, change: int) -> bool:
        """Count `change` more octets of messages in uncommitted transactions; return whether there is room for them."""

    def in_portions(
        self, numbers: Sequence[int], settle: Callable[[Sequence[int]], None], then: Callable[[], None]
    ) -> None:
        """Call `settle` with deliveries, if there are many in several portions of the input; at last call `then`."""

    def hold(self, messages: int, octets: int) -> None:
        """Count messages and octets that wait for credit; negative numbers for those that no longer wait."""


class EngineChannel(Protocol):
    """A channel, as its engine sees it.

    Attributes:
        closing: this side has sent its close.
        holding: messages wait for credit, or a commit is under way.
        dropped: handles that were on it when it was closed.
        unacknowledged: the deliveries sent on it and not acknowledged, by number.
    """

    closing: bool
    dropped: set[int]
    unacknowledged: dict[int, OutgoingDelivery]

    @property
    def holding(self) -> bool: ...

    def receive(self, command: Command) -> None: ...

    def open_handle(self, command: HandleOpen) -> None: ...

    def connection_closes(self) -> None: ...

    def over(self, cause: AmqpError | None) -> None: ...


class EngineHandle(Protocol):
    """A handle, as its engine sees it."""

    @property
    def holding(self) -> bool:
        """Return whether messages wait for credit, or a commit is under way."""

    def receive(self, command: Command, content: bytes) -> None: ...


class ChannelHandle(Protocol):
    """A handle, as its channel sees it."""

    @property
    def id(self) -> int: ...

    @property
    def holding(self) -> bool: ...

    def leave(self, cause: AmqpError | None) -> None: ...

    def forget(self) -> None: ...


class ChannelCoordinator(Protocol):
    """The link to the owner's coordinator, as its channel sees it."""

    @property
    def busy(self) -> bool:
        """Return whether a commit is under way, or waits."""

    def commit(self, work: ChannelWork) -> None: ...

    def leave(self, cause: AmqpError | None) -> None: ...


class ServerLinkSession(EndpointSession, Protocol):
    """A server's channel, as its handles and links see it.

    Attributes:
        id: the channel's number.
        handles: those on it that are not closed.
        transacted: what is sent and acknowledged on it counts when it is committed.
        restartable: the client can resume large messages after a lost connection.
        unacknowledged: the deliveries sent on it and not acknowledged, by number.
        closing: this side has sent its close.
        work: the messages and acknowledgments since the last commit, if the channel is transacted.
        sending: the handle on which a message is coming in, in fragments.
        coordinator: the link to the owner's coordinator, once it was needed.
    """

    id: int
    handles: dict[ChannelHandle, None]
    transacted: bool
    restartable: bool
    unacknowledged: dict[int, OutgoingDelivery]
    closing: bool
    work: ChannelWork
    sending: ChannelHandle | None
    coordinator: ChannelCoordinator | None

    @property
    def engine(self) -> ServerSessionEngine: ...

    @property
    def committing(self) -> bool:
        """Return whether a commit is under way, or waits."""

    def reply(self, tag: int, error: Error | None = None) -> None:
        """Reply to a command, if `tag` says that it asks for that."""

    def next_number(self) -> int:
        """Return the number of the next message."""

    def post(self, link: SendingLink, payload: bytes, message_format: int) -> None:
        """Keep a message that was sent in the transaction."""

    def acknowledge(self, number: int | None, state: DeliveryState) -> None:
        """Give all messages up to `number` the outcome `state`."""

    def fault(self, condition: str, description: str) -> None:
        """Close the channel over a fault of the client's."""


class ServerLinkHandle(Protocol):
    """A server's handle, as its links see it.

    Attributes:
        closing: this side has sent its close.
        paused: the client has asked for a pause in deliveries.
        coming: the message that is still incomplete, if there is one.
        producer: the link for messages to its destination; None without one.
    """

    id: int
    closing: bool
    paused: bool
    coming: Assembly | None

    @property
    def session(self) -> ServerLinkSession: ...

    @property
    def engine(self) -> ServerSessionEngine: ...

    @property
    def producer(self) -> ReceiverLink | None: ...

    def opened(self, created: str | None) -> None:
        """Reply that the handle is open; `created`: the name that a temporary destination was given."""

    def unsubscribed(self) -> None:
        """Forget the consumer, whose subscription is over."""

    def reply(self, tag: int, error: Error | None = None, code: int | None = None) -> None:
        """Reply to a command, if `tag` says that it asks for that."""

    def close(self, error: Error | None, reply_code: int | None = None) -> None:
        """Close the handle from this side; `reply_code` replaces the reply code of `error`."""

    def go_on(self) -> None:
        """Take the commands that waited for an answer which has now come."""
