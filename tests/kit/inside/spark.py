"""Private names of the Spark source that tests from elsewhere use."""

from __future__ import annotations

from amqp10.spark._connection.address_checks import connect_and_ensure_queue, count_ready
from amqp10.spark._connection.connect import connection, run_with_retries, source
from amqp10.spark._data_loss import DataLoss, report_lost_offsets
from amqp10.spark._logs import logs
from amqp10.spark._logs.logs import RabbitStream, read_range
from amqp10.spark._logs.offsets import Range
from amqp10.spark._logs.readers import LogBatchReader, LogPartition, LogStreamReader, plan_batch_read
from amqp10.spark._queues import consume
from amqp10.spark._queues.batch import BrowseReader, TakingReader, browse
from amqp10.spark._queues.consume import QueuePartition, read_partition
from amqp10.spark._queues.probe import has_messages
from amqp10.spark._queues.stream import QueueStreamReader
from amqp10.spark._rows.decode import Columns, append_deliveries
from amqp10.spark._rows.encode import Rows
from amqp10.spark._rows.schema import arrow_schema, default_schema, struct
from amqp10.spark._wal import segments
from amqp10.spark._wal.query_folder import (
    create_batch_folder,
    create_query_folder,
    delete_committed,
    known_rows,
    queue_was_empty,
)
from amqp10.spark._wal.segments import Claim, Claimant, Draft, Segment
from amqp10.spark._writer import BatchWriter, Sent
