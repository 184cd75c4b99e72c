"""WebSockets at the embedded broker: one port for both, pages kept out, peers that dawdle, the URLs."""

from __future__ import annotations

import anyio
import pytest
from anyio.abc import SocketStream

from amqp10 import Connection, Plain
from amqp10.broker import Broker
from amqp10.errors import AuthenticationFailed, ConnectionClosed, ConnectionLost, HandshakeRefused
from amqp10.net import TLS, WebSocket
from amqp10.testing import CertificateAuthority

pytestmark = [pytest.mark.anyio, pytest.mark.capability("WebSocket")]


def port_of(broker: Broker) -> int:
    return int(broker.url.rpartition(":")[2])


async def raw(broker: Broker) -> SocketStream:
    return await anyio.connect_tcp("127.0.0.1", port_of(broker))


async def test_one_port_for_both() -> None:
    """AMQP and WebSocket side by side, one message from one to the other; the broker's facts name both."""
    async with Broker(websocket=True) as broker:
        assert broker.urls == (broker.url, broker.websocket_url)
        assert broker.websocket_url == broker.url.replace("amqp", "ws")
        async with Connection(broker.url) as plain, Connection(broker.websocket_url + "/any/path?x=y") as socket:
            assert broker.connections == 2
            async with plain.sender("q") as sender, socket.receiver("q") as receiver:
                await sender.send(b"x" * 1_000_000)
                with await receiver.receive() as message:
                    assert message.body == b"x" * 1_000_000


async def test_off_unless_asked_for() -> None:
    """Without `websocket` HTTP is refused like anything else that is not AMQP, and there is no URL for it."""
    async with Broker() as broker:
        with pytest.raises(LookupError, match="websocket=True"):
            _ = broker.websocket_url
        with pytest.raises(ConnectionLost, match="cannot connect to ws://"):
            async with Connection(broker.url.replace("amqp", "ws")):
                pass
        stream = await raw(broker)
        async with stream:
            await stream.send(b"GET / HTTP/1.1\r\n\r\n")
            assert (await stream.receive())[:4] == b"AMQP"


async def test_tls(tmp_path_factory: pytest.TempPathFactory) -> None:
    """wss:// where the broker has TLS, with users by PLAIN, which the TLS allows."""
    authority = CertificateAuthority(tmp_path_factory.mktemp("authority"))
    files = authority.server()
    tls = TLS(certificate=files.certificate, key=files.key)
    async with Broker(tls=tls, users={"ann": "secret"}, websocket=True) as broker:
        assert broker.websocket_url.startswith("wss://")
        url = broker.websocket_url.replace("wss://", "wss://ann:secret@")
        async with Connection(url, tls=TLS(ca=authority.ca)) as connection, connection.sender("q") as sender:
            await sender.send("x")
        with pytest.raises(AuthenticationFailed):
            async with Connection(broker.websocket_url, tls=TLS(ca=authority.ca), sasl=Plain("ann", "wrong")):
                pass
        with pytest.raises(ConnectionLost):
            async with Connection(broker.websocket_url, tls=TLS()):
                pass


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:8000"])
async def test_web_pages_are_kept_out(origin: str) -> None:
    """Any page that a browser shows could ask a broker on loopback; none comes in that was not named."""
    page = WebSocket(headers={"Origin": origin})
    async with Broker(websocket=True) as broker:
        with pytest.raises(HandshakeRefused) as caught:
            async with Connection(broker.websocket_url, websocket=page):
                pass
        assert caught.value.status == 403
        assert broker.connections == 0
    async with Broker(websocket=True, websocket_origins=[origin]) as broker:
        async with Connection(broker.websocket_url, websocket=page):
            assert broker.connections == 1


@pytest.mark.parametrize("said", [b"", b"GE", b"GET / HTTP/1.1\r\nHost: h\r\n"])
async def test_who_dawdles_is_left(said: bytes) -> None:
    """The handshake of HTTP is within the time that every peer has; the next one is served meanwhile."""
    async with Broker(websocket=True) as broker, await raw(broker) as stream:
        if said:
            await stream.send(said)
        async with Connection(broker.websocket_url):
            pass
    async with Broker(websocket=True, handshake_timeout=0.5) as broker:
        stream = await raw(broker)
        async with stream:
            if said:
                await stream.send(said)
            with anyio.fail_after(60), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                await stream.receive()


async def test_closing_tells_all() -> None:
    """Those over WebSockets hear that the broker shuts down, too."""
    ready, enough, urls = anyio.Event(), anyio.Event(), []

    async def serve() -> None:
        async with Broker(websocket=True) as broker:
            urls.append(broker.websocket_url)
            ready.set()
            await enough.wait()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        await ready.wait()
        async with Connection(urls[0]) as connection, connection.receiver("q") as receiver:
            enough.set()
            with pytest.raises(ConnectionClosed, match="shutting down"):
                await receiver.receive()
