"""The contract between protocol and world. Read this first.

An engine is one end of one connection without any I/O: bytes go in, events come out, bytes go out. It owns no socket,
clock or task. Whoever drives it keeps this order, and nothing else is needed:

    engine.start()                                  once; a client engine queues its protocol header
    engine.receive_data(data)  or  receive_eof()    whatever the transport gave
    for event in engine.events(): ...               act: call methods of the engine, its sessions, its links
    write(engine.data_to_send())                    after every batch of the above; never two writers at once
    deadline = engine.tick(now)                     at start, at each deadline it returned, and after `ConnectionOpened`

The words are AMQP 1.0's: session, link, credit, delivery, outcome. A dialect maps its own on them and says in
`capabilities` what it cannot do; asking for that raises `Unsupported` before a byte is written. All methods return at
once. What the *peer* does wrong never raises here: it ends the smallest endpoint concerned and arrives as an event.
What *we* do wrong raises `LocalProtocolError` and has no effect.

`context` on each object belongs to the owner (client or broker); the engine never reads it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import Unsupported
from ._delivery import IncomingDelivery, OutgoingDelivery
from ._requests import RequestRules

if TYPE_CHECKING:
    from ..messaging import DeliveryState, Error
    from ._events import Event
    from ._requests import PendingRequest, R, Request
    from ._terms import ConnectionTerms, LinkTerms, Role, SessionTerms


class Engine(ABC):
    """One end of one connection.

    Attributes:
        role: client or server: who speaks first, nothing else.
        capabilities: what the dialect can do (see `Dialect.capabilities`).
        terms: what this side said or will say in its open.
        remote: what the peer said in its open; None until then.
        identity: server side: who authenticated; None without SASL or for ANONYMOUS.
        opened: both opens are exchanged and neither side has closed.
        output_size: bytes that `data_to_send` would return now. Who produces looks at it, and waits.
        reading: False asks whoever drives the engine to read no more until it is True again: of dialects without credit
            for those who send, where the transport is all there is to hold them back. Looked at after each pass.
        finds_out: client side: of a discharge without an answer the next connection finds out what became of it, if
            that can be known: its delivery has the outcome then (see `inherit`).
        names_hosts: what a client asks for may be the server's own name, as in 1.0 (§2.7.1); elsewhere it is always a
            virtual host.
        keeper: server side: who keeps sessions that are suspended, in dialects with "session-resume"; None for nobody.
    """

    role: Role
    capabilities: frozenset[str]
    terms: ConnectionTerms
    remote: ConnectionTerms | None
    identity: str | None
    opened: bool
    output_size: int
    reading: bool = True
    finds_out: bool = False
    keeper: SessionKeeper | None = None
    names_hosts: bool = True
    context: Any

    def block(self, reason: str | None) -> None:  # noqa: B027  # few have a word for it
        """Server side: say that no messages are taken at present, and why; None: that they are again.

        For dialects that have a word for it, and links no credit. What it means for links is their owner's to see to.
        """

    @abstractmethod
    def start(self) -> None:
        """Begin: a client queues its header (and all it may send before an answer); a server waits for one."""

    @abstractmethod
    def receive_data(self, data: bytes) -> None:
        """Take bytes from the transport, in any portions. Never raises for what the peer did."""

    @abstractmethod
    def receive_eof(self) -> None:
        """The transport ended. Unless both sides had closed, this is `ConnectionEnded(ConnectionLost(...))`."""

    @abstractmethod
    def events(self) -> list[Event]:
        """What happened since the last call, in order."""

    @abstractmethod
    def flush(self) -> None:
        """Put the dispositions that wait to be merged before what is sent next, on whatever session; seldom needed."""

    @abstractmethod
    def data_to_send(self) -> bytes:
        """Everything that is to be written now, dispositions merged; b"" when there is nothing."""

    def buffers_to_send(self) -> list[bytes | memoryview]:
        """The same for who writes from several buffers at once: large payloads lie in theirs. [] for nothing.

        Nobody writes to them any more.
        """
        data = self.data_to_send()
        return [data] if data else []

    @abstractmethod
    def tick(self, now: float) -> float | None:
        """Do what time demands (heartbeat, idle timeout); return when to call again at the latest, None for never.

        The peer's open can bring a nearer deadline, so call it once more after `ConnectionOpened`.

        `now` and the deadline are seconds on one monotonic clock of the caller's choice.
        """

    @abstractmethod
    def open(self, terms: ConnectionTerms | None = None) -> None:
        """Open the connection, or (server) answer the peer's open; `terms` replaces those given at creation."""

    def refuse(self, error: Error, terms: ConnectionTerms | None = None) -> None:
        """Server side: answer the peer's open with why it is not let in; `terms` as in `open`."""
        self.open(terms)
        self.close(error)

    def inherit(self, before: Engine) -> None:  # noqa: B027  # few leave anything
        """Client side, before `start`: see to what the connection before this one left undone at the server.

        With `finds_out` that is known before `ConnectionOpened` is told.
        """

    @abstractmethod
    def begin(self, terms: SessionTerms | None = None) -> Session:
        """Begin a session; usable at once, for everything before the peer's answer is pipelined.

        Raises:
            LocalProtocolError: the peer's channel-max is reached, or the connection is not open.
        """

    def resume(self, session: Session) -> None:
        """Go on with a session whose transport was lost (`Session.suspended`), on this connection.

        Its links stay what they are: what was said and is not known to have been heard is said again, and nothing is
        done twice. If the peer does not have it any more, its links and it end as if by a loss of the connection.

        Raises:
            Unsupported: the dialect has no "session-resume".
            LocalProtocolError: the session is not suspended, or the connection is not open.
        """
        raise Unsupported("the dialect does not resume sessions")

    @abstractmethod
    def close(self, error: Error | None = None) -> None:
        """Close the connection; with an error, what still comes in is discarded (§2.4.6 DISCARDING)."""


class SessionKeeper(ABC):
    """Keeps the sessions of a server whose transport is lost, until their clients take them up again.

    Attributes:
        longest: seconds that a session is kept.
    """

    longest: int

    @abstractmethod
    def keep(self, session: Session, name: bytes, timeout: int) -> None:
        """The session is to be kept that many seconds when its transport is lost; 0: not at all."""

    @abstractmethod
    def take(self, engine: Engine, name: bytes) -> Session | None:
        """The session that the peer of this engine had under that name on a transport before; None if there is none.

        One that is not suspended yet, for its transport is not known to be lost, is suspended by this (`suspend`).
        """

    def attached(self, engine: Engine, name: bytes) -> bool:
        """Whether the peer of this engine has a session of that name on a transport that is not known to be lost."""
        return False


class Session(ABC):
    """One session (§2.5).

    Attributes:
        terms, remote: this side's word and the peer's, None while not said.
        begun: both begins are exchanged and neither side has ended.
        sendable: the peer's incoming window is open and no transfer of ours is held back.
        strict_window: a transfer beyond our incoming window ends the session (default True). False for a peer that is
            known to send a message to its end whatever the window: what links that stream hold is then not bounded.
        request_rules: how the peer's requests are judged; a server's.
        suspended: its transport was lost, and the peer keeps it: no event told of its end, or its links'. It takes what
            it is told, and says it when `Engine.resume` has brought it back.
    """

    engine: Engine
    terms: SessionTerms | None
    remote: SessionTerms | None
    begun: bool
    strict_window: bool
    suspended: bool = False
    request_rules: RequestRules = RequestRules()
    context: Any

    @property
    @abstractmethod
    def sendable(self) -> bool: ...

    @abstractmethod
    def begin(self, terms: SessionTerms | None = None) -> None:
        """Answer a session that the peer began."""

    @abstractmethod
    def attach_sender(self, terms: LinkTerms, *, resuming: Iterable[OutgoingDelivery] | None = None) -> SenderLink:
        """Attach as sender; the link may be used when `LinkAttached` came and credit is there.

        Args:
            resuming: resume a suspended link (§2.6.13) with these deliveries, as its last attachment told them by
                `Link.suspended`; they belong to this one from now on. None: begin anew.

        Raises:
            LocalProtocolError: the peer's handle-max is reached, the name is in use, or the session is not there.
        """

    @abstractmethod
    def attach_receiver(self, terms: LinkTerms, *, resuming: Iterable[IncomingDelivery] | None = None) -> ReceiverLink:
        """Attach as receiver; `flow` may be called at once. `resuming`: as for `attach_sender`.

        Raises:
            LocalProtocolError: as for `attach_sender`.
        """

    @abstractmethod
    def end(self, error: Error | None = None) -> None:
        """End the session and with it its links."""

    def suspend(self) -> None:
        """Take it away from its transport, which is lost, as far as is known (`suspended`)."""
        raise Unsupported("the dialect does not resume sessions")

    # What AMQP 1.0 has no word for (`_requests`)

    def request(self, request: Request[R]) -> PendingRequest[R]:
        """Ask the peer; `RequestAnswered` comes when it answers, or the session ends.

        Raises:
            Unsupported: the dialect has no such request; nothing was written.
            LocalProtocolError: the session is not there, or the request can not be said.
        """
        raise Unsupported(f"the dialect has no request {type(request).__name__}")

    def answer(self, pending: PendingRequest[R], result: R) -> None:
        """Answer what `RequestReceived` told, in whatever order."""
        raise Unsupported("the dialect has no requests")

    def refuse(self, pending: PendingRequest[Any], error: Error) -> None:
        """Answer that it can not be; in some dialects the session ends with that."""
        raise Unsupported("the dialect has no requests")


class Link(ABC):
    """What both ends of a link share (§2.6).

    Attributes:
        terms, remote: this side's word and the peer's; None while not said. After the peer's attach, `remote.source`
            and `remote.target` are what the peer really has.
        attached: both attaches are exchanged, no terminus is null, and neither side has detached.
        settled_by_sender: the negotiated settle mode says that every delivery is sent settled.
        properties: properties of the last flow that came for this link (§2.7.4).
        incomplete: the link was resumed, and one side could not say all that it holds unsettled: nothing but that can
            be sent in this attachment, `SenderLink.credit` is 0, and `LinkIncomplete` tells when to attach again.
        keeps_name: what the peer keeps of a link that is lost it knows by its name, where links do not resume.
        lingers: when it is detached and not closed, what the peer still says of its deliveries is heard and told as
            before, until they are settled or resumed or the session is over (§2.6.4). The owner of a sender who gives a
            delivery up meanwhile has to `forget` it.

    A link that resumes (§2.6.13) finds out what became of its deliveries when both attaches are exchanged. What it
    learns comes after `LinkAttached`: `OutcomesReceived` and `SettlementsReceived` as ever, `DeliveriesResumed`, and
    `DeliveriesUnresumed` for those that the owner has to decide on. What is to be sent again waits for credit and
    window before anything newer.
    """

    session: Session
    terms: LinkTerms | None
    remote: LinkTerms | None
    attached: bool
    is_sender: bool
    properties: Mapping[Any, Any]
    incomplete: bool
    keeps_name: bool = False
    lingers: bool = False
    context: Any

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    @abstractmethod
    def settled_by_sender(self) -> bool: ...

    @abstractmethod
    def attach(
        self,
        terms: LinkTerms,
        *,
        resuming: Iterable[OutgoingDelivery] | Iterable[IncomingDelivery] | None = None,
    ) -> None:
        """Answer a link that the peer attached. `terms.name` must be the link's.

        `resuming`: as for `Session.attach_sender`; to be given only if the peer resumes (`remote.unsettled` is there).
        """

    @abstractmethod
    def suspended(self) -> list[Any]:
        """The deliveries that the next attachment of this link may resume, oldest first; of use when it is over.

        All unsettled ones, and on a receiver the one that came in part. Not those of transactions, nor a stream that
        this side did not send to its end.
        """

    @abstractmethod
    def refuse(self, error: Error) -> None:
        """Refuse a link that the peer attached: attach with a null terminus, then a closing detach (§2.6.3)."""

    @abstractmethod
    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        """Detach; `closed` ends the terminus too. A delivery half on the wire is aborted first (§2.6.4), and stays
        in `unsettled`, as do those that were held back.
        """


class SenderLink(Link):
    """The sending end (§2.6.7).

    Attributes:
        credit: deliveries that may be sent now.
        drain: the receiver asks to use the credit now or give it back.
        unsettled: tag -> delivery, for all that this side has not settled, in order of sending.
        frame_room: payload bytes that surely fit one transfer frame; of use to who sends in parts.
        auto_settle: settle (and tell) as soon as the receiver names an outcome (default True).
    """

    credit: int
    drain: bool
    unsettled: dict[bytes, OutgoingDelivery]
    frame_room: int
    auto_settle: bool
    delivery_type: type[OutgoingDelivery] = OutgoingDelivery
    is_sender = True

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
            tag: at most 32 bytes; made here when None.
            state: said with the message; that of a transaction with each of its frames (§4.4.1).
            more: only the first part is given; `send_more` follows, and nothing else on this link in between.

        Raises:
            LocalProtocolError: no credit, not attached, tag in use, a settle mode that was not negotiated, too large.
        """

    def post(self, payload: bytes, waiter: Any, *, settled: bool = False) -> OutgoingDelivery | None:
        """`send` a message, for who counts outcomes and holds no delivery: it need not be an object.

        Args:
            waiter: counts them, as the `waiter` of a delivery or by `PostsAccepted`.

        Returns:
            None if it is no object, and whole on the wire. It becomes one, and is in `unsettled`, when there is more to
            be said of it than that it was accepted and settled, or when somebody looks there. Otherwise the delivery.

        Raises:
            LocalProtocolError: as for `send`.
        """
        delivery = self.send(payload, settled=settled)
        delivery.waiter = None if settled else waiter
        return delivery

    @abstractmethod
    def send_more(self, delivery: OutgoingDelivery, payload: bytes, *, more: bool = False) -> None:
        """The next part of a delivery begun with `more=True`; what the window has no room for is held back.

        Raises:
            LocalProtocolError: the delivery is not the one under way, the link is not attached, or the message is
                larger than the peer takes; the delivery can still be aborted.
        """

    @abstractmethod
    def abort(self, delivery: OutgoingDelivery) -> None:
        """Abort a delivery that is not whole on the wire: the receiver forgets it (§2.7.5); it is settled with that."""

    @abstractmethod
    def settle(self, delivery: OutgoingDelivery, state: DeliveryState | None = None) -> None:
        """Settle on this side, and say so unless the receiver had settled (§2.6.12)."""

    @abstractmethod
    def resend(self, delivery: OutgoingDelivery) -> None:
        """Send a delivery that was not resumed again, as a new one, before anything newer (see `DeliveriesUnresumed`).

        It may come from an earlier attachment that this one did not resume. It keeps its tag, unless that is taken.

        Raises:
            LocalProtocolError: it is settled or under way, was streamed, or is larger than the peer takes.
        """

    @abstractmethod
    def forget(self, delivery: OutgoingDelivery) -> None:
        """Drop a delivery that was not resumed: it counts as settled here, and nothing is said of it."""

    @abstractmethod
    def drained(self, available: int = 0) -> None:
        """Nothing more to send: give the remaining credit back if the receiver drains, and say what is available."""

    @abstractmethod
    def offer(self, available: int) -> None:
        """Tell the receiver how many deliveries wait for credit (§2.6.7 "available")."""


class ReceiverLink(Link):
    """The receiving end (§2.6.7).

    Attributes:
        credit: deliveries that the sender may still send, by this side's count.
        available: what the sender said to have waiting.
        incoming: whole deliveries, oldest first; the owner takes them (`popleft`), in any pace.
        by_portions: where the dialect can, nothing comes to `incoming` before the owner asks, by `bring`, as it is to
            be taken: until then it need be no objects. False: all is there at once. To be set before `flow`.
        waiting: how many deliveries are here besides those in `incoming`, and come after them.
        unsettled: tag -> delivery, for all that this side has not settled, in order of arrival. To look here brings all
            that waits.
        partial_state: the state of the delivery of which the last transfer is still to come; None without either.
        delivery_type: what `incoming` holds; the owner may set a subclass before `flow`. `RoutedDelivery`, from the
            beginning, on what a server of a dialect with exchanges receives.
        streaming: deliveries come to `incoming` with their first part, and have a `stream` in place of a payload. What
            was not read of them is held against the session's incoming window, which so bounds what is in memory. To
            be set before `flow`.
        refills: the owner grants credit again before all is used up, so that a dialect that has a window in place of
            credit may let a window's worth of deliveries wait here. False: not one more than the credit is to leave
            the peer. To be set before `flow`.
        keeps_parts: what came of a delivery that the end of the link cut off is of use to the next link of this owner,
            whose `resuming` takes it although the dialect resumes no links.
    """

    credit: int
    available: int
    incoming: deque[IncomingDelivery]
    unsettled: dict[bytes, IncomingDelivery]
    partial_state: DeliveryState | None
    delivery_type: type[IncomingDelivery] = IncomingDelivery
    streaming: bool
    refills: bool = True
    keeps_parts = False
    by_portions = False
    waiting = 0
    is_sender = False

    def bring(self, most: int) -> None:
        """Append the next `most` of those that wait to `incoming`, if above 0; at the end of the link all come."""

    @abstractmethod
    def flow(
        self, credit: int, *, drain: bool = False, echo: bool = False, properties: Mapping[Any, Any] | None = None
    ) -> None:
        """Set the credit to `credit` deliveries from now (not added to what is there); 0 stops the sender.

        `drain`: the sender shall use it now or give it back; `FlowReceived(drained=True)` says when.
        """

    @abstractmethod
    def settle(self, delivery: IncomingDelivery, state: DeliveryState | None, *, settled: bool | None = None) -> None:
        """Tell the outcome; dispositions of neighbors go out as one range.

        `state` None: the one that was told before stands. `settled` None: as the link's receiver-settle-mode says:
        "first" settles at once, "second" when the sender has (`SettlementsReceived`). Settling what is settled already
        does nothing. Of a delivery that the sender has yet to resume, it is told then.

        Raises:
            LocalProtocolError: the link is gone (the delivery is then the sender's to resend), or has not resumed it.
        """

    def joins(self, number: int | None, tag: bytes, state: DeliveryState) -> bool:
        """`settle` a delivery of which nothing was said, if the same was said of the last one and is not out yet."""
        return False

    @abstractmethod
    def read(self, delivery: IncomingDelivery) -> bytes | None:
        """The next part of a delivery's payload, on a link that streams; None while there is none.

        A part counts against the session's window until the next one is asked for.
        """

    @abstractmethod
    def discard(self, delivery: IncomingDelivery) -> None:
        """Read no more of a delivery, on a link that streams: what is here is dropped, so is what still comes."""
