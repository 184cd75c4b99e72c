"""Messages against python-qpid-proton's: equal in type and value, both ways, on messages that Hypothesis makes.

proton has no footer, shows one section of a body, gives 0 where a number was not set, and cuts text at a
NUL: that much is left out here. What is in maps and bodies crosses node by node, as in `test_codec_proton`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from amqp10.messaging import AmqpSequence, AmqpValue, Data, Message
from amqp10.testing.strategies import amqp_values, bodies, exact, exact_message, messages
from amqp10.types import Timestamp, ULong

proton: Any = pytest.importorskip("proton")
cproton: Any = pytest.importorskip("cproton")

from .test_codec_proton import as_bits, read, twice_described, write  # noqa: E402

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.capability("types")]


# proton knows one descriptor for the elements of an array at most.
VALUES = amqp_values(4, max_descriptors=1).filter(lambda value: not twice_described(exact(value)))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Our name and proton's.
PLAIN = {
    "durable": "durable",
    "priority": "priority",
    "first_acquirer": "first_acquirer",
    "delivery_count": "delivery_count",
    "user_id": "user_id",
    "to": "address",
    "subject": "subject",
    "reply_to": "reply_to",
    "group_id": "group_id",
    "group_sequence": "group_sequence",
    "reply_to_group_id": "reply_to_group_id",
}
# What proton gives where nothing was set, if not None.
UNSET = {"user_id": b"", "group_sequence": 0}
TIMES = [("absolute_expiry_time", "expiry_time"), ("creation_time", "creation_time")]
MAPS = [
    ("delivery_annotations", cproton.pn_message_instructions),
    ("message_annotations", cproton.pn_message_annotations),
    ("application_properties", cproton.pn_message_properties),
]


def form(message: Message) -> dict[str, Any]:
    """All of a message that proton knows too, by AMQP type, with unset as proton has it."""
    exact = {name: as_bits(value) for name, value in exact_message(message).items()}
    fields: dict[str, Any] = {}
    for ours, theirs in PLAIN.items():
        value = getattr(message, ours)
        fields[theirs] = UNSET.get(theirs) if value is None else value
    fields["ttl"] = (message.ttl or timedelta(0)) // timedelta(milliseconds=1)
    for ours, theirs in TIMES:
        fields[theirs] = milliseconds(getattr(message, ours))
    for name in ("content_type", "content_encoding"):
        text = getattr(message, name)
        fields[name] = None if text is None else str(text)
    fields["id"], fields["correlation_id"] = exact["message_id"], exact["correlation_id"]
    fields |= {name: exact[name] for name, _ in MAPS}
    kind, content = exact["body"]
    fields["body"] = kind, content[0] if kind != "amqp-value" else content
    return fields


def milliseconds(moment: datetime | Timestamp | None) -> int:
    if moment is None:
        return 0
    return int(moment) if isinstance(moment, Timestamp) else (moment - EPOCH) // timedelta(milliseconds=1)


def id_of(value: Any) -> tuple[str, Any]:
    """A message-id of proton's, by AMQP type."""
    if isinstance(value, memoryview):
        value = bytes(value)
    names = {int: "ulong", UUID: "uuid", bytes: "binary", str: "string", type(None): "null"}
    return names[type(value)], value


def node(of: Any) -> Any:
    """The value in a Data of a proton message, None where there is none."""
    data = proton.Data(of)
    data.rewind()
    return read(data) if data.next() is not None else None


def by_proton(payload: bytes) -> dict[str, Any]:
    """The message that proton decodes."""
    message = proton.Message()
    message._check(cproton.pn_message_decode(message._msg, payload))
    raw = message._msg
    fields = {name: getattr(message, name) for name in PLAIN.values()}
    fields["user_id"] = bytes(fields["user_id"])
    fields["ttl"] = cproton.pn_message_get_ttl(raw)
    fields["expiry_time"] = cproton.pn_message_get_expiry_time(raw)
    fields["creation_time"] = cproton.pn_message_get_creation_time(raw)
    fields["content_type"] = cproton.pn_message_get_content_type(raw)
    fields["content_encoding"] = cproton.pn_message_get_content_encoding(raw)
    fields["id"], fields["correlation_id"] = id_of(message.id), id_of(message.correlation_id)
    fields |= {name: node(of(raw)) or ("map", ()) for name, of in MAPS}
    body = node(cproton.pn_message_body(raw)) or ("null", None)
    if message.inferred and body[0] == "binary":
        fields["body"] = "data", body[1]
    else:
        fields["body"] = ("amqp-sequence" if message.inferred else "amqp-value"), body
    return fields


def to_proton(message: Message) -> bytes:
    """The message as proton encodes it, set by proton's own attributes."""
    theirs = proton.Message()
    for ours, name in PLAIN.items():
        value = getattr(message, ours)
        if value is not None:
            setattr(theirs, name, value)
    if message.ttl is not None:
        theirs.ttl = Fraction(message.ttl // timedelta(milliseconds=1), 1000)
    for ours, name in TIMES:
        setattr(theirs, name, Fraction(milliseconds(getattr(message, ours)), 1000))
    for ours, name in (("message_id", "id"), ("correlation_id", "correlation_id")):
        value = getattr(message, ours)
        setattr(theirs, name, proton.ulong(value) if isinstance(value, int) else value)
    for name in ("content_type", "content_encoding"):
        value = getattr(message, name)
        if value is not None:
            setattr(theirs, name, str(value))
    expected = form(message)
    for name, of in MAPS:
        if expected[name] != ("map", ()):
            write(proton.Data(of(theirs._msg)), expected[name])
    kind, content = expected["body"]
    theirs.inferred = kind != "amqp-value"
    write(proton.Data(cproton.pn_message_body(theirs._msg)), ("binary", content) if kind == "data" else content)
    size = 1 << 12
    while True:
        status, encoded = cproton.pn_message_encode(theirs._msg, size)
        if status != cproton.PN_OVERFLOW:
            theirs._check(status)
            return bytes(encoded)
        size *= 2


def check(message: Message) -> None:
    """Ours to proton, and proton's to ours."""
    expected = form(message)
    assert by_proton(message.encode()) == expected
    payload = to_proton(message)
    theirs = Message.decode(payload)
    theirs.check()
    assert form(theirs) == expected
    assert theirs.encode() == payload


def checked(strategy: st.SearchStrategy[Message], examples: int) -> None:
    """Check so many examples of five messages each, both ways; shrinking one of these would take minutes."""

    @settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        phases=[Phase.generate],
    )
    @given(st.lists(strategy, min_size=5, max_size=5))
    def each_way(batch: list[Message]) -> None:
        for message in batch:
            check(message)

    each_way()


# Five messages an example: 1,500 encoded by ours and decoded by proton, and as many the other way.


TEXTS = (
    *("message_id", "to", "subject", "reply_to", "correlation_id", "content_type", "content_encoding"),
    *("group_id", "reply_to_group_id"),
)


def shown(message: Message) -> Message:
    """The message as far as proton can show it: no footer, one section of a body, no NUL in C's strings."""
    changes: dict[str, Any] = {"footer": None}
    if isinstance(message.body, Data):
        changes["body"] = message.body.parts[0]
    elif isinstance(message.body, AmqpSequence):
        changes["body"] = AmqpSequence(message.body.parts[0])
    for name in TEXTS:
        text = getattr(message, name)
        if isinstance(text, str):
            changes[name] = type(text)(text.replace("\0", "0"))
    return message.replace(**changes)


def test_messages_cross_both_ways() -> None:
    """500 messages with any fields, any annotations and any body."""
    checked(messages(values=VALUES).map(shown), 100)


def test_bodies_cross_both_ways() -> None:
    """1,000 bodies of each form."""
    checked(bodies(VALUES).map(lambda body: shown(Message(body))), 200)


@pytest.mark.parametrize("identity", [ULong(0), ULong(2**64 - 1), UUID(int=5), b"", b"id", "", "id", None])
def test_ids_cross_both_ways(identity: Any) -> None:
    """A message-id of each of the four types, and none, stays what it is."""
    check(Message("x", message_id=identity, correlation_id=identity))


@pytest.mark.parametrize("size", [0, 255, 256, 70_000])
def test_sizes_cross_both_ways(size: int) -> None:
    """Data and binary values of both widths of the size field."""
    check(Message(b"x" * size))
    check(Message(AmqpValue(b"x" * size)))
    check(Message("x" * size, subject="y" * size))


def test_no_body_is_none() -> None:
    """proton sends a message without body as one without a body section, which reads as None here."""
    message = Message.decode(bytes(proton.Message(subject="s").encode()))
    message.check()
    assert (message.subject, message.body) == ("s", None)
    theirs = proton.Message()
    theirs.decode(Message(None, subject="s").encode())
    assert (theirs.subject, theirs.body) == ("s", None)
