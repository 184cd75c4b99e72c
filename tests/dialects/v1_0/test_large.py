"""Large payloads stay where they came in, and are sent from where they are: that spares copies, and changes nothing."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from amqp10.dialects.v1_0 import partial as _partial
from amqp10.dialects.v1_0.wire import frames
from amqp10.dialects.v1_0.wire.frames import FrameReader, TransferTemplate
from amqp10.dialects.v1_0.wire.performatives import Transfer
from amqp10.engine import ConnectionTerms
from amqp10.errors import DecodeError, RemoteProtocolError
from amqp10.messaging import Message
from amqp10.messaging.payloads import LARGE, SplitPayload
from amqp10.testing import EnginePair

from ...kit.dialects.v1_0.streams import became, streams

pytestmark = pytest.mark.capability("large messages")

FRAME = 131_072


def everything(data: bytes, portions: list[int], *, reuses: bool) -> list[Any]:
    """Return what a reader makes of these bytes, fed in portions; its error is last."""
    reader = FrameReader(1 << 12, reuses=reuses)
    found: list[Any] = []
    at = 0
    for size in [*portions, len(data)]:
        reader.feed(data[at : at + size])
        at += size
        try:
            while (frame := reader.next()) is not None:
                kind, channel, performative, payload = frame
                said = None if performative is None else performative.encode()
                found.append((kind, channel, said, bytes(payload)))
        except (DecodeError, RemoteProtocolError) as error:
            return [*found, str(error)]
    return [*found, reader.buffered]


@settings(deadline=None, max_examples=3 * settings().max_examples)
@given(streams(), st.lists(st.integers(0, 700), max_size=8), st.integers(40, 400))
@example(TransferTemplate(3, 0).head(0, b"tag", False, 300, False) + b"p" * 300, [60, 1], 48)
@example(TransferTemplate(3, 0).head(0, b"tag", False, 300, False) + b"p" * 300, [1] * 90, 48)
def test_frames_in_pieces(data: bytes, portions: list[int], large: int) -> None:
    """A reader that leaves large frames in pieces reads what one reads that joins them, cut anywhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "LARGE", large)
        assert everything(data, portions, reuses=True) == everything(data, portions, reuses=False)


@settings(deadline=None)
@given(streams(), st.sampled_from([1, 50, 150, 10_000]), st.sampled_from([0, 20]), st.sampled_from([0, 100]))
def test_deliveries_in_pieces(data: bytes, portion: int, credit: int, limit: int) -> None:
    """An engine for which all frames are large ends in the same state as one for which none are."""
    terms = (30, (100, credit), limit, False)
    usual = became(data, portion, *terms)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "LARGE", 40)
        patch.setattr(_partial, "LARGE", 40)
        assert became(data, portion, *terms) == usual


def test_a_frame_that_dribbles_in_is_joined() -> None:
    """Hundreds of portions of one frame are not hundreds of pieces: the parts of a message stay few."""
    payload = bytes(LARGE)
    data = TransferTemplate(0, 0).head(0, b"tag", False, len(payload), False) + payload
    reader = FrameReader(1 << 20, reuses=True)
    frame = None
    for at in range(0, len(data), 100):
        assert frame is None
        reader.feed(data[at : at + 100])
        frame = reader.next()
    assert frame is not None
    assert isinstance(frame[2], Transfer)
    assert isinstance(frame[3], SplitPayload)
    assert len(frame[3].buffers) == 1
    assert bytes(frame[3]) == payload


def portions(buffers: list[bytes | memoryview], size: int) -> list[bytes]:
    """Return the portions of these bytes that a socket would give."""
    data = b"".join(buffers)
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("size", [65_536, 1 << 22])
def test_copies(size: int) -> None:
    """Of a large message, sent and received, the receiver's body is the only copy; the sender's frames are views."""
    terms = ConnectionTerms("either", max_frame_size=FRAME)
    pair = EnginePair(client=terms, server=terms)
    pair.open()
    sender, receiver = pair.attach("q", credit=10)
    payload = Message(bytes(size)).encode()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        sender.send(payload)
        buffers = pair.client.buffers_to_send()
        assert tracemalloc.get_traced_memory()[1] - before < 40_000
        read = portions(buffers, 1 << 18)
        del buffers
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        for portion in read:
            pair.server.receive_data(portion)
        assert len(Message.decode(receiver.incoming[0].pieces).body) == size
        assert tracemalloc.get_traced_memory()[1] - before < size + size // 100 + 20_000
    finally:
        tracemalloc.stop()
