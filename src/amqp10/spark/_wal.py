"""The folder of a query in `walLocation`: made before its first batch, and emptied as Spark commits."""

from __future__ import annotations

import errno
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa

from ._again import keep_ids, rows
from ._segments import sync

CONFIRMED: Final = ".confirmed.ids"
KEPT_SECONDS: Final = 24 * 3600
"""How long ids of unconfirmed segments are kept: a broker may hear late that who took their messages is gone."""

KEPT_BATCHES: Final = 1000
"""The most batches of which such ids are kept, should a broker never confirm anything."""


def usable(location: str) -> None:
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


def begin(wal: str) -> None:
    """Make the folder of a query on the driver. Tasks do not, to find out that they see another disk."""
    os.makedirs(wal, exist_ok=True)
    sync(Path(wal).parent)


def see(wal: str) -> None:
    """See that the folder of a query is there: it was made before Spark heard of its first batch.

    Raises:
        ValueError: it is gone, with what it had of a batch that is repeated.
    """
    if not os.path.isdir(wal):
        raise ValueError(
            f"amqp: option 'walLocation': there is no {wal!r}, where this query has written before: it was another "
            "directory. If what was there is lost, make an empty one of that name"
        )


# What a query has


def batches(wal: str) -> list[int]:
    """The numbers of the batches of which there is something."""
    try:
        return sorted(int(name) for name in os.listdir(wal) if name.isdigit())
    except FileNotFoundError:
        return []


def saw_empty(wal: str, batch: int) -> bool:
    """Whether the queue was seen empty by a task of this batch."""
    return any((Path(wal) / f"{batch}").glob("part-*.empty"))


def known_rows(wal: str, *, batch: int | None = None, confirmed: bool = False) -> list[pa.Table]:
    """What is in a segment already, and may be delivered again: message-ids, with the bodies or their digests.

    Args:
        batch: all of its segments whatever their state: a link can lose a message that it still has, and another one
            be done with it by now.
        confirmed: those of segments that the broker has confirmed, too, of all batches.
    """
    found = []
    for each in batches(wal):
        for path in (Path(wal) / f"{each}").glob("part-*.*"):
            unsure = confirmed or each == batch or not _settled(path)
            if path.suffix == ".ids" or (path.suffix == ".arrow" and unsure):
                found += rows(path)
    return found


def retire(wal: str, committed: int, retained: int, *, all_ids: bool = False) -> None:
    """Delete the segments of the batches up to the one that is committed, and ids that were kept for long enough.

    Args:
        retained: for how many batches ids are kept, those of unconfirmed segments for `KEPT_SECONDS` as well; 0 for
            none.
        all_ids: those of confirmed segments, too.
    """
    done = [batch for batch in batches(wal) if batch <= committed]
    most = retained and max(retained, KEPT_BATCHES)
    first = max(0, len(done) - most)
    for batch in done[:first]:
        shutil.rmtree(Path(wal) / f"{batch}", ignore_errors=True)
    for batch in done[first:]:
        _retire(Path(wal) / f"{batch}", recent=batch > committed - retained, all_ids=all_ids)


def _retire(folder: Path, *, recent: bool, all_ids: bool) -> None:
    for path in folder.glob("part-*.arrow"):
        if not _settled(path):
            keep_ids(path, ".ids")
        elif all_ids:
            keep_ids(path, CONFIRMED)
        path.unlink(missing_ok=True)
    oldest = time.time() - KEPT_SECONDS
    for path in folder.iterdir():
        confirmed = path.name.endswith(CONFIRMED)
        kept = path.suffix == ".ids" and (recent or (not confirmed and path.stat().st_mtime > oldest))
        if not kept:
            path.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()  # if nothing is left


def _settled(path: Path) -> bool:
    return path.with_suffix(".settled").exists()
