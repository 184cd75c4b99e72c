"""What `amqp10 pipeline` makes of its options, most of it before there is a Spark."""

from __future__ import annotations

import itertools
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

import amqp10
from amqp10 import Message
from amqp10.spark import Options
from amqp10.spark.pipeline import Pipeline, follow

from ..kit.inside.cli import run
from ..kit.inside.spark import Columns, Rows, arrow_schema, struct
from ..kit.spark.pipes import make_stream, sent


def pipeline(sink: str = "parquet", **fields: Any) -> Pipeline:
    source = {"url": "amqp://localhost", "address": "orders", **fields.pop("source", {})}
    return Pipeline(source=source, sink=sink, checkpoint="/lake/checkpoint", **fields)


def test_where_segments_are() -> None:
    """In the checkpoint, unless the reader says where; a log needs none."""
    assert pipeline()._source_options()["walLocation"] == "/lake/checkpoint/wal"
    assert "walLocation" not in pipeline(source={"wallocation": "/wal"})._source_options()
    assert "walLocation" not in pipeline(source={"mode": "stream"})._source_options()
    assert pipeline(stop_file="/run/stop")._source_options()["stopFile"] == "/run/stop"


def test_what_a_sink_asks_for() -> None:
    """Delta and Iceberg have extensions of Spark; who sets them otherwise is listened to."""
    assert "spark.sql.extensions" not in pipeline().settings()
    assert pipeline("delta").settings()["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"
    assert pipeline().settings()["spark.log.level"] == "FATAL"  # the job tells of its error itself, in one line
    mine = {"spark.sql.extensions": "mine", "spark.log.level": "INFO"}
    assert pipeline("iceberg", conf=mine).settings() == {"spark.ui.showConsoleProgress": "false", **mine}


def test_a_checkpoint_where_no_segment_can_be() -> None:
    """The error says what the place of segments has to be."""
    with pytest.raises(ValueError, match=r"option 'walLocation': must be the absolute path .* 'hdfs://lake/wal'"):
        Pipeline(
            source={"url": "amqp://localhost", "address": "orders"}, sink="parquet", checkpoint="hdfs://lake"
        ).check()


class Ending:
    """A query whose second and last batch ends between two questions about it."""

    def __init__(self) -> None:
        self.recentProgress = [{"batchId": 0, "numInputRows": 7}]

    @property
    def isActive(self) -> bool:  # noqa: N802
        if len(self.recentProgress) == 1:
            self.recentProgress = [*self.recentProgress, {"batchId": 1, "numInputRows": 3}]
        return False

    def awaitTermination(self) -> None:  # noqa: N802
        """It has ended well."""


def test_the_last_batch_is_told() -> None:
    """Whenever it ends."""
    told: list[int] = []
    ending: Any = Ending()
    follow(ending, lambda progress: told.append(progress["batchId"]), lambda: False)
    assert told == [0, 1]


class Slow:
    """A query whose first batch takes longer than anybody waits without a word."""

    def __init__(self, message: str, polls: int) -> None:
        self.recentProgress: list[dict[str, Any]] = []
        self.status = {"message": message, "isTriggerActive": True, "isDataAvailable": True}
        self.polls = iter([True] * polls)

    @property
    def isActive(self) -> bool:  # noqa: N802
        return next(self.polls, False)

    def awaitTermination(self) -> None:  # noqa: N802
        """It has ended well."""


@pytest.mark.parametrize(("message", "lines"), [("Processing new data", 3), ("Waiting for data to arrive", 0)])
def test_a_batch_that_does_not_end(monkeypatch: pytest.MonkeyPatch, message: str, lines: int) -> None:
    """After 30 s, and every 30 s, Spark's own message is told, unless Spark only waits."""
    clock = itertools.count(0.0, 0.5)
    moved = SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda seconds: None)
    monkeypatch.setattr("amqp10.spark.pipeline.time", moved)
    told: list[str] = []
    slow: Any = Slow(message, 200)
    follow(slow, lambda progress: None, lambda: False, told.append)
    assert told == [message] * lines


def test_messages_to_another_queue_are_whole() -> None:
    """Unless columns or a format of bodies are chosen: then rows are written as they are read."""
    target = {"url": "amqp://other", "address": "copies"}
    plain = pipeline("amqp", target=target)
    assert plain._source_options()["bodyFormat"] == plain._target_options()["bodyFormat"] == "amqp"
    assert plain._schema() == "body BINARY"
    assert pipeline("amqp", target=target, source={"bodyformat": "amqp"})._schema() == "body BINARY"
    for chosen in (
        pipeline("amqp", target=target, columns="body STRING"),
        pipeline("amqp", target=target, source={"bodyformat": "json"}),
    ):
        assert "bodyFormat" not in {**chosen._source_options(), **chosen._target_options()}
        assert chosen._schema() == chosen.columns
    assert "bodyFormat" not in pipeline("parquet")._source_options()


def test_what_such_a_message_keeps() -> None:
    """Types, properties and annotations; what was of the way that it came is gone."""
    options = Options.parse({**pipeline("amqp", target={"url": "amqp://h", "address": "a"})._target_options()})
    message = Message(
        {"n": 1},
        message_id=7,
        durable=True,
        delivery_count=3,
        ttl=timedelta(seconds=5),
        application_properties={"i": 5, "f": 1.5, "yes": True},
        message_annotations={"x-opt-a": 1},
        delivery_annotations={"x-opt-way": 1},
    )
    columns = Columns(arrow_schema(struct([("body", "binary")])), "amqp")
    columns.add(message.encode())
    (copy,) = Rows(options, "p").messages(columns.take())
    message.delivery_count, message.delivery_annotations = 0, {}
    assert copy.encode() == message.encode()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("sink", ["csv", "json", "orc", "text"])
def test_files_have_texts_as_they_came(spark: SparkSession, broker_url: str, tmp_path: Path, sink: str) -> None:
    """With blanks at the ends, quotes and commas, and but for plain lines with several lines in one."""
    bodies = ["  blanks ", 'a "quoted", word', "\ttab", *([] if sink == "text" else ["one\ntwo"])]
    anyio.run(amqp10.send, broker_url, f"texts-{sink}", *map(str.encode, bodies), backend="trio")
    job = Pipeline(
        source={"url": broker_url, "address": f"texts-{sink}"},
        sink=sink,
        place=str(tmp_path / "lake"),
        checkpoint=str(tmp_path / "checkpoint"),
    )
    job.start(spark).awaitTermination(200)
    reader = spark.read.option("multiLine", sink == "csv").format(sink)
    rows = reader.load(str(tmp_path / "lake")).collect()
    column = 0 if sink in ("csv", "text") else "body"
    assert sorted(_text(row[column]) for row in rows) == sorted(bodies)


def _text(body: Any) -> str:
    return body if isinstance(body, str) else bytes(body).decode()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.xdist_group("spark")
def test_another_queue_has_the_messages(spark: SparkSession, broker_url: str, tmp_path: Path) -> None:
    """As they were, each of its properties and types, in order."""
    messages = [Message({"n": n}, message_id=n, subject="s", application_properties={"f": 0.5}) for n in range(5)]
    anyio.run(amqp10.send, broker_url, "originals", *messages, backend="trio")
    job = Pipeline(
        source={"url": broker_url, "address": "originals"},
        sink="amqp",
        target={"url": broker_url, "address": "copies"},
        checkpoint=str(tmp_path / "checkpoint"),
    )
    job.start(spark).awaitTermination(200)

    async def copies() -> list[Message]:
        with anyio.fail_after(60):
            return await amqp10.receive(broker_url, "copies", count=5)

    for copy, original in zip(anyio.run(copies, backend="trio"), messages, strict=True):
        assert (copy.body, copy.message_id, copy.subject) == (original.body, original.message_id, "s")
        assert copy.application_properties == {"f": 0.5}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.xdist_group("spark")
def test_a_log_on_the_console(
    spark: SparkSession,
    broker_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The command reads a stream from an offset in batches, which the driver prints."""
    monkeypatch.setattr(Pipeline, "session", lambda self: spark)
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)
    make_stream(broker_url, "told")
    sent(broker_url, "told", 0, 8)
    java = spark._jvm.java
    printed = java.io.ByteArrayOutputStream()
    console = java.lang.Class.forName("scala.Console$").getField("MODULE$").get(None)
    command = ["pipeline", "--from", broker_url, "--address", "told", "--mode", "stream", "--to", "console:"]
    command += ["--option", 'startingOffsets={"told": 2}', "--rate", "4", "--checkpoint", str(tmp_path / "checkpoint")]
    console.setOutDirect(java.io.PrintStream(printed))
    try:
        assert run(command) == 0
    finally:
        console.setOutDirect(java.lang.System.out)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[2] for line in lines if line.startswith("batch ")] == ["4", "2"]
    cells = [line.split("|") for line in printed.toString().splitlines() if line.startswith("|")]
    ids = [row[2].strip() for row in cells]
    assert [each for each in ids if each != "message_id"] == [f"m{n}" for n in range(2, 8)]
