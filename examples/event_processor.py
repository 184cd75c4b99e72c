"""Azure Event Hubs: processes that share the partitions of a hub.

Usage: python event_processor.py
"""

import tempfile
from pathlib import Path

import anyio

from amqp10.azure import EventHub, EventProcessor, ReceivedEvent, SQLiteLeases
from amqp10.broker import Broker, TokenRules
from amqp10.broker.azure import (
    EMULATOR_RULE,
    AzureConfig,
    EventHubConfig,
    connection_string,
)

CONFIG = AzureConfig(event_hubs=[EventHubConfig("telemetry", 4)])


async def process(hub: EventHub, leases: Path, count: int) -> None:
    done = anyio.Event()
    bodies: list[bytes] = []

    async def handle(event: ReceivedEvent) -> None:
        bodies.append(event.body)
        if len(bodies) == count:
            done.set()

    async with EventProcessor(hub, handle, store=SQLiteLeases(leases)) as processor:
        await done.wait()  # a service waits for a signal: await processor.until_signal()
        print(f"{len(processor.partitions)} partitions, {len(bodies)} events")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        # In place of the emulator: what the portal shows, or
        # "NAME.servicebus.windows.net" and a credential.
        async with (
            Broker(azure=CONFIG, tokens=TokenRules([EMULATOR_RULE])) as broker,
            EventHub(connection_string(broker.url), "telemetry") as hub,
            hub.sender() as sender,
        ):
            leases = Path(folder, "leases.db")
            await sender.send_many([b"event"] * 10)
            await process(hub, leases, 10)
            await sender.send_many([b"event"] * 5)
            await process(hub, leases, 5)  # goes on behind what was handled


if __name__ == "__main__":
    anyio.run(main)
