"""Write-ahead segments: whole or not there, one claimant at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

pytest.importorskip("pyspark")

from amqp10 import AmqpError
from amqp10.spark._wal import segments
from amqp10.spark._wal.query_folder import create_batch_folder, create_query_folder
from amqp10.spark._wal.redelivery import save_ids
from amqp10.spark._wal.segments import Claimant, Segment

from ...kit.spark.segment_files import SCHEMA, batch, files, make

FIRST = Claimant("run", 0)


def test_a_segment_is_there_when_it_is_whole(tmp_path: Path) -> None:
    """A draft has another name, and is gone when it is given up."""
    segment = Segment(str(tmp_path), 1, 0)
    segment.folder.mkdir()
    with segment.write(SCHEMA) as draft:
        draft.append(batch("a"))
        assert not segment.published
    assert files(segment) == []
    make(segment, "a", "b")
    assert files(segment) == ["part-0.arrow"]
    assert [each.to_pylist() for each in segment.read(["message_id"])] == [[{"message_id": "a"}, {"message_id": "b"}]]


def test_a_segment_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its content before it has its name; then the name, and that of its folder."""
    segment = Segment(str(tmp_path), 1, 0)
    done: list[str] = []

    def link(source: str, target: str, original: Callable[..., None] = os.link) -> None:
        done.append(f"link {Path(target).name}")
        original(source, target)

    def fsync(descriptor: int, original: Callable[[int], None] = os.fsync) -> None:
        original(descriptor)
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        done.append(str(path.relative_to(tmp_path.parent).with_suffix("") if path.is_dir() else path.suffix))

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "link", link)
    make(segment, "a")
    assert done == [".tmp", "link part-0.arrow", f"{tmp_path.name}/1", tmp_path.name]


@pytest.mark.anyio
async def test_their_owner_alone_reads_them(tmp_path: Path) -> None:
    """Segments, the ids that are kept of them, claims and locks have the rights 0600, whatever the umask."""
    before = os.umask(0o022)
    try:
        segment = Segment(str(tmp_path), 1, 0)
        make(segment, "a")
        save_ids(segment.path, ".ids.arrow")
        async with segment.publishing_lock(1):
            with segment.claimed(FIRST, 1):
                found = {path.name: path.stat().st_mode & 0o777 for path in segment.folder.iterdir()}
    finally:
        os.umask(before)
    assert len(found) >= 3
    assert set(found.values()) == {0o600}, found


def test_who_publishes_first_wins(tmp_path: Path) -> None:
    """The other one hears it, and leaves what is there."""
    segment = Segment(str(tmp_path), 1, 0)
    segment.folder.mkdir()
    with segment.write(SCHEMA) as slow:
        slow.append(batch("slow"))
        make(segment, "fast")
        assert not slow.publish()
    assert files(segment) == ["part-0.arrow"]
    assert [row["message_id"] for each in segment.read(["message_id"]) for row in each.to_pylist()] == ["fast"]


def test_a_column_that_the_segment_has_not(tmp_path: Path) -> None:
    """The schema of the query was changed in mid-batch, and the error says what to do."""
    segment = Segment(str(tmp_path), 1, 0)
    make(segment, "a")
    with pytest.raises(ValueError, match="without the column 'subject': finish this batch"):
        list(segment.read(["subject"]))


def test_a_second_scan_waits_for_the_first(tmp_path: Path) -> None:
    """It consumes nothing, and has the segment when the first has published it."""
    segment = Segment(str(tmp_path), 1, 0)
    segment.folder.mkdir()
    second: list[object] = []

    def scan() -> None:
        with segment.claimed(FIRST, 60) as claim:
            second.append(claim)

    with segment.claimed(FIRST, 60) as claim:
        assert claim is not None
        thread = threading.Thread(target=scan)
        thread.start()
        make(segment, "a")
    thread.join(10)
    assert second == [None]


@pytest.mark.parametrize("later", [Claimant("run", 1), Claimant("another", 0)])
def test_a_later_attempt_takes_over_at_once(tmp_path: Path, later: Claimant) -> None:
    """Of the same driver, or of one that was started since; giving up afterwards leaves its claim alone."""
    segment = Segment(str(tmp_path), 1, 0)
    segment.folder.mkdir()
    with segment.claimed(FIRST, 60) as dead:
        assert dead is not None
        with segment.claimed(later, 60) as claim:
            assert claim is not None
            dead.release()
            assert files(segment) == ["part-0.claim"]
    assert files(segment) == []


def test_a_claim_that_is_not_renewed_runs_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the lease the next one takes over; one that is renewed is waited for."""
    segment = Segment(str(tmp_path), 1, 0)
    segment.folder.mkdir()
    seconds = 0

    def sleep(_: float) -> None:
        nonlocal seconds
        seconds += 1
        if seconds in (8, 16):
            assert first is not None
            first.renew()
            os.utime(tmp_path / "1" / "part-0.claim", ns=(seconds, seconds))  # however coarse the clock of the disk is

    monkeypatch.setattr(segments, "time", SimpleNamespace(monotonic=lambda: seconds, sleep=sleep))
    with segment.claimed(FIRST, 10) as first:
        assert first is not None
        with segment.claimed(FIRST, 10) as second:
            assert second is not None
    assert seconds == 16 + 11


@pytest.mark.parametrize("content", ["[1]", "[" * 100_000], ids=["list", "nested"])
def test_a_claim_of_nobody_runs_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    """A file that says nothing of its claimant is waited for until the lease ends."""
    segment = Segment(str(tmp_path), 1, 0)
    segment.folder.mkdir()
    (tmp_path / "1" / "part-0.claim").write_text(content)
    seconds = count()
    monkeypatch.setattr(segments, "time", SimpleNamespace(monotonic=lambda: next(seconds), sleep=lambda _: None))
    with segment.claimed(FIRST, 10) as claim:
        assert claim is not None
    assert next(seconds) > 10


@pytest.mark.anyio
async def test_one_of_a_batch_publishes_at_a_time(tmp_path: Path) -> None:
    """The next one waits until the first is done; a task of another batch does not."""
    first, second, other = (Segment(str(tmp_path), batch, part) for batch, part in ((1, 0), (1, 1), (2, 0)))
    for segment in (first, other):
        segment.folder.mkdir()
    order = []

    async def publish(segment: Segment) -> None:
        async with segment.publishing_lock(60):
            order.append(segment)

    async with anyio.create_task_group() as tasks:
        async with first.publishing_lock(60):
            tasks.start_soon(publish, second)
            await publish(other)
            await anyio.wait_all_tasks_blocked()
            order.append(first)
    assert order == [other, first, second]


@pytest.mark.anyio
async def test_one_that_stands_still_while_it_publishes(tmp_path: Path) -> None:
    """The others are told who has the lock, and do not wait for ever."""
    first, second = (Segment(str(tmp_path), 1, part) for part in (0, 1))
    first.folder.mkdir()
    async with first.publishing_lock(60):
        with pytest.raises(AmqpError, match=r"1/lock: another task of the batch has held this lock for 0 s"):
            async with second.publishing_lock(0):
                pass


@pytest.mark.anyio
@pytest.mark.parametrize("slow", [True, False], ids=["one that is slow", "many in turn"])
async def test_those_that_publish_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: bool) -> None:
    """Who waits is patient as long as it says that it is alive, or there is always another one, and a little longer."""
    segment = Segment(str(tmp_path), 1, 0)
    segment.folder.mkdir()
    tries = 0

    def taken(*_: object) -> None:
        nonlocal tries
        tries += 1
        lock = tmp_path / "1" / "lock"
        if tries < 20 and slow:
            segment.renew_lock()
        elif tries < 20:
            lock.write_bytes(b"." * tries)
        moment = tries if tries < 20 and slow else 0
        os.utime(lock, ns=(moment, moment))  # however coarse the clock of the disk is
        raise BlockingIOError

    monkeypatch.setattr(segments, "fcntl", SimpleNamespace(flock=taken, LOCK_EX=0, LOCK_NB=0))
    monkeypatch.setattr(segments, "time", SimpleNamespace(monotonic=count().__next__))
    with pytest.raises(AmqpError, match="for 3 s: it hangs"):
        async with segment.publishing_lock(3):
            pass
    assert 20 < tries < 25


def test_another_disk(tmp_path: Path) -> None:
    """The driver makes a query's folder: a task that does not find it, or a later driver, sees another disk."""
    wal = tmp_path / "query"
    with pytest.raises(ValueError, match=r"there is no '.*/query', which the driver has made"):
        with Segment(str(wal), 1, 0).claimed(FIRST, 60):
            pass
    create_query_folder(str(wal))
    create_query_folder(str(wal))  # for a first batch that was planned, and never begun
    assert create_batch_folder(str(wal), 1)
    with Segment(str(wal), 1, 0).claimed(FIRST, 60) as claim:
        assert claim is not None
    with pytest.raises(ValueError, match=r"there is no '.*/elsewhere', where this query has written before"):
        create_batch_folder(str(tmp_path / "elsewhere"), 1)
