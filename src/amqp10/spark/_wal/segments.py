"""Write-ahead segments: the messages that a task takes from a queue, on disk before it accepts them.

    walLocation/<query>/<batch>/part-0.arrow      the complete rows: published by a hard link, all at once
                                part-0.settled    the broker has confirmed the acceptance of its messages
                                part-0.claim      who is consuming for this segment
                                part-0.empty      its task saw the queue empty
                                lock              held by the one task of the batch that is publishing
                        <batch>.done/part-0.ids   after the commit: message-ids of a segment that was not confirmed
                                part-0.confirmed.ids  message-ids of a confirmed segment, with dedupe=all

A published segment is the content of its partition for every retry, replay and second scan. The broker may deliver the
messages of an unconfirmed segment again: they are recognized by their ids and bodies, and dropped.

The driver creates the folder of a batch, and renames it when Spark has committed the batch; tasks do neither. So an
attempt that wakes up after the commit finds no folder to write to, and takes nothing.
"""

from __future__ import annotations

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
from ..._json import parse_json
from ...errors import AmqpError
from .redelivery import IDS, find_redelivered, ids_in_common

try:
    import fcntl
except ImportError:  # on Windows, where the options refuse `ack=wal`: all else works there
    pass

POLL: Final = 0.1
"""Seconds between two checks for a segment that another task is about to publish."""

LOCK_POLL: Final = 0.01
"""Seconds between two attempts to get the publishing lock."""


@dataclass(frozen=True, slots=True)
class Claimant:
    """The task that consumes for a segment.

    Attributes:
        run: id of the driver's run; tasks of another run are dead, or obsolete.
        attempt: number of the task's attempt; an earlier one has failed, or is slow.
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
        """Yield its rows, with these columns.

        Raises:
            ValueError: the segment was written without one of the columns.
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
        """Check that the folder that the driver created is here.

        Raises:
            ValueError: there is no such folder: this machine sees another disk, or the batch is committed.
        """
        if not os.path.isdir(self.wal):
            raise ValueError(
                f"amqp: option 'walLocation': on {socket.gethostname()} there is no {self.wal!r}, which the driver has "
                "made: it must be a directory that the driver and all executors see"
            )
        if not self.folder.is_dir():
            raise ValueError(f"amqp: batch {self.batch} is committed: this attempt came too late, and takes nothing")

    @contextmanager
    def claimed(self, who: Claimant, lease: float) -> Iterator[Claim | None]:
        """Wait for the right to consume for this segment; give None once another attempt has published it.

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
                other = parse_json(path.read_text())
                touched = path.stat().st_mtime_ns
                if not isinstance(other, dict):
                    raise ValueError("not a claim")
            except (OSError, ValueError):
                other, touched = None, 0  # the claim is being written, or was just released
            now = time.monotonic()
            if touched != seen:
                seen, since = touched, now
            if (other is not None and who.takes_precedence_over(other)) or now - since > lease:
                claim.take_over()
                return claim
            time.sleep(POLL)
        return None

    def write(self, schema: pa.Schema) -> Draft:
        """Start a draft of its content, and forget whether an earlier attempt saw the queue empty."""
        self._file("empty").unlink(missing_ok=True)
        return Draft(self, schema)

    @asynccontextmanager
    async def publishing_lock(self, silence: float) -> AsyncIterator[None]:
        """Hold the lock under which one task of the batch publishes, so that each task sees the ids of those before it.

        Raises:
            AmqpError: another task held the lock for `silence` seconds without renewing it.
        """
        path = self._lock
        create_private(str(path))
        with path.open("ab") as file:  # closing the file releases the lock, and so does the end of the process
            sign, began = (-1, -1), time.monotonic()
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    seen = os.fstat(file.fileno())
                    if sign != (sign := (seen.st_size, seen.st_mtime_ns)):
                        began = time.monotonic()  # another task has it now, or its holder is slow but alive
                    elif time.monotonic() - began > silence:
                        text = f"amqp: {path}: another task of the batch has held this lock for {silence:g} s: it hangs"
                        raise AmqpError(text) from None
                    await anyio.sleep(LOCK_POLL)  # heartbeats go on
            file.write(b".")  # tells those who wait that the lock has a new holder
            file.flush()
            yield

    def renew_lock(self) -> None:
        """Show that the holder of the publishing lock is alive."""
        with suppress(FileNotFoundError):
            os.utime(self._lock)

    def record_empty(self) -> None:
        """Record that the queue was seen empty."""
        self._file("empty").touch()

    def confirm(self) -> None:
        """Record that the broker has confirmed the acceptance of its messages."""
        with suppress(FileNotFoundError):  # another attempt was faster, and the batch is committed
            self._file("settled").touch()


class Claim:
    """A file that names who consumes. Another attempt may take it over: only publishing decides which one counts."""

    def __init__(self, path: Path, who: Claimant) -> None:
        self._path = path
        self._token = uuid.uuid4().hex
        self._text = json.dumps({"run": who.run, "attempt": who.attempt, "token": self._token})

    def make(self) -> bool:
        """Create the file; return False if another claim is there."""
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
        """Show that the owner of the claim is alive."""
        with suppress(OSError):
            self._path.touch()

    def release(self) -> None:
        with suppress(OSError):
            if self._token in self._path.read_text():
                self._path.unlink()


class Draft:
    """A segment that is being written, to a file that nobody else reads."""

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
        """Finish the content, and flush it to disk."""
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())

    def drop(self, known: list[pa.Table]) -> int:
        """Drop the rows that are in `known`; return how many were dropped."""
        self._writer.close()
        self._file.flush()
        whole = self._path, self._file
        with pa.memory_map(str(self._path)) as source, pa.ipc.open_stream(source) as content:
            ids = pa.chunked_array([batch.column(IDS) for batch in content], pa.string())
            common = ids_in_common(ids, known)
        if not len(common):
            return 0
        with pa.memory_map(str(self._path)) as source, pa.ipc.open_stream(source) as content:
            # One batch at a time: an array cannot have the octets of all bodies.
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
        """Flush the draft to disk and give it the segment's name; return False if the segment exists already."""
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
        self._path.unlink(missing_ok=True)  # first: closing may fail on a full disk
        self._file.close()


def sync_folder(folder: Path) -> None:
    """Flush the entries of a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
