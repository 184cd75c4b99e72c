"""What a task of Spark's took from Artemis for good does not come again, when the broker is killed right after that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

pytest.importorskip("pyspark")

from amqp10 import Connection, Message
from amqp10.spark._consume import QueuePartition, consumed
from amqp10.spark._options import Options
from amqp10.spark._schema import struct
from amqp10.spark._segments import Segment
from amqp10.spark._wal import begin, begin_batch

from .brokers import ARTEMIS, Mortal, Unavailable, java, mortal, write_trust_store
from .conftest import unavailable

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]
COUNT = 2000
ROUNDS = 4
"""Without the transaction of the last message every third or so had some twice."""


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


async def fill(url: str, address: str) -> None:
    async with Connection(url) as connection, connection.sender(address) as sender:
        await sender.send_many(Message(b"%d" % n, message_id=f"m{n}", durable=True) for n in range(COUNT))


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
        begin(wal)

        def taken(batch: int, wal: str = wal, options: Options = options) -> int:
            assert begin_batch(wal, batch)
            partition = QueuePartition(Segment(wal, batch, 0), 10 * COUNT, "run")
            return sum(len(rows) for rows in consumed(options, struct([("body", "binary")]), partition))

        with monkeypatch.context() as patches:
            patches.setattr(Segment, "confirm", killed)
            assert taken(1) == COUNT
        artemis.restart()
        assert taken(2) == 0
