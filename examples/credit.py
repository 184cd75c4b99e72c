"""Grant credit by hand, and drain. Usage: python credit.py [URL]"""

import sys

import anyio

from amqp10 import Connection

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost:5672"


async def main() -> None:
    async with Connection(URL) as connection:
        async with connection.sender("tasks") as sender:
            await sender.send_many(f"task {n}" for n in range(5))
        async with connection.receiver("tasks", credit=0) as receiver:
            receiver.add_credit(2)  # exactly two may come
            for _ in range(2):
                delivery = await receiver.receive()
                print(delivery.message.body)
                delivery.accept()
            # More than there are: drain returns when those are here
            receiver.add_credit(10)
            await receiver.drain()
            for delivery in await receiver.receive_batch(10, max_wait=0):
                print(delivery.message.body)
                delivery.accept()


anyio.run(main)
