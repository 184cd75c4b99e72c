"""Publisher confirms: the publishes of a link, numbered from 1, and which of them have no confirm yet."""

from __future__ import annotations

from collections import deque
from itertools import takewhile
from typing import TYPE_CHECKING

from .....engine import OutcomesReceived, OutgoingDelivery, UnsettledCount, UntrackedAccepted, count_unsettled
from .....messaging import ACCEPTED, DeliveryState
from ...codes import Fault
from .returns import Returnable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .....engine import SenderLink
    from ...engine import V09Engine
    from ...wire.methods import BasicReturn
    from .publish_writer import PublishWriter
    from .untracked import UntrackedRun


class Confirms:
    """The publishes of one link that wait for a confirm.

    Args:
        link: the link, which events name.
        regain: called with the number of publishes that were confirmed.

    Attributes:
        number: of the last publish.
        deliveries: the unsettled deliveries, by their tags, without the publishes in `untracked`.
        untracked: publishes that are no deliveries; all are newer than those that are.
    """

    __slots__ = (
        *("_engine", "_first", "_link", "_outcomes", "_outcomes_batch", "_outgoing", "_regain"),
        *("_returnable", "_returnable_to", "_spare_tag", "deliveries", "number", "untracked"),
    )

    def __init__(self, link: SenderLink, engine: V09Engine, regain: Callable[[int], None]) -> None:
        self._link = link
        self._engine = engine
        self._regain = regain
        self.number: int = 0
        self.deliveries: dict[bytes, OutgoingDelivery] = {}
        self.untracked: deque[UntrackedRun] = deque()
        self._spare_tag = 1 << 63  # for a publish that cannot have its number as its tag
        self._first = 1  # all publishes before this number are confirmed
        self._outgoing: dict[int, OutgoingDelivery | None] = {}  # None: nobody waits for its confirm
        self._returnable = Returnable()  # publishes up to `_returnable_to`; some may be confirmed by now
        self._returnable_to = 0  # the last publish when a message last came back
        self._outcomes: list[OutgoingDelivery] = []
        self._outcomes_batch = -1

    def count_unsettled(self) -> UnsettledCount:
        """Count the publishes without a confirm."""
        made = count_unsettled(self.deliveries)
        runs = self.untracked
        if not runs:
            return made
        total = made.total + sum(len(run.payloads) for run in runs)
        first = made.first if made.first is not None else runs[0].first
        return UnsettledCount(total, first, runs[-1].first + len(runs[-1].payloads) - 1)

    # Publishes

    def new_tag(self) -> bytes:
        """Return the number of the next publish as its tag; another if an earlier unsettled delivery has that tag."""
        tag = (self.number + 1).to_bytes(8, "big")
        while tag in self.deliveries:
            self._spare_tag += 1
            tag = self._spare_tag.to_bytes(8, "big")
        return tag

    def add(self, delivery: OutgoingDelivery) -> None:
        """Number a delivery that was published."""
        self.materialize()
        self.number = number = self.number + 1
        delivery.delivery_id = number
        if delivery.local_settled:
            self._outgoing[number] = None
        else:
            self._outgoing[number] = delivery
            self.deliveries[delivery.tag] = delivery

    def materialize(self, last: int | None = None) -> None:
        """Make deliveries of all untracked publishes, or of those up to number `last`."""
        untracked, last = self.untracked, self.number if last is None else last
        while untracked and untracked[0].first <= last:
            for delivery in untracked[0].take(last + 1 - untracked[0].first, self._link):
                self._outgoing[delivery.delivery_id or 0] = delivery
                self.deliveries[delivery.tag] = delivery
            if not untracked[0].payloads:
                untracked.popleft()

    def forget(self, delivery: OutgoingDelivery) -> None:
        """Tell nobody of the confirm of a delivery."""
        if self.deliveries.get(delivery.tag) is delivery:
            del self.deliveries[delivery.tag]
        number = delivery.delivery_id
        if number is not None and self._outgoing.get(number) is delivery:
            self._outgoing[number] = None

    # Confirms

    def receive_run(self, numbers: list[int]) -> None:
        """Accept publishes that were confirmed one by one."""
        first, last = numbers[0], numbers[-1]
        is_whole = last - first + 1 == len(numbers) and numbers == [*range(first, last + 1)]
        if last <= self.number and is_whole:
            self._confirmed(first, last, ACCEPTED)
        else:
            for number in numbers:
                self._confirmed(number, number, ACCEPTED)

    def receive(self, number: int, multiple: bool, state: DeliveryState) -> None:
        """Take the outcome `state` of publish `number`; if `multiple`, of all up to that, or of all if it is 0.

        Raises:
            Fault: there was no such publish.
        """
        if multiple:
            self._confirmed(self._first, number or self.number, state)
        else:
            self._confirmed(number, number, state)

    def _confirmed(self, first: int, last: int, state: DeliveryState) -> None:
        if first < 1 or last > self.number or self._link.settled_by_sender:
            wrong = last if first else first
            raise Fault(
                406, f"a confirm of publish {wrong}, and there are only 1 to {self.number}", (60, 80), soft=True
            )
        end = last + 1  # one past the last number that may be an object
        if self.untracked and self.untracked[0].first <= last:
            if state is ACCEPTED and first <= self.untracked[0].first:
                end = self.untracked[0].first
                self._accept_untracked(last)
            else:
                self.materialize(last)
        if self._outgoing:
            self._confirm_objects(first, end, state)
        if first <= self._first <= last:
            self._first = last + 1
            if self._first not in self._outgoing:  # others were confirmed before, out of order
                untracked = self.untracked[0].first if self.untracked else self.number + 1
                self._first = next(iter(self._outgoing), untracked)

    def _accept_untracked(self, last: int) -> None:
        """Report all untracked publishes up to number `last` as accepted."""
        while self.untracked and (left := last + 1 - self.untracked[0].first) > 0:
            run = self.untracked[0]
            count = min(left, len(run.payloads))
            run.drop(count)
            if not run.payloads:
                self.untracked.popleft()
            self._engine.emit(UntrackedAccepted(self._link, run.waiter, count))
            self._regain(count)

    def _confirm_objects(self, first: int, end: int, state: DeliveryState) -> None:
        outgoing = self._outgoing
        before = len(outgoing)
        engine = self._engine
        if self._outcomes_batch != engine.event_batch:
            self._outcomes, self._outcomes_batch = [], engine.event_batch
        outcomes, there = self._outcomes, len(self._outcomes)
        for number in range(first, end):
            delivery = outgoing.pop(number, None)
            if delivery is not None:
                self._settled(delivery, state, outcomes)
        if outcomes and not there:
            engine.emit(OutcomesReceived(self._link, outcomes))
        if len(self._returnable) > 2 * len(outgoing):  # most are confirmed: the next return finds the others again
            self._returnable, self._returnable_to = Returnable(), 0
        self._regain(before - len(outgoing))

    def _settled(self, delivery: OutgoingDelivery, state: DeliveryState, outcomes: list[OutgoingDelivery]) -> None:
        if delivery.remote_state is None:  # else the message came back before
            delivery.remote_state = state
        delivery.remote_settled = delivery.local_settled = True
        self.deliveries.pop(delivery.tag, None)
        outcomes.append(delivery)

    # Returns

    def returned(
        self, writer: PublishWriter, method: BasicReturn, properties: bytes, body: bytes
    ) -> OutgoingDelivery | None:
        """Return the delivery that came back because it could not be routed; None if none is known.

        Its confirm is still to come; at Broker-J it has come before, as a nack.
        """
        self.materialize()
        for delivery in self._since_last_return():
            self._returnable.add(writer, delivery)
        self._returnable_to = self.number
        return self._returnable.find(method, properties, body)

    def _since_last_return(self) -> Iterator[OutgoingDelivery]:
        """Yield the deliveries without a confirm that were published since a message last came back."""
        new = takewhile(lambda number: number > self._returnable_to, reversed(self._outgoing))
        for number in reversed(list(new)):
            delivery = self._outgoing[number]
            if delivery is not None:
                yield delivery
