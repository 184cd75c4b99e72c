"""Azure Event Hubs: keys, batches, positions and owner levels.

Usage: python event_hub_client.py
"""

import anyio

from amqp10 import EventPosition, Message
from amqp10.azure import EventHub, OwnershipLost
from amqp10.broker import Broker, TokenRules
from amqp10.broker.azure import (
    EMULATOR_RULE,
    AzureConfig,
    EventHubConfig,
    connection_string,
)

CONFIG = AzureConfig(event_hubs=[EventHubConfig("telemetry", 2, ["dashboard"])])


async def send(hub: EventHub) -> None:
    async with hub.sender() as sender:
        await sender.send(Message(b"20.5"), key="sensor-7")
        batch = sender.batch(key="sensor-7")  # one key, so one partition, in this order
        for body in (b"21.0", b"21.5"):
            if not batch.add(Message(body)):
                raise ValueError("the batch is full: send it, and begin another")
        await sender.send(batch)


async def partition_with_events(hub: EventHub) -> str:
    for partition in (await hub.properties()).partitions:
        if not (await hub.partition_properties(partition)).empty:
            return partition
    raise LookupError("no partition has events")


async def read(hub: EventHub, partition: str) -> None:
    async with hub.reader(partition, group="dashboard", track_last=True) as reader:
        event = await reader.receive()
        behind = event.last.sequence_number - event.sequence_number if event.last else 0
        print(f"{event.body} of {event.partition_key}, {behind} more are there")
        checkpoint = event.offset or "-1"  # keep it where it outlives the program
    async with hub.reader(partition, start=EventPosition.offset(checkpoint)) as reader:
        print([event.body for event in await reader.receive_batch(2, max_wait=5)])


async def own(hub: EventHub, partition: str) -> None:
    async with hub.reader(partition, owner_level=1) as first:
        await first.receive()
        async with hub.reader(partition, owner_level=2):
            try:
                for _ in range(3):
                    await first.receive()
            except OwnershipLost:
                print("another reader has the partition now")


async def main() -> None:
    # In place of the emulator: what the portal shows, or "NAME.servicebus.windows.net"
    # and a credential.
    async with (
        Broker(azure=CONFIG, tokens=TokenRules([EMULATOR_RULE])) as broker,
        EventHub(connection_string(broker.url), "telemetry") as hub,
    ):
        await send(hub)
        partition = await partition_with_events(hub)
        await read(hub, partition)
        await own(hub, partition)


if __name__ == "__main__":
    anyio.run(main)
