"""Writers, batch and streaming: a task ends when every row is sent and every outcome is known."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import anyio
import anyio.to_thread
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from .._calls import Ungrouped
from ..client import Connection, Sender, SentDelivery, Transaction
from ..client.internals import not_accepted
from ..errors import EncodeError, LocalProtocolError
from ..messaging import Accepted, Message, Rejected
from ._connection.connect import connection, link_properties, target
from ._options import Options
from ._rows.encode import Rows

_log = logging.getLogger("amqp10.spark")


@dataclass
class Sent(WriterCommitMessage):
    """How many messages one task sent.

    Attributes:
        rows: messages that the broker accepted.
        dropped: messages that the broker rejected, with `onReject=drop`.
    """

    rows: int = 0
    dropped: int = 0


class BatchWriter(DataSourceArrowWriter):
    """Sends the rows of a DataFrame, each task its own.

    No transaction spans all tasks: Spark repeats a failed task, and what others have sent stays.
    """

    def __init__(self, options: Options, schema: StructType, run_id: str) -> None:
        super().__init__()
        self._options = options
        self._run_id = run_id

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        return send(self._options, iterator, f"{self._run_id}/{partition}")


class StreamWriter(DataSourceStreamArrowWriter):
    """Sends the rows of micro-batches. In a repeated batch the rows get the same message-ids again."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__()
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        return send(self._options, iterator, f"{query}/{batch}/{context.partitionId()}")


def send(options: Options, batches: Iterator[pa.RecordBatch], prefix: str) -> Sent:
    """Send all rows, and wait for all outcomes.

    Raises:
        MessageRejected, MessageReleased, MessageModified: the broker did not accept a row; the error names it.
        AmqpError: the connection or link is over.
        ValueError: a row cannot be a message.
    """
    with Ungrouped():
        return anyio.run(TaskSender(options, prefix).run, batches, backend="trio")


class TaskSender:
    """Sends the rows of one task."""

    def __init__(self, options: Options, prefix: str) -> None:
        self._options = options
        self._rows = Rows(options, prefix)
        self._in_flight: deque[tuple[SentDelivery, int, str]] = deque()
        self._sent = Sent()

    async def run(self, batches: Iterator[pa.RecordBatch]) -> Sent:
        options = self._options
        transactional = options.transaction == "task"
        async with (
            connection(options, reconnect=not transactional) as opened,
            opened.sender(
                None if options.address is None else target(opened, options), properties=link_properties(options)
            ) as sender,
        ):
            if transactional:
                async with opened.transaction() as transaction:
                    await self._send(opened, sender, batches, transaction)
            else:
                await self._send(opened, sender, batches, None)
        return self._sent

    async def _send(
        self, opened: Connection, sender: Sender, batches: Iterator[pa.RecordBatch], transaction: Transaction | None
    ) -> None:
        most = self._options.max_in_flight
        in_flight = self._in_flight
        # In a thread, so that heartbeats and outcomes do not wait for Spark's next batch.
        while (batch := await anyio.to_thread.run_sync(next, batches, None)) is not None:
            for message in self._rows.messages(batch):
                if len(in_flight) >= most:
                    await self._outcome(opened)
                try:
                    delivery = await sender.submit(message, transaction=transaction)
                except (
                    EncodeError,
                    LocalProtocolError,
                ) as error:  # the second for a message larger than the peer accepts
                    raise type(error)(f"amqp: {self._which(self._rows.count, _id(message))}: {error}") from None
                in_flight.append((delivery, self._rows.count, _id(message)))
        while in_flight:
            await self._outcome(opened)

    async def _outcome(self, opened: Connection) -> None:
        """Wait for the outcome of the oldest message in flight."""
        delivery, row, message_id = self._in_flight.popleft()
        outcome = await delivery.outcome()
        if type(outcome) is Accepted:
            self._sent.rows += 1
            return
        failed = not_accepted(outcome, opened.profile)
        which = self._which(row, message_id)
        if isinstance(outcome, Rejected) and self._options.on_reject == "drop":
            self._sent.dropped += 1
            _log.warning("%s was rejected and dropped: %s", which, failed)
            return
        named = type(failed)(
            failed.condition, f"{failed.description or 'not accepted'} ({which})", failed.info, outcome
        )
        named.meaning = failed.meaning
        raise named

    @staticmethod
    def _which(row: int, message_id: str) -> str:
        return f"row {row - 1} of the task, message-id {message_id}"


def _id(message: Message) -> str:
    return "none" if message.message_id is None else repr(message.message_id)
