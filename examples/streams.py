"""A stream of the embedded broker: a log that is read from any offset, by anyone, as
often as one likes.
"""

import anyio

from amqp10 import Connection, Source, StreamOffset
from amqp10.broker import Broker

QUEUES = {
    "measured": {
        "x-queue-type": "stream",
        "x-max-length-bytes": 1_000_000,
        "x-max-age": "7D",
    }
}


async def read(connection: Connection, where: str | int) -> list[str]:
    source = Source("measured", filters=[StreamOffset(where)])
    async with connection.receiver(source) as receiver:
        found = []
        for delivery in await receiver.receive_batch(100, max_wait=0.1):
            message = delivery.message
            found.append(
                f"{message.message_annotations['x-stream-offset']}: {message.body}"
            )
            delivery.accept()  # gives credit; the message stays
        return found


async def main() -> None:
    async with Broker(queues=QUEUES) as broker, Connection(broker.url) as connection:
        async with connection.sender("measured") as sender:
            for degrees in (18, 19, 21):
                await sender.send(degrees)
        print("all of it:", *await read(connection, "first"), sep="\n")
        print("from 2:", *await read(connection, 2), sep="\n")
        print("still there:", broker.queue("measured").depth)


anyio.run(main)
