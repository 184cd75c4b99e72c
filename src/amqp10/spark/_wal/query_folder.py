"""The folder of a query in `walLocation`: created before its first batch, and emptied as Spark commits."""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa

from .redelivery import read_rows, save_ids
from .segments import Segment, sync_folder

CONFIRMED: Final = ".confirmed.ids"
DONE: Final = ".done"
MAX_ID_AGE: Final = 24 * 3600
"""Seconds to keep ids of unconfirmed segments: a broker may notice late that a consumer is gone."""

MAX_ID_BATCHES: Final = 1000
"""Batches whose ids are kept at most, for a broker that never confirms anything."""


def check_writable(location: str) -> None:
    """Check that segments can be written to this directory.

    Raises:
        ValueError: the directory cannot be created or written to.
    """
    try:
        os.makedirs(location, exist_ok=True)
        if not os.access(location, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise ValueError(f"amqp: option 'walLocation': {location!r} cannot be written: {error.strerror}") from None


def create_query_folder(wal: str) -> None:
    """Create the folder of a query, on the driver. Tasks never do, so that they notice if they see another disk."""
    os.makedirs(wal, exist_ok=True)
    sync_folder(Path(wal).parent)


def create_batch_folder(wal: str, batch: int) -> bool:
    """Create the folder of a batch; return False if the batch was committed before, so that its segments are deleted.

    Raises:
        ValueError: the folder of the query is gone, and with it segments of a batch that may be repeated.
    """
    if not os.path.isdir(wal):
        raise ValueError(
            f"amqp: option 'walLocation': there is no {wal!r}, where this query has written before. Give the "
            "directory that it had; if that is lost, create an empty folder of this name"
        )
    if any(number >= batch for number, folder in batch_folders(wal) if folder.suffix == DONE):
        return False
    Segment(wal, batch, 0).folder.mkdir(exist_ok=True)
    return True


def batch_folders(wal: str) -> list[tuple[int, Path]]:
    """Return the number and folder of each batch that has a folder, in order."""
    try:
        return sorted((int(path.stem), path) for path in Path(wal).iterdir() if path.stem.isdigit())
    except FileNotFoundError:
        return []


def queue_was_empty(wal: str, batch: int, parts: int) -> bool:
    """Return whether all `parts` tasks of this batch saw the queue empty.

    One alone does not count. A broker may deliver everything to another link, as with a single active consumer. And a
    busy one may answer a drain before it has looked: then the tasks that received all they asked for tell that there
    is more.
    """
    return len([*(Path(wal) / f"{batch}").glob("part-*.empty")]) == parts


def known_rows(wal: str, *, batch: int | None = None, confirmed: bool = False) -> list[pa.Table]:
    """Return the rows of segments whose messages may be delivered again: message-ids, with bodies or their digests.

    Args:
        batch: include all segments of this batch, confirmed or not: the broker may take a message from a slow link and
            deliver it to another, which may have confirmed it by now.
        confirmed: include confirmed segments of all batches.
    """
    found = []
    for each, folder in batch_folders(wal):
        for path in folder.glob("part-*.*"):
            unsure = confirmed or each == batch or not _settled(path)
            if path.suffix == ".ids" or (path.suffix == ".arrow" and unsure):
                found += read_rows(path)
    return found


def delete_committed(wal: str, committed: int, retained: int, *, all_ids: bool = False) -> None:
    """Delete the segments of all batches up to `committed`, and ids that were kept long enough.

    Args:
        retained: number of batches whose ids are kept; ids of unconfirmed segments are also kept for `MAX_ID_AGE`
            seconds. 0 keeps no ids.
        all_ids: keep the ids of confirmed segments, too.
    """
    for batch, folder in batch_folders(wal):
        if batch <= committed and folder.suffix != DONE:
            folder.rename(folder.with_suffix(DONE))  # in one step, before any file is deleted
    done = [each for each in batch_folders(wal) if each[1].suffix == DONE]
    oldest = len(done) - (retained and max(retained, MAX_ID_BATCHES))
    for number, (batch, folder) in enumerate(done):
        if number >= oldest:
            _save_ids(folder, all_ids=all_ids)
        _delete_files(folder, recent=batch > committed - retained, none=number < oldest)
        if number + 1 < len(done):  # the last folder stays: it shows which batch was committed
            with suppress(OSError):
                folder.rmdir()  # if nothing is left


def _save_ids(folder: Path, *, all_ids: bool) -> None:
    for path in folder.glob("part-*.arrow"):
        if not _settled(path):
            save_ids(path, ".ids")
        elif all_ids:
            save_ids(path, CONFIRMED)


def _delete_files(folder: Path, *, recent: bool, none: bool) -> None:
    oldest = time.time() - MAX_ID_AGE
    for path in folder.iterdir():
        confirmed = path.name.endswith(CONFIRMED)
        kept = path.suffix == ".ids" and (recent or (not confirmed and path.stat().st_mtime > oldest))
        if none or not kept:
            path.unlink(missing_ok=True)


def _settled(path: Path) -> bool:
    return path.with_suffix(".settled").exists()
