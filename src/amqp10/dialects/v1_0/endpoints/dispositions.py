"""Dispositions: states of deliveries, by ranges of delivery-ids, in both directions (§2.7.6)."""

from __future__ import annotations

from functools import cached_property, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ....engine import OutcomesMissed, OutcomesReceived, SettlementsReceived
from ....messaging import ACCEPTED, Accepted, TransactionalState
from ....types import SERIAL_MASK
from ..link import SessionFault
from ..wire.frames import encode_disposition
from ..wire.performatives import Disposition
from .serial_order import SerialOrder
from .untracked import UntrackedDeliveries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ....messaging import DeliveryState
    from ..parents import LinkCore, SessionCore


class Dispositions:
    """What a session sends and receives of the states of deliveries, by delivery-id.

    Args:
        session: whose deliveries they are.
        untracked: its deliveries that are not objects.

    Attributes:
        waiting: the delivery-ids that wait to be merged, by role, settlement and state.
    """

    def __init__(self, session: SessionCore, untracked: UntrackedDeliveries) -> None:
        self.waiting: dict[tuple[bool, bool, DeliveryState | None], list[int]] = {}
        # The outcome of the last disposition if it settled a received delivery, for the next mostly has the same; else
        # `self`, which is not a state. benchmarks/budget.py, "receive": a quarter of the steps.
        self.last_outcome: object = self
        self.last_ids: list[int] = []
        self._session = session
        self._engine = session.engine
        self._untracked = untracked

    # Dispositions out: ids are collected by their state, and become ranges when the output is taken.
    # benchmarks/budget.py, "receive": without that, a third more steps.

    def dispose(self, as_receiver: bool, number: int, settled: bool, state: DeliveryState | None) -> None:
        if self._session.ended_locally:
            return
        if state is not None:
            self._engine.check_state(state)
        if not self.waiting:
            self._engine.flush_later(self)
        try:
            ids = self.waiting.setdefault((as_receiver, settled, state), [])
        except TypeError:  # a state that cannot be hashed, a Modified with annotations: a range of its own
            self.flush()
            self._write(as_receiver, settled, state, [number])
            return
        ids.append(number)
        self.last_outcome = state if as_receiver and settled else self
        self.last_ids = ids

    def accept_run(self, numbers: Sequence[int]) -> None:
        if not self._session.ended_locally:
            self.dispose(True, numbers[0], True, ACCEPTED)
            self.last_ids.extend(numbers[1:])

    def flush(self) -> None:
        if not self.waiting:
            return
        waiting, self.waiting = self.waiting, {}
        self.last_outcome = self
        for (as_receiver, settled, state), ids in waiting.items():
            self._write(as_receiver, settled, state, ids)

    def _write(self, as_receiver: bool, settled: bool, state: DeliveryState | None, ids: list[int]) -> None:
        for first, last in ranges(ids):
            self._engine.write(encode_disposition(self._session.channel, as_receiver, first, last, settled, state))

    def clear(self) -> None:
        """Forget what waits: nothing more is written on the session."""
        self.waiting.clear()
        self.last_outcome = self

    # Dispositions in

    def receive(self, frame: Disposition) -> None:
        first, last = frame.first, frame.last
        if (
            frame.role
            and (last is None or last == first)
            and (delivery := self._session.outgoing.get(first)) is not None
        ):
            # One outcome alone, as where each message waits for it. benchmarks/budget.py, "send_each".
            self._apply(delivery.link, [delivery], frame)  # type: ignore[arg-type]
            return
        count = ((last if last is not None else first) - first & SERIAL_MASK) + 1
        if count > 0x8000_0000:
            raise SessionFault(
                "amqp:invalid-field", f"a disposition must not end before it begins: first is {first}, last {last}"
            )
        if count > self._engine.left:
            count = self._portion(frame, first, count)
        elif count > 1:
            self._engine.left -= count
        if self._untracked.runs and frame.role:
            if type(frame.state) is Accepted and frame.settled:
                done = self._untracked.accept(first, count)
                if done < count:
                    try:
                        done = self._accept_by_turns(first, count, done, frame)
                    except SessionFault:  # of an errant link: the outcomes on other links hold all the same
                        self._untracked.materialize_range(first, count)
                        self._apply_to_objects(first, count, frame)
                        raise
                if done == count:
                    return
                first, count = first + done & SERIAL_MASK, count - done
            is_object = count == 1 and first in self._session.outgoing
            if not is_object:
                self._untracked.materialize_range(first, count)
        self._apply_to_objects(first, count, frame)

    def _portion(self, frame: Disposition, first: int, count: int) -> int:
        """Return how many ids of the range are for this portion of the input; put off the others.

        Ids before the first unsettled delivery cost nothing.
        """
        most = max(1, int(self._engine.left))
        begin = self._first_in(frame.role, first, most)
        if begin is None:
            begin = self._first_in(frame.role, first, count)
        now = count if begin is None else min(count, begin + most)
        if now < count:
            rest = Disposition(frame.role, first + now & SERIAL_MASK, frame.last, frame.settled, frame.state)
            self._engine.put_off(partial(self._session.receive, rest, b""))
        return now

    def _first_in(self, outgoing: bool, first: int, count: int) -> int | None:
        """Return the place of the first unsettled delivery in a range; None if it has none."""
        order = self._outgoing_order if outgoing else self._incoming_order
        runs = self._untracked.in_range(first, count) if outgoing else []
        if runs and runs[0].overlaps(first, 1):
            return 0
        numbers = [*order.in_range(first, count)[:1], *(run.number for run in runs[:1])]
        return min((number - first & SERIAL_MASK for number in numbers), default=None)

    def _accept_by_turns(self, first: int, count: int, at: int, frame: Disposition) -> int:
        """Apply an accepted and settled range of untracked deliveries and objects, in any order; return how many.

        `at`: how many are accepted so far.
        """
        untracked, outgoing = self._untracked, self._session.outgoing
        while at < count and (first + at & SERIAL_MASK) in outgoing:  # one step for each: there may be many runs
            begun = at
            while at < count and (first + at & SERIAL_MASK) in outgoing:
                at += 1
            self._apply_to_objects(first + begun & SERIAL_MASK, at - begun, frame)
            at += untracked.accept(first + at & SERIAL_MASK, count - at)
        if at == count:
            return count
        # The next delivery was settled before, or belongs to a run without being its first.
        runs = untracked.in_range(first, count)
        if runs and (runs[0].number - first & SERIAL_MASK) >= count:
            return at  # a run begins before the range: its first delivery is not accepted
        for run in runs:
            place = run.number - first & SERIAL_MASK
            if place > at:
                self._apply_to_objects(first + at & SERIAL_MASK, place - at, frame)
                at = place
            taken = untracked.accept(run.number, count - at)
            if not taken:  # the run's link is no longer attached
                break
            at += taken
        return at

    def _apply_to_objects(self, first: int, count: int, frame: Disposition) -> None:
        """Apply a disposition to the deliveries in this range that exist as objects."""
        session = self._session
        if not frame.role:
            while session.lazy_receivers:
                receiver, _ = session.lazy_receivers.popitem()
                receiver.materialize(receiver.unmaterialized)
        # The role in the frame is that of the peer: a receiver's disposition is about deliveries that we sent (§2.7.6).
        table: dict[int, Any] = session.outgoing if frame.role else session.incoming
        if count == 1 and (delivery := table.get(first)) is not None:
            self._apply(delivery.link, [delivery], frame)
            return
        order = self._outgoing_order if frame.role else self._incoming_order
        changed = [table[number] for number in order.in_range(first, count)]
        if frame.settled and not frame.role and len(changed) < count and session.parts:
            for number in self._part_order.in_range(first, count):
                part = session.parts[number]
                part.settled = True
                part.state = frame.state if frame.state is not None else part.state
        if frame.role and len(changed) < count and type(frame.state) is TransactionalState:
            self._engine.emit(OutcomesMissed(session, frame.state))
        if not changed:
            return
        groups: dict[LinkCore, list[Any]] = {}
        for delivery in changed:
            groups.setdefault(delivery.link, []).append(delivery)
        for link, deliveries in sorted(groups.items(), key=_is_errant):  # which ends the session
            self._apply(link, deliveries, frame)

    @cached_property
    def _outgoing_order(self) -> SerialOrder:
        return SerialOrder(self._session.outgoing, attrgetter("tag"))

    @cached_property
    def _incoming_order(self) -> SerialOrder:
        return SerialOrder(self._session.incoming, attrgetter("tag"))

    @cached_property
    def _part_order(self) -> SerialOrder:
        return SerialOrder(self._session.parts, attrgetter("first.delivery_tag"))

    def _apply(self, link: LinkCore, deliveries: list[Any], frame: Disposition) -> None:
        """Apply a disposition to deliveries of one link."""
        if link.errant:
            raise SessionFault("amqp:session:errant-link", "a disposition for a link that was detached with an error")
        reported = link.receive_states(deliveries, frame.state, frame.settled)
        if reported:
            event = OutcomesReceived if link.is_sender else SettlementsReceived
            self._engine.emit(event(link, reported))  # type: ignore[arg-type]


def _is_errant(group: tuple[LinkCore, list[Any]]) -> bool:
    return group[0].errant


def ranges(ids: list[int]) -> list[tuple[int, int]]:
    """Return the runs of consecutive serial numbers in `ids`, all within 2**31 of each other (RFC 1982)."""
    first, last = min(ids), max(ids)
    if last - first == len(ids) - 1 and len(set(ids)) == len(ids):
        return [(first, last)]  # one run, as is usual, without a step for each: one in twenty
    base = ids[0] - 0x8000_0000
    offsets = sorted(number - base & SERIAL_MASK for number in ids)
    runs = []
    first = last = offsets[0]
    for offset in offsets[1:]:
        if offset > last + 1:
            runs.append((first + base & SERIAL_MASK, last + base & SERIAL_MASK))
            first = offset
        last = offset
    runs.append((first + base & SERIAL_MASK, last + base & SERIAL_MASK))
    return runs
