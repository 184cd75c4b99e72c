"""Handlers that are plain functions run in threads, which no clock of a test's moves."""

from __future__ import annotations

import threading

import pytest

from amqp10 import Message
from amqp10.worker import Worker

from ..kit.worker.queues import Queues, until_done

pytestmark = [pytest.mark.anyio, pytest.mark.capability("workers")]


async def test_plain_functions_run_in_threads(queues: Queues) -> None:
    """As many of them as of coroutines, and not in the thread of the event loop."""
    threads = set()
    barrier = threading.Barrier(3)

    def handle(message: Message) -> None:
        threads.add(threading.get_ident())
        barrier.wait(10)

    await queues.put("orders", range(3))
    async with Worker(queues.connection, "orders", handle, concurrency=3) as worker:
        await until_done(worker, 3)
    assert len(threads) == 3
    assert threading.get_ident() not in threads
