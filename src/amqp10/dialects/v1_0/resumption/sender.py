"""The sending end of a link that is resumed: what is said again of old deliveries, before anything newer (§2.6.13).

What is to be said is decided when the peer's attach is here (`unsettled_map.sender_step`), becomes an `OutgoingPart`,
and waits in line for credit.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ....engine import DeliveriesUnresumed, OutcomesReceived, OutgoingDelivery, SenderLink
from ....errors import LocalProtocolError
from ....messaging import OUTCOMES, Received
from ..credit import SenderCredit
from ..link import LinkEndpoint
from ..unsettled_map import ABSENT, Step, of_transaction, offset_of, sender_state, sender_step
from ..wire.frames import TransferTemplate

if TYPE_CHECKING:
    from ....messaging import DeliveryState
    from ..owners import SessionCore

# Bytes that a transfer with all its fields takes beyond the template: a list32, and five fields more.
GENERIC = 11


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
        self, link: ResumingSender, delivery: OutgoingDelivery, payload: bytes, first: bool, more: bool, batchable: bool
    ) -> None:
        self.link: ResumingSender = link
        self.delivery: OutgoingDelivery = delivery
        self.payload: bytes = payload
        self.offset: int = 0
        self.first: bool = first
        self.more: bool = more
        self.batchable: bool = batchable
        self.abort: bool = False
        self.done: bool = False
        self.resume: bool = False
        self.state: DeliveryState | None = None


class ResumingSender(LinkEndpoint, SenderLink):
    """The part of a sending end that resumes deliveries; `SenderEndpoint` completes it.

    Attributes:
        untracked: how many deliveries are unsettled that were not made into objects (`endpoints.untracked`).
        runs: the runs (`endpoints.untracked.UntrackedRun`) that these are in, the oldest first.
    """

    drain_owed = False

    def __init__(self, session: SessionCore, name: str) -> None:
        super().__init__(session, name)
        self.flow_state: SenderCredit = SenderCredit(0)
        self.untracked = 0
        self.runs: dict[Any, None] = {}
        self._unsettled: dict[bytes, OutgoingDelivery] = {}
        self.auto_settle = True
        self._next_tag = 0
        self._streaming: OutgoingDelivery | None = None
        # Of an earlier attachment: all of them until the peer's attach is here, then, where the link is incomplete,
        # those that are resumed.
        self._taken: list[OutgoingDelivery] = []
        self._waiting: deque[OutgoingPart] = deque()  # to be resumed or sent again when there is credit
        self._template = TransferTemplate(0, 0)
        self._must_settle = False
        self._settled: bool | None = False  # what the next delivery has to be; None where none may be sent

    @property
    def unsettled(self) -> dict[bytes, OutgoingDelivery]:  # type: ignore[override]
        if self.untracked:
            self.session.materialize_untracked()
        return self._unsettled

    @abstractmethod
    def write_frame_of(self, part: OutgoingPart) -> None:
        """Write the next frame of a part; the session has made sure of the window."""

    @abstractmethod
    def _forget(self, delivery: OutgoingDelivery) -> None:
        """Settle a delivery on this side."""

    def leave_tables(self, *, lingers: bool) -> None:
        deliveries = self.unsettled.values()  # this makes objects of those untracked, which the owner may still read
        if not lingers:
            self._leave(self.session.outgoing, deliveries)

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
        delivery.past = delivery.past & 4 | (2 if delivery.handed_over else delivery.begun)
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
            vars(self).update(
                receive_states=self.check_after(self.receive_states), settle=self.check_after(self.settle)
            )
        self._report_settled(taken, theirs or {})
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
                delivery.past = 1  # not streamed, and the receiver has not had it whole
            start = Received(state.section_number, state.section_offset) if isinstance(state, Received) else None
            self._resume(delivery, payload, start)
        elif step is Step.RESTATE:
            self._resume(delivery, b"", ours)
        elif step is Step.SETTLE:
            delivery.remote_state = state
            delivery.on_wire = True  # nothing of it is left to be sent
            known.append(delivery)
            if not self.auto_settle:  # the owner settles it
                self._resume(delivery, b"", None)
                return
            self._note(delivery.tag, state=state)
            self._forget(delivery)
        elif step in (Step.FINISH, Step.CLOSE):
            delivery.remote_settled = delivery.on_wire = True
            known.append(delivery)
            if step is Step.CLOSE:
                self._note(delivery.tag, abort=True)
            if self.auto_settle:
                self._forget(delivery)

    def _send_again(self, delivery: OutgoingDelivery) -> None:
        """Send a delivery again as a new one: the receiver has nothing of it."""
        delivery.past = 0
        delivery.remote_state = None
        if not self.incomplete:  # else in the next attachment, where it is no part of the map
            self._waiting.append(OutgoingPart(self, delivery, delivery.payload, True, False, False))

    def _resume(self, delivery: OutgoingDelivery, payload: bytes, state: DeliveryState | None) -> None:
        part = OutgoingPart(self, delivery, payload, True, False, False)
        part.resume, part.state = True, state
        self._waiting.append(part)
        if self.incomplete:
            self._taken.append(delivery)

    def _note(self, tag: bytes, *, state: DeliveryState | None = None, abort: bool = False) -> None:
        """Queue a resumed transfer that only settles, with an outcome or by aborting."""
        part = OutgoingPart(self, OutgoingDelivery(self, tag, b"", True), b"", True, False, False)
        part.resume, part.abort = True, abort
        try:
            if state is not None:
                self.session.engine.check_state(state, self._template.overhead + GENERIC + 1)
                part.state = state
        except LocalProtocolError:  # the peer says more than it takes itself
            pass
        self._waiting.append(part)

    def _report_settled(self, taken: list[OutgoingDelivery], theirs: Mapping[bytes, DeliveryState | None]) -> None:
        """Tell what the receiver cannot tell by our map: that we have settled what is in it, or what may be missing."""
        assert self.terms is not None
        unsettled = {delivery.tag for delivery in taken if not delivery.local_settled}
        ours = self.terms.unsettled or {}
        for tag, state in theirs.items():
            if tag not in unsettled and (tag in ours or self.terms.incomplete_unsettled):
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
            or any(not delivery.local_settled for delivery in self._taken)
            or any(part.link is self for part in self.session.pending_parts)
        )

    def resend(self, delivery: OutgoingDelivery) -> None:
        ours = delivery.link is self and self.unsettled.get(delivery.tag) is delivery
        if not self.attached and not (ours and self.incomplete):
            raise LocalProtocolError(f"the link {self._name!r} is not attached")
        if delivery.streamed:
            raise LocalProtocolError("a message that was sent in parts cannot be sent again: its parts were not kept")
        under_way = ours and (
            delivery.delivery_id is not None or any(part.delivery is delivery for part in self._waiting)
        )
        if delivery.local_settled or under_way:
            raise LocalProtocolError("only an unsettled delivery that is not being sent can be sent again")
        if self._must_settle:
            raise LocalProtocolError("the link's settle mode is 'settled': send with settled=True")
        if self._too_large(delivery.payload):
            raise LocalProtocolError(
                f"the message has {len(delivery.payload)} bytes, more than the peer's new max-message-size"
            )
        if self.unsettled.get(delivery.tag, delivery) is not delivery:
            delivery.tag = uuid4().bytes
        self._take_over(delivery)
        self._drop_numbers()
        self._adopt(delivery)
        self._send_again(delivery)
        self._pump()

    def forget(self, delivery: OutgoingDelivery) -> None:
        self._take_over(delivery)
        self._drop_numbers()
        self._waiting = deque(part for part in self._waiting if part.delivery is not delivery)
        if self.unsettled.get(delivery.tag) is delivery:
            self._forget(delivery)
        delivery.local_settled = True
        if self.incomplete:
            self.check_reduced()

    def _too_large(self, payload: bytes) -> bool:
        limit = self.remote.max_message_size if self.remote is not None else None
        return limit is not None and len(payload) > limit

    def _abort_waiting(self, delivery: OutgoingDelivery) -> bool:
        """Abort a delivery that waits for credit to be resumed or sent again; return False if it does not wait."""
        part = next((part for part in self._waiting if part.delivery is delivery), None)
        if part is None:
            return False
        if part.resume:  # the receiver has a part of the delivery
            part.abort = True
        else:
            self._waiting.remove(part)
        self._forget(delivery)
        return True
