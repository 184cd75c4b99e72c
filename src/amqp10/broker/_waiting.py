"""What of a queue waits to be taken, in order of arrival, also when it comes back out of order."""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._entry import Entry


class Waiting:
    """The messages of a queue that wait, the oldest first; one that left out of turn stays until it is come upon.

    Attributes:
        picky: messages that came back as "undeliverable here": not for everyone.
    """

    def __init__(self) -> None:
        self.picky: list[Entry] = []
        self._ready: deque[Entry] = deque()  # in order of position
        self._returned: list[tuple[int, Entry]] = []  # a heap: came back, and go before younger ones
        self.append = self._ready.append

    def move(self, entry: Entry, position: int) -> None:
        """Give the one that came last another place."""
        self._ready.pop()
        entry.position = position
        heappush(self._returned, (position, entry))

    def come_back(self, entry: Entry) -> None:
        """Let one wait again, in its old place."""
        if entry.excluded:
            self.picky.append(entry)
            self.picky.sort(key=lambda waiting: waiting.position)
        else:
            heappush(self._returned, (entry.position, entry))

    def next(self, consumer: int) -> Entry | None:
        """Take the oldest that the consumer with this key may have; it may have left meanwhile."""
        if self._returned or self.picky:
            return self._next_returned(consumer)
        return self._ready.popleft() if self._ready else None

    def _next_returned(self, consumer: int) -> Entry | None:
        """The same, off the common path: some messages came back."""
        fresh = self._ready[0].position if self._ready else None
        back = self._returned[0][0] if self._returned else None
        for index, entry in enumerate(self.picky):
            if (fresh is not None and fresh < entry.position) or (back is not None and back < entry.position):
                break
            if entry.gone or entry.excluded is None or consumer not in entry.excluded:
                return self.picky.pop(index)
        if back is not None and (fresh is None or back < fresh):
            return heappop(self._returned)[1]
        if fresh is not None:
            return self._ready.popleft()
        for index, entry in enumerate(self.picky):
            if entry.excluded is None or consumer not in entry.excluded:
                return self.picky.pop(index)
        return None

    def __len__(self) -> int:
        """How many are kept, those that left among them."""
        return len(self._ready) + len(self._returned) + len(self.picky)

    def available(self) -> list[Entry]:
        """What waits now, in order."""
        waiting = [*self._ready, *(entry for _, entry in self._returned), *self.picky]
        return sorted((entry for entry in waiting if entry.available), key=lambda entry: entry.position)

    def sweep(self, depth: int) -> None:
        """Drop what left out of turn, when that is most of what is kept; `depth` is how many the queue has."""
        if len(self) > 2 * depth + 256:
            alive = [entry for entry in self._ready if not entry.gone]
            self._ready.clear()
            self._ready.extend(alive)
            self._returned = [record for record in self._returned if not record[1].gone]
            heapify(self._returned)
            self.picky = [entry for entry in self.picky if not entry.gone]

    def clear(self) -> None:
        """Drop all."""
        self._ready.clear()
        self._returned.clear()
        self.picky.clear()
