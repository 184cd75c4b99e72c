"""Spark reads from a server that is hostile: one clear error or the rows, nothing is taken, and no secret is told."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

pytest.importorskip("pyspark")

from anyio.abc import ByteStream, SocketAttribute
from anyio.from_thread import start_blocking_portal
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from amqp10.broker import Broker

from ...kit.hostile.servers import PASSWORD, USER, HostileStream

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.xdist_group("spark")]

TOTAL = 50
CONVERSATIONS = 4


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


@pytest.fixture
def there() -> Iterator[tuple[Any, Between, int]]:
    with start_blocking_portal("trio") as portal, portal.wrap_async_context_manager(between()) as (made, port):
        yield portal, made, port


def test_batch_reads(spark: SparkSession, there: tuple[Any, Between, int]) -> None:
    """Each looks at the queue, whose messages stay."""
    portal, made, port = there
    told: list[str] = []
    options = {"idleTimeout": "2", "connectTimeout": "2", "receiveTimeout": "2"}
    for _ in range(CONVERSATIONS):
        reader = spark.read.format("amqp").options(url=f"amqp://{USER}:{PASSWORD}@127.0.0.1:{port}", **options)
        try:
            reader.load("a").collect()
        except PySparkException as error:
            told.append(str(error))
    assert told
    for text in told:
        assert PASSWORD not in text
        assert "own task failed" not in text
        assert "ExceptionGroup" not in text
        assert "amqp10.errors." in text
    assert portal.call(made.left) == TOTAL
    assert not any(PASSWORD in line for stream in made.streams for line in stream.lines)
