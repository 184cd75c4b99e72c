from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.broker._queues.message import MIN_TTL, QueuedMessage
from amqp10.errors import DecodeError
from amqp10.messaging import (
    AmqpValue,
    Header,
    Message,
    Properties,
    bare_message,
    patch_header,
    read_header,
    read_properties,
)
from amqp10.testing.strategies import messages
from amqp10.types import Symbol, Timestamp, encode

WALL = datetime(2024, 5, 1, 12, 0, tzinfo=UTC)


def read(message: Message) -> QueuedMessage:
    """An entry of that message, which came at 100 s."""
    return QueuedMessage.read(message.encode(), 0, 100.0, WALL.timestamp)


FULL = Message(
    AmqpValue({"a": [1, 2.5]}),
    durable=True,
    priority=7,
    ttl=timedelta(seconds=60),
    delivery_annotations={Symbol("d"): 1},
    message_annotations={Symbol("m"): 2},
    message_id="id-1",
    subject="s",
    application_properties={"p": True},
    footer={Symbol("f"): b"x"},
)


@pytest.mark.parametrize("message", [Message(b"x"), Message("x", subject="s"), Message([1], durable=True)])
def test_bytes_pass_through(message: Message) -> None:
    """A message goes out as the very bytes that came in, as long as its header stays true."""
    payload = message.encode()
    assert QueuedMessage.read(payload, 0, 100.0).outgoing(200.0) is payload


def test_a_header_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages that begin alike, as those of one sender do, in whatever encoding, have no section of theirs decoded."""
    read_sections = []

    def counted(payload: bytes) -> Header:
        read_sections.append(payload)
        return read_header(payload)

    monkeypatch.setattr("amqp10.broker._queues.message.front.read_header", counted)
    for header in (b"\xc0\x03\x02\x41\x40", b"\xd0\0\0\0\x06\0\0\0\x02\x41\x40"):
        read_sections.clear()
        for number in range(3):
            payload = b"\x00\x53\x70" + header + Message(b"x", message_id=number).encode()
            entry = QueuedMessage.read(payload, 0, 100.0)
            assert entry.durable
            assert entry.outgoing(100.0) is payload
        assert len(read_sections) <= 1


@pytest.mark.spec("3.2.1", "ttl is reduced by the time spent at an intermediary; delivery-count counts failed attempts")
def test_header_is_kept_true() -> None:
    """A rewritten header says the remaining time and the attempts, and nothing else of the message changes."""
    entry = read(FULL)
    assert entry.expires == 160.0
    entry.count_failure()
    out = Message.decode(entry.outgoing(130.0))
    assert out == FULL.replace(ttl=timedelta(seconds=30), delivery_count=1, delivery_annotations=None)


@pytest.mark.spec("3.2.1", "delivery-count of earlier intermediaries goes on")
def test_counts_on() -> None:
    """Attempts made elsewhere are not forgotten."""
    entry = read(Message(b"x", delivery_count=3))
    entry.count_failure()
    assert Message.decode(entry.outgoing(100.0)).delivery_count == 4


@pytest.mark.spec("3.2.1", "first-acquirer true: no other link has acquired the message")
def test_first_acquirer() -> None:
    """A header that claims a first acquirer says so once only."""
    entry = read(Message(b"x", first_acquirer=True))
    assert Message.decode(entry.outgoing(100.0)).first_acquirer is True
    entry.mark_acquired()
    assert not Message.decode(entry.outgoing(100.0)).first_acquirer


@pytest.mark.spec("3.2.4", "absolute-expiry-time")
def test_absolute_expiry() -> None:
    """The time of day is turned into the broker's own clock; the sooner of both deadlines counts."""
    in_ten = WALL + timedelta(seconds=10)
    assert read(Message(b"x", absolute_expiry_time=in_ten)).expires == pytest.approx(110.0)
    assert read(Message(b"x", absolute_expiry_time=in_ten, ttl=timedelta(seconds=4))).expires == pytest.approx(104.0)


def test_malformed_header() -> None:
    """Sections that have to be read and cannot be are an error at once."""
    with pytest.raises(DecodeError):
        QueuedMessage.read(b"\x00\x53\x70\xc0\x05\x01garbage", 0, 100.0)


def test_other_formats_are_not_read() -> None:
    """A message format other than 0 is anything at all: it is passed on as it is, whatever happens."""
    entry = QueuedMessage.read(b"\x00\x53\x70 not AMQP", 0x80013700, 100.0)
    entry.count_failure()
    entry.mark_acquired()
    entry.annotate({Symbol("x"): 1})
    assert entry.outgoing(100.0) == b"\x00\x53\x70 not AMQP"


def test_what_is_malformed_goes_out_as_it_came() -> None:
    """Sections that the broker had no need to read may be malformed; the queue lives with that."""
    odd_map = b"\x00\x53\x72\xc1\x02\x01\x40" + Message(b"x").encode()
    entry = QueuedMessage.read(odd_map, 0, 100.0)
    entry.annotate({Symbol("x"): 1})
    assert entry.outgoing(100.0) == odd_map
    entry.count_failure()
    assert entry.outgoing(100.0).endswith(odd_map)


def test_annotate_merges() -> None:
    """New annotations replace those of the same key; the rest of the message stays."""
    entry = read(FULL)
    entry.annotate({Symbol("m"): 3, Symbol("n"): 4})
    entry.remove_expiry()
    out = Message.decode(entry.outgoing(100.0))
    assert out == FULL.replace(
        ttl=None, message_annotations={Symbol("m"): 3, Symbol("n"): 4}, delivery_annotations=None
    )


@pytest.mark.spec("3.2", "delivery-annotations are consumed by the next node, message-annotations travel on")
@given(messages(), st.booleans(), st.booleans())
def test_delivery_annotations_end_here(message: Message, header: bool, annotated: bool) -> None:
    """Whatever is around them, small or large; the rest of the message is as it came, octet by octet."""
    message.ttl = message.absolute_expiry_time = None
    message.durable = header
    if annotated:
        message.message_annotations = {Symbol("a"): "x" * 300}
    message.delivery_annotations = {}
    without = message.encode()
    for value in (1, "x" * 300):
        message.delivery_annotations = {Symbol("d"): value}
        entry = read(message)
        assert entry.outgoing(100.0) == without
        assert entry.size == len(without)


@pytest.mark.spec("3.2", "delivery-annotations are consumed by the next node, message-annotations travel on")
@pytest.mark.parametrize(
    "head", ["", "005370450053", "005370d00000000500000001410053", "0053", "0080000000000000007045"]
)
def test_delivery_annotations_in_any_encoding(head: str) -> None:
    """Behind a header in any encoding, by their number or by name, with a map of either width."""
    header = bytes.fromhex(head).removesuffix(b"\x00\x53")
    body = b"\x00\x53\x75\xa0\x01x"
    for descriptor in (b"\x53\x71", b"\x80\0\0\0\0\0\0\0\x71", b"\xa3\x1damqp:delivery-annotations:map"):
        for value in (b"\xc1\x01\0", b"\xd1\0\0\0\x08\0\0\0\x02\xa3\x01d\x40"):
            payload = header + b"\0" + descriptor + value + body
            assert QueuedMessage.read(payload, 0, 100.0).outgoing(100.0) == header + body
            assert QueuedMessage.read(payload, 1, 100.0).outgoing(100.0) == payload


def test_leaving_frees_the_bytes() -> None:
    """What left keeps nothing in memory."""
    entry = read(FULL)
    entry.free()
    assert (entry.payload, entry.gone) == (b"", True)


@given(messages(), st.booleans(), st.booleans())
def test_expiry_is_found_wherever_it_is(message: Message, mortal: bool, annotated: bool) -> None:
    """Whatever stands before the properties, small or large, a message that says when it expires does."""
    message.ttl = None
    message.absolute_expiry_time = WALL + timedelta(seconds=5) if mortal else None
    if annotated:
        message.message_annotations = {Symbol("a"): "x" * 300}
    assert read(message).expires == (105.0 if mortal else None)


@pytest.mark.parametrize("group", ["g", "g" * 300])
@pytest.mark.parametrize("annotations", [None, {Symbol("a"): 1}])
def test_no_property_is_decoded_to_see_an_expiry(
    monkeypatch: pytest.MonkeyPatch, group: str, annotations: dict[Any, Any] | None
) -> None:
    """With an absolute-expiry-time or without, the others are not decoded; what cannot be passed over is."""
    message = Message(b"x", message_id=UUID(int=5), subject="s", creation_time=WALL, group_id=group)
    message.message_annotations = annotations or {}
    decoded = []

    def read_properties(payload: bytes) -> Properties:
        decoded.append(payload)
        return Properties()

    monkeypatch.setattr("amqp10.broker._queues.message.entry.read_properties", read_properties)
    assert read(message).expires is None
    assert not decoded
    message.absolute_expiry_time = WALL
    read(message)
    assert not decoded
    QueuedMessage.read(b"\x00\x53\x73\xc0\x0b\x09" + b"\x40" * 7 + b"\xa1\xff\x40", 0, 100.0)
    QueuedMessage.read(b"\x00\x53\x73\xc0\x0b\x09" + b"\x40" * 7 + b"\x01\x40\x40", 0, 100.0)
    QueuedMessage.read(b"\x00\x53\x73\xc0\x0a\x09" + b"\x40" * 8 + b"\x53", 0, 100.0)
    assert len(decoded) == 3


@given(
    st.sampled_from([None, 0x40, 0x8340, 0x4083, 0x83 << 48 | 0x40, 1_714_564_800_000, 1_714_564_800_064]),
    st.sampled_from([None, WALL]),
    st.sampled_from([None, "g", "@\x01"]),
    st.sampled_from(["", "s" * 300]),
)
def test_an_expiry_is_found(expiry: int | None, created: datetime | None, group: str | None, subject: str) -> None:
    """Whatever its octets are, and whatever follows: no null in its place is mistaken for it, nor it for a null."""
    dies = None if expiry is None else Timestamp(expiry)
    properties = Properties(subject=subject, absolute_expiry_time=dies, creation_time=created, group_id=group)
    payload = encode(properties) + b"\x00\x53\x75\xa0\x00"
    found = facts(payload)
    assert found[:3] == said(payload)
    assert (found[2] is None) is (expiry is None)


@given(
    st.lists(messages(), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 120), st.integers(0, 255)), max_size=5),
)
def test_a_run_is_read_as_one_by_one(made: list[Message], changes: list[tuple[int, int, int]]) -> None:
    """Up to the first that needs `read`, malformed or not, each entry is what it is by itself."""
    payloads = [message.encode() for message in made]
    for which, place, octet in changes:
        if which < len(payloads) and place < len(payloads[which]):
            changed = bytearray(payloads[which])
            changed[place] = octet
            payloads[which] = bytes(changed)
    run = QueuedMessage.read_run(payloads, 7, None, 100.0, WALL.timestamp)
    for payload, entry in zip(payloads, run, strict=False):
        alone = QueuedMessage.read(payload, 0, 100.0, WALL.timestamp)
        alone.origin = 7
        assert {name: getattr(entry, name) for name in QueuedMessage.__slots__} == {
            name: getattr(alone, name) for name in QueuedMessage.__slots__
        }


def test_a_run_fills_every_slot() -> None:
    """An entry of a run lacks no slot of the class, although `__init__` is not called."""
    payload = Message(b"x").encode()
    for entry in (QueuedMessage(payload), *QueuedMessage.read_run([payload], 0, None, 100.0)):
        assert [name for name in QueuedMessage.__slots__ if not hasattr(entry, name)] == []


def test_what_ends_a_run() -> None:
    """Messages are in one run, whatever their headers, and whether they expire; what has to be decoded is not in it."""
    taken = [
        Message(b"x"),
        Message(b"x", durable=True, message_annotations={"a": 1}, message_id=1, creation_time=WALL),
        Message(b"x", priority=9, delivery_count=2, first_acquirer=True, group_id="g"),
        Message("x", application_properties={"a": "b"}),
        Message(b"x", ttl=timedelta(seconds=9), delivery_annotations={"a": 1}, message_annotations={"a": 1}),
        Message(b"x", absolute_expiry_time=WALL + timedelta(seconds=5), delivery_annotations={"a": "b" * 300}),
    ]
    payloads = [message.encode() for message in taken]
    run = QueuedMessage.read_run(payloads, 0, None, 100.0, WALL.timestamp)
    assert [entry.payload for entry in run] == [
        message.replace(delivery_annotations=None).encode() for message in taken
    ]
    assert [(entry.durable, entry.failures, entry.expires) for entry in run] == [
        *((False, 0, None), (True, 0, None), (False, 2, None), (False, 0, None)),
        *((False, 0, 109.0), (False, 0, 105.0)),
    ]
    odd_ttl = Message(b"x", ttl=timedelta(milliseconds=9)).encode()
    for last in (odd_ttl, b"", b"\x00\x53\x70\xc0\x05", b"\x00\x80\0\0\0\0\0\0\0\x75\xa0\0"):
        assert len(QueuedMessage.read_run([*payloads, last, payloads[0]], 0, None, 100.0)) == len(payloads)


@pytest.mark.parametrize("first", range(256))
def test_a_run_may_begin_with_any_octet(first: int) -> None:
    """A message that begins with none of a section's is left to `read`, which refuses it."""
    payload = bytes((first,)) + Message(b"x").encode()[1:]
    assert len(QueuedMessage.read_run([payload], 0, None, 100.0)) == (first == 0)


BOOLEANS = st.sampled_from(["40", "41", "42", "5600", "5601"])
UINTS = st.sampled_from(["40", "43", "5200", "5209", "52ff", "7000000000", "700000ea60", "70ffffffff", "7070707070"])
COUNTS = UINTS.filter(lambda encoded: encoded != "70ffffffff")  # a failed attempt more is beyond the range of a uint
FIELDS = st.tuples(BOOLEANS, st.sampled_from(["40", "5000", "5009", "5070"]), UINTS, BOOLEANS, COUNTS)


@st.composite
def headers(draw: st.DrawFn) -> bytes:
    """A header in any encoding: every form of its list and its fields; any may be null, and the last ones absent."""
    fields = [bytes.fromhex(field) for field in draw(FIELDS)][: draw(st.integers(0, 5))]
    octets = b"".join(fields)
    lists = [
        bytes((0xC0, len(octets) + 1, len(fields))) + octets,
        b"\xd0" + (len(octets) + 4).to_bytes(4, "big") + len(fields).to_bytes(4, "big") + octets,
        *([] if fields else [b"\x45"]),
    ]
    descriptor = draw(
        st.sampled_from([b"\x53\x70", b"\x53\x70", b"\x80\0\0\0\0\0\0\0\x70", b"\xa3\x10amqp:header:list"])
    )
    return b"\0" + descriptor + draw(st.sampled_from(lists))


def rewritten(payload: bytes, entry: QueuedMessage, now: float) -> bytes:
    """What the payload has to become: its header is decoded, changed and encoded anew."""
    header = read_header(payload)
    ttl = None
    if header.ttl is not None and entry.expires is not None:
        ttl = timedelta(seconds=max(0.0, entry.expires - now))
    first = header.first_acquirer and not entry.acquired
    return patch_header(payload, ttl=ttl, delivery_count=entry.failures, first_acquirer=first)


@pytest.mark.spec("3.2.1", "ttl is reduced by the time spent at an intermediary; delivery-count counts failed attempts")
@given(
    headers(),
    st.lists(st.tuples(st.integers(3, 24), st.integers(0, 255)), max_size=2),
    st.integers(0, 100_000_000),
    st.integers(0, 2),
    st.sampled_from([b"\x00\x53\x72\xc1\x01\x00\x00\x53\x75\xa0\x01x", b"\x00\x53\x75\xa0\x01x", b""]),
)
def test_header_says_what_a_new_one_would(
    header: bytes, changes: list[tuple[int, int]], waited: int, attempts: int, rest: bytes
) -> None:
    """In any encoding, malformed or not, alone or in a run, and after failed attempts; what is behind it stays."""
    changed = bytearray(header + rest)
    for place, octet in changes:
        if place < len(header):
            changed[place] = octet
    payload, now = bytes(changed), 100.0 + waited / 1000
    try:
        read_header(payload)
    except DecodeError:
        with pytest.raises(DecodeError):
            QueuedMessage.read(payload, 0, 100.0)
        assert not QueuedMessage.read_run([payload], 0, None, 100.0)
        return
    if said(payload) == "malformed":  # behind the header
        return
    for entry in (QueuedMessage.read(payload, 0, 100.0), *QueuedMessage.read_run([payload], 0, None, 100.0)):
        for _ in range(attempts):
            entry.mark_acquired()
            entry.count_failure()
        sent, wanted = entry.outgoing(now), rewritten(payload, entry, now)
        assert read_header(sent) == read_header(wanted)
        assert bare_message(sent) == bare_message(payload)
        entry.remove_expiry()
        assert read_header(entry.outgoing(now)).ttl is None
        assert bare_message(entry.payload) == bare_message(payload)


def test_headers_that_differ_in_their_ttl_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender with a deadline gives each message another ttl; each goes out with what is left of it."""
    read_sections = []

    def counted(payload: bytes) -> Header:
        read_sections.append(payload)
        return read_header(payload)

    monkeypatch.setattr("amqp10.broker._queues.message.front.read_header", counted)
    for number in range(200):
        message = Message(b"x", priority=3, delivery_count=5, ttl=timedelta(seconds=60, milliseconds=number))
        entry = QueuedMessage.read(message.encode(), 0, 100.0)
        assert Message.decode(entry.outgoing(110.0)) == message.replace(ttl=timedelta(seconds=50, milliseconds=number))
    assert len(read_sections) <= 1


def facts(payload: bytes) -> tuple[Any, ...] | str:
    """What the broker takes a message to say; or that it is malformed."""
    try:
        entry = QueuedMessage.read(payload, 0, 100.0, WALL.timestamp)
    except DecodeError:
        return "malformed"
    return entry.durable, entry.failures, entry.expires, entry.outgoing(100.0)


def said(payload: bytes) -> tuple[Any, ...] | str:
    """The same, of what all of its header and its properties say when they are read as any other section."""
    try:
        header, properties = read_header(payload), read_properties(payload)
    except DecodeError:
        return "malformed"
    deaths = [] if header.ttl is None else [100.0 + max(header.ttl / 1000, MIN_TTL)]
    if (expiry := properties.absolute_expiry_time) is not None:
        moment = expiry / 1000 if isinstance(expiry, int) else expiry.timestamp()
        deaths.append(100.0 + (moment - WALL.timestamp()))
    return header.durable, header.delivery_count, min(deaths, default=None)


@given(messages(), st.booleans(), st.integers(0, 2), st.integers(0, 40), st.integers(0, 255))
def test_reads_what_is_said(message: Message, lasting: bool, sections: int, place: int, octet: int) -> None:
    """With an octet changed, too: what is passed over would have said nothing, and what is kept is no other's."""
    if sections:
        message.message_annotations = {Symbol("a"): 1}
    if sections == 1:
        message.durable, message.ttl, message.priority, message.delivery_count = lasting, None, 4, 0
    whole = message.encode()
    changed = bytearray(whole)
    if place < len(changed):
        changed[place] = octet
    for payload in (whole, bytes(changed), whole):
        found, wanted = facts(payload), said(payload)
        if wanted != "malformed":
            assert found[:3] == wanted


@pytest.mark.parametrize("rest", ["", "00", "ff", "005370450053750000", "00530045", "0053794040", "00537040"])
@pytest.mark.parametrize("encoding", ["c0020141", "d0000000050000000141"])
def test_what_follows_a_header_is_looked_at(encoding: str, rest: str) -> None:
    """Behind a header that is known, too: what is no section there is malformed each time."""
    header = bytes.fromhex("005370" + encoding)
    assert facts(header + b"\x00\x53\x75\xa0\x00") == (True, 0, None, header + b"\x00\x53\x75\xa0\x00")
    payload = header + bytes.fromhex(rest)
    for _ in range(2):
        assert (facts(payload) == "malformed") == (said(payload) == "malformed")


@pytest.mark.parametrize("front", ["005310c00100", "00536fd00000000400000000"])
def test_what_begins_a_message_is_a_section(front: str) -> None:
    """What is no section is malformed: it hides no header that comes behind it."""
    payload = bytes.fromhex(front) + Message(b"x", durable=True).encode()
    assert said(payload) == "malformed"
    assert facts(payload) == "malformed"
