"""Two attempts at one partition at the same time: one has the messages, and the other gives its own back."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

pytest.importorskip("pyspark")

import amqp10
import amqp10.testing
from amqp10.messaging.sections import PROPERTIES, scan
from amqp10.spark import Options
from amqp10.spark._queues import consume
from amqp10.spark._queues.attaching import links
from amqp10.spark._queues.consume import QueuePartition, SegmentAttempt, read_partition

from ...kit.inside.spark import (
    Claim,
    Claimant,
    Draft,
    Segment,
    arrow_schema,
    create_batch_folder,
    delete_committed,
    queue_was_empty,
    struct,
)
from ...kit.spark.pipes import depth, sent

SCHEMA = struct([("body", "binary")])


def planned(wal: Path | str, batch: int, part: int = 0) -> Segment:
    """The place of a segment, with the folder that the driver makes."""
    assert create_batch_folder(str(wal), batch)
    return Segment(str(wal), batch, part)


def bodies(options: Options, partition: QueuePartition) -> list[int]:
    return sorted(int(row["body"]) for batch in read_partition(options, SCHEMA, partition) for row in batch.to_pylist())


def test_the_slower_one_gives_back_what_it_took(
    broker_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have taken messages when the first publishes: the second releases its own, and reads the first's segment."""
    address = "racing"
    sent(broker_url, address, 0, 200)
    options = Options.parse({"url": broker_url, "address": address, "walLocation": str(tmp_path)})
    segment = planned(tmp_path, 1)
    both_have_taken = threading.Barrier(2, timeout=30)
    first_has_published = threading.Event()
    receive, publish = SegmentAttempt._receive, SegmentAttempt._publish

    async def raced(self: SegmentAttempt, *args: Any) -> list[amqp10.Delivery]:
        held = await receive(self, *args)
        both_have_taken.wait()
        if threading.current_thread().name == "slow":
            assert first_has_published.wait(30)
        return held

    def published(self: SegmentAttempt, draft: Draft) -> bool:
        done = publish(self, draft)
        first_has_published.set()
        return done

    monkeypatch.setattr(SegmentAttempt, "_receive", raced)
    monkeypatch.setattr(SegmentAttempt, "_publish", published)
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
    rest = bodies(options, QueuePartition(planned(segment.wal, 2), 1000, "next"))
    assert sorted(found["fast"] + rest) == list(range(200))


@pytest.mark.parametrize(("asked", "rest"), [(True, 50), (False, 0)], ids=["the peer is asked", "by ids alone"])
def test_a_task_that_has_lost_its_messages_to_another(
    broker_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    asked: bool,
    rest: int,
) -> None:
    """Its connection dies before it publishes, and another task of the batch has done with them by then.

    It asks the peer first, and takes others; where a broker gives messages away from a link that is alive, their ids
    are in the other's segment.
    """
    address = tmp_path.name
    sent(broker_url, address, 0, 100)
    wal = tmp_path / "query"
    wal.mkdir()
    given = {"address": address, "walLocation": str(tmp_path)}
    has_taken, go_on = threading.Event(), threading.Event()
    receive = SegmentAttempt._receive

    async def slow(self: SegmentAttempt, *args: Any) -> list[amqp10.Delivery]:
        held = await receive(self, *args)
        if self._segment.part == 0 and not has_taken.is_set():
            has_taken.set()
            assert go_on.wait(60)
        return held

    async def still_has(*_: object) -> None:
        pass

    monkeypatch.setattr(SegmentAttempt, "_receive", slow)
    if not asked:
        monkeypatch.setattr(SegmentAttempt, "_ensure_still_ours", still_has)
    found: dict[int, list[int]] = {}

    def task(url: str, part: int) -> None:
        options = Options.parse({**given, "url": url})
        found[part] = bodies(options, QueuePartition(planned(wal, 1, part), 50, "run"))

    async def race() -> None:
        run = anyio.to_thread.run_sync
        async with amqp10.testing.FaultProxy(broker_url) as proxy, anyio.create_task_group() as tasks:
            tasks.start_soon(run, task, proxy.url, 0)
            try:
                assert await run(has_taken.wait, 60)
                proxy.cut()
                while await run(depth, broker_url, address) < 100:
                    pass
                await run(task, broker_url, 1)
            finally:
                go_on.set()

    anyio.run(race, backend="trio")
    assert found[1] == list(range(50))
    assert found[0] == list(range(50, 50 + rest))
    assert depth(broker_url, address) == 50 - rest


@pytest.mark.parametrize("when", ["begun", "received", "locked", "settled"])
def test_an_attempt_that_comes_to_life_after_the_commit(
    broker_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Its node stood still, and another did its part: it takes nothing, for nobody would ever read that, and says so.

    One that stood still when it had published and accepted fails as well, for there is nothing to read any more.
    """
    address = tmp_path.name
    wal = str(tmp_path)
    options = Options.parse({"url": broker_url, "address": address, "walLocation": wal})
    partition = QueuePartition(planned(wal, 1), 100, "run")

    def commit() -> None:
        if not partition.segment.published:
            with partition.segment.write(arrow_schema(SCHEMA)) as draft:
                assert draft.publish()
        delete_committed(wal, 1, 10)

    def committing(owner: type, name: str) -> None:
        original = getattr(owner, name)

        async def after(self: object, *args: Any, **named: Any) -> Any:
            found = await original(self, *args, **named)
            commit()
            return found

        monkeypatch.setattr(owner, name, after)

    sent(broker_url, address, 0, 20)
    if when == "begun":
        commit()
    else:
        committing(SegmentAttempt, {"received": "_receive", "locked": "_ensure_still_ours", "settled": "_settle"}[when])
    with pytest.raises(ValueError, match="batch 1 is committed: this attempt came too late, and takes nothing"):
        bodies(options, partition)
    assert depth(broker_url, address) == (0 if when == "settled" else 20)
    assert [path.name for path in tmp_path.rglob("*") if path.suffix != ".ids"] == ["1.done"]


@pytest.mark.parametrize("kind", ["binary", "json", "amqp"])
def test_messages_that_come_again(broker_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Their task died before it accepted them: the broker marks that in their headers, and they are known."""
    address = tmp_path.name
    options = {"url": broker_url, "address": address, "walLocation": str(tmp_path), "bodyFormat": kind}

    def taken(batch: int) -> int:
        partition = QueuePartition(planned(tmp_path, batch), 100, "run")
        return sum(len(rows) for rows in read_partition(Options.parse(options), SCHEMA, partition))

    sent(broker_url, address, 0, 20)
    with monkeypatch.context() as patches:
        patches.setattr(SegmentAttempt, "_settle", died)
        with pytest.raises(OSError, match="died"):
            taken(1)
    while depth(broker_url, address) < 20:
        pass
    sent(broker_url, address, 20, 25)
    assert taken(1) == 20
    assert taken(2) == 5


class Flawed(amqp10.Message):
    """A message that brokers take and no client can read: after its header and id, a section of an unknown kind."""

    def encode(self) -> bytes:
        payload = super().encode()
        return payload[: scan(payload)[PROPERTIES][2]] + b"\x00\x53\x99\x40"  # a section that there is not


@pytest.mark.parametrize("kind", ["binary", "string", "variant"])
def test_what_cannot_be_decoded_comes_again(
    broker_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """It was kept whole, with the header that it had: known by its bare part, be it malformed as a whole."""
    address = tmp_path.name
    schema = struct([("body", kind), ("priority", "tinyint"), ("_decode_error", "string")])
    options = Options.parse({"url": broker_url, "address": address, "walLocation": str(tmp_path)})

    async def send() -> None:
        flawed = Flawed(b"", message_id="id0", durable=True)
        await amqp10.send(broker_url, address, amqp10.Message(b"\xff", message_id="id", priority=200), flawed)

    def taken(batch: int) -> list[str]:
        partition = QueuePartition(planned(tmp_path, batch), 100, "run")
        return [row["_decode_error"] for rows in read_partition(options, schema, partition) for row in rows.to_pylist()]

    anyio.run(send, backend="trio")
    with monkeypatch.context() as patches:
        patches.setattr(SegmentAttempt, "_settle", died)
        with pytest.raises(OSError, match="died"):
            taken(1)
    while depth(broker_url, address) < 2:
        pass
    errors = taken(1)
    assert len(errors) == 2
    assert all(errors)
    assert taken(2) == []


async def died(*_: object, accepted: bool) -> bool:
    raise OSError("died")


@pytest.mark.anyio
async def test_a_link_that_the_peer_has_ended(broker_url: str, tmp_path: Path) -> None:
    """On a connection that lives: what it received is not published."""
    options = Options.parse({"url": broker_url, "address": "ended", "walLocation": str(tmp_path)})
    partition = QueuePartition(planned(tmp_path, 1), 100, "run")
    with partition.segment.claimed(Claimant("run", 0), 60) as claim:
        assert claim is not None
        consumption = SegmentAttempt(options, SCHEMA, partition, claim)
        async with amqp10.Connection(broker_url) as connection, links(connection, options) as taking:
            receiver = await taking.attach()
            assert receiver is not None
            await consumption._ensure_still_ours(connection, taking)
            receiver._core.on_ended(amqp10.LinkDetached("the queue was deleted"))
            with pytest.raises(amqp10.LinkDetached, match="the queue was deleted"):
                await consumption._ensure_still_ours(connection, taking)


def test_a_connection_that_is_lost_after_publishing(tmp_path: Path) -> None:
    """The same attempt goes on with its segment, and asks for no messages that nobody wants."""
    options = Options.parse({"url": "amqp://localhost:1", "address": "lost", "walLocation": str(tmp_path)})
    partition = QueuePartition(planned(tmp_path, 1), 100, "run")
    with partition.segment.claimed(Claimant("run", 0), 60) as claim:
        assert claim is not None
        with partition.segment.write(arrow_schema(SCHEMA)) as draft:
            assert draft.publish()
        anyio.run(SegmentAttempt(options, SCHEMA, partition, claim).run, backend="trio")


def test_what_the_broker_does_not_confirm(broker_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is known for longer; what it does confirm has a note."""
    options = Options.parse({"url": broker_url, "address": "confirmed", "walLocation": str(tmp_path)})
    sent(broker_url, "confirmed", 0, 2)
    for batch, confirmed in ((1, True), (2, False)):
        with monkeypatch.context() as patches:
            if not confirmed:
                patches.setattr(consume, "ended_cleanly", lambda receiver: False)
            assert len(bodies(options, QueuePartition(planned(tmp_path, batch), 1, "run"))) == 1
        assert (tmp_path / f"{batch}" / "part-0.settled").exists() == confirmed


@pytest.mark.anyio
async def test_a_broker_that_confirms_late(broker_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is waited for as long as one that is slow to deliver: what it has confirmed needs no ids."""
    await anyio.to_thread.run_sync(sent, broker_url, "late", 0, 1)
    partition = QueuePartition(planned(tmp_path, 1), 1, "run")
    settle = SegmentAttempt._settle

    def hasty(options: Options) -> amqp10.Connection:
        return amqp10.Connection(options.url, close_timeout=0.01)

    async with amqp10.testing.FaultProxy(broker_url) as proxy, anyio.create_task_group() as tasks:

        async def resume_later() -> None:
            await anyio.sleep(0.1)
            proxy.resume()

        async def settled(self: SegmentAttempt, *args: Any, **kwargs: Any) -> bool:
            proxy.stall()
            tasks.start_soon(resume_later)
            return await settle(self, *args, **kwargs)

        monkeypatch.setattr(consume, "connection", hasty)
        monkeypatch.setattr(SegmentAttempt, "_settle", settled)
        options = Options.parse({"url": proxy.url, "address": "late", "walLocation": str(tmp_path)})
        with partition.segment.claimed(Claimant("run", 0), 60) as claim:
            assert claim is not None
            await SegmentAttempt(options, SCHEMA, partition, claim).run()
    assert (tmp_path / "1" / "part-0.settled").exists()


@pytest.mark.anyio
async def test_signs_of_life(tmp_path: Path) -> None:
    """As long as it takes: of the claim always, of the lock while it is its own."""
    given = {"url": "amqp://localhost:1", "address": "alive", "walLocation": str(tmp_path), "walLease": "0.01"}
    partition = QueuePartition(planned(tmp_path, 1), 100, "run")
    lock = tmp_path / "1" / "lock"
    signs = anyio.Event()
    seen = 0

    class Seen(Claim):
        def renew(self) -> None:
            super().renew()
            nonlocal seen
            seen += 1
            if seen % 5 == 0:
                signs.set()

    claim = Seen(tmp_path / "1" / "part-0.claim", Claimant("run", 0))
    consumption = SegmentAttempt(Options.parse(given), SCHEMA, partition, claim)
    assert claim.make()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(consumption._keep_alive)
        async with consumption._publishing_turn():
            os.utime(lock, (0, 0))
            await signs.wait()
            assert lock.stat().st_mtime > 0
        os.utime(lock, (0, 0))
        signs = anyio.Event()
        await signs.wait()
        assert lock.stat().st_mtime == 0
        tasks.cancel_scope.cancel()


def test_an_empty_queue_makes_an_empty_segment(broker_url: str, tmp_path: Path) -> None:
    """So that a batch that had nothing has nothing when it is repeated, whatever has come since."""
    options = Options.parse({"url": broker_url, "address": "nothing", "walLocation": str(tmp_path)})
    partition = QueuePartition(planned(tmp_path, 1), 100, "run")
    assert bodies(options, partition) == []
    sent(broker_url, "nothing", 0, 10)
    assert bodies(options, partition) == []
    assert depth(broker_url, "nothing") == 10


def test_links_have_the_properties_that_were_asked_for(broker_url: str, tmp_path: Path) -> None:
    """A consumer that wants to be the only one is refused where there is another."""

    async def attempt() -> None:
        async with amqp10.Connection(broker_url) as connection, connection.receiver("alone"):
            with pytest.raises(amqp10.LinkDetached, match="amqp:resource-locked"):
                await anyio.to_thread.run_sync(lambda: list(read_partition(options, SCHEMA, partition)))

    given = {"amqp.linkProperties": '{"exclusive": true}', "walLocation": str(tmp_path)}
    options = Options.parse({"url": broker_url, "address": "alone", **given})
    partition = QueuePartition(planned(tmp_path, 1), 100, "run")
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
        partition = QueuePartition(planned(wal, len(counts) + 1), 1000, "run", max_bytes=30_000)
        rows = [row for batch in read_partition(options, SCHEMA, partition) for row in batch.to_pylist()]
        numbers += [int(row["body"][:4]) for row in rows]
        counts.append(len(rows))
    assert numbers == list(range(100))
    assert all(29 <= count <= 40 for count in counts[:3])
    assert [queue_was_empty(wal, number + 1, 1) for number in range(len(counts))].index(True) >= len(counts) - 2


def test_what_cannot_be_decoded_stays_in_the_queue(broker_url: str, tmp_path: Path) -> None:
    """The attempt fails and names the message; nothing was published or accepted, and nothing is left on the disk."""

    async def send() -> None:
        await amqp10.send(broker_url, "undecodable", amqp10.Message(b"good"), amqp10.Message(b"\xff"))

    anyio.run(send, backend="trio")
    options = Options.parse({"url": broker_url, "address": "undecodable", "walLocation": str(tmp_path)})
    partition = QueuePartition(planned(tmp_path, 1), 100, "run")
    with pytest.raises(amqp10.DecodeError, match="a message of 'undecodable'"):
        list(read_partition(options, struct([("body", "string")]), partition))
    assert depth(broker_url, "undecodable") == 2
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
