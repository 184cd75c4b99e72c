"""What a peer sent beyond the credit of this side's receivers, in dialects whose senders know no credit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ...engine import Engine

MAX_OCTETS: Final = 1 << 20
MAX_AHEAD: Final = 1 << 24
"""Octets that may wait, besides the newest message, before this side stops reading.

The limit is high because what makes room may come behind those octets: a peer may publish and consume on one
connection, and its settlements have to be read.
"""
LITTLE_AHEAD: Final = 1 << 20
"""The same, while the messages that wait on all connections of the server take too much memory."""
ITEM: Final = 256
"""Octets that each item counts for in addition to its content."""
STEP: Final = 1 << 14
"""Octets by which what waits changes before the engine counts them: most messages wait alone, and briefly."""


class Backlog:
    """Counts what waits. When much waits, the peer is asked to stop; when too much waits, nothing more is read.

    Args:
        engine: the engine whose `reading` flag is set.
        ask: called with True when the peer is to stop sending messages, with False when it may go on; None where the
            dialect has no word for it.
        most_items: messages, or frames; when a quarter of this number waits, the peer is asked to stop.
        largest: the most octets that one message may have; None if there is no limit.

    Attributes:
        STUCK_AFTER: seconds without progress after which a peer that is not read and has deliveries to settle is stuck.
    """

    STUCK_AFTER: Final = 30.0
    items: int
    octets: int

    def __init__(
        self,
        engine: Engine,
        ask: Callable[[bool], None] | None = None,
        *,
        most_items: int = 1000,
        largest: int | None = None,
    ) -> None:
        self.items = self.octets = 0
        self._engine = engine
        self._ask = ask
        self._most_items = most_items
        self._throttled = False
        self._largest = largest
        self._counted = 0  # by the engine, of what waits
        self._most = MAX_AHEAD
        self._newest = 0  # weight of the last message; it began while there was room, so it is not counted
        self._over = False
        self._moved = False  # whether something was taken since `stands` was last called
        self._since: float | None = None  # when the standstill was first seen

    @staticmethod
    def weight(octets: int, items: int = 1) -> int:
        """Return the weight of `items` messages that have `octets` in all."""
        return octets + items * ITEM

    def add(self, items: int, octets: int, *, continues: bool = False) -> None:
        """Count `items` and `octets` more that wait, fewer if negative. `continues`: they are of the last message."""
        self.items += items
        self.octets += octets
        if items > 0:
            newest = self.weight(octets, items) + (self._newest if continues else 0)
            self._newest = newest if self._largest is None else min(newest, self.weight(self._largest))
        else:
            self._moved = True
        self._read_or_not()
        if self._over:
            return
        if self._ask is not None:
            self._notify(self._ask)

    def read_ahead(self, *, far: bool) -> None:
        """Stop reading when `MAX_AHEAD` octets wait; not `far`: when `LITTLE_AHEAD` do."""
        self._most = MAX_AHEAD if far else LITTLE_AHEAD
        self._read_or_not()

    def _read_or_not(self) -> None:
        """Count what waits, and stop reading if it is too much."""
        weight = self.octets + self.items * ITEM
        change = weight - self._counted
        if change > STEP or -change > STEP or (change and not self.items):
            self._engine.count_waiting(change)
            self._counted = weight
        self._engine.reading = weight - self._newest < self._most or self._over

    def _notify(self, ask: Callable[[bool], None]) -> None:
        if self._throttled:
            stop = self.items > 0
        else:
            stop = self.items >= self._most_items // 4 or self.octets >= MAX_OCTETS // 4
        if stop is not self._throttled:
            self._throttled = stop
            ask(stop)

    def is_stuck(self, now: float, *, owed: bool) -> bool:
        """Return whether nothing was taken for `STUCK_AFTER` s while unread bytes may hold settlements that make room.

        Call it now and then, with the engine's clock.

        Args:
            owed: whether the peer has deliveries to settle; the settlements come behind what it has already sent.
        """
        if self._moved or self._engine.reading or not owed:
            self._moved, self._since = False, None
        elif self._since is None:
            self._since = now
        return self._since is not None and now - self._since >= self.STUCK_AFTER

    def finish(self) -> None:
        """Read on: this side has announced its end, so what still comes is dropped."""
        self._over = True
        self._engine.reading = True
