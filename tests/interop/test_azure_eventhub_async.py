"""Event hubs of the emulator, as the asynchronous clients of Microsoft's own SDK for Python drive them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import wraps
from typing import Any

import pytest
from azure.eventhub import EventData
from azure.eventhub.aio import EventHubConsumerClient, EventHubProducerClient, PartitionContext
from azure.eventhub.exceptions import ConnectionLostError, EventHubError

from amqp10.broker.azure import EventHubConfig

from ._azure import WAIT, Clock
from ._event_hubs import PROMPT, Behavior, HubBehaviors, Sdk

pytestmark = [pytest.mark.slow, pytest.mark.capability("Event Hubs emulator")]

behaviors = HubBehaviors(EventHubConfig("telemetry", 2))


def behavior(coroutine: Callable[[Sdk, Clock], Awaitable[None]]) -> Behavior:
    """Enter a coroutine, as its decorator."""

    @wraps(coroutine)
    def run(sdk: Sdk, clock: Clock) -> None:
        async def drive() -> None:
            async with asyncio.timeout(2 * WAIT):
                await coroutine(sdk, clock)

        asyncio.run(drive())

    return behaviors(run)


def producer_of(sdk: Sdk, **settings: Any) -> EventHubProducerClient:
    text = sdk.connection_string()
    return EventHubProducerClient.from_connection_string(text, eventhub_name="telemetry", **PROMPT | settings)


class Reading:
    """A consumer that receives in a task of its own."""

    def __init__(self, sdk: Sdk) -> None:
        text = sdk.connection_string()
        settings: dict[str, Any] = {**PROMPT, "eventhub_name": "telemetry"}
        self.consumer = EventHubConsumerClient.from_connection_string(text, "$Default", **settings)
        self.events: asyncio.Queue[tuple[str, EventData]] = asyncio.Queue()
        self.errors: asyncio.Queue[Exception] = asyncio.Queue()

    async def on_event(self, context: PartitionContext, event: EventData | None) -> None:
        if event is not None:
            await self.events.put((context.partition_id, event))

    async def on_error(self, context: PartitionContext | None, error: Exception) -> None:
        await self.errors.put(error)

    async def take(self, count: int) -> list[tuple[str, str]]:
        """Wait for so many events; where each is from, and its body."""
        found = [await self.events.get() for _ in range(count)]
        return [(partition, event.body_as_str()) for partition, event in found]


@asynccontextmanager
async def reading(sdk: Sdk, **settings: Any):  # type: ignore[no-untyped-def]
    """Read from the first event on."""
    made = Reading(sdk)
    arguments: dict[str, Any] = {"starting_position": "-1", "on_error": made.on_error, **settings}
    async with made.consumer:
        task = asyncio.create_task(made.consumer.receive(made.on_event, **arguments))
        try:
            yield made
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@behavior
async def send_and_read(sdk: Sdk, clock: Clock) -> None:
    """Batches by id and by key, and single events, are read by one consumer of all partitions."""
    async with producer_of(sdk) as producer:
        batch = await producer.create_batch(partition_id="0")
        batch.add(EventData("a"))
        batch.add(EventData("b"))
        await producer.send_batch(batch)
        await producer.send_batch([EventData("c")], partition_key="key")
        await producer.send_event(EventData("d"), partition_id="1")
    async with reading(sdk) as found:
        events = await found.take(4)
    assert sorted(body for _, body in events) == ["a", "b", "c", "d"]
    assert [body for at, body in events if at == "0"][:2] == ["a", "b"]
    assert ("1", "d") in events


@behavior
async def properties(sdk: Sdk, clock: Clock) -> None:
    """The hub and its partitions say what they are."""
    async with producer_of(sdk) as producer:
        assert (await producer.get_eventhub_properties())["partition_ids"] == ["0", "1"]
        await producer.send_event(EventData("a"), partition_id="1")
        assert (await producer.get_partition_properties("1"))["last_enqueued_sequence_number"] == 0
        assert (await producer.get_partition_properties("0"))["is_empty"]


@behavior
async def stolen(sdk: Sdk, clock: Clock) -> None:
    """A reader of a higher owner level takes the partition."""
    async with producer_of(sdk) as producer:
        await producer.send_event(EventData("a"), partition_id="0")
    async with reading(sdk, partition_id="0", owner_level=1) as first:
        await first.take(1)
        async with reading(sdk, partition_id="0", owner_level=2) as second:
            await second.take(1)
            error = await first.errors.get()
            assert isinstance(error, ConnectionLostError)
            assert "link:stolen" in str(error)


@behavior
async def buffered(sdk: Sdk, clock: Clock) -> None:
    """The buffered producer tells of all that was sent."""
    sent: list[Any] = []

    async def on_success(events: list[Any], partition: str | None) -> None:
        sent.extend(events)

    async def on_error(events: list[Any], partition: str | None, error: Exception) -> None:
        raise AssertionError(error)

    settings: dict[str, Any] = {"buffered_mode": True, "on_success": on_success, "on_error": on_error}
    async with producer_of(sdk, **settings, max_wait_time=0.1) as producer:
        for number in range(20):
            await producer.send_event(EventData(str(number)), partition_id=str(number % 2))
        await producer.flush(timeout=WAIT)
    assert len(sent) == 20
    async with reading(sdk, partition_id="1") as found:
        assert [body for _, body in await found.take(10)] == [str(number) for number in range(1, 20, 2)]


@behavior
async def position(sdk: Sdk, clock: Clock) -> None:
    """A consumer begins behind a sequence number."""
    async with producer_of(sdk) as producer:
        await producer.send_batch([EventData(body) for body in "abc"], partition_id="0")
    async with reading(sdk, partition_id="0", starting_position=0) as found:
        assert await found.take(2) == [("0", "b"), ("0", "c")]


@behavior
async def lower_level_kept_out(sdk: Sdk, clock: Clock) -> None:
    """A reader of a lower owner level is refused."""
    async with producer_of(sdk) as producer:
        await producer.send_event(EventData("a"), partition_id="0")
    async with reading(sdk, partition_id="0", owner_level=3) as first:
        await first.take(1)
        async with reading(sdk, partition_id="0", owner_level=2) as second:
            error = await second.errors.get()
            assert isinstance(error, EventHubError)
            assert "higher owner level 3" in str(error)


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[Callable[[Behavior], None]]:
    """How each behavior went."""
    with behaviors.running(request) as runs:
        yield runs


@pytest.mark.parametrize("behavior", behaviors.all, ids=lambda behavior: behavior.__name__)
def test_behavior(behavior: Behavior, runs: Callable[[Behavior], None]) -> None:
    """What the SDK does and sees; each behavior says what that is."""
    runs(behavior)
