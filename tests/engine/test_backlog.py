"""How much may wait that a peer sent without credit, before it is asked to stop, and before no more is read."""

from __future__ import annotations

from typing import cast

from amqp10.engine import Backlog, Engine


class Reader:
    """As much of an engine as is needed."""

    reading = True


def test_asked_to_stop_before_it_has_to() -> None:
    """At a quarter of what may wait otherwise, once; and to go on when nothing waits, once."""
    reader, said = Reader(), list[bool]()
    backlog = Backlog(cast("Engine", reader), lambda: False, said.append, most_items=8)
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
    backlog = Backlog(cast("Engine", reader), lambda: False, said.append)
    backlog.add(1, 300_000)
    assert (said, reader.reading) == ([True], True)
    backlog.add(1, 800_000)
    assert (said, reader.reading) == ([True], True)
    backlog.add(1, 1 << 24)
    assert not reader.reading


def test_who_cannot_be_asked() -> None:
    """Is held back by the transport."""
    reader = Reader()
    backlog = Backlog(cast("Engine", reader), lambda: False, most_items=8)
    backlog.add(7, 70)
    before = reader.reading
    backlog.add(1, 10)
    assert (before, reader.reading) == (True, False)
    backlog.add(-1, 1 << 20)
    assert (backlog.items, reader.reading) == (7, False)


def test_who_has_something_to_settle_is_read() -> None:
    """It may be what makes room; but not without end."""
    reader, owed = Reader(), list[int]()
    backlog = Backlog(cast("Engine", reader), lambda: bool(owed))
    backlog.add(2000, 2_000_000)
    assert not reader.reading
    owed.append(1)
    backlog.regulate()
    before = reader.reading
    backlog.add(1, 1 << 24)
    assert (before, reader.reading) == (True, False)
