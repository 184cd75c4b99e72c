"""One program, two dialects: what is sent in AMQP 0-9-1 is received in 1.0.

Usage: python two_dialects.py [URL]
"""

import sys

import anyio

from amqp10 import Connection, Message


async def send(url: str, dialect: str) -> None:
    async with (
        Connection(url, dialect=dialect) as connection,
        connection.sender("/queues/two-dialects") as sender,
    ):
        await sender.send(
            Message(f"sent in {dialect}".encode(), message_id=dialect, durable=True)
        )


async def receive(url: str, dialect: str) -> None:
    async with (
        Connection(url, dialect=dialect) as connection,
        connection.receiver("/queues/two-dialects") as receiver,
    ):
        with await receiver.receive() as message:
            print(message.body.decode(), "received in", dialect)


async def main(url: str) -> None:
    async with Connection(url, dialect="0-9-1") as connection:
        await connection.native.declare_queue("two-dialects", durable=True)
    await send(url, "0-9-1")
    await receive(url, "1.0")
    await send(url, "1.0")
    await receive(url, "0-9-1")


anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost:5672")
