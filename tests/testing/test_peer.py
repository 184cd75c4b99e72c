from __future__ import annotations

import ssl
from pathlib import Path

import anyio
import pytest
from anyio.abc import ByteStream

from amqp10.broker import Broker
from amqp10.broker.internals import memory_streams
from amqp10.client import Connection
from amqp10.errors import AuthenticationFailed, ConnectionClosed, ConnectionLost, RemoteProtocolError
from amqp10.messaging import ACCEPTED, Error, Source, Target
from amqp10.net import TLS
from amqp10.testing import (
    Attach,
    Begin,
    CertificateAuthority,
    Close,
    Disposition,
    Flow,
    Open,
    PeerMismatch,
    ScriptedPeer,
    Transfer,
)

pytestmark = [pytest.mark.anyio, pytest.mark.capability("test kit")]


async def serve(peer: ScriptedPeer) -> None:
    """A good server for one sender and one message."""
    await peer.accept_connection()
    await peer.accept_session()
    attach = await peer.accept_link(credit=1)
    await peer.expect(Transfer, handle=attach.handle, delivery_id=0)
    assert b"hello" in peer.payload
    await peer.send(Disposition(role=True, first=0, settled=True, state=ACCEPTED))
    await peer.accept_close()


async def send(connection: Connection) -> None:
    """A client that sends one message and leaves."""
    async with connection, connection.sender("orders") as sender:
        await sender.send("hello")


@pytest.mark.parametrize("chunk", [None, 1])
async def test_over_tcp(chunk: int | None) -> None:
    """A client of the package is served over a socket, also byte by byte."""
    async with ScriptedPeer() as peer, anyio.create_task_group() as tasks:
        peer.chunk(chunk)
        tasks.start_soon(serve, peer)
        await send(Connection(peer.url))


async def test_over_memory() -> None:
    """The same without any socket."""
    async with ScriptedPeer() as peer, anyio.create_task_group() as tasks:
        tasks.start_soon(serve, peer)
        await send(Connection.over(peer.connect()))


async def test_over_tls(tmp_path: Path) -> None:
    """With a context, the port speaks TLS."""
    authority = CertificateAuthority(tmp_path)
    files = authority.server()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    async with ScriptedPeer(tls=context) as peer, anyio.create_task_group() as tasks:
        tasks.start_soon(serve, peer)
        await send(Connection(peer.url, tls=TLS(ca=authority.ca)))


async def test_several_connections() -> None:
    """A second `accept` takes the next connection, with a conversation of its own."""
    async with ScriptedPeer() as peer:
        for _ in range(2):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(send, Connection.over(peer.connect()))
                await peer.accept()
                await serve(peer)
            assert peer.trace().count("Open(") == 2


async def test_plays_the_client() -> None:
    """Over any stream it opens a connection to a broker, sends a message and has it accepted."""
    async with Broker() as broker, ScriptedPeer.over(await tcp(broker.url)) as peer:
        assert (await peer.open_connection(container_id="scripted")).container_id
        await peer.begin_session(channel=5)
        await peer.attach_link("out", role=False, handle=2, source=Source("q"), target=Target("q"))
        flow = await peer.expect(Flow, link_credit=lambda credit: credit > 0)
        await peer.send(Transfer(handle=2, delivery_id=0, delivery_tag=b"t"), b"\0\x53\x75\xa0\5hello", channel=5)
        await peer.expect(Disposition, role=True, first=0, settled=True, state=ACCEPTED)
        assert flow.handle is not None
        assert broker.queue("q").depth == 1
        await peer.send(Close())
        await peer.expect(Close, error=None)


async def tcp(url: str) -> ByteStream:
    """A plain connection to a broker."""
    host, port = url.removeprefix("amqp://").rsplit(":", 1)
    return await anyio.connect_tcp(host, int(port))


async def test_drop() -> None:
    """A cut transport is a lost connection for the client, with or without a reset."""
    for reset in (False, True):
        async with ScriptedPeer() as peer, anyio.create_task_group() as tasks:

            async def play(peer: ScriptedPeer = peer, reset: bool = reset) -> None:
                await peer.accept_connection()
                await peer.accept_session()
                await peer.accept_link(credit=1)
                await peer.expect(Transfer)
                await peer.drop(reset=reset)

            tasks.start_soon(play)
            with pytest.raises(ConnectionLost):
                await send(Connection(peer.url))


async def test_refuse_credentials() -> None:
    """An outcome other than 0 is an authentication that failed."""
    async with ScriptedPeer() as peer, anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: peer.accept_connection(mechanisms=("PLAIN",), outcome=1))
        with pytest.raises(AuthenticationFailed) as failure:
            await send(Connection(f"amqp://user:secret@127.0.0.1:{peer.port}"))
        assert failure.value.code == 1
    assert "secret" not in peer.trace().replace("<secret>", "")


async def test_close_with_error() -> None:
    """What the script says in its close is what the client raises."""
    async with ScriptedPeer() as peer, anyio.create_task_group() as tasks:

        async def play() -> None:
            await peer.accept_connection()
            await peer.accept_session()
            await peer.send(Close(error=Error("amqp:connection:forced", "bye")), channel=0)
            await peer.expect(Attach)

        tasks.start_soon(play)
        with pytest.raises(ConnectionClosed) as failure:
            await send(Connection(peer.url))
        assert failure.value.condition == "amqp:connection:forced"


async def test_garbage() -> None:
    """Bytes without sense are a fault of the peer's, and the client says so."""
    async with ScriptedPeer() as peer, anyio.create_task_group() as tasks:

        async def play() -> None:
            await peer.accept_connection()
            await peer.accept_session()
            await peer.send_garbage(200)

        tasks.start_soon(play)
        with pytest.raises(RemoteProtocolError):
            await send(Connection(peer.url))


async def test_stall_and_resume() -> None:
    """While it stalls nothing goes out; then everything does, in order."""
    mine, theirs = memory_streams()
    async with ScriptedPeer.over(mine) as peer:
        await peer.send_bytes(b"before")
        peer.stall()
        await peer.send_bytes(b"one")
        await peer.send_bytes(b"two")
        assert await theirs.receive() == b"before"
        with anyio.CancelScope() as scope:
            scope.cancel()
            await theirs.receive()
        assert scope.cancelled_caught
        await peer.resume()
        assert await theirs.receive() == b"onetwo"
        await peer.send_bytes(b"after")
        assert await theirs.receive() == b"after"


async def test_chunks() -> None:
    """Bytes go out in portions of the size asked for."""
    mine, theirs = memory_streams()
    async with ScriptedPeer.over(mine) as peer:
        peer.chunk(4)
        await peer.send_bytes(b"0123456789")
        assert [await theirs.receive() for _ in range(3)] == [b"0123", b"4567", b"89"]


@pytest.mark.in_memory
async def test_impatience() -> None:
    """Nothing in time is a failure that shows the conversation."""
    mine, theirs = memory_streams()
    async with ScriptedPeer.over(mine, patience=0.01) as peer:
        await theirs.send(b"AMQP\0\1\0\0")
        await peer.expect_header()
        with pytest.raises(PeerMismatch, match="expected Open, but nothing came") as failure:
            await peer.expect(Open)
        assert "< AMQP 1.0" in str(failure.value)
    async with ScriptedPeer(patience=0.01) as peer:
        with pytest.raises(PeerMismatch, match="nobody connected"):
            await peer.expect_header()


async def test_hanging_up() -> None:
    """The other side's end is expected or a failure."""
    mine, theirs = memory_streams()
    async with ScriptedPeer.over(mine) as peer:
        await theirs.aclose()
        with pytest.raises(PeerMismatch, match="expected Begin, but the other side hung up"):
            await peer.expect(Begin)
        await peer.expect_end()


async def test_empty_frames_are_passed_over() -> None:
    """A sign of life is no answer to what the script waits for, unless it waits for that."""
    mine, theirs = memory_streams()
    async with ScriptedPeer.over(mine) as peer, ScriptedPeer.over(theirs) as other:
        await peer.send_bytes(b"AMQP\0\1\0\0")
        await other.expect_header()
        for _ in range(3):
            await peer.send_empty()
        await peer.send(Open(container_id="x"))
        await other.expect_empty()
        await other.expect(Open, container_id="x")


async def test_expect_any() -> None:
    """One of several kinds, past those that do not matter; anything else fails."""
    mine, theirs = memory_streams()
    async with ScriptedPeer.over(mine) as peer, ScriptedPeer.over(theirs) as other:
        await peer.send_bytes(b"AMQP\0\1\0\0")
        await other.expect_header()
        flow = Flow(incoming_window=1, next_outgoing_id=0, outgoing_window=1)
        await peer.send(flow)
        await peer.send_empty()
        await peer.send(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1), channel=3)
        found = await other.expect_any(Begin, Close, skip=Flow)
        assert isinstance(found, Begin)
        assert other.channel == 3
        await peer.send(flow)
        with pytest.raises(PeerMismatch, match="expected Begin or Close, got"):
            await other.expect_any(Begin, Close)
