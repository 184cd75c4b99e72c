"""Write-ahead segments: whole or not there, one claimant at a time, and what a commit leaves."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("pyspark")

import pyarrow as pa

from amqp10.spark import _segments
from amqp10.spark._segments import KEPT_SECONDS, Claimant, Segment, begin, known_rows, retire, saw_empty, see, usable

SCHEMA = pa.schema([("body", pa.binary()), ("message_id", pa.string())])
FIRST = Claimant("run", 0)


def batch(*ids: str | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"body": [b"x"] * len(ids), "message_id": list(ids)}, SCHEMA)


def make(segment: Segment, *ids: str | None, confirmed: bool = False) -> None:
    segment.folder.mkdir(parents=True, exist_ok=True)
    with segment.write(SCHEMA) as draft:
        draft.append(batch(*ids))
        assert draft.publish()
    if confirmed:
        segment.confirm()


def known(wal: Path | str, **which: Any) -> set[str]:
    return {each for table in known_rows(str(wal), **which) for each in table.column("message_id").to_pylist() if each}


def files(segment: Segment) -> list[str]:
    return sorted(path.name for path in segment.folder.iterdir()) if segment.folder.exists() else []


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
    with segment.claimed(FIRST, 60) as dead:
        assert dead is not None
        with segment.claimed(later, 60) as claim:
            assert claim is not None
            dead.give_up()
            assert files(segment) == ["part-0.claim"]
    assert files(segment) == []


def test_a_claim_that_is_not_renewed_runs_out(tmp_path: Path) -> None:
    """After the lease the next one takes over; one that is renewed is waited for."""
    segment = Segment(str(tmp_path), 1, 0)
    with segment.claimed(FIRST, 60) as first:
        assert first is not None
        began = time.monotonic()
        renewing = threading.Timer(0.3, first.renew)
        renewing.start()
        with segment.claimed(FIRST, 0.5) as second:
            assert second is not None
            assert time.monotonic() - began >= 0.75
        renewing.join()


def test_ids_that_are_known(tmp_path: Path) -> None:
    """Those of unconfirmed segments; of all, when that is asked for."""
    make(Segment(str(tmp_path), 1, 0), "a", None)
    make(Segment(str(tmp_path), 1, 1), "b", confirmed=True)
    make(Segment(str(tmp_path), 2, 0), "c", "")
    assert known(tmp_path) == {"a", "c"}
    assert known(tmp_path, confirmed=True) == {"a", "b", "c"}
    assert known(tmp_path / "none") == set()


def test_ids_of_the_same_batch(tmp_path: Path) -> None:
    """Are known whatever became of their segment: who holds a message that another has done with, has lost it."""
    make(Segment(str(tmp_path), 1, 0), "a", confirmed=True)
    make(Segment(str(tmp_path), 2, 0), "b", confirmed=True)
    assert known(tmp_path, batch=2) == {"b"}


@pytest.mark.anyio
async def test_one_of_a_batch_publishes_at_a_time(tmp_path: Path) -> None:
    """The next one waits until the first is done; a task of another batch does not."""
    first, second, other = (Segment(str(tmp_path), batch, part) for batch, part in ((1, 0), (1, 1), (2, 0)))
    for segment in (first, other):
        segment.folder.mkdir()
    order = []

    async def publish(segment: Segment) -> None:
        async with segment.alone():
            order.append(segment)

    async with anyio.create_task_group() as tasks:
        async with first.alone():
            tasks.start_soon(publish, second)
            await publish(other)
            await anyio.wait_all_tasks_blocked()
            order.append(first)
    assert order == [other, first, second]


def test_a_draft_drops_what_is_known(tmp_path: Path) -> None:
    """Rows without an id are never known."""
    segment = Segment(str(tmp_path), 2, 0)
    segment.folder.mkdir()
    make(Segment(str(tmp_path), 1, 0), "a", None, "", "c")
    with segment.write(SCHEMA) as draft:
        draft.append(batch("a", None, "b"))
        draft.append(batch("c", "a"))
        assert draft.drop(known_rows(str(tmp_path))) == 3
        assert draft.drop(known_rows(str(tmp_path))) == 0
        assert draft.publish()
    assert [row["message_id"] for each in segment.read(["message_id"]) for row in each.to_pylist()] == [None, "b"]
    assert files(segment) == ["part-0.arrow"]


@pytest.mark.parametrize("committed", [False, True], ids=["in a segment", "in its ids"])
@pytest.mark.parametrize(
    ("kind", "body", "other"),
    [
        (pa.binary(), b"\xff", b"other"),
        (pa.string(), "one", "other"),
        (pa.struct({"value": pa.binary(), "metadata": pa.binary()}), {"value": b"a", "metadata": b"b"}, None),
    ],
    ids=["binary", "string", "variant"],
)
def test_an_id_that_is_used_again(tmp_path: Path, kind: pa.DataType, body: Any, other: Any, committed: bool) -> None:
    """A message with another body is another message; without bodies the id has to do."""
    wal = str(tmp_path)
    schema = pa.schema([("body", kind), ("message_id", pa.string())])

    def write(segment: Segment, *bodies: Any, columns: pa.Schema = schema) -> int:
        segment.folder.mkdir(parents=True)
        with segment.write(columns) as draft:
            rows = pa.RecordBatch.from_pydict({"body": list(bodies), "message_id": ["a"] * len(bodies)}, schema)
            draft.append(rows.select(columns.names))
            dropped = draft.drop(known_rows(wal))
            assert draft.publish()
        return dropped

    assert write(Segment(wal, 1, 0), body) == 0
    if committed:
        retire(wal, 1, 10)
    dropped = write(Segment(wal, 2, 0), other, body, other)
    assert dropped == 1
    assert [row["body"] for rows in Segment(wal, 2, 0).read(["body"]) for row in rows.to_pylist()] == [other, other]
    assert write(Segment(wal, 3, 0), other, columns=pa.schema([("message_id", pa.string())])) == 1


def test_a_commit_deletes_segments(tmp_path: Path) -> None:
    """Of confirmed ones nothing stays, of others their ids for a while; later batches are not touched."""
    wal = str(tmp_path)
    confirmed, uncertain, later = Segment(wal, 1, 0), Segment(wal, 2, 0), Segment(wal, 3, 0)
    make(confirmed, "a", confirmed=True)
    make(uncertain, "b", "c")
    make(later, "d")
    (uncertain.folder / "part-0.x.tmp").touch()
    retire(wal, 2, 2)
    assert _segments.batches(wal) == [2, 3]
    assert files(uncertain) == ["part-0.ids"]
    assert files(later) == ["part-0.arrow"]
    assert known(wal) == {"b", "c", "d"}
    retire(wal, 2, 2)  # again, as after a restart
    assert known(wal) == {"b", "c", "d"}
    later.confirm()
    retire(wal, 100, 2)
    assert known(wal) == {"b", "c"}  # a broker may notice much later that its consumer is gone
    ids = uncertain.folder / "part-0.ids"
    os.utime(ids, (0, time.time() - KEPT_SECONDS - 1))
    retire(wal, 3, 2)
    assert known(wal) == {"b", "c"}  # a run may be the first in days
    retire(wal, 4, 2)
    assert _segments.batches(wal) == []


def test_ids_are_kept_of_so_many_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest ones, where nothing is ever confirmed."""
    monkeypatch.setattr(_segments, "KEPT_BATCHES", 3)
    for number in range(1, 6):
        make(Segment(str(tmp_path), number, 0), f"m{number}")
    retire(str(tmp_path), 5, 1)
    assert known(tmp_path) == {"m3", "m4", "m5"}


def test_all_ids_or_none(tmp_path: Path) -> None:
    """With `dedupe=all` those of confirmed segments stay, too; with none nothing does."""
    wal = str(tmp_path)
    make(Segment(wal, 1, 0), "a", confirmed=True)
    make(Segment(wal, 1, 1), "b")
    retire(wal, 1, 5, all_ids=True)
    assert known(wal) == {"a", "b"}
    retire(wal, 6, 5, all_ids=True)
    assert known(wal) == {"b"}
    retire(wal, 6, 0)
    assert _segments.batches(wal) == []


def test_the_end_of_the_queue(tmp_path: Path) -> None:
    """One task of a batch that saw it is enough; the note goes with the segment."""
    wal = str(tmp_path)
    make(Segment(wal, 1, 0), "a", "b")
    make(Segment(wal, 1, 1))
    assert not saw_empty(wal, 1)
    Segment(wal, 1, 1).note_empty()
    assert saw_empty(wal, 1)
    with Segment(wal, 1, 1).write(SCHEMA):
        assert not saw_empty(wal, 1)  # another attempt has to see it itself
    Segment(wal, 1, 1).note_empty()
    retire(wal, 1, 2)
    assert files(Segment(wal, 1, 0)) == ["part-0.ids"]


def test_another_disk(tmp_path: Path) -> None:
    """The driver makes a query's folder: a task that does not find it, or a later driver, sees another disk."""
    wal = tmp_path / "query"
    with pytest.raises(ValueError, match=r"there is no '.*/query', which the driver has made"):
        with Segment(str(wal), 1, 0).claimed(FIRST, 60):
            pass
    begin(str(wal))
    with Segment(str(wal), 1, 0).claimed(FIRST, 60) as claim:
        assert claim is not None
    begin(str(wal))  # for a first batch that was planned, and never begun
    see(str(wal))
    with pytest.raises(ValueError, match=r"there is no '.*/elsewhere', where this query has written before"):
        see(str(tmp_path / "elsewhere"))


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    """It is made if need be; what is wrong with it is said with the option's name."""
    usable(str(tmp_path / "new" / "wal"))
    assert (tmp_path / "new" / "wal").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(
        ValueError, match=r"^amqp: option 'walLocation': '.*/file/wal' cannot be written: Not a directory"
    ):
        usable(str(tmp_path / "file" / "wal"))
