"""Where driver and executors are processes of their own: `local-cluster`, and a standalone master with a worker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyarrow.parquet as pq
import pyspark

from amqp10.spark import prepare

from ..kit.processes.free_ports import free_ports
from ..kit.processes.short_java import SHORT
from ..kit.spark.pipes import depth, sent

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("spark processes"),
    pytest.mark.capability("Spark"),
]

SPARK = Path(pyspark.__file__).parent
ROOT = Path(__file__).parent.parent.parent
PATH = os.pathsep.join((str(ROOT / "src"), str(ROOT), str(ROOT / "tests" / "kit" / "spark" / "startup")))
COUNT = 1000


def environment() -> dict[str, str]:
    """As on a machine where the package is installed, which it is in tests only for who is told."""
    prepare()
    return {
        **os.environ,
        "JDK_JAVA_OPTIONS": " ".join(SHORT),
        "PYTHONPATH": PATH,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(SPARK),
    }


def killing(folder: Path) -> list[str]:
    """Settings by which a worker is killed when it has published its segment and not accepted the messages."""
    wanted = {
        "spark.python.daemon.module": "tests.kit.spark.crash_daemon",
        "spark.executorEnv.PYTHONPATH": PATH,
        "spark.executorEnv.AMQP10_STOP_AT": "before settle",
        "spark.executorEnv.AMQP10_STOP_FOLDER": folder,
    }
    return [word for name, value in wanted.items() for word in ("--conf", f"{name}={value}")]


def moved(url: str, address: str, folder: Path, *command: str) -> None:
    """Run a job that takes a queue to files in two batches over two links, and see that every message is there once."""
    sent(url, address, 0, COUNT)
    job = ["--from", url, "--address", address, "--to", f"parquet:{folder / 'lake'}", "--rate", "700", "--links", "2"]
    ended = subprocess.run(
        [*command, *job], env=environment(), capture_output=True, text=True, timeout=900, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert re.search(r"batch 1: \d+ rows", ended.stdout + ended.stderr)  # spark-submit makes one of both
    files = sorted((folder / "lake").glob("*.parquet"))
    assert sorted(int(each) for each in pq.ParquetDataset(files).read(["body"])["body"].to_pylist()) == list(
        range(COUNT)
    )
    assert depth(url, address) == 0
    left = (path for path in (folder / "lake.checkpoint" / "wal").rglob("*") if path.is_file())
    assert [path for path in left if path.suffix != ".ids"] == []


def test_local_cluster(broker_url: str, tmp_path: Path) -> None:
    """Two executors, each a JVM with workers of its own, of which one is killed."""
    pipeline = [sys.executable, "-m", "amqp10", "pipeline", "--master", "local-cluster[2,1,1024]"]
    moved(broker_url, "local-cluster", tmp_path, *pipeline, *killing(tmp_path))
    assert (tmp_path / "reached").exists()


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """A master and a worker; the master's URL."""
    (port,) = map(str, free_ports(1))
    master = f"spark://127.0.0.1:{port}"
    start = [str(SPARK / "bin" / "spark-class"), "org.apache.spark.deploy"]
    commands = (
        [start[0], f"{start[1]}.master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", "0"],
        [start[0], f"{start[1]}.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "-c", "2", "-m", "1g",
         "-d", str(folder / "work"), master],
    )  # fmt: skip
    running = []
    try:
        for name, command in zip(("master", "worker"), commands, strict=True):
            with (folder / name).open("w") as log:
                running.append(subprocess.Popen(command, env=environment(), stdout=log, stderr=log))
        deadline = time.monotonic() + 120
        while not re.search("Successfully registered with master", (folder / "worker").read_text()):
            assert time.monotonic() < deadline, (folder / "worker").read_text()
            time.sleep(0.1)
        yield master
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            process.wait(30)


def test_standalone_by_spark_submit(broker_url: str, tmp_path: Path) -> None:
    """As on a cluster of one's own: the job is submitted, and runs in the worker's executor."""
    with standalone(tmp_path) as master:
        told = subprocess.run(
            [sys.executable, "-m", "pyspark_amqp10.pipeline", "--file"],
            env=environment(), capture_output=True, text=True, check=True, timeout=200,
        )  # fmt: skip
        submit = [str(SPARK / "bin" / "spark-submit"), "--master", master]
        wanted = (f"spark.executorEnv.PYTHONPATH={PATH}", "spark.driver.host=127.0.0.1", "spark.executor.memory=512m")
        settings = (f"--conf={each}" for each in wanted)
        moved(broker_url, "standalone", tmp_path, *submit, *settings, told.stdout.strip())
    [app] = (tmp_path / "work").iterdir()  # it ran there, and not in the submitter's own process
    assert [*app.iterdir()]
