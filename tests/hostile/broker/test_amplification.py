"""A few octets of a peer's never become much memory or many steps: measured by `tracemalloc` and by calls, no clock."""

import gc
import struct
import sys
import tracemalloc
from collections.abc import Callable
from itertools import chain, repeat
from typing import Any, cast

import pytest

from amqp10.dialects.fast.message import stream_fragmenter
from amqp10.dialects.fast.message.from_head import from_fast
from amqp10.dialects.fast.wire.commands import MessageHead
from amqp10.dialects.v0_9.codes import Fault
from amqp10.dialects.v0_9.message.from_basic import FromBasic, data_sections
from amqp10.dialects.v0_9.server.sender import Consumers, Unacked
from amqp10.dialects.v0_9.wire.framing import BODY
from amqp10.dialects.v0_9.wire.method_table import Method
from amqp10.dialects.v0_9.wire.methods import (
    BasicPublish,
    ChannelClose,
    ChannelOpen,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
)
from amqp10.dialects.v0_9.wire.tables import TABLES
from amqp10.dialects.v0_9.wire.variant import V0_9_1
from amqp10.dialects.v0_10.command_ids import ReceivedCommands, SentCommands
from amqp10.dialects.v0_10.message.from_transfer import read_message
from amqp10.dialects.v0_10.wire.commands import MessageProperties
from amqp10.dialects.v0_10.wire.values import Raw
from amqp10.dialects.v1_0.wire.frames import FRAME_AMQP, FRAME_SASL, FrameReader, encode_frame
from amqp10.dialects.v1_0.wire.performatives import Begin, Open
from amqp10.engine import ConnectionEnded, ConnectionTerms, Engine, dialect
from amqp10.errors import DecodeError
from amqp10.messaging import ACCEPTED, Data, Message
from amqp10.sasl import Authenticator
from amqp10.types import decode

from ...kit.inside.engines import message_limits
from ...kit.steps import steps

OCTET = 80
"""Octets of memory that an octet of input may cost at most."""
START = 40_000
"""Octets of memory that any input may cost besides."""

MANY = struct.pack(">BIIB", 0xF0, 5, 65_536, 0x45)
"""An array of 65,536 empty lists, in ten octets."""


def cost(act: Callable[[], Any]) -> tuple[int, int]:
    """The octets of memory and the calls that it takes; what it refuses counts as well."""

    def run() -> None:
        try:
            act()
        except DecodeError:
            pass

    run()  # what is made once is not its doing
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    gc.collect()  # what other tests have left is not its doing either
    gc.disable()
    peaks = []
    try:
        for _ in range(2):  # a cache that is made larger for what it reads is so once
            tracemalloc.start()
            run()
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    finally:
        tracemalloc.stop()
        gc.enable()
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(before)
    return min(peaks), calls


def is_cheap(data: bytes, act: Callable[[], Any]) -> None:
    memory, calls = cost(act)
    assert memory <= OCTET * len(data) + START
    assert calls <= 8 * len(data) + 100


def frame(kind: int, body: bytes) -> bytes:
    return struct.pack(">IBBH", 8 + len(body), 2, kind, 0) + body


def read(data: bytes) -> Any:
    reader = FrameReader(1 << 20)
    reader.feed(data)
    return reader.next()


def performative(code: int, *fields: bytes) -> bytes:
    content = b"".join(fields)
    return bytes((0, 0x53, code, 0xD0)) + struct.pack(">II", len(content) + 4, len(fields)) + content


def properties(value: bytes) -> bytes:
    content = b"\xa3\1x" + value
    return b"\xd1" + struct.pack(">II", len(content) + 4, 2) + content


def sequence(*values: bytes) -> bytes:
    content = b"".join(values)
    return b"\0\x53\x76\xd0" + struct.pack(">II", len(content) + 4, len(values)) + content


def test_a_body_of_arrays_without_octets() -> None:
    """50 sections, each an array of 65,536 empty lists: they were 226 MiB of 800 octets."""
    payload = sequence(MANY) * 50
    is_cheap(payload, lambda: Message.decode(payload).body)
    with pytest.raises(DecodeError, match="no width"):
        Message.decode(payload).body  # noqa: B018


def test_sections_share_one_allowance() -> None:
    """What a message may have of elements without octets, all its sections have together, whenever they are read."""
    nulls = struct.pack(">BIIB", 0xF0, 5, 100, 0x40)
    annotations = b"\0\x53\x72" + properties(nulls)
    footer = b"\0\x53\x78" + properties(nulls)
    fine = Message.decode(annotations + sequence(nulls))
    assert len(fine.message_annotations["x"]) == len(fine.body.parts[0][0]) == 100
    message = Message.decode(annotations + sequence(nulls) + footer)
    assert len(message.footer["x"]) == len(message.message_annotations["x"]) == 100
    with pytest.raises(DecodeError, match="no width"):
        message.body  # noqa: B018
    # What is encoded again or asked for again counts once.
    fine.message_annotations["x"] = 1
    assert Message.decode(fine.encode()).body == fine.body == fine.replace(subject="s").body


def test_a_flow_with_properties() -> None:
    """It cost 30 ms of CPU for 48 octets."""
    one, nothing = b"\x52\1", b"\x40"
    data = frame(FRAME_AMQP, performative(0x13, one, one, one, one, *[nothing] * 6, properties(MANY)))
    is_cheap(data, lambda: read(data))
    with pytest.raises(DecodeError, match="no width"):
        read(data)


def test_an_attach_keeps_no_more_than_came() -> None:
    """Its properties were kept: 272 MiB for 60 frames of 70 octets."""
    head = (b"\xa1\1l", b"\x43", b"\x42", *[b"\x40"] * 10)
    data = frame(FRAME_AMQP, performative(0x12, *head, properties(MANY)))
    is_cheap(data, lambda: read(data))
    with pytest.raises(DecodeError, match="no width"):
        read(data)


@pytest.mark.parametrize("descriptor", [b"\x53\x99", b"\x44", b"\xa3\4what", MANY, b"\x40"])
@pytest.mark.parametrize("kind", [FRAME_SASL, FRAME_AMQP])
def test_what_an_unknown_descriptor_describes_is_not_read(kind: int, descriptor: bytes) -> None:
    """Before the login, too."""
    data = frame(kind, b"\0" + descriptor + b"\xd0" + struct.pack(">II", 5004, 5000) + b"\x45" * 5000)
    memory, calls = cost(lambda: read(data))
    assert memory < START
    assert calls < 50
    with pytest.raises(DecodeError, match="unknown described value"):
        read(data)


def test_an_unknown_error_is_not_read() -> None:
    """The type of an error is known: there is no other."""
    unknown = b"\0\x53\x99\xd0" + struct.pack(">II", 5004, 5000) + b"\x45" * 5000
    data = frame(FRAME_AMQP, performative(0x18, unknown))
    memory, calls = cost(lambda: read(data))
    assert memory < START
    assert calls < 50
    with pytest.raises(DecodeError, match="close:list error: expected error, not a described value of an unknown type"):
        read(data)


@pytest.mark.parametrize(
    "item",
    [
        b"\x45",  # list0
        b"\xc0\1\0",
        b"\xc1\1\0",
        b"\xc1\3\2\x40\x45",  # {None: []}
        b"\xc1\3\2\x45\x45",  # a key that no dict holds
        b"\xe0\2\0\x40",
        b"\0\x45\x45",
    ],
    ids=bytes.hex,
)
def test_each_constructor_in_a_list(item: bytes) -> None:
    """What costs most memory for its octets, as often as it goes into a list; all of it is read."""
    count = 20_000 // len(item)
    content = item * count
    data = struct.pack(">BII", 0xD0, len(content) + 4, count) + content
    assert len(decode(data)) == count
    is_cheap(data, lambda: decode(data))


@pytest.mark.parametrize(
    ("code", "item"),
    [(0xC0, b"\1\0"), (0xC1, b"\3\2\x40\x45"), (0x60, b"\x77\x77"), (0x50, b"\7"), (0xE0, b"\2\0\x40")],
)
def test_each_constructor_in_an_array(code: int, item: bytes) -> None:
    """The same for the elements of an array."""
    count = 20_000 // len(item)
    content = item * count
    data = struct.pack(">BIIB", 0xF0, len(content) + 5, count, code) + content
    assert len(decode(data)) == count
    is_cheap(data, lambda: decode(data))


def test_arrays_of_empty_lists() -> None:
    """Many arrays of elements that take no octets are refused, before much of them is made."""
    item = b"\xe0\2\x09\x45"
    content = item * 5_000
    data = struct.pack(">BII", 0xD0, len(content) + 4, 5_000) + content
    with pytest.raises(DecodeError, match="too many array elements of no width"):
        decode(data)
    is_cheap(data, lambda: decode(data))


def test_keys_within_keys() -> None:
    """A key is compared encoded: at each level anew, so that there are few levels."""
    key = b"\xd0" + struct.pack(">II", 504, 500) + b"\x40" * 500
    for _ in range(11):
        content = key + b"\x40"
        key = b"\xd1" + struct.pack(">II", 4 + len(content), 2) + content
    decode(b"\xd1" + struct.pack(">II", 5 + len(key), 2) + key + b"\x40")
    for _ in range(20):
        content = key + b"\x40"
        key = b"\xd1" + struct.pack(">II", 4 + len(content), 2) + content
    is_cheap(key, lambda: decode(key))
    with pytest.raises(DecodeError, match="nested too deeply"):
        decode(key)


# Before the login


def server(spoken: str, **users: str) -> Engine:
    authenticator = Authenticator(users or None, anonymous=not users).for_connection(secure=True)
    engine = dialect(spoken).server(ConnectionTerms("server", max_message_size=1 << 26), authenticator)
    engine.start()
    return engine


def has_ended(engine: Engine) -> bool:
    """Among the events that were not asked for yet."""
    return any(isinstance(event, ConnectionEnded) for event in engine.events())


def part_0_10(first: bool, kind: int) -> bytes:
    """A frame of 4 KiB that is not the last of its segment."""
    return struct.pack(">BBHBBHI", 10 if first else 8, kind, 4096, 0, 0, 0, 0) + bytes(4084)


UNENDING = {
    "1.0": (b"AMQP\3\1\0\0", struct.pack(">IBBH", 1 << 24, 2, 1, 0), bytes(4096)),
    "1.0 bare": (b"AMQP\0\1\0\0", struct.pack(">IBBH", 20_000, 2, 0, 0), bytes(4096)),
    "0-9-1": (b"AMQP\0\0\x09\1", struct.pack(">BHI", 1, 0, 100_000), bytes(4096)),
    "0-9": (b"AMQP\1\1\0\x09", struct.pack(">BHI", 1, 0, 20_000), bytes(4096)),
    "0-9-draft": (b"AMQP\1\1\x09\1", struct.pack(">BxHI", 1, 0, 20_000), bytes(4096)),
    "0-10": (b"AMQP\1\1\0\x0a", part_0_10(True, 0), part_0_10(False, 0)),
    "0-10 command": (b"AMQP\1\1\0\x0a", part_0_10(True, 1), part_0_10(False, 1)),
    "fast": (b"\x80\1", b"\xff\xff\1\0\0\0", bytes(4096)),
}
"""What begins something that never ends: the header of the protocol, the beginning, and what may follow for ever."""


@pytest.mark.parametrize("words", UNENDING)
def test_before_the_login_little_is_kept(words: str) -> None:
    """It was up to 256 MiB of a connection in 0-10; now it ends after 64 KiB."""
    spoken = words.partition(" ")[0]
    engine = server(spoken) if "bare" in words else server(spoken, user="secret")
    header, begin, more = UNENDING[words]
    taken = 0
    for data in chain((header, begin), repeat(more, 64)):
        engine.receive_data(data)
        taken += len(data)
        if has_ended(engine):
            break
    else:
        pytest.fail(f"{taken} octets were taken")
    assert taken < 80_000


def test_large_frames_after_the_open_only() -> None:
    """The same frame that is refused before the open is taken after it."""
    large = encode_frame(0, Begin(None, 0, 1, 1, properties={"x": "y" * 20_000}))
    for first, ends in ((b"", True), (encode_frame(0, Open("c")), False)):
        engine = server("1.0")
        engine.receive_data(b"AMQP\0\1\0\0")
        engine.open()
        engine.receive_data(first + large)
        assert has_ended(engine) is ends


# Messages in part


def method(channel: int, what: Method) -> bytes:
    return V0_9_1.framing.frame(1, channel, V0_9_1.methods.encode(what))


def content(channel: int, size: int, sent: int) -> bytes:
    """A publish of so many octets, of which so many are sent."""
    header = struct.pack(">HHQH", 60, 0, size, 0)
    frames = method(channel, BasicPublish(0, "", "q")), V0_9_1.framing.frame(2, channel, header)
    return b"".join((*frames, V0_9_1.framing.frame(BODY, channel, bytes(sent))))


def test_messages_in_part_of_0_9_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of all channels together are bounded: the channel that exceeds that is closed, and the others go on."""
    monkeypatch.setattr(message_limits, "MAX_PARTIAL", 1000)
    monkeypatch.setattr(message_limits, "LARGEST_AT_ONCE", 0)
    engine = server("0-9-1")
    engine.receive_data(V0_9_1.header + method(0, ConnectionStartOk({}, "ANONYMOUS", b"", "en_US")))
    engine.receive_data(method(0, ConnectionTuneOk(9, 131_072, 0)) + method(0, ConnectionOpen("/")))
    engine.open()
    for channel in (1, 2, 3):
        engine.receive_data(method(channel, ChannelOpen()))
        for event in engine.events():
            if (session := getattr(event, "session", None)) is not None:
                session.begin()
    engine.data_to_send()
    engine.receive_data(content(1, 500, 400) + content(2, 500, 400))
    assert engine.data_to_send() == b""
    engine.receive_data(content(3, 500, 400))
    said = engine.data_to_send()
    assert struct.pack(">BH", 1, 3) == said[:3]
    assert b"CONTENT_TOO_LARGE" in said
    engine.receive_data(V0_9_1.framing.frame(BODY, 1, bytes(100)) + method(2, ChannelClose(200, "", 0, 0)))
    assert b"CONTENT_TOO_LARGE" not in engine.data_to_send()
    for _ in range(2):
        engine.receive_data(content(1, 900, 800) + V0_9_1.framing.frame(BODY, 1, bytes(100)))
    assert b"CONTENT_TOO_LARGE" not in engine.data_to_send()


# Paths that were quadratic: steps are counted


def test_acks_of_many_in_0_9_1() -> None:
    """An ack of few of very many deliveries looks at these few."""
    consumers = Consumers(cast("Any", None))
    consumers.unacked.update(dict.fromkeys(range(10, 100_000), cast("Any", None)))

    def settle() -> None:
        with pytest.raises(Fault, match="unknown delivery tag"):
            consumers.settle(5, True, b"\0\x3c\0\x50", ACCEPTED)

    assert steps(settle) < 20_000


def test_acks_rolled_back_in_0_9_1() -> None:
    """To roll back the ack of one of very many deliveries, again and again, looks at that one."""
    unacked = Unacked()
    unacked.update({Counting(number): cast("Any", None) for number in range(10_000)})
    Counting.compared = 0
    for _ in range(1000):
        unacked.give_back(unacked.pop(Counting(7)), Counting(7))
    assert Counting.compared < 20_000
    assert [int(number) for number in unacked.up_to(Counting(7))] == list(range(8))


def test_completions_of_few_in_0_10() -> None:
    """The same for the first of very many commands."""
    outbox = SentCommands()
    for _ in range(10_000):
        outbox.add(b"", None)
    assert steps(lambda: outbox.take(((0, 2),))) < 500
    assert next(iter(outbox.open)) == 3


class Counting(int):
    """Numbers that count how often they are compared."""

    compared = 0

    def __add__(self, other: int) -> "Counting":
        return Counting(int(self) + other)

    def __lt__(self, other: int) -> bool:
        Counting.compared += 1
        return int(self) < other

    __hash__ = int.__hash__


def test_syncs_in_0_10() -> None:
    """Each completion looks for the oldest command, and not at all of them."""
    inbox = ReceivedCommands()
    inbox.begin(Counting(0))
    for _ in range(1000):
        inbox.take()
    inbox.complete_in_turn(999)
    Counting.compared = 0
    for number in range(999):
        inbox.complete(number)
    assert Counting.compared < 5000
    assert inbox.done.wire() == ((0, 999),)
    assert not inbox.syncs


def test_a_long_stream_of_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be sent before it is whole is not joined again for each part."""
    looked = 0
    data_at = stream_fragmenter.data_at

    def counted(payload: bytes) -> Any:
        nonlocal looked
        looked += 1
        return data_at(payload)

    monkeypatch.setattr(stream_fragmenter, "data_at", counted)
    outflow = stream_fragmenter.StreamFragmenter(4000, 0)
    text = b"x" * 1_000_000
    payload = b"\0\x53\x77\xb1" + len(text).to_bytes(4, "big") + text
    for at in range(0, len(payload), 1000):
        assert list(outflow.feed(payload[at : at + 1000], True)) == []
    assert looked < 15
    assert sum(len(part) for part, _ in outflow.feed(b"", False)) > len(payload)


# Numbers and sizes in text


def test_sizes_of_sections_in_fast() -> None:
    """They are digits, and not too many of them: 5,000 raised ValueError."""
    for said in ("9" * 5000, "\u0662", "1,", ",", "1,2\n", "3,-2"):
        head = MessageHead(body_size=1, headers={"x-opt-amqp10-sections": said})
        payload, _ = from_fast(head, b"x", 0.0)
        assert Message.decode(payload).body == (Data(b"x", b"") if said == "1," else b"x")


def test_sizes_of_sections_in_0_9_1() -> None:
    """A header of ten characters does not make a section of each octet of a long body: each costs six more."""
    body = bytes(1_000_000)
    is_cheap(body, lambda: data_sections(body, ((1, 1_000_000),)))
    assert len(data_sections(body, ((1, 1_000_000),))) == 2
    assert len(data_sections(body, ((1000, 1000), (0, 1000)))) == 4000


@pytest.mark.parametrize("kind", ["list", "map", "array"])
def test_headers_that_are_passed_on_in_0_10(kind: str) -> None:
    """Values that 1.0 has no place for are written again: each cost 180 octets while that was done."""
    count = 20_000
    if kind == "map":
        content = b"".join(b"\4%04x\x08\1" % number for number in range(count))
    else:
        content = b"\xf0" * count if kind == "list" else b"\1" * count
    value = {
        "list": Raw(0xA9, struct.pack(">I", count) + content),
        "map": Raw(0xA8, struct.pack(">I", count) + content),
        "array": Raw(0xAA, struct.pack(">BI", 0x08, count) + content),
    }[kind]
    nested = Raw(0xA9, struct.pack(">IBI", 1, value.code, len(value.octets)) + value.octets)
    data = MessageProperties(application_headers={"x": nested}).encode_struct32()
    memory, _ = cost(lambda: read_message("", data, b"x"))
    assert memory <= 40 * len(data)


def test_heads_that_are_remembered_in_0_9_1() -> None:
    """Long ones are not: 256 of them were kept for each connection."""
    incoming = FromBasic(TABLES)
    tracemalloc.start()
    try:
        for number in range(200):
            headers = TABLES.encode({"x": "y" * 50_000 + str(number)})
            incoming.map(b"\0\0\1q", b"\x20\0" + headers, b"")
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < 100_000
