"""Runs of deliveries without objects: they become objects only if they get another outcome than "accepted".

An owner that only counts outcomes needs no object for each delivery (`SenderLink.send_untracked`). A run is a few
numbers and the payloads, which Python's search for garbage cycles does not look into: with half a million deliveries
under way that search took half of the time. benchmarks/scale.py, "send, by connections"; benchmarks/budget.py, "send":
three tenths.
"""

from __future__ import annotations

from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ....engine import RunAccepted, UnsettledCount, UntrackedAccepted
from ....types import SERIAL_MASK, serial_diff
from .serial_order import SerialOrder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ....engine import Event, OutcomeCounter, OutgoingDelivery
    from ..parents import RunCore, SenderCore, SessionCore


class UntrackedRun:
    """Unsettled deliveries of one link, sent one after the other, each of them completely.

    Attributes:
        link, waiter: the link and the waiter of all deliveries; those of a `SentRun` have waiters of their own.
        number: the delivery-id of the first delivery that is left; the others follow, up to `end`.
        tag: the number that its delivery-tag is made of; those of the others follow.
        payloads: the payloads of the deliveries that are left.
    """

    __slots__ = ("end", "link", "number", "payloads", "tag", "waiter")
    end: int
    number: int

    def __init__(self, link: SenderCore, waiter: Any, number: int, tag: int) -> None:
        self.link: SenderCore = link
        self.waiter: Any = waiter
        self.number = self.end = number
        self.tag: int = tag
        self.payloads: list[bytes] = []

    @property
    def waiters(self) -> Sequence[Any]:
        """The waiter of each delivery that is left."""
        return [self.waiter] * len(self.payloads)

    def drop(self, count: int) -> None:
        """Drop the first `count` deliveries, which are settled."""
        del self.payloads[:count]
        self.number = self.number + count & SERIAL_MASK
        self.tag += count
        self.link.untracked -= count

    def accept(self, count: int) -> Event:
        """Drop the first `count` deliveries, which are accepted; return what tells that."""
        self.drop(count)
        return UntrackedAccepted(self.link, self.waiter, count)

    def overlaps(self, first: int, count: int) -> bool:
        """Return whether a delivery of the run is in the range of `count` delivery-ids from `first` on."""
        return self.number - first & SERIAL_MASK < count or first - self.number & SERIAL_MASK < len(self.payloads)

    def deliveries(self) -> Iterator[OutgoingDelivery]:
        """Make the objects that `send` would have made."""
        for offset, payload in enumerate(self.payloads):
            delivery = self.link.delivery_type(self.link, tag_of(self.tag + offset), payload, False)
            delivery.delivery_id = self.number + offset & SERIAL_MASK
            delivery.on_wire = True
            delivery.waiter = self.waiter
            yield delivery


class SentRun(UntrackedRun):
    """The deliveries of one call of `send_run`, each with a waiter of its own. benchmarks/real_brokers.py"""

    __slots__ = ("_waiters",)

    def __init__(
        self, link: SenderCore, payloads: Sequence[bytes], waiters: Sequence[object], number: int, tag: int
    ) -> None:
        super().__init__(link, None, number, tag)
        self.payloads: list[bytes] = list(payloads)
        self._waiters = list(waiters)

    @property
    def waiters(self) -> Sequence[Any]:
        return self._waiters

    def accept(self, count: int) -> Event:
        accepted = self._waiters[:count]
        del self._waiters[:count]
        self.drop(count)
        return RunAccepted(self.link, accepted)

    def deliveries(self) -> Iterator[OutgoingDelivery]:
        for delivery, waiter in zip(super().deliveries(), self._waiters, strict=True):
            delivery.waiter = waiter
            yield delivery


class UntrackedDeliveries:
    """The runs of a session.

    Attributes:
        runs: each run by its first delivery-id.
    """

    def __init__(self, session: SessionCore) -> None:
        self.runs: dict[int, UntrackedRun] = {}
        self._engine = session.engine
        self._outgoing = session.outgoing
        self._last_run: UntrackedRun | None = None  # the run that the next untracked delivery may extend

    def keep(self, link: SenderCore, payload: bytes, waiter: OutcomeCounter, number: int, tag: int) -> None:
        run = self._last_run
        if run is None or run.waiter is not waiter or run.end != number or run.link is not link:
            self._last_run = run = self.runs[number] = UntrackedRun(link, waiter, number, tag)
            link.runs[run] = None
        run.payloads.append(payload)
        run.end = number + 1 & SERIAL_MASK
        link.untracked += 1

    def keep_run(
        self, link: SenderCore, payloads: Sequence[bytes], waiters: Sequence[object], number: int, tag: int
    ) -> None:
        run = self.runs[number] = SentRun(link, payloads, waiters, number, tag)
        link.runs[run] = None
        link.untracked += len(payloads)

    def count(self, link: SenderCore, made: UnsettledCount) -> UnsettledCount:
        first, newest = next(iter(link.runs)).number, next(reversed(link.runs))
        last = newest.number + len(newest.payloads) - 1 & SERIAL_MASK
        if made.first is not None and serial_diff(made.first, first) < 0:
            first = made.first
        if made.last is not None and serial_diff(made.last, last) > 0:
            last = made.last
        return UnsettledCount(made.total + link.untracked, first, last)

    def materialize(self, link: SenderCore) -> None:
        self._materialize(link.runs)

    def materialize_range(self, first: int, count: int) -> None:
        """Make objects of the runs with deliveries in this range."""
        self._materialize(self.in_range(first, count))

    def _materialize(self, runs: Iterable[RunCore]) -> None:
        runs = list(runs)
        outgoing, self._last_run = self._outgoing, None
        for link in {run.link for run in runs}:
            link.disordered = link.disordered or bool(link.made)
        for run in runs:
            is_here = self._forget(run)
            del run.link.runs[run]
            run.link.untracked -= len(run.payloads)
            made = run.link.made
            for delivery in run.deliveries():
                made[delivery.tag] = delivery
                if is_here:
                    outgoing[delivery.delivery_id] = delivery  # type: ignore[index]

    def _forget(self, run: RunCore) -> bool:
        """Remove a run from the session's; return whether it was there."""
        is_here = self.runs.get(run.number) is run
        if is_here:
            del self.runs[run.number]
        return is_here

    def leave(self, link: SenderCore) -> None:
        self._last_run = None
        for run in link.runs:
            self._forget(run)

    def take(self, link: SenderCore) -> list[Any]:
        self.leave(link)
        waiters = [waiter for run in link.runs for waiter in run.waiters]
        link.runs.clear()
        link.untracked = 0
        return waiters

    def over(self) -> None:
        """Forget all runs, because the session is over; their links still have them."""
        self._last_run = None
        self.runs.clear()

    def accept(self, first: int, count: int) -> int:
        """Apply an accepted and settled range; return how many of its deliveries, from the first on, were untracked."""
        runs, done = self.runs, 0
        while done < count and (run := runs.get(first + done & SERIAL_MASK)) is not None and run.link.attached:
            del runs[run.number]
            taken = min(count - done, len(run.payloads))
            self._engine.emit(run.accept(taken))
            if run.payloads:
                runs[run.number] = run
            else:
                del run.link.runs[run]
                if run is self._last_run:
                    self._last_run = None
            done += taken
        return done

    def in_range(self, first: int, count: int) -> list[UntrackedRun]:
        """Return the runs with deliveries in this range, in its order."""
        numbers = self._order.in_range(first, count)
        before = self._order.before(first)
        if before is not None and before not in numbers and self.runs[before].overlaps(first, count):
            numbers.insert(0, before)
        return [self.runs[number] for number in numbers]

    @cached_property
    def _order(self) -> SerialOrder:
        return SerialOrder(self.runs, attrgetter("tag"))


def tag_of(number: int) -> bytes:
    """Return the delivery-tag that is made of a link's count of deliveries."""
    return number.to_bytes(4 if number < 0x1_0000_0000 else 8, "big")
