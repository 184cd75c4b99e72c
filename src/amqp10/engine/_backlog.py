"""What a peer sent beyond the credit of this side's receivers, in dialects whose senders know no credit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ._api import Engine

MOST_OCTETS: Final = 1 << 20
MOST_AHEAD: Final = 1 << 24
"""Octets that may wait where the peer will stop, or has deliveries to settle.

What makes room may be behind them: a peer that publishes and consumes on one connection is to be heard.
"""
ITEM: Final = 256
"""Octets that an item weighs in that, whatever is in it."""


class Backlog:
    """How much waits; when it is much, the peer is asked to stop, and when it is too much, nothing more is read.

    Args:
        engine: its `reading` is set.
        owed: whether the peer has deliveries to settle, which it would say behind what it has sent already.
        ask: called with True when the peer is to stop sending messages, with False when it may go on; None where the
            dialect has no word for it.
        most_items: messages, or frames, that may wait.
    """

    def __init__(
        self,
        engine: Engine,
        owed: Callable[[], bool],
        ask: Callable[[bool], None] | None = None,
        *,
        most_items: int = 1000,
    ) -> None:
        self.items = self.octets = 0
        self._engine = engine
        self._owed = owed
        self._ask = ask
        self._most_items = most_items
        self._asked = False

    def add(self, items: int, octets: int) -> None:
        """So much more waits, or less."""
        self.items += items
        self.octets += octets
        self.regulate()

    def regulate(self) -> None:
        """To be called, too, when the peer is sent a delivery while nothing is read."""
        weight = self.octets + self.items * ITEM
        if weight < MOST_AHEAD and (self._ask is not None or self._owed()):
            self._engine.reading = True
        else:
            self._engine.reading = self.items < self._most_items and self.octets < MOST_OCTETS
        if self._ask is None:
            return
        if self._asked:
            stop = self.items > 0
        else:
            stop = self.items >= self._most_items // 4 or self.octets >= MOST_OCTETS // 4
        if stop is not self._asked:
            self._asked = stop
            self._ask(stop)
