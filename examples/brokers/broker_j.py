"""A queue and a topic of Apache Qpid Broker-J. Usage: python broker_j.py [URL]"""

import sys

import anyio

from amqp10 import Connection, Message

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://user:password@localhost:5672"


# [start:management]
async def depth(connection: Connection, queue: str) -> int:
    async with connection.management() as management:
        found = await management.request(
            "getStatistics", "org.apache.qpid.Queue", index="object-path", key=queue
        )
    return found.body["queueDepthMessages"]


# [end:management]
async def main() -> None:
    async with Connection(URL) as connection:
        broker = connection.profile
        async with connection.sender(broker.target("shop.orders")) as sender:
            await sender.send(Message("order 1", durable=True))
            print("waiting in the queue:", await depth(connection, "shop.orders"))
        async with connection.receiver(broker.source("shop.orders")) as receiver:
            with await receiver.receive() as message:
                print("one receiver has", message.body)
        async with (
            connection.receiver(broker.source("amq.fanout", "topic")) as first,
            connection.receiver(broker.source("amq.fanout", "topic")) as second,
            connection.sender(broker.target("amq.fanout", "topic")) as sender,
        ):
            await sender.send("we are open")
            for receiver in (first, second):
                with await receiver.receive() as message:
                    print("each receiver has", message.body)


anyio.run(main)
