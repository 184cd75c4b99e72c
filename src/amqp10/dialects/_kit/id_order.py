"""The ids of a table that are in a range. A peer's range may span 2^31 ids: only those found may cost time.

Mostly the table has all ids of the range. Otherwise the others are found by bisection in a list. Nothing is noted when
an id enters the table or leaves it, because every message does so. The list catches up when it is needed, and looks at
each id once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from itertools import takewhile
from typing import Any


class IdOrder:
    """The ids of one table, in order, as far as it was asked for them.

    Args:
        table: what is unsettled, by id; new ids are at its end, as in any dict.
        mark: what distinguishes two that have the same id at different times, such as the delivery-tag.
    """

    __slots__ = ("_ids", "_mark", "_marks", "_table")

    def __init__(self, table: dict[int, Any], mark: Callable[[Any], object]) -> None:
        self._table = table
        self._mark = mark
        self._marks: dict[int, object] = {}  # of the ids that are known, those among them that have left the table
        self._ids: list[int] = []  # the same ids, in order

    def find(self, first: int, last: int) -> list[int]:
        """Return the ids of the table from `first` to `last`, both included, in order."""
        found = list(takewhile(self._table.__contains__, range(first, last + 1)))
        following = first + len(found) + 1  # behind the one that is not there
        if following <= last:
            found += self._search(following, last)
        return found

    def _search(self, first: int, last: int) -> list[int]:
        """Do what `find` does in the list."""
        self._catch_up()
        ids, table = self._ids, self._table
        start, stop = bisect_left(ids, first), bisect_right(ids, last)
        found = [number for number in ids[start:stop] if number in table]
        if len(found) < stop - start:
            self._forget(start, stop, found)
        return found

    def before(self, number: int) -> int | None:
        """Return the greatest id of the table that is less than `number`, or None."""
        self._catch_up()
        ids, table = self._ids, self._table
        stop = start = bisect_left(ids, number)
        while start and ids[start - 1] not in table:
            start -= 1
        self._forget(start, stop, [])
        return ids[start - 1] if start else None

    def _forget(self, start: int, stop: int, found: list[int]) -> None:
        """Keep only those `found` of the ids from one place to the other: the rest has left the table."""
        for number in set(self._ids[start:stop]).difference(found):
            del self._marks[number]
        self._ids[start:stop] = found

    def _catch_up(self) -> None:
        """Take in the ids that are new in the table; forget what has left it, where that is most of what is known."""
        table, marks, ids, mark_of = self._table, self._marks, self._ids, self._mark
        if len(ids) > 2 * len(table) + 64:
            marks.clear()
            ids.clear()
        new = []
        for number, value in reversed(table.items()):
            mark = mark_of(value)
            if number in marks:
                if marks[number] == mark:
                    break
            else:
                new.append(number)
            marks[number] = mark
        if not ids:
            ids += sorted(new)
            return
        for number in reversed(new):
            if number > ids[-1]:
                ids.append(number)
            else:
                insort(ids, number)
