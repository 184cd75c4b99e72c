"""Messages of another program of 0-9-1 that go through this client: they come to their readers as they were sent."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import anyio
import pytest

pytest.importorskip("pika", reason="pika is not installed")

import pika
from pika import data, spec

from amqp10 import Connection, Message

from ._amqp091 import channel_of, connected
from ._matrix import fresh_name

pytestmark = [pytest.mark.anyio, pytest.mark.interop, pytest.mark.timeout(600)]

SENT: dict[str, dict[str, Any]] = {
    "full": {
        "content_type": "text/plain",
        "content_encoding": "gzip",
        "headers": {
            "a": 1,
            "s": "t",
            "l": [1, 2],
            "t": {"x": 1},
            "x-h": 5,
            "d": datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
        },
        "delivery_mode": 2,
        "priority": 3,
        "correlation_id": "c",
        "reply_to": "r",
        "message_id": "m",
        "timestamp": 1_700_000_000,
        "type": "ty",
        "user_id": "user",
        "app_id": "app",
        "cluster_id": "cl",
    },
    "nothing": {},
    "priority 4": {"priority": 4},
    "groups": {"headers": {"JMSXGroupID": "g", "JMSXGroupSeq": 3, "qpid.subject": "sub"}},
    "names of annotations": {"headers": {"x-exchange": "e", "x-routing-key": "k", "x-delivery-count": "abc"}},
    "not ASCII": {"content_type": "té", "message_id": "é"},
    "values": {
        "headers": {
            "d": datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
            "dec": decimal.Decimal("1.5"),
            "n": None,
            "b": True,
            "f": b"\xff",
        }
    },
    "an address": {"reply_to": "/queues/x%20y"},
    "our type": {"type": "amqp-1.0"},
}


@pytest.fixture(params=["rabbitmq", "embedded"])
def url(request: pytest.FixtureRequest) -> str:
    """Where each of the two listens."""
    found: str = request.getfixturevalue(request.param).url()
    return found


@pytest.fixture
def anyio_backend() -> str:
    return "trio"


async def relay(url: str, queues: list[str], count: int) -> list[Message]:
    """Send on what comes, as it is."""
    async with Connection(url, dialect="0-9-1") as connection:
        async with connection.receiver(queues[0]) as receiver, connection.sender(queues[1]) as sender:
            messages = []
            with anyio.fail_after(60):
                for _ in range(count):
                    with await receiver.receive() as message:
                        await sender.send(message)
                        messages.append(message)
    return messages


async def test_relayed(url: str) -> None:
    """Each property and header, type and all; nothing is added."""
    with channel_of(url) as channel:
        queues = [fresh_name() for _ in range(2)]
        for name in queues:
            channel.queue_declare(name)
        for name, fields in SENT.items():
            channel.basic_publish("", queues[0], name.encode(), pika.BasicProperties(**fields))
        await relay(url, queues, len(SENT))
        for name, fields in SENT.items():
            _, properties, body = channel.basic_get(queues[1], auto_ack=True)
            assert body == name.encode()
            assert vars(properties) == vars(pika.BasicProperties(**fields)), name
        for name in queues:
            channel.queue_delete(name)


@contextmanager
def latin1() -> Iterator[None]:
    """Short strings of pika's are written as those of programs that know no UTF-8."""

    def encode(pieces: list[bytes], value: str) -> int:
        octets = value.encode("latin-1")
        pieces.append(bytes([len(octets)]) + octets)
        return 1 + len(octets)

    with pytest.MonkeyPatch.context() as patched:
        for module in (data, spec.data):
            patched.setattr(module, "encode_short_string", encode)
        yield


@pytest.mark.parametrize(
    "fields", [{"message_id": "café"}, {"content_type": "café"}, {"user_id": None, "headers": {"café": 1}}, None]
)
async def test_no_utf_8(url: str, fields: dict[str, Any] | None) -> None:
    """It is delivered, can be read and settled, and what comes after it, too; and goes on as the same octets."""
    with channel_of(url) as channel, connected(url) as other:
        queues = [fresh_name() for _ in range(2)]
        for name in queues:
            channel.queue_declare(name)
        channel.exchange_declare(queues[0], "fanout", auto_delete=True)
        channel.queue_bind(queues[0], queues[0])
        with latin1():
            key = "café" if fields is None else ""
            channel.basic_publish(queues[0], key, b"odd", pika.BasicProperties(**fields or {}))
        channel.basic_publish("", queues[0], b"even")
        odd, even = await relay(url, queues, 2)
        assert (odd.body, even.body) == (b"odd", b"even")
        said = odd.subject if fields is None else next(iter((fields.get("headers") or fields).items()))
        if fields is None:
            assert said == "café"
        octets = bytearray()
        with pytest.MonkeyPatch.context() as patched:
            decode = data.decode_short_string

            def keep(encoded: bytes, offset: int) -> Any:
                octets.extend(encoded[offset + 1 : offset + 1 + encoded[offset]])
                return decode(encoded, offset)

            for module in (data, spec.data):
                patched.setattr(module, "decode_short_string", keep)
            _, _, body = other.channel().basic_get(queues[1], auto_ack=True)
        assert body == b"odd"
        if fields is not None and "headers" not in fields:
            assert "café".encode("latin-1") in octets
        for name in queues:
            channel.queue_delete(name)


async def test_keys_that_read_the_same(url: str) -> None:
    """A routing key comes as the octets that it was published with, whatever came before it."""
    odd, even = "café".encode("latin-1"), "café".encode()
    with channel_of(url) as channel:
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queue, "amq.fanout")
        for latin in (True, False, True, False):
            with latin1() if latin else nullcontext():
                channel.basic_publish("amq.fanout", "café", queue.encode())
        seen: list[bytes] = []
        decode = data.decode_short_string

        def keep(encoded: bytes, offset: int) -> Any:
            seen.append(bytes(encoded[offset + 1 : offset + 1 + encoded[offset]]))
            return decode(encoded, offset)

        with pytest.MonkeyPatch.context() as patched:
            for module in (data, spec.data):
                patched.setattr(module, "decode_short_string", keep)
            taken = channel.consume(queue, auto_ack=True)
            bodies = [next(taken)[2] for _ in range(4)]
            assert bodies == [queue.encode()] * 4
        assert [octets for octets in seen if octets in (odd, even)] == [odd, even, odd, even]


async def test_priorities(url: str) -> None:
    """The highest first: 4, the usual one of AMQP 1.0, is not the lowest; what another program sends without one is."""
    with channel_of(url) as channel:
        queue = fresh_name()
        channel.queue_declare(queue, arguments={"x-max-priority": 10})
        async with Connection(url, dialect="0-9-1") as connection:
            async with connection.sender(queue) as sender:
                for priority in (1, 4, 9, 2):
                    await sender.send(Message(b"%d" % priority, priority=priority))
                channel.basic_publish("", queue, b"none")
                channel.queue_declare(queue, passive=True)
            async with connection.receiver(queue, credit=1) as receiver:
                got = []
                with anyio.fail_after(60):
                    for _ in range(5):
                        with await receiver.receive() as message:
                            got.append(message.body)
        assert got == [b"9", b"4", b"2", b"1", b"none"]
        channel.queue_delete(queue)


async def test_a_time_to_live_from_qpid(broker_j: Any, rabbitmq: Any) -> None:
    """A moment there and a time here: read for what it is, it goes on as such, and RabbitMQ takes it."""
    async with (
        Connection(broker_j.url(), dialect="0-9-1") as qpid,
        Connection(rabbitmq.url(), dialect="0-9-1") as rabbit,
    ):
        name = fresh_name()
        for each in (qpid, rabbit):
            await each.native.declare_queue(name)
        async with qpid.sender(name) as sender:
            await sender.send(Message(b"m", ttl=datetime.timedelta(hours=1)))
        async with qpid.receiver(name) as source, rabbit.sender(name) as target:
            delivery = await source.receive()
            await target.send(delivery.message)
            delivery.accept()
        message = await rabbit.native.get(name)
        assert message is not None
        assert message.ttl is not None
        assert datetime.timedelta(minutes=50) < message.ttl <= datetime.timedelta(hours=1)
        for each in (qpid, rabbit):
            await each.native.delete_queue(name)
