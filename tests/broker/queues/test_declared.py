"""Queues that somebody declared: their arguments, their limits, their ends."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from amqp10.broker._queues.arguments import Arguments, QueueDeclaration
from amqp10.broker._queues.message import QueuedMessage
from amqp10.broker._queues.node import QueueFull
from amqp10.broker._queues.queue import Queue
from amqp10.messaging import ACCEPTED, RELEASED, Error, Message, Modified, Outcome, Rejected
from amqp10.types import Symbol

from ...kit.broker.queue_doubles import Taker, entry, fill, more, why_rejected
from ...kit.clock import Clock
from ...kit.inside.broker import Refused, VirtualHostCore


def declare(vhost: VirtualHostCore, name: str = "q", *, auto_delete: bool = False, **arguments: Any) -> Queue:
    """A queue with these arguments, underscores for dashes."""
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    return vhost.declare_queue(name, QueueDeclaration(auto_delete=auto_delete, arguments=named))


def numbers(queue: Queue) -> list[int]:
    """What waits, by the last byte."""
    return [each.payload[-1] for each in queue._waiting.available()]


def come(queue: Queue, taker: Taker) -> Taker:
    """A consumer comes and is handed what there is."""
    queue.add_consumer(taker)
    queue.in_line(taker)
    queue.run()
    return taker


@pytest.mark.parametrize(
    ("arguments", "condition", "named"),
    [
        ({"x-message-ttl": -1}, "amqp:precondition-failed", "x-message-ttl"),
        ({"x-message-ttl": "1"}, "amqp:precondition-failed", "x-message-ttl"),
        ({"x-expires": 0}, "amqp:precondition-failed", "x-expires"),
        ({"x-max-length": True}, "amqp:precondition-failed", "x-max-length"),
        ({"x-max-length-bytes": 1.5}, "amqp:precondition-failed", "x-max-length-bytes"),
        ({"x-overflow": "explode"}, "amqp:precondition-failed", "x-overflow"),
        ({"x-max-priority": 256}, "amqp:precondition-failed", "x-max-priority"),
        ({"x-dead-letter-exchange": 1}, "amqp:precondition-failed", "x-dead-letter-exchange"),
        ({"x-dead-letter-routing-key": "k"}, "amqp:precondition-failed", "x-dead-letter-exchange"),
        ({"x-single-active-consumer": "yes"}, "amqp:precondition-failed", "x-single-active-consumer"),
    ],
)
def test_wrong_arguments(arguments: Mapping[str, Any], condition: str, named: str) -> None:
    """Each wrong value is refused, and which it is is said."""
    with pytest.raises(Refused, match=named) as refused:
        Arguments.read(arguments)
    assert refused.value.error.condition == condition


def test_other_arguments() -> None:
    """What means nothing here is taken: RabbitMQ's own hints, and names of other servers."""
    assert Arguments.read({"x-queue-type": "classic", "x-queue-mode": "lazy", "x-mine": [1]}) == Arguments()


def test_message_ttl(vhost: VirtualHostCore, clock: Clock) -> None:
    """A message waits so long at most, or as long as its own time-to-live if that is shorter."""
    queue = declare(vhost, x_message_ttl=5000)
    queue.put(entry(1))
    short = Message(b"\2", ttl=timedelta(seconds=1)).encode()
    queue.put(QueuedMessage.read(short, 0, clock.now))
    clock.now += 2
    assert queue.expire(clock.now) == 1005
    assert numbers(queue) == [1]
    clock.now += 3
    queue.expire(clock.now)
    assert (queue.depth, queue.expired) == (0, 2)


def test_no_time_at_all(vhost: VirtualHostCore, clock: Clock) -> None:
    """A time-to-live of 0 gives a message to who waits for it, and to nobody later."""
    queue = declare(vhost, x_message_ttl=0)
    taker = come(queue, Taker(1))
    fill(queue, 1, 2)
    queue.run()
    assert taker.numbers == [1]
    clock.now += 0.1
    queue.expire(clock.now)
    assert (queue.depth, queue.expired) == (1, 1)


def test_drop_head(vhost: VirtualHostCore) -> None:
    """Of more than fits the oldest are dropped, but for what consumers hold or can be given at once."""
    queue = declare(vhost, x_max_length=2)
    fill(queue, *range(5))
    queue.run()
    assert numbers(queue) == [3, 4]
    taker = come(queue, Taker(2))
    fill(queue, *range(5, 8))
    taker.credit = 1
    queue.in_line(taker)
    queue.run()
    assert taker.numbers == [3, 4, 5]
    assert (numbers(queue), queue.unsettled) == ([6, 7], 3)
    queue.settle(taker.taken[0], taker, RELEASED)
    queue.run()
    assert numbers(queue) == [6, 7]


def test_drop_by_size(vhost: VirtualHostCore) -> None:
    """The same by bytes."""
    size = entry(0).size
    queue = declare(vhost, x_max_length_bytes=2 * size)
    fill(queue, *range(5))
    queue.run()
    assert (numbers(queue), queue.bytes) == ([3, 4], 2 * size)


@pytest.mark.parametrize("limit", [{"x_max_length": 1}, {"x_max_length_bytes": entry(0).size}])
def test_dropping_is_counted_and_logged(
    vhost: VirtualHostCore, clock: Clock, caplog: pytest.LogCaptureFixture, limit: dict[str, Any]
) -> None:
    """What is dropped is lost: the queue counts it, and says so once, then once a minute."""

    def lines() -> list[int]:
        return [vars(each)["amqp_count"] for each in caplog.records if vars(each)["amqp_event"] == "messages_dropped"]

    queue = declare(vhost, **limit)
    for second, said in ((0, [2]), (1, [2]), (60, [2, 6]), (0, [2, 6])):
        clock.now += second
        fill(queue, *range(3 if not queue.depth else 2))
        queue.run()
        assert lines() == said
    assert (queue.overflowed, queue.enqueued, queue.dead_lettered) == (8, 9, 0)
    assert "'q' holds as much as its x-max-length or x-max-length-bytes allows, and drops its oldest" in caplog.text


def test_dropping_as_dead_letters(vhost: VirtualHostCore, caplog: pytest.LogCaptureFixture) -> None:
    """What becomes a dead letter is counted, too, and is not lost."""
    declare(vhost, "dead")
    queue = declare(vhost, x_max_length=1, x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    fill(queue, *range(3))
    queue.run()
    assert (queue.overflowed, queue.dead_lettered) == (2, 2)
    assert "messages_dropped" not in {vars(each)["amqp_event"] for each in caplog.records}


def test_reject_publish(vhost: VirtualHostCore) -> None:
    """A queue that was declared to refuse takes what fits, or can be handed on at once, and no more."""
    queue = declare(vhost, x_max_length=2, x_overflow="reject-publish")
    fill(queue, 1, 2)
    with pytest.raises(QueueFull, match="'q' is full"):
        fill(queue, 3)
    with pytest.raises(QueueFull):
        queue.reserve(entry(3))
    taker = Taker(2)
    queue.add_consumer(taker)
    queue.in_line(taker)
    fill(queue, 4)
    assert (taker.numbers, numbers(queue)) == ([1, 2], [4])
    queue.reserve(entry(5))
    with pytest.raises(QueueFull):
        fill(queue, 6)
    queue.unreserve(entry(5))
    fill(queue, 5)
    assert numbers(queue) == [4, 5]


def test_reject_publish_with_dead_letters(vhost: VirtualHostCore) -> None:
    """What such a queue refuses can go to its exchange for dead letters."""
    queue = declare(
        vhost,
        x_max_length=1,
        x_overflow="reject-publish-dlx",
        x_dead_letter_exchange="",
        x_dead_letter_routing_key="d",
    )
    dead = declare(vhost, "d")
    fill(queue, 1)
    with pytest.raises(QueueFull):
        fill(queue, 2)
    assert (numbers(dead), queue.dead_lettered) == ([2], 1)


def test_reject_publish_is_its_own_dead_letters(
    vhost: VirtualHostCore, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """While messages are handed out, expired ones come back as dead letters: no consumer gets more than its credit.

    Such a dead letter finds the queue full, which is then to hand out what it can.
    """
    queue = declare(
        vhost,
        x_max_length=3,
        x_overflow="reject-publish",
        x_dead_letter_exchange="",
        x_dead_letter_routing_key="q",
    )
    fill(queue, 1, 2, 3)
    for old in queue._waiting.available()[:2]:
        old.expires = clock.now + 1
    clock.now += 2
    one, other = Taker(1), Taker(0)
    queue.add_consumer(other)
    queue.in_line(other)
    come(queue, one)
    assert (one.numbers, one.credit, other.numbers, queue.unsettled) == ([3], 0, [], 1)
    assert queue.expired == 2
    assert len(numbers(queue)) == queue.depth - 1
    assert not vhost.quarantine
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("limit", [{"x_max_length": 2}, {"x_max_length_bytes": 2500}])
@pytest.mark.parametrize("outcome", [Rejected(), Modified(delivery_failed=True)])
def test_dead_letters_into_the_place_of_their_messages(
    vhost: VirtualHostCore, limit: dict[str, Any], outcome: Outcome
) -> None:
    """A queue that takes its own dead letters is no fuller by them; it refuses one for which it has no room."""
    queue = declare(
        vhost,
        x_overflow="reject-publish",
        x_delivery_limit=0,
        x_dead_letter_exchange="",
        x_dead_letter_routing_key="q",
        **limit,
    )
    taker = Taker(1)
    for number in (1, 2):
        queue.put(entry(number, bytes(1000)))
    come(queue, taker)
    queue.settle(taker.taken[0], taker, outcome)
    assert (numbers(queue), queue.depth) == ([2, 1], 2)
    if "x_max_length" in limit:
        more(queue, taker, 1)
        fill(queue, 3)
        queue.settle(taker.taken[1], taker, outcome)
        assert (numbers(queue), queue.depth) == ([1, 3], 2)


def deaths(queue: Queue) -> list[Any]:
    """What is said of the deaths of the first message that waits."""
    found = Message.decode(queue._waiting.available()[0].payload).message_annotations[Symbol("x-death")]
    assert isinstance(found, list)
    return found


@pytest.mark.deviation(
    "3.4.3",
    "rejection to a dead letter exchange keeps the delivery-count; the broker's own dead-letter queue adds one",
    "such an exchange is RabbitMQ's concept, where x-death has that count, and the next queue counts for itself",
)
def test_dead_letter_exchange(vhost: VirtualHostCore) -> None:
    """What is rejected goes to the exchange, with its own key or the one given, and says where it died of what."""
    queue = declare(vhost, x_dead_letter_exchange="amq.topic")
    dead = declare(vhost, "dead")
    vhost.topology.bind(vhost.topology.find("amq.topic"), dead, "orders.*")
    annotations = {Symbol("x-exchange"): "amq.direct", Symbol("x-routing-key"): "orders.new"}
    queue.put(QueuedMessage.read(Message(b"x", message_annotations=annotations).encode(), 0, 0))
    taker = come(queue, Taker(1))
    error = Error(Symbol("shop:closed"), "come back later")
    queue.settle(taker.taken[0], taker, Rejected(error))
    (death,) = deaths(dead)
    assert {**death, "time": None} == {
        "count": 1,
        "reason": "rejected",
        "queue": "q",
        "time": None,
        "exchange": "amq.direct",
        "routing-keys": ["orders.new"],
    }
    message = Message.decode(dead._waiting.available()[0].payload)
    assert why_rejected(dead._waiting.available()[0].payload) == error
    assert message.delivery_count == 0
    assert message.message_annotations[Symbol("x-first-death-exchange")] == "amq.direct"
    assert message.message_annotations[Symbol("x-exchange")] == "amq.topic"
    assert (queue.depth, queue.rejected, queue.dead_lettered) == (0, 1, 1)


def test_each_way_to_die(vhost: VirtualHostCore, clock: Clock) -> None:
    """Expired, too many, failed too often: all go to the exchange, with the reason in RabbitMQ's words."""
    to_dead: dict[str, Any] = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "dead"}
    dead = declare(vhost, "dead")
    ways: list[tuple[str, dict[str, Any]]] = [
        ("expired", {"x_message_ttl": 1000}),
        ("maxlen", {"x_max_length": 0}),
        ("delivery_limit", {"x_delivery_limit": 0}),
    ]
    for number, (reason, settings) in enumerate(ways):
        queue = declare(vhost, f"q{number}", **to_dead, **settings)
        fill(queue, 1)
        taker = come(queue, Taker(1 if reason == "delivery_limit" else 0))
        clock.now += 2
        queue.expire(clock.now)
        for held in taker.taken:
            queue.settle(held, taker, Modified(delivery_failed=True))
        assert [(each["reason"], each["queue"]) for each in deaths(dead)] == [(reason, f"q{number}")]
        assert dead.purge() == 1


def test_round_and_round(vhost: VirtualHostCore, clock: Clock) -> None:
    """Queues that are each other's dead letters: what only expires ends when it comes to the same queue again."""
    one = declare(vhost, "one", x_message_ttl=1000, x_dead_letter_exchange="", x_dead_letter_routing_key="two")
    two = declare(vhost, "two", x_message_ttl=1000, x_dead_letter_exchange="", x_dead_letter_routing_key="one")
    fill(one, 1)
    for queue in (one, two):
        clock.now += 2
        queue.expire(clock.now)
    assert numbers(one) == [1]
    clock.now += 2
    one.expire(clock.now)
    assert (one.depth, two.depth) == (0, 0)


def test_retries_are_counted(vhost: VirtualHostCore) -> None:
    """A message that is rejected again and again comes round as often, and its deaths are counted in one place."""
    work = declare(vhost, "work", x_dead_letter_exchange="", x_dead_letter_routing_key="work")
    fill(work, 1)
    taker = come(work, Taker(3))
    for _ in range(2):
        work.settle(taker.taken[-1], taker, Rejected(Error(Symbol("amqp:internal-error"))))
        work.run()
    assert [(each["queue"], each["count"]) for each in deaths_of(taker.payloads[-1])] == [("work", 2)]


def deaths_of(payload: bytes) -> list[Any]:
    """The deaths that a message names."""
    found = Message.decode(payload).message_annotations[Symbol("x-death")]
    assert isinstance(found, list)
    return found


def test_nowhere_to_die(vhost: VirtualHostCore) -> None:
    """Where the exchange is not there, or leads nowhere, a dead letter just ends."""
    for name, exchange in (("one", "missing"), ("two", "amq.direct")):
        queue = declare(vhost, name, x_dead_letter_exchange=exchange)
        fill(queue, 1)
        taker = come(queue, Taker(1))
        queue.settle(taker.taken[0], taker, Rejected())
        assert (queue.depth, queue.dead_lettered) == (0, 0)
    assert "dead-letter" not in vhost.nodes


@pytest.mark.deviation(
    "3.2.1",
    "a queue with x-max-priority n distinguishes 0 to n, and treats higher ones as n, even if n is below nine",
    "RabbitMQ's argument, with its meaning; the specification would center fewer priorities around 4 and 5",
)
def test_priorities(vhost: VirtualHostCore) -> None:
    """Messages of higher priority go first, of equal priority in order; more than the queue knows is its highest."""
    queue = declare(vhost, x_max_priority=5)
    for number, priority in enumerate([0, 1, 5, 200, 1, 9]):
        queue.put(QueuedMessage.read(Message(bytes([number]), priority=priority).encode(), 0, 0))
    taker = come(queue, Taker(3))
    assert taker.numbers == [2, 3, 5]
    queue.settle(taker.taken[1], taker, RELEASED)
    taker.credit = 4
    queue.in_line(taker)
    queue.run()
    assert taker.numbers[3:] == [3, 1, 4, 0]


def test_auto_delete(vhost: VirtualHostCore) -> None:
    """The queue ends with its last consumer, but not with one that only passes by, nor before the first."""
    queue = declare(vhost, auto_delete=True)
    assert vhost.nodes["q"] is queue
    passing = Taker(1)
    passing.one_shot = True
    come(queue, passing)
    queue.remove_consumer(passing)
    assert vhost.nodes["q"] is queue
    one, two = come(queue, Taker()), come(queue, Taker())
    queue.remove_consumer(one)
    assert vhost.nodes["q"] is queue
    queue.remove_consumer(two)
    assert "q" not in vhost.nodes
    assert queue.deleted


def test_expires(vhost: VirtualHostCore, clock: Clock) -> None:
    """A queue that nobody uses for so long ends; consumers keep it, as does asking for it."""
    queue = declare(vhost, x_expires=10_000)
    assert vhost.expire() == 1010
    clock.now += 8
    queue.used()  # type: ignore[attr-defined]
    clock.now += 8
    assert vhost.expire() == 1018
    taker = come(queue, Taker())
    clock.now += 100
    assert vhost.expire() is None
    queue.remove_consumer(taker)
    clock.now += 9
    assert vhost.expire() == clock.now + 1
    clock.now += 1
    assert vhost.expire() is None
    assert "q" not in vhost.nodes


def test_purge(vhost: VirtualHostCore) -> None:
    """What waits is dropped, and what consumers hold is theirs."""
    queue = vhost.declare("q", "queue")
    assert isinstance(queue, Queue)
    fill(queue, *range(5))
    taker = come(queue, Taker(2))
    assert queue.purge() == 3
    assert (queue.depth, queue.unsettled) == (2, 2)
    for held in taker.taken:
        queue.settle(held, taker, ACCEPTED)
    assert (queue.depth, queue.bytes) == (0, 0)
    fill(queue, 9)
    taker.credit = 1
    queue.in_line(taker)
    queue.run()
    assert taker.numbers == [0, 1, 9]


def test_single_active_consumer(vhost: VirtualHostCore) -> None:
    """The first that came gets all; the next takes its place when it goes, and what came back with it."""
    queue = declare(vhost, x_single_active_consumer=True)
    one, two, three = Taker(2), Taker(5), Taker(5)
    for taker in (one, two, three):
        queue.add_consumer(taker)
        queue.in_line(taker)
    fill(queue, 1, 2, 3, 4)
    vhost.flush()
    assert (one.numbers, two.numbers, three.numbers) == ([1, 2], [], [])
    queue.in_line(two, drain=True)
    assert two.told_nothing_left == 1
    queue.settle(one.taken[0], one, ACCEPTED)
    queue.settle(one.taken[1], one, None)
    queue.remove_consumer(one)
    vhost.flush()
    assert (two.numbers, three.numbers) == ([2, 3, 4], [])
    assert queue.locked(True)
    assert not queue.locked(False)
