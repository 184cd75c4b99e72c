"""Each dialect sends, each receives, on one embedded broker: no property of a message is lost on the way."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import anyio
import pytest

from amqp10 import Connection, Message
from amqp10.broker import Broker
from amqp10.engine import dialect_names
from amqp10.messaging import AmqpSequence, AmqpValue, Data
from amqp10.types import Byte, Decimal64, Float, Int, Short, Symbol, Timestamp, UByte, UInt, ULong, UShort

pytestmark = [pytest.mark.anyio, pytest.mark.capability("embedded broker")]

NAMES = sorted(dialect_names())
PAIRS = list(itertools.product(NAMES, NAMES))
MOMENT = datetime(2040, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
A_UUID = UUID("01234567-89ab-cdef-0123-456789abcdef")

MESSAGES: dict[str, Message] = {
    "nothing": Message(b""),
    "data": Message(bytes(range(256)) * 300),
    "header": Message(b"x", durable=True, priority=9, ttl=timedelta(minutes=10)),
    **{f"priority {number}": Message(b"x", priority=number) for number in (0, 1, 3, 4, 5)},
    "properties": Message(
        b"x",
        message_id="m-1",
        user_id=b"user",
        subject="a subject",
        reply_to="answers",
        correlation_id="c-1",
        content_type=Symbol("text/plain"),
        content_encoding=Symbol("gzip"),
        absolute_expiry_time=MOMENT,
        creation_time=MOMENT,
        group_id="group",
        group_sequence=4_000_000_000,
        reply_to_group_id="other group",
    ),
    "to": Message(b"x", to="/exchanges/some where/else"),
    "ids that are UUIDs": Message(b"x", message_id=A_UUID, correlation_id=A_UUID),
    "ids that are numbers": Message(b"x", message_id=2**63 + 1, correlation_id=0),
    "ids that are octets": Message(b"x", message_id=b"\xff\0", correlation_id=b"text"),
    "odd text": Message(b"x", message_id="ö" * 300, subject="\0\n", reply_to="/queues/a%20b", group_id=""),
    "application properties": Message(
        b"x",
        application_properties={
            "text": "ö",
            "long": "x" * 70_000,
            "true": True,
            "int": 42,
            "negative": -(2**40),
            "ubyte": UByte(1),
            "ushort": UShort(2),
            "uint": UInt(3),
            "ulong": ULong(2**64 - 1),
            "byte": Byte(-1),
            "short": Short(-2),
            "int32": Int(-3),
            "float": Float(1.5),
            "double": 2.5,
            "decimal": Decimal64(Decimal("3.14")),
            "time": MOMENT,
            "symbol": Symbol("symbol"),
            "uuid": A_UUID,
            "octets": b"\0\xff",
            "nothing": None,
            "x-kind": "like an annotation",
            "n" * 300: "a long name",
            "": "no name",
        },
    ),
    "annotations": Message(
        b"x",
        message_annotations={
            Symbol("x-text"): "t",
            Symbol("x-opt-list"): [1, {"a": b"b"}, None],
            Symbol("y"): Symbol("s"),
            ULong(7): UInt(7),
        },
        footer={Symbol("x-checksum"): ULong(1)},
    ),
    "text": Message("text"),
    "null": Message(None),
    "number": Message(UInt(7)),
    "map": Message({"a": [1, {"b": None}], Symbol("c"): Timestamp(1)}),
    "octets as a value": Message(AmqpValue(b"\0")),
    "sequence": Message(AmqpSequence([1, "two"], [], [None])),
    "parts": Message(Data(b"one", b"", b"two")),
    "value with content type": Message("text", content_type=Symbol("application/json"), subject="s"),
}
FIELDS = (
    "durable",
    "priority",
    "message_id",
    "user_id",
    "subject",
    "reply_to",
    "correlation_id",
    "content_type",
    "content_encoding",
    "absolute_expiry_time",
    "creation_time",
    "group_id",
    "group_sequence",
    "reply_to_group_id",
    "application_properties",
    "footer",
)
# What a broker says of the way that a message came.
OF_THE_WAY = ("x-exchange", "x-routing-key")


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    """A broker of its own."""
    async with Broker(host=None) as running:
        yield running


@pytest.mark.parametrize(("sending", "receiving"), PAIRS, ids=map("-to-".join, PAIRS))
async def test_nothing_is_lost(broker: Broker, sending: str, receiving: str) -> None:
    """All fields of the model, all kinds of values and of bodies, sent in one dialect and received in another."""
    async with broker.connect(dialect=sending) as one, broker.connect(dialect=receiving) as other:
        async with one.sender("q") as sender, other.receiver("q", credit=len(MESSAGES)) as receiver:
            for name, sent in MESSAGES.items():
                await sender.send(sent)
                with anyio.fail_after(60):
                    delivery = await receiver.receive()
                assert_same(Message.decode(sent.encode()), delivery.message, name)
                delivery.accept()
        assert broker.queue("q").depth == 0


def assert_same(sent: Message, got: Message, name: str) -> None:
    """What arrived is what was sent, but for what every broker may change."""
    for field in FIELDS:
        assert typed(getattr(got, field)) == typed(getattr(sent, field)), f"{name}: {field}"
    # A broker of older dialects knows where a message was sent, and says so.
    assert got.to in ((sent.to,) if sent.to is not None else (None, "/queues/q")), f"{name}: to"
    if sent.ttl is None:
        assert got.ttl is None, f"{name}: ttl"
    else:
        assert got.ttl is not None, f"{name}: ttl"
        assert sent.ttl - timedelta(seconds=30) <= got.ttl <= sent.ttl + timedelta(seconds=1), f"{name}: ttl"
    annotations = {key: value for key, value in got.message_annotations.items() if key not in OF_THE_WAY}
    assert typed(annotations) == typed(sent.message_annotations), f"{name}: message_annotations"
    assert typed(got.body) == typed(sent.body), f"{name}: body"


def typed(value: Any) -> Any:
    """A value with its type, so that a number is not taken for one of another kind."""
    if isinstance(value, dict):
        return {(type(key), key): typed(each) for key, each in value.items()}
    if isinstance(value, list):
        return [typed(each) for each in value]
    if isinstance(value, AmqpSequence):
        return [typed(list(part)) for part in value.parts]
    return type(value), value.value if isinstance(value, AmqpValue) else value


@pytest.mark.parametrize(("sending", "receiving"), PAIRS, ids=map("-to-".join, PAIRS))
async def test_redelivered(broker: Broker, sending: str, receiving: str) -> None:
    """A message that was out before comes again marked so, in whatever dialect."""
    async with broker.connect(dialect=sending) as one, one.sender("q") as sender:
        await sender.send("x")
        async with broker.connect() as failing, failing.receiver("q") as receiver:
            (await receiver.receive()).modify(delivery_failed=True)
        async with broker.connect(dialect=receiving) as other, other.receiver("q") as receiver:
            with anyio.fail_after(60):
                delivery = await receiver.receive()
            assert delivery.message.delivery_count == 1
            delivery.accept()


@pytest.mark.parametrize("address", ["topic://news", "queue://orders"])
@pytest.mark.parametrize("dialect", NAMES)
async def test_addresses_that_say_their_kind(dialect: str, address: str) -> None:
    """A program changes its dialect by one word: such an address is the same node in all of them, both ways."""
    async with Broker() as broker, Connection(broker.url) as newest, Connection(broker.url, dialect=dialect) as other:
        for sends, receives in ((other, newest), (newest, other)):
            async with receives.receiver(address) as receiver, sends.sender(address) as sender:
                with anyio.fail_after(60):
                    await sender.send("x")
                    with await receiver.receive() as message:
                        assert message.body == "x"
        names = [each.name for each in broker.queues] + [each.name for each in broker.topics]
        assert names == [address.partition("://")[2]]
