"""The receiving end of a link that is resumed: its deliveries are kept, continued where cut off, or end (§2.6.13)."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ....engine import (
    DeliveriesResumed,
    DeliveriesUnresumed,
    IncomingDelivery,
    IncomingStream,
    PartsReceived,
    SettlementsReceived,
)
from ....errors import LocalProtocolError
from ....messaging import OUTCOMES, Received
from ....messaging.payloads import LARGE, SplitPayload
from ..._kit.lazy_deliveries import LazyReceiver
from ..credit import ReceiverCredit
from ..link import LinkEndpoint
from ..unsettled_map import of_transaction, offset_of, plain, reach, receiver_state
from ..wire.performatives import Transfer

if TYPE_CHECKING:
    from ....messaging import DeliveryState
    from ..owners import SessionCore


PART_WEIGHT: Final = 64
"""The overhead, in octets, of holding a frame's payload."""


class PartialDelivery:
    """The frames received so far of an incomplete delivery.

    `resumed` is the delivery of an earlier attachment that this one continues; None without one, or if it is unknown.
    """

    __slots__ = ("first", "link", "parts", "resumed", "settled", "size", "state")

    def __init__(self, link: LinkEndpoint, first: Transfer) -> None:
        self.link: LinkEndpoint = link
        self.first: Transfer = first
        self.parts: list[bytes | memoryview] = []
        self.size: int = 0
        self.settled: bool = False
        self.state: DeliveryState | None = None
        self.resumed: IncomingDelivery | None = None

    @property
    def weight(self) -> int:
        """Roughly the octets of memory in use: for small frames that is more than their payload."""
        return self.size + PART_WEIGHT * len(self.parts)

    def payload(self) -> bytes | SplitPayload:
        """Return the whole payload; a large one stays in the buffers it was received in."""
        return SplitPayload(self.parts) if self.size >= LARGE else b"".join(self.parts)


class ResumingReceiver(LinkEndpoint, LazyReceiver):
    """The part of a receiving end that resumes deliveries; `ReceiverEndpoint` completes it."""

    session: SessionCore

    def __init__(self, session: SessionCore, name: str) -> None:
        LinkEndpoint.__init__(self, session, name)
        LazyReceiver.__init__(self)
        self.flow_state: ReceiverCredit = ReceiverCredit(None)
        self.delivery_type = IncomingDelivery
        self._partial: PartialDelivery | None = None
        self._weight = 0  # of that
        self._coming: IncomingDelivery | None = None  # the streamed delivery whose last frame is to come
        self._draining = False
        self._second = False
        self._streaming = False
        self._settle_first: set[int] = set()  # deliveries whose own rcv-settle-mode is "first" on a "second" link
        self._unread = 0  # transfers that wait to be read, and keep their places in the session's window
        # Deliveries of an earlier attachment that the sender has yet to resume, and how to settle them then.
        self._resuming: dict[bytes, IncomingDelivery] = {}
        self._settled_early: dict[bytes, bool | None] = {}

    @abstractmethod
    def _report_flow(self, used_up: bool, wasted: int = 0) -> None:
        """Tell the owner that credit may have changed."""

    @abstractmethod
    def _overrun(self) -> None:
        """Fail the link, because a delivery came without credit."""

    @abstractmethod
    def _receive_part(self, frame: Transfer, payload: bytes | SplitPayload) -> None:
        """Receive a transfer of a delivery that has several, or that is resumed."""

    @abstractmethod
    def _settled_by_sender(self, delivery: IncomingDelivery, *, reported: bool = True) -> None:
        """Settle a delivery that the sender settled by a transfer. `reported`: the owner knows the delivery."""

    def _keep_part(self, partial: PartialDelivery | None) -> bool:
        """Keep `partial`, the frames of an incomplete delivery; None: the delivery is over.

        Returns:
            Whether the owner has room for them.
        """
        weight = partial.weight if partial is not None else 0
        fits = self.session.engine.count_partial(weight - self._weight)
        if partial is not self._partial:
            parts: dict[int | None, PartialDelivery] = self.session.parts
            if self._partial is not None:
                parts.pop(self._partial.first.delivery_id, None)
            if partial is not None and partial.first.delivery_id is not None:
                parts[partial.first.delivery_id] = partial
        self._partial, self._weight = partial, weight
        return fits

    def leave_tables(self, *, lingers: bool) -> None:
        if self._partial is not None and self._partial.first.delivery_id is not None:
            self.session.parts.pop(self._partial.first.delivery_id, None)
        if not lingers:
            self._leave(self.session.incoming, self.unsettled.values())

    def suspended(self) -> list[IncomingDelivery]:
        deliveries = [each for each in self.unsettled.values() if not of_transaction(each.state, each.remote_state)]
        partial = self._partial
        if partial is None or partial.settled or of_transaction(partial.state):
            return deliveries
        if partial.resumed is not None:
            if self._in_part(partial.resumed):
                partial.resumed.stream.parts = deque(map(bytes, partial.parts))
        elif not partial.first.resume and partial.first.delivery_tag is not None:
            cut_off = self.delivery_type(self, partial.first.delivery_id or 0, partial.first.delivery_tag, b"", False)
            cut_off.message_format = partial.first.message_format or 0
            cut_off.stream = IncomingStream()
            cut_off.stream.parts.extend(map(bytes, partial.parts))
            deliveries.append(cut_off)
        return deliveries

    def _in_part(self, delivery: IncomingDelivery) -> bool:
        """Return whether `delivery` is incomplete and the link does not stream, so that the owner has yet to see it."""
        return not self._streaming and getattr(delivery, "stream", None) is not None

    def states_of(self, deliveries: Sequence[Any]) -> Iterable[tuple[bytes, DeliveryState | None]]:
        return ((delivery.tag, receiver_state(delivery)) for delivery in deliveries)

    def adopt(self, deliveries: Sequence[IncomingDelivery]) -> None:
        for delivery in deliveries:
            delivery.link = self
            delivery.delivery_id = None
            self.unsettled[delivery.tag] = self._resuming[delivery.tag] = delivery
            if self._streaming:
                self._hold_again(delivery)

    def reconcile(self, theirs: Mapping[bytes, DeliveryState | None] | None) -> None:
        assert self.remote is not None
        if self.incomplete:
            vars(self).update(
                receive_states=self.check_after(self.receive_states),
                settle=self.check_after(self.settle),
                settle_like_last=lambda *_: False,  # a settlement by it would not be checked
            )
        if theirs is not None and self.remote.incomplete_unsettled:
            return
        # Deliveries missing in the sender's map: it has settled them, or lost them with the rest of the link.
        gone = [delivery for tag, delivery in self._resuming.items() if theirs is None or tag not in theirs]
        for delivery in gone:
            self._lose(delivery)
            if theirs is not None:
                delivery.remote_settled = delivery.local_settled = True
        reported = [delivery for delivery in gone if not self._in_part(delivery)]
        if reported:
            event = DeliveriesUnresumed if theirs is None else SettlementsReceived
            self.session.engine.emit(event(self, reported))

    def _lose(self, delivery: IncomingDelivery) -> None:
        """Drop a delivery that was to be resumed: it is neither received further nor settled on the wire."""
        self._resuming.pop(delivery.tag, None)
        self._settled_early.pop(delivery.tag, None)
        if self.unsettled.get(delivery.tag) is delivery:
            del self.unsettled[delivery.tag]
        if self._streaming and not delivery.stream.whole:
            delivery.stream.aborted = True
            self.discard(delivery)
            self.session.engine.emit(PartsReceived(delivery))

    @property
    def reduced(self) -> bool:
        ours = (self.terms.unsettled if self.terms is not None else None) or {}
        return not any(tag in ours for tag in (*self._resuming, *self.unsettled))

    def _continue(self, partial: PartialDelivery) -> bool:
        """Find the part that is here of a delivery that a transfer resumes; return False if that failed the link.

        For a delivery that is unknown here: "If the sending application marks the resend attempt as a resumed delivery
        then it MUST be ignored".
        """
        first = partial.first
        if first.delivery_id is None or first.delivery_tag is None:
            self.fail("amqp:invalid-field", "the first transfer of a delivery without delivery-id or delivery-tag")
            return False
        delivery = partial.resumed = self._resuming.get(first.delivery_tag)
        if delivery is None or not self._in_part(delivery) or first.aborted:
            return True
        here = b"".join(delivery.stream.parts)
        offset = offset_of(here, first.state) if isinstance(first.state, Received) else len(here)
        if offset is None:
            self.fail("amqp:invalid-field", "a delivery is resumed beyond the end of its received part")
            return False
        partial.parts, partial.size = [here[:offset]], offset
        return True

    def _complete_resumed(self, partial: PartialDelivery) -> None:
        """Complete a resumed delivery after its last transfer."""
        delivery, first = partial.resumed, partial.first
        if delivery is None:
            self._report_flow(self.flow_state.used_up, wasted=1)
            return
        came_in_part = self._in_part(delivery)
        if came_in_part:
            del delivery.stream
            delivery.pieces = partial.payload()
            delivery.message_format = first.message_format or delivery.message_format
        self._live_on(delivery, first, partial.settled, partial.state, reported=not came_in_part)
        if came_in_part:
            self._arrive(delivery)
            if not (self._draining and self.flow_state.used_up):
                return
        self._report_flow(self.flow_state.used_up)  # the delivery used up a credit

    def _live_on(
        self,
        delivery: IncomingDelivery,
        first: Transfer,
        settled: bool,
        state: DeliveryState | None,
        *,
        reported: bool = True,
    ) -> None:
        """Give a delivery of an earlier attachment its place in this one."""
        number = delivery.delivery_id = first.delivery_id
        assert number is not None
        delivery.resumed = True
        self._resuming.pop(delivery.tag, None)
        early = self._settled_early.pop(delivery.tag, None) if delivery.tag in self._settled_early else ...
        if state is not None and not isinstance(state, Received):
            delivery.remote_state = state
        if settled:
            self._settled_by_sender(delivery, reported=reported)
            return
        self.session.incoming[number] = delivery
        if first.rcv_settle_mode == 0 and self._second:
            self._settle_first.add(number)
        if reported:
            self.session.engine.emit(DeliveriesResumed(self, (delivery,)))
        if isinstance(state, OUTCOMES):
            # "the receiver SHOULD then echo this and settle": the sender's outcome stands (§3.4.6).
            self._report(delivery, state, True)
            delivery.remote_settled = True
            if reported:
                self.session.engine.emit(SettlementsReceived(self, (delivery,)))
        elif early is not ...:
            self._report(delivery, delivery.state, early)
        elif delivery.state is not None:
            self._report(delivery, delivery.state, None)

    def _report(self, delivery: IncomingDelivery, state: DeliveryState | None, settled: bool | None) -> None:
        """Tell the outcome of an earlier attachment, without its details if this connection's frames are too small."""
        try:
            self.settle(delivery, state, settled=settled)
        except LocalProtocolError:
            self.settle(delivery, plain(state), settled=settled)

    def _drop_resumed(self, delivery: IncomingDelivery) -> None:
        """Drop a delivery that the sender resumed only to abort it, which settles it there (§2.7.5)."""
        self._lose(delivery)
        delivery.remote_settled = delivery.local_settled = True
        self.session.engine.emit(SettlementsReceived(self, (delivery,)))
        if self.incomplete:
            self.check_reduced()

    def _resume_stream(self, frame: Transfer) -> IncomingDelivery | None:
        """Return the delivery that a transfer resumes; None if it is complete, unknown, or aborted."""
        if self._partial is None:
            tag = frame.delivery_tag
            delivery = self._resuming.get(tag) if tag is not None else None
            if delivery is not None and frame.settled and isinstance(delivery.state, OUTCOMES):
                # The sender knows the outcome by our map, and sends no more of the delivery.
                delivery.remote_state = frame.state
                self._drop_resumed(delivery)
            elif delivery is not None and not delivery.stream.whole and not frame.aborted:
                if not self.flow_state.received():
                    self._overrun()
                    return None
                if frame.delivery_id is None:
                    self.fail("amqp:invalid-field", "the first transfer of a delivery without delivery-id")
                    return None
                self._live_on(delivery, frame, bool(frame.settled), frame.state)
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

    def _hold_again(self, delivery: IncomingDelivery) -> None:
        """Count parts not read in an earlier attachment against this session's window."""
        for _ in range(len(delivery.stream.parts) + delivery.stream.lent):
            self._unread += 1
            self.session.window.hold()

    def _settle_early(self, delivery: IncomingDelivery, state: DeliveryState | None, settled: bool | None) -> None:
        """Keep the outcome until the sender resumes the delivery, or the map of the next attach tells it."""
        if self._resuming.get(delivery.tag) is not delivery:
            raise LocalProtocolError(
                "the delivery was not resumed, and cannot be settled: the sender may send the message again"
            )
        if state is not None:
            self.session.engine.check_state(state)
            delivery.state = state
        self._settled_early[delivery.tag] = settled
