"""Messages that are not for every consumer: some gave them back as "undeliverable-here", or cannot take their size."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .message import QueuedMessage

_position = attrgetter("position")


class Exclusions:
    """Keeps such messages in order of position, and finds the first for a consumer, which looks once at each.

    Attributes:
        entries: the messages, always the same list; one that came back twice is twice in it.
    """

    __slots__ = ("_passed", "entries")

    def __init__(self) -> None:
        self.entries: list[QueuedMessage] = []
        self._passed: dict[int, float] = {}  # by consumer: no message before this position is for it

    def add(self, entry: QueuedMessage) -> None:
        """Add a message, which some consumers have excluded."""
        excluded = entry.excluded or ()
        if not self.entries:
            self._passed.clear()
        insort(self.entries, entry, key=_position)
        for consumer, passed in self._passed.items():
            if passed > entry.position and consumer not in excluded:
                self._passed[consumer] = entry.position

    def first_for(self, consumer: int) -> int | None:
        """Return the index of the first message that this consumer may have, or that has left."""
        entries = self.entries
        if not entries:
            return None
        for index in range(bisect_left(entries, self._passed.get(consumer, -math.inf), key=_position), len(entries)):
            entry = entries[index]
            if entry.gone or entry.excluded is None or consumer not in entry.excluded:
                self._passed[consumer] = entry.position
                return index
        self._passed[consumer] = entries[-1].position + 1
        return None

    def forget(self, consumer: int) -> None:
        """Forget which messages this consumer has passed over, because it is gone."""
        self._passed.pop(consumer, None)

    def sweep(self, stays: Callable[[QueuedMessage], bool]) -> None:
        """Keep only the messages that `stays`, each of them once."""
        self.entries[:] = {entry: None for entry in self.entries if stays(entry)}
