"""The contract between protocol and world: the protocol. Read this first; what exists for speed is in `_fast_lane`.

An engine is one end of one connection without any I/O: bytes go in, events come out, bytes go out. It owns no socket,
clock or task. The code that drives it is this loop, and needs nothing else:

    engine.start()
    if engine.role is Role.CLIENT:
        engine.open()
    over = False
    while not over:
        deadline = engine.tick(clock())
        write(engine.data_to_send())       # all of it; never two writers at once
        events = engine.events()
        for event in events:
            act(event)                     # calls methods of the engine, its sessions, its links
            over = isinstance(event, ConnectionEnded)
        if not events:
            data = read(deadline) if engine.reading else wait(deadline)
            if data is not None:           # None: the deadline has come
                engine.receive_data(data) if data else engine.receive_eof()
    write(engine.data_to_send())
    close()

`ConnectionEnded` is always the last event, in both roles: it ends the loop. Then the driver, and nobody else, closes
the transport. Engines that are not to be driven any longer are told so by `receive_eof`. A driver with tasks runs the
same steps whenever bytes come, the deadline comes, or a call has left output.

The terms are AMQP 1.0's: session, link, credit, delivery, outcome. A dialect maps its own terms to them, and lists in
`capabilities` what it can do; a call for anything else raises `Unsupported` before a byte is written. All methods
return at once. A fault of the *peer* never raises here: it ends the smallest endpoint concerned and arrives as an
event. A fault of *ours* raises `LocalProtocolError` and has no effect.

What a session knows of its engine, and a link of its session, is in `_parents`.

Each session and link has an `owner` (`_owners`) that its events are for. The engine never calls it: the code that
drives the engine gives the events to `EngineOwner.dispatch` (`_dispatch`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import Unsupported
from ._deliveries import IncomingDelivery, OutgoingDelivery
from ._fast_lane import ReceiverFastLane, SenderFastLane, UnsettledCount, count_unsettled
from ._owners import NO_LINK_OWNER, NO_SESSION_OWNER, LinkOwner, SessionOwner
from ._topology_requests import RequestRules

if TYPE_CHECKING:
    from ..messaging import DeliveryState, Error
    from ._parents import LinkSession, SessionEngine
    from ._terms import ConnectionTerms, LinkTerms, Role, SessionTerms
    from ._topology_requests import PendingRequest, Request, RequestResult


@dataclass(frozen=True, slots=True)
class Event:
    """The base of all events (`_events`)."""


class Engine(ABC):
    """One end of one connection.

    Attributes:
        role: client or server; decides only which end speaks first.
        capabilities: what the dialect can do (see `Dialect.capabilities`).
        terms: what this side sent or will send in its open.
        remote: what the peer sent in its open; None until then.
        identity: server side: the identity that the peer proved; None without SASL or for ANONYMOUS.
        opened: both opens are exchanged and neither side has closed.
        output_size: bytes that `data_to_send` would return now. A producer looks at it, and waits if there is much.
        reading: False asks the driver to read nothing until a call has made it True again. It is needed in dialects
            whose senders need no credit, where only the transport can hold them back.
        portion: the number of messages that one call of `receive_data` works off at most. Anything else, such as an
            attach, counts as several messages. None: all of the input. Rule: the driver sets it before the first input.
        behind: input is left after a portion. The driver calls `receive_data(b"")` before it reads on, when others have
            had their turn.
        partial: octets of messages that have arrived only in part, and of those that the engine keeps until their
            transaction is committed.
        waiting: octets of messages that wait for credit, in dialects whose senders know no credit.
        memory_keeper: server side: counts what has arrived and its owner does not have yet, of all connections
            together. None: nobody counts it.
        session_keeper: server side, in dialects with "session-resume": keeps suspended sessions. None: they are not
            kept.
    """

    role: Role
    capabilities: frozenset[str]
    terms: ConnectionTerms
    remote: ConnectionTerms | None
    identity: str | None
    opened: bool
    output_size: int
    reading: bool = True
    portion: int | None = None
    behind: bool = False
    partial: int = 0
    waiting: int = 0
    memory_keeper: MemoryKeeper | None = None
    session_keeper: SessionKeeper | None = None

    def count_partial(self, change: int) -> bool:
        """Count `change` more octets of messages in part, or fewer; return whether there is room for them."""
        self.partial += change
        return self.memory_keeper is None or self.memory_keeper.count_partial(change)

    def count_waiting(self, change: int) -> None:
        """Count `change` more octets of messages that wait for credit, or fewer."""
        self.waiting += change
        if self.memory_keeper is not None:
            self.memory_keeper.count_waiting(change)

    def read_ahead(self, *, far: bool) -> None:  # noqa: B027  # few dialects have senders without credit
        """Let many messages wait for credit before reading stops, as at the beginning; not `far`: let few of them wait.

        Does nothing in dialects whose links have credit.
        """

    def block(self, reason: str | None) -> None:  # noqa: B027  # few dialects can tell the peer
        """Tell the peer that the server takes no messages at present, for `reason`; None: it takes them again.

        Does nothing in dialects that cannot tell it, or whose links have credit. The owners of links act on it
        themselves.
        """

    @abstractmethod
    def start(self) -> None:
        """Begin. A client queues its header, and all it may send before an answer; a server waits for the header."""

    @abstractmethod
    def receive_data(self, data: bytes) -> None:
        """Take bytes from the transport, in any portions. Never raises for a fault of the peer."""

    def put_off(self, work: Callable[[], None]) -> None:
        """Begin the next portion of the input with a call of `work`, before anything that was put off earlier.

        The engine is `behind` until then. Without portions it is called at once.
        """
        work()

    @abstractmethod
    def receive_eof(self) -> None:
        """Note the transport's end. Unless both sides had closed, this is `ConnectionEnded(ConnectionLost(...))`."""

    @abstractmethod
    def events(self) -> list[Event]:
        """Return what happened since the last call, in order."""

    @abstractmethod
    def flush(self) -> None:
        """Write the dispositions that wait to be merged, on all sessions, before anything sent later; seldom needed."""

    @abstractmethod
    def data_to_send(self) -> bytes:
        """Return all bytes to write now, dispositions merged; b"" if there is nothing to write."""

    def buffers_to_send(self) -> list[bytes | memoryview]:  # of the fast lane
        """Return the bytes of `data_to_send` in several buffers, so that large payloads are not copied.

        Rule: the buffers must not be changed afterwards. An empty list means that there is nothing to send.
        """
        data = self.data_to_send()
        return [data] if data else []

    @abstractmethod
    def tick(self, now: float) -> float | None:
        """Do what is due at `now` (heartbeat, idle timeout); return the deadline for the next call, None: no deadline.

        The deadline is later than `now`. The peer's open can bring a nearer one, so call it once more after
        `ConnectionOpened`.

        `now` and the deadline are seconds on one monotonic clock of the caller's choice.
        """

    @abstractmethod
    def open(self, terms: ConnectionTerms | None = None) -> None:
        """Open the connection, or (server) answer the peer's open; `terms` replaces those given at creation."""

    def refuse(self, error: Error, terms: ConnectionTerms | None = None) -> None:
        """Refuse the peer's open with `error`, as a server; `terms` as in `open`."""
        self.open(terms)
        self.close(error)

    def inherit(self, before: Engine) -> None:  # noqa: B027  # few dialects leave anything
        """Take over what the previous connection left open at the server; a client calls it before `start`.

        In a dialect with "find-outcomes" this engine asks the server what became of transactions whose discharge got
        no answer. The discharges have their outcomes before `ConnectionOpened` is told.
        """

    @abstractmethod
    def begin(self, terms: SessionTerms | None = None) -> Session:
        """Begin a session, which is usable at once: output before the peer's answer is pipelined.

        Raises:
            LocalProtocolError: the peer's channel-max is reached, or the connection is not open.
        """

    def resume(self, session: Session) -> None:
        """Resume a session whose transport was lost (`Session.suspended`), on this connection.

        Its links go on as they are. Unconfirmed output is sent again, and nothing is done twice. If
        the peer no longer has the session, it ends with its links as if the connection were lost.

        Raises:
            Unsupported: the dialect has no "session-resume".
            LocalProtocolError: the session is not suspended, or the connection is not open.
        """
        raise Unsupported("the dialect does not resume sessions")

    @abstractmethod
    def close(self, error: Error | None = None) -> None:
        """Close the connection; with an error, further input is discarded (§2.4.6 DISCARDING)."""


class MemoryKeeper(ABC):
    """Counts the octets that have arrived on a server's connection and that no owner of a link has yet."""

    __slots__ = ()

    @abstractmethod
    def count_partial(self, change: int) -> bool:
        """Count `change` more octets of messages in part, or fewer; return whether there is room for them."""

    @abstractmethod
    def count_waiting(self, change: int) -> None:
        """Count `change` more octets of messages that wait for credit, or fewer."""


class SessionKeeper(ABC):
    """Keeps a server's sessions whose transport is lost, until their clients resume them.

    Attributes:
        longest: the longest time that a session is kept, seconds.
    """

    longest: int

    @abstractmethod
    def keep(self, session: Session, name: bytes, timeout: int) -> None:
        """Keep the session for `timeout` seconds when its transport is lost or detached; 0: not at all."""

    @abstractmethod
    def take(self, engine: SessionEngine, name: bytes) -> Session | None:
        """Return the session that the peer had under this name on an earlier transport; None if it is not kept.

        A session whose transport is not known to be lost is suspended by this (`suspend`).
        """

    def attached(self, engine: SessionEngine, name: bytes) -> bool:
        """Return whether the peer has a session of that name on a transport that is not known to be lost."""
        return False

    @abstractmethod
    def detached(self) -> None:
        """Begin to count the time of the sessions that the peer has detached, and may resume."""


class Session(ABC):
    """One session (§2.5).

    Attributes:
        terms, remote: the terms of this side and of the peer; None until they are sent.
        begun: both begins are exchanged and neither side has ended the session.
        sendable: the peer's incoming window is open and no transfer of ours is held back.
        strict_window: a transfer beyond our incoming window ends the session (default True). False for a peer that is
            known to send a message to its end whatever the window; the memory of streaming links is then not bounded.
        owner: the owner that began or answers the session; `NO_SESSION_OWNER` before that.
        suspended: the transport was lost, and the peer keeps the session; no event tells the end of the session or of
            its links. Calls are accepted, and their output is sent once `Engine.resume` has resumed the session.
        request_rules: the server's rules for requests of the peer (`_topology_requests`).
    """

    engine: SessionEngine
    terms: SessionTerms | None
    remote: SessionTerms | None
    begun: bool
    strict_window: bool
    suspended: bool = False
    owner: SessionOwner = NO_SESSION_OWNER
    request_rules: RequestRules = RequestRules()

    @property
    @abstractmethod
    def sendable(self) -> bool: ...

    @property
    def peer_window(self) -> int | None:
        """The transfer frames that the peer takes now; None in dialects whose sessions have no window."""
        return None

    @abstractmethod
    def begin(self, terms: SessionTerms | None = None) -> None:
        """Answer a session that the peer began."""

    @abstractmethod
    def attach_sender(self, terms: LinkTerms, *, resuming: Iterable[OutgoingDelivery] | None = None) -> SenderLink:
        """Attach as sender; the link may be used after `LinkAttached`, once it has credit.

        Args:
            resuming: resume a suspended link (§2.6.13) with these deliveries, which `Link.suspended` of its last
                attachment returned; they belong to the new link from now on. None: begin anew.

        Raises:
            LocalProtocolError: the peer's handle-max is reached, the name is in use, or the session is over.
        """

    @abstractmethod
    def attach_receiver(self, terms: LinkTerms, *, resuming: Iterable[IncomingDelivery] | None = None) -> ReceiverLink:
        """Attach as receiver; `flow` may be called at once. `resuming`: as for `attach_sender`.

        Raises:
            LocalProtocolError: as for `attach_sender`.
        """

    @abstractmethod
    def end(self, error: Error | None = None) -> None:
        """End the session, and its links with it."""

    def request(self, request: Request[RequestResult]) -> PendingRequest[RequestResult]:
        """Send a request; `RequestAnswered` comes when the peer answers, or when the session ends.

        Raises:
            Unsupported: the dialect has no such request; nothing was written.
            LocalProtocolError: the session is over, or the dialect cannot express the request.
        """
        raise Unsupported(f"the dialect has no request {type(request).__name__}")

    def answer(self, pending: PendingRequest[RequestResult], result: RequestResult) -> None:
        """Answer a request that `RequestReceived` told; requests may be answered in any order."""
        raise Unsupported("the dialect has no requests")

    def refuse(self, pending: PendingRequest[Any], error: Error) -> None:
        """Refuse a request that `RequestReceived` told; in some dialects that ends the session."""
        raise Unsupported("the dialect has no requests")

    def suspend(self) -> None:
        """Take the session from its transport, which is lost or taken for lost (`suspended`)."""
        raise Unsupported("the dialect does not resume sessions")


class Link(ABC):
    """The contract that both ends of a link share (§2.6).

    Attributes:
        terms, remote: the terms of this side and of the peer; None until they are sent. After the peer's attach,
            `remote.source` and `remote.target` are the actual termini of the peer.
        credit: deliveries that may still be sent: on a sender now, on a receiver by this side's count.
        attached: both attaches are exchanged, no terminus is null, and neither side has detached.
        settled_by_sender: the negotiated settle mode says that every delivery is sent settled.
        properties: properties of the last flow that was received for this link (§2.7.4).
        incomplete: the link was resumed, and one side's unsettled map was too large to be sent whole. This attachment
            can only resume deliveries of the map; `SenderLink.credit` is 0, and `LinkIncomplete` tells when to attach
            again.
        keeps_name: in a dialect whose links do not resume: the peer finds the state of a lost link by the link's name.
        owner: the owner that attached or answers the link; `NO_LINK_OWNER` before that.
        retired: the owner went on with another link; of this one it only hears what becomes of the deliveries.
        lingers: after a detach that does not close the link, the peer's dispositions of its deliveries are still taken
            and told, until the deliveries are settled or resumed or the session is over (§2.6.4). If the owner of a
            sender gives up such a delivery, it has to `forget` it.

    A link that resumes (§2.6.13) finds out what became of its deliveries when both attaches are exchanged. It tells
    that after `LinkAttached`: by `OutcomesReceived` and `SettlementsReceived` as usual, by `DeliveriesResumed`, and by
    `DeliveriesUnresumed` for the deliveries that the owner has to decide on. Deliveries to be sent again wait for
    credit and window, and go before anything newer.
    """

    session: LinkSession
    terms: LinkTerms | None
    remote: LinkTerms | None
    credit: int
    attached: bool
    is_sender: bool
    properties: Mapping[Any, Any]
    incomplete: bool
    unsettled: dict[bytes, Any]
    keeps_name: bool = False
    lingers: bool = False
    owner: LinkOwner = NO_LINK_OWNER
    retired: bool = False

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    @abstractmethod
    def settled_by_sender(self) -> bool: ...

    def count_unsettled(self) -> UnsettledCount:
        """Return the numbers of `unsettled`, without making objects of deliveries that have none yet."""
        return count_unsettled(self.unsettled)

    @abstractmethod
    def attach(
        self,
        terms: LinkTerms,
        *,
        resuming: Iterable[OutgoingDelivery] | Iterable[IncomingDelivery] | None = None,
    ) -> None:
        """Answer a link that the peer attached. `terms.name` must be the link's.

        `resuming`: as for `Session.attach_sender`; only allowed if the peer resumes (`remote.unsettled` is set).
        """

    @abstractmethod
    def suspended(self) -> list[Any]:
        """Return the deliveries that the next attachment may resume, oldest first; useful when the link is over.

        These are the unsettled deliveries, and on a receiver also the one that was received in part. Left out are those
        of transactions, and a stream that this side did not send to its end.
        """

    @abstractmethod
    def refuse(self, error: Error) -> None:
        """Refuse a link that the peer attached: attach with a null terminus, then a closing detach (§2.6.3)."""

    @abstractmethod
    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        """Detach; `closed` ends the terminus too. A delivery that was sent in part is aborted first (§2.6.4), and stays
        in `unsettled`, as do deliveries that were held back.
        """


class SenderLink(Link, SenderFastLane):
    """The sending end (§2.6.7).

    Attributes:
        drain: the receiver asks to use the credit now or give it back.
        unsettled: tag -> delivery, for all deliveries that this side did not settle yet, in order of sending.
        frame_room: payload bytes that certainly fit one transfer frame; useful for sending in parts.
        auto_settle: settle (and tell) as soon as the receiver sends an outcome (default True).
        count_waiting: returns how many deliveries wait for credit, for the flows that tell the receiver (§2.6.7
            "available"); None: they tell what `drained` or `offer` told last.
    """

    drain: bool
    count_waiting: Callable[[], int] | None = None
    unsettled: dict[bytes, OutgoingDelivery]
    frame_room: int
    auto_settle: bool
    is_sender = True

    @property
    def sendable(self) -> bool:
        """Whether a message can be sent now: the link has credit, and the session is `sendable`."""
        return self.credit > 0 and self.session.sendable

    @abstractmethod
    def send(
        self,
        payload: bytes,
        *,
        settled: bool = False,
        tag: bytes | None = None,
        message_format: int = 0,
        state: DeliveryState | None = None,
        batchable: bool = False,
        more: bool = False,
    ) -> OutgoingDelivery:
        """Send one message; consumes one credit. Frames beyond the peer's window are held back, in order.

        Args:
            payload: the encoded message (§3.2), any size up to the peer's max-message-size.
            tag: at most 32 bytes; None: the link makes one.
            state: sent with the message; a transactional state with each of its frames (§4.4.1).
            more: `payload` is only the first part; `send_more` follows, and nothing else on this link in between.

        Raises:
            LocalProtocolError: the link has no credit or is not attached, the tag is in use, `settled` does not fit the
                negotiated mode, or the message is too large.
        """

    @abstractmethod
    def send_more(self, delivery: OutgoingDelivery, payload: bytes, *, more: bool = False) -> None:
        """Send the next part of a delivery begun with `more=True`; frames beyond the peer's window are held back.

        Raises:
            LocalProtocolError: the delivery is not the one under way, the link is not attached, or the message exceeds
                the peer's max-message-size; the delivery can still be aborted.
        """

    @abstractmethod
    def abort(self, delivery: OutgoingDelivery) -> None:
        """Abort a delivery that was sent only in part: the receiver forgets it (§2.7.5), which settles it."""

    @abstractmethod
    def settle(self, delivery: OutgoingDelivery, state: DeliveryState | None = None) -> None:
        """Settle a delivery on this side, and tell the receiver unless it has settled already (§2.6.12)."""

    @abstractmethod
    def take_back(self, delivery: OutgoingDelivery) -> None:
        """Release a delivery from this side (§2.6.12); it is settled when the receiver says so.

        Dialects without a word for that tell nothing, and those before 1.0 that have one cancel the consumer.
        """

    @abstractmethod
    def resend(self, delivery: OutgoingDelivery) -> None:
        """Send an unresumed delivery again as a new one, before anything newer (see `DeliveriesUnresumed`).

        The delivery may come from an earlier attachment that this one did not resume. It keeps its tag if that is free.

        Raises:
            LocalProtocolError: the delivery is settled or under way, was streamed, or exceeds the peer's
                max-message-size.
        """

    @abstractmethod
    def forget(self, delivery: OutgoingDelivery) -> None:
        """Drop an unresumed delivery: it counts as settled on this side, and the peer is told nothing."""

    @abstractmethod
    def drained(self, available: int = 0) -> None:
        """Give the remaining credit back if the receiver drains, and tell it that `available` deliveries wait."""

    @abstractmethod
    def offer(self, available: int) -> None:
        """Tell the receiver how many deliveries wait for credit (§2.6.7 "available")."""

    @abstractmethod
    def tell(self, properties: Mapping[Any, Any]) -> None:
        """Tell the receiver properties of the link's state, in a flow (§2.7.4); dialects without them tell nothing."""


class ReceiverLink(Link, ReceiverFastLane):
    """The receiving end (§2.6.7).

    Attributes:
        available: the deliveries that wait at the sender, by its last flow.
        incoming: complete deliveries, oldest first; the owner takes them (`popleft`), at any pace.
        unsettled: tag -> delivery, for all deliveries that this side did not settle yet, in order of arrival. Reading
            it brings all that are `waiting`.
        partial_state: the state of the delivery that is still being received; None without a state or delivery.
        streaming: deliveries come to `incoming` with their first part, and have a `stream` in place of a payload. The
            parts that were not read count against the session's incoming window, which bounds the memory they use. Set
            it before `flow`.
        refills: the owner grants credit again before all is used up, so that a dialect with a window in place of credit
            may let a window's worth of deliveries wait here. False: the peer may not send more deliveries than the
            credit. Set it before `flow`.
        keeps_parts: if the end of the link cuts off a delivery, the owner's next link can use the part that was
            received: its `resuming` takes it although links of the dialect do not resume.
    """

    available: int
    incoming: deque[IncomingDelivery]
    unsettled: dict[bytes, IncomingDelivery]
    partial_state: DeliveryState | None
    streaming: bool
    refills: bool = True
    keeps_parts = False
    is_sender = False

    @abstractmethod
    def flow(
        self, credit: int, *, drain: bool = False, echo: bool = False, properties: Mapping[Any, Any] | None = None
    ) -> None:
        """Set the credit to `credit` deliveries from now on (it is not added to the old credit); 0 stops the sender.

        `drain`: the sender has to use the credit now or give it back; `FlowReceived(drained=True)` tells that it did.

        Raises:
            LocalProtocolError: the link is over, or this side has detached it; or the credit does not fit 32 bits.
        """

    @abstractmethod
    def settle(self, delivery: IncomingDelivery, state: DeliveryState | None, *, settled: bool | None = None) -> None:
        """Tell the outcome; dispositions of neighbors go out as one range.

        `state` None: the state told before stays. `settled` None: by the link's receiver-settle-mode, "first" settles
        at once, "second" when the sender has settled (`SettlementsReceived`). A delivery that is settled already is
        left alone. If the sender has yet to resume the delivery, it is told the outcome then.

        Raises:
            LocalProtocolError: the link is gone (the sender then has to send the delivery again), or has not resumed
                it.
        """

    @abstractmethod
    def read(self, delivery: IncomingDelivery) -> bytes | None:
        """Return the next part of a delivery's payload, on a link that streams; None while no part is here.

        A part counts against the session's window until the next part is read.
        """

    @abstractmethod
    def discard(self, delivery: IncomingDelivery) -> None:
        """Drop the rest of a delivery on a link that streams: the parts that are here and those still to come."""
