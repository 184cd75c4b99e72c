"""Move a queue from an old broker, in AMQP 0-9-1, to a new one.

Usage: python bridge.py [URL OF THE OLD ONE]
"""

import sys

import anyio

import amqp10
from amqp10 import Connection, Message
from amqp10.broker import Broker


async def main(url: str) -> None:
    async with (
        Connection(url, dialect="0-9-1") as old,
        Broker() as broker,
        Connection(broker.url) as new,
    ):
        async with old.sender("bridge-orders") as sender:
            await sender.send_many(
                Message(f"order {n}".encode(), durable=True) for n in range(100)
            )

        report = await amqp10.bridge(
            (old, "bridge-orders"), (new, "orders"), until_empty=True
        )
        print(report)

        async with new.receiver("orders") as receiver:
            with await receiver.receive() as message:
                print(message.body)


anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost:5672")
