"""The compiled reader and writer of whole messages: what they take, and what they leave to the plain code.

That they say what the plain code says is proved by tests/kit/differential.py, which tests/test_compiled.py runs.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import random
import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from amqp10 import AmqpSequence, AmqpValue, Data, Message
from amqp10.errors import DecodeError
from amqp10.messaging import _message, _section_index
from amqp10.messaging.sections import may_hold
from amqp10.types import Char, Described, Float, Symbol, UInt, ULong

COMPILED = importlib.util.find_spec("amqp10.messaging._fast") is not None
fast: Any = importlib.import_module("amqp10.messaging._fast") if COMPILED else None

pytestmark = pytest.mark.skipif(not COMPILED, reason="a compiled installation has it: tests/test_compiled.py")


class Color(StrEnum):
    RED = "red"


WHOLE: dict[str, Any] = {
    "durable": True,
    "priority": 9,
    "ttl": timedelta(seconds=5, microseconds=1),
    "first_acquirer": True,
    "delivery_count": 300,
    "delivery_annotations": {"x-opt-a": [1, {"b": None}]},
    "message_annotations": {"x-opt-b": "c", "x-opt-d": ULong(7)},
    "message_id": "one",
    "user_id": b"me",
    "to": "q",
    "subject": "Zoë",
    "reply_to": "r" * 300,
    "correlation_id": UUID(int=7),
    "content_type": "text/plain",
    "content_encoding": "gzip",
    "absolute_expiry_time": datetime(2026, 1, 2, tzinfo=UTC),
    "creation_time": datetime(2026, 1, 2, 3, 4, 5, 6000, UTC),
    "group_id": "g",
    "group_sequence": 70_000,
    "reply_to_group_id": "h",
    "application_properties": {"a": 1, "b": 2.5, "c": True, "d": datetime(2026, 1, 1, tzinfo=UTC), "e": UUID(int=1)},
    "footer": {"f": UInt(1)},
}
BODIES = [b"", b"x" * 255, b"x" * 256, "text", {"a": [1, None, {"b": Symbol("c")}], "d": "e"}, [1, 2.5]]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("names", [WHOLE, ("subject",), ("footer",), ("message_id", "application_properties"), ()])
def test_takes_what_is_regular(body: Any, names: Any) -> None:
    """All fields, and each form of a body that most messages have, are written and read without the plain code."""
    fields = {name: WHOLE[name] for name in names}
    payload = fast.encode(fields, body)
    assert payload is not None
    message = Message.decode(payload)
    assert fast.read_body(message)
    assert fast.read_all(message)
    wanted = Message(body, **fields)
    if "ttl" in fields:
        wanted.ttl = timedelta(milliseconds=5001)  # rounded up
    assert message == wanted
    assert message.encode() == payload


EMPTY_HEADER = b"\0\x53\x70\x45"


@pytest.mark.parametrize("body", [None, True, 5, 10**12, 2.5, UInt(0), [], UUID(int=3)])
def test_takes_values_of_fixed_width(body: Any) -> None:
    """A body that is null, a number or an empty list is read at once, behind the empty header of qpid-proton too."""
    message = Message.decode(EMPTY_HEADER + Message(body, subject="s").encode())
    assert fast.read_body(message)
    assert fast.read_all(message)
    assert (message.body, message.subject, message.durable) == (body, "s", False)


@pytest.mark.parametrize("body", [Data(b"a", b"b"), AmqpSequence([1], ["x"])])
def test_takes_what_is_beside_several_sections(body: Any) -> None:
    """All but a body of several sections is read at once."""
    message = Message.decode(Message(body, **WHOLE).encode())
    assert fast.read_all(message)
    assert not fast.read_body(message)
    assert message.body == body
    assert message.footer == WHOLE["footer"]


def test_takes_what_was_looked_into() -> None:
    """A look for octets in a section, as a worker has for each message, leaves the message to the compiled reader."""
    message = Message.decode(Message("text", **WHOLE).encode())
    assert may_hold(message, b"x-opt-none") == (True, False)
    assert fast.read_body(message)
    assert fast.read_all(message)
    assert message.replace(delivery_count=None).priority == 9


@pytest.mark.parametrize(
    "body",
    [
        *(
            Data(b"a"),
            Data(b"a", b"b"),
            AmqpValue(b"x"),
            AmqpSequence([1], ["x"]),
            bytearray(b"a"),
            memoryview(b"x" * 300),
        ),
        *(Decimal(1), (1,), Described(ULong(1), 2), Float(0.5), OrderedDict(a=1)),
    ],
)
def test_writes_other_bodies(monkeypatch: pytest.MonkeyPatch, body: Any) -> None:
    """A body that says its form, or is of a rare type, is written by the plain code, and all else at once."""
    made = fast.encode(dict(WHOLE), body)
    monkeypatch.setattr(_message, "fast", None)
    assert made == Message(body, **WHOLE).encode()


RARE: dict[str, Any] = {
    "decimal": Decimal("1.5"),
    "float": Float(0.5),
    "char": Char("c"),
    "described": Described(Symbol("com.microsoft:timespan"), 5),
    "zoned": datetime(2026, 1, 1, tzinfo=ZoneInfo("UTC")),
    "color": Color.RED,
    "octets": bytearray(b"a"),
}


@pytest.mark.parametrize("name", RARE)
def test_takes_rare_properties(name: str) -> None:
    """A property of a rare type is written and read by the plain code for it, and all else at once."""
    payload = fast.encode({"application_properties": {"a": 1, name: RARE[name]}, "creation_time": RARE["zoned"]}, b"")
    message = Message.decode(payload)
    assert fast.read_all(message)
    assert message.application_properties == {"a": 1, name: RARE[name]}
    assert message.creation_time == RARE["zoned"]


def test_takes_annotations_by_number() -> None:
    """Annotations whose keys are numbers are read at once."""
    message = Message.decode(Message(b"", message_annotations={"x-opt-a": 1, 5: "x"}).encode())
    assert fast.read_all(message)
    assert message.message_annotations == {Symbol("x-opt-a"): 1, ULong(5): "x"}


def test_fields_that_change_meanwhile() -> None:
    """Fields that a writer in Python removes are written as they were, and harmless."""

    class Eager(Mapping[str, Any]):
        def __getitem__(self, key: str) -> Any:
            return {"a": 1}[key]

        def __iter__(self) -> Iterator[str]:
            fields.clear()
            return iter(("a",))

        def __len__(self) -> int:
            return 1

    fields: dict[str, Any] = {"message_annotations": {"a": Eager()}, "subject": "s" * 50, "footer": {"b": ["c"]}}
    payload = fast.encode(fields, b"x")
    assert not fields
    assert Message.decode(payload).subject == "s" * 50


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("priority", 256),
        ("priority", True),
        ("durable", 1),
        ("ttl", timedelta(-1)),
        ("ttl", 5),
        ("group_sequence", -1),
        ("message_id", 2**64),
        ("message_id", 0.5),
        ("user_id", "text"),
        ("subject", "\ud800"),
        ("content_type", "é"),
        ("creation_time", datetime(2026, 1, 1)),
        ("message_annotations", {"é": 1}),
        ("message_annotations", {-1: 1}),
        ("message_annotations", 5),
        ("application_properties", {1: 1}),
        ("application_properties", {"a": []}),
        ("application_properties", {"a": {}}),
        ("nothing", 1),
    ],
)
def test_leaves_what_is_wrong(name: str, value: Any) -> None:
    """What cannot be sent is left to the plain code, which says why."""
    assert fast.encode({name: value}, b"x" * 300) is None


def test_fields_are_properties() -> None:
    """The fields of a compiled message are documented, set and not deleted as those of a plain one."""
    kind: Any = Message
    for name in ("subject", "application_properties"):
        assert len(getattr(kind, name).__doc__) > 10
        with pytest.raises(AttributeError):
            delattr(Message(), name)
        with pytest.raises(AttributeError):
            getattr(Message.__new__(Message), name)
        with pytest.raises(TypeError):
            getattr(kind, name).__get__(5, int)
        with pytest.raises(TypeError):
            getattr(kind, name).__set__(5, 5)


def test_sections_by_code() -> None:
    """Where the sections are is told as the plain code wants to know it."""
    message = Message.decode(Message("x", subject="s", footer={"a": 1}).encode())
    assert message.subject == "s"
    places = message._places
    assert places is not None
    assert [code for code, _ in places.items()] == [0x73, 0x77, 0x78]
    assert 0x73 in places
    assert 0x70 not in places
    assert places.get(0x70) is None
    assert places[0x73] == (0, 3, 12)
    for absent in (0x70, 0, 0x79, -5):
        with pytest.raises(KeyError):
            places[absent]


def test_sections_of_any_payload() -> None:
    """Sections are found, or refused in the same words, as without."""
    chance = random.Random(29)
    payload = Message(b"x" * 300, **WHOLE).encode()
    refused = 0
    for _ in range(3_000):
        octets = bytearray(payload)
        for _ in range(chance.randrange(4)):
            octets[chance.randrange(200)] = chance.choice((0, 0x53, 0x73, 0x75, 0xA1, 0xC0, chance.randrange(256)))
        found = outcome(bytes(octets))
        refused += type(found) is str
        with pytest.MonkeyPatch.context() as plain:
            plain.setattr(_section_index, "fast", None)
            assert outcome(bytes(octets)) == found, octets
    assert 100 < refused < 2_500


def outcome(payload: bytes) -> Any:
    try:
        return _section_index.scan(payload)
    except DecodeError as error:
        return str(error)


def test_keeps_nothing() -> None:
    """Reading and writing, regular or not, leave no object behind, and the counts of references as they were."""
    payload = Message({"a": [1, "x"]}, **WHOLE).encode()
    wrong = [payload[:at] + b"\xff" + payload[at + 1 :] for at in range(len(payload))]
    always = (None, True, UTC, UUID, WHOLE["subject"], Message)

    def work() -> None:
        for each in (payload, *wrong):
            message = Message.decode(each)
            try:
                message.check()
                message.encode()
            except DecodeError:
                pass
        for name in WHOLE:
            fast.encode({**WHOLE, name: object()}, b"x" * 300)
        Message(b"x" * 300, **WHOLE).encode()

    for _ in range(5):
        work()
    gc.collect()
    counts = [sys.getrefcount(each) for each in always]
    blocks = sys.getallocatedblocks()
    for _ in range(20):
        work()
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 200
    after = [sys.getrefcount(each) for each in always]
    assert all(abs(one - other) < 50 for one, other in zip(counts, after, strict=True)), (counts, after)
