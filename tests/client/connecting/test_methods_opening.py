"""How a client of AMQP 0-9-1 opens its connection: the login, the virtual host, heartbeats or none."""

from __future__ import annotations

import anyio
import pytest

from amqp10 import AuthenticationFailed, Connection, InsecureTransport, Plain
from amqp10.broker import Broker
from amqp10.dialects.v0_9.client.amqplain import with_amqplain
from amqp10.dialects.v0_9.wire.methods import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from amqp10.dialects.v0_9.wire.tables import TABLES
from amqp10.engine import ConnectionTerms
from amqp10.sasl import choose

from ...kit.dialects.v0_9.method_peer import MethodPeer

pytestmark = pytest.mark.anyio


async def opening(
    peer: MethodPeer, url: str, *, mechanisms: bytes = b"PLAIN AMQPLAIN", heartbeat: int = 60, **settings: object
) -> tuple[ConnectionStartOk, ConnectionTuneOk, ConnectionOpen]:
    """Return what a client sends when it opens a connection to that URL."""
    said: list[object] = []

    async def serve() -> None:
        await peer.expect_header()
        await peer.send(0, ConnectionStart(mechanisms=mechanisms))
        said.append(await peer.expect(ConnectionStartOk))
        await peer.send(0, ConnectionTune(100, 131072, heartbeat))
        said.append(await peer.expect(ConnectionTuneOk))
        said.append(await peer.expect(ConnectionOpen))
        await peer.send(0, ConnectionOpenOk())
        await peer.expect(ConnectionClose)
        await peer.send(0, ConnectionCloseOk())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        async with Connection(url, dialect="0-9-1", **settings):  # type: ignore[arg-type]
            pass
    return tuple(said)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("path", "virtual_host"),
    [("", "/"), ("/", "/"), ("/%2F", "/"), ("/%2f", "/"), ("/live", "live"), ("/a%2Fb", "a/b"), ("/%C3%A9", "é")],
)
async def test_virtual_host(path: str, virtual_host: str) -> None:
    """It is the path of the URL, as RabbitMQ's URIs have it; a bare slash is the usual one."""
    async with MethodPeer() as peer:
        _, _, opened = await opening(peer, peer.url.replace("amqp://", "amqp://user:secret@") + path)
    assert opened.virtual_host == virtual_host


async def test_virtual_host_by_name() -> None:
    """The host name says it as for RabbitMQ in AMQP 1.0, and comes first; or as for others, where no path does."""
    async with MethodPeer() as peer:
        url = peer.url.replace("amqp://", "amqp://user:secret@") + "/path"
        _, _, opened = await opening(peer, url, hostname="vhost:name")
    assert opened.virtual_host == "name"
    async with MethodPeer() as peer:
        url = peer.url.replace("amqp://", "amqp://user:secret@")
        _, _, opened = await opening(peer, url, hostname="memory")
    assert opened.virtual_host == "memory"
    assert ConnectionTerms("c", hostname="example.com").virtual_host is None


@pytest.mark.parametrize("hostname", ["localhost", "LOCALHOST", "127.0.0.1", "::1"])
async def test_the_host_is_no_virtual_host(hostname: str) -> None:
    """A hostname of this machine, as in 1.0, means the usual virtual host, unless it is given as a virtual host."""
    async with MethodPeer() as peer:
        url = peer.url.replace("amqp://", "amqp://user:secret@")
        _, _, opened = await opening(peer, url, hostname=hostname)
    assert opened.virtual_host == "/"
    async with MethodPeer() as peer:
        url = peer.url.replace("amqp://", "amqp://user:secret@")
        _, _, opened = await opening(peer, url, hostname=f"vhost:{hostname}")
    assert opened.virtual_host == hostname


async def test_amqplain() -> None:
    """Where the server offers nothing else, the password goes as a field table without its size."""
    async with MethodPeer() as peer:
        url = peer.url.replace("amqp://", "amqp://us%C3%A9r:se%00cret@".replace("%00", "-"))
        started, _, _ = await opening(peer, url, mechanisms=b"AMQPLAIN")
    assert started.mechanism == "AMQPLAIN"
    table, end = TABLES.read(len(started.response).to_bytes(4, "big") + started.response, 0)
    assert table == {"LOGIN": "usér", "PASSWORD": "se-cret"}
    assert end == 4 + len(started.response)


async def test_plain_before_amqplain() -> None:
    """The one of the standard is taken if both are offered."""
    async with MethodPeer() as peer:
        started, _, _ = await opening(peer, peer.url.replace("amqp://", "amqp://user:secret@"))
    assert (started.mechanism, started.response) == ("PLAIN", b"\0user\0secret")


def test_amqplain_is_as_readable() -> None:
    """It is for TLS and loopback, unless the user said otherwise, and never shows its password."""

    with pytest.raises(InsecureTransport):
        choose(["AMQPLAIN"], with_amqplain((Plain("u", "secret"),)), secure=False)
    chosen = choose(["AMQPLAIN"], with_amqplain((Plain("u", "secret", allow_insecure=True),)), secure=False)
    assert "secret" not in repr(chosen)
    with pytest.raises(AuthenticationFailed):
        choose(["AMQPLAIN"], with_amqplain(()), secure=True)


@pytest.mark.parametrize(
    ("theirs", "idle", "agreed"), [(60, 60.0, 30), (10, 60.0, 10), (0, 60.0, 30), (60, None, 60), (0, None, 0)]
)
async def test_heartbeat(theirs: int, idle: float | None, agreed: int) -> None:
    """The lower of two intervals, seconds; none if neither side wants any."""
    async with MethodPeer() as peer:
        url = peer.url.replace("amqp://", "amqp://user:secret@")
        _, tuned, _ = await opening(peer, url, heartbeat=theirs, idle_timeout=idle)
    assert tuned.heartbeat == agreed


@pytest.mark.in_memory
class TestSilence:
    """All in memory, and on a clock that jumps when nothing else is left to do."""

    async def test_no_heartbeats_for_the_broker(self) -> None:
        """A client that says 0 is neither sent any nor given up for its silence; one that says an interval is."""
        async with Broker(host=None, idle_timeout=0.2) as broker:
            async with MethodPeer.over(broker.open_stream()) as quiet, MethodPeer.over(broker.open_stream()) as silent:
                await quiet.open_connection(heartbeat=0)
                await silent.open_connection(heartbeat=1)
                with pytest.raises(anyio.EndOfStream):  # it had said that it would not be so silent (4.2.7)
                    await silent.expect(ConnectionClose)
                await quiet.open_channel(1)
