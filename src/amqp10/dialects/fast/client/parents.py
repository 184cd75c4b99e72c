"""What channels and links of a client know of the session and the connection that they are on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ..._kit.coordinators import TransactionWork
from ..link import EndpointSession
from ..session import EndpointEngine
from ..wire.commands import ChannelCommit, ChannelOpen, ChannelRollback

if TYPE_CHECKING:
    from ....engine import IncomingDelivery, Session
    from ....messaging import Error
    from ..._kit.coordinators import OpenTransactions
    from ..wire.command_table import Command
    from ..wire.commands import ChannelClose, ChannelReply, HandleOpen
    from .send_window import SendWindow

Answered = Callable[["Error | None"], None]
"""Told of a reply: the error, or None where it was done."""
ChannelCommand = ChannelOpen | ChannelCommit | ChannelRollback
"""A command for a channel that the server is to confirm."""


class EngineChannel(Protocol):
    """A channel, as its engine sees it."""

    def receive(self, command: ChannelReply | ChannelClose) -> None: ...


class EngineHandle(Protocol):
    """A handle, as its engine sees it."""

    def receive(self, command: Command, content: bytes) -> None: ...


class ChannelHandle(Protocol):
    """A handle, as its channel sees it."""

    def forget(self) -> None: ...


class HandleChannel(Protocol):
    """A channel, as its handles see it."""

    @property
    def id(self) -> int: ...

    @property
    def engine(self) -> ClientSessionEngine: ...

    @property
    def handles(self) -> dict[ChannelHandle, None]: ...


class CommitChannel(HandleChannel, Protocol):
    """A channel, as a commit on it sees it."""

    @property
    def closing(self) -> bool: ...

    @property
    def commits(self) -> dict[Answered, None]: ...

    def ask(self, command: ChannelCommand, answered: Answered) -> None: ...


class TransactedReceiver(Protocol):
    """A receiver whose deliveries a transaction accepts."""

    @property
    def channel(self) -> CommitChannel: ...

    def settle_before_commit(self, deliveries: list[IncomingDelivery]) -> None:
        """Write the acknowledgments of these deliveries, which the next commit makes count."""

    def obstacle(self, deliveries: list[IncomingDelivery]) -> Error | None:
        """Return why a transaction cannot accept these deliveries; None if it can."""

    def undo(self, delivery: IncomingDelivery) -> None:
        """Give a delivery back to the server."""


class OpenTransaction(TransactionWork, Protocol):
    """A transaction that is not discharged.

    Attributes:
        sent: of each message where to, the payload and its message-format.
        accepted: the deliveries to acknowledge, by their receivers.
    """

    sent: list[tuple[HandleOpen, str, bytes, int]]
    accepted: dict[TransactedReceiver, list[IncomingDelivery]]

    def post(self, opening: HandleOpen, to: str, payload: bytes, message_format: int) -> None:
        """Keep a message to send at the commit; `to`: its destination, on a handle without a name."""

    def accept(self, link: TransactedReceiver, delivery: IncomingDelivery) -> None:
        """Keep a delivery to acknowledge at the commit."""

    def obstacle(self) -> Error | None:
        """Return why the transaction cannot be committed; None if it can."""


class ClientSessionEngine(EndpointEngine, Protocol):
    """A client's engine, as its sessions see it.

    Attributes:
        channels, handles: those that are not closed by both sides, by number.
        transactions: those that are not discharged.
        restart_names: the names under which the server is to keep the received parts of messages.
        send_window: the count of octets that are sent and not confirmed by the server yet.
        handle_max: the highest handle that the server takes.
    """

    channels: dict[int, EngineChannel]
    handles: dict[int, EngineHandle]
    transactions: OpenTransactions[OpenTransaction]
    restart_names: set[str]
    send_window: SendWindow
    handle_max: int

    def free_channel(self) -> int:
        """Return a number for another channel.

        Raises:
            LocalProtocolError: all are in use.
        """

    def free_handle(self) -> int:
        """Return a number for another handle.

        Raises:
            LocalProtocolError: all are in use.
        """

    def unread(self, octets: int) -> None:
        """Count octets that wait to be read by the owner; a negative number for those that no longer wait."""

    def forget(self, session: Session) -> None:
        """Forget a session that is over."""


class ClientLinkSession(EndpointSession, Protocol):
    """A client's session, as its links see it."""

    @property
    def engine(self) -> ClientSessionEngine: ...

    def give_id(self) -> int:
        """Return the number of the next delivery."""
