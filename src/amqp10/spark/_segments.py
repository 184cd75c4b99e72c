"""Write-ahead segments: what a task took from a queue, on disk before the broker hears that it was taken.

    walLocation/<query>/<batch>/part-0.arrow      the rows, once they are whole: published by a hard link, all at once
                                part-0.settled    the broker has confirmed that the messages are gone there
                                part-0.claim      who consumes for this segment just now
                                part-0.empty      its task saw the queue empty
                                part-0.ids        after the commit: message-ids of a segment that was never confirmed
                                part-0.confirmed.ids  the same of one that was, where that is asked for
                                lock              held by the one task of the batch that publishes just now

A segment that is there is the answer of its partition, for every retry, replay and second scan. One that is not
confirmed may have its messages delivered again: they are known by their ids and bodies, and dropped. No broker's mark
on a redelivered message is asked for: Artemis sets none, and others forget it when they are restarted.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import socket
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import anyio
import pyarrow as pa
import pyarrow.compute as pc

IDS: Final = "message_id"
BODY: Final = "body"
DIGEST: Final = "digest"
CONFIRMED: Final = ".confirmed.ids"
POLL: Final = 0.1
"""Seconds between two looks for a segment that another task is about to publish."""

LOCK_POLL: Final = 0.01
"""Seconds between two tries to be the one that publishes."""

KEPT_SECONDS: Final = 24 * 3600
"""How long ids of unconfirmed segments are kept: a broker may hear late that who took their messages is gone."""

KEPT_BATCHES: Final = 1000
"""The most batches of which such ids are kept, should a broker never confirm anything."""


@dataclass(frozen=True, slots=True)
class Claimant:
    """Who consumes.

    Attributes:
        run: of the driver; another one's tasks are dead, or as good as dead.
        attempt: of the task; an earlier one has failed, or is slow.
    """

    run: str
    attempt: int

    def goes_before(self, other: dict[str, object]) -> bool:
        attempt = other.get("attempt")
        return other.get("run") != self.run or not isinstance(attempt, int) or attempt < self.attempt


@dataclass(frozen=True, slots=True)
class Segment:
    """The place of one segment."""

    wal: str
    batch: int
    part: int

    @property
    def folder(self) -> Path:
        return Path(self.wal) / f"{self.batch}"

    def _file(self, kind: str) -> Path:
        return self.folder / f"part-{self.part}.{kind}"

    @property
    def path(self) -> Path:
        return self._file("arrow")

    @property
    def published(self) -> bool:
        return self.path.exists()

    def read(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        """Its rows, with these columns.

        Raises:
            ValueError: it was written for a query without one of them.
        """
        with pa.memory_map(str(self.path)) as source, pa.ipc.open_stream(source) as batches:
            missing = [name for name in names if name not in batches.schema.names]
            if missing:
                raise ValueError(
                    f"amqp: {self.path} was written without the column {missing[0]!r}: finish this batch with the "
                    "schema that the query had, then change it"
                )
            for batch in batches:
                yield batch.select(names)

    @contextmanager
    def claimed(self, who: Claimant, lease: float) -> Iterator[Claim | None]:
        """The right to consume for this segment; None when it is published meanwhile, by whoever had that right.

        Raises:
            ValueError: the folder that the driver has made is not there: this machine sees another disk.
        """
        if not os.path.isdir(self.wal):
            raise ValueError(
                f"amqp: option 'walLocation': on {socket.gethostname()} there is no {self.wal!r}, which the driver has "
                "made: it must be a directory that the driver and all executors see"
            )
        self.folder.mkdir(exist_ok=True)
        claim = self._claim(who, lease)
        try:
            yield claim
        finally:
            if claim is not None:
                claim.give_up()

    def _claim(self, who: Claimant, lease: float) -> Claim | None:
        path = self._file("claim")
        seen, since = -1, time.monotonic()
        while not self.published:
            claim = Claim(path, who)
            if claim.make():
                return None if self.published else claim
            try:
                other = json.loads(path.read_text())
                touched = path.stat().st_mtime_ns
            except (OSError, ValueError):
                other, touched = None, 0  # it is being written, or just gone
            now = time.monotonic()
            if touched != seen:
                seen, since = touched, now
            if (other is not None and who.goes_before(other)) or now - since > lease:
                claim.take_over()
                return claim
            time.sleep(POLL)
        return None

    def write(self, schema: pa.Schema) -> Draft:
        """A draft of its content; what an attempt that failed saw of the queue counts no more."""
        self._file("empty").unlink(missing_ok=True)
        return Draft(self, schema)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """While no other task of the batch publishes, so that each sees the ids of those before it."""
        with (self.folder / "lock").open("ab") as file:  # closing it gives the lock back, and so does dying
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    await anyio.sleep(LOCK_POLL)  # heartbeats go on
            yield

    def note_empty(self) -> None:
        """Note that the queue was seen empty."""
        self._file("empty").touch()

    def confirm(self) -> None:
        """Note that the broker has let go of its messages."""
        self._file("settled").touch()


class Claim:
    """A file that says who consumes. Another one may take it over: only the publishing decides."""

    def __init__(self, path: Path, who: Claimant) -> None:
        self._path = path
        self._token = uuid.uuid4().hex
        self._text = json.dumps({"run": who.run, "attempt": who.attempt, "token": self._token})

    def make(self) -> bool:
        """Make it, if there is none."""
        try:
            descriptor = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            return False
        with open(descriptor, "w") as file:
            file.write(self._text)
        return True

    def take_over(self) -> None:
        draft = self._path.with_suffix(f".{self._token}.tmp")
        draft.write_text(self._text)
        draft.replace(self._path)

    def renew(self) -> None:
        """Show that its owner is alive."""
        with suppress(OSError):
            self._path.touch()

    def give_up(self) -> None:
        with suppress(OSError):
            if self._token in self._path.read_text():
                self._path.unlink()


class Draft:
    """A segment in the making, in a file that nobody else reads."""

    def __init__(self, segment: Segment, schema: pa.Schema) -> None:
        self._segment = segment
        self._schema = schema
        self._open()

    def _open(self) -> None:
        self._path = self._segment.path.with_suffix(f".{uuid.uuid4().hex}.tmp")
        self._file = self._path.open("xb")
        self._writer = pa.ipc.new_stream(self._file, self._schema)

    def append(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def sync(self) -> None:
        """End it, and put it on the disk."""
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())

    def drop(self, known: list[pa.Table]) -> int:
        """Drop the rows that are known; return how many there were."""
        self._writer.close()
        self._file.flush()
        whole = self._path, self._file
        with pa.memory_map(str(self._path)) as source, pa.ipc.open_stream(source) as content:
            rows = content.read_all()
            again = _known_again(rows, known)
            dropped = sum(again)
            if not dropped:
                return 0
            self._open()
            self._writer.write_table(rows.filter(pa.array([not each for each in again])))
        whole[1].close()
        whole[0].unlink()
        return dropped

    def publish(self) -> bool:
        """Put it on the disk and give it its name; False when there is one of that name already."""
        self.sync()
        self._file.close()
        try:
            os.link(self._path, self._segment.path)
        except FileExistsError:
            return False
        finally:
            self._path.unlink()
        _sync(self._segment.folder)
        _sync(self._segment.folder.parent)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Have the names in a folder on the disk, too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
    _sync(Path(wal).parent)


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
                found += _rows(path)
    return found


def _known_again(rows: pa.Table, known: list[pa.Table]) -> list[bool]:
    """Which of the rows are known: bodies are looked at only where ids are the same."""
    again = [False] * len(rows)
    ids = pa.chunked_array([chunk for table in known for chunk in table.column(IDS).chunks], pa.string())
    met = pc.and_(pc.is_in(rows.column(IDS), value_set=ids), pc.not_equal(rows.column(IDS), ""))  # NULL for NULL
    suspects = pc.indices_nonzero(met)
    if len(suspects):
        mine = rows.take(suspects)
        seen: dict[str, set[str | None]] = {}
        for table in known:
            for name, digest in _digests(table.filter(pc.is_in(table.column(IDS), value_set=mine.column(IDS)))):
                seen.setdefault(name, set()).add(digest)
        for row, (name, digest) in zip(suspects.to_pylist(), _digests(mine), strict=True):
            again[row] = digest is None or not seen[name].isdisjoint((digest, None))
    return again


def _digests(rows: pa.Table) -> Iterator[tuple[str, str | None]]:
    """The id of each row, and a digest of its body; None where that is not known, so that the id has to do."""
    ids = rows.column(IDS).to_pylist()
    if DIGEST in rows.column_names:
        return zip(ids, rows.column(DIGEST).to_pylist(), strict=True)
    if BODY in rows.column_names:
        return zip(ids, map(_digest, rows.column(BODY).to_pylist()), strict=True)
    return ((each, None) for each in ids)


def _digest(body: Any) -> str:
    if isinstance(body, dict):  # a variant
        body = body["value"] + body["metadata"]
    data = body.encode() if isinstance(body, str) else body or b""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


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
            _keep_ids(path, ".ids")
        elif all_ids:
            _keep_ids(path, CONFIRMED)
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


def _keep_ids(path: Path, suffix: str) -> None:
    kept = [each for table in _rows(path) for each in _digests(table) if each[0]]
    if kept:
        draft = path.with_suffix(".ids.tmp")
        ids, digests = zip(*kept, strict=True)
        table = pa.table({IDS: pa.array(ids, pa.string()), DIGEST: pa.array(digests, pa.string())})
        with draft.open("wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
        draft.replace(path.with_suffix(suffix))


def _rows(path: Path) -> list[pa.Table]:
    """The rows of a file, with what there is to know them by."""
    try:
        with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as content:
            table = content.read_all()
    except FileNotFoundError:
        return []
    if IDS not in table.column_names:
        return []
    return [table.select([name for name in (IDS, BODY, DIGEST) if name in table.column_names])]
