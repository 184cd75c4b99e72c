"""Tunnels through a real HTTP proxy: plain, TLS, both; and one clear error for each way in which it says no."""

from __future__ import annotations

import socket
import ssl
from typing import Any

import anyio
import pytest

from amqp10 import Connection, Plain
from amqp10.broker import Broker
from amqp10.errors import ConnectionLost, HandshakeRefused, InsecureTransport
from amqp10.net import TLS, Proxy, TransportOptions, connect, parse_url
from amqp10.testing import CertificateAuthority

from ...kit.net.connect_proxy import connect_proxy

pytestmark = pytest.mark.anyio


async def one_message(connection: Connection) -> None:
    """Send and receive 100,000 bytes."""
    async with connection, connection.sender("q") as sender, connection.receiver("q") as receiver:
        await sender.send(b"x" * 100_000)
        with await receiver.receive() as message:
            assert message.body == b"x" * 100_000


async def test_plain() -> None:
    """AMQP in the clear; the proxy is asked for the peer's name and port and nothing else."""
    with connect_proxy() as proxy:
        async with Broker() as broker:
            await one_message(Connection(broker.url, proxy=proxy.url))
            where = broker.url.removeprefix("amqp://")
    assert proxy.requests == [f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n\r\n"]
    assert proxy.tunnels == 1


async def test_login() -> None:
    """User and password of the proxy's URL, percent-decoded; other headers beside them."""
    with connect_proxy("us/er", "p@ss") as proxy:
        through = Proxy(proxy.url.replace("://", "://us%2Fer:p%40ss@"), headers={"X-Extra": "1"})
        async with Broker() as broker:
            await one_message(Connection(broker.url, proxy=through))
    assert "X-Extra: 1" in proxy.requests[0]


@pytest.mark.parametrize("scheme", ["amqps", "wss"])
@pytest.mark.parametrize("secured", [False, True])
async def test_tls_inside(authority: CertificateAuthority, scheme: str, secured: bool) -> None:
    """TLS with the peer, end to end, within the tunnel; and TLS with the proxy around it."""
    files = authority.server()
    server = TLS(certificate=files.certificate, key=files.key)
    outer = server.server_context() if secured else None
    with connect_proxy(tls=outer) as proxy:
        through = Proxy(proxy.url, tls=TLS(ca=authority.ca) if secured else None)
        async with Broker(tls=server, websocket=True) as broker:
            url = broker.url.replace("amqps", scheme)
            await one_message(Connection(url, tls=TLS(ca=authority.ca), proxy=through))
    assert proxy.tunnels == 1


async def test_websocket_inside() -> None:
    """A WebSocket in the clear takes the tunnel, too (RFC 6455 §4.1)."""
    with connect_proxy() as proxy:
        async with Broker(websocket=True) as broker:
            await one_message(Connection(broker.websocket_url, proxy=proxy.url))
    assert proxy.requests[0].startswith("CONNECT ")


async def test_a_stranger_as_the_proxy(authority: CertificateAuthority) -> None:
    """The certificate of an https proxy is checked, and with it the login kept."""
    files = authority.server()
    with connect_proxy(tls=TLS(certificate=files.certificate, key=files.key).server_context()) as proxy:
        url = proxy.url.replace("://", "://user:secret@")
        with pytest.raises(ConnectionLost, match=r"the proxy https://.* certificate is not valid") as caught:
            async with Connection("amqp://broker.invalid", proxy=url):
                pass
    assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)
    assert not proxy.requests


async def test_secrets_do_not_trust_the_way() -> None:
    """Even where the proxy is on loopback nobody knows where it leads: no password goes there in the clear."""
    with connect_proxy() as proxy:
        async with Broker(users={"ann": "secret"}) as broker:
            endpoint = parse_url(broker.url)
            stream, facts = await connect(endpoint, route=TransportOptions(Proxy(proxy.url)))
            await stream.aclose()
            assert not facts.secure
            from amqp10 import Plain

            with pytest.raises(InsecureTransport):
                async with Connection(broker.url, sasl=Plain("ann", "secret"), proxy=proxy.url):
                    pass


@pytest.mark.parametrize("login", ["", "user:wrong@"])
async def test_login_refused(login: str, caplog: pytest.LogCaptureFixture) -> None:
    """407, with or without a login; nothing that was said shows it."""
    with connect_proxy("user", "right") as proxy:
        url = proxy.url.replace("://", f"://{login}")
        with caplog.at_level(1), pytest.raises(HandshakeRefused) as caught:
            async with Connection("amqp://user:hidden@broker.invalid", proxy=url):
                pass
    assert caught.value.status == 407
    message = str(caught.value)
    assert message == (
        f"cannot connect to amqp://broker.invalid:5672: the proxy {proxy.url} answered 407 "
        "(Proxy Authentication Required)"
    )
    assert "wrong" not in message + repr(caught.value) + caplog.text
    assert "hidden" not in message + repr(caught.value) + caplog.text


async def test_the_proxy_cannot_reach_it() -> None:
    """502: the peer is not there, and the proxy is."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and not listening
        with connect_proxy() as proxy, pytest.raises(HandshakeRefused, match=r"502 \(Bad Gateway\)") as caught:
            async with Connection(f"amqp://127.0.0.1:{taken.getsockname()[1]}", proxy=proxy.url):
                pass
    assert caught.value.status == 502


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 403 Forbidden\r\n\r\n<html>no</html>", r"answered 403 \(Forbidden\)"),
        (b"HTTP/1.0 599 Odd\r\n\r\n", r"answered 599 \(a status of its own\)"),
        (b"HTTP/1.1 407\r\nProxy-Authenticate: Negotiate\r\n\r\n", "answered 407"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://login?token=x\r\n\r\n", r"answered 302 \(Found\)$"),
        (b"HTTP/1.1 200 OK\r\n\r\nAMQP\0\1\0\0", "data of its own"),
        (b"HTTP/1.1 200 OK\r\nX: ", "closed the connection"),
        (b"HTTP/1.1 200", "closed the connection"),
        (b"", "closed the connection"),
        (b"HTTP/1.1 abc OK\r\n\r\n", "does not answer as an HTTP proxy"),
        (b"HTTP/2 200 OK\r\n\r\n", "does not answer as an HTTP proxy"),
        (b"SSH-2.0-OpenSSH_9\r\n", "does not answer as an HTTP proxy"),
        (b"\x15\x03\x01\0\2\2\x46", "does not answer as an HTTP proxy"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000, "does not answer as an HTTP proxy"),
    ],
)
async def test_odd_answers(answer: bytes, reason: str) -> None:
    """Whatever it says: one error with the place and the reason, bounded memory, no hanging."""
    with connect_proxy(answer=answer) as proxy:
        with anyio.fail_after(60), pytest.raises(ConnectionLost, match=reason) as caught:
            await connect(parse_url("amqp://broker.invalid"), route=TransportOptions(Proxy(proxy.url)))
    assert proxy.url in str(caught.value)


async def test_no_proxy_there() -> None:
    """Refused: the error names the proxy, not only the peer."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        proxy = f"http://user:secret@127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConnectionLost, match=r"the proxy http://127.*: Connection refused") as caught:
            await connect(parse_url("amqp://broker.invalid"), route=TransportOptions(Proxy(proxy)))
    assert "secret" not in str(caught.value)


async def test_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy is used where it was given, and nowhere else."""
    with connect_proxy() as proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        async with Broker() as broker:
            await one_message(Connection(broker.url))
    assert proxy.requests == []


@pytest.mark.parametrize("count", [1, 5])
async def test_byte_by_byte(count: int) -> None:
    """The answer may come in any portions."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    answer = b"HTTP/1.1 200 OK\r\nX: y\r\n\r\n"

    async def serve(stream: Any) -> None:
        async with stream:
            await stream.receive()
            for start in range(0, len(answer), count):
                await stream.send(answer[start : start + count])
                await anyio.wait_all_tasks_blocked()
            await stream.send(await stream.receive())

    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        stream, _ = await connect(
            parse_url("amqp://x.invalid"), route=TransportOptions(Proxy(f"http://127.0.0.1:{port}"))
        )
        async with stream:
            await stream.send(b"AMQP")
            assert await stream.receive() == b"AMQP"
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("dialect", ["1.0", "0-9-1", "0-9", "0-9-draft", "0-10", "fast"])
async def test_secrets_do_not_trust_an_unchecked_server(
    authority: CertificateAuthority, own: bool, dialect: str
) -> None:
    """L14: TLS with `verify=False` is TLS with whoever sits between: no password is sent readable, but by a word."""
    files = authority.server()
    server = TLS(certificate=files.certificate, key=files.key)
    unchecked = TLS(verify=False)
    with connect_proxy() as proxy:
        async with Broker(tls=server, users={"u": "secret"}) as broker:
            tls = unchecked.client_context() if own else unchecked
            settings: dict[str, Any] = {"tls": tls, "proxy": proxy.url, "dialect": dialect}
            with pytest.raises(InsecureTransport, match="verify=False"):
                await Connection(broker.url, sasl=Plain("u", "secret"), **settings).__aenter__()
            login = Plain("u", "secret", allow_insecure=True)
            async with Connection(broker.url, sasl=login, **settings) as connection:
                assert connection.open


async def test_an_unchecked_server_chooses_no_dialect(authority: CertificateAuthority) -> None:
    """Who sits between cannot say that only an older dialect is spoken, to have the secret told in a weaker way."""
    files = authority.server()
    server = TLS(certificate=files.certificate, key=files.key)
    with connect_proxy() as proxy:
        async with Broker(tls=server, dialects=["0-9-1"]) as broker:
            settings: dict[str, Any] = {"proxy": proxy.url, "sasl": Plain("u", "secret"), "dialect": "auto"}
            with pytest.raises(InsecureTransport, match="verify=False"):
                await Connection(broker.url, tls=TLS(verify=False), **settings).__aenter__()
