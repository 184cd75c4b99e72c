"""Deadlines, sorted so that only what is due is visited. Nothing here sleeps: an owner asks what is due.

How the broker's timers hang together:

    VirtualHostCore.alarm       notes a deadline; wakes `_keep_time` if it is the earliest
    Broker._keep_time           the one task that sleeps, until the earliest deadline of all virtual hosts
    VirtualHostCore.expire      calls `expire` of each thing that is due
    Queue.expire                messages · DeclaredQueue.expire: also the queue itself ("x-expires")
    TransactionDeadlines.expire open transactions, by `Deadlines` of its own; likewise `Retained.expire`
"""

from __future__ import annotations

import itertools
from heapq import heapify, heappop, heappush
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Deadlines(Generic[T]):
    """At most one deadline for each thing; setting a new one replaces the old one.

    Args:
        sorts: whether things that are due at one moment come in their own order, and not as their deadlines were set.
    """

    __slots__ = ("_heap", "_numbers", "_sorts", "_times")

    def __init__(self, *, sorts: bool = False) -> None:
        self._sorts = sorts
        self._times: dict[T, float] = {}
        self._heap: list[tuple[float, Any, T]] = []  # may still have deadlines that were replaced or removed
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._times)

    def __contains__(self, thing: T) -> bool:
        return thing in self._times

    def set(self, thing: T, deadline: float | None) -> None:
        """Set the deadline of a thing; None removes it."""
        if deadline is None:
            self._times.pop(thing, None)
        else:
            self._times[thing] = deadline
            heappush(self._heap, (deadline, thing if self._sorts else next(self._numbers), thing))
        if len(self._heap) > 2 * len(self._times) + 256:
            self._heap = [
                (when, each if self._sorts else next(self._numbers), each) for each, when in self._times.items()
            ]
            heapify(self._heap)

    def hasten(self, thing: T, deadline: float) -> None:
        """Set the deadline of a thing, unless it has an earlier one."""
        known = self._times.get(thing)
        if known is None or deadline < known:
            self.set(thing, deadline)

    @property
    def first(self) -> float | None:
        """The earliest deadline; None: there is no deadline."""
        heap = self._heap
        while heap and self._times.get(heap[0][2]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def take(self, now: float) -> list[T]:
        """Remove and return the things that are due at `now`, the earliest first."""
        due = []
        while (thing := self.pop(now)) is not None:
            due.append(thing)
        return due

    def pop(self, now: float) -> T | None:
        """Remove and return the earliest thing that is due at `now`; None: nothing is due."""
        first = self.first
        if first is None or first > now:
            return None
        thing = heappop(self._heap)[2]
        del self._times[thing]
        return thing

    def clear(self) -> None:
        """Remove all deadlines."""
        self._times.clear()
        self._heap.clear()
