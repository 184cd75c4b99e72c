"""Stores of unsettled deliveries: what the next connection, or process, finds, and when that is safe."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from amqp10 import DeliveryStore, LinkKey, MemoryDeliveryStore, SQLiteDeliveryStore, StoredDelivery
from amqp10.errors import EncodeError, StoreError
from amqp10.messaging import ACCEPTED, RELEASED, Error, Modified, Rejected
from amqp10.types import Symbol

pytestmark = pytest.mark.anyio

OUT = LinkKey("me", "orders", "sender")
IN = LinkKey("me", "orders", "receiver")
Next = Callable[[], DeliveryStore]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deliveries"


@pytest.fixture(params=["memory", "sqlite"])
def following(request: pytest.FixtureRequest, path: Path) -> Iterator[Next]:
    """Makes the store of the next connection; those before are closed, and for files that is the next process."""
    stores: list[DeliveryStore] = []

    def make() -> DeliveryStore:
        if stores and request.param == "memory":
            return stores[0]
        for store in stores:
            store.close()
        stores.append(SQLiteDeliveryStore(path) if request.param == "sqlite" else MemoryDeliveryStore())
        return stores[-1]

    yield make
    for store in stores:
        store.close()


def facts(deliveries: list[StoredDelivery]) -> list[tuple[bytes, bytes, int, object]]:
    return [(each.tag, each.payload, each.message_format, each.outcome) for each in deliveries]


async def test_what_is_unsettled_is_there(following: Next) -> None:
    """In order, each link with its own; the two directions of one name are two links."""
    store = following()
    store.add(OUT, b"1", b"one", 0)
    store.add(OUT, b"2", b"two", 7)
    store.outcome(IN, b"1", ACCEPTED)
    await store.commit()
    store = following()
    assert facts(store.load(OUT)) == [(b"1", b"one", 0, None), (b"2", b"two", 7, None)]
    assert facts(store.load(IN)) == [(b"1", b"", 0, ACCEPTED)]
    assert store.load(LinkKey("you", "orders", "sender")) == []


async def test_what_is_settled_is_not(following: Next) -> None:
    """Settled before it was committed, or after; unknown tags and links are no error."""
    store = following()
    store.add(OUT, b"1", b"one", 0)
    store.add(OUT, b"2", b"two", 0)
    await store.commit()
    store.add(OUT, b"3", b"three", 0)
    store.settled(OUT, [b"1", b"3", b"unknown"])
    store.settled(IN, [b"1"])
    await store.commit()
    store = following()
    assert facts(store.load(OUT)) == [(b"2", b"two", 0, None)]
    store.settled(OUT, [b"2"])
    assert following().load(OUT) == []


@pytest.mark.parametrize(
    "outcome",
    [
        ACCEPTED,
        RELEASED,
        Rejected(Error(Symbol("amqp:decode-error"), "why")),
        Modified(delivery_failed=True, message_annotations={Symbol("x-opt-n"): 1}),
    ],
    ids=lambda outcome: type(outcome).__name__,
)
async def test_outcomes(following: Next, outcome: Rejected) -> None:
    """Every outcome comes back as it was given; the last one for a tag counts."""
    store = following()
    store.outcome(IN, b"1", Modified())
    await store.commit()
    store.outcome(IN, b"1", outcome)
    assert facts(store.load(IN)) == [(b"1", b"", 0, outcome)]
    await store.commit()
    assert facts(following().load(IN)) == [(b"1", b"", 0, outcome)]


async def test_closed_links_are_forgotten(following: Next) -> None:
    """The unsettled deliveries of a closed link are removed; other links keep theirs."""
    store = following()
    store.add(OUT, b"1", b"one", 0)
    store.outcome(IN, b"1", ACCEPTED)
    store.end(OUT)
    store.end(LinkKey("me", "unknown", "sender"))
    await store.commit()
    store = following()
    assert (store.load(OUT), len(store.load(IN))) == ([], 1)


async def test_many_share_a_commit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one commit is under way others wait, and one more is enough for all of them."""
    commits, asked, allowed = 0, threading.Event(), threading.Event()
    with SQLiteDeliveryStore(path) as store:
        commit = store._file.commit

        def slow() -> None:
            nonlocal commits
            commits += 1
            asked.set()
            assert allowed.wait(30)
            commit()

        monkeypatch.setattr(store._file, "commit", slow)
        async with anyio.create_task_group() as tasks:
            store.add(OUT, b"0", b"first", 0)
            tasks.start_soon(store.commit)
            await anyio.to_thread.run_sync(asked.wait)
            store.settled(OUT, [b"0"])
            for number in range(1, 50):
                store.add(OUT, bytes([number]), b"later", 0)
                tasks.start_soon(store.commit)
            await anyio.wait_all_tasks_blocked()
            assert commits == 1
            allowed.set()
        assert commits == 2
        await store.commit()
        assert commits == 2
    with SQLiteDeliveryStore(path) as store:
        assert [each.tag for each in store.load(OUT)] == [bytes([number]) for number in range(1, 50)]


async def test_the_file_was_moved(path: Path, tmp_path: Path) -> None:
    """A commit into a file that nobody would find again fails, and forgets nothing."""
    elsewhere = tmp_path / "elsewhere"
    with SQLiteDeliveryStore(path) as store:
        os.rename(path, elsewhere)
        store.add(OUT, b"0", b"kept", 0)
        with pytest.raises(StoreError, match="moved or removed while it was open"):
            await store.commit()
        os.rename(elsewhere, path)
        await store.commit()
    with SQLiteDeliveryStore(path) as store:
        assert [each.tag for each in store.load(OUT)] == [b"0"]


@pytest.mark.parametrize("where", ["begin", "run_many", "commit"])
async def test_a_full_disk(path: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that fails says so each time, and forgets nothing; what was settled meanwhile is not written later."""

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with SQLiteDeliveryStore(path) as store:
        store.add(OUT, b"0", b"kept", 0)
        store.add(OUT, b"1", b"settled", 0)
        await store.commit()
        store.add(OUT, b"2", b"new", 0)
        store.add(OUT, b"3", b"new and settled", 0)
        store.settled(OUT, [b"1"])
        with monkeypatch.context() as patch:
            patch.setattr(store._file, where, full)
            for _ in range(2):
                with pytest.raises(StoreError, match="disk is full"):
                    await store.commit()
            store.settled(OUT, [b"3"])
        await store.commit()
    with SQLiteDeliveryStore(path) as store:
        assert [each.tag for each in store.load(OUT)] == [b"0", b"2"]


async def test_cancelled(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that has begun goes to its end, and counts."""
    with SQLiteDeliveryStore(path) as store:
        store.add(OUT, b"1", b"one", 0)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await store.commit()
        await store.commit()
        assert store._file.run("SELECT tag FROM deliveries").fetchall() == [(b"1",)]


def test_closing_commits(path: Path) -> None:
    """A change that was not committed is there for the next process. Closing twice does nothing."""
    store = SQLiteDeliveryStore(path)
    store.add(OUT, b"1", b"one", 0)
    store.close()
    store.close()
    with SQLiteDeliveryStore(path) as store:
        assert len(store.load(OUT)) == 1


def test_closing_fails(path: Path) -> None:
    """A close that cannot commit says so, and lets go of the file."""
    store = SQLiteDeliveryStore(path)
    store.add(OUT, b"1", b"x" * 100_000, 0)
    store._file.run("PRAGMA max_page_count = 1")
    with pytest.raises(StoreError, match="full"):
        store.close()
    with SQLiteDeliveryStore(path) as store:
        assert store.load(OUT) == []


def test_files_that_are_none(path: Path, tmp_path: Path) -> None:
    """In use, of a broker, damaged within: each is refused by name."""
    with SQLiteDeliveryStore(path), pytest.raises(StoreError, match="a store of deliveries is in use"):
        SQLiteDeliveryStore(path)
    with sqlite3.connect(tmp_path / "other") as other:
        other.execute("CREATE TABLE theirs (x)")
    other.close()
    with pytest.raises(StoreError, match="not a store of deliveries"):
        SQLiteDeliveryStore(tmp_path / "other")
    with SQLiteDeliveryStore(path) as store:
        store._file.run("INSERT INTO deliveries VALUES (1, '', '', 'receiver', x'00', 0, x'', x'ff')")
    with pytest.raises(StoreError):
        SQLiteDeliveryStore(path)


KILLED = """
import anyio, os, signal, sys
from amqp10.client._stores.store import LinkKey
from amqp10.client._stores.sqlite import SQLiteDeliveryStore

async def main():
    store = SQLiteDeliveryStore(sys.argv[1])
    key = LinkKey("me", "orders", "sender")
    for number in range(100):
        store.add(key, bytes([number]), b"payload", 0)
        if number >= 10:
            store.settled(key, [bytes([number - 10])])
        await store.commit()
    store.settled(key, [bytes([99])])
    os.kill(os.getpid(), signal.SIGKILL)

anyio.run(main)
"""


def test_killed(path: Path) -> None:
    """Changes that were committed before the process was killed are there. Later ones may be missing."""
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path)], timeout=50)
    assert ended.returncode == -signal.SIGKILL
    with SQLiteDeliveryStore(path) as store:
        assert [each.tag for each in store.load(OUT)] == [bytes([number]) for number in range(90, 100)]


async def test_an_outcome_that_cannot_be_encoded(path: Path) -> None:
    """It is refused when it is given, and nothing else of the store is forgotten because of it."""
    with SQLiteDeliveryStore(path) as store:
        store.add(OUT, b"1", b"one", 0)
        store.outcome(IN, b"1", ACCEPTED)
        with pytest.raises(EncodeError):
            store.outcome(IN, b"1", Modified(message_annotations={Symbol("x-opt-n"): object()}))
        await store.commit()
    with SQLiteDeliveryStore(path) as store:
        assert facts(store.load(OUT)) == [(b"1", b"one", 0, None)]
        assert facts(store.load(IN)) == [(b"1", b"", 0, ACCEPTED)]


async def test_what_cannot_be_formed_is_not_forgotten(path: Path) -> None:
    """A row that cannot be formed fails the commit; the others are written by the next one that can be."""
    with SQLiteDeliveryStore(path) as store:
        store.outcome(IN, b"1", ACCEPTED)
        annotations: dict[Symbol, object] = {}
        store.outcome(IN, b"2", Modified(message_annotations=annotations))
        annotations[Symbol("x-opt-n")] = object()
        for _ in range(2):
            with pytest.raises(EncodeError):
                await store.commit()
        annotations.clear()
        await store.commit()
    with SQLiteDeliveryStore(path) as store:
        assert [each.tag for each in store.load(IN)] == [b"1", b"2"]
