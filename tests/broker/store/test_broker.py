"""A broker with a store, seen by its peers: nothing is said before it is on the disk; a full disk accepts nothing."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from amqp10 import (
    AmqpError,
    Connection,
    ConnectionAttempted,
    ConnectionClosed,
    ConnectionLost,
    Delivery,
    EncodeError,
    LinkDetached,
    Message,
    MessageRejected,
    Reconnect,
    Selector,
    Source,
    StoreError,
    Target,
)
from amqp10.broker import Broker, BrokerLimits
from amqp10.broker._store import store as _store
from amqp10.broker._store.tables import MessageRow, StoreFile
from amqp10.client.internals import sender_delivery
from amqp10.testing import Attach, Begin, Detach, Open, Transfer

from ...kit.broker.raw_clients import dial
from ...kit.hostile.acts import frame
from ...kit.inside.broker import virtual_host_core
from ...kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.capability("broker store")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


class Disk:
    """A disk that lets no commit pass until it is told to."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.allowed = threading.Event()

    async def wait_for_a_commit(self) -> None:
        await anyio.to_thread.run_sync(self.asked.wait)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    slow, commit = Disk(), StoreFile.commit

    def commit_when_allowed(file: StoreFile) -> None:
        slow.asked.set()
        assert slow.allowed.wait(30)
        commit(file)

    monkeypatch.setattr(StoreFile, "commit", commit_when_allowed)
    yield slow
    slow.allowed.set()


def durable(*bodies: object) -> list[Message]:
    return [Message(body, durable=True) for body in bodies]


async def take(connection: Connection, address: str | Source, **settings: object) -> list[Delivery]:
    """All that is there now, accepted."""
    async with connection.receiver(address, credit=100, **settings) as receiver:  # type: ignore[arg-type]
        await receiver.drain()
        deliveries = await receiver.receive_batch(100, max_wait=0)
        for delivery in deliveries:
            delivery.accept()
    return deliveries


def bodies(deliveries: list[Delivery]) -> list[object]:
    return [delivery.message.body for delivery in deliveries]


async def test_survives(path: Path) -> None:
    """Durable messages are there for the next broker on the file; what was accepted, or not durable, is not."""
    async with Broker(store=path) as broker, broker.connect() as connection:
        async with connection.sender("q") as sender:
            await sender.send_many([*durable(1, 2, 3), Message("volatile")])
        async with connection.receiver("q", credit=1) as receiver:
            (await receiver.receive()).accept()
    async with Broker(store=path) as broker, broker.connect() as connection:
        assert bodies(await take(connection, "q")) == [2, 3]
    async with Broker(store=path) as broker:
        assert broker.queue("q").depth == 0


async def test_accepts_when_it_is_on_the_disk(path: Path, disk: Disk) -> None:
    """The sender hears nothing, and no consumer gets the message, before the commit returned."""
    disk.allowed.set()
    async with Broker(store=path) as broker, broker.connect() as connection, broker.connect() as another:
        async with connection.sender("q") as sender, another.receiver("q") as receiver:
            disk.allowed.clear()
            disk.asked.clear()
            sent = await sender.submit(durable("kept")[0])
            await disk.wait_for_a_commit()
            await anyio.wait_all_tasks_blocked()
            assert await receiver.receive_batch(1, max_wait=0) == []
            assert sender_delivery(sent).state is None
            disk.allowed.set()
            await sent.outcome()
            delivery = await receiver.receive()
            assert delivery.message.body == "kept"


async def test_one_commit_for_many(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand messages that arrive together are far fewer commits."""
    commits = 0
    commit = StoreFile.commit

    def counted(file: StoreFile) -> None:
        nonlocal commits
        commits += 1
        commit(file)

    monkeypatch.setattr(StoreFile, "commit", counted)
    async with Broker(store=path) as broker, broker.connect() as connection, connection.sender("q") as sender:
        await sender.send_many(durable(*range(1000)))
    assert 0 < commits < 100


async def test_transactions_are_one_commit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a commit of the coordinator does, sending and accepting on several queues, is one commit of the store."""
    written: list[tuple[int, int]] = []
    put, remove = StoreFile.put, StoreFile.remove

    def note_put(file: StoreFile, kind: type[Any], rows: Any) -> None:
        if kind is MessageRow:
            written.append((len(rows), 0))
        put(file, kind, rows)

    def note_remove(file: StoreFile, kind: type[Any], keys: Any) -> None:
        if kind is MessageRow:
            written[-1] = written[-1][0], len(keys)
        remove(file, kind, keys)

    async with Broker(store=path) as broker, broker.connect() as connection:
        async with connection.sender("in") as feed, connection.sender("out") as out, connection.sender("log") as log:
            await feed.send_many(durable(1, 2))
            async with connection.receiver("in") as receiver:
                one, two = await receiver.receive(), await receiver.receive()
                monkeypatch.setattr(StoreFile, "put", note_put)
                monkeypatch.setattr(StoreFile, "remove", note_remove)
                async with connection.transaction() as transaction:
                    for sender, received in (out, one), (log, two):
                        await sender.send(durable("done")[0], transaction=transaction)
                        received.accept(transaction=transaction)
                assert [each for each in written if each != (0, 0)] == [(2, 2)]


@pytest.mark.spec("3.5.5", "durable: what of a terminus survives its container, as the answer says")
async def test_answers_truly(path: Path) -> None:
    """A durable subscription is durable where there is a store, with what it holds if that is kept; a link is not."""
    wish = Source("topic.t", durable="unsettled-state", expiry_policy="never")
    async with Broker(store=path) as broker, broker.connect() as connection:
        async with connection.receiver(wish, name="s") as receiver:
            assert receiver.source is not None
            assert receiver.source.durable == "unsettled-state"
        lesser = Source("topic.t", durable="unsettled-state", expiry_policy="link-detach")
        async with connection.receiver(lesser, name="t") as receiver:
            assert receiver.source is not None
            assert receiver.source.durable == "configuration"
        async with connection.receiver("q") as receiver:
            assert receiver.source is not None
            assert receiver.source.durable == "none"
    async with Broker() as broker, broker.connect() as connection:
        async with connection.receiver(wish, name="s") as receiver:
            assert receiver.source is not None
            assert receiver.source.durable == "none"


async def test_subscriptions_survive(path: Path) -> None:
    """Durable subscriptions come back with their messages and filters, own and shared and global ones."""
    filters = [Selector("n > 1")]
    async with Broker(store=path, users={"me": "secret"}, anonymous=True) as broker:
        async with broker.connect("amqp://me:secret@localhost", container_id="c") as connection:
            async with connection.subscription("topic.t", "own", filters=filters):
                pass
            async with connection.subscription("topic.t", "shared", shared=True):
                pass
            async with connection.subscription("topic.t", "ended") as receiver:
                await receiver.close()
            async with connection.sender("topic.t") as sender:
                await sender.send_many(Message(n, durable=True, application_properties={"n": n}) for n in range(4))
    async with Broker(store=path, users={"me": "secret"}, anonymous=True) as broker:
        assert [each.subscription for each in broker.topic("topic.t").subscriptions] == ["own", "shared"]
        async with broker.connect(container_id="c") as stranger, stranger.subscription("topic.t", "own") as receiver:
            await receiver.drain()
            assert await receiver.receive_batch(9, max_wait=0) == []
        async with broker.connect("amqp://me:secret@localhost", container_id="c") as connection:
            async with connection.sender("topic.t") as sender:
                await sender.send_many(Message(n, durable=True, application_properties={"n": n}) for n in (0, 9))
            for name, shared, expected in ("own", False, [2, 3, 9]), ("shared", True, [0, 1, 2, 3, 0, 9]):
                more = {"filters": filters} if not shared else {}
                async with connection.subscription("topic.t", name, shared=shared, **more) as receiver:  # type: ignore[arg-type]
                    await receiver.drain()
                    deliveries = await receiver.receive_batch(100, max_wait=0)
                    assert bodies(deliveries) == expected


async def test_subscriptions_end_in_time(path: Path) -> None:
    """A subscription whose time is over while no broker runs is gone; one that ends with its connection, too."""
    async with Broker(store=path) as broker, broker.connect(container_id="c") as connection:
        for name, policy, timeout in ("late", "link-detach", 1), ("never", "never", 0), ("with it", "session-end", 0):
            source = Source("topic.t", durable="configuration", expiry_policy=policy, timeout=timeout)  # type: ignore[arg-type]
            async with connection.receiver(source, name=name):
                pass
    with sqlite3.connect(path) as database:
        (deadline,) = database.execute("SELECT deadline FROM subscriptions WHERE name = 'late'").fetchone()
        database.execute("UPDATE subscriptions SET deadline = ? WHERE name = 'late'", (deadline - 100,))
    database.close()
    async with Broker(store=path) as broker:
        await anyio.lowlevel.checkpoint()
        assert [each.subscription for each in broker.topic("topic.t").subscriptions] == ["never"]


async def test_what_cannot_be_kept_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A durable subscription whose source has no encoding is refused, and costs nobody else anything."""

    def none(_: object) -> bytes:
        raise EncodeError("no encoding")

    monkeypatch.setattr(virtual_host_core, "encode", none)
    async with Broker(store=path) as broker, broker.connect(container_id="c") as connection:
        with pytest.raises(LinkDetached, match="no encoding"):
            async with connection.subscription("topic.t", "s"):
                pass
        async with connection.sender("q") as sender:
            await sender.send_many(durable(1))


async def test_a_great_commit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows are written in several passes of the event loop, and are there together."""
    monkeypatch.setattr(_store, "AT_ONCE", 10)
    passes, written = 0, list[tuple[int, int]]()
    async with Broker(store=path) as broker, anyio.create_task_group() as tasks:
        (store,) = broker._stores
        put = store.file.put

        def counted(kind: type[tuple[Any, ...]], rows: Sequence[tuple[Any, ...]]) -> None:
            if kind is MessageRow:
                written.append((passes, len(rows)))
            put(kind, rows)

        async def count() -> None:
            nonlocal passes
            while True:
                passes += 1
                await anyio.lowlevel.checkpoint()

        monkeypatch.setattr(store.file, "put", counted)
        async with broker.connect() as connection, connection.sender("q") as sender:
            async with connection.transaction() as transaction:
                for number in range(100):
                    await sender.send(Message(number, durable=True), transaction=transaction)
                tasks.start_soon(count)
            tasks.cancel_scope.cancel()
    assert sum(count for _, count in written) == 100
    assert max(count for _, count in written) == 10
    assert len({at for at, _ in written}) >= 5  # of two in a row both may come before the count, on trio
    async with Broker(store=path) as broker, broker.connect() as connection:
        assert bodies(await take(connection, "q")) == list(range(100))


@contextmanager
def full_disk(broker: Broker) -> Iterator[None]:
    """The file cannot grow: SQLite's own error."""
    (store,) = broker._stores
    run = store.file.run
    run("PRAGMA max_page_count = 1")
    try:
        yield
    finally:
        run("PRAGMA max_page_count = 1000000")


async def test_full_disk(path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is accepted: the connection is cut, and new ones are told why, until the store works again."""
    monkeypatch.setattr(_store, "RETRY", 0.01)
    large = b"x" * 100_000
    async with Broker(store=path) as broker:
        async with Connection(broker.url) as connection, connection.sender("q") as sender:
            await sender.send_many(durable("before"))
        with full_disk(broker):
            with pytest.raises(ConnectionLost):
                async with Connection(broker.url) as connection, connection.sender("q") as sender:
                    await sender.send(durable(large)[0])
            with pytest.raises(ConnectionClosed, match="disk is full") as caught:
                async with Connection(broker.url):
                    pass
            assert caught.value.condition == "amqp:resource-limit-exceeded"
        (store,) = broker._stores
        await store.wait_durable()
        async with Connection(broker.url) as connection, connection.sender("q") as sender:
            await sender.send_many(durable("after"))
    assert "connections are cut until it does: database or disk is full" in caplog.text
    async with Broker(store=path) as broker, broker.connect() as connection:
        assert bodies(await take(connection, "q")) == ["before", large, "after"]


def blocked(broker: Broker) -> str | None:
    return broker.blocked


async def test_removed_while_open(path: Path) -> None:
    """Nothing is accepted into a file that is gone with the broker."""
    async with Broker(store=path, close_timeout=0.1) as broker:
        async with broker.connect() as connection, connection.sender("q") as sender:
            await sender.send(Message(1, durable=True))
            os.unlink(path)
            with pytest.raises(ConnectionLost):
                await sender.send(Message(2, durable=True))
        with pytest.raises(AmqpError, match="moved or removed while it was open"):
            async with broker.connect():
                pass


async def test_little_room(path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Senders wait before the disk is full, and receivers make room: in the file, if the disk does not give any."""
    monkeypatch.setattr(_store, "LOOK_AGAIN", 0.01)
    free = [10_000_000]
    monkeypatch.setattr(shutil, "disk_usage", lambda path: types.SimpleNamespace(free=free[0]))
    limits = BrokerLimits(disk_free=1_000_000)
    async with Broker(store=path, limits=limits) as broker, Connection(broker.url) as connection:
        async with connection.sender("q") as sender, connection.receiver("q", credit=0) as receiver:
            await sender.send_many([durable(bytes(100_000))[0] for _ in range(20)])
            free[0] = 900_000
            await sender.send(durable("last")[0])
            assert blocked(broker) == "the disk of the store has room for less than 1000000 octets"
            while sender.credit:
                await sender.send(durable("on its way")[0])
            depth = broker.queue("q").depth
            receiver.add_credit(depth)
            for _ in range(depth):
                (await receiver.receive()).accept()
            with anyio.fail_after(60):
                await sender.send(durable("after")[0])
            assert not blocked(broker)
            free[0] = 600_000  # too little room for what is written beside the file
            await sender.send(durable("again")[0])
            assert blocked(broker)
            free[0] = 2_000_000
            with anyio.fail_after(60):
                await sender.send(durable("at the end")[0])
    assert caplog.text.count("senders are stopped: the disk") == caplog.text.count("senders may go on") == 2


async def test_room_of_the_log(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once receivers have emptied the queue, senders go on, though the log alone has filled the disk."""
    monkeypatch.setattr(_store, "LOOK_AGAIN", 0.01)

    def free() -> int:
        return 4_000_000 - sum(each.stat().st_size for each in path.parent.iterdir())

    monkeypatch.setattr(shutil, "disk_usage", lambda path: types.SimpleNamespace(free=free()))
    limits = BrokerLimits(disk_free=1_000_000)
    async with Broker(store=path, limits=limits) as broker, Connection(broker.url) as connection:
        async with connection.sender("q") as sender, connection.receiver("q", credit=0) as receiver:
            while not blocked(broker):
                await sender.send(durable(bytes(100_000))[0])
            depth = broker.queue("q").depth
            assert depth > 5
            receiver.add_credit(depth)
            for _ in range(depth):
                (await receiver.receive()).accept()
            accepted = False
            with anyio.fail_after(60):
                while not accepted:
                    await until(lambda: not blocked(broker))
                    with suppress(MessageRejected):  # the log of what was just removed may take the room once more
                        await sender.send(durable("after")[0])
                        accepted = True


async def test_room_to_remove(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender that goes on with the credit it had cannot take the room that receivers need to remove messages."""

    def free() -> int:
        return 4_000_000 - sum(each.stat().st_size for each in path.parent.iterdir())

    monkeypatch.setattr(shutil, "disk_usage", lambda path: types.SimpleNamespace(free=free()))
    payload = Message(bytes(5000), durable=True).encode()
    async with Broker(store=path, limits=BrokerLimits(disk_free=1_000_000)) as broker, await dial(broker) as stream:

        async def read_until(mark: bytes) -> None:
            data = b""
            while mark not in data:
                data += await stream.receive()

        attach = Attach(name="s", handle=0, role=False, source=Source(), target=Target("q"), initial_delivery_count=0)
        begin = Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100)
        await stream.send(b"AMQP\0\1\0\0" + frame(Open(container_id="raw")) + frame(begin) + frame(attach))
        await read_until(b"\0\x53\x13")  # credit
        transfers = [frame(Transfer(handle=0, delivery_id=n, delivery_tag=b"%d" % n), payload) for n in range(900)]
        await stream.send(b"".join(transfers) + frame(Detach(handle=0, closed=True)))
        await read_until(b"\0\x53\x16")  # its detach
        assert 100 < broker.queue("q").depth < 900
        assert free() > 400_000


@pytest.mark.parametrize("dialect", ["1.0", "0-9-1", "0-10", "fast"])
async def test_larger_than_what_is_free(path: Path, monkeypatch: pytest.MonkeyPatch, dialect: str) -> None:
    """A message that does not fit beside what came before is refused; smaller ones, and transient ones, are taken."""
    free = [3_000_000]
    monkeypatch.setattr(shutil, "disk_usage", lambda path: types.SimpleNamespace(free=free[0]))
    limits = BrokerLimits(disk_free=1_000_000)
    async with Broker(store=path, limits=limits) as broker, Connection(broker.url, dialect=dialect) as connection:
        async with connection.sender("q") as sender:
            with pytest.raises(
                MessageRejected, match=None if dialect == "0-9-1" else "no room for"
            ):  # a nack says no more
                await sender.send(durable(bytes(1_900_000))[0])
            await sender.send(Message(bytes(1_500_000), durable=False))
            await sender.send(durable(bytes(1_000_000))[0])
            assert broker.queue("q").depth == 2
            (store,) = broker._stores
            assert [store.fits(600_000) for _ in range(3)] == [True, True, False]  # together they are too large
            await sender.send(durable("small")[0])
            assert store.fits(600_000)
        assert not broker.blocked
    async with Broker(store=path, limits=BrokerLimits(disk_free=0)) as broker, Connection(broker.url) as connection:
        async with connection.sender("q") as sender:
            await sender.send(durable(bytes(4_000_000))[0])


async def test_full_disk_and_a_client_that_stays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `send` with reconnect waits until the disk has room again, and the message is there once."""
    monkeypatch.setattr(_store, "RETRY", 0.01)
    reconnect = Reconnect(initial_delay=0.01, max_delay=0.05)
    async with Broker(store=path) as broker:
        async with Connection(broker.url, container_id="c", reconnect=reconnect) as connection:
            async with connection.sender("q", receiver_settle_mode="second") as sender:
                async with anyio.create_task_group() as tasks:
                    with full_disk(broker):
                        happening = connection.events()
                        tasks.start_soon(sender.send, durable(b"x" * 100_000)[0])
                        failed = 0
                        while failed < 3:  # cut off before, and refused since
                            failed += isinstance(await anext(happening), ConnectionAttempted)
        async with broker.connect() as connection:
            assert len(await take(connection, "q")) == 1


async def test_full_disk_and_a_crash(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be written was not accepted, and is not there after the end of the broker."""
    monkeypatch.setattr(_store, "RETRY", 3600)
    async with Broker(store=path) as broker:
        async with Connection(broker.url) as connection, connection.sender("q") as sender:
            await sender.send_many(durable("before"))
        with full_disk(broker):
            with pytest.raises(ConnectionLost):
                async with Connection(broker.url) as connection, connection.sender("q") as sender:
                    await sender.send(durable(b"x" * 100_000)[0])
            (store,) = broker._stores
            monkeypatch.setattr(store, "commit", lambda: list(store._begin()))
    async with Broker(store=path) as broker, broker.connect() as connection:
        assert bodies(await take(connection, "q")) == ["before"]


async def test_in_use(path: Path) -> None:
    """A second broker on the file is refused, and neither harms the first nor leaves anything open."""
    async with Broker(store=path):
        with pytest.raises(StoreError, match="the store of a broker is in use"):
            async with Broker(store=path):
                pass
    async with Broker(store=path):
        pass


async def test_the_port_is_taken(path: Path) -> None:
    """A broker that cannot listen leaves the store to the next."""
    async with Broker() as first:
        port = int(first.url.rpartition(":")[2])
        with pytest.raises(OSError, match="in use"):
            async with Broker(port=port, store=path):
                pass
    async with Broker(store=path):
        pass


def test_what_a_store_can_hold(path: Path) -> None:
    """Messages larger than SQLite can keep are refused by the arguments."""
    with pytest.raises(ValueError, match="or less with a store"):
        Broker(store=path, max_message_size=2_000_000_000)
