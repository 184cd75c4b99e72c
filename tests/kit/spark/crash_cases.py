"""What is stopped where, to be killed there: the same cases for workers, drivers and brokers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .crashing_source import Stop
from .pipes import Pipe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

COMMIT = "before commit"
"""The point after the tasks: the sink has the batch, Spark has not heard."""


@dataclass(frozen=True)
class Case:
    """A query that stops somewhere.

    Attributes:
        point: where.
        parts: tasks of a scan, of which the first to come there stops.
        scans: of the same stream, which is united with itself if there are two.
        log: it reads a log, and no queue.
    """

    point: str
    parts: int
    scans: int = 1
    log: bool = False

    @property
    def name(self) -> str:
        return f"{self.point}, {self.parts} x {self.scans}{' of a log' if self.log else ''}"

    def pipe(self, spark: SparkSession, url: str, folder: Path) -> Pipe:
        """Return the pipe of this case; each run of a test has a folder, and so queues of its own."""
        return Pipe(spark, url, f"{folder.name}, {self.name}", folder / self.name)

    def frame(self, pipe: Pipe, source: str = "amqp-crashing", **options: Any) -> DataFrame:
        stop = {"stopAt": self.point, "stopFolder": str(pipe.folder)} if source == "amqp-crashing" else {}
        kind = {"startingOffsets": "earliest", "minPartitions": self.parts} if self.log else {}
        frame = pipe.frame(source, numPartitions=self.parts, **{**kind, **stop, **options})
        return frame.union(frame) if self.scans > 1 else frame

    def stop(self, folder: Path) -> Stop:
        return Stop(self.point, str(folder), deadly=False)


UNITED = (Case("before publish", 2, 2), Case("before settle", 2, 2))
LOGS = (Case("after yield", 2, log=True), Case(COMMIT, 3, log=True))


def cases(points: Iterable[str], first: int = 2) -> list[Case]:
    """Each point with two tasks or with three, in turn."""
    return [Case(point, 2 + (first + number) % 2) for number, point in enumerate(points)]


def eventually(condition: Callable[[], bool], seconds: float = 600) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def stopped(pipes: Mapping[Case, Pipe], **options: Any) -> list[StreamingQuery]:
    """Their queries, each at its point: one after the other, for Spark gives each the same few seconds to begin."""
    queries = []
    for case, pipe in pipes.items():
        stop = case.stop(pipe.folder)

        def written(batch: DataFrame, number: int, pipe: Pipe = pipe, stop: Stop = stop) -> None:
            pipe.overwrite(batch, number)
            stop.at(COMMIT)

        query = pipe.start(case.frame(pipe, **options), written if case.point == COMMIT else None)
        eventually(lambda query=query, pipe=pipe: (pipe.folder / "reached").exists() or not query.isActive)  # type: ignore[misc]
        queries.append(query)
    return queries
