"""Send a message that arrives later, on RabbitMQ 4 and the embedded broker.

Usage: python delays.py [URL]
"""

import sys
from datetime import timedelta
from time import monotonic

import anyio

from amqp10 import Connection, Message
from amqp10.rabbitmq import management, queue_address

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@localhost:5672"
DELAY = timedelta(seconds=1)


async def declare(connection: Connection) -> None:
    async with management(connection) as rabbit:
        await rabbit.declare_queue("reminders", "quorum")
        # Nobody receives from it: its messages expire, and go to "reminders"
        await rabbit.declare_queue(
            "reminders.in-1s",
            "quorum",
            message_ttl=DELAY,
            dead_letter_exchange="",
            dead_letter_routing_key="reminders",
            dead_letter_strategy="at-least-once",
            overflow="reject-publish",
        )


async def main() -> None:
    async with Connection(URL) as connection:
        await declare(connection)
        async with connection.sender(queue_address("reminders.in-1s")) as sender:
            await sender.send(Message("call back", durable=True))
            sent = monotonic()
        async with connection.receiver(queue_address("reminders")) as receiver:
            with await receiver.receive() as message:
                later = timedelta(seconds=monotonic() - sent) >= DELAY * 0.9
                print(message.body, "arrived later:", later)


anyio.run(main)
