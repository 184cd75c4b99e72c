"""Cutting bytes into frames, and writing them: header checks, portions, bodies, and bytes without sense."""

from __future__ import annotations

import sys
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10.dialects.v1_0.wire.frames import (
    AMQP_HEADER,
    FRAME_AMQP,
    FRAME_SASL,
    HEARTBEAT,
    SASL_HEADER,
    TLS_HEADER,
    Frame,
    FrameReader,
    encode_frame,
    encode_sasl_frame,
)
from amqp10.dialects.v1_0.wire.performatives import (
    Begin,
    Close,
    Disposition,
    Flow,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    Transfer,
)
from amqp10.errors import DecodeError, RemoteProtocolError
from amqp10.messaging import ACCEPTED, Source
from amqp10.types import Composite


def framed(body: bytes, *, kind: int = FRAME_AMQP, channel: int = 0, extended: bytes = b"") -> bytes:
    """A frame around any body."""
    assert len(extended) % 4 == 0
    size = 8 + len(extended) + len(body)
    return (
        size.to_bytes(4, "big") + bytes((2 + len(extended) // 4, kind)) + channel.to_bytes(2, "big") + extended + body
    )


def read_all(*portions: bytes, max_frame_size: int = 1 << 20) -> list[Frame]:
    """All frames in the portions, taken as soon as they are whole."""
    reader = FrameReader(max_frame_size)
    frames = []
    for portion in portions:
        reader.feed(portion)
        while (frame := reader.next()) is not None:
            frames.append(frame)
    return frames


PERFORMATIVES: list[tuple[int, Composite, bytes]] = [
    (0, Open("container", max_frame_size=512), b""),
    (7, Begin(None, 0, 10, 10), b""),
    (65535, Flow(0, 10, 0, 10, 3, 4, 5), b""),
    (1, Transfer(0, 1, b"tag", 0, False), b"payload"),
    (1, Transfer(0, more=True), b""),
    (1, Transfer(0, 1, b"tag", 0, False, state=ACCEPTED, resume=True), b"p" * 300),
    (2, Disposition(True, 0, 9, True, ACCEPTED), b""),
    (0, Close(), b""),
]
STREAM = b"".join(encode_frame(*each) for each in PERFORMATIVES)
FRAMES = [(FRAME_AMQP, *each) for each in PERFORMATIVES]


# Writing


@pytest.mark.spec("2.3.1", "the layout of a frame: size, data offset, type, channel, body")
def test_encode_frame() -> None:
    """Size counts the header; the data offset is two words; the payload follows the performative."""
    assert encode_frame(0x0102, Close(), b"ab") == b"\0\0\0\x0e\2\0\1\2" + b"\0\x53\x18\x45" + b"ab"


@pytest.mark.spec("5.3.1", "the layout of a SASL frame: type 1, the channel is not used")
def test_encode_sasl_frame() -> None:
    """Type one, no channel."""
    assert encode_sasl_frame(SaslOutcome(0)) == b"\0\0\0\x10\2\1\0\0" + b"\0\x53\x44\xc0\3\1\x50\0"


@pytest.mark.spec("2.2", "the protocol headers of AMQP, TLS and SASL")
def test_headers() -> None:
    """The octets of the three, and of an empty frame."""
    assert (AMQP_HEADER, TLS_HEADER, SASL_HEADER) == (b"AMQP\0\1\0\0", b"AMQP\2\1\0\0", b"AMQP\3\1\0\0")
    assert framed(b"") == HEARTBEAT


# Reading


def test_read() -> None:
    """A written frame is read with its type, channel, performative and payload."""
    assert read_all(STREAM) == FRAMES


@pytest.mark.parametrize("portion", [1, 2, 3, 7, 8, 9, 64, 300])
def test_any_portions(portion: int) -> None:
    """How the bytes are cut makes no difference."""
    assert read_all(*(STREAM[at : at + portion] for at in range(0, len(STREAM), portion))) == FRAMES


@given(st.lists(st.integers(0, len(STREAM)), max_size=30))
def test_portions_at_random(cuts: list[int]) -> None:
    """Neither do empty portions, nor those that end anywhere in a frame."""
    bounds = [0, *sorted(cuts), len(STREAM)]
    assert read_all(*(STREAM[start:end] for start, end in pairwise(bounds))) == FRAMES


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer(kind: type) -> None:
    """Any kind of buffer can be fed; what is read of it is bytes, and its owner may change it after."""
    data = bytearray(STREAM)
    reader = FrameReader(1 << 20)
    reader.feed(kind(data))
    data[:] = bytes(len(data))
    frames = []
    while (frame := reader.next()) is not None:
        frames.append(frame)
    assert frames == FRAMES
    assert all(type(payload) is bytes for *_, payload in frames)


def test_buffered() -> None:
    """The count of bytes not taken follows each step, over portions that complete nothing too."""
    reader = FrameReader(1 << 20)
    assert reader.buffered == 0
    frame = encode_frame(0, Transfer(0, 1, b"t", 0), b"x" * 100)
    reader.feed(frame + frame[:20])
    assert reader.buffered == len(frame) + 20
    assert reader.next() is not None
    assert reader.next() is None
    assert reader.buffered == 20
    reader.feed(frame[20:30])
    assert reader.next() is None
    assert reader.buffered == 30
    reader.feed(frame[30:])
    assert reader.next() is not None
    assert reader.buffered == 0


def test_what_was_read_is_let_go() -> None:
    """Once all frames of it are taken: an idle connection keeps none of its last read."""
    reader = FrameReader(1 << 20)
    data = encode_frame(0, Transfer(0, 1, b"t", 0), b"x" * 100)
    held = sys.getrefcount(data)
    reader.feed(data)
    assert reader.next() is not None
    assert sys.getrefcount(data) > held
    assert reader.next() is None
    assert sys.getrefcount(data) == held


def test_large_frame_in_small_portions() -> None:
    """A frame of 1 MiB that comes in 64 octets at a time is joined once: its portions are not looked at before."""
    frame = encode_frame(0, Transfer(0, 1, b"t", 0), bytes(1 << 20))
    reader = FrameReader(1 << 21)
    held = set()
    for at in range(0, len(frame), 64):
        assert reader.next() is None
        reader.feed(frame[at : at + 64])
        held.add(len(reader._data))
    assert reader.next() is not None
    assert len(held) <= 3


def test_header() -> None:
    """A protocol header is taken when all of it is here; frames may follow at once."""
    reader = FrameReader()
    for number in range(8):
        assert reader.protocol_header() is None
        reader.feed(AMQP_HEADER[number : number + 1])
    assert reader.protocol_header() == AMQP_HEADER
    reader.feed(SASL_HEADER + HEARTBEAT)
    assert reader.protocol_header() == SASL_HEADER
    assert reader.next() == (FRAME_AMQP, 0, None, b"")


@pytest.mark.parametrize("portions", [[b"G"], [b"AM", b"XY"], [b"A", b"B"], [b"HTTP/1.1 400 Bad Request"]])
def test_header_that_cannot_be(portions: list[bytes]) -> None:
    """Bytes that cannot become a header are returned as soon as that is certain."""
    reader = FrameReader()
    for portion in portions:
        assert reader.protocol_header() is None
        reader.feed(portion)
    assert reader.protocol_header() == b"".join(portions)[:8]


# Frame headers


@pytest.mark.spec("2.3.1", "a frame is malformed if its size is below the eight octets of its header")
@pytest.mark.parametrize("size", range(8))
def test_size_too_small(size: int) -> None:
    """Eight octets are enough to know."""
    with pytest.raises(RemoteProtocolError, match=f"size {size}") as caught:
        read_all(size.to_bytes(4, "big") + b"\2\0\0\0")
    assert caught.value.condition == "amqp:connection:framing-error"


@pytest.mark.spec("2.3.1", "a frame is malformed if its data offset is below two")
@pytest.mark.parametrize("offset", [0, 1])
def test_offset_too_small(offset: int) -> None:
    """An offset that points into the frame header."""
    with pytest.raises(RemoteProtocolError, match=f"offset {offset}"):
        read_all(b"\0\0\0\x0c" + bytes((offset, 0, 0, 0)) + b"\0\x53\x18\x45")


@pytest.mark.parametrize(("size", "offset"), [(8, 3), (11, 3), (100, 26), (100, 255)])
def test_offset_too_large(size: int, offset: int) -> None:
    """An offset that points beyond the frame is known before the frame is here."""
    with pytest.raises(RemoteProtocolError, match=f"size {size}, data offset {offset}"):
        read_all(size.to_bytes(4, "big") + bytes((offset, 0, 0, 0)))


@pytest.mark.spec("2.3.1", "the extended header is ignored")
@pytest.mark.parametrize("words", [1, 2, 100, 253])
def test_extended_header(words: int) -> None:
    """The body begins where the data offset says, whatever is before."""
    extended = b"\0\x53\x14\xc0" * words
    frames = read_all(
        framed(Transfer(1, 2, b"t", 0).encode() + b"p", channel=9, extended=extended)
        + framed(Close().encode(), extended=extended)
        + framed(b"", channel=3, extended=extended)
    )
    assert frames == [
        (FRAME_AMQP, 9, Transfer(1, 2, b"t", 0), b"p"),
        (FRAME_AMQP, 0, Close(), b""),
        (FRAME_AMQP, 3, None, b""),
    ]


@pytest.mark.spec("2.3.1", "max-frame-size: a frame of that size is taken, one octet more is refused")
def test_oversize() -> None:
    """The limit holds to the octet, from the first eight octets on."""
    largest = framed(Transfer(0, 1, b"t", 0).encode().ljust(504, b"x"))
    assert len(largest) == 512
    assert len(read_all(largest, max_frame_size=512)) == 1
    for size in (513, 2**31, 2**32 - 1):
        with pytest.raises(RemoteProtocolError, match=f"{size} bytes exceeds the limit of 512") as caught:
            read_all(size.to_bytes(4, "big") + b"\2\0\0\0", max_frame_size=512)
        assert caught.value.condition == "amqp:connection:framing-error"


def test_limit_changes_between_frames() -> None:
    """The limit of the next frame is the one that is set when it is taken, though its bytes were here before."""
    reader = FrameReader()
    reader.feed(HEARTBEAT + framed(Transfer(0, 1, b"t", 0).encode() + bytes(1000)))
    assert reader.next() is not None
    with pytest.raises(RemoteProtocolError):
        reader.next()
    reader.max_frame_size = 2000
    frame = reader.next()
    assert frame is not None
    assert frame[3] == bytes(1000)


@pytest.mark.spec("2.3.1", "a truncated frame is waited for")
@pytest.mark.parametrize("kind", [FRAME_AMQP, FRAME_SASL])
def test_truncated(kind: int) -> None:
    """Every octet but the last gives nothing, and takes nothing."""
    performative: Composite = Close() if kind == FRAME_AMQP else SaslOutcome(0)
    whole = framed(performative.encode(), kind=kind)
    for length in range(len(whole)):
        reader = FrameReader()
        reader.feed(whole[:length])
        assert reader.next() is None
        assert reader.buffered == length
        reader.feed(whole[length:])
        assert reader.next() == (kind, 0, performative, b"")


@pytest.mark.spec("2.3.2", "an empty frame has no effect but to show life")
@pytest.mark.parametrize("channel", [0, 1, 65535])
def test_empty_frame(channel: int) -> None:
    """It has no performative and no payload, on any channel."""
    assert read_all(framed(b"", channel=channel)) == [(FRAME_AMQP, channel, None, b"")]


@pytest.mark.spec("2.3.1", "frame types other than AMQP and SASL")
@pytest.mark.parametrize("kind", [2, 3, 127, 255])
def test_unknown_type(kind: int) -> None:
    """A body of an unknown type is refused, whatever it looks like; an empty frame of one shows that type."""
    for body in (Close().encode(), Transfer(0, 1, b"t", 0).encode(), b"\xff"):
        with pytest.raises(RemoteProtocolError, match=f"type {kind}"):
            read_all(framed(body, kind=kind))
    assert read_all(framed(b"", kind=kind)) == [(kind, 0, None, b"")]


# Bodies


@pytest.mark.spec("2.3.2", "the body of an AMQP frame is one of the nine performatives")
@pytest.mark.spec("5.3.1", "the body of a SASL frame is one of the five of §5.3.3")
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (FRAME_AMQP, SaslOutcome(0)),
        (FRAME_AMQP, SaslMechanisms(("PLAIN",))),
        (FRAME_AMQP, Source("q")),
        (FRAME_AMQP, ACCEPTED),
        (FRAME_SASL, Open("c")),
        (FRAME_SASL, Transfer(0, 1, b"t", 0)),
        (FRAME_SASL, Close()),
    ],
)
def test_body_of_another_type(kind: int, body: Composite) -> None:
    """A known composite in the wrong kind of frame is refused as one that is unknown."""
    with pytest.raises(DecodeError, match=f"type {kind} must not have {type(body).__name__}"):
        read_all(framed(body.encode(), kind=kind))


@pytest.mark.parametrize("body", [b"\x40", b"\0\x53\x77\x45", b"\0\xa3\1x\x45", b"\0\x53", b"\0", b"\xff\xff"])
def test_body_that_is_no_performative(body: bytes) -> None:
    """An undescribed value, an unknown descriptor, a broken one."""
    for kind in (FRAME_AMQP, FRAME_SASL):
        with pytest.raises(DecodeError):
            read_all(framed(body, kind=kind))


@pytest.mark.parametrize("performative", [each for _, each, _ in PERFORMATIVES], ids=repr)
def test_body_cut_short(performative: Composite) -> None:
    """A body that ends within its performative is refused at every octet, though more bytes follow the frame."""
    body = performative.encode()
    for length in range(1, len(body)):
        with pytest.raises(DecodeError):
            read_all(framed(body[:length]) + body[length:] + HEARTBEAT)


@pytest.mark.spec("2.3.2", "only a transfer has a payload")
def test_octets_after_the_performative() -> None:
    """A payload after another performative than a transfer is refused."""
    for kind, performative in ((FRAME_AMQP, Close()), (FRAME_SASL, SaslInit("PLAIN"))):
        with pytest.raises(DecodeError, match="1 octets follow"):
            read_all(framed(performative.encode() + b"x", kind=kind))


def test_symbolic_descriptor() -> None:
    """A performative may name itself by its symbol."""
    body = b"\0\xa3\x12amqp:transfer:list" + Transfer(3, 4, b"t", 0).encode()[3:]
    assert read_all(framed(body + b"p")) == [(FRAME_AMQP, 0, Transfer(3, 4, b"t", 0), b"p")]


def test_reading_on_after_a_bad_body() -> None:
    """The frame with the bad body is taken, and nothing of the next one."""
    reader = FrameReader()
    reader.feed(framed(b"\xff") + framed(Close().encode()))
    with pytest.raises(DecodeError):
        reader.next()
    assert reader.next() == (FRAME_AMQP, 0, Close(), b"")


# Bytes without sense

FRAGMENTS = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([STREAM, HEARTBEAT, AMQP_HEADER, *(encode_frame(*each) for each in PERFORMATIVES)]),
    st.builds(
        framed,
        st.one_of(st.binary(max_size=60), st.binary(max_size=40).map(lambda rest: b"\0\x53\x14\xc0" + rest)),
        kind=st.integers(0, 3),
    ),
)


@given(st.lists(FRAGMENTS, max_size=8), st.integers(8, 600))
@example([b"\0\0\0\x08\2\0\0\0" * 3], 8)
def test_any_bytes(portions: list[bytes], limit: int) -> None:
    """Any bytes give frames and then one of two errors at most; no byte is counted twice or lost."""
    reader = FrameReader(limit)
    fed = 0
    for portion in portions:
        reader.feed(portion)
        fed += len(portion)
        assert reader.buffered <= fed
        try:
            while (frame := reader.next()) is not None:
                kind, channel, performative, payload = frame
                assert 0 <= channel <= 65535
                assert performative is None or type(payload) is bytes
                assert kind in (FRAME_AMQP, FRAME_SASL) or performative is None
        except DecodeError:
            continue
        except RemoteProtocolError:
            return


@given(st.sampled_from(PERFORMATIVES), st.integers(0, 400), st.integers(1, 255))
def test_one_octet_wrong(written: tuple[int, Composite, bytes], place: int, change: int) -> None:
    """A frame with one octet changed is another frame, an incomplete one, or an error; never anything else."""
    frame = bytearray(encode_frame(*written))
    frame[place % len(frame)] ^= change
    try:
        found = read_all(bytes(frame), max_frame_size=len(frame))
    except (DecodeError, RemoteProtocolError):
        return
    assert len(found) <= len(frame) // 8
