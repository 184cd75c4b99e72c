"""Write-ahead segments: what a task took from a queue, on disk before the broker hears that it was taken.

    walLocation/<query>/<batch>/part-0.arrow      the rows, once they are whole: published by a hard link, all at once
                                part-0.settled    the broker has confirmed that the messages are gone there
                                part-0.claim      who consumes for this segment just now
                                part-0.empty      its task took messages until the queue was empty
                                part-0.nothing    its task found none
                                lock              held by the one task of the batch that publishes just now
                        <batch>.done/part-0.ids   after the commit: message-ids of a segment that was never confirmed
                                part-0.confirmed.ids  the same of one that was, where that is asked for

A segment that is there is the answer of its partition, for every retry, replay and second scan. One that is not
confirmed may have its messages delivered again: they are known by their ids and bodies, and dropped.

The driver makes the folder of a batch, and renames it when Spark has committed it; tasks do neither. So an attempt that
comes to life after the commit finds no place for what it would take, and takes nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import anyio
import pyarrow as pa

from ..._files import create_private, private
from ...errors import AmqpError
from .redelivery import IDS, find_redelivered, ids_in_common

POLL: Final = 0.1
"""Seconds between two looks for a segment that another task is about to publish."""

LOCK_POLL: Final = 0.01
"""Seconds between two tries to be the one that publishes."""


@dataclass(frozen=True, slots=True)
class Claimant:
    """Who consumes.

    Attributes:
        run: of the driver; another one's tasks are dead, or as good as dead.
        attempt: of the task; an earlier one has failed, or is slow.
    """

    run: str
    attempt: int

    def takes_precedence_over(self, other: dict[str, object]) -> bool:
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
    def _lock(self) -> Path:
        return self.folder / "lock"

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
                yield batch.select(names).replace_schema_metadata()

    def check(self) -> None:
        """See that the folder is there that the driver has made.

        Raises:
            ValueError: it is not: this machine sees another disk, or the batch is committed.
        """
        if not os.path.isdir(self.wal):
            raise ValueError(
                f"amqp: option 'walLocation': on {socket.gethostname()} there is no {self.wal!r}, which the driver has "
                "made: it must be a directory that the driver and all executors see"
            )
        if not self.folder.is_dir():
            raise ValueError(f"amqp: batch {self.batch} is committed: an attempt that comes so late takes nothing")

    @contextmanager
    def claimed(self, who: Claimant, lease: float) -> Iterator[Claim | None]:
        """The right to consume for this segment; None when it is published meanwhile, by whoever had that right.

        Raises:
            ValueError: as `check` does.
        """
        self.check()
        claim = self._claim(who, lease)
        try:
            yield claim
        finally:
            if claim is not None:
                claim.release()

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
            if (other is not None and who.takes_precedence_over(other)) or now - since > lease:
                claim.take_over()
                return claim
            time.sleep(POLL)
        return None

    def write(self, schema: pa.Schema) -> Draft:
        """A draft of its content; what an attempt that failed saw of the queue counts no more."""
        for seen in ("empty", "nothing"):
            self._file(seen).unlink(missing_ok=True)
        return Draft(self, schema)

    @asynccontextmanager
    async def publishing_lock(self, silence: float) -> AsyncIterator[None]:
        """While no other task of the batch publishes, so that each sees the ids of those before it.

        Raises:
            AmqpError: one has been at it for `silence` seconds, and has not said for as long that it is alive.
        """
        path = self._lock
        create_private(str(path))
        with path.open("ab") as file:  # closing it gives the lock back, and so does dying
            sign, began = (-1, -1), time.monotonic()
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    seen = os.fstat(file.fileno())
                    if sign != (sign := (seen.st_size, seen.st_mtime_ns)):
                        began = time.monotonic()  # the next one has it, or who has it is slow
                    elif time.monotonic() - began > silence:
                        text = f"amqp: {path}: another task of the batch has held it for {silence:g} s: it stands still"
                        raise AmqpError(text) from None
                    await anyio.sleep(LOCK_POLL)  # heartbeats go on
            file.write(b".")  # another turn
            file.flush()
            yield

    def renew_lock(self) -> None:
        """Say that who publishes just now is alive."""
        with suppress(FileNotFoundError):
            os.utime(self._lock)

    def record_empty(self, taken: int) -> None:
        """Note that the queue was seen empty, after as many messages were taken."""
        self._file("empty" if taken else "nothing").touch()

    def confirm(self) -> None:
        """Note that the broker has let go of its messages."""
        with suppress(FileNotFoundError):  # another attempt was faster, and its batch is committed
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
            with open(self._path, "x", opener=private) as file:
                file.write(self._text)
        except FileExistsError:
            return False
        return True

    def take_over(self) -> None:
        draft = self._path.with_suffix(f".{self._token}.tmp")
        with open(draft, "x", opener=private) as file:
            file.write(self._text)
        draft.replace(self._path)

    def renew(self) -> None:
        """Show that its owner is alive."""
        with suppress(OSError):
            self._path.touch()

    def release(self) -> None:
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
        self._file = open(self._path, "xb", opener=private)  # noqa: SIM115 (closed by `publish` or `__exit__`)
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
            ids = pa.chunked_array([batch.column(IDS) for batch in content], pa.string())
            common = ids_in_common(ids, known)
        if not len(common):
            return 0
        with pa.memory_map(str(self._path)) as source, pa.ipc.open_stream(source) as content:
            # One after the other: all together may have more octets than an array can.
            again = [find_redelivered(pa.Table.from_batches([batch]), known, common) for batch in content]
        dropped = sum(map(sum, again))
        if not dropped:
            return 0
        self._open()
        with pa.memory_map(str(whole[0])) as source, pa.ipc.open_stream(source) as content:
            for batch, those in zip(content, again, strict=True):
                self._writer.write_batch(batch.filter(pa.array([not each for each in those], pa.bool_())))
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
        sync_folder(self._segment.folder)
        sync_folder(self._segment.folder.parent)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._path.unlink(missing_ok=True)  # first: a full disk may fail the other
        self._file.close()


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk, too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
