"""What a peer sent beyond the credit of this side's receivers, in dialects whose senders know no credit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ._api import Engine

MOST_OCTETS: Final = 1 << 20
MOST_AHEAD: Final = 1 << 24
"""Octets that may wait, and one message, before nothing more is read.

What makes room may be behind them: a peer that publishes and consumes on one connection is to be heard.
"""
ITEM: Final = 256
"""Octets that an item weighs in that, whatever is in it."""


class Backlog:
    """How much waits; when it is much, the peer is asked to stop, and when it is too much, nothing more is read.

    Args:
        engine: its `reading` is set.
        ask: called with True when the peer is to stop sending messages, with False when it may go on; None where the
            dialect has no word for it.
        most_items: messages, or frames, a quarter of which may wait before the peer is asked to stop.
        largest: octets that one message may have; None where none is larger.

    Attributes:
        PATIENCE: seconds after which a peer stands still for good that is not read and has deliveries to settle.
    """

    PATIENCE: Final = 30.0

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
        self._asked = False
        self._largest = largest
        self._newest = 0  # what the last message weighs, which began when there was room for more
        self._over = False
        self._moved = False  # some of it was taken
        self._since: float | None = None  # when it was seen to stand still

    @staticmethod
    def weight(octets: int, items: int = 1) -> int:
        """What so much comes to."""
        return octets + items * ITEM

    def add(self, items: int, octets: int, *, goes_on: bool = False) -> None:
        """So much more waits, or less. `goes_on`: it is more of the last message."""
        self.items += items
        self.octets += octets
        if items > 0:
            newest = self.weight(octets, items) + (self._newest if goes_on else 0)
            self._newest = newest if self._largest is None else min(newest, self.weight(self._largest))
        else:
            self._moved = True
        if self._over:
            return
        self._engine.reading = self.weight(self.octets, self.items) - self._newest < MOST_AHEAD
        if self._ask is not None:
            self._tell(self._ask)

    def _tell(self, ask: Callable[[bool], None]) -> None:
        if self._asked:
            stop = self.items > 0
        else:
            stop = self.items >= self._most_items // 4 or self.octets >= MOST_OCTETS // 4
        if stop is not self._asked:
            self._asked = stop
            ask(stop)

    def stands(self, now: float, *, owed: bool) -> bool:
        """Whether nothing was taken for `PATIENCE` s, and what would make room is perhaps what is not read.

        To be asked now and then, by the engine's clock.

        Args:
            owed: the peer has deliveries to settle, which it would say behind what it has sent already.
        """
        if self._moved or self._engine.reading or not owed:
            self._moved, self._since = False, None
        elif self._since is None:
            self._since = now
        return self._since is not None and now - self._since >= self.PATIENCE

    def finish(self) -> None:
        """This side has said that it ends: what still comes is dropped, so it may come."""
        self._over = True
        self._engine.reading = True
