"""Send one message and receive it. Usage: python hello.py [URL]"""

import sys

import anyio

from amqp10 import Connection, Message

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost:5672"


async def main() -> None:
    async with Connection(URL) as connection:
        async with connection.sender("orders") as sender:
            await sender.send(
                Message("hello", subject="greeting", application_properties={"n": 1})
            )
        async with connection.receiver("orders", credit=100) as receiver:
            async for delivery in receiver:
                print(delivery.message.body, delivery.message.subject)
                delivery.accept()
                break


anyio.run(main)
