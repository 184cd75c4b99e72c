"""What idle connections, sessions and links take of memory, at both ends: counted, so that it shows without a clock."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

import pytest

from amqp10 import Connection
from amqp10.broker import Broker

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.in_memory,
    pytest.mark.capability("speed"),
    pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the limits are those of CPython 3.11"),
]

COUNT = 60

Opened = Callable[[Connection, int], AbstractAsyncContextManager[Any]]


@pytest.mark.parametrize(
    ("open_one", "limit"),
    [
        (lambda connection, number: Connection(connection.url), 58),
        (lambda connection, number: connection.session(), 5.9),
        (lambda connection, number: connection.sender(f"q{number}"), 14.5),
        (lambda connection, number: connection.receiver(f"q{number}"), 14.5),
    ],
    ids=["connection", "session", "sender", "receiver"],
)
async def test_idle(open_one: Opened, limit: float) -> None:
    """One more connection, session, or link with its queue, takes at most so many KiB, of client and broker together.

    An object of CPython 3.11 with more than thirty attributes, or a table of more than one entry for each, shows here.
    """
    async with AsyncExitStack() as stack, Broker(users=None) as broker, Connection(broker.url) as connection:
        for number in range(COUNT // 6):  # what is made once, or by the first few
            await stack.enter_async_context(open_one(connection, 1000 + number))
        gc.collect()
        tracemalloc.start()
        try:
            for number in range(COUNT):
                await stack.enter_async_context(open_one(connection, number))
            gc.collect()
            taken = tracemalloc.get_traced_memory()[0] / COUNT / 1024
        finally:
            tracemalloc.stop()
        await stack.aclose()
    assert taken < limit
