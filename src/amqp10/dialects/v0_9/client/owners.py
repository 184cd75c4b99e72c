"""What channels and links of a client use of the session and the connection that they are on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

from ..connection import Connection
from ..session import SessionEndpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from ....engine import IncomingDelivery, OutgoingDelivery, PendingRequest
    from ....messaging import Declared, DeliveryState, Discharge, TransactionalState
    from ..channel import Channel, ChannelUser
    from ..engine import V09Engine
    from ..wire.tables import Tables

ChannelKind = TypeVar("ChannelKind", bound="Channel")


class TransactionsCore(ABC):
    """The transactions of a connection."""

    @abstractmethod
    def declare(self, coordinator: Any) -> Declared:
        """Begin a transaction for the link `coordinator`."""

    @abstractmethod
    def discharge(self, session: Any, what: Discharge, done: Callable[[DeliveryState], None]) -> None:
        """End a transaction; call `done` when the peer has committed it, or with the reason why it has not."""

    @abstractmethod
    def give_up(self, coordinator: Any) -> None:
        """Roll back what the link `coordinator` declared and did not discharge."""

    @abstractmethod
    def post(
        self, link: Any, payload: bytes, settled: bool, tag: bytes, message_format: int, state: DeliveryState
    ) -> OutgoingDelivery:
        """Keep a message for the commit of its transaction."""

    @abstractmethod
    def retire(self, link: Any, delivery: IncomingDelivery, state: TransactionalState) -> None:
        """Keep a settlement for the commit of its transaction."""


class ConnectionCore(Connection):
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

    engine: V09Engine
    capabilities: frozenset[str]
    blocked: bool
    has_streams: bool
    prefetch_by_consumer: bool
    expiry_clock: Callable[[], int] | None
    tables: Tables
    nack_outcome: DeliveryState
    transactions: TransactionsCore

    @abstractmethod
    def free_channel(self) -> int:
        """Return a number for another channel.

        Raises:
            LocalProtocolError: all are in use.
        """

    @abstractmethod
    def update_secret(self, pending: PendingRequest[Any]) -> None:
        """Tell the server a new secret."""


class SessionCore(SessionEndpoint):
    """A client's session, as its channels see it.

    Attributes:
        channels: its channels that are not closed yet.
        coordinators: its links to the coordinator.
        commits: what has the channel of its transactions that settle nothing; None before the first.
    """

    engine: V09Engine
    connection: ConnectionCore
    channels: list[Channel]
    coordinators: list[Any]
    commits: Any

    @abstractmethod
    def open_channel(self, kind: type[ChannelKind], user: ChannelUser) -> ChannelKind:
        """Open another channel, for `user`.

        Raises:
            LocalProtocolError: all channels are in use.
        """

    @abstractmethod
    def channel_gone(self, channel: Channel) -> None:
        """Forget a channel that is closed; end the session if it waits for that."""
