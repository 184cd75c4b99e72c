"""Command ids: which commands are completed, which are open, and how the wire tells it (0-10 §7, "Sessions").

Each direction numbers its commands by counting; on the wire the number wraps at 2^32 (RFC 1982). Here the ids are plain
integers that never wrap; only `unwrap_serial` and `wire` convert them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable
from itertools import takewhile
from operator import attrgetter
from typing import Any, Final, TypeVar

from ...messaging import Error
from ...types import SERIAL_MASK, serial_diff
from .._kit.id_order import IdOrder
from .codes import ErrorCode, SessionFault
from .wire.struct import Ranges

MAX_RANGES: Final = 8191
"""The number of ranges that a sequence-set has room for."""
MAX_RANGES_IN_CONTROL: Final = 500
"""The number of ranges that a control has room for in the smallest frame that a peer may ask for."""


def unwrap_serial(number: int, known: int) -> int:
    """Return the plain number that the serial number `number` means: the candidate nearest to `known`."""
    return known + serial_diff(number, known & SERIAL_MASK)


class SequenceSet:
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
        """The number of ids in the set."""
        return sum(last - first + 1 for first, last in self._ranges)

    @property
    def last(self) -> int:
        """The greatest id; -1 if the set is empty."""
        return self._ranges[-1][1] if self._ranges else -1

    def add(self, number: int) -> None:
        """Add `number`, which mostly follows the greatest."""
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
        """Add all ids from `first` to `last`, which come after those in the set."""
        ranges = self._ranges
        if ranges and ranges[-1][1] >= first - 1:
            ranges[-1][1] = max(ranges[-1][1], last)
        else:
            ranges.append([first, last])

    def remove(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Remove all ids in `ranges`, which are in ascending order and do not overlap."""
        mine = self._ranges
        for first, last in ranges:
            start = bisect_left(mine, first, key=lambda each: each[1])
            stop = bisect_right(mine, last, key=lambda each: each[0])
            touched = mine[start:stop]
            if touched:
                left, right = [touched[0][0], first - 1], [last + 1, touched[-1][1]]
                mine[start:stop] = [each for each in (left, right) if each[0] <= each[1]]

    @property
    def parts(self) -> int:
        """The number of ranges."""
        return len(self._ranges)

    def wire(self, most: int = MAX_RANGES) -> Ranges:
        """Return the first `most` ranges, as a sequence-set."""
        return tuple((first & SERIAL_MASK, last & SERIAL_MASK) for first, last in self._ranges[:most])


T = TypeVar("T")


def chunks(numbers: list[T]) -> list[list[T]]:
    """Split `numbers` into lists that one sequence-set each certainly has room for."""
    return [numbers[at : at + MAX_RANGES] for at in range(0, len(numbers), MAX_RANGES)]


def to_ranges(numbers: Iterable[int]) -> Ranges:
    """Return `numbers`, in any order, as a sequence-set."""
    ids = SequenceSet()
    for number in sorted(numbers):
        ids.add(number)
    return ids.wire()


def from_ranges(ranges: Ranges, known: int) -> list[tuple[int, int]]:
    """Return the plain ranges of a sequence-set, in order and joined; leave out a range that ends before it begins."""
    plain = [(unwrap_serial(first, known), unwrap_serial(last, known)) for first, last in ranges]
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


def ids_in(order: IdOrder, ranges: Ranges, known: int) -> list[int]:
    """Return the ids of a table that are in a sequence-set, in order."""
    return [number for first, last in from_ranges(ranges, known) for number in order.find(first, last)]


class CommandOwner:
    """Hears what becomes of the commands that were sent. The methods here are for what a subclass does not expect."""

    def completed(self, sent: PendingCommand) -> None:
        """Hear that the peer completed the command."""

    def result(self, sent: PendingCommand, value: Any) -> None:
        """Hear the result of the command; its completion follows.

        Raises:
            SessionFault: such a command has no result, or one of another kind.
        """
        raise SessionFault(
            ErrorCode.ILLEGAL_ARGUMENT, f"a result of command {sent.number & SERIAL_MASK}, which has no result"
        )

    def rejected(self, sent: PendingCommand, code: int, text: str | None) -> None:
        """Hear that the peer rejects the message; ignored for commands that do not carry a message."""

    def released(self, sent: PendingCommand) -> None:
        """Hear that the peer releases the message; see `rejected`."""

    def failed(self, sent: PendingCommand, error: Error) -> None:
        """Hear that the command failed; that ends the session."""


class PendingCommand:
    """A command that was sent and is not completed.

    Attributes:
        number: the command's id.
        frames: the command's frames as sent, to be sent again when the session is resumed.
        owner: hears what becomes of the command; None: nobody does.
        about: tells the owner which command it is.
        size: bytes of credit that the command used, if it is a transfer.
    """

    __slots__ = ("about", "frames", "number", "owner", "size")

    def __init__(self, number: int, frames: Any, owner: CommandOwner | None, about: Any = None, size: int = 0) -> None:
        self.number: int = number
        self.frames: Any = frames
        self.owner: CommandOwner | None = owner
        self.about: Any = about
        self.size: int = size


class SentCommands:
    """The commands of this side.

    Attributes:
        next: the id of the next command.
        open: commands that are not completed, by id, oldest first.
    """

    __slots__ = ("_order", "next", "open")

    def __init__(self) -> None:
        self.next: int = 0
        self.open: dict[int, PendingCommand] = {}
        self._order = IdOrder(self.open, attrgetter("number"))

    def add(self, frames: Any, owner: CommandOwner | None, about: Any = None, size: int = 0) -> PendingCommand:
        """Give a command the next id, and return it as pending."""
        number = self.next
        self.next = number + 1
        sent = self.open[number] = PendingCommand(number, frames, owner, about, size)
        return sent

    def within(self, ranges: Ranges) -> list[PendingCommand]:
        """Return the open commands that are in a sequence-set, oldest first."""
        return [self.open[number] for number in ids_in(self._order, ranges, self.next)]

    def take(self, ranges: Ranges) -> list[PendingCommand]:
        """Remove the open commands that are in a sequence-set, and return them, oldest first."""
        open_ = self.open
        if len(ranges) == 1 and open_:
            # The usual case: a peer tells everything up to some id, again and again.
            first, last = unwrap_serial(ranges[0][0], self.next), unwrap_serial(ranges[0][1], self.next)
            oldest = next(iter(open_))
            if first <= oldest <= last < self.next:
                numbers = list(open_) if last == self.next - 1 else list(takewhile(last.__ge__, open_))
                return [open_.pop(number) for number in numbers]
        taken = self.within(ranges)
        for sent in taken:
            open_.pop(sent.number, None)
        return taken


class ReceivedCommands:
    """The commands of the peer.

    Attributes:
        next: the id of the next command that is new.
        open: commands that were received and are not completed, in order.
        syncs: commands that are completed once all before them are.
        done: commands completed here, not yet confirmed by session.known-completed.
        unreported: some of `done` have not been sent in session.completed.
    """

    __slots__ = ("_cursor", "done", "next", "open", "syncs", "unreported")
    next: int

    def __init__(self) -> None:
        self.next = self._cursor = 0
        self.open: dict[int, None] = {}
        self.done: SequenceSet = SequenceSet()
        self.unreported: bool = False
        self.syncs: deque[int] = deque()

    def begin(self, number: int) -> None:
        """Let the first command of the session have the id `number`."""
        self.next = self._cursor = number

    def point(self, number: int) -> None:
        """Let the command that comes next have the id `number`; it may be one that was received before."""
        self._cursor = number
        self.next = max(self.next, number)

    def take(self) -> int | None:
        """Return the id of a command that arrived; None if it was received before."""
        number = self._cursor
        self._cursor = number + 1
        if number < self.next:
            return None
        self.next = number + 1
        self.open[number] = None
        return number

    def complete(self, number: int) -> None:
        """Complete the command `number`."""
        self.open.pop(number, None)
        self.done.add(number)
        self.unreported = True
        if self.syncs:
            self._complete_syncs()

    def complete_in_turn(self, number: int) -> None:
        """Complete the command `number` once all before it are completed."""
        self.open.pop(number, None)
        self.syncs.append(number)
        self._complete_syncs()

    def _complete_syncs(self) -> None:
        oldest = next(iter(self.open), self.next)
        while self.syncs and self.syncs[0] < oldest:
            self.done.add(self.syncs.popleft())
            self.unreported = True

    def is_done(self, end: int) -> bool:
        """Return whether all commands before the id `end` are completed."""
        return next(iter(self.open), end) >= end and (not self.syncs or self.syncs[0] >= end)

    def skip(self, last: int) -> None:
        """Complete all commands up to `last` that were not received: they will never come."""
        self.done.add_range(self.next, last)
        self.point(last + 1)

    def known(self, ranges: Ranges) -> None:
        """Forget the completions in `ranges`, for the peer confirmed them."""
        self.done.remove(from_ranges(ranges, self.next))
