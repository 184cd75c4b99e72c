"""Selections: each consumer with a filter takes the messages that pass it, and holds up no other consumer.

Each filter tests a message once, and again only after it came back. Consumers with equal filters share a selection, and
so its tests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final

from .exclusions import Exclusions
from .waiting import HEADER_GROWTH, RUN, RUN_OCTETS

if TYPE_CHECKING:
    from .message import QueuedMessage


MAX_LOOKED_AT: Final = 2000
"""Messages that all filters of a queue test in one pass, about 100 ms; 64 octets of a message count as one more."""


@dataclass(frozen=True, slots=True)
class Filtering:
    """The filters of one link, combined.

    Attributes:
        key: equal for links whose filters pass the same messages.
        passes: returns whether a message passes.
        passes_known: the same, with a dictionary that keeps what was read of a message for other filters; None:
            `passes` reads nothing.
        cost: as how many messages a test counts, beside its message: long conditions take longer.
    """

    key: Hashable
    passes: Callable[[QueuedMessage], bool]
    passes_known: Callable[[QueuedMessage, dict[str, Any]], bool] | None = None
    cost: int = 0


class Looks:
    """How much filters may look at before others have their turn.

    Attributes:
        remaining: messages, or 64 octets of one.
    """

    def __init__(self) -> None:
        self.remaining = MAX_LOOKED_AT

    def begin(self) -> None:
        """Begin a pass."""
        self.remaining = MAX_LOOKED_AT

    def look_at(self, entry: QueuedMessage, filtering: Filtering) -> None:
        """Count one test of a message."""
        self.remaining -= 1 + entry.size // 64 + filtering.cost


class Selection:
    """The waiting messages of a queue that pass a filter, in order of position.

    The queue keeps its own order: a message taken here is no longer `available` there, and the reverse.

    Attributes:
        consumers: how many share it.
        unseen: messages that were not tested yet, in order of position, including some that left.
    """

    def __init__(self, filtering: Filtering, waiting: Iterable[QueuedMessage]) -> None:
        self.consumers = 0
        self.unseen = deque(waiting)
        self._filtering = filtering
        self._back: list[tuple[int, QueuedMessage]] = []  # a heap of messages that came back; they may also be unseen
        self._exclusions = Exclusions()  # the same, if they are not for every consumer

    def come_back(self, entry: QueuedMessage) -> None:
        """Test a message again that came back, because it may have changed."""
        if entry.excluded:
            self._exclusions.add(entry)
        else:
            heappush(self._back, (entry.position, entry))

    def forget(self, consumer: int) -> None:
        """Forget which messages this consumer has passed over, because it is gone."""
        self._exclusions.forget(consumer)

    def next(self, consumer: int, looks: Looks) -> QueuedMessage | None:
        """Take the oldest message that passes and that this consumer may have; None: no more, or `looks` ended."""
        while looks.remaining > 0 and (entry := self._pop(consumer)) is not None:
            looks.look_at(entry, self._filtering)
            if not entry.available:
                continue
            if entry.excluded and consumer in entry.excluded:
                self._exclusions.add(entry)
            elif self._filtering.passes(entry):
                return entry
        return None

    def run(self, most: int, largest: int, now: float, looks: Looks) -> list[QueuedMessage]:
        """Take the next messages that pass and that can be sent as they came, but for their header.

        It ends before a message that has to be taken by `next`: one that is too large, expired, or not for every
        consumer. While messages that came back wait, it is empty, because these go first.

        Args:
            most: the most messages.
            largest: the most octets of one.
            now: the broker's clock.
            looks: what may still be looked at; the run also ends with it.
        """
        run: list[QueuedMessage] = []
        if self._back or self._exclusions.entries:
            return run
        unseen, filtering = self.unseen, self._filtering
        passes, look_at = filtering.passes, looks.look_at
        octets = RUN_OCTETS
        most = min(most, RUN)
        while unseen and len(run) < most and looks.remaining > 0:
            entry = unseen[0]
            if entry.available:
                size = entry.size
                if size > octets or size > largest or entry.message_format or entry.excluded:
                    break
                if not entry.header_is_current and size + HEADER_GROWTH > largest:
                    break
                if entry.expires is not None and entry.expires <= now:
                    break
                if passes(entry):
                    run.append(entry)
                    octets -= size
            look_at(entry, filtering)
            unseen.popleft()
        return run

    def _pop(self, consumer: int) -> QueuedMessage | None:
        """Take the oldest message that this consumer may have; one that is unseen may be excluded for it."""
        unseen, back, excluded = self.unseen, self._back, self._exclusions.entries
        if excluded and (index := self._exclusions.first_for(consumer)) is not None:
            position = excluded[index].position
            if not (back and back[0][0] < position) and not (unseen and unseen[0].position < position):
                return excluded.pop(index)
        if back and (not unseen or back[0][0] < unseen[0].position):
            return heappop(back)[1]
        return unseen.popleft() if unseen else None

    def tidy(self, depth: int) -> None:
        """Drop messages that left, when they are the greater part; `depth` is the number of messages in the queue."""
        if len(self.unseen) > 2 * depth + 256:
            alive = [entry for entry in self.unseen if not entry.gone]
            self.unseen.clear()
            self.unseen.extend(alive)
        if len(self._back) > 2 * depth + 256:
            self._back = sorted({position: entry for position, entry in self._back if entry.available}.items())
        if len(self._exclusions.entries) > 2 * depth + 256:
            self._exclusions.sweep(lambda entry: entry.available)
