"""Peers of AMQP 0-10 that are slow, silent, deaf or half gone; what they say wrongly is in tests/dialects/v0_10."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream

from amqp10 import Connection, ConnectionLost
from amqp10.broker import Broker, BrokerLimits
from amqp10.broker.internals import memory_streams
from amqp10.dialects.v0_10.wire.commands import MessageFlow, MessageSubscribe
from amqp10.dialects.v0_10.wire.controls import (
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    SessionAttach,
    SessionCommandPoint,
    SessionRequestTimeout,
)
from amqp10.dialects.v0_10.wire.frames import PROTOCOL_HEADER, encode_command, encode_control

from ...kit.hostile.bystander import still_serves

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

OPENING = (
    ConnectionStartOk({}, "ANONYMOUS", b"", "en_US"),
    ConnectionTuneOk(256, 65_535, 0),
    ConnectionOpen("", []),
)


def said(*controls: Any, channel: int = 0) -> bytes:
    """Controls, one after another."""
    return b"".join(encode_control(channel, each.encode()) for each in controls)


def done(*commands: Any) -> bytes:
    """Commands on channel 1."""
    return b"".join(encode_command(1, each.encode(), None, None, 60_000) for each in commands)


SESSION = said(SessionAttach(b"name"), SessionCommandPoint(0, 0), channel=1)


@asynccontextmanager
async def client_of(broker: Broker, *parts: bytes) -> AsyncIterator[ByteStream]:
    """A client that says this, whatever it hears."""
    stream = broker.open_stream()
    try:
        await stream.send(PROTOCOL_HEADER + said(*OPENING))
        heard = b""
        while b"\1\x08" not in heard:  # connection.open-ok
            heard += await stream.receive()
        for part in parts:
            await stream.send(part)
        yield stream
    finally:
        await stream.aclose()


async def silent(stream: ByteStream) -> None:
    """Until the broker has ended it."""
    with anyio.fail_after(60), suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while True:
            await stream.receive()


# Against the broker


@pytest.mark.parametrize(
    "begun",
    [b"", PROTOCOL_HEADER, PROTOCOL_HEADER + said(OPENING[0]), PROTOCOL_HEADER + said(*OPENING[:2])],
    ids=["nothing", "the header", "start-ok", "tune-ok"],
)
@pytest.mark.parametrize("trickle", [False, True])
async def test_it_never_opens(anyio_backend: str, begun: bytes, trickle: bool) -> None:
    """Who says nothing, or a byte now and then, is cut off when its time to open is over."""
    async with Broker(handshake_timeout=1.5, close_timeout=0.2) as broker:
        began = anyio.current_time()
        stream = broker.open_stream()
        if begun:
            await stream.send(begun)
        if trickle:
            with anyio.fail_after(60), suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                slowly = PROTOCOL_HEADER + said(*OPENING[:2], ConnectionOpen("v" * 200, []))
                for byte in slowly[len(begun) :]:
                    await stream.send(bytes([byte]))
                    with anyio.move_on_after(0.05), suppress(anyio.EndOfStream):
                        await stream.receive()
        await silent(stream)
        assert 1.5 <= anyio.current_time() - began < 3
        await stream.aclose()
        await still_serves(broker, "0-10")


async def test_it_reads_nothing(anyio_backend: str) -> None:
    """Messages wait in their queue while a subscriber does not read; it cannot make the broker buffer them."""
    async with Broker() as broker, broker.connect() as connection, connection.sender("q") as sender:
        await sender.send(b"x")
        flows = [MessageSubscribe("q", "d"), MessageFlow("d", 0, 0xFFFF_FFFF), MessageFlow("d", 1, 0xFFFF_FFFF)]
        async with client_of(broker, SESSION, done(*flows)):
            for _ in range(20):
                await sender.send_many([b"x" * 10_000] * 20)
            queue = broker.queue("q")
            assert queue is not None
            assert queue.depth - queue.unsettled > 200
        await still_serves(broker, "0-10")


async def test_parts_on_many_connections(anyio_backend: str) -> None:
    """Messages in part, of all connections together, are bounded by the memory; one goes on when others are gone."""

    def frame(flags: int, kind: int, payload: bytes) -> bytes:
        return struct.pack(">BBHBBHI", flags, kind, 12 + len(payload), 0, 1, 1, 0) + payload

    half = frame(11, 1, b"\4\1") + frame(6, 3, bytes(60_000)) + frame(4, 3, bytes(60_000)) * 7
    async with Broker(anonymous=True, limits=BrokerLimits(memory=1_000_000)) as broker:
        async with client_of(broker, SESSION, half), client_of(broker, SESSION, half):
            async with client_of(broker, SESSION, half) as third:
                heard = b""
                with anyio.fail_after(60), suppress(anyio.EndOfStream):
                    while True:
                        heard += await third.receive()
                assert b"no memory is left for incomplete messages" in heard
        async with client_of(broker, SESSION, half), client_of(broker, SESSION, half) as second:
            await still_serves(broker, "0-10")
            await second.send(frame(4, 3, bytes(60_000)))


async def test_it_never_answers_a_close(anyio_backend: str) -> None:
    """Leaving the broker takes its close timeout, not longer."""
    began = anyio.current_time()
    async with Broker(close_timeout=0.2) as broker:
        deaf = client_of(broker, SESSION)
        await deaf.__aenter__()
    assert anyio.current_time() - began < 4
    await deaf.__aexit__(None, None, None)


async def test_sessions_that_wait(anyio_backend: str) -> None:
    """Sessions that one client leaves behind by the hundred, to be resumed, have a limit; the last stay."""
    async with Broker() as broker:
        for n in range(30):
            names = range(40 * n, 40 * n + 40)
            sessions = b"".join(
                said(SessionAttach(b"%d" % name), SessionRequestTimeout(300), channel=channel)
                for channel, name in enumerate(names, 1)
            )
            async with client_of(broker, sessions) as stream:
                heard = b""
                while heard.count(b"\2\6\1\0") < 40:  # session.timeout
                    heard += await stream.receive()
        kept = broker._hosts.usual.sessions._by_key
        assert len(kept) <= 1040  # 1000 that wait, and those that were attached last
        assert (None, b"1199") in kept
        await still_serves(broker, "0-10")


# Against the client


@asynccontextmanager
async def holding_back(broker: Broker, code: bytes) -> AsyncIterator[ByteStream]:
    """A server that never says one of the controls; the client's end of a connection to it."""

    async def relay(client: ByteStream) -> None:
        server = broker.open_stream()
        async with client, server, anyio.create_task_group() as tasks:

            async def there() -> None:
                with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                    async for data in client:
                        await server.send(data)
                tasks.cancel_scope.cancel()

            tasks.start_soon(there)
            buffer = b""
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                while True:
                    buffer += await server.receive()
                    while len(buffer) >= 8:
                        size = 8 if buffer.startswith(b"AMQP") else int.from_bytes(buffer[2:4], "big")
                        if len(buffer) < size:
                            break
                        one, buffer = buffer[:size], buffer[size:]
                        if one[12:14] != code:
                            await client.send(one)
            await anyio.sleep_forever()

    here, there = memory_streams()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(relay, there)
        yield here
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    "code",
    [b"\2\4", b"\1\x0c", b"\2\x0a"],
    ids=["session.detached", "connection.close-ok", "session.completed"],
)
async def test_answers_that_never_come(anyio_backend: str, code: bytes) -> None:
    """What is never answered holds nobody up for longer than the close timeout, and raises nothing on leaving."""
    async with Broker() as broker, holding_back(broker, code) as stream:
        began = anyio.current_time()
        with anyio.fail_after(60):
            async with Connection.over(stream, dialect="0-10", close_timeout=0.3) as connection:
                session = connection.session()
                async with session:
                    if code != b"\2\x0a":
                        async with session.sender("q"):
                            pass
        assert anyio.current_time() - began < 4


@pytest.mark.parametrize("code", [b"\1\1", b"\1\5", b"\1\x08"], ids=["start", "tune", "open-ok"])
async def test_openings_that_stop(anyio_backend: str, code: bytes) -> None:
    """A server that stops in the midst of opening is lost after the idle timeout, not waited for."""
    async with Broker() as broker, holding_back(broker, code) as stream:
        with anyio.fail_after(60), pytest.raises(ConnectionLost, match="silent"):
            async with Connection.over(stream, dialect="0-10", idle_timeout=0.5, close_timeout=0.3):
                pass
