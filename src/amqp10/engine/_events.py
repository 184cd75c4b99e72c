"""The events that an engine tells its owner. They are rare, so frozen; messages stay in `ReceiverLink.incoming`.

`error` is None for an orderly end, else an exception that names the side at fault: the peer's reason
(`ConnectionClosed`, `SessionEnded`, `LinkDetached`), or `RemoteProtocolError` if we ended the endpoint because the peer
broke the protocol. The reply that the protocol requires is already in the output when the event is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._protocol import Event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..errors import AmqpError
    from ..messaging import TransactionalState
    from ._deliveries import IncomingDelivery, OutgoingDelivery
    from ._owners import OutcomeCounter
    from ._parents import LinkSession
    from ._protocol import Link, ReceiverLink, SenderLink, Session
    from ._topology_requests import PendingRequest


@dataclass(frozen=True, slots=True)
class Authenticated(Event):
    """SASL succeeded (§5.3). `identity` is who the peer proved to be (server side), else None."""

    mechanism: str
    identity: str | None


@dataclass(frozen=True, slots=True)
class ConnectionOpened(Event):
    """The peer's open was received; `Engine.remote` has it. A server that has not opened answers now (§2.4.1)."""


@dataclass(frozen=True, slots=True)
class ConnectionEnded(Event):
    """The connection is over: the peer closed it, we gave it up, or the transport ended. Always the last event.

    `error` None: closed by both sides in order. Write what `data_to_send` still has, then close the transport.
    """

    error: AmqpError | None


@dataclass(frozen=True, slots=True)
class PeerBlocked(Event):
    """The peer takes no messages at present, for `reason`; None: it takes them again (RabbitMQ's extension of 0-9-1).

    Senders have no credit meanwhile.
    """

    reason: str | None


@dataclass(frozen=True, slots=True)
class SessionBegun(Event):
    """The peer's begin was received: the answer to ours, or (`session.begun` False) one to answer with `begin`."""

    session: Session


@dataclass(frozen=True, slots=True)
class SessionUnmapped(Event):
    """The session is over, and its links with it (each got its own `LinkEnded` before)."""

    session: Session
    error: AmqpError | None


@dataclass(frozen=True, slots=True)
class SessionResumed(Event):
    """A session goes on, on this connection: its unconfirmed output is sent again, and its links stay as they were.

    A server hears of it at once: the session no longer belongs to the connection that began it.
    """

    session: Session


@dataclass(frozen=True, slots=True)
class LinkAttached(Event):
    """The peer's attach was received: the answer to ours, or (`link.attached` False) a new one to answer.

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
    """A flow was received for a sender link: `credit` and `drain` may have changed (§2.6.7).

    With `drain`: send the messages that are ready, then call `link.drained()`.
    """

    link: SenderLink


@dataclass(frozen=True, slots=True)
class FlowReceived(Event):
    """A flow was received for a receiver link, or the sender aborted a delivery, or resumed one that was complete here:
    `credit` and `available` may have changed.

    `drained` True: the flow answers our drain; all credit is used up or given back (§2.6.7).
    `wasted`: the credit that is gone without a new delivery in `incoming`: the sender gave it back, aborted the
    delivery, or "resumed" one that is not known here.
    """

    link: ReceiverLink
    drained: bool
    wasted: int = 0


@dataclass(frozen=True, slots=True)
class WindowOpened(Event):
    """`session.sendable` became True: the peer's window opened and nothing is held back (§2.5.6)."""

    session: LinkSession


@dataclass(frozen=True, slots=True)
class DeliveriesReceived(Event):
    """`link.incoming` became non-empty in this pass; told once per link and pass, not once per message."""

    link: ReceiverLink


@dataclass(frozen=True, slots=True)
class PartsReceived(Event):
    """A delivery of a link that streams went on: there are new parts to `read`, it is complete, or it was aborted.

    `DeliveriesReceived` tells its first part; this event tells further ones only if all before them had been read.
    """

    delivery: IncomingDelivery


@dataclass(frozen=True, slots=True)
class OutcomesReceived(Event):
    """The receiver sent its state of `deliveries` (§2.7.6): see `remote_state` and `remote_settled` of each."""

    link: SenderLink
    deliveries: Sequence[OutgoingDelivery]


@dataclass(frozen=True, slots=True)
class OutcomesMissed(Event):
    """The receiver sent, in a transaction, a state for deliveries that are over or never existed.

    The transaction cannot do its work on those deliveries.
    """

    session: Session
    state: TransactionalState


@dataclass(frozen=True, slots=True)
class UntrackedAccepted(Event):
    """The receiver accepted and settled `count` messages that `SenderLink.send_untracked` sent for `waiter`."""

    link: SenderLink
    waiter: OutcomeCounter
    count: int


@dataclass(frozen=True, slots=True)
class RunAccepted(Event):
    """The receiver accepted and settled messages that were sent by `SenderLink.send_run`, with these waiters."""

    link: SenderLink
    waiters: Sequence[Any]


@dataclass(frozen=True, slots=True)
class SettlementsReceived(Event):
    """The sender settled `deliveries` before we did (receiver-settle-mode "second", or of its own accord)."""

    link: ReceiverLink
    deliveries: Sequence[IncomingDelivery]


@dataclass(frozen=True, slots=True)
class DeliveriesResumed(Event):
    """This attachment resumed `deliveries` of an earlier one (§2.6.13): they can be settled, and on a link that streams
    they go on. A delivery that was incomplete comes to `incoming` once it is complete, and is not among them.
    """

    link: ReceiverLink
    deliveries: Sequence[IncomingDelivery]


@dataclass(frozen=True, slots=True)
class DeliveriesUnresumed(Event):
    """The peer cannot tell what became of `deliveries` (§2.6.13), or has taken them back.

    Sender: call `SenderLink.resend` or `SenderLink.forget` for each. Receiver: the sender has forgotten the deliveries,
    or released them itself (`remote_state`). They come again as new deliveries, or never, and can no longer be settled.
    """

    link: Link
    deliveries: Sequence[OutgoingDelivery] | Sequence[IncomingDelivery]


@dataclass(frozen=True, slots=True)
class LinkIncomplete(Event):
    """An incomplete link has settled all deliveries that this attachment could resume (§2.6.13).

    The side that attached it now detaches (`closed=False`) and attaches again with `Link.suspended()`.
    """

    link: Link


@dataclass(frozen=True, slots=True)
class RequestReceived(Event):
    """The peer asks for something (`_topology_requests`): `session.answer` or `session.refuse` it, now or later."""

    request: PendingRequest[Any]


@dataclass(frozen=True, slots=True)
class RequestAnswered(Event):
    """A request of ours now has its `result` or its `error`."""

    request: PendingRequest[Any]
