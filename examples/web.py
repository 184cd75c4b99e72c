"""A web application that puts orders into a queue. Usage: python web.py [URL]

`Shop` is plain ASGI: any server runs it, and a framework mounts it. Here it is called
without a server.
"""

import sys

import anyio

from amqp10 import AmqpError, Connection, Message, Reconnect, Sender

LARGEST = 256 * 1024
URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost:5672"


class Shop:
    """POST /orders: 202 when the broker has the order, 503 when it cannot take it in ten
    seconds.
    """

    sender: Sender  # one for all requests: any number of tasks may use it

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] == "lifespan":
            await self.live(receive, send)
        elif scope["type"] == "http":
            status = 404
            if (scope["method"], scope["path"]) == ("POST", "/orders"):
                status = await self.order(await whole_body(receive))
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    async def live(self, receive, send) -> None:
        """Be connected from the server's start to its end; a connection is closed by the
        task that opened it.
        """
        await receive()  # lifespan.startup
        step = "startup"
        try:
            async with (
                Connection(URL, reconnect=Reconnect()) as connection,
                connection.sender("web-orders") as self.sender,
            ):
                await send({"type": "lifespan.startup.complete"})
                step = "shutdown"
                await receive()  # lifespan.shutdown
        except AmqpError as error:  # at startup: the server ends, and says why
            await send({"type": f"lifespan.{step}.failed", "message": str(error)})
        else:
            await send({"type": "lifespan.shutdown.complete"})

    async def order(self, body: bytes | None) -> int:
        if body is None:
            return 413
        message = Message(body, content_type="application/json", durable=True)
        try:
            with anyio.fail_after(10):  # a sender waits while the broker is away
                await self.sender.send(message)
        except (TimeoutError, AmqpError):
            return 503
        return 202


async def whole_body(receive) -> bytes | None:
    """Return the body, which comes in parts; None if it is too large."""
    body, more = b"", True
    while more and len(body) <= LARGEST:
        event = await receive()
        body += event.get("body", b"")
        more = event.get("more_body", False)
    return body if len(body) <= LARGEST else None


async def main() -> None:
    """Do what a web server does: start the application, hand it one request, stop it."""
    shop = Shop()
    to_shop, from_server = anyio.create_memory_object_stream[dict](1)
    to_server, from_shop = anyio.create_memory_object_stream[dict](1)

    async def send(event) -> None:
        if event["type"] == "http.response.start":
            print("status", event["status"])

    async def receive() -> dict:
        return {"type": "http.request", "body": b'{"id": 1}'}

    async with (
        to_shop,
        from_server,
        to_server,
        from_shop,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(shop, {"type": "lifespan"}, from_server.receive, to_server.send)
        await to_shop.send({"type": "lifespan.startup"})
        print((await from_shop.receive())["type"])
        await shop({"type": "http", "method": "POST", "path": "/orders"}, receive, send)
        await to_shop.send({"type": "lifespan.shutdown"})
        print((await from_shop.receive())["type"])


anyio.run(main)
