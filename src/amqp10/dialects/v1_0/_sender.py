"""The sending end of a link: credit, and messages cut into transfer frames (§2.6.7, §2.6.12, §2.6.14, §2.7.5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ...engine import CreditChanged, DeliveriesUnresumed, OutcomesReceived, OutgoingDelivery, SenderLink
from ...errors import LocalProtocolError
from ...messaging import Accepted, Declared, Modified, Received, Rejected, Released, TransactionalState
from ...types import encode
from ._credit import SenderCredit
from ._frames import TransferTemplate, encode_frame
from ._link import LinkEndpoint, SessionFault
from ._performatives import Flow, Transfer
from ._resume import ABSENT, Place, Step, of_transaction, offset_of, sender_state, sender_step

if TYPE_CHECKING:
    from ...messaging import DeliveryState
    from ._session import SessionEndpoint

# Bytes that a transfer with all its fields takes beyond the template: a list32, and five fields more.
GENERIC = 11
OUTCOMES = (Accepted, Rejected, Released, Modified, Declared)


class OutgoingPart:
    """Payload of one delivery that is to be cut into frames: the whole of it, or a portion of a streamed one.

    `resume`: it is that of a resumed delivery, from `state` on, or with it as the outcome (§2.6.13).
    """

    __slots__ = (
        "abort",
        "batchable",
        "delivery",
        "done",
        "first",
        "link",
        "more",
        "offset",
        "payload",
        "resume",
        "state",
    )

    def __init__(
        self, link: SenderEndpoint, delivery: OutgoingDelivery, payload: bytes, first: bool, more: bool, batchable: bool
    ) -> None:
        self.link = link
        self.delivery = delivery
        self.payload = payload
        self.offset = 0
        self.first = first
        self.more = more
        self.batchable = batchable
        self.abort = False
        self.done = False
        self.resume = False
        self.state: DeliveryState | None = None


class SenderEndpoint(LinkEndpoint, SenderLink):
    """See `SenderLink` for the contract."""

    is_sender = True

    def __init__(self, session: SessionEndpoint, name: str) -> None:
        super().__init__(session, name)
        self.flow_state = SenderCredit(0)
        self.unsettled: dict[bytes, OutgoingDelivery] = {}
        self.auto_settle = True
        self.delivery_type = OutgoingDelivery
        self._next_tag = 0
        self._streaming: OutgoingDelivery | None = None
        self._streamed = 0  # bytes of it
        self._place = Place()  # where it has got to
        self._taken: list[OutgoingDelivery] = []  # of an earlier attachment, until the peer's attach is here
        self._waiting: deque[OutgoingPart] = deque()  # to be resumed or sent again when there is credit
        self._reducing: list[OutgoingDelivery] = []  # on an incomplete link: what was resumed
        self.drain_owed = False
        self._settled_half: tuple[OutgoingDelivery, DeliveryState | None] | None = None
        self._template = TransferTemplate(0, 0)
        self.frame_room = 0
        self._may_settle = self._must_settle = False
        self._settled: bool | None = False  # what the next delivery has to be; None where none may be sent

    @property
    def credit(self) -> int:  # type: ignore[override]
        return 0 if self.incomplete else self.flow_state.credit

    @property
    def drain(self) -> bool:  # type: ignore[override]
        return self.flow_state.drain

    @property
    def settled_by_sender(self) -> bool:
        return self._must_settle

    def begin_counting(self) -> None:
        if self.terms is None:
            return
        if self.session.channel >= 0 and (self.remote is None or self.state.name == "ATTACHED"):
            self._template = TransferTemplate(self.session.channel, self.handle)
        if self.flow_state.delivery_count == 0 and not self.unsettled:
            # Credit may have come before our attach: a receiver pipelines its flow.
            told, self.flow_state = self.flow_state, SenderCredit(self.terms.initial_delivery_count)
            self.flow_state.credit, self.flow_state.drain = told.credit, told.drain
        # The sender's own word on settling is the one in force (§2.7.3).
        self._must_settle = self.terms.settle_mode == "settled"
        self._settled = self._must_settle
        self._may_settle = self.terms.settle_mode != "unsettled"
        remote = self.session.engine.remote
        if remote is not None:
            self.frame_room = remote.max_frame_size - self._template.overhead

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
            raise LocalProtocolError(f"a message of {len(payload)} bytes; the peer takes {limit} (max-message-size)")
        unsettled = self.unsettled
        if tag is None:
            number = self._next_tag
            tag = number.to_bytes(4 if number < 0x1_0000_0000 else 8, "big")
            while tag in unsettled:  # of an earlier attachment, or the owner made one like it
                number += 1
                tag = number.to_bytes(4 if number < 0x1_0000_0000 else 8, "big")
            self._next_tag = number + 1
        elif len(tag) > 32:
            raise LocalProtocolError(f"a delivery-tag of {len(tag)} bytes; 32 at most")
        elif tag in unsettled:
            raise LocalProtocolError(f"the delivery-tag {tag!r} is in use by an unsettled delivery")
        else:
            session.flush()  # of the delivery before with this tag, which the receiver is to have first
        if state is not None:
            session.engine.check_state(state, self._template.overhead + GENERIC + 1)
        delivery = self.delivery_type(self, tag, payload, settled, message_format)
        flow.sent()
        if not settled:
            unsettled[tag] = delivery
        window = session.window
        if (
            window.remote_incoming_window > 0
            and len(payload) <= self.frame_room
            and state is None
            and not (more or batchable or session.held)
        ):
            # The path of nearly every message: one frame, from the template. benchmarks/run.py, "send".
            head = self._template.head(
                session.new_delivery_id(delivery), tag, settled, len(payload), False, message_format
            )
            window.sent()
            engine = session.engine
            engine.output.append(head)
            engine.output.append(payload)
            engine.output_size += len(head) + len(payload)
            delivery.on_wire = True
            return delivery
        delivery.state = state
        if more:
            self._streaming = delivery
            self._streamed = len(payload)
            delivery.streamed = True
            self._place = Place()
            self._place.feed(payload)
        session.transmit(OutgoingPart(self, delivery, payload, True, more, batchable))
        return delivery

    def send_more(self, delivery: OutgoingDelivery, payload: bytes, *, more: bool = False) -> None:
        if self._streaming is not delivery:
            raise LocalProtocolError("send_more is for the delivery begun last with more=True")
        if not self.attached:
            raise LocalProtocolError(f"the link {self._name!r} is not attached")
        self._streamed += len(payload)
        limit = self.remote.max_message_size  # type: ignore[union-attr]
        if limit is not None and self._streamed > limit:
            self._streamed -= len(payload)
            raise LocalProtocolError(
                f"a message of more than {self._streamed} bytes; the peer takes {limit} (max-message-size)"
            )
        self._place.feed(payload)
        if not more:
            self._streaming = None
        part = OutgoingPart(self, delivery, payload, False, more, False)
        part.state = None if more else self._place.received
        self.session.transmit(part)
        if self._waiting:
            self._pump()

    def _check_sendable(self, settled: bool) -> None:
        if not self.attached:
            raise LocalProtocolError(f"the link {self._name!r} is not attached")
        if self._streaming is not None:
            raise LocalProtocolError("the delivery before is not complete: send_more or abort it first")
        if self.credit <= 0:
            raise LocalProtocolError(f"no credit on the link {self._name!r}")
        if settled and not self._may_settle:
            raise LocalProtocolError("a settled delivery on a link whose settle mode is 'unsettled'")
        if not settled and self._must_settle:
            raise LocalProtocolError("an unsettled delivery on a link whose settle mode is 'settled'")

    def write_frame_of(self, part: OutgoingPart) -> None:
        """Write the next frame of a part; the session has made sure of the window."""
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
        payload = part.payload if size == len(part.payload) else part.payload[offset : offset + size]
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
        if delivery.streamed and not more and delivery.state is None:
            delivery.state = part.state
        if not more and self._settled_half is not None and self._settled_half[0] is delivery:
            session.dispose(False, delivery.delivery_id, True, self._settled_half[1])  # type: ignore[arg-type]
            self._settled_half = None
            session.flush()  # before the next delivery, which may have its tag

    def _write(self, frame: Transfer, payload: bytes) -> None:
        self.session.engine.write(encode_frame(self.session.channel, frame, payload))

    # Aborting (§2.6.14: "aborted deliveries are implicitly settled")

    def abort(self, delivery: OutgoingDelivery) -> None:
        session = self.session
        held = [part for part in session.held if part.delivery is delivery]
        if self._abort_waiting(delivery):
            return
        if not self.attached or not (self._streaming is delivery or (held and not held[0].abort)):
            raise LocalProtocolError("only a delivery that is not whole on the wire can be aborted, and only once")
        if self._streaming is delivery:
            self._streaming = None
        if self._settled_half is not None and self._settled_half[0] is delivery:
            self._settled_half = None
        if not delivery.local_settled:  # else its tag may be another's by now
            self._forget(delivery)
        if delivery.delivery_id is None and not (held and held[0].resume):
            session.held = deque(part for part in session.held if part.delivery is not delivery)
            self.flow_state.unsent()
            if self.drain_owed:
                self.drained(self.flow_state.available)
            return
        last = OutgoingPart(self, delivery, b"", False, False, False)
        last.abort = True
        if held:  # in its own place: others of the link may wait behind it
            session.held[session.held.index(held[0])] = last
            session.held = deque(part for part in session.held if part is last or part.delivery is not delivery)
        else:
            session.transmit(last)
        if self._waiting:
            self._pump()

    def _abort_waiting(self, delivery: OutgoingDelivery) -> bool:
        """Abort a delivery that is to be resumed or sent again, and waits for credit; False if it is none."""
        part = next((part for part in self._waiting if part.delivery is delivery), None)
        if part is None:
            return False
        if part.resume:  # the receiver has something of it
            part.abort = True
        else:
            self._waiting.remove(part)
        self._forget(delivery)
        return True

    def abandon(self) -> None:
        session = self.session
        self._waiting.clear()
        cut_off = [part for part in session.held if part.link is self]
        if self._streaming is not None:
            cut_off.append(OutgoingPart(self, self._streaming, b"", False, False, False))
            self._streaming = None
        session.held = deque(part for part in session.held if part.link is not self)
        # Not settled by that: whoever owns them is to know that they never arrived. At most one is half on the wire;
        # where the window has no room to say that it is aborted, the detach says it.
        for part in cut_off:
            if part.delivery.delivery_id is not None and self.attached and session.sendable:
                part.abort = True
                session.transmit(part)
                break

    # Resuming (§2.6.13): what is to be said of old deliveries waits in line for credit, before anything newer.

    def suspended(self) -> list[OutgoingDelivery]:
        return [
            delivery
            for delivery in self.unsettled.values()
            if not of_transaction(delivery.state, delivery.remote_state)
            and (delivery.handed_over or not delivery.streamed)
        ]

    def states_of(self, deliveries: Sequence[Any]) -> Iterable[tuple[bytes, DeliveryState | None]]:
        # Of what never left the peer has nothing: it is not part of what is resumed.
        return ((delivery.tag, sender_state(delivery)) for delivery in deliveries if delivery.begun)

    def adopt(self, deliveries: Sequence[OutgoingDelivery]) -> None:
        for delivery in deliveries:
            self._adopt(delivery)
        self._taken = list(deliveries)

    def _adopt(self, delivery: OutgoingDelivery) -> None:
        delivery.past = 2 if delivery.handed_over else 1 if delivery.begun else 0
        delivery.link = self
        delivery.delivery_id = None
        delivery.on_wire = False
        self.unsettled[delivery.tag] = delivery
        number = int.from_bytes(delivery.tag, "big")
        if len(delivery.tag) in (4, 8) and number < 1 << 63:
            # Its tag is not made again: what is sent next may go out before the word that this one is settled.
            self._next_tag = max(self._next_tag, number + 1)

    def reconcile(self, theirs: Mapping[bytes, DeliveryState | None] | None) -> None:
        taken, self._taken = self._taken, []
        known: list[OutgoingDelivery] = []
        unresumed: list[OutgoingDelivery] = []
        if self.incomplete:
            self._settled = None
            self.receive_states = self.looking(self.receive_states)  # type: ignore[method-assign]
            self.settle = self.looking(self.settle)  # type: ignore[method-assign]
        self._tell_settled(taken, theirs or {})
        for delivery in taken:
            if not delivery.local_settled:
                self._decide(delivery, theirs, known, unresumed)
        if known:
            self.session.engine.emit(OutcomesReceived(self, known))
        if unresumed:
            self.session.engine.emit(DeliveriesUnresumed(self, unresumed))
        self._pump()

    def _decide(
        self,
        delivery: OutgoingDelivery,
        theirs: Mapping[bytes, DeliveryState | None] | None,
        known: list[OutgoingDelivery],
        unresumed: list[OutgoingDelivery],
    ) -> None:
        """Take the step that `sender_step` says for one delivery."""
        assert self.terms is not None
        assert self.remote is not None
        ours = sender_state(delivery)
        step = sender_step(
            ours,
            (theirs or {}).get(delivery.tag, ABSENT),
            handed_over=delivery.handed_over,
            streamed=delivery.streamed,
            second=theirs is not None
            and self.terms.receiver_settle_mode == self.remote.receiver_settle_mode == "second",
            incomplete=theirs is not None and self.remote.incomplete_unsettled,
        )
        state = (theirs or {}).get(delivery.tag)
        offset = offset_of(delivery.payload, state) if step is Step.CONTINUE and not delivery.streamed else 0
        if step is Step.CONTINUE and offset is None:  # more than there is
            step = Step.ABORT
        if step is Step.RESEND and self._too_large(delivery.payload):
            step = Step.ASK
        if step is Step.RESEND:
            self._send_again(delivery)
        elif step is Step.ASK:
            unresumed.append(delivery)
        elif step is Step.ABORT:
            self._note(delivery.tag, abort=True)
            unresumed.append(delivery)
        elif step is Step.CONTINUE:
            payload = b"" if delivery.streamed else delivery.payload[offset:]
            if payload:
                delivery.past = 1  # the receiver has not had it whole
            start = Received(state.section_number, state.section_offset) if isinstance(state, Received) else None
            self._resume(delivery, payload, start)
        elif step is Step.RESTATE:
            self._resume(delivery, b"", ours)
        elif step is Step.SETTLE:
            delivery.remote_state = state
            known.append(delivery)
            if not self.auto_settle:  # the owner settles it
                self._resume(delivery, b"", None)
                return
            self._note(delivery.tag, state=state)
            self._forget(delivery)
        elif step in (Step.FINISH, Step.CLOSE):
            delivery.remote_settled = True
            known.append(delivery)
            if step is Step.CLOSE:
                self._note(delivery.tag, abort=True)
            if self.auto_settle:
                self._forget(delivery)

    def _send_again(self, delivery: OutgoingDelivery) -> None:
        """As a new delivery: the receiver has nothing of it."""
        delivery.past = 0
        delivery.remote_state = None
        if not self.incomplete:  # else in the next attachment, where it is no part of the map
            self._waiting.append(OutgoingPart(self, delivery, delivery.payload, True, False, False))

    def _resume(self, delivery: OutgoingDelivery, payload: bytes, state: DeliveryState | None) -> None:
        part = OutgoingPart(self, delivery, payload, True, False, False)
        part.resume, part.state = True, state
        self._waiting.append(part)
        if self.incomplete:
            self._reducing.append(delivery)

    def _note(self, tag: bytes, *, state: DeliveryState | None = None, abort: bool = False) -> None:
        """A resumed transfer that only settles, with an outcome or by aborting."""
        part = OutgoingPart(self, OutgoingDelivery(self, tag, b"", True), b"", True, False, False)
        part.resume, part.abort = True, abort
        try:
            if state is not None:
                self.session.engine.check_state(state, self._template.overhead + GENERIC + 1)
                part.state = state
        except LocalProtocolError:  # the peer says more than it takes itself
            pass
        self._waiting.append(part)

    def _tell_settled(self, taken: list[OutgoingDelivery], theirs: Mapping[bytes, DeliveryState | None]) -> None:
        """Tell what the receiver cannot tell by our map: that we have settled what is in it, or what may be missing."""
        assert self.terms is not None
        unsettled = {delivery.tag for delivery in taken if not delivery.local_settled}
        said = self.terms.unsettled or {}
        for tag, state in theirs.items():
            if tag not in unsettled and (tag in said or self.terms.incomplete_unsettled):
                self._note(tag, state=state, abort=not isinstance(state, OUTCOMES))

    def _pump(self) -> None:
        """Send what waits, as far as there is credit."""
        waiting, flow = self._waiting, self.flow_state
        while waiting and flow.credit > 0 and self.attached and self._streaming is None:
            flow.sent()
            self.session.transmit(waiting.popleft())
        if self.incomplete:
            self.check_reduced()

    @property
    def reduced(self) -> bool:
        return not (
            self._waiting
            or any(not delivery.local_settled for delivery in self._reducing)
            or any(part.link is self for part in self.session.held)
        )

    def resend(self, delivery: OutgoingDelivery) -> None:
        ours = delivery.link is self and self.unsettled.get(delivery.tag) is delivery
        if not self.attached and not (ours and self.incomplete):
            raise LocalProtocolError(f"the link {self._name!r} is not attached")
        if delivery.streamed:
            raise LocalProtocolError("what was sent in parts cannot be sent again")
        under_way = ours and (
            delivery.delivery_id is not None or any(part.delivery is delivery for part in self._waiting)
        )
        if delivery.local_settled or under_way:
            raise LocalProtocolError("only a delivery that is not settled and not under way can be sent again")
        if self._must_settle:
            raise LocalProtocolError("an unsettled delivery on a link whose settle mode is 'settled'")
        if self._too_large(delivery.payload):
            raise LocalProtocolError(f"a message of {len(delivery.payload)} bytes is more than the peer takes now")
        if self.unsettled.get(delivery.tag, delivery) is not delivery:
            delivery.tag = uuid4().bytes
        self._adopt(delivery)
        self._send_again(delivery)
        self._pump()

    def forget(self, delivery: OutgoingDelivery) -> None:
        self._waiting = deque(part for part in self._waiting if part.delivery is not delivery)
        if self.unsettled.get(delivery.tag) is delivery:
            self._forget(delivery)
        delivery.local_settled = True
        if self.incomplete:
            self.check_reduced()

    def _too_large(self, payload: bytes) -> bool:
        limit = self.remote.max_message_size if self.remote is not None else None
        return limit is not None and len(payload) > limit

    # Settling

    def settle(self, delivery: OutgoingDelivery, state: DeliveryState | None = None) -> None:
        if delivery.local_settled:
            return
        number = delivery.delivery_id
        if not delivery.remote_settled and number is not None and not self.detach_sent and not self._ended:
            if delivery.on_wire:
                self.session.dispose(False, number, True, state)
            else:  # the receiver knows of it when it is whole
                self._settled_half = delivery, state
        if state is not None:
            delivery.state = state
        self._forget(delivery)

    def _forget(self, delivery: OutgoingDelivery) -> None:
        delivery.local_settled = True
        self.unsettled.pop(delivery.tag, None)
        if delivery.delivery_id is not None:
            self.session.outgoing.pop(delivery.delivery_id, None)

    def receive_states(self, deliveries: Sequence[Any], state: DeliveryState | None, settled: bool) -> Sequence[Any]:
        if settled:
            unsettled, outgoing = self.unsettled, self.session.outgoing
            for delivery in deliveries:
                if state is not None:
                    delivery.remote_state = state
                delivery.remote_settled = delivery.local_settled = True
                unsettled.pop(delivery.tag, None)
                outgoing.pop(delivery.delivery_id, None)
        else:
            settle = self.auto_settle and isinstance(state, OUTCOMES)
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
        if self._waiting:
            self._pump()
        self.properties = frame.properties or {}
        self.session.engine.emit(CreditChanged(self))
        if frame.echo and self.terms is not None:
            self.session.send_flow(self)

    def fill_flow(self, frame: Flow) -> None:
        flow = self.flow_state
        # Those that are held back whole have used their credit here, but the receiver is to count them when they come.
        unbegun = self._unbegun
        frame.handle = self.handle
        frame.delivery_count = flow.delivery_count - unbegun & 0xFFFF_FFFF
        frame.link_credit = flow.credit + unbegun
        frame.available = flow.available
        frame.drain = flow.drain

    @property
    def _unbegun(self) -> int:
        """Deliveries that the session holds back, and of which no frame is out."""
        return sum(part.link is self and part.delivery.delivery_id is None for part in self.session.held if part.first)

    def drained(self, available: int = 0) -> None:
        self.flow_state.available = available
        if self.flow_state.drain and self.attached:
            self.drain_owed = self._unbegun > 0  # they go first; the session comes back to this
            if self.drain_owed:
                return
            self.flow_state.drained()
            self.session.send_flow(self)
            self.flow_state.drain = False

    def offer(self, available: int) -> None:
        if self.attached and self.flow_state.available != available:
            self.flow_state.available = available
            self.session.send_flow(self)

    def receive_transfer(self, frame: Transfer, payload: bytes) -> None:
        raise SessionFault("amqp:not-allowed", f"a transfer on the link {self._name!r}, whose sender is this side")
