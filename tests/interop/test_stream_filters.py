"""Filters on a stream, on RabbitMQ and on the embedded broker: where to begin, and what to skip."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest

from amqp10 import (
    Connection,
    Filter,
    LinkDetached,
    Message,
    Source,
    StreamFilter,
    StreamMatchUnfiltered,
    StreamOffset,
    Symbol,
)
from amqp10.amqp091 import Native
from amqp10.rabbitmq import queue_address

from ._matrix import fresh_name

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.timeout(600),
    pytest.mark.parametrize("anyio_backend", ["trio"]),
    pytest.mark.capability("streams"),
]


@pytest.fixture(params=["rabbitmq", "rabbitmq_43", "embedded"])
def url(request: pytest.FixtureRequest) -> str:
    """Where each of the two listens."""
    found: str = request.getfixturevalue(request.param).url()
    return found


async def new_stream(url: str) -> str:
    """The address of one, declared in the dialect that has the same words for it on both brokers."""
    async with Connection(url, dialect="0-9-1") as connection:
        native = connection.native
        assert isinstance(native, Native)
        facts = await native.declare_queue(fresh_name(), durable=True, arguments={"x-queue-type": "stream"})
        return queue_address(facts.name)


VALUE = Symbol("x-stream-filter-value")
OFFSET = Symbol("x-stream-offset")
SIX = [
    *(
        Message(
            n,
            subject=f"order.{n}",
            application_properties={"n": n, "region": ("eu", "us")[n % 2]},
            message_annotations={VALUE: ("eu", "us")[n % 2]},
        )
        for n in range(5)
    ),
    Message(5, application_properties={"n": 5}),
]


async def read(connection: Connection, address: str, count: int, *filters: Filter) -> list[tuple[Any, Any]]:
    """The next messages of a stream, each with its offset."""
    got: list[tuple[Any, Any]] = []
    async with connection.receiver(Source(address, filters=filters)) as receiver:
        with anyio.fail_after(60):
            while len(got) < count:
                with await receiver.receive() as message:
                    got.append((message.body, message.message_annotations[OFFSET]))
        assert await receiver.receive_batch(1, max_wait=0.3) == []
    return got


HOUR = timedelta(hours=1)
# Filters, and what comes; each message was sent alone, so that each is a chunk of the log.
CASES: list[tuple[list[Filter], list[int]]] = [
    ([StreamOffset("first")], [0, 1, 2, 3, 4, 5]),
    ([StreamOffset("last")], [5]),
    ([StreamOffset(3)], [3, 4, 5]),
    ([StreamOffset(datetime.now(UTC) - HOUR)], [0, 1, 2, 3, 4, 5]),
    ([StreamOffset(HOUR)], [0, 1, 2, 3, 4, 5]),
    ([StreamOffset("1h")], [0, 1, 2, 3, 4, 5]),
    ([StreamOffset("first"), StreamFilter("eu")], [0, 2, 4]),
    ([StreamOffset("first"), StreamFilter("eu", "us")], [0, 1, 2, 3, 4]),
    ([StreamOffset("first"), StreamFilter("eu"), StreamMatchUnfiltered()], [0, 2, 4, 5]),
]


async def test_streams(url: str) -> None:
    """Every way to say where to begin, and the filter values, on one stream."""
    address = await new_stream(url)
    async with Connection(url) as connection:
        async with connection.sender(address) as sender:
            for message in SIX:
                await sender.send(message)
        for filters, numbers in CASES:
            assert await read(connection, address, len(numbers), *filters) == [(n, n) for n in numbers], filters


async def test_streams_in_0_9_1(url: str) -> None:
    """The same filters are consumer arguments there; with manual credit each round goes on where the last one ended."""
    address = await new_stream(url)
    async with Connection(url, dialect="0-9-1") as connection:
        async with connection.sender(address) as sender:
            for message in SIX:
                await sender.send(message)
        for filters, numbers in CASES:
            assert await read(connection, address, len(numbers), *filters) == [(n, n) for n in numbers], filters
        async with connection.receiver(Source(address, filters=[StreamOffset("first")]), credit=0) as receiver:
            got = []
            for credit in (1, 2, 1, 2):
                receiver.add_credit(credit)
                with anyio.fail_after(60):
                    deliveries = [await receiver.receive() for _ in range(credit)]
                got += [delivery.message.body for delivery in deliveries]
                for delivery in deliveries:
                    delivery.accept()
        assert got == [0, 1, 2, 3, 4, 5]


async def test_a_slow_reader_in_0_9_1(url: str) -> None:
    """Who settles late, so that the consumer is made anew with a wider prefetch, misses nothing, and nothing comes
    twice."""
    address = await new_stream(url)
    async with Connection(url, dialect="0-9-1") as connection:
        # Without an offset it would begin when the broker has its consumer, a moment after the link is attached.
        source = Source(address, filters=[StreamOffset("first")])
        async with connection.receiver(source, credit=2) as receiver, connection.sender(address) as sender:
            await sender.send_many([b"%d" % n for n in range(40)])
            with anyio.fail_after(60):
                deliveries = [await receiver.receive() for _ in range(40)]
            for delivery in deliveries:
                delivery.accept()
        assert [delivery.message.body for delivery in deliveries] == [b"%d" % n for n in range(40)]


async def test_rounds_of_many_in_0_9_1(url: str) -> None:
    """Messages of one size, twenty a round with manual credit: each comes once, in its order, with its place."""
    address = await new_stream(url)
    async with Connection(url, dialect="0-9-1") as connection:
        async with connection.sender(address) as sender:
            await sender.send_many([b"%04d" % n for n in range(100)])
        source = Source(address, filters=[StreamOffset("first")])
        got = []
        async with connection.receiver(source, credit=0) as receiver:
            for _ in range(5):
                receiver.add_credit(20)
                with anyio.fail_after(60):
                    deliveries = [await receiver.receive() for _ in range(20)]
                got += [(each.message.body, each.message.message_annotations[OFFSET]) for each in deliveries]
                for delivery in deliveries:
                    delivery.accept()
        assert got == [(b"%04d" % n, n) for n in range(100)]


async def test_not_a_stream_in_0_9_1(url: str) -> None:
    """What only streams have is refused of other queues."""
    async with Connection(url, dialect="0-9-1") as connection:
        assert isinstance(connection.native, Native)
        queue = (await connection.native.declare_queue(exclusive=True)).name
        with pytest.raises(LinkDetached) as detached:
            async with connection.receiver(Source(queue, filters=[StreamOffset("first")])) as receiver:
                await receiver.receive()
        assert detached.value.info["reply-code"] == 406


async def test_next(url: str) -> None:
    """From "next", and without any offset, only what comes from then on."""
    address = await new_stream(url)
    async with Connection(url) as connection:
        async with connection.sender(address) as sender:
            await sender.send("before")
            for filters in ([StreamOffset("next")], []):
                async with connection.receiver(Source(address, filters=filters)) as receiver:
                    await sender.send("after")
                    with anyio.fail_after(60):
                        delivery = await receiver.receive()
                    assert delivery.message.body == "after"
                    delivery.accept()
