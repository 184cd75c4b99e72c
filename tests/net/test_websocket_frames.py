"""The frames of a WebSocket that carry bytes: made as RFC 6455 has them, and read as wsproto reads them."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event

from amqp10.net import _websocket_frames as module
from amqp10.net._websocket_frames import MESSAGE_SIZE, FrameCutter, cut, frames, mask, mask_plainly

from .raw_websocket import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, cover, frame

KEYS = st.binary(min_size=4, max_size=4)


@given(st.binary(max_size=300), KEYS)
def test_masks(data: bytes, key: bytes) -> None:
    """In C and without it: the XOR with the key, of bytes and of a part of a buffer; the data is not touched."""
    for masked in (mask, mask_plainly):
        assert bytes(masked(data, key)) == cover(data, key)
        assert bytes(masked(memoryview(data)[1:], key)) == cover(data[1:], key)


@given(st.lists(st.binary(max_size=20), max_size=8), st.integers(0, 100))
def test_cut(buffers: list[bytes], size: int) -> None:
    """What is taken off the front and what is left are all there was, in order."""
    rest = deque(memoryview(each) for each in buffers if each)
    taken = b"".join(cut(rest, size))
    assert taken == b"".join(buffers)[:size]
    assert b"".join(rest) == b"".join(buffers)[size:]


@pytest.mark.parametrize("plainly", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("sizes", [[1], [125], [126], [3, 1, 5], [MESSAGE_SIZE, 1], [7, 2 * MESSAGE_SIZE, 100_001]])
def test_frames(sizes: list[int], masked: bool, plainly: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the bytes lie in buffers, wsproto at the other end reads messages of one size, and the same bytes."""
    if plainly:
        monkeypatch.setattr(module, "mask", mask_plainly)
    buffers = [bytes((at + size) % 251 for at in range(size)) for size in sizes]
    reader = Connection(ConnectionType.SERVER if masked else ConnectionType.CLIENT)
    reader.receive_data(b"".join(frames([memoryview(each) for each in buffers], masked)))
    events = list(reader.events())
    messages = [bytes(event.data) for event in events if isinstance(event, BytesMessage) and event.message_finished]
    assert len(messages) == len(events)
    assert b"".join(messages) == b"".join(buffers)
    assert {len(each) for each in messages[:-1]} <= {MESSAGE_SIZE}


def test_no_two_frames_have_the_same_key() -> None:
    """Each has one of its own (§5.3)."""
    out = b"".join(frames([memoryview(bytes(20 * MESSAGE_SIZE))], True))
    assert len({out[at + 4 : at + 8] for at in range(0, len(out), MESSAGE_SIZE + 8)}) == 20


WIRES = st.lists(
    st.builds(
        lambda code, payload, fin, key, rsv: frame(code, payload, fin=fin, mask=key, rsv=rsv),
        st.sampled_from([BINARY, BINARY, BINARY, CONTINUATION, PING, PONG, TEXT, CLOSE, 3, 11]),
        st.sampled_from([b"", b"\x03\xe8", b"some bytes", b"x" * 125, b"y" * 126, b"z" * 300]),
        st.sampled_from([True, True, False]),
        st.sampled_from([b"", b"\x01\x80\xff\x7f"]),
        st.sampled_from([0, 0, 0, 0, 4]),
    )
    | st.sampled_from([b"\x82\x7e\x00\x05short", b"\x82\x7f" + bytes(7) + b"\x05short", b"\x82\xff" + b"\xff" * 12]),
    max_size=6,
)


@given(WIRES, st.sampled_from(list(ConnectionType)), st.lists(st.integers(1, 40), max_size=20))
def test_alike(wires: list[bytes], side: ConnectionType, portions: list[int]) -> None:
    """With wsproto for the other frames, the same comes out as of wsproto alone: bytes, events, faults; any cuts."""
    if side is ConnectionType.SERVER:  # else nearly all is a fault at once
        wires = [frame(BINARY, b"good", mask=b"abcd"), *wires]
    wire = b"".join(wires)
    alone, beside = Connection(side), Connection(side)
    cutter = FrameCutter(masked=side is ConnectionType.SERVER)
    wanted, got = Seen(), Seen()
    at = 0
    while at < len(wire):
        size = portions.pop() if portions else len(wire)
        portion, at = wire[at : at + size], at + size
        if not wanted.over:
            alone.receive_data(portion)
            wanted.take(alone)
        for plain, part in cutter.cut(portion):
            if got.over:
                break
            if plain:
                got.data += part
            else:
                beside.receive_data(bytes(part))
                got.take(beside)
    assert got.data == wanted.data
    assert got.events == wanted.events


class Seen:
    """What a connection said until it was over."""

    def __init__(self) -> None:
        self.data = b""
        self.events: list[Event] = []
        self.over = False

    def take(self, connection: Connection) -> None:
        for event in connection.events():
            if isinstance(event, BytesMessage):
                self.data += event.data
                continue
            self.events.append(event)
            if isinstance(event, CloseConnection) or connection.state is not ConnectionState.OPEN:
                self.over = True
                return
