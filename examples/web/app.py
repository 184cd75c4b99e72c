"""A web application that takes orders by HTTP and puts them into a queue. README.md says
how to run it.

`app` is plain ASGI. Starlette, FastAPI and Django mount it, or take its two halves:
`lifespan` and `place`.
"""

import json
import os

import anyio

from amqp10 import AmqpError, Connection, Message, Reconnect, Sender

URL = os.environ.get("AMQP10_URL", "amqp://localhost:5672")
LARGEST = 64 * 1024


class App:
    """POST /orders: 202 when the broker has the order. GET /ready: 200 while the broker
    is there.
    """

    connection: Connection
    sender: Sender  # one for all requests: any number of tasks may use it

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] == "lifespan":
            await self.lifespan(receive, send)
        elif scope["type"] == "http":
            match scope["method"], scope["path"]:
                case "POST", "/orders":
                    status = await self.place(await body(receive))
                case "GET", "/ready":
                    status = 200 if self.connection.health().ready else 503
                case _:
                    status = 404
            await send(
                {
                    "type": "http.response.start",
                    "status": status,
                    "headers": [(b"content-length", b"0")],
                }
            )
            await send({"type": "http.response.body", "body": b""})

    async def lifespan(self, receive, send) -> None:
        """Be connected from the server's start to its end; the task that opens a
        connection closes it.
        """
        await receive()  # lifespan.startup
        step = "startup"
        self.connection = Connection(URL, reconnect=Reconnect())
        try:
            async with self.connection, self.connection.sender("orders") as self.sender:
                await send({"type": "lifespan.startup.complete"})
                step = "shutdown"
                await receive()  # lifespan.shutdown
        except AmqpError as error:  # at startup: the server ends, and says why
            await send({"type": f"lifespan.{step}.failed", "message": str(error)})
        else:
            await send({"type": "lifespan.shutdown.complete"})

    async def place(self, order: bytes | None) -> int:
        """Return the HTTP status: 202 only if the broker has accepted the order."""
        if order is None:
            return 413
        try:
            number = json.loads(order)["id"]
        except (ValueError, KeyError, TypeError):
            return 400
        message = Message(
            order,
            content_type="application/json",
            message_id=f"order-{number}",
            durable=True,
        )
        try:
            with anyio.fail_after(10):  # a sender waits while the broker is away
                await self.sender.send(message)
        except (TimeoutError, AmqpError):
            return 503  # the caller tries again, with the same id
        return 202


async def body(receive) -> bytes | None:
    """Return the body of a request; None if it is too large."""
    read = b""
    while True:
        event = await receive()
        read += event.get("body", b"")
        if len(read) > LARGEST:
            return None
        if not event.get("more_body"):
            return read


app = App()
