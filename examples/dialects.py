"""The same program in every AMQP: one word changes, and a message sent in one dialect is
received in another.
"""

import anyio

from amqp10 import Connection, Message
from amqp10.broker import Broker

DIALECTS = ["1.0", "0-10", "0-9-1", "fast", "auto"]


async def send(url: str, dialect: str) -> None:
    async with (
        Connection(url, dialect=dialect) as connection,
        connection.sender("orders") as sender,
    ):
        await sender.send(
            Message(f"from {connection.dialect}", subject="greeting", priority=7)
        )


async def receive(url: str, dialect: str) -> None:
    async with (
        Connection(url, dialect=dialect) as connection,
        connection.receiver("orders") as receiver,
    ):
        delivery = await receiver.receive()
        message = delivery.message
        fields = f"{message.body!r}, {message.subject}, priority {message.priority}"
        print(f"{connection.dialect} has {fields}")
        delivery.accept()


async def main() -> None:
    async with Broker() as broker:
        for ours, theirs in zip(DIALECTS, reversed(DIALECTS), strict=True):
            await send(broker.url, ours)
            await receive(broker.url, theirs)


anyio.run(main)
