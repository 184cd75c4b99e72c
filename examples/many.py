"""Keep many messages in flight, and take them in batches. Usage: python many.py [URL]"""

import sys

import anyio

from amqp10 import Connection, Message

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost:5672"
COUNT = 10_000


async def publish(connection: Connection) -> None:
    async with connection.sender("numbers") as sender:
        accepted = await sender.send_many(Message({"n": n}) for n in range(COUNT))
        print(f"{accepted} accepted")


async def consume(connection: Connection) -> None:
    total = count = 0
    async with connection.receiver("numbers", credit=1000) as receiver:
        while count < COUNT:
            for delivery in await receiver.receive_batch(500, max_wait=0.1):
                body = delivery.message.body
                assert isinstance(body, dict)
                total += body["n"]
                count += 1
                delivery.accept()
    print(f"{count} received, their sum is {total}")


async def main() -> None:
    async with Connection(URL) as connection, anyio.create_task_group() as tasks:
        tasks.start_soon(publish, connection)
        tasks.start_soon(consume, connection)


anyio.run(main)
