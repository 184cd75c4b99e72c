"""What links of a server know of the channel and the connection that they are on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ....engine import LinkSession

if TYPE_CHECKING:
    from collections.abc import Callable

    from ....engine import OutgoingDelivery
    from ....messaging import Error
    from ..._kit.backlog import Backlog
    from ..engine import V09Engine
    from ..parents import ConnectionSession
    from ..wire.method_table import Method
    from .channel import ServerChannel


class ServerSessionConnection(Protocol):
    """A server's channel 0, as the other channels see it.

    Attributes:
        takes_cancel_notify: the client takes basic.cancel.
        backlog: counts the frames that wait on channels.
    """

    takes_cancel_notify: bool
    backlog: Backlog

    @property
    def engine(self) -> V09Engine: ...

    @property
    def blocking_channels(self) -> bool:
        """Return whether channels are told by channel.flow that nothing is taken at present."""

    def forget(self, session: ConnectionSession) -> None:
        """Forget a session that is over."""


class TransactionWork:
    """The work of a channel's present transaction.

    Attributes:
        txn_id: the id of the transaction; None outside of one.
        acked: the deliveries that were settled in it.
        at_commit: calls to make before its commit is answered.
    """

    def __init__(self) -> None:
        self.txn_id: bytes | None = None
        self.acked: list[OutgoingDelivery] = []
        self.at_commit: list[Callable[[], None]] = []


class ServerLinkSession(LinkSession, Protocol):
    """A server's channel, as its links see it.

    Attributes:
        confirming: whether publishes are confirmed.
        replies_at: the queue that stands for the pseudo-queue of replies on this channel; "" for no queue.
        work: the work of the present transaction.
    """

    confirming: bool
    replies_at: str
    work: TransactionWork

    @property
    def engine(self) -> V09Engine: ...

    @property
    def connection(self) -> ServerSessionConnection: ...

    @property
    def channel(self) -> ServerChannel: ...

    def refuse_method(self, error: Error, method: Method, code: int = 0) -> None:
        """Close the channel, for the owner refused what `method` asks for."""

    def replies_end(self, queue: str) -> None:
        """Forget the queue of replies, if it is `queue`."""
