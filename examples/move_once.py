"""Move a queue from AMQP 0-9-1 to a broker that drops duplicates.

Usage: python move_once.py [URL OF THE OLD BROKER]
"""

import sys

import anyio

from amqp10 import Connection, Message
from amqp10.broker import Broker

COUNT = 3


def marked(message: Message) -> Message:
    """Return the message with its id where the target looks for ids that it has seen."""
    properties = {"_AMQ_DUPL_ID": str(message.message_id)}
    return message.replace(
        application_properties=message.application_properties | properties
    )


async def move(old: Connection, new: Connection, *, accept: bool) -> None:
    async with (
        old.receiver("move-orders") as receiver,
        new.sender("orders") as sender,
    ):
        while deliveries := await receiver.receive_batch(100, max_wait=1):
            await sender.send_many(marked(each.message) for each in deliveries)
            if accept:
                for each in deliveries:
                    each.accept()


async def main(url: str) -> None:
    async with (
        Connection(url, dialect="0-9-1") as old,
        Broker(duplicate_ids=1000) as broker,
        Connection(broker.url) as new,
    ):
        async with old.sender("move-orders") as sender:
            for n in range(COUNT):
                await sender.send(Message(f"order {n}", message_id=f"order-{n}"))

        # As if the program died before it accepted: the old broker keeps the messages
        await move(old, new, accept=False)
        await move(old, new, accept=True)

        print("at the target:", broker.queue("orders").depth)


anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost:5672")
