"""Clients within all limits, and what those beyond them are told, for the tests of limits."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

import anyio
import anyio.lowlevel
import pytest

from amqp10 import Connection
from amqp10.broker import Broker
from amqp10.engine import (
    dialect_names,
)
from amqp10.errors import (
    LinkDetached,
    SessionEnded,
)
from amqp10.messaging import Message
from amqp10.rabbitmq import management

from ..waiting import until

NAMES = sorted(dialect_names())
REFUSED = {
    name: "amqp:precondition-failed" if name.startswith("0-9") else "amqp:resource-limit-exceeded" for name in NAMES
}
TOO_MANY = {  # as each dialect says that there is no room for a connection
    "1.0": "amqp:resource-limit-exceeded",
    "0-9-1": "amqp:resource-limit-exceeded",
    "0-9": "amqp:resource-limit-exceeded",
    "0-9-draft": "amqp:resource-limit-exceeded",
    "0-10": "amqp:connection:forced",
    "fast": "amqp:resource-limit-exceeded",
}
numbers = itertools.count(1)


def condition_of(error: BaseException) -> str:
    """The condition of what a peer said; the older dialects' reply code 406 is precondition-failed."""
    assert isinstance(error, LinkDetached | SessionEnded), error  # the connection goes on
    return str(error.condition)


@asynccontextmanager
async def victim(
    broker: Broker, name: str = "1.0", url: str | None = None
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """A client within all limits; what is yielded sends a message and receives it."""
    queue = f"victim-{next(numbers)}"
    async with (
        Connection(url or broker.url, dialect=name, container_id="victim") as connection,
        connection.sender(queue) as sender,
        connection.receiver(queue) as receiver,
    ):

        async def serve() -> None:
            with anyio.fail_after(60):
                await sender.send("served")
                with await receiver.receive() as message:
                    assert message.body == "served"

        yield serve


WAYS = ["delete", "purge", "subscription", "expiry", "transaction"]


async def fill_and_free(connection: Connection, way: str, log: pytest.LogCaptureFixture) -> None:
    """Send 60,000 octets to the queue "q", or to the topic "topic.t", and have them go in one of these ways.

    It ends when the broker's log has said that senders are stopped, and then that they go on.
    """

    def full() -> bool:
        return "are stopped" in log.text

    async with AsyncExitStack() as stack:
        if way == "subscription":
            subscriber = await stack.enter_async_context(connection.receiver("topic.t", credit=0))
        sender = await stack.enter_async_context(connection.sender("topic.t" if way == "subscription" else "q"))
        if way == "transaction":
            async with connection.transaction() as transaction:
                await sender.send(Message(bytes(60_000)), transaction=transaction)
                await until(full)
                await transaction.rollback()
        else:
            await sender.send(Message(bytes(60_000), ttl=timedelta(seconds=0.2) if way == "expiry" else None))
            await until(full)
        if way == "subscription":
            await subscriber.close()
        elif way == "reject":
            async with connection.receiver("q") as receiver:
                (await receiver.receive()).reject()
            async with management(connection) as manager:
                await manager.purge_queue("dead-letter")
        elif way in ("delete", "purge"):
            async with management(connection) as manager:
                await (manager.delete_queue if way == "delete" else manager.purge_queue)("q")
        await until(lambda: "go on" in log.text)
