"""`amqp10 pipeline`, as users run it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

import amqp10

from ..kit.processes.commands import Commands

pytest.importorskip("pyspark")

import pyspark

from amqp10.cli._pipeline import _shown
from amqp10.spark.pipeline import cause

from ..kit.processes.programs import started
from ..kit.processes.short_java import SHORT

URL = "amqp://guest:hidden@localhost:1"
STARTUP = Path(__file__).parents[1] / "kit" / "spark" / "startup"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--to", "parquet"), "--to must be FORMAT:PLACE"),
        (("--to", "amqp://localhost"), "amqp needs --checkpoint"),
        (("--to", "paper:x", "--checkpoint", "/c"), "there is no sink 'paper'"),
        (("--to", "parquet:x", "--option", "walocation=/x"), "did you mean 'walLocation'"),
        (("--to", "parquet:x", "--option", "walLocation"), "is not NAME=VALUE"),
        (("--to", "parquet:x", "--rate", "0"), "--rate"),
    ],
)
def test_mistakes(amqp10: Commands, arguments: tuple[str, ...], words: str) -> None:
    """One clear line before Spark is started, and no password in it."""
    result = amqp10("pipeline", "--from", URL, "--address", "orders", *arguments)
    assert result.code == 2
    assert words in result.err
    assert "hidden" not in result.err


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("parquet:/lake/a,b", "parquet:/lake/a,b"),
        ("parquet:hdfs://name:8020/x", "parquet:hdfs://name:8020/x"),
        ("amqp://localhost:5672", "amqp://localhost:5672"),
        ("amqp://u:hidden@a,amqps://v:hidden@b:1", "amqp://u:***@a,amqps://v:***@b:1"),
        ("amqp://u:hid@den@b:1,amqp://v:hid@den@c", "amqp://u:***@b:1,amqp://v:***@c"),
        ("amqp://a:1,amqp://u:hid,den@b,c", "amqp://a:1,amqp://u:***@b,c"),
        ("parquet:s3a://key:hidden@lake/x", "parquet:s3a://key:***@lake/x"),
        ("wss://u:hidden@a/x?token=hidden,amqp://:hidden@b", "wss://u:***@a/x,amqp://:***@b"),
    ],
)
def test_places_for_people(place: str, shown: str) -> None:
    """However many brokers there are, none of their passwords is told."""
    assert _shown(place) == shown


def test_urls_from_the_environment(amqp10: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a command line would show their passwords to everybody."""
    monkeypatch.setenv("AMQP10_FROM", "nonsense")
    monkeypatch.setenv("AMQP10_TO", "paper:x")
    result = amqp10("pipeline", "--address", "orders", "--checkpoint", "/c")
    assert "there is no sink 'paper'" in result.err
    monkeypatch.setenv("AMQP10_TO", "parquet:x")
    result = amqp10("pipeline", "--address", "orders", "--checkpoint", "/c")
    assert "option 'url': an AMQP URL must begin with" in result.err


@pytest.mark.parametrize(
    ("said", "sink", "told"),
    [
        ("[PYTHON] x\nTraceback\n  ValueError: amqp: there is no column 'a'\nat java", "csv", "there is no column 'a'"),
        (
            "failed\namqp10.errors.ConnectionLost: cannot connect\n",
            "csv",
            "amqp10.errors.ConnectionLost: cannot connect",
        ),
        (
            "An error occurred while calling o4.start.\n: java.lang.Error: [BAD] no\n\tat x",
            "csv",
            "java.lang.Error: [BAD] no",
        ),
        (
            "An error\n: x: [DATA_SOURCE_NOT_FOUND] y\n",
            "delta",
            "packages=io.delta:delta-spark_{}_2.13:VERSION gets it",
        ),
        ("", "csv", "RuntimeError"),
    ],
)
def test_what_is_told_of_an_error(said: str, sink: str, told: str) -> None:
    """A line of a page: ours, or Java's; and which package a sink needs."""
    found = cause(RuntimeError(said), sink)
    assert told.format(".".join(pyspark.__version__.split(".")[:2])) in found
    assert "\n" not in found


@pytest.fixture
def broker_url() -> Iterator[str]:
    command = [sys.executable, "-m", "amqp10", "broker", "--port", "0", "--user", "guest:hidden"]
    with started(command, limit=None, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[3].replace("amqp://", "amqp://guest:hidden@")
        process.terminate()


def depth(url: str, address: str) -> int:
    async def count() -> int:
        async with amqp10.Connection(url) as connection, connection.browser(address) as browser:
            return len([delivery async for delivery in browser])

    return anyio.run(count, backend="trio")


def sent(url: str, address: str, start: int, stop: int) -> None:
    messages = (amqp10.Message(b"%d" % n, message_id=f"m{n}") for n in range(start, stop))
    anyio.run(amqp10.send, url, address, *messages, backend="trio")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1200)  # it starts Spark twice
@pytest.mark.xdist_group("spark processes")
def test_to_files_and_on_until_a_signal(broker_url: str, tmp_path: Path) -> None:
    """All that is there goes to parquet; SIGTERM to its processes ends it after a batch, and nothing is lost."""
    import pyarrow.parquet as pq

    # Neither Java runs for long; and workers that take pyspark from its zip compile all of it each time.
    path = os.pathsep.join(filter(None, [str(STARTUP), os.environ.get("PYTHONPATH", "")]))
    env = {**os.environ, "JDK_JAVA_OPTIONS": " ".join(SHORT), "PYTHONPATH": path}
    command = [sys.executable, "-m", "amqp10", "pipeline", "--from", broker_url, "--address", "orders"]
    to_files = [*command, "--to", f"parquet:{tmp_path / 'lake'}", "--columns", "body STRING, message_id STRING"]
    sent(broker_url, "orders", 0, 300)
    ended = subprocess.run(
        [*to_files, "--rate", "200"], capture_output=True, text=True, timeout=500, check=False, env=env
    )
    assert ended.returncode == 0, ended.stderr
    assert "batch 0: 200 rows in " in ended.stderr
    assert "batch 1: 100 rows in " in ended.stderr
    assert "hidden" not in ended.stderr
    sent(broker_url, "orders", 300, 2300)
    on_and_on = [*to_files, "--trigger", "0 seconds", "--rate", "50"]
    with started(on_and_on, limit=1000, stderr=subprocess.PIPE, text=True, start_new_session=True, env=env) as running:
        assert running.stderr is not None
        try:
            said = next(line for line in running.stderr if line.startswith("batch "))
            os.killpg(running.pid, signal.SIGTERM)  # as a service manager does
            rest = running.stderr.read()
        finally:
            if running.poll() is None:
                running.terminate()
    assert said.startswith("batch 2: 50 rows")
    assert "stopping after this batch" in rest
    assert running.returncode == 128 + signal.SIGTERM
    rows = pq.ParquetDataset(sorted((tmp_path / "lake").glob("*.parquet"))).read().to_pylist()
    taken = len(rows)
    assert 300 < taken < 2300  # there was more to do
    assert sorted((int(row["body"]), row["message_id"]) for row in rows) == [(n, f"m{n}") for n in range(taken)]
    assert depth(broker_url, "orders") == 2300 - taken  # and nothing was begun
