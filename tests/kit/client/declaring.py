"""What is declared by `connection.native` is there again after a loss: the scenes, for any broker that declares."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from amqp10 import Connection, ConnectionRestored, Message, Reconnect
from amqp10.testing import FaultProxy

ALONE = Reconnect(initial_delay=0.01, max_delay=0.2, resume_timeout=0)
"""Nothing outlives its connection."""
PATIENCE = 30
SENT = [b"0", b"0", b"1", b"1", b"2", b"2"]
"""What `the_same_queue_again` sends: after each cut, to the queue and to the exchange."""


@asynccontextmanager
async def connected(
    url: str, dialect: str, reconnect: Reconnect = ALONE
) -> AsyncIterator[tuple[FaultProxy, Connection]]:
    """A connection through what can cut it."""
    with anyio.fail_after(PATIENCE):
        async with FaultProxy(url) as proxy, Connection(proxy.url, dialect=dialect, reconnect=reconnect) as connection:
            yield proxy, connection


async def cut(proxy: FaultProxy, connection: Connection) -> None:
    """Cut it, and wait until it is back."""
    events = connection.events()
    proxy.cut()
    async for event in events:
        if isinstance(event, ConnectionRestored):
            return


async def the_same_queue_again(url: str, dialect: str, reconnect: Reconnect = ALONE) -> list[bytes]:
    """Cut the connection of a receiver on an exclusive queue without a name, bound to an exchange of its own.

    Returns:
        What was received, each body once: after each of three cuts, what was sent to the queue and to the exchange.
    """
    got: list[bytes] = []
    exchange = f"again-{secrets.token_hex(4)}"
    async with connected(url, dialect, reconnect) as (proxy, connection):
        native = connection.native
        await native.declare_exchange(exchange, "topic", auto_delete=True)
        queue = (await native.declare_queue("", exclusive=True, auto_delete=True)).name
        await native.bind(queue, exchange, "order.#")
        async with connection.receiver(queue) as receiver, connection.sender(None) as sender:
            for number in range(3):
                await cut(proxy, connection)
                for to in (f"/queues/{queue}", f"/exchanges/{exchange}/order.made"):
                    await sender.send(Message(b"%d" % number, to=to))
                    body = None
                    while body != b"%d" % number:  # what was accepted last may come again
                        with await receiver.receive() as message:
                            body = message.body
                    got.append(body)
        await native.delete_queue(queue)
    return got


async def gone_with_its_last_consumer(url: str, dialect: str) -> dict[str, bool]:
    """Return whether a queue is there after a cut that was deleted, was left by its last consumer, or is in use."""
    async with connected(url, dialect) as (proxy, connection):
        native = connection.native
        names = [f"again-{kind}-{secrets.token_hex(4)}" for kind in ("deleted", "left", "kept")]
        deleted, left, kept = names
        await native.declare_queue(deleted)
        await native.declare_queue(left, auto_delete=True)
        await native.declare_queue(kept, auto_delete=True)
        await native.delete_queue(deleted)
        async with connection.receiver(kept):
            async with connection.receiver(left):
                pass
            await cut(proxy, connection)
            found = [await native.queue(name) for name in names]
    return dict(zip(("deleted", "left", "in use"), (facts is not None for facts in found), strict=True))
