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
        self._waiting: deque[tuple[Settle, deque[QueuedMessage], QueueConsumer, object]] = deque()

    def begin_pass(self) -> None:
        """Begin a pass, in which a slice may be applied at once."""
        self._left = SLICE

    def settle(
        self, settle: Settle, entries: Sequence[QueuedMessage], consumer: QueueConsumer, outcome: object
    ) -> None:
        """End deliveries in the same outcome: by `settle`, which is `Queue.settle`, for each, in their order."""
        if not entries:
            return
        self._waiting.append((settle, deque(entries), consumer, outcome))
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
                settle, entries, consumer, outcome = waiting[0]
                self._left -= 1
                entry = entries.popleft()
                if not entries:
                    waiting.popleft()
                settle(entry, consumer, outcome)
        finally:
            if waiting:
                self._alarm(self, self._clock())
