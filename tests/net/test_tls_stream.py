"""The stream of TLS: all that is here is read at once, in order up to what is wrong; half a record ends all sending."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from amqp10.net import TLS
from amqp10.net._socket import SocketStream
from amqp10.net._tls_stream import TLSStream
from amqp10.testing import CertificateAuthority

pytestmark = pytest.mark.anyio

NAME = "127.0.0.1"


@asynccontextmanager
async def pair(
    authority: CertificateAuthority, hostname: str = NAME, *, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
) -> AsyncIterator[tuple[TLSStream, TLSStream]]:
    """A client and a server, the handshake done."""
    files = authority.server(NAME)
    client = TLS(ca=authority.ca, check_hostname=hostname == NAME).client_context()
    client.maximum_version = version
    server = TLS(certificate=files.certificate, key=files.key).server_context()
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
