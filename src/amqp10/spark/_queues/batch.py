"""Batch reads of queues."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from .._connection.address_checks import connect_and_ensure_queue
from .._connection.connect import run_with_retries
from .._connection.iterate import iterate_in_thread
from .._connection.receive import browse
from .._options import Options
from .._rows.decode import Columns
from .._rows.schema import arrow_schema
from .._wal.query_folder import check_writable, create_batch_folder, create_query_folder
from .._wal.segments import Segment
from .consume import QueuePartition, read_partition
from .pushdown import selector


class BrowseReader(DataSourceReader):
    """Looks at a queue and leaves it as it is: a DataFrame may be evaluated any number of times."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]  # several would all see the same

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        options = self._options
        columns = Columns(arrow_schema(self._schema), options.body_format, {"address": options.address})
        return iterate_in_thread(lambda emit: browse(options, columns, emit))


class FilteredBrowseReader(BrowseReader):
    """The same, with what Spark filters by as a selector. A class with `pushFilters` fails if Spark pushes none."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:
        pushed = selector(filters)
        if pushed is not None:
            own = self._options.selector
            self._options = replace(self._options, selector=pushed if own is None else f"({own}) AND {pushed}")
        return filters


class TakingReader(DataSourceReader):
    """Takes what waits in a queue.

    With `ack=wal` into segments that stay: they are the DataFrame's content, however often it is evaluated. With
    `ack=accept` each evaluation takes anew.
    """

    def __init__(self, options: Options, schema: StructType, run_id: str) -> None:
        self._options = options
        self._schema = schema
        self._run_id = run_id
        self._wal = ""
        if options.ack == "wal":
            location = options.require_wal("ack=wal writes what it takes there before it accepts it")
            check_writable(location)
            self._wal = os.path.join(location, f"read-{run_id}")

    def partitions(self) -> list[QueuePartition]:
        run_with_retries(self._options, connect_and_ensure_queue, self._options)
        if self._wal:
            create_query_folder(self._wal)
            create_batch_folder(self._wal, 0)
        parts = self._options.num_partitions
        share, more = divmod(self._options.max_messages, parts)
        return [
            QueuePartition(Segment(self._wal, 0, part), share + (part < more), self._run_id) for part in range(parts)
        ]

    def read(self, partition: QueuePartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options, self._schema, partition)
