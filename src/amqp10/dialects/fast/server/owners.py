"""What handles and links of a server use of the channel and the connection that they are on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from ..engine import FastEngine
from ..session import SessionEndpoint

if TYPE_CHECKING:
    from ....engine import OutgoingDelivery
    from ....messaging import DeliveryState, Error
    from ..wire.fragments import Assembly
    from .work import ChannelWork


class ConnectionCore(FastEngine):
    """A server's engine, as its channels see it.

    Attributes:
        channels, handles: those that are not closed by both sides, by number.
        partial: octets of incomplete messages.
        uncommitted: octets of messages that are sent in a transaction and not committed yet.
    """

    channels: dict[int, Any]
    handles: dict[int, Any]
    partial: int
    uncommitted: int

    @abstractmethod
    def hold(self, messages: int, octets: int) -> None:
        """Count messages and octets that wait for credit; negative numbers for those that no longer wait."""


class SessionCore(SessionEndpoint):
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

    engine: ConnectionCore
    id: int
    handles: dict[Any, None]
    transacted: bool
    restartable: bool
    unacknowledged: dict[int, OutgoingDelivery]
    closing: bool
    work: ChannelWork
    sending: Any
    coordinator: Any

    @property
    @abstractmethod
    def committing(self) -> bool:
        """Return whether a commit is under way, or waits."""

    @abstractmethod
    def reply(self, tag: int, error: Error | None = None) -> None:
        """Reply to a command, if `tag` says that it asks for that."""

    @abstractmethod
    def next_number(self) -> int:
        """Return the number of the next message."""

    @abstractmethod
    def post(self, link: Any, payload: bytes, message_format: int) -> None:
        """Keep a message that was sent in the transaction."""

    @abstractmethod
    def acknowledge(self, number: int | None, state: DeliveryState) -> None:
        """Give all messages up to `number` the outcome `state`."""

    @abstractmethod
    def fault(self, condition: str, description: str) -> None:
        """Close the channel over a fault of the client's."""


class HandleCore(ABC):
    """A server's handle, as its links see it.

    Attributes:
        closing: this side has sent its close.
        paused: the client has asked for a pause in deliveries.
        coming: the message that is still incomplete, if there is one.
        producer, consumer: its links, None without one.
    """

    session: SessionCore
    engine: ConnectionCore
    id: int
    closing: bool
    paused: bool
    coming: Assembly | None
    producer: Any
    consumer: Any

    @abstractmethod
    def opened(self, created: str | None) -> None:
        """Reply that the handle is open; `created`: the name that a temporary destination was given."""

    @abstractmethod
    def reply(self, tag: int, error: Error | None = None, code: int | None = None) -> None:
        """Reply to a command, if `tag` says that it asks for that."""

    @abstractmethod
    def close(self, error: Error | None, reply_code: int | None = None) -> None:
        """Close the handle from this side; `reply_code` replaces the reply code of `error`."""

    @abstractmethod
    def go_on(self) -> None:
        """Take the commands that waited for an answer which has now come."""
