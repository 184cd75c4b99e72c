"""Whose CPU time it is that a Python worker of Spark takes: this package's, or Spark's own for its Arrow batches.

`format("amqp-timed")` is "amqp" with a clock in each task. What its thread uses between two batches that it is handed,
or when writing while it gets the next, is Spark's: serialization mostly. All else that the process uses meanwhile, in
whatever thread, is this package's. Tasks write both down into the folder that the environment's SHARES names.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, DataSourceWriter
from pyspark.sql.types import StructType

from amqp10.spark import AmqpDataSource
from amqp10.spark._logs.readers import LogStreamReader
from amqp10.spark._queues.batch import BrowseReader
from amqp10.spark._queues.stream import QueueStreamReader
from amqp10.spark._writer import BatchWriter, Sent

SHARES = "AMQP10_BENCHMARK_SHARES"


class Clock:
    """Adds up what one task uses (s)."""

    def __init__(self) -> None:
        self._began = time.process_time()
        self._spark = 0.0

    def inner(self, batches: Iterator[Any]) -> Iterator[Any]:
        """These batches; what is done with them until the next is asked for is Spark's."""
        for batch in batches:
            left = time.thread_time()
            yield batch
            self._spark += time.thread_time() - left

    def outer(self, batches: Iterator[Any]) -> Iterator[Any]:
        """These batches; getting them is Spark's."""
        while True:
            asked = time.thread_time()
            batch = next(batches, None)
            self._spark += time.thread_time() - asked
            if batch is None:
                return
            yield batch

    def done(self) -> None:
        ours = time.process_time() - self._began - self._spark
        (Path(os.environ[SHARES]) / uuid.uuid4().hex).write_text(f"{ours} {self._spark}")


def taken() -> tuple[float, float]:
    """What this package and Spark used in all tasks since the last call (s)."""
    ours = spark = 0.0
    for path in Path(os.environ[SHARES]).iterdir():
        one, other = map(float, path.read_text().split())
        ours, spark = ours + one, spark + other
        path.unlink()
    return ours, spark


class TimedReader:
    """Put before a reader's class."""

    def read(self, partition: Any) -> Iterator[Any]:
        clock = Clock()
        yield from clock.inner(super().read(partition))  # type: ignore[misc]
        clock.done()


class TimedBrowseReader(TimedReader, BrowseReader):
    pass


class TimedQueueReader(TimedReader, QueueStreamReader):
    pass


class TimedLogReader(TimedReader, LogStreamReader):
    pass


class TimedWriter(BatchWriter):
    def write(self, iterator: Iterator[Any]) -> Sent:
        clock = Clock()
        sent = super().write(clock.outer(iterator))
        clock.done()
        return sent


class TimedSource(AmqpDataSource):
    """The format."""

    @classmethod
    def name(cls) -> str:
        return "amqp-timed"

    def reader(self, schema: StructType) -> DataSourceReader:
        return _as(TimedBrowseReader, super().reader(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        reader = super().streamReader(schema)
        return _as(TimedLogReader if isinstance(reader, LogStreamReader) else TimedQueueReader, reader)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return _as(TimedWriter, super().writer(schema, overwrite))


def _as(timed: type, one: Any) -> Any:
    other = object.__new__(timed)
    other.__dict__.update(one.__dict__)
    return other
