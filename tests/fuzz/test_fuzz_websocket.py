"""Garbage and odd cuts at both sides of a WebSocket: only the errors that are promised, and no byte is lost."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import ByteStream
from hypothesis import given, settings
from hypothesis import strategies as st
from wsproto.connection import Connection, ConnectionType

from amqp10.errors import ConnectionLost
from amqp10.net import StreamFacts, WebSocket, accept_websocket, parse_url

from ..kit.inside.net import STREAM_ERRORS, WebSocketStream, open_websocket

pytestmark = pytest.mark.capability("WebSocket")

BITS = st.integers(0, 255)
OPCODES = st.sampled_from([0, 1, 2, 8, 9, 10])
HANDSHAKE = (
    b"GET /x HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: "
    b"AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: amqp\r\n\r\n"
)
ANSWER = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
    b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: amqp\r\n\r\n"
)


class Portions(ByteStream):
    """Gives what it was given, and swallows the rest."""

    def __init__(self, portions: list[bytes]) -> None:
        self.portions = list(portions)
        self.sent = b""
        self.closed = False

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        await anyio.lowlevel.checkpoint()
        if not self.portions:
            raise anyio.EndOfStream
        return self.portions.pop(0)

    async def send(self, item: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        self.sent += item

    async def send_eof(self) -> None:
        await anyio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        self.closed = True
        await anyio.lowlevel.checkpoint()


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """Something like a frame: any header bits, a length that may be wrong."""
    payload = draw(st.binary(max_size=300))
    first = draw(st.one_of(OPCODES.map(lambda opcode: 0x80 | opcode), BITS))
    size = draw(st.one_of(st.just(len(payload)), st.integers(0, 70_000)))
    masked = draw(st.sampled_from([0, 0x80]))
    if size < 126:
        header = bytes([first, masked | size])
    elif size < 65_536:
        header = bytes([first, masked | 126]) + size.to_bytes(2, "big")
    else:
        header = bytes([first, masked | 127]) + size.to_bytes(8, "big")
    return header + (b"abcd" if masked else b"") + payload


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    """In portions, none of them empty."""
    portions = []
    for size in cuts:
        portions.append(data[:size])
        data = data[size:]
    return [portion for portion in [*portions, data] if portion]


wires = st.one_of(st.binary(max_size=400), st.lists(frames(), max_size=8).map(b"".join))
cuts = st.lists(st.integers(1, 50), max_size=30)


@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(wires, cuts, st.sampled_from(list(ConnectionType)), st.booleans())
def test_any_frames(wire: bytes, where: list[int], side: ConnectionType, driven: bool) -> None:
    """Whatever comes after the handshake ends in one of the stream's errors, and the transport is closed."""

    async def play() -> None:
        transport = Portions(cut(wire, where))
        stream = WebSocketStream(transport, Connection(side))
        if driven:
            stream.on_owed = lambda: None
        count = 0
        with pytest.raises(STREAM_ERRORS):
            while True:
                count += len(await stream.receive(100))
        assert count <= len(wire)
        with pytest.raises(STREAM_ERRORS):
            await stream.receive(100)
        await stream.aclose()
        assert transport.closed

    anyio.run(play)


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=8), cuts, st.lists(st.binary(max_size=125), max_size=5))
def test_any_cuts(messages: list[bytes], where: list[int], pings: list[bytes]) -> None:
    """A right wire in any portions gives all its bytes."""
    theirs = Connection(ConnectionType.SERVER)
    from wsproto.events import BytesMessage, CloseConnection, Ping

    wire = b"".join(theirs.send(BytesMessage(message, message_finished=False)) for message in messages)
    wire += b"".join(theirs.send(Ping(ping)) for ping in pings)
    wire += theirs.send(BytesMessage(b"end")) + theirs.send(CloseConnection(1000))

    async def play() -> bytes:
        stream = WebSocketStream(Portions(cut(wire, where)), Connection(ConnectionType.CLIENT))
        got = b""
        with pytest.raises(anyio.EndOfStream):
            while True:
                got += await stream.receive()
        return got

    assert anyio.run(play) == b"".join(messages) + b"end"


def mutated(data: bytes) -> st.SearchStrategy[bytes]:
    """The same with a few bytes changed, cut off, or put in."""

    def change(edits: list[tuple[int, bytes, int]]) -> bytes:
        wire = data
        for at, put, take in edits:
            wire = wire[:at] + put + wire[at + take :]
        return wire

    edit = st.tuples(st.integers(0, len(data)), st.binary(max_size=6), st.integers(0, 6))
    return st.lists(edit, max_size=4).map(change)


@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(st.one_of(mutated(HANDSHAKE), st.binary(max_size=200).map(lambda rest: b"GET " + rest)), cuts)
def test_any_request(wire: bytes, where: list[int]) -> None:
    """The server's side takes it, or leaves it to AMQP, or refuses: with an answer, and the transport closed."""

    async def play() -> None:
        transport = Portions(cut(wire, where))
        try:
            stream, received = await accept_websocket(transport, (), StreamFacts(secure=True, peer="the peer"))
        except ConnectionLost:
            assert transport.closed
            assert transport.sent[:9] in (b"", b"HTTP/1.1 ")
        else:
            assert isinstance(stream, WebSocketStream) is not bool(received)

    anyio.run(play)


@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(st.one_of(mutated(ANSWER), st.binary(max_size=200).map(lambda rest: b"HTTP/1.1 " + rest)), cuts)
def test_any_answer(wire: bytes, where: list[int]) -> None:
    """The client's side takes no answer that is not made for its key, by errors that `connect` knows."""
    errors: tuple[Any, ...] = (ConnectionLost, *STREAM_ERRORS)

    async def play() -> None:
        with pytest.raises(errors):
            await open_websocket(Portions(cut(wire, where)), parse_url("ws://h"), WebSocket())

    anyio.run(play)
