"""How a receiving end resumes its deliveries: they are kept, continued where cut off, or end (§2.6.13)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ....engine import DeliveriesResumed, DeliveriesUnresumed, IncomingDelivery, PartsReceived, SettlementsReceived
from ....errors import LocalProtocolError
from ....messaging import OUTCOMES, Received
from ..unsettled_map import offset_of, plain, receiver_state
from .link import Resumption

if TYPE_CHECKING:
    from ....messaging import DeliveryState
    from ..parents import ReceiverCore
    from ..partial import PartialDelivery
    from ..wire.performatives import Transfer


class IncomingResumption(Resumption):
    """The deliveries of earlier attachments that the sender has yet to resume."""

    link: ReceiverCore

    def __init__(self, link: ReceiverCore) -> None:
        super().__init__(link)
        self._expected: dict[bytes, IncomingDelivery] = {}
        self._settled_early: dict[bytes, bool | None] = {}  # how to settle them then

    def states_of(self, deliveries: Sequence[IncomingDelivery]) -> Iterable[tuple[bytes, DeliveryState | None]]:
        return ((delivery.tag, receiver_state(delivery)) for delivery in deliveries)

    def adopt(self, deliveries: Sequence[IncomingDelivery]) -> None:
        for delivery in deliveries:
            delivery.link = self.link
            delivery.delivery_id = None
            self.link.unsettled[delivery.tag] = self._expected[delivery.tag] = delivery
        if self.link.streaming:
            self.hold_parts()

    def hold_parts(self) -> None:
        """Count parts not read in an earlier attachment against this session's window; the link streams."""
        for delivery in self._expected.values():
            self.link.hold_parts(delivery)

    def reconcile(self, theirs: Mapping[bytes, DeliveryState | None] | None) -> None:
        remote = self.link.remote
        assert remote is not None
        if theirs is None or not remote.incomplete_unsettled:
            self._lose_missing(theirs)
        self._end_if_done()

    def _lose_missing(self, theirs: Mapping[bytes, DeliveryState | None] | None) -> None:
        """Drop deliveries missing in the sender's map: it settled them, or lost them with the rest of the link."""
        gone = [delivery for tag, delivery in self._expected.items() if theirs is None or tag not in theirs]
        for delivery in gone:
            self._lose(delivery)
            if theirs is not None:
                delivery.remote_settled = delivery.local_settled = True
        reported = [delivery for delivery in gone if not came_in_part(self.link, delivery)]
        if reported:
            event = DeliveriesUnresumed if theirs is None else SettlementsReceived
            self.link.session.engine.emit(event(self.link, reported))

    def _lose(self, delivery: IncomingDelivery) -> None:
        """Drop a delivery that was to be resumed: it is neither received further nor settled on the wire."""
        link = self.link
        self._expected.pop(delivery.tag, None)
        self._settled_early.pop(delivery.tag, None)
        if link.unsettled.get(delivery.tag) is delivery:
            del link.unsettled[delivery.tag]
        if link.streaming and not delivery.stream.whole:
            delivery.stream.aborted = True
            link.discard(delivery)
            link.session.engine.emit(PartsReceived(delivery))

    @property
    def reduced(self) -> bool:
        link = self.link
        ours = (link.terms.unsettled if link.terms is not None else None) or {}
        return not any(tag in ours for tag in (*self._expected, *link.unsettled))

    def _end_if_done(self) -> None:
        if not self._expected and not self.link.incomplete:
            self.link.end_resumption()

    def find(self, first: Transfer) -> IncomingDelivery | None:
        """Return the delivery that a transfer resumes; None if it is unknown.

        For a delivery that is unknown here: "If the sending application marks the resend attempt as a resumed delivery
        then it MUST be ignored".
        """
        return self._expected.get(first.delivery_tag) if first.delivery_tag is not None else None

    def go_on(self, partial: PartialDelivery) -> bool:
        """Put the part that is here of a delivery before what its transfers bring; return False if they do not fit."""
        delivery, first = partial.resumed, partial.first
        if delivery is None or not came_in_part(self.link, delivery) or first.aborted:
            return True
        here = b"".join(delivery.stream.parts)
        offset = offset_of(here, first.state) if isinstance(first.state, Received) else len(here)
        if offset is None:
            return False
        partial.parts, partial.size = [here[:offset]], offset
        return True

    def complete(self, partial: PartialDelivery) -> bool:
        """Complete a delivery after the last transfer that resumes it; return whether its owner has yet to see it."""
        delivery, first = partial.resumed, partial.first
        assert delivery is not None
        unseen = came_in_part(self.link, delivery)
        if unseen:
            del delivery.stream
            delivery.pieces = partial.payload()
            delivery.message_format = first.message_format or delivery.message_format
        self.live_on(delivery, first, partial.settled, partial.state, reported=not unseen)
        return unseen

    def live_on(
        self,
        delivery: IncomingDelivery,
        first: Transfer,
        settled: bool,
        state: DeliveryState | None,
        *,
        reported: bool = True,
    ) -> None:
        """Give a delivery of an earlier attachment its place in this one."""
        link, emit = self.link, self.link.session.engine.emit
        number = delivery.delivery_id = first.delivery_id
        assert number is not None
        delivery.resumed = True
        self._expected.pop(delivery.tag, None)
        early = self._settled_early.pop(delivery.tag, None) if delivery.tag in self._settled_early else ...
        self._end_if_done()
        if state is not None and not isinstance(state, Received):
            delivery.remote_state = state
        if settled:
            link.settled_by_transfer(delivery, reported=reported)
            return
        link.session.incoming[number] = delivery
        link.note_settle_mode(first)
        if reported:
            emit(DeliveriesResumed(link, (delivery,)))
        if isinstance(state, OUTCOMES):
            # "the receiver SHOULD then echo this and settle": the sender's outcome stands (§3.4.6).
            self._report(delivery, state, True)
            delivery.remote_settled = True
            if reported:
                emit(SettlementsReceived(link, (delivery,)))
        elif early is not ...:
            self._report(delivery, delivery.state, early)
        elif delivery.state is not None:
            self._report(delivery, delivery.state, None)

    def _report(self, delivery: IncomingDelivery, state: DeliveryState | None, settled: bool | None) -> None:
        """Tell the outcome of an earlier attachment, without its details if this connection's frames are too small."""
        try:
            self.link.settle(delivery, state, settled=settled)
        except LocalProtocolError:
            self.link.settle(delivery, plain(state), settled=settled)

    def drop(self, delivery: IncomingDelivery) -> None:
        """Drop a delivery that the sender resumed only to abort it, which settles it there (§2.7.5)."""
        self._lose(delivery)
        delivery.remote_settled = delivery.local_settled = True
        self.link.session.engine.emit(SettlementsReceived(self.link, (delivery,)))
        self.check_reduced()
        self._end_if_done()

    def settle_early(self, delivery: IncomingDelivery, state: DeliveryState | None, settled: bool | None) -> bool:
        """Keep the outcome until the sender resumes the delivery, or the map of the next attach tells it.

        Returns:
            False if the sender does not resume it.
        """
        if self._expected.get(delivery.tag) is not delivery:
            return False
        if state is not None:
            self.link.session.engine.check_state(state)
            delivery.state = state
        self._settled_early[delivery.tag] = settled
        return True


def came_in_part(link: ReceiverCore, delivery: IncomingDelivery) -> bool:
    """Return whether `delivery` was cut off, and the link does not stream, so that the owner has yet to see it."""
    return not link.streaming and getattr(delivery, "stream", None) is not None
