"""Azure Service Bus: locks, dead letters, sessions, schedules and rules.

Usage: python service_bus_client.py
"""

from datetime import UTC, datetime, timedelta

import anyio

from amqp10 import Message
from amqp10.azure import Rule, ServiceBus, SqlRuleFilter
from amqp10.broker import Broker, TokenRules
from amqp10.broker.azure import (
    EMULATOR_RULE,
    AzureConfig,
    QueueConfig,
    TopicConfig,
    connection_string,
)

CONFIG = AzureConfig(
    ["orders", QueueConfig("kitchen", requires_session=True)],
    [TopicConfig("fruit", ["red"])],
)


async def orders(bus: ServiceBus) -> None:
    async with bus.sender("orders") as sender:
        batch = sender.batch()
        for body in (b"two teas", b"no tea"):
            if not batch.add(Message(body)):
                raise ValueError("the batch is full: send it, and begin another")
        await sender.send(batch)
    async with bus.receiver("orders") as receiver:
        delivery = await receiver.receive()
        # Its end completes the message
        async with delivery.keep_locked(), delivery as message:
            print(message.body, "at attempt", delivery.delivery_count + 1)
        delivery = await receiver.receive()
        await delivery.dead_letter("it cannot be brewed")
    async with bus.receiver("orders", dead_letters=True) as receiver:
        delivery = await receiver.receive()
        print("dead:", delivery.message.body, "because", delivery.dead_letter_reason)
        await delivery.complete()


async def one_after_the_other(bus: ServiceBus) -> None:
    async with bus.sender("kitchen") as sender:
        await sender.send_many(
            Message(body, group_id="kettle") for body in (b"fill", b"boil")
        )
        number = await sender.schedule(
            Message(b"refill", group_id="kettle"), datetime.now(UTC) + timedelta(hours=1)
        )
    async with bus.next_session("kitchen") as session:
        done = []
        for delivery in await session.receive_batch(2):
            async with delivery as message:
                done.append(message.body)
                await session.set_state(message.body)
        state = await session.state() or b""
        bodies = ", ".join(map(str, done))
        print(f"{session.session_id}: {bodies}, last done: {state.decode()}")
        for each in await session.peek():
            print(f"{each.state}: {each.message.body} as number {number}")


async def rules(bus: ServiceBus) -> None:
    red = bus.rules("fruit", "red")
    await red.add(Rule("red", SqlRuleFilter("color = 'red'")))
    await red.remove("$Default")
    async with bus.sender("fruit") as sender:
        await sender.send(Message(b"banana", application_properties={"color": "yellow"}))
        await sender.send(Message(b"apple", application_properties={"color": "red"}))
    async with (
        bus.receiver("fruit", subscription="red") as receiver,
        await receiver.receive() as message,
    ):
        print("red:", message.body)


async def main() -> None:
    # In place of the emulator: what the portal shows, or "NAME.servicebus.windows.net"
    # and a credential.
    async with (
        Broker(azure=CONFIG, tokens=TokenRules([EMULATOR_RULE])) as broker,
        ServiceBus(connection_string(broker.url)) as bus,
    ):
        await orders(bus)
        await one_after_the_other(bus)
        await rules(bus)


if __name__ == "__main__":
    anyio.run(main)
