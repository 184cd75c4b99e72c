"""A queue and a topic of Apache Artemis. Usage: python artemis.py [URL]"""

import json
import sys

import anyio

from amqp10 import Connection, Message

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://user:password@localhost:5672"


# [start:management]
async def queue_names(connection: Connection) -> list[str]:
    asked = {"_AMQ_ResourceName": "broker", "_AMQ_OperationName": "getQueueNames"}
    async with connection.requester("activemq.management") as management:
        reply = await management.request(Message("[]", application_properties=asked))
    if not reply.application_properties["_AMQ_OperationSucceeded"]:
        raise RuntimeError(reply.body)
    (names,) = json.loads(reply.body)
    return names


# [end:management]
async def main() -> None:
    async with Connection(URL) as connection:
        artemis = connection.profile  # says "queue" or "topic" as this broker wants it
        async with connection.sender(artemis.target("shop.orders")) as sender:
            await sender.send(Message("order 1", durable=True))
            print("there is a queue:", "shop.orders" in await queue_names(connection))
        async with connection.receiver(artemis.source("shop.orders")) as receiver:
            with await receiver.receive() as message:
                print("one receiver has", message.body)
        async with (
            connection.receiver(artemis.source("shop.news", "topic")) as first,
            connection.receiver(artemis.source("shop.news", "topic")) as second,
            connection.sender(artemis.target("shop.news", "topic")) as sender,
        ):
            await sender.send("we are open")
            for receiver in (first, second):
                with await receiver.receive() as message:
                    print("each receiver has", message.body)


anyio.run(main)
