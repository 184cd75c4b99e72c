"""What can be told of a message that is malformed."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from amqp10 import DecodeError, Message
from amqp10.messaging import Properties
from amqp10.messaging.sections import BODY, FOOTER, HEADER, MESSAGE_ANNOTATIONS, PROPERTIES, scan
from amqp10.spark._rows.malformed import bare_message, find_sections, read_properties

WHOLE = Message(
    b"x",
    message_id="id",
    subject="s",
    priority=9,
    message_annotations={"x-a": 1},
    application_properties={"a": 1},
    footer={"f": 1},
).encode()
IN_MESSAGES = st.integers(0, len(WHOLE) - 1)


@pytest.mark.parametrize("message_id", ["id", 7, b"\x01", "long" * 100])
@pytest.mark.parametrize(
    "behind",
    [b"", b"\x00\x53\x75\xa0\x09x", b"\x00\x53\x99\x40", b"\x40", b"\x00\x53", b"\x00\x53\x77\x40\x00\x53\x75\xa0\x00"],
    ids=["nothing", "truncated", "unknown", "no section", "half", "two bodies"],
)
def test_sections_before_a_defect(message_id: str | int | bytes, behind: bytes) -> None:
    """They are where they are, and have what they have."""
    whole = Message(None, message_id=message_id, priority=9).encode()
    head = whole[: scan(whole)[PROPERTIES][2]]
    found = find_sections(head + behind)
    assert found.items() >= scan(head).items()
    assert read_properties(head + behind, found[PROPERTIES]).message_id == message_id


@pytest.mark.parametrize("end", [0, 1, 3, 8, 10])
def test_properties_in_which_a_message_ends(end: int) -> None:
    """The message-id comes first: it is there, or it is not."""
    payload = Message(None, message_id="id", subject="s" * 300).encode()
    at = scan(payload)[PROPERTIES][0]
    cut = payload[: at + 16 + end]
    assert read_properties(cut, find_sections(cut)[PROPERTIES]) == Properties(message_id="id")
    for cut in (payload[: at + each] for each in range(3, 16)):
        with pytest.raises(DecodeError):
            read_properties(cut, find_sections(cut)[PROPERTIES])


@pytest.mark.parametrize(
    "value", [b"\x41", b"\xa3\x01s", b"\xa1\x01\xff", b"\x40"], ids=["bool", "symbol", "octet", "null"]
)
def test_what_is_no_message_id(value: bytes) -> None:
    """It cannot be told then."""
    items = value + b"\x40\x40\xa1\x01\xff"
    payload = b"\x00\x53\x73\xc0" + bytes((len(items) + 1, 4)) + items
    with pytest.raises(DecodeError):
        read_properties(payload, find_sections(payload)[PROPERTIES])


def test_the_part_that_stays_the_same() -> None:
    """From the properties on, or the body, and without a footer; of what is no message at all everything."""
    places = scan(WHOLE)
    assert bare_message(WHOLE) == WHOLE[places[PROPERTIES][0] : places[FOOTER][0]]
    assert {HEADER, MESSAGE_ANNOTATIONS} < places.keys()
    plain = Message(b"x", durable=True).encode()
    assert bare_message(plain) == plain[scan(plain)[BODY[0]][0] :]
    assert bare_message(b"\xff\xff") == b"\xff\xff"
    assert bare_message(b"") == b""


@given(IN_MESSAGES, st.binary(max_size=3), IN_MESSAGES)
def test_what_brokers_write_is_not_seen(at: int, patch: bytes, end: int) -> None:
    """Whatever else is wrong: with another header the bare part is the same, and only DecodeErrors are raised."""
    flawed = (WHOLE[:at] + patch + WHOLE[at + len(patch) :])[: end + 1]
    start = scan(WHOLE)[MESSAGE_ANNOTATIONS][0]
    if at >= start and end >= start:
        again = Message(b"", priority=9, delivery_count=3, delivery_annotations={"x": 1}).encode()
        again = again[: scan(again)[BODY[0]][0]]
        assert bare_message(again + flawed[start:]) == bare_message(flawed)
    found = find_sections(flawed)
    if PROPERTIES in found:
        with suppress(DecodeError):
            read_properties(flawed, found[PROPERTIES])


@given(st.binary(max_size=40))
def test_anything(payload: bytes) -> None:
    """What is no message at all raises nothing else either."""
    assert payload.find(bare_message(payload)) >= 0
    for place in find_sections(payload).values():
        assert 0 <= place[0] < place[1] <= place[2] <= len(payload)
        with suppress(DecodeError):
            read_properties(payload, place)
