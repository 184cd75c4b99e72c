"""Spark's format on RabbitMQ, which ignores a place in a stream when it is asked of a queue, and counts deliveries."""

from __future__ import annotations

import anyio
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from amqp10 import Connection, Message, receive
from amqp10.rabbitmq import management, queue_address
from amqp10.spark import Options

from ..kit.inside.spark import (
    Columns,
    Range,
    browse,
    connect_and_ensure_queue,
    connection,
    has_messages,
    plan_batch_read,
    read_range,
    run_with_retries,
)
from ._matrix import fresh_name
from .brokers import Server

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1200)]
SCHEMA = pa.schema([("body", pa.binary())])
TRIES = 25
"""More than the 20 that RabbitMQ gives a message of a quorum queue before it drops it."""


async def filled(url: str, kind: str) -> str:
    """A new queue of this type with a message."""
    name = fresh_name()
    async with Connection(url, dialect="0-9-1") as older:
        await older.native.declare_queue(name, durable=True, arguments={"x-queue-type": kind})
    async with Connection(url) as connection, connection.sender(queue_address(name)) as sender:
        await sender.send(Message(b"1", durable=True))
    return name


def test_offsets_without_messages(rabbitmq: Server) -> None:
    """RabbitMQ has some in a stream, at the begin of each segment: a range that begins with one has lost nothing."""
    url = rabbitmq.url()
    name = fresh_name()

    async def fill() -> None:
        arguments = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 50_000}
        async with Connection(url, dialect="0-9-1") as older:
            await older.native.declare_queue(name, durable=True, arguments=arguments)
        async with Connection(url) as connection, connection.sender(queue_address(name)) as sender:
            await sender.send_many(Message(b"x" * 1000, durable=True) for _ in range(400))

    anyio.run(fill, backend="trio")
    options = Options.parse({"url": url, "address": name, "mode": "stream"})
    offsets: list[int] = []

    async def keep(batch: pa.RecordBatch) -> None:
        offsets.extend(batch.column("offset").to_pylist())

    end = run_with_retries(options, plan_batch_read, options)[name]["to"]
    assert end > 400
    schema = pa.schema([("offset", pa.int64())])
    run_with_retries(options, read_range, options, Range(name, 0, end), schema, keep)
    assert len(offsets) == 400
    for nothing in {*range(end)}.difference(offsets):
        offsets.clear()
        run_with_retries(options, read_range, options, Range(name, nothing, end), schema, keep)
        assert offsets[0] == nothing + 1


async def waiting(url: str, name: str) -> bytes:
    """The message of a queue."""
    with anyio.fail_after(60):
        [message] = await receive(url, queue_address(name))
    return bytes(message.body)


async def emit(batch: pa.RecordBatch) -> None:
    """Nobody wants it."""


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_queue_is_no_stream(rabbitmq: Server, kind: str) -> None:
    """However often it is tried, on the driver or in a task, its message stays there."""
    url = rabbitmq.url()
    name = anyio.run(filled, url, kind, backend="trio")
    for given in ({"mode": "stream"}, {"startingOffsets": "earliest"}):
        options = Options.parse({"url": url, "address": name, **given})
        for _ in range(TRIES):
            with pytest.raises(ValueError, match=f"'{name}' is a queue, not a stream"):
                run_with_retries(options, plan_batch_read, options)
            with pytest.raises(ValueError, match=f"'{name}' is a queue, not a stream"):
                run_with_retries(options, read_range, options, Range(name, 0, 1), SCHEMA, emit)
    assert anyio.run(waiting, url, name, backend="trio") == b"1"


def test_a_queue_that_counts_deliveries(rabbitmq: Server, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever reads it is told how many each message has, unless there is no end of them."""
    url = rabbitmq.url()

    async def declare(limit: int) -> str:
        name = fresh_name()
        async with Connection(url) as connection, management(connection) as manager:
            await manager.declare_queue(name, arguments={"x-delivery-limit": limit} if limit else None)
        return name

    for limit, said in ((0, "delivered 20 times"), (7, "delivered 7 times"), (-1, "")):
        options = Options.parse({"url": url, "address": anyio.run(declare, limit, backend="trio")})
        caplog.clear()
        run_with_retries(options, connect_and_ensure_queue, options)
        assert said in caplog.text
        assert bool(said) == bool(caplog.records)


def test_a_stream_is_no_queue(rabbitmq: Server) -> None:
    """Read as one it would give nothing that is there; a queue passes."""
    url = rabbitmq.url()
    name = anyio.run(filled, url, "stream", backend="trio")
    options = Options.parse({"url": url, "address": name})
    with pytest.raises(ValueError, match=f"'{name}' is a stream, not a queue: mode=stream reads it"):
        run_with_retries(options, connect_and_ensure_queue, options)
    queue = Options.parse({"url": url, "address": anyio.run(filled, url, "quorum", backend="trio")})
    run_with_retries(queue, connect_and_ensure_queue, queue)


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
def test_filters_that_are_not_applied(rabbitmq: Server, kind: str) -> None:
    """RabbitMQ does not say so, and would give what nobody asked for: it is refused, and nothing was taken."""
    url = rabbitmq.url()
    name = anyio.run(filled, url, kind, backend="trio")
    given = {"url": url, "address": name, "mode": "stream" if kind == "stream" else "queue"}
    selecting = Options.parse({**given, "selector": "a = 1"})
    if kind == "stream":
        with pytest.raises(ValueError, match=r"option 'selector': .*set 'amqp\.filters'"):
            run_with_retries(selecting, plan_batch_read, selecting)
        return
    filtering = Options.parse({**given, "amqp.filters": '{"rabbitmq:stream-filter": ["eu"]}'})
    for options in (selecting, filtering):
        with pytest.raises(ValueError, match=rf"option {options.filtering}: '{name}' is a {kind} queue"):
            run_with_retries(options, connect_and_ensure_queue, options)
    assert anyio.run(waiting, url, name, backend="trio") == b"1"


@pytest.mark.parametrize("dialect", ["1.0", "0-9-1"])
def test_a_look_is_no_delivery(rabbitmq: Server, dialect: str) -> None:
    """However often the driver asks whether something waits in a quorum queue, it stays; an empty one has nothing."""
    url = rabbitmq.url()
    name = anyio.run(filled, url, "quorum", backend="trio")
    options = Options.parse({"url": url, "address": name, "dialect": dialect})

    async def looks(now: bool, times: int) -> set[bool]:
        async with connection(options) as opened:
            return {await has_messages(opened, options, now) for _ in range(times)}

    for now in (True, False):
        assert run_with_retries(options, looks, now, TRIES) == {True}
    assert anyio.run(waiting, url, name, backend="trio") == b"1"
    for now in (True, False):
        assert run_with_retries(options, looks, now, 1) == {False}


def test_browsing_a_classic_queue(rabbitmq: Server) -> None:
    """It can be read as often as one likes."""
    url = rabbitmq.url()
    name = anyio.run(filled, url, "classic", backend="trio")
    rows: list[bytes] = []

    async def keep(batch: pa.RecordBatch) -> None:
        rows.extend(batch.column("body").to_pylist())

    options = Options.parse({"url": url, "address": name})
    for _ in range(TRIES):
        run_with_retries(options, browse, options, Columns(SCHEMA), keep)
    assert rows == [b"1"] * TRIES


def test_browsing_a_quorum_queue(rabbitmq: Server) -> None:
    """Each time would count as a delivery: it is refused, and nothing was taken."""
    url = rabbitmq.url()
    name = anyio.run(filled, url, "quorum", backend="trio")
    options = Options.parse({"url": url, "address": name})
    for _ in range(TRIES):
        with pytest.raises(ValueError, match=f"'{name}' is a quorum queue.*ack=wal"):
            run_with_retries(options, browse, options, Columns(SCHEMA), emit)
    assert anyio.run(waiting, url, name, backend="trio") == b"1"
