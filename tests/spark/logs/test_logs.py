"""Event Hubs, as far as a broker of one's own can play it: its management node and the events of its partitions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import anyio
import anyio.to_thread
import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from amqp10 import Connection, Message, RemoteProtocolError, Source
from amqp10.broker import Broker
from amqp10.spark._data_loss import DataLoss
from amqp10.spark._logs import readers
from amqp10.spark._logs.logs import EventHub, log_of, read_range
from amqp10.spark._logs.offsets import Bounds, Offsets, Range
from amqp10.spark._logs.readers import LogStreamReader, ask_bounds, starting_offsets
from amqp10.spark._options import Options
from amqp10.spark._rows.schema import struct

pytestmark = pytest.mark.anyio

FIRST, END = 5, 12
ADDRESS = "hub/ConsumerGroups/$Default/Partitions/0"
SCHEMA = pa.schema([("partition", pa.string()), ("offset", pa.int64()), ("body", pa.binary())])


@pytest.fixture
def anyio_backend() -> str:
    """What the format runs on."""
    return "trio"


@pytest.fixture
def facts() -> dict[str, dict[str, Any]]:
    """What the hub says of its partitions; the second is empty."""
    return {
        "0": {"begin_sequence_number": FIRST, "last_enqueued_sequence_number": END - 1, "is_partition_empty": False},
        "1": {"begin_sequence_number": -1, "last_enqueued_sequence_number": -1, "is_partition_empty": True},
    }


@pytest.fixture
async def hub(
    monkeypatch: pytest.MonkeyPatch, anyio_backend: str, facts: dict[str, dict[str, Any]]
) -> AsyncIterator[Options]:
    """A hub of two partitions."""

    async def answer(connection: Connection) -> None:
        async with connection.responder("$management") as responder:
            async for request in responder:
                asked = request.message.application_properties
                body: object = {"partition_ids": list(facts)} if asked["name"] == "hub" else {}
                if asked["type"] == "com.microsoft:partition":
                    body = facts[asked["partition"]]
                await request.reply(Message(body, application_properties={"status-code": 200}))

    async with Broker() as broker, Connection(broker.url) as connection, anyio.create_task_group() as tasks:
        tasks.start_soon(answer, connection)
        # The service understands its own kind of selector, the broker here does not.
        there = ADDRESS[:-1]
        monkeypatch.setattr(EventHub, "source", lambda self, opened, partition, start: Source(there + partition))
        monkeypatch.setattr(EventHub, "_since", lambda self, opened, partition, since: Source(there + partition))
        async with connection.sender(ADDRESS) as sender:
            for number in range(FIRST, END):
                await sender.send(Message(b"%d" % number, message_annotations={"x-opt-sequence-number": number}))
        yield Options.parse({"url": broker.url, "address": "hub", "mode": "eventhubs"})
        tasks.cancel_scope.cancel()


async def test_partitions_and_bounds(hub: Options) -> None:
    """As the management node says them."""
    async with Connection(hub.url[0]) as connection:
        assert await ask_bounds(connection, hub, []) == {"0": Bounds(FIRST, END), "1": Bounds(0, 0)}


async def test_a_range_is_read(hub: Options) -> None:
    """From its first offset to its last, whatever comes around it."""
    batches: list[pa.RecordBatch] = []

    async def emit(batch: pa.RecordBatch) -> None:
        batches.append(batch)

    await read_range(hub, Range("0", 7, 10), SCHEMA, emit)
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert rows == [{"partition": "0", "offset": n, "body": b"%d" % n} for n in (7, 8, 9)]


async def test_a_range_that_retention_has_cut(hub: Options) -> None:
    """It begins before the oldest event: an error, unless that was to be passed over."""

    async def emit(batch: pa.RecordBatch) -> None:
        pass

    with pytest.raises(DataLoss, match="offsets 0 to 4 of '0' are gone"):
        await read_range(hub, Range("0", 0, 10), SCHEMA, emit)


async def test_a_range_with_offsets_that_nobody_has(hub: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within it, or at its begin: a loss only if the log begins behind them by then."""
    found: list[int] = []

    async def emit(batch: pa.RecordBatch) -> None:
        found.extend(batch.column("offset").to_pylist())

    async def read_up_to(end: int) -> None:
        async with Connection(hub.url[0]) as connection, connection.sender(ADDRESS) as sender:
            for number in (10, 11, 20):  # what is read is gone here
                await sender.send(Message(b"", message_annotations={"x-opt-sequence-number": number}))
        found.clear()
        await read_range(hub, Range("0", 10, end), SCHEMA, emit)

    async def first(*_: object) -> int:
        return 20

    await read_range(hub, Range("0", FIRST, END), SCHEMA, emit)
    await read_up_to(21)
    assert found == [10, 11, 20]
    monkeypatch.setattr(EventHub, "first", first)
    for end, missing in ((21, "12 to 19"), (16, "12 to 15")):
        with pytest.raises(DataLoss, match=f"offsets {missing} of '0' are gone: retention"):
            await read_up_to(end)
    monkeypatch.setattr(EventHub, "unused", 7)
    with pytest.raises(DataLoss):
        await read_up_to(21)
    monkeypatch.setattr(EventHub, "unused", 8)  # in a log whose first one may be of no message
    await read_up_to(21)


async def test_a_range_whose_end_does_not_come(hub: Options, caplog: pytest.LogCaptureFixture) -> None:
    """The log was made anew or cut since the batch was planned: an error, unless that was to be passed over."""
    batches: list[pa.RecordBatch] = []

    async def emit(batch: pa.RecordBatch) -> None:
        batches.append(batch)

    with pytest.raises(DataLoss, match="offsets 12 to 19 of '0' are gone"):
        await read_range(hub, Range("0", 7, 20), SCHEMA, emit)
    with pytest.raises(DataLoss, match="offsets 0 to 1 of '1' are gone"):
        await read_range(hub, Range("1", 0, 2), SCHEMA, emit)
    batches.clear()
    await read_range(replace(hub, fail_on_data_loss=False), Range("1", 0, 2), SCHEMA, emit)
    assert batches == []
    assert "offsets 0 to 1 of '1' are gone" in caplog.text


async def test_an_event_without_a_place(hub: Options) -> None:
    """It is kept with its error, and its range is not short by it."""
    async with Connection(hub.url[0]) as connection, connection.sender(ADDRESS) as sender:
        await sender.send(Message(b"lost"))
    batches: list[pa.RecordBatch] = []

    async def emit(batch: pa.RecordBatch) -> None:
        batches.append(batch)

    await read_range(hub, Range("0", FIRST, END + 1), SCHEMA.append(pa.field("_decode_error", pa.string())), emit)
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [row["offset"] for row in rows] == [*range(FIRST, END), None]
    assert "no annotation x-opt-sequence-number" in rows[-1]["_decode_error"]


@pytest.mark.parametrize("begins_at", [END + 3, None], ids=["cut", "emptied by now"])
async def test_a_loss_after_an_event_without_a_place(
    hub: Options, begins_at: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands for one offset, and not for another one that is lost."""
    async with Connection(hub.url[0]) as connection, connection.sender(ADDRESS) as sender:
        await sender.send(Message(b"lost"))
        for number in (END + 1, END + 3):
            await sender.send(Message(b"", message_annotations={"x-opt-sequence-number": number}))

    async def first(*_: object) -> int | None:
        return begins_at

    async def emit(batch: pa.RecordBatch) -> None:
        pass

    monkeypatch.setattr(EventHub, "first", first)
    with pytest.raises(DataLoss, match=f"offsets {END + 2} to {END + 2} of '0' are gone"):
        await read_range(hub, Range("0", FIRST, END + 4), SCHEMA.append(pa.field("_decode_error", pa.string())), emit)


async def test_no_such_hub(hub: Options) -> None:
    """The error says what the management node did not."""
    other = Options.parse({"url": hub.url[0], "address": "other", "mode": "eventhubs"})
    async with Connection(hub.url[0]) as connection:
        with pytest.raises(RemoteProtocolError, match="which partitions 'other' has"):
            await ask_bounds(connection, other, [])


async def test_where_a_moment_is(hub: Options) -> None:
    """Before the first message that has come since; at the end of a partition without one."""
    since = replace(hub, starting_timestamp=datetime(2026, 1, 31, tzinfo=UTC))
    bounds = {"0": Bounds(FIRST, END), "1": Bounds(0, 3)}
    async with Connection(hub.url[0]) as connection:
        assert await starting_offsets(connection, since, bounds, "earliest") == {"0": FIRST, "1": 3}


async def test_a_broker_that_has_no_hub_at_all(hub: Options) -> None:
    """The error says so; it does not wait for ever."""
    async with Broker() as broker, Connection(broker.url) as connection:
        with pytest.raises(RemoteProtocolError, match=r"there is no .management .* is for Azure Event Hubs"):
            await ask_bounds(connection, hub, [])


async def test_a_hub_that_does_not_answer(hub: Options) -> None:
    """The error says so; it does not wait for ever."""
    async with Broker(queues=["$management"]) as broker, Connection(broker.url) as connection:
        with pytest.raises(RemoteProtocolError, match=r".management gave no facts about 'hub' in 0.1 s"):
            await ask_bounds(connection, replace(hub, receive_timeout=0.1), [])


async def test_a_stream_of_a_hub(
    hub: Options, facts: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Spark asks for it: what there is when a run begins, in batches over both partitions, and on from there."""
    monkeypatch.setattr(readers, "POLL_SECONDS", 0)
    options = replace(hub, starting_offsets="earliest")
    facts["1"] = {"begin_sequence_number": 0, "last_enqueued_sequence_number": 13, "is_partition_empty": False}

    def begin() -> LogStreamReader:
        made = LogStreamReader(options, struct([("partition", "string"), ("offset", "bigint")]))
        made.prepareForTriggerAvailableNow()
        return made

    def read_all(stream: LogStreamReader, start: Offsets, end: Offsets) -> list[tuple[str, int]]:
        rows = [row for each in stream.partitions(start, end) for rows in stream.read(each) for row in rows.to_pylist()]
        return sorted((row["partition"], row["offset"]) for row in rows)

    async def fill(batch: Offsets) -> None:
        """What is read is gone here, unlike in a hub."""
        async with Connection(hub.url[0]) as connection:
            for partition, where in batch.items():
                async with connection.sender(ADDRESS[:-1] + partition) as sender:
                    for number in range(where["from"], where["to"]):
                        await sender.send(Message(b"", message_annotations={"x-opt-sequence-number": number}))

    call = anyio.to_thread.run_sync
    first = await call(begin)
    start = await call(first.initialOffset)
    assert start == {"0": {"from": FIRST, "to": FIRST}, "1": {"from": 0, "to": 0}}
    facts["0"]["last_enqueued_sequence_number"] = END  # too late for this run
    end = await call(first.latestOffset, start, ReadMaxRows(6))
    assert end == {"0": {"from": 5, "to": 7}, "1": {"from": 0, "to": 4}}
    await fill(end)
    assert await call(read_all, first, start, end) == [*(("0", n) for n in (5, 6)), *(("1", n) for n in range(4))]
    rest = await call(first.latestOffset, end, ReadAllAvailable())
    assert rest == {"0": {"from": 7, "to": END}, "1": {"from": 4, "to": 14}}
    assert await call(first.latestOffset, rest, ReadAllAvailable()) == rest
    second = await call(begin)
    last = await call(second.latestOffset, rest, ReadAllAvailable())
    assert last == {"0": {"from": END, "to": END + 1}, "1": {"from": 14, "to": 14}}
    await fill(last)
    assert await call(read_all, second, rest, last) == [("0", END)]
    for stream in (first, second):
        assert stream._connection is not None
        await call(stream._connection.close)


def test_where_to_read_from() -> None:
    """A partition of a consumer group, after the event before the first one; a selector cannot be added."""
    options = {"url": "amqps://ns.servicebus.windows.net", "address": "hub", "mode": "eventhubs", "consumerGroup": "g"}
    place = EventHub(Options.parse(options)).source(None, "3", 7)  # type: ignore[arg-type]
    assert place.address == "hub/ConsumerGroups/g/Partitions/3"
    assert "x-opt-sequence-number >= '7'" in str(place.filter)
    since = EventHub(Options.parse(options))._since(None, "3", datetime(2026, 1, 31, tzinfo=UTC))  # type: ignore[arg-type]
    assert "x-opt-enqueued-time >= '1769817600000'" in str(since.filter)
    with pytest.raises(ValueError, match="'selector': Event Hubs"):
        log_of(Options.parse({**options, "selector": "a = 1"}))
    with pytest.raises(ValueError, match=r"'amqp\.filters': Event Hubs"):
        log_of(Options.parse({**options, "amqp.filters": '{"a": 1}'}))
