"""What Spark moves through `format("amqp")`: rows a second on each path, and where the time goes.

    python benchmarks/spark.py [--quick] [PATH ...]

The other end is the neutral counterpart, in a process of its own; bodies have 144 octets, the sink is Spark's "noop",
the session `local[2]`. "orders" are those of `real.py`, each different; properties become columns, and so does the
JSON of their bodies, by Spark's `from_json`. Rows a second count from the second micro-batch on, so that nothing starts
up in them. CPU is that of Python workers, of the JVM, and of the counterpart, all of them on the same cores. Of the
workers' it says what is this package's and what Spark's for its Arrow batches, measured in the tasks; what is left is
Spark's for starting and planning. The memory of the workers is looked at all the time; the last figure is how much
higher its peak was in the second half of the run than in the first.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from real_clients import write_messages
from spark_shares import SHARES, TimedSource, taken

SIZE = 144
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
LINES = "ARRAY<STRUCT<sku: STRING, quantity: INT, price: DOUBLE>>"
ORDER = f"id BIGINT, state STRING, customer STRING, lines {LINES}"
PROPERTIES = ("region", "attempt", "total", "express", "due", "trace")


@dataclass
class Measured:
    """One run."""

    rows: int
    seconds: float
    cpu: dict[str, float] = field(default_factory=dict)
    memory: list[int] = field(default_factory=list)

    def line(self, name: str) -> str:
        shares = ", ".join(f"{kind} {seconds / self.rows * 1e6:5.1f}" for kind, seconds in self.cpu.items())
        half = len(self.memory) // 2
        grown = (max(self.memory[half:], default=0) - max(self.memory[:half], default=0)) / 2**20
        return (
            f"{name:28} {self.rows / self.seconds:>9,.0f} rows/s   CPU µs a row: {shares}   "
            f"worker {max(self.memory, default=0) / 2**20:.0f} MiB, grew {grown:+.0f}"
        )


class Watch:
    """CPU and memory of the processes below this one, and of the workers' CPU what this package took."""

    def __init__(self) -> None:
        taken()
        self.memory: list[int] = []
        self._before = self._cpu()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _processes(self) -> list[tuple[str, int]]:
        children: dict[int, list[int]] = {}
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                parent = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry))
        found: list[tuple[str, int]] = []
        todo = list(children.get(os.getpid(), []))
        while todo:
            pid = todo.pop()
            todo += children.get(pid, [])
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            kind = "JVM" if b"java" in command else "counterpart" if b"counterpart" in command else "worker"
            found.append((kind, pid))
        return found

    def _cpu(self) -> dict[str, float]:
        used = {"worker": 0.0, "JVM": 0.0, "counterpart": 0.0}
        for kind, pid in self._processes():
            try:
                stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            # And that of children that have ended: workers that are not used again.
            used[kind] += sum(map(int, stat[11:15] if kind == "worker" else stat[11:13])) / TICKS
        return used

    def _look(self) -> None:
        while not self._stop.wait(0.2):
            largest = 0
            for kind, pid in self._processes():
                if kind == "worker":
                    try:
                        largest = max(largest, int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE)
                    except (OSError, IndexError):
                        continue
            self.memory.append(largest)

    def done(self) -> dict[str, float]:
        self._stop.set()
        self._thread.join()
        used = {kind: seconds - self._before[kind] for kind, seconds in self._cpu().items()}
        ours, spark = taken()
        return {"worker": used.pop("worker"), "of it ours": ours, "Spark's there": spark, **used}


def as_columns(frame: DataFrame) -> DataFrame:
    """Make of each field of an order a column."""
    properties = [f"application_properties['{name}'] AS {name}" for name in PROPERTIES]
    annotations = ["message_annotations['x-opt-partition-key'] AS key"]
    order = f"from_json(CAST(body AS STRING), '{ORDER}') AS content"
    fields = ("message_id", "subject", "reply_to", "correlation_id", "content_type", "creation_time")
    return frame.selectExpr(*fields, *properties, *annotations, order).selectExpr("*", "content.*").drop("content")


def as_it_is(frame: DataFrame) -> DataFrame:
    return frame


def streamed(
    spark: SparkSession,
    rows: int,
    per_batch: int,
    shape: Callable[[DataFrame], DataFrame] = as_it_is,
    **options: Any,
) -> Measured:
    """Run a stream until it has had so many rows after the first two batches."""
    reader = spark.readStream.format("amqp-timed").options(**options, maxMessagesPerTrigger=per_batch)
    with tempfile.TemporaryDirectory() as folder:
        writer = shape(reader.load()).writeStream.format("noop").option("checkpointLocation", f"{folder}/checkpoint")
        query = writer.start()

        def batches() -> list[Any]:
            return [each for each in query.recentProgress if each.numInputRows]

        def until(count: int) -> None:
            while len(batches()) < count:
                if query.exception() is not None:
                    raise RuntimeError(str(query.exception()))
                time.sleep(0.05)

        until(2)
        before, watch = len(batches()), Watch()
        until(before + -(-rows // per_batch))
        cpu = watch.done()
        counted = batches()[before:]
        query.stop()
    seconds = sum(each.durationMs["triggerExecution"] for each in counted) / 1000
    return Measured(sum(each.numInputRows for each in counted), seconds, cpu, watch.memory)


def evaluated(run: Callable[[], int]) -> Measured:
    """Run a batch job twice, and measure it the second time."""
    run()
    watch, began = Watch(), time.monotonic()
    rows = run()
    seconds = time.monotonic() - began
    return Measured(rows, seconds, watch.done(), watch.memory)


def paths(spark: SparkSession, url: str, rows: int, wal: str) -> dict[str, Callable[[], Measured]]:
    """What can be measured, by name."""
    queue = {"url": url, "address": f"q.{SIZE}.1000000000", "walLocation": wal}
    log = {"url": url, "address": f"log.{SIZE}.1000000000", "mode": "stream", "startingOffsets": "earliest"}
    per_batch = min(rows // 4, 250_000)

    def read(schema: str | None = None, shape: Callable[[DataFrame], DataFrame] = as_it_is, **options: Any) -> int:
        reader = spark.read.format("amqp-timed").options(url=url, **options)
        frame = shape((reader.schema(schema) if schema else reader).load())
        frame.write.format("noop").mode("overwrite").save()
        return rows

    def write() -> int:
        frame = spark.range(0, rows, 1, 2).selectExpr(f"cast(lpad(string(id), {SIZE}, '.') as binary) body")
        frame.write.format("amqp-timed").options(url=url, address="sink").mode("append").save()
        return rows

    return {
        "queue stream, 2 links": lambda: streamed(spark, rows, per_batch, **queue, numPartitions=2),
        "queue stream, 1 link": lambda: streamed(spark, rows, per_batch, **queue),
        "log stream": lambda: streamed(spark, rows, per_batch, **log, minPartitions=2),
        "queue browsed": lambda: evaluated(lambda: read(address=f"q.{SIZE}.{rows}")),
        "queue browsed, body only": lambda: evaluated(lambda: read("body BINARY", address=f"q.{SIZE}.{rows}")),
        "orders, stream, 2 links": lambda: streamed(
            spark, rows, per_batch, as_columns, **queue | {"address": "orders.0.1000000000"}, numPartitions=2
        ),
        "orders, browsed": lambda: evaluated(lambda: read(shape=as_columns, address=f"orders.0.{rows}")),
        "batch write": lambda: evaluated(write),
    }


def main() -> None:
    """Measure, and print a line for each path."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", metavar="PATH", help="which ones; all when none is named")
    parser.add_argument("--quick", action="store_true", help="fewer rows")
    parser.add_argument("--rows", type=int, help="rows of each path; a million unless said")
    given = parser.parse_args()
    rows = given.rows or (100_000 if given.quick else 1_000_000)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)  # workers import spark_shares, too
    shares = tempfile.TemporaryDirectory()
    for name in ("shares", "messages"):
        Path(shares.name, name).mkdir()
    os.environ[SHARES] = str(Path(shares.name, "shares"))
    write_messages(Path(shares.name, "messages"))
    command = [sys.executable, str(Path(__file__).with_name("log_counterpart.py"))]
    peer = subprocess.Popen(
        [*command, "--messages", str(Path(shares.name, "messages"))], stdout=subprocess.PIPE, text=True
    )
    assert peer.stdout is not None
    url = f"amqp://127.0.0.1:{json.loads(peer.stdout.readline())['port']}"
    threading.Thread(target=peer.stdout.read, daemon=True).start()  # what it says of each connection is not wanted
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(TimedSource)
    print(f"{rows:,} rows of {SIZE} B each, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}", flush=True)
    try:
        with tempfile.TemporaryDirectory() as wal:
            available = paths(spark, url, rows, wal)
            for name in given.paths or available:
                print(available[name]().line(name), flush=True)
    finally:
        spark.stop()
        peer.terminate()
        peer.wait()
        shares.cleanup()


if __name__ == "__main__":
    main()
