"""`messaging/_section_index.py`: where the sections are."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10.errors import DecodeError
from amqp10.messaging import Message, _section_index
from amqp10.messaging._section_index import NAMES
from amqp10.messaging.sections import BODY, descriptor_at, may_hold, scan, section_at
from amqp10.testing.strategies import messages
from amqp10.types import Described, Int, Symbol, ULong, encode

from ..kit.steps import steps

HEADER = encode(Described(ULong(0x70), []))
VALUE = encode(Described(ULong(0x77), "v"))


@settings(deadline=None)
@given(messages())
def test_places_cover_the_payload(message: Message) -> None:
    """The sections lie end to end, from the first octet to the last, in the order of their codes."""
    payload = message.encode()
    places = scan(payload)
    assert list(places) == sorted(places)
    at = 0
    for code, (start, value_at, end) in places.items():
        assert start == at
        assert payload[start : start + 3] == b"\0\x53" + bytes([code])
        assert value_at == start + 3
        at = end
    assert at == len(payload)
    assert len([code for code in places if code in BODY]) == 1


@pytest.mark.parametrize(("header", "body"), [([], "v"), ([True], None), ([True], 5), ([True], 2.5), ([True], [])])
def test_a_section_of_fixed_width_costs_no_more(monkeypatch: pytest.MonkeyPatch, header: list[Any], body: Any) -> None:
    """The empty header of qpid-proton, and a body that is null or a number, are passed over as others are."""
    monkeypatch.setattr(_section_index, "fast", None)
    usual, other = (
        encode(Described(ULong(0x70), one)) + encode(Described(ULong(0x77), two))
        for one, two in (
            ([True], "v"),
            (header, body),
        )
    )
    assert steps(lambda: scan(other)) < 1.2 * steps(lambda: scan(usual))


@settings(deadline=None)
@given(messages(), st.integers(0, 400), st.integers(-1, 255))
def test_the_short_way_is_the_long_way(message: Message, at: int, octet: int) -> None:
    """Whatever is changed or cut off in a payload, its first section is found, or refused, as `section_at` would."""
    payload = bytearray(message.encode())
    at %= len(payload)
    payload[at : at + 1] = b"" if octet < 0 else bytes((octet,))
    if not payload:
        return
    data = bytes(payload)
    try:
        code, value_at, end = section_at(data, 0)
    except DecodeError as error:
        with pytest.raises(DecodeError, match=re.escape(str(error))):
            scan(data)
        return
    try:
        places = scan(data[:end])
    except DecodeError:
        pytest.fail("a section alone is a message, or the beginning of one")
    assert places == {code: (0, value_at, end)}


@pytest.mark.parametrize(
    "descriptor",
    [b"\x53\x77", b"\x80\0\0\0\0\0\0\0\x77", b"\xa3\x11amqp:amqp-value:*", b"\xb3\0\0\0\x11amqp:amqp-value:*"],
)
def test_every_encoding_of_a_descriptor_is_known(descriptor: bytes) -> None:
    """A section may begin with a short or a long ulong, or with its symbol."""
    payload = b"\0" + descriptor + b"\xa1\x01v"
    assert section_at(payload, 0) == (0x77, len(payload) - 3, len(payload))
    assert Message.decode(payload).body == "v"


def test_symbols_are_those_of_the_specification() -> None:
    """Each section is found by its symbolic descriptor."""
    forms = {"header": "list", "properties": "list", "data": "binary", "amqp-sequence": "list", "amqp-value": "*"}
    for code, name in NAMES.items():
        symbol = Symbol(f"amqp:{name}:{forms.get(name, 'map')}")
        assert section_at(encode(Described(symbol, None)), 0)[0] == code


@pytest.mark.parametrize(
    "descriptor",
    [ULong(0x6F), ULong(0x79), ULong(1 << 40), Symbol("amqp:source:list"), Int(0x77), 0x77, "amqp:data:binary", [], {}],
)
def test_other_descriptors_are_refused(descriptor: object) -> None:
    """What is not the ulong or the symbol of a section is none."""
    with pytest.raises(DecodeError, match="does not begin a message section"):
        scan(encode(Described(descriptor, "v")))


@pytest.mark.parametrize("payload", [b"", b"\0", b"\0\x53", b"\0\x53\x77", b"\x40", b"\xa1\x01v", VALUE + b"\0"])
def test_what_is_no_section_is_refused(payload: bytes) -> None:
    """An empty payload, the beginning of a section, and undescribed values are no message."""
    with pytest.raises(DecodeError):
        scan(payload)


def test_truncated_payloads_are_refused() -> None:
    """Wherever a message is cut but between two sections, it is found out."""
    for body in (b"x" * 300, "text", 1.5, [1], {"a": "b" * 300}):
        payload = Message(body, subject="s", application_properties={"a": 1}, footer={"f": 1}).encode()
        ends = {end for _, _, end in scan(payload).values()}
        for size in range(len(payload)):
            if size not in ends:
                with pytest.raises(DecodeError):
                    scan(payload[:size])


@pytest.mark.parametrize("front", [b"", b"\x00\x53\x70\x45", b"\x00\x53\x75\xa0\x01x"])
def test_half_a_descriptor(front: bytes) -> None:
    """A payload that ends within the first octets of a section is malformed, whoever reads it."""
    with pytest.raises(DecodeError, match="ends within the section"):
        Message.decode(front + b"\x00").check()
    with pytest.raises(DecodeError, match="ends within the section"):
        section_at(front + b"\x00", len(front))
    with pytest.raises(DecodeError, match="ends within the section"):
        descriptor_at(front + b"\x00", len(front))


@settings(deadline=None)
@given(messages())
def test_looking_for_octets(message: Message) -> None:
    """Octets are found in the message annotations only; a message that was changed may hold all."""
    name = "x-opt-failed-attempts"
    octets = name.encode()
    annotated = message.replace(message_annotations={Symbol(name): 1})
    for payload, there in ((annotated.encode(), True), (message.replace(message_annotations=None).encode(), False)):
        assert may_hold(Message.decode(payload), octets)[1] is there
    bare = Message(b"x", application_properties={name: 1}).encode()
    assert may_hold(Message.decode(bare), octets) == (False, False)
    assert may_hold(Message.decode(Message(b"x").encode()), octets) == (False, False)
    for headed in (Message(b"x", durable=True), Message(b"x", durable=True, message_annotations={"other": 1})):
        assert may_hold(Message.decode(headed.encode()), octets) == (True, False)
    changed = Message.decode(bare)
    changed.durable = True
    assert may_hold(changed, octets) == (True, True)
