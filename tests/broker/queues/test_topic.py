from __future__ import annotations

from amqp10.broker._queues.node import Limits
from amqp10.broker._queues.selection import Filtering
from amqp10.broker._queues.topic import Subscription, Topic
from amqp10.messaging import ACCEPTED, Modified

from ...kit.broker.queue_doubles import Giver, Taker, entry
from ...kit.clock import Clock
from ...kit.inside.broker import VirtualHostCore, VirtualHostSettings


def topic_of(vhost: VirtualHostCore) -> Topic:
    """A topic of that vhost."""
    topic = vhost.declare("news", "topic")
    assert isinstance(topic, Topic)
    return topic


def subscribe(topic: Topic, taker: Taker, filtering: Filtering | None = None) -> Subscription:
    """A subscription with its consumer in line."""
    subscription = topic.subscribe(filtering)
    subscription.add_consumer(taker)
    subscription.in_line(taker)
    return subscription


def test_a_copy_each(vhost: VirtualHostCore) -> None:
    """Every subscriber gets every message, and one subscriber's failure is nobody else's."""
    topic, one, two = topic_of(vhost), Taker(10), Taker(10)
    first, second = subscribe(topic, one), subscribe(topic, two)
    topic.put(entry(1))
    topic.put(entry(2))
    vhost.flush()
    assert one.numbers == two.numbers == [1, 2]
    first.settle(one.taken[0], one, Modified(delivery_failed=True))
    second.settle(two.taken[0], two, ACCEPTED)
    vhost.flush()
    assert one.taken[-1].failures == 1
    assert (first.depth, second.depth) == (2, 1)
    assert len(two.taken) == 2


def test_filtered(vhost: VirtualHostCore) -> None:
    """What does not pass a subscription's filter never enters it, and takes no room there."""
    topic, even, all_, none = topic_of(vhost), Taker(10), Taker(10), Taker(10)
    odd = Filtering("odd", lambda entry: entry.payload[-1] % 2 == 1)
    filtered = subscribe(topic, even, Filtering("even", lambda entry: entry.payload[-1] % 2 == 0))
    subscribe(topic, all_)
    subscribe(topic, none, Filtering("none", lambda entry: False))
    for number in range(5):
        topic.put(entry(number))
    vhost.flush()
    assert (even.numbers, all_.numbers, none.numbers) == ([0, 2, 4], [0, 1, 2, 3, 4], [])
    assert (filtered.enqueued, topic.enqueued, topic.unheard) == (3, 5, 0)
    late = Taker(10)
    subscribe(topic, late, odd)
    topic.put(entry(7))
    vhost.flush()
    assert (late.numbers, all_.numbers[-1], even.numbers[-1]) == ([7], 7, 4)


def test_only_what_comes_later(vhost: VirtualHostCore) -> None:
    """Who subscribes gets what is sent from then on; what nobody hears is gone, and counted."""
    topic, taker = topic_of(vhost), Taker(10)
    topic.put(entry(1))
    subscribe(topic, taker)
    topic.put(entry(2))
    vhost.flush()
    assert taker.numbers == [2]
    assert (topic.enqueued, topic.unheard) == (2, 1)


def test_ends_with_the_link(vhost: VirtualHostCore) -> None:
    """The subscription goes with its consumer."""
    topic, taker = topic_of(vhost), Taker(0)
    subscription = subscribe(topic, taker)
    topic.put(entry(1))
    subscription.remove_consumer(taker)
    assert topic.subscriptions == {}
    topic.put(entry(2))
    assert topic.unheard == 1


def test_slowest_subscriber_sets_the_pace(clock: Clock) -> None:
    """A full subscription stops the producers, and nothing is dropped; they go on when it has room or is gone."""
    vhost = VirtualHostCore(VirtualHostSettings(limits=Limits(messages=10)), clock=clock)
    topic, quick, slow, giver = topic_of(vhost), Taker(1000, settles=True), Taker(0, settles=True), Giver()
    subscribe(topic, quick)
    subscription = subscribe(topic, slow)
    topic.add_producer(giver)
    vhost.flush()
    assert giver.granted == 10
    giver.give(topic, 10)
    vhost.flush()
    assert (len(quick.taken), giver.granted) == (10, 0)
    slow.credit = 6
    subscription.in_line(slow)
    vhost.flush()
    assert giver.granted == 6
    giver.give(topic, 6)
    vhost.flush()
    assert giver.granted == 0
    subscription.remove_consumer(slow)
    vhost.flush()
    assert giver.granted == 10


def test_credit_without_subscribers(vhost: VirtualHostCore) -> None:
    """With nobody there a producer has its full window."""
    topic, giver = topic_of(vhost), Giver()
    topic.add_producer(giver)
    vhost.flush()
    assert giver.granted == vhost.limits.credit


def test_delete(vhost: VirtualHostCore) -> None:
    """Deleting a topic ends its subscriptions and tells all links."""
    topic, taker, giver = topic_of(vhost), Taker(1), Giver()
    subscribe(topic, taker)
    topic.add_producer(giver)
    vhost.delete(topic)
    vhost.flush()
    assert taker.error is not None
    assert str(taker.error.condition) == "amqp:resource-deleted"
    assert giver.error == taker.error
    assert vhost.nodes == {}
