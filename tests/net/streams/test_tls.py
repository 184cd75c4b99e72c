"""The stream of TLS: all that is here is read at once, in order up to what is wrong; half a record ends all sending."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import ByteStream

from amqp10.net import TLS
from amqp10.net._streams.socket import SocketStream
from amqp10.net._streams.tls import FED, MAX_ANSWERS, TLSStream
from amqp10.testing import CertificateAuthority

from ...kit.net.key_updates import ClientRecords

pytestmark = [pytest.mark.anyio, pytest.mark.capability("TLS")]

NAME = "127.0.0.1"


@asynccontextmanager
async def pair(
    authority: CertificateAuthority,
    hostname: str = NAME,
    *,
    version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    tickets: int = 2,
    keylog: Path | None = None,
) -> AsyncIterator[tuple[TLSStream, TLSStream]]:
    """A client and a server, the handshake done."""
    files = authority.server(NAME)
    client = TLS(ca=authority.ca, check_hostname=hostname == NAME).client_context()
    client.maximum_version = version
    if keylog is not None:
        client.keylog_filename = str(keylog)
    server = TLS(certificate=files.certificate, key=files.key).server_context()
    server.num_tickets = tickets
    ends = socket.socketpair()
    for end in ends:
        end.setblocking(False)
    here, there = (SocketStream(end, None) for end in ends)
    made: list[TLSStream] = []

    async def serve() -> None:
        made.append(await TLSStream.wrap(there, server, server_side=True))

    async with here, there:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            stream = await TLSStream.wrap(here, client, hostname=hostname)
        yield stream, made[0]


async def test_all_that_is_here_is_read_at_once(authority: CertificateAuthority) -> None:
    """Several records, and several buffers: one `receive`, no more than was asked for; the rest by the next."""
    async with pair(authority) as (client, server):
        await client.send_buffers([b"a" * 20_000, memoryview(b"b" * 20_000), b"", b"c"])
        assert await server.receive() == b"a" * 20_000 + b"b" * 20_000 + b"c"
        await client.send(bytes(50_000))
        left = 50_000
        while left:
            size = len(await server.receive(10_000))
            assert size <= 10_000
            left -= size


async def test_openssl_holds_little(authority: CertificateAuthority) -> None:
    """However much is read of the transport at a time: it never gives back the memory that it once had."""
    data = bytes(range(256)) * 2048
    async with pair(authority) as (client, server), anyio.create_task_group() as tasks:
        held: list[int] = []
        server._incoming = Noted(server._incoming, held)  # type: ignore[assignment]
        tasks.start_soon(client.send, data)
        received = bytearray()
        while len(received) < len(data):
            received += await server.receive(1 << 19)
        assert received == data
    assert max(held) < 1 << 17


async def test_much_that_is_no_data(authority: CertificateAuthority) -> None:
    """More of TLS's own messages in one read than OpenSSL is given at a time: what is behind them is not lost."""
    async with pair(authority, tickets=300) as (client, server), anyio.create_task_group() as tasks:
        tasks.start_soon(server.send, b"data")
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(60):
            assert await client.receive(1 << 19) == b"data"


class Noted:
    """A memory of OpenSSL's, and how much it holds after each write."""

    def __init__(self, memory: ssl.MemoryBIO, held: list[int]) -> None:
        self._memory = memory
        self._held = held

    def __getattr__(self, name: str) -> Any:
        return getattr(self._memory, name)

    def write(self, data: bytes) -> None:
        self._memory.write(data)
        self._held.append(self._memory.pending)


async def test_records_are_written_together(authority: CertificateAuthority, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a write to the transport for each of them, but for those of a quarter of a MiB."""
    calls = 0
    send = SocketStream.send

    async def counted(stream: SocketStream, item: bytes) -> None:
        nonlocal calls
        calls += 1
        await send(stream, item)

    async with pair(authority) as (client, server), anyio.create_task_group() as tasks:
        monkeypatch.setattr(SocketStream, "send", counted)

        async def read() -> None:
            left = 1 << 19
            while left:
                left -= len(await server.receive())

        tasks.start_soon(read)
        await client.send_buffers([bytes(1 << 12)] * 128)
    assert calls <= 3


async def test_both_ways_at_once(authority: CertificateAuthority) -> None:
    """More than the buffers of the transport hold, each way, read in portions of odd sizes."""
    data = bytes(range(256)) * 4096
    async with pair(authority) as ends, anyio.create_task_group() as tasks:
        for one, other in (ends, ends[::-1]):

            async def read(stream: TLSStream = other) -> None:
                received = bytearray()
                while len(received) < len(data):
                    part = await stream.receive(33_333)
                    assert len(part) <= 33_333
                    received += part
                assert received == data

            tasks.start_soon(read)
            tasks.start_soon(one.send, data)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("how", ["said", "transport"])
async def test_the_end(authority: CertificateAuthority, how: str, version: ssl.TLSVersion) -> None:
    """What was sent before the end is received before it, whether TLS said so or the transport was just closed."""
    async with pair(authority, version=version) as (client, server):
        await client.send(b"last words")
        await (client.send_eof() if how == "said" else client.transport.send_eof())
        assert await server.receive() == b"last words"
        for _ in range(2):
            with pytest.raises(anyio.EndOfStream):
                await server.receive()
        if how == "said":
            await server.send(b"the other way is open still")
            assert await client.receive() == b"the other way is open still"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_the_end_both_ways(authority: CertificateAuthority, version: ssl.TLSVersion) -> None:
    """It is the end as well for who has said so, too, whoever of the two was the first."""
    async with pair(authority, version=version) as (client, server):
        await client.send(b"last words")
        await client.send_eof()
        assert await server.receive() == b"last words"
        with pytest.raises(anyio.EndOfStream):
            await server.receive()
        await server.send_eof()
        for stream in (client, client, server):
            with pytest.raises(anyio.EndOfStream):
                await stream.receive()


@pytest.mark.parametrize("server", [True, False])
async def test_the_end_in_the_handshake(authority: CertificateAuthority, server: bool) -> None:
    """A peer that goes away before the handshake is done made no error of TLS: the stream has ended."""
    files = authority.server(NAME)
    settings = TLS(certificate=files.certificate, key=files.key) if server else TLS(ca=authority.ca)
    context = settings.server_context() if server else settings.client_context()
    ends = socket.socketpair()
    for end in ends:
        end.setblocking(False)
    with ends[1] as there:
        there.shutdown(socket.SHUT_WR)
        here = SocketStream(ends[0], None)
        with pytest.raises(anyio.EndOfStream):
            await TLSStream.wrap(here, context, hostname=None if server else NAME, server_side=server)
        await here.aclose()


async def test_what_was_changed_on_its_way(authority: CertificateAuthority) -> None:
    """Records before it count; then the error, again and again."""
    async with pair(authority) as (client, server):
        await client.send(b"good")
        await client.transport.send(b"\x17\x03\x03\x00\x20" + bytes(32))
        await anyio.wait_all_tasks_blocked()
        assert await server.receive() == b"good"
        for _ in range(2):
            with pytest.raises(ssl.SSLError):
                await server.receive()


async def test_half_a_record_is_the_end_of_sending(authority: CertificateAuthority) -> None:
    """A `send` that is cancelled while the peer takes nothing: nothing more can be sent, for a record is torn."""
    async with pair(authority) as (client, _):
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.send, bytes(1 << 24))
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
        with pytest.raises(anyio.BrokenResourceError):
            await client.send(b"x")


async def test_a_receive_that_is_cancelled_loses_nothing(authority: CertificateAuthority) -> None:
    """What comes in that moment is there for the next."""
    async with pair(authority) as (client, server):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.receive)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        await client.send(b"late")
        assert await server.receive() == b"late"


async def test_a_name_in_another_script(authority: CertificateAuthority) -> None:
    """It is looked for in its form for the wire (RFC 5891), and checked."""
    async with pair(authority, hostname="straße.example") as (client, _):
        assert client._tls.server_hostname == "xn--strae-oqa.example"


class Renegotiating:
    """TLS 1.2 in the middle of another handshake, as OpenSSL has it: nothing is written until the peer was read."""

    def __init__(self, tls: Any) -> None:
        self._tls = tls
        self.wants = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tls, name)

    def read(self, size: int) -> bytes:
        data: bytes = self._tls.read(size)
        self.wants = False
        return data

    def write(self, data: Any) -> int:
        if self.wants:
            raise ssl.SSLWantReadError
        return self._tls.write(data)  # type: ignore[no-any-return]


async def test_a_handshake_in_the_middle(authority: CertificateAuthority) -> None:
    """Who sends waits until who receives has read the peer's part of it; nothing is lost either way."""
    async with pair(authority, version=ssl.TLSVersion.TLSv1_2) as (client, server), anyio.create_task_group() as tasks:
        client._tls = Renegotiating(client._tls)  # type: ignore[assignment]
        tasks.start_soon(client.send, bytes(100_000))
        await anyio.wait_all_tasks_blocked()
        await server.send(b"go on")
        assert await client.receive() == b"go on"
        left = 100_000
        while left:
            left -= len(await server.receive())


async def test_a_handshake_that_does_not_come_to_an_end(authority: CertificateAuthority) -> None:
    """The peer goes away instead: whoever waits to send hears of it, then and later."""
    async with pair(authority, version=ssl.TLSVersion.TLSv1_2) as (client, server):
        client._tls = Renegotiating(client._tls)  # type: ignore[assignment]
        async with anyio.create_task_group() as tasks:

            async def send() -> None:
                with pytest.raises(anyio.BrokenResourceError):
                    await client.send(b"x")

            tasks.start_soon(send)
            await anyio.wait_all_tasks_blocked()
            await server.transport.send_eof()
            with pytest.raises(anyio.EndOfStream):
                await client.receive()
        client._tls.wants = True  # type: ignore[attr-defined]
        await send()


async def test_an_answer_of_who_receives(authority: CertificateAuthority) -> None:
    """What TLS has to say to what came is written by `receive`, and a `send` meanwhile waits for that."""
    async with pair(authority) as (client, server):
        transport = Slow(client.transport)
        client.transport = transport
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                client._tls.write(b"an answer, ")  # it stands in the output, as one to a change of keys does
                tasks.start_soon(client.receive)
                await transport.entered.wait()
                tasks.start_soon(client.send, b"and more")
                await anyio.wait_all_tasks_blocked()
                transport.go_on.set()
                received = b""
                while len(received) < len(b"an answer, and more"):
                    received += await server.receive()
                assert received == b"an answer, and more"
                await server.send(b"done")


@pytest.mark.parametrize("ask", [False, True])
async def test_a_flood_of_new_keys(authority: CertificateAuthority, tmp_path: Path, ask: bool) -> None:
    """They are no data, and each of them is work: other tasks have their turns among them, and nothing is lost."""
    keylog = tmp_path / "keys"
    async with pair(authority, keylog=keylog) as (client, server), anyio.create_task_group() as tasks:
        records = ClientRecords(keylog, client._tls)
        flood = b"".join(records.key_update(ask=ask) for _ in range(12_000)) + records.data(b"data")
        assert 4 * FED < len(flood) < 5 * FED
        server.transport = transport = Slow(server.transport, flood)
        transport.go_on.set()
        turns = 0

        async def take_turns() -> None:
            nonlocal turns
            while True:
                await anyio.lowlevel.checkpoint()
                turns += 1

        async def read() -> None:
            while True:
                await client.transport.receive()

        tasks.start_soon(take_turns)
        tasks.start_soon(read)
        assert await server.receive(1 << 19) == b"data"
        assert turns >= 2
        tasks.cancel_scope.cancel()


async def test_a_peer_that_asks_for_keys_and_does_not_read(authority: CertificateAuthority, tmp_path: Path) -> None:
    """Answers to it do not pile up behind a `send` that waits for room: `receive` waits with it, and then goes on."""
    keylog = tmp_path / "keys"
    async with pair(authority, keylog=keylog) as (client, server), anyio.create_task_group() as tasks:
        records = ClientRecords(keylog, client._tls)
        flood = b"".join(records.key_update(ask=True) + records.data(b"x") for _ in range(20_000))
        server.transport = transport = Slow(server.transport, flood)
        tasks.start_soon(server.send, b"waits")
        await transport.entered.wait()
        received = 0

        async def receive() -> None:
            nonlocal received
            while received < 20_000:
                received += len(await server.receive())

        async with anyio.create_task_group() as receiving:
            receiving.start_soon(receive)
            await anyio.wait_all_tasks_blocked()
            assert server._out.pending < 2 * MAX_ANSWERS
            assert 0 < received < 20_000

            async def read() -> None:
                while True:
                    await client.transport.receive()

            tasks.start_soon(read)
            transport.go_on.set()
        assert received == 20_000
        tasks.cancel_scope.cancel()


class Slow(ByteStream):
    """A transport that takes what it is given only when it is told to, and begins with what was put into it."""

    def __init__(self, stream: ByteStream, first: bytes = b"") -> None:
        self._stream = stream
        self._first = first
        self.entered, self.go_on = anyio.Event(), anyio.Event()

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        first, self._first = self._first[:max_bytes], self._first[max_bytes:]
        return first or await self._stream.receive(max_bytes)

    async def send(self, item: bytes) -> None:
        self.entered.set()
        await self.go_on.wait()
        await self._stream.send(item)

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()
