"""What channels and links of a client know of the session and the connection that they are on, and these of links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ....engine import LinkSession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ....engine import IncomingDelivery, OutgoingDelivery, PendingRequest, SenderLink
    from ....errors import AmqpError
    from ....messaging import Declared, DeliveryState, Discharge, TransactionalState
    from ..channel import Channel, ChannelUser
    from ..engine import V09Engine
    from ..message.to_basic import PublishTemplate
    from ..parents import ConnectionSession
    from ..wire.tables import Tables
    from .transactional_channel import TransactionalChannel

ChannelKind = TypeVar("ChannelKind", bound="Channel")


class TransactedSender(Protocol):
    """A sender whose messages are part of a transaction."""

    @property
    def name(self) -> str: ...

    @property
    def cause(self) -> AmqpError | None: ...

    def map(self, payload: bytes) -> tuple[PublishTemplate, bytes]: ...

    def frames(self, payload: bytes, channel: int) -> bytes: ...


class TransactedReceiver(Protocol):
    """A receiver whose deliveries a transaction settles."""

    @property
    def name(self) -> str: ...

    @property
    def cause(self) -> AmqpError | None: ...

    @property
    def attached(self) -> bool: ...

    @property
    def channel(self) -> TransactionalChannel: ...

    def settled_by_owner(self, delivery: IncomingDelivery, state: DeliveryState | None) -> None: ...

    def has_back(self, delivery: IncomingDelivery) -> bool: ...

    def give_back(self, deliveries: Iterable[IncomingDelivery]) -> None: ...

    def flush_acks(self) -> None: ...

    def settle_all(self, settled: list[tuple[IncomingDelivery, DeliveryState | None]]) -> None: ...


class ConnectionTransactions(Protocol):
    """The transactions of a connection."""

    def declare(self, coordinator: SenderLink) -> Declared:
        """Begin a transaction for the link `coordinator`."""

    def discharge(self, session: ClientLinkSession, what: Discharge, done: Callable[[DeliveryState], None]) -> None:
        """End a transaction; call `done` when the peer has committed it, or with the reason why it has not."""

    def give_up(self, coordinator: SenderLink) -> None:
        """Roll back what the link `coordinator` declared and did not discharge."""

    def publish(self, link: TransactedSender, delivery: OutgoingDelivery, state: DeliveryState) -> None:
        """Keep a message for the commit of its transaction."""

    def retire(self, link: TransactedReceiver, delivery: IncomingDelivery, state: TransactionalState) -> None:
        """Keep a settlement for the commit of its transaction."""


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
    def transactions(self) -> ConnectionTransactions: ...

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


class SessionCommits(Protocol):
    """What has the channel of the transactions that settle nothing."""

    @property
    def channel(self) -> TransactionalChannel: ...


class ClientLinkSession(LinkSession, Protocol):
    """A client's session, as its channels see it.

    Attributes:
        channels: its channels that are not closed yet.
        coordinators: its links to the coordinator.
        commits: what has the channel of its transactions that settle nothing; None before the first.
    """

    channels: list[Channel]
    coordinators: list[SessionCoordinator]
    commits: SessionCommits | None

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
