"""Spark's format "amqp" on real brokers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import pytest

pytest.importorskip("pyspark")

from pyspark.errors import PySparkException

from amqp10 import Connection, Message
from amqp10.rabbitmq import queue_address

from ._matrix import Peer, fresh_name
from .brokers import Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.interop,
    pytest.mark.timeout(1200),
    pytest.mark.xdist_group("spark"),
    pytest.mark.capability("Spark"),
]
T = TypeVar("T")


def on(url: str, function: Callable[..., Awaitable[T]], *args: Any) -> T:
    """What a coroutine function does with a connection."""

    async def run() -> T:
        async with Connection(url) as connection:
            return await function(connection, *args)

    return anyio.run(run, backend="trio")


async def fill(connection: Connection, address: str, start: int, stop: int) -> None:
    async with connection.sender(address) as sender:
        await sender.send_many(Message(b"%d" % n, message_id=f"m{n}", durable=True) for n in range(start, stop))


async def take_all(connection: Connection, address: str) -> list[Message]:
    """All that the broker has, by its own word."""
    async with connection.receiver(address, credit=0) as receiver:
        found: list[Message] = []
        while True:
            receiver.add_credit(1000)
            await receiver.drain()
            if not receiver.buffered:
                return found
            for delivery in await receiver.receive_batch(1000, max_wait=0):
                found.append(delivery.message)
                delivery.accept()


def into_parquet(frame: DataFrame, folder: Path) -> list[int]:
    """Run a stream until it has all that is available, and see what is in the files by then."""
    writer = frame.writeStream.trigger(availableNow=True).option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.format("parquet").start(str(folder / "out"))
    assert query.awaitTermination(600)
    written = frame.sparkSession.read.parquet(str(folder / "out"))
    return sorted(int(row.body) for row in written.select("body").collect())


@pytest.mark.matrix("Spark: queue to parquet and back")
def test_queue_to_parquet_and_back(spark: SparkSession, peer: Peer, tmp_path: Path) -> None:
    """A stream takes what is in the queue, a second run what came since; the files fill another queue, with the ids."""

    async def two_queues(connection: Connection) -> tuple[str, str]:
        return await peer.queue(connection), await peer.queue(connection)

    source, target = on(peer.url(), two_queues)
    on(peer.url(), fill, source, 0, 2000)
    options = {"url": peer.url(), "address": source, "addressType": "raw", "walLocation": str(tmp_path / "wal")}
    stream = spark.readStream.format("amqp").options(**options, numPartitions="2", maxMessagesPerTrigger="1500")
    assert into_parquet(stream.load(), tmp_path) == list(range(2000))
    on(peer.url(), fill, source, 2000, 2100)
    assert into_parquet(stream.load(), tmp_path) == list(range(2100))
    assert on(peer.url(), take_all, source) == []
    assert [path for path in (tmp_path / "wal").rglob("*") if path.is_file()] == []

    rows = spark.read.parquet(str(tmp_path / "out")).select("body", "message_id")
    rows.write.format("amqp").options(url=peer.url(), address=target, addressType="raw").mode("append").save()
    messages = on(peer.url(), take_all, target)
    assert sorted((int(each.body), each.message_id) for each in messages) == [(n, f"m{n}") for n in range(2100)]


@pytest.mark.parametrize(
    ("broker", "dialect"),
    [("rabbitmq", "0-9-1"), ("embedded", "0-9-1"), ("broker_j", "0-10"), ("embedded", "fast")],
)
def test_older_dialects(
    spark: SparkSession, request: pytest.FixtureRequest, tmp_path: Path, broker: str, dialect: str
) -> None:
    """Rows are written to a queue and streamed from it by the same code, with the same fields, whatever is spoken."""
    peer = Peer(broker, request.getfixturevalue(broker))
    name = on(peer.url(), peer.queue).removeprefix("/queues/")
    options = {"url": peer.url(), "dialect": dialect, "address": name}
    rows = spark.sql(
        "SELECT string(id) body, concat('m', id) message_id, map('a', '1') application_properties FROM range(700)"
    )
    rows.write.format("amqp").options(**options).mode("append").save()
    stream = spark.readStream.format("amqp").options(**options, walLocation=str(tmp_path / "wal"))
    limited = stream.option("maxMessagesPerTrigger", "400").option("numPartitions", "2")
    assert into_parquet(limited.load(), tmp_path) == list(range(700))
    written = spark.read.parquet(str(tmp_path / "out")).select("body", "message_id", "application_properties").collect()
    assert all(
        row.message_id == f"m{row.body.decode()}" and row.application_properties == {"a": "1"} for row in written
    )
    assert [path for path in (tmp_path / "wal").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("broker", ["artemis", "embedded"])
def test_what_is_written_twice(
    spark: SparkSession, request: pytest.FixtureRequest, address: str, broker: str, tmp_path: Path
) -> None:
    """From files: with `duplicateIdProperty` a repeated write has no effect, and names are spelled by the profile."""
    url = request.getfixturevalue(broker).url()
    files = str(tmp_path / "rows")
    spark.sql("SELECT string(id) body, concat('id', id) message_id FROM range(200)").write.parquet(files)
    rows = spark.read.parquet(files)
    options = {"url": url, "address": address, "duplicateIdProperty": "_AMQ_DUPL_ID", "messageIds": "column"}
    for _ in range(2):
        rows.write.format("amqp").options(**options).mode("append").save()
    assert sorted(int(each.body) for each in on(url, take_all, address)) == list(range(200))


def test_a_message_that_no_queue_takes(spark: SparkSession, rabbitmq: Server) -> None:
    """RabbitMQ releases it: the write fails, names the row, and says what that means there."""
    options = {"url": rabbitmq.url(), "address": "/exchanges/amq.direct/nowhere"}
    rows = spark.sql("SELECT 'x' body, 'the-id' message_id")
    with pytest.raises(PySparkException, match=r"row 0 of the task, message-id 'the-id'") as caught:
        rows.write.format("amqp").options(**options).mode("append").save()
    assert "it routed the message to no queue" in str(caught.value)


@pytest.fixture(params=["rabbitmq", "embedded"])
def logs(request: pytest.FixtureRequest) -> Peer:
    """Each of the two brokers that have streams."""
    return Peer(request.param, request.getfixturevalue(request.param))


@pytest.fixture
def stream_name(logs: Peer) -> str:
    """A super stream of two partitions, as RabbitMQ names them; in 0-9-1 both brokers have the same words for it."""
    name = fresh_name()

    async def declare() -> None:
        async with Connection(logs.url(), dialect="0-9-1") as connection:
            for each in (f"{name}-0", f"{name}-1"):
                await connection.native.declare_queue(each, durable=True, arguments={"x-queue-type": "stream"})

    anyio.run(declare, backend="trio")
    return name


def test_a_stream_from_an_offset(spark: SparkSession, logs: Peer, stream_name: str, tmp_path: Path) -> None:
    """Stream to parquet, from the offset that is given, in batches of a limit, with its offsets; and again."""
    name = f"{stream_name}-0"
    on(logs.url(), fill, queue_address(name), 0, 3000)
    options = {"url": logs.url(), "address": name, "mode": "stream", "maxOffsetsPerTrigger": "1000"}
    reader = spark.readStream.format("amqp").options(**options, startingOffsets=f'{{"{name}": 500}}')
    assert into_parquet(reader.load(), tmp_path) == list(range(500, 3000))
    on(logs.url(), fill, queue_address(name), 3000, 3100)
    assert into_parquet(reader.load(), tmp_path) == list(range(500, 3100))
    rows = spark.read.parquet(str(tmp_path / "out")).select("body", "offset", "partition").collect()
    assert all(int(row.body) == row.offset and row.partition == name for row in rows)


def test_a_batch_of_a_super_stream(spark: SparkSession, logs: Peer, stream_name: str) -> None:
    """Its partitions are found by their names, and ranges of them read; with more tasks each offset comes once."""
    on(logs.url(), fill, queue_address(f"{stream_name}-0"), 0, 500)
    on(logs.url(), fill, queue_address(f"{stream_name}-1"), 500, 600)
    reader = spark.read.format("amqp").options(url=logs.url(), address=stream_name, mode="stream")
    assert sorted(int(row.body) for row in reader.load().collect()) == list(range(600))
    part = f'{{"{stream_name}-0": 100}}'
    ranged = reader.options(startingOffsets=part, endingOffsets="latest", minPartitions="4").load()
    assert sorted(int(row.body) for row in ranged.collect()) == list(range(100, 600))
    with pytest.raises(PySparkException, match="there is no stream 'none-such'"):
        spark.read.format("amqp").options(url=logs.url(), mode="stream").load("none-such").count()


def test_a_stream_from_a_moment(spark: SparkSession, logs: Peer, stream_name: str) -> None:
    """What was stored since then, and no more than is wanted; filters that the options name are the broker's."""
    name = f"{stream_name}-0"

    async def fill_by_key(connection: Connection, key: str, start: int, stop: int) -> None:
        keys = {"x-stream-filter-value": key}
        async with connection.sender(queue_address(name)) as sender:
            await sender.send_many(Message(b"%d" % n, message_annotations=keys) for n in range(start, stop))

    def bodies(**options: str) -> list[int]:
        reader = spark.read.format("amqp").options(url=logs.url(), address=name, mode="stream", **options)
        return sorted(int(row.body) for row in reader.load().collect())

    on(logs.url(), fill_by_key, "eu", 0, 50)
    on(logs.url(), fill_by_key, "us", 50, 100)
    assert bodies(startingTimestamp="2026-01-31T06:00:00Z", maxMessages="70") == list(range(70))
    assert bodies(startingTimestamp=f"{(time.time() + 3600) * 1000:.0f}") == []
    assert bodies(**{"amqp.filters": '{"rabbitmq:stream-filter": ["us"]}'}) == list(range(50, 100))


def test_a_stream_from_now_on(spark: SparkSession, logs: Peer, stream_name: str, tmp_path: Path) -> None:
    """`latest` is where the stream ended when the query began; an empty stream is no mistake."""
    name = f"{stream_name}-0"
    on(logs.url(), fill, queue_address(name), 0, 100)
    reader = spark.readStream.format("amqp").options(url=logs.url(), address=stream_name, mode="stream")
    frame = reader.schema("body STRING, partition STRING").load()
    writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).format("memory")
    query = writer.queryName("now").start()
    try:
        query.processAllAvailable()
        on(logs.url(), fill, queue_address(name), 100, 150)
        on(logs.url(), fill, queue_address(f"{stream_name}-1"), 150, 160)
        query.processAllAvailable()
        assert sorted(int(row.body) for row in spark.table("now").collect()) == list(range(100, 160))
    finally:
        query.stop()
    assert query.exception() is None
