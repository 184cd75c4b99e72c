"""Dynamic and anonymous nodes: ask for an address, answer to it.

Usage: python nodes.py [URL]
"""

import sys

import anyio

from amqp10 import Connection, Message

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost:5672"


async def serve(connection: Connection, started: anyio.Event) -> None:
    """Answer one request to wherever it wants its reply."""
    async with (
        connection.receiver("squares") as requests,
        connection.sender(None) as replies,
    ):
        started.set()
        async for delivery in requests:
            request = delivery.message
            assert isinstance(request.body, int)
            await replies.send(
                Message(
                    request.body**2,
                    to=request.reply_to,
                    correlation_id=request.message_id,
                )
            )
            delivery.accept()
            break


async def main() -> None:
    async with Connection(URL) as connection, anyio.create_task_group() as tasks:
        started = anyio.Event()
        tasks.start_soon(serve, connection, started)
        await started.wait()
        async with (
            connection.receiver(dynamic=True) as inbox,
            connection.sender("squares") as sender,
        ):
            await sender.send(Message(12, reply_to=inbox.address, message_id="first"))
            delivery = await inbox.receive()
            print(delivery.message.correlation_id, delivery.message.body)
            delivery.accept()


anyio.run(main)
