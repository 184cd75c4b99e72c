"""Queues and streams are told apart before anything is read: what is taken for the other fails, and loses nothing."""

from __future__ import annotations

import anyio
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadMaxRows

from amqp10 import Connection, Message, Source, receive
from amqp10.broker import Broker
from amqp10.spark import Options
from amqp10.spark._connection.address_checks import ensure_queue

from ...kit.inside.spark import (
    Columns,
    QueueStreamReader,
    RabbitStream,
    Range,
    TakingReader,
    browse,
    default_schema,
    logs,
    plan_batch_read,
    read_range,
)

pytestmark = pytest.mark.anyio
SCHEMA = pa.schema([("body", pa.binary())])
WORDS = "'events' is a stream, not a queue: mode=stream reads it"


@pytest.fixture
def anyio_backend() -> str:
    """What the format runs on."""
    return "trio"


async def declare(url: str, name: str) -> None:
    """A stream."""
    async with Connection(url, dialect="0-9-1") as connection:
        await connection.native.declare_queue(name, durable=True, arguments={"x-queue-type": "stream"})


async def emit(batch: pa.RecordBatch) -> None:
    """Nobody wants it."""


async def test_a_stream_is_no_queue() -> None:
    """A look at it fails and names the mode that reads it; a queue passes."""
    async with Broker() as broker, Connection(broker.url) as connection:
        await declare(broker.url, "events")
        events = Options.parse({"url": broker.url, "address": "events"})
        with pytest.raises(ValueError, match=WORDS):
            await ensure_queue(connection, events)
        with pytest.raises(ValueError, match=WORDS):
            await browse(events, Columns(SCHEMA), emit)
        await ensure_queue(connection, Options.parse({"url": broker.url, "address": "orders"}))


def test_readers_of_queues_refuse_a_stream(broker_url: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """In batch and streaming, however a queue is probed: they had read nothing of it, for ever."""
    anyio.run(declare, broker_url, "events", backend="trio")
    wal = str(tmp_path_factory.mktemp("wal"))
    for probe in ("auto", "always"):
        options = Options.parse({"url": broker_url, "address": "events", "walLocation": wal, "probe": probe})
        streaming = QueueStreamReader(options, default_schema())
        with pytest.raises(ValueError, match=WORDS):
            streaming.latestOffset(streaming.initialOffset(), ReadMaxRows(1))
    with pytest.raises(ValueError, match=WORDS):
        TakingReader(options, default_schema(), "run").partitions()


async def test_a_queue_is_no_stream() -> None:
    """Nor where the broker says that it has no offsets."""
    async with Broker() as broker, Connection(broker.url) as connection, connection.sender("orders"):
        for given in ({"mode": "stream"}, {"startingOffsets": "earliest"}):
            options = Options.parse({"url": broker.url, "address": "orders", **given})
            with pytest.raises(ValueError, match="'orders' is a queue, not a stream"):
                await plan_batch_read(options)


async def test_a_queue_of_a_broker_that_ignores_places_in_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """As RabbitMQ before 4, which does not say what it has: its message is given back, and the error says it."""
    async with Broker() as broker, Connection(broker.url) as connection:
        async with connection.sender("orders") as sender:
            await sender.send(Message(b"1"))
        monkeypatch.setattr(RabbitStream, "_at", lambda self, opened, partition, where: Source(partition))
        monkeypatch.setattr(RabbitStream, "source", lambda self, opened, partition, start: Source(partition))
        monkeypatch.setattr(logs, "is_stream", unknown)
        options = Options.parse({"url": broker.url, "address": "orders", "mode": "stream"})
        with pytest.raises(ValueError, match="'orders' is a queue, not a stream"):
            await RabbitStream(options).bounds(connection, "orders")
        with pytest.raises(ValueError, match="'orders' is a queue, not a stream"):
            await read_range(options, Range("orders", 0, 1), SCHEMA, emit)
        with anyio.fail_after(60):
            [message] = await receive(broker.url, "orders")
        assert message.body == b"1"


async def unknown(opened: Connection, place: Source) -> None:
    """The broker does not say."""
