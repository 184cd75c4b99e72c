"""The receiving end of a link: credit granted, frames put together into deliveries, outcomes told (§2.6.7, §2.6.12)."""

from __future__ import annotations

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
from ....messaging import Modified, Released
from ....messaging.payloads import SplitPayload
from ..._kit.partial import NO_ROOM, advice, largest_in_part, most_in_part
from ..resumption.receiver import PartialDelivery, ResumingReceiver
from ..unsettled_map import ReceivedPosition
from ..wire.performatives import Flow, Transfer
from .lazy_deliveries import TransferRun

if TYPE_CHECKING:
    from ....messaging import DeliveryState
    from ..owners import SessionCore
    from ..wire.frames import Alike


class ReceiverEndpoint(ResumingReceiver):
    """See `ReceiverLink` for the contract."""

    is_sender = False
    properties: Any

    def __init__(self, session: SessionCore, name: str) -> None:
        super().__init__(session, name)
        self._limit: int | None = None

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
        if (
            self._partial is not None
            or frame.more
            or frame.aborted
            or frame.rcv_settle_mode is not None
            or frame.resume
        ):
            self._receive_part(frame, payload)
            return
        if not self.flow_state.received():
            self._overrun()
            return
        self._complete(frame, payload, bool(frame.settled), frame.state)

    def goes_on(self, number: int) -> bool:
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
            partial = PartialDelivery(self, frame)
            if not self._check_settle_mode(frame):
                return
            if frame.resume and not self._continue(partial):
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
            if partial.resumed is not None:
                self._drop_resumed(partial.resumed)
            return
        if payload:
            partial.parts += payload.buffers if isinstance(payload, SplitPayload) else (payload,)
        partial.size += len(payload)
        partial.settled = partial.settled or bool(frame.settled)
        if frame.state is not None:
            partial.state = frame.state
        if partial.size > largest_in_part(self._limit):
            self._keep_part(None)
            self._too_large()
        elif frame.more:
            self._check_parts(self._keep_part(partial))
        else:
            self._keep_part(None)
            first = partial.first
            if first.rcv_settle_mode == 0 and self._second and not partial.settled and first.delivery_id is not None:
                self._settle_first.add(first.delivery_id)
            if first.resume:
                self._complete_resumed(partial)
                return
            self._complete(first, partial.payload(), partial.settled, partial.state)

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
        most = most_in_part(engine.terms.max_message_size, self._limit)
        if engine.partial > most or not fits:
            self._keep_part(None)
            reason = f"more than {most} octets of incomplete deliveries" if fits else NO_ROOM
            self.fail("amqp:resource-limit-exceeded", reason)

    def _format_changed(self) -> None:
        self.fail("amqp:invalid-field", "the message-format changed within a delivery")

    def _too_large(self) -> None:
        reason = f"a message of more than {largest_in_part(self._limit)} octets{advice(self._limit)}"
        self.fail("amqp:link:message-size-exceeded", reason)

    def _complete(
        self, first: Transfer, payload: bytes | SplitPayload, settled: bool, state: DeliveryState | None
    ) -> IncomingDelivery | None:
        """Take a complete delivery, or on a link that streams a new one. benchmarks/run.py, "receive"."""
        number, tag = first.delivery_id, first.delivery_tag
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
        settled = bool(like.settled)
        numbers, tags, payloads = zip(*run, strict=True)
        taken = len(run)
        following: Iterable[int] = range(expected, expected + taken)
        if expected + taken > 1 << 32:
            following = (number & 0xFFFF_FFFF for number in following)
        is_new = settled or (len(set(tags)) == taken and self._unsettled.keys().isdisjoint(tags))
        if not is_new or numbers != tuple(following):
            return False
        if self._limit is not None and max(map(len, payloads)) > self._limit:
            return False
        self._arrive_many(TransferRun(self.delivery_type, like, numbers, tags, payloads))
        if self.unmaterialized and not settled:
            self.session.lazy_receivers.add(self)
        self.flow_state.received_many(taken)
        return True

    def receive_message(self, like: Transfer, number: int, tag: bytes, payload: bytes) -> bool:
        # benchmarks/budget.py, "receive_links".
        flow, unsettled = self.flow_state, self._unsettled
        settled = bool(like.settled)
        if (
            flow.credit <= 0
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
        if streaming:
            for delivery in self._resuming.values():
                self._hold_again(delivery)
            # Replaces the method, so that links that do not stream need no check for each message.
            self.receive_transfer = self._receive_streamed  # type: ignore[method-assign]

    def _receive_streamed(self, frame: Transfer, payload: bytes | SplitPayload) -> None:
        if self.detach_sent:
            self.check_errant("transfer")
            return
        payload = bytes(payload)
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
            self._settled_by_sender(delivery)
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
            if first.rcv_settle_mode == 0 and self._second and not first.settled and first.delivery_id is not None:
                self._settle_first.add(first.delivery_id)
            delivery.stream = IncomingStream()
            delivery.stream.place = ReceivedPosition()
            self._coming = delivery
        return delivery

    def _abort_stream(self, delivery: IncomingDelivery) -> None:
        """Drop a delivery that the sender gave up; "aborted deliveries are implicitly settled" (§2.7.5)."""
        delivery.stream.aborted = True
        self.discard(delivery)
        self._settled_by_sender(delivery)
        self._coming = None
        self.session.engine.emit(PartsReceived(delivery))

    def _settled_by_sender(self, delivery: IncomingDelivery, *, reported: bool = True) -> None:
        self.receive_states((delivery,), None, True)
        if reported:
            self.session.engine.emit(SettlementsReceived(self, (delivery,)))

    def read(self, delivery: IncomingDelivery) -> bytes | None:
        stream = delivery.stream
        part = stream.parts.popleft() if stream.parts else None
        if stream.lent:
            self._let_go(1, part is None)
        stream.lent = part is not None
        return part

    def discard(self, delivery: IncomingDelivery) -> None:
        stream = delivery.stream
        stream.discarded = True
        count = len(stream.parts) + stream.lent
        stream.parts.clear()
        stream.lent = False
        if count:
            self._let_go(count, True)

    def _let_go(self, count: int, starved: bool) -> None:
        if self._unread:  # 0 once the link ended: its frames were let go then
            self._unread -= count
            self.session.let_go(count, starved)

    def _end(self, closed: bool, cause: AmqpError | None) -> None:
        self.materialize(self.unmaterialized)
        self.session.lazy_receivers.discard(self)
        self.session.engine.count_partial(-self._weight)
        self._weight = 0
        unread, self._unread = self._unread, 0
        super()._end(closed, cause)
        if unread:
            self.session.let_go(unread, True)

    # Settling

    def settle_like_last(self, number: int | None, tag: bytes, state: DeliveryState) -> bool:
        # Nearly every delivery is settled once, with the outcome of the last one. benchmarks/budget.py, "receive".
        session = self.session
        if state is not session.last_outcome or number is None or not self.attached or self._second:
            return False
        session.last_ids.append(number)
        self._unsettled.pop(tag, None)
        session.incoming.pop(number, None)
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
            self.session.accept_run(numbers)
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
            self._settle_early(delivery, state, settled)
            return
        if settled is None:
            settled = not self._second or number in self._settle_first
        if delivery.state is not None:
            self.session.flush()  # what was said of it before goes first
        self.session.dispose(True, number, settled, state)
        if state is not None:
            delivery.state = state
        if settled:
            delivery.local_settled = True
            self._unsettled.pop(delivery.tag, None)
            self.session.incoming.pop(number, None)
            self._settle_first.discard(number)

    def receive_states(self, deliveries: Sequence[Any], state: DeliveryState | None, settled: bool) -> Sequence[Any]:
        for delivery in deliveries:
            if state is not None:
                delivery.remote_state = state
            if settled:
                delivery.remote_settled = delivery.local_settled = True
                self._unsettled.pop(delivery.tag, None)
                self.session.incoming.pop(delivery.delivery_id, None)
                self._settle_first.discard(delivery.delivery_id)
        if settled:
            return deliveries
        if isinstance(state, Released | Modified):
            self._taken_back([delivery for delivery in deliveries if delivery.state is None], state)
        return ()

    def _taken_back(self, deliveries: Sequence[Any], state: DeliveryState) -> None:
        """Settle deliveries that the sender has released (§2.6.12), as RabbitMQ 4.3 does where no outcome comes.

        With the state that the sender told: RabbitMQ ends the session where none is said.
        """
        for delivery in deliveries:
            self.session.dispose(True, delivery.delivery_id, True, state)
            self._unsettled.pop(delivery.tag, None)
            self.session.incoming.pop(delivery.delivery_id, None)
            self._settle_first.discard(delivery.delivery_id)
        if deliveries:
            self.session.engine.emit(DeliveriesUnresumed(self, deliveries))

    def abandon(self) -> None:
        self.materialize(self.unmaterialized)  # what came in part may be resumed
