"""Urgent messages first, on RabbitMQ 4 and the embedded broker.

Usage: python priority.py [URL]
"""

import sys

import anyio

from amqp10 import Connection, Message
from amqp10.rabbitmq import management, queue_address

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@localhost:5672"


async def main() -> None:
    async with Connection(URL) as connection:
        async with management(connection) as rabbit:
            # A quorum queue needs no argument for it
            await rabbit.declare_queue("letters", "classic", max_priority=9)
        async with connection.sender(queue_address("letters")) as sender:
            for body, priority in ("a leaflet", 1), ("a letter", 5), ("a telegram", 9):
                await sender.send(Message(body, priority=priority, durable=True))
        # With more credit, messages that came early would wait in this process
        async with connection.receiver(queue_address("letters"), credit=1) as receiver:
            for _ in range(3):
                with await receiver.receive() as message:
                    print(message.body)


anyio.run(main)
