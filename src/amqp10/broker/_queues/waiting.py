"""The messages of a queue that wait to be taken, in order of position, also when they come back out of order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING

from .exclusions import Exclusions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .message import QueuedMessage

# The most messages in one run, and the most octets.
RUN, RUN_OCTETS = 256, 65_536

# The most octets by which a new header makes a message larger.
HEADER_GROWTH = 32

# The part of the waiting messages that must come back together, to be merged with the others in one step.
_MERGED = 8

_position = attrgetter("position")


def run_of(waiting: Iterable[QueuedMessage], most: int, largest: int, now: float) -> list[QueuedMessage]:
    """Return the first messages that can be sent as they came, but for their header.

    It ends at a message that is not available, or has expired by now.

    Args:
        waiting: the messages in order.
        most: the most messages.
        largest: the most octets of one.
        now: the broker's clock.
    """
    run: list[QueuedMessage] = []
    octets = RUN_OCTETS
    for entry in islice(waiting, min(most, RUN)):
        octets -= entry.size
        if octets < 0 or entry.size > largest or entry.message_format:
            break
        if entry.expires is not None and entry.expires <= now:
            break
        if not (entry.available and (entry.header_is_current or entry.size + HEADER_GROWTH <= largest)):
            break
        run.append(entry)
    return run


class WaitingMessages:
    """The waiting messages of a queue, oldest first. One that left out of turn stays until its turn.

    Attributes:
        excluded: messages that came back as "undeliverable-here", and so are not for every consumer.
    """

    def __init__(self) -> None:
        self._exclusions = Exclusions()
        self.excluded: list[QueuedMessage] = self._exclusions.entries
        self._first: deque[QueuedMessage] = deque()  # runs that came back, in order of position
        self._ready: deque[QueuedMessage] = deque()  # the same, all behind those
        # a heap of messages that came back, which go before younger ones
        self._returned: list[tuple[int, QueuedMessage]] = []
        self._by_arrival = True  # no message was given another position
        self.append = self._ready.append
        self.extend = self._ready.extend

    def move(self, entry: QueuedMessage, position: int) -> None:
        """Give the last message that came another position."""
        self._ready.pop()
        self._by_arrival = False
        entry.position = position
        heappush(self._returned, (position, entry))

    def come_back(self, entry: QueuedMessage) -> None:
        """Put a message back into its old position."""
        if entry.excluded:
            self._exclusions.add(entry)
        else:
            heappush(self._returned, (entry.position, entry))

    def forget(self, consumer: int) -> None:
        """Forget which messages this consumer has passed over, because it is gone."""
        self._exclusions.forget(consumer)

    def come_back_run(self, entries: Sequence[QueuedMessage]) -> None:
        """Put messages back as `come_back` does for each; they are in order of position.

        If they go before all others, or behind those that came back like that, or are many, they are a run again, which
        can be handed out as such.
        """
        first, ready = self._first, self._ready
        alone = any(entry.excluded for entry in entries) or not (self._by_arrival and entries)
        before_ready = not alone and (not ready or entries[-1].position < ready[0].position)
        if before_ready and (not first or entries[-1].position < first[0].position):
            first.extendleft(reversed(entries))
        elif before_ready and entries[0].position > first[-1].position:
            first.extend(entries)
        elif not alone and _MERGED * len(entries) >= len(first) + len(ready):
            # All parts are sorted, which makes this a merge.
            merged = sorted([*entries, *first, *ready], key=_position)
            first.clear()
            ready.clear()
            ready.extend(merged)
        else:
            for entry in entries:
                self.come_back(entry)

    def next(self, consumer: int) -> QueuedMessage | None:
        """Take the oldest message that the consumer with this key may have; it may have left meanwhile."""
        if self._returned or self.excluded or self._first:
            return self._next_returned(consumer)
        return self._ready.popleft() if self._ready else None

    def _next_returned(self, consumer: int) -> QueuedMessage | None:
        """Take the next message when some came back."""
        ready = self._first or self._ready
        fresh = ready[0].position if ready else None
        back = self._returned[0][0] if self._returned else None
        index = self._exclusions.first_for(consumer)
        if index is not None:
            position = self.excluded[index].position
            if (fresh is None or position < fresh) and (back is None or position < back):
                return self.excluded.pop(index)
        if back is not None and (fresh is None or back < fresh):
            return heappop(self._returned)[1]
        return ready.popleft() if fresh is not None else None

    def run(self, most: int, largest: int, now: float) -> list[QueuedMessage]:
        """Return the next messages that any consumer may have; see `run_of`.

        They stay here until `take_run`. While messages that came back wait, it is empty, because these go first.
        """
        if self._returned or self.excluded:
            return []
        ready = self._first or self._ready
        while ready and not ready[0].available:
            ready.popleft().left_in_order = False
        return run_of(ready, most, largest, now)

    def take_run(self, count: int) -> None:
        """Take the first `count` messages of the run."""
        ready = self._first or self._ready
        if count == len(ready):  # as where consumers are faster than senders
            ready.clear()
            return
        for _ in range(count):
            ready.popleft()

    def __len__(self) -> int:
        """Count the entries, including messages that left."""
        return len(self._first) + len(self._ready) + len(self._returned) + len(self.excluded)

    def available(self) -> list[QueuedMessage]:
        """Return the waiting messages in order of position."""
        waiting = [*self._first, *self._ready, *(entry for _, entry in self._returned), *self.excluded]
        return sorted((entry for entry in waiting if entry.available), key=lambda entry: entry.position)

    def sweep(self, depth: int) -> None:
        """Drop messages that left out of turn, when they are the greater part; `depth` is the number in the queue."""
        if len(self) > 2 * depth + 256:
            for part in (self._first, self._ready):
                alive = [entry for entry in part if not entry.gone]
                part.clear()
                part.extend(alive)
            self._returned = [record for record in self._returned if not record[1].gone]
            heapify(self._returned)
            self._exclusions.sweep(lambda entry: not entry.gone)

    def clear(self) -> None:
        """Drop all messages."""
        self._first.clear()
        self._ready.clear()
        self._returned.clear()
        self.excluded.clear()
