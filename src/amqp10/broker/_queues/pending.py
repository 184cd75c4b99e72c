"""Outcomes that take long to apply, such as dead letters: some are applied at once, the others in slices later.

A peer may give many messages back in a few octets, or by its end. Others are to have their turn meanwhile.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .message import Clock, QueuedMessage
    from .node import QueueConsumer

    Settle = Callable[[QueuedMessage, QueueConsumer, object], object]

SLICE: Final = 500
"""Outcomes that are applied in one pass, about 15 ms."""

GIVEN_BACK: Final = 4000
"""Messages that only come back in one pass, about 10 ms."""


class PendingOutcomes:
    """The outcomes of one virtual host that are still to be applied; until then their messages count as held.

    Args:
        clock: the broker's clock.
        alarm: called to have `expire` called in the next pass.
    """

    def __init__(self, clock: Clock, alarm: Callable[[PendingOutcomes, float], None]) -> None:
        self._clock = clock
        self._alarm = alarm
        self._left = SLICE  # of this pass
        # what applies some outcomes, the messages, and how many of them at a time
        self._waiting: deque[tuple[Callable[[list[QueuedMessage]], object], deque[QueuedMessage], int]] = deque()

    def begin_pass(self) -> None:
        """Begin a pass, in which a slice may be applied at once."""
        self._left = SLICE

    def settle(
        self, settle: Settle, entries: Sequence[QueuedMessage], consumer: QueueConsumer, outcome: object
    ) -> None:
        """End deliveries in the same outcome: by `settle`, which is `Queue.settle`, for each, in their order."""
        if entries:
            self._waiting.append((lambda some: settle(some[0], consumer, outcome), deque(entries), 1))
            self._apply()

    def give_back(self, give_back: Callable[[list[QueuedMessage]], object], entries: Sequence[QueuedMessage]) -> None:
        """Give messages back to their queue: call `give_back` for `GIVEN_BACK` of them in each pass."""
        self._waiting.append((give_back, deque(entries), GIVEN_BACK))
        self._apply()

    def expire(self, now: float) -> float | None:
        """Apply the next slice; return `now` if there is more to apply, otherwise None."""
        self._left = SLICE
        self._apply()
        return now if self._waiting else None

    def finish(self) -> None:
        """Apply all that is left, because the broker ends."""
        while self._waiting:
            self._left = SLICE
            self._apply()

    def _apply(self) -> None:
        waiting = self._waiting
        try:
            while waiting and self._left > 0:
                apply, entries, count = waiting[0]
                self._left -= 1 if count == 1 else SLICE
                some = [entries.popleft() for _ in range(min(count, len(entries)))]
                if not entries:
                    waiting.popleft()
                apply(some)
        finally:
            if waiting:
                self._alarm(self, self._clock())
