"""A queue that flows into files through Spark, and what is on the disk for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

import amqp10

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


def sent(url: str, address: str, start: int, stop: int) -> None:
    """Send durable messages whose bodies are these numbers."""
    messages = (amqp10.Message(b"%d" % n, message_id=f"m{n}", durable=True) for n in range(start, stop))
    anyio.run(amqp10.send, url, address, *messages, backend="trio")


def make_stream(url: str, address: str) -> None:
    """Declare a stream, as RabbitMQ calls its logs, in place of what there is of that name."""

    async def declare() -> None:
        async with amqp10.Connection(url, dialect="0-9-1") as connection:
            await connection.native.delete_queue(address)
            await connection.native.declare_queue(address, durable=True, arguments={"x-queue-type": "stream"})

    anyio.run(declare, backend="trio")


def depth(url: str, address: str) -> int:
    """How many messages wait in a queue."""

    async def count() -> int:
        async with amqp10.Connection(url) as connection, connection.browser(address) as browser:
            return len([delivery async for delivery in browser])

    return anyio.run(count, backend="trio")


class Pipe:
    """From a queue into files."""

    def __init__(self, spark: SparkSession, url: str, address: str, folder: Path) -> None:
        self.spark, self.url, self.address, self.folder = spark, url, address, folder
        self.wal, self.out, self.checkpoint = folder / "wal", folder / "out", folder / "checkpoint"

    def frame(self, source: str = "amqp", **options: Any) -> DataFrame:
        options = {"url": self.url, "address": self.address, "walLocation": str(self.wal), **options}
        return self.spark.readStream.format(source).options(**options).load()

    def start(self, frame: DataFrame, each: Callable[..., None] | None = None) -> StreamingQuery:
        writer = frame.writeStream.trigger(availableNow=True).option("checkpointLocation", str(self.checkpoint))
        return writer.foreachBatch(each).start() if each else writer.format("parquet").start(str(self.out))

    def run(
        self, frame: DataFrame | None = None, *, each: Callable[..., None] | None = None, **options: Any
    ) -> StreamingQuery:
        query = self.start(self.frame(**options) if frame is None else frame, each)
        assert query.awaitTermination(600)
        return query

    def overwrite(self, batch: DataFrame, number: int) -> None:
        """Write a batch as `foreachBatch` is to: again, if it was written before."""
        batch.write.mode("overwrite").parquet(str(self.out / f"batch={number}"))

    def bodies(self) -> list[int]:
        return sorted(int(row.body) for row in self.spark.read.parquet(str(self.out)).select("body").collect())

    def segments(self) -> list[str]:
        return sorted(str(path.relative_to(self.wal)) for path in self.wal.rglob("*") if path.is_file())

    def left(self) -> list[str]:
        """Files that hold messages, or somebody's work on them; message-ids may be kept for a while."""
        return [name for name in self.segments() if not name.endswith(".ids")]
