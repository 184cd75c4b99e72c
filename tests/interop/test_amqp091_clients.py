"""amqp091-go and aio-pika against the embedded broker, and against RabbitMQ to know that the tests are right."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from ..kit.unavailable import unavailable
from ._matrix import fresh_name
from .brokers import Unavailable
from .clients import AMQP091_GO, Program

pytest.importorskip("aio_pika", reason="aio-pika is not installed")

import aio_pika
import aio_pika.exceptions
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.timeout(600),
    # aio-pika runs on asyncio only, and neither says anything about our event loop.
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
    pytest.mark.capability("AMQP 0-9-1"),
]


@pytest.fixture(params=["rabbitmq", "embedded"])
def url(request: pytest.FixtureRequest) -> str:
    """Where each of the two listens."""
    found: str = request.getfixturevalue(request.param).url()
    return found


@pytest.fixture(scope="module")
def go() -> Program:
    """amqp091-go, installed."""
    try:
        AMQP091_GO.installed()
    except Unavailable as error:
        unavailable(f"no {AMQP091_GO.library}: {error}")
    return AMQP091_GO


def body(number: int, size: int) -> str:
    """The first characters of the body that the client makes."""
    return f"message {number}".ljust(size, "x")[:20]


# amqp091-go


@pytest.mark.parametrize("size", [1, 1000, 1 << 20])
@pytest.mark.parametrize("end", ["ack", "nack", "reject"])
async def test_go_publishes_and_consumes(url: str, go: Program, size: int, end: str) -> None:
    """All is confirmed in order, comes in order and whole with a prefetch of two, and settled it is gone."""
    queue = fresh_name()
    confirms = await go.run("publish", url, queue, 5, size)
    assert confirms == [{"tag": number + 1, "confirmed": True} for number in range(5)]
    taken = await go.run("consume", url, queue, 5, end)
    expected = [{"body": body(number, size), "size": max(size, 9), "redelivered": False} for number in range(5)]
    assert taken == expected
    await go.run("publish", url, queue, 1, 9)
    assert len(await go.run("consume", url, queue, 1, "ack")) == 1


async def test_go_hears_of_the_unroutable(url: str, go: Program) -> None:
    """Each is returned with 312, before it is confirmed."""
    returns = await go.run("unroutable", url, "amq.topic", 3, "-")
    assert returns == [
        {"code": 312, "exchange": "amq.topic", "body": body(number, 0), "tag": number + 1, "confirmed": True}
        for number in range(3)
    ]


@pytest.mark.parametrize(("end", "left"), [("commit", 3), ("rollback", 0)])
async def test_go_transacts(url: str, go: Program, end: str, left: int) -> None:
    """A committed transaction is there, one that is rolled back is not."""
    queue = fresh_name()
    await go.run("transact", url, queue, 3, end)
    await go.run("publish", url, queue, 1, 9)
    assert len(await go.run("consume", url, queue, left + 1, "ack")) == left + 1


async def test_go_routes(url: str, go: Program) -> None:
    """A topic exchange, two bindings, messages fetched one by one with their headers; and all goes with the last."""
    *taken, gone = await go.run("route", url, fresh_name(), 4, "-")

    def fetched(queue: int, number: int, left: int) -> dict[str, Any]:
        key = ("db.error", "db.info")[number % 2]
        headers = {"n": number, "nested": {"list": [True, "two"]}}
        return {"queue": queue, "key": key, "left": left, "headers": headers}

    errors = [fetched(0, 0, 1), fetched(0, 2, 0)]
    assert taken == errors + [fetched(1, number, 3 - number) for number in range(4)]
    assert gone == {"code": 404}


NOW = int(time.time())


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        ("first", [0, 1, 2, 3, 4]),
        ("last", [4]),
        ("3", [3, 4]),
        ("1h", [0, 1, 2, 3, 4]),
        (f"@{NOW - 3600}", [0, 1, 2, 3, 4]),
        ("next", [100, 101]),
    ],
    ids=["first", "last", "number", "interval", "timestamp", "next"],
)
async def test_go_reads_a_stream(url: str, go: Program, where: str, numbers: list[int]) -> None:
    """From each kind of offset; each message says its own, and none is taken away: the next reader has them, too."""
    stream = fresh_name()
    await go.run("fill", url, stream, 5, "-")
    begin = 5 if where == "next" else numbers[0]
    for again in range(1 if where == "next" else 2):
        taken = await go.run("read", url, stream, len(numbers), where)
        expected = [{"body": f"message {n}", "offset": begin + place} for place, n in enumerate(numbers)]
        assert taken == expected, again


# aio-pika


@pytest.fixture
async def channel(url: str, anyio_backend: str) -> AsyncIterator[AbstractChannel]:
    """A channel with confirms, on a connection of its own that mends itself."""
    connection = await aio_pika.connect_robust(f"{url}/")
    async with connection:
        yield await connection.channel(publisher_confirms=True, on_return_raises=True)


async def test_aio_pika_in_parallel(channel: AbstractChannel) -> None:
    """Many messages published at once are all confirmed, and all consumed."""
    queue = await channel.declare_queue(exclusive=True)
    taken: set[bytes] = set()
    done = anyio.Event()

    async def take(message: AbstractIncomingMessage) -> None:
        async with message.process():
            taken.add(message.body)
        if len(taken) == 500:
            done.set()

    await channel.set_qos(prefetch_count=20)
    await queue.consume(take)
    async with anyio.create_task_group() as tasks:
        for number in range(500):
            tasks.start_soon(channel.default_exchange.publish, aio_pika.Message(b"%d" % number), queue.name)
    with anyio.fail_after(60):
        await done.wait()
    assert taken == {b"%d" % number for number in range(500)}


async def test_aio_pika_unroutable(channel: AbstractChannel) -> None:
    """Its mandatory messages that go nowhere are errors of publishing."""
    with pytest.raises(aio_pika.exceptions.DeliveryError):
        await channel.default_exchange.publish(aio_pika.Message(b"x"), fresh_name(), mandatory=True)


async def test_aio_pika_requeues(channel: AbstractChannel) -> None:
    """A message whose handling fails comes again, as its context manager promises."""
    queue = await channel.declare_queue(exclusive=True)
    await channel.default_exchange.publish(aio_pika.Message(b"x", headers={"a": [1, {"b": None}]}), queue.name)
    with pytest.raises(ZeroDivisionError):
        message = await queue.get(timeout=10)
        assert message is not None
        async with message.process(requeue=True):
            raise ZeroDivisionError
    again = await queue.get(timeout=10)
    assert again is not None
    # x-delivery-count is there, too, as on RabbitMQ's quorum queues.
    assert (again.body, again.redelivered, again.headers["a"]) == (b"x", True, [1, {"b": None}])
    await again.ack()
    assert await queue.get(fail=False) is None


async def test_aio_pika_exchanges(channel: AbstractChannel) -> None:
    """Each type of exchange, exchanges bound to exchanges, and a queue that iterates."""
    queue = await channel.declare_queue(exclusive=True)
    last = await channel.declare_exchange(fresh_name(), aio_pika.ExchangeType.FANOUT, auto_delete=True)
    await queue.bind(last)
    for kind in ("direct", "fanout", "topic", "headers"):
        exchange = await channel.declare_exchange(fresh_name(), kind, auto_delete=True)
        await last.bind(exchange, routing_key="k", arguments={"k": "k"})
        await exchange.publish(aio_pika.Message(kind.encode(), headers={"k": "k"}), "k")
    bodies = []
    async with queue.iterator(timeout=10) as messages:
        async for message in messages:
            async with message.process():
                bodies.append(message.body)
            if len(bodies) == 4:
                break
    assert bodies == [b"direct", b"fanout", b"topic", b"headers"]


async def test_aio_pika_transaction(channel: AbstractChannel) -> None:
    """Its transaction commits at the end of the block, and rolls back on an error in it."""
    plain = await channel._connection.channel(publisher_confirms=False)  # type: ignore[attr-defined]
    queue = await plain.declare_queue(exclusive=True)
    async with plain.transaction():
        await plain.default_exchange.publish(aio_pika.Message(b"in"), queue.name)
    with pytest.raises(ZeroDivisionError):
        async with plain.transaction():
            await plain.default_exchange.publish(aio_pika.Message(b"out"), queue.name)
            raise ZeroDivisionError
    message = await queue.get(timeout=10)
    assert message is not None
    assert message.body == b"in"
    await message.ack()
    assert await queue.get(fail=False) is None


async def test_aio_pika_refused(channel: AbstractChannel) -> None:
    """A refusal is the exception of its reply code, and the channel is made anew."""
    await channel.declare_queue(name := fresh_name(), exclusive=True)
    with pytest.raises(aio_pika.exceptions.ChannelPreconditionFailed):
        await channel.declare_queue(name, exclusive=True, auto_delete=True)
    await channel.reopen()
    with pytest.raises(aio_pika.exceptions.ChannelNotFoundEntity):
        await channel.declare_queue(fresh_name(), passive=True)


async def test_aio_pika_streams(channel: AbstractChannel) -> None:
    """A stream from an offset, with a prefetch; two consumers have all of it, and it is there for a third."""
    await channel.set_qos(prefetch_count=2)
    stream = await channel.declare_queue(fresh_name(), durable=True, arguments={"x-queue-type": "stream"})
    for number in range(6):
        await channel.default_exchange.publish(aio_pika.Message(b"%d" % number), stream.name)
    for first in (0, 2, 4):
        got: list[AbstractIncomingMessage] = []
        with anyio.fail_after(60):
            async with stream.iterator(arguments={"x-stream-offset": first}) as messages:
                async for message in messages:
                    got.append(message)
                    await message.ack()
                    if len(got) == 6 - first:
                        break
        assert [int(each.body) for each in got] == [each.headers["x-stream-offset"] for each in got]
        assert [int(each.body) for each in got] == list(range(first, 6))
