"""Our client of Event Hubs opposite Microsoft's own, on one emulator: each reads what the other sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial, wraps
from typing import Any

import anyio
import pytest
from anyio import to_thread
from azure.eventhub import EventData
from azure.eventhub.exceptions import ConnectionLostError

from amqp10 import EventPosition, Message
from amqp10.azure import EventHub, OwnershipLost, ReceivedEvent
from amqp10.broker.azure import EventHubConfig

from ._azure import WAIT, Clock
from ._event_hubs import Behavior, HubBehaviors, Sdk, bodies

pytestmark = [pytest.mark.slow, pytest.mark.capability("Event Hubs client")]

behaviors = HubBehaviors(EventHubConfig("telemetry", 4, ["audit"]))


def behavior(coroutine: Callable[[EventHub, Sdk], Awaitable[None]]) -> Behavior:
    """Enter a coroutine that has both clients, as its decorator."""

    @wraps(coroutine)
    def drive(sdk: Sdk, clock: Clock) -> None:
        async def both() -> None:
            with anyio.fail_after(2 * WAIT):
                async with EventHub(sdk.connection_string(), "telemetry") as hub:
                    await coroutine(hub, sdk)

        anyio.run(both, backend="trio")

    return behaviors(drive)


async def theirs(function: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
    """Call something of the SDK, which blocks."""
    return await to_thread.run_sync(partial(function, *arguments, **settings))


async def take(hub: EventHub, count: int, partition: str = "0", **how: Any) -> list[ReceivedEvent]:
    async with hub.reader(partition, **how) as reader:
        return [await reader.receive() for _ in range(count)]


@behavior
async def ours_to_theirs(hub: EventHub, sdk: Sdk) -> None:
    """The SDK reads events and batches that we sent, with all that we said of them."""
    async with hub.sender(partition="0") as sender:
        await sender.send(Message(b"one", message_id="m", application_properties={"n": 1}))
        batch = sender.batch()
        for number in range(20):
            assert batch.add(str(number).encode())
        await sender.send(batch)
    events = await theirs(sdk.read, 21)
    assert bodies(events) == ["one", *map(str, range(20))]
    assert (events[0].message_id, events[0].properties) == ("m", {b"n": 1})


@behavior
async def theirs_to_ours(hub: EventHub, sdk: Sdk) -> None:
    """We read batches that the SDK sent, and say of them what it says."""
    await theirs(sdk.send, "a", "b", "c")
    found, same = await take(hub, 3), await theirs(sdk.read, 3)
    assert [event.body for event in found] == [b"a", b"b", b"c"]
    for ours, its in zip(found, same, strict=True):
        assert (ours.sequence_number, ours.offset, ours.enqueued_at) == (
            its.sequence_number,
            its.offset,
            its.enqueued_time,
        )


@behavior
async def same_partition(hub: EventHub, sdk: Sdk) -> None:
    """A key means the same partition for both, and order holds across them."""
    async with hub.sender() as sender:
        await sender.send(b"1", key="device")
        await theirs(sdk.send, "2", partition=None, key="device")
        batch = sender.batch(key="device")
        batch.add(b"3")
        await sender.send(batch)
        await theirs(sdk.send, "4", partition=None, key="device")
    for partition in (await hub.properties()).partitions:
        if not (await hub.partition_properties(partition)).empty:
            events = await take(hub, 4, partition)
            assert [event.body for event in events] == [b"1", b"2", b"3", b"4"]
            assert {event.partition_key for event in events} == {"device"}


@behavior
async def checkpoints(hub: EventHub, sdk: Sdk) -> None:
    """Each goes on where the other had come to."""
    await theirs(sdk.send, *"abcd")
    [first, second] = await take(hub, 2)
    third = (await theirs(sdk.read, 1, position=second.offset))[0]
    assert third.body_as_str() == "c"
    [fourth] = await take(hub, 1, start=EventPosition.offset(third.offset))
    assert fourth.body == b"d"
    assert first.sequence_number + 3 == fourth.sequence_number


@behavior
async def they_steal(hub: EventHub, sdk: Sdk) -> None:
    """The SDK takes a partition from us by a higher owner level; we say so, and do not fight for it."""
    await theirs(sdk.send, "a")
    async with hub.reader("0", owner_level=1) as reader:
        await reader.receive()
        with sdk.reading(owner_level=2) as reading:
            await theirs(reading.wait, 1)
            with pytest.raises(OwnershipLost):
                await reader.receive()
            assert not reading.errors


@behavior
async def we_steal(hub: EventHub, sdk: Sdk) -> None:
    """We take it from the SDK."""
    await theirs(sdk.send, "a")
    with sdk.reading(owner_level=1) as reading:
        await theirs(reading.wait, 1)
        assert len(await take(hub, 1, owner_level=1)) == 1
        assert isinstance(await theirs(reading.failure), ConnectionLostError)


@behavior
async def same_properties(hub: EventHub, sdk: Sdk) -> None:
    """Both are told the same of the hub and its partitions."""
    await theirs(sdk.send, "a", "b", partition="2")
    with sdk.producer() as producer:
        its = await theirs(producer.get_eventhub_properties)
        of_it = await theirs(producer.get_partition_properties, "2")
    ours, of_ours = await hub.properties(), await hub.partition_properties("2")
    assert (ours.name, list(ours.partitions), ours.created_at) == (
        its["eventhub_name"],
        its["partition_ids"],
        its["created_at"],
    )
    assert (of_ours.first_sequence_number, of_ours.last_sequence_number, of_ours.last_offset) == (
        of_it["beginning_sequence_number"],
        of_it["last_enqueued_sequence_number"],
        of_it["last_enqueued_offset"],
    )
    assert (of_ours.last_enqueued_at, of_ours.empty) == (of_it["last_enqueued_time_utc"], of_it["is_empty"])


@behavior
async def last_event(hub: EventHub, sdk: Sdk) -> None:
    """Both hear the same of the last event while they read."""
    await theirs(sdk.send, "a", "b")
    [event] = await take(hub, 1, track_last=True)
    with sdk.reading(track_last_enqueued_event_properties=True) as reading:
        await theirs(reading.wait, 2)
        assert reading.context is not None
        said = reading.context.last_enqueued_event_properties
    assert event.last is not None
    assert said is not None
    assert (event.last.sequence_number, event.last.offset, event.last.enqueued_at) == (
        said["sequence_number"],
        said["offset"],
        said["enqueued_time"],
    )


@behavior
async def while_they_send(hub: EventHub, sdk: Sdk) -> None:
    """We read on while the SDK sends, from the next event on."""
    async with hub.reader("0", start=EventPosition.latest()) as reader:
        with sdk.producer() as producer:
            for number in range(10):
                await theirs(producer.send_event, EventData(str(number)), partition_id="0")
                assert (await reader.receive()).body == str(number).encode()


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[Callable[[Behavior], None]]:
    """How each behavior went."""
    with behaviors.running(request) as runs:
        yield runs


@pytest.mark.parametrize("behavior", behaviors.all, ids=lambda behavior: behavior.__name__)
def test_behavior(behavior: Behavior, runs: Callable[[Behavior], None]) -> None:
    """What both do and see; each behavior says what that is."""
    runs(behavior)
