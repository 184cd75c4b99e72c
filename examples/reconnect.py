"""A connection that stays up: several hosts, and what happens to it.

Usage: python reconnect.py [URL ...]
"""

import sys

import anyio

from amqp10 import Connection, Reconnect


async def watch(connection: Connection) -> None:
    async for event in connection.events():
        print(event)


async def main(urls: list[str]) -> None:
    reconnect = Reconnect(initial_delay=0.1, max_delay=30, on_uncertain="resend")
    async with (
        Connection(urls, reconnect=reconnect) as connection,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(watch, connection)
        async with (
            connection.sender("staying-up") as sender,
            connection.receiver("staying-up") as receiver,
        ):
            for number in range(3):
                # Waits for the next connection, if there is none just now
                await sender.send(number)
                delivery = await receiver.receive()
                print("got", delivery.message.body, "from", connection.url)
                delivery.accept()
        tasks.cancel_scope.cancel()


anyio.run(main, sys.argv[1:] or ["amqp://localhost:5672"])
