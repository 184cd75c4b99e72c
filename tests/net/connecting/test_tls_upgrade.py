"""TLS by AMQP's protocol header (§5.2.1): both our ends against peers on plain `ssl` and raw bytes, and each other.

No broker of the field does this, so the scripted peers here say what the specification says, byte by byte.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import anyio
import pytest

from amqp10 import Connection
from amqp10.broker import Broker
from amqp10.errors import AmqpError, ConnectionLost, RemoteProtocolError, Unsupported
from amqp10.net import TLS, TransportOptions, connect, parse_url
from amqp10.testing import CertificateAuthority

pytestmark = [pytest.mark.anyio, pytest.mark.capability("TLS")]

TLS_HEADER = b"AMQP\x02\x01\x00\x00"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"
AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
OPEN = b"\0\0\0\x14\2\0\0\0\0\x53\x10\xc0\x07\x01\xa1\x04peer"
CLOSE = b"\0\0\0\x0c\2\0\0\0\0\x53\x18\x45"


def take(stream: socket.socket, size: int) -> bytes:
    """Exactly so many bytes."""
    data = b""
    while len(data) < size:
        portion = stream.recv(size - len(data))
        if not portion:
            raise EOFError(data)
        data += portion
    return data


def take_frame(stream: socket.socket) -> bytes:
    """One AMQP frame."""
    size = take(stream, 4)
    return size + take(stream, int.from_bytes(size, "big") - 4)


@contextmanager
def peer(script: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that does what the script says with its one client; its URL. What the script raises, fails the test."""
    faults: list[BaseException] = []

    def serve() -> None:
        try:
            with listener.accept()[0] as stream:
                stream.settimeout(20)
                script(stream)
        except BaseException as error:
            faults.append(error)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"amqp://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            thread.join(30)
    assert not faults, faults


def server_context(authority: CertificateAuthority, *names: str) -> ssl.SSLContext:
    """Plain `ssl`, nothing of ours."""
    files = authority.server(*names)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    context.num_tickets = 0  # a client that closes before it has read them resets the connection
    return context


@pytest.fixture
def tls(authority: CertificateAuthority) -> TLS:
    """The broker's."""
    files = authority.server()
    return TLS(certificate=files.certificate, key=files.key)


# Our client


@pytest.mark.spec("5.2.1", "the client asks by the TLS header, and TLS, SASL and AMQP follow its echo")
async def test_client(authority: CertificateAuthority) -> None:
    """Header, its echo, TLS, and then AMQP's own headers inside; what a wire tap sees is the eight bytes."""
    context = server_context(authority)
    names = []
    context.sni_callback = lambda connection, name, _: names.append(name)

    def script(plain: socket.socket) -> None:
        assert take(plain, 8) == TLS_HEADER
        plain.sendall(TLS_HEADER)
        with context.wrap_socket(plain, server_side=True) as stream:
            assert take(stream, 8) == AMQP_HEADER
            assert take_frame(stream)[8:11] == b"\0\x53\x10"
            stream.sendall(AMQP_HEADER + OPEN)
            assert take_frame(stream) == CLOSE
            stream.sendall(CLOSE)
            assert stream.recv(1) == b""

    with peer(script) as url:
        url = url.replace("127.0.0.1", "localhost")
        async with Connection(url, tls=TLS(ca=authority.ca), tls_upgrade=True, sasl=False) as connection:
            assert connection.remote_container_id == "peer"
    assert names == ["localhost"]


async def test_secrets_may_cross(authority: CertificateAuthority) -> None:
    """An upgraded stream is a secure one, as is no other that begins in the clear."""

    def script(plain: socket.socket) -> None:
        assert take(plain, 8) == TLS_HEADER
        plain.sendall(TLS_HEADER)
        with server_context(authority).wrap_socket(plain, server_side=True) as stream:
            assert stream.recv(1) == b""

    with peer(script) as url:
        stream, facts = await connect(parse_url(url), TLS(ca=authority.ca), TransportOptions(tls_upgrade=True))
        await stream.aclose()
        assert facts.secure
        assert facts.tls


@pytest.mark.spec("5.2.1", "a client that asked for TLS leaves a peer that answers with another header")
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (SASL_HEADER, Unsupported),
        (AMQP_HEADER, Unsupported),
        (b"AMQP\x00\x00\x09\x01", Unsupported),
        (b"AMQP\x02\x01\x00\x01", Unsupported),
        (b"HTTP/1.1 400 Bad Request\r\n", RemoteProtocolError),
        (b"\x16\x03\x01\x00\x00\x00\x00\x00", RemoteProtocolError),
        (b"AMQP\x02", ConnectionLost),
        (b"", ConnectionLost),
    ],
)
async def test_downgrade(answer: bytes, error: type[AmqpError]) -> None:
    """Who answers with anything but the same header gets nothing more from us: no AMQP, no login, no ClientHello."""

    def script(plain: socket.socket) -> None:
        assert take(plain, 8) == TLS_HEADER
        plain.sendall(answer)
        with suppress(OSError):  # the client has gone already
            plain.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            assert plain.recv(1000) == b""

    with peer(script) as url:
        with pytest.raises(error) as caught:
            async with Connection(url.replace("://", "://user:secret@"), tls_upgrade=True):
                pass
    assert "secret" not in str(caught.value)


async def test_the_certificate_counts(authority: CertificateAuthority, stranger: CertificateAuthority) -> None:
    """A certificate of a stranger, or for another host, is refused as it would be on a TLS port."""
    for signer, names in ((stranger, ()), (authority, ("other.example",))):
        context = server_context(signer, *names)

        def script(plain: socket.socket, context: ssl.SSLContext = context) -> None:
            take(plain, 8)
            plain.sendall(TLS_HEADER)
            with suppress(ssl.SSLError, OSError):
                context.wrap_socket(plain, server_side=True).close()

        with peer(script) as url, pytest.raises(ConnectionLost, match="certificate is not valid"):
            await connect(parse_url(url), TLS(ca=authority.ca), TransportOptions(tls_upgrade=True))


async def test_injected_words(authority: CertificateAuthority) -> None:
    """What somebody on the way puts behind the header is never taken for AMQP: it breaks the TLS handshake."""

    def script(plain: socket.socket) -> None:
        take(plain, 8)
        plain.sendall(TLS_HEADER + AMQP_HEADER + OPEN)
        with suppress(ssl.SSLError, OSError):
            server_context(authority).wrap_socket(plain, server_side=True).close()

    with peer(script) as url, pytest.raises(ConnectionLost, match="cannot connect"):
        await connect(parse_url(url), TLS(ca=authority.ca), TransportOptions(tls_upgrade=True))


# Our broker


@pytest.mark.spec("5.2.1", "the server echoes the TLS header, and TLS, SASL and AMQP follow")
@pytest.mark.parametrize("pipelined", [False, True])
async def test_broker(authority: CertificateAuthority, tls: TLS, pipelined: bool) -> None:
    """The header is echoed, then TLS is spoken, then AMQP; a ClientHello may come right behind the header."""

    def ask(port: int) -> None:
        context = ssl.create_default_context(cafile=str(authority.ca))
        with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            stream = context.wrap_bio(incoming, outgoing, server_hostname="localhost")

            def until_done(step: Callable[[], object]) -> object:
                while True:
                    try:
                        return step()
                    except ssl.SSLWantReadError:
                        plain.sendall(outgoing.read())
                        incoming.write(plain.recv(65536))

            if pipelined:
                with suppress(ssl.SSLWantReadError):
                    stream.do_handshake()
                plain.sendall(TLS_HEADER + outgoing.read())
            else:
                plain.sendall(TLS_HEADER)
            assert take(plain, 8) == TLS_HEADER
            until_done(stream.do_handshake)
            stream.write(AMQP_HEADER + OPEN)
            plain.sendall(outgoing.read())
            assert until_done(lambda: stream.read(8)) == AMQP_HEADER
            answer = until_done(lambda: stream.read(1000))
            assert isinstance(answer, bytes)
            assert answer[8:11] == b"\0\x53\x10"
            stream.write(CLOSE)
            plain.sendall(outgoing.read())
            assert until_done(lambda: stream.read(1000)) == CLOSE

    async with Broker(tls=tls) as broker:
        await anyio.to_thread.run_sync(ask, int(broker.url.rpartition(":")[2]))


@pytest.mark.spec("5.2.1", "a server that demands TLS answers any other header with the TLS header and closes")
@pytest.mark.parametrize("header", [AMQP_HEADER, SASL_HEADER, b"AMQP\x00\x00\x09\x01", b"AMQP\x02\x01\x00\x07"])
async def test_broker_speaks_nothing_in_the_clear(tls: TLS, header: bytes) -> None:
    """Who begins without TLS is told the header to begin with, and left (§2.2)."""

    def ask(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
            plain.sendall(header)
            assert take(plain, 8) == TLS_HEADER
            assert plain.recv(1) == b""

    async with Broker(tls=tls) as broker:
        await anyio.to_thread.run_sync(ask, int(broker.url.rpartition(":")[2]))


@pytest.mark.parametrize("begin", [b"\0\x07", b"\0", b"GET / HTTP/1.1\r\n", b"\x80"])
async def test_broker_hears_what_is_no_tls(tls: TLS, begin: bytes) -> None:
    """Who speaks neither TLS nor AMQP's headers is told by an alert of TLS at once, by the first octet.

    AMQP/Fast begins with two, and TLS waits for five: its clients heard nothing until their time was over.
    """
    async with Broker(tls=tls) as broker:
        with anyio.fail_after(60):
            async with await anyio.connect_tcp("127.0.0.1", int(broker.url.rpartition(":")[2])) as plain:
                await plain.send(begin)
                assert await plain.receive() == b"\x15\x03\x03\0\2\2\x0a"


async def test_broker_without_tls() -> None:
    """A broker that has no TLS says so by its own header, and our client does not go on."""
    async with Broker() as broker:
        with pytest.raises(Unsupported, match=r"does not accept TLS by AMQP's header.*41 4d 51 50"):
            async with Connection(broker.url, tls_upgrade=True):
                pass


# Both


async def test_both(authority: CertificateAuthority, tls: TLS) -> None:
    """Our client and our broker, on the port that also takes TLS from the first byte."""
    async with Broker(tls=tls, users={"ann": "secret"}) as broker:
        plain = broker.url.replace("amqps://", "amqp://ann:secret@")
        for url, upgrade in ((plain, True), (plain.replace("amqp:", "amqps:"), False)):
            async with Connection(url, tls=TLS(ca=authority.ca), tls_upgrade=upgrade) as connection:
                async with connection.sender("q") as sender, connection.receiver("q") as receiver:
                    await sender.send(b"x" * 1_000_000)
                    with await receiver.receive() as message:
                        assert message.body == b"x" * 1_000_000


async def test_a_client_certificate(authority: CertificateAuthority) -> None:
    """It names the user on an upgraded connection, too."""
    from amqp10 import External

    server, ann = authority.server(), authority.client("ann")
    shown = TLS(certificate=server.certificate, key=server.key, ca=authority.ca)
    mine = TLS(ca=authority.ca, certificate=ann.certificate, key=ann.key)
    async with Broker(tls=shown) as broker:
        url = broker.url.replace("amqps", "amqp")
        async with Connection(url, tls=mine, tls_upgrade=True, sasl=External()) as connection:
            assert connection.mechanism == "EXTERNAL"
