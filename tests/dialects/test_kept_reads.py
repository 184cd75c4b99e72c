"""A connection that is idle keeps what is left of its last read, which is less than a frame, and never all of that."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from amqp10.dialects.fast.wire.commands import HandleSend
from amqp10.dialects.fast.wire.frames import CommandReader
from amqp10.dialects.fast.wire.frames import encode_command as encode_fast
from amqp10.dialects.v0_9.wire.frames import FrameReader as MethodsReader
from amqp10.dialects.v0_9.wire.framing import BODY, Framing
from amqp10.dialects.v0_10.wire.frames import FrameReader as SegmentReader
from amqp10.dialects.v0_10.wire.frames import encode_command as encode_0_10
from amqp10.dialects.v1_0.wire.frames import FrameReader, encode_frame
from amqp10.dialects.v1_0.wire.performatives import Transfer
from amqp10.messaging.payloads import LARGE

READERS: dict[str, tuple[Callable[[], Any], bytes]] = {
    "1.0": (lambda: FrameReader(1 << 20, reuses=True), encode_frame(0, Transfer(0, 1, b"t", 0), bytes(1000))),
    "1.0 large": (lambda: FrameReader(1 << 20, reuses=True), encode_frame(0, Transfer(0, 1, b"t", 0), bytes(LARGE))),
    "1.0 joined": (lambda: FrameReader(1 << 20), encode_frame(0, Transfer(0, 1, b"t", 0), bytes(LARGE))),
    "0-10": (SegmentReader, encode_0_10(0, b"front" * 4, b"header", bytes(1000), 500)),
    "0-9-1": (lambda: MethodsReader(Framing(), 1 << 20), Framing().frame(BODY, 1, bytes(1000))),
    "fast": (lambda: CommandReader(1 << 20), encode_fast(HandleSend(handle_id=1, fragment_size=1000), bytes(1000))),
}


def taken(reader: Any) -> int:
    """How many frames it gives."""
    if isinstance(reader, MethodsReader):
        return len(list(reader.frames()))
    count = 0
    while reader.next() is not None:
        count += 1
    return count


@pytest.mark.parametrize("rest", [0, 1, 4, 7, 12, 40, 600])
@pytest.mark.parametrize("dialect", READERS)
def test_what_was_read_is_let_go(dialect: str, rest: int) -> None:
    """Whatever the read ended with: nothing, a part of a head, or of a frame; which goes on when more comes."""
    make, frame = READERS[dialect]
    reader = make()
    data = frame * 100 + frame[:rest]
    held = sys.getrefcount(data)
    reader.feed(data)
    assert taken(reader) == 100
    assert sys.getrefcount(data) == held
    assert len(reader._data) <= rest
    reader.feed(frame[rest:])
    assert taken(reader) == 1
