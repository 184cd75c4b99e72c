"""What of a queue a filter lets through: each consumer takes the messages that are for it, and holds up no other.

A message is looked at once for each filter, and again only when it has come back. Consumers with equal filters share a
selection, and so the looking.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .message import QueuedMessage


MOST_LOOKED_AT: Final = 2000
"""Messages that all filters of a queue look at in one pass; 64 octets of a message count as one more. Some 100 ms."""


@dataclass(frozen=True, slots=True)
class Filtering:
    """The filters of one link, as one.

    Attributes:
        key: equal for links whose filters let the same messages pass.
        passes: whether a message passes.
        passes_known: the same where several ask of one message: what was read of it is kept in the dictionary for the
            next one; None: `passes` reads nothing.
    """

    key: Hashable
    passes: Callable[[QueuedMessage], bool]
    passes_known: Callable[[QueuedMessage, dict[str, Any]], bool] | None = None


class Looks:
    """What filters may look at before others have their turn.

    Attributes:
        left: messages, or 64 octets of one.
    """

    def __init__(self) -> None:
        self.left = MOST_LOOKED_AT

    def begin(self) -> None:
        """Begin a pass."""
        self.left = MOST_LOOKED_AT

    def look_at(self, entry: QueuedMessage) -> None:
        """Count one look of a filter at a message."""
        self.left -= 1 + entry.size // 64


class Selection:
    """The messages of a queue that wait and pass a filter, in order of position.

    The queue's own order of messages stays as it is: what is taken from here is not `available` there, and the reverse.

    Attributes:
        consumers: how many share it.
        unseen: messages that were not looked at yet, in order of position; those that left among them.
    """

    def __init__(self, filtering: Filtering, waiting: Iterable[QueuedMessage]) -> None:
        self.consumers = 0
        self.unseen = deque(waiting)
        self._passes = filtering.passes
        self._back: list[tuple[int, QueuedMessage]] = []  # a heap: came back, may be unseen too

    def come_back(self, entry: QueuedMessage) -> None:
        """Look at a message again, which came back and may be changed."""
        heappush(self._back, (entry.position, entry))

    def next(self, consumer: int, looks: Looks) -> QueuedMessage | None:
        """Take the oldest message that passes and that the consumer with this key may have; None where `looks` end."""
        aside: list[QueuedMessage] = []
        found = None
        while looks.left > 0 and (entry := self._pop()) is not None:
            looks.look_at(entry)
            if not entry.available:
                continue
            if entry.excluded and consumer in entry.excluded:
                aside.append(entry)
            elif self._passes(entry):
                found = entry
                break
        for entry in aside:
            self.come_back(entry)
        return found

    def _pop(self) -> QueuedMessage | None:
        unseen, back = self.unseen, self._back
        if back and (not unseen or back[0][0] < unseen[0].position):
            return heappop(back)[1]
        return unseen.popleft() if unseen else None

    def tidy(self, depth: int) -> None:
        """Drop what has left, when that is most of it; `depth` is how many messages the queue has."""
        if len(self.unseen) > 2 * depth + 256:
            alive = [entry for entry in self.unseen if not entry.gone]
            self.unseen.clear()
            self.unseen.extend(alive)
        if len(self._back) > 2 * depth + 256:
            self._back = sorted({position: entry for position, entry in self._back if entry.available}.items())
