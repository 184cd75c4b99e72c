"""Event Hubs through Spark: the partitions of a hub, by sequence number."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import pyarrow.parquet as pq
from anyio.from_thread import start_blocking_portal
from pyspark.errors import PySparkException

from .event_hub import KEPT, NAME, hub

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.xdist_group("spark")]

SCHEMA = "partition STRING, offset BIGINT, body STRING"


class Events:
    """A hub in a thread of its own, as seen by Spark."""

    def __init__(self, spark: SparkSession, url: str, send: Callable[..., None]) -> None:
        self._spark, self.send = spark, send
        self._options = {"url": url, "address": NAME, "mode": "eventhubs"}

    def batch(self, **options: str) -> list[tuple[Any, ...]]:
        frame = self._spark.read.format("amqp").options(**self._options, **options).schema(SCHEMA).load()
        return sorted(tuple(row) for row in frame.collect())

    def stream(self, folder: Path, **options: str) -> list[tuple[Any, ...]]:
        """Run to the end of what there is; all that has come by now."""
        frame = self._spark.readStream.format("amqp").options(**self._options, **options).schema(SCHEMA).load()
        writer = frame.writeStream.trigger(availableNow=True).option("checkpointLocation", str(folder / "checkpoint"))
        assert writer.format("parquet").start(str(folder / "out")).awaitTermination(120)
        return sorted(tuple(row.values()) for row in pq.read_table(folder / "out").to_pylist())


@pytest.fixture
def events(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Events]:
    """Of a hub with two partitions."""
    with (
        start_blocking_portal("trio") as portal,
        portal.wrap_async_context_manager(hub(monkeypatch, "0", "1")) as there,
    ):
        yield Events(spark, there.url, lambda *given: portal.call(there.send, *given))


def test_a_hub(events: Events, tmp_path: Path) -> None:
    """Each event once, from the offsets asked for, in two runs; what retention has removed is an error, or left out."""
    events.send("0", b"a", b"b", b"c", b"d")
    events.send("1", b"e", b"f")
    begun = [("0", 1, "b"), ("0", 2, "c"), ("0", 3, "d"), ("1", 0, "e"), ("1", 1, "f")]
    start = {"startingOffsets": '{"0": 1, "1": 0}'}
    assert events.stream(tmp_path, maxOffsetsPerTrigger="3", **start) == begun
    assert events.batch(**start, endingOffsets='{"0": 3, "1": 1}') == [("0", 1, "b"), ("0", 2, "c"), ("1", 0, "e")]
    events.send("1", b"g", b"h", b"i" * KEPT)  # no room for those before it
    with pytest.raises(PySparkException, match="offsets 0 to 3 of '1' are gone"):
        events.batch(**start)
    assert events.stream(tmp_path, failOnDataLoss="false") == [*begun, ("1", 4, "i" * KEPT)]
