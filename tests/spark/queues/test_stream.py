"""Streaming from queues and to them, on Spark, against the embedded broker."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

pytest.importorskip("pyspark")

from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from pyspark.sql.streaming.datasource import ReadMaxRows

import amqp10
from amqp10.spark import AmqpDataSource, Options
from amqp10.spark._queues.stream import QueueStreamReader

from ...kit.inside.spark import DataLoss, LogStreamReader, default_schema
from ...kit.spark.pipes import Pipe, depth, sent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.xdist_group("spark")]


@pytest.fixture
def pipe(spark: SparkSession, broker_url: str, tmp_path: Path) -> Pipe:
    return Pipe(spark, broker_url, tmp_path.name, tmp_path)  # a queue of its own when it is run again, too


def test_all_that_is_available_now(pipe: Pipe) -> None:
    """In batches of a limit, over two links; then the queue is empty and nothing is left of the segments.

    Twice: the second run takes only what came since, and a third has nothing to do.
    """
    sent(pipe.url, pipe.address, 0, 1000)
    query = pipe.run(maxMessagesPerTrigger=400, numPartitions=2)
    assert [progress.numInputRows for progress in query.recentProgress if progress.numInputRows] == [400, 400, 200]
    assert pipe.bodies() == list(range(1000))
    sent(pipe.url, pipe.address, 1000, 1100)
    pipe.run()
    pipe.run()
    assert pipe.bodies() == list(range(1100))
    assert depth(pipe.url, pipe.address) == 0
    assert pipe.segments() == []


def test_batches_of_as_many_octets(pipe: Pipe) -> None:
    """The limit counts the size of messages; a run that has seen the end of the queue ends all the same."""

    async def send() -> None:
        await amqp10.send(pipe.url, pipe.address, *(amqp10.Message(b"%04d" % n * 250) for n in range(60)))

    anyio.run(send, backend="trio")
    query = pipe.run(pipe.frame(maxBytesPerTrigger=40_000).selectExpr("substring(body, 1, 4) body"))
    assert next(row.numInputRows for row in query.recentProgress if row.numInputRows) in range(39, 50)
    assert pipe.bodies() == list(range(60))
    assert depth(pipe.url, pipe.address) == 0


def test_a_batch_that_is_evaluated_often(pipe: Pipe) -> None:
    """`foreachBatch` with several actions, and a union with itself: each sees the same messages."""
    sent(pipe.url, pipe.address, 0, 300)
    seen: list[tuple[int, int, int]] = []

    def each(frame: DataFrame, batch: int) -> None:
        seen.append((frame.count(), frame.select("body").distinct().count(), frame.union(frame).count()))

    pipe.run(each=each)
    assert seen == [(300, 300, 600)]
    assert depth(pipe.url, pipe.address) == 0


@pytest.mark.parametrize("trigger", [{"availableNow": True}, {"processingTime": "1 second"}], ids=["available", "time"])
def test_a_stream_united_with_itself(pipe: Pipe, trigger: dict[str, Any]) -> None:
    """Two scans of one batch: both have all its messages, also when there are fewer than the limit."""
    sent(pipe.url, pipe.address, 0, 60)
    frame = pipe.frame(maxMessagesPerTrigger=100)
    writer = frame.union(frame).writeStream.trigger(**trigger).option("checkpointLocation", str(pipe.checkpoint))
    query = writer.format("parquet").start(str(pipe.out))
    try:
        if "availableNow" in trigger:
            assert query.awaitTermination(600)
        else:
            query.processAllAvailable()
        assert [progress.numInputRows for progress in query.recentProgress if progress.numInputRows] == [120]
    finally:
        query.stop()
    assert pipe.bodies() == sorted([*range(60), *range(60)])
    assert depth(pipe.url, pipe.address) == 0


def test_the_scans_of_a_batch_are_of_one_run(tmp_path: Path) -> None:
    """Spark plans the same batch for each: the second is to wait for the first, and not to take its claim."""
    source = AmqpDataSource({"url": "amqp://127.0.0.1:1", "address": "orders", "walLocation": str(tmp_path)})
    reader, another = (source.streamReader(source.schema()) for _ in range(2))
    start = reader.initialOffset()
    (tmp_path / start["wal"]).mkdir()
    end = {**start, "batch": 1, "max": 10, "parts": 2}
    runs = {partition.run for _ in range(2) for partition in reader.partitions(start, end)}
    assert len(runs) == 1
    assert runs.isdisjoint(partition.run for partition in another.partitions(start, end))


def test_a_query_that_waits(pipe: Pipe) -> None:
    """Without a trigger it starts a batch when something comes, and idles in between."""
    query = pipe.frame().writeStream.option("checkpointLocation", str(pipe.checkpoint)).format("parquet")
    running = query.start(str(pipe.out))
    try:
        for start in (0, 100):
            sent(pipe.url, pipe.address, start, start + 100)
            running.processAllAvailable()
            assert pipe.bodies() == list(range(start + 100))
    finally:
        running.stop()
    assert running.exception() is None
    pipe.run()  # what was planned last is committed by then
    assert pipe.segments() == []


def test_a_restart_in_mid_batch_repeats_it_from_its_segment(pipe: Pipe) -> None:
    """A sink that fails: the messages are gone from the queue, and the next run has the very same ones."""
    sent(pipe.url, pipe.address, 0, 50)
    seen: list[list[bytes]] = []

    def fail(frame: DataFrame, batch: int) -> None:
        seen.append([row.body for row in frame.collect()])
        if len(seen) == 1:
            raise RuntimeError("the sink fails")

    with pytest.raises(PySparkException, match="the sink fails"):
        pipe.run(each=fail)
    assert depth(pipe.url, pipe.address) == 0
    sent(pipe.url, pipe.address, 50, 60)
    pipe.run(each=fail)
    assert seen[0] == seen[1]
    assert sorted(map(int, seen[2])) == list(range(50, 60))


def test_a_first_batch_that_has_lost_its_segments(pipe: Pipe) -> None:
    """Its messages are nowhere else: the next run says so, and goes on without them when told to."""
    sent(pipe.url, pipe.address, 0, 50)

    def fail(frame: DataFrame, batch: int) -> None:
        raise RuntimeError(f"{frame.count()} rows, and the sink fails")

    with pytest.raises(PySparkException, match="50 rows, and the sink fails"):
        pipe.run(each=fail)
    [lost] = pipe.wal.iterdir()
    shutil.rmtree(pipe.wal)
    sent(pipe.url, pipe.address, 50, 60)
    with pytest.raises(PySparkException, match=f"there is no '{lost}', where this query has written before"):
        pipe.run()
    assert depth(pipe.url, pipe.address) == 10
    lost.mkdir(parents=True)
    pipe.run()
    assert pipe.bodies() == list(range(50, 60))


def test_a_first_batch_that_is_repeated(broker_url: str, tmp_path: Path) -> None:
    """It was planned and never begun, so that nothing is lost; where `walLocation` is another one, nobody knows."""
    sent(broker_url, "planned", 0, 1)

    def reader(place: str) -> QueueStreamReader:
        options = {"url": broker_url, "address": "planned", "walLocation": str(tmp_path / place)}
        return QueueStreamReader(Options.parse(options), default_schema())

    first = reader("wal")
    end = first.latestOffset(first.initialOffset(), ReadMaxRows(10))
    assert len(reader("wal").partitions(first.initialOffset(), end)) == 1
    with pytest.raises(ValueError, match=f"there is no '{tmp_path}/another/{end['wal']}'"):
        reader("another").partitions(first.initialOffset(), end)


def test_segments_that_are_not_asked_for_any_more(broker_url: str, tmp_path: Path) -> None:
    """A batch that was begun with them is not repeated without: what is in them is the queue's no more."""
    sent(broker_url, "unasked", 0, 1)

    def reader(**given: str) -> QueueStreamReader:
        return QueueStreamReader(Options.parse({"url": broker_url, "address": "unasked", **given}), default_schema())

    kept, accepting = reader(walLocation=str(tmp_path)), reader(ack="accept")
    start = kept.initialOffset()
    with pytest.raises(ValueError, match="ack=wal, with the same walLocation, ends it"):
        accepting.partitions(start, kept.latestOffset(start, ReadMaxRows(10)))
    assert len(accepting.partitions(start, accepting.latestOffset(start, ReadMaxRows(10)))) == 1


@pytest.mark.parametrize("planned", [False, True], ids=["between batches", "with one planned"])
def test_segments_that_are_asked_for_from_now_on(broker_url: str, tmp_path: Path, planned: bool) -> None:
    """A query that had none goes on with them: nobody has lost a folder that there never was."""
    address = f"asked {planned}"
    sent(broker_url, address, 0, 3)

    def reader(**given: str) -> QueueStreamReader:
        return QueueStreamReader(Options.parse({"url": broker_url, "address": address, **given}), default_schema())

    accepting, kept = reader(ack="accept"), reader(walLocation=str(tmp_path))
    start = accepting.initialOffset()
    end = accepting.latestOffset(start, ReadMaxRows(10))
    if not planned:
        start, end = end, kept.latestOffset(end, ReadMaxRows(10))
    [partition] = kept.partitions(start, end)
    assert [len(rows) for rows in kept.read(partition)] == [3]
    assert partition.segment.published
    sent(broker_url, address, 3, 4)
    assert kept.latestOffset(end, ReadMaxRows(10))["kept"]


def test_the_checkpoint_of_a_log(broker_url: str, tmp_path: Path) -> None:
    """It does not say where a queue is, nor that of a queue where a log is."""
    queue = QueueStreamReader(
        Options.parse({"url": broker_url, "address": "either", "walLocation": str(tmp_path)}), default_schema()
    )
    log = LogStreamReader(Options.parse({"url": broker_url, "address": "either", "mode": "stream"}), default_schema())
    place, offsets = queue.initialOffset(), {"batch": {"from": 0, "to": 3}}
    for call in (lambda: log.latestOffset(place, ReadMaxRows(1)), lambda: log.partitions(offsets, place)):
        with pytest.raises(ValueError, match="checkpoint is that of a queue, and the query reads a log"):
            call()
    for call in (lambda: queue.latestOffset(offsets, ReadMaxRows(1)), lambda: queue.partitions(offsets, offsets)):
        with pytest.raises(ValueError, match="checkpoint is that of a log, and the query reads a queue"):
            call()


def test_a_checkpoint_that_is_older_than_the_segments(
    broker_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A batch is repeated whose segments were deleted when it was committed: that is told, whatever comes of it."""
    sent(broker_url, "older", 0, 1)

    def reader(**given: str) -> QueueStreamReader:
        options = {"url": broker_url, "address": "older", "walLocation": str(tmp_path), **given}
        return QueueStreamReader(Options.parse(options), default_schema())

    first = reader()
    end = first.latestOffset(first.initialOffset(), ReadMaxRows(10))
    [partition] = first.partitions(first.initialOffset(), end)
    assert sum(len(rows) for rows in first.read(partition)) == 1
    first.commit(end)
    with pytest.raises(DataLoss, match=r"segments of batch 1 are deleted: it was committed, .* older"):
        reader().partitions(first.initialOffset(), end)
    assert reader(failOnDataLoss="false").partitions(first.initialOffset(), end) == []
    assert "it has no rows" in caplog.text


def test_columns_are_pruned_and_ids_kept_for_oneself(pipe: Pipe) -> None:
    """The segment has the message-id, the DataFrame does not."""
    sent(pipe.url, pipe.address, 0, 10)
    options = {"url": pipe.url, "address": pipe.address, "walLocation": str(pipe.wal)}
    frame = pipe.spark.readStream.format("amqp").options(**options).schema("body STRING").load()
    pipe.run(frame.withColumn("body", f.col("body").cast("binary")))
    assert pipe.bodies() == list(range(10))


def test_taking_in_batch(pipe: Pipe) -> None:
    """With `ack=wal` a DataFrame takes once and may be evaluated again; `ack=accept` takes each time."""
    sent(pipe.url, pipe.address, 0, 100)
    options = {"url": pipe.url, "address": pipe.address, "walLocation": str(pipe.wal), "numPartitions": "2"}
    taken = pipe.spark.read.format("amqp").options(**options, ack="wal").load()
    assert taken.count() == 100
    assert depth(pipe.url, pipe.address) == 0
    assert sorted(int(row.body) for row in taken.collect()) == list(range(100))
    sent(pipe.url, pipe.address, 0, 10)
    accepted = pipe.spark.read.format("amqp").options(url=pipe.url, address=pipe.address, ack="accept").load()
    assert [accepted.count(), accepted.count()] == [10, 0]


def test_from_queue_to_queue(pipe: Pipe) -> None:
    """A streaming write awaits every outcome; a row without an id gets one of query, batch, partition and row."""
    sent(pipe.url, pipe.address, 0, 200)
    target = f"{pipe.address}-target"
    writer = pipe.frame().select("body", "subject").writeStream.trigger(availableNow=True)
    query = writer.format("amqp").options(url=pipe.url, address=target, checkpointLocation=str(pipe.checkpoint)).start()
    assert query.awaitTermination(600)

    async def receive() -> list[amqp10.Message]:
        with anyio.fail_after(60):
            return await amqp10.receive(pipe.url, target, count=200)

    messages = anyio.run(receive, backend="trio")
    assert sorted(int(message.body) for message in messages) == list(range(200))
    assert {str(message.message_id).rpartition("/")[0] for message in messages} == {f"{query.id}/0/0"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"walLocation": "wal"}, "option 'walLocation': must be the absolute path"),
        ({"walLocation": "/tmp/wal", "ack": "browse"}, "a stream cannot browse a queue"),
        (
            {"walLocation": "/tmp/wal", "maxMessagesPerTrigger": "0"},
            "'maxMessagesPerTrigger': must be a whole number, 1 or more",
        ),
        ({}, "'walLocation' is missing: a stream of a queue writes"),
        ({"walLocation": "/proc/wal"}, "'walLocation': '/proc/wal' cannot be written"),
        ({"endingOffsets": "latest"}, "'endingOffsets' is for batch reads"),
    ],
)
def test_mistakes(options: dict[str, str], words: str) -> None:
    """They are found when the query is planned."""
    source = AmqpDataSource({"url": "amqp://guest:my-secret@127.0.0.1:1", "address": "orders", **options})
    with pytest.raises(ValueError, match="amqp: ") as caught:
        source.streamReader(source.schema())
    assert words in str(caught.value)
    assert "my-secret" not in str(caught.value)


def test_no_broker(pipe: Pipe) -> None:
    """One clear error on the driver, and no secret in it."""
    with pytest.raises(PySparkException, match="ConnectionLost") as caught:
        pipe.run(url="amqp://guest:my-secret@127.0.0.1:1", connectTimeout="0.1")
    assert "my-secret" not in str(caught.value)


def test_a_stream_needs_a_place_for_its_segments(pipe: Pipe) -> None:
    """Unless losing messages was asked for."""
    options = {"url": pipe.url, "address": pipe.address}
    reader = pipe.spark.readStream.format("amqp").options(**options)
    sent(pipe.url, pipe.address, 0, 30)
    pipe.run(reader.option("ack", "accept").load())
    assert pipe.bodies() == list(range(30))
