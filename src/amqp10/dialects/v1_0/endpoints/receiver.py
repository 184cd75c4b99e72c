"""The receiving end of a link: credit granted, frames put together into deliveries, outcomes told (§2.6.7, §2.6.12)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ....engine import (
    DeliveriesUnresumed,
    FlowReceived,
    IncomingDelivery,
    IncomingStream,
    PartsReceived,
    SettlementsReceived,
)
from ....errors import AmqpError, LocalProtocolError
from ....messaging import OUTCOMES, Modified, Received, Released
from ....messaging.payloads import SplitPayload
from ..._kit.lazy_deliveries import LazyReceiver
from ..._kit.message.limits import NO_ROOM, limit_hint, message_limit, partial_limit
from ..credit import ReceiverCredit
from ..link import LinkEndpoint
from ..parents import ReceiverCore
from ..partial import PartialDelivery
from ..resumption.receiver import IncomingResumption, came_in_part
from ..unsettled_map import ReceivedPosition, of_transaction, reach
from ..wire.performatives import Flow, Transfer
from .lazy_deliveries import TransferRun

if TYPE_CHECKING:
    from ....messaging import DeliveryState
    from ..parents import SessionCore
    from ..states import LinkState
    from ..wire.frames import Alike


class ReceiverEndpoint(LinkEndpoint, LazyReceiver, ReceiverCore):
    """See `ReceiverLink` for the contract."""

    is_sender = False
    session: SessionCore
    resumption: IncomingResumption | None = None
    properties: Mapping[Any, Any]
    _settle_first: set[int] | None = None  # deliveries whose own rcv-settle-mode is "first" on a "second" link
    _streaming = False
    _coming: IncomingDelivery | None = None  # the streamed delivery whose last frame is to come
    _unread = 0  # transfers that wait to be read, and keep their places in the session's window

    def __init__(self, session: SessionCore, name: str) -> None:
        LinkEndpoint.__init__(self, session, name)
        LazyReceiver.__init__(self)
        self.flow_state: ReceiverCredit = ReceiverCredit(None)
        self.delivery_type = IncomingDelivery
        self._partial: PartialDelivery | None = None
        self._weight = 0  # of that
        self._draining = False
        self._second = False
        self._like_last = False
        self._limit: int | None = None

    def entered(self, state: LinkState) -> None:
        super().entered(state)
        self._derive_like_last()

    def _derive_like_last(self) -> None:
        """Derive whether `settle_like_last` may do without a further look at the link."""
        self._like_last = self.attached and not (self._second or self.incomplete)

    @property
    def credit(self) -> int:  # type: ignore[override]
        return self.flow_state.credit

    @property
    def available(self) -> int:  # type: ignore[override]
        return self.flow_state.available

    @property
    def partial_state(self) -> DeliveryState | None:  # type: ignore[override]
        if self._coming is not None:
            return self._coming.remote_state
        return self._partial.state if self._partial is not None else None

    @property
    def settled_by_sender(self) -> bool:
        return self.remote is not None and self.remote.settle_mode == "settled"

    def begin_counting(self) -> None:
        if self.remote is not None and self.flow_state.delivery_count is None:
            self.flow_state.attached(self.remote.initial_delivery_count)
        if self.terms is not None:
            self._limit = self.terms.max_message_size or None
            if self.remote is not None:
                # A peer that answers "first" will not send the settlement that "second" waits for.
                self._second = self.terms.receiver_settle_mode == self.remote.receiver_settle_mode == "second"
                self._derive_like_last()

    def leave_tables(self, *, lingers: bool) -> None:
        if self._partial is not None and self._partial.first.delivery_id is not None:
            self.session.parts.pop(self._partial.first.delivery_id, None)
        if not lingers:
            self._leave(self.session.incoming, self.unsettled.values())

    # Credit

    def flow(
        self, credit: int, *, drain: bool = False, echo: bool = False, properties: Mapping[Any, Any] | None = None
    ) -> None:
        if self.terms is None or self.detach_sent:
            raise LocalProtocolError(f"the link {self._name!r} is not attached")
        if not 0 <= credit <= 0xFFFF_FFFF:
            raise LocalProtocolError(f"credit must be in 0..{0xFFFF_FFFF}, not {credit}")
        flow = self.flow_state
        before = flow.credit, flow.spare, flow.drain
        flow.grant(credit, drain)
        try:
            self.session.send_flow(self, echo=echo, properties=properties)
        except Exception:  # it cannot be said, it is too large for the peer's frames: nothing was done
            flow.credit, flow.spare, flow.drain = before
            raise
        self._draining = drain

    def fill_flow(self, frame: Flow) -> None:
        flow = self.flow_state
        frame.handle = self.handle
        frame.delivery_count = flow.delivery_count
        frame.link_credit = flow.credit
        frame.available = flow.available  # as the sender said last
        frame.drain = flow.drain

    def receive_flow(self, frame: Flow) -> None:
        self.check_errant("flow")
        if self.detach_sent:
            return
        before = self.flow_state.credit
        self.flow_state.flow_received(frame.delivery_count, frame.available)
        self.properties = frame.properties or {}
        # A sender that still has credit has not seen the flow that drains it yet.
        credit = self.flow_state.credit
        self._report_flow(not frame.link_credit and credit <= 0, wasted=before - credit)
        if frame.echo and self.terms is not None:
            self.session.send_flow(self)

    def _report_flow(self, used_up: bool, wasted: int = 0) -> None:
        """Tell the owner the flow state, with `drained` if a drain was asked for and the credit is used up."""
        drained = self._draining and used_up
        if drained:
            self._draining = False
            self.flow_state.drain = False
        self.session.engine.emit(FlowReceived(self, drained, wasted))

    # Transfers

    def receive_transfer(self, frame: Transfer, payload: bytes | SplitPayload) -> None:
        if self.detach_sent:
            self.check_errant("transfer")
            return
        if self._streaming:
            self._receive_streamed(frame, bytes(payload))
            return
        if (
            self._partial is not None
            or frame.more
            or frame.aborted
            or (frame.rcv_settle_mode is not None and not self._is_own_mode(frame.rcv_settle_mode))
            or frame.resume
        ):
            self._receive_part(frame, payload)
            return
        if not self.flow_state.received():
            self._overrun()
            return
        self._complete(frame, payload, frame.settled is True, frame.state)

    def _is_own_mode(self, mode: int) -> bool:
        """Return whether the rcv-settle-mode of a transfer is what the ends of the link agreed on (§2.7.5)."""
        return mode == (1 if self._second else 0)

    def continues(self, number: int) -> bool:
        # The link itself checks that no delivery begins inside another. Transfers for a link that we have detached are
        # ignored.
        return self._partial is not None or self._coming is not None or self.detach_sent

    def _overrun(self) -> None:
        self.fail("amqp:link:transfer-limit-exceeded", "a delivery arrived without credit")

    def _receive_part(self, frame: Transfer, payload: bytes | SplitPayload) -> None:
        partial = self._partial
        if partial is None:
            if not self.flow_state.received():
                self._overrun()
                return
            partial = PartialDelivery(frame)
            if not self._check_settle_mode(frame):
                return
            if frame.resume and not self._go_on(partial):
                return
        elif (frame.delivery_id is not None and frame.delivery_id != partial.first.delivery_id) or (
            frame.delivery_tag is not None and frame.delivery_tag != partial.first.delivery_tag
        ):
            self.fail("amqp:invalid-field", "a new delivery began before the last frame of the one before it")
            return
        elif frame.message_format is not None and frame.message_format != (partial.first.message_format or 0):
            self._format_changed()
            return
        if frame.aborted:  # the payload is thrown away, and the delivery is settled with that (§2.7.5)
            self._keep_part(None)
            self._report_flow(self.flow_state.used_up, wasted=int(partial.resumed is None))
            if partial.resumed is not None and self.resumption is not None:
                self.resumption.drop(partial.resumed)
            return
        if payload:
            partial.parts += payload.buffers if isinstance(payload, SplitPayload) else (payload,)
        partial.size += len(payload)
        if frame.settled:
            partial.settled = True
        if frame.state is not None:
            partial.state = frame.state
        if partial.size > message_limit(self._limit):
            self._keep_part(None)
            self._too_large()
        elif frame.more:
            self._check_parts(self._keep_part(partial))
        else:
            self._keep_part(None)
            first = partial.first
            if first.rcv_settle_mode == 0 and not partial.settled:
                self.note_settle_mode(first)
            if first.resume:
                self._complete_resumed(partial)
                return
            self._complete(first, partial.payload(), partial.settled, partial.state)

    def _keep_part(self, partial: PartialDelivery | None) -> bool:
        """Keep `partial`, the frames of an incomplete delivery; None: the delivery is over.

        Returns:
            Whether the owner has room for them.
        """
        weight = partial.weight if partial is not None else 0
        fits = self.session.engine.count_partial(weight - self._weight)
        if partial is not self._partial:
            parts = self.session.parts
            if self._partial is not None and self._partial.first.delivery_id is not None:
                parts.pop(self._partial.first.delivery_id, None)
            if partial is not None and partial.first.delivery_id is not None:
                parts[partial.first.delivery_id] = partial
        self._partial, self._weight = partial, weight
        return fits

    def note_settle_mode(self, first: Transfer) -> None:
        if first.rcv_settle_mode == 0 and self._second and first.delivery_id is not None:
            if self._settle_first is None:
                self._settle_first = set()
            self._settle_first.add(first.delivery_id)

    def _remove(self, delivery: IncomingDelivery) -> None:
        """Remove a settled delivery from the tables."""
        self._unsettled.pop(delivery.tag, None)
        if delivery.delivery_id is not None:
            self.session.incoming.pop(delivery.delivery_id, None)
            if self._settle_first is not None:
                self._settle_first.discard(delivery.delivery_id)

    def _check_settle_mode(self, first: Transfer) -> bool:
        """Return whether the delivery's settle mode is allowed; else fail the link (§2.7.5)."""
        mode = first.rcv_settle_mode
        if mode is None or mode == 0 or (mode == 1 and self._second) or first.settled:
            return True  # of what is sent settled it says nothing
        if mode == 1:
            self.fail("amqp:invalid-field", "rcv-settle-mode second in a transfer on a link that settles first")
        else:
            self.fail(
                "amqp:invalid-field", f"rcv-settle-mode in a transfer must be 0 (first) or 1 (second), not {mode}"
            )
        return False

    def _check_parts(self, fits: bool) -> None:
        """Fail the link if the incomplete deliveries of all links exceed the limit of a connection, or do not fit."""
        engine = self.session.engine
        most = partial_limit(engine.terms.max_message_size, self._limit)
        if engine.partial > most or not fits:
            self._keep_part(None)
            reason = f"more than {most} octets of incomplete deliveries" if fits else NO_ROOM
            self.fail("amqp:resource-limit-exceeded", reason)

    def _format_changed(self) -> None:
        self.fail("amqp:invalid-field", "the message-format changed within a delivery")

    def _too_large(self) -> None:
        reason = f"a message of more than {message_limit(self._limit)} octets{limit_hint(self._limit)}"
        self.fail("amqp:link:message-size-exceeded", reason)

    def _complete(
        self, first: Transfer, payload: bytes | SplitPayload, settled: bool, state: DeliveryState | None
    ) -> IncomingDelivery | None:
        """Take a complete delivery, or on a link that streams a new one. benchmarks/run.py, "receive"."""
        number = first.delivery_id
        tag = first.delivery_tag
        if number is None or tag is None:
            self.fail("amqp:invalid-field", "the first transfer of a delivery without delivery-id or delivery-tag")
            return None
        if self._limit is not None and len(payload) > self._limit:
            self._too_large()
            return None
        delivery = self.delivery_type(self, number, tag, payload, settled)
        if first.message_format:
            delivery.message_format = first.message_format
        if state is not None:
            delivery.remote_state = state
        if not settled:
            if tag in self._unsettled and not self.session.engine.terms.any_numbers:
                self.fail("amqp:invalid-field", f"the delivery-tag {tag!r} is in use by an unsettled delivery")
                return None
            self._unsettled[tag] = delivery
            self.session.incoming[number] = delivery
        self._arrive(delivery)
        if self._draining and self.flow_state.used_up:
            self._report_flow(True)
        return delivery

    def room_for_messages(self) -> int:
        if self.detach_sent or self._partial is not None or self._streaming or self._draining:
            return 0
        return max(0, self.flow_state.credit)

    def receive_messages(self, like: Transfer, run: list[Alike], expected: int) -> bool:
        """Receive whole messages column by column; return False, and do nothing, if one is out of order.

        benchmarks/budget.py, "receive": with `wire.bulk` more than half of the steps.
        """
        if like.rcv_settle_mode is not None and not self._is_own_mode(like.rcv_settle_mode):
            return False
        settled = like.settled is True
        numbers, tags, payloads = zip(*run, strict=True)
        taken = len(run)
        following: Iterable[int] = range(expected, expected + taken)
        if expected + taken > 1 << 32:
            following = (number & 0xFFFF_FFFF for number in following)
        if not settled and (len(set(tags)) < taken or not self._unsettled.keys().isdisjoint(tags)):
            return False
        if numbers != tuple(following):
            return False
        if self._limit is not None and max(map(len, payloads)) > self._limit:
            return False
        self._arrive_many(TransferRun(self.delivery_type, like, numbers, tags, payloads, self.session.incoming))
        if self.unmaterialized and not settled:
            self.session.lazy_receivers[self] = None
        self.flow_state.received_many(taken)
        return True

    def receive_message(self, like: Transfer, number: int, tag: bytes, payload: bytes) -> bool:
        # benchmarks/budget.py, "receive_links".
        flow, unsettled = self.flow_state, self._unsettled
        settled = bool(like.settled)
        if (
            flow.credit <= 0
            or (like.rcv_settle_mode is not None and not self._is_own_mode(like.rcv_settle_mode))
            or self._partial is not None
            or self._streaming
            or self._draining
            or self.detach_sent
            or (self._limit is not None and len(payload) > self._limit)
            or (tag in unsettled and not settled)
        ):
            return False
        flow.received_many(1)
        delivery = self.delivery_type(self, number, tag, payload, settled)
        if like.message_format:
            delivery.message_format = like.message_format
        if like.state is not None:
            delivery.remote_state = like.state
        if not settled:
            unsettled[tag] = delivery
            self.session.incoming[number] = delivery
        self._arrive(delivery)
        return True

    # Transfers of a link that streams (§2.6.14): a delivery is handed out with its first part.

    @property
    def streaming(self) -> bool:
        return self._streaming

    @streaming.setter
    def streaming(self, streaming: bool) -> None:
        self._streaming = streaming
        if streaming and self.resumption is not None:
            self.resumption.hold_parts()

    def _receive_streamed(self, frame: Transfer, payload: bytes) -> None:
        delivery = self._coming
        if delivery is None and (frame.resume or self._partial is not None):
            delivery = self._resume_stream(frame)
            if delivery is None:
                return
            payload = self._skip(delivery, frame, payload)
        elif delivery is None:
            delivery = self._begin_stream(frame)
            if delivery is None:
                return
        elif (frame.delivery_id is not None and frame.delivery_id != delivery.delivery_id) or (
            frame.delivery_tag is not None and frame.delivery_tag != delivery.tag
        ):
            self.fail("amqp:invalid-field", "a new delivery began before the last frame of the one before it")
            return
        elif frame.message_format is not None and frame.message_format != delivery.message_format:
            self._format_changed()
            return
        stream = delivery.stream
        if frame.settled and not delivery.remote_settled:
            self.settled_by_transfer(delivery)
        if frame.state is not None:
            delivery.remote_state = frame.state
        if frame.aborted:
            self._abort_stream(delivery)
            return
        stream.size += len(payload)
        stream.place.feed(payload)
        if self._limit is not None and stream.size > self._limit:
            self._too_large()
            return
        report = not frame.more
        if payload and not stream.discarded:
            report = report or not stream.parts
            stream.parts.append(payload)
            self._unread += 1
            self.session.window.hold()
        if not frame.more:
            stream.whole = True
            self._coming = None
        if report:
            self.session.engine.emit(PartsReceived(delivery))

    def _begin_stream(self, first: Transfer) -> IncomingDelivery | None:
        """Return the delivery that a first frame begins; None if the frame is refused or aborts at once."""
        if not self.flow_state.received():
            self._overrun()
            return None
        if not self._check_settle_mode(first):
            return None
        if first.aborted:
            self._report_flow(self.flow_state.used_up, wasted=1)
            return None
        delivery = self._complete(first, b"", bool(first.settled), first.state)
        if delivery is not None:
            if not first.settled:
                self.note_settle_mode(first)
            delivery.stream = IncomingStream()
            delivery.stream.place = ReceivedPosition()
            self._coming = delivery
        return delivery

    def _abort_stream(self, delivery: IncomingDelivery) -> None:
        """Drop a delivery that the sender gave up; "aborted deliveries are implicitly settled" (§2.7.5)."""
        delivery.stream.aborted = True
        self.discard(delivery)
        self.settled_by_transfer(delivery)
        self._coming = None
        self.session.engine.emit(PartsReceived(delivery))

    def settled_by_transfer(self, delivery: IncomingDelivery, *, reported: bool = True) -> None:
        self.receive_states((delivery,), None, True)
        if reported:
            self.session.engine.emit(SettlementsReceived(self, (delivery,)))

    def read(self, delivery: IncomingDelivery) -> bytes | None:
        stream = delivery.stream
        part = stream.parts.popleft() if stream.parts else None
        if stream.last_part_held:
            self._let_go(1, part is None)
        stream.last_part_held = part is not None
        return part

    def discard(self, delivery: IncomingDelivery) -> None:
        stream = delivery.stream
        stream.discarded = True
        count = len(stream.parts) + stream.last_part_held
        stream.parts.clear()
        stream.last_part_held = False
        if count:
            self._let_go(count, True)

    def _let_go(self, count: int, starved: bool) -> None:
        if self._unread:  # 0 once the link ended: its frames were let go then
            self._unread -= count
            self.session.let_go(count, starved)

    def _end(self, closed: bool, cause: AmqpError | None) -> None:
        self.materialize(self.unmaterialized)
        self.session.lazy_receivers.pop(self, None)
        self.session.engine.count_partial(-self._weight)
        self._weight = 0
        unread, self._unread = self._unread, 0
        super()._end(closed, cause)
        if unread:
            self.session.let_go(unread, True)

    def abandon(self) -> None:
        self.materialize(self.unmaterialized)  # what came in part may be resumed

    # Resuming (§2.6.13)

    def suspended(self) -> list[IncomingDelivery]:
        deliveries = [each for each in self.unsettled.values() if not of_transaction(each.state, each.remote_state)]
        partial = self._partial
        if partial is None or partial.settled or of_transaction(partial.state):
            return deliveries
        if partial.resumed is not None:
            if came_in_part(self, partial.resumed):
                partial.resumed.stream.parts = deque(map(bytes, partial.parts))
        elif not partial.first.resume and partial.first.delivery_tag is not None:
            cut_off = self.delivery_type(self, partial.first.delivery_id or 0, partial.first.delivery_tag, b"", False)
            cut_off.message_format = partial.first.message_format or 0
            cut_off.stream = IncomingStream()
            cut_off.stream.parts.extend(map(bytes, partial.parts))
            deliveries.append(cut_off)
        return deliveries

    def new_resumption(self) -> IncomingResumption:
        return IncomingResumption(self)

    def end_resumption(self) -> None:
        self.resumption = None

    def become_incomplete(self) -> None:
        super().become_incomplete()
        self._derive_like_last()

    def hold_parts(self, delivery: IncomingDelivery) -> None:
        for _ in range(len(delivery.stream.parts) + delivery.stream.last_part_held):
            self._unread += 1
            self.session.window.hold()

    def _go_on(self, partial: PartialDelivery) -> bool:
        """Find the delivery that a transfer resumes, with the part that is here; return False if that failed the link.

        A delivery that is unknown here is ignored: `partial.resumed` is None.
        """
        first = partial.first
        if first.delivery_id is None or first.delivery_tag is None:
            self.fail("amqp:invalid-field", "the first transfer of a delivery without delivery-id or delivery-tag")
            return False
        if self.resumption is not None:
            partial.resumed = self.resumption.find(first)
            if not self.resumption.go_on(partial):
                self.fail("amqp:invalid-field", "a delivery is resumed beyond the end of its received part")
                return False
        return True

    def _complete_resumed(self, partial: PartialDelivery) -> None:
        """Complete a delivery after the last transfer that resumes it; one that is unknown here is ignored."""
        delivery = partial.resumed
        if delivery is None or self.resumption is None:
            self._report_flow(self.flow_state.used_up, wasted=1)
            return
        if self.resumption.complete(partial):
            self._arrive(delivery)
            if not (self._draining and self.flow_state.used_up):
                return
        self._report_flow(self.flow_state.used_up)  # the delivery used up a credit

    def _resume_stream(self, frame: Transfer) -> IncomingDelivery | None:
        """Return the delivery that a transfer resumes; None if it is complete, unknown, or aborted."""
        resumption = self.resumption
        if self._partial is None and resumption is not None:
            delivery = resumption.find(frame)
            if delivery is not None and frame.settled and isinstance(delivery.state, OUTCOMES):
                # The sender knows the outcome by our map, and sends no more of the delivery.
                delivery.remote_state = frame.state
                resumption.drop(delivery)
            elif delivery is not None and not delivery.stream.whole and not frame.aborted:
                if not self.flow_state.received():
                    self._overrun()
                    return None
                if frame.delivery_id is None:
                    self.fail("amqp:invalid-field", "the first transfer of a delivery without delivery-id")
                    return None
                resumption.live_on(delivery, frame, bool(frame.settled), frame.state)
                self._coming = delivery
                return delivery
        self._receive_part(frame, b"")
        return None

    def _skip(self, delivery: IncomingDelivery, first: Transfer, payload: bytes) -> bytes:
        """Return the part of a resumed transfer's payload that was not here yet."""
        place = delivery.stream.place
        if not isinstance(first.state, Received) or reach(first.state) == reach(place.received):
            return payload
        section, offset = reach(first.state)
        again = place.offset - offset
        if section != place.section or not 0 < again <= len(payload):
            self.fail("amqp:not-implemented", "a stream must be resumed at the end of its received part")
            return b""
        return payload[again:]

    # Settling

    def settle_like_last(self, number: int | None, tag: bytes, state: DeliveryState) -> bool:
        # Nearly every delivery is settled once, with the outcome of the last one. benchmarks/budget.py, "receive".
        dispositions = self.session.dispositions
        if state is not dispositions.last_outcome or number is None or not self._like_last:
            return False
        dispositions.last_ids.append(number)
        self._unsettled.pop(tag, None)
        self.session.incoming.pop(number, None)
        return True

    def next_run(self) -> Sequence[bytes]:
        run = self.first_run()
        if not isinstance(run, TransferRun) or run.message_format or run.state is not None:
            return ()
        return () if self._second or not self.attached else run.payloads(slice(run.taken, None))

    def accept_run(self, count: int) -> None:
        run = self._runs[0]
        assert isinstance(run, TransferRun)
        numbers, tags = run.drop(count)
        self.unmaterialized -= count
        if run.over:
            self._runs.popleft()
        if not run.settled:
            self.session.dispositions.accept_run(numbers)
            unsettled = self._unsettled
            for tag in tags:
                del unsettled[tag]

    def settle(self, delivery: IncomingDelivery, state: DeliveryState | None, *, settled: bool | None = None) -> None:
        if delivery.local_settled:
            return
        if self.detach_sent or self.terms is None:
            raise LocalProtocolError(f"the link {self._name!r} is over: the sender may send the message again")
        number = delivery.delivery_id
        if number is None:
            if self.resumption is None or not self.resumption.settle_early(delivery, state, settled):
                raise LocalProtocolError(
                    "the delivery was not resumed, and cannot be settled: the sender may send the message again"
                )
            return
        if settled is None:
            settled = not self._second or (self._settle_first is not None and number in self._settle_first)
        if delivery.state is not None:
            self.session.dispositions.flush()  # what was said of it before goes first
        self.session.dispositions.dispose(True, number, settled, state)
        if state is not None:
            delivery.state = state
        if settled:
            delivery.local_settled = True
            self._unsettled.pop(delivery.tag, None)
            self.session.incoming.pop(number, None)
            if self._settle_first is not None:
                self._settle_first.discard(number)
            if self.resumption is not None:
                self.resumption.check_reduced()

    def receive_states(self, deliveries: Sequence[Any], state: DeliveryState | None, settled: bool) -> Sequence[Any]:
        for delivery in deliveries:
            if state is not None:
                delivery.remote_state = state
            if settled:
                delivery.remote_settled = delivery.local_settled = True
                self._remove(delivery)
        reported = deliveries if settled else ()
        if not settled and isinstance(state, Released | Modified):
            self._taken_back([delivery for delivery in deliveries if delivery.state is None], state)
        if self.resumption is not None:
            self.resumption.check_reduced()
        return reported

    def _taken_back(self, deliveries: Sequence[Any], state: DeliveryState) -> None:
        """Settle deliveries that the sender has released (§2.6.12), as RabbitMQ 4.3 does where no outcome comes.

        With the state that the sender told: RabbitMQ ends the session where none is said.
        """
        for delivery in deliveries:
            self.session.dispositions.dispose(True, delivery.delivery_id, True, state)
            self._remove(delivery)
        if deliveries:
            self.session.engine.emit(DeliveriesUnresumed(self, deliveries))
