"""How a sending end resumes its deliveries: what is said of old ones, before anything newer (§2.6.13).

What is to be said is decided when the peer's attach is here (`unsettled_map.sender_step`), becomes an `OutgoingPart`,
and waits in line for credit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ....engine import DeliveriesUnresumed, OutcomesReceived, OutgoingDelivery
from ....errors import LocalProtocolError
from ....messaging import OUTCOMES, Received
from ..partial import OutgoingPart
from ..unsettled_map import ABSENT, Step, offset_of, sender_state, sender_step
from .link import Resumption

if TYPE_CHECKING:
    from ....messaging import DeliveryState
    from ..parents import SenderCore


class OutgoingResumption(Resumption):
    """The deliveries of earlier attachments that are resumed, sent again, or only settled."""

    link: SenderCore

    def __init__(self, link: SenderCore) -> None:
        super().__init__(link)
        # All deliveries until the peer's attach is here, then, where the link is incomplete, those that are resumed.
        self._taken: list[OutgoingDelivery] = []
        self._waiting: deque[OutgoingPart] = deque()  # to be resumed or sent again when there is credit

    def states_of(self, deliveries: Sequence[OutgoingDelivery]) -> Iterable[tuple[bytes, DeliveryState | None]]:
        # Of what never left the peer has nothing: it is not part of what is resumed.
        return ((delivery.tag, sender_state(delivery)) for delivery in deliveries if delivery.begun)

    def adopt(self, deliveries: Sequence[OutgoingDelivery]) -> None:
        for delivery in deliveries:
            self._adopt(delivery)
        self._taken = list(deliveries)

    def _adopt(self, delivery: OutgoingDelivery) -> None:
        delivery.past = delivery.past & 4 | (2 if delivery.handed_over else delivery.begun)
        delivery.link = self.link
        delivery.delivery_id = None
        delivery.on_wire = False
        self.link.unsettled[delivery.tag] = delivery
        # What is sent next may go out before the word that this one is settled.
        self.link.spare_tag(delivery.tag)

    def reconcile(self, theirs: Mapping[bytes, DeliveryState | None] | None) -> None:
        taken, self._taken = self._taken, []
        known: list[OutgoingDelivery] = []
        unresumed: list[OutgoingDelivery] = []
        self._report_settled(taken, theirs or {})
        for delivery in taken:
            if not delivery.local_settled:
                self._decide(delivery, theirs, known, unresumed)
        if known:
            self.link.session.engine.emit(OutcomesReceived(self.link, known))
        if unresumed:
            self.link.session.engine.emit(DeliveriesUnresumed(self.link, unresumed))
        self.pump()

    def _decide(
        self,
        delivery: OutgoingDelivery,
        theirs: Mapping[bytes, DeliveryState | None] | None,
        known: list[OutgoingDelivery],
        unresumed: list[OutgoingDelivery],
    ) -> None:
        """Take the step that `sender_step` says for one delivery."""
        link = self.link
        assert link.terms is not None
        assert link.remote is not None
        ours = sender_state(delivery)
        step = sender_step(
            ours,
            (theirs or {}).get(delivery.tag, ABSENT),
            handed_over=delivery.handed_over,
            streamed=delivery.streamed,
            second=theirs is not None
            and link.terms.receiver_settle_mode == link.remote.receiver_settle_mode == "second",
            incomplete=theirs is not None and link.remote.incomplete_unsettled,
        )
        state = (theirs or {}).get(delivery.tag)
        offset = offset_of(delivery.payload, state) if step is Step.CONTINUE and not delivery.streamed else 0
        if step is Step.CONTINUE and offset is None:  # more than there is
            step = Step.ABORT
        if step is Step.RESEND and too_large(link, delivery.payload):
            step = Step.UNKNOWN
        if step is Step.RESEND:
            self._send_again(delivery)
        elif step is Step.UNKNOWN:
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
            if not link.auto_settle:  # the owner settles it
                self._resume(delivery, b"", None)
                return
            self._note(delivery.tag, state=state)
            link.drop(delivery)
        elif step in (Step.FINISH, Step.CLOSE):
            delivery.remote_settled = delivery.on_wire = True
            known.append(delivery)
            if step is Step.CLOSE:
                self._note(delivery.tag, abort=True)
            if link.auto_settle:
                link.drop(delivery)

    def _send_again(self, delivery: OutgoingDelivery) -> None:
        """Send a delivery again as a new one: the receiver has nothing of it."""
        delivery.past = 0
        delivery.remote_state = None
        if not self.link.incomplete:  # else in the next attachment, where it is no part of the map
            self._waiting.append(OutgoingPart(self.link, delivery, delivery.payload, True, False, False))

    def _resume(self, delivery: OutgoingDelivery, payload: bytes, state: DeliveryState | None) -> None:
        part = OutgoingPart(self.link, delivery, payload, True, False, False)
        part.resume, part.state = True, state
        self._waiting.append(part)
        if self.link.incomplete:
            self._taken.append(delivery)

    def _note(self, tag: bytes, *, state: DeliveryState | None = None, abort: bool = False) -> None:
        """Queue a resumed transfer that only settles, with an outcome or by aborting."""
        settled = OutgoingDelivery(self.link, tag, b"", True)
        part = OutgoingPart(self.link, settled, b"", True, False, False)
        part.resume, part.abort = True, abort
        try:
            if state is not None:
                self.link.session.engine.check_state(state, self.link.state_room)
                part.state = state
        except LocalProtocolError:  # the peer says more than it takes itself
            pass
        self._waiting.append(part)

    def _report_settled(self, taken: list[OutgoingDelivery], theirs: Mapping[bytes, DeliveryState | None]) -> None:
        """Tell what the receiver cannot tell by our map: that we have settled what is in it, or what may be missing."""
        terms = self.link.terms
        assert terms is not None
        unsettled = {delivery.tag for delivery in taken if not delivery.local_settled}
        ours = terms.unsettled or {}
        for tag, state in theirs.items():
            if tag not in unsettled and (tag in ours or terms.incomplete_unsettled):
                self._note(tag, state=state, abort=not isinstance(state, OUTCOMES))

    def pump(self) -> None:
        """Send what waits, as far as there is credit."""
        link, waiting, flow = self.link, self._waiting, self.link.flow_state
        while waiting and flow.credit > 0 and link.attached and not link.within_delivery:
            flow.sent()
            link.session.transmit(waiting.popleft())
        if link.incomplete:
            self.check_reduced()
        elif not waiting:
            link.end_resumption()

    @property
    def reduced(self) -> bool:
        return not (
            self._waiting
            or any(not delivery.local_settled for delivery in self._taken)
            or any(part.link is self.link for part in self.link.session.pending_parts)
        )

    def waits(self, delivery: OutgoingDelivery) -> bool:
        """Return whether a delivery waits for credit to be resumed or sent again."""
        return any(part.delivery is delivery for part in self._waiting)

    def resend(self, delivery: OutgoingDelivery) -> None:
        """Send a delivery again that was not resumed, as a new one."""
        self.drop_numbers()
        self._adopt(delivery)
        self._send_again(delivery)
        self.pump()

    def forget(self, delivery: OutgoingDelivery) -> None:
        """Say nothing of a delivery that was not resumed."""
        self.drop_numbers()
        self._waiting = deque(part for part in self._waiting if part.delivery is not delivery)

    def abort(self, delivery: OutgoingDelivery) -> bool:
        """Abort a delivery that waits for credit to be resumed or sent again; return False if it does not wait."""
        part = next((part for part in self._waiting if part.delivery is delivery), None)
        if part is None:
            return False
        if part.resume:  # the receiver has a part of the delivery
            part.abort = True
        else:
            self._waiting.remove(part)
        self.link.drop(delivery)
        return True

    def abandon(self) -> None:
        """Say nothing more: the link is detached."""
        self._waiting.clear()


def too_large(link: SenderCore, payload: bytes) -> bool:
    """Return whether the peer takes no message of this size."""
    limit = link.remote.max_message_size if link.remote is not None else None
    return limit is not None and len(payload) > limit
