"""Browsers of a queue: each is shown the messages that wait when it begins, then new ones, and takes none."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .._log import attempt, report
from .waiting import run_of

if TYPE_CHECKING:
    from .message import QueuedMessage
    from .node import QueueConsumer
    from .selection import Looks


class Browsers:
    """The browsers of one queue.

    Attributes:
        unseen: by consumer key, the messages that each has still to see, including some that left.
        line: the browsers that may be ready.
    """

    def __init__(self) -> None:
        self.unseen: dict[int, deque[QueuedMessage]] = {}
        self.line: list[QueueConsumer] = []

    def begin(self, consumer: QueueConsumer, waiting: Iterable[QueuedMessage]) -> None:
        """Add a browser."""
        self.unseen[consumer.key] = deque(waiting)

    def hand_out(self, now: float, depth: int, looks: Looks) -> int:
        """Show each browser its unseen messages while it is ready; return the number of copies.

        Args:
            depth: the number of messages in the queue.
            looks: what filters may still look at; a browser that is not finished by then stays in line.
        """
        for unseen in self.unseen.values():
            if len(unseen) > 2 * depth + 256:
                # A slow browser: forget the messages that have left the queue meanwhile.
                seen_late = [entry for entry in unseen if not entry.gone]
                unseen.clear()
                unseen.extend(seen_late)
        copies = 0
        for consumer in list(self.line):
            unseen = self.unseen[consumer.key]
            before = copies
            filtering = consumer.filtering
            by_runs = filtering is None
            while unseen and (filtering is None or looks.remaining > 0) and consumer.ready():
                if by_runs:
                    shown = _show_run(consumer, unseen, now)
                    copies += shown
                    by_runs = shown > 0
                    continue
                entry = unseen.popleft()
                if filtering is not None:
                    looks.look_at(entry, filtering)
                if _visible(entry, now) and (filtering is None or filtering.passes(entry)):
                    try:
                        copies += consumer.deliver(entry, entry.outgoing(now))
                    except Exception as error:
                        # The message stays in the queue: an error for a browser must not take it from others.
                        report("a message could not be shown to a browser", error)
            if copies > before:
                attempt("a browser", consumer.fed)
            if unseen and (filtering is None or looks.remaining > 0):
                consumer.waiting = False
                self.line.remove(consumer)
        return copies

    def clear(self) -> None:
        """End all browsers, because the queue has ended."""
        self.unseen.clear()
        self.line.clear()


def _visible(entry: QueuedMessage, now: float) -> bool:
    """Return whether a browser sees a message: not one that another consumer holds (§3.3)."""
    return entry.available and not (entry.expires is not None and entry.expires <= now)


def _show_run(consumer: QueueConsumer, unseen: deque[QueuedMessage], now: float) -> int:
    """Show a browser its next messages at once; return how many, or 0 if they are to be shown one by one."""
    room = consumer.run_room(1)
    if room < 2:
        return 0
    while unseen and not _visible(unseen[0], now):
        unseen.popleft()
    run = run_of(unseen, room, consumer.largest_in_run, now)
    if len(run) < 2:
        return 0
    for _ in run:
        unseen.popleft()
    try:
        consumer.deliver_run(run, [entry.outgoing(now) for entry in run])
    except Exception as error:
        report("messages could not be shown to a browser", error)
        return 0
    return len(run)
