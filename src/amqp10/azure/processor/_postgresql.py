"""Leases and checkpoints in a PostgreSQL database, which processes of many machines share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

import anyio.to_thread

from ..._arguments import checked, without_secrets
from ...errors import StoreError, Unsupported
from ._leases import Checkpoint, ConsumerGroup, Lease

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

_LOCK: Final = 0x616D7165  # "amqe": only one transaction at a time may create the tables
_GROUP: Final = "namespace = %s AND hub = %s AND consumer_group = %s"
# A read must see the last write whatever the settings of the database are. A database in SQL_ASCII must store UTF-8,
# too.
_BEGIN: Final = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL client_encoding = 'UTF8'"
_FIND: Final = "SELECT to_regclass('amqp10_leases') IS NOT NULL AND to_regclass('amqp10_checkpoints') IS NOT NULL"
_SCHEMA: Final = """
    CREATE TABLE IF NOT EXISTS amqp10_leases (
        namespace text, hub text, consumer_group text, partition text,
        owner text NOT NULL, wanted_by text NOT NULL, version text NOT NULL, written timestamptz NOT NULL,
        PRIMARY KEY (namespace, hub, consumer_group, partition));
    CREATE TABLE IF NOT EXISTS amqp10_checkpoints (
        namespace text, hub text, consumer_group text, partition text,
        sequence_number bigint NOT NULL, event_offset text, written timestamptz NOT NULL,
        PRIMARY KEY (namespace, hub, consumer_group, partition));
"""
_T = TypeVar("_T")
_Run = Callable[..., Any]


@checked
class PostgreSQLLeases:
    """Keeps leases and checkpoints in a PostgreSQL database, for the processes of many machines.

        with ConnectionPool("postgresql://...", min_size=1) as pool:  # of psycopg_pool
            async with EventProcessor(hub, handle, store=PostgreSQLLeases(pool)) as processor: ...

    They are in the tables `amqp10_leases` and `amqp10_checkpoints` of the first schema in `search_path`; the first call
    creates missing tables. The column `written` has the time of each write by the clock of the database. Each call is
    one transaction, in a thread.

    Args:
        pool: a pool of psycopg_pool. Its `timeout` says how long a call waits for a connection.

    Raises:
        Unsupported: psycopg or psycopg_pool is not installed, or finds no libpq.
        TypeError: `pool` is of another type.
    """

    def __init__(self, pool: ConnectionPool[Any]) -> None:
        try:
            from psycopg import Error
            from psycopg.rows import tuple_row
            from psycopg_pool import ConnectionPool as Pool
        except ImportError as error:
            text = f"PostgreSQLLeases needs psycopg ({error}): pip install 'amqp10[azure-postgresql]' 'psycopg[binary]'"
            raise Unsupported(text) from error
        if not isinstance(pool, Pool):
            raise TypeError(f"pool must be a psycopg_pool.ConnectionPool, not {without_secrets(pool)}")
        self._pool = pool
        self._tuples = tuple_row
        self._failed: type[Exception] = Error
        self._made = False

    async def leases(self, group: ConsumerGroup) -> Sequence[Lease]:
        """Return the leases of all partitions that ever had one.

        Raises:
            StoreError: the database cannot be used.

        Cancelling: waits for the end of the call.
        """

        def read(run: _Run) -> list[Lease]:
            rows = run(f"SELECT partition, owner, version, wanted_by FROM amqp10_leases WHERE {_GROUP}", _key(group))
            return [Lease(*row) for row in rows.fetchall()]

        return await self._do(read)

    async def write(self, group: ConsumerGroup, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Write each lease whose version is unchanged, in one transaction; return the written leases.

        Raises:
            StoreError: the database cannot be used. If the connection broke during the commit, they may be written.

        Cancelling: waits for the end of the call.
        """

        def write(run: _Run) -> list[Lease]:
            written = []
            # always in this order, so that two transactions cannot deadlock
            for lease in sorted(leases, key=_partition):
                # No version may come twice, even if a database takes over that lost the last writes.
                new = replace(lease, version=uuid4().hex)
                row = (*_key(group), new.partition, new.owner, new.wanted_by, new.version)
                if lease.version is None:
                    values = "VALUES (%s, %s, %s, %s, %s, %s, %s, clock_timestamp())"
                    done = run(f"INSERT INTO amqp10_leases {values} ON CONFLICT DO NOTHING", row)
                else:
                    sql = (
                        "UPDATE amqp10_leases SET owner = %s, wanted_by = %s, version = %s, written = clock_timestamp()"
                    )
                    sql += f" WHERE {_GROUP} AND partition = %s AND version = %s"
                    done = run(sql, (*row[4:], *row[:4], lease.version))
                if done.rowcount == 1:
                    written.append(new)
            return written

        return await self._do(write)

    async def checkpoints(self, group: ConsumerGroup) -> Mapping[str, Checkpoint]:
        """Return the checkpoints by partition id.

        Raises:
            StoreError: the database cannot be used.

        Cancelling: waits for the end of the call.
        """

        def read(run: _Run) -> dict[str, Checkpoint]:
            sql = f"SELECT partition, sequence_number, event_offset FROM amqp10_checkpoints WHERE {_GROUP}"
            rows = run(sql, _key(group)).fetchall()
            return {partition: Checkpoint(number, offset) for partition, number, offset in rows}

        return await self._do(read)

    async def save(self, group: ConsumerGroup, checkpoints: Mapping[str, Checkpoint]) -> None:
        """Keep each checkpoint that is ahead of the one kept for its partition.

        Raises:
            StoreError: the database cannot be used. If the connection broke during the commit, they may be kept.

        Cancelling: waits for the end of the call.
        """

        def save(run: _Run) -> None:
            for partition, checkpoint in sorted(checkpoints.items()):
                run(
                    "INSERT INTO amqp10_checkpoints AS kept VALUES (%s, %s, %s, %s, %s, %s, clock_timestamp()) "
                    "ON CONFLICT (namespace, hub, consumer_group, partition) DO UPDATE SET "
                    "sequence_number = excluded.sequence_number, event_offset = excluded.event_offset, "
                    "written = excluded.written WHERE excluded.sequence_number > kept.sequence_number",
                    (*_key(group), partition, checkpoint.sequence_number, checkpoint.offset),
                )

        await self._do(save)

    async def _do(self, work: Callable[[_Run], _T]) -> _T:
        """Run `work` in one transaction.

        Raises:
            StoreError: the transaction failed.
        """

        def transact() -> _T:
            try:
                with (
                    self._pool.connection() as connection,
                    connection.transaction(),
                    connection.cursor(row_factory=self._tuples) as cursor,
                ):
                    # No statement is prepared: behind a proxy each transaction may have another connection.
                    run: _Run = partial(cursor.execute, prepare=False)
                    run(_BEGIN)
                    if not self._made and not run(_FIND).fetchone()[0]:
                        run("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
                        run(_SCHEMA)
                    result = work(run)
            except self._failed as error:
                self._made = False  # perhaps another database took over, or somebody dropped the tables
                raise StoreError(f"PostgreSQL: {error}") from error
            self._made = True
            return result

        return await anyio.to_thread.run_sync(transact)

    def __repr__(self) -> str:
        return f"<PostgreSQLLeases by the pool {self._pool.name!r}>"


def _key(group: ConsumerGroup) -> tuple[str, str, str]:
    """Return the columns of the group in lowercase, because the service ignores case."""
    return group.namespace.lower(), group.hub.lower(), group.group.lower()


def _partition(lease: Lease) -> str:
    return lease.partition
