"""The fast paths of the message path: each gives what the generic codec gives, or leaves it to that."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from amqp10.dialects.v1_0.endpoints.dispositions import ranges
from amqp10.dialects.v1_0.wire.frames import FRAME_AMQP, FrameReader, encode_frame
from amqp10.dialects.v1_0.wire.performatives import Disposition, Flow, Transfer
from amqp10.dialects.v1_0.wire.transfer import (
    KnownDispositions,
    KnownFlows,
    TransferTemplate,
    encode_disposition,
    encode_flow,
    read_transfer,
)
from amqp10.errors import DecodeError, EncodeError, RemoteProtocolError
from amqp10.messaging import ACCEPTED, RELEASED, Accepted, Error, Modified, Received, Rejected
from amqp10.types import Described, Symbol, ULong, decode_composite

HEAD = b"\0\x53\x14"


def values(transfer: Transfer) -> list[tuple[type, Any]]:
    """Every field with its exact type: True is not 1 here."""
    return [(type(value), value) for each in Transfer.fields for value in [getattr(transfer, each.name)]]


def agree(body: bytes, after: bytes = b"") -> Transfer | None:
    """Read a transfer both ways; what the fast one takes the generic one takes too, with the same result.

    Args:
        body: performative and payload of one frame, from the descriptor on.
        after: what is in the buffer behind the frame, and must not matter.

    Returns: what the fast way gave.
    """
    found = read_transfer(body + after, 3, len(body))
    try:
        generic, end = decode_composite(body)
    except DecodeError:
        assert found is None
        return None
    if found is None:
        return None
    assert isinstance(generic, Transfer)
    assert found[1] == end
    assert values(found[0]) == values(generic)
    return found[0]


# Every encoding that a field may have, and some that it may not.

NULL = [b"\x40"]
UINTS = [b"\x43", b"\x52\x00", b"\x52\xff", b"\x70\0\0\0\1", b"\x70\xff\xff\xff\xff"]
BOOLEANS = [b"\x41", b"\x42", b"\x56\0", b"\x56\1"]
TAGS = [b"\xa0\0", b"\xa0\4abcd", b"\xa0\x20" + b"t" * 32, b"\xa0\xff" + b"t" * 255, b"\xb0\0\0\0\3abc"]
STATES = [b"\0\x53\x24\x45", b"\0\x53\x23\xc0\4\2\x43\x53\7", b"\0\x53\x34\xc0\3\1\xa0\0"]
WRONG = [
    *[b"\x54\1", b"\x50\1", b"\xa1\1x", b"\x45", b"\x41", b"\x42", b"\x56\2", b"\x80" + bytes(8)],
    *[b"\xff", b"", b"\0", b"\xa0\x09x"],
]
FIELDS = [
    UINTS,
    UINTS + NULL,
    TAGS + NULL,
    UINTS + NULL,
    BOOLEANS + NULL,
    BOOLEANS + NULL,
    [b"\x50\0", b"\x50\1", *NULL],
    STATES + NULL,
    BOOLEANS + NULL,
    BOOLEANS + NULL,
    BOOLEANS + NULL,
]


def listed(fields: list[bytes], wide: bool = False, size: int = 0, count: int = 0) -> bytes:
    """A transfer of these field encodings; `size` and `count` are added to what they should be."""
    content = b"".join(fields)
    if wide:
        return (
            HEAD
            + b"\xd0"
            + (4 + len(content) + size).to_bytes(4, "big")
            + (len(fields) + count).to_bytes(4, "big")
            + content
        )
    return HEAD + b"\xc0" + bytes(((1 + len(content) + size) & 255, (len(fields) + count) & 255)) + content


@st.composite
def transfers(draw: st.DrawFn) -> bytes:
    """Mostly valid transfers in every encoding, each thing that can be wrong with one now and then."""
    length = draw(st.integers(0, 12))
    fields = []
    for index in range(length):
        choices = FIELDS[index] if index < len(FIELDS) else NULL
        fields.append(draw(st.sampled_from(choices if draw(st.integers(0, 40)) else WRONG)))
    size = draw(st.sampled_from([0] * 20 + [-1, 1, 100]))
    count = draw(st.sampled_from([0] * 20 + [-1, 1, 100]))
    wide = draw(st.booleans()) or len(b"".join(fields)) > 250
    return listed(fields, wide, size if length or size > 0 else 0, count if length or count > 0 else 0)


@settings(max_examples=5 * settings().max_examples)
@given(transfers(), st.binary(max_size=10), st.binary(max_size=12))
@example(HEAD + b"\x45", b"", b"")
@example(HEAD + b"\xc0\0\0", b"", b"")
@example(HEAD + b"\xc0\2\1\x43", b"\x43", b"")
@example(HEAD + b"\xc0\xff\1\x43", b"", b"\x43" * 255)
@example(listed([b"\x43", *[b"\x40"] * 9, b"\x56\1"]), b"", b"")
@example(listed([b"\x43", *[b"\x40"] * 5, b"\x42"]), b"", b"")
@example(listed([b"\x43", *[b"\x40"] * 5, b"\x41"]), b"", b"")
@example(listed([b"\x43", *[b"\x40"] * 6, b"\x42"]), b"", b"")
@example(listed([b"\x43", *[b"\x40"] * 6, b"\x41"]), b"", b"")
@example(listed([b"\x52\5"], size=-1), b"", b"")
@example(listed([b"\x52\5"], size=1), b"\x40", b"")
@example(listed([b"\x52\5", b"\x43"], wide=True, size=-1), b"", b"")
@example(listed([b"\x52\5", b"\x43"], wide=True, size=1), b"\x40", b"")
def test_fast_is_generic(performative: bytes, payload: bytes, after: bytes) -> None:
    """Whatever the octets: what the fast way takes the generic way takes too, with equal result and equal end."""
    agree(performative + payload, after)


@settings(max_examples=5 * settings().max_examples)
@given(
    transfers(),
    st.lists(st.tuples(st.integers(0, 80), st.integers(0, 255)), max_size=2),
    st.sampled_from([0] * 20 + list(range(1, 40))),
)
def test_fast_is_generic_on_broken_octets(performative: bytes, changes: list[tuple[int, int]], cut: int) -> None:
    """The same with octets changed and the rest cut off, into what follows the frame in the buffer."""
    body = bytearray(performative)
    for place, octet in changes:
        if len(body) > 3:
            body[3 + place % (len(body) - 3)] = octet
    inside = max(3, len(body) - cut % len(body))
    agree(bytes(body[:inside]), bytes(body[inside:]))


@given(st.binary(max_size=60))
def test_fast_is_generic_on_any_octets(rest: bytes) -> None:
    """The same with octets without sense."""
    agree(HEAD + rest)


USUAL = [
    [b"\x43", b"\x52\5", b"\xa0\1t", b"\x43", b"\x42"],  # ours
    [b"\x43", b"\x70\0\0\1\0", b"\xa0\4abcd", b"\x43", b"\x41"],  # ours, settled
    [b"\x52\3", b"\x52\5", b"\xa0\1t", b"\x43", b"\x42", b"\x41"],  # the first frame of several
    [b"\x52\3", b"\x40", b"\x40", b"\x40", b"\x40", b"\x41"],  # a later one
    [b"\x52\3"],  # the last one
    [b"\x43", b"\x43", b"\xa0\x10" + b"t" * 16, b"\x43", b"\x42", b"\x42"],
    [b"\x43", b"\x52\5", b"\xa0\1t", b"\x52\0", b"\x40", b"\x42", b"\x40", b"\x40", b"\x42", b"\x42", b"\x41"],
    [b"\x43", b"\x52\5", b"\xa0\1t", b"\x43", b"\x41", b"\x40", b"\x40", b"\0\x53\x24\x45"],  # Broker-J's, settled
    [b"\x70\0\0\0\0", b"\x70\0\0\0\0", b"\xa0\1t", b"\x70\x80\x01\x37\0", b"\x41", b"\x42", b"\x40", b"\x40"],
    [
        b"\x43",
        b"\x52\5",
        b"\xa0\1t",
        b"\x43",
        b"\x56\0",
        b"\x56\0",
        b"\x50\1",
        b"\x40",
        b"\x56\0",
        b"\x56\0",
        b"\x56\1",
    ],
    [
        b"\x43",
        b"\x52\5",
        b"\xa0\1t",
        b"\x43",
        b"\x42",
        b"\x42",
        b"\x40",
        b"\0\x53\x34\xc0\5\1\xa0\2tx",
    ],  # in a transaction
]


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("fields", USUAL)
def test_usual_frames_are_fast(fields: list[bytes], wide: bool) -> None:
    """The transfers that clients and brokers send for a message take the fast way."""
    assert agree(listed(fields, wide) + b"payload") is not None


@pytest.mark.parametrize(
    "transfer",
    [
        Transfer(0, 1, b"t", 0, state=ACCEPTED),
        Transfer(0, 1, b"t", 0, resume=True),
        Transfer(0, 1, aborted=True),
        Transfer(0, 1, b"t", 0, rcv_settle_mode=1),
        Transfer(0, 1, b"t", 0, state=Described(ULong(0x34), [b"txn", None])),
        Transfer(0, 1, b"t" * 300, 0),
    ],
)
def test_rare_frames(transfer: Transfer) -> None:
    """A transfer that the fast way leaves to the generic one is read in full."""
    reader = FrameReader(1000)
    reader.feed(encode_frame(3, transfer, b"payload"))
    frame = reader.next()
    assert frame is not None
    assert (frame[0], frame[1], frame[3]) == (FRAME_AMQP, 3, b"payload")
    assert isinstance(frame[2], Transfer)
    assert values(frame[2]) == values(Transfer.decode(transfer.encode()))


# Writing

handles = st.one_of(st.sampled_from([0, 1, 255, 256, 2**32 - 1]), st.integers(0, 2**32 - 1))
tags = st.one_of(st.binary(min_size=4, max_size=4), st.binary(max_size=32))


@given(
    st.integers(0, 65535), handles, handles, tags, st.booleans(), st.booleans(), handles, st.sampled_from([0, 1, 9999])
)
def test_head(
    channel: int, handle: int, number: int, tag: bytes, settled: bool, more: bool, message_format: int, size: int
) -> None:
    """A frame begun from the template is read as the transfer that it stands for, and is no longer than promised."""
    template = TransferTemplate(channel, handle)
    head = template.head(number, tag, settled, size, more, message_format)
    assert len(head) <= template.overhead
    reader = FrameReader(1 << 20)
    reader.feed(head + bytes(size))
    wanted = Transfer(handle, number, tag, message_format, settled, more)
    assert reader.next() == (FRAME_AMQP, channel, wanted, bytes(size))
    assert reader.buffered == 0
    assert Transfer.decode(head[8:]) == wanted


@given(st.integers(0, 65535), handles, st.booleans(), st.sampled_from([0, 1, 70_000]))
def test_continuation(channel: int, handle: int, more: bool, size: int) -> None:
    """A later frame names its link and whether more follows, and repeats nothing (§2.7.5)."""
    template = TransferTemplate(channel, handle)
    head = template.continuation(size, more)
    assert len(head) <= template.overhead
    reader = FrameReader(1 << 20)
    reader.feed(head + bytes(size))
    assert reader.next() == (FRAME_AMQP, channel, Transfer(handle, more=more), bytes(size))
    assert reader.buffered == 0
    assert head[8:] == Transfer(handle, more=more).encode()


def test_overhead_is_reached() -> None:
    """The promise is exact for the longest head there is: a payload fills the peer's frames to the last octet."""
    template = TransferTemplate(65535, 2**32 - 1)
    assert len(template.head(2**32 - 1, b"t" * 32, False, 1, True, 2**32 - 1)) == template.overhead


STATES_OUT = [
    None,
    ACCEPTED,
    Accepted(),
    RELEASED,
    Rejected(),
    Rejected(Error("amqp:internal-error", "why", {"key": 1})),
    Modified(True, False, {"x-opt-a": 1}),
    Received(1, 2),
    Described(ULong(0x34), [b"txn", ACCEPTED]),
    Described(Symbol("x:state:list"), []),
]


@given(st.integers(0, 65535), st.booleans(), handles, st.integers(0, 300), st.booleans(), st.sampled_from(STATES_OUT))
def test_disposition(channel: int, as_receiver: bool, first: int, count: int, settled: bool, state: Any) -> None:
    """Each state, with a template or without one, is read as the disposition of that range."""
    last = (first + count) & 0xFFFF_FFFF
    reader = FrameReader(1 << 20)
    reader.feed(encode_disposition(channel, as_receiver, first, last, settled, state))
    frame = reader.next()
    assert frame is not None
    assert frame[:2] == (FRAME_AMQP, channel)
    assert reader.buffered == 0
    found = frame[2]
    assert isinstance(found, Disposition)
    assert (found.role, found.first, found.settled) == (as_receiver, first, settled)
    assert found.last == last or (found.last is None and first == last)
    written = Disposition(as_receiver, first, last, settled, state)
    assert found.state == Disposition.decode(written.encode()).state
    assert not found.batchable


ENDS = [
    b"",
    b"\x40",
    b"\x40\x41",
    b"\x40\x42\x00\x53\x24\x45",
    b"\x41",
    b"\x40\x41\x00\x53\x24\x45\x41",
    b"\x70\0\0\1\0",
]
COUNTED = dict(zip(ENDS, (2, 3, 4, 5, 3, 6, 3), strict=True))


TWICE = Disposition(True, 300, 300, True, ACCEPTED).encode()
"""One that says twice which delivery it is."""
SMALL, SMALL_TWICE = (Disposition(True, 7, last, True, ACCEPTED).encode() for last in (None, 7))
BARE_TWICE = bytes.fromhex("005315c0 0c 03 41 7000000000 7000000000")
LONG = bytes.fromhex("005315d0 00000014 00000005 41 700000012c 700000012c 41 00532445")
LONG_OTHER = LONG.replace(b"\x01\x2c", b"\x03\x09")
"""The same in a list with a long head, and that of another delivery."""


@st.composite
def dispositions(draw: st.DrawFn) -> list[bytes]:
    """The performatives of dispositions, mostly of one delivery each and mostly alike; some have octets changed."""
    made = []
    for first in draw(st.lists(st.sampled_from([0, 255, 256, 257, 0x100_0000, 0xFFFF_FFFF]), max_size=8)):
        role, rest = draw(st.sampled_from([b"\x41", b"\x42"])), draw(st.sampled_from(ENDS))
        small = first < 256 and draw(st.booleans())
        number = bytes((0x52, first)) if small else b"\x70" + first.to_bytes(4, "big")
        fields = role + draw(st.sampled_from([number] * 5 + [b"\x43"]))
        fields += number + rest[1:] if rest[:1] == b"\x40" and draw(st.booleans()) else rest
        if draw(st.booleans()):
            head = b"\xc0" + bytes((1 + len(fields), COUNTED[rest]))
        else:
            head = b"\xd0" + (4 + len(fields)).to_bytes(4, "big") + COUNTED[rest].to_bytes(4, "big")
        body = bytearray(b"\x00\x53\x15" + head + fields)
        for place, octet in draw(st.lists(st.tuples(st.integers(4, 20), st.integers(0, 255)), max_size=1)):
            if place < len(body):
                body[place] = octet
        made.append(bytes(body[: draw(st.sampled_from([64] * 20 + [3, 4, 8, 11, 12]))]))
    return made


@given(dispositions(), st.integers(0, 2))
@example([encode_disposition(0, True, 300, 300, True, ACCEPTED)[8:]] * 3, 0)
@example([encode_disposition(0, True, 300, 300, True, ACCEPTED)[8:], b"\x00\x53\x15\xc0"], 0)
@example([BARE_TWICE, BARE_TWICE[:12]], 0)
@example([SMALL, SMALL[:9] + b"\1\2\3" + SMALL[9:]], 0)
@example([SMALL_TWICE, SMALL_TWICE[:9] + b"\1\2\3\x70" + SMALL_TWICE[8:9] + b"\1\2\3" + SMALL_TWICE[11:]], 0)
@example([TWICE, TWICE, TWICE[:12], TWICE[:15], TWICE[:16] + b"\x01" + TWICE[17:], TWICE[:13] + TWICE[17:]], 0)
def test_known_dispositions_change_nothing(bodies: list[bytes], channel: int) -> None:
    """A reader that knows dispositions by their octets reads each as one does that decodes them all."""
    said_alike(bodies, channel)


def said_alike(bodies: list[bytes], channel: int) -> None:
    """Have a reader that remembers frames and one that decodes each read the same."""
    knowing, decoding = FrameReader(1 << 16, reuses=True), FrameReader(1 << 16)
    for body in bodies:
        frame = (8 + len(body)).to_bytes(4, "big") + b"\x02\x00" + channel.to_bytes(2, "big") + body
        read: list[Any] = []
        for reader in (knowing, decoding):
            reader.feed(frame)
            try:
                read.append(reader.next())
            except (DecodeError, RemoteProtocolError) as error:
                read.append(str(error))
            assert reader.next() is None
        assert read[0] == read[1]


def test_known_dispositions_are_used_and_bounded() -> None:
    """An outcome that is like one before is not decoded again; ever new forms make the reader forget, not grow."""
    known = KnownDispositions()
    for channel in range(100):
        body = Disposition(True, 1000 + channel, settled=bool(channel % 2), state=ACCEPTED).encode()
        known.learn(Disposition.decode(body), body, 0, len(body))
        again = known.read(body, 0, len(body))
        assert again == Disposition.decode(body)
        assert again is not known.read(body, 0, len(body))
        small = [Disposition(True, n, settled=bool(channel % 2), state=ACCEPTED).encode() for n in (255, channel + 1)]
        known.learn(Disposition.decode(small[0]), small[0], 0, len(small[0]))
        assert known.read(small[1], 0, len(small[1])) == Disposition.decode(small[1])
        other = Disposition(True, 5000 + channel, settled=bool(channel % 2), state=ACCEPTED).encode()
        assert known.read(other, 0, len(other)) == Disposition.decode(other)
    for width in range(100):  # lists of ever another size cannot be, and would be known by it
        body = b"\x00\x53\x15\xc0" + bytes((width, 2, 0x41, 0x70)) + bytes(4)
        known.learn(Disposition(True, 0), body, 0, len(body))
    assert all(len(forms) <= 16 for forms in (*known._known, *known._small))


def test_known_where_the_last_is_the_first() -> None:
    """An outcome that names its delivery twice is known as well, and one of a range is not."""
    known = KnownDispositions()
    small, small_other = (Disposition(True, number, number, True, ACCEPTED).encode() for number in (7, 77))
    other_number = Disposition(True, 777, 777, True, ACCEPTED).encode()
    for form, other in ((TWICE, other_number), (LONG, LONG_OTHER), (small, small_other)):
        assert known.read(other, 0, len(other)) is None
        known.learn(Disposition.decode(form), form, 0, len(form))
        assert known.read(other, 0, len(other)) == Disposition.decode(other)
    for body in (Disposition(True, 777, 778, True, ACCEPTED), Disposition(True, 777, None, True, ACCEPTED)):
        assert known.read(body.encode(), 0, len(body.encode())) is None


ENCODED = st.one_of(
    st.sampled_from([b"\x40", b"\x43", b"\x41", b"\x42", b"\x44", b"\x56\x01", b"\xc1\x01\x00"]),
    st.integers(0, 255).map(lambda number: bytes((0x52, number))),
    st.integers(0, 0xFFFF_FFFF).map(lambda number: b"\x70" + number.to_bytes(4, "big")),
)


@st.composite
def flows(draw: st.DrawFn) -> list[bytes]:
    """A few flows of few forms, each perhaps with an octet that is wrong, or cut short."""
    forms = draw(st.lists(st.lists(ENCODED, min_size=4, max_size=12), min_size=1, max_size=3))
    made = []
    for form in draw(st.lists(st.sampled_from(forms), min_size=2, max_size=8)):
        fields = b"".join(
            field[:1] + draw(st.binary(min_size=len(field) - 1, max_size=len(field) - 1))
            if field[0] in (0x52, 0x70)
            else field
            for field in form
        )
        long = draw(st.booleans())
        sizes = struct.pack(">BII", 0xD0, 4 + len(fields), len(form))
        head = sizes if long else bytes((0xC0, 1 + len(fields), len(form)))
        body = bytearray(b"\x00\x53\x13" + head + fields)
        for place, octet in draw(st.lists(st.tuples(st.integers(4, 30), st.integers(0, 255)), max_size=1)):
            if place < len(body):
                body[place] = octet
        made.append(bytes(body[: draw(st.sampled_from([90] * 20 + [3, 4, 8, 11, 20]))]))
    return made


@given(flows(), st.integers(0, 2))
@example(
    [Flow(300, 2000, 300, 2000, 0, 300, 10, 0).encode()] * 3 + [Flow(300, 2000, 300, 2000, 7, 300, 0, 0).encode()], 0
)
@example([Flow(None, 9, 300, 2000, None, None, None, None, True, True).encode()] * 3, 0)
def test_known_flows_change_nothing(bodies: list[bytes], channel: int) -> None:
    """A reader that knows flows by their layout reads each as one does that decodes them all."""
    said_alike(bodies, channel)


def test_known_flows_are_used() -> None:
    """From the third of a size on, a flow of numbers and flags is cut; another of that size is decoded."""
    known = KnownFlows()
    for number in range(300, 310):
        flow = Flow(number, 2000, 5, 2000, 3, number, 256, 0, drain=bool(number % 2))
        body = flow.encode()
        read = known.read(body, 0, len(body))
        assert read == (flow if number >= 304 else None)
        if read is None:
            known.learn(Flow.decode(body), body, 0, len(body))
    other = Flow(5, 2000, 300, 2000, 3, 300, 256, 0, drain=True).encode()
    assert len(other) == len(body)
    assert known.read(other, 0, len(other)) is None
    with_properties = Flow(1, 1, 1, 1, properties={})
    for _ in range(3):
        known.learn(with_properties, with_properties.encode(), 0, len(with_properties.encode()))
    assert known.read(with_properties.encode(), 0, len(with_properties.encode())) is None


COUNTS = st.sampled_from([0, 1, 127, 128, 255, 256, 0xFFFF_FFFF]) | st.integers(0, 0xFFFF_FFFF)


@given(st.lists(COUNTS | st.none(), min_size=5, max_size=5), COUNTS, COUNTS, COUNTS, st.booleans(), st.booleans())
def test_flows(few: list[int | None], window: int, following: int, room: int, drain: bool, echo: bool) -> None:
    """Octet by octet what the composite's own codec writes; what that would refuse is left to it."""
    flow = Flow(few[0], window, following, room, few[1], few[2], few[3], few[4], drain, echo)
    found, whole = encode_flow(7, flow), flow.encode()
    if found is not None:
        assert found == (8 + len(whole)).to_bytes(4, "big") + b"\2\0\0\7" + whole
    assert (found is None) == (None in few or drain or echo)
    assert encode_frame(7, flow)[8:] == whole


@pytest.mark.parametrize("number", [-1, 1 << 32, "1"])
def test_flows_that_cannot_be(number: Any) -> None:
    """A number that is no uint is refused as ever."""
    flow = Flow(1, 2, 3, 4, 5, 6, number, 8)
    assert encode_flow(7, flow) is None
    with pytest.raises(EncodeError):
        encode_frame(7, flow)
    flow.properties = {}
    assert encode_flow(7, flow) is None


# Layouts: what came before makes the next one cheaper, and never another.


def everything(data: bytes, *, reuses: bool) -> list[Any]:
    """Return what a reader makes of these bytes if each frame is read before the next; its error is last."""
    reader = FrameReader(1 << 16, reuses=reuses)
    reader.feed(data)
    found: list[Any] = []
    while True:
        try:
            frame = reader.next()
        except (DecodeError, RemoteProtocolError) as error:
            return [*found, str(error)]
        if frame is None:
            return [*found, reader.buffered]
        kind, channel, transfer, payload = frame
        found.append((kind, channel, values(transfer) if isinstance(transfer, Transfer) else transfer, payload))


ALIKE = st.tuples(
    st.sampled_from([0, 1, 2, 300, 301]),
    st.sampled_from([0, 7, 256, 0xFFFF_FFFF]),
    st.binary(max_size=5),
    st.booleans(),
    st.booleans(),
)


def in_list32(frame: bytes) -> bytes:
    """Write a transfer's frame as go-amqp does: its fields in a list32, whatever their size."""
    assert frame[8:12] == HEAD + b"\xc0"
    size, count = frame[12:14]
    fields = (size + 3).to_bytes(4, "big") + count.to_bytes(4, "big") + frame[14:]
    return (len(frame) + 6).to_bytes(4, "big") + frame[4:11] + b"\xd0" + fields


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Transfers that mostly look alike, and some octets of them changed."""
    frames = []
    for handle, number, tag, settled, more in draw(st.lists(ALIKE, max_size=12)):
        if draw(st.booleans()):  # with every field written out: those of one size may differ in what they say
            frames.append(TransferTemplate(1, handle).head(number, tag, settled, 7, more) + b"payload")
        else:
            frames.append(encode_frame(1, Transfer(handle, number, tag, 0, settled, more), b"payload"))
        if draw(st.integers(0, 2)) == 0:
            frames[-1] = in_list32(frames[-1])
    data = bytearray(b"".join(draw(st.permutations(frames + frames[:3]))))
    for place, octet in draw(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3)):
        if place < len(data):
            data[place] = octet
    return bytes(data)


WHOLE = TransferTemplate(0, 0).head(300, b"abcd", True, 0)


@given(streams())
@example(encode_frame(0, Transfer(handle=0, delivery_id=300, delivery_tag=b"abcd", settled=True), b"1") * 3)
@example(WHOLE + TransferTemplate(0, 0).head(301, b"abce", False, 0) + WHOLE)
@example(WHOLE + (len(WHOLE) - 1).to_bytes(4, "big") + WHOLE[4:] + WHOLE)  # it ends within its performative
def test_layouts_change_nothing(data: bytes) -> None:
    """A reader that knows transfers at sight reads what one reads that walks through each."""
    assert everything(data, reuses=True) == everything(data, reuses=False)


@pytest.mark.parametrize("form", [bytes, in_list32])
def test_layouts_are_used_and_bounded(form: Callable[[bytes], bytes]) -> None:
    """Transfers that look alike are one object; a sender of ever new forms makes the reader forget, not grow."""
    reader = FrameReader(reuses=True)
    frames = [
        encode_frame(0, Transfer(handle=handle, delivery_id=1000 + number, delivery_tag=b"abcd"), b"x")
        for handle in (1, 2)
        for number in range(3)
    ]
    reader.feed(b"".join(map(form, frames)))
    read = [frame for frame in iter(reader.next, None) if isinstance(frame[2], Transfer)]
    assert read[1][2] is read[2][2]
    assert read[4][2] is read[5][2] is not read[1][2]
    for handle in range(5000):
        reader.feed(form(encode_frame(0, Transfer(handle=handle, delivery_id=1000, delivery_tag=bytes(handle % 30)))))
        reader.next()
    assert len(reader._layouts) <= 2050


@pytest.mark.parametrize("form", [bytes, in_list32])
def test_wide_handles_have_layouts_of_their_own(form: Callable[[bytes], bytes]) -> None:
    """Links whose handles take four octets are told apart, and each one's transfers are one object."""
    reader = FrameReader(reuses=True)
    frames = [
        encode_frame(0, Transfer(handle=handle, delivery_id=1000 + number, delivery_tag=b"abcd"), b"x")
        for number in range(3)
        for handle in (300, 301)
    ]
    reader.feed(b"".join(map(form, frames)))
    read: list[Any] = list(iter(reader.next, None))
    assert [transfer.handle for _, _, transfer, _ in read] == [300, 301] * 3
    assert read[2][2] is read[4][2] is not read[3][2] is read[5][2]


@given(st.lists(st.integers(0, 40), min_size=1), st.sampled_from([0, 1000, 0x7FFF_FFF0, 0xFFFF_FFF0]))
@example([1, 1, 3], 0)
def test_ranges(numbers: list[int], base: int) -> None:
    """Ids in any order, some twice, across the end of their numbers: the fewest runs that have just them."""
    ids = [base + number & 0xFFFF_FFFF for number in numbers]
    runs = ranges(ids)
    covered = [first + step & 0xFFFF_FFFF for first, last in runs for step in range((last - first & 0xFFFF_FFFF) + 1)]
    assert sorted(covered) == sorted(set(ids))
    assert all(last + 1 & 0xFFFF_FFFF not in ids for _, last in runs)
