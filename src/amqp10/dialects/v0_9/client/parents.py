"""What channels and links of a client know of their session and connection, and these of their links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ....engine import LinkSession

if TYPE_CHECKING:
    from collections.abc import Callable

    from ....engine import PendingRequest
    from ....errors import AmqpError
    from ....messaging import DeliveryState
    from ..._kit.coordinators import OpenTransactions
    from ..channel import Channel, ChannelUser
    from ..engine import V09Engine
    from ..parents import ConnectionSession
    from ..wire.tables import Tables
    from .pending_transaction import PendingTransaction
    from .transactional_channel import TransactionalChannel

ChannelKind = TypeVar("ChannelKind", bound="Channel")


class ClientSessionConnection(Protocol):
    """A client's channel 0, as its sessions and their channels see it.

    Attributes:
        capabilities: those in the server's properties.
        blocked: the server takes no messages at present.
        has_streams: it is RabbitMQ, or another that has its streams.
        prefetch_by_consumer: each consumer has a prefetch of its own (RabbitMQ), not the channel.
        expiry_clock: milliseconds since 1970, for a server to which the property expiration is a moment, not a time to
            live: Qpid drops a message at once that has the latter.
        tables: how the server writes field tables.
        nack_outcome: what a nack means: the server failed; or, if the server does not announce confirms (Qpid), the
            message could not be routed.
    """

    capabilities: frozenset[str]
    blocked: bool
    has_streams: bool
    prefetch_by_consumer: bool
    expiry_clock: Callable[[], int] | None
    tables: Tables
    nack_outcome: DeliveryState

    @property
    def engine(self) -> V09Engine: ...

    @property
    def transactions(self) -> OpenTransactions[PendingTransaction]: ...

    def free_channel(self) -> int:
        """Return a number for another channel.

        Raises:
            LocalProtocolError: all are in use.
        """

    def update_secret(self, pending: PendingRequest[Any]) -> None:
        """Tell the server a new secret."""

    def forget(self, session: ConnectionSession) -> None:
        """Forget a session that is over."""


class SessionCoordinator(Protocol):
    """A link to the coordinator, as its session sees it."""

    def over(self, error: AmqpError | None) -> None: ...


class ClientLinkSession(LinkSession, Protocol):
    """A client's session, as its channels see it.

    Attributes:
        channels: its channels that are not closed yet.
        coordinators: its links to the coordinator.
        commit_channel: the channel of its transactions that settle nothing; None before the first.
    """

    channels: list[Channel]
    coordinators: list[SessionCoordinator]
    commit_channel: TransactionalChannel | None

    @property
    def engine(self) -> V09Engine: ...

    @property
    def connection(self) -> ClientSessionConnection: ...

    def open_channel(self, kind: type[ChannelKind], user: ChannelUser) -> ChannelKind:
        """Open another channel, for `user`.

        Raises:
            LocalProtocolError: all channels are in use.
        """

    def channel_gone(self, channel: Channel) -> None:
        """Forget a channel that is closed; end the session if it waits for that."""
