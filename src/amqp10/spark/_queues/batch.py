"""Batch reads of queues."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from .._connection.address_checks import connect_and_ensure_queue, ensure_browsable, ensure_queue
from .._connection.connect import connection, run_with_retries, source
from .._connection.iterate import iterate_in_thread
from .._connection.receive import CREDIT, receive_available
from .._options import Options
from .._rows.decode import Columns, append_deliveries
from .._rows.schema import arrow_schema
from .._wal.query_folder import check_writable, create_batch_folder, create_query_folder
from .consume import QueuePartition, queue_partitions, read_partition
from .pushdown import selector


class BrowseReader(DataSourceReader):
    """Looks at a queue and leaves it as it is: a DataFrame may be evaluated any number of times."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]  # several would all see the same messages

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        options = self._options
        columns = Columns(arrow_schema(self._schema), options.body_format, {"address": options.address})
        return iterate_in_thread(lambda emit: browse(options, columns, emit))


class FilteredBrowseReader(BrowseReader):
    """Browses with Spark's filters as a selector. Spark fails on a reader with `pushFilters` if it pushes none."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:
        pushed = selector(filters)
        if pushed is not None:
            own = self._options.selector
            self._options = replace(self._options, selector=pushed if own is None else f"({own}) AND {pushed}")
        return filters


class TakingReader(DataSourceReader):
    """Takes the messages of a queue.

    With `ack=wal` they go into segments that stay, and every evaluation of the DataFrame reads these. With `ack=accept`
    every evaluation takes other messages.
    """

    def __init__(self, options: Options, schema: StructType, run_id: str) -> None:
        self._options = options
        self._schema = schema
        self._run_id = run_id
        self._wal = ""
        if options.ack == "wal":
            location = options.require_wal("ack=wal writes messages there before it accepts them")
            check_writable(location)
            self._wal = os.path.join(location, f"read-{run_id}")

    def partitions(self) -> list[QueuePartition]:
        run_with_retries(self._options, connect_and_ensure_queue, self._options)
        if self._wal:
            create_query_folder(self._wal)
            create_batch_folder(self._wal, 0)
        return queue_partitions(self._wal, 0, self._options.num_partitions, self._options.max_messages, self._run_id)

    def read(self, partition: QueuePartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options, self._schema, partition)


async def browse(options: Options, columns: Columns, emit: Callable[[pa.RecordBatch], Awaitable[None]]) -> None:
    """Emit the messages of the queue, and leave them there."""
    address = options.require_address()
    async with connection(options, reconnect=True) as opened:  # a loss is mended only before the first message
        await ensure_queue(opened, options)
        await ensure_browsable(opened, source(opened, options))
        async with (
            opened.browser(source(opened, options), credit=CREDIT) as browser,
            aclosing(receive_available(browser, options.max_messages, options.receive_timeout)) as batches,
        ):
            async for deliveries in batches:
                append_deliveries(columns, deliveries, address)
                await emit(columns.take())
