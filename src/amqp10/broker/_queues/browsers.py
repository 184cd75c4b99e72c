"""Those who only look at a queue: each sees what waits when it comes, then what comes, and takes nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .._log import attempt, report

if TYPE_CHECKING:
    from .message import QueuedMessage
    from .node import Consumer
    from .selection import Looks


class Browsers:
    """The browsers of one queue.

    Attributes:
        unseen: what each has not seen yet, by its key; messages that left among it.
        line: those that may be ready.
    """

    def __init__(self) -> None:
        self.unseen: dict[int, deque[QueuedMessage]] = {}
        self.line: deque[Consumer] = deque()

    def begin(self, consumer: Consumer, waiting: Iterable[QueuedMessage]) -> None:
        """Add a browser."""
        self.unseen[consumer.key] = deque(waiting)

    def hand_out(self, now: float, depth: int, looks: Looks) -> int:
        """Give each what it has not seen, as long as it is ready; how many copies that was.

        Args:
            depth: how many messages the queue has.
            looks: what filters may look at; a browser that has not seen all by then stays in line.
        """
        for unseen in self.unseen.values():
            if len(unseen) > 2 * depth + 256:
                # A browser that does not keep up with the queue: what has left it is not to be seen any more.
                seen_late = [entry for entry in unseen if not entry.gone]
                unseen.clear()
                unseen.extend(seen_late)
        copies = 0
        for consumer in list(self.line):
            unseen = self.unseen[consumer.key]
            before = copies
            filtering = consumer.filtering
            while unseen and (filtering is None or looks.left > 0) and consumer.ready():
                entry = unseen.popleft()
                if filtering is not None:
                    looks.look_at(entry)
                # What another consumer holds just now is not there to be seen (§3.3).
                seen = entry.available and not (entry.expires is not None and entry.expires <= now)
                if seen and (filtering is None or filtering.passes(entry)):
                    try:
                        copies += consumer.deliver(entry, entry.outgoing(now))
                    except Exception as error:
                        # It stays in the queue: who only looks takes nothing from others.
                        report("a message could not be shown to a browser", error)
            if copies > before:
                attempt("a browser", consumer.fed)
            if unseen and (filtering is None or looks.left > 0):
                consumer.waiting = False
                self.line.remove(consumer)
        return copies

    def clear(self) -> None:
        """End all browsers: the queue is over."""
        self.unseen.clear()
        self.line.clear()
