"""The same on asyncio: nothing changes but what runs it.

Usage: python on_asyncio.py [URL]
"""

import asyncio
import sys

import amqp10

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost:5672"


async def main() -> None:
    await amqp10.send(URL, "greetings", "one", b"two", amqp10.Message({"number": 3}))
    for message in await amqp10.receive(URL, "greetings", count=3):
        print(message.body)


asyncio.run(main())
