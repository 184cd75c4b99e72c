"""Command ids as sets of ranges, against plain sets of numbers."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from amqp10.dialects.v0_10.command_ids import (
    ReceivedCommands,
    SequenceSet,
    chunks,
    from_ranges,
    ids_in,
    to_ranges,
    unwrap_serial,
)
from amqp10.types import SERIAL_MASK

from ...kit.inside.engines import IdOrder

NUMBERS = st.integers(0, 60)
RANGES = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=8).map(tuple)


def meant(ranges: tuple[tuple[int, int], ...]) -> set[int]:
    return {number for first, last in ranges for number in range(first, last + 1)}


def held(ids: SequenceSet) -> set[int]:
    return meant(ids.wire())


@given(st.lists(NUMBERS), RANGES)
def test_added_and_removed(numbers: list[int], ranges: tuple[tuple[int, int], ...]) -> None:
    """In whatever order they come and go, the ranges hold the same numbers, in order and apart."""
    ids = SequenceSet()
    for number in numbers:
        ids.add(number)
    assert held(ids) == set(numbers)
    assert ids.count == len(set(numbers))
    ids.remove(from_ranges(ranges, 0))
    assert held(ids) == set(numbers) - meant(ranges)
    wire = ids.wire()
    assert all(first <= last for first, last in wire)
    assert all(one[1] + 1 < other[0] for one, other in itertools.pairwise(wire))
    assert [number in ids for number in range(61)] == [number in held(ids) for number in range(61)]


@given(st.sets(NUMBERS), RANGES)
def test_named(numbers: set[int], ranges: tuple[tuple[int, int], ...]) -> None:
    """Those of some numbers that a sequence-set names, each once, in order; overlaps and nonsense change nothing."""
    order = IdOrder({number: number for number in numbers}, int)
    assert ids_in(order, ranges, 0) == sorted(numbers & meant(ranges))
    assert meant(tuple(from_ranges(ranges, 0))) == meant(ranges)


@given(st.sets(NUMBERS), st.integers(0, 1 << 40))
def test_over_the_wrap(numbers: set[int], base: int) -> None:
    """On the wire they wrap at 2^32; near what is known they are what they were."""
    plain = {base + number for number in numbers}
    wire = to_ranges(plain)
    assert all(0 <= bound <= SERIAL_MASK for each in wire for bound in each)
    assert meant(tuple(from_ranges(wire, base))) == plain
    assert all(unwrap_serial(number & SERIAL_MASK, base) == number for number in plain)


def test_portions() -> None:
    """No more at a time than one set has room for, and nothing left out."""
    numbers = list(range(0, 40_000, 2))
    parts = chunks(numbers)
    assert [number for part in parts for number in part] == numbers
    assert all(len(to_ranges(part)) <= 8191 for part in parts)


def test_skipped() -> None:
    """Commands that never come count as done, so that all of them are one range."""
    inbox = ReceivedCommands()
    for _ in range(3):
        number = inbox.take()
        assert number is not None
        inbox.complete(number)
    inbox.skip(9)
    assert inbox.done.wire() == ((0, 9),)
    assert inbox.take() == 10
    inbox.complete(10)
    assert inbox.done.wire() == ((0, 10),)
    inbox.known(((0, 4), (7, 7)))
    assert inbox.done.wire() == ((5, 6), (8, 10))


def test_in_turn() -> None:
    """A command that waits for all earlier ones is done with the last of them, and not before."""
    inbox = ReceivedCommands()
    for _ in range(4):
        inbox.take()
    inbox.complete_in_turn(2)
    inbox.complete(1)
    inbox.complete(3)
    assert inbox.done.wire() == ((1, 1), (3, 3))
    inbox.complete(0)
    assert inbox.done.wire() == ((0, 3),)
