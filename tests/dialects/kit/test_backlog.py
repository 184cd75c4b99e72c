"""How much may wait that a peer sent without credit, before it is asked to stop, and before no more is read."""

from __future__ import annotations

from typing import cast

from amqp10.dialects._kit.backlog import Backlog
from amqp10.engine import Engine


class Reader:
    """As much of an engine as is needed."""

    reading = True
    waiting = 0

    def count_waiting(self, change: int) -> None:
        self.waiting += change


def test_asked_to_stop_before_it_has_to() -> None:
    """At a quarter of what may wait otherwise, once; and to go on when nothing waits, once."""
    reader, said = Reader(), list[bool]()
    backlog = Backlog(cast("Engine", reader), said.append, most_items=8)
    for _ in range(5):
        backlog.add(1, 10)
    assert (said, reader.reading) == ([True], True)
    backlog.add(3, 30)
    assert (said, reader.reading) == ([True], True)
    backlog.add(-7, -70)
    assert (said, reader.reading) == ([True], True)
    backlog.add(-1, -10)
    backlog.add(1, 10)
    assert said == [True, False]


def test_octets_count_as_well() -> None:
    """Few large messages are as much."""
    reader, said = Reader(), list[bool]()
    backlog = Backlog(cast("Engine", reader), said.append)
    backlog.add(1, 300_000)
    assert (said, reader.reading) == ([True], True)
    backlog.add(1, 800_000)
    assert (said, reader.reading) == ([True], True)
    for _ in range(2):
        backlog.add(1, 1 << 24)
    assert not reader.reading


def test_as_much_as_may_wait_and_one_message_more() -> None:
    """A peer that cannot be asked is held back by the transport; a large message alone, or as the last, is allowed."""
    reader = Reader()
    backlog = Backlog(cast("Engine", reader))
    read = []
    for octets in (1 << 25, 1, -1, -(1 << 25), (1 << 24) - 512, 1 << 25, 1, -1):
        backlog.add(1 if octets > 0 else -1, octets)
        read.append(reader.reading)
    assert read == [True, False, False, True, True, True, False, False]


def test_small_ones_weigh_something_too() -> None:
    """Messages of nothing do not come without end."""
    reader = Reader()
    backlog = Backlog(cast("Engine", reader))
    read = []
    for items in (1 << 16, 1):
        backlog.add(items, 0)
        read.append(reader.reading)
    assert read == [True, False]


def test_a_message_in_many_frames() -> None:
    """Is read to its end, if it is no larger than messages may be."""
    reader = Reader()
    backlog = Backlog(cast("Engine", reader), largest=1 << 25)
    backlog.add(1, 20)
    read = []
    for _ in range(5):
        backlog.add(1, 1 << 24, continues=True)
        read.append(reader.reading)
    assert read == [True, True, False, False, False]
    backlog.add(-4, -(1 << 26))
    assert reader.reading
    backlog.add(1, 20)
    assert not reader.reading


def test_standing_still() -> None:
    """Nothing was taken for a while, and what the peer has to settle would come behind what is not read."""
    reader, owed = Reader(), True
    backlog = Backlog(cast("Engine", reader))
    assert [backlog.is_stuck(now, owed=owed) for now in (0, 100)] == [False, False]
    for _ in range(2):
        backlog.add(1, 1 << 24)
    backlog.add(1, 1)
    assert [backlog.is_stuck(now, owed=owed) for now in (200, 229, 230)] == [False, False, True]
    backlog.add(-1, -1)
    assert [backlog.is_stuck(now, owed=owed) for now in (231, 240, 269, 270)] == [False, False, False, True]
    owed = False
    assert [backlog.is_stuck(now, owed=owed) for now in (271, 400)] == [False, False]
    owed = True
    assert [backlog.is_stuck(now, owed=owed) for now in (401, 430, 431)] == [False, False, True]


def test_over() -> None:
    """A side that has announced its end reads on, to see the peer's end, whatever waits."""
    reader = Reader()
    backlog = Backlog(cast("Engine", reader))
    for _ in range(2):
        backlog.add(1, 1 << 25)
    assert not reader.reading
    backlog.finish()
    backlog.add(-1, -1)
    assert reader.reading


def test_counts_in_steps() -> None:
    """What waits alone, and briefly, costs nothing; what is counted is never far from what waits, and 0 in the end."""
    reader = Reader()
    backlog = Backlog(cast("Engine", reader))
    for _ in range(3):
        backlog.add(1, 1000)
        assert reader.waiting == 0
        backlog.add(-1, -1000)
    for _ in range(100):
        backlog.add(1, 1000)
        assert 0 <= backlog.octets + 256 * backlog.items - reader.waiting <= 1 << 14
    backlog.finish()
    for _ in range(100):
        backlog.add(-1, -1000)
        assert abs(backlog.octets + 256 * backlog.items - reader.waiting) <= 1 << 14
    assert reader.waiting == 0
