"""Session windows: integers against a model that never wraps, and two ends against each other."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.dialects.v1_0.window import SessionWindow
from amqp10.types import serial_add

# Where serial numbers go wrong, and where nothing happens.
STARTS = [0, 1, 2**31 - 2, 2**31 - 1, 2**31, 2**32 - 4, 2**32 - 1]
starts = pytest.mark.parametrize("start", STARTS)
ids = st.one_of(st.sampled_from(STARTS), st.integers(0, 2**32 - 1))


def window(start: int = 0, peer_start: int = 0, size: int = 10, peer_size: int = 10) -> SessionWindow:
    """A window after both begins."""
    found = SessionWindow(size, 100, start)
    found.begin_received(peer_start, peer_size)
    return found


@pytest.mark.spec("2.5.6", "next-outgoing-id and remote-incoming-window as transfers are sent")
@starts
def test_sent(start: int) -> None:
    """Each frame takes an id, over the wrap too, and a place in the peer's window."""
    found = window(start, peer_size=6)
    for number in range(6):
        assert found.next_outgoing_id == serial_add(start, number)
        assert found.remote_incoming_window == 6 - number
        found.sent()
    assert found.next_outgoing_id == serial_add(start, 6)
    assert found.remote_incoming_window == 0


@pytest.mark.spec("2.5.6", "next-incoming-id and incoming-window as transfers arrive")
@starts
def test_received(start: int) -> None:
    """Each frame counts until our window is used up; the one after that is a violation and counts nowhere."""
    found = window(peer_start=start, size=6)
    for number in range(6):
        assert found.next_incoming_id == serial_add(start, number)
        assert found.received()
        assert found.incoming_window == 5 - number
    assert not found.received()
    assert found.next_incoming_id == serial_add(start, 6)
    assert found.incoming_window == 0


@pytest.mark.parametrize("size", [1, 2, 3, 10, 2048])
def test_refresh_at_half(size: int) -> None:
    """The refresh is due when half is used up, not before; then the window is whole."""
    found = window(size=size)
    taken = 0
    while not found.needs_refresh:
        assert found.received()
        taken += 1
    assert taken == -(-size // 2)
    found.refresh()
    assert found.incoming_window == size
    assert not found.needs_refresh


@pytest.mark.spec(
    "2.5.6", "remote-incoming-window from a flow: what the peer has seen, plus its window, less what is sent"
)
@starts
def test_flow_counts_what_is_under_way(start: int) -> None:
    """Frames that the peer had not seen when it wrote the flow are taken off its window."""
    found = window(start, peer_size=10)
    for _ in range(8):
        found.sent()
    assert found.flow_received(serial_add(start, 5), 10, 77)
    assert found.remote_incoming_window == 7
    assert found.next_incoming_id == 77


@pytest.mark.spec("2.5.6", "a null next-incoming-id stands for the initial outgoing id")
@starts
def test_flow_before_our_begin_was_seen(start: int) -> None:
    """The peer counts from our first id then."""
    found = window(start, peer_size=10)
    for _ in range(3):
        found.sent()
    assert found.flow_received(None, 10, 0)
    assert found.remote_incoming_window == 7


@starts
def test_flow_that_shrinks_the_window(start: int) -> None:
    """A window smaller than what is under way already is none, never a negative one."""
    found = window(start, peer_size=10)
    for _ in range(8):
        found.sent()
    assert found.flow_received(serial_add(start, 2), 3, 0)
    assert found.remote_incoming_window == 0


@starts
def test_flow_from_the_future(start: int) -> None:
    """A peer that has seen what was never sent is refused, and nothing changes."""
    found = window(start, 5)
    found.sent()
    assert not found.flow_received(serial_add(start, 2), 50, 60)
    assert (found.remote_incoming_window, found.next_incoming_id) == (9, 5)


@pytest.mark.parametrize("size", [2**31 - 1, 2**31, 2**32 - 1])
@starts
def test_huge_windows(start: int, size: int) -> None:
    """A window wider than half the circle of ids is reckoned as exactly as any other."""
    found = window(start, peer_size=size, size=size)
    for _ in range(3):
        found.sent()
        assert found.received()
    assert found.flow_received(serial_add(start, 1), size, 0)
    assert found.remote_incoming_window == size - 2
    assert not found.needs_refresh


@given(ids, ids, st.lists(st.sampled_from(["a sends", "b sends", "a reads", "b reads", "a refreshes", "b refreshes"])))
def test_two_ends(first: int, second: int, steps: list[str]) -> None:
    """However frames and flows cross: nobody sends more than the other takes, and when all has arrived both agree."""
    ends = {"a": window(first, second, 4, 5), "b": window(second, first, 5, 4)}
    wires: dict[str, deque[Any]] = {"a": deque(), "b": deque()}  # what is on its way to whom
    other = {"a": "b", "b": "a"}

    def read(who: str) -> None:
        item = wires[who].popleft()
        if item is None:
            assert ends[who].received(), "more came than the window takes"
        else:
            assert ends[who].flow_received(*item)

    for who, what in (step.split() for step in steps):
        mine, wire = ends[who], wires[other[who]]
        if what == "sends" and mine.remote_incoming_window > 0:
            mine.sent()
            wire.append(None)
        elif what == "reads" and wires[who]:
            read(who)
        elif what == "refreshes":
            mine.refresh()
            wire.append((mine.next_incoming_id, mine.incoming_window, mine.next_outgoing_id))
    for who in ends:
        while wires[who]:
            read(who)
    a, b = ends["a"], ends["b"]
    assert (a.next_outgoing_id, b.next_outgoing_id) == (b.next_incoming_id, a.next_incoming_id)
    assert (a.remote_incoming_window, b.remote_incoming_window) == (b.incoming_window, a.incoming_window)


@given(st.integers(1, 12), st.lists(st.tuples(st.sampled_from(["comes", "comes held", "read"]), st.booleans())))
def test_what_is_held_is_not_granted(size: int, steps: list[tuple[str, bool]]) -> None:
    """Whatever comes and is read in whatever order: what is held and what may come are never more than the window, a
    starved reader or an empty window is never left without room that is there, and no refresh is for nothing."""
    found = window(size=size)
    held = 0
    for what, starved in steps:
        room = False
        if what == "read" and held:
            held -= 1
            room = found.let_go(1, starved)
            assert room or not (starved and found.incoming_window == 0)
        elif what != "read" and found.received():
            if what == "comes held":
                held += 1
                found.hold()
            room = found.needs_refresh
            assert room or found.incoming_window or held == size
        if room:
            before = found.incoming_window
            found.refresh()
            assert found.incoming_window > before
        assert found.incoming_window + held <= size
        assert found.capacity == size - held
    for number in range(held):
        if found.let_go(1, number == held - 1):
            found.refresh()
    assert found.capacity == size
    assert found.incoming_window > 0
