"""Workers on Azure Service Bus: locks that are kept, and locks that are lost.

All is in memory, and the clock jumps: what takes minutes there takes no time here.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import anyio
import pytest

from amqp10 import Connection, Message, Modified, Outcome, Rejected, Released, Source, Symbol
from amqp10.broker import Broker
from amqp10.broker.azure import AzureConfig, QueueConfig
from amqp10.worker import Retries, Retry, Worker

from ..kit.jumping_clock import Backend, jumping

pytestmark = [pytest.mark.anyio, pytest.mark.capability("workers")]

BEGAN = datetime(2026, 11, 23, tzinfo=UTC).timestamp()


@pytest.fixture(params=["trio", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> Backend:
    return jumping(request.param)


def clock() -> float:
    return BEGAN + anyio.current_time()


@asynccontextmanager
async def emulated(count: int) -> AsyncIterator[tuple[Broker, Connection]]:
    """Run an emulator with so many orders, whose locks last for a minute; and a connection to it."""
    config = AzureConfig([QueueConfig("orders", lock_duration=60.0, max_delivery_count=20)], clock=clock)
    async with Broker(azure=config) as broker, broker.connect(profile="service-bus") as connection:
        async with connection.sender("orders") as sender:
            await sender.send_many(range(count))
        yield broker, connection


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110
        await anyio.sleep(5)


async def left(connection: Connection, address: str = "orders") -> list[Message]:
    """What another receiver gets now; it gives it back."""
    async with connection.receiver(address, credit=100) as receiver:
        found = await receiver.receive_batch(100, max_wait=1)
        for each in found:
            each.release()
        return [each.message for each in found]


@pytest.mark.parametrize("address", ["orders", Source("orders")], ids=["address", "source"])
async def test_locks_are_kept(caplog: pytest.LogCaptureFixture, address: str | Source) -> None:
    """While a handler runs, while a message waits for a retry, or behind another one of its key, for long."""
    seen: Counter[int] = Counter()

    async def handle(message: Message) -> None:
        seen[message.body] += 1
        await anyio.sleep(150)
        if message.body == 0 and seen[0] == 1:
            raise Retry(delay=400)

    async with emulated(4) as (_, connection):
        worker = Worker(connection, address, handle, concurrency=2, key=lambda message: message.body % 2, clock=clock)
        async with worker:
            await until(lambda: worker.handled == 4)
        assert await left(connection) == await left(connection, "orders/$DeadLetterQueue") == []
    assert seen == {0: 2, 1: 1, 2: 1, 3: 1}
    assert worker.locks_lost == 0
    assert not [record for record in caplog.records if getattr(record, "amqp_event", None) == "lock_lost"]


@pytest.mark.parametrize("when", ["in the handler", "at its end"])
async def test_a_lock_that_is_lost(caplog: pytest.LogCaptureFixture, when: str) -> None:
    """The handler is cancelled; the message is not counted as handled, and comes again. So the log says."""
    attempts: list[int] = []
    cancelled = 0

    async def handle(message: Message) -> None:
        nonlocal cancelled
        attempts.append(message.delivery_count)
        if len(attempts) == 1:
            broker.azure.lose_locks("orders")
            if when == "in the handler":
                try:
                    await anyio.sleep_forever()
                finally:
                    cancelled += 1

    async with emulated(1) as (broker, connection):
        async with Worker(connection, "orders", handle, clock=clock) as worker:
            await until(lambda: len(attempts) == 2 and not worker.running)
        assert await left(connection) == []
    assert (worker.handled, worker.locks_lost, worker.dead_lettered) == (1, 1, 0)
    assert attempts == [0, 1]
    assert cancelled == (when == "in the handler")
    [record] = [record for record in caplog.records if getattr(record, "amqp_event", None) == "lock_lost"]
    assert record.levelno == logging.WARNING
    assert "com.microsoft:message-lock-lost" in record.getMessage()


async def test_a_lock_that_is_lost_while_held() -> None:
    """A message that waits for its retry is not tried here again, for it may be elsewhere by then."""
    attempts: list[int] = []

    async def handle(message: Message) -> None:
        attempts.append(message.delivery_count)
        if len(attempts) == 1:
            raise Retry(delay=100)

    async with emulated(1) as (broker, connection):
        async with Worker(connection, "orders", handle, clock=clock) as worker:
            await until(lambda: worker.held)
            broker.azure.lose_locks("orders")
            await until(lambda: worker.handled)
            await until(lambda: not worker.held)
            await anyio.sleep(200)
        assert await left(connection) == []
    assert (worker.handled, worker.locks_lost) == (1, 1)
    assert attempts == [0, 1]


async def test_a_batch_that_lost_its_locks() -> None:
    """None of its messages counts as handled."""
    batches: list[list[int]] = []

    async def handle(messages: list[Message]) -> None:
        batches.append([message.body for message in messages])
        if len(batches) == 1:
            broker.azure.lose_locks("orders")

    async with emulated(3) as (broker, connection):
        worker = Worker(connection, "orders", handle, batch_size=3, max_wait=1, concurrency=1, clock=clock)
        async with worker:
            await until(lambda: worker.handled == 3)
        assert await left(connection) == []
    assert batches == [[0, 1, 2], [0, 1, 2]]
    assert worker.locks_lost == 3


async def test_outcomes() -> None:
    """What the handler says is what the service does, and nothing else is locked meanwhile."""
    says: list[Outcome | None] = [
        None,
        Released(),
        Modified(delivery_failed=True),
        Modified(undeliverable_here=True),
        Rejected(),
    ]
    seen: list[tuple[int, int]] = []

    async def handle(message: Message) -> Outcome | None:
        seen.append((message.body, message.delivery_count))
        if message.body == 5 and message.delivery_count == 0:
            raise ValueError("no")
        return says[message.body] if seen.count((message.body, 0)) == 1 else None

    async with emulated(6) as (_, connection):
        retries = Retries(attempts=1)
        async with Worker(connection, "orders", handle, concurrency=1, retries=retries, clock=clock) as worker:
            await until(lambda: worker.dead_lettered == 3)
        reasons = {
            each.body: [
                each.application_properties[name] for name in ("DeadLetterReason", "DeadLetterErrorDescription")
            ]
            for each in await left(connection, "orders/$DeadLetterQueue")
        }
        assert await left(connection) == []
    tried = "it was tried 1 times without an outcome, and 1 are allowed"
    assert reasons == {
        2: ["amqp:internal-error", tried],
        4: ["amqp:internal-error", "the handler rejected it"],
        5: ["amqp:internal-error", "ValueError: no (attempt 1 of 1)"],
    }
    assert seen == [(0, 0), (1, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0)]


@pytest.mark.parametrize(("prefetch", "locked"), [(None, 3), (2, 5)])
async def test_what_is_not_handled_is_not_locked(prefetch: int | None, locked: int) -> None:
    """No lock runs down while a message waits here; `prefetch` fetches more."""

    async def handle(message: Message) -> None:
        await anyio.sleep(500)

    async with emulated(20) as (_, connection):
        worker = Worker(connection, "orders", handle, concurrency=3, prefetch=prefetch, clock=clock)
        async with worker:
            await until(lambda: worker.running == 3)
            assert len(await left(connection)) == 20 - locked
            worker.drain_timeout = 0
        assert len(await left(connection)) == 20


async def test_the_end_gives_back() -> None:
    """What runs is cancelled, and what is held given back: both are there for others at once."""

    async def handle(message: Message) -> None:
        if message.body == 0:
            raise Retry(delay=1000)
        await anyio.sleep_forever()

    async with emulated(2) as (_, connection):
        async with Worker(connection, "orders", handle, drain_timeout=1, clock=clock) as worker:
            await until(lambda: worker.held == worker.running == 1)
        async with connection.receiver("orders") as receiver:
            with anyio.fail_after(60):
                found = {(await receiver.receive()).message.body for _ in range(2)}
        assert found == {0, 1}
        assert worker.locks_lost == 0


async def test_an_outcome_that_cannot_be_sent() -> None:
    """It does not end the worker: the lock of its message ends, and the message comes again."""
    results: list[Outcome] = [Modified(delivery_failed=True, message_annotations={Symbol("x"): object()})]
    handled: list[int] = []

    async def handle(message: Message) -> Outcome | None:
        if results:
            return results.pop()
        handled.append(message.body)
        return None

    async with emulated(2) as (_, connection):
        async with Worker(connection, "orders", handle, concurrency=1, clock=clock):
            await until(lambda: len(handled) == 2)
        assert handled == [1, 0]
