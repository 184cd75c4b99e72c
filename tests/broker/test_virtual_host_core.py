from __future__ import annotations

from datetime import timedelta

import pytest

from amqp10.broker._errors import Refused
from amqp10.broker._virtual_host_core import VirtualHostCore
from amqp10.messaging import Error, Message, Modified, Rejected
from amqp10.types import Symbol

from ..kit.broker.queue_doubles import Taker, why_rejected
from ..kit.clock import Clock
from ..kit.inside.broker import Queue, QueuedMessage, Topic, VirtualHostSettings


def queue_of(vhost: VirtualHostCore, name: str) -> Queue:
    """That queue, made if need be."""
    queue = vhost.resolve(name)
    assert isinstance(queue, Queue)
    return queue


def put(vhost: VirtualHostCore, name: str, message: Message) -> QueuedMessage:
    """Put a message into a queue as a producer does."""
    made = QueuedMessage.read(message.encode(), 0, vhost.clock())
    queue_of(vhost, name).put(made)
    return made


def take(vhost: VirtualHostCore, name: str, *, credit: int = 1) -> Taker:
    """A consumer that took what it could."""
    queue, taker = queue_of(vhost, name), Taker(credit)
    queue.add_consumer(taker)
    queue.in_line(taker)
    vhost.flush()
    return taker


class TestAddresses:
    def test_made_on_demand(self, vhost: VirtualHostCore) -> None:
        """A new name becomes a queue, or a topic if it starts so, asks so, or has the capability."""
        assert isinstance(vhost.resolve("orders"), Queue)
        assert isinstance(vhost.resolve("topic.orders"), Topic)
        assert isinstance(vhost.resolve("topic://news"), Topic)
        assert isinstance(vhost.resolve("events", ("topic",)), Topic)
        assert isinstance(vhost.resolve("queue://topic.x"), Queue)
        assert set(vhost.nodes) == {"orders", "topic.orders", "news", "events", "topic.x"}

    def test_what_is_there_is_what_it_is(self, vhost: VirtualHostCore) -> None:
        """A declared topic is found by its plain name; asking for the other kind is refused."""
        declared = vhost.declare("news", "topic")
        assert vhost.resolve("news") is declared
        with pytest.raises(Refused) as refusal:
            vhost.resolve("queue://news")
        assert refusal.value.error.condition == "amqp:precondition-failed"

    def test_not_found(self, clock: Clock) -> None:
        """With `auto_create` off only what was declared is there."""
        vhost = VirtualHostCore(VirtualHostSettings(auto_create=False), clock=clock)
        declared = vhost.declare("q", "queue")
        assert vhost.resolve("q") is declared
        with pytest.raises(Refused) as refusal:
            vhost.resolve("other")
        assert refusal.value.error.condition == "amqp:not-found"

    @pytest.mark.parametrize("address", ["", "queue://", "topic://"])
    def test_empty(self, vhost: VirtualHostCore, address: str) -> None:
        """An empty name is no address."""
        with pytest.raises(Refused):
            vhost.resolve(address)

    def test_temporary(self, vhost: VirtualHostCore) -> None:
        """Temporary nodes have names of their own, are found by them, and end."""
        one, two = vhost.temporary(), vhost.temporary(("temporary-topic",))
        assert isinstance(one, Queue)
        assert isinstance(two, Topic)
        assert vhost.resolve(one.name) is one
        vhost.delete(one)
        assert one.deleted
        assert one.name not in vhost.nodes


class TestDeadLetters:
    @pytest.mark.spec("3.4.3", 'the error of rejected is the delivery-annotation "rejected" of the message')
    def test_rejected(self, vhost: VirtualHostCore) -> None:
        """A rejected message is in the dead-letter queue, body and properties as they were, with the reason."""
        put(vhost, "orders", Message("x", subject="s", message_annotations={Symbol("a"): 1}))
        taker = take(vhost, "orders")
        error = Error(Symbol("shop:closed"), "come back later")
        queue_of(vhost, "orders").settle(taker.taken[0], taker, Rejected(error))
        dead = take(vhost, "dead-letter")
        message = Message.decode(dead.payloads[0])
        assert (message.body, message.subject) == ("x", "s")
        assert message.message_annotations == {
            "a": 1,
            "x-opt-dead-letter-reason": "rejected",
            "x-opt-dead-letter-source": "orders",
            "x-opt-dead-letter-condition": "shop:closed",
            "x-opt-dead-letter-description": "come back later",
        }
        assert why_rejected(dead.payloads[0]) == error

    @pytest.mark.spec("3.4.3", "rejected increments the delivery-count of the message")
    def test_rejected_is_an_attempt(self, clock: Clock) -> None:
        """Beside those that failed before; what dies of these alone has just their count."""
        vhost = VirtualHostCore(VirtualHostSettings(max_delivery_count=2), clock=clock)
        put(vhost, "orders", Message("rejected"))
        put(vhost, "orders", Message("failed"))
        orders = queue_of(vhost, "orders")
        taker = take(vhost, "orders", credit=9)
        for entry in list(taker.taken):
            orders.settle(entry, taker, Modified(delivery_failed=True))
        vhost.flush()
        orders.settle(taker.taken[2], taker, Rejected(None))
        orders.settle(taker.taken[3], taker, Modified(delivery_failed=True))
        dead = take(vhost, "dead-letter", credit=9)
        found = [Message.decode(payload) for payload in dead.payloads]
        assert {message.body: message.delivery_count for message in found} == {"rejected": 2, "failed": 2}

    def test_nowhere_else_to_go(self, clock: Clock) -> None:
        """The dead-letter queue has no limit of attempts; what is rejected out of it is gone."""
        vhost = VirtualHostCore(VirtualHostSettings(max_delivery_count=1), clock=clock)
        put(vhost, "orders", Message("x"))
        taker = take(vhost, "orders")
        queue_of(vhost, "orders").settle(taker.taken[0], taker, Modified(delivery_failed=True))
        dead_letters = queue_of(vhost, "dead-letter")
        dead = take(vhost, "dead-letter", credit=3)
        dead_letters.settle(dead.taken[0], dead, Modified(delivery_failed=True))
        vhost.flush()
        assert dead_letters.depth == 1
        dead_letters.settle(dead.taken[1], dead, Rejected(None))
        assert (dead_letters.depth, dead_letters.dead_lettered) == (0, 0)

    def test_switched_off(self, clock: Clock) -> None:
        """Without a dead-letter address rejected messages just end."""
        vhost = VirtualHostCore(VirtualHostSettings(dead_letter=None), clock=clock)
        put(vhost, "orders", Message("x"))
        taker = take(vhost, "orders")
        queue_of(vhost, "orders").settle(taker.taken[0], taker, Rejected(None))
        assert set(vhost.nodes) == {"orders"}
        assert queue_of(vhost, "orders").rejected == 1

    def test_expired_live_on(self, clock: Clock) -> None:
        """An expired message that is kept does not expire again."""
        vhost = VirtualHostCore(VirtualHostSettings(dead_letter_expired=True), clock=clock)
        put(vhost, "orders", Message("x", ttl=timedelta(seconds=5)))
        clock.now += 6
        vhost.expire()
        clock.now += 600
        vhost.expire()
        dead = take(vhost, "dead-letter")
        message = Message.decode(dead.payloads[0])
        assert message.ttl is None
        assert message.message_annotations is not None
        assert message.message_annotations[Symbol("x-opt-dead-letter-reason")] == "expired"


class TestTime:
    def test_alarm_when_sooner(self, clock: Clock) -> None:
        """Whoever keeps the time is called only when the next deadline comes nearer."""
        alarms: list[float] = []
        vhost = VirtualHostCore(clock=clock, on_alarm=lambda: alarms.append(vhost.next_expiry or 0.0))
        for seconds in (10, 20, 5, 7):
            put(vhost, "q", Message("x", ttl=timedelta(seconds=seconds)))
        assert alarms == [1010.0, 1005.0]
        clock.now = 1006.0
        assert vhost.expire() == 1007.0

    def test_only_what_is_due_is_visited(self, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
        """A pass costs what expires in it, however many queues there are."""
        visited: list[str] = []
        expire = Queue.expire

        def counted(queue: Queue, now: float) -> float | None:
            visited.append(queue.name)
            return expire(queue, now)

        monkeypatch.setattr(Queue, "expire", counted)
        vhost = VirtualHostCore(clock=clock)
        for number in range(1000):
            put(vhost, f"q{number}", Message("x", ttl=timedelta(seconds=number // 2 + 1)))
            put(vhost, f"other{number}", Message("x"))
        for number in range(10):
            put(vhost, "q999", Message("x", ttl=timedelta(seconds=2000 - number)))
        clock.now += 1
        assert vhost.expire() == clock.now + 1
        assert visited == ["q0", "q1"]
        clock.now += 9
        vhost.expire()
        assert visited == [f"q{number}" for number in range(20)]
        assert sum(queue_of(vhost, name).expired for name in visited) == 20
        vhost.delete(vhost.nodes["q21"])
        clock.now += 1
        vhost.expire()
        assert visited[20:] == ["q20"]
        clock.now += 5000
        assert vhost.expire() is None
        assert len(visited) == 999

    def test_topics_too(self, vhost: VirtualHostCore, clock: Clock) -> None:
        """Messages in subscriptions expire like any other."""
        topic = vhost.declare("news", "topic")
        assert isinstance(topic, Topic)
        subscription = topic.subscribe()
        topic.put(QueuedMessage.read(Message("x", ttl=timedelta(seconds=5)).encode(), 0, clock.now))
        clock.now += 5
        vhost.expire()
        assert (subscription.depth, subscription.expired) == (0, 1)


def test_the_queue_of_dead_letters_stays_one() -> None:
    """Nobody can make it a topic, declared or on demand, where dead letters would be lost in silence."""
    vhost = VirtualHostCore(VirtualHostSettings(dead_letter="topic.dead"), clock=lambda: 0.0)
    with pytest.raises(Refused, match="dead letters"):
        vhost.declare("topic.dead", "topic")
    with pytest.raises(Refused, match="dead letters"):
        vhost.resolve("topic://topic.dead")
    assert isinstance(vhost.resolve("topic.dead"), Queue)
