"""The session endpoint: windows, handles, delivery ids (§2.5, §2.7.2, §2.7.4, §2.7.8).

Two counters that clients confuse are separate here: a *transfer-id* counts transfer frames, for the windows
(`window`); a *delivery-id* counts deliveries, for dispositions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ..._machine import Machine
from ...engine import Dispatcher, Handlers, LinkAttached, LinkTerms, SessionTerms, SessionUnmapped, WindowOpened
from ...errors import AmqpError, LinkDetached, LocalProtocolError, RemoteProtocolError, SessionEnded
from ...messaging import Error
from ...types import SERIAL_MASK, Described
from .._kit.causes import end_cause
from .endpoints.dispositions import Dispositions
from .endpoints.receiver import ReceiverEndpoint
from .endpoints.sender import SenderEndpoint
from .endpoints.untracked import UntrackedDeliveries
from .link import SessionFault, add_name, attach_terms, drop_name
from .parents import SessionCore
from .states import SESSION, SESSION_ENDS, SessionState, Step
from .window import SessionWindow
from .wire.performatives import Attach, Begin, Detach, Disposition, End, Flow, Transfer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...engine import IncomingDelivery, OutgoingDelivery, ReceiverLink
    from ...messaging.payloads import SplitPayload
    from ...types import Composite
    from .parents import EngineCore, LinkCore, LinksByName
    from .partial import OutgoingPart, PartialDelivery
    from .wire.frames import Alike, Mixed
    from .wire.transfer import TransferLayout

# Frames still taken between our end and the peer's: those about links and deliveries that we began.
_ABOUT_OURS = frozenset({Disposition, Detach})
# `entered` is called after a step. A session starts in UNMAPPED without one: so when UNMAPPED is entered, both ends are
# exchanged. The last state is OVER, to which `FINISH` leads.
_ENDED_LOCALLY = frozenset(
    {
        SessionState.END_SENT,
        SessionState.DISCARDING,
        SessionState.UNMAPPED,
        SessionState.CLOSING,
        SessionState.OVER,
    }
)
_DROPS_INPUT = frozenset({SessionState.DISCARDING, SessionState.OVER})


class SessionConnection(Protocol):
    """The connection, as its sessions see it.

    Attributes:
        links_by_name: the links of all sessions that the peer has attached, and that were not stolen from it.
    """

    engine: EngineCore
    links_by_name: LinksByName

    def answer_channel(self, session: SessionEndpoint) -> None:
        """Assign our channel to a session that the peer began."""

    def map_local(self, session: SessionEndpoint) -> None:
        """Enter a session under our channel, because its begin is sent."""

    def unmap(self, session: SessionEndpoint) -> None:
        """Free the channels of a session whose ends are both exchanged."""


class SessionEndpoint(Dispatcher, SessionCore, Machine[SessionState]):
    """One session. `channel` is ours, `remote_channel` the peer's; each -1 until it is known."""

    noun = "session"
    transitions: ClassVar[dict[tuple[SessionState, Step], SessionState]] = SESSION | SESSION_ENDS
    handlers: ClassVar[Handlers] = {
        Attach: "_receive_attach",
        Flow: "_receive_flow",
        Detach: "_receive_detach",
        End: "_receive_end",
    }

    def __init__(self, connection: SessionConnection, channel: int) -> None:
        self.connection: SessionConnection = connection
        self.engine: EngineCore = connection.engine
        self.channel = channel
        self.ended_locally: bool = False
        self.outgoing: dict[int, OutgoingDelivery] = {}
        self.incoming: dict[int, IncomingDelivery] = {}
        self.lazy_receivers: dict[ReceiverLink, None] = {}
        self.parts: dict[int, PartialDelivery] = {}
        self.next_delivery_id: int = 0
        self.untracked: UntrackedDeliveries = UntrackedDeliveries(self)
        self.dispositions: Dispositions = Dispositions(self, self.untracked)
        self.remote_channel = -1
        self.terms: SessionTerms | None = None
        self.remote: SessionTerms | None = None
        self.begun: bool = False
        self.state = SessionState.UNMAPPED
        self.window: SessionWindow = SessionWindow(0, 0)
        self.pending_parts: deque[OutgoingPart] = deque()
        self._expected_id: int | None = None  # the delivery-id of the peer's next delivery; the first may be any
        self._by_handle: dict[int, LinkCore] = {}
        self._by_remote_handle: dict[int, LinkCore] = {}
        self._by_name: LinksByName = {}  # links with a handle
        self._free_handles: list[int] = []  # a heap of released handles, all below those never used
        self._end_asked = False
        self._end_error: Error | None = None
        self._delayed: list[Composite] = []  # answers to what the peer pipelined after a begin that is not answered yet

    @property
    def peer_window(self) -> int:
        return self.window.remote_incoming_window

    @property
    def strict_window(self) -> bool:
        return self.window.strict

    @strict_window.setter
    def strict_window(self, strict: bool) -> None:
        self.window.strict = strict

    @property
    def sendable(self) -> bool:
        return not self.pending_parts and self.window.remote_incoming_window > 0 and not self.ended_locally

    # Beginning

    def begin(self, terms: SessionTerms | None = None) -> None:
        terms = terms if terms is not None else SessionTerms()
        if self.state is SessionState.OVER:
            return  # it ended while the answer was on its way: `SessionUnmapped` is among the same events
        if self.terms is not None:
            raise LocalProtocolError("the session was begun already")
        if self.channel < 0:
            self.connection.answer_channel(self)
        begin = Begin(
            remote_channel=self.remote_channel if self.remote is not None else None,
            next_outgoing_id=terms.next_outgoing_id,
            incoming_window=terms.incoming_window,
            outgoing_window=terms.outgoing_window,
            handle_max=terms.handle_max,
            offered_capabilities=terms.offered_capabilities,
            desired_capabilities=terms.desired_capabilities,
            properties=dict(terms.properties) or None,
        )
        if not self.ended_locally:
            self.engine.write_frame(self.channel, begin)  # before the step: too large a frame changes nothing
        self.advance(Step.SEND_BEGIN)
        self.terms = terms
        self.window.begin(terms.incoming_window, terms.outgoing_window, terms.next_outgoing_id)
        self.connection.map_local(self)
        delayed, self._delayed = self._delayed, []
        for frame in delayed:
            self.write(frame)

    def receive_begin(self, frame: Begin) -> None:
        self.advance(Step.RECEIVE_BEGIN)
        self.remote = SessionTerms(
            incoming_window=frame.incoming_window,
            outgoing_window=frame.outgoing_window,
            handle_max=frame.handle_max,
            next_outgoing_id=frame.next_outgoing_id,
            offered_capabilities=frame.offered_capabilities,
            desired_capabilities=frame.desired_capabilities,
            properties=frame.properties or {},
        )
        self.window.begin_received(frame.next_outgoing_id, frame.incoming_window)
        if self._end_asked:
            self.end(self._end_error)

    def entered(self, state: SessionState) -> None:
        self.begun = state is SessionState.MAPPED
        self.ended_locally = state in _ENDED_LOCALLY
        if self.ended_locally:
            self.pending_parts.clear()
            self.dispositions.clear()
            for link in self._by_handle.values():
                link.entered(link.state)

    def write(self, frame: Composite) -> None:
        if self.state is SessionState.BEGIN_RCVD:
            self._delayed.append(frame)
        elif not self.ended_locally:
            self.engine.write_frame(self.channel, frame)

    # Frames in

    def receive(self, frame: Composite, payload: bytes | SplitPayload) -> None:
        """Receive one frame on this session, by the table of §2.5 and §2.6."""
        kind = type(frame)
        if self.ended_locally and kind is not End and (self.state in _DROPS_INPUT or kind not in _ABOUT_OURS):
            return
        try:
            # A transfer or a disposition comes for each message: they do not take the way through the table.
            if kind is Transfer:
                self._receive_transfer(frame, payload)  # type: ignore[arg-type]
            elif kind is Disposition:
                self.dispositions.receive(frame)  # type: ignore[arg-type]
            elif kind in self.by_type:
                self.by_type[kind](self, frame)
            else:
                raise RemoteProtocolError(
                    f"the peer sent {kind.__name__.lower()} on a session that is begun", "amqp:illegal-state"
                )
        except SessionFault as fault:
            if not self.ended_locally:
                self._fail(fault)

    def _fail(self, fault: SessionFault) -> None:
        """End this session and nothing else: the peer broke a rule of sessions (§2.5.4)."""
        cause = RemoteProtocolError(fault.description, fault.condition)
        if self.terms is None:
            self.begin()
        self._end(Error(fault.condition, fault.description))
        self.over(cause)

    # Transfers out (§2.5.6: each frame takes a transfer-id and a place in the peer's window)

    def transmit(self, part: OutgoingPart) -> None:
        if self.pending_parts or not self._send_frames(part):
            self.pending_parts.append(part)

    def _send_frames(self, part: OutgoingPart) -> bool:
        window = self.window
        while window.remote_incoming_window > 0:
            part.link.write_frame_of(part)
            window.sent()
            if part.done:
                return True
        return False

    def send_pending(self) -> None:
        pending_parts = self.pending_parts
        while pending_parts and self._send_frames(pending_parts[0]):
            link = pending_parts.popleft().link
            if link.drain_owed or link.incomplete:
                link.held_part_sent()

    def new_delivery_id(self, delivery: OutgoingDelivery) -> int:
        number = self.next_delivery_id
        self.next_delivery_id = (number + 1) & SERIAL_MASK
        delivery.delivery_id = number
        if not delivery.local_settled:
            self.outgoing[number] = delivery
        return number

    # Transfers in

    def _receive_transfer(self, frame: Transfer, payload: bytes | SplitPayload) -> None:
        window = self.window
        if self.terms is None:
            # We have not sent our begin, so the peer has no window yet. Skip the window check: the link refuses the
            # transfer for lack of credit.
            window.next_incoming_id = window.next_incoming_id + 1 & SERIAL_MASK
        elif not window.received():
            raise SessionFault(
                "amqp:session:window-violation", "a transfer came although our incoming window is used up"
            )
        link = self._by_remote_handle.get(frame.handle)
        if link is None:
            raise self._unattached(frame.handle, "transfer")
        number = frame.delivery_id
        if number == self._expected_id and number is not None:
            self._expected_id = (number + 1) & SERIAL_MASK
        elif number is not None and not link.continues(number):
            self._begin_counting(number)
        link.receive_transfer(frame, payload)
        if window.needs_refresh and self.state is SessionState.MAPPED:
            # On the session, not on a link: the window counts even while no link grants credit.
            self.send_flow()

    def room_for(self, layout: TransferLayout) -> int:
        """Return how many transfers of this layout may come now without any effect but their count."""
        link = self._by_remote_handle.get(layout.transfer.handle)
        if link is None or self.ended_locally or self._expected_id is None:
            return 0
        return min(self.window.before_refresh, link.room_for_messages())

    def receive_alike(self, layout: TransferLayout, run: list[Alike]) -> bool:
        """Receive transfers within `room_for`; return False, and do nothing, if one is out of order."""
        link, taken = self._by_remote_handle[layout.transfer.handle], len(run)
        assert self._expected_id is not None
        if not link.receive_messages(layout.transfer, run, self._expected_id):
            return False
        self._expected_id = self._expected_id + taken & SERIAL_MASK
        window = self.window
        window.received_many(taken)
        if window.needs_refresh and self.state is SessionState.MAPPED:
            self.send_flow()
        return True

    @property
    def room_for_any(self) -> int:
        """How many transfers may come now without any effect but their count, if their links take them so."""
        return 0 if self.ended_locally or self._expected_id is None else self.window.before_refresh

    def receive_by_turns(self, found: list[Mixed]) -> int:
        """Receive transfers within `room_for_any`; return how many, up to the first that is out of order."""
        links, expected = self._by_remote_handle, self._expected_id
        taken = 0
        for layout, number, tag, payload in found:
            like = layout.transfer
            link = links.get(like.handle)
            if number != expected or link is None or not link.receive_message(like, number, tag, payload):
                break
            expected = number + 1 & SERIAL_MASK
            taken += 1
        self._expected_id = expected
        window = self.window
        window.received_many(taken)
        if window.needs_refresh and self.state is SessionState.MAPPED:
            self.send_flow()
        return taken

    def _begin_counting(self, number: int) -> None:
        """Take the session's first delivery-id; raise `SessionFault` if a later one is not the next."""
        if self._expected_id is not None and not self.engine.terms.any_numbers:
            raise SessionFault(
                "amqp:invalid-field", f"a delivery with the id {number}, where {self._expected_id} is the next"
            )
        self._expected_id = (number + 1) & SERIAL_MASK

    def let_go(self, count: int, starved: bool) -> None:
        if self.window.let_go(count, starved) and self.state is SessionState.MAPPED:
            self.send_flow()

    def _unattached(self, handle: int, what: str) -> SessionFault:
        self._check_handle(handle)
        return SessionFault("amqp:session:unattached-handle", f"a {what} for handle {handle}, which has no link")

    def _check_handle(self, handle: int) -> None:
        limit = self.terms.handle_max if self.terms is not None else SERIAL_MASK
        if handle > limit:
            raise RemoteProtocolError(f"handle {handle} is above our handle-max {limit}")

    # Flow

    def send_flow(
        self, link: LinkCore | None = None, *, echo: bool = False, properties: Mapping[Any, Any] | None = None
    ) -> None:
        window = self.window
        window.refresh()
        frame = Flow(
            next_incoming_id=window.next_incoming_id if self.remote is not None else None,
            incoming_window=max(0, window.incoming_window),
            next_outgoing_id=window.next_outgoing_id,
            outgoing_window=window.outgoing_window,
            echo=echo,
        )
        if link is not None:
            link.fill_flow(frame)
            frame.properties = dict(properties) if properties else None
        self.write(frame)

    def _receive_flow(self, frame: Flow) -> None:
        was_sendable = self.sendable
        link = None
        if frame.handle is not None:
            link = self._by_remote_handle.get(frame.handle)
            if link is None:
                raise self._unattached(frame.handle, "flow")
        if not self.window.flow_received(frame.next_incoming_id, frame.incoming_window, frame.next_outgoing_id):
            raise SessionFault("amqp:session:window-violation", "a flow names a next-incoming-id that was not sent yet")
        self.send_pending()
        if self.sendable and not was_sendable:
            self.engine.emit(WindowOpened(self))
        if link is not None:
            link.receive_flow(frame)
        elif frame.echo and self.state is SessionState.MAPPED:
            self.send_flow()

    # Links

    def attach_sender(self, terms: LinkTerms, *, resuming: Iterable[OutgoingDelivery] | None = None) -> SenderEndpoint:
        link = SenderEndpoint(self, terms.name)
        self._attach(link, terms, resuming)
        return link

    def attach_receiver(
        self, terms: LinkTerms, *, resuming: Iterable[IncomingDelivery] | None = None
    ) -> ReceiverEndpoint:
        link = ReceiverEndpoint(self, terms.name)
        self._attach(link, terms, resuming)
        return link

    def _attach(self, link: LinkCore, terms: LinkTerms, resuming: Iterable[Any] | None) -> None:
        if self.state not in (SessionState.BEGIN_SENT, SessionState.MAPPED, SessionState.CLOSING):
            raise LocalProtocolError(f"no link can attach in session state {self.state.name}")
        named = self._by_name.get((terms.name, link.is_sender), ())
        if not all(other.detach_sent for other in named):
            raise LocalProtocolError(f"the session already has a link {terms.name!r} of this direction")
        self.give_handle(link)
        try:
            link.send_attach(terms, resuming)
        except Exception:  # it cannot be said: nothing was done
            self.release_handle(link)
            raise

    def give_handle(self, link: LinkCore) -> None:
        limit = self.remote.handle_max if self.remote is not None else SERIAL_MASK
        free = self._free_handles
        handle = free[0] if free else len(self._by_handle)
        if handle > limit:
            raise LocalProtocolError(
                f"the peer allows {limit + 1} links on a session, and all are in use: detach one, or begin another "
                "session"
            )
        if free:
            heappop(free)
        link.handle = handle
        self._by_handle[handle] = link
        add_name(self._by_name, link)

    def release_handle(self, link: LinkCore) -> None:
        if self._by_handle.get(link.handle) is link:
            del self._by_handle[link.handle]
            heappush(self._free_handles, link.handle)
            drop_name(self._by_name, link)

    def _receive_attach(self, frame: Attach) -> None:
        self._check_handle(frame.handle)
        if frame.handle in self._by_remote_handle:
            raise SessionFault("amqp:session:handle-in-use", f"handle {frame.handle} already has a link")
        if not frame.role and frame.initial_delivery_count is None:
            raise SessionFault("amqp:invalid-field", "a sender's attach without initial-delivery-count")
        we_send = frame.role  # the peer's role is receiver
        link = self._waiting(frame.name, we_send)
        if link is None:
            self._steal(frame.name, we_send)
            link = (SenderEndpoint if we_send else ReceiverEndpoint)(self, frame.name)
        self._by_remote_handle[frame.handle] = link
        add_name(self.connection.links_by_name, link)
        link.remote_handle = frame.handle
        attached = link.receive_attach(attach_terms(frame))
        if isinstance(frame.source, Described) or isinstance(frame.target, Described):
            link.fail("amqp:not-implemented", "a source or target has an unknown type")
        elif attached:
            self.engine.emit(LinkAttached(link))
            link.compare()

    def _waiting(self, name: str, we_send: bool) -> LinkCore | None:
        """Return our link of that name that waits for the peer's attach; None if there is no such link."""
        for link in self._by_name.get((name, we_send), ()):
            if link.remote is None:
                return link
        return None

    def _steal(self, name: str, we_send: bool) -> None:
        """Detach the earlier attachments of a link, because it is attached again on this connection (§2.6.1)."""
        for link in self.connection.links_by_name.pop((name, we_send), ()):
            if not link.detach_sent:
                link.fail("amqp:link:stolen", f"the link {name!r} was attached again")

    def _receive_detach(self, frame: Detach) -> None:
        link = self._by_remote_handle.get(frame.handle)
        if link is None:
            raise self._unattached(frame.handle, "detach")
        link.receive_detach(frame.closed, end_cause(LinkDetached, frame.error, asked=link.detach_sent))

    def forget(self, link: LinkCore, *, lingers: bool) -> None:
        self.release_handle(link)
        if self._by_remote_handle.get(link.remote_handle) is link:
            del self._by_remote_handle[link.remote_handle]
            drop_name(self.connection.links_by_name, link)
        link.leave_tables(lingers=lingers)

    # Ending

    def end(self, error: Error | None = None) -> None:
        if self.state is SessionState.BEGIN_SENT:  # the end has to wait for the peer's begin (§2.5.5)
            self._end_asked, self._end_error = True, error
        elif self.state in (SessionState.MAPPED, SessionState.END_RCVD):
            self._end(error)

    def _end(self, error: Error | None) -> None:
        self.dispositions.flush()
        self.write(End(error=error))  # before the step: nothing is written after it
        with_error = error is not None and self.may(Step.SEND_END_WITH_ERROR)
        self.advance(Step.SEND_END_WITH_ERROR if with_error else Step.SEND_END)

    def _receive_end(self, frame: End) -> None:
        if self.terms is None:  # begin and end came together: the table has no such state, but the intent is clear
            self.begin()
        was = self.state
        self.advance(Step.RECEIVE_END)
        cause = end_cause(SessionEnded, frame.error, asked=was not in (SessionState.MAPPED, SessionState.CLOSING))
        if self.state is SessionState.END_RCVD:
            self._end(None)
        self.connection.unmap(self)
        self.over(cause)  # has no effect if we ended the session after a fault of the peer, which was told then

    def stop_writing(self) -> None:
        """Write nothing more on this session, because our close of the connection is next."""
        self.dispositions.flush()
        if self.may(Step.SEND_CLOSE):
            self.advance(Step.SEND_CLOSE)

    def over(self, cause: AmqpError | None) -> None:
        """End the session for its owner, for its own reason or its connection's; do nothing the second time."""
        if self.state is SessionState.OVER:
            return
        self.advance(Step.FINISH)
        for link in list({id(x): x for t in (self._by_handle, self._by_remote_handle) for x in t.values()}.values()):
            link.over(cause)
        for link in self._by_remote_handle.values():
            drop_name(self.connection.links_by_name, link)
        self.untracked.over()
        self.outgoing.clear()
        self.incoming.clear()
        self.engine.emit(SessionUnmapped(self, cause))
