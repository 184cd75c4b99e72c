"""Two attempts at one partition at the same time: one has the messages, and the other gives its own back."""

from __future__ import annotations

import threading
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

pytest.importorskip("pyspark")

import amqp10
from amqp10.spark._consume import Consumption, QueuePartition, consumed
from amqp10.spark._options import Options
from amqp10.spark._schema import struct
from amqp10.spark._segments import Segment, saw_empty

from ._pipes import depth, sent

SCHEMA = struct([("body", "binary")])


def bodies(options: Options, partition: QueuePartition) -> list[int]:
    return sorted(int(row["body"]) for batch in consumed(options, SCHEMA, partition) for row in batch.to_pylist())


def test_the_slower_one_gives_back_what_it_took(
    broker_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have taken messages when the first publishes: the second releases its own, and reads the first's segment."""
    address = "racing"
    sent(broker_url, address, 0, 200)
    options = Options.parse({"url": broker_url, "address": address, "walLocation": str(tmp_path)})
    segment = Segment(str(tmp_path), 1, 0)
    both_have_taken = threading.Barrier(2, timeout=30)
    first_has_published = threading.Event()
    publish = Consumption._publish

    def raced(self: Consumption, draft: object) -> bool:
        both_have_taken.wait()
        if threading.current_thread().name == "slow":
            assert first_has_published.wait(30)
        done = publish(self, draft)  # type: ignore[arg-type]
        first_has_published.set()
        return done

    monkeypatch.setattr(Consumption, "_publish", raced)
    found: dict[str, list[int]] = {}

    def attempt(run: str) -> None:
        found[run] = bodies(options, QueuePartition(segment, 100, run))

    threads = [threading.Thread(target=attempt, args=[name], name=name) for name in ("fast", "slow")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found["fast"] == found["slow"]
    assert len(found["fast"]) == 100
    assert depth(broker_url, address) == 100
    monkeypatch.undo()
    rest = bodies(options, QueuePartition(Segment(segment.wal, 2, 0), 1000, "next"))
    assert sorted(found["fast"] + rest) == list(range(200))


def test_an_empty_queue_makes_an_empty_segment(broker_url: str, tmp_path: Path) -> None:
    """So that a batch that had nothing has nothing when it is repeated, whatever has come since."""
    options = Options.parse({"url": broker_url, "address": "nothing", "walLocation": str(tmp_path)})
    partition = QueuePartition(Segment(str(tmp_path), 1, 0), 100, "run")
    assert bodies(options, partition) == []
    sent(broker_url, "nothing", 0, 10)
    assert bodies(options, partition) == []
    assert depth(broker_url, "nothing") == 10


def test_links_have_the_properties_that_were_asked_for(broker_url: str, tmp_path: Path) -> None:
    """A consumer that wants to be the only one is refused where there is another."""

    async def attempt() -> None:
        async with amqp10.Connection(broker_url) as connection, connection.receiver("alone"):
            with pytest.raises(amqp10.LinkDetached, match="amqp:resource-locked"):
                await anyio.to_thread.run_sync(lambda: list(consumed(options, SCHEMA, partition)))

    given = {"amqp.linkProperties": '{"exclusive": true}', "walLocation": str(tmp_path)}
    options = Options.parse({"url": broker_url, "address": "alone", **given})
    partition = QueuePartition(Segment(str(tmp_path), 1, 0), 100, "run")
    anyio.run(attempt, backend="trio")


def test_a_limit_of_octets(broker_url: str, tmp_path: Path) -> None:
    """Roughly as many are taken, the rest stays in the queue in its order; only the last one has seen its end."""

    async def send() -> None:
        await amqp10.send(broker_url, "large", *(amqp10.Message(b"%04d" % n * 250) for n in range(100)))

    anyio.run(send, backend="trio")
    options = Options.parse({"url": broker_url, "address": "large", "walLocation": str(tmp_path)})
    wal = str(tmp_path)
    counts: list[int] = []
    numbers: list[int] = []
    while not counts or counts[-1]:
        partition = QueuePartition(Segment(wal, len(counts) + 1, 0), 1000, "run", octets=30_000)
        rows = [row for batch in consumed(options, SCHEMA, partition) for row in batch.to_pylist()]
        numbers += [int(row["body"][:4]) for row in rows]
        counts.append(len(rows))
    assert numbers == list(range(100))
    assert all(29 <= count <= 40 for count in counts[:3])
    assert [saw_empty(wal, number + 1) for number in range(len(counts))].index(True) >= len(counts) - 2


def test_what_cannot_be_decoded_stays_in_the_queue(broker_url: str, tmp_path: Path) -> None:
    """The attempt fails and names the message; nothing was published or accepted, and nothing is left on the disk."""

    async def send() -> None:
        await amqp10.send(broker_url, "undecodable", amqp10.Message(b"good"), amqp10.Message(b"\xff"))

    anyio.run(send, backend="trio")
    options = Options.parse({"url": broker_url, "address": "undecodable", "walLocation": str(tmp_path)})
    partition = QueuePartition(Segment(str(tmp_path), 1, 0), 100, "run")
    with pytest.raises(amqp10.DecodeError, match="a message of 'undecodable'"):
        list(consumed(options, struct([("body", "string")]), partition))
    assert depth(broker_url, "undecodable") == 2
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
