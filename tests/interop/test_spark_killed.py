"""Tasks of Spark's that are killed at RabbitMQ, and what one took for good from an Artemis that is killed then."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

pytest.importorskip("pyspark")

from amqp10 import Connection, Message
from amqp10.rabbitmq import queue_address
from amqp10.spark import Options

from ..kit.counts import KILLS
from ..kit.inside.spark import (
    QueuePartition,
    Segment,
    connection,
    count_ready,
    create_batch_folder,
    create_query_folder,
    read_partition,
    run_with_retries,
    source,
    struct,
)
from ..kit.unavailable import unavailable
from ._matrix import fresh_name
from .brokers import ARTEMIS, Mortal, Server, Unavailable, java, mortal, write_trust_store

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1200)]
COUNT = 2000
ROUNDS = KILLS
"""Without the transaction of the last message every third or so had some twice; `make nightly` has more."""


@pytest.fixture(scope="module")
def artemis(authority: Path) -> Iterator[Mortal]:
    """One that may be killed."""
    try:
        if not (authority / "clients.p12").exists():
            write_trust_store(authority, java())
        with mortal(ARTEMIS, authority) as running:
            yield running
    except Unavailable as error:
        unavailable(f"no artemis: {error}")


async def fill(url: str, address: str, count: int = COUNT) -> None:
    async with Connection(url) as connection, connection.sender(address) as sender:
        await sender.send_many(Message(b"%d" % n, message_id=f"m{n}", durable=True) for n in range(count))


def test_what_was_accepted_is_gone(artemis: Mortal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The segment is noted as confirmed, and its messages are not known any more: none may be delivered again."""
    url = artemis.server.url()
    confirm = Segment.confirm

    def killed(segment: Segment) -> None:
        confirm(segment)
        artemis.kill()

    for number in range(ROUNDS):
        address, wal = f"spark-{number}", str(tmp_path / f"{number}")
        anyio.run(fill, url, address, backend="trio")
        options = Options.parse({"url": url, "address": address, "walLocation": wal, "connectTimeout": "120"})
        create_query_folder(wal)

        def taken(batch: int, wal: str = wal, options: Options = options) -> int:
            assert create_batch_folder(wal, batch)
            partition = QueuePartition(Segment(wal, batch, 0), 10 * COUNT, "run")
            return sum(len(rows) for rows in read_partition(options, struct([("body", "binary")]), partition))

        with monkeypatch.context() as patches:
            patches.setattr(Segment, "confirm", killed)
            assert taken(1) == COUNT
        artemis.restart()
        assert taken(2) == 0


@pytest.mark.parametrize(
    ("kind", "dialect", "point", "again"),
    [
        ("classic", "0-9-1", "before settle", 100),
        ("quorum", "1.0", "before publish", 100),
        ("quorum", "0-9-1", "before settle", 100),
        ("quorum", "1.0", "after settle", 0),
    ],
)
def test_a_task_is_killed(rabbitmq: Server, tmp_path: Path, kind: str, dialect: str, point: str, again: int) -> None:
    """The queue has its messages again, or not; either way the next attempt and the next batch have each once."""
    name, wal = fresh_name(), tmp_path / "wal"
    given = {"url": rabbitmq.url(), "address": name, "dialect": dialect, "walLocation": str(tmp_path)}
    options = Options.parse(given)

    async def declare() -> None:
        async with Connection(rabbitmq.url(), dialect="0-9-1") as connection:
            await connection.native.declare_queue(name, durable=True, arguments={"x-queue-type": kind})
        await fill(rabbitmq.url(), queue_address(name), 100)

    async def waiting() -> int | None:
        async with connection(options) as opened:
            return await count_ready(opened, source(opened, options))

    def taken(batch: int) -> list[int]:
        partition = QueuePartition(Segment(str(wal), batch, 0), 1000, "another run")
        rows = read_partition(options, struct([("body", "binary")]), partition)
        return [int(body) for each in rows for body in each.column("body").to_pylist()]

    anyio.run(declare, backend="trio")
    create_query_folder(str(wal))
    create_batch_folder(str(wal), 1)
    victim = [sys.executable, "-m", "tests.kit.spark.victim", json.dumps(given), str(wal), point]
    killed = subprocess.run(victim, cwd=Path(__file__).parent.parent.parent, check=False, timeout=300)
    assert killed.returncode == -signal.SIGKILL
    while run_with_retries(options, waiting) != again:
        pass
    assert sorted(taken(1)) == list(range(100))
    create_batch_folder(str(wal), 2)
    assert taken(2) == []
    while run_with_retries(options, waiting):
        pass
