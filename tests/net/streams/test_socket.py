"""The stream of a socket: waiting, gathering, cancelling at the worst moment, closing under a waiter."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio
from anyio.abc import ByteStream, SocketAttribute, SocketListener
from anyio.streams.stapled import MultiListener

from amqp10.net import accept, listen_tcp
from amqp10.net._streams.socket import SocketStream, TrioSocketStream, WatchedSocketStream, take_over

from ...kit.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["unix", "tcp"])
def kind(request: pytest.FixtureRequest) -> str:
    """Both kinds of sockets."""
    found: str = request.param
    return found


@asynccontextmanager
async def pair(tmp_path: str, kind: str = "unix") -> AsyncIterator[tuple[ByteStream, ByteStream]]:
    """Two ends, through a listener."""
    path = f"{tmp_path}/a.sock"
    listener: Any
    if kind == "unix":
        listener = await anyio.create_unix_listener(path)
    else:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    send, receive = anyio.create_memory_object_stream[ByteStream](1)
    async with listener, anyio.create_task_group() as tasks:

        async def serve(stream: ByteStream) -> None:
            async with stream:
                taken, _ = await accept(stream)
                await send.send(taken)
                await anyio.sleep_forever()

        tasks.start_soon(listener.serve, serve)
        stream: ByteStream
        if kind == "unix":
            stream = await anyio.connect_unix(path)
        else:
            stream = await anyio.connect_tcp("127.0.0.1", listener.extra(SocketAttribute.local_port))
        here = await take_over(stream)
        assert isinstance(here, SocketStream)
        there = await receive.receive()
        async with here, send, receive:
            yield here, there
        tasks.cancel_scope.cancel()


async def test_both_ways(tmp_path: str, kind: str) -> None:
    """More than the socket's buffers hold, to a reader that takes little at a time; then the end."""
    data = bytes(range(256)) * 8192
    async with pair(tmp_path, kind) as (here, there), anyio.create_task_group() as tasks:

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


async def test_several_buffers_in_order(tmp_path: str, kind: str) -> None:
    """More buffers than one system call takes, none, and more than the socket has room for: all arrives in order."""
    buffers: list[bytes | memoryview] = [bytes([n % 256]) * (n % 7) for n in range(3000)]
    buffers += [memoryview(bytes(range(256)) * 8192), b"end"]
    async with pair(tmp_path, kind) as (here, there), anyio.create_task_group() as tasks:
        assert isinstance(here, SocketStream)

        async def write() -> None:
            await here.send_buffers([])
            await here.send_buffers(buffers)
            await here.send_eof()

        tasks.start_soon(write)
        received = bytearray()
        with pytest.raises(anyio.EndOfStream):
            while True:
                received += await there.receive()
        assert received == b"".join(buffers)


async def test_buffers_are_written_together(tmp_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One system call for many of them, as long as the socket has room."""
    calls = 0
    write = SocketStream._write

    def counted(stream: SocketStream, rest: deque[memoryview]) -> int:
        nonlocal calls
        calls += 1
        return write(stream, rest)

    monkeypatch.setattr(SocketStream, "_write", counted)
    async with pair(tmp_path) as (here, there):
        assert isinstance(here, SocketStream)
        await here.send_buffers([b"x" * 10] * 100)
        assert await there.receive() == b"x" * 1000
    assert calls == 1


async def test_others_run_once(tmp_path: str) -> None:
    """While there is something to read, and room to write, a call lets the other tasks run once and goes on."""
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with pair(tmp_path) as (here, there), anyio.create_task_group() as tasks:
        tasks.start_soon(take_turns)
        await anyio.lowlevel.checkpoint()
        before = turns
        for _ in range(100):
            await here.send(b"x")
        assert 90 <= turns - before <= 110  # trio draws lots for who goes first
        before = turns
        for _ in range(100):
            assert await there.receive(1) == b"x"
        assert 90 <= turns - before <= 110  # trio draws lots for who goes first
        tasks.cancel_scope.cancel()


async def test_cancelled_as_data_comes(tmp_path: str, kind: str) -> None:
    """A receive that is cancelled in the moment that data comes: no noise in the event loop, and the data stays."""
    async with pair(tmp_path, kind) as (here, there):
        raw = there.extra(SocketAttribute.raw_socket)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(here.receive)
            await anyio.wait_all_tasks_blocked()
            os.write(raw.fileno(), b"late")
            tasks.cancel_scope.cancel()
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        assert await here.receive() == b"late"


async def test_nothing_left(tmp_path: str, kind: str) -> None:
    """Once all was read the end is waited for as data is, cancelled as elsewhere, and not waited for once it closed."""
    async with pair(tmp_path, kind) as (here, there):
        await there.send(b"all")
        assert await here.receive(100) == b"all"
        with anyio.CancelScope() as scope:
            scope.cancel()
            await here.receive(100)
        assert scope.cancelled_caught
        await there.send(b"in part")
        assert await here.receive(2) == b"in"
        assert await here.receive(100) == b" part"
        await there.send_eof()
        for _ in range(2):
            with pytest.raises(anyio.EndOfStream):
                await here.receive(100)
        await here.aclose()
        with pytest.raises(anyio.ClosedResourceError):
            await here.receive(100)


@pytest.mark.parametrize("how", ["receive", "send"])
async def test_closed_under_a_waiter(tmp_path: str, kind: str, how: str) -> None:
    """Closing wakes whoever waits, and what comes later fails the same way."""
    async with pair(tmp_path, kind) as (here, _), anyio.create_task_group() as tasks:
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


async def test_the_other_end_is_gone(tmp_path: str, kind: str) -> None:
    """Reading ends, writing breaks."""
    async with pair(tmp_path, kind) as (here, there):
        await there.aclose()
        with pytest.raises(anyio.EndOfStream):
            await here.receive()
        with pytest.raises(anyio.BrokenResourceError):
            while True:  # of TCP the first may be written before the other end has said that it is gone
                await here.send(b"x")


async def test_sending_at_once(tmp_path: str, kind: str) -> None:
    """What the system takes without waiting is gone, the rest is given back, and goes out after it."""
    async with pair(tmp_path, kind) as (here, there):
        assert isinstance(here, SocketStream)
        assert not here.send_at_once([b"be", memoryview(b"gin")])
        whole = os.urandom(1 << 24)
        rest = here.send_at_once([whole])
        left = sum(map(len, rest))
        assert 0 < left < len(whole)
        assert b"".join(rest) == whole[-left:]
        got = bytearray()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(here.send_buffers, rest)
            while len(got) < 5 + len(whole):
                got += await there.receive(1 << 20)
        assert got == b"begin" + whole


async def test_sending_at_once_to_nobody(tmp_path: str, kind: str) -> None:
    """All of it is given back, and the error is that of who sends it then."""
    async with pair(tmp_path, kind) as (here, _):
        assert isinstance(here, SocketStream)
        await here.send_eof()
        rest = here.send_at_once([b"lost"])
        assert list(rest) == [b"lost"]
        with pytest.raises(anyio.BrokenResourceError):
            await here.send_buffers(rest)


async def test_one_at_a_time(tmp_path: str, kind: str) -> None:
    """Two who receive at the same time would each get half of it."""
    async with pair(tmp_path, kind) as (here, _), anyio.create_task_group() as tasks:
        tasks.start_soon(here.receive)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(anyio.BusyResourceError):
            await here.receive()
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_receiving_is_stopped(tmp_path: str, kind: str) -> None:
    """Who waits for what comes leaves without it; who waits to write does not notice, and nothing is lost."""
    async with pair(tmp_path, kind) as (here, there):
        assert isinstance(here, TrioSocketStream)
        whole = bytes(1 << 24)

        async def receive() -> None:
            with pytest.raises(anyio.WouldBlock):
                await here.receive()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(here.send_buffers, [whole])
            tasks.start_soon(receive)
            await anyio.wait_all_tasks_blocked()
            here.stop_receiving()
            got = 0
            while got < len(whole):
                got += len(await there.receive(1 << 20))
        await there.send(b"next")
        assert await here.receive() == b"next"
        here.stop_receiving()
        await there.send(b"and on")
        assert await here.receive() == b"and on"
        await here.aclose()
        here.stop_receiving()


# On asyncio the loop reads


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_is_watched_all_along(tmp_path: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one waits for each answer, the loop is told once, and asks the system for no more than what came."""
    loop = asyncio.get_running_loop()
    told: list[str] = []
    async with pair(tmp_path, kind) as (here, there):
        assert isinstance(here, WatchedSocketStream)
        raw = there.extra(SocketAttribute.raw_socket)

        def telling(name: str) -> Callable[..., object]:
            call: Callable[..., object] = getattr(loop, name)

            def told_of(*given: object) -> object:
                told.append(name)
                return call(*given)

            return told_of

        for name in ("add_reader", "remove_reader"):
            monkeypatch.setattr(loop, name, telling(name))
        for number in range(100):
            answer = asyncio.ensure_future(here.receive())
            await anyio.wait_all_tasks_blocked()
            os.write(raw.fileno(), b"%d" % number)
            assert await answer == b"%d" % number
        assert told == ["add_reader"]
        await here.aclose()
        assert told == ["add_reader", "remove_reader"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("then", ["receive", "close"])
@pytest.mark.parametrize("before", [b"", b"early"])
async def test_cancelled_when_it_was_read(
    tmp_path: str, kind: str, then: str, before: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the loop has read for one who is cancelled before it goes on is there for the next, who may want less."""
    async with pair(tmp_path, kind) as (here, there):
        assert isinstance(here, WatchedSocketStream)
        raw = there.extra(SocketAttribute.raw_socket)
        if before:
            os.write(raw.fileno(), before)
            assert await here.receive(100) == before
        read = here._read

        def read_and_cancel() -> None:
            read()
            task.cancel()

        monkeypatch.setattr(here, "_read", read_and_cancel)
        task = asyncio.ensure_future(here.receive(100))
        await anyio.wait_all_tasks_blocked()
        os.write(raw.fileno(), b"late")
        with pytest.raises(asyncio.CancelledError):
            await task
        monkeypatch.undo()
        os.write(raw.fileno(), b"r")
        if then == "close":
            await here.aclose()
            with pytest.raises(anyio.ClosedResourceError):
                await here.receive()
        else:
            got = [await here.receive(3), await here.receive(3), await here.receive(3)]
            assert got == [b"lat", b"e", b"r"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_nobody_waits(tmp_path: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes then is left where it is, and the loop turns in vain once at most."""
    calls = 0
    read = WatchedSocketStream._read

    def counted(stream: WatchedSocketStream) -> None:
        nonlocal calls
        calls += 1
        read(stream)

    monkeypatch.setattr(WatchedSocketStream, "_read", counted)
    async with pair(tmp_path, kind) as (here, there):
        raw = there.extra(SocketAttribute.raw_socket)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(here.receive)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        os.write(raw.fileno(), b"left")
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        assert calls <= 1
        assert await here.receive() == b"left"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_reset_under_a_waiter(tmp_path: str) -> None:
    """The loop meets the error, and who waits is told; after that it is the end."""
    async with pair(tmp_path, "tcp") as (here, there), anyio.create_task_group() as tasks:

        async def wait() -> None:
            with pytest.raises(anyio.BrokenResourceError) as caught:
                await here.receive()
            assert isinstance(caught.value.__cause__, ConnectionResetError)
            with pytest.raises(anyio.EndOfStream):
                await here.receive()

        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        raw = there.extra(SocketAttribute.raw_socket)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await there.aclose()


class Pieces(list[bytes]):
    """Takes what comes until there are `enough` octets."""

    def __init__(self, enough: int) -> None:
        super().__init__()
        self.enough = enough

    def handle(self, piece: bytes) -> bool:
        self.append(piece)
        return sum(map(len, self)) < self.enough


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_handed_over(tmp_path: str, kind: str) -> None:
    """Each piece as it comes, until the handler wants no more; the next is the next receive's."""
    async with pair(tmp_path, kind) as (here, there):
        assert isinstance(here, WatchedSocketStream)
        raw, pieces = there.extra(SocketAttribute.raw_socket), Pieces(30)
        task = asyncio.ensure_future(here.receive_each(100, pieces.handle))
        for number in range(3):
            await anyio.wait_all_tasks_blocked()
            assert not task.done()
            os.write(raw.fileno(), b"%d" % number * 10)
            while len(pieces) <= number:
                await anyio.lowlevel.checkpoint()
        await task
        assert pieces == [b"0" * 10, b"1" * 10, b"2" * 10]
        os.write(raw.fileno(), b"next")
        assert await here.receive() == b"next"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("early", [b"", b"early"])
async def test_handed_over_and_cancelled(tmp_path: str, kind: str, early: bytes) -> None:
    """What comes after a cancellation is the next receive's, and nobody else may receive before."""
    async with pair(tmp_path, kind) as (here, there):
        assert isinstance(here, WatchedSocketStream)
        raw, pieces = there.extra(SocketAttribute.raw_socket), Pieces(100)
        os.write(raw.fileno(), early)
        task = asyncio.ensure_future(here.receive_each(3, pieces.handle))
        await anyio.wait_all_tasks_blocked()
        os.write(raw.fileno(), b"come")
        while b"".join(pieces) != early + b"come":
            await anyio.lowlevel.checkpoint()
        with pytest.raises(anyio.BusyResourceError):
            await here.receive()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        os.write(raw.fileno(), b"later")
        assert await here.receive() == b"later"
        assert b"later" not in pieces


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("how", ["end", "reset", "close"])
@pytest.mark.parametrize("early", [b"", b"early"])
async def test_handing_over_ends(tmp_path: str, how: str, early: bytes) -> None:
    """With the error that a receive would raise."""
    async with pair(tmp_path, "tcp") as (here, there):
        assert isinstance(here, WatchedSocketStream)
        raw, pieces = there.extra(SocketAttribute.raw_socket), Pieces(100)
        task = asyncio.ensure_future(here.receive_each(100, pieces.handle))
        if early:
            os.write(raw.fileno(), early)
            while not pieces:
                await anyio.lowlevel.checkpoint()
        await anyio.wait_all_tasks_blocked()
        error: type[Exception] = anyio.EndOfStream
        if how == "close":
            error = anyio.ClosedResourceError
            await here.aclose()
        elif how == "reset":
            error = anyio.BrokenResourceError
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await there.aclose()
        else:
            await there.aclose()
        with pytest.raises(error):
            await task
        assert b"".join(pieces) == early


def test_handed_over_without_anyio(tmp_path: str) -> None:
    """A handler finds its event loop, whoever runs that: `asyncio.run` does not tell anyio of it."""
    found: list[float] = []

    def handle(piece: bytes) -> bool:
        anyio.Event()
        found.append(anyio.current_time())
        return False

    async def main() -> None:
        async with pair(tmp_path) as (here, there):
            assert isinstance(here, WatchedSocketStream)
            task = asyncio.ensure_future(here.receive_each(100, lambda piece: piece != b"2" or handle(piece)))
            for number in (b"1", b"2"):
                await there.send(number)
                await anyio.sleep(0.01)
            await task

    asyncio.run(main())
    assert found


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_trio_as_a_guest(tmp_path: str) -> None:
    """A trio that runs inside of an asyncio loop reads by itself."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()

    async def inner() -> bytes:
        async with pair(tmp_path) as (here, there):
            assert type(here) is TrioSocketStream
            await there.send(b"from trio")
            return await here.receive()

    trio.lowlevel.start_guest_run(
        inner, run_sync_soon_threadsafe=loop.call_soon_threadsafe, done_callback=over.set_result
    )
    outcome = await over
    assert outcome.unwrap() == b"from trio"


async def test_what_is_sent_before_it_is_asked_for() -> None:
    """A client that sends without waiting for an answer is held back while the server reads nothing."""
    listener, _ = await listen_tcp("127.0.0.1", 0)
    accepted: list[ByteStream] = []
    with socket.create_connection(("127.0.0.1", listener.extra(SocketAttribute.local_port))) as client:
        client.setblocking(False)

        async def serve(stream: ByteStream) -> None:
            accepted.append(stream)
            await anyio.sleep_forever()

        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, serve)
            await until(lambda: accepted)
            sent = held_back = 0
            while sent < 1 << 26 and held_back < 100:
                try:
                    sent += client.send(bytes(1 << 16))
                    held_back = 0
                except BlockingIOError:
                    held_back += 1
                    await anyio.lowlevel.checkpoint()
            assert sent < 1 << 26
            await accepted[0].aclose()
            tasks.cancel_scope.cancel()


async def test_closing_a_listener_that_accepts() -> None:
    """Whoever waits for a connection is told, and so is who asks for another one."""
    multi, _ = await listen_tcp("127.0.0.1", 0)
    assert isinstance(multi, MultiListener)
    (listener,) = multi.listeners
    assert isinstance(listener, SocketListener)
    async with anyio.create_task_group() as tasks:

        async def accept_one() -> None:
            with pytest.raises(anyio.ClosedResourceError):
                await listener.accept()

        tasks.start_soon(accept_one)
        await anyio.wait_all_tasks_blocked()
        await multi.aclose()
    await accept_one()
