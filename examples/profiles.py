"""The same program on any broker: its profile spells the nodes.

Usage: python profiles.py [URL]
"""

import sys

import anyio

from amqp10 import Connection

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost:5672"


async def main() -> None:
    async with Connection(URL) as connection:
        profile = connection.profile
        print(f"{profile.title}: a queue is spelled {profile.target('orders').address}")
        for fact in profile.facts:
            print(f"- {fact.text} ({fact.source})")
        async with connection.sender(profile.target("orders")) as sender:
            await sender.send("to a queue named orders, wherever this is")
        async with connection.receiver(profile.source("orders")) as receiver:
            with await receiver.receive() as message:
                print(message.body)


anyio.run(main)
