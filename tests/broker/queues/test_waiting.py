"""The waiting messages of a queue keep their order, however those that came back come."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from amqp10.broker._queues.message import QueuedMessage
from amqp10.broker._queues.waiting import WaitingMessages

from ...kit.broker.queue_doubles import entry
from ...kit.steps import steps


def messages(count: int) -> list[QueuedMessage]:
    made = [entry(0) for _ in range(count)]
    for position, each in enumerate(made):
        each.position, each.available = position, True
    return made


def positions(waiting: WaitingMessages) -> list[int]:
    found = []
    while (each := waiting.next(1)) is not None:
        found.append(each.position)
    return found


@given(st.integers(1, 60), st.data())
def test_order(count: int, data: st.DataObject) -> None:
    """Messages come back in runs or alone, and all go out again in order of position."""
    waiting, made = WaitingMessages(), messages(count)
    waiting.extend(made)
    held = [each for each in (waiting.next(1) for _ in range(data.draw(st.integers(1, count)))) if each is not None]
    back = data.draw(st.permutations(held))
    while back:
        size = data.draw(st.integers(1, len(back)))
        run, back = sorted(back[:size], key=lambda each: each.position), back[size:]
        if size == 1:
            waiting.come_back(run[0])
        else:
            waiting.come_back_run(run)
    assert len(waiting) == count
    assert positions(waiting) == list(range(count))


def test_a_run_again() -> None:
    """What came back together, before the others or among them, can be taken as a run."""
    waiting, made = WaitingMessages(), messages(20)
    waiting.extend(made)
    waiting.take_run(12)
    waiting.come_back_run(made[1:12:2])
    waiting.come_back_run(made[0:12:2])
    assert waiting.run(20, 1000, -math.inf) == made


def test_priorities() -> None:
    """A message of low priority that came back alone goes behind one of higher priority that comes later."""
    waiting = WaitingMessages()
    low, high = messages(2)
    waiting.append(low)
    waiting.move(low, 1 << 48)
    assert waiting.next(1) is low
    waiting.come_back_run([low])
    waiting.append(high)
    assert positions(waiting) == [1, 1 << 48]


def test_not_for_all() -> None:
    """A run with messages that are not for every consumer: these are for the others."""
    waiting, made = WaitingMessages(), messages(3)
    made[1].excluded = {1}
    waiting.come_back_run(made)
    assert waiting.run(3, 1000, -math.inf) == []
    assert [each.position for each in (waiting.next(1), waiting.next(1)) if each is not None] == [0, 2]
    assert waiting.next(1) is None
    assert waiting.next(2) is made[1]


@given(st.data())
def test_some_for_some(data: st.DataObject) -> None:
    """Each consumer gets the oldest message that is not excluded for it, whatever came back before or after."""
    waiting, held = WaitingMessages(), messages(data.draw(st.integers(1, 12)))
    model: list[QueuedMessage] = []
    for _ in range(data.draw(st.integers(1, 60))):
        if data.draw(st.booleans()) and held:
            back = held.pop(data.draw(st.integers(0, len(held) - 1)))
            back.excluded = (back.excluded or set()) | data.draw(st.sets(st.integers(1, 3)))
            waiting.come_back(back)
            model.append(back)
        else:
            consumer = data.draw(st.integers(1, 3))
            may = [each for each in model if not (each.excluded and consumer in each.excluded)]
            oldest = min(may, key=lambda each: each.position, default=None)
            assert waiting.next(consumer) is oldest
            if oldest is not None:
                model.remove(oldest)
                held.append(oldest)


def test_each_is_looked_at_once() -> None:
    """A consumer that excluded many messages does not look at all of them for each message that it gets."""
    costs = []
    for count in (100, 1000):
        waiting, made = WaitingMessages(), messages(count + 20)
        for each in made[:count]:
            each.excluded = {1}
            waiting.come_back(each)
        waiting.extend(made[count:])
        waiting.next(1)
        costs.append(steps(lambda waiting=waiting: [waiting.next(1) for _ in range(19)]))  # type: ignore[misc]
    assert costs[1] < 2 * costs[0]
