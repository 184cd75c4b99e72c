"""A service, and a client that has ten requests under way at once.

Usage: python request_reply.py [URL]
"""

import sys

import anyio

from amqp10 import Connection, Message, Requester

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost:5672"


async def square() -> None:
    async with Connection(URL) as connection, connection.responder("square") as responder:
        async for request in responder:
            number = request.message.body
            # To where the request says, and only then is it accepted
            await request.reply(Message(number * number))


async def ask(requester: Requester, number: int) -> None:
    # A request waits for its reply for as long as you let it
    with anyio.move_on_after(10):
        reply = await requester.request(Message(number))
        print(f"{number} * {number} = {reply.body}")


async def main() -> None:
    async with anyio.create_task_group() as service:
        service.start_soon(square)
        async with (
            Connection(URL) as connection,
            connection.requester("square") as requester,
            anyio.create_task_group() as asking,
        ):
            for number in range(10):
                asking.start_soon(ask, requester, number)
        service.cancel_scope.cancel()


anyio.run(main)
