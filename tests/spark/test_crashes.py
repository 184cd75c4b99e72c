"""Processes killed by SIGKILL in mid-batch: every message once at an idempotent sink, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from ._crashing import POINTS, CrashingSource
from ._pipes import Pipe, depth, sent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.xdist_group("spark")]

ROOT = Path(__file__).parent.parent.parent
COUNT = 500


def eventually(condition: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("point", POINTS)
def test_a_worker_is_killed(spark: SparkSession, broker_url: str, tmp_path: Path, point: str) -> None:
    """Its task is tried again: it reads the segment if there is one, else takes what is the queue's again."""
    spark.dataSource.register(CrashingSource)
    pipe = Pipe(spark, broker_url, f"worker {point}", tmp_path)
    sent(broker_url, pipe.address, 0, COUNT)
    pipe.run(pipe.frame("amqp-crashing", stopAt=point, stopFolder=str(tmp_path), stopDeadly="true"))
    assert (tmp_path / "reached").exists()
    sent(broker_url, pipe.address, COUNT, COUNT + 10)
    pipe.run()
    assert pipe.bodies() == list(range(COUNT + 10))
    assert depth(broker_url, pipe.address) == 0
    assert pipe.left() == []


def test_the_driver_is_killed(spark: SparkSession, broker_url: str, tmp_path: Path) -> None:
    """With all its tasks, each at another point; another driver goes on from the checkpoints."""
    points = (*POINTS, "before commit")
    for point in points:
        (tmp_path / point).mkdir()
        sent(broker_url, point, 0, COUNT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    command = [sys.executable, "-m", "tests.spark._crash_driver", broker_url, str(tmp_path)]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as driver:
        try:
            eventually(lambda: all((tmp_path / point / "reached").exists() for point in points))
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
    for point in points:
        pipe = Pipe(spark, broker_url, point, tmp_path / point)
        sent(broker_url, point, COUNT, COUNT + 10)

        def written(batch: DataFrame, number: int, out: Path = pipe.out) -> None:
            batch.write.mode("overwrite").parquet(str(out / f"batch={number}"))

        pipe.run(each=written if point == "before commit" else None)
        assert pipe.bodies() == list(range(COUNT + 10)), point
        assert depth(broker_url, point) == 0, point
        assert pipe.left() == [], point


class StoredBroker:
    """The embedded broker with a file, which can be killed and started again on the same port."""

    def __init__(self, folder: Path) -> None:
        self._store = folder / "broker.db"
        self._port = "0"
        self.url = ""
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "amqp10", "broker", "--port", self._port, "--store", str(self._store)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().split()[3]
        self._port = self.url.rpartition(":")[2]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture
def stored_broker(tmp_path: Path) -> Iterator[StoredBroker]:
    broker = StoredBroker(tmp_path)
    yield broker
    broker.kill()


@pytest.mark.parametrize("point", ["receiving", "before settle", "after settle"])
def test_the_broker_is_killed(spark: SparkSession, stored_broker: StoredBroker, tmp_path: Path, point: str) -> None:
    """The task goes on when it is there again: with what it has published, or from the beginning."""
    spark.dataSource.register(CrashingSource)
    pipe = Pipe(spark, stored_broker.url, "orders", tmp_path)
    sent(pipe.url, pipe.address, 0, COUNT)
    query = pipe.start(pipe.frame("amqp-crashing", stopAt=point, stopFolder=str(tmp_path)))
    eventually((tmp_path / "reached").exists)
    stored_broker.kill()
    stored_broker.start()
    (tmp_path / "go").touch()
    assert query.awaitTermination(120)
    sent(pipe.url, pipe.address, COUNT, COUNT + 10)
    pipe.run()
    assert pipe.bodies() == list(range(COUNT + 10))
    assert depth(pipe.url, pipe.address) == 0
    assert pipe.left() == []
