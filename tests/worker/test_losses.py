"""Workers whose connection is cut in the middle of their work: every message is handled, none is lost."""

from __future__ import annotations

import logging

import anyio
import pytest

from amqp10 import Connection, ConnectionLost, Message, Reconnect
from amqp10.broker import Broker
from amqp10.testing import FaultProxy
from amqp10.worker import Worker

from ..kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.capability("workers")]


async def test_without_reconnect() -> None:
    """The block is cancelled, and says why."""
    with pytest.raises(ConnectionLost):
        async with Broker() as broker, FaultProxy(broker.url) as proxy, Connection(proxy.url) as connection:
            async with Worker(connection, "orders", print):
                proxy.cut()
                await anyio.sleep_forever()


async def test_what_is_stale_is_not_handled(caplog: pytest.LogCaptureFixture) -> None:
    """What waited behind its key when the connection was lost comes again, and is handled once."""
    seen: list[tuple[int, bool]] = []
    go_on = anyio.Event()
    reconnect = Reconnect(initial_delay=0.01, max_delay=0.05, resume_timeout=0)

    async def handle(message: Message) -> None:
        seen.append((message.body, message.delivery_count > 0))
        await go_on.wait()

    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        async with broker.connect() as filling, filling.sender("orders") as sender:
            await sender.send_many(range(3))
        async with Connection(proxy.url, reconnect=reconnect) as connection:
            async with Worker(connection, "orders", handle, key=lambda message: "all") as worker:
                await until(lambda: seen and worker.held == 2)
                proxy.cut()
                await until(lambda: worker.held == 5)
                go_on.set()
                await until(lambda: broker.queue("orders").depth == 0)
    assert seen == [(0, False), (0, True), (1, True), (2, True)]
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert not any("cannot be told" in each for each in warnings)  # a warning is for what nobody would expect
