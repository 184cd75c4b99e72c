from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10.broker._queues.message import QueuedMessage
from amqp10.broker._queues.queue import Queue, QueueSettings
from amqp10.messaging import ACCEPTED, RELEASED, Error, Message, Modified, Rejected
from amqp10.types import Symbol

from ...kit.broker.queue_doubles import Giver, Taker, attach, entry, fill, more
from ...kit.clock import Clock
from ...kit.steps import steps

Make = Callable[..., Queue]
FAILED = Modified(delivery_failed=True)
NOT_HERE = Modified(undeliverable_here=True)


class Graves:
    """Whoever keeps the dead."""

    def __init__(self) -> None:
        self.bodies: list[int] = []
        self.reasons: list[str] = []
        self.errors: list[Error | None] = []

    def bury(self, queue: Queue, entry: QueuedMessage, reason: str, error: Error | None) -> bool:
        self.bodies.append(entry.payload[-1])
        self.reasons.append(reason)
        self.errors.append(error)
        return True


class TestOrder:
    def test_first_in_first_out(self, make_queue: Make) -> None:
        """Messages go out in the order in which they came."""
        queue = make_queue()
        fill(queue, 1, 2, 3)
        taker = Taker(10)
        attach(queue, taker)
        assert taker.numbers == [1, 2, 3]
        assert queue.depth == queue.unsettled == 3

    def test_waiting_consumer_is_served_by_the_next_message(self, make_queue: Make) -> None:
        """A consumer that found nothing stays in line."""
        queue, taker = make_queue(), Taker(10)
        attach(queue, taker)
        fill(queue, 7)
        queue.run()
        assert taker.numbers == [7]

    def test_takes_turns(self, make_queue: Make) -> None:
        """Consumers with credit get one message each, in turn."""
        queue, one, two = make_queue(), Taker(10), Taker(10)
        attach(queue, one, two)
        fill(queue, 1, 2, 3, 4, 5, 6)
        queue.run()
        assert (one.numbers, two.numbers) == ([1, 3, 5], [2, 4, 6])

    def test_turns_go_on_over_passes(self, make_queue: Make) -> None:
        """With one message at a time the turns still change."""
        queue, one, two = make_queue(), Taker(10), Taker(10)
        attach(queue, one, two)
        for number in range(4):
            fill(queue, number)
            queue.run()
        assert (one.numbers, two.numbers) == ([0, 2], [1, 3])

    def test_fair_by_credit(self, make_queue: Make) -> None:
        """Who has no credit is passed over; the others take what there is."""
        queue, small, large = make_queue(), Taker(1), Taker(10)
        attach(queue, small, large)
        fill(queue, 1, 2, 3, 4)
        queue.run()
        assert (small.numbers, large.numbers) == ([1], [2, 3, 4])

    def test_one_pass_for_many_messages(self, make_queue: Make) -> None:
        """A consumer hears of the end of the pass once, not once a message."""
        queue, taker = make_queue(), Taker(100)
        attach(queue, taker)
        fill(queue, *range(100))
        queue.run()
        assert (len(taker.taken), taker.passes) == (100, 1)

    def test_consumer_that_left_gets_nothing(self, make_queue: Make) -> None:
        """A consumer that is removed is not in line any more."""
        queue, taker = make_queue(), Taker(10)
        attach(queue, taker)
        queue.remove_consumer(taker)
        fill(queue, 1)
        queue.run()
        assert taker.taken == []
        assert queue.depth == 1


class TestOutcomes:
    def take(self, queue: Queue, count: int = 3) -> Taker:
        fill(queue, *range(1, count + 1))
        taker = Taker(count)
        attach(queue, taker)
        return taker

    @pytest.mark.spec("3.4.2", "an accepted message leaves the queue")
    def test_accepted(self, make_queue: Make) -> None:
        """Accepted: gone, and counted."""
        queue = make_queue()
        taker = self.take(queue)
        for taken in taker.taken:
            queue.settle(taken, taker, ACCEPTED)
        assert (queue.depth, queue.bytes, queue.unsettled, queue.dequeued) == (0, 0, 0, 3)

    @pytest.mark.spec("3.4.4", "released: not acted on, available again, delivery-count unchanged")
    def test_released_returns_to_its_place(self, make_queue: Make) -> None:
        """A released message is delivered again before those that came after it, with its count unchanged."""
        queue = make_queue()
        taker = self.take(queue)
        fill(queue, 4)
        queue.settle(taker.taken[1], taker, RELEASED)
        queue.settle(taker.taken[0], taker, RELEASED)
        more(queue, taker, 10)
        assert taker.numbers == [1, 2, 3, 1, 2, 4]
        assert taker.taken[3].failures == 0
        assert queue.redelivered == 2

    @pytest.mark.spec("3.4.5", "modified with delivery-failed increments delivery-count")
    def test_modified_delivery_failed(self, make_queue: Make) -> None:
        """The second delivery says in its header that there was a failed attempt."""
        queue = make_queue()
        taker = self.take(queue, 1)
        queue.settle(taker.taken[0], taker, FAILED)
        more(queue, taker, 1)
        assert taker.taken[1].failures == 1
        assert taker.payloads[1] != taker.payloads[0]
        assert taker.payloads[1].endswith(taker.payloads[0])

    def test_consumers_that_are_gone(self, make_queue: Make) -> None:
        """They cost nothing where a message comes back that is not for every consumer."""
        costs = []
        for count in (10, 1000):
            queue = make_queue()
            taker = self.take(queue)
            for taken in taker.taken[:2]:
                queue.settle(taken, taker, NOT_HERE)
            for _ in range(count):
                other = Taker(1)
                attach(queue, other)
                queue.remove_consumer(other)
                queue.settle(other.taken[0], other, RELEASED)
            costs.append(steps(partial(queue.settle, taker.taken[2], taker, NOT_HERE)))
        assert costs[1] < 2 * costs[0]

    def test_consumers_that_are_there(self, make_queue: Make) -> None:
        """They cost nothing where the queue is asked whether one more may consume from it."""
        costs = []
        for count in (10, 1000):
            queue = make_queue()
            attach(queue, *(Taker() for _ in range(count)))
            costs.append(steps(partial(queue.locked, exclusive=False)))
        assert costs[1] < 2 * costs[0]

    @pytest.mark.spec("3.4.5", "undeliverable-here: not to this link again")
    def test_undeliverable_here(self, make_queue: Make) -> None:
        """The consumer never gets it again; another does, in its place; the consumer's other messages go on."""
        queue, other = make_queue(), Taker(0)
        taker = self.take(queue, 2)
        queue.settle(taker.taken[0], taker, NOT_HERE)
        fill(queue, 3)
        more(queue, taker, 10)
        assert taker.numbers == [1, 2, 3]
        fill(queue, 4)
        attach(queue, other)
        more(queue, other, 1)
        assert other.numbers == [1]

    @pytest.mark.spec("3.4.5", "message-annotations of modified are merged into the message")
    def test_modified_annotations(self, make_queue: Make) -> None:
        """Annotations come with the next delivery."""
        queue = make_queue()
        taker = self.take(queue, 1)
        queue.settle(taker.taken[0], taker, Modified(message_annotations={Symbol("x-opt-why"): "tired"}))
        more(queue, taker, 1)
        message = Message.decode(taker.payloads[1])
        assert message.message_annotations == {"x-opt-why": "tired"}
        assert message.body == b"\x01"
        assert queue.bytes == len(taker.payloads[1])

    @pytest.mark.spec("3.4.3", "a rejected message is not delivered again")
    def test_rejected_goes_to_the_dead(self, make_queue: Make) -> None:
        """Rejected: given to whoever keeps the dead, with the receiver's error."""
        graves = Graves()
        queue = make_queue(dead_letter=graves.bury)
        taker = self.take(queue, 1)
        error = Error(Symbol("x:bad"), "no")
        queue.settle(taker.taken[0], taker, Rejected(error))
        assert (graves.bodies, graves.reasons, graves.errors) == ([1], ["rejected"], [error])
        assert (queue.depth, queue.rejected, queue.dead_lettered) == (0, 1, 1)

    def test_max_delivery_count(self, make_queue: Make) -> None:
        """After so many failures a message is not tried again; releasing does not count."""
        graves = Graves()
        queue = make_queue(max_delivery_count=2, dead_letter=graves.bury)
        taker = self.take(queue, 1)
        for outcome in (FAILED, RELEASED, RELEASED, FAILED):
            queue.settle(taker.taken[-1], taker, outcome)
            more(queue, taker, 1)
        assert graves.reasons == ["max-delivery-count"]
        assert (len(taker.taken), queue.depth, queue.exhausted) == (4, 0, 1)

    def test_no_outcome_is_a_failed_attempt(self, make_queue: Make) -> None:
        """What ends without an outcome comes back marked as tried."""
        queue = make_queue()
        taker = self.take(queue, 1)
        queue.settle(taker.taken[0], taker, None)
        more(queue, taker, 1)
        assert taker.taken[1].failures == 1

    def test_settling_twice_does_nothing(self, make_queue: Make) -> None:
        """A second outcome for the same delivery changes nothing."""
        queue = make_queue()
        taker = self.take(queue, 1)
        queue.settle(taker.taken[0], taker, RELEASED)
        queue.settle(taker.taken[0], taker, ACCEPTED)
        assert (queue.depth, queue.unsettled, queue.dequeued) == (1, 0, 0)

    def test_settled_when_sent(self, make_queue: Make) -> None:
        """For a consumer that takes messages settled they leave with the delivery."""
        queue = make_queue()
        fill(queue, 1, 2)
        taker = Taker(1, settles=True)
        attach(queue, taker)
        assert (queue.depth, queue.unsettled, queue.dequeued) == (1, 0, 1)
        assert taker.numbers == [1]

    def test_too_large_for_a_consumer(self, make_queue: Make) -> None:
        """A message larger than a consumer takes goes to another, and does not block the one."""
        queue = make_queue()
        queue.put(entry(1, b"x" * 100))
        queue.put(entry(2))
        small, large = Taker(10, largest=50), Taker(0)
        attach(queue, small, large)
        assert small.numbers == [2]
        more(queue, large, 10)
        assert large.numbers == [1]


class TestDrain:
    def test_told_when_empty(self, make_queue: Make) -> None:
        """A draining consumer is told once there is nothing left, after what there is."""
        queue, taker = make_queue(), Taker(5)
        fill(queue, 1)
        queue.add_consumer(taker)
        queue.in_line(taker, drain=True)
        queue.run()
        assert (taker.numbers, taker.told_nothing_left) == ([1], 1)

    def test_not_told_while_there_are_messages(self, make_queue: Make) -> None:
        """A draining consumer that cannot take more just now is not told that all is done."""
        queue, taker = make_queue(), Taker(1)
        fill(queue, 1, 2)
        queue.add_consumer(taker)
        queue.in_line(taker, drain=True)
        queue.run()
        assert taker.told_nothing_left == 0
        more(queue, taker, 5)
        assert (taker.numbers, taker.told_nothing_left) == ([1, 2], 1)

    def test_browser(self, make_queue: Make) -> None:
        """A browser drains when it has seen all."""
        queue, browser = make_queue(), Taker(5, copies=True)
        fill(queue, 1)
        queue.add_consumer(browser)
        queue.in_line(browser, drain=True)
        queue.run()
        assert (browser.numbers, browser.told_nothing_left) == ([1], 1)

    def test_nothing_left_for_this_one(self, make_queue: Make) -> None:
        """Messages that may not go to the consumer do not keep it from draining."""
        queue, taker = make_queue(), Taker(1)
        fill(queue, 1)
        attach(queue, taker)
        queue.settle(taker.taken[0], taker, NOT_HERE)
        taker.credit = 1
        queue.in_line(taker, drain=True)
        queue.run()
        assert taker.told_nothing_left == 1


class TestLater:
    """An outcome says when its message is to come again; each test asks for ten minutes."""

    ALARM = 1600.0  # of the test's clock, give or take what of the machine's passes in between

    def wait(self, queue: Queue, taker: Taker, number: int = 0, *, failed: bool = True) -> None:
        when = round((time.time() + 600) * 1000)
        outcome = Modified(delivery_failed=failed, message_annotations={Symbol("x-opt-delivery-time"): when})
        queue.settle(taker.taken[number], taker, outcome)

    @pytest.mark.parametrize("failed", [True, False])
    def test_comes_when_it_is_due(self, make_queue: Make, clock: Clock, failed: bool) -> None:
        """Others go first; when it is due, it is the oldest again."""
        alarms: list[float] = []
        queue, taker = make_queue(alarm=lambda queue, moment: alarms.append(moment)), Taker(1)
        fill(queue, 1, 2, 3)
        attach(queue, taker)
        self.wait(queue, taker, failed=failed)
        more(queue, taker, 1)
        assert (taker.numbers, queue.depth, queue.unsettled) == ([1, 2], 3, 1)
        assert queue.expire(clock.now) == alarms[0] == pytest.approx(self.ALARM, abs=60)
        clock.now = alarms[0]
        assert queue.expire(clock.now) is None
        more(queue, taker, 5)
        assert taker.numbers == [1, 2, 1, 3]
        assert taker.taken[2].failures == failed

    @pytest.mark.parametrize("said", [0, -1, 10**15, "soon", None])
    def test_no_time_to_come(self, make_queue: Make, said: object) -> None:
        """What is over, or is no time, has it come at once; what is far off is kept."""
        queue, taker = make_queue(), Taker(1)
        fill(queue, 1)
        attach(queue, taker)
        queue.settle(taker.taken[0], taker, Modified(message_annotations={Symbol("x-opt-delivery-time"): said}))
        more(queue, taker, 1)
        assert taker.numbers == ([1] if said == 10**15 else [1, 1])

    def test_settled_twice(self, make_queue: Make, clock: Clock) -> None:
        """While it waits, it is nobody's: a second outcome, or the end of a link, changes nothing."""
        queue, taker = make_queue(), Taker(1)
        fill(queue, 1)
        attach(queue, taker)
        self.wait(queue, taker)
        for outcome in (ACCEPTED, RELEASED, None):
            queue.settle(taker.taken[0], taker, outcome)
        queue.lost(taker.taken[0])
        assert (queue.depth, queue.unsettled, queue.dequeued) == (1, 0, 0)
        clock.now += 660
        queue.expire(clock.now)
        more(queue, taker, 5)
        assert taker.numbers == [1, 1]

    def test_last_attempt(self, make_queue: Make) -> None:
        """It does not wait, but goes to the dead letters."""
        graves = Graves()
        queue, taker = make_queue(max_delivery_count=1, dead_letter=graves.bury), Taker(1)
        fill(queue, 1)
        attach(queue, taker)
        self.wait(queue, taker)
        assert (graves.reasons, queue.depth) == (["max-delivery-count"], 0)

    def test_purged_and_expiring(self, make_queue: Make, clock: Clock) -> None:
        """Those that wait are purged, too; one whose time-to-live is over meanwhile dies when it comes back."""
        queue, taker = make_queue(), Taker(2)
        mortal = entry(1)
        mortal.expires = clock.now + 5
        queue.put(mortal)
        fill(queue, 2)
        attach(queue, taker)
        self.wait(queue, taker, 0)
        self.wait(queue, taker, 1)
        assert (queue.depth, queue.purge(), queue.depth, queue.bytes) == (2, 2, 0, 0)
        assert queue.expire(clock.now + 660) is None
        queue.put(again := entry(3))
        again.expires = clock.now + 5
        more(queue, taker, 1)
        self.wait(queue, taker, 2)
        clock.now += 660
        queue.expire(clock.now)
        assert (queue.depth, queue.expired) == (0, 1)


class TestTime:
    def mortal(self, number: int, expires: float) -> QueuedMessage:
        made = entry(number)
        made.expires = expires
        return made

    def test_dies_in_time(self, make_queue: Make, clock: Clock) -> None:
        """Messages die when their time has come, in any order; the next deadline is told."""
        queue = make_queue()
        for number, expires in ((1, 1010.0), (2, 1005.0), (3, 1020.0)):
            queue.put(self.mortal(number, expires))
        assert queue.expire(clock.now) == 1005.0
        clock.now = 1012.0
        assert queue.expire(clock.now) == 1020.0
        taker = Taker(10)
        attach(queue, taker)
        assert taker.numbers == [3]
        assert (queue.depth, queue.expired) == (1, 2)

    def test_dead_is_not_delivered(self, make_queue: Make, clock: Clock) -> None:
        """Delivery looks at the clock itself, whether `expire` was called in time or not."""
        queue, taker = make_queue(), Taker(10)
        queue.put(self.mortal(1, 1001.0))
        clock.now = 1001.0
        attach(queue, taker)
        assert (taker.taken, queue.depth, queue.expired) == ([], 0, 1)

    def test_held_dies_when_it_comes_back(self, make_queue: Make, clock: Clock) -> None:
        """A message does not die in a consumer's hands, but it does when released too late."""
        queue, taker = make_queue(), Taker(1)
        queue.put(self.mortal(1, 1001.0))
        attach(queue, taker)
        clock.now = 1002.0
        queue.expire(clock.now)
        assert queue.depth == 1
        queue.settle(taker.taken[0], taker, RELEASED)
        assert (queue.depth, queue.expired) == (0, 1)

    def test_expired_to_the_dead_if_asked(self, make_queue: Make, clock: Clock) -> None:
        """With `dead_letter_expired` the dead are kept."""
        graves = Graves()
        queue = make_queue(dead_letter_expired=True, dead_letter=graves.bury)
        queue.put(self.mortal(1, 1001.0))
        clock.now = 1002.0
        queue.expire(clock.now)
        assert (graves.reasons, queue.dead_lettered) == (["expired"], 1)

    def test_alarm(self, make_queue: Make) -> None:
        """Whoever keeps the time hears of each new deadline."""
        alarms: list[float] = []
        queue = make_queue(alarm=lambda queue, deadline: alarms.append(deadline))
        queue.put(self.mortal(1, 1001.0))
        queue.put(entry(2))
        assert alarms == [1001.0]

    def test_traces_of_the_dead_are_few(self, make_queue: Make, clock: Clock) -> None:
        """What died or left long ago does not pile up in the queue's books."""
        queue, taker = make_queue(), Taker(0, settles=True)
        attach(queue, taker)
        for _ in range(10):
            for number in range(200):
                queue.put(self.mortal(number, clock.now + (1.0 if number % 2 else 1e6)))
            clock.now += 2.0
            queue.expire(clock.now)
            more(queue, taker, 100)
            queue.expire(clock.now)
        assert queue.depth == 0
        assert len(queue._expiring) + len(queue._waiting) <= 600


@given(st.data())
@settings(max_examples=2 * settings().max_examples, deadline=None)
def test_nothing_is_lost_or_doubled(data: st.DataObject) -> None:
    """Whatever consumers do, each message is waiting, held by one consumer, or gone for a reason that was counted."""
    graves, clock = Graves(), Clock()
    queue = Queue("q", QueueSettings(clock=clock, touch=lambda node: None, dead_letter=graves.bury))
    takers: list[Taker] = []
    held: dict[int, list[tuple[Taker, QueuedMessage]]] = {}
    put = accepted = 0
    outcomes = st.sampled_from([ACCEPTED, RELEASED, FAILED, NOT_HERE, Rejected(None), None])
    for _ in range(data.draw(st.integers(1, 40))):
        action = data.draw(st.sampled_from(["put", "attach", "credit", "settle", "settle many", "detach", "time"]))
        if action == "put":
            for _ in range(data.draw(st.integers(1, 5))):
                made = entry(put)
                made.expires = clock.now + 10 if data.draw(st.booleans()) else None
                queue.put(made)
                put += 1
        elif action == "attach":
            takers.append(Taker(data.draw(st.integers(0, 5))))
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
            elif action == "settle many":
                outcome = data.draw(outcomes)
                accepted += len(taker.taken) if outcome is ACCEPTED else 0
                ended, taker.taken = data.draw(st.permutations(taker.taken)), []
                queue.settle_run(ended, taker, outcome)
            elif taker.taken:
                leaving = action == "detach"
                for taken in list(reversed(taker.taken)) if leaving else [data.draw(st.sampled_from(taker.taken))]:
                    outcome = None if leaving else data.draw(outcomes)
                    accepted += outcome is ACCEPTED
                    taker.taken.remove(taken)
                    queue.settle(taken, taker, outcome)
                if leaving:
                    queue.remove_consumer(taker)
                    takers.remove(taker)
        queue.run()
        held = {}
        for taker in takers:
            for taken in taker.taken:
                held.setdefault(taken.position, []).append((taker, taken))
        assert all(len(holders) == 1 for holders in held.values())
        assert queue.unsettled == len(held)
        assert (queue.dequeued, queue.rejected) == (accepted, len(graves.bodies))
        assert put == queue.depth + accepted + queue.rejected + queue.expired
    # Everything that is left comes out, once, oldest first.
    for taker in takers:
        for taken in reversed(taker.taken):
            queue.settle(taken, taker, RELEASED)
        queue.remove_consumer(taker)
    last = Taker(1000)
    queue.add_consumer(last)
    queue.in_line(last)
    queue.run()
    positions = [taken.position for taken in last.taken]
    assert positions == sorted(set(positions))
    assert len(positions) == queue.depth


def test_delete(make_queue: Make) -> None:
    """Deleting tells all links, and what they do afterwards is harmless."""
    queue, taker, giver = make_queue(), Taker(1), Giver()
    fill(queue, 1, 2)
    queue.add_producer(giver)
    attach(queue, taker)
    error = Error(Symbol("amqp:resource-deleted"), None)
    queue.delete(error)
    queue.settle(taker.taken[0], taker, RELEASED)
    queue.remove_consumer(taker)
    queue.run()
    assert (taker.error, giver.error, queue.depth) == (error, error, 0)
