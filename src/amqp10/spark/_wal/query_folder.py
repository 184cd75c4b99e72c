"""The folder of a query in `walLocation`: made before its first batch, and emptied as Spark commits."""

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
"""How long ids of unconfirmed segments are kept: a broker may hear late that who took their messages is gone."""

MAX_ID_BATCHES: Final = 1000
"""The most batches of which such ids are kept, should a broker never confirm anything."""


def check_writable(location: str) -> None:
    """See that segments can be made there.

    Raises:
        ValueError: they cannot.
    """
    try:
        os.makedirs(location, exist_ok=True)
        if not os.access(location, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise ValueError(f"amqp: option 'walLocation': {location!r} cannot be written: {error.strerror}") from None


def create_query_folder(wal: str) -> None:
    """Make the folder of a query on the driver. Tasks do not, to find out that they see another disk."""
    os.makedirs(wal, exist_ok=True)
    sync_folder(Path(wal).parent)


def create_batch_folder(wal: str, batch: int) -> bool:
    """Make the folder of a batch; False if the batch was committed before, so that its segments are gone.

    Raises:
        ValueError: that of the query is gone, with what it had of a batch that is repeated.
    """
    if not os.path.isdir(wal):
        raise ValueError(
            f"amqp: option 'walLocation': there is no {wal!r}, where this query has written before: it was another "
            "directory. If what was there is lost, make an empty one of that name"
        )
    if any(number >= batch for number, folder in batch_folders(wal) if folder.suffix == DONE):
        return False
    Segment(wal, batch, 0).folder.mkdir(exist_ok=True)
    return True


# What a query has


def batch_folders(wal: str) -> list[tuple[int, Path]]:
    """The batches of which there is something, by their numbers, and their folders."""
    try:
        return sorted((int(path.stem), path) for path in Path(wal).iterdir() if path.stem.isdigit())
    except FileNotFoundError:
        return []


def queue_was_empty(wal: str, batch: int, parts: int) -> bool:
    """Whether the queue was seen empty by a task of this batch that has `parts` of them.

    One that found nothing does not count alone: a broker may give all to one link, as with a single active consumer.
    """
    folder = Path(wal) / f"{batch}"
    return any(folder.glob("part-*.empty")) or len([*folder.glob("part-*.nothing")]) == parts


def known_rows(wal: str, *, batch: int | None = None, confirmed: bool = False) -> list[pa.Table]:
    """What is in a segment already, and may be delivered again: message-ids, with the bodies or their digests.

    Args:
        batch: all of its segments whatever their state: a link can lose a message that it still has, and another one
            be done with it by now.
        confirmed: those of segments that the broker has confirmed, too, of all batches.
    """
    found = []
    for each, folder in batch_folders(wal):
        for path in folder.glob("part-*.*"):
            unsure = confirmed or each == batch or not _settled(path)
            if path.suffix == ".ids" or (path.suffix == ".arrow" and unsure):
                found += read_rows(path)
    return found


def delete_committed(wal: str, committed: int, retained: int, *, all_ids: bool = False) -> None:
    """Delete the segments of the batches up to the one that is committed, and ids that were kept for long enough.

    Args:
        retained: for how many batches ids are kept, those of unconfirmed segments for `KEPT_SECONDS` as well; 0 for
            none.
        all_ids: those of confirmed segments, too.
    """
    for batch, folder in batch_folders(wal):
        if batch <= committed and folder.suffix != DONE:
            folder.rename(folder.with_suffix(DONE))  # at once, before anything of it is deleted
    done = [each for each in batch_folders(wal) if each[1].suffix == DONE]
    oldest = len(done) - (retained and max(retained, MAX_ID_BATCHES))
    for number, (batch, folder) in enumerate(done):
        if number >= oldest:
            _save_ids(folder, all_ids=all_ids)
        _delete_files(folder, recent=batch > committed - retained, none=number < oldest)
        if number + 1 < len(done):  # the last one says that there was one
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
