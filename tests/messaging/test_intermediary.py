"""`messaging/_intermediary.py`: the head of a payload read and changed, the rest untouched."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10.errors import DecodeError, EncodeError
from amqp10.messaging import (
    Header,
    Message,
    Properties,
    patch_header,
    read_annotations,
    read_header,
    read_priority,
    read_properties,
)
from amqp10.messaging.sections import scan
from amqp10.testing.strategies import exact_message, headers, messages
from amqp10.types import Symbol


def behind(payload: bytes) -> bytes:
    """The bare message and the footer."""
    return payload[min(start for code, (start, _, _) in scan(payload).items() if code >= 0x73) :]


@settings(deadline=None)
@given(messages(), headers())
def test_a_patched_header_is_as_if_it_had_been_sent(message: Message, changes: dict[str, Any]) -> None:
    """The fields that are given change, every other field and every octet behind stays."""
    payload = message.encode()
    patched = patch_header(payload, **changes)
    assert behind(patched) == behind(payload)
    assert exact_message(Message.decode(patched)) == exact_message(message.replace(**changes))


@settings(deadline=None)
@given(messages())
def test_reading_the_head_agrees_with_reading_it_all(message: Message) -> None:
    """`read_header` and `read_properties` give the fields of the message, time-to-live in ms."""
    payload = message.encode()
    header, properties = read_header(payload), read_properties(payload)
    for field in Header.fields:
        value = getattr(header, field.name)
        if field.name == "ttl" and value is not None:
            value = timedelta(milliseconds=value)
        assert value == getattr(message, field.name)
    for field in Properties.fields:
        assert getattr(properties, field.name) == getattr(message, field.name)


def test_nothing_to_change_changes_nothing() -> None:
    """Without arguments the payload comes back as it is, in whatever encoding."""
    payload = b"\0\x53\x70\xd0\0\0\0\x05\0\0\0\x01\x41" + Message(b"x").encode()
    assert patch_header(payload) == payload
    assert patch_header(payload, message_annotations={}) == payload


def test_a_header_is_made_and_unmade() -> None:
    """A payload without header gets one; a header that says nothing any more is left out."""
    bare = Message("x", subject="s").encode()
    counted = patch_header(bare, delivery_count=2)
    assert read_header(counted) == Header(delivery_count=2)
    assert patch_header(counted, delivery_count=0) == bare
    mortal = patch_header(bare, ttl=timedelta(seconds=1), durable=True)
    assert patch_header(mortal, ttl=None, durable=False) == bare


def test_annotations_are_added_replaced_and_removed() -> None:
    """Given annotations are merged by key, None removes the section, and the other section stays."""
    payload = Message(b"x", delivery_annotations={"d": 1}, message_annotations={"a": 1, "b": [2]}).encode()
    message = Message.decode(patch_header(payload, message_annotations={"b": 3, Symbol("c"): 4}))
    assert message.message_annotations == {"a": 1, "b": 3, "c": 4}
    assert all(type(key) is Symbol for key in message.message_annotations)
    assert message.delivery_annotations == {"d": 1}
    message = Message.decode(patch_header(payload, delivery_annotations=None, priority=9))
    assert (message.delivery_annotations, message.message_annotations, message.priority) == ({}, {"a": 1, "b": [2]}, 9)
    assert Message.decode(patch_header(Message(b"").encode(), delivery_annotations={"d": 1})).delivery_annotations == {
        "d": 1
    }


def test_what_is_behind_is_not_read() -> None:
    """A body that is no AMQP value does not keep an intermediary from counting a delivery."""
    payload = b"\0\x53\x75\xff whatever"
    assert patch_header(payload, durable=True) == Message(durable=True).encode()[:-4] + payload
    assert read_header(Message(b"", priority=7).encode()[:-5] + payload).priority == 7


def test_properties_are_found_without_the_rest() -> None:
    """Routing needs `to` and the expiry, and reads nothing behind the properties."""
    expiry = datetime(2030, 1, 1, tzinfo=UTC)
    payload = Message(b"", durable=True, message_annotations={"a": 1}, to="q", absolute_expiry_time=expiry).encode()
    properties = read_properties(payload[:-5] + b"\0\x53\x75\xff")
    assert (properties.to, properties.absolute_expiry_time) == ("q", expiry)
    assert read_properties(Message(b"").encode()) == Properties()


def test_wrong_changes_are_refused() -> None:
    """A field of the bare message is no argument, and a wrong value names its field."""
    payload = Message(b"").encode()
    wrong: list[Any] = [{"delivery_count": -1}, {"ttl": 5}, {"priority": "high"}, {"message_annotations": {1.5: 1}}]
    with pytest.raises(TypeError, match="subject"):
        patch_header(payload, subject="s")  # type: ignore[call-arg]
    for changes in wrong:
        with pytest.raises(EncodeError, match=next(iter(changes))):
            patch_header(payload, **changes)


@pytest.mark.parametrize(
    "payload",
    [
        b"garbage",
        b"\0\x53\x70\xc0\x02\x01",
        b"\0\x53\x70\xc0\x02\x01\x99" + Message(b"").encode(),
        b"\0\x53\x70\x45\0\x53\x70\x45" + Message(b"").encode(),
        b"\0\x53\x72\xc1\x01\0\0\x53\x71\xc1\x01\0" + Message(b"").encode(),
    ],
)
def test_a_broken_head_is_a_decode_error(payload: bytes) -> None:
    """Garbage, truncated, repeated and misplaced sections of the head are found."""
    with pytest.raises(DecodeError):
        patch_header(payload, durable=True)


@settings(deadline=None, max_examples=2 * settings().max_examples)
@given(messages(), st.data())
def test_mutated_heads_raise_nothing_but_decode_errors(message: Message, data: st.DataObject) -> None:
    """Whatever is done to the octets, the head is read and patched, as it says afterwards, or it is a DecodeError."""
    payload = bytearray(message.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, min(len(payload), 60)))
        payload[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    with contextlib.suppress(DecodeError):
        patched = patch_header(bytes(payload), delivery_count=7, ttl=None, message_annotations={"a": 1})
        header = read_header(patched)
        assert (header.delivery_count, header.ttl) == (7, None)
    with contextlib.suppress(DecodeError):
        assert patch_header(bytes(payload)) == payload
    for read, kind in ((read_header, Header), (read_properties, Properties)):
        with contextlib.suppress(DecodeError):
            assert type(read(bytes(payload))) is kind


WIDE = (
    b"\0\x80\0\0\0\0\0\0\0\x70\xc0\x02\x01\x41",
    b"\0\xa3\x10amqp:header:list\xc0\x02\x01\x41",
    b"\0\x53\x70\xc0\x02\x01\x41",
)


@pytest.mark.parametrize("size", range(len(max(WIDE, key=len)) + 4))
@pytest.mark.parametrize("head", WIDE, ids=bytes.hex)
def test_a_head_that_is_cut_is_a_decode_error(head: bytes, size: int) -> None:
    """Wherever it ends, also within the descriptor of a section; before and behind the header, it is read."""
    payload = (head + b"\0\x53\x77\x40")[:size]
    whole = size in (0, len(head)) or size >= len(head) + 3
    for read in (
        read_header,
        read_properties,
        read_priority,
        read_annotations,
        lambda octets: patch_header(octets, durable=True),
    ):
        with contextlib.nullcontext() if whole else pytest.raises(DecodeError):
            read(payload)
