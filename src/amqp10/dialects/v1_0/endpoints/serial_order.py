"""The order of serial numbers, where 0 follows the greatest (RFC 1982)."""

from __future__ import annotations

from ....types import SERIAL_MASK
from ..._kit.id_order import IdOrder


class SerialOrder(IdOrder):
    """The serial numbers of a table in order, where 0 follows the greatest (RFC 1982)."""

    __slots__ = ()

    def in_range(self, first: int, count: int) -> list[int]:
        """Return those of the `count` numbers from `first` on that the table has, in the order of the range."""
        last = first + count - 1
        if last <= SERIAL_MASK:
            return self.find(first, last)
        return self.find(first, SERIAL_MASK) + self.find(0, last & SERIAL_MASK)

    def before(self, number: int) -> int | None:
        """Return the number of the table that comes next before `number`; None if the table is empty."""
        found = super().before(number)
        return super().before(SERIAL_MASK + 1) if found is None else found
