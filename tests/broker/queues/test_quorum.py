"""Quorum queues by themselves; tests/interop/test_rabbitmq_43.py asks RabbitMQ and the broker for the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amqp10.broker._queues.arguments import Arguments, QueueDeclaration
from amqp10.broker._queues.message import QueuedMessage
from amqp10.broker._queues.queue import Queue
from amqp10.dialects.fast.wire.commands import HandleConsume, HandleOpen
from amqp10.dialects.fast.wire.frames import encode_command
from amqp10.dialects.v0_10.wire.commands import MessageFlow, MessageSubscribe
from amqp10.engine import LinkTerms, SessionTerms
from amqp10.messaging import ACCEPTED, RELEASED, Message, Modified, Source, Target

from ...kit.broker.older_clients import Client010
from ...kit.broker.queue_doubles import Taker, entry, fill
from ...kit.broker.wire import Wire
from ...kit.clock import Clock
from ...kit.dialects.fast.talk import HostileClient
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


def hold_at_1_0(vhost: VirtualHostCore) -> Callable[[], object]:
    """A receiver whose window ends within the message; it may read on."""
    wire = Wire(vhost, max_frame_size=512, session=SessionTerms(incoming_window=2))
    link = wire.session.attach_receiver(LinkTerms("slow", source=Source("/queues/q"), target=Target()))
    wire.turn()
    link.flow(1)
    unread = wire.take(wire.client.data_to_send())

    def read_on() -> None:
        wire.client.receive_data(unread)
        wire.turn()
        link.flow(1)
        wire.turn()

    return read_on


def hold_at_0_10(vhost: VirtualHostCore) -> Callable[[], object]:
    """A subscription that has no credit in octets for the message; it may get some."""
    client = Client010(vhost)
    client.do(MessageSubscribe("q", "d"))
    client.do(MessageFlow("d", 0, 9))
    client.do(MessageFlow("d", 1, 10))
    return lambda: client.do(MessageFlow("d", 1, 0xFFFF_FFFF))


def hold_at_fast(vhost: VirtualHostCore) -> Callable[[], object]:
    """A consumer that is asked how much it has of the message from an earlier attempt; it may open another."""
    client = HostileClient(vhost).begun()

    def consume(handle: int) -> None:
        opening = HandleOpen(channel_id=1, handle_id=handle, service_type=1, consumer=True, dest_name="q")
        client.says(encode_command(opening) + encode_command(HandleConsume(handle_id=handle, prefetch=1)))

    consume(5)
    return lambda: consume(6)


@pytest.mark.parametrize("hold", [hold_at_1_0, hold_at_0_10, hold_at_fast])
def test_a_consumer_that_does_not_take_all_of_a_message(
    vhost: VirtualHostCore, clock: Clock, caplog: pytest.LogCaptureFixture, hold: Callable[..., Callable[[], object]]
) -> None:
    """It loses a message of which it has only a part, or nothing; it has nothing to settle, so it may have others."""
    queue = declare(vhost, x_consumer_timeout=5000)
    message = QueuedMessage.read(Message(b"x" * 9000).encode(), 0, clock.now)
    message.count_failure()
    queue.put(message)
    go_on = hold(vhost)
    quick = Told(1)
    come(queue, quick)
    assert (queue.unsettled, quick.taken) == (1, [])
    clock.now += 5
    vhost.expire()
    vhost.flush()
    assert (queue.unsettled, len(quick.taken)) == (1, 1)
    queue.settle(quick.taken[0], quick, ACCEPTED)
    queue.put(QueuedMessage.read(Message(b"y").encode(), 0, clock.now))
    go_on()
    vhost.flush()
    assert (queue.depth, queue.unsettled) == (1, 1)
    assert "Traceback" not in caplog.text


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


def test_a_link_that_is_resumed_with_another_timeout(vhost: VirtualHostCore, clock: Clock) -> None:
    """What it gives back is no longer timed as its own: the next consumer has the time of its own for it."""
    queue = declare(vhost)
    before, resumed, other = Told(1), Told(), Told(1)
    before.timeout, resumed.timeout, other.timeout = 5, 60, 90
    resumed.key = before.key
    fill(queue, 1)
    come(queue, before)
    queue.remove_consumer(before)
    come(queue, resumed)
    queue.settle(before.taken[0], resumed, RELEASED)
    come(queue, other)
    assert other.numbers == [1]
    assert queue.expire(clock.now) == clock.now + 90
    clock.now += 5
    assert queue.expire(clock.now) == clock.now + 85
    assert (queue.unsettled, resumed.lost, other.lost) == (1, [], [])


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
