"""Mutated messages read alike by what is fast and by its generic twin: the same values, or the same error."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from amqp10 import Message
from amqp10.errors import DecodeError
from amqp10.messaging import MessageFields
from amqp10.messaging.sections import HEADER_FIELDS, PROPERTIES_FIELDS
from amqp10.types import Char, Described, Map, Symbol, UInt, decode, encode
from amqp10.types.codec import room_for

from ..kit.inside.codec import FieldsSection, read_compound, section_index
from ..kit.plain_readers import plain_readers, without_shapes

MOMENT = datetime(2026, 11, 22, 12, tzinfo=UTC)

BODIES: tuple[Any, ...] = (
    b'{"id": 4711}',
    {"id": 1, "name": "Zoë", "price": 2.5, "paid": True, "gone": None, "at": MOMENT, "key": UUID(int=5), "far": 10**12},
    {"nested": {"a": {"b": [1, {"c": "d"}]}}, Symbol("s"): UInt(3), 7: "seven", "last": False},
    Map([("same", 1), (Symbol("same"), 2), ([1], 3)]),
    [{"id": number, "text": "x" * number} for number in range(5)],
    {"long": "y" * 300, "decimal": Decimal("1.5"), "char": Char("z"), "thing": Described(Symbol("d"), {"k": "v"})},
)


def messages(chance: random.Random) -> list[bytes]:
    """Return encoded messages with all sections, values of their own in each."""
    return [
        Message(
            body,
            durable=True,
            ttl=timedelta(seconds=chance.randrange(1000)),
            message_id=chance.choice(("id", 7, b"id", UUID(int=chance.getrandbits(128)))),
            subject="subject",
            content_type="text/plain",
            creation_time=MOMENT + timedelta(milliseconds=chance.randrange(10**9)),
            group_sequence=chance.randrange(2**32),
            application_properties={"number": chance.randrange(10**6), "on": True, "text": "t" * chance.randrange(9)},
            message_annotations={"x-opt-key": "k", "x-opt-time": MOMENT},
            footer={"x-hash": b"1234"},
        ).encode()
        for body in BODIES
    ]


def mutated(chance: random.Random, data: bytes) -> bytes:
    """Return the octets with one to three changed, put in, taken out, or cut off."""
    octets = bytearray(data)
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(octets))
        match chance.randrange(6):
            case 0:
                octets[at] = chance.randrange(256)
            case 1:
                octets[at] = chance.choice(b"\x00\x40\x41\x45\x53\x56\x72\x81\x83\x98\xa0\xa1\xa3\xb1\xc0\xc1\xd1\xe0")
            case 2:
                octets[at] = (octets[at] + chance.choice((-1, 1))) % 256
            case 3:
                octets.insert(at, chance.randrange(256))
            case 4 if len(octets) > 1:
                del octets[at]
            case 5 if at:
                del octets[at if chance.random() < 0.5 else len(octets) - 1 :]
    return bytes(octets)


def outcome(read: Callable[..., Any], *arguments: Any) -> str:
    """Return what comes of it, types and order included, or what is wrong."""
    try:
        return repr(read(*arguments))
    except DecodeError as error:
        return f"DecodeError: {error}"


def whole(payload: bytes) -> list[Any]:
    """Read all of a message."""
    message = Message.decode(payload)
    message.check()
    return [message.body, *(getattr(message, name) for name in MessageFields.__annotations__)]


def by_fields(section: FieldsSection, payload: bytes, place: section_index.SectionSpan) -> dict[str, Any]:
    """Read header or properties as the fields of a message."""
    return section.read_values(payload, place, room_for(payload))


def by_object(section: FieldsSection, payload: bytes, place: section_index.SectionSpan) -> dict[str, Any]:
    """Read the same by way of `Header` and `Properties`."""
    found = section.read(payload, place, room_for(payload))
    values = {name: getattr(found, name) for name in section.defaults}
    if values.get("ttl") is not None:
        values["ttl"] = timedelta(milliseconds=values["ttl"])
    return values


def check_sections(payload: bytes) -> None:
    """See that header and properties, each by itself, are read alike in both ways."""
    for code, place in section_index.scan(payload).items():
        for section in (HEADER_FIELDS, PROPERTIES_FIELDS):
            if section.code == code:
                assert outcome(by_fields, section, payload, place) == outcome(by_object, section, payload, place)


def compare(monkeypatch: pytest.MonkeyPatch, count: int, seed: int) -> None:
    """Read so many messages, most of them mutated, in both ways."""
    chance = random.Random(seed)
    faulty = 0
    for number in range(count):
        payload = chance.choice(messages(chance))
        if number % 50:
            payload = mutated(chance, payload)
        fast = outcome(whole, payload)
        with monkeypatch.context() as generic, plain_readers(), without_shapes():
            generic.setattr(section_index, "fast", None)
            assert fast == outcome(whole, payload), payload
            generic.setattr(read_compound, "_TRUSTED_ENTRIES", -1)  # all maps are read as large ones
            assert fast == outcome(whole, payload), payload
            generic.setattr(read_compound, "_SECRET_HASHES", ())  # and by pairs
            assert fast == outcome(whole, payload), payload
        outcome(check_sections, payload)
        faulty += fast.startswith("DecodeError")
    assert count / 5 < faulty < count * 49 / 50


@pytest.mark.slow
def test_mutated_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some, in all runs."""
    compare(monkeypatch, 1_000, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_many_mutated_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many."""
    compare(monkeypatch, 8_000, seed=2)


@pytest.mark.parametrize("map_of", [encode(body) for body in BODIES if isinstance(body, dict | Map)])
def test_each_octet_of_a_map(monkeypatch: pytest.MonkeyPatch, map_of: bytes) -> None:
    """Each octet of a map with each of some values, and the map cut at each, is read alike."""
    changed = [map_of[:at] for at in range(len(map_of))]
    for at in range(len(map_of)):
        for octet in (0x00, 0x01, 0x40, 0x56, 0x81, 0xA1, 0xA3, 0xB1, 0xC1, 0xE0, 0xFF, (map_of[at] + 1) % 256):
            changed.append(map_of[:at] + bytes((octet,)) + map_of[at + 1 :])
    fast = [outcome(decode, each) for each in changed]
    monkeypatch.setattr(read_compound, "_TRUSTED_ENTRIES", -1)
    with plain_readers(), without_shapes():
        assert fast == [outcome(decode, each) for each in changed]
        monkeypatch.setattr(read_compound, "_SECRET_HASHES", ())
        assert fast == [outcome(decode, each) for each in changed]
