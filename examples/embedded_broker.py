"""The embedded broker, in this process. Usage: python embedded_broker.py"""

import anyio

from amqp10 import Connection
from amqp10.broker import Broker


async def main() -> None:
    async with (
        Broker(queues=["orders"], topics=["news"]) as broker,
        Connection(broker.url) as connection,
    ):
        async with (
            connection.receiver("news") as first,
            connection.receiver("news") as second,
        ):
            async with connection.sender("news") as sender:
                await sender.send("a copy for each")
            for receiver in (first, second):
                delivery = await receiver.receive()
                print(delivery.message.body)
                delivery.accept()
        async with connection.sender("orders") as sender:
            await sender.send("one of them takes it")
        print(broker.queue("orders").depth, "in the queue")


anyio.run(main)
