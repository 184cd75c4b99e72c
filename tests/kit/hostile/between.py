"""A port before a broker, at which what it says is changed."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import ByteStream, SocketAttribute

from amqp10.broker import Broker

from .servers import PASSWORD, USER, HostileStream

TOTAL = 50


class Between:
    """A port before a broker; each connection to it is changed in another way.

    Attributes:
        seed: of what is changed.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.seed = "spark"
        self.streams: list[HostileStream] = []

    async def take(self, client: ByteStream) -> None:
        """One connection."""
        stream = HostileStream(self._broker.open_stream(), "1.0", random.Random(f"{self.seed} {len(self.streams)}"))
        self.streams.append(stream)
        over = anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError
        async with client, stream, anyio.create_task_group() as tasks:

            async def pass_on(source: ByteStream, sink: ByteStream) -> None:
                try:
                    while True:
                        await sink.send(await source.receive())
                except over:
                    tasks.cancel_scope.cancel()

            tasks.start_soon(pass_on, client, stream)
            tasks.start_soon(pass_on, stream, client)

    async def left(self) -> int:
        """Messages that are in the queue still."""
        return self._broker.queue("a").depth

    async def fill(self) -> None:
        """See that all messages are in the queue, and in the log."""
        url = f"amqp://{USER}:{PASSWORD}@localhost"
        async with self._broker.connect(url) as connection:
            for address in ("a", "log"):
                async with connection.sender(address) as sender:
                    missing = range(self._broker.queue(address).depth, TOTAL)
                    await sender.send_many(b"%d" % number for number in missing)


@asynccontextmanager
async def between() -> Any:
    """It, and its port."""
    async with Broker(users={USER: PASSWORD}, queues={"a": {}, "log": {"x-queue-type": "stream"}}) as broker:
        made = Between(broker)
        await made.fill()
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, made.take)
            yield made, listener.extra(SocketAttribute.local_port)
            tasks.cancel_scope.cancel()
