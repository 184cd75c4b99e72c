"""Quorum queues by themselves; tests/interop/test_rabbitmq_43.py asks RabbitMQ and the broker for the same."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.broker._queues.arguments import Arguments, QueueDeclaration
from amqp10.broker._queues.message import QueuedMessage
from amqp10.broker._queues.queue import Queue
from amqp10.messaging import ACCEPTED, RELEASED, Message, Modified

from ...kit.broker.queue_doubles import Taker, entry, fill
from ...kit.clock import Clock
from ...kit.inside.broker import Refused, VirtualHostCore

FAILED = Modified(delivery_failed=True)


class Told(Taker):
    """One that loses what it takes too long for, and remembers whether it is active."""

    def __init__(self, credit: int = 0, priority: int = 0) -> None:
        super().__init__(credit)
        self.priority = priority
        self.active: list[bool] = []
        self.lost: list[QueuedMessage] = []  # what it is to settle in their place

    def give_up(self, entry: QueuedMessage) -> QueuedMessage | None:
        stand_in = QueuedMessage(b"")
        stand_in.free()
        self.lost.append(stand_in)
        return stand_in

    def active_changed(self, active: bool) -> None:
        self.active.append(active)


def declare(vhost: VirtualHostCore, **arguments: Any) -> Queue:
    """A quorum queue with these arguments, underscores for dashes."""
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    return vhost.declare_queue("q", QueueDeclaration(arguments={"x-queue-type": "quorum"} | named))


def come(queue: Queue, *takers: Taker) -> None:
    """Consumers come, and are handed what there is."""
    for taker in takers:
        queue.add_consumer(taker)
        queue.in_line(taker)
    queue.run()


def again(queue: Queue, taker: Taker) -> None:
    """A consumer may have one more."""
    taker.credit += 1
    queue.in_line(taker)
    queue.run()


def test_priorities(vhost: VirtualHostCore) -> None:
    """All of a higher priority first, 31 the highest; what says none has 4, and what comes back its own."""
    queue = declare(vhost)
    for priority in (0, 31, None, 5, 4, 200):
        queue.put(QueuedMessage.read(Message(priority, priority=priority).encode(), 0, 0.0))
    taker = Told(6)
    come(queue, taker)
    assert [Message.decode(each).body for each in taker.payloads] == [31, 200, 5, None, 4, 0]
    queue.settle(taker.taken[0], taker, RELEASED)
    queue.settle(taker.taken[2], taker, RELEASED)
    taker.credit = 2
    come(queue, taker)
    assert [Message.decode(each).body for each in taker.payloads[6:]] == [31, 5]


def test_a_consumer_that_takes_too_long(vhost: VirtualHostCore, clock: Clock) -> None:
    """It loses its messages to another, and gets no more before it has settled them; the outcome counts for nothing."""
    queue = declare(vhost, x_consumer_timeout=5000)
    slow, quick = Told(2), Told()
    fill(queue, 1, 2, 3)
    come(queue, slow, quick)
    clock.now += 4
    queue.settle(slow.taken[1], slow, ACCEPTED)
    assert queue.expire(clock.now) == clock.now + 1
    again(queue, quick)
    clock.now += 1
    assert queue.expire(clock.now) == clock.now + 4  # the other has message 3
    assert (len(slow.lost), queue.unsettled) == (1, 1)
    slow.credit += 5
    queue.in_line(slow, drain=True)
    again(queue, quick)
    assert (slow.numbers, slow.told_nothing_left) == ([1, 2], 1)
    assert [Message.decode(each).body for each in quick.payloads] == [b"\3", b"\1"]
    queue.settle(slow.lost[0], slow, ACCEPTED)
    assert (queue.depth, queue.unsettled) == (2, 2)
    fill(queue, 4)
    queue.run()
    assert slow.numbers == [1, 2, 4]


def test_what_a_link_holds_that_may_be_resumed(vhost: VirtualHostCore, clock: Clock) -> None:
    """A message whose consumer is not there stays held: whoever resumes the link still has it."""
    queue = declare(vhost, x_consumer_timeout=5000)
    taker = Told(1)
    fill(queue, 1)
    come(queue, taker)
    queue.remove_consumer(taker)
    clock.now += 5
    assert queue.expire(clock.now) == clock.now + 5
    assert (queue.unsettled, taker.lost) == (1, [])


def test_one_active(vhost: VirtualHostCore, clock: Clock) -> None:
    """The first; one of higher priority, when the first holds nothing; any other, while it is late."""
    queue = declare(vhost, x_single_active_consumer=True, x_consumer_timeout=5000)
    first, second, high = Told(1), Told(1), Told(1, priority=5)
    fill(queue, 1)
    come(queue, first, second)
    come(queue, high)
    assert (first.active, second.active, high.active) == ([True], [False], [False])
    fill(queue, 2)
    again(queue, first)
    assert (first.numbers, high.numbers) == ([1], [])  # nobody gets more before the first is done
    queue.settle(first.taken[0], first, ACCEPTED)
    queue.run()
    assert (first.active, high.active, high.numbers) == ([True, False], [False, True], [2])
    clock.now += 5
    queue.expire(clock.now)
    queue.run()
    assert (high.active, first.active, first.numbers) == ([False, True, False], [True, False, True], [1, 2])
    queue.settle(high.lost[0], high, ACCEPTED)
    queue.settle(first.taken[1], first, ACCEPTED)
    assert (first.active[-1], high.active[-1]) == (False, True)
    queue.remove_consumer(high)
    queue.remove_consumer(first)
    assert second.active == [False, True]


def test_what_waits_for_its_retry(vhost: VirtualHostCore, clock: Clock) -> None:
    """It is in the queue, and nobody's; it comes back in its old place, and is purged with the others."""
    queue = declare(vhost, x_delayed_retry_type="failed", x_delayed_retry_min=1000, x_delayed_retry_max=1500)
    taker = Told(1)
    fill(queue, 1, 2)
    come(queue, taker)
    queue.settle(taker.taken[0], taker, FAILED)
    queue.settle(taker.taken[0], taker, ACCEPTED)  # a second outcome counts for nothing
    assert (queue.depth, queue.unsettled) == (2, 0)
    assert queue.expire(clock.now) == clock.now + 1
    clock.now += 1
    queue.expire(clock.now)
    again(queue, taker)
    assert Message.decode(taker.payloads[1]).body == b"\1"
    queue.settle(taker.taken[1], taker, FAILED)
    assert queue.expire(clock.now) == clock.now + 1.5
    assert queue.purge() == 2
    assert (queue.depth, queue.bytes) == (0, 0)


@pytest.mark.parametrize(
    ("arguments", "limit"), [({}, 21), ({"x_delivery_limit": 0}, 1), ({"x_delivery_limit": -1}, None)]
)
def test_limit(vhost: VirtualHostCore, arguments: dict[str, int], limit: int | None) -> None:
    """The usual one of 20 failures after the first; none where it is negative. What is released meets none."""
    queue = declare(vhost, **arguments)
    taker = Told(1)
    queue.put(entry(1))
    come(queue, taker)
    for _ in range(50):
        queue.settle(taker.taken[-1], taker, RELEASED)
        again(queue, taker)
    for _ in range(50 if limit is None else limit):
        assert queue.depth == 1
        queue.settle(taker.taken[-1], taker, FAILED)
        again(queue, taker)
    assert queue.exhausted == (limit is not None)


@pytest.mark.parametrize("value", [-1, "1", True, 1 << 60])
def test_wrong_timeout(value: object) -> None:
    """A time is a number of milliseconds."""
    with pytest.raises(Refused, match="x-consumer-timeout"):
        Arguments.read({"x-consumer-timeout": value})


def test_own_priorities(vhost: VirtualHostCore) -> None:
    """It has 32 of its own."""
    with pytest.raises(Refused, match="x-max-priority"):
        declare(vhost, x_max_priority=5)
