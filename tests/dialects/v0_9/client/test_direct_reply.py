"""The receiver of RabbitMQ's direct reply-to, octet by octet: how it learns its address, and credit."""

from __future__ import annotations

from amqp10.dialects.v0_9.wire.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicPublish,
    ChannelClose,
    ChannelOpen,
    ChannelOpenOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
)
from amqp10.dialects.v0_9.wire.properties import BasicProperties
from amqp10.dialects.v0_9.wire.variant import V0_9_1
from amqp10.engine import ConnectionEnded, Engine, FlowReceived, LinkEnded, LinkTerms, ReceiverLink
from amqp10.errors import LinkDetached
from amqp10.messaging import ACCEPTED, Message, Source, Target

from ....kit.dialects.v0_9.client_engine import CAN, hear, opened, said

REPLIES = "amq.rabbitmq.reply-to"


def asking(engine: Engine) -> ReceiverLink:
    """A receiver on channel 1 that has asked for its address."""
    link = engine.begin().attach_receiver(LinkTerms("r", Source(REPLIES), Target(), settle_mode="mixed"))
    kinds = [(type(each), getattr(each, "queue", None)) for each in said(engine)]
    assert kinds == [(ChannelOpen, None), (QueueDeclare, ""), (BasicConsume, REPLIES)]
    hear(engine, 1, ChannelOpenOk(), QueueDeclareOk("mailbox"), BasicConsumeOk("replies"))
    publish, get = said(engine)
    assert not link.attached
    assert (publish, get) == (BasicPublish(routing_key="mailbox"), BasicGet(queue="mailbox", no_ack=True))
    return link


def content(engine: Engine, method: object, body: bytes, **properties: str) -> list[object]:
    octets = V0_9_1.framing.frame(1, 1, V0_9_1.methods.encode(method))  # type: ignore[arg-type]
    head = BasicProperties(**properties).encode(V0_9_1.tables)
    engine.receive_data(octets + V0_9_1.framing.message(1, 60, head, body, 4096))
    return list(engine.events())


def test_its_address_comes_in_a_message_to_itself() -> None:
    """With that it is attached, settled, under that address; the queue that brought it is deleted."""
    engine = opened(**CAN)
    link = asking(engine)
    content(engine, BasicGetOk(1, False, "", "mailbox", 0), b"", reply_to=f"{REPLIES}.its-own")
    assert said(engine) == [QueueDelete(queue="mailbox", nowait=True)]
    assert link.attached
    assert link.remote is not None
    assert link.remote.source == Source(f"{REPLIES}.its-own")
    assert link.settled_by_sender


def test_credit() -> None:
    """Replies beyond the credit wait here. Nothing is acked or cancelled, and a drain ends the same way."""
    engine = opened(**CAN)
    link = asking(engine)
    content(engine, BasicGetOk(1, False, "", "mailbox", 0), b"", reply_to=f"{REPLIES}.its-own")
    engine.data_to_send()
    link.flow(2)
    for number in range(1, 5):
        content(engine, BasicDeliver("replies", number, False, "", "k"), b"%d" % number)
    assert [Message.decode(each.payload).body for each in link.incoming] == [b"1", b"2"]
    link.settle(link.incoming.popleft(), ACCEPTED)
    link.flow(1)
    assert [Message.decode(each.payload).body for each in link.incoming] == [b"2", b"3"]
    link.flow(0)
    link.flow(5)
    assert [Message.decode(each.payload).body for each in link.incoming] == [b"2", b"3", b"4"]
    engine.events()
    link.flow(7, drain=True)
    flows = [event for event in engine.events() if isinstance(event, FlowReceived)]
    assert flows == [FlowReceived(link, False, 7), FlowReceived(link, True)]
    assert link.credit == 0
    assert said(engine) == []


def test_many_at_once() -> None:
    """Replies that come in one read arrive in order, whether their numbers count up or all are the same."""
    for numbers in (range(1, 41), [1] * 40):
        engine = opened(**CAN)
        link = asking(engine)
        content(engine, BasicGetOk(1, False, "", "mailbox", 0), b"", reply_to=f"{REPLIES}.its-own")
        engine.data_to_send()
        link.flow(30)
        framing, encode = V0_9_1.framing, V0_9_1.methods.encode
        replies = b"".join(
            framing.frame(1, 1, encode(BasicDeliver("replies", number, False, "", "k")))
            + framing.message(1, 60, b"\0\0", b"%02d" % index, 4096)
            for index, number in enumerate(numbers)
        )
        engine.receive_data(replies)
        link.materialize(40)
        assert [Message.decode(each.payload).body for each in link.incoming] == [b"%02d" % index for index in range(30)]
        link.flow(10)
        link.materialize(40)
        assert [Message.decode(each.payload).body for each in link.incoming] == [b"%02d" % index for index in range(40)]
        assert link.credit == 0
        assert said(engine) == []


def test_no_address() -> None:
    """A server that knows the name and not the thing: the link ends, or the connection where it makes no sense."""
    engine = opened(**CAN)
    asking(engine)
    (ended,) = [event for event in hear(engine, 1, BasicGetEmpty()) if isinstance(event, LinkEnded)]
    assert isinstance(ended.error, LinkDetached)
    assert [type(each) for each in said(engine)] == [ChannelClose]
    for reply_to in (REPLIES, ""):
        engine = opened(**CAN)
        asking(engine)
        events = content(engine, BasicGetOk(1, False, "", "mailbox", 0), b"", reply_to=reply_to)
        assert any(isinstance(event, ConnectionEnded | LinkEnded) for event in events)
