"""Event Hubs through Spark, against the emulator: the partitions of a hub, by sequence number."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import anyio
import pyarrow.parquet as pq
from pyspark.errors import PySparkException

from amqp10.azure import EventHub
from amqp10.broker import JwtKey, TokenRules
from amqp10.broker.azure import EMULATOR_RULE, AzureConfig, EventHubConfig
from amqp10.testing import BackgroundEventHubs

from ...kit.token_rig import SECRET, jwt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    *(pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.xdist_group("spark")),
    pytest.mark.capability("Spark"),
]

SAS = {"username": EMULATOR_RULE.name, "password": EMULATOR_RULE.key}
ENTRA = {"token": jwt({"exp": 4_000_000_000, "scope": "read:*/* write:*/* configure:*/*"})}
"""A token as one of Microsoft Entra is: JSON, with a signature."""
SCHEMA = "partition STRING, offset BIGINT, body STRING"


class Events:
    """A hub of the emulator, which lets nobody in without a token, as seen by Spark."""

    def __init__(self, spark: SparkSession, emulator: BackgroundEventHubs, login: dict[str, str] = SAS) -> None:
        self._spark, self._emulator = spark, emulator
        self._options = {"url": emulator.url, "address": "hub", "mode": "eventhubs", **login}

    def send(self, partition: str, *bodies: bytes) -> None:
        async def send_all() -> None:
            async with EventHub(self._emulator.of("hub")) as hub, hub.sender(partition=partition) as sender:
                await sender.send_many(bodies)

        anyio.run(send_all)

    def write(self, *bodies: str) -> None:
        frame = self._spark.createDataFrame([(body,) for body in bodies], "body STRING")
        frame.write.format("amqp").options(**self._options).mode("append").save()

    def batch(self, **options: str) -> list[tuple[Any, ...]]:
        frame = self._spark.read.format("amqp").options(**self._options, **options).schema(SCHEMA).load()
        return sorted(tuple(row) for row in frame.collect())

    def stream(self, folder: Path, **options: str) -> list[tuple[Any, ...]]:
        """Run to the end of what there is; all that has come by now."""
        frame = self._spark.readStream.format("amqp").options(**self._options, **options).schema(SCHEMA).load()
        writer = frame.writeStream.trigger(availableNow=True).option("checkpointLocation", str(folder / "checkpoint"))
        assert writer.format("parquet").start(str(folder / "out")).awaitTermination(600)
        return sorted(tuple(row.values()) for row in pq.read_table(folder / "out").to_pylist())


@pytest.fixture
def emulator() -> Iterator[BackgroundEventHubs]:
    """With a hub of two partitions, which keep events for an hour."""
    config = AzureConfig(event_hubs=[EventHubConfig("hub", 2, retention=3600.0)])
    with BackgroundEventHubs(config, tokens=TokenRules([EMULATOR_RULE], [JwtKey(SECRET)], required=True)) as found:
        yield found


def test_a_hub(spark: SparkSession, emulator: BackgroundEventHubs, tmp_path: Path) -> None:
    """Each event once, from the offsets asked for, in two runs; what retention has removed is an error, or left out."""
    events = Events(spark, emulator)
    events.send("0", b"a", b"b", b"c", b"d")
    events.send("1", b"e", b"f")
    begun = [("0", 1, "b"), ("0", 2, "c"), ("0", 3, "d"), ("1", 0, "e"), ("1", 1, "f")]
    start = {"startingOffsets": '{"0": 1, "1": 0}'}
    assert events.stream(tmp_path, maxOffsetsPerTrigger="3", **start) == begun
    assert events.batch(**start, endingOffsets='{"0": 3, "1": 1}') == [("0", 1, "b"), ("0", 2, "c"), ("1", 0, "e")]
    events.send("1", b"g", b"h")
    emulator.advance(3601.0)  # all of them go
    events.send("1", b"i")
    with pytest.raises(PySparkException, match="offsets 0 to 3 of '1' are gone"):
        events.batch(startingOffsets='{"0": 4, "1": 0}')
    assert events.stream(tmp_path, failOnDataLoss="false") == [*begun, ("1", 4, "i")]
    events.write("j", "k")
    assert sorted(body for *_, body in events.batch()) == ["i", "j", "k"]  # those without a key take turns


def test_another_token(spark: SparkSession, emulator: BackgroundEventHubs) -> None:
    """Events are written and read by a JSON Web Token, too; by one that another has signed they are not."""
    events = Events(spark, emulator, ENTRA)
    events.write("a", "b")
    assert sorted(body for *_, body in events.batch()) == ["a", "b"]
    with pytest.raises(PySparkException, match="signed"):
        Events(spark, emulator, {"token": jwt({"exp": 4_000_000_000, "scope": "read:*/*"}, "other")}).batch()
