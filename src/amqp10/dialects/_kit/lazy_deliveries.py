"""Runs of deliveries that came in bulk: objects are made of them portion by portion, when the owner takes them.

A run is columns of numbers and bytes, which Python's search for garbage cycles does not look into again. With 500
messages on each of 1000 connections, all here before the first is taken, it took two fifths of the time.
benchmarks/scale.py, "receive, by connections".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from itertools import repeat
from typing import TYPE_CHECKING, Any

from ...engine import DeliveriesReceived, IncomingDelivery, ReceiverLink, UnsettledCount, deliveries

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...messaging.payloads import ForeignPayload
    from .parents import EventSession


class LazyRun(ABC):
    """Deliveries of one link that came one after the other, whole, and differ in these columns only.

    Attributes:
        taken: how many deliveries, from the first on, have an object.
    """

    __slots__ = ("kind", "numbers", "settled", "tags", "taken")

    def __init__(
        self, kind: type[IncomingDelivery], settled: bool, numbers: Sequence[int], tags: Sequence[bytes]
    ) -> None:
        self.kind: type[IncomingDelivery] = kind
        self.settled: bool = settled
        self.numbers: Sequence[int] = numbers
        self.tags: Sequence[bytes] = tags
        self.taken: int = 0

    @property
    def over(self) -> bool:
        """Return whether every delivery has an object."""
        return self.taken == len(self.numbers)

    def drop(self, count: int) -> tuple[Sequence[int], Sequence[bytes]]:
        """Take the next `count` deliveries, whose objects are not needed; return their numbers and tags."""
        part = slice(self.taken, self.taken + count)
        self.taken += count
        return self.numbers[part], self.tags[part]

    @abstractmethod
    def payloads(self, part: slice) -> Iterable[bytes | ForeignPayload]:
        """Return the payloads of the deliveries in `part`."""

    def make(self, link: LazyReceiver, most: int) -> list[IncomingDelivery]:
        """Make objects of the next `most` deliveries; unsettled ones are entered into the link's table."""
        part = slice(self.taken, self.taken + most)
        numbers, tags = self.numbers[part], self.tags[part]
        self.taken += len(numbers)
        made = deliveries(self.kind, link, numbers, tags, self.payloads(part), self.settled)
        if not self.settled:
            link._unsettled.update(zip(tags, made, strict=True))
        return made


class LazyReceiver(ReceiverLink):
    """A receiving end that keeps what came until the owner asks for it, if `lazy` is set."""

    session: EventSession
    _runs: deque[LazyRun | IncomingDelivery]  # while something waits

    def __init__(self) -> None:
        self.incoming: deque[IncomingDelivery] = deque()
        self._unsettled: dict[bytes, Any] = {}  # None stands for a delivery that is still in a run

    @property
    def unsettled(self) -> dict[bytes, IncomingDelivery]:  # type: ignore[override]
        if self.unmaterialized:
            self.materialize(self.unmaterialized)
        return self._unsettled

    def count_unsettled(self) -> UnsettledCount:
        table = self._unsettled
        if not table:
            return UnsettledCount(0, None, None)
        first, last = next(iter(table.values())), next(reversed(table.values()))
        runs = (
            [run for run in self._runs if isinstance(run, LazyRun) and not run.settled] if self.unmaterialized else []
        )
        return UnsettledCount(
            len(table),
            first.delivery_id if first is not None else runs[0].numbers[runs[0].taken],
            last.delivery_id if last is not None else runs[-1].numbers[-1],
        )

    def _arrive(self, delivery: IncomingDelivery) -> None:
        """Give a delivery to the owner."""
        if not (self.incoming or self.unmaterialized):
            self.session.engine.emit(DeliveriesReceived(self))
        if self.lazy:
            self._keep(delivery, 1)
        else:
            self.incoming.append(delivery)

    def _arrive_many(self, run: LazyRun) -> None:
        """Give deliveries to the owner."""
        count = len(run.numbers)
        if not (self.incoming or self.unmaterialized):
            self.session.engine.emit(DeliveriesReceived(self))
        if not self.lazy:
            self.incoming.extend(run.make(self, count))
            return
        if not run.settled:
            self._unsettled.update(zip(run.tags, repeat(None)))  # their places, in the order of arrival
        self._keep(run, count)

    def _keep(self, arrived: LazyRun | IncomingDelivery, count: int) -> None:
        """Keep a batch until the owner asks for it."""
        if not self.unmaterialized:
            self._runs = deque()  # made only here: an idle link saves 0.7 KiB. benchmarks/scale.py, memory
        self._runs.append(arrived)
        self.unmaterialized += count

    def first_run(self) -> LazyRun | None:
        """Bring the deliveries that are made already, up to the next run; return that."""
        while self.unmaterialized:
            first = self._runs[0]
            if isinstance(first, LazyRun):
                return first
            self.materialize(1)
        return None

    def materialize(self, most: int) -> None:
        left = min(most, self.unmaterialized)
        if left <= 0:
            return
        runs = self._runs
        self.unmaterialized -= left
        while left:
            first = runs[0]
            if isinstance(first, IncomingDelivery):
                self.incoming.append(first)
                left -= 1
                runs.popleft()
            else:
                made = first.make(self, left)
                self.incoming.extend(made)
                left -= len(made)
                if first.over:
                    runs.popleft()
