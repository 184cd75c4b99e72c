"""Command ids: which are done, which are still to be, and how that is said on the wire (0-10 §7, "Sessions").

Commands are numbered by counting, each direction for itself; the number wraps at 2^32 (RFC 1982). Here they are plain
integers that never wrap; only `near` and `wire` know of that.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import Any, Final, TypeVar

from ...messaging import Error
from ...types import serial_diff
from ._codes import ILLEGAL_ARGUMENT, SessionFault
from ._declare import Ranges

MASK: Final = 0xFFFF_FFFF
MOST_RANGES: Final = 8191
"""Ranges that a sequence-set has room for."""
MOST_TOLD: Final = 500
"""Ranges that a control has room for in the smallest frame that a peer may ask for."""


def near(number: int, known: int) -> int:
    """The plain number that a serial number means, of all those the one nearest to `known`."""
    return known + serial_diff(number, known & MASK)


class Ids:
    """A set of plain numbers, as ranges."""

    __slots__ = ("_ranges",)

    def __init__(self) -> None:
        self._ranges: list[list[int]] = []

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self._ranges, number, key=lambda each: each[0]) - 1
        return place >= 0 and number <= self._ranges[place][1]

    @property
    def count(self) -> int:
        """How many numbers."""
        return sum(last - first + 1 for first, last in self._ranges)

    @property
    def last(self) -> int:
        """The greatest; -1 if there is none."""
        return self._ranges[-1][1] if self._ranges else -1

    def add(self, number: int) -> None:
        """Add one; mostly it follows the last."""
        ranges = self._ranges
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        elif not ranges or number > ranges[-1][1]:
            ranges.append([number, number])
        else:
            self._insert(number)

    def _insert(self, number: int) -> None:
        ranges = self._ranges
        place = bisect_right(ranges, number, key=lambda each: each[0])
        if place and number <= ranges[place - 1][1]:
            return
        joins_left = place > 0 and ranges[place - 1][1] == number - 1
        joins_right = place < len(ranges) and ranges[place][0] == number + 1
        if joins_left and joins_right:
            ranges[place - 1][1] = ranges.pop(place)[1]
        elif joins_left:
            ranges[place - 1][1] = number
        elif joins_right:
            ranges[place][0] = number
        else:
            ranges.insert(place, [number, number])

    def add_range(self, first: int, last: int) -> None:
        """Add all from `first` to `last`, which come after what is there."""
        ranges = self._ranges
        if ranges and ranges[-1][1] >= first - 1:
            ranges[-1][1] = max(ranges[-1][1], last)
        else:
            ranges.append([first, last])

    def remove(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Take out what is in these ranges, which are in order and apart."""
        kept: list[list[int]] = []
        mine = iter(self._ranges)
        current = next(mine, None)
        for first, last in ranges:
            while current is not None and current[1] < first:
                kept.append(current)
                current = next(mine, None)
            while current is not None and current[0] <= last:
                low, high = current
                if low < first:
                    kept.append([low, first - 1])
                current = [last + 1, high] if high > last else next(mine, None)
        if current is not None:
            kept += [current, *mine]
        self._ranges = kept

    @property
    def parts(self) -> int:
        """How many ranges."""
        return len(self._ranges)

    def wire(self, most: int = MOST_RANGES) -> Ranges:
        """As a sequence-set of so many ranges at most, the first."""
        return tuple((first & MASK, last & MASK) for first, last in self._ranges[:most])


T = TypeVar("T")


def portions(numbers: list[T]) -> list[list[T]]:
    """So many at a time as one sequence-set surely has room for."""
    return [numbers[at : at + MOST_RANGES] for at in range(0, len(numbers), MOST_RANGES)]


def to_ranges(numbers: Iterable[int]) -> Ranges:
    """These, in whatever order, as a sequence-set."""
    ids = Ids()
    for number in sorted(numbers):
        ids.add(number)
    return ids.wire()


def from_ranges(ranges: Ranges, known: int) -> list[tuple[int, int]]:
    """The plain ranges of a sequence-set, in order and apart; what ends before it begins is left out."""
    plain = [(near(first, known), near(last, known)) for first, last in ranges]
    if len(plain) > 1:
        plain.sort()
    joined: list[tuple[int, int]] = []
    for first, last in plain:
        if first > last:
            continue
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(joined[-1][1], last)
        else:
            joined.append((first, last))
    return joined


def named(numbers: Mapping[int, Any], ranges: Ranges, known: int) -> list[int]:
    """Those of `numbers`, which are in order, that are in a sequence-set, whatever that says, in little time."""
    plain = from_ranges(ranges, known)
    if len(plain) == 1 and plain[0][1] - plain[0][0] < len(numbers):
        first, last = plain[0]
        return [each for each in range(first, last + 1) if each in numbers]
    there = list(numbers)
    found: list[int] = []
    for first, last in plain:
        found += there[bisect_left(there, first) : bisect_right(there, last)]
    return found


class CommandOwner:
    """Hear what becomes of the commands that were sent. What a subclass does not expect is here."""

    def completed(self, sent: Sent) -> None:
        """Hear that the peer is done with it."""

    def result(self, sent: Sent, value: Any) -> None:
        """Hear what it gave; its completion follows.

        Raises:
            SessionFault: that is not what such a command gives.
        """
        raise SessionFault(ILLEGAL_ARGUMENT, f"a result of command {sent.number & MASK}, which gives none")

    def rejected(self, sent: Sent, code: int, text: str | None) -> None:
        """Hear that the peer rejects the message; of a command that carries none there is nothing to be rejected."""

    def released(self, sent: Sent) -> None:
        """Hear that the peer gives the message back; see `rejected`."""

    def failed(self, sent: Sent, error: Error) -> None:
        """Hear that it could not be done; the session ends with that."""


class Sent:
    """A command that was sent and is not completed.

    Attributes:
        number: its id.
        frames: as it went out, to be sent again when the session is resumed.
        owner: who hears what becomes of it; None for nobody.
        about: what the owner knows it by.
        size: bytes of credit that it used, of a transfer.
    """

    __slots__ = ("about", "frames", "number", "owner", "size")

    def __init__(self, number: int, frames: Any, owner: CommandOwner | None, about: Any = None, size: int = 0) -> None:
        self.number = number
        self.frames = frames
        self.owner = owner
        self.about = about
        self.size = size


class Outbox:
    """Commands of this side.

    Attributes:
        next: the id of the next one.
        open: those that are not completed, by id, oldest first.
    """

    __slots__ = ("next", "open")

    def __init__(self) -> None:
        self.next = 0
        self.open: dict[int, Sent] = {}

    def add(self, frames: Any, owner: CommandOwner | None, about: Any = None, size: int = 0) -> Sent:
        """Number a command."""
        number = self.next
        self.next = number + 1
        sent = self.open[number] = Sent(number, frames, owner, about, size)
        return sent

    def within(self, ranges: Ranges) -> list[Sent]:
        """Those of `open` that are in a sequence-set, oldest first."""
        return [self.open[number] for number in named(self.open, ranges, self.next)]

    def take(self, ranges: Ranges) -> list[Sent]:
        """The same, and they are open no more."""
        open_ = self.open
        if len(ranges) == 1 and open_:
            # The way of nearly all: everything up to some id, said again and again.
            first, last = near(ranges[0][0], self.next), near(ranges[0][1], self.next)
            oldest = next(iter(open_))
            if first <= oldest <= last < self.next:
                numbers = list(open_) if last == self.next - 1 else list(takewhile(last.__ge__, open_))
                return [open_.pop(number) for number in numbers]
        taken = self.within(ranges)
        for sent in taken:
            open_.pop(sent.number, None)
        return taken


class Inbox:
    """Commands of the peer.

    Attributes:
        next: the id of the next one that was not here before.
        open: those that came and are not completed, in order.
        syncs: those of these that are completed when all before them are.
        done: completed, and the peer is not known to know it.
        news: some of these it was not told.
    """

    __slots__ = ("_cursor", "done", "news", "next", "open", "syncs")

    def __init__(self) -> None:
        self.next = self._cursor = 0
        self.open: dict[int, None] = {}
        self.done = Ids()
        self.news = False
        self.syncs: deque[int] = deque()

    def begin(self, number: int) -> None:
        """The first command of all has this id."""
        self.next = self._cursor = number

    def point(self, number: int) -> None:
        """The command that comes next has this id."""
        self._cursor = number
        self.next = max(self.next, number)

    def take(self) -> int | None:
        """Number a command that came; None if it was here before."""
        number = self._cursor
        self._cursor = number + 1
        if number < self.next:
            return None
        self.next = number + 1
        self.open[number] = None
        return number

    def complete(self, number: int) -> None:
        """A command is done."""
        self.open.pop(number, None)
        self.done.add(number)
        self.news = True
        if self.syncs:
            self._complete_syncs()

    def complete_in_turn(self, number: int) -> None:
        """It is done when all before it are."""
        self.open.pop(number, None)
        self.syncs.append(number)
        self._complete_syncs()

    def _complete_syncs(self) -> None:
        oldest = next(iter(self.open), self.next)
        while self.syncs and self.syncs[0] < oldest:
            self.done.add(self.syncs.popleft())
            self.news = True

    def is_done(self, end: int) -> bool:
        """Return whether all commands before that one are completed."""
        return min(self.open, default=end) >= end and (not self.syncs or self.syncs[0] >= end)

    def skip(self, last: int) -> None:
        """All up to this one will never come: there is nothing left to be done for them."""
        self.done.add_range(self.next, last)
        self.point(last + 1)

    def known(self, ranges: Ranges) -> None:
        """The peer knows of these."""
        self.done.remove(from_ranges(ranges, self.next))
