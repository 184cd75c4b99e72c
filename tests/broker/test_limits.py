"""What the broker refuses beyond its limits, and that those within them are served all the while."""

from __future__ import annotations

import itertools
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import ByteStream
from anyio.streams.text import TextReceiveStream

from amqp10 import Connection
from amqp10.broker import Broker, BrokerLimits
from amqp10.engine import dialect_names
from amqp10.errors import ConnectionClosed, ConnectionLost, LocalProtocolError, SessionEnded
from amqp10.net import TLS
from amqp10.testing import CertificateAuthority, Close, ScriptedPeer

from ._raw import dial, read_all, receiver_of

pytestmark = pytest.mark.anyio

NAMES = sorted(dialect_names())
numbers = itertools.count(1)


@asynccontextmanager
async def victim(broker: Broker, name: str = "1.0") -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """A client within all limits; what is yielded sends a message and receives it."""
    queue = f"victim-{next(numbers)}"
    async with (
        Connection(broker.url, dialect=name, container_id="victim") as connection,
        connection.sender(queue) as sender,
        connection.receiver(queue) as receiver,
    ):

        async def serve() -> None:
            with anyio.fail_after(10):
                await sender.send("served")
                with await receiver.receive() as message:
                    assert message.body == "served"

        yield serve


class TestValues:
    @pytest.mark.parametrize("name", ["handshakes", "links", "nodes", "memory", "name"])
    def test_nothing_is_no_limit(self, name: str) -> None:
        """A limit that lets nothing through is refused, and named."""
        with pytest.raises(ValueError, match=name):
            BrokerLimits(**{name: 0})

    def test_sessions_are_what_a_channel_number_can_say(self) -> None:
        with pytest.raises(ValueError, match="65535"):
            BrokerLimits(sessions=70_000)


class TestHandshakes:
    @pytest.mark.parametrize("name", NAMES)
    async def test_strangers_keep_nobody_out(self, name: str, caplog: pytest.LogCaptureFixture) -> None:
        """Silent connections in all places: clients come in at once, the oldest strangers are cut off."""
        async with Broker(limits=BrokerLimits(handshakes=5), handshake_timeout=60) as broker, AsyncExitStack() as stack:
            async with victim(broker, name) as serve:
                strangers = [await stack.enter_async_context(await dial(broker)) for _ in range(20)]
                for _ in range(3):
                    await serve()
                    async with victim(broker, name) as late:
                        await late()
                with anyio.fail_after(5):
                    assert await read_all(strangers[0]) == b""
                await serve()
        said = [record for record in caplog.records if "have not opened yet" in record.getMessage()]
        assert [record.levelno for record in said] == [logging.WARNING]

    async def test_by_address(self) -> None:
        """One address has fewer places than all have: those of others are not touched."""
        limits = BrokerLimits(handshakes=100, handshakes_by_address=3)
        async with Broker("localhost", limits=limits, handshake_timeout=60) as broker, AsyncExitStack() as stack:
            port = int(broker.url.rpartition(":")[2])
            first = await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", port))
            await first.send(b"AMQP\x03")
            others = [
                await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", port, local_host="127.0.0.2"))
                for _ in range(5)
            ]
            with anyio.fail_after(5):
                assert await read_all(others[0]) == b""
            await first.send(b"\x01\x00\x00")
            with anyio.fail_after(5):
                assert (await first.receive())[:5] == b"AMQP\x03"

    @pytest.mark.parametrize("kind", ["tls", "websocket", "unix"])
    async def test_every_way_in(self, kind: str, tmp_path: Path) -> None:
        """Handshakes of TLS and WebSockets count from the moment of accepting, as do Unix sockets."""
        authority = CertificateAuthority(tmp_path)
        files = authority.server()
        tls = TLS(certificate=files.certificate, key=files.key) if kind == "tls" else None
        path = tmp_path / "socket"
        broker = Broker(
            limits=BrokerLimits(handshakes=3),
            handshake_timeout=60,
            tls=tls,
            websocket=kind == "websocket",
            path=path if kind == "unix" else None,
        )
        async with broker, AsyncExitStack() as stack:
            streams = []
            for _ in range(6):
                stream: ByteStream
                if kind == "unix":
                    stream = await anyio.connect_unix(path)
                else:
                    stream = await anyio.connect_tcp("127.0.0.1", int(broker.urls[0].rpartition(":")[2]))
                streams.append(await stack.enter_async_context(stream))
                if kind == "websocket":
                    await stream.send(b"GET / HTTP/1.1\r\n")
            for stream in streams[:3]:
                with anyio.fail_after(5):
                    assert await read_all(stream) == b""
            trusting = TLS(ca=authority.ca) if kind == "tls" else None
            async with Connection(broker.urls[-1] if kind == "unix" else broker.url, tls=trusting):
                assert broker.connections == 1

    async def test_no_descriptors_left(self) -> None:
        """A broker that has run out of file descriptors says so once, serves on, and takes others again."""
        command = [sys.executable, "-c", FEW_DESCRIPTORS]
        async with await anyio.open_process(command, stderr=subprocess.STDOUT) as process:
            assert process.stdout is not None
            said = TextReceiveStream(process.stdout)
            url = (await said.receive()).strip()
            host, port = url.removeprefix("amqp://").split(":")
            async with Connection(url) as connection, AsyncExitStack() as strangers:
                for _ in range(60):
                    stranger = await strangers.enter_async_context(await anyio.connect_tcp(host, int(port)))
                    await stranger.send(receiver_of("q", 0))  # one that opens, and so is not cut off
                log = await said.receive()
                async with connection.sender("q") as sender:
                    await sender.send("served")
            with anyio.fail_after(10):
                async with Connection(url):
                    pass
            process.terminate()
            log += "".join([text async for text in said])
        assert log.count("accepting a connection failed") == 1, log


FEW_DESCRIPTORS = """
import logging, resource, anyio
from amqp10.broker import Broker
logging.basicConfig()
async def main():
    async with Broker() as broker:
        resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50))
        print(broker.url, flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""


class TestOpening:
    async def test_idle_timeout_too_short(self) -> None:
        """Who wants a heartbeat each millisecond is told no, and makes no work."""
        async with Broker() as broker, victim(broker) as serve:
            async with ScriptedPeer.over(await dial(broker)) as peer:
                await peer.open_connection(idle_time_out=1)
                close = await peer.expect(Close)
                assert close.error is not None
                assert close.error.condition == "amqp:not-allowed"
                assert "idle-time-out of 1 ms" in str(close.error.description)
                assert broker.connections == 1
            await serve()

    async def test_container_id_too_long(self) -> None:
        """The broker keeps the container's name with all that outlives the connection, so it has a length."""
        async with Broker(limits=BrokerLimits(name=100)) as broker, victim(broker) as serve:
            with pytest.raises(ConnectionClosed, match="container id has 100 octets") as refused:
                async with Connection(broker.url, container_id="ö" * 51):
                    pass
            assert refused.value.condition == "amqp:invalid-field"
            async with Connection(broker.url, container_id="ö" * 50):
                await serve()

    @pytest.mark.parametrize("name", NAMES)
    async def test_sessions(self, name: str) -> None:
        """The broker says how many sessions it takes of one connection, and clients keep to it."""
        async with (
            Broker(limits=BrokerLimits(sessions=3)) as broker,
            victim(broker) as serve,
            Connection(broker.url, dialect=name) as connection,
            AsyncExitStack() as stack,
        ):
            with pytest.raises((LocalProtocolError, SessionEnded, ConnectionLost, ConnectionClosed)):
                for _ in range(6):
                    session = await stack.enter_async_context(connection.session())
                    await stack.enter_async_context(session.receiver("q"))
            await serve()
