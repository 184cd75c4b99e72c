"""Event Hubs, against the emulator: what the hub says of its partitions, and their events by sequence number."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime

import anyio
import anyio.to_thread
import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from amqp10 import Connection, LinkDetached, Message, RemoteProtocolError, Source, azure
from amqp10.broker import Broker, TokenRules
from amqp10.broker.azure import EMULATOR_RULE, AzureConfig, EventHubConfig, connection_string
from amqp10.spark import Options
from amqp10.spark._logs import readers
from amqp10.spark._logs.logs import EventHub, log_of, read_range
from amqp10.spark._logs.offsets import Bounds, Offsets, Range
from amqp10.spark._logs.readers import LogStreamReader, ask_bounds, starting_offsets

from ...kit.inside.spark import DataLoss, connection, struct

pytestmark = pytest.mark.anyio

FIRST, END = 5, 12
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
ODD = "events that no hub would have"
SCHEMA = pa.schema([("partition", pa.string()), ("offset", pa.int64()), ("body", pa.binary())])


@pytest.fixture
def anyio_backend() -> str:
    """What the format runs on."""
    return "trio"


@pytest.fixture
async def emulator(anyio_backend: str) -> AsyncIterator[Broker]:
    """One with a hub of two partitions: events 5 to 11 are left of the first, the second never had one.

    Event 9 and those after it came at noon.
    """
    config = AzureConfig(
        event_hubs=[EventHubConfig("hub", 2, retention=3600.0)], clock=lambda: NOON.timestamp() - 3600.0
    )
    async with Broker(azure=config, tokens=TokenRules([EMULATOR_RULE], required=True)) as broker:
        await send(broker, "0", *range(FIRST))
        broker.azure.advance(1800.0)
        await send(broker, "0", *range(FIRST, 9))
        broker.azure.advance(1800.0)
        await send(broker, "0", *range(9, END))
        yield broker


@pytest.fixture
def hub(emulator: Broker) -> Options:
    """How Spark reads it."""
    return options_for(emulator)


def options_for(broker: Broker, **others: str) -> Options:
    key = f"{EMULATOR_RULE.name}:{EMULATOR_RULE.key}@"
    url = broker.url.replace("://", f"://{key}")
    return Options.parse({"url": url, "address": "hub", "mode": "eventhubs", **others})


async def send(broker: Broker, partition: str, *numbers: int) -> None:
    async with azure.EventHub(connection_string(broker.url), "hub") as hub, hub.sender(partition=partition) as sender:
        await sender.send_many(b"%d" % number for number in numbers)


async def test_partitions_and_bounds(hub: Options) -> None:
    """As the management node says them."""
    async with connection(hub) as opened:
        assert opened.mechanism == "ANONYMOUS"  # the token says who it is
        assert await ask_bounds(opened, hub, []) == {"0": Bounds(FIRST, END), "1": Bounds(0, 0)}


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


class Odd:
    """Events that no hub would have: they wait in a queue of another broker, which is read in place of a partition."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.options = Options.parse({"url": url, "address": "hub", "mode": "eventhubs"})

    async def send(self, *numbers: int | None) -> None:
        """Add events with these sequence numbers, or without one; what was read is gone here."""
        async with Connection(self._url) as connection, connection.sender(ODD) as sender:
            for number in numbers:
                said = {} if number is None else {"x-opt-sequence-number": number}
                await sender.send(Message(b"", message_annotations=said))


@pytest.fixture
async def odd(monkeypatch: pytest.MonkeyPatch, anyio_backend: str) -> AsyncIterator[Odd]:
    """Where events come without sequence numbers, or with gaps between them."""
    monkeypatch.setattr(EventHub, "source", lambda self, opened, partition, start: Source(ODD))
    async with Broker() as broker:
        yield Odd(broker.url)


def begins_at(monkeypatch: pytest.MonkeyPatch, offset: int | None) -> None:
    """Let the first event that is left have this offset."""

    async def first(*_: object) -> int | None:
        return offset

    monkeypatch.setattr(EventHub, "first", first)


async def test_a_range_with_offsets_that_nobody_has(odd: Odd, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within it, or at its begin: a loss only if the log begins behind them by then."""
    found: list[int] = []

    async def emit(batch: pa.RecordBatch) -> None:
        found.extend(batch.column("offset").to_pylist())

    async def read_up_to(end: int) -> None:
        await odd.send(10, 11, 20)
        found.clear()
        await read_range(odd.options, Range("0", 10, end), SCHEMA, emit)

    begins_at(monkeypatch, 10)
    await read_up_to(21)
    assert found == [10, 11, 20]
    begins_at(monkeypatch, 20)
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


async def test_an_event_without_a_place(odd: Odd) -> None:
    """It is kept with its error, and its range is not short by it."""
    await odd.send(*range(FIRST, END), None)
    batches: list[pa.RecordBatch] = []

    async def emit(batch: pa.RecordBatch) -> None:
        batches.append(batch)

    schema = SCHEMA.append(pa.field("_decode_error", pa.string()))
    await read_range(odd.options, Range("0", FIRST, END + 1), schema, emit)
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [row["offset"] for row in rows] == [*range(FIRST, END), None]
    assert "no annotation x-opt-sequence-number" in rows[-1]["_decode_error"]


@pytest.mark.parametrize("begin", [END + 3, None], ids=["cut", "emptied by now"])
async def test_a_loss_after_an_event_without_a_place(
    odd: Odd, begin: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands for one offset, and not for another one that is lost."""
    await odd.send(*range(FIRST, END), None, END + 1, END + 3)
    begins_at(monkeypatch, begin)

    async def emit(batch: pa.RecordBatch) -> None:
        pass

    schema = SCHEMA.append(pa.field("_decode_error", pa.string()))
    with pytest.raises(DataLoss, match=f"offsets {END + 2} to {END + 2} of '0' are gone"):
        await read_range(odd.options, Range("0", FIRST, END + 4), schema, emit)


async def test_no_such_hub(emulator: Broker) -> None:
    """The error names the hub, and has what the service says."""
    other = options_for(emulator, address="other")
    async with connection(other) as opened:
        with pytest.raises(RemoteProtocolError, match=r"no event hub 'other' .*/other' could not be found"):
            await ask_bounds(opened, other, [])


async def test_no_such_consumer_group(emulator: Broker) -> None:
    """The error says so; it is no loss that may be passed over."""
    other = options_for(emulator, consumerGroup="other", failOnDataLoss="false")

    async def emit(batch: pa.RecordBatch) -> None:
        pass

    with pytest.raises(LinkDetached, match="the event hub 'hub' has no consumer group 'other'"):
        await read_range(other, Range("0", 7, 10), SCHEMA, emit)


async def test_where_a_moment_is(hub: Options) -> None:
    """Before the first message that has come since; at the end of a partition without one."""
    since = replace(hub, starting_timestamp=NOON)
    bounds = {"0": Bounds(FIRST, END), "1": Bounds(0, 3)}
    async with connection(hub) as opened:
        assert await starting_offsets(opened, since, bounds, "earliest") == {"0": 9, "1": 3}


async def test_a_broker_that_has_no_hubs(hub: Options) -> None:
    """The error says that there is nobody to ask."""
    async with Broker(auto_create=False) as broker, Connection(broker.url) as opened:
        with pytest.raises(RemoteProtocolError, match=r"no event hub .*, or no .management .* is for Azure Event Hubs"):
            await ask_bounds(opened, hub, [])


async def test_a_broker_that_has_a_queue_of_that_name(hub: Options) -> None:
    """What comes from it is not taken for an answer."""
    async with Broker(queues=["$management"]) as broker, Connection(broker.url) as opened:
        with pytest.raises(RemoteProtocolError, match=r".management is something else here .* is for Azure Event Hubs"):
            await ask_bounds(opened, hub, [])


async def test_a_hub_that_does_not_answer(hub: Options) -> None:
    """The error says so; it does not wait for ever."""
    async with Broker(queues=["$management"]) as broker, Connection(broker.url) as opened:
        async with opened.receiver("$management", priority=1):  # who takes all requests, and says nothing
            with pytest.raises(RemoteProtocolError, match=r".management gave no facts about 'hub' in 0.1 s"):
                await ask_bounds(opened, replace(hub, receive_timeout=0.1), [])


async def test_a_stream_of_a_hub(emulator: Broker, hub: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Spark asks for it: what there is when a run begins, in batches over both partitions, and on from there."""
    monkeypatch.setattr(readers, "POLL_SECONDS", 0)
    options = replace(hub, starting_offsets="earliest")
    await send(emulator, "1", *range(14))

    def begin() -> LogStreamReader:
        made = LogStreamReader(options, struct([("partition", "string"), ("offset", "bigint")]))
        made.prepareForTriggerAvailableNow()
        return made

    def read_all(stream: LogStreamReader, start: Offsets, end: Offsets) -> list[tuple[str, int]]:
        rows = [row for each in stream.partitions(start, end) for rows in stream.read(each) for row in rows.to_pylist()]
        return sorted((row["partition"], row["offset"]) for row in rows)

    call = anyio.to_thread.run_sync
    first = await call(begin)
    start = await call(first.initialOffset)
    assert start == {"0": {"from": FIRST, "to": FIRST}, "1": {"from": 0, "to": 0}}
    await send(emulator, "0", END)  # too late for this run
    end = await call(first.latestOffset, start, ReadMaxRows(6))
    assert end == {"0": {"from": 5, "to": 7}, "1": {"from": 0, "to": 4}}
    assert await call(read_all, first, start, end) == [*(("0", n) for n in (5, 6)), *(("1", n) for n in range(4))]
    rest = await call(first.latestOffset, end, ReadAllAvailable())
    assert rest == {"0": {"from": 7, "to": END}, "1": {"from": 4, "to": 14}}
    assert await call(first.latestOffset, rest, ReadAllAvailable()) == rest
    second = await call(begin)
    last = await call(second.latestOffset, rest, ReadAllAvailable())
    assert last == {"0": {"from": END, "to": END + 1}, "1": {"from": 14, "to": 14}}
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
