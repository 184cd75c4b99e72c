"""The receiving end of a link that is resumed: deliveries live on, go on where they were cut off, or end (§2.6.13)."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ...engine import (
    DeliveriesResumed,
    DeliveriesUnresumed,
    IncomingDelivery,
    IncomingStream,
    PartsReceived,
    PortioningReceiver,
    SettlementsReceived,
)
from ...errors import LocalProtocolError
from ...messaging import Received
from ...messaging._pieces import LARGE, Pieces
from ._credit import ReceiverCredit
from ._link import LinkEndpoint
from ._performatives import Transfer
from ._resume import OUTCOMES, of_transaction, offset_of, plain, reach, receiver_state

if TYPE_CHECKING:
    from ...messaging import DeliveryState
    from ._session import SessionEndpoint


MOST_PARTIAL: Final = 1 << 26
"""Octets of deliveries in part that a connection may always have here."""
MOST_AT_ONCE: Final = 2
"""They may be so many times as large as the largest message that is taken, if that is more."""
PART_WEIGHT: Final = 64
"""Octets that keeping a frame's payload costs besides its own."""


class PartialDelivery:
    """The frames so far of a delivery whose last frame is to come.

    `resumed` is the delivery of an earlier attachment that it continues; None also for one that is not known here.
    """

    __slots__ = ("first", "parts", "resumed", "settled", "size", "state")

    def __init__(self, first: Transfer) -> None:
        self.first = first
        self.parts: list[bytes | memoryview] = []
        self.size = 0
        self.settled = False
        self.state: DeliveryState | None = None
        self.resumed: IncomingDelivery | None = None

    @property
    def weight(self) -> int:
        """Octets that it takes here, about: in small frames it is more than what came."""
        return self.size + PART_WEIGHT * len(self.parts)

    def payload(self) -> bytes | Pieces:
        """All of it: large, it stays where it came in."""
        return Pieces(self.parts) if self.size >= LARGE else b"".join(self.parts)


class ResumingReceiver(LinkEndpoint, PortioningReceiver):
    """A receiving end, as far as it is about resuming; `ReceiverEndpoint` is the whole of it."""

    def __init__(self, session: SessionEndpoint, name: str) -> None:
        LinkEndpoint.__init__(self, session, name)
        PortioningReceiver.__init__(self)
        self.flow_state = ReceiverCredit(None)
        self.delivery_type = IncomingDelivery
        self._partial: PartialDelivery | None = None
        self._weight = 0  # of that
        self._coming: IncomingDelivery | None = None  # streamed, and its last frame is to come
        self._draining = False
        self._second = False
        self._streaming = False
        self._settle_first: set[int] = set()  # deliveries whose own rcv-settle-mode is "first" on a "second" link
        self._held = 0  # transfers that wait to be read, and keep their places in the session's window
        # Of an earlier attachment, and the sender has yet to resume them; and how they are to be settled then.
        self._resuming: dict[bytes, IncomingDelivery] = {}
        self._settled_early: dict[bytes, bool | None] = {}

    @abstractmethod
    def _tell_flow(self, used_up: bool, wasted: int = 0) -> None:
        """Tell that credit may have changed."""

    @abstractmethod
    def _overrun(self) -> None:
        """A delivery came without credit."""

    @abstractmethod
    def _receive_part(self, frame: Transfer, payload: bytes | Pieces) -> None:
        """A transfer of a delivery that takes more than this one, or is resumed."""

    @abstractmethod
    def _settled_by_sender(self, delivery: IncomingDelivery, *, told: bool = True) -> None:
        """It said so by a transfer. `told`: the owner knows the delivery."""

    def _keep_part(self, partial: PartialDelivery | None) -> None:
        """Keep this of a delivery of which more is to come; None: the delivery is over."""
        weight = partial.weight if partial is not None else 0
        self.session.engine.partial += weight - self._weight
        self._partial, self._weight = partial, weight

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
        """Whether its owner has not seen it yet, for it came in part, on a link that does not stream."""
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
            self.receive_states = self.looking(self.receive_states)  # type: ignore[method-assign]
            self.settle = self.looking(self.settle)  # type: ignore[method-assign]
            self.joins = lambda *_: False  # type: ignore[method-assign]  # else that one would not be looked at
        if theirs is not None and self.remote.incomplete_unsettled:
            return
        # What the sender does not say it has settled, or lost with the rest of the link.
        gone = [delivery for tag, delivery in self._resuming.items() if theirs is None or tag not in theirs]
        for delivery in gone:
            self._lose(delivery)
            if theirs is not None:
                delivery.remote_settled = delivery.local_settled = True
        told = [delivery for delivery in gone if not self._in_part(delivery)]
        if told:
            event = DeliveriesUnresumed if theirs is None else SettlementsReceived
            self.session.engine.emit(event(self, told))

    def _lose(self, delivery: IncomingDelivery) -> None:
        """Nothing more comes of it, and nothing more is said of it."""
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
        said = (self.terms.unsettled if self.terms is not None else None) or {}
        return not any(tag in said for tag in (*self._resuming, *self.unsettled))

    def _continue(self, partial: PartialDelivery) -> bool:
        """A transfer resumes a delivery: find what is here of it; False if the link failed on that.

        "If the sending application marks the resend attempt as a resumed delivery then it MUST be ignored", where
        nothing is known of it here.
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
            self.fail("amqp:invalid-field", "a delivery resumed beyond the place where what came of it ends")
            return False
        partial.parts, partial.size = [here[:offset]], offset
        return True

    def _complete_resumed(self, partial: PartialDelivery) -> None:
        """The last transfer of a resumed delivery is here."""
        delivery, first = partial.resumed, partial.first
        if delivery is None:
            self._tell_flow(self.flow_state.used_up, wasted=1)
            return
        came_in_part = self._in_part(delivery)
        if came_in_part:
            del delivery.stream
            delivery.pieces = partial.payload()
            delivery.message_format = first.message_format or delivery.message_format
        self._live_on(delivery, first, partial.settled, partial.state, told=not came_in_part)
        if came_in_part:
            self._arrive(delivery)
            if not (self._draining and self.flow_state.used_up):
                return
        self._tell_flow(self.flow_state.used_up)  # it used up a credit

    def _live_on(
        self,
        delivery: IncomingDelivery,
        first: Transfer,
        settled: bool,
        state: DeliveryState | None,
        *,
        told: bool = True,
    ) -> None:
        """A delivery of an earlier attachment has its place in this one."""
        number = delivery.delivery_id = first.delivery_id
        assert number is not None
        delivery.resumed = True
        self._resuming.pop(delivery.tag, None)
        early = self._settled_early.pop(delivery.tag, None) if delivery.tag in self._settled_early else ...
        if state is not None and not isinstance(state, Received):
            delivery.remote_state = state
        if settled:
            self._settled_by_sender(delivery, told=told)
            return
        self.session.incoming[number] = delivery
        if first.rcv_settle_mode == 0 and self._second:
            self._settle_first.add(number)
        if told:
            self.session.engine.emit(DeliveriesResumed(self, (delivery,)))
        if isinstance(state, OUTCOMES):
            # "the receiver SHOULD then echo this and settle": the outcome is what it is at the sender (§3.4.6).
            self._tell(delivery, state, True)
            delivery.remote_settled = True
            if told:
                self.session.engine.emit(SettlementsReceived(self, (delivery,)))
        elif early is not ...:
            self._tell(delivery, delivery.state, early)
        elif delivery.state is not None:
            self._tell(delivery, delivery.state, None)

    def _tell(self, delivery: IncomingDelivery, state: DeliveryState | None, settled: bool | None) -> None:
        """Tell an outcome of before, without its details where this connection's frames are too small for them."""
        try:
            self.settle(delivery, state, settled=settled)
        except LocalProtocolError:
            self.settle(delivery, plain(state), settled=settled)

    def _drop_resumed(self, delivery: IncomingDelivery) -> None:
        """The sender has resumed a delivery only to abort it: it is settled there (§2.7.5)."""
        self._lose(delivery)
        delivery.remote_settled = delivery.local_settled = True
        self.session.engine.emit(SettlementsReceived(self, (delivery,)))
        if self.incomplete:
            self.check_reduced()

    def _resume_stream(self, frame: Transfer) -> IncomingDelivery | None:
        """A transfer that resumes a delivery; None if it is not to go on here: whole, unknown, or aborted."""
        if self._partial is None:
            tag = frame.delivery_tag
            delivery = self._resuming.get(tag) if tag is not None else None
            if delivery is not None and frame.settled and isinstance(delivery.state, OUTCOMES):
                # The map has told the outcome, and the sender sends no more of it.
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
        """What of a resumed transfer's payload was not here yet."""
        place = delivery.stream.place
        if not isinstance(first.state, Received) or reach(first.state) == reach(place.received):
            return payload
        section, offset = reach(first.state)
        again = place.offset - offset
        if section != place.section or not 0 < again <= len(payload):
            self.fail("amqp:not-implemented", "a stream resumed elsewhere than where what came of it ends")
            return b""
        return payload[again:]

    def _hold_again(self, delivery: IncomingDelivery) -> None:
        """What was not read of it in an earlier attachment counts against this session's window."""
        for _ in range(len(delivery.stream.parts) + delivery.stream.lent):
            self._held += 1
            self.session.window.hold()

    def _settle_early(self, delivery: IncomingDelivery, state: DeliveryState | None, settled: bool | None) -> None:
        """The sender has yet to resume it: it is told then, or by the map of the attach after this one."""
        if self._resuming.get(delivery.tag) is not delivery:
            raise LocalProtocolError("the delivery was not resumed: nothing can be said of it any more")
        if state is not None:
            self.session.engine.check_state(state)
            delivery.state = state
        self._settled_early[delivery.tag] = settled
