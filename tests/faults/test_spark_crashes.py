"""Processes killed by SIGKILL in mid-batch: every message once at an idempotent sink, and nothing left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

pytest.importorskip("pyspark")

from ..kit.processes.programs import started
from ..kit.processes.stored_broker import StoredBroker
from ..kit.spark.crash_cases import COMMIT, LOGS, UNITED, Case, cases, eventually, stopped
from ..kit.spark.crashing_source import POINTS, CrashingSource
from ..kit.spark.pipes import Pipe, depth, make_stream, sent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("spark processes"),
    pytest.mark.capability("Spark"),
]

ROOT = Path(__file__).parent.parent.parent
COUNT = 500
EMPTY = bytes.fromhex("0000000802000000")
"""A frame without a body (§2.4.5)."""


def prepared(spark: SparkSession, url: str, folder: Path, cases: Iterable[Case]) -> dict[Case, Pipe]:
    """A queue with messages for each case, and the pipe that is to take them."""
    pipes = {case: case.pipe(spark, url, folder) for case in cases}
    for case, pipe in pipes.items():
        (folder / case.name).mkdir()
        if case.log:
            make_stream(url, pipe.address)
        sent(url, pipe.address, 0, COUNT)
    return pipes


def ended(queries: Iterable[StreamingQuery]) -> None:
    for query in queries:
        assert query.awaitTermination(600)


Found = tuple[list[int], int, list[str]]


def finished(pipes: Mapping[Case, Pipe]) -> dict[Case, Found]:
    """Take what is delivered again by another run; return what is in the files, in the queue and in the folder then."""
    found: dict[Case, Found] = {}
    for case, pipe in pipes.items():
        if case.point != COMMIT if case.log else depth(pipe.url, pipe.address):
            pipe.run(case.frame(pipe, "amqp"))
        found[case] = (pipe.bodies(), 0 if case.log else depth(pipe.url, pipe.address), pipe.left())
    return found


def all_once(pipes: Mapping[Case, Pipe], count: int = COUNT) -> dict[Case, Found]:
    """Return what is to be found: each message once for each scan in the files, and nowhere else."""
    return {case: (sorted([*range(count)] * case.scans), 0, []) for case in pipes}


def test_workers_are_killed(spark: SparkSession, broker_url: str, tmp_path: Path) -> None:
    """Each at another point. Its task is tried again: it reads the segment if there is one, else takes what is the
    queue's again; or another task of the batch does, or the other scan of a union.
    """
    spark.dataSource.register(CrashingSource)
    pipes = prepared(spark, broker_url, tmp_path, [*cases(POINTS, 3), *UNITED, LOGS[0]])
    ended(stopped(pipes, stopDeadly="true"))
    assert finished(pipes) == all_once(pipes)


@pytest.mark.parametrize(
    ("options", "once"),
    [({}, False), ({"duplicateIdProperty": "_AMQ_DUPL_ID"}, True), ({"transaction": "task"}, True)],
    ids=["plain", "ids", "transaction"],
)
def test_a_writer_is_killed(
    spark: SparkSession, broker_url: str, tmp_path: Path, options: dict[str, str], once: bool
) -> None:
    """When hundreds of rows are accepted. They come again, and are there once if the broker can see to it."""
    spark.dataSource.register(CrashingSource)
    address = f"written {tmp_path.name}"
    stop = {"stopAt": "writing", "stopFolder": str(tmp_path), "stopDeadly": "true"}
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    try:
        rows = spark.range(0, 2 * COUNT, 1, 2).selectExpr("string(id) body")
        writer = rows.write.format("amqp-crashing").options(url=broker_url, address=address, maxInFlight=50, **stop)
        writer.options(**options).mode("append").save()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert (tmp_path / "reached").exists()
    found = spark.read.format("amqp").options(url=broker_url).schema("body STRING").load(address).collect()
    assert {int(row.body) for row in found} == set(range(2 * COUNT))
    assert (len(found) == 2 * COUNT) == once


def test_the_driver_is_killed(spark: SparkSession, broker_url: str, tmp_path: Path) -> None:
    """With all its tasks, each at another point; another driver goes on from the checkpoints."""
    pipes = prepared(spark, broker_url, tmp_path, [*cases((*POINTS, COMMIT)), *UNITED, *LOGS])
    command = [sys.executable, "-m", "tests.kit.spark.crash_driver", broker_url, str(tmp_path)]
    with started(command, cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True) as driver:
        try:
            eventually(lambda: all((tmp_path / case.name / "reached").exists() for case in pipes))
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
    for pipe in pipes.values():
        sent(broker_url, pipe.address, COUNT, COUNT + 10)
    for case, pipe in pipes.items():
        if case.point == COMMIT:
            pipe.run(case.frame(pipe, "amqp"), each=pipe.overwrite)
    assert finished(pipes) == all_once(pipes, COUNT + 10)


@pytest.fixture
def stored_broker(tmp_path: Path) -> Iterator[StoredBroker]:
    broker = StoredBroker(tmp_path / "broker.db")
    yield broker
    broker.kill()


def test_the_broker_is_killed(spark: SparkSession, stored_broker: StoredBroker, tmp_path: Path) -> None:
    """Each task at another point; they go on when it is there again, with what is published or from the beginning."""
    spark.dataSource.register(CrashingSource)
    pipes = prepared(spark, stored_broker.url, tmp_path, cases(("receiving", *POINTS, COMMIT)))
    queries = stopped(pipes)
    stored_broker.kill()
    stored_broker.start()
    for case in pipes:
        (tmp_path / case.name / "go").touch()
    ended(queries)
    assert finished(pipes) == all_once(pipes)


class Deaf:
    """A proxy that does not tell the broker when a client is gone, until it is to; it goes on with its heartbeats."""

    def __init__(self, url: str) -> None:
        self._broker = urlsplit(url)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._tell = threading.Event()
        self.url = url.replace(f":{self._broker.port}", f":{self._listener.getsockname()[1]}")
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection((self._broker.hostname, self._broker.port))
                threading.Thread(target=self._up, args=(client, broker), daemon=True).start()
                threading.Thread(target=self._pass, args=(broker, client), daemon=True).start()

    def _up(self, client: socket.socket, broker: socket.socket) -> None:
        with client, broker, suppress(OSError):
            self._pass(client, broker)
            while not self._tell.wait(1):
                broker.sendall(EMPTY)
            broker.shutdown(socket.SHUT_RDWR)

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)

    def tell(self) -> None:
        """The broker hears of the clients that are gone."""
        self._tell.set()

    def close(self) -> None:
        self._listener.close()
        self.tell()


@pytest.fixture
def deaf(broker_url: str) -> Iterator[Deaf]:
    proxy = Deaf(broker_url)
    yield proxy
    proxy.close()


def test_a_broker_that_notices_late(spark: SparkSession, broker_url: str, deaf: Deaf, tmp_path: Path) -> None:
    """More batches were committed since than the ids of confirmed segments are kept for: what was taken is known."""
    spark.dataSource.register(CrashingSource)
    pipes = prepared(spark, broker_url, tmp_path, [Case("before publish", 2), Case("before settle", 2)])
    # Half of them for each task: one that has nothing could be the one that stops, and give nothing back.
    ended(stopped(pipes, url=deaf.url, stopDeadly="true", maxMessagesPerTrigger=COUNT))
    for pipe in pipes.values():
        sent(broker_url, pipe.address, COUNT, COUNT + 60)
    for case, pipe in pipes.items():
        pipe.run(case.frame(pipe, "amqp", maxMessagesPerTrigger=20, walRetainBatches=1))
    assert all(depth(broker_url, pipe.address) == 0 for pipe in pipes.values())
    deaf.tell()
    for pipe in pipes.values():
        eventually(lambda pipe=pipe: depth(broker_url, pipe.address) > 0)  # type: ignore[misc]
    assert finished(pipes) == all_once(pipes, COUNT + 60)
