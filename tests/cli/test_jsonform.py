"""A message as JSON keeps the types that JSON does not have."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings

from amqp10 import (
    AmqpSequence,
    AmqpValue,
    Array,
    Byte,
    Char,
    Data,
    Decimal32,
    Described,
    EncodeError,
    Float,
    Message,
    Symbol,
    Timestamp,
    UInt,
    ULong,
)
from amqp10.cli._jsonform import from_json, to_json
from amqp10.testing.strategies import messages

VALUES: list[Any] = [
    None,
    True,
    5,
    -1.5,
    float("inf"),
    "text",
    b"\0\xff",
    Symbol("s"),
    Char("c"),
    UInt(5),
    ULong(2**63),
    Byte(-1),
    Float(0.5),
    Decimal("1.50"),
    Decimal32("1.5"),
    UUID(int=7),
    datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    Timestamp(2**60),
    [1, [UInt(2)]],
    {"a": {"b": Symbol("x")}},
    {1: "one", "$key": 2},
    Array("uint", [1, 2]),
    Described(Symbol("d"), [1]),
    Data(b"a", b"b"),
    AmqpSequence([1], ["x"]),
    AmqpValue(b"bytes"),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_body_there_and_back(value: Any) -> None:
    """The encoding of the message is the same after a trip through JSON."""
    message = Message(value)
    assert from_json(to_json(message)).encode() == message.encode()


def test_fields_there_and_back() -> None:
    """So are the fields; what has its default is not shown."""
    message = Message(
        "x",
        durable=True,
        ttl=timedelta(seconds=1.5),
        message_id=UUID(int=1),
        content_type=Symbol("text/plain"),
        application_properties={"n": UInt(1)},
        message_annotations={Symbol("x-opt-a"): 1},
    )
    form = to_json(message)
    assert from_json(form).encode() == message.encode()
    assert set(json.loads(form)) == {
        "durable", "ttl", "message_id", "content_type", "application_properties", "message_annotations", "body",
    }  # fmt: skip


@given(messages())
@settings(max_examples=100, deadline=None)
def test_any_message_can_be_shown(message: Message) -> None:
    """Whatever came can be written as a line of JSON, and read as one."""
    assert "\n" not in to_json(message)
    json.loads(to_json(message))


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[]",
        "5",
        '{"body": 1e999}',
        '{"body": -1e999}',
        '{"body": NaN}',
        '{"body": [Infinity]}',
        '{"bodi": 1}',
        '{"body": {"$uuid": "x"}}',
        '{"body": {"$binary": "?"}}',
        '{"body": {"$map": 5}}',
    ],
)
def test_bad_lines(line: str) -> None:
    """Each is refused with a reason."""
    with pytest.raises(EncodeError):
        from_json(line)


@pytest.mark.parametrize("text", ["\x1b[31m", "\x9b31m", "\u202e\u2066", "\u200b\ufeff", "\U000e0001", "grün 日本 😀"])
def test_nothing_to_obey(text: str) -> None:
    """L7: JSON has what a terminal would obey, or show as something else, escaped, and other letters as they are."""
    line = to_json(Message(text, subject=text, application_properties={text: text}))
    assert line.isprintable()
    assert (text in line) == text.isprintable()
    again = from_json(line)
    assert (again.body, again.subject, again.application_properties) == (text, text, {text: text})


def test_byte_order_mark() -> None:
    """One before the first line, as some editors write it, is ignored."""
    assert from_json('\ufeff{"body": "x"}').body == "x"
