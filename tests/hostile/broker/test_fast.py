"""Peers of AMQP/Fast that cost time and memory: bounded at both ends, and nobody else waits.

What breaks a rule is in `tests/hostile/quick/test_fast_engines.py`, each with the code that it is told.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
import pytest
from anyio.abc import ByteStream

from amqp10 import Connection, ConnectionLost
from amqp10.broker import Broker
from amqp10.broker.internals import memory_streams
from amqp10.dialects.fast.wire.command_table import Command
from amqp10.dialects.fast.wire.commands import (
    ChannelOpen,
    ConnectionChallenge,
    ConnectionOpen,
    ConnectionPing,
    ConnectionResponse,
    ConnectionTune,
    HandleConsume,
    HandleOpen,
    HandlePrepare,
    HandleSend,
    MessageHead,
)
from amqp10.dialects.fast.wire.frames import INITIATION, CommandReader, encode_command
from amqp10.errors import AmqpError

from ...kit.dialects.fast.talk import codes
from ...kit.hostile.bystander import still_serves

pytestmark = pytest.mark.anyio
OVER = anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError


@pytest.fixture
async def broker(anyio_backend: str) -> AsyncIterator[Broker]:
    async with Broker(handshake_timeout=1.5, close_timeout=0.2, anonymous=True, max_message_size=100_000) as broker:
        yield broker


async def until_over(stream: ByteStream) -> bytes:
    """All that comes until the other side ends it."""
    data = b""
    with suppress(*OVER), anyio.fail_after(60):
        while True:
            data += await stream.receive()
    return data


@asynccontextmanager
async def client(broker: Broker) -> AsyncIterator[ByteStream]:
    """One that has logged in, and opened channel 1."""
    stream = broker.open_stream()
    try:
        await stream.send(INITIATION)
        await stream.send(encode_command(ConnectionResponse(mechanism="ANONYMOUS")))
        await stream.send(encode_command(ConnectionTune(frame_max=65_536, channel_max=255, handle_max=4096)))
        await stream.send(encode_command(ConnectionOpen(confirm_tag=1, virtual_path="/", client_name="c")))
        await stream.send(encode_command(ChannelOpen(channel_id=1, restartable=True)))
        yield stream
    finally:
        await stream.aclose()


@pytest.mark.parametrize("begun", [b"\x80", INITIATION, INITIATION + b"\0\x20"])
@pytest.mark.in_memory
async def test_a_client_that_says_no_more(broker: Broker, begun: bytes) -> None:
    """It is cut off when its time to open is over, wherever it stopped."""
    stream = broker.open_stream()
    await stream.send(begun)
    await until_over(stream)
    assert broker.connections == 0
    await stream.aclose()
    await still_serves(broker)


@pytest.mark.in_memory
async def test_slow_loris(broker: Broker) -> None:
    """An octet now and then does not lengthen the time that there is to open."""
    began = anyio.current_time()
    stream = broker.open_stream()
    with anyio.fail_after(60), pytest.raises(OVER):
        for octet in INITIATION + b"\x0f\xff" + bytes(1000):
            await stream.send(bytes([octet]))
            with anyio.move_on_after(0.05):
                await stream.receive()
    assert 1.5 <= anyio.current_time() - began < 3
    await stream.aclose()
    await still_serves(broker)


@pytest.mark.in_memory
async def test_a_client_that_reads_nothing(broker: Broker) -> None:
    """Messages wait in their queue while a consumer does not read; it cannot make the broker buffer them."""
    async with broker.connect() as connection, connection.sender("q") as sender, client(broker) as stream:
        opening = HandleOpen(channel_id=1, handle_id=1, service_type=1, consumer=True, dest_name="q")
        await stream.send(encode_command(opening) + encode_command(HandleConsume(handle_id=1, prefetch=0xFFFF)))
        for _ in range(40):
            await sender.send_many([b"x" * 10_000] * 20)
        assert broker.queue("q").depth == 800
    await still_serves(broker)


async def test_a_client_that_asks_and_asks(broker: Broker) -> None:
    """Who wants an answer to each of a million pings and reads none is not read on."""
    pings = encode_command(ConnectionPing(respond=True)) * 10_000
    async with client(broker) as stream:
        sent = 0
        with anyio.move_on_after(1), suppress(*OVER):
            for _ in range(100):
                await stream.send(pings)
                sent += 1
        assert sent < 100
        await still_serves(broker)


@pytest.mark.in_memory
async def test_messages_that_are_never_whole(broker: Broker) -> None:
    """Hundreds of channels, a message begun on each: what each may have is bounded, and gone with the connection."""
    head = MessageHead(body_size=20_000).write()
    async with client(broker) as stream:
        for number in range(2, 250):
            await stream.send(
                encode_command(ChannelOpen(channel_id=number))
                + encode_command(
                    HandleOpen(channel_id=number, handle_id=number, service_type=1, producer=True, dest_name="q")
                )
                + encode_command(
                    HandleSend(handle_id=number, fragment_size=len(head) + 10_000, partial=True), head + bytes(10_000)
                )
            )
        await still_serves(broker)
    assert broker.queue("q").depth == 0


@pytest.mark.in_memory
async def test_questions_without_end(broker: Broker) -> None:
    """A client that prepares one message after the other, and sends the rest of none, is told at the second."""
    head = MessageHead(body_size=50_000).write()
    async with client(broker) as stream:
        await stream.send(
            encode_command(HandleOpen(channel_id=1, handle_id=1, service_type=1, producer=True, dest_name="q"))
        )
        with suppress(*OVER):
            for _ in range(500):
                asked = HandlePrepare(handle_id=1, fragment_size=len(head) + 40_000, content_hash="0" * 40)
                await stream.send(encode_command(asked, head + bytes(40_000)))
        reader = CommandReader(1 << 20)
        said: list[Command] = []
        with anyio.fail_after(60):
            while not codes(said):
                reader.feed(await stream.receive())
                while (command := reader.next()) is not None:
                    said.append(command[0])
        assert codes(said) == {"handle-close": 409}
        await still_serves(broker)


@pytest.mark.in_memory
async def test_close_that_is_never_answered(anyio_backend: str) -> None:
    """Leaving the broker takes its close timeout, not longer, though a client answers nothing."""
    async with Broker(close_timeout=0.2, anonymous=True) as broker:
        stream = broker.open_stream()
        await stream.send(INITIATION)
        await stream.send(encode_command(ConnectionResponse(mechanism="ANONYMOUS")))
        await stream.send(encode_command(ConnectionTune(frame_max=65_536, channel_max=255, handle_max=4096)))
        await stream.send(encode_command(ConnectionOpen(confirm_tag=1, virtual_path="/", client_name="c")))
        said = b""
        with anyio.fail_after(60):
            while b"\x12\0\x01\0\xc8" not in said:  # connection-reply 200
                said += await stream.receive()
        began = anyio.current_time()
    assert anyio.current_time() - began < 4
    await stream.aclose()


# A server


@asynccontextmanager
async def server(*says: bytes) -> AsyncIterator[ByteStream]:
    """One that says this, whatever it hears, and then nothing; the client's end of a connection to it."""

    async def handle(stream: ByteStream) -> None:
        with suppress(*OVER):
            async with stream:
                for data in says:
                    await stream.send(data)
                while True:
                    await stream.receive()

    here, there = memory_streams()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(handle, there)
        yield here
        tasks.cancel_scope.cancel()


@pytest.mark.in_memory
async def test_silence_from_the_start() -> None:
    """A server that accepts and says nothing is lost after the idle timeout, not waited for."""
    async with server() as stream:
        with anyio.fail_after(60), pytest.raises(ConnectionLost):
            async with Connection.over(stream, dialect="fast", idle_timeout=0.5):
                pass


@pytest.mark.in_memory
async def test_challenges_without_end() -> None:
    """A server that never stops challenging is given up."""
    again = encode_command(ConnectionChallenge(version=1, mechanisms="PLAIN", challenges={"challenge": "x"}))
    async with server(*[again] * 1000) as stream:
        with anyio.fail_after(60), pytest.raises(AmqpError):
            async with Connection.over(stream, "amqp://me:secret@localhost", secure=True, dialect="fast"):
                pass


@pytest.mark.in_memory
async def test_a_challenge_that_never_ends() -> None:
    """Octets that are said to be many, and do not come, are not waited for for ever, nor is room made for them."""
    async with server(b"\xff\xff\x7f\xff\xff\xff\x0a") as stream:
        with anyio.fail_after(60), pytest.raises(AmqpError):
            async with Connection.over(stream, dialect="fast", idle_timeout=0.5):
                pass
