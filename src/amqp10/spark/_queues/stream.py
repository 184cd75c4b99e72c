"""Streaming from queues. A queue has no offsets: a batch is the content of its write-ahead segments.

The driver never consumes. It checks whether the queue has messages, and then plans a batch under the next number; tasks
take what there is, up to the limit. The comments say in which order Spark calls these methods, and what each may rely
on: this was traced, because the API does not document it.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from .._connection.address_checks import ensure_queue
from .._connection.driver_connection import DriverConnection
from .._data_loss import check_checkpoint_kind, report_lost_batch
from .._options import Options
from .._wal.query_folder import (
    check_writable,
    create_batch_folder,
    create_query_folder,
    delete_committed,
    queue_was_empty,
)
from .consume import QueuePartition, queue_partitions, read_partition
from .probe import WAIT_SECONDS, has_messages


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Takes messages from a queue, in micro-batches that can be repeated."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._location = ""
        if options.ack != "accept":
            self._location = options.require_wal("a stream of a queue writes messages there before it accepts them")
            check_writable(self._location)
        self._run = uuid.uuid4().hex
        self._connection = DriverConnection(options)
        self._checked = False  # whether the address is known to be a queue
        self._available_now = False
        self._ran = False  # whether this run has planned a batch
        self._seen_empty: dict[int, bool] = {}  # whether the last batch found the end of the queue

    def _wal(self, query: str) -> str:
        return self._location and os.path.join(self._location, query)

    # Spark calls this twice for the first batch, and again when it repeats that batch after a restart, each time with
    # another result. So only the name in the end of a batch counts: it is copied from the start once, and then is in
    # the checkpoint.
    def initialOffset(self) -> dict[str, Any]:
        return {"wal": uuid.uuid4().hex, "batch": 0, "max": 0, "parts": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_messages_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        self._available_now = True

    # Spark passes the end of a batch as `start` only when its commit is in Spark's log, and does so at every poll. It
    # calls `commit` only when it plans the next batch, so never on an idle queue.
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        check_checkpoint_kind(start, log=False)
        self._retire(start)
        # This run has read all that was available when it began: all tasks of a batch saw the queue empty.
        if self._available_now and self._ran and self._seen_empty.get(start["batch"]):
            return start
        if self._options.stopping or not self._something_waits():
            return start
        self._ran = True
        # Create the folder before Spark logs the end of the first batch with segments: a folder that is missing later
        # then means that its messages are lost.
        if self._location and not start.get("kept", start["batch"]):
            create_query_folder(self._wal(start["wal"]))
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.max_messages_per_trigger
        return {
            "wal": start["wal"],
            "batch": start["batch"] + 1,
            "max": most,
            "parts": self._options.num_partitions,
            "kept": bool(self._location),
        }

    def _something_waits(self) -> bool:
        if not self._checked:
            self._connection.call(ensure_queue, self._options)
            self._checked = True
        if self._options.probe == "always" and not self._available_now:
            time.sleep(WAIT_SECONDS)  # a trigger without an interval would poll without a pause
            return True
        return self._connection.call(has_messages, self._options, self._available_now)

    def _retire(self, committed: dict[str, Any]) -> None:
        """Delete the segments that Spark has committed: it does not ask for them again."""
        batch = committed["batch"]
        if not batch or not self._location:
            return
        wal, dedupe = self._wal(committed["wal"]), self._options.dedupe
        if self._available_now and batch not in self._seen_empty:
            self._seen_empty = {batch: queue_was_empty(wal, batch, committed["parts"])}
        retained = self._options.wal_retain_batches if dedupe != "none" else 0
        delete_committed(wal, batch, retained, all_ids=dedupe == "all")

    # Spark calls this once for each scan of the batch; a union of the DataFrame with itself has two scans. Both have
    # tasks of the same run, so that one waits for the segment of the other.
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[QueuePartition]:
        check_checkpoint_kind(end, log=False)
        parts = end["parts"]
        if start["batch"] == end["batch"] or not parts:
            return []
        if self._location and end.get("kept") is False:
            create_query_folder(self._wal(end["wal"]))  # the batch was planned without segments
        if end.get("kept") and not self._location:
            raise ValueError(
                "amqp: the batch under way may have its messages in segments already: "
                "ack=wal, with the same walLocation, ends it"
            )
        wal = self._wal(end["wal"])
        if wal and not create_batch_folder(wal, end["batch"]):
            report_lost_batch(end["batch"], fail=self._options.fail_on_data_loss)
            return []
        return queue_partitions(wal, end["batch"], parts, end["max"], self._run, self._options.max_bytes_per_trigger)

    # Called in a task: `self` is as it was when the query was planned.
    def read(self, partition: QueuePartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options, self._schema, partition)

    def commit(self, end: dict[str, Any]) -> None:
        self._retire(end)
