"""Restoring is not admitting: a broker begins on every store that a crash can leave, and has what was in it."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.messaging import ACCEPTED, RELEASED, Error, Message, Modified, Rejected, Source
from amqp10.types import Symbol

from ...kit.broker.branches import BRANCH, Prepared
from ...kit.broker.queue_doubles import Taker, why_rejected
from ...kit.broker.stored_life import Begin, Life, crash
from ...kit.broker.wire import Wire, queue_of
from ...kit.clock import Clock
from ...kit.inside.broker import Queue, QueueDeclaration, QueuedMessage, QueueFull, Work

UNREADABLE = b"\x00\x53\x74\xff"
"""Application properties of a type that there is not."""


def declare(life: Life, name: str = "q", **arguments: Any) -> Queue:
    """A queue with these arguments, underscores for dashes."""
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    return life.vhost.declare_queue(name, QueueDeclaration(arguments=named))


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_full_and_held(begin: Begin, overflow: str) -> None:
    """A full queue beside messages that a consumer held: all of them are back, none is a dead letter."""
    life = begin()
    declare(life, x_max_length=2, x_overflow=overflow, x_dead_letter_exchange="amq.fanout")
    dead = life.vhost.declare("dead", "queue")
    life.vhost.topology.bind(life.vhost.topology.find("amq.fanout"), dead, "")
    life.put(1, 2)
    life.give(Taker(2))
    life.put(3, 4)
    life = crash(begin, life)
    assert [(each.body, each.delivery_count) for each in life.messages()] == [(1, 1), (2, 1), (3, 0), (4, 0)]
    assert life.bodies("dead") == []
    with pytest.raises(QueueFull):
        life.put(5)
    taker = Taker(3)
    for entry in life.give(taker):
        life.queue().settle(entry, taker, ACCEPTED)
    life.put(6)
    assert crash(begin, life).bodies() == [4, 6]


def test_more_bytes_than_may_come(begin: Begin) -> None:
    """The same where the limit is one of bytes."""
    life = begin()
    declare(life, x_max_length_bytes=60, x_overflow="reject-publish")
    life.put(b"x" * 20)
    taker = Taker(1)
    grown = Modified(message_annotations={Symbol("x-opt-why"): "y" * 50})
    life.queue().settle(life.give(taker)[0], taker, grown)
    life = crash(begin, life)
    assert life.bodies() == [b"x" * 20]
    assert life.queue().bytes > 60


def test_oldest_is_dropped(begin: Begin) -> None:
    """Where a queue drops what is too much, it goes on doing so, the oldest first."""
    life = begin()
    declare(life, x_max_length=2)
    life.put(1, 2)
    life.give(Taker(2))
    life.put(3, 4)
    life = crash(begin, life)
    life.vhost.flush()
    assert life.bodies() == [3, 4]


def test_prepared_for_a_full_queue(begin: Begin) -> None:
    """A branch has its room in a queue that is full with it, and its message comes in at the commit."""
    life = begin()
    queue = declare(life, x_max_length=1, x_overflow="reject-publish")
    life.put("was held")
    taker = Taker(1)
    (held,) = life.give(taker)
    entry = QueuedMessage.read(Message("comes", durable=True).encode(), 0, life.clock.now, life.wall)
    queue.reserve(entry)
    queue.settle(held, taker, RELEASED)
    life.vhost.prepared.prepare("u", BRANCH, Prepared(Work({queue: [entry]}, [])))  # type: ignore[arg-type]
    life = crash(begin, life)
    assert life.queue().reserved == 1
    assert life.vhost.prepared.complete("u", BRANCH, commit=True) is True
    assert life.queue().reserved == 0
    assert crash(begin, life).bodies() == ["was held", "comes"]


@pytest.mark.parametrize(("payload", "message_format"), [(b"not AMQP", 7), (b"\x00\x53\x79\xa1\x01x", 0)])
def test_priority_of_an_unreadable_front(begin: Begin, payload: bytes, message_format: int) -> None:
    """Messages whose header cannot be read have the usual priority, when they come and when they are restored."""
    life = begin()
    queue = declare(life, x_max_priority=9)
    life.put("low", priority=1)
    odd = QueuedMessage(payload, message_format)
    odd.durable = True
    queue.put(odd)
    life.put("high", priority=8)
    life = crash(begin, life)
    taker = Taker(3)
    life.give(taker)
    found = [each if each == payload else Message.decode(each).body for each in taker.payloads]
    assert found == ["high", payload, "low"]


@pytest.mark.parametrize("resumable", [False, True])
def test_last_attempt_of_the_unreadable(begin: Begin, clock: Clock, resumable: bool) -> None:
    """One whose last attempt the crash ended, which its exchange for dead letters cannot read, keeps nobody waiting."""
    life = begin()
    queue = declare(life, x_delivery_limit=0, x_dead_letter_exchange="amq.headers")
    topology = life.vhost.topology
    topology.bind(topology.find("amq.headers"), life.vhost.declare("dead", "queue"), "", {"x-match": "any", "a": 1})
    entry = QueuedMessage(UNREADABLE)
    entry.durable = True
    queue.put(entry)
    life.put("next")
    if resumable:
        Wire(life.vhost).receive_from(Source("q", expiry_policy="connection-close", timeout=1), name="link", credit=1)
    else:
        life.give(Taker(1))
    life = crash(begin, life)
    clock.now += 2
    life.vhost.expire()
    taker = Taker(2)
    life.give(taker)
    assert [Message.decode(each).body for each in taker.payloads] == ["next"]


def test_dead_letters_go_behind(begin: Begin) -> None:
    """What becomes a dead letter by the crash stands behind the dead letters from before, in this life and the next."""
    life = begin(max_delivery_count=1)
    life.put("young", name="q")
    life.give(Taker(1))
    life.put("old", name="dead-letter")
    life = crash(begin, life, max_delivery_count=1)
    assert life.bodies("dead-letter") == ["old", "young"]
    assert crash(begin, life, max_delivery_count=1).bodies("dead-letter") == ["old", "young"]


def test_why_it_was_rejected(begin: Begin) -> None:
    """A dead letter says it in its delivery annotations, after a crash as before."""
    life = begin()
    life.put("x", name="q")
    error = Error(Symbol("shop:closed"), "come back later")
    taker = Taker(1)
    life.give(taker)
    queue_of(life.vhost, "q").settle(taker.taken[0], taker, Rejected(error))
    for each in (life, crash(begin, life)):
        (entry,) = queue_of(each.vhost, "dead-letter")._waiting.available()
        assert why_rejected(entry.outgoing(0.0)) == error
