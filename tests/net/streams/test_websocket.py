"""A WebSocket as a byte stream, against frames made by hand: cuts, control frames, faults, closing, memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import ByteStream
from wsproto.connection import Connection, ConnectionType

from amqp10.broker.internals import memory_streams
from amqp10.engine import Event
from amqp10.net import Pump
from amqp10.net._streams import websocket as module
from amqp10.net._streams.base import LayerAttribute
from amqp10.net._streams.websocket import MAX_EVENTS, MESSAGE_SIZE, WebSocketStream

from ...kit.net.pump_rig import Double, Received
from ...kit.net.raw_websocket import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, RawPeer, close_frame, frame

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

MASK = b"\x01\x80\xff\x7f"


def pair(side: ConnectionType = ConnectionType.CLIENT) -> tuple[WebSocketStream, RawPeer]:
    """Our end, and a raw other end."""
    ours, theirs = memory_streams()
    return WebSocketStream(ours, Connection(side)), RawPeer(theirs)


@pytest.mark.parametrize("side", list(ConnectionType))
@pytest.mark.parametrize("size", [1, 125, 126, 65535, 65536, 200_000])
async def test_bytes_out(side: ConnectionType, size: int) -> None:
    """They go as whole binary messages of a size that every server takes; masked by clients, and by nobody else."""
    stream, peer = pair(side)
    data = bytes(range(256)) * (size // 256 + 1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stream.send, data[:size])
        got = b""
        while len(got) < size:
            opcode, fin, payload = await peer.frame()
            assert (opcode, fin) == (BINARY, True)
            assert 0 < len(payload) <= MESSAGE_SIZE
            assert peer.masked is (side is ConnectionType.CLIENT)
            got += payload
    assert got == data[:size]


@pytest.mark.parametrize("side", list(ConnectionType))
@pytest.mark.parametrize("portion", [1, 7, 1000])
async def test_bytes_in(side: ConnectionType, portion: int) -> None:
    """However messages are cut into fragments, and these into portions, with pings between: the same bytes."""
    stream, peer = pair(side)
    mask = MASK if side is ConnectionType.SERVER else b""
    wire = (
        frame(BINARY, b"one", mask=mask)
        + frame(BINARY, b"", mask=mask)
        + frame(BINARY, b"t", fin=False, mask=mask)
        + frame(PING, b"are you there", mask=mask)
        + frame(CONTINUATION, b"", fin=False, mask=mask)
        + frame(CONTINUATION, b"wo" + b"x" * 300, mask=mask)
        + frame(PONG, b"unasked", mask=mask)
        + frame(BINARY, b"three", mask=mask)
    )
    wanted = b"onetwo" + b"x" * 300 + b"three"
    async with anyio.create_task_group() as tasks:

        async def feed() -> None:
            for start in range(0, len(wire), portion):
                await peer.stream.send(wire[start : start + portion])

        tasks.start_soon(feed)
        got = b""
        while len(got) < len(wanted):
            chunk = await stream.receive(10)
            assert 0 < len(chunk) <= 10
            got += chunk
    assert got == wanted
    assert await peer.frame() == (PONG, True, b"are you there")


async def test_only_the_latest_ping_is_answered() -> None:
    """A flood of pings costs one answer (§5.5.3), and then nothing more."""
    stream, peer = pair()
    await peer.stream.send(b"".join(frame(PING, str(n).encode()) for n in range(1000)) + frame(BINARY, b"x"))
    assert await stream.receive() == b"x"
    assert await peer.frame() == (PONG, True, b"999")
    await peer.stream.send(frame(BINARY, b"y"))
    assert await stream.receive() == b"y"
    await stream.send(b"z")
    assert await peer.frame() == (BINARY, True, b"z")


async def test_who_drives_writes_the_answers() -> None:
    """With a driver the reader writes nothing, so a peer that does not read cannot stall it; the driver's next send,
    of nothing, takes the answer along."""
    stream, peer = pair()
    told = []
    layer = stream.extra(LayerAttribute.layer)
    layer.on_owed = lambda: told.append(1)
    assert [layer.owed] == [False]
    await peer.stream.send(frame(PING, b"p") + frame(BINARY, b"x"))
    assert await stream.receive() == b"x"
    assert told
    assert [layer.owed] == [True]
    await stream.send(b"")
    assert [layer.owed] == [False]
    assert await peer.frame() == (PONG, True, b"p")


async def test_a_peer_that_pings_and_does_not_read() -> None:
    """It stalls the pump's writer, never its reader; the answer to the latest ping goes out among what is written."""
    ours, theirs = memory_streams()
    peer, engine = RawPeer(theirs), Double()
    events: list[Event] = []
    pump = Pump(WebSocketStream(ours, Connection(ConnectionType.CLIENT)), engine, events.extend)
    engine.say(b"x" * 3_000_000)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pump.run)
        for number in range(100):
            await theirs.send(frame(PING, str(number).encode()) + frame(BINARY, b"y" * 10_000))
        await anyio.wait_all_tasks_blocked()
        assert b"".join(event.data for event in events if isinstance(event, Received)) == b"y" * 1_000_000
        size, pongs = 0, []
        while size < 3_000_000:
            opcode, _, payload = await peer.frame()
            if opcode == PONG:
                pongs.append(payload)
            else:
                size += len(payload)
        assert pongs == [b"99"]
        await theirs.send(frame(PING, b"idle"))
        assert await peer.frame() == (PONG, True, b"idle")
        await theirs.send(frame(BINARY, b"close"))
        assert await peer.frame() == (BINARY, True, b"closed")
        assert await peer.frame() == (CLOSE, True, (1000).to_bytes(2, "big"))
        await theirs.send(close_frame())
        with pytest.raises(anyio.EndOfStream):
            await peer.frame()


@pytest.mark.parametrize("flood", [frame(BINARY), frame(PING), frame(PONG), frame(BINARY, b"x")])
@pytest.mark.parametrize("way", ["receive", "handshake", "closing"])
async def test_a_flood_of_frames(monkeypatch: pytest.MonkeyPatch, way: str, flood: bytes) -> None:
    """Thousands of them in one read are read a few at a time: other tasks have their turns between."""
    count, turns = 0, [0]
    events = Connection.events

    def counted(connection: Connection) -> Iterator[object]:
        nonlocal count
        for event in events(connection):
            count += 1
            yield event

    async def look() -> None:
        while True:
            turns.append(count)
            await anyio.lowlevel.checkpoint()

    monkeypatch.setattr(Connection, "events", counted)
    monkeypatch.setattr(module, "CLOSE_WAIT", 60.0)  # on a busy machine all these frames take longer
    ours, theirs = memory_streams()
    wire = flood * 10_000 + close_frame()
    if way == "handshake":
        stream = WebSocketStream(ours, Connection(ConnectionType.CLIENT, trailing_data=wire))
    else:
        stream = WebSocketStream(ours, Connection(ConnectionType.CLIENT))
        await theirs.send(wire)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(look)
        if way == "closing":
            await stream.aclose()
        else:
            with pytest.raises(anyio.EndOfStream):
                while True:
                    await stream.receive()
        turns.append(count)
        tasks.cancel_scope.cancel()
    assert count == 10_001
    # Two for who reads may come between two of another task, whose order is up to the event loop.
    assert max(after - before for before, after in pairwise(turns)) <= 2 * MAX_EVENTS


async def test_large_messages_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read of few frames is one pass over them, with nothing between."""
    passes = 0
    take = WebSocketStream._take

    def counted(stream: WebSocketStream) -> None:
        nonlocal passes
        passes += 1
        take(stream)

    stream, peer = pair()
    monkeypatch.setattr(WebSocketStream, "_take", counted)
    await peer.stream.send(frame(BINARY, b"x" * 30_000) + frame(BINARY, b"y" * 30_000))
    assert await stream.receive() == b"x" * 30_000 + b"y" * 30_000
    assert passes == 1


async def test_a_flood_read_by_who_is_cancelled() -> None:
    """Whichever turn of a `receive` is the last, all bytes come, once and in order; and one answer, at the end."""
    stream, peer = pair()
    stream.on_owed = lambda: None  # so that none who receives writes
    wanted = bytes(range(60))
    await peer.stream.send(b"".join(frame(BINARY, bytes([octet])) + frame(BINARY) * 600 for octet in wanted))
    await peer.stream.send(frame(PING, b"p") + frame(BINARY, b"end"))
    got, calls, cancelled = b"", 0, 0
    while not got.endswith(b"end"):
        scope = anyio.CancelScope()

        async def cancel(scope: anyio.CancelScope = scope, turns: int = calls % 5) -> None:
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel)
            with scope:
                got += await stream.receive()
        calls += 1
        cancelled += scope.cancelled_caught
    wanted += b"end"
    assert got == wanted
    assert cancelled > 10
    await stream.send(b"x")
    assert await peer.frame() == (PONG, True, b"p")
    assert await peer.frame() == (BINARY, True, b"x")


async def test_no_message_is_too_large() -> None:
    """A frame that claims 2**62 bytes is handed on as it comes; nothing is kept."""
    stream, peer = pair()
    await peer.stream.send(frame(BINARY, b"begin", length=1 << 62))
    assert await stream.receive() == b"begin"
    for _ in range(200):
        await peer.stream.send(b"x" * 65_536)
        assert len(await stream.receive(65_536)) == 65_536
    assert not stream._incoming
    assert not len(stream._connection._proto._frame_decoder.buffer)


@pytest.mark.parametrize(
    ("side", "wire", "code", "reason"),
    [
        (ConnectionType.CLIENT, frame(TEXT, b"hello"), 1003, "text"),
        (ConnectionType.CLIENT, frame(TEXT, b"\xff\xff"), 1007, "decode"),
        (ConnectionType.CLIENT, frame(BINARY, b"x", rsv=4), 1002, "Reserved bit"),
        (ConnectionType.CLIENT, frame(3, b"x"), 1002, "opcode"),
        (ConnectionType.CLIENT, frame(11, b"x"), 1002, "opcode"),
        (ConnectionType.CLIENT, frame(PING, b"x", fin=False), 1002, "fragment"),
        (ConnectionType.CLIENT, frame(PING, b"x" * 126), 1002, "125"),
        (ConnectionType.CLIENT, frame(CONTINUATION, b"x"), 1002, "CONTINUATION"),
        (ConnectionType.CLIENT, frame(BINARY, b"x", fin=False) + frame(BINARY, b"y"), 1002, "CONTINUATION"),
        (ConnectionType.CLIENT, frame(BINARY, b"x", mask=MASK), 1002, "masked"),
        (ConnectionType.SERVER, frame(BINARY, b"x"), 1002, "unmasked"),
        (ConnectionType.CLIENT, b"\x82\xff" + b"\xff" * 8, 1002, "8-byte payload"),
        (ConnectionType.CLIENT, frame(CLOSE, b"\x03"), 1002, "1 byte"),
        (ConnectionType.CLIENT, close_frame(1005), 1002, "local-only"),
        (ConnectionType.CLIENT, close_frame(999), 1002, "invalid code"),
        (ConnectionType.CLIENT, close_frame(1000, b"\xff"), 1007, "decoding"),
    ],
)
async def test_faults(side: ConnectionType, wire: bytes, code: int, reason: str) -> None:
    """What breaks the protocol ends the stream with a reason, after the bytes before it; the peer is told the code."""
    stream, peer = pair(side)
    good = frame(BINARY, b"good", mask=MASK if side is ConnectionType.SERVER else b"")
    await peer.stream.send(good + wire)
    got = b""
    with pytest.raises(anyio.BrokenResourceError, match=reason):
        while True:
            got += await stream.receive()
    assert got in (b"good", b"goodx")
    opcode, _, payload = await peer.frame()
    assert (opcode, int.from_bytes(payload[:2], "big")) == (CLOSE, code)
    for _ in range(2):
        with pytest.raises(anyio.BrokenResourceError, match=reason):
            await stream.receive()
    with pytest.raises(anyio.BrokenResourceError):
        await stream.send(b"too late")
    await stream.aclose()


# Closing


@pytest.mark.parametrize("code", [1000, 1001, None])
async def test_closed_by_the_peer(code: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order: the bytes before it, then the end; the same code is the answer, and closing waits for nothing."""
    monkeypatch.setattr(module, "CLOSE_WAIT", 300.0)
    stream, peer = pair()
    await peer.stream.send(frame(BINARY, b"last") + close_frame(code))
    assert await stream.receive() == b"last"
    assert await peer.frame() == (CLOSE, True, b"" if code is None else code.to_bytes(2, "big"))
    for _ in range(2):
        with pytest.raises(anyio.EndOfStream):
            await stream.receive()
    with pytest.raises(anyio.BrokenResourceError):
        await stream.send(b"too late")
    with anyio.fail_after(60):
        await stream.aclose()
    with pytest.raises(anyio.EndOfStream):
        await peer.frame()


async def test_closed_by_the_peer_for_a_reason() -> None:
    """Another code than 1000 or 1001 is an error, with the peer's own words."""
    stream, peer = pair()
    await peer.stream.send(close_frame(1008, b"token expired"))
    with pytest.raises(anyio.BrokenResourceError, match="code 1008: token expired"):
        await stream.receive()


async def test_cut_by_the_peer() -> None:
    """The transport's end without a closing handshake is the end."""
    stream, peer = pair()
    await peer.stream.send(frame(BINARY, b"last"))
    await peer.stream.aclose()
    assert await stream.receive() == b"last"
    with pytest.raises(anyio.EndOfStream):
        await stream.receive()


async def test_closing() -> None:
    """Close, the answer, the transport's end; what comes meanwhile is dropped."""
    stream, peer = pair()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stream.aclose)
        assert await peer.frame() == (CLOSE, True, (1000).to_bytes(2, "big"))
        await peer.stream.send(frame(BINARY, b"x" * 1000) + frame(PING, b"late"))
        await anyio.wait_all_tasks_blocked()
        assert not stream._ended
        await peer.stream.send(close_frame(1000))
        with pytest.raises(anyio.EndOfStream):
            await peer.frame()
    for call in (stream.receive(), stream.send(b"x"), stream.send(b"")):
        with pytest.raises(anyio.ClosedResourceError):
            await call
    await stream.aclose()


async def test_closing_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that does not answer has CLOSE_WAIT, not more; one that does not read, either."""
    monkeypatch.setattr(module, "CLOSE_WAIT", 0.05)
    stream, peer = pair()
    with anyio.fail_after(60):
        await stream.aclose()
    stream, peer = pair()
    with anyio.move_on_after(0.05):
        await stream.send(b"x" * 10_000_000)
    with anyio.fail_after(60):
        await stream.aclose()
    with pytest.raises(anyio.EndOfStream):
        while True:
            assert (await peer.frame())[0] == BINARY  # no close frame in the middle of a message


async def test_cancelled_closing() -> None:
    """Cancelled, it closes the transport at once."""
    stream, peer = pair()
    await anyio.aclose_forcefully(stream)
    with pytest.raises(anyio.EndOfStream):
        await peer.stream.receive()
    with pytest.raises(anyio.ClosedResourceError):
        await stream.receive()


async def test_closed_while_receiving() -> None:
    """Who receives meanwhile is told that this end was closed, and the peer is still told why."""
    stream, peer = pair()
    caught = []

    async def receive() -> None:
        with pytest.raises(anyio.ClosedResourceError) as error:
            await stream.receive()
        caught.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive)
        await anyio.wait_all_tasks_blocked()
        await stream.aclose()
    assert caught
    assert (await peer.frame())[0] == CLOSE


async def test_end_of_sending() -> None:
    """There is no half-closed WebSocket: the end of sending is a close, after which the peer's rest can be read."""
    stream, peer = pair()
    await stream.send_eof()
    assert (await peer.frame())[0] == CLOSE
    await peer.stream.send(frame(BINARY, b"rest") + close_frame())
    assert await stream.receive() == b"rest"
    with pytest.raises(anyio.EndOfStream):
        await stream.receive()
    with pytest.raises(anyio.BrokenResourceError):
        await stream.send(b"x")


async def test_cancelled_receiving() -> None:
    """Nothing is lost with a receive that was cancelled, at any point of a frame."""
    stream, peer = pair()
    wire = frame(BINARY, b"a" * 200) + frame(BINARY, b"b" * 10)
    got = b""
    for byte in wire:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:

                async def cancel(scope: anyio.CancelScope = scope) -> None:
                    await anyio.wait_all_tasks_blocked()
                    scope.cancel()

                tasks.start_soon(cancel)
                got += await stream.receive()
                tasks.cancel_scope.cancel()
        await peer.stream.send(bytes([byte]))
    while len(got) < 210:
        got += await stream.receive()
    assert got == b"a" * 200 + b"b" * 10


async def test_answers_do_not_tear_messages() -> None:
    """A pong goes between messages while another task sends; both directions full at once come through."""
    ours, theirs = memory_streams()
    here, there = WebSocketStream(ours, Connection(ConnectionType.CLIENT)), RawPeer(theirs)
    sent, got, pongs = b"x" * 3_000_000, bytearray(), []
    all_read = anyio.Event()

    async def read() -> None:
        while len(got) < len(sent):
            opcode, _, payload = await there.frame()
            if opcode == PONG:
                pongs.append(payload)
            else:
                got.extend(payload)
        all_read.set()

    async def ping() -> None:
        for number in range(200):
            await there.stream.send(frame(PING, str(number).encode()) + frame(BINARY, b"y" * 5000))
        await all_read.wait()
        await there.stream.send(close_frame())

    async def receive() -> int:
        count = 0
        with pytest.raises(anyio.EndOfStream):
            while True:
                count += len(await here.receive())
        assert count == 1_000_000
        return count

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(here.send, sent)
        tasks.start_soon(ping)
        tasks.start_soon(receive)
    assert bytes(got) == sent
    assert pongs


@asynccontextmanager
async def two_ends() -> AsyncIterator[tuple[ByteStream, ByteStream]]:
    """Two ends of ours, for `test_both`."""
    ours, theirs = memory_streams()
    here = WebSocketStream(ours, Connection(ConnectionType.CLIENT))
    there = WebSocketStream(theirs, Connection(ConnectionType.SERVER))
    yield here, there
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(here.aclose)
        tasks.start_soon(there.aclose)


async def test_both() -> None:
    """Two ends of ours: bytes both ways at once, and both closing at once ends at once."""
    with anyio.fail_after(60):
        async with two_ends() as (here, there):
            data = bytes(range(256)) * 8000

            async def copy(source: ByteStream, target: ByteStream) -> None:
                got = b""
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(source.send, data)
                    while len(got) < len(data):
                        got += await target.receive(1 << 18)
                assert got == data

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(copy, here, there)
                tasks.start_soon(copy, there, here)
