"""`amqp10.azure`: batches of 100, one after the other; receives up to 100 at a time."""

from __future__ import annotations

import os

import anyio
from clock import Clock

from amqp10 import Message
from amqp10.azure import EventHub, EventSender, ServiceBus, ServiceBusSender

BATCH = 100
clock = Clock("amqp10", ("send", "lock", "delete", "events-send", "events-receive"))
where = os.environ["AMQP10_BENCH_AZURE"]


async def send(sender: ServiceBusSender | EventSender) -> None:
    """Batches, each of new messages."""
    while clock.done < clock.total:
        batch = sender.batch()
        for number in range(clock.done, min(clock.done + BATCH, clock.total)):
            assert batch.add(Message(clock.body, message_id=str(number)))
        await sender.send(batch)
        clock.tick(len(batch))


async def receive(bus: ServiceBus) -> None:
    """Up to 100 at a time; completed together, where they are locked."""
    mode = "peek-lock" if clock.mode == "lock" else "receive-and-delete"
    async with bus.receiver(clock.address, mode=mode) as receiver:
        while clock.done < clock.total:
            deliveries = await receiver.receive_batch(min(BATCH, clock.total - clock.done))
            assert all(len(each.message.body) == clock.size for each in deliveries)
            if clock.mode == "lock":
                await receiver.complete_many(deliveries)
            clock.tick(len(deliveries))


async def read(hub: EventHub) -> None:
    """Events of one partition, from the first one on, up to 100 at a time."""
    async with hub.reader("0") as reader:
        while clock.done < clock.total:
            events = await reader.receive_batch(min(BATCH, clock.total - clock.done))
            assert all(len(each.body) == clock.size for each in events)
            clock.tick(len(events))


async def main() -> None:
    """Do what the mode says."""
    clock.begin()
    if clock.mode.startswith("events"):
        async with EventHub(where, clock.address) as hub:
            if clock.mode == "events-receive":
                await read(hub)
            else:
                async with hub.sender(partition="0") as events:
                    await send(events)
            clock.report()
        return
    async with ServiceBus(where) as bus:
        if clock.mode == "send":
            async with bus.sender(clock.address) as sender:
                await send(sender)
        else:
            await receive(bus)
        clock.report()


anyio.run(main, backend=clock.variant or "trio")
