"""Queues of Service Bus that require sessions, through Spark, against the emulator."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

pytest.importorskip("pyspark")

from amqp10 import Delivery, Message
from amqp10.azure import ServiceBus
from amqp10.broker import JwtKey, TokenRules
from amqp10.broker.azure import EMULATOR_RULE, AzureConfig, QueueConfig
from amqp10.spark import AmqpDataSource, Options
from amqp10.spark._queues import sessions
from amqp10.spark._queues.consume import QueuePartition, SegmentAttempt, read_partition
from amqp10.testing import BackgroundServiceBus

from ...kit.inside.spark import Segment, create_batch_folder, create_query_folder, queue_was_empty, struct
from ...kit.token_rig import SECRET, jwt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.capability("Spark")]

ROOT = Path(__file__).parent.parent.parent.parent
CONFIG = AzureConfig([QueueConfig("steps", requires_session=True, lock_duration=300.0, max_delivery_count=100)])
SAS = {"username": EMULATOR_RULE.name, "password": EMULATOR_RULE.key}
ENTRA = {"token": jwt({"exp": 4_000_000_000, "scope": "read:*/* write:*/*"})}
"""A token as one of Microsoft Entra is: JSON, with a signature."""


class Steps:
    """A queue with sessions, and what tasks take from it.

    Attributes:
        options: those of the reader.
    """

    def __init__(self, emulator: BackgroundServiceBus, folder: Path) -> None:
        self.emulator = emulator
        self.wal = str(folder / "query")
        self.given = {"url": emulator.url, "address": "steps", "sasl": "cbs", "sessions": "true", **SAS}
        self.given["walLocation"] = str(folder)
        self._batches = 0
        create_query_folder(self.wal)

    def send(self, *bodies: str) -> None:
        """Send messages; the first letter of each is its session."""

        async def send_all() -> None:
            async with ServiceBus(self.emulator.connection_string) as bus, bus.sender("steps") as sender:
                for body in bodies:
                    await sender.send(Message(body.encode(), message_id=body, group_id=body[0]))

        anyio.run(send_all, backend="trio")

    def batch(self) -> int:
        """Begin a batch, as the driver does."""
        self._batches += 1
        assert create_batch_folder(self.wal, self._batches)
        return self._batches

    def take(self, batch: int, limit: int = 1000, run: str = "run") -> list[str]:
        """Run the one task of a batch."""
        partition = QueuePartition(Segment(self.wal, batch, 0), limit, run)
        rows = read_partition(Options.parse(self.given), struct([("body", "binary")]), partition)
        return [body.decode() for each in rows for body in each.column("body").to_pylist()]


@pytest.fixture
def emulator() -> Iterator[BackgroundServiceBus]:
    """Where nobody comes in without a token."""
    with BackgroundServiceBus(CONFIG, tokens=TokenRules([EMULATOR_RULE], [JwtKey(SECRET)], required=True)) as found:
        yield found


@pytest.fixture
def steps(emulator: BackgroundServiceBus, tmp_path: Path) -> Steps:
    return Steps(emulator, tmp_path)


MIXED = [f"{session}{number}" for number in range(4) for session in "abc"]


def by_session(bodies: list[str]) -> list[str]:
    """Put those of a session together, and leave them in the order that they have."""
    return sorted(bodies, key=lambda body: body[0])


def test_one_session_after_the_other(steps: Steps) -> None:
    """A task takes all of them, each in order, and its batch has seen the end; what comes later is the next one's."""
    steps.send(*MIXED)
    first = steps.batch()
    assert by_session(steps.take(first)) == sorted(MIXED)
    assert queue_was_empty(steps.wal, first, 1)
    steps.send("a4")
    assert steps.take(steps.batch()) == ["a4"]
    assert steps.take(steps.batch()) == []


def test_a_limit_within_a_session(steps: Steps) -> None:
    """The rest of the session is for the next batch, before what came later."""
    steps.send(*(f"a{number}" for number in range(5)))
    batch = steps.batch()
    assert steps.take(batch, 3) == ["a0", "a1", "a2"]
    assert not queue_was_empty(steps.wal, batch, 1)
    steps.send("a5")
    assert steps.take(steps.batch(), 3) == ["a3", "a4", "a5"]


def test_as_many_sessions_as_a_task_holds(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks for no more; others are for the next batch, and the end was not seen."""
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 2)
    steps.send(*MIXED)
    batch = steps.batch()
    found = steps.take(batch)
    assert len({body[0] for body in found}) == 2
    assert not queue_was_empty(steps.wal, batch, 1)
    assert by_session(found + steps.take(steps.batch())) == sorted(MIXED)


@pytest.mark.parametrize("point", ["before publish", "before settle"])
def test_a_task_is_killed(steps: Steps, point: str) -> None:
    """Its sessions are free again, and their messages come to the next attempt, or batch: each once, and in order."""
    steps.send(*MIXED)
    batch = steps.batch()
    victim = [sys.executable, "-m", "tests.kit.spark.victim", json.dumps(steps.given), steps.wal, point]
    killed = subprocess.run(victim, cwd=ROOT, check=False, timeout=300)
    assert killed.returncode == -signal.SIGKILL
    found: list[str] = []
    while len(found) < len(MIXED):  # the service may hear late of a connection that is gone
        found += steps.take(batch, run="another run")
        batch = steps.batch()
    steps.send("a4")
    found += steps.take(batch)
    assert by_session(found) == sorted([*MIXED, "a4"])


def test_a_session_is_lost(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its messages are published: the task takes it again, and nothing is there twice."""
    steps.send(*MIXED)
    ensure = SegmentAttempt._ensure_still_ours
    lost: list[int] = []

    async def ensured(self: SegmentAttempt, *args: Any) -> None:
        if not lost:
            lost.append(steps.emulator.lose_locks("steps"))
        await ensure(self, *args)

    monkeypatch.setattr(SegmentAttempt, "_ensure_still_ours", ensured)
    assert by_session(steps.take(steps.batch())) == sorted(MIXED)
    assert lost == [3]
    assert steps.take(steps.batch()) == []


def test_a_session_is_lost_before_it_is_settled(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is published then comes again, and is known."""
    steps.send(*MIXED)
    settle = SegmentAttempt._settle
    lost: list[int] = []

    async def settled(self: SegmentAttempt, opened: Any, held: list[Delivery], *, accepted: bool) -> bool:
        lost.append(steps.emulator.lose_locks("steps") if not lost else 0)
        return await settle(self, opened, held, accepted=accepted)

    monkeypatch.setattr(SegmentAttempt, "_settle", settled)
    assert by_session(steps.take(steps.batch())) == sorted(MIXED)
    steps.send("b4")
    assert steps.take(steps.batch()) == ["b4"]
    assert lost[0] == 3


def test_what_does_not_go_with_sessions() -> None:
    """Nobody browses or filters them, and a log has none."""
    given = {"url": "amqp://127.0.0.1:1", "address": "steps", "sessions": "true"}
    source = AmqpDataSource(given)
    with pytest.raises(ValueError, match="nobody browse sessions: read with ack=wal"):
        source.reader(source.schema())
    with pytest.raises(ValueError, match="'selector': Service Bus filters no sessions"):
        Options.parse({**given, "selector": "a = 1"})
    with pytest.raises(ValueError, match="'sessions': queues of Service Bus have sessions, and this reads a log"):
        Options.parse({**given, "mode": "eventhubs"})


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_a_stream(spark: SparkSession, emulator: BackgroundServiceBus, tmp_path: Path) -> None:
    """Rows are written into sessions by a token, and streamed from them by a key over two links: each once, in order.

    The token is JSON with a signature, as those of Microsoft Entra are; the next run comes by it, too.
    """
    steps = Steps(emulator, tmp_path)
    rows = spark.createDataFrame([(body[0], body) for body in MIXED], "group_id STRING, body STRING")
    given = {"url": emulator.url, "address": "steps", "sasl": "cbs"}
    rows.coalesce(1).write.format("amqp").options(**given, **ENTRA).mode("append").save()
    found: list[str] = []

    def each(frame: DataFrame, _: int) -> None:
        found.extend(row.body.decode() for row in frame.collect())

    def run(login: dict[str, str]) -> None:
        options = {**given, **login, "sessions": "true", "walLocation": str(tmp_path), "numPartitions": "2"}
        frame = spark.readStream.format("amqp").options(**options).load()
        writer = frame.writeStream.trigger(availableNow=True).option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert writer.foreachBatch(each).start().awaitTermination(600)

    run(SAS)
    assert by_session(found) == sorted(MIXED)
    steps.send("a4")
    run(ENTRA)
    assert by_session(found) == sorted([*MIXED, "a4"])
