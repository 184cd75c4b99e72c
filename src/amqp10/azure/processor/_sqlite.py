"""Leases and checkpoints in an SQLite file, which the processes of one machine share."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from os import PathLike, fspath
from typing import Final, TypeVar

import anyio.to_thread

from ..._arguments import checked
from ..._files import create_private
from ...errors import StoreError
from ._leases import Checkpoint, ConsumerGroup, Lease

_APPLICATION: Final = 0x616D7165  # "amqe"
_GROUP: Final = "namespace = ? AND hub = ? AND consumer_group = ?"
_SCHEMA: Final = """
    CREATE TABLE leases (
        namespace TEXT, hub TEXT, consumer_group TEXT, partition TEXT,
        owner TEXT NOT NULL, wanted_by TEXT NOT NULL, version INTEGER NOT NULL,
        PRIMARY KEY (namespace, hub, consumer_group, partition)) WITHOUT ROWID;
    CREATE TABLE checkpoints (
        namespace TEXT, hub TEXT, consumer_group TEXT, partition TEXT,
        sequence_number INTEGER NOT NULL, event_offset TEXT,
        PRIMARY KEY (namespace, hub, consumer_group, partition)) WITHOUT ROWID;
"""
_T = TypeVar("_T")


@checked
class SQLiteLeases:
    """Keeps leases and checkpoints in a file that the processes of one machine share.

    When a call returns, its changes are on the disk. Each call opens the file, in a thread. The file must not be on a
    network file system, where SQLite's locks do not work.

    Args:
        path: the file, created if it does not exist.
        timeout: seconds to wait for other processes that are writing.

    Raises:
        ValueError: `timeout` is not more than 0.
    """

    def __init__(self, path: str | PathLike[str], *, timeout: float = 10.0) -> None:
        if not timeout > 0:
            raise ValueError(f"timeout must be more than 0 seconds, not {timeout}")
        self._path = fspath(path)
        self._timeout = timeout

    async def leases(self, group: ConsumerGroup) -> Sequence[Lease]:
        """Return the leases of all partitions that ever had one.

        Raises:
            StoreError: the file cannot be used.

        Cancelling: waits for the end of the call.
        """

        def read(run: Callable[..., sqlite3.Cursor]) -> list[Lease]:
            rows = run(f"SELECT partition, owner, version, wanted_by FROM leases WHERE {_GROUP}", _key(group))
            return [Lease(partition, owner, str(version), wanted) for partition, owner, version, wanted in rows]

        return await self._do(read)

    async def write(self, group: ConsumerGroup, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Write each lease whose version is still the one in the file, in one transaction; return the written leases.

        Raises:
            StoreError: the file cannot be used, and no lease was written.

        Cancelling: waits for the end of the call.
        """

        def write(run: Callable[..., sqlite3.Cursor]) -> list[Lease]:
            written = []
            for lease in leases:
                row: tuple[str | int, ...]
                if lease.version is None:
                    version = 1
                    sql = "INSERT OR IGNORE INTO leases VALUES (?, ?, ?, ?, ?, ?, 1)"
                    row = (*_key(group), lease.partition, lease.owner, lease.wanted_by)
                else:
                    version = int(lease.version) + 1
                    sql = f"UPDATE leases SET owner = ?, wanted_by = ?, version = ? WHERE {_GROUP} AND partition = ?"
                    sql += " AND version = ?"
                    row = (lease.owner, lease.wanted_by, version, *_key(group), lease.partition, version - 1)
                if run(sql, row).rowcount == 1:
                    written.append(replace(lease, version=str(version)))
            return written

        return await self._do(write)

    async def checkpoints(self, group: ConsumerGroup) -> Mapping[str, Checkpoint]:
        """Return the checkpoints by partition id.

        Raises:
            StoreError: the file cannot be used.

        Cancelling: waits for the end of the call.
        """

        def read(run: Callable[..., sqlite3.Cursor]) -> dict[str, Checkpoint]:
            rows = run(f"SELECT partition, sequence_number, event_offset FROM checkpoints WHERE {_GROUP}", _key(group))
            return {partition: Checkpoint(number, offset) for partition, number, offset in rows}

        return await self._do(read)

    async def save(self, group: ConsumerGroup, checkpoints: Mapping[str, Checkpoint]) -> None:
        """Keep each checkpoint that is ahead of the one kept for its partition.

        Raises:
            StoreError: the file cannot be used, and no checkpoint was kept.

        Cancelling: waits for the end of the call.
        """

        def save(run: Callable[..., sqlite3.Cursor]) -> None:
            for partition, checkpoint in checkpoints.items():
                run(
                    "INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
                    "sequence_number = excluded.sequence_number, event_offset = excluded.event_offset "
                    "WHERE excluded.sequence_number > sequence_number",
                    (*_key(group), partition, checkpoint.sequence_number, checkpoint.offset),
                )

        await self._do(save)

    async def _do(self, work: Callable[[Callable[..., sqlite3.Cursor]], _T]) -> _T:
        """Run `work` in one transaction.

        Raises:
            StoreError: the transaction failed, and nothing has changed.
        """

        def transact() -> _T:
            try:
                with _opened(self._path, self._timeout) as run:
                    return work(run)
            except sqlite3.Error as error:
                raise StoreError(f"{self._path}: {error}") from error

        return await anyio.to_thread.run_sync(transact)

    def __repr__(self) -> str:
        return f"<SQLiteLeases {self._path!r}>"


@contextmanager
def _opened(path: str, timeout: float) -> Iterator[Callable[..., sqlite3.Cursor]]:
    """Open the file for one transaction.

    Raises:
        StoreError: the file belongs to another program.
        sqlite3.Error: the file cannot be used.
    """
    create_private(path)
    with closing(sqlite3.connect(path, timeout=timeout, isolation_level=None)) as connection:
        run = connection.execute
        run("PRAGMA trusted_schema = OFF")
        run("BEGIN IMMEDIATE")
        application = run("PRAGMA application_id").fetchone()[0]
        if not application and not run("SELECT 1 FROM sqlite_master").fetchone():
            for statement in _SCHEMA.split(";"):
                run(statement)
            run(f"PRAGMA application_id = {_APPLICATION}")
        elif application != _APPLICATION:
            raise StoreError(f"{path}: a database without the leases of event hubs: name another file")
        yield run
        run("COMMIT")


def _key(group: ConsumerGroup) -> tuple[str, str, str]:
    """Return the columns of the group in lowercase, because the service ignores case."""
    return group.namespace.lower(), group.hub.lower(), group.group.lower()
