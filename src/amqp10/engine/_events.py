"""What an engine tells its owner. Said rarely, so frozen; messages themselves stay in `ReceiverLink.incoming`.

`error` is None for an orderly end, else an exception that says whose fault it was: the peer's words
(`ConnectionClosed`, `SessionEnded`, `LinkDetached`), or `RemoteProtocolError` when we ended it because the peer
broke the protocol. The reply that the protocol asks for is already in the output when the event is out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..errors import AmqpError
    from ..messaging import TransactionalState
    from ._api import Link, ReceiverLink, SenderLink, Session
    from ._delivery import IncomingDelivery, OutgoingDelivery
    from ._requests import PendingRequest


@dataclass(frozen=True, slots=True)
class Event:
    """The base of all events."""


@dataclass(frozen=True, slots=True)
class Authenticated(Event):
    """SASL succeeded (§5.3). `identity` is who the peer proved to be (server side), else None."""

    mechanism: str
    identity: str | None


@dataclass(frozen=True, slots=True)
class ConnectionOpened(Event):
    """The peer's open is here; `Engine.remote` has it. A server that has not opened answers now (§2.4.1)."""


@dataclass(frozen=True, slots=True)
class ConnectionEnded(Event):
    """The connection is over: the peer closed it, we gave it up, or the transport ended. Always the last event.

    `error` None: closed by both sides in order. Write what `data_to_send` still has, then close the transport.
    """

    error: AmqpError | None


@dataclass(frozen=True, slots=True)
class PeerBlocked(Event):
    """The peer takes no messages at present, and says why; `reason` None: it takes them again (RabbitMQ's extension of
    0-9-1). Senders have no credit meanwhile.
    """

    reason: str | None


@dataclass(frozen=True, slots=True)
class SessionBegun(Event):
    """The peer's begin is here: the answer to ours, or (`session.begun` False) a new one to answer with `begin`."""

    session: Session


@dataclass(frozen=True, slots=True)
class SessionUnmapped(Event):
    """The session is over, and its links with it (each got its own `LinkEnded` before)."""

    session: Session
    error: AmqpError | None


@dataclass(frozen=True, slots=True)
class SessionResumed(Event):
    """A session goes on, on this connection: what it had said is said again, its links are what they were.

    A server hears of it at once: the session is no more that of the connection that began it.
    """

    session: Session


@dataclass(frozen=True, slots=True)
class LinkAttached(Event):
    """The peer's attach is here: the answer to ours, or (`link.attached` False) a new one to answer.

    Answer with `link.attach(terms)` or `link.refuse(...)`. When the peer refuses ours, its answer has a null
    terminus, this event is *not* sent, and `LinkEnded` comes with the reason (§2.6.3).
    """

    link: Link


@dataclass(frozen=True, slots=True)
class LinkEnded(Event):
    """The link is over. `closed` False: only detached, the peer keeps its terminus (§2.6.4)."""

    link: Link
    closed: bool
    error: AmqpError | None


@dataclass(frozen=True, slots=True)
class CreditChanged(Event):
    """A flow came for a sender link: `credit` and `drain` may have changed (§2.6.7).

    With `drain`: send what there is, then call `link.drained()`.
    """

    link: SenderLink


@dataclass(frozen=True, slots=True)
class FlowReceived(Event):
    """A flow came for a receiver link, or the sender aborted a delivery, or resumed one that was here already: `credit`
    and `available` may have changed.

    `drained` True: it answers our drain, all credit is used up or given back (§2.6.7).
    `wasted`: how much credit is gone for which nothing new comes to `incoming`: the sender gave it back, aborted the
    delivery, or "resumed" one that is not known here.
    """

    link: ReceiverLink
    drained: bool
    wasted: int = 0


@dataclass(frozen=True, slots=True)
class WindowOpened(Event):
    """`session.sendable` became True: the peer's window opened and nothing is held back (§2.5.6)."""

    session: Session


@dataclass(frozen=True, slots=True)
class DeliveriesReceived(Event):
    """`link.incoming` became non-empty in this pass; once a link and pass, not once a message."""

    link: ReceiverLink


@dataclass(frozen=True, slots=True)
class PartsReceived(Event):
    """A delivery of a link that streams went on: there is something to `read` again, it is whole, or it was aborted.

    Its first part is told by `DeliveriesReceived`; further ones only when all before them had been read.
    """

    delivery: IncomingDelivery


@dataclass(frozen=True, slots=True)
class OutcomesReceived(Event):
    """The receiver told its state for these (§2.7.6): see `remote_state` and `remote_settled` of each."""

    link: SenderLink
    deliveries: Sequence[OutgoingDelivery]


@dataclass(frozen=True, slots=True)
class OutcomesMissed(Event):
    """The receiver told, in a transaction, a state of deliveries among which are some that are over or never were.

    What the transaction was to do with them cannot be done.
    """

    session: Session
    state: TransactionalState


@dataclass(frozen=True, slots=True)
class PostsAccepted(Event):
    """The receiver accepted and settled so many of those that were posted for this waiter (`SenderLink.post`)."""

    link: SenderLink
    waiter: Any
    count: int


@dataclass(frozen=True, slots=True)
class SettlementsReceived(Event):
    """The sender settled these, which we had not (receiver-settle-mode "second", or on its own accord)."""

    link: ReceiverLink
    deliveries: Sequence[IncomingDelivery]


@dataclass(frozen=True, slots=True)
class DeliveriesResumed(Event):
    """These, received in an earlier attachment, live on in this one (§2.6.13): they can be settled, and those that a
    link streams go on. One that was not whole comes to `incoming` when it is, and is not named here.
    """

    link: ReceiverLink
    deliveries: Sequence[IncomingDelivery]


@dataclass(frozen=True, slots=True)
class DeliveriesUnresumed(Event):
    """What became of these is not to be known (§2.6.13).

    Sender: call `SenderLink.resend` or `SenderLink.forget` for each. Receiver: the sender remembers nothing of them;
    they come again as new deliveries, or never, and nothing can be said of them any more.
    """

    link: Link
    deliveries: Sequence[OutgoingDelivery] | Sequence[IncomingDelivery]


@dataclass(frozen=True, slots=True)
class LinkIncomplete(Event):
    """All is settled that this attachment of an incomplete link could resume (§2.6.13): who attached it now detaches
    (`closed=False`) and attaches again with `Link.suspended()`.
    """

    link: Link


@dataclass(frozen=True, slots=True)
class RequestReceived(Event):
    """The peer asks for something (`_requests`): call `session.answer` or `session.refuse`, in this pass or later."""

    request: PendingRequest[Any]


@dataclass(frozen=True, slots=True)
class RequestAnswered(Event):
    """A request of ours has its `result`, or its `error`."""

    request: PendingRequest[Any]
