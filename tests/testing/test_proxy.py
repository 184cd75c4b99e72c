"""The proxy that breaks things, with plain sockets at both ends and with a client and a broker."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute

from amqp10 import Connection, ConnectionLost
from amqp10.broker import Broker
from amqp10.broker.internals import MemoryStream, memory_streams
from amqp10.testing import FaultProxy
from amqp10.testing._proxy import Relay, Way

pytestmark = [pytest.mark.anyio, pytest.mark.capability("test kit")]


class Echo:
    """A server that sends back what it gets, and notes how it ended."""

    def __init__(self) -> None:
        self.url = ""
        self.got = b""
        self.ends: list[str] = []
        self.ended = anyio.Event()

    async def serve(self, stream: ByteStream) -> None:
        async with stream:
            try:
                while True:
                    data = await stream.receive()
                    self.got += data
                    await stream.send(data)
            except (anyio.EndOfStream, anyio.BrokenResourceError) as error:
                self.ends.append(type(error).__name__)
                self.ended.set()


@pytest.fixture
async def echo(anyio_backend: str) -> AsyncIterator[Echo]:
    echo = Echo()
    async with anyio.create_task_group() as tasks:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        echo.url = f"tcp://user:secret@127.0.0.1:{listener.extra(SocketAttribute.local_port)}/path"

        async def listen() -> None:
            async with listener:
                await listener.serve(echo.serve)

        tasks.start_soon(listen)
        yield echo
        tasks.cancel_scope.cancel()


async def connect(proxy: FaultProxy) -> ByteStream:
    """A plain connection through the proxy."""
    return await anyio.connect_tcp("127.0.0.1", proxy._port)


async def read(stream: ByteStream, count: int) -> bytes:
    """That many bytes, as they come."""
    data = b""
    with anyio.fail_after(60):
        while len(data) < count:
            data += await stream.receive(count - len(data))
    return data


async def test_url(echo: Echo) -> None:
    """Its URL is the server's, with another port."""
    async with FaultProxy(echo.url) as proxy:
        assert proxy.url == f"tcp://user:secret@127.0.0.1:{proxy._port}/path"
        assert str(proxy._port) not in echo.url
    with pytest.raises(ValueError, match="a host and a port"):
        FaultProxy("amqp://localhost")


async def test_pass(echo: Echo) -> None:
    """Untold, it passes everything on, and the end."""
    async with FaultProxy(echo.url) as proxy:
        async with await connect(proxy) as stream:
            await stream.send(b"x" * 100_000)
            assert await read(stream, 100_000) == b"x" * 100_000
            assert (proxy.connections, proxy.accepted, proxy.passed) == (1, 1, {"up": 100_000, "down": 100_000})
        with anyio.fail_after(60):
            await echo.ended.wait()
        assert echo.ends == ["EndOfStream"]
        assert proxy.cuts == 0


@pytest.mark.parametrize("piece", [None, 1, 7])
@pytest.mark.parametrize("count", [0, 1, 10, 99])
async def test_cut_after_up(echo: Echo, count: int, piece: int | None) -> None:
    """Just so many bytes get to the server, wherever the writes begin and end; then both ends see the end."""
    async with FaultProxy(echo.url) as proxy:
        proxy.piece = piece
        proxy.cut_after(count, "up")
        async with await connect(proxy) as stream:
            await stream.send(bytes(range(100)))
            with anyio.fail_after(60):
                await echo.ended.wait()
                with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    while True:
                        await stream.receive()
        assert echo.got == bytes(range(count))
        assert (proxy.cuts, proxy.connections) == (1, 0)
        async with await connect(proxy) as stream:  # once only
            await stream.send(bytes(range(100)))
            assert await read(stream, 100) == bytes(range(100))


async def test_cut_after_down(echo: Echo) -> None:
    """The other way, the server has everything and the client just so many bytes of the answer."""
    async with FaultProxy(echo.url) as proxy:
        proxy.cut_after(5, "down")
        async with await connect(proxy) as stream:
            await stream.send(b"0123456789")
            got = b""
            with anyio.fail_after(60), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                while True:
                    got += await stream.receive()
        assert got == b"01234"
        assert echo.got == b"0123456789"


async def test_cut_with_reset(echo: Echo) -> None:
    """A reset is seen as one."""
    async with FaultProxy(echo.url) as proxy:
        async with await connect(proxy) as stream:
            await stream.send(b"x")
            await read(stream, 1)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(proxy.until_cut)
                await anyio.wait_all_tasks_blocked()
                proxy.cut(reset=True)
            with anyio.fail_after(60), pytest.raises(anyio.BrokenResourceError):
                await stream.receive()
            await echo.ended.wait()
        assert echo.ends == ["BrokenResourceError"]


@pytest.mark.parametrize("way", ["up", "down"])
async def test_stall(echo: Echo, way: Way) -> None:
    """A stalled way passes nothing on, and everything later."""
    async with FaultProxy(echo.url) as proxy:
        async with await connect(proxy) as stream:
            proxy.stall(way)
            await stream.send(b"late")
            while way == "down" and not echo.got:  # noqa: ASYNC110 - there is no event to wait for
                await anyio.sleep(0.001)
            with anyio.move_on_after(0.05) as scope:
                await stream.receive()
            assert scope.cancelled_caught
            assert echo.got == (b"" if way == "up" else b"late")
            proxy.resume()
            assert await read(stream, 4) == b"late"


async def test_half_close(echo: Echo) -> None:
    """One way ends, the other goes on."""
    async with FaultProxy(echo.url) as proxy:
        async with await connect(proxy) as stream:
            await stream.send(b"x")
            await read(stream, 1)
            await proxy.half_close("up")
            with anyio.fail_after(60):
                await echo.ended.wait()
                with pytest.raises(anyio.EndOfStream):
                    await stream.receive()
        assert echo.ends == ["EndOfStream"]


async def test_writing_after_a_half_close(echo: Echo) -> None:
    """It breaks the connection, as it would a socket's."""
    async with FaultProxy(echo.url) as proxy:
        async with await connect(proxy) as stream:
            await stream.send(b"x")
            await read(stream, 1)
            await proxy.half_close("down")
            with pytest.raises(anyio.EndOfStream):
                await stream.receive()
            await stream.send(b"y")
            with anyio.fail_after(60):
                await echo.ended.wait()


async def test_refuse_and_delay(echo: Echo) -> None:
    """It can refuse, and be slow."""
    async with FaultProxy(echo.url) as proxy:
        proxy.refusing = True
        async with await connect(proxy) as stream:
            with anyio.fail_after(60), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                await stream.receive()
        proxy.refusing, proxy.delay = False, 0.05
        async with await connect(proxy) as stream:
            started = anyio.current_time()
            await stream.send(b"x")
            await read(stream, 1)
            assert anyio.current_time() - started >= 0.09  # there and back; event loops round a little


async def test_no_server(caplog: pytest.LogCaptureFixture) -> None:
    """Where it cannot reach the server it says so: it is no fault that was asked for."""
    async with FaultProxy("amqp://127.0.0.1:1") as proxy:
        async with await connect(proxy) as stream:
            with anyio.fail_after(60), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                await stream.receive()
        assert (proxy.accepted, proxy.failures, proxy.cuts) == (1, 1, 0)
    assert "the server at 127.0.0.1:1 cannot be reached" in caplog.text


async def test_client_and_broker(amqp_broker: Broker) -> None:
    """Byte by byte everything works; cut in the middle of a message, the client knows, the broker has none of it."""
    async with FaultProxy(amqp_broker.url) as proxy:
        proxy.piece = 1
        async with Connection(proxy.url) as connection, connection.sender("q") as sender:
            await sender.send("whole")
        proxy.piece = None
        async with Connection(proxy.url, close_timeout=0.1) as connection, connection.sender("q") as sender:
            proxy.cut_after(1000, "up")
            with pytest.raises(ConnectionLost):
                await sender.send(b"x" * 10_000)
    assert amqp_broker.queue("q").depth == 1


async def test_cut_what_is_cut(echo: Echo) -> None:
    """A connection that is on its way out is not cut again, nor counted."""
    async with FaultProxy(echo.url) as proxy:
        stream = await connect(proxy)
        await stream.send(b"x")
        assert await stream.receive() == b"x"
        for reset in (True, True, False):
            proxy.cut(reset=reset)
        (relay,) = proxy._relays
        await relay.client.aclose()
        proxy.cut(reset=True)
        assert proxy.cuts == 1
        await stream.aclose()


class Held(MemoryStream):
    """An end that takes nothing until it is let go."""

    gate: anyio.Event

    async def send(self, item: bytes) -> None:
        await self.gate.wait()
        await super().send(item)


async def test_a_cut_while_another_connection_writes(anyio_backend: str) -> None:
    """The connection that reaches the limit is cut there, and the other one loses nothing of its bytes."""
    proxy = FaultProxy("tcp://localhost:1")
    (client, _), (server, far), (other_server, other_far) = memory_streams(), memory_streams(), memory_streams()
    assert isinstance(server, MemoryStream)
    held = Held(server._incoming, server._outgoing)
    held.gate = anyio.Event()
    reaches, writes = Relay(client, held), Relay(client, other_server)
    proxy.cut_after(10, "up")
    with reaches.scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(proxy._forward, b"a" * 20, reaches, "up")
            await anyio.wait_all_tasks_blocked()
            await proxy._forward(b"b" * 20, writes, "up")
            held.gate.set()
    assert reaches.scope.cancelled_caught
    assert not writes.scope.cancel_called
    assert await far.receive() == b"a" * 10
    assert await other_far.receive() == b"b" * 20
    assert proxy.cuts == 1
