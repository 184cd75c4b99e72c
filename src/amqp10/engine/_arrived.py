"""Deliveries that came in bulk and that nobody took yet, by the run: objects are made of them portion by portion.

A run is columns of numbers and bytes, which Python's search for garbage cycles does not look into again. With 500
messages on each of 1000 connections, all here before the first is taken, it took two fifths of the time.
benchmarks/scale.py, "receive, by connections".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from itertools import repeat
from typing import TYPE_CHECKING, Any

from ._api import ReceiverLink
from ._delivery import IncomingDelivery, deliveries
from ._events import DeliveriesReceived

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..messaging._pieces import Unmapped


class Run(ABC):
    """Deliveries of one link that came one after the other, whole, and differ in these columns only.

    Attributes:
        taken: objects were made of so many of them, from the first on.
    """

    __slots__ = ("kind", "numbers", "settled", "tags", "taken")

    def __init__(
        self, kind: type[IncomingDelivery], settled: bool, numbers: Sequence[int], tags: Sequence[bytes]
    ) -> None:
        self.kind = kind
        self.settled = settled
        self.numbers = numbers
        self.tags = tags
        self.taken = 0

    @property
    def over(self) -> bool:
        """There is an object of each."""
        return self.taken == len(self.numbers)

    @abstractmethod
    def payloads(self, part: slice) -> Iterable[bytes | Unmapped]:
        """Those of this part."""

    def make(self, link: PortioningReceiver, most: int) -> list[IncomingDelivery]:
        """Objects of the next so many; those that are unsettled are in the link's table then."""
        part = slice(self.taken, self.taken + most)
        numbers, tags = self.numbers[part], self.tags[part]
        self.taken += len(numbers)
        made = deliveries(self.kind, link, numbers, tags, self.payloads(part), self.settled)
        if not self.settled:
            link._unsettled.update(zip(tags, made, strict=True))
        return made


class PortioningReceiver(ReceiverLink):
    """A receiving end that keeps what came until the owner asks for it, if it wants that (`by_portions`)."""

    session: Any  # whose engine is told of events
    _runs: deque[Run | IncomingDelivery]  # while something waits

    def __init__(self) -> None:
        self.incoming = deque()
        self._unsettled: dict[bytes, Any] = {}  # None in the place of one that is in a run

    @property
    def unsettled(self) -> dict[bytes, IncomingDelivery]:  # type: ignore[override]
        if self.waiting:
            self.bring(self.waiting)
        return self._unsettled

    def _arrive(self, delivery: IncomingDelivery) -> None:
        """It is the owner's to take."""
        if not (self.incoming or self.waiting):
            self.session.engine.emit(DeliveriesReceived(self))
        if self.by_portions:
            self._keep(delivery, 1)
        else:
            self.incoming.append(delivery)

    def _arrive_many(self, run: Run) -> None:
        """They are the owner's to take."""
        count = len(run.numbers)
        if not (self.incoming or self.waiting):
            self.session.engine.emit(DeliveriesReceived(self))
        if not self.by_portions:
            self.incoming.extend(run.make(self, count))
            return
        if not run.settled:
            self._unsettled.update(zip(run.tags, repeat(None)))  # their places, in the order of arrival
        self._keep(run, count)

    def _keep(self, arrived: Run | IncomingDelivery, count: int) -> None:
        """It waits until the owner asks for it."""
        if not self.waiting:
            self._runs = deque()  # which links that are idle have not: 0.7 KiB. benchmarks/scale.py, memory
        self._runs.append(arrived)
        self.waiting += count

    def bring(self, most: int) -> None:
        left = min(most, self.waiting)
        if left <= 0:
            return
        runs = self._runs
        self.waiting -= left
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
