"""Remote calls: a service with two methods, and errors that reach the caller.

Usage: python rpc.py [URL]
"""

import sys
from contextlib import suppress

import anyio

from amqp10 import (
    Connection,
    DecodeError,
    LinkDetached,
    Message,
    MessageNotAccepted,
    Request,
    Requester,
    Responder,
)

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost:5672"


class RemoteError(Exception):
    """The service could not do what was asked."""


async def call(requester: Requester, method: str, *arguments: object) -> object:
    with anyio.fail_after(10):  # TimeoutError if nobody replies
        reply = await requester.request(Message(list(arguments), subject=method))
    if reply.subject == "error":
        raise RemoteError(reply.body)
    return reply.body


async def add(one: int, other: int) -> int:
    return one + other


async def divide(one: int, other: int) -> float:
    return one / other


METHODS = {"add": add, "divide": divide}


async def result(message: Message) -> Message:
    try:
        reply = Message(await METHODS[message.subject or ""](*message.body))
        reply.encode()  # raises here if the value has no AMQP type
    except Exception as error:
        return Message(f"{type(error).__name__}: {error}", subject="error")
    return reply


async def answer(request: Request, free: anyio.Semaphore) -> None:
    try:
        with request as message:  # leaving the block accepts the request
            reply = await result(message)
            if message.reply_to:
                with suppress(MessageNotAccepted, LinkDetached):  # the caller is gone
                    await request.reply(reply)
    except DecodeError:
        print("a malformed request was rejected")
    finally:
        free.release()


async def serve(responder: Responder) -> None:
    free = anyio.Semaphore(20)  # so many requests at a time
    async with anyio.create_task_group() as tasks:
        async for request in responder:
            await free.acquire()
            tasks.start_soon(answer, request, free)


async def main() -> None:
    async with (
        Connection(URL) as connection,
        connection.responder("calculator") as responder,
        connection.requester("calculator") as requester,
        anyio.create_task_group() as service,
    ):
        service.start_soon(serve, responder)
        print("add:", await call(requester, "add", 1, 2))
        for method in ("divide", "multiply"):
            try:
                await call(requester, method, 1, 0)
            except RemoteError as error:
                print(f"{method}: {error}")
        service.cancel_scope.cancel()


anyio.run(main)
