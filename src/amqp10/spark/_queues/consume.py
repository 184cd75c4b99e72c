"""Takes messages from a queue: writes them to a segment, accepts them, and then hands them to Spark."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace

import anyio
import pyarrow as pa
from anyio.to_thread import run_sync
from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from ...client import Connection, Delivery
from ...client.internals import ended_cleanly, receiver_delivery
from ...errors import AmqpError, ConnectionLost
from .._connection.connect import connection, run_with_retries
from .._connection.receive import receive_available
from .._options import Options
from .._rows.decode import Columns, append_deliveries
from .._rows.schema import arrow_schema, with_column
from .._wal.query_folder import known_rows
from .._wal.redelivery import IDS, with_body_encoding
from .._wal.segments import Claim, Claimant, Draft, Segment
from .attaching import links
from .links import Links

_log = logging.getLogger("amqp10.spark")


@dataclass
class QueuePartition(InputPartition):
    """What one task takes from a queue.

    Attributes:
        segment: where the task writes them.
        limit: the most messages to take.
        run: id of the driver's run; the same for all tasks that it plans.
        max_bytes: roughly the most octets of messages to take; None for no limit.
    """

    segment: Segment
    limit: int
    run: str
    max_bytes: int | None = None


def queue_partitions(
    wal: str, batch: int, parts: int, limit: int, run: str, max_bytes: int | None = None
) -> list[QueuePartition]:
    """Share a batch of `limit` messages, and roughly `max_bytes` octets, out among `parts` tasks."""
    share, more = divmod(limit, parts)
    bytes_share = None if max_bytes is None else max(1, max_bytes // parts)
    return [QueuePartition(Segment(wal, batch, part), share + (part < more), run, bytes_share) for part in range(parts)]


def read_partition(options: Options, schema: StructType, partition: QueuePartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition, from its segment; make the segment first if it does not exist.

    Without `walLocation` the segment is in a temporary folder of the task.

    Raises:
        AmqpError: the messages could not be received. Nothing was accepted.
        DecodeError: a message cannot be decoded, and there is no column `_decode_error`.
        ValueError: the batch is committed, or the folder of the query is not on this machine.
    """
    segment = partition.segment
    if segment.wal:
        yield from _read_segment(options, schema, partition)
        return
    with tempfile.TemporaryDirectory(prefix="amqp10-", ignore_cleanup_errors=True) as own:
        segment = replace(segment, wal=own)
        segment.folder.mkdir()
        yield from _read_segment(options, schema, replace(partition, segment=segment))


def _read_segment(options: Options, schema: StructType, partition: QueuePartition) -> Iterator[pa.RecordBatch]:
    segment = partition.segment
    try:
        if not segment.published:
            with segment.claimed(Claimant(partition.run, _attempt()), options.wal_lease) as claim:
                if claim is not None:
                    run_with_retries(options, SegmentAttempt(options, schema, partition, claim).run)
        yield from segment.read(schema.names)
    except FileNotFoundError:
        segment.check()  # raises if the batch was committed meanwhile, which renames its folder
        raise


def _attempt() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.attemptNumber()


class SegmentAttempt:
    """One attempt to make a segment."""

    def __init__(self, options: Options, schema: StructType, partition: QueuePartition, claim: Claim) -> None:
        self._options = options
        self._segment = partition.segment
        self._limit = partition.limit
        self._max_bytes = partition.max_bytes
        self._claim = claim
        self._publishing = False
        wanted = arrow_schema(schema if options.dedupe == "none" else with_column(schema, IDS))
        self._schema = with_body_encoding(wanted, options.body_format)

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_alive)
            await self._consume()
            tasks.cancel_scope.cancel()

    async def _keep_alive(self) -> None:
        """Renew the claim, and the lock while publishing, so that attempts which wait see that this one is alive."""
        while True:
            await anyio.sleep(self._options.wal_lease / 4)
            self._claim.renew()
            if self._publishing:
                self._segment.renew_lock()

    async def _consume(self) -> None:
        options = self._options
        if self._segment.published:
            return  # by this attempt, which then lost its connection
        with self._segment.write(self._schema) as draft:
            async with connection(options) as opened:
                async with links(opened, options) as taking:
                    held = await self._receive(taking, draft)
                    await run_sync(draft.sync)  # heartbeats do not wait for the disk
                    async with self._publishing_turn():
                        await self._ensure_still_ours(opened, taking)
                        published = await run_sync(self._publish, draft)
                    # A busy broker confirms late; until it has, the ids of these messages must be kept.
                    opened.close_timeout = options.receive_timeout
                    settled = await self._settle(opened, held, accepted=published)
                if published and settled and all(map(ended_cleanly, taking.attached)):
                    self._segment.confirm()

    async def _receive(self, taking: Links, draft: Draft) -> list[Delivery]:
        options = self._options
        address = options.require_address()
        columns = Columns(self._schema, options.body_format, {"address": address})
        held: list[Delivery] = []
        size = 0
        while len(held) < self._limit and (self._max_bytes is None or size < self._max_bytes):
            receiver = await taking.attach()
            if receiver is None:
                break
            limit = self._limit - len(held)
            max_bytes = None if self._max_bytes is None else self._max_bytes - size
            async with aclosing(
                receive_available(receiver, limit, options.receive_timeout, max_bytes, grant_credit=True)
            ) as batches:
                async for deliveries in batches:
                    append_deliveries(columns, deliveries, address)
                    size += columns.size
                    for delivery in map(receiver_delivery, deliveries):
                        delivery.payload = b""  # frees the memory: the delivery is kept until it is settled
                    held += deliveries
                    draft.append(columns.take())
        if taking.ended:
            self._segment.record_empty()
        return held

    @asynccontextmanager
    async def _publishing_turn(self) -> AsyncIterator[None]:
        """Wait for the right to publish, and hold it."""
        async with self._segment.publishing_lock(max(self._options.receive_timeout, self._options.wal_lease)):
            self._publishing = True
            try:
                yield
            finally:
                self._publishing = False

    async def _ensure_still_ours(self, opened: Connection, taking: Links) -> None:
        """Check that the peer still counts the messages as delivered to these links, not to another one meanwhile.

        Raises:
            AmqpError: the peer does not answer, or has ended one of the links.
        """
        silence = self._options.receive_timeout
        with anyio.move_on_after(silence) as scope:
            async with opened.session():
                pass  # if the peer had ended a link, that would have come before this answer
        if scope.cancelled_caught:
            raise ConnectionLost(f"{self._options.address}: no answer for {silence:g} s")
        for receiver in taking.attached:
            if not receiver.open:
                receiver.add_credit(0)  # raises what ended it

    def _publish(self, draft: Draft) -> bool:
        """Publish the draft without messages that another segment has: whoever took those could not settle them."""
        dedupe, segment = self._options.dedupe, self._segment
        if dedupe != "none":
            known = known_rows(segment.wal, batch=segment.batch, confirmed=dedupe == "all")
            dropped = draft.drop(known) if known else 0
            if dropped:
                _log.warning("%d messages were delivered again and dropped", dropped)
        return draft.publish()

    async def _settle(self, opened: Connection, held: list[Delivery], *, accepted: bool) -> bool:
        """Accept published messages, and release others; return whether the peer was told."""
        try:
            if not accepted:  # another attempt was faster
                for delivery in held:
                    delivery.release()
            elif held:
                for delivery in held[:-1]:
                    delivery.accept()
                await accept_last(opened, held[-1])
        except AmqpError as error:
            # They will be delivered again, and then be recognized as known.
            _log.warning("%d messages could not be settled: %s", len(held), error)
            return False
        return True


async def accept_last(opened: Connection, delivery: Delivery) -> None:
    """Accept a delivery such that, once the peer has answered the detach, all acceptances are durable.

    Artemis answers before its journal has them. It writes the commit of a transaction, and with it all that came
    before, ahead of the answer to the commit.

    Raises:
        AmqpError: the peer refused, or is gone.
    """
    if opened.profile.name == "artemis" and "transactions" in opened.capabilities:
        async with opened.transaction() as transaction:
            delivery.accept(transaction=transaction)
    else:
        delivery.accept()
