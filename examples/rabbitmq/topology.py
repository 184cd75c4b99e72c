"""Queues, exchanges and bindings on RabbitMQ 4, over AMQP 1.0 alone.

Usage: python topology.py [URL]
"""

import sys
from datetime import timedelta

import anyio

from amqp10 import Connection, Message, MessageReleased
from amqp10.rabbitmq import exchange_address, management, queue_address

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@localhost:5672"


async def main() -> None:
    async with Connection(URL) as connection, management(connection) as rabbit:
        orders = await rabbit.declare_queue(
            "orders/eu", "quorum", delivery_limit=5, message_ttl=timedelta(hours=1)
        )
        await rabbit.declare_exchange("events", "topic")
        await rabbit.bind("events", queue=orders.name, key="order.#")

        async with connection.sender(
            exchange_address("events", "order.created")
        ) as sender:
            await sender.send(Message("order 1"))
        async with connection.sender(
            exchange_address("events", "nobody.listens")
        ) as sender:
            try:
                await sender.send(Message("lost?"))
            except MessageReleased as released:
                print(released.meaning)

        print(orders.type, (await rabbit.queue(orders.name)).messages, "message")
        async with connection.receiver(queue_address(orders.name)) as receiver:
            with await receiver.receive() as message:
                print(message.body)

        await rabbit.delete_queue(orders.name)
        await rabbit.delete_exchange("events")


anyio.run(main)
