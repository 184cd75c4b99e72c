"""A client's receiver, octet by octet: what it says of prefetch, acks and what came too many."""

from __future__ import annotations

import pytest

from amqp10.dialects.v0_9.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicNack,
    BasicQosOk,
    BasicReject,
    ChannelClose,
    ChannelOpenOk,
    ConnectionClose,
    QueueDeclareOk,
    QueueDeleteOk,
)
from amqp10.engine import ConnectionEnded, DeclareQueue, DeleteQueue, LinkTerms
from amqp10.messaging import ACCEPTED, DeliveryState, Modified, Rejected, Released, Source, Target

from ....kit.dialects.v0_9.client_engine import CAN, hear, opened, said
from ....kit.dialects.v0_9.consumer import consuming, deliver, receiving


@pytest.mark.parametrize(
    ("state", "nack", "method"),
    [
        (ACCEPTED, True, BasicAck(1)),
        (Released(), True, BasicNack(1, False, True)),
        (Released(), False, BasicReject(1, True)),
        (Modified(), True, BasicNack(1, False, True)),
        (Modified(delivery_failed=True), True, BasicReject(1, True)),
        (Modified(delivery_failed=True, undeliverable_here=True), True, BasicReject(1, False)),
        (Rejected(), True, BasicReject(1, False)),
    ],
)
def test_outcomes(state: DeliveryState, nack: bool, method: BasicAck | BasicNack | BasicReject) -> None:
    """A failed message comes again; one that cannot be delivered here becomes a dead letter.

    RabbitMQ 4.3 counts basic.reject as a failed attempt, and basic.nack not; not every server knows it.
    """
    engine = opened(**CAN | {"basic.nack": nack})
    link = receiving(engine, 1)
    link.settle(link.incoming[0], state)
    assert [(each.code, each) for each in said(engine)] == [(method.code, method)]


def test_what_is_settled_is_said_before_the_end() -> None:
    """Leaving a link says what was settled in the same pass, and then closes the channel."""
    engine = opened(**CAN)
    link = receiving(engine, 3)
    for delivery in link.incoming:
        link.settle(delivery, ACCEPTED)
    link.detach()
    assert [type(each) for each in said(engine)] == [BasicAck, ChannelClose]


def test_what_came_too_many_goes_back() -> None:
    """A receiver that does not refill gets no more than it asked for: the consumer ends, the rest goes back."""
    engine = opened(**CAN)
    link, tag = consuming(engine, 2)
    deliver(engine, tag, 1, 2, 3, 4)
    assert len(link.incoming) == 2
    assert said(engine) == [BasicCancel(consumer_tag=tag)]
    hear(engine, 1, BasicCancelOk(tag))
    assert said(engine) == [BasicNack(3, False, True), BasicNack(4, False, True)]


def test_a_stream_goes_on_where_it_ended() -> None:
    """Surplus messages of a stream do not go back: the next consumer begins with them."""
    engine = opened(**CAN)
    link, tag = consuming(engine, 2)
    deliver(engine, tag, 1, 2, 3, 4, offset=100)
    hear(engine, 1, BasicCancelOk(tag))
    said(engine)
    link.flow(1)
    (consume,) = [each for each in said(engine) if isinstance(each, BasicConsume)]
    assert consume.arguments == {"x-stream-offset": 103}


def test_an_exclusive_consumer_has_room() -> None:
    """Its prefetch is large from the first: to be made anew for a larger one would cost it its place."""
    link, _ = consuming(opened(**CAN), 2, exclusive=True)
    assert link.properties == {"prefetch": 1000}
    link, _ = consuming(opened(**CAN), 2)
    assert link.properties == {"prefetch": 2}


def test_acks_of_an_earlier_consumer_make_no_room() -> None:
    """The prefetch of a consumer is its own: what came to the one before it is no part of that."""
    engine = opened(**CAN)
    link, tag = consuming(engine, 2, refills=True)
    deliver(engine, tag, 1, 2)
    link.flow(2)  # all that the prefetch allows are out: another consumer
    assert said(engine) == [BasicCancel(consumer_tag=tag)]
    hear(engine, 1, BasicCancelOk(tag))
    (consume,) = [each for each in said(engine) if isinstance(each, BasicConsume)]
    hear(engine, 1, BasicQosOk(), BasicConsumeOk(consume.consumer_tag))
    deliver(engine, consume.consumer_tag, 3, 4)
    for delivery in list(link.incoming)[:2]:
        link.settle(delivery, ACCEPTED)
    said(engine)
    link.flow(2)
    assert said(engine) == [BasicCancel(consumer_tag=consume.consumer_tag)]  # its own two are out still


def test_a_stream_that_nothing_had_shown() -> None:
    """RabbitMQ has no basic.get of one: the connection ends in a way after which one comes back, and then knows."""
    engine = opened(**CAN)
    link = engine.begin().attach_receiver(LinkTerms("r", Source("q"), Target()))
    hear(engine, 1, ChannelOpenOk(), QueueDeclareOk("q"))
    link.flow(1, drain=True)
    assert BasicGet(queue="q") in said(engine)
    words = "NOT_IMPLEMENTED - basic.get not supported by stream queues queue 'q' in vhost '/'"
    events = hear(engine, 0, ConnectionClose(540, words, *BasicGet.code))
    (ended,) = [event for event in events if isinstance(event, ConnectionEnded)]
    assert getattr(ended.error, "condition", None) == "amqp:connection:forced"
    after = opened(**CAN)
    after.inherit(engine)
    link = after.begin().attach_receiver(LinkTerms("r", Source("q"), Target()))
    hear(after, 1, ChannelOpenOk(), QueueDeclareOk("q"))
    said(after)
    link.flow(1, drain=True)
    assert said(after) == []
    assert link.credit == 0


@pytest.mark.parametrize("deleted", [False, True])
def test_what_was_declared_is_known(deleted: bool) -> None:
    """No passive declare tells what a queue was declared as: who declared it remembers, until it is deleted."""
    engine = opened(**CAN)
    session = engine.begin()
    session.request(DeclareQueue("q", arguments={"x-single-active-consumer": True, "x-queue-type": "stream"}))
    hear(engine, 1, ChannelOpenOk(), QueueDeclareOk("q"))
    if deleted:
        session.request(DeleteQueue("q"))
        hear(engine, 1, QueueDeleteOk(0))
    after = opened(**CAN)
    after.inherit(engine)
    link, tag = consuming(after, 2)
    assert link.properties == {"prefetch": 2 if deleted else 1000}
    link.flow(1, drain=True)
    hear(after, 1, BasicCancelOk(tag))
    assert (BasicGet(queue="q") in said(after)) is deleted
