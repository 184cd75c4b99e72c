"""What of a queue waits to be taken, in order of arrival, also when it comes back out of order."""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .message import QueuedMessage


class WaitingMessages:
    """The messages of a queue that wait, the oldest first; one that left out of turn stays until it is come upon.

    Attributes:
        excluded: messages that came back as "undeliverable here": not for everyone.
    """

    def __init__(self) -> None:
        self.excluded: list[QueuedMessage] = []
        self._ready: deque[QueuedMessage] = deque()  # in order of position
        self._returned: list[tuple[int, QueuedMessage]] = []  # a heap: came back, and go before younger ones
        self.append = self._ready.append

    def move(self, entry: QueuedMessage, position: int) -> None:
        """Give the one that came last another place."""
        self._ready.pop()
        entry.position = position
        heappush(self._returned, (position, entry))

    def come_back(self, entry: QueuedMessage) -> None:
        """Let one wait again, in its old place."""
        if entry.excluded:
            self.excluded.append(entry)
            self.excluded.sort(key=lambda waiting: waiting.position)
        else:
            heappush(self._returned, (entry.position, entry))

    def next(self, consumer: int) -> QueuedMessage | None:
        """Take the oldest that the consumer with this key may have; it may have left meanwhile."""
        if self._returned or self.excluded:
            return self._next_returned(consumer)
        return self._ready.popleft() if self._ready else None

    def _next_returned(self, consumer: int) -> QueuedMessage | None:
        """Take the next message off the common path: some messages came back."""
        fresh = self._ready[0].position if self._ready else None
        back = self._returned[0][0] if self._returned else None
        for index, entry in enumerate(self.excluded):
            if (fresh is not None and fresh < entry.position) or (back is not None and back < entry.position):
                break
            if entry.gone or entry.excluded is None or consumer not in entry.excluded:
                return self.excluded.pop(index)
        if back is not None and (fresh is None or back < fresh):
            return heappop(self._returned)[1]
        if fresh is not None:
            return self._ready.popleft()
        for index, entry in enumerate(self.excluded):
            if entry.excluded is None or consumer not in entry.excluded:
                return self.excluded.pop(index)
        return None

    def run(self, most: int, octets: int, largest: int) -> list[QueuedMessage]:
        """Return the next messages that any consumer may have and that go out as they came.

        They stay here until `take_run`. It is empty while there are messages that came back: these go first.

        Args:
            most: the greatest number of messages.
            octets: of all of them, at most.
            largest: the most octets of one.
        """
        run: list[QueuedMessage] = []
        if self._returned or self.excluded:
            return run
        for entry in islice(self._ready, most):
            octets -= entry.size
            if octets < 0 or entry.size > largest or entry.message_format or entry.expires is not None:
                break
            if not (entry.available and entry.as_it_came):
                break
            run.append(entry)
        return run

    def take_run(self, count: int) -> None:
        """Take the first `count` messages of the run."""
        for _ in range(count):
            self._ready.popleft()

    def __len__(self) -> int:
        """Count the entries, those that left among them."""
        return len(self._ready) + len(self._returned) + len(self.excluded)

    def available(self) -> list[QueuedMessage]:
        """Return the messages that wait now, in order."""
        waiting = [*self._ready, *(entry for _, entry in self._returned), *self.excluded]
        return sorted((entry for entry in waiting if entry.available), key=lambda entry: entry.position)

    def sweep(self, depth: int) -> None:
        """Drop what left out of turn, when that is most of what is kept; `depth` is how many the queue has."""
        if len(self) > 2 * depth + 256:
            alive = [entry for entry in self._ready if not entry.gone]
            self._ready.clear()
            self._ready.extend(alive)
            self._returned = [record for record in self._returned if not record[1].gone]
            heapify(self._returned)
            self.excluded = [entry for entry in self.excluded if not entry.gone]

    def clear(self) -> None:
        """Drop all."""
        self._ready.clear()
        self._returned.clear()
        self.excluded.clear()
