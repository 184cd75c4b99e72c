"""Messages that came back and wait until a time that their outcome or their queue gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .message import QueuedMessage

DELIVERY_TIME: Final = "x-opt-delivery-time"
"""The annotation of a `modified` outcome with the time of the next delivery, in milliseconds since 1970."""


def delivery_time(annotations: Mapping[Any, Any] | None) -> float | None:
    """Return the time of the next delivery in seconds since 1970; None: the outcome names none."""
    time = annotations.get(DELIVERY_TIME) if annotations else None
    return time / 1000 if isinstance(time, int) else None


class DelayedMessages:
    """The delayed messages of one queue. A store does not keep their times."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, QueuedMessage]] = []  # by the time when they are due
        self._held: dict[QueuedMessage, None] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, entry: QueuedMessage) -> bool:
        return entry in self._held

    def add(self, entry: QueuedMessage, due: float) -> None:
        """Keep a message until `due` on the queue's clock."""
        heappush(self._heap, (due, entry.position, entry))
        self._held[entry] = None

    def due(self, now: float) -> Iterator[QueuedMessage]:
        """Remove and yield the messages that are due at `now`."""
        while self._heap and self._heap[0][0] <= now:
            entry = heappop(self._heap)[2]
            del self._held[entry]
            yield entry

    @property
    def following(self) -> float | None:
        """The time when the next message is due, or None."""
        return self._heap[0][0] if self._heap else None

    def clear(self) -> list[QueuedMessage]:
        """Remove and return all messages."""
        held = list(self._held)
        self._held.clear()
        self._heap.clear()
        return held
