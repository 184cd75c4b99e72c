"""Dispositions: states of deliveries, by ranges of delivery-ids, in both directions (§2.7.6)."""

from __future__ import annotations

from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ....engine import OutcomesMissed, OutcomesReceived, SettlementsReceived, Unsettled
from ....messaging import ACCEPTED, Accepted, TransactionalState
from ....types import SERIAL_MASK, serial_diff
from ..._kit.id_order import IdOrder
from ..link import SessionFault
from ..owners import SessionCore
from ..wire.frames import encode_disposition
from .untracked import SentRun, UntrackedRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ....engine import IncomingDelivery, OutcomeCounter, OutgoingDelivery, ReceiverLink
    from ....messaging import DeliveryState
    from ..link import LinkEndpoint
    from ..owners import ConnectionCore, EngineCore
    from ..resumption.receiver import PartialDelivery
    from ..resumption.sender import ResumingSender
    from ..wire.performatives import Disposition


class SettlingSession(SessionCore):
    """The part of a session that sends and receives the states of deliveries, by delivery-id.

    Attributes:
        outgoing, incoming: unsettled deliveries.
        untracked: runs of outgoing deliveries that are not objects, each by its first delivery-id.
        parts: incoming deliveries that are not whole yet, on links that do not stream.
        lazy_receivers: links that may have incoming deliveries that are not objects yet.
    """

    engine: EngineCore

    def __init__(self, connection: ConnectionCore, channel: int) -> None:
        self.connection = connection
        self.engine = connection.engine
        self.channel = channel
        self.ended_locally = False
        self.outgoing: dict[int, OutgoingDelivery] = {}
        self.incoming: dict[int, IncomingDelivery] = {}
        self.lazy_receivers: set[ReceiverLink] = set()
        self.next_delivery_id = 0
        self.untracked: dict[int, UntrackedRun] = {}
        self.parts: dict[int, PartialDelivery] = {}
        self._last_run: UntrackedRun | None = None  # the run that the next untracked delivery may extend
        self._by_remote_handle: dict[int, LinkEndpoint] = {}
        self._dispositions: dict[tuple[bool, bool, Any], list[int]] = {}
        # The outcome of the last disposition if it settled a received delivery, for the next mostly has the same; else
        # `self`, which is not a state. benchmarks/budget.py, "receive": a quarter of the steps.
        self.last_outcome: object = self
        self.last_ids: list[int] = []

    # Dispositions out: ids are collected by their state, and become ranges when the output is taken.
    # benchmarks/budget.py, "receive": without that, a third more steps.

    def dispose(self, as_receiver: bool, number: int, settled: bool, state: DeliveryState | None) -> None:
        if self.ended_locally:
            return
        if state is not None:
            self.engine.check_state(state)
        if not self._dispositions:
            self.engine.flush_later(self)
        try:
            ids = self._dispositions.setdefault((as_receiver, settled, state), [])
        except TypeError:  # a state that cannot be hashed, a Modified with annotations: a range of its own
            self.flush()
            self._write_ranges(as_receiver, settled, state, [number])
            return
        ids.append(number)
        self.last_outcome, self.last_ids = state if as_receiver and settled else self, ids

    def accept_run(self, numbers: Sequence[int]) -> None:
        if not self.ended_locally:
            self.dispose(True, numbers[0], True, ACCEPTED)
            self.last_ids.extend(numbers[1:])

    def flush(self) -> None:
        if not self._dispositions:
            return
        pending, self._dispositions = self._dispositions, {}
        self.last_outcome = self
        for (as_receiver, settled, state), ids in pending.items():
            self._write_ranges(as_receiver, settled, state, ids)

    def _write_ranges(self, as_receiver: bool, settled: bool, state: Any, ids: list[int]) -> None:
        for first, last in ranges(ids):
            self.engine.write(encode_disposition(self.channel, as_receiver, first, last, settled, state))

    # Untracked deliveries (`untracked`)

    def keep_untracked(
        self, link: ResumingSender, payload: bytes, waiter: OutcomeCounter, number: int, tag: int
    ) -> None:
        run = self._last_run
        if run is None or run.waiter is not waiter or run.end != number or run.link is not link:
            self._last_run = run = self.untracked[number] = UntrackedRun(link, waiter, number, tag)
            link.runs[run] = None
        run.payloads.append(payload)
        run.end = number + 1 & SERIAL_MASK
        link.untracked += 1

    def keep_run(
        self, link: ResumingSender, payloads: Sequence[bytes], waiters: Sequence[object], number: int, tag: int
    ) -> None:
        run = self.untracked[number] = SentRun(link, payloads, waiters, number, tag)
        link.runs[run] = None
        link.untracked += len(payloads)

    def count_untracked(self, link: ResumingSender, made: Unsettled) -> Unsettled:
        first, newest = next(iter(link.runs)).number, next(reversed(link.runs))
        last = newest.number + len(newest.payloads) - 1 & SERIAL_MASK
        if made.first is not None and serial_diff(made.first, first) < 0:
            first = made.first
        if made.last is not None and serial_diff(made.last, last) > 0:
            last = made.last
        return Unsettled(made.total + link.untracked, first, last)

    def materialize_untracked(self) -> None:
        runs, self._last_run = sorted(self.untracked.values(), key=attrgetter("tag")), None
        self.untracked.clear()
        for run in runs:
            run.link.untracked = 0
            run.link.runs.clear()
        for run in runs:
            for delivery in run.deliveries():
                run.link.unsettled[delivery.tag] = delivery
                self.outgoing[delivery.delivery_id] = delivery  # type: ignore[index]

    def _accept_untracked(self, first: int, count: int) -> int:
        """Apply an accepted and settled range; return how many of its deliveries, from the first on, were untracked."""
        done = 0
        while (
            done < count and (run := self.untracked.get(first + done & SERIAL_MASK)) is not None and run.link.attached
        ):
            del self.untracked[run.number]
            taken = min(count - done, len(run.payloads))
            self.engine.emit(run.accept(taken))
            if run.payloads:
                self.untracked[run.number] = run
            else:
                del run.link.runs[run]
                if run is self._last_run:
                    self._last_run = None
            done += taken
        return done

    # Dispositions in

    def _receive_disposition(self, frame: Disposition) -> None:
        first = frame.first
        if frame.role and frame.last in (None, first) and (delivery := self.outgoing.get(first)) is not None:
            # One outcome alone, as where each message waits for it. benchmarks/budget.py, "send_each".
            self._apply(delivery.link, [delivery], frame)  # type: ignore[arg-type]
            return
        count = ((frame.last if frame.last is not None else first) - first & SERIAL_MASK) + 1
        if count > 0x8000_0000:
            raise SessionFault(
                "amqp:invalid-field",
                f"a disposition must not end before it begins: first is {first}, last {frame.last}",
            )
        if self.untracked and frame.role:
            if type(frame.state) is Accepted and frame.settled:
                done = self._accept_by_turns(first, count, frame)
                if done == count:
                    return
                first, count = first + done & SERIAL_MASK, count - done
            is_object = count == 1 and first in self.outgoing
            if not is_object and self._runs_in(first, count):
                self.materialize_untracked()
        self._hear(first, count, frame)

    def _accept_by_turns(self, first: int, count: int, frame: Disposition) -> int:
        """Apply an accepted and settled range of untracked deliveries and objects, in any order; return how many."""
        at = self._accept_untracked(first, count)
        while at < count and (first + at & SERIAL_MASK) in self.outgoing:  # one step for each: there may be many runs
            begun = at
            while at < count and (first + at & SERIAL_MASK) in self.outgoing:
                at += 1
            self._hear(first + begun & SERIAL_MASK, at - begun, frame)
            at += self._accept_untracked(first + at & SERIAL_MASK, count - at)
        if at == count:
            return count
        # The next delivery was settled before, or belongs to a run without being its first.
        runs = self._runs_in(first, count)
        if runs and (runs[0].number - first & SERIAL_MASK) >= count:
            return at  # a run begins before the range: its first delivery is not accepted
        for run in runs:
            place = run.number - first & SERIAL_MASK
            if place > at:
                self._hear(first + at & SERIAL_MASK, place - at, frame)
                at = place
            taken = self._accept_untracked(run.number, count - at)
            if not taken:  # the run's link is no longer attached
                break
            at += taken
        return at

    def _runs_in(self, first: int, count: int) -> list[UntrackedRun]:
        """Return the untracked runs with deliveries in this range, in its order."""
        numbers = self._run_order.in_range(first, count)
        before = self._run_order.before(first)
        if before is not None and before not in numbers and self.untracked[before].overlaps(first, count):
            numbers.insert(0, before)
        return [self.untracked[number] for number in numbers]

    @cached_property
    def _run_order(self) -> SerialOrder:
        return SerialOrder(self.untracked, attrgetter("tag"))

    def _hear(self, first: int, count: int, frame: Disposition) -> None:
        """Apply a disposition to the deliveries in this range that exist as objects."""
        if not frame.role:
            while self.lazy_receivers:
                receiver = self.lazy_receivers.pop()
                receiver.materialize(receiver.unmaterialized)
        # The role in the frame is that of the peer: a receiver's disposition is about deliveries that we sent (§2.7.6).
        table: dict[int, Any] = self.outgoing if frame.role else self.incoming
        if count == 1 and (delivery := table.get(first)) is not None:
            self._apply(delivery.link, [delivery], frame)
            return
        order = self._outgoing_order if frame.role else self._incoming_order
        changed = [table[number] for number in order.in_range(first, count)]
        if frame.settled and not frame.role and len(changed) < count and self.parts:
            for number in self._part_order.in_range(first, count):
                part = self.parts[number]
                part.settled = True
                part.state = frame.state if frame.state is not None else part.state
        if frame.role and len(changed) < count and type(frame.state) is TransactionalState:
            self.engine.emit(OutcomesMissed(self, frame.state))
        if not changed:
            return
        groups: dict[LinkEndpoint, list[Any]] = {}
        for delivery in changed:
            groups.setdefault(delivery.link, []).append(delivery)
        for link, deliveries in groups.items():
            self._apply(link, deliveries, frame)

    @cached_property
    def _outgoing_order(self) -> SerialOrder:
        return SerialOrder(self.outgoing, attrgetter("tag"))

    @cached_property
    def _incoming_order(self) -> SerialOrder:
        return SerialOrder(self.incoming, attrgetter("tag"))

    @cached_property
    def _part_order(self) -> SerialOrder:
        return SerialOrder(self.parts, attrgetter("first.delivery_tag"))

    def _apply(self, link: LinkEndpoint, deliveries: list[Any], frame: Disposition) -> None:
        """Apply a disposition to deliveries of one link."""
        if link.errant:
            raise self._errant("disposition")
        reported = link.receive_states(deliveries, frame.state, frame.settled)
        if reported:
            event = OutcomesReceived(link, reported) if link.is_sender else SettlementsReceived(link, reported)  # type: ignore[arg-type]
            self.engine.emit(event)

    def _errant(self, what: str) -> SessionFault:
        return SessionFault("amqp:session:errant-link", f"a {what} for a link that was detached with an error")


class SerialOrder(IdOrder):
    """The serial numbers of a table in order, where 0 follows the greatest (RFC 1982)."""

    __slots__ = ()

    def in_range(self, first: int, count: int) -> list[int]:
        """Return those of the `count` numbers from `first` on that the table has, in the order of the range."""
        last = first + count - 1
        if last <= SERIAL_MASK:
            return self.find(first, last)
        return self.find(first, SERIAL_MASK) + self.find(0, last & SERIAL_MASK)

    def before(self, number: int) -> int | None:
        """Return the number of the table that comes next before `number`; None if the table is empty."""
        found = super().before(number)
        return super().before(SERIAL_MASK + 1) if found is None else found


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
