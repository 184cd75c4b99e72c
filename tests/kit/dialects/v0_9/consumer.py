"""A consumer of a client's engine of 0-9-1, and what it is given."""

from __future__ import annotations

from typing import Any

from amqp10.dialects.v0_9.wire.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicQos,
    BasicQosOk,
    ChannelOpenOk,
    QueueDeclareOk,
)
from amqp10.dialects.v0_9.wire.properties import BasicProperties
from amqp10.dialects.v0_9.wire.variant import V0_9_1
from amqp10.engine import Engine, LinkTerms, ReceiverLink
from amqp10.messaging import Source, Target

from .client_engine import frames, hear, said


def consuming(engine: Engine, credit: int, *, refills: bool = False, **properties: Any) -> tuple[ReceiverLink, str]:
    """A receiver on channel 1 with that credit; its consumer's tag."""
    link = engine.begin().attach_receiver(LinkTerms("r", Source("q"), Target(), properties=properties))
    link.refills = refills
    link.flow(credit)
    hear(engine, 1, ChannelOpenOk(), QueueDeclareOk("q"), BasicQosOk())
    methods = said(engine)
    (consume,) = [method for method in methods if isinstance(method, BasicConsume)]
    (qos,) = [method for method in methods if isinstance(method, BasicQos)]
    link.properties = {"prefetch": qos.prefetch_count}
    hear(engine, 1, BasicConsumeOk(consume.consumer_tag))
    return link, consume.consumer_tag


def deliver(engine: Engine, tag: str, *numbers: int, offset: int | None = None, body: bytes = b"m") -> None:
    """Feed these messages, each in a read of its own."""
    for number in numbers:
        method = V0_9_1.framing.frame(1, 1, V0_9_1.methods.encode(BasicDeliver(tag, number, False, "", "q")))
        headers = None if offset is None else {"x-stream-offset": offset + number}
        said = BasicProperties(headers=headers).encode(V0_9_1.tables)
        engine.receive_data(method + V0_9_1.framing.message(1, 60, said, body, 4096))


def receiving(engine: Engine, count: int, **terms: Any) -> ReceiverLink:
    """A receiver on channel 1 that was given so many messages."""
    link = engine.begin().attach_receiver(LinkTerms("r", Source("q"), Target(), **terms))
    link.flow(10)
    hear(engine, 1, ChannelOpenOk(), QueueDeclareOk("q"), BasicQosOk())
    (tag,) = [method.consumer_tag for method in said(engine) if isinstance(method, BasicConsume)]
    hear(engine, 1, BasicConsumeOk(tag))
    for number in range(1, count + 1):
        deliver(engine, tag, number)
    engine.events()
    link.properties = {"tag": tag}
    return link


def deliver_all(engine: Engine, link: ReceiverLink, *numbers: int) -> None:
    """In one read."""
    tag = link.properties["tag"]
    engine.receive_data(frames(V0_9_1, 1, *(BasicDeliver(tag, number, False, "", "q") for number in numbers)))
