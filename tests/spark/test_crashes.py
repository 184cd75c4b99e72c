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

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("spark")]

ROOT = Path(__file__).parent.parent.parent
COUNT = 500


def eventually(condition: Callable[[], bool], seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def finished(*pipes: Pipe, count: int = COUNT) -> None:
    """What was delivered again is taken by the next run; then all is in the files once, and nowhere else."""
    for pipe in pipes:
        if depth(pipe.url, pipe.address):
            pipe.run()
        assert pipe.bodies() == list(range(count)), pipe.address
        assert depth(pipe.url, pipe.address) == 0, pipe.address
        assert pipe.left() == [], pipe.address


def test_workers_are_killed(spark: SparkSession, broker_url: str, tmp_path: Path) -> None:
    """Each at another point. Its task is tried again: it reads the segment if there is one, else takes what is the
    queue's again.
    """
    spark.dataSource.register(CrashingSource)
    pipes = [Pipe(spark, broker_url, f"worker {point}", tmp_path / point) for point in POINTS]
    for point, pipe in zip(POINTS, pipes, strict=True):
        (tmp_path / point).mkdir()
        sent(broker_url, pipe.address, 0, COUNT)
        pipe.run(pipe.frame("amqp-crashing", stopAt=point, stopFolder=str(tmp_path / point), stopDeadly="true"))
        assert (tmp_path / point / "reached").exists()
    finished(*pipes)


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
    pipes = [Pipe(spark, broker_url, point, tmp_path / point) for point in POINTS]
    last = Pipe(spark, broker_url, "before commit", tmp_path / "before commit")
    for pipe in (*pipes, last):
        sent(broker_url, pipe.address, COUNT, COUNT + 10)

    def written(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(last.out / f"batch={number}"))

    last.run(each=written)
    finished(*pipes, last, count=COUNT + 10)


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


def test_the_broker_is_killed(spark: SparkSession, stored_broker: StoredBroker, tmp_path: Path) -> None:
    """Each task at another point; they go on when it is there again, with what is published or from the beginning."""
    spark.dataSource.register(CrashingSource)
    points = ("receiving", "before settle", "after settle")
    pipes = [Pipe(spark, stored_broker.url, point, tmp_path / point) for point in points]
    queries = []
    for point, pipe in zip(points, pipes, strict=True):
        (tmp_path / point).mkdir()
        sent(pipe.url, pipe.address, 0, COUNT)
        queries.append(pipe.start(pipe.frame("amqp-crashing", stopAt=point, stopFolder=str(tmp_path / point))))
        eventually((tmp_path / point / "reached").exists)
    stored_broker.kill()
    stored_broker.start()
    for point in points:
        (tmp_path / point / "go").touch()
    for query in queries:
        assert query.awaitTermination(120)
    finished(*pipes)
