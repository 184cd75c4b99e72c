"""The HTTP handshake, both sides, against requests and answers made by hand: what is agreed on, how it is refused."""

from __future__ import annotations

import base64
import hashlib
import sys
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from amqp10 import Connection
from amqp10.broker import Broker
from amqp10.broker.internals import memory_streams
from amqp10.errors import ConnectionLost, HandshakeRefused, Unsupported
from amqp10.net import StreamFacts, WebSocket, accept_websocket, parse_url
from amqp10.net._connecting.websocket_handshake import open_websocket

from ...kit.net.raw_websocket import BINARY, RawPeer, frame

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

KEY = base64.b64encode(bytes(16)).decode()


def answer_to(key: str) -> str:
    """What a server makes of the client's key (RFC 6455 §4.2.2)."""
    return base64.b64encode(hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()).decode()


def headers_of(head: str) -> dict[str, str]:
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in head.split("\r\n")[1:])}


# Client


async def opened(
    url: str, settings: WebSocket, answer: Callable[[str], bytes], *, end: bool = False
) -> tuple[Any, str, RawPeer]:
    """Open a WebSocket over memory to a server that gives that answer to the key; the stream, the request, the peer."""
    ours, theirs = memory_streams()
    peer, head, stream = RawPeer(theirs), "", None

    async def serve() -> None:
        nonlocal head
        head = await peer.head()
        await theirs.send(answer(headers_of(head)["sec-websocket-key"]))
        if end:
            await theirs.aclose()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        try:
            stream = await open_websocket(ours, parse_url(url), settings)
        except Exception as error:
            return error, head, peer
    return stream, head, peer


def switching(key: str, *, subprotocol: str | None = "amqp", extra: str = "") -> bytes:
    protocol = f"Sec-WebSocket-Protocol: {subprotocol}\r\n" if subprotocol is not None else ""
    return (
        f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n"
        f"Sec-WebSocket-Accept: {answer_to(key)}\r\n{protocol}{extra}\r\n"
    ).encode()


@pytest.mark.parametrize(
    ("url", "line", "host"),
    [
        ("ws://broker", "GET / HTTP/1.1", "broker"),
        ("ws://broker:80/", "GET / HTTP/1.1", "broker"),
        ("ws://broker:8080/a/b", "GET /a/b HTTP/1.1", "broker:8080"),
        ("wss://u:secret@broker/$servicebus/websocket?x=1%20", "GET /$servicebus/websocket?x=1%20 HTTP/1.1", "broker"),
        ("wss://broker:80/", "GET / HTTP/1.1", "broker:80"),
        ("ws://[::1]:99/", "GET / HTTP/1.1", "[::1]:99"),
    ],
)
async def test_request(url: str, line: str, host: str) -> None:
    """Path and query as they were written, the host with a port that is not usual; the URL's login is not HTTP's."""
    stream, head, _ = await opened(url, WebSocket(), switching)
    assert not isinstance(stream, Exception), stream
    headers = headers_of(head)
    assert head.split("\r\n")[0] == line
    assert headers["host"] == host
    assert (headers["upgrade"].lower(), headers["connection"].lower()) == ("websocket", "upgrade")
    assert headers["sec-websocket-version"] == "13"
    assert len(base64.b64decode(headers["sec-websocket-key"])) == 16
    assert headers["sec-websocket-protocol"] == "amqp"
    assert not {"origin", "authorization", "sec-websocket-extensions"} & headers.keys()
    assert "secret" not in head


async def test_settings() -> None:
    """Another subprotocol, and headers of the user's."""
    settings = WebSocket("AMQPWSB10", {"Authorization": "Bearer t\u00f6ken", "Origin": "https://app.example"})
    stream, head, _ = await opened("ws://h", settings, lambda key: switching(key, subprotocol="AMQPWSB10"))
    assert not isinstance(stream, Exception), stream
    headers = headers_of(head)
    assert headers["sec-websocket-protocol"] == "AMQPWSB10"
    assert headers["authorization"] == "Bearer t\u00f6ken"
    assert headers["origin"] == "https://app.example"


async def test_what_comes_with_the_answer() -> None:
    """A server may speak at once: frames right behind its answer are not lost."""
    stream, _, peer = await opened("ws://h", WebSocket(), lambda key: switching(key) + frame(BINARY, b"early"))
    assert await stream.receive() == b"early"
    await stream.send(b"x")
    assert await peer.frame() == (BINARY, True, b"x")
    assert peer.masked


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (400, "answered 400 (Bad Request)"),
        (401, "answered 401 (Unauthorized)"),
        (403, "answered 403 (Forbidden)"),
        (404, "answered 404 (Not Found)"),
        (426, "answered 426 (Upgrade Required)"),
        (503, "answered 503 (Service Unavailable)"),
        (599, "answered 599 (a status of its own)"),
        (200, "answered 200 (OK)"),
        (103, "answered 103 (Early Hints)"),
    ],
)
async def test_refused(status: int, says: str) -> None:
    """Another status than 101 is one error with the status; what the page says is not shown."""
    answer = f"HTTP/1.1 {status} Whatever\r\nContent-Length: 6\r\n\r\nsecret".encode()
    error, _, _ = await opened("ws://user:secret@h/p?token=secret", WebSocket(), lambda key: answer)
    assert isinstance(error, HandshakeRefused)
    assert isinstance(error, ConnectionLost)
    assert error.status == status
    assert str(error) == f"cannot connect to ws://h:80/p: the server {says}"


async def test_redirected() -> None:
    """A redirect is said, and not followed: the login is for the server that it was given for."""
    answer = b"HTTP/1.1 302 Found\r\nLocation: https://login.example/x?token=secret\r\nContent-Length: 0\r\n\r\n"
    error, _, _ = await opened("ws://h", WebSocket(), lambda key: answer)
    assert isinstance(error, HandshakeRefused)
    assert error.status == 302
    assert "leads to 'https://login.example/x'; redirects are not followed" in str(error)
    assert "secret" not in str(error)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda key: switching(key, subprotocol=None), "does not accept the subprotocol amqp"),
        (lambda key: switching(key, subprotocol="mqtt"), "unrecognized subprotocol mqtt"),
        (
            lambda key: switching(key, extra="Sec-WebSocket-Extensions: permessage-deflate\r\n"),
            "unrecognized extension",
        ),
        (lambda key: switching(key, subprotocol="\u00e4"), "no WebSocket there"),
        (lambda key: switching(KEY), "Bad accept token"),
        (lambda key: switching(key).replace(b"Upgrade: WebSocket", b"X: y"), "Upgrade"),
        (lambda key: switching(key).replace(b"Connection:", b"X:"), "Connection"),
        (lambda key: b"AMQP\3\1\0\0\0\0\0\0", "does not answer as HTTP"),
        (lambda key: b"HTTP/1.1 \0\r\n\r\n", "Bad HTTP message"),
        (lambda key: b"HTTP/1.1 101 Switching\r\n" + b"X: y\r\n" * 20_000, "Bad HTTP message"),
    ],
)
async def test_no_websocket(answer: Callable[[str], bytes], reason: str) -> None:
    """An answer that agrees to something else, or to nothing, is one error with the place and the reason."""
    error, _, _ = await opened("ws://h", WebSocket(), answer)
    assert isinstance(error, ConnectionLost)
    assert str(error).startswith("cannot connect to ws://h:80/: ")
    assert reason in str(error)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 101 Switching Pro"])
async def test_gone_before_the_answer(answer: bytes) -> None:
    """The stream's own error; `connect` makes it a lost connection."""
    error, _, _ = await opened("ws://h", WebSocket(), lambda key: answer, end=True)
    assert isinstance(error, anyio.EndOfStream)


async def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where wsproto is not installed, the error says how to get it; on both sides, before anything is opened."""
    monkeypatch.setitem(sys.modules, "wsproto", None)
    with pytest.raises(Unsupported, match=r"pip install 'amqp10\[websocket\]'"):
        async with Connection("ws://127.0.0.1:1"):
            pass
    with pytest.raises(Unsupported, match=r"pip install 'amqp10\[websocket\]'"):
        Broker(websocket=True)
    async with Broker() as broker, Connection(broker.url):
        pass


# Server


def request(*changes: tuple[str, str | None], line: str = "GET /any?x=y HTTP/1.1") -> bytes:
    """A request for a WebSocket, with headers changed, added or (None) left out."""
    headers: dict[str, str | None] = {
        "Host": "localhost",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": KEY,
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Protocol": "amqp",
        **dict(changes),
    }
    lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
    return "\r\n".join([line, *lines, "", ""]).encode("latin-1")


LOCAL = StreamFacts(secure=True, peer="the peer")
REMOTE = StreamFacts(secure=False, peer="the peer")
TLS = StreamFacts(secure=True, tls=True, peer="the peer")


async def served(
    data: bytes, origins: tuple[str, ...] = (), portion: int = 65_536, facts: StreamFacts = LOCAL
) -> tuple[Any, RawPeer]:
    """Have the server's side take what a peer begins with; its result or error, and the peer."""
    ours, theirs = memory_streams()
    result: Any = None
    async with anyio.create_task_group() as tasks:

        async def feed() -> None:
            for start in range(0, len(data), portion):
                await theirs.send(data[start : start + portion])

        tasks.start_soon(feed)
        try:
            result = await accept_websocket(ours, origins, facts)
        except Exception as error:
            result = error
    return result, RawPeer(theirs)


@pytest.mark.parametrize("portion", [1, 10, 65_536])
async def test_taken(portion: int) -> None:
    """The answer to the key, the subprotocol, and then frames; any path, in any portions."""
    result, peer = await served(request(), portion=portion)
    stream, received = result
    assert received == b""
    head = await peer.head()
    headers = headers_of(head)
    assert head.startswith("HTTP/1.1 101 ")
    assert headers["sec-websocket-accept"] == answer_to(KEY)
    assert headers["sec-websocket-protocol"] == "amqp"
    assert "sec-websocket-extensions" not in headers
    await peer.stream.send(frame(BINARY, b"in", mask=b"abcd"))
    assert await stream.receive() == b"in"
    await stream.send(b"out")
    assert await peer.frame() == (BINARY, True, b"out")
    assert not peer.masked


@pytest.mark.parametrize("begin", [b"AMQP\0\1\0\0", b"A", b"\x16\x03", b"GE\0", b"GOT / HTTP/1.1\r\n", b"POST / "])
async def test_not_http(begin: bytes) -> None:
    """Whatever else a peer begins with is left as it came, for AMQP to judge."""
    (stream, received), peer = await served(begin)
    await peer.stream.send(b"more")
    assert received + await stream.receive() == begin + b"more"


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        ("amqp", "amqp"),
        ("AMQPWSB10", "AMQPWSB10"),
        ("AMQPWSB10, amqp", "amqp"),
        ("mqtt,amqp", "amqp"),
        ("mqtt", None),
        ("AMQP", None),
        ("", None),
        (None, None),
    ],
)
async def test_subprotocols(offered: str | None, chosen: str | None) -> None:
    """One of the binding's names, and none but these; nothing offered is nothing agreed on."""
    result, peer = await served(request(("Sec-WebSocket-Protocol", offered)))
    head = await peer.head()
    if chosen is not None:
        assert headers_of(head)["sec-websocket-protocol"] == chosen
    else:
        assert isinstance(result, ConnectionLost)
        assert head.startswith("HTTP/1.1 400 ")
        with pytest.raises(anyio.EndOfStream):
            await peer.take(1000)


@pytest.mark.parametrize(
    ("origin", "allowed", "taken"),
    [
        (None, (), True),
        ("https://evil.example", (), False),
        ("http://localhost:8000", (), False),
        ("null", (), False),
        ("", (), False),
        ("https://app.example", ("https://app.example",), True),
        ("https://app.example.evil", ("https://app.example",), False),
        ("http://app.example", ("https://app.example",), False),
        ("null", ("https://app.example",), False),
        ("https://any.example", ("*",), True),
    ],
)
async def test_origins(origin: str | None, allowed: tuple[str, ...], taken: bool) -> None:
    """A web page comes in only where its origin was named; who says no origin is no web page."""
    result, peer = await served(request(("Origin", origin)), allowed)
    head = await peer.head()
    assert head.startswith("HTTP/1.1 101 " if taken else "HTTP/1.1 403 ")
    assert isinstance(result, ConnectionLost) is not taken


@pytest.mark.spec("websocket 10.2", "an origin with the host and port that the request is for is taken")
@pytest.mark.parametrize(
    ("host", "origin", "facts", "taken"),
    [
        ("127.0.0.1:5672", "http://127.0.0.1:5672", LOCAL, True),
        ("[::1]:5672", "http://[::1]:5672", LOCAL, True),
        ("localhost:5672", "http://localhost:5672", LOCAL, True),
        ("LocalHost:5672", "http://localhost:5672", LOCAL, True),
        ("localhost", "http://localhost", LOCAL, True),
        ("localhost", "http://localhost:80", LOCAL, True),
        ("localhost:443", "https://localhost", TLS, True),
        ("broker.example:5672", "http://broker.example:5672", REMOTE, True),
        ("broker.example:5671", "https://broker.example:5671", TLS, True),
        # A name that its owner has made to point to loopback: the page is the owner's.
        ("broker.example:5672", "http://broker.example:5672", LOCAL, False),
        ("localhost:5672", "http://localhost:8000", LOCAL, False),
        ("localhost:5672", "http://localhost", LOCAL, False),
        ("localhost:80", "https://localhost", LOCAL, False),
        ("localhost:5672", "http://127.0.0.1:5672", LOCAL, False),
        ("localhost:5672", "ftp://localhost:5672", LOCAL, False),
        ("localhost:5672", "http://localhost:x", LOCAL, False),
        ("localhost:5672", "http://[localhost:5672", LOCAL, False),
        ("broker.example:5672", "http://broker.example.evil:5672", REMOTE, False),
        ("broker.example:5672", "null", REMOTE, False),
    ],
)
async def test_origin_of_the_broker_itself(host: str, origin: str, facts: StreamFacts, taken: bool) -> None:
    """Netty, and so Qpid JMS and ProtonJ2, says where it connects to, in the place where a browser says the page."""
    _, peer = await served(request(("Host", host), ("Origin", origin)), facts=facts)
    assert (await peer.head()).startswith("HTTP/1.1 101 " if taken else "HTTP/1.1 403 ")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (request(("Upgrade", "h2c")), 400),
        (request(("Sec-WebSocket-Key", None)), 400),
        (request(("Sec-WebSocket-Key", "")), 400),
        (request(("Sec-WebSocket-Key", KEY[4:])), 400),
        (request(("Sec-WebSocket-Key", KEY[:-2])), 400),
        (request(("Sec-WebSocket-Key", "!" * 22 + "==")), 400),
        (request(("sec-websocket-key", KEY)), 400),
        (request() + b"\x82\x88", 400),
        (request(("Sec-WebSocket-Version", "8")), 426),
        (request(("Sec-WebSocket-Protocol", "\u00e4")), 400),
        (request(("Connection", "\u00e4")), 400),
        (request(("Host", "a" * 70 + ".\u00e4")), 400),
        (request(("Host", None)), 400),
        (b"GET / SPDY/9\r\n\r\n", 400),
        (request(line="GET / HTTP/1.0"), 400),
        (request(("Content-Length", "5")), 400),
        (request(("Transfer-Encoding", "chunked")), 400),
        (request(("Transfer-Encoding", "chunked"), ("Content-Length", "0")), 400),
        (b"GET /" + b"x" * 20_000, 400),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 5_000, 400),
        (b"GET \0\r\n\r\n", 400),
    ],
)
async def test_bad_requests(data: bytes, status: int) -> None:
    """HTTP that asks for no WebSocket, or is none: answered with its status, in bounded memory, and closed."""
    result, peer = await served(data)
    assert isinstance(result, ConnectionLost)
    assert "the WebSocket handshake with the peer failed" in str(result)
    head = await peer.head()
    assert head.startswith(f"HTTP/1.1 {status} ")
    assert headers_of(head)["connection"] == "close"


async def test_gone_within_its_request() -> None:
    """A peer that ends before its request does is a lost connection."""
    ours, theirs = memory_streams()
    await theirs.send(b"GET / HTTP/1.1\r\nHost")
    await theirs.aclose()
    with pytest.raises(ConnectionLost, match="disconnected before it was served"):
        await accept_websocket(ours, (), LOCAL)


async def test_cancelled() -> None:
    """Cancelled while a peer takes its time, the stream is closed."""
    ours, theirs = memory_streams()
    await theirs.send(b"GET ")
    with anyio.move_on_after(0.01):
        await accept_websocket(ours, (), LOCAL)
    with pytest.raises(anyio.EndOfStream):
        await theirs.receive()
