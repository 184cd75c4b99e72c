"""Readers of logs, batch and streaming. A log keeps its messages, so that offsets suffice to repeat a batch."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from ...client import Connection
from ...errors import LinkDetached, SessionEnded
from .._connection.connect import connection, run_with_retries
from .._connection.driver_connection import DriverConnection
from .._connection.iterate import iterate_in_thread
from .._data_loss import check_checkpoint_kind
from .._options import Options
from .._rows.schema import arrow_schema
from .logs import NOT_FOUND, log_of, read_range
from .offsets import (
    Bounds,
    Offsets,
    Range,
    add_new_partitions,
    find_recreated,
    next_batch,
    resolve_offsets,
    restart_recreated,
    spark_offset,
    task_ranges,
    with_min_ranges,
)

POLL_SECONDS = 0.5
"""Seconds between two questions for the end of the log, while there are no new messages."""

PARTITION_CHECK_SECONDS = 10.0
"""Seconds between two checks for new partitions."""

MAX_LAG_RETRIES = 10
"""How many times to ask again while the log ends before our position."""


@dataclass
class LogPartition(InputPartition):
    """The range that one task reads."""

    range: Range


class LogBatchReader(DataSourceReader):
    """Reads a range of each partition, planned anew for each evaluation of the DataFrame."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[LogPartition]:
        options = self._options
        batch = run_with_retries(options, plan_batch_read, options)
        return [LogPartition(each) for each in task_ranges(with_min_ranges(batch, options.min_partitions))]

    def read(self, partition: LogPartition | None) -> Iterator[pa.RecordBatch]:
        return _read_partition(self._options, self._schema, partition)


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads micro-batches of a log, which are repeated by reading the log again."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._connection = DriverConnection(options)
        self._partitions: list[str] = []
        self._queried_at = 0.0
        self._looked = -math.inf
        self._first: Offsets | None = None
        self._last: dict[str, Bounds] | None = None  # with AvailableNow, the bounds of the log when the run began

    # Spark calls this twice for the first batch, and must get the same end of the log both times.
    def initialOffset(self) -> Offsets:
        if self._first is None:
            bounds = self._bounds()
            starts = self._connection.call(starting_offsets, self._options, bounds, "latest")
            self._first = spark_offset(starts, starts)
        return self._first

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_messages_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        self._last = self._bounds()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        check_checkpoint_kind(start, log=True)
        if self._options.stopping:
            return start
        bounds = self._reached(start)
        still = restart_recreated(start, bounds, fail=self._options.fail_on_data_loss)
        done = add_new_partitions(still, bounds)
        if still == start and not any(each.end > done[name]["to"] for name, each in bounds.items() if name in done):
            return start  # unchanged, because Spark would run an empty batch for any other offset
        batch = next_batch(done, _ends(bounds), limit.max_rows if isinstance(limit, ReadMaxRows) else None)
        return with_min_ranges(batch, self._options.min_partitions)

    def reportLatestOffset(self) -> Offsets:
        ends = _ends(self._bounds())
        return spark_offset(ends, ends)

    def _reached(self, start: Offsets) -> dict[str, Bounds]:
        """Return the bounds of the log; give a lagging replica time to reach the position read before."""
        bounds = self._last if self._last is not None else self._bounds(start)
        for _ in range(MAX_LAG_RETRIES):
            if start.keys() <= bounds.keys() and not find_recreated(start, bounds):
                break
            bounds = self._bounds(start)
        if self._last is not None:
            self._last = bounds
        return bounds

    def _bounds(self, known: Collection[str] = ()) -> dict[str, Bounds]:
        """Return the bounds of the log's partitions, asking at most once in `POLL_SECONDS`.

        Args:
            known: partitions to look for, even behind others that are gone.
        """
        time.sleep(
            max(0.0, min(POLL_SECONDS, self._queried_at + POLL_SECONDS - time.monotonic()))
        )  # Spark polls without pausing
        known = {*known, *self._partitions}
        if time.monotonic() > self._looked + PARTITION_CHECK_SECONDS or not known <= set(self._partitions):
            self._partitions = []
        try:
            found = self._connection.call(ask_bounds, self._options, self._partitions, known)
        except (LinkDetached, SessionEnded) as error:
            if error.condition != NOT_FOUND or not self._partitions:
                raise
            self._partitions = []
            found = self._connection.call(ask_bounds, self._options, [], known)
        self._queried_at = time.monotonic()
        if not self._partitions:
            self._looked = self._queried_at
        self._partitions = list(found)
        return found

    # Only `end` counts: `start` may differ when Spark repeats the first batch.
    def partitions(self, start: Offsets, end: Offsets) -> list[LogPartition]:
        check_checkpoint_kind(end, log=True)
        return [] if start == end else [LogPartition(each) for each in task_ranges(end)]

    def read(self, partition: LogPartition | None) -> Iterator[pa.RecordBatch]:
        return _read_partition(self._options, self._schema, partition)

    def commit(self, end: Offsets) -> None:
        """Do nothing, because a log keeps messages that were read."""


async def ask_bounds(
    opened: Connection, options: Options, partitions: list[str], known: Collection[str] = ()
) -> dict[str, Bounds]:
    """Return the bounds of these partitions; of all partitions if none is given (see `Log.partitions` for `known`)."""
    kind = log_of(options)
    return await kind.all_bounds(opened, partitions or await kind.partitions(opened, known))


async def starting_offsets(
    opened: Connection, options: Options, bounds: dict[str, Bounds], default: str
) -> dict[str, int]:
    """Return the offset at which the options begin, for each partition."""
    since = options.starting_timestamp
    if since is None:
        return resolve_offsets(options.starting_offsets, bounds, default)
    kind = log_of(options)
    firsts = {name: await kind.first_since(opened, name, since) for name in bounds}
    return {name: bounds[name].end if first is None else first for name, first in firsts.items()}


async def plan_batch_read(options: Options) -> Offsets:
    """Plan what a batch job reads, over a connection opened only for this."""
    async with connection(options) as opened:
        bounds = await ask_bounds(opened, options, [])
        starts = await starting_offsets(opened, options, bounds, "earliest")
    ends = resolve_offsets(options.ending_offsets, bounds, "latest")
    done = restart_recreated(spark_offset(starts, starts), bounds, fail=options.fail_on_data_loss)
    return next_batch(done, ends, options.max_messages)


def _ends(bounds: dict[str, Bounds]) -> dict[str, int]:
    return {name: each.end for name, each in bounds.items()}


def _read_partition(options: Options, schema: StructType, partition: LogPartition | None) -> Iterator[pa.RecordBatch]:
    """Read what a partition names; Spark makes one partition of None out of an empty list of partitions."""
    if not isinstance(partition, LogPartition):
        return iter(())
    return iterate_in_thread(lambda emit: read_range(options, partition.range, arrow_schema(schema), emit))
