"""The stream of a Unix socket: waiting, cancelling at the worst moment, closing under a waiter."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute

from amqp10.net import accept
from amqp10.net._unix import UnixStream

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def pair(tmp_path: str) -> AsyncIterator[tuple[ByteStream, ByteStream]]:
    """Two ends, through a listener."""
    listener = await anyio.create_unix_listener(f"{tmp_path}/a.sock")
    send, receive = anyio.create_memory_object_stream[ByteStream](1)
    async with listener, anyio.create_task_group() as tasks:

        async def serve(stream: ByteStream) -> None:
            async with stream:
                taken, _ = await accept(stream)
                await send.send(taken)
                await anyio.sleep_forever()

        tasks.start_soon(listener.serve, serve)
        here = UnixStream(await anyio.connect_unix(f"{tmp_path}/a.sock"))
        there = await receive.receive()
        async with here, send, receive:
            yield here, there
        tasks.cancel_scope.cancel()


async def test_both_ways(tmp_path: str) -> None:
    """More than the socket's buffers hold, to a reader that takes little at a time; then the end."""
    data = bytes(range(256)) * 8192
    async with pair(tmp_path) as (here, there), anyio.create_task_group() as tasks:

        async def write() -> None:
            await here.send(data)
            await here.send_eof()

        tasks.start_soon(write)
        received = bytearray()
        with pytest.raises(anyio.EndOfStream):
            while True:
                part = await there.receive(50_000)
                assert len(part) <= 50_000
                received += part
        assert received == data
        await there.send(b"the other way is open still")
        assert await here.receive() == b"the other way is open still"


async def test_cancelled_as_data_comes(tmp_path: str) -> None:
    """A receive that is cancelled in the moment that data comes: no noise in the event loop, and the data stays."""
    async with pair(tmp_path) as (here, there):
        raw: socket.socket = there.extra(SocketAttribute.raw_socket)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(here.receive)
            await anyio.wait_all_tasks_blocked()
            raw.send(b"late")
            tasks.cancel_scope.cancel()
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        assert await here.receive() == b"late"


@pytest.mark.parametrize("how", ["receive", "send"])
async def test_closed_under_a_waiter(tmp_path: str, how: str) -> None:
    """Closing wakes whoever waits, and what comes later fails the same way."""
    async with pair(tmp_path) as (here, _), anyio.create_task_group() as tasks:
        calls: dict[str, Callable[[], object]] = {
            "receive": here.receive,
            "send": lambda: here.send(bytes(1 << 24)),
        }

        async def wait() -> None:
            with pytest.raises(anyio.ClosedResourceError):
                await calls[how]()  # type: ignore[misc]

        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        await here.aclose()
        for call in (here.receive, lambda: here.send(b"x"), here.send_eof):
            with pytest.raises(anyio.ClosedResourceError):
                await call()


async def test_the_other_end_is_gone(tmp_path: str) -> None:
    """Reading ends, writing breaks."""
    async with pair(tmp_path) as (here, there):
        await there.aclose()
        with pytest.raises(anyio.EndOfStream):
            await here.receive()
        with pytest.raises(anyio.BrokenResourceError):
            await here.send(b"x")
