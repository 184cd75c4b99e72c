from __future__ import annotations

import anyio
import pytest

from amqp10.broker.internals import memory_streams

pytestmark = pytest.mark.anyio


async def test_both_ways() -> None:
    """What one end sends the other receives, in portions no larger than asked for."""
    one, two = memory_streams()
    await one.send(b"hello")
    await two.send(b"back")
    assert await two.receive(3) == b"hel"
    assert await two.receive() == b"lo"
    assert await one.receive() == b"back"


async def test_end() -> None:
    """What was sent before the end is still received."""
    one, two = memory_streams()
    await one.send(b"last")
    await one.send_eof()
    assert await two.receive() == b"last"
    with pytest.raises(anyio.EndOfStream):
        await two.receive()
    with pytest.raises(anyio.ClosedResourceError):
        await one.send(b"more")
    await two.send(b"still")
    assert await one.receive() == b"still"


async def test_closed() -> None:
    """A closed end tells both sides, also those that wait."""
    one, two = memory_streams()
    ended: list[str] = []

    async def read() -> None:
        try:
            await two.receive()
        except anyio.EndOfStream:
            ended.append("two")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        await one.aclose()
    assert ended == ["two"]
    with pytest.raises(anyio.BrokenResourceError):
        await two.send(b"x")
    with pytest.raises(anyio.ClosedResourceError):
        await one.receive()


async def test_bounded() -> None:
    """A sender waits while the other end does not read, and goes on when it does."""
    one, two = memory_streams()
    sent = 0

    async def write() -> None:
        nonlocal sent
        for _ in range(10):
            await one.send(bytes(100_000))
            sent += 1
        await one.aclose()

    received = 0
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        await anyio.wait_all_tasks_blocked()
        assert sent < 10
        try:
            while True:
                received += len(await two.receive())
        except anyio.EndOfStream:
            pass
    assert received == 1_000_000
