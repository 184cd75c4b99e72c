"""Messages whose sections have known shapes are read as if none had come before, malformed ones most of all."""

from __future__ import annotations

import itertools
import random
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from amqp10 import Message
from amqp10.errors import DecodeError
from amqp10.messaging import MessageFields
from amqp10.messaging._compiled import fast
from amqp10.messaging.sections import MAPS, PROPERTIES_FIELDS
from amqp10.types import Int, Symbol, Timestamp, UInt, ULong

from ..kit.counts import MUTATED_MESSAGES
from ..kit.inside.codec import read_compound
from ..kit.plain_readers import plain_readers, quick_shapes, without_shapes

pytestmark = pytest.mark.skipif(
    fast is not None, reason="the compiled part reads messages: tests/kit/differential.py has it and the plain code"
)

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
STATES = ("created", "paid", "versandt", "zurückgegeben", "")


def moment(chance: random.Random) -> datetime:
    return BEGIN + timedelta(milliseconds=chance.randrange(10**10))


def an_order(chance: random.Random) -> Message:
    """An event, most of whose fields are there always, and are of one type nearly always."""
    return Message(
        b"x" * chance.randrange(500),
        message_id=str(UUID(int=chance.getrandbits(128))),
        subject=f"order.{chance.choice(STATES)}",
        reply_to="orders.replies" if chance.random() < 0.9 else None,
        correlation_id=chance.choice((f"basket-{chance.randrange(10**8)}", chance.randrange(300))),
        content_type="application/json",
        creation_time=moment(chance) if chance.random() < 0.98 else Timestamp(10**15),
        group_sequence=chance.choice((None, 0, 7, 70_000)),
        application_properties={
            "region": chance.choice(("eu-west-1", "us-east-2")),
            "attempt": chance.randrange(4),
            "total": chance.random(),
            "express": chance.random() < 0.5,
            "due": moment(chance),
            "trace": UUID(int=chance.getrandbits(128)),
            "note": chance.choice((None, "text", "x" * 300, 5, 3_000, Decimal("1.5"), b"octets")),
        },
        message_annotations={
            "x-opt-partition-key": f"customer-{chance.randrange(10**5)}",
            "x-opt-sequence-number": chance.randrange(10**6),
            "x-opt-more": chance.choice((Symbol("s"), {"a": [1, {"b": 2}]}, [], None)),
        },
    )


def a_row(chance: random.Random) -> Message:
    """A row, with numbers of all types."""
    return Message(
        {
            "id": chance.randrange(10**9, 10**10),
            "name": f"{chance.choice(STATES)} {chance.randrange(100)}",
            "quantity": chance.randrange(100),
            "price": chance.random(),
            "paid": chance.random() < 0.5,
            "created": moment(chance),
            "session": UUID(int=chance.getrandbits(128)),
            "clicks": chance.randrange(-1000, 1000),
            "uint": UInt(chance.randrange(70_000, 80_000)),
            "small": UInt(chance.randrange(1, 100)),
            "nothing": UInt(0),
            "ulong": ULong(2**40 + chance.randrange(100)),
            "int": Int(-70_000),
            "octet": Int(chance.randrange(-100, 100)),
            "gone": None,
            "octets": b"1234",
            "kind": Symbol("kind"),
            "comment": chance.choice((None, "", "é" * 30)),
        },
        message_id=chance.choice((ULong(5), 10**12)),
        user_id=b"guest",
        absolute_expiry_time=moment(chance),
        group_sequence=0,
    )


MAKERS = (an_order, a_row)


def mutated(chance: random.Random, data: bytes) -> bytes:
    """Return the octets with one or two changed, put in, taken out, or cut off."""
    octets = bytearray(data)
    for _ in range(chance.randrange(1, 3)):
        at = chance.randrange(len(octets) or 1)
        match chance.randrange(6):
            case _ if at == len(octets):
                return b"\0"
            case 0:
                octets[at] = chance.randrange(256)
            case 1:
                octets[at] = chance.choice(
                    b"\x00\x40\x41\x42\x43\x45\x52\x55\x56\x81\x83\x98\xa0\xa1\xa3\xb1\xc0\xc1\xd1"
                )
            case 2 | 3:
                octets[at] = (octets[at] + chance.choice((-1, 1))) % 256
            case 4:
                octets.insert(at, chance.choice((octets[at], 0x40)))
            case 5:
                del octets[at : at + chance.choice((1, 1, len(octets)))]
    return bytes(octets)


def types(value: Any) -> Any:
    if isinstance(value, dict):
        return [(type(key), key, types(each)) for key, each in value.items()]
    return [types(each) for each in value] if isinstance(value, list) else type(value)


def read(name: str) -> Callable[[Message], Any]:
    return lambda message: getattr(message, name)


PARTS: tuple[Callable[[Message], Any], ...] = (
    *(read(name) for name in ("message_id", "application_properties", "message_annotations", "body")),
    Message.check,
)


def outcome(payload: bytes, parts: tuple[Callable[[Message], Any], ...] = PARTS) -> list[Any]:
    """Return what is read of a message, with its types, or what is wrong: part by part, then all of it."""
    message = Message.decode(payload)
    seen: list[Any] = []
    for part in parts:
        try:
            value = part(message)
        except DecodeError as error:
            seen.append(str(error))
        else:
            seen.append((repr(value), types(value)))
    try:
        seen += [(name, repr(getattr(message, name)), types(getattr(message, name))) for name in FIELDS]
    except DecodeError as error:
        seen.append(str(error))
    return seen


FIELDS = tuple(MessageFields.__annotations__)


@pytest.fixture(autouse=True)
def plain() -> Iterator[None]:
    with plain_readers():
        yield


def with_long_head(payload: bytes) -> bytes:
    """Write the properties as a list32, as go-amqp and Java clients do whatever their size."""
    at = payload.find(b"\x00\x53\x73\xc0")
    if at < 0:
        return payload
    size, count = payload[at + 4 : at + 6]
    head = b"\xd0" + (size + 3).to_bytes(4, "big") + count.to_bytes(4, "big")
    return payload[: at + 3] + head + payload[at + 6 :]


def has_shapes() -> bool:
    """Whether readers were written for properties, for maps with string keys, and for those with symbols."""
    maps = read_compound.map_shapes
    return all(any(table.values()) for table in (PROPERTIES_FIELDS.shapes.readers, maps.simple, maps.symbols))


def test_messages_of_a_shape() -> None:
    """Each is read as if it were the first of its kind: values, types and order."""
    chance = random.Random(29)
    with quick_shapes(before=4, looks=4):
        for number in range(MUTATED_MESSAGES):
            payload = chance.choice(MAKERS)(chance).encode()
            if number % 2:
                payload = with_long_head(payload)
            expected = None
            with without_shapes():
                expected = outcome(payload)
            assert outcome(payload) == expected, payload
            if number > 300:
                assert has_shapes()


@pytest.mark.parametrize("make", MAKERS)
def test_mutated_messages_of_a_shape(make: Callable[[random.Random], Message]) -> None:
    """Messages with octets changed are read, or refused in the same words, whatever is read of them first."""
    chance = random.Random(31)
    faulty = 0
    with quick_shapes(before=4, looks=8):
        for _ in range(100):
            assert outcome(make(chance).encode())
        for _ in range(MUTATED_MESSAGES):
            payload = make(chance).encode()
            payload = mutated(chance, with_long_head(payload) if chance.random() < 0.5 else payload)
            parts = tuple(chance.sample(PARTS, len(PARTS)))
            with without_shapes():
                expected = outcome(payload, parts)
            assert outcome(payload, parts) == expected, payload
            faulty += any(type(each) is str for each in expected)
        assert any(PROPERTIES_FIELDS.shapes.readers.values())
        assert any(read_compound.map_shapes.readers.values())
    assert MUTATED_MESSAGES / 5 < faulty < MUTATED_MESSAGES * 49 / 50


def test_each_octet_of_a_message() -> None:
    """Each octet of a message whose shapes are known, with each of some values, and the message cut there."""
    chance = random.Random(37)
    with quick_shapes(before=2, looks=4):
        for make, long in itertools.product(MAKERS, (False, True)):
            for _ in range(40):
                outcome(make(chance).encode())
            payload = make(chance).encode()
            if long:
                payload = with_long_head(payload)
            for at in range(len(payload)):
                step = (payload[at] + 1) % 256, (payload[at] - 1) % 256
                for changed in (payload[:at], *(payload[:at] + bytes((each,)) + payload[at + 1 :] for each in step)):
                    with without_shapes():
                        expected = outcome(changed)
                    assert outcome(changed) == expected, changed


def test_what_has_no_place_in_a_section() -> None:
    """A map whose shape is known as a body is refused where its keys or values have no place."""
    with quick_shapes():
        body = {"region": "x", "list": [1]}
        symbols = {Symbol("region"): "x", Symbol("number"): 5}
        simple = {"region": "x", "number": 5}
        for value in (body, symbols, simple):
            for _ in range(3):
                assert Message.decode(Message(value).encode()).body == value
        assert read_compound.map_shapes.simple
        assert read_compound.map_shapes.symbols
        for code, value, wrong in (
            (0x74, body, "application_properties: a value must have a simple type"),
            (0x74, symbols, "application_properties: a key has a type that is not allowed there"),
            (0x72, simple, "message_annotations: a key has a type that is not allowed there"),
        ):
            payload = bytes((0, 0x53, code)) + Message(value).encode()[3:]
            with pytest.raises(DecodeError, match=wrong):
                Message.decode(payload).check()
        for code, value in ((0x74, simple), (0x72, symbols)):
            payload = bytes((0, 0x53, code)) + Message(value).encode()[3:]
            assert getattr(Message.decode(payload), MAPS[code].name) == value


def test_what_is_read_belongs_to_its_message() -> None:
    """A message whose fields or maps are changed leaves the next one as it was sent."""
    chance = random.Random(41)
    with quick_shapes():
        payloads = [an_order(chance).encode() for _ in range(50)]
        expected = [outcome(payload) for payload in payloads]
        for payload, whole in zip(payloads, expected, strict=True):
            message = Message.decode(payload)
            message.subject = "changed"
            message.application_properties.clear()
            message.message_annotations["more"] = 1
            assert message.encode() != payload
            assert outcome(payload) == whole
            message = Message.decode(payload)
            message.check()
            assert message.encode() == payload


def test_a_header_that_came_before() -> None:
    """It is read at once, and belongs to its message all the same; of thousands of others few are kept."""
    payload = Message(None, durable=True, priority=7, ttl=timedelta(seconds=3)).encode()
    for _ in range(3):
        message = Message.decode(payload)
        header = (message.durable, message.priority, message.ttl, message.first_acquirer, message.delivery_count)
        assert header == (True, 7, timedelta(seconds=3), False, 0)
        assert message.encode() == payload
        message.priority = 1
        assert Message.decode(message.encode()).priority == 1
    tracemalloc.start()
    try:
        for milliseconds in range(3000):
            ttl = timedelta(milliseconds=milliseconds)
            assert Message.decode(Message(None, ttl=ttl).encode()).ttl == ttl
        assert tracemalloc.get_traced_memory()[0] < 300_000
    finally:
        tracemalloc.stop()


def test_a_long_head_has_the_same_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Properties in a list32 are read by the readers that were written for a list8."""
    chance = random.Random(41)
    with quick_shapes(before=4, looks=4), plain_readers():
        for _ in range(40):
            outcome(with_long_head(an_order(chance).encode()))
        assert any(PROPERTIES_FIELDS.shapes.readers.values())
        monkeypatch.setattr(PROPERTIES_FIELDS, "_read", None)
        for form in (bytes, with_long_head):
            assert Message.decode(form(an_order(chance).encode())).message_id
