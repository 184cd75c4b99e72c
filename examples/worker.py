"""A worker: three handlers at a time, retries with a delay, dead letters.

Usage: python worker.py [URL]
"""

import logging
import sys

import anyio

from amqp10 import Connection, DeadLetter, Message, Reconnect, Retries, Worker

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost:5672"
done = anyio.Event()
# Its logger names each attempt that fails: not here
logging.getLogger("amqp10.worker").setLevel(logging.CRITICAL)


async def handle(message: Message) -> None:
    order = message.body
    if order["amount"] < 0:
        # Nobody can process it: no further attempt
        raise DeadLetter("an amount below nothing")
    if order["id"] == 2 and message.delivery_count == 0:
        # Anything else: tried again after a delay
        raise ConnectionError("the shop is down")
    print("order", order["id"], "at attempt", message.delivery_count + 1)
    if order["id"] == 2:
        done.set()


async def main() -> None:
    async with Connection(URL, reconnect=Reconnect()) as connection:
        async with connection.sender("worker-orders") as sender:
            for number, amount in enumerate([10, -5, 20, 30]):
                await sender.send(Message({"id": number, "amount": amount}))
        retries = Retries(attempts=3, initial_delay=0.2)
        async with Worker(
            connection,
            "worker-orders",
            handle,
            concurrency=3,
            retries=retries,
            dead_letters="worker-dead",
        ):
            await done.wait()  # a service has `await worker.until_signal()` here
        async with connection.receiver("worker-dead") as receiver:
            delivery = await receiver.receive()
            delivery.accept()
            reason = delivery.message.message_annotations["x-opt-dead-letter-description"]
            print("order", delivery.message.body["id"], "is dead:", reason)


anyio.run(main)
