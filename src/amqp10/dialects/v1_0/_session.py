"""The session endpoint: windows, handles, delivery ids (§2.5, §2.7.2, §2.7.4, §2.7.8); see `_dispositions`, too.

Two counters that clients confuse are apart here: a *transfer-id* counts transfer frames and is the windows'
(`_window`); a *delivery-id* counts deliveries and is what dispositions name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from ...engine import (
    LinkAttached,
    LinkTerms,
    SessionTerms,
    SessionUnmapped,
    WindowOpened,
)
from ...errors import AmqpError, LinkDetached, LocalProtocolError, RemoteProtocolError, SessionEnded
from ...messaging import Error
from ...types import Described
from ._dispositions import MASK, SettlingSession
from ._link import LinkEndpoint, LinkName, SessionFault, attach_terms, drop_name
from ._performatives import Attach, Begin, Detach, Disposition, End, Flow, Transfer
from ._receiver import ReceiverEndpoint
from ._sender import SenderEndpoint
from ._sender_resume import OutgoingPart
from ._states import SESSION, SessionState
from ._window import SessionWindow

if TYPE_CHECKING:
    from ...engine import IncomingDelivery, OutgoingDelivery
    from ...messaging._pieces import Pieces
    from ...types import Composite
    from ._connection import ConnectionEndpoint
    from ._frames import Alike
    from ._transfer import TransferLayout

# What is still heard between our end and the peer's: the rest of what it says of what we began.
_ABOUT_OURS = frozenset({Disposition, Detach})


class SessionEndpoint(SettlingSession):
    """One session. `channel` is ours, `remote_channel` the peer's; each -1 until it is known."""

    def __init__(self, connection: ConnectionEndpoint, channel: int) -> None:
        super().__init__(connection, channel)
        self.remote_channel = -1
        self.terms: SessionTerms | None = None
        self.remote: SessionTerms | None = None
        self.begun = False
        self.context: Any = None
        self.state = SessionState.UNMAPPED
        self.window = SessionWindow(0, 0)
        self.held: deque[OutgoingPart] = deque()
        self._expected_id: int | None = None  # of the peer's next delivery; it begins where it likes
        self._by_handle: dict[int, LinkEndpoint] = {}
        self._by_name: dict[LinkName, dict[LinkEndpoint, None]] = {}  # of those with a handle
        self._free_handles: list[int] = []  # a heap: given back, below all that were never given
        self._end_asked = False
        self._dropped = False
        self._end_error: Error | None = None
        self._unsaid: list[Composite] = []  # answers to what the peer pipelined after a begin that is not answered yet

    @property
    def strict_window(self) -> bool:
        return self.window.strict

    @strict_window.setter
    def strict_window(self, strict: bool) -> None:
        self.window.strict = strict

    @property
    def sendable(self) -> bool:
        return not self.held and self.window.remote_incoming_window > 0 and not self.muted

    # Beginning

    def begin(self, terms: SessionTerms | None = None) -> None:
        terms = terms if terms is not None else SessionTerms()
        if self._dropped:
            return  # it ended while the answer was on its way: `SessionUnmapped` is among the same events
        if self.terms is not None:
            raise LocalProtocolError("the session was begun already")
        if self.channel < 0:
            self.connection.answer_channel(self)
        before = self.state
        self._advance("S:BEGIN")
        try:
            self.write(
                Begin(
                    remote_channel=self.remote_channel if self.remote is not None else None,
                    next_outgoing_id=terms.next_outgoing_id,
                    incoming_window=terms.incoming_window,
                    outgoing_window=terms.outgoing_window,
                    handle_max=terms.handle_max,
                    offered_capabilities=terms.offered_capabilities,
                    desired_capabilities=terms.desired_capabilities,
                    properties=dict(terms.properties) or None,
                )
            )
        except Exception:  # it cannot be said, it is too large for the peer's frames: nothing was done
            self.state = before
            raise
        self.terms = terms
        self.window.begin(terms.incoming_window, terms.outgoing_window, terms.next_outgoing_id)
        self.connection.map_local(self)
        self.begun = self.state is SessionState.MAPPED and not self.muted
        unsaid, self._unsaid = self._unsaid, []
        for frame in unsaid:
            self.write(frame)

    def receive_begin(self, frame: Begin) -> None:
        self._advance("R:BEGIN")
        self.remote = SessionTerms(
            incoming_window=frame.incoming_window,
            outgoing_window=frame.outgoing_window,
            handle_max=frame.handle_max,
            next_outgoing_id=frame.next_outgoing_id,
            offered_capabilities=frame.offered_capabilities,
            desired_capabilities=frame.desired_capabilities,
            properties=frame.properties or {},
        )
        self.window.begin_received(frame.next_outgoing_id, frame.incoming_window, frame.outgoing_window)
        self.begun = self.state is SessionState.MAPPED
        if self._end_asked:
            self.end(self._end_error)

    def _advance(self, step: str) -> None:
        state = SESSION.get((self.state, step))
        if state is None:
            if step.startswith("R:"):
                raise RemoteProtocolError(
                    f"the peer sent {step[2:].lower()} in session state {self.state.name}", "amqp:illegal-state"
                )
            raise LocalProtocolError(f"{step[2:].lower()} is not possible in session state {self.state.name}")
        self.state = state

    def write(self, frame: Composite) -> None:
        """Queue a frame on our channel; once muted, nothing (§2.5.2, §2.4.3)."""
        if self.state is SessionState.BEGIN_RCVD:
            self._unsaid.append(frame)
        elif not self.muted:
            self.engine.write_frame(self.channel, frame)

    # Frames in

    def receive(self, frame: Composite, payload: bytes | Pieces) -> None:
        """One frame of the peer on this session, by the table of §2.5 and §2.6."""
        kind = type(frame)
        if self.muted and kind is not End and (self.state is SessionState.DISCARDING or kind not in _ABOUT_OURS):
            return
        try:
            if kind is Transfer:
                self._receive_transfer(frame, payload)  # type: ignore[arg-type]
            elif kind is Disposition:
                self._receive_disposition(frame)  # type: ignore[arg-type]
            elif kind is Flow:
                self._receive_flow(frame)  # type: ignore[arg-type]
            elif kind is Attach:
                self._receive_attach(frame)  # type: ignore[arg-type]
            elif kind is Detach:
                self._receive_detach(frame)  # type: ignore[arg-type]
            elif kind is End:
                self._receive_end(frame)  # type: ignore[arg-type]
            else:
                raise RemoteProtocolError(
                    f"the peer sent {kind.__name__.lower()} on a session that is begun", "amqp:illegal-state"
                )
        except SessionFault as fault:
            if not self.muted:
                self._fail(fault)

    def _fail(self, fault: SessionFault) -> None:
        """The peer broke a rule of sessions: end this one, and nothing else (§2.5.4)."""
        cause = RemoteProtocolError(fault.description, fault.condition)
        if self.terms is None:
            self.begin()
        self._end(Error(fault.condition, fault.description))
        self._drop(cause)
        self.engine.emit(SessionUnmapped(self, cause))

    # Transfers out (§2.5.6: each frame takes a transfer-id and a place in the peer's window)

    def transmit(self, part: OutgoingPart) -> None:
        """Send what the window allows now; hold the rest back, in order."""
        if self.held or not self._send_frames(part):
            self.held.append(part)

    def _send_frames(self, part: OutgoingPart) -> bool:
        window = self.window
        while window.remote_incoming_window > 0:
            part.link.write_frame_of(part)
            window.sent()
            if part.done:
                return True
        return False

    def send_held(self) -> None:
        held = self.held
        while held and self._send_frames(held[0]):
            link = held.popleft().link
            if link.drain_owed:
                link.drained(link.flow_state.available)
            if link.incomplete:
                link.check_reduced()

    def new_delivery_id(self, delivery: OutgoingDelivery) -> int:
        number = self.next_delivery_id
        self.next_delivery_id = (number + 1) & MASK
        delivery.delivery_id = number
        if not delivery.local_settled:
            self.outgoing[number] = delivery
        return number

    # Transfers in

    def _receive_transfer(self, frame: Transfer, payload: bytes | Pieces) -> None:
        window = self.window
        if self.terms is None:
            # Our begin is still to come, and so is our window: it is the link's credit that the peer does not have.
            window.next_incoming_id = window.next_incoming_id + 1 & MASK
        elif not window.received():
            raise SessionFault(
                "amqp:session:window-violation", "a transfer came although our incoming window is used up"
            )
        link = self._by_remote_handle.get(frame.handle)
        if link is None:
            raise self._unattached(frame.handle, "transfer")
        number = frame.delivery_id
        if number == self._expected_id and number is not None:
            self._expected_id = (number + 1) & MASK
        elif number is not None and not link.goes_on(number):
            self._begin_counting(number)
        link.receive_transfer(frame, payload)
        if window.needs_refresh and self.state is SessionState.MAPPED:
            # Here, and not with any link: a session whose links grant no credit at the moment still has a window.
            self.send_flow()

    def room_for(self, layout: TransferLayout) -> int:
        """How many transfers of this form bring a message and change nothing else but counts, if they come now."""
        link = self._by_remote_handle.get(layout.transfer.handle)
        if link is None or self.muted or self._expected_id is None:
            return 0
        return min(self.window.before_refresh, link.room_for_messages())

    def receive_alike(self, layout: TransferLayout, run: list[Alike]) -> bool:
        """Receive transfers that there was `room_for`; False, and nothing done, if one is out of order."""
        link = self._by_remote_handle[layout.transfer.handle]
        assert self._expected_id is not None
        if not link.receive_messages(layout.transfer, run, self._expected_id):
            return False
        self._expected_id = self._expected_id + len(run) & MASK
        window = self.window
        window.received_many(len(run))
        if window.needs_refresh and self.state is SessionState.MAPPED:
            self.send_flow()
        return True

    def _begin_counting(self, number: int) -> None:
        """The delivery-id of a new delivery is not the next one: it is the session's first, or out of sequence."""
        if self._expected_id is not None:
            raise SessionFault(
                "amqp:invalid-field", f"a delivery with the id {number}, where {self._expected_id} is the next"
            )
        self._expected_id = (number + 1) & MASK

    def let_go(self, count: int, starved: bool) -> None:
        """Transfers that a link held for its reader count no more."""
        if self.window.let_go(count, starved) and self.state is SessionState.MAPPED and not self._dropped:
            self.send_flow()

    def _unattached(self, handle: int, what: str) -> SessionFault:
        self._check_handle(handle)
        return SessionFault("amqp:session:unattached-handle", f"a {what} for handle {handle}, which has no link")

    def _check_handle(self, handle: int) -> None:
        limit = self.terms.handle_max if self.terms is not None else MASK
        if handle > limit:
            raise RemoteProtocolError(f"handle {handle} is above our handle-max {limit}")

    # Flow

    def send_flow(self, link: LinkEndpoint | None = None, *, echo: bool = False, properties: Any = None) -> None:
        """Say our session state, and the link's with it; the incoming window is whole again with that (§2.7.4)."""
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
        if not self.window.flow_received(
            frame.next_incoming_id, frame.incoming_window, frame.next_outgoing_id, frame.outgoing_window
        ):
            raise SessionFault("amqp:session:window-violation", "a flow names a next-incoming-id that was not sent yet")
        self.send_held()
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

    def _attach(self, link: LinkEndpoint, terms: LinkTerms, resuming: Iterable[Any] | None) -> None:
        if self.state not in (SessionState.BEGIN_SENT, SessionState.MAPPED):
            raise LocalProtocolError(f"no link can attach in session state {self.state.name}")
        named = self._by_name.get((terms.name, link.is_sender), ())
        if not all(other.detach_sent for other in named):
            raise LocalProtocolError(f"the session has a link {terms.name!r} of this direction already")
        self.give_handle(link)
        try:
            link.send_attach(terms, resuming)
        except Exception:  # it cannot be said: nothing was done
            self.release_handle(link)
            raise

    def give_handle(self, link: LinkEndpoint) -> None:
        limit = self.remote.handle_max if self.remote is not None else MASK
        free = self._free_handles
        handle = free[0] if free else len(self._by_handle)
        if handle > limit:
            raise LocalProtocolError(f"the peer takes {limit + 1} links on a session, and all are in use")
        if free:
            heappop(free)
        link.handle = handle
        self._by_handle[handle] = link
        self._by_name.setdefault((link.name, link.is_sender), {})[link] = None

    def release_handle(self, link: LinkEndpoint) -> None:
        if self._by_handle.get(link.handle) is link:
            del self._by_handle[link.handle]
            heappush(self._free_handles, link.handle)
            drop_name(self._by_name, link)

    def _receive_attach(self, frame: Attach) -> None:
        self._check_handle(frame.handle)
        if frame.handle in self._by_remote_handle:
            raise SessionFault("amqp:session:handle-in-use", f"handle {frame.handle} has a link already")
        if not frame.role and frame.initial_delivery_count is None:
            raise SessionFault("amqp:invalid-field", "a sender's attach without initial-delivery-count")
        we_send = frame.role  # the peer's role is receiver
        link = self._waiting(frame.name, we_send)
        if link is None:
            self._steal(frame.name, we_send)
            link = (SenderEndpoint if we_send else ReceiverEndpoint)(self, frame.name)
        self._by_remote_handle[frame.handle] = link
        self.connection.links_by_name.setdefault((link.name, link.is_sender), {})[link] = None
        link.remote_handle = frame.handle
        attached = link.receive_attach(attach_terms(frame))
        if isinstance(frame.source, Described) or isinstance(frame.target, Described):
            link.fail("amqp:not-implemented", "a source or target of a type that is not known here")
        elif attached:
            self.engine.emit(LinkAttached(link))
            link.compare()

    def _waiting(self, name: str, we_send: bool) -> LinkEndpoint | None:
        """Our link of that name that waits for the peer's attach."""
        for link in self._by_name.get((name, we_send), ()):
            if link.remote is None:
                return link
        return None

    def _steal(self, name: str, we_send: bool) -> None:
        """§2.6.1: a link attached again elsewhere on this connection is stolen from where it was."""
        for link in self.connection.links_by_name.pop((name, we_send), ()):
            if not link.detach_sent:
                link.fail("amqp:link:stolen", f"the link {name!r} was attached again")

    def _receive_detach(self, frame: Detach) -> None:
        link = self._by_remote_handle.get(frame.handle)
        if link is None:
            raise self._unattached(frame.handle, "detach")
        error = frame.error
        cause: AmqpError | None = None
        if error is not None:
            cause = LinkDetached(error.condition, error.description, error.info)
        elif not link.detach_sent:
            cause = LinkDetached()
        link.receive_detach(frame.closed, cause)

    def forget(self, link: LinkEndpoint, *, lingers: bool) -> None:
        """The link is over: nothing of it is held back; nor waits for a disposition here, unless it `lingers`."""
        self.release_handle(link)
        if self._by_remote_handle.get(link.remote_handle) is link:
            del self._by_remote_handle[link.remote_handle]
            drop_name(self.connection.links_by_name, link)
        self.held = deque(part for part in self.held if part.link is not link)
        self.make_posted()
        if lingers:
            return
        tables: tuple[dict[int, Any], ...] = (self.outgoing, self.incoming)
        for table in tables:
            for number in [number for number, delivery in table.items() if delivery.link is link]:
                del table[number]

    # Ending

    def end(self, error: Error | None = None) -> None:
        if self.state is SessionState.BEGIN_SENT:  # the table has no end here: it follows the peer's begin (§2.5.5)
            self._end_asked, self._end_error = True, error
        elif self.state in (SessionState.MAPPED, SessionState.END_RCVD):
            self._end(error)

    def _end(self, error: Error | None) -> None:
        self.flush()
        self._advance("S:END(error)" if error is not None and self.state is SessionState.MAPPED else "S:END")
        self.write(End(error=error))
        self.mute()

    def _receive_end(self, frame: End) -> None:
        if self.terms is None:  # begin and end came together: no state of the table, but what is meant is clear
            self.begin()
        was = self.state
        self._advance("R:END")
        error = frame.error
        cause: AmqpError | None = None
        if error is not None:
            cause = SessionEnded(error.condition, error.description, error.info)
        elif was is SessionState.MAPPED:
            cause = SessionEnded()
        if self.state is SessionState.END_RCVD:
            self._end(None)
        self.connection.unmap(self)
        self.over(cause)  # nothing new if we ended it after a fault of the peer's: that was said then

    def mute(self) -> None:
        """Our end or close is out: nothing may be written on this session after it."""
        self.muted = True
        self.begun = False
        self.held.clear()
        self._dispositions.clear()
        self.last_outcome = self
        for link in self._by_handle.values():
            link.attached = False

    def over(self, cause: AmqpError | None) -> None:
        """The session is over, for its own reason or its connection's."""
        if self._dropped:
            return
        self._drop(cause)
        self.engine.emit(SessionUnmapped(self, cause))

    def _drop(self, cause: AmqpError | None) -> None:
        self._dropped = True
        self.begun = False
        for link in list({id(x): x for t in (self._by_handle, self._by_remote_handle) for x in t.values()}.values()):
            link.over(cause)
        for link in self._by_remote_handle.values():
            drop_name(self.connection.links_by_name, link)
        self.held.clear()
        self.make_posted()  # for their links, which are theirs to ask
        self.outgoing.clear()
        self.incoming.clear()
        self._dispositions.clear()
        self.last_outcome = self
