"""Methods that are read by their shape: whatever comes, the verdict and what is taken are those of the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10.dialects.v0_9 import GetMessage
from amqp10.dialects.v0_9.channel import ChannelUser
from amqp10.dialects.v0_9.client.direct_reply import DirectReplies
from amqp10.dialects.v0_9.client.receiver import ClientReceiver
from amqp10.dialects.v0_9.client.requests import RequestChannel
from amqp10.dialects.v0_9.client.sender import ClientSender
from amqp10.dialects.v0_9.server.session import ServerSession
from amqp10.dialects.v0_9.wire.method_table import Method
from amqp10.dialects.v0_9.wire.methods import (
    BasicAck,
    BasicConsumeOk,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicReject,
    ChannelOpenOk,
    ConnectionClose,
    QueueDeclareOk,
)
from amqp10.dialects.v0_9.wire.properties import BasicProperties
from amqp10.dialects.v0_9.wire.tables import Latin1
from amqp10.dialects.v0_9.wire.variant import V0_9_1
from amqp10.engine import Engine, LinkTerms, SenderLink
from amqp10.errors import DecodeError
from amqp10.messaging import Message, Source, Target

from ....kit.dialects.v0_9.client_engine import CAN, hear, opened, publishing, said
from ....kit.dialects.v0_9.consumer import receiving
from ....kit.dialects.v0_9.method_peer import channel_of
from ....kit.dialects.v0_9.pair import Pair
from ....kit.dialects.v0_9.pair import opened as joined

TABLE = V0_9_1.methods
Ready = tuple[Engine, int, Callable[[], object]]
"""Who hears it, on which channel; and what was taken of it."""


def deliveries(link: Any) -> list[tuple[object, ...]]:
    return [(each.delivery_id, each.tag, each.payload) for each in link.incoming]


def states(sent: list[Any]) -> list[tuple[object, ...]]:
    return [(each.remote_state, each.remote_settled) for each in sent]


def publisher() -> Ready:
    engine = opened(**CAN)
    _, sent = publishing(engine, 5)
    return engine, 1, lambda: states(sent)


def consumer() -> Ready:
    """A client that has had a delivery, after which others are much like it."""
    engine = opened(**CAN)
    link = receiving(engine, 1)
    assert link.properties == {"tag": "r"}
    return engine, 1, lambda: deliveries(link)


def first_of_consumer() -> Ready:
    engine = opened(**CAN)
    link = receiving(engine, 0)
    return engine, 1, lambda: deliveries(link)


def drainer() -> Ready:
    engine = opened(**CAN)
    link = engine.begin().attach_receiver(LinkTerms("r", Source("q"), Target()))
    link.flow(10, drain=True)
    hear(engine, 1, ChannelOpenOk(), QueueDeclareOk("q"))
    return engine, 1, lambda: deliveries(link)


def getter() -> Ready:
    engine = opened(**CAN)
    pending = engine.begin().request(GetMessage("q"))
    hear(engine, 1, ChannelOpenOk())
    return engine, 1, lambda: repr(getattr(pending, "result", None))


def asker_for_replies() -> Ready:
    engine = opened(**CAN)
    link = engine.begin().attach_receiver(LinkTerms("r", Source("amq.rabbitmq.reply-to"), Target()))
    hear(engine, 1, ChannelOpenOk(), BasicConsumeOk("replies"), QueueDeclareOk("mailbox"))
    assert isinstance(link, DirectReplies)
    return engine, 1, lambda: link.replies_at


def server_of_publisher() -> Ready:
    pair = joined()
    link = pair.client.begin().attach_sender(LinkTerms("s", Source(), Target("q")))
    pair.until_attached(link)
    link.send(Message(b"m").encode())
    pair.run()
    return pair.server, channel_of(link).number, lambda: deliveries(pair.publisher())


def server_of_consumer() -> Ready:
    pair = joined()
    link = pair.client.begin().attach_receiver(LinkTerms("r", Source("q"), Target()))
    link.flow(10)
    pair.until_attached(link)
    sent = sends(pair, 5)
    return pair.server, channel_of(link).number, lambda: states(sent)


def sends(pair: Pair, count: int) -> list[Any]:
    consuming = pair.consumer()
    assert isinstance(consuming, SenderLink)
    sent = [consuming.send(Message(b"%d" % number).encode()) for number in range(count)]
    pair.run()
    return list(sent)


CASES: list[tuple[Callable[[], Ready], type[ChannelUser], Method]] = [
    (publisher, ClientSender, BasicAck(3, True)),
    (publisher, ClientSender, BasicNack(3)),
    (consumer, ClientReceiver, BasicDeliver("r", 2, False, "", "q")),
    (first_of_consumer, ClientReceiver, BasicDeliver("r", 2, True, "e", "ü")),
    (drainer, ClientReceiver, BasicGetOk(1, False, "e", "key", 7)),
    (getter, RequestChannel, BasicGetOk(1, True, "", "q", 0)),
    (asker_for_replies, DirectReplies, BasicGetOk(1, False, "", "mailbox", 0)),
    (server_of_publisher, ServerSession, BasicPublish(0, "e", "key", mandatory=True)),
    (server_of_publisher, ServerSession, BasicPublish(0, "", Latin1(b"\xe9", "latin-1"))),
    (server_of_consumer, ServerSession, BasicAck(3, True)),
    (server_of_consumer, ServerSession, BasicNack(3, True, False)),
    (server_of_consumer, ServerSession, BasicReject(2)),
]


def test_all_shapes() -> None:
    """There is a case for each method that a class reads by its shape."""
    cases = {(kind, TABLE.encode(method)[:4]) for _, kind, method in CASES}
    kinds = (ClientSender, ClientReceiver, DirectReplies, RequestChannel, ServerSession)
    inherited = {(DirectReplies, TABLE.encode(BasicDeliver())[:4])}
    assert {(kind, code) for kind in kinds for code in kind.hot} - inherited == cases


def heard(ready: Ready, payload: bytes) -> tuple[object, list[object], list[type]]:
    """Return what a method and its content lead to: what the channel takes, its output, and its events."""
    engine, channel, taken = ready
    engine.data_to_send()
    content = BasicProperties(reply_to="there").encode(V0_9_1.tables)
    engine.receive_data(V0_9_1.framing.frame(1, channel, payload))
    if TABLE.encode(BasicGetOk())[:4] == payload[:4] or payload[3] in (40, 60):
        engine.receive_data(V0_9_1.framing.message(channel, 60, content, b"m", 4096))
    events = engine.events()
    return taken(), said(engine), [type(event) for event in events]


def decoded(payload: bytes) -> Method | None:
    try:
        return TABLE.decode(payload)
    except DecodeError:
        return None


def agree(ready: Callable[[], Ready], payload: bytes) -> None:
    before = ready()[2]()
    method = decoded(payload)
    taken, answers, events = heard(ready(), payload)
    if method is not None:
        assert (taken, answers, events) == heard(ready(), TABLE.encode(method))
    else:
        assert taken == before
        assert [each.reply_code for each in answers if isinstance(each, ConnectionClose)] == [502]


@pytest.mark.parametrize(("ready", "method"), [(ready, method) for ready, _, method in CASES])
def test_as_they_should_be(ready: Callable[[], Ready], method: Method) -> None:
    """A good one is taken, and leads to something."""
    before = ready()[2]()
    taken, answers, _ = heard(ready(), TABLE.encode(method))
    assert taken != before
    assert not [each for each in answers if isinstance(each, ConnectionClose)]
    agree(ready, TABLE.encode(method))


@st.composite
def changed(draw: st.DrawFn) -> tuple[int, bytes]:
    """A case, and its method with octets set, cut off or added."""
    case = draw(st.integers(0, len(CASES) - 1))
    octets = bytearray(TABLE.encode(CASES[case][2]))
    for _ in range(draw(st.integers(1, 3))):
        if len(octets) > 4:
            place = draw(st.integers(4, len(octets) - 1))
            value = draw(st.sampled_from((0, 1, 2, 3, 4, 5, 254, 255)) | st.integers(0, 255))
            octets[place] = value
    if draw(st.booleans()):
        octets += draw(st.binary(max_size=3))
    else:
        del octets[draw(st.integers(4, len(octets))) :]
    return case, bytes(octets)


@example((0, bytes.fromhex("003c0050000000000000000301 02d1")))
@example((2, bytes.fromhex("003c003c01ff00000000000000020000 0171")))
@example((3, bytes.fromhex("003c003c01ff00000000000000020000 0171")))
@example((2, bytes.fromhex("003c003c017200000000000000020000 017100")))
@example((2, bytes.fromhex("003c003c0172")))
@example((2, bytes.fromhex("003c003c017800000000000000020000 0171")))
@given(changed())
def test_the_tables_verdict(case: tuple[int, bytes]) -> None:
    """A method that the table refuses ends the connection with 502, and nothing of it is taken.

    Any other method, written again from what the table reads, leads to the same, octet by octet.
    """
    number, payload = case
    agree(CASES[number][0], payload)
