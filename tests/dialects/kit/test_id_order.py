"""The order of ids is found out late, and is that of the table at any time."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from amqp10.dialects._kit.id_order import IdOrder

IDS = st.integers(0, 40)
STEPS = st.one_of(
    st.tuples(st.just("enter"), IDS, st.integers(1, 12)),
    st.tuples(st.just("leave"), IDS, st.integers(1, 12)),
    st.tuples(st.just("find"), IDS, st.integers(1, 30)),
    st.tuples(st.just("before"), IDS, st.just(1)),
)


@given(st.lists(STEPS, max_size=40))
@example([("enter", 0, 12), ("find", 3, 30), ("leave", 5, 3), ("find", 2, 10), ("enter", 6, 1), ("find", 2, 10)])
@example([("enter", 5, 2), ("find", 0, 9), ("leave", 5, 2), ("enter", 3, 5), ("find", 0, 9)])
@example([("enter", 5, 2), ("before", 9, 1), ("leave", 6, 1), ("before", 9, 1), ("leave", 5, 1), ("before", 9, 1)])
def test_as_in_the_table(steps: list[tuple[str, int, int]]) -> None:
    """Whatever enters, in any order, leaves, and comes again, what is found is what is there."""
    table: dict[int, int] = {}
    order, entered = IdOrder(table, int), 0
    for step, first, count in steps:
        numbers = range(first, first + count)
        if step == "enter":
            for number in reversed(numbers) if first % 3 == 0 else numbers:
                if number not in table:
                    table[number] = entered = entered + 1
        elif step == "leave":
            for number in numbers:
                table.pop(number, None)
        elif step == "find":
            assert order.find(first, first + count - 1) == sorted(table.keys() & numbers)
        else:
            assert order.before(first) == max((number for number in table if number < first), default=None)


def test_it_does_not_keep_what_has_left() -> None:
    """The notes on ids that have left the table are at most twice as many as the ids in it."""
    table: dict[int, int] = {}
    order = IdOrder(table, int)
    for number in range(10_000):
        table[2 * number] = number
        table.pop(2 * number - 20, None)
        order.find(1, 1 << 20) if number % 7 == 0 else order.find(2 * number - 3, 1 << 31)
        assert len(order._ids) == len(order._marks) <= 2 * 10 + 66
