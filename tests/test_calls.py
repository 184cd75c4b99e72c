"""Functions of users: what they await may have been cancelled by others, and a plain one may return an awaitable."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from amqp10 import AuthenticationFailed, CbsTokens, Connection, Message, Reconnect
from amqp10.azure import EventHub, ReceivedEvent, ServiceBus, ServiceBusSession
from amqp10.azure.processor import EventProcessor, MemoryLeases
from amqp10.broker import Broker, TokenRules
from amqp10.broker.azure import EMULATOR_RULE, AzureConfig, EventHubConfig, QueueConfig, connection_string
from amqp10.worker import Retries, SessionWorker, Worker

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

ONLY_ASYNCIO = pytest.mark.parametrize("anyio_backend", ["asyncio"])
"""On trio a cancellation belongs to a scope, and cannot come from elsewhere."""

AT_ONCE = Retries(attempts=2, initial_delay=0, max_delay=0)
AZURE = AzureConfig([QueueConfig("steps", requires_session=True)], event_hubs=[EventHubConfig("telemetry", 1, [])])


async def cancelled() -> None:
    """Await what another has cancelled, as a library may."""
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def until(worker: Worker | SessionWorker | EventProcessor, count: int) -> None:
    """Wait until so many messages have an outcome."""
    with anyio.fail_after(60):
        while worker.handled + getattr(worker, "dead_lettered", 0) < count:  # noqa: ASYNC110
            await anyio.sleep(0.01)


@ONLY_ASYNCIO
@pytest.mark.parametrize("plain", [False, True])
async def test_worker_goes_on(anyio_backend: str, plain: bool) -> None:
    """A handler that raises CancelledError, though nobody cancelled it, has failed: it once ended the worker's task."""
    attempts: list[Any] = []

    async def handle(message: Message) -> None:
        attempts.append(message.body)
        if message.body == "bad":
            await cancelled()

    async with Broker(None) as broker, broker.connect() as connection, connection.sender("orders") as sender:
        await sender.send_many(["bad", "good"])
        handler = (lambda message: handle(message)) if plain else handle
        async with Worker(connection, "orders", handler, concurrency=1, retries=AT_ONCE, dead_letters="dead") as worker:
            await until(worker, 2)
        assert sorted(attempts) == ["bad", "bad", "good"]
        async with connection.receiver("dead") as receiver:
            letter = (await receiver.receive()).message
    assert "nobody cancelled the call" in (letter.message_annotations or {})["x-opt-dead-letter-description"]


@ONLY_ASYNCIO
async def test_worker_of_a_handler_that_cancels_itself(anyio_backend: str) -> None:
    """It has failed as well: it once ended the block of the worker in silence."""
    attempts = 0

    async def handle(message: Message) -> None:
        nonlocal attempts
        attempts += 1
        task = asyncio.current_task()
        if attempts == 1 and task is not None:
            task.cancel()
            await asyncio.sleep(0)
        await anyio.sleep(0.01)

    async with Broker(None) as broker, broker.connect() as connection, connection.sender("orders") as sender:
        await sender.send("x")
        async with Worker(connection, "orders", handle, concurrency=1, retries=AT_ONCE) as worker:
            await until(worker, 1)
        assert worker.handled == 1
    assert attempts == 2


async def test_worker_of_an_error_without_text() -> None:
    """An error whose own `__str__` raises is a failure of its message, and does not end the worker."""

    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    async def handle(message: Message) -> None:
        raise Unspeakable

    async with Broker(None) as broker, broker.connect() as connection, connection.sender("orders") as sender:
        await sender.send("x")
        async with Worker(connection, "orders", handle, retries=AT_ONCE, dead_letters="dead") as worker:
            await until(worker, 1)
        assert worker.dead_lettered == 1


async def test_lambdas() -> None:
    """A plain function that returns an awaitable, as a lambda or a decorator makes one: the awaitable is awaited."""
    done: list[Any] = []

    async def handle(message: Any, session: ServiceBusSession | None = None) -> None:
        await anyio.lowlevel.checkpoint()
        done.append(message.body)

    async def handle_all(messages: list[Message]) -> None:
        await anyio.lowlevel.checkpoint()
        done.extend(message.body for message in messages)

    async with Broker(None) as broker, broker.connect() as connection, connection.sender("orders") as sender:
        await sender.send("one")
        async with Worker(connection, "orders", lambda message: handle(message)) as worker:
            await until(worker, 1)
        await sender.send("batch")
        async with Worker(connection, "orders", lambda messages: handle_all(messages), batch_size=2) as worker:
            await until(worker, 1)
        assert worker.dead_lettered == 0
    async with Broker(azure=AZURE, tokens=TokenRules([EMULATOR_RULE])) as broker:
        async with ServiceBus(connection_string(broker.url)) as bus:
            async with bus.sender("steps") as steps:
                await steps.send(Message("session", group_id="a"))
            async with SessionWorker(bus, "steps", lambda message, session: handle(message, session)) as sessions:
                await until(sessions, 1)
        async with EventHub(connection_string(broker.url), "telemetry") as hub:
            async with hub.sender() as events:
                await events.send(b"event")
            async with EventProcessor(hub, lambda event: handle(event), store=MemoryLeases()) as processor:
                await until(processor, 1)
    assert done == ["one", "batch", "session", b"event"]


async def test_file_whose_write_returns_an_awaitable() -> None:
    """On trio as on asyncio."""
    file = io.BytesIO()

    class Wrapped:
        def write(self, data: bytes) -> Any:
            async def write() -> int:
                return file.write(data)

            return write()

    async with Broker(None) as broker, broker.connect() as connection, connection.sender("files") as sender:
        await sender.send(b"content")
        async with connection.receiver("files", stream=True) as receiver:
            delivery = await receiver.receive()
            await delivery.save(Wrapped())
            delivery.accept()
    assert file.getvalue() == b"content"


@ONLY_ASYNCIO
async def test_event_processor_goes_on(anyio_backend: str) -> None:
    """An event whose handler raises CancelledError is tried again, and its partition is read on."""
    seen: list[bytes] = []

    async def handle(event: ReceivedEvent) -> None:
        seen.append(event.body)
        if len(seen) == 1:
            await cancelled()

    async with Broker(azure=AZURE, tokens=TokenRules([EMULATOR_RULE])) as broker:
        async with EventHub(connection_string(broker.url), "telemetry") as hub, hub.sender() as sender:
            await sender.send_many([b"a", b"b"])
            async with EventProcessor(hub, handle, store=MemoryLeases()) as processor:
                await until(processor, 2)
    assert seen == [b"a", b"a", b"b"]


@ONLY_ASYNCIO
async def test_token_source(anyio_backend: str) -> None:
    """A link whose token source raises CancelledError gets an error; it once waited for ever."""

    async def source(scope: str) -> str:
        await cancelled()
        return "no token"

    async with Broker(None) as broker, broker.connect(tokens=CbsTokens(source, allow_insecure=True)) as connection:
        with anyio.fail_after(60), pytest.raises(AuthenticationFailed, match="its source raised CancelledError"):
            await connection.sender("orders").__aenter__()


@ONLY_ASYNCIO
async def test_callable_for_the_url(anyio_backend: str) -> None:
    """A callable that raises CancelledError fails one attempt to connect."""
    asked = 0
    async with Broker() as broker:

        async def url() -> str:
            nonlocal asked
            asked += 1
            if asked == 1:
                await cancelled()
            return broker.url

        async with Connection(url, reconnect=Reconnect(initial_delay=0.01, first_attempts=2)) as connection:
            assert connection.open
    assert asked == 2
