"""Streaming from logs, as Spark's driver does it: the reader is asked without a Spark."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from amqp10 import Connection, Message, send
from amqp10.spark import Options
from amqp10.spark._logs import readers
from amqp10.spark._logs.offsets import Bounds
from amqp10.spark._logs.readers import POLL_SECONDS, LogStreamReader, plan_batch_read

from ...kit.inside.spark import DataLoss, default_schema, run_with_retries

NAME = "remade"


async def make(url: str, messages: int) -> None:
    """A stream with so many messages, in place of the one that there was."""
    async with Connection(url, dialect="0-9-1") as older:
        await older.native.delete_queue(NAME)
        await older.native.declare_queue(NAME, durable=True, arguments={"x-queue-type": "stream"})
    async with Connection(url) as connection, connection.sender(NAME) as sender:
        await sender.send_many(Message(b"%d" % number) for number in range(messages))


def reader(url: str, name: str = NAME, **options: str) -> LogStreamReader:
    given = {"url": url, "address": name, "mode": "stream", "startingOffsets": "earliest"}
    return LogStreamReader(Options.parse({**given, **options}), default_schema())


@pytest.mark.parametrize("available_now", [False, True])
def test_a_stream_that_was_made_anew(
    broker_url: str, available_now: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It ends before the checkpoint's offset: the query fails, or begins anew; nothing is passed over in silence."""
    monkeypatch.setattr(readers, "POLL_SECONDS", 0)
    anyio.run(make, broker_url, 10, backend="trio")
    first = reader(broker_url)
    end = first.latestOffset(first.initialOffset(), ReadAllAvailable())
    assert end == {NAME: {"from": 0, "to": 10}}
    anyio.run(make, broker_url, 4, backend="trio")
    strict, lax = reader(broker_url), reader(broker_url, failOnDataLoss="false")
    if available_now:
        strict.prepareForTriggerAvailableNow()
        lax.prepareForTriggerAvailableNow()
    with pytest.raises(DataLoss, match=f"'{NAME}' ends at offset 4, before 10"):
        strict.latestOffset(end, ReadAllAvailable())
    with caplog.at_level(logging.WARNING, "amqp10.spark"):
        begun = lax.latestOffset(end, ReadAllAvailable())
    assert begun == {NAME: {"from": 0, "to": 4}}
    assert "ends at offset 4, before 10" in caplog.text
    assert lax.latestOffset(begun, ReadAllAvailable()) == begun
    anyio.run(make, broker_url, 0, backend="trio")
    last = reader(broker_url)
    assert last.latestOffset(end, ReadAllAvailable()) == end  # retention may have removed all that was read


def test_a_batch_that_is_to_begin_behind_the_end(broker_url: str) -> None:
    """Likewise: where somebody was, the stream does not reach any more."""
    anyio.run(make, broker_url, 3, backend="trio")
    given = {"url": broker_url, "address": NAME, "startingOffsets": f'{{"{NAME}": 7}}'}
    strict, lax = Options.parse(given), Options.parse({**given, "failOnDataLoss": "false"})
    with pytest.raises(DataLoss, match="ends at offset 3, before 7"):
        run_with_retries(strict, plan_batch_read, strict)
    assert run_with_retries(lax, plan_batch_read, lax) == {NAME: {"from": 0, "to": 3}}


def test_a_batch_that_is_repeated_with_another_option(broker_url: str) -> None:
    """It has the tasks that it had: what they have written has ids by their numbers."""
    anyio.run(make, broker_url, 9, backend="trio")
    first, again, other = (reader(broker_url, minPartitions=each) for each in ("2", "3", "1"))
    start = first.initialOffset()
    end = first.latestOffset(start, ReadAllAvailable())
    tasks = [(0, 4), (4, 9)]
    for stream in (first, again, other):
        assert [(each.range.start, each.range.end) for each in stream.partitions(start, end)] == tasks
        assert stream.latestOffset(end, ReadAllAvailable()) == end


def test_a_pause_between_two_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark polls without one; what its own work has taken counts."""
    now = 100.0
    paused: list[float] = []

    class Asked:
        def __init__(self, options: Options) -> None: ...

        def call(self, *_: object) -> dict[str, Bounds]:
            return {NAME: Bounds(0, 0)}

    monkeypatch.setattr(readers, "DriverConnection", Asked)
    monkeypatch.setattr(readers, "time", SimpleNamespace(monotonic=lambda: now, sleep=paused.append))
    stream, start = reader("amqp://localhost:1"), {NAME: {"from": 0, "to": 0}}
    for seconds in (0, 0.125, 60, 0):
        assert stream.latestOffset(start, ReadAllAvailable()) == start
        now += seconds
    assert paused == [0, POLL_SECONDS, POLL_SECONDS - 0.125, 0]


@pytest.fixture
def parts(broker_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Parts:
    """A super stream without any partitions yet."""
    monkeypatch.setattr(readers, "POLL_SECONDS", 0)
    monkeypatch.setattr(readers, "PARTITION_CHECK_SECONDS", 0)
    return Parts(broker_url, tmp_path.name)


class Parts:
    """The partitions of a super stream."""

    def __init__(self, url: str, name: str) -> None:
        self.url, self.name = url, name

    def make(self, *numbers: int) -> None:
        """With three messages each."""

        async def declare() -> None:
            async with Connection(self.url, dialect="0-9-1") as connection:
                for number in numbers:
                    kind = {"x-queue-type": "stream"}
                    await connection.native.declare_queue(self.part(number), durable=True, arguments=kind)
            for number in numbers:
                await send(self.url, self.part(number), *(Message(b"x") for _ in range(3)))

        anyio.run(declare, backend="trio")

    def delete(self, number: int) -> None:
        async def delete() -> None:
            async with Connection(self.url, dialect="0-9-1") as connection:
                await connection.native.delete_queue(self.part(number))

        anyio.run(delete, backend="trio")

    def part(self, number: int) -> str:
        return f"{self.name}-{number}"

    def read(self, *numbers: int) -> dict[str, dict[str, int]]:
        """The offset at which these have been read to their ends."""
        return {self.part(number): {"from": 0, "to": 3} for number in numbers}


@pytest.mark.parametrize("running", [False, True], ids=["between runs", "in a run"])
@pytest.mark.parametrize("available_now", [False, True])
def test_a_partition_that_is_gone(
    parts: Parts, running: bool, available_now: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The query fails and names it, or forgets it with a warning; those after it are still read."""
    parts.make(0, 1, 2)
    strict, lax = reader(parts.url, parts.name), reader(parts.url, parts.name, failOnDataLoss="false")
    if running:
        assert strict.initialOffset().keys() == lax.initialOffset().keys() == parts.read(0, 1, 2).keys()
    done = parts.read(0, 1, 2)
    parts.delete(1)
    if available_now:
        if not running:  # it does not know yet what there was
            with pytest.raises(
                DataLoss, match=f"partition '{parts.part(1)}' is missing, although '{parts.part(2)}' exists"
            ):
                strict.prepareForTriggerAvailableNow()
        lax.prepareForTriggerAvailableNow()
    with pytest.raises(DataLoss, match=f"partition '{parts.part(1)}', read up to offset 3, is gone"):
        reader(parts.url, parts.name).latestOffset(done, ReadAllAvailable())
    with caplog.at_level(logging.WARNING, "amqp10.spark"):
        rest = lax.latestOffset(done, ReadAllAvailable())
    assert {name: each["to"] for name, each in rest.items()} == {parts.part(0): 3, parts.part(2): 3}
    assert "it is forgotten" in caplog.text
    assert lax.partitions(done, rest) == []
    assert lax.latestOffset(rest, ReadAllAvailable()) == rest


def test_a_partition_that_is_added(parts: Parts) -> None:
    """A query that runs finds it, and reads it from its beginning."""
    parts.make(0)
    stream = reader(parts.url, parts.name)
    done = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    assert done == parts.read(0)
    parts.make(1)
    more = stream.latestOffset(done, ReadAllAvailable())
    assert [(part.range.partition, part.range.start, part.range.end) for part in stream.partitions(done, more)] == [
        (parts.part(1), 0, 3)
    ]
    assert stream.latestOffset(more, ReadAllAvailable()) == more


def test_a_range_whose_stream_is_gone(parts: Parts) -> None:
    """It was planned: an error that says what is lost, or no rows, so that a query can go on."""
    parts.make(0)
    strict, lax = reader(parts.url, parts.name), reader(parts.url, parts.name, failOnDataLoss="false")
    [partition] = strict.partitions({}, parts.read(0))
    parts.delete(0)
    with pytest.raises(DataLoss, match=f"offsets 0 to 2 of '{parts.part(0)}' are gone"):
        list(strict.read(partition))
    assert list(lax.read(partition)) == []
