"""Streams over real sockets of the loopback: TCP, TLS, Unix; facts of both ends, and one error for all that fails."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import ByteStream, Listener, SocketAttribute

from amqp10.broker.internals import memory_streams
from amqp10.errors import ConnectionLost
from amqp10.net import TLS, StreamFacts, TLSSettings, accept, connect, describe, listen_tcp, listen_unix, parse_url
from amqp10.net._streams.base import hung_up
from amqp10.testing import CertificateAuthority

from ...kit.unavailable import unavailable

pytestmark = pytest.mark.anyio


class Echo:
    """What a server that echoes learned of its peers."""

    def __init__(self) -> None:
        self.url = ""
        self.facts: list[StreamFacts] = []
        self.errors: list[ConnectionLost] = []
        self.options: list[tuple[int, int]] = []
        self.served = anyio.Event()


@asynccontextmanager
async def echoing(listen: Callable[[], object] | None = None, tls: TLSSettings | None = None) -> AsyncIterator[Echo]:
    echo = Echo()
    opened: tuple[Listener[ByteStream], str]
    opened = await (listen() if listen else listen_tcp("127.0.0.1", 0, secure=tls is not None))  # type: ignore[misc]
    listener, echo.url = opened

    async def serve(stream: ByteStream) -> None:
        try:
            stream, facts = await accept(stream, tls)
        except ConnectionLost as error:
            echo.errors.append(error)
            echo.served.set()
            return
        echo.facts.append(facts)
        raw = stream.extra(SocketAttribute.raw_socket)
        if raw.family == socket.AF_INET:
            echo.options.append(options(raw))
        echo.served.set()
        async with stream:
            try:
                while True:
                    await stream.send(await stream.receive())
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                pass

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield echo
        tasks.cancel_scope.cancel()


def options(raw: socket.socket) -> tuple[int, int]:
    """TCP_NODELAY and SO_KEEPALIVE of a socket."""
    return (
        raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY),
        raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
    )


@pytest.mark.parametrize("end", ["none", "half", "close", "reset"])
async def test_a_peer_that_hung_up(end: str) -> None:
    """The end is seen before what was sent before it is read; a stream without a socket has none."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as peer:
        ours, _ = server.accept()
        async with await anyio.abc.SocketStream.from_socket(ours) as stream:
            peer.sendall(b"not read")
            if end == "half":
                peer.shutdown(socket.SHUT_WR)
            elif end != "none":
                lingers = end == "reset"
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", lingers, 0))
                peer.close()
            assert hung_up(stream) is (end != "none")
    in_memory, _ = memory_streams()
    assert not hung_up(in_memory)


async def round_trip(stream: ByteStream) -> None:
    async with stream:
        await stream.send(b"AMQP\0\1\0\0")
        assert await stream.receive() == b"AMQP\0\1\0\0"


@pytest.mark.spec("2.4.5", "TCP keep-alive is used beside the idle timeouts")
async def test_tcp() -> None:
    """Bytes both ways; no delay for small ones, and keep-alive, at either end; loopback may carry secrets."""
    async with echoing() as echo:
        assert echo.url.startswith("amqp://127.0.0.1:")
        stream, facts = await connect(parse_url(echo.url))
        assert facts == StreamFacts(secure=True, peer=echo.url)
        raw = stream.extra(SocketAttribute.raw_socket)
        assert all(options(raw))
        await round_trip(stream)
        [there] = echo.facts
        assert (there.secure, there.tls, there.identity) == (True, False, None)
        assert there.peer.startswith("127.0.0.1:")
        assert [all(each) for each in echo.options] == [True]


async def test_a_name() -> None:
    """By name, with one port for all its addresses."""
    async with echoing(lambda: listen_tcp("localhost", 0)) as echo:
        assert echo.url.startswith("amqp://localhost:")
        stream, facts = await connect(parse_url(echo.url))
        assert facts.secure
        await round_trip(stream)


async def test_ipv6() -> None:
    """An address with colons is in brackets in the URL."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        unavailable("this machine has no IPv6")
    async with echoing(lambda: listen_tcp("::1", 0)) as echo:
        assert echo.url.startswith("amqp://[::1]:")
        stream, _ = await connect(parse_url(echo.url))
        await round_trip(stream)
        assert echo.facts[0].secure


async def test_unix(tmp_path: Path, authority: CertificateAuthority) -> None:
    """A Unix socket is secure by being local; there is no TLS on it, even where a server has it for its other doors."""
    async with echoing(lambda: listen_unix(tmp_path / "a.sock"), settings(authority)) as echo:
        endpoint = parse_url(echo.url)
        stream, facts = await connect(endpoint)
        assert facts.secure
        await round_trip(stream)
        assert echo.facts == [StreamFacts(secure=True, peer="a local socket")]
        with pytest.raises(ValueError, match="cannot use TLS"):
            await connect(endpoint, TLS())


async def test_secure_is_by_the_address_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is not localhost but leads there is as good; what counts is where the bytes go."""
    async with echoing() as echo:
        endpoint = parse_url(echo.url.replace("127.0.0.1", "broker.example"))
        real = anyio.connect_tcp
        monkeypatch.setattr(anyio, "connect_tcp", lambda host, port: real("127.0.0.1", port))
        stream, facts = await connect(endpoint)
        assert facts.secure
        await round_trip(stream)


# TLS


def settings(authority: CertificateAuthority, *, clients: bool = False) -> TLS:
    files = authority.server()
    return TLS(certificate=files.certificate, key=files.key, ca=authority.ca if clients else None)


async def test_tls(authority: CertificateAuthority) -> None:
    """A certificate that a trusted authority signed for this host; nobody is named without a client's."""
    async with echoing(tls=settings(authority)) as echo:
        assert echo.url.startswith("amqps://")
        stream, facts = await connect(parse_url(echo.url), TLS(ca=authority.ca))
        assert (facts.secure, facts.tls, facts.identity, facts.peer) == (True, True, None, echo.url)
        assert facts.end_point  # what SCRAM binds the login to
        await round_trip(stream)
        assert (echo.facts[0].secure, echo.facts[0].tls, echo.facts[0].identity) == (True, True, None)


async def test_tls_on_a_plain_url(authority: CertificateAuthority) -> None:
    """Settings for TLS are taken at their word, whatever the scheme."""
    async with echoing(tls=settings(authority)) as echo:
        stream, facts = await connect(parse_url(echo.url.replace("amqps", "amqp")), TLS(ca=authority.ca))
        assert facts.tls
        await round_trip(stream)


async def test_contexts(authority: CertificateAuthority) -> None:
    """Any `ssl.SSLContext`, on either side."""
    async with echoing(tls=settings(authority).server_context()) as echo:
        context = ssl.create_default_context(cafile=str(authority.ca))
        stream, facts = await connect(parse_url(echo.url), context)
        assert facts.tls
        await round_trip(stream)


@pytest.mark.parametrize("form", ["pem", "pkcs12"])
async def test_client_certificates(authority: CertificateAuthority, form: str) -> None:
    """The server learns who a client's certificate is for, from PEM files or a PKCS#12 file."""
    files = authority.client("ann")
    if form == "pem":
        tls = TLS(ca=authority.ca, certificate=files.certificate, key=files.key)
    else:
        tls = TLS(ca=authority.ca, pkcs12=files.pkcs12, password=files.password)
    async with echoing(tls=settings(authority, clients=True)) as echo:
        stream, _ = await connect(parse_url(echo.url), tls)
        await round_trip(stream)
        assert echo.facts[0].identity == "ann"


@pytest.mark.parametrize("shown", ["none", "of a stranger"])
async def test_client_certificates_refused(
    authority: CertificateAuthority, stranger: CertificateAuthority, shown: str
) -> None:
    """Where certificates are asked for, nobody comes in without one, or with a stranger's."""
    files = stranger.client("ann")
    tls = TLS(ca=authority.ca)
    if shown != "none":
        tls = TLS(ca=authority.ca, certificate=files.certificate, key=files.key)
    async with echoing(tls=settings(authority, clients=True)) as echo:
        with pytest.raises((ConnectionLost, ssl.SSLError, anyio.BrokenResourceError, anyio.EndOfStream)):
            stream, _ = await connect(parse_url(echo.url), tls)  # TLS 1.3 tells the client after its own handshake
            await round_trip(stream)
        await echo.served.wait()
        assert not echo.facts
        assert str(echo.errors[0]).startswith("the TLS handshake with 127.0.0.1:")
        assert isinstance(echo.errors[0].__cause__, ssl.SSLError)


async def test_server_not_trusted(authority: CertificateAuthority, stranger: CertificateAuthority) -> None:
    """An authority that we do not know; by default, and with another one given. Off only when asked."""
    async with echoing(tls=settings(stranger)) as echo:
        for tls in (None, TLS(ca=authority.ca)):
            with pytest.raises(ConnectionLost, match=r"certificate is not valid: .* by TLS\(ca=") as caught:
                await connect(parse_url(echo.url), tls)
            assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)
        stream, _ = await connect(parse_url(echo.url), TLS(verify=False))
        await round_trip(stream)


async def test_host_names(authority: CertificateAuthority) -> None:
    """The certificate must be for the URL's host, or for the name that is given."""
    files = authority.server("broker.example")
    async with echoing(tls=TLS(certificate=files.certificate, key=files.key)) as echo:
        endpoint = parse_url(echo.url)
        with pytest.raises(ConnectionLost, match=r"not valid for '127\.0\.0\.1': .* by TLS\(server_hostname=\.\.\.\)$"):
            await connect(endpoint, TLS(ca=authority.ca))
        for tls in (
            TLS(ca=authority.ca, server_hostname="broker.example"),
            TLS(ca=authority.ca, check_hostname=False),
        ):
            stream, _ = await connect(endpoint, tls)
            await round_trip(stream)


async def test_tls_to_a_plain_server() -> None:
    """A server without TLS: one error, at once."""
    async with echoing() as echo:
        with pytest.raises(ConnectionLost, match="cannot connect to amqps://"):
            await connect(parse_url(echo.url.replace("amqp:", "amqps:")), TLS(verify=False))


async def test_garbage_to_a_tls_server(authority: CertificateAuthority) -> None:
    """A client without TLS: the server says so, and closes."""
    async with echoing(tls=settings(authority)) as echo:
        stream, _ = await connect(parse_url(echo.url.replace("amqps", "amqp")))
        async with stream:
            await stream.send(b"AMQP\0\1\0\0" * 10)
            await echo.served.wait()
        assert len(echo.errors) == 1
        assert not echo.facts


async def test_broken_settings_are_told_before_connecting(tmp_path: Path) -> None:
    """A missing file is the caller's error, and not a lost connection."""
    with pytest.raises(FileNotFoundError, match=r"none\.pem"):
        await connect(parse_url("amqps://127.0.0.1:1"), TLS(ca=tmp_path / "none.pem"))


# What fails


async def test_nobody_listens() -> None:
    """Refused: one line with the place and the reason, the cause behind it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and not listening
        url = f"amqp://user:secret@127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConnectionLost) as caught:
            await connect(parse_url(url))
    assert str(caught.value).endswith(": Connection refused")
    assert "secret" not in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)


async def test_no_such_host() -> None:
    """A name that is unknown."""
    with pytest.raises(ConnectionLost, match="cannot connect to amqp://"):
        await connect(parse_url("amqp://no-such-host.invalid"))


async def test_no_such_socket(tmp_path: Path) -> None:
    """A path where nothing is."""
    with pytest.raises(ConnectionLost, match=r"none\.sock: .*No such file"):
        await connect(parse_url(f"amqp+unix://{tmp_path}/none.sock"))


async def test_cancelled_while_securing() -> None:
    """Cancelled in the handshake: the socket is closed, which the silent server sees."""
    listener, url = await listen_tcp("127.0.0.1", 0)
    closed = anyio.Event()
    reached = anyio.Event()

    async def silent(stream: ByteStream) -> None:
        async with stream:
            await stream.receive()
            reached.set()
            try:
                while True:
                    await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                closed.set()

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, silent)
        with anyio.CancelScope() as scope:

            async def cancel() -> None:
                await reached.wait()
                scope.cancel()

            tasks.start_soon(cancel)
            await connect(parse_url(url), TLS(verify=False))
        assert scope.cancelled_caught
        await closed.wait()
        tasks.cancel_scope.cancel()


def test_describe() -> None:
    """Errors of the network in a line: groups by their members, once each."""
    refused = ConnectionRefusedError(111, "Connection refused")
    group = OSError("All connection attempts failed")
    group.__cause__ = ExceptionGroup("several", [refused, ConnectionRefusedError(111, "Connection refused")])
    assert describe(group) == "Connection refused"
    broken = anyio.BrokenResourceError()
    broken.__cause__ = refused
    assert describe(broken) == "Connection refused"
    assert describe(anyio.EndOfStream()) == "the peer closed the connection"
    assert describe(anyio.ClosedResourceError()) == "ClosedResourceError"
    expired = ssl.SSLCertVerificationError(1, "failed")
    expired.reason, expired.verify_code, expired.verify_message = "FAILED", 10, "certificate has expired"
    assert describe(expired) == (
        "the certificate is not valid: certificate has expired: renew it, unless it is the clock of this machine that "
        "is wrong"
    )
