"""Messages that expire at one moment, or come back at one, do so in several passes; others have their turn between."""

from __future__ import annotations

from datetime import timedelta

import pytest

from amqp10.engine import SessionTerms
from amqp10.messaging import Message, Modified

from ...kit.broker.wire import Wire, queue_of
from ...kit.inside.broker import Queue, QueueDeclaration, QueuedMessage, VirtualHostCore, VirtualHostSettings

MANY, MANY_DEAD_LETTERS = 12_000, 1500


class Due:
    """A queue whose messages are due at second 1, and a consumer that drains it then."""

    def __init__(self, count: int, *, dead_letters: bool = False) -> None:
        self.now = 0.0
        self.vhost = VirtualHostCore(VirtualHostSettings(dead_letter_expired=dead_letters), clock=lambda: self.now)
        self.wire = Wire(self.vhost, session=SessionTerms(incoming_window=1_000_000))
        self.link = self.wire.receive_from("q")
        self.queue: Queue = queue_of(self.vhost, "q")
        if count:
            payload = Message(b"due", ttl=timedelta(seconds=1)).encode()
            self.queue.take_run(QueuedMessage.read_run([payload] * count, 0, None, 0.0))
        self.vhost.flush()
        self.now = 2.0

    def passes(self) -> list[int]:
        """Let the broker do what is due; return how many messages left the queue in each pass."""
        left = []
        while self.vhost.next_expiry is not None and self.vhost.next_expiry <= self.now:
            before = self.queue.depth
            self.vhost.expire()
            self.vhost.flush()
            left.append(before - self.queue.depth)
        return left


@pytest.mark.parametrize("dead_letters", [False, True])
def test_expiry(dead_letters: bool) -> None:
    """Thousands expire in several passes: all of 200,000 took 0.4 s in one, as dead letters 5 s."""
    count = MANY_DEAD_LETTERS if dead_letters else MANY
    due = Due(count, dead_letters=dead_letters)
    passes = due.passes()
    assert max(passes) <= count // 2
    assert (sum(passes), due.queue.expired, due.queue.depth) == (count, count, 0)
    if dead_letters:
        assert queue_of(due.vhost, "dead-letter").depth == count


def test_expiry_when_a_consumer_looks() -> None:
    """A consumer that finds expired messages before the alarm does not end all of them; its drain waits for the end."""
    due = Due(MANY)
    due.queue.take_run(QueuedMessage.read_run([Message(b"fresh").encode()], 0, None, 2.0))
    due.link.flow(MANY, drain=True)
    due.wire.server.receive_data(due.wire.client.data_to_send())
    due.wire.settle_down()
    assert 0 < due.queue.depth - 1 <= MANY
    assert not due.wire.server.data_to_send()
    due.passes()
    due.wire.turn()
    assert [Message.decode(each.payload).body for each in due.link.incoming] == [b"fresh"]
    assert due.link.credit == 0


def test_delayed() -> None:
    """Messages that were delayed until one moment come back in several passes."""
    due = Due(0)
    due.queue.take_run(QueuedMessage.read_run([Message(b"later").encode()] * MANY, 0, None, 2.0))
    due.vhost.flush()
    due.link.flow(MANY)
    due.wire.turn()
    due.passes()
    due.wire.turn()
    consumer = next(iter(due.queue.consumers.values()))
    link = next(iter(due.wire.peer.links.consumers))
    for delivery in link.unsettled.values():
        assert isinstance(delivery.waiter, QueuedMessage)
        due.queue.settle(delivery.waiter, consumer, Modified(message_annotations={"x-opt-delivery-time": 1 << 42}))
    assert due.queue.available == 0
    due.now = float(1 << 40)
    back = []
    while due.queue.redelivered < MANY:
        before = due.queue.redelivered
        due.queue.expire(due.now)
        back.append(due.queue.redelivered - before)
    assert max(back) <= MANY // 2


def test_too_many() -> None:
    """Messages that are too many for a queue become dead letters in several passes, if a transaction brought them."""
    vhost = VirtualHostCore(clock=lambda: 0.0)
    dead = vhost.declare("dead", "queue")
    arguments = {"x-max-length": 10, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    queue = vhost.declare_queue("q", QueueDeclaration(arguments=arguments))
    bodies = [Message(number).encode() for number in range(2510)]
    queue.take_run(QueuedMessage.read_run(bodies, 0, None, 0.0))
    vhost.flush()
    assert 0 < dead.enqueued <= 1000
    while vhost.next_expiry is not None and vhost.next_expiry <= 0:
        before = dead.enqueued
        vhost.expire()
        vhost.flush()
        assert dead.enqueued - before <= 1000
    assert (queue.depth, dead.enqueued) == (10, 2500)
