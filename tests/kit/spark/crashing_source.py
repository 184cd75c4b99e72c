"""A source that stops at a named point of a task, once: to be killed there, or to kill itself.

The points, in the order of a task: "receiving", "before publish", "before settle", "after settle", "after yield".
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, DataSourceWriter
from pyspark.sql.types import StructType

from amqp10.spark import AmqpDataSource, Options

from ..inside.spark import (
    BatchWriter,
    LogPartition,
    LogStreamReader,
    QueuePartition,
    QueueStreamReader,
    Sent,
    append_deliveries,
    consume,
    segments,
)

POINTS = ("before publish", "before settle", "after settle", "after yield")


@dataclass
class Stop:
    """Where to stop, and what then.

    Attributes:
        point: one of the points above.
        folder: where it says that it has stopped (`reached`), and looks whether to go on (`go`).
        deadly: kill this process, instead of waiting.
    """

    point: str
    folder: str
    deadly: bool

    def at(self, point: str) -> None:
        if point != self.point:
            return
        try:
            (Path(self.folder) / "reached").touch(exist_ok=False)
        except FileExistsError:
            return  # once only
        if self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        while not (Path(self.folder) / "go").exists():
            time.sleep(0.05)


class CrashingSource(AmqpDataSource):
    """The format "amqp", with the options `stopAt`, `stopFolder` and `stopDeadly` for what shall happen to it."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.stop = Stop(options.pop("stopat"), options.pop("stopfolder"), options.pop("stopdeadly", "") == "true")

    @classmethod
    def name(cls) -> str:
        return "amqp-crashing"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = Options.parse(self.options)
        return (CrashingLogReader if options.log else CrashingReader)(options, schema, self.stop)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return CrashingWriter(Options.parse(self.options), schema, self.run_id, self.stop)


class CrashingReader(QueueStreamReader):
    def __init__(self, options: Options, schema: StructType, stop: Stop) -> None:
        super().__init__(options, schema)
        self._stop = stop

    def read(self, partition: QueuePartition) -> Iterator[pa.RecordBatch]:
        global current
        current = self._stop
        yield from super().read(partition)
        self._stop.at("after yield")


class CrashingLogReader(LogStreamReader):
    """Of the points it knows the last one."""

    def __init__(self, options: Options, schema: StructType, stop: Stop) -> None:
        super().__init__(options, schema)
        self._stop = stop

    def read(self, partition: LogPartition | None) -> Iterator[pa.RecordBatch]:
        yield from super().read(partition)
        self._stop.at("after yield")


class CrashingWriter(BatchWriter):
    """One point more: "writing", when some batches of rows are sent."""

    def __init__(self, options: Options, schema: StructType, run_id: str, stop: Stop) -> None:
        super().__init__(options, schema, run_id)
        self._stop = stop

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        return super().write(self._stopping(iterator))

    def _stopping(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            if number == 3:
                self._stop.at("writing")
            yield batch


current = Stop("", "", False)


def stopping(point: str, function: Any) -> Any:
    """The function, with a stop before it."""

    def wrapper(*args: Any, **named: Any) -> Any:
        current.at(point)
        return function(*args, **named)

    return wrapper


# In the worker that imports this, and does nothing for who uses the plain source there.
consume.append_deliveries = stopping("receiving", append_deliveries)  # type: ignore[attr-defined]
segments.Draft.publish = stopping("before publish", segments.Draft.publish)  # type: ignore[method-assign]
consume.SegmentAttempt._settle = stopping("before settle", consume.SegmentAttempt._settle)  # type: ignore[method-assign]
segments.Segment.confirm = stopping("after settle", segments.Segment.confirm)  # type: ignore[method-assign]
