"""Durable and shared subscriptions, and a look at a queue.

Usage: python subscriptions.py [URL]
"""

import sys

import anyio

from amqp10 import Connection, Message

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost:5672"


async def main() -> None:
    # A subscription is found again by the name of the container and its own.
    async with Connection(URL, container_id="billing") as connection:
        async with connection.subscription("topic.orders", "invoices"):
            pass  # it is there from now on

        async with connection.sender("topic.orders") as sender:
            await sender.send("while nobody listens")

        async with connection.subscription("topic.orders", "invoices") as receiver:
            with await receiver.receive() as message:
                print("kept:", message.body)
        await connection.unsubscribe("invoices")

        # Several receivers, of other processes too, take turns at one subscription.
        async with (
            connection.subscription(
                "topic.orders", "work", durable=False, shared=True, global_=True
            ) as one,
            connection.subscription(
                "topic.orders", "work", durable=False, shared=True, global_=True
            ) as two,
            connection.sender("topic.orders") as sender,
        ):
            await sender.send_many([Message(number) for number in range(4)])
            for name, receiver in ("one", one), ("two", two):
                for _ in range(2):
                    with await receiver.receive() as message:
                        print(name, "has", message.body)

        # Look at what waits in a queue: the loop ends when all was seen.
        async with connection.sender("looked-at") as sender:
            await sender.send_many([Message("first"), Message("second")])
        async with connection.browser("looked-at") as browser:
            print("waiting:", [delivery.message.body async for delivery in browser])
        # They are still there, until a receiver accepts them.
        async with connection.receiver("looked-at") as receiver:
            for _ in range(2):
                with await receiver.receive():
                    pass


anyio.run(main)
