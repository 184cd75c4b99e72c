"""The ways to the brokers: WebSocket, TLS by AMQP's own header, an HTTP proxy; and rhea's WebSockets at our broker."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from amqp10 import (
    TLS,
    AuthenticationFailed,
    Connection,
    ConnectionLost,
    HandshakeRefused,
    Message,
    Plain,
    Unsupported,
    WebSocket,
)
from amqp10.broker import Broker

from ..kit.net.connect_proxy import connect_proxy
from ..kit.processes.programs import started
from ..kit.unavailable import unavailable
from ._cases import BODIES, body_of, exchange, same
from ._matrix import Embedded, Peer
from .brokers import Server, Unavailable
from .clients import PROGRAMS, Program, ProgramFailed

pytestmark = [pytest.mark.anyio, pytest.mark.interop, pytest.mark.timeout(600), pytest.mark.capability("WebSocket")]

on_trio = pytest.mark.parametrize("anyio_backend", ["trio"])


# WebSocket, our client


@pytest.mark.matrix("AMQP over WebSocket")
async def test_websocket(peer: Peer) -> None:
    """Pitfall 29: bodies of every kind and 5 MiB in one, with the login of the URL."""
    if peer.name == "rabbitmq":
        with pytest.raises(ConnectionLost, match="cannot connect to ws://"):
            async with Connection(peer.url().replace("amqp://", "ws://")):
                pass
        peer.lacks("not at its AMQP port")
        return
    async with Connection(peer.url("ws")) as connection:
        address = await peer.queue(connection)
        bodies = [*BODIES.values(), body_of(5 << 20)]
        messages = await exchange(connection, address, *map(Message, bodies))
        for message, body in zip(messages, bodies, strict=True):
            assert same(message.body, body)
    with pytest.raises(AuthenticationFailed):
        async with Connection(peer.url("ws", password="wrong")):
            pass


@on_trio
async def test_many_over_a_websocket(artemis: Server, address: str) -> None:
    """20,000 messages, both directions at once, in order."""
    async with Connection(artemis.url("ws") + "/any/path?x=y") as connection:
        messages = await exchange(connection, address, *range(20_000), credit=500)
        assert [message.body for message in messages] == list(range(20_000))


async def test_secure_websocket(artemis: Server, address: str) -> None:
    """wss:// at Artemis' TLS port; a certificate that is not trusted is refused as over TLS alone."""
    url = artemis.url("amqps").replace("amqps://", "wss://")
    async with Connection(url, tls=TLS(ca=artemis.certificates / "ca.pem")) as connection:
        (message,) = await exchange(connection, address, body_of(1 << 20))
        assert message.body == body_of(1 << 20)
    with pytest.raises(ConnectionLost, match="certificate is not valid"):
        async with Connection(url, tls=TLS(ca=artemis.certificates / "stranger.pem")):
            pass


@on_trio
async def test_a_subprotocol_that_they_do_not_know(artemis: Server, broker_j: Server) -> None:
    """Broker-J answers with an HTTP error, Artemis with no subprotocol: one error for each, at once."""
    draft = WebSocket("AMQPWSB10")
    with pytest.raises(ConnectionLost, match="does not accept the subprotocol AMQPWSB10"):
        async with Connection(artemis.url("ws"), websocket=draft):
            pass
    with pytest.raises(HandshakeRefused) as caught:
        async with Connection(broker_j.url("ws"), websocket=draft):
            pass
    assert caught.value.status >= 400


# TLS by AMQP's header


@pytest.mark.matrix("TLS by AMQP's own header")
async def test_tls_upgrade(peer: Peer, authority: Path) -> None:
    """No broker of the field takes it: each is left before anything else is said. Ours does."""
    ca = TLS(ca=authority / "ca.pem")
    if peer.name == "embedded":
        tls = TLS(certificate=authority / "server.pem", key=authority / "server.key")
        async with Broker(tls=tls, users={"user": "secret"}) as broker:
            url = broker.url.replace("amqps://", "amqp://user:secret@")
            async with Connection(url, tls=ca, tls_upgrade=True) as connection:
                await exchange(connection, "q", "x")
        return
    with pytest.raises((Unsupported, ConnectionLost)) as caught:
        async with Connection(peer.url(), tls=ca, tls_upgrade=True):
            pass
    assert "secret" not in str(caught.value)
    peer.lacks("`Unsupported`, for it answers with another header, or `ConnectionLost`")


# Through a proxy


@pytest.mark.matrix("HTTP CONNECT proxy")
async def test_proxy(peer: Peer) -> None:
    """AMQP through a tunnel, and where there is one a WebSocket: nothing that the broker could notice."""
    with connect_proxy("user", "pass") as proxy:
        through = proxy.url.replace("://", "://user:pass@")
        for port in ("amqp",) if peer.name == "rabbitmq" else ("amqp", "ws"):
            url = peer.url(port, user=None)
            login = Plain("user", "secret", allow_insecure=True)
            async with Connection(url, sasl=login, proxy=through) as connection:
                address = await peer.queue(connection)
                (message,) = await exchange(connection, address, body_of(1 << 20))
                assert message.body == body_of(1 << 20)
    assert proxy.tunnels >= 1


@on_trio
async def test_tls_through_a_proxy(artemis: Server, address: str) -> None:
    """amqps and wss, end to end, as Azure's users need it."""
    tls = TLS(ca=artemis.certificates / "ca.pem")
    with connect_proxy() as proxy:
        for scheme in ("amqps", "wss"):
            url = artemis.url("amqps").replace("amqps", scheme)
            async with Connection(url, tls=tls, proxy=proxy.url) as connection:
                (message,) = await exchange(connection, address, scheme)
                assert message.body == scheme
    assert proxy.tunnels == 2


@pytest.fixture(scope="session")
def proxy_py(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a proxy of other people's: the package proxy.py, which wants a login."""
    if find_spec("proxy") is None:
        unavailable("proxy.py is not installed")
    said = tmp_path_factory.mktemp("proxy") / "port"
    options = [
        "--port",
        "0",
        "--port-file",
        str(said),
        "--data-dir",
        str(said.parent),
        "--basic-auth",
        "user:pass",
        "--num-workers",
        "1",
    ]
    command = [sys.executable, "-m", "proxy", *options, "--num-acceptors", "1", "--log-level", "ERROR"]
    with started(command, limit=None, stdin=subprocess.DEVNULL, cwd=said.parent) as process:
        try:
            deadline = time.monotonic() + 60
            while not (said.exists() and said.read_text().strip()):
                assert process.poll() is None, "proxy.py ended"
                assert time.monotonic() < deadline, "proxy.py does not start"
                time.sleep(0.05)
            yield f"http://user:pass@127.0.0.1:{said.read_text().split()[0]}"
        finally:
            process.terminate()


@on_trio
async def test_a_proxy_of_other_people(secure_broker: Broker, proxy_py: str, authority: Path, address: str) -> None:
    """Through proxy.py: TLS and a WebSocket within TLS, and a login that it refuses."""
    tls = TLS(ca=authority / "ca.pem")
    for url in (secure_broker.url, secure_broker.websocket_url):
        login = url.replace("://127.0.0.1", "://user:secret@localhost")
        async with Connection(login, tls=tls, proxy=proxy_py) as connection:
            (message,) = await exchange(connection, address, body_of(1 << 20))
            assert message.body == body_of(1 << 20)
    with pytest.raises(HandshakeRefused) as caught:
        async with Connection(secure_broker.url, tls=tls, proxy=proxy_py.replace("pass", "wrong")):
            pass
    assert caught.value.status == 407


# WebSocket, our broker


@pytest.fixture(scope="session")
def rhea() -> Program:
    """rhea with the package ws, installed."""
    program = PROGRAMS["rhea"]
    try:
        program.installed()
    except Unavailable as error:
        unavailable(f"no {program.library}: {error}")
    return program


@pytest.fixture
async def secure_broker(authority: Path, anyio_backend: object) -> AsyncIterator[Broker]:
    """Our broker with TLS, users and WebSockets."""
    tls = TLS(certificate=authority / "server.pem", key=authority / "server.key")
    async with Broker(tls=tls, users={"user": "secret"}, websocket=True) as broker:
        yield broker


@on_trio
@pytest.mark.parametrize("size", [1, 1000, 1 << 20])
async def test_rhea_over_a_websocket(embedded: Embedded, rhea: Program, address: str, size: int) -> None:
    """What rhea sends over a WebSocket comes to us over TCP, and back."""
    assert await rhea.run("send", embedded.url("ws"), address, 5, size) == [{"outcome": "accepted"}] * 5
    async with Connection(embedded.url()) as connection:
        async with connection.receiver(address) as receiver, connection.sender(address) as sender:
            bodies = []
            for _ in range(5):
                with await receiver.receive() as message:
                    bodies.append(message.body)
            assert bodies == [f"message {n}".encode().ljust(size, b"x") for n in range(5)]
            await receiver.close()
            await sender.send_many(bodies)
    taken = await rhea.run("receive", embedded.url("ws") + "/a/path", address, 5, "accept")
    assert [line["size"] for line in taken] == [max(size, 9)] * 5
    assert [line["body"][:9] for line in taken] == [f"message {n}" for n in range(5)]


@on_trio
async def test_rhea_over_a_secure_websocket(
    secure_broker: Broker, rhea: Program, authority: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same within TLS; without the authority rhea does not come in."""
    url = secure_broker.websocket_url.replace("://127.0.0.1", "://user:secret@localhost")
    with pytest.raises(ProgramFailed):
        await rhea.run("send", url, address, 5, 1000)
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", str(authority / "ca.pem"))
    assert await rhea.run("send", url, address, 5, 100_000) == [{"outcome": "accepted"}] * 5
    taken = await rhea.run("receive", url, address, 5, "accept")
    assert [line["size"] for line in taken] == [100_000] * 5
    with pytest.raises(ProgramFailed):
        await rhea.run("send", url.replace("secret", "wrong"), address, 1, 1)
