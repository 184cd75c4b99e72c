"""The same with amqp10, in either dialect. Usage: python after.py [URL [DIALECT]]"""

import sys

import anyio

from amqp10 import Connection, Message, MessageReleased
from amqp10.rabbitmq import exchange_address, management, queue_address


async def declare(connection: Connection) -> None:
    """Declare what is needed: the only part that differs by dialect."""
    if connection.dialect == "0-9-1":
        await connection.native.declare_exchange("moving-events", "topic", durable=True)
        quorum = {"x-queue-type": "quorum"}
        await connection.native.declare_queue(
            "moving-orders", durable=True, arguments=quorum
        )
        await connection.native.bind("moving-orders", "moving-events", "order.*")
    else:
        async with management(connection) as rabbit:
            await rabbit.declare_exchange("moving-events", "topic")
            await rabbit.declare_queue("moving-orders", "quorum")
            await rabbit.bind("moving-events", queue="moving-orders", key="order.*")


async def main(url: str, dialect: str) -> None:
    async with Connection(url, dialect=dialect) as connection:
        await declare(connection)

        async with connection.sender(
            exchange_address("moving-events", "order.created")
        ) as sender:
            await sender.send(
                Message(b"order 1", durable=True, application_properties={"region": "eu"})
            )
        async with connection.sender(queue_address("moving-orders")) as sender:
            await sender.send(
                Message(b"order 2", durable=True, application_properties={"region": "eu"})
            )
        async with connection.sender(
            exchange_address("moving-events", "nobody")
        ) as sender:
            try:
                await sender.send(Message(b"order 3", durable=True))
            except MessageReleased:
                print("no queue took order 3")

        async with connection.receiver(
            queue_address("moving-orders"), credit=50
        ) as receiver:
            while batch := await receiver.receive_batch(50, max_wait=1):
                for delivery in batch:
                    # Accepted at the end; given back if an exception leaves the block
                    with delivery as message:
                        if message.body == b"order 2" and message.delivery_count == 0:
                            print("order 2 failed")
                            # release() would not count: in 1.0 this would never end
                            delivery.modify(delivery_failed=True)
                            continue
                        print(
                            message.body.decode(),
                            message.application_properties["region"],
                        )


url = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@localhost"
anyio.run(main, url, sys.argv[2] if len(sys.argv) > 2 else "1.0")
