"""Logs, where messages stay and have offsets: streams of RabbitMQ and Event Hubs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import AsyncExitStack, contextmanager
from datetime import datetime
from itertools import count
from typing import ClassVar

import pyarrow as pa

from ...azure.event_hubs import HubManagement
from ...client import Connection
from ...errors import (
    DecodeError,
    FilterNotApplied,
    LinkDetached,
    ManagementError,
    RemoteProtocolError,
    SessionEnded,
)
from ...messaging import EventPosition, Source, StreamOffset, read_annotations
from .._connection.address_checks import is_stream, not_a_log
from .._connection.connect import connection, hub_audience, link_properties, source, tokens
from .._connection.receive import CREDIT, IDLE_SECONDS, MAX_BATCH, drain_or_fail
from .._data_loss import report_lost_offsets, report_missing_partition
from .._options import Options
from .._rows.decode import Columns, offset_of, undecodable_message
from .offsets import Bounds, Range

NOT_FOUND = "amqp:not-found"
LAST_CHUNK = 100_000
"""Credit for the last chunk of a stream: more messages than a chunk can have."""


class Log(ABC):
    """One kind of log.

    Attributes:
        offset_key: the message annotation that has a message's offset.
        unused: number of offsets before the first message that may have no message.
        deletes: its partitions are deleted one by one: one that is not found is lost. Else the error says what it is
            that is not there.
    """

    offset_key: ClassVar[str]
    unused: ClassVar[int] = 0
    deletes: ClassVar[bool] = False

    def __init__(self, options: Options) -> None:
        self._options = options
        self.address = options.require_address()

    @abstractmethod
    async def partitions(self, opened: Connection, known: Collection[str] = ()) -> list[str]:
        """Return the names of its partitions, in order.

        Args:
            known: partitions that existed before; look for them even behind others that are gone.

        Raises:
            DataLoss: a partition is gone, and `failOnDataLoss` is true.
            AmqpError: there is no such log, or the peer does not answer the question.
        """

    @abstractmethod
    async def bounds(self, opened: Connection, partition: str) -> Bounds:
        """Return the bounds of the offsets that the partition has now.

        Raises:
            AmqpError: the peer does not answer the question.
        """

    @abstractmethod
    async def first(self, opened: Connection, partition: str) -> int | None:
        """Return the offset of the first message that the partition has now; None if it is empty.

        Raises:
            AmqpError: the peer does not answer the question.
        """

    @abstractmethod
    def source(self, opened: Connection, partition: str, start: int) -> Source:
        """Return the source that delivers from the offset `start`."""

    @abstractmethod
    async def check(self, opened: Connection, place: Range) -> None:
        """Check that the address is a log, before a message is settled.

        Raises:
            ValueError: the address is a queue.
            AmqpError: the peer does not answer the question.
        """

    async def first_since(self, opened: Connection, partition: str, since: datetime) -> int | None:
        """Return the offset of the first message since a time; None if no message is that new.

        Raises:
            AmqpError: the peer does not answer the question.
        """
        return await self._first(opened, partition, self._since(opened, partition, since))

    @abstractmethod
    def _since(self, opened: Connection, partition: str, since: datetime) -> Source:
        """Return the source that delivers all messages since a time."""

    async def _first(self, opened: Connection, partition: str, place: Source) -> int | None:
        """Return the offset of the first message that this source delivers; None if it delivers none.

        Raises:
            ValueError: the message has no offset: the source is a queue, to which the message is released.
        """
        async with opened.receiver(place, credit=0) as receiver:
            receiver.add_credit(1)
            await drain_or_fail(receiver, self._options.receive_timeout)
            batch = await receiver.receive_batch(1) if receiver.buffered else []
            for delivery in batch:
                delivery.release()  # matters for a queue; a log keeps the message anyway
        if not batch:
            return None
        offset = read_annotations(batch[0].payload).get(self.offset_key)
        if not isinstance(offset, int):
            raise not_a_log(partition)
        return int(offset)

    async def all_bounds(self, opened: Connection, partitions: list[str]) -> dict[str, Bounds]:
        """Return the bounds of each of these partitions."""
        return {partition: await self.bounds(opened, partition) for partition in partitions}


class RabbitStream(Log):
    """A stream of RabbitMQ, or a super stream, whose partitions are the streams `NAME-0`, `NAME-1`, and so on.

    Some of its offsets have no message: RabbitMQ uses them for its own records. Every segment but the first begins with
    one, and so does what retention leaves.
    """

    offset_key = "x-stream-offset"
    unused = 1
    deletes = True

    async def partitions(self, opened: Connection, known: Collection[str] = ()) -> list[str]:
        if self._options.selector is not None and opened.profile.name == "rabbitmq":
            raise ValueError("amqp: option 'selector': RabbitMQ's streams have no selectors; set 'amqp.filters'")
        if await self._is_there(opened, self.address):
            if await is_stream(opened, source(opened, self._options)) is False:
                raise not_a_log(self.address)
            return [self.address]
        found: list[str] = []
        missing = ""
        highest = max((int(name) for name in map(self._number, known) if name.isdecimal()), default=0)
        for number in count():
            name = f"{self.address}-{number}"
            if await self._is_there(opened, name):
                if missing and not known:
                    report_missing_partition(missing, name, fail=self._options.fail_on_data_loss)
                found.append(name)
                missing = ""
            elif missing and number > highest:
                break  # two gaps in a row beyond all known partitions: no more follow
            else:
                missing = name
        if not found:
            raise LinkDetached(
                NOT_FOUND, f"there is no stream {self.address!r}, nor a partition '{self.address}-0' of it"
            )
        return found

    def _number(self, name: str) -> str:
        return name.removeprefix(f"{self.address}-")

    async def _is_there(self, opened: Connection, name: str) -> bool:
        try:
            async with (
                opened.session() as session,  # which RabbitMQ 4.0 ends for an unknown queue
                session.receiver(self.source(opened, name, 0), credit=0, settle_mode="settled"),
            ):
                return True
        except FilterNotApplied:
            return True  # it exists, but is not a stream or does not know filters
        except (SessionEnded, LinkDetached) as error:
            if error.condition == NOT_FOUND:
                return False
            raise

    async def bounds(self, opened: Connection, partition: str) -> Bounds:
        first = await self.first(opened, partition)
        if first is None:
            return Bounds(0, 0)
        return Bounds(first, max(first, await self._newest(opened, partition)) + 1)

    async def first(self, opened: Connection, partition: str) -> int | None:
        return await self._first(opened, partition, self._at(opened, partition, StreamOffset("first")))

    async def _newest(self, opened: Connection, partition: str) -> int:
        """Return the highest offset of a stream; -1 if it has become empty."""
        # "last" is the last chunk: all messages that were written together.
        place = self._at(opened, partition, StreamOffset("last"))
        async with opened.receiver(place, credit=0, settle_mode="settled") as receiver:
            receiver.add_credit(LAST_CHUNK)
            await drain_or_fail(receiver, self._options.receive_timeout)
            batch = await receiver.receive_batch(LAST_CHUNK) if receiver.buffered else []
            return max((offset_of(delivery.payload, self.offset_key) for delivery in batch), default=-1)

    async def check(self, opened: Connection, place: Range) -> None:
        found = await is_stream(opened, source(opened, self._options, place.partition))
        if found is False:
            raise not_a_log(place.partition)
        if found is None:
            await self._first(opened, place.partition, self.source(opened, place.partition, place.start))

    def _at(self, opened: Connection, partition: str, where: StreamOffset) -> Source:
        place = source(opened, self._options, partition)
        place.filter = Source(filters=[where]).filter  # without the filters of the options: all messages count
        return place

    def _since(self, opened: Connection, partition: str, since: datetime) -> Source:
        return self._at(opened, partition, StreamOffset(since))

    def source(self, opened: Connection, partition: str, start: int) -> Source:
        place = source(opened, self._options, partition)
        place.filter = Source(filters=[StreamOffset(start)], filter=place.filter).filter
        return place


class EventHub(Log):
    """The partitions of Azure Event Hubs, read by sequence number: their offsets are opaque strings."""

    offset_key = "x-opt-sequence-number"

    async def partitions(self, opened: Connection, known: Collection[str] = ()) -> list[str]:
        with self._explained():
            return list((await self._management(opened).hub()).partitions)

    async def bounds(self, opened: Connection, partition: str) -> Bounds:
        with self._explained():
            facts = await self._management(opened).partition(partition)
        end = facts.last_sequence_number + 1
        return Bounds(end if facts.empty else facts.first_sequence_number, end)

    async def first(self, opened: Connection, partition: str) -> int | None:
        bounds = await self.bounds(opened, partition)
        return bounds.first if bounds.first < bounds.end else None

    async def check(self, opened: Connection, place: Range) -> None:
        await self._first(opened, place.partition, self.source(opened, place.partition, place.start))

    def _management(self, opened: Connection) -> HubManagement:
        options = self._options
        return HubManagement(opened, self.address, tokens(options), hub_audience(options), options.receive_timeout)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say in errors of the management node that it is one of Event Hubs that is wanted.

        Raises:
            RemoteProtocolError: the node is missing, does not answer in time, or answers as something else.
        """
        try:
            yield
        except (LinkDetached, ManagementError, TimeoutError) as error:
            match error:
                case LinkDetached(condition="amqp:not-found"):
                    reason = f"there is no event hub {self.address!r} here, or no $management ({error})"
                case ManagementError(status=0):
                    reason = f"$management is something else here ({error})"
                case TimeoutError():
                    seconds = self._options.receive_timeout
                    reason = f"$management gave no facts about {self.address!r} in {seconds:g} s"
                case _:
                    raise
            raise RemoteProtocolError(f"amqp: {reason}: mode=eventhubs is for Azure Event Hubs") from error

    def source(self, opened: Connection, partition: str, start: int) -> Source:
        return self._at(partition, EventPosition.sequence_number(start, inclusive=True))

    def _since(self, opened: Connection, partition: str, since: datetime) -> Source:
        return self._at(partition, EventPosition.enqueued_time(since, inclusive=True))

    def _at(self, partition: str, where: EventPosition) -> Source:
        group = self._options.consumer_group
        return Source(f"{self.address}/ConsumerGroups/{group}/Partitions/{partition}", filters=[where])


def log_of(options: Options) -> Log:
    """Make the log that the options name.

    Raises:
        ValueError: this kind of log does not support another of the options.
    """
    if options.mode == "eventhubs" and options.filtered:
        raise ValueError(f"amqp: option {options.filtering}: Event Hubs filter by position only")
    return EventHub(options) if options.mode == "eventhubs" else RabbitStream(options)


async def read_range(
    options: Options, place: Range, schema: pa.Schema, emit: Callable[[pa.RecordBatch], Awaitable[None]]
) -> None:
    """Emit the messages of a range of offsets, in order.

    Raises:
        ValueError: the address is not a log.
        DataLoss: some of the messages are gone, and `failOnDataLoss` is true.
        DecodeError: a message cannot be decoded, and there is no column `_decode_error`.
    """
    kind = log_of(options)
    columns = Columns(
        schema, options.body_format, {"address": kind.address, "partition": place.partition}, kind.offset_key
    )
    try:
        await _read_range(kind, options, place, columns, emit)
    except (LinkDetached, SessionEnded) as error:
        if error.condition != NOT_FOUND or not kind.deletes:
            raise
        report_lost_offsets(place.partition, place.start, place.end, fail=options.fail_on_data_loss)


async def _read_range(
    kind: Log, options: Options, place: Range, columns: Columns, emit: Callable[[pa.RecordBatch], Awaitable[None]]
) -> None:
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(connection(options, reconnect=True))
        await kind.check(opened, place)
        receiver = await stack.enter_async_context(
            opened.receiver(
                kind.source(opened, place.partition, place.start),
                credit=CREDIT,
                settle_mode="settled",
                properties=link_properties(options),
            )
        )
        following = place.start
        nowhere = 0  # messages after `following - 1` whose offset cannot be read
        while following < place.end:
            deliveries = await receiver.receive_batch(MAX_BATCH, max_wait=IDLE_SECONDS)
            if not deliveries:
                await drain_or_fail(receiver, options.receive_timeout)
                if receiver.buffered:
                    continue
                # A range ends after a message that existed when it was planned; filters may hide that message.
                if following + nowhere < place.end and not options.filtered:
                    report_lost_offsets(place.partition, following + nowhere, place.end, fail=options.fail_on_data_loss)
                break
            for delivery in deliveries:
                try:
                    offset = columns.add(delivery.payload, following, place.end)
                except DecodeError as error:
                    raise undecodable_message(delivery, place.partition, error) from error
                wanted = following + nowhere
                if (
                    offset > wanted
                    and not options.filtered
                    and await _was_removed(kind, opened, place.partition, wanted)
                ):
                    report_lost_offsets(place.partition, wanted, min(offset, place.end), fail=options.fail_on_data_loss)
                nowhere += offset < 0
                if offset >= following:
                    following, nowhere = offset + 1, 0
                    if following >= place.end:
                        break
            if columns.rows:
                await emit(columns.take())


async def _was_removed(kind: Log, opened: Connection, partition: str, wanted: int) -> bool:
    """Return whether messages from the offset `wanted` on were removed, instead of the offsets never having had any."""
    first = await kind.first(opened, partition)
    return first is None or first > wanted + kind.unused
