from __future__ import annotations

import pytest

from amqp10.dialects.v1_0.wire.all_fields import MAX_ADDED, with_all_fields
from amqp10.dialects.v1_0.wire.frames import (
    AMQP_HEADER,
    FRAME_AMQP,
    HEARTBEAT,
    SASL_HEADER,
    FrameReader,
    encode_frame,
    encode_sasl_frame,
)
from amqp10.dialects.v1_0.wire.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    SaslOutcome,
    Transfer,
)
from amqp10.messaging import Error, Source
from amqp10.types import Composite, Symbol

BEGIN = Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1)


def count_of(frame: bytes) -> int:
    """How many fields the list of a frame says that it has."""
    assert frame[8:10] == b"\x00\x53"
    return frame[13] if frame[11] == 0xC0 else int.from_bytes(frame[16:20], "big")


@pytest.mark.parametrize(
    ("frame", "fields"),
    [
        (Open(container_id="a"), 10),
        (BEGIN, 8),
        (Attach(name="a", handle=0, role=True), 14),
        (Attach(name="a", handle=0, role=True, source=Source("x" * 300)), 14),
        (Attach(name="a" * 233, handle=0, role=True), 14),  # the nulls make its list a long one
        (Attach(name="a", handle=0, role=True, properties={Symbol("a"): 1}), 14),
        (Flow(incoming_window=1, next_outgoing_id=0, outgoing_window=1), 11),
        (Transfer(handle=0), 11),
        (Disposition(role=True, first=0), 6),
        (Detach(handle=0), 3),
        (End(), 1),
        (Close(), 1),
        (Close(error=Error("amqp:internal-error")), 1),
    ],
)
def test_each_frame(frame: Composite, fields: int) -> None:
    """It has all its fields, says what it said, and is not much larger."""
    before = encode_frame(3, frame, b"payload" if isinstance(frame, Transfer) else b"")
    after = with_all_fields(before)
    assert count_of(after) == fields
    assert len(before) <= len(after) <= len(before) + MAX_ADDED
    reader = FrameReader(4096)
    reader.feed(after)
    read = reader.next()
    assert read is not None
    assert (read[0], read[1], read[2]) == (FRAME_AMQP, 3, frame)
    assert bytes(read[3]) == (b"payload" if isinstance(frame, Transfer) else b"")
    assert with_all_fields(after) == after


def test_all_that_is_written() -> None:
    """Headers, frames of SASL and heartbeats stay as they are, between frames that do not."""
    begin, outcome = encode_frame(0, BEGIN), encode_sasl_frame(SaslOutcome(code=0))
    written = SASL_HEADER + outcome + AMQP_HEADER + begin + HEARTBEAT + begin
    full = with_all_fields(begin)
    assert with_all_fields(written) == SASL_HEADER + outcome + AMQP_HEADER + full + HEARTBEAT + full
