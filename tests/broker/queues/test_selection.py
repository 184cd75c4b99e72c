"""Consumers with filters on a queue: each takes what passes, in order, and holds up nobody."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10 import Message, Selector, Source, StreamOffset
from amqp10.broker import Broker
from amqp10.broker._queues.message import QueuedMessage
from amqp10.broker._queues.queue import PASS, Queue, QueueSettings
from amqp10.broker._queues.selection import MAX_LOOKED_AT, Filtering
from amqp10.messaging import ACCEPTED, RELEASED, Modified, Rejected

from ...kit.broker.queue_doubles import Taker, entry, fill
from ...kit.clock import Clock

Make = Callable[..., Queue]
NOT_HERE = Modified(undeliverable_here=True)


class Sieve:
    """Lets the multiples of a number pass, and counts how often it was asked."""

    def __init__(self, step: int, cost: int = 0) -> None:
        self.asked = 0
        self.step = step
        self.filtering = Filtering(("sieve", step), self.passes, cost=cost)

    def passes(self, entry: QueuedMessage) -> bool:
        self.asked += 1
        return entry.payload[-1] % self.step == 0


def attach(queue: Queue, *takers: Taker) -> None:
    """Add consumers that stand in line, and let the queue have its pass."""
    for taker in takers:
        queue.add_consumer(taker)
        queue.in_line(taker)
    queue.run()


def test_takes_what_passes(make_queue: Make) -> None:
    """What does not pass stays where it is, for whoever comes."""
    queue, even, every = make_queue(), Taker(10, filtering=Sieve(2).filtering), Taker(10)
    fill(queue, 1, 2, 3)
    attach(queue, even)
    assert even.numbers == [2]
    fill(queue, 4, 5)
    queue.run()
    assert even.numbers == [2, 4]
    attach(queue, every)
    assert every.numbers == [1, 3, 5]
    assert (queue.depth, queue.unsettled) == (5, 5)


def test_holds_up_nobody(make_queue: Make) -> None:
    """A consumer for which there is nothing leaves the others their turns."""
    queue, none, one, two = make_queue(), Taker(10, filtering=Sieve(100).filtering), Taker(10), Taker(10)
    attach(queue, none, one, two)
    fill(queue, 1, 2, 3, 4)
    queue.run()
    assert (none.numbers, one.numbers, two.numbers) == ([], [1, 3], [2, 4])


def test_turns_among_equal_filters(make_queue: Make) -> None:
    """Consumers with the same filter compete for what passes it, and look at each message once together."""
    sieve = Sieve(2)
    queue, one, two = make_queue(), Taker(10, filtering=sieve.filtering), Taker(10, filtering=Sieve(2).filtering)
    attach(queue, one, two)
    fill(queue, *range(8))
    queue.run()
    assert (one.numbers, two.numbers) == ([0, 4], [2, 6])
    assert sieve.asked == 8
    queue.remove_consumer(one)
    fill(queue, 8, 9, 10)
    queue.run()
    assert two.numbers == [2, 6, 8, 10]


def test_each_message_is_looked_at_once(make_queue: Make) -> None:
    """However often a consumer asks for more, what it has passed over is not looked at again."""
    sieve = Sieve(100)
    queue, taker = make_queue(), Taker(1, filtering=sieve.filtering)
    fill(queue, *range(1, 100))
    attach(queue, taker)
    for number in range(1, 50):
        fill(queue, number)
        queue.in_line(taker)
        queue.run()
    assert (taker.numbers, sieve.asked) == ([], 148)
    fill(queue, 100)
    queue.run()
    assert (taker.numbers, sieve.asked) == ([100], 149)


def test_comes_back_to_its_place(make_queue: Make) -> None:
    """What one consumer gives back waits in its old place, for those with filters and those without."""
    queue, first, even = make_queue(), Taker(4), Taker(0, filtering=Sieve(2).filtering)
    fill(queue, 1, 2, 3, 4, 5, 6)
    attach(queue, first, even)
    assert first.numbers == [1, 2, 3, 4]
    for taken in reversed(first.taken):
        queue.settle(taken, first, RELEASED)
    even.credit = 2
    queue.in_line(even)
    queue.run()
    assert even.numbers == [2, 4]
    for taken in reversed(even.taken):
        queue.settle(taken, even, RELEASED)
    attach(queue, rest := Taker(10))
    assert rest.numbers == [1, 2, 3, 4, 5, 6]


def test_undeliverable_here(make_queue: Make) -> None:
    """A message that a consumer excludes itself from goes to another with the same filter, never back to it."""
    queue, one, two = make_queue(), Taker(10, filtering=Sieve(2).filtering), Taker(0, filtering=Sieve(2).filtering)
    fill(queue, 2, 4)
    attach(queue, one, two)
    queue.settle(one.taken[0], one, NOT_HERE)
    queue.run()
    assert one.numbers == [2, 4]
    two.credit = 1
    queue.in_line(two)
    queue.run()
    assert two.numbers == [2]


def test_a_browser_with_a_filter(make_queue: Make) -> None:
    """It sees copies of what passes, what waits and what comes."""
    queue, browser = make_queue(), Taker(10, copies=True, filtering=Sieve(2).filtering)
    fill(queue, 1, 2, 3)
    attach(queue, browser)
    fill(queue, 4)
    queue.run()
    assert (browser.numbers, queue.depth, queue.copied) == ([2, 4], 4, 2)


def test_drained(make_queue: Make) -> None:
    """A drain ends when nothing that passes is left, whatever else waits."""
    queue, taker = make_queue(), Taker(5, filtering=Sieve(2).filtering)
    fill(queue, 1, 2, 3)
    queue.add_consumer(taker)
    queue.in_line(taker, drain=True)
    queue.run()
    assert (taker.numbers, taker.told_nothing_left) == ([2], 1)


def test_nothing_of_the_dead_is_kept(make_queue: Make) -> None:
    """Where everything is taken out of turn, and where a filter never gets to look, what left is forgotten."""
    queue = make_queue()
    quick, slow = Taker(settles=True, filtering=Sieve(1).filtering), Taker(0, filtering=Sieve(2).filtering)
    attach(queue, quick, slow)
    for _ in range(100):
        fill(queue, *range(100))
        quick.credit = 100
        queue.in_line(quick)
        queue.run()
        quick.taken.clear()
    assert queue.depth == 0
    assert len(queue._waiting) <= 400
    assert all(len(unseen) <= 400 for unseen in queue._unseen)


@given(st.data())
@settings(max_examples=2 * settings().max_examples, deadline=None)
def test_nothing_is_lost_or_doubled(data: st.DataObject) -> None:
    """Whatever consumers do: each message is in one place, went to whom it was for, and nobody waits for nothing."""
    clock = Clock()
    queue = Queue("q", QueueSettings(clock=clock, touch=lambda node: None))
    takers: list[Taker] = []
    put = accepted = 0
    outcomes = st.sampled_from([ACCEPTED, RELEASED, NOT_HERE, Rejected(None), None])
    for _ in range(data.draw(st.integers(1, 40))):
        action = data.draw(st.sampled_from(["put", "attach", "credit", "settle", "detach", "time"]))
        if action == "put":
            for _ in range(data.draw(st.integers(1, 6))):
                made = entry(put % 256)
                made.expires = clock.now + 10 if data.draw(st.booleans()) else None
                queue.put(made)
                put += 1
        elif action == "attach":
            step = data.draw(st.integers(0, 3))
            takers.append(Taker(data.draw(st.integers(0, 5)), filtering=Sieve(step).filtering if step else None))
            queue.add_consumer(takers[-1])
            queue.in_line(takers[-1])
        elif action == "time":
            clock.now += 4
            queue.expire(clock.now)
        elif takers:
            taker = data.draw(st.sampled_from(takers))
            if action == "credit":
                taker.credit = data.draw(st.integers(0, 5))
                queue.in_line(taker)
            else:
                leaving = action == "detach"
                some = [data.draw(st.sampled_from(taker.taken))] if taker.taken else []
                for taken in list(reversed(taker.taken)) if leaving else some:
                    outcome = None if leaving else data.draw(outcomes)
                    accepted += outcome is ACCEPTED
                    taker.taken.remove(taken)
                    queue.settle(taken, taker, outcome)
                if leaving:
                    queue.remove_consumer(taker)
                    takers.remove(taker)
        queue.run()
        held = [taken for taker in takers for taken in taker.taken]
        assert len({taken.position for taken in held}) == len(held) == queue.unsettled
        assert put == queue.depth + accepted + queue.rejected + queue.expired
        waiting = queue._waiting.available()
        assert len({waits.position for waits in waiting}) == len(waiting) == queue.depth - queue.unsettled
        for taker in takers:
            assert all(taker.filtering is None or taker.filtering.passes(taken) for taken in taker.taken)
            if taker.credit > 0:
                assert not any(
                    (waits.expires is None or waits.expires > clock.now)
                    and (taker.filtering is None or taker.filtering.passes(waits))
                    and taker.key not in (waits.excluded or ())
                    for waits in waiting
                )


def test_excluded_messages_are_looked_at_once() -> None:
    """A consumer gave back more messages than filters test in one pass: it gets new ones, and the queue rests."""
    alarms: list[float] = []
    clock = Clock()
    queue = Queue(
        "q",
        QueueSettings(clock=clock, touch=lambda node: None, alarm=lambda queue, deadline: alarms.append(deadline)),
    )
    taker = Taker(10_000, filtering=Sieve(1).filtering)

    def rest() -> None:
        """Let the queue have passes until it asks for no more."""
        for _ in range(10):
            queue.run()
            if not alarms:
                return
            alarms.clear()
            queue.expire(clock.now)
        raise AssertionError("the queue asks for one pass after the other")

    count = MAX_LOOKED_AT + 100
    fill(queue, *[1] * count)
    queue.add_consumer(taker)
    queue.in_line(taker)
    rest()
    held, taker.taken = taker.taken, []
    assert len(held) == count
    queue.settle_run(held, taker, NOT_HERE)
    rest()
    assert taker.taken == []
    fill(queue, 2)
    rest()
    assert [each.payload[-1] for each in taker.taken] == [2]
    another = Taker(10_000, filtering=taker.filtering)
    queue.remove_consumer(taker)
    queue.add_consumer(another)
    queue.in_line(another)
    rest()
    assert another.taken == held


@pytest.mark.parametrize("filtered", [False, True])
def test_many_consumers_that_get_nothing(filtered: bool) -> None:
    """However many consumers wait, each for what passes its own filter: the queue rests while nothing does.

    So does it if all of them have excluded what there is.
    """
    alarms: list[float] = []
    clock = Clock()
    queue = Queue(
        "q",
        QueueSettings(clock=clock, touch=lambda node: None, alarm=lambda queue, deadline: alarms.append(deadline)),
    )
    takers = [Taker(1, filtering=Sieve(101 + number).filtering if filtered else None) for number in range(PASS // 5)]
    fill(queue, 1)
    if not filtered:
        attach(queue, takers[0])
        (entry,) = takers[0].taken
        entry.excluded = {taker.key for taker in takers}
        queue.settle(entry, takers[0], RELEASED)
        takers[0].credit, takers[0].taken = 1, []
    for taker in takers:
        queue.add_consumer(taker)
        queue.in_line(taker)
    queue.run()
    assert not alarms
    assert not any(taker.taken for taker in takers)


@pytest.mark.parametrize("cost", [0, 9])
def test_a_pass_is_bounded(cost: int) -> None:
    """Where filters have much to look at, others have their turn in between; nothing is left out in the end.

    Filters that take longer look at less.
    """
    clock, alarms = Clock(), list[float]()
    queue = Queue(
        "q",
        QueueSettings(clock=clock, touch=lambda node: None, alarm=lambda queue, deadline: alarms.append(deadline)),
    )
    none, browser, every = Sieve(1000, cost), Sieve(1001, cost), Taker(1)
    fill(queue, *(number % 100 + 1 for number in range(3 * MAX_LOOKED_AT)))
    picky = Taker(10, filtering=none.filtering)
    draining = Taker(10, filtering=browser.filtering, copies=True)
    for taker in (picky, draining):
        queue.add_consumer(taker)
        queue.in_line(taker, drain=True)
    queue.run()
    passes = 1
    while alarms:
        assert none.asked + browser.asked <= passes * (MAX_LOOKED_AT // (1 + cost) + 1)
        assert not (picky.told_nothing_left and draining.told_nothing_left)
        alarms.clear()
        if passes == 1:
            attach(queue, every)
            assert every.numbers == [1]
            passes += 1
        queue.expire(clock.now)
        queue.run()
        passes += 1
    assert passes >= 6
    assert browser.asked == 3 * MAX_LOOKED_AT - 1  # one was taken meanwhile
    assert none.asked >= 3 * MAX_LOOKED_AT - 1
    assert picky.told_nothing_left == draining.told_nothing_left == 1


@pytest.mark.anyio
@pytest.mark.in_memory
@pytest.mark.parametrize("arguments", [{}, {"x-queue-type": "stream"}])
async def test_far_behind(arguments: dict[str, str]) -> None:
    """A receiver gets what passes its filter, however much stands before it."""
    chosen = {"a": Selector("JMSType = 'yes'")} | ({"b": StreamOffset("first")} if arguments else {})
    async with Broker(queues={"q": arguments}) as broker, broker.connect() as connection:
        async with connection.sender("q") as sender:
            await sender.send_many([Message("x", subject="no")] * 5000 + [Message("yes", subject="yes")])
        for mode in ("move", "copy"):
            source = Source("q", filter=chosen, distribution_mode=mode)
            async with connection.receiver(source) as receiver:
                with anyio.fail_after(60):
                    delivery = await receiver.receive()
                assert delivery.message.body == "yes"


def test_a_filter_ends_with_its_last_consumer(make_queue: Make) -> None:
    """As long as one of those that share it is there, it selects; then the queue keeps nothing of it."""
    queue, sieve = make_queue(), Sieve(2)
    kept = weakref.ref(sieve)
    first, second = Taker(filtering=sieve.filtering), Taker(1, filtering=sieve.filtering)
    del sieve
    attach(queue, first, second)
    queue.remove_consumer(first)
    fill(queue, 1, 2)
    queue.run()
    assert second.numbers == [2]
    queue.remove_consumer(second)
    del first, second
    gc.collect()
    assert kept() is None
