"""A buffer for deliveries beyond a receiver's credit: a peer goes by prefetch, and sends more once some are acked."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ...wire.bulk import ContentRun

if TYPE_CHECKING:
    from .....engine import IncomingDelivery


class PrefetchBuffer:
    """Deliveries that wait for credit, oldest first; those of a run have no objects yet."""

    def __init__(self) -> None:
        self._waiting: deque[IncomingDelivery | ContentRun] = deque()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, delivery: IncomingDelivery) -> None:
        self._waiting.append(delivery)
        self._count += 1

    def add_run(self, run: ContentRun) -> None:
        """Add those deliveries of a run that were not taken yet."""
        self._waiting.append(run)
        self._count += len(run.numbers) - run.taken

    def take(self, most: int) -> IncomingDelivery | ContentRun:
        """Take out the oldest delivery, or at most `most` deliveries of the oldest run."""
        first = self._waiting[0]
        if not isinstance(first, ContentRun):
            self._count -= 1
            self._waiting.popleft()
            return first
        taken = first.cut(most)
        self._count -= len(taken.numbers)
        if first.over:
            self._waiting.popleft()
        return taken

    def drop(self) -> list[int]:
        """Drop all deliveries, and return their numbers."""
        numbers: list[int] = []
        for each in self._waiting:
            numbers += each.numbers[each.taken :] if isinstance(each, ContentRun) else (each.delivery_id or 0,)
        self._waiting.clear()
        self._count = 0
        return numbers

    @property
    def payload(self) -> bytes:
        """Return the payload of the oldest delivery."""
        first = self._waiting[0]
        if not isinstance(first, ContentRun):
            return first.payload
        return b"".join(map(bytes, first.payloads(slice(first.taken, first.taken + 1))))
