"""What stands at both ends of a bridge in these tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from amqp10 import Connection, Message
from amqp10.broker import Broker


@asynccontextmanager
async def two_brokers() -> AsyncIterator[tuple[Broker, Broker]]:
    """The old one, and the new one."""
    async with Broker() as old, Broker() as new:
        yield old, new


async def fill(broker: Broker, address: str, bodies: Iterable[object]) -> None:
    """Have these in a queue."""
    async with Connection(broker.url) as connection, connection.sender(address) as sender:
        await sender.send_many(bodies)


async def messages(broker: Broker, address: str) -> list[Message]:
    """What waits in a queue; it stays there."""
    async with Connection(broker.url) as connection, connection.browser(address) as browser:
        return [delivery.message async for delivery in browser]


async def bodies(broker: Broker, address: str) -> list[Any]:
    """The bodies of that."""
    return [message.body for message in await messages(broker, address)]


async def until(condition: Callable[[], Any]) -> None:
    """Let the others go on until that is so."""
    with anyio.fail_after(10):
        while not condition():  # noqa: ASYNC110 - of what is waited for there is no event
            await anyio.sleep(0.001)
