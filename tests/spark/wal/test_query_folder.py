"""The folder of a query: what is known from it, and what a commit leaves."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from amqp10.spark._wal import query_folder
from amqp10.spark._wal.query_folder import (
    MAX_ID_AGE,
    batch_folders,
    check_writable,
    create_batch_folder,
    create_query_folder,
    delete_committed,
    queue_was_empty,
)
from amqp10.spark._wal.segments import Segment

from ...kit.spark.segment_files import SCHEMA, files, known, make, retired


def test_the_folder_of_a_query_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name, once it is there: a machine that loses its power does not lose all segments with it."""
    seen = []
    monkeypatch.setattr(
        query_folder, "sync_folder", lambda folder: seen.append((folder, [each.name for each in folder.iterdir()]))
    )
    create_query_folder(str(tmp_path / "query"))
    assert seen == [(tmp_path, ["query"])]


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


def test_a_commit_deletes_segments(tmp_path: Path) -> None:
    """Of confirmed ones nothing stays, of others their ids for a while; later batches are not touched."""
    wal = str(tmp_path)
    confirmed, uncertain, later = Segment(wal, 1, 0), Segment(wal, 2, 0), Segment(wal, 3, 0)
    make(confirmed, "a", confirmed=True)
    make(uncertain, "b", "c")
    make(later, "d")
    (uncertain.folder / "part-0.x.tmp").touch()
    delete_committed(wal, 2, 2)
    assert [number for number, _ in batch_folders(wal)] == [2, 3]
    assert files(uncertain) == ["part-0.ids"]
    assert files(later) == ["part-0.arrow"]
    assert known(wal) == {"b", "c", "d"}
    delete_committed(wal, 2, 2)  # again, as after a restart
    assert known(wal) == {"b", "c", "d"}
    later.confirm()
    delete_committed(wal, 100, 2)
    assert known(wal) == {"b", "c"}  # a broker may notice much later that its consumer is gone
    ids = retired(uncertain) / "part-0.ids"
    os.utime(ids, (0, time.time() - MAX_ID_AGE - 1))
    delete_committed(wal, 3, 2)
    assert known(wal) == {"b", "c"}  # a run may be the first in days
    delete_committed(wal, 4, 2)
    assert batch_folders(wal) == [(3, retired(later))]  # it says that there was one
    assert files(later) == []


def test_ids_are_on_the_disk_before_their_segment_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a machine that loses its power could have neither."""
    wal = str(tmp_path)
    segment = Segment(wal, 1, 0)
    make(segment, "a")
    seen = []

    def fsync(descriptor: int, original: Callable[[int], None] = os.fsync) -> None:
        original(descriptor)
        seen.append((os.fstat(descriptor).st_size, files(segment)))

    monkeypatch.setattr(os, "fsync", fsync)
    delete_committed(wal, 1, 2)
    assert files(segment) == ["part-0.ids"]
    assert seen == [((retired(segment) / "part-0.ids").stat().st_size, ["part-0.arrow", "part-0.ids.tmp"])]


def test_a_driver_that_dies_while_it_deletes(tmp_path: Path) -> None:
    """What it has not done is done at the next commit; until then the ids are known from the segment."""
    segment = Segment(str(tmp_path), 1, 0)
    make(segment, "a")
    segment.folder.rename(retired(segment))
    assert known(tmp_path) == {"a"}
    delete_committed(str(tmp_path), 1, 2)
    assert files(segment) == ["part-0.ids"]


def test_a_batch_that_was_committed_before(tmp_path: Path) -> None:
    """It has no folder any more, and gets none, whether something was kept of it or not."""
    wal = str(tmp_path)
    for number in (1, 2, 3):
        assert create_batch_folder(wal, number)
        make(Segment(wal, number, 0), "a", confirmed=number > 1)
    delete_committed(wal, 2, 1)
    assert [create_batch_folder(wal, number) for number in (1, 2, 3, 4)] == [False, False, True, True]
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["1.done", "2.done", "3", "4"]


def test_ids_are_kept_of_so_many_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest ones, where nothing is ever confirmed."""
    monkeypatch.setattr(query_folder, "MAX_ID_BATCHES", 3)
    for number in range(1, 6):
        make(Segment(str(tmp_path), number, 0), f"m{number}")
    delete_committed(str(tmp_path), 5, 1)
    assert known(tmp_path) == {"m3", "m4", "m5"}


def test_all_ids_or_none(tmp_path: Path) -> None:
    """With `dedupe=all` those of confirmed segments stay, too; with none nothing does."""
    wal = str(tmp_path)
    make(Segment(wal, 1, 0), "a", confirmed=True)
    make(Segment(wal, 1, 1), "b")
    delete_committed(wal, 1, 5, all_ids=True)
    assert known(wal) == {"a", "b"}
    delete_committed(wal, 6, 5, all_ids=True)
    assert known(wal) == {"b"}
    delete_committed(wal, 6, 0)
    assert files(Segment(wal, 1, 0)) == []


def test_the_end_of_the_queue(tmp_path: Path) -> None:
    """It came when all tasks saw it: one alone may be given nothing or be told too early; notes go with the segment."""
    wal = str(tmp_path)
    make(Segment(wal, 1, 0), "a", "b")
    make(Segment(wal, 1, 1))
    assert not queue_was_empty(wal, 1, 2)
    Segment(wal, 1, 1).record_empty()
    assert not queue_was_empty(wal, 1, 2)  # the other one received all it asked for
    Segment(wal, 1, 0).record_empty()
    assert queue_was_empty(wal, 1, 2)
    with Segment(wal, 1, 0).write(SCHEMA):
        assert not queue_was_empty(wal, 1, 2)  # another attempt has to see it itself
    Segment(wal, 1, 0).record_empty()
    assert queue_was_empty(wal, 1, 2)
    delete_committed(wal, 1, 2)
    assert files(Segment(wal, 1, 0)) == ["part-0.ids"]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    """It is made if need be; what is wrong with it is said with the option's name."""
    check_writable(str(tmp_path / "new" / "wal"))
    assert (tmp_path / "new" / "wal").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(
        ValueError, match=r"^amqp: option 'walLocation': '.*/file/wal' cannot be written: Not a directory"
    ):
        check_writable(str(tmp_path / "file" / "wal"))
