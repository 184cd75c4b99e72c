"""Call the application as a web server does, beside an embedded broker. Run `demo.py`."""

import asyncio
import os

from amqp10.testing import BackgroundBroker


async def request(app, method: str, path: str, body: bytes = b"") -> None:
    async def receive():
        return {"type": "http.request", "body": body}

    async def send(event) -> None:
        if event["type"] == "http.response.start":
            print(method, path, event["status"])

    await app({"type": "http", "method": method, "path": path}, receive, send)


async def main(broker: BackgroundBroker) -> None:
    os.environ["AMQP10_URL"] = broker.url
    from app import app

    events: asyncio.Queue[dict] = asyncio.Queue()
    answers: asyncio.Queue[dict] = asyncio.Queue()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(app({"type": "lifespan"}, events.get, answers.put))
        await events.put({"type": "lifespan.startup"})
        await answers.get()
        await request(app, "GET", "/ready")
        await request(app, "POST", "/orders", b'{"id": 1}')
        await request(app, "POST", "/orders", b"not JSON")
        await request(app, "POST", "/orders", b" " * 100_000)
        await events.put({"type": "lifespan.shutdown"})
        await answers.get()
    print(broker.queue("orders").depth, "order is in the queue")


with BackgroundBroker() as broker:
    asyncio.run(main(broker))
