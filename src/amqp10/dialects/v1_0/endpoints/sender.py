"""The sending end of a link: credit, and messages cut into transfer frames (§2.6.7, §2.6.12, §2.6.14, §2.7.5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from secrets import randbits
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ....engine import CreditChanged, OutcomeCounter, OutgoingDelivery, UnsettledCount, count_unsettled
from ....errors import LocalProtocolError
from ....messaging import OUTCOMES, RELEASED, Declared, TransactionalState, outlives_connection
from ....messaging.payloads import LARGE
from ....types import SERIAL_MASK, encode
from ..credit import SenderCredit
from ..link import LinkEndpoint, SessionFault
from ..parents import SenderCore
from ..partial import OutgoingPart
from ..resumption.link import earlier_entry
from ..resumption.sender import OutgoingResumption, too_large
from ..states import LinkState
from ..unsettled_map import ReceivedPosition, of_transaction
from ..wire.frames import TransferTemplate, encode_frame
from ..wire.performatives import Flow, Transfer
from .untracked import tag_of

if TYPE_CHECKING:
    from ....messaging import DeliveryState
    from ....messaging.payloads import SplitPayload
    from ..parents import RunCore, SessionCore

_FINAL_STATES = (*OUTCOMES, Declared)
# Bytes that a transfer with all its fields takes beyond the template: a list32, and five fields more.
GENERIC = 11


class SenderEndpoint(LinkEndpoint, SenderCore):
    """See `SenderLink` for the contract."""

    is_sender = True
    flow_state: SenderCredit
    resumption: OutgoingResumption | None = None
    properties: Mapping[Any, Any]
    drain_owed: bool = False
    # Of a delivery that is sent in parts. On the class until there is one, as in `LinkEndpoint`.
    _streaming: OutgoingDelivery | None = None
    _streamed: int  # its bytes
    _place: ReceivedPosition  # where it has got to
    _settled_half: tuple[OutgoingDelivery, DeliveryState | None] | None = None

    def __init__(self, session: SessionCore, name: str) -> None:
        super().__init__(session, name)
        self.flow_state = SenderCredit(0)
        self.untracked: int = 0
        self.disordered: bool = False
        self.runs: dict[RunCore, None] = {}
        self.made: dict[bytes, OutgoingDelivery] = {}
        self.auto_settle = True
        self._next_tag = 0
        self._template = TransferTemplate(0, 0)
        self._must_settle = False
        self._settled: bool | None = False  # what the next delivery has to be; None where none may be sent
        self.delivery_type = OutgoingDelivery
        self.frame_room: int = 0
        self._max_joined = 0  # of frames that are joined with others
        self._may_settle = False

    @property
    def credit(self) -> int:  # type: ignore[override]
        return 0 if self.incomplete else self.flow_state.credit

    @property
    def sendable(self) -> bool:
        # What `credit` and `session.sendable` say, in one call: asked before each message. benchmarks/run.py, "send".
        session = self.session
        return (
            self.flow_state.credit > 0
            and session.window.remote_incoming_window > 0
            and not (session.pending_parts or session.ended_locally or self.incomplete)
        )

    @property
    def unsettled(self) -> dict[bytes, OutgoingDelivery]:  # type: ignore[override]
        if self.untracked or self.disordered:
            self._make_all()
        return self.made

    def _make_all(self) -> None:
        """Make objects of all unsettled deliveries, in the order of sending."""
        if self.untracked:
            self.session.untracked.materialize(self)
        if self.disordered:
            self._order()

    def _order(self) -> None:
        """Put the deliveries into the order of sending; those that only resume come first."""
        self.disordered = False
        session, made = self.session, self.made
        held = {part.delivery for part in session.pending_parts if part.first and not part.resume}
        oldest = session.next_delivery_id - 0x8000_0000

        def place(item: tuple[bytes, OutgoingDelivery]) -> int:
            number = item[1].delivery_id
            if number is None:
                return SERIAL_MASK + 1 if item[1] in held else -1
            return number - oldest & SERIAL_MASK

        ordered = sorted(made.items(), key=place)
        made.clear()
        made.update(ordered)

    @property
    def drain(self) -> bool:  # type: ignore[override]
        return self.flow_state.drain

    @property
    def settled_by_sender(self) -> bool:
        return self._must_settle

    def count_unsettled(self) -> UnsettledCount:
        if self.disordered:
            self._order()
        counted = count_unsettled(self.made)
        return self.session.untracked.count(self, counted) if self.untracked else counted

    def leave_tables(self, *, lingers: bool) -> None:
        if not lingers:
            self.session.untracked.leave(self)
            self._leave(self.session.outgoing, self.made.values())

    def begin_counting(self) -> None:
        if self.terms is None:
            return
        if self.session.channel >= 0 and (self.remote is None or self.state is LinkState.ATTACHED):
            self._template = TransferTemplate(self.session.channel, self.handle)
        if self.flow_state.delivery_count == 0 and not self.unsettled:
            # Credit may have come before our attach: a receiver pipelines its flow.
            before, self.flow_state = self.flow_state, SenderCredit(self.terms.initial_delivery_count)
            self.flow_state.credit, self.flow_state.drain = before.credit, before.drain
            self.flow_state.drain_requested = before.drain_requested
        # The sender's own word on settling is the one in force (§2.7.3).
        self._must_settle = self.terms.settle_mode == "settled"
        self._settled = self._must_settle
        self._may_settle = self.terms.settle_mode != "unsettled"
        answer = self.remote if self.remote is not None else self.terms
        if not self._next_tag and outlives_connection(
            self.terms.source, self.terms.target, answer.source, answer.target
        ):
            # Whoever else attaches a link of this name meanwhile makes other tags (§2.6.1): what is said of its
            # deliveries, when this link is resumed, is not taken for a word on ours.
            self._next_tag = randbits(63)
        remote = self.session.engine.remote
        if remote is not None:
            self.frame_room = remote.max_frame_size - self._template.overhead
            self._max_joined = min(self.frame_room, LARGE)

    # Sending

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
        flow, session = self.flow_state, self.session
        if flow.credit <= 0 or not self.attached or settled != self._settled or self._streaming is not None:
            self._check_sendable(settled)
        limit = self.remote.max_message_size  # type: ignore[union-attr]
        if limit is not None and len(payload) > limit:
            raise LocalProtocolError(
                f"the message has {len(payload)} bytes, more than the peer's max-message-size of {limit}"
            )
        unsettled = self.made if tag is None else self.unsettled  # no untracked delivery has a tag made here
        if tag is None:
            number = self._next_tag
            tag = number.to_bytes(4 if number < 0x1_0000_0000 else 8, "big")
            while tag in unsettled:  # of an earlier attachment, or the owner made one like it
                number += 1
                tag = tag_of(number)
            self._next_tag = number + 1
        elif len(tag) > 32:
            raise LocalProtocolError(f"a delivery-tag must have at most 32 bytes, not {len(tag)}")
        elif tag in unsettled:
            raise LocalProtocolError(f"the delivery-tag {tag!r} is in use by an unsettled delivery")
        else:
            session.dispositions.flush()  # of the delivery before with this tag, which the receiver is to have first
        if state is not None:
            session.engine.check_state(state, self.state_room)
        delivery = self.delivery_type(self, tag, payload, settled, message_format)
        flow.delivery_count = flow.delivery_count + 1 & SERIAL_MASK  # as its `sent` would, without a call
        flow.credit -= 1
        if not settled:
            unsettled[tag] = delivery
        window, size = session.window, len(payload)
        if (
            window.remote_incoming_window > 0
            and size <= self._max_joined
            and state is None
            and not (more or batchable or session.pending_parts)
        ):
            # The path of nearly every message: one frame, from the template. benchmarks/run.py, "send".
            delivery.delivery_id = delivery_id = session.next_delivery_id  # as `new_delivery_id` would
            session.next_delivery_id = delivery_id + 1 & SERIAL_MASK
            if not settled:
                session.outgoing[delivery_id] = delivery
            head = self._template.head(delivery_id, tag, settled, size, False, message_format)
            window.next_outgoing_id = window.next_outgoing_id + 1 & SERIAL_MASK  # as its `sent` would
            window.remote_incoming_window -= 1
            engine = session.engine
            engine.output += head, payload
            engine.output_size += len(head) + size
            delivery.on_wire = True
            return delivery
        delivery.state = state
        if more:
            self._streaming = delivery
            self._streamed = len(payload)
            delivery.past = 4
            self._place = ReceivedPosition()
            self._place.feed(payload)
        session.transmit(OutgoingPart(self, delivery, payload, True, more, batchable))
        if session.pending_parts:
            self._make_all()  # once a held delivery is cut off, nothing says that it is the last one
        return delivery

    def send_untracked(
        self, payload: bytes, waiter: OutcomeCounter, *, settled: bool = False
    ) -> OutgoingDelivery | None:
        """See `SenderLink`. The path of nearly every message of `send_many`. benchmarks/run.py, "send"."""
        flow, session = self.flow_state, self.session
        window, size = session.window, len(payload)
        number = self._next_tag
        tag = number.to_bytes(4 if number < 0x1_0000_0000 else 8, "big")
        if (
            flow.credit <= 0
            or not self.attached
            or settled != self._settled
            or self._streaming is not None
            or window.remote_incoming_window <= 0
            or session.pending_parts
            or size > self._max_joined
            or ((limit := self.remote.max_message_size) is not None and size > limit)  # type: ignore[union-attr]
            or tag in self.made
        ):
            return super().send_untracked(payload, waiter, settled=settled)
        self._next_tag = number + 1
        # As their `sent` would, without two calls.
        flow.delivery_count = flow.delivery_count + 1 & SERIAL_MASK
        flow.credit -= 1
        window.next_outgoing_id = window.next_outgoing_id + 1 & SERIAL_MASK
        window.remote_incoming_window -= 1
        delivery_id = session.next_delivery_id
        session.next_delivery_id = delivery_id + 1 & SERIAL_MASK
        if not settled:
            session.untracked.keep(self, payload, waiter, delivery_id, number)
        head = self._template.head(delivery_id, tag, settled, size)
        engine = session.engine
        engine.output += head, payload
        engine.output_size += len(head) + size
        return None

    def take_untracked(self) -> list[Any]:
        return self.session.untracked.take(self)

    def run_room(self, sharers: int) -> int:
        session = self.session
        if not (self.sendable and self.attached) or self._streaming is not None:
            return 0
        shared = min(session.window.remote_incoming_window, SERIAL_MASK - session.next_delivery_id) // sharers
        return max(0, min(self.flow_state.credit, shared, SERIAL_MASK - self._next_tag))

    @property
    def largest_in_run(self) -> int:  # type: ignore[override]
        limit = self.remote.max_message_size if self.remote is not None else None
        return self._max_joined if limit is None else min(self._max_joined, limit)

    def send_run(self, payloads: Sequence[bytes], waiters: Sequence[object], *, settled: bool = False) -> None:
        """See `SenderLink`. The path of a queue's messages to its consumers."""
        flow, session = self.flow_state, self.session
        window, engine = session.window, session.engine
        count, first, number = len(payloads), session.next_delivery_id, self._next_tag
        unsettled = self.made
        in_use = unsettled and not unsettled.keys().isdisjoint(map(tag_of, range(number, number + count)))
        if settled != self._settled or in_use:
            super().send_run(payloads, waiters, settled=settled)
            return
        self._next_tag, session.next_delivery_id = number + count, first + count
        flow.delivery_count = flow.delivery_count + count & SERIAL_MASK
        flow.credit -= count
        window.next_outgoing_id = window.next_outgoing_id + count & SERIAL_MASK
        window.remote_incoming_window -= count
        if not settled:
            session.untracked.keep_run(self, payloads, waiters, first, number)
        frames: list[bytes] = [b""] * (2 * count)
        frames[::2] = self._template.heads(first, number, settled, payloads)
        frames[1::2] = payloads
        engine.output += frames
        engine.output_size += sum(map(len, frames))

    def send_more(self, delivery: OutgoingDelivery, payload: bytes, *, more: bool = False) -> None:
        if self._streaming is not delivery:
            raise LocalProtocolError("send_more is for the delivery begun last with more=True")
        if not self.attached:
            raise LocalProtocolError(f"the link {self._name!r} is not attached")
        streamed = self._streamed + len(payload)
        limit = self.remote.max_message_size  # type: ignore[union-attr]
        if limit is not None and streamed > limit:
            raise LocalProtocolError(
                f"the message has at least {streamed} bytes, more than the peer's max-message-size of {limit}"
            )
        self._streamed = streamed
        self._place.feed(payload)
        if not more:
            self._streaming = None
        part = OutgoingPart(self, delivery, payload, False, more, False)
        part.state = None if more else self._place.received
        self.session.transmit(part)
        if self.resumption is not None:
            self.resumption.pump()

    def _check_sendable(self, settled: bool) -> None:
        if not self.attached:
            raise LocalProtocolError(f"the link {self._name!r} is not attached")
        if self._streaming is not None:
            raise LocalProtocolError(
                "the delivery before is not complete: call send_more() to its end, or abort() it first"
            )
        if self.credit <= 0:
            raise LocalProtocolError(f"no credit on the link {self._name!r}")
        if settled and not self._may_settle:
            raise LocalProtocolError(
                "the link's settle mode is 'unsettled': send with settled=False, "
                'or make the sender with settle_mode="settled" or "mixed"'
            )
        if not settled and self._must_settle:
            raise LocalProtocolError("the link's settle mode is 'settled': send with settled=True")

    def write_frame_of(self, part: OutgoingPart) -> None:
        delivery, session, offset = part.delivery, self.session, part.offset
        if part.abort:
            part.done = True
            # With `more`, which counts for nothing beside `aborted` (§2.7.5): a peer that does not know the latter, as
            # RabbitMQ does not, would take what came so far for the whole message.
            if delivery.delivery_id is None:  # resumed only to be aborted
                number = session.new_delivery_id(delivery)
                frame = Transfer(handle=self.handle, delivery_id=number, delivery_tag=delivery.tag, resume=True)
            else:
                frame = Transfer(handle=self.handle, delivery_id=delivery.delivery_id)
            frame.more = frame.aborted = True
            self._write(frame, b"")
            return
        first = part.first and offset == 0
        chunk = self.frame_room
        # Whatever else is said in the first frame only, every frame says which transaction it is of (§4.4.1).
        state = delivery.state if first or type(delivery.state) is TransactionalState else None
        if part.resume:
            state = part.state if first else None
        generic = state is not None or (first and (part.batchable or part.resume))
        if generic:
            chunk -= GENERIC + (len(encode(state)) if state is not None else 0)
        left = len(part.payload) - offset
        size = min(left, chunk)
        part.done = size == left
        more = part.more or not part.done
        payload: bytes | memoryview = part.payload
        if size < len(payload):
            payload = memoryview(payload)[offset : offset + size]
        part.offset = offset + size
        if not first:
            if generic:
                self._write(Transfer(handle=self.handle, more=more, state=state), payload)
            else:
                session.engine.write(self._template.continuation(size, more))
                session.engine.write(payload)
        else:
            number = session.new_delivery_id(delivery)
            if not generic:
                session.engine.write(
                    self._template.head(
                        number, delivery.tag, delivery.local_settled, size, more, delivery.message_format
                    )
                )
                session.engine.write(payload)
            else:
                self._write(
                    Transfer(
                        handle=self.handle,
                        delivery_id=number,
                        delivery_tag=delivery.tag,
                        message_format=delivery.message_format,
                        settled=delivery.local_settled,
                        more=more,
                        state=state,
                        resume=part.resume,
                        batchable=part.batchable,
                    ),
                    payload,
                )
        delivery.on_wire = not more
        if part.state is not None and delivery.streamed and not more and delivery.state is None:
            delivery.state = part.state
        if not more and self._settled_half is not None and self._settled_half[0] is delivery:
            session.dispositions.dispose(False, delivery.delivery_id, True, self._settled_half[1])  # type: ignore[arg-type]
            self._settled_half = None
            session.dispositions.flush()  # before the next delivery, which may have its tag

    def _write(self, frame: Transfer, payload: bytes | memoryview) -> None:
        self.session.engine.write(encode_frame(self.session.channel, frame, payload))

    # Aborting (§2.6.14: "aborted deliveries are implicitly settled")

    def abort(self, delivery: OutgoingDelivery) -> None:
        session = self.session
        pending_parts = [part for part in session.pending_parts if part.delivery is delivery]
        if self.resumption is not None and self.resumption.abort(delivery):
            return
        if not self.attached or not (self._streaming is delivery or (pending_parts and not pending_parts[0].abort)):
            raise LocalProtocolError("only a delivery that was not yet sent completely can be aborted, and only once")
        if self._streaming is delivery:
            self._streaming = None
        if self._settled_half is not None and self._settled_half[0] is delivery:
            self._settled_half = None
        if not delivery.local_settled:  # else its tag may be another's by now
            self.drop(delivery)
        if delivery.delivery_id is None and not (pending_parts and pending_parts[0].resume):
            session.pending_parts = deque(part for part in session.pending_parts if part.delivery is not delivery)
            self.flow_state.unsent()
            if self.drain_owed:
                self.drained(self.flow_state.available)
            return
        last = OutgoingPart(self, delivery, b"", False, False, False)
        last.abort = True
        if pending_parts:  # in its own place: others of the link may wait behind it
            session.pending_parts[session.pending_parts.index(pending_parts[0])] = last
            session.pending_parts = deque(
                part for part in session.pending_parts if part is last or part.delivery is not delivery
            )
        else:
            session.transmit(last)
        if self.resumption is not None:
            self.resumption.pump()

    def abandon(self) -> None:
        session = self.session
        if self.resumption is not None:
            self.resumption.abandon()
        cut_off = [part for part in session.pending_parts if part.link is self]
        if self._streaming is not None:
            cut_off.append(OutgoingPart(self, self._streaming, b"", False, False, False))
        session.pending_parts = deque(part for part in session.pending_parts if part.link is not self)
        # Not settled by that: whoever owns them is to know that they never arrived. At most one is half on the wire;
        # where the window has no room to say that it is aborted, the detach says it.
        for part in cut_off:
            if part.delivery.delivery_id is not None and self.attached and session.sendable:
                part.abort = True
                session.transmit(part)
                break

    # Resuming (§2.6.13)

    def suspended(self) -> list[OutgoingDelivery]:
        return [
            delivery
            for delivery in self.unsettled.values()
            # Most have no state; the first line spares them two calls.
            if (delivery.on_wire and delivery.state is None and delivery.remote_state is None)
            or (
                not of_transaction(delivery.state, delivery.remote_state)
                and (delivery.handed_over or not delivery.streamed)
            )
        ]

    def new_resumption(self) -> OutgoingResumption:
        return OutgoingResumption(self)

    def end_resumption(self) -> None:
        self.resumption = None

    def become_incomplete(self) -> None:
        super().become_incomplete()
        self._settled = None

    @property
    def within_delivery(self) -> bool:
        return self._streaming is not None

    @property
    def state_room(self) -> int:
        return self._template.overhead + GENERIC + 1

    def spare_tag(self, tag: bytes) -> None:
        number = int.from_bytes(tag, "big")
        if len(tag) in (4, 8) and number < 1 << 63:
            self._next_tag = max(self._next_tag, number + 1)

    def resend(self, delivery: OutgoingDelivery) -> None:
        resumption = self.resumption
        ours = delivery.link is self and self.unsettled.get(delivery.tag) is delivery
        if not self.attached and not (ours and self.incomplete):
            raise LocalProtocolError(f"the link {self._name!r} is not attached")
        if delivery.streamed:
            raise LocalProtocolError("a message that was sent in parts cannot be sent again: its parts were not kept")
        waits = resumption is not None and resumption.waits(delivery)
        if delivery.local_settled or (ours and (waits or delivery.delivery_id is not None)):
            raise LocalProtocolError("only an unsettled delivery that is not being sent can be sent again")
        if self._must_settle:
            raise LocalProtocolError("the link's settle mode is 'settled': send with settled=True")
        if too_large(self, delivery.payload):
            raise LocalProtocolError(
                f"the message has {len(delivery.payload)} bytes, more than the peer's new max-message-size"
            )
        if self.unsettled.get(delivery.tag, delivery) is not delivery:
            delivery.tag = uuid4().bytes
        self._leave_attachment(delivery)
        if resumption is None:
            resumption = self.resumption = self.new_resumption()
        resumption.resend(delivery)

    def forget(self, delivery: OutgoingDelivery) -> None:
        self._leave_attachment(delivery)
        if self.resumption is not None:
            self.resumption.forget(delivery)
        if self.unsettled.get(delivery.tag) is delivery:
            self.drop(delivery)
        delivery.local_settled = True
        if self.resumption is not None:
            self.resumption.check_reduced()

    def _leave_attachment(self, delivery: OutgoingDelivery) -> None:
        """Ignore further dispositions for the delivery-id that a delivery had in an earlier attachment."""
        entry = earlier_entry(self, delivery)
        if entry is not None:
            table, number = entry
            table.pop(number, None)

    # Settling

    def settle(self, delivery: OutgoingDelivery, state: DeliveryState | None = None) -> None:
        if delivery.local_settled:
            return
        number = delivery.delivery_id
        over = self.gone if self.lingers else self.detach_sent
        if not delivery.remote_settled and number is not None and not over:
            if delivery.on_wire:
                self.session.dispositions.dispose(False, number, True, state)
            else:  # the receiver knows of it when it is whole
                self._settled_half = delivery, state
        if state is not None:
            delivery.state = state
        self.drop(delivery)
        if self.resumption is not None:
            self.resumption.check_reduced()

    def take_back(self, delivery: OutgoingDelivery) -> None:
        if self.attached and delivery.on_wire and not (delivery.local_settled or delivery.remote_settled):
            delivery.state = RELEASED
            self.session.dispositions.dispose(False, delivery.delivery_id, False, RELEASED)  # type: ignore[arg-type]

    def drop(self, delivery: OutgoingDelivery) -> None:
        delivery.local_settled = True
        self.made.pop(delivery.tag, None)  # a delivery that is an object is not untracked
        if delivery.delivery_id is not None:
            self.session.outgoing.pop(delivery.delivery_id, None)

    def receive_states(self, deliveries: Sequence[Any], state: DeliveryState | None, settled: bool) -> Sequence[Any]:
        if settled:
            unsettled = self.made
            outgoing = self.session.outgoing
            for delivery in deliveries:
                if state is not None:
                    delivery.remote_state = state
                delivery.remote_settled = delivery.local_settled = True
                unsettled.pop(delivery.tag, None)
                outgoing.pop(delivery.delivery_id, None)
            if self.resumption is not None:
                self.resumption.check_reduced()
        else:
            settle = self.auto_settle and isinstance(state, _FINAL_STATES)
            provisional = self.auto_settle and isinstance(state, TransactionalState) and state.outcome is not None
            for delivery in deliveries:
                delivery.remote_state = state
                # What was sent in a transaction has its outcome with that. The outcome that a transaction is to give
                # to anything else may come to nothing, and the delivery has to outlive it (§4.4.4.2).
                if settle or (provisional and type(delivery.state) is TransactionalState):
                    try:
                        self.settle(delivery, state)
                    except LocalProtocolError:  # the peer said more than it takes itself
                        self.settle(delivery)
        return deliveries

    # Flow

    def receive_flow(self, frame: Flow) -> None:
        self.check_errant("flow")
        if self.detach_sent:
            return
        if frame.link_credit is not None:
            self.flow_state.flow_received(frame.delivery_count, frame.link_credit, frame.drain)
        if self.resumption is not None:
            self.resumption.pump()
        self.properties = frame.properties or {}
        self.session.engine.emit(CreditChanged(self))
        if frame.echo and self.terms is not None:
            self.session.send_flow(self)

    def fill_flow(self, frame: Flow) -> None:
        flow = self.flow_state
        # Deliveries held back completely have used their credit here, but the receiver counts them only when they come.
        unbegun = self._unbegun
        frame.handle = self.handle
        frame.delivery_count = flow.delivery_count - unbegun & 0xFFFF_FFFF
        frame.link_credit = flow.credit + unbegun
        if self.count_waiting is not None:
            flow.available = min(self.count_waiting(), SERIAL_MASK)
        frame.available = flow.available
        frame.drain = flow.drain_requested

    @property
    def _unbegun(self) -> int:
        """The number of deliveries that the session holds back before their first frame."""
        return sum(
            part.link is self and part.delivery.delivery_id is None for part in self.session.pending_parts if part.first
        )

    def held_part_sent(self) -> None:
        if self.drain_owed:
            self.drained(self.flow_state.available)
        if self.resumption is not None:
            self.resumption.check_reduced()

    def drained(self, available: int = 0) -> None:
        self.flow_state.available = available
        if self.flow_state.drain and self.attached:
            self.drain_owed = self._unbegun > 0  # held deliveries go first; the session calls this again
            if self.drain_owed:
                return
            self.flow_state.drained()
            self.session.send_flow(self)

    def offer(self, available: int) -> None:
        if self.attached and self.flow_state.available != available:
            self.flow_state.available = available
            self.session.send_flow(self)

    def tell(self, properties: Mapping[Any, Any]) -> None:
        if self.attached:
            self.session.send_flow(self, properties=properties)

    def receive_transfer(self, frame: Transfer, payload: bytes | SplitPayload) -> None:
        raise SessionFault("amqp:not-allowed", f"a transfer on the link {self._name!r}, whose sender is this side")
