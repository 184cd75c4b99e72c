"""The message format (§3.2): sections, their order, their fields and types, octet by octet."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from amqp10.errors import DecodeError, EncodeError
from amqp10.messaging import AmqpSequence, AmqpValue, Data, Message, patch_header
from amqp10.types import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Short,
    Symbol,
    UByte,
    UInt,
    ULong,
    UShort,
    decode_from,
    encode,
)

from ..kit.inside.broker import QueuedMessage


def section(code: int, value: Any) -> bytes:
    """One section, its descriptor the smallest ulong."""
    return encode(Described(ULong(code), value))


HEADER = section(0x70, [True])
DELIVERY_ANNOTATIONS = section(0x71, {Symbol("d"): 1})
MESSAGE_ANNOTATIONS = section(0x72, {Symbol("m"): 1})
PROPERTIES = section(0x73, ["id"])
APPLICATION_PROPERTIES = section(0x74, {"a": 1})
DATA = section(0x75, b"data")
SEQUENCE = section(0x76, [1])
VALUE = section(0x77, "value")
FOOTER = section(0x78, {Symbol("f"): 1})
HEAD = [HEADER, DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS, PROPERTIES, APPLICATION_PROPERTIES]


def refused(payload: bytes) -> None:
    with pytest.raises(DecodeError):
        Message.decode(payload).check()


def sections_of(payload: bytes) -> list[Described]:
    found, at = [], 0
    while at < len(payload):
        value, at = decode_from(payload, at)
        found.append(value)
    return found


@pytest.mark.spec("3.2", "a message is its sections in the order of the specification")
def test_order_of_what_is_sent() -> None:
    """Whatever the order of the arguments, the sections come in theirs."""
    message = Message(
        "value",
        footer={"f": 1},
        application_properties={"a": 1},
        message_id="id",
        message_annotations={"m": 1},
        delivery_annotations={"d": 1},
        durable=True,
    )
    assert message.encode() == b"".join([*HEAD, VALUE, FOOTER])


@pytest.mark.spec("3.2", "sections out of order are malformed")
def test_order_of_what_is_received() -> None:
    """Any two sections in the wrong order are refused."""
    for body in (DATA, SEQUENCE, VALUE):
        sections = [*HEAD, body, FOOTER]
        Message.decode(b"".join(sections)).check()
        for i in range(len(sections)):
            for j in range(i + 1, len(sections)):
                swapped = list(sections)
                swapped[i], swapped[j] = sections[j], sections[i]
                refused(b"".join(swapped))


@pytest.mark.spec("3.2", "every section but the body occurs at most once")
def test_every_section_may_be_absent_but_not_twice() -> None:
    """Each section may be left out, and none but data and amqp-sequence may be repeated."""
    sections = [*HEAD, VALUE, FOOTER]
    for i in range(len(sections)):
        refused(b"".join([*sections[: i + 1], *sections[i:]]))
        if sections[i] != VALUE:
            Message.decode(b"".join(sections[:i] + sections[i + 1 :])).check()


@pytest.mark.spec("3.2", "the body is data sections, amqp-sequence sections, or one amqp-value section")
def test_bodies_are_of_one_kind() -> None:
    """One or more of data or of amqp-sequence, or a single amqp-value, and no mixture."""
    assert Message.decode(DATA + DATA).body == Data(b"data", b"data")
    assert Message.decode(SEQUENCE + SEQUENCE).body == AmqpSequence([1], [1])
    refused(VALUE + VALUE)
    for one in (DATA, SEQUENCE, VALUE):
        for other in (DATA, SEQUENCE, VALUE):
            if one != other:
                refused(one + other)


@pytest.mark.spec("3.2", "a message has only sections")
def test_other_values_are_no_sections() -> None:
    """Plain values and other described values have no place beside or in place of a section."""
    for stray in (encode("x"), section(0x24, []), section(0x79, []), b"\0", encode(Described(Symbol("x:y"), 1))):
        refused(stray)
        refused(HEADER + stray + VALUE)
        refused(VALUE + stray)
    refused(b"")


@pytest.mark.spec("3.2", "a section may be described by its symbol")
def test_symbolic_descriptors() -> None:
    """The sections are known by either descriptor."""
    symbols = {
        "amqp:header:list": [True],
        "amqp:delivery-annotations:map": {Symbol("d"): 1},
        "amqp:message-annotations:map": {Symbol("m"): 1},
        "amqp:properties:list": ["id"],
        "amqp:application-properties:map": {"a": 1},
        "amqp:amqp-value:*": "value",
        "amqp:footer:map": {Symbol("f"): 1},
    }
    payload = b"".join(encode(Described(Symbol(name), value)) for name, value in symbols.items())
    assert Message.decode(payload) == Message.decode(b"".join([*HEAD, VALUE, FOOTER]))
    assert Message.decode(encode(Described(Symbol("amqp:data:binary"), b"data"))).body == b"data"
    assert Message.decode(encode(Described(Symbol("amqp:amqp-sequence:list"), [1]))).body == AmqpSequence([1])


@pytest.mark.spec("3.2", "the bare message is immutable between sender and receiver")
def test_the_bare_message_survives_an_intermediary() -> None:
    """Changing header and annotations leaves every octet of the bare message and the footer."""
    wide = b"\0\x80\0\0\0\0\0\0\0\x73\xd0\0\0\0\x0a\0\0\0\x01\xb1\0\0\0\x01i"
    bare = wide + APPLICATION_PROPERTIES + b"\0\x53\x75\xb0\0\0\0\x01x"
    for head in (b"", HEADER, HEADER + DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS):
        changed = patch_header(head + bare + FOOTER, delivery_count=1, message_annotations={"x-opt-seen": 1})
        assert changed.endswith(bare + FOOTER)
        assert Message.decode(changed).delivery_count == 1


# The header


@pytest.mark.spec("3.2.1", "the fields of the header, in order")
def test_header_fields() -> None:
    """Durable, priority, ttl in milliseconds, first-acquirer, delivery-count."""
    message = Message(b"", durable=True, priority=9, ttl=timedelta(seconds=60), first_acquirer=True, delivery_count=3)
    payload = section(0x70, [True, UByte(9), UInt(60_000), True, UInt(3)]) + section(0x75, b"")
    assert message.encode() == payload
    assert Message.decode(payload) == message


@pytest.mark.spec("3.2.1", "a field or header that is absent has the default: not durable, priority 4, count 0")
@pytest.mark.parametrize("head", [b"", section(0x70, []), section(0x70, [None] * 5), section(0x70, [None, None])])
def test_header_defaults(head: bytes) -> None:
    """No header, an empty one, and one of nulls say the same."""
    message = Message.decode(head + DATA)
    assert (message.durable, message.priority, message.ttl) == (False, 4, None)
    assert (message.first_acquirer, message.delivery_count) == (False, 0)


@pytest.mark.spec("3.2.1", "a header with defaults only need not be sent")
def test_defaults_are_not_sent() -> None:
    """Setting defaults makes no header."""
    message = Message(b"data", durable=False, priority=4, ttl=None, first_acquirer=False, delivery_count=0)
    assert message.encode() == DATA


@pytest.mark.spec("3.2.1", "the types of the header's fields")
@pytest.mark.parametrize(
    "fields",
    [
        [1],
        [None, UInt(4)],
        [None, None, 60_000],
        [None, None, None, "yes"],
        [None, None, None, None, ULong(1)],
        [None] * 6,
        {},
    ],
)
def test_header_types(fields: Any) -> None:
    """A field of another type, a field too many, and something that is no list are refused."""
    refused(section(0x70, fields) + DATA)


# Annotations and footer

ANNOTATED = [
    pytest.param(0x71, "delivery_annotations", marks=pytest.mark.spec("3.2.2", "delivery-annotations are annotations")),
    pytest.param(0x72, "message_annotations", marks=pytest.mark.spec("3.2.3", "message-annotations are annotations")),
    pytest.param(0x78, "footer", marks=pytest.mark.spec("3.2.9", "the footer is annotations")),
]


@pytest.mark.spec("3.2.10", "keys of annotations are symbols or ulongs, values anything")
@pytest.mark.parametrize(("code", "name"), ANNOTATED)
def test_annotations(code: int, name: str) -> None:
    """Both kinds of keys cross, with values of any type, and other keys are refused both ways."""
    entries: Any = {Symbol("x-opt-a"): [1, {"b": None}], ULong(7): Described(Symbol("x:y"), 1)}
    parts = [section(code, entries), DATA] if code < 0x75 else [DATA, section(code, entries)]
    message = Message(b"data", **{name: entries})
    assert message.encode() == b"".join(parts)
    assert getattr(Message.decode(message.encode()), name) == entries
    keys: list[Any] = ["text", UInt(1), 1, None, True, b"a"]
    for key in keys:
        parts = [section(code, {key: 1}), DATA] if code < 0x75 else [DATA, section(code, {key: 1})]
        refused(b"".join(parts))
    fields: list[dict[str, Any]] = [{name: {key: 1}} for key in (1.5, b"a", UInt(1), True)]
    for field in fields:
        with pytest.raises(EncodeError, match=name):
            Message(b"data", **field).encode()
    values: list[Any] = [[], None, "x"]
    for wrong in values:
        parts = [section(code, wrong), DATA] if code < 0x75 else [DATA, section(code, wrong)]
        refused(b"".join(parts))


@pytest.mark.spec("3.2.10", "a map with the same key twice is invalid (§1.6.23)")
def test_annotations_have_each_key_once() -> None:
    """Two equal keys in a map of annotations are refused."""
    refused(b"\0\x53\x72\xc1\x0b\x04\xa3\x01a\x55\x01\xa3\x01a\x55\x02" + DATA)


# Properties


@pytest.mark.spec("3.2.4", "the fields of the properties, in order")
def test_properties_fields() -> None:
    """All thirteen, of the types that the specification gives them."""
    moment = datetime(2024, 2, 29, 12, 0, 0, 250_000, tzinfo=UTC)
    message = Message(
        b"data",
        message_id="id",
        user_id=b"me",
        to="there",
        subject="about",
        reply_to="here",
        correlation_id=7,
        content_type="text/plain",
        content_encoding="gzip",
        absolute_expiry_time=moment,
        creation_time=moment,
        group_id="group",
        group_sequence=0xFFFF_FFFF,
        reply_to_group_id="replies",
    )
    values = ["id", b"me", "there", "about", "here", ULong(7), Symbol("text/plain"), Symbol("gzip"), moment, moment]
    payload = section(0x73, [*values, "group", UInt(0xFFFF_FFFF), "replies"]) + DATA
    assert message.encode() == payload
    assert Message.decode(payload) == message


@pytest.mark.spec("3.2.4", "the types of the properties' fields")
@pytest.mark.parametrize(
    ("index", "wrong"),
    [
        *((0, value) for value in (UInt(1), 1, Symbol("a"), True, [1])),
        (1, "me"),
        *((2, value) for value in (Symbol("q"), b"q", 1)),
        (3, Symbol("s")),
        (4, b"q"),
        (5, Int(1)),
        (6, "text/plain"),
        (7, "gzip"),
        (8, ULong(1)),
        (9, 1),
        (10, b"g"),
        (11, ULong(1)),
        (12, Symbol("g")),
        (13, None),
    ],
)
def test_properties_types(index: int, wrong: Any) -> None:
    """A field of another type, and a fourteenth field, are refused."""
    refused(section(0x73, [None] * index + [wrong]) + DATA)


@pytest.mark.parametrize(
    ("identity", "wire"),
    [
        pytest.param(7, ULong(7), marks=pytest.mark.spec("3.2.11", "message-id-ulong")),
        pytest.param(ULong(2**64 - 1), ULong(2**64 - 1), marks=pytest.mark.spec("3.2.11", "message-id-ulong")),
        pytest.param(UUID(int=5), UUID(int=5), marks=pytest.mark.spec("3.2.12", "message-id-uuid")),
        pytest.param(b"id", b"id", marks=pytest.mark.spec("3.2.13", "message-id-binary")),
        pytest.param("id", "id", marks=pytest.mark.spec("3.2.14", "message-id-string")),
    ],
)
def test_message_ids(identity: Any, wire: Any) -> None:
    """Each of the four kinds crosses as what it is, as message-id and as correlation-id."""
    payload = section(0x73, [wire, None, None, None, None, wire]) + DATA
    assert Message(b"data", message_id=identity, correlation_id=identity).encode() == payload
    message = Message.decode(payload)
    assert (message.message_id, message.correlation_id) == (identity, identity)
    assert type(message.message_id) is type(wire)


@pytest.mark.spec("3.2.15", "an address is a string")
def test_addresses() -> None:
    """`to` and `reply_to` are strings on the wire."""
    assert Message(b"data", to="q", reply_to="r").encode() == section(0x73, [None, None, "q", None, "r"]) + DATA


# Application properties


SIMPLE: list[Any] = [
    *(None, True, False, UByte(1), UShort(1), UInt(1), ULong(1), Byte(-1), Short(-1), Int(-1), -1, Float(1.5), 1.5),
    *(Decimal32("1.5"), Decimal64("1.5"), Decimal128("1.5"), Char("x"), datetime(2024, 1, 1, tzinfo=UTC), UUID(int=1)),
    *(b"binary", "string", Symbol("symbol")),
    # Restricted types with a simple source, such as durations, times and URIs of Azure's SDKs
    *(Described(Symbol("com.microsoft:timespan"), 54_000_000_000), Described(ULong(7), "text")),
]


COMPOUND: list[Any] = [[], [1], (), {}, Array("int", [1])]


@pytest.mark.spec("3.2.5", "keys are strings, values of simple types")
@pytest.mark.parametrize("value", SIMPLE, ids=lambda value: type(value).__name__)
def test_simple_application_properties(value: Any) -> None:
    """Every simple type crosses and stays that type."""
    message = Message.decode(Message(b"", application_properties={"key": value}).encode())
    assert message.application_properties == {"key": value}
    assert type(message.application_properties["key"]) is type(value)


@pytest.mark.spec("3.2.5", "excluding map, list, and array types")
@pytest.mark.parametrize("value", [*COMPOUND, Described(Symbol("a"), [1]), Described(Symbol("a"), SIMPLE[-1])])
def test_compound_application_properties(value: Any) -> None:
    """Values that contain others are refused both ways."""
    with pytest.raises(EncodeError, match="application_properties"):
        Message(b"", application_properties={"key": value}).encode()
    refused(section(0x74, {"key": value}) + DATA)


@pytest.mark.spec("3.2.5", "the keys of this map are restricted to be of type string")
@pytest.mark.parametrize("key", [Symbol("a"), 1, ULong(1), b"a", None])
def test_keys_of_application_properties(key: Any) -> None:
    """Other keys, null among them, are refused both ways."""
    with pytest.raises(EncodeError, match="application_properties"):
        Message(b"", application_properties={key: 1}).encode()
    refused(section(0x74, {key: 1}) + DATA)


# The body


@pytest.mark.spec("3.2.6", "a data section is binary")
def test_data() -> None:
    """Both widths of binary are data, and nothing else is."""
    assert Message.decode(b"\0\x53\x75\xa0\x02hi").body == b"hi"
    assert Message.decode(b"\0\x53\x75\xb0\0\0\0\x02hi").body == b"hi"
    for wrong in ("text", None, [b"data"], Symbol("s")):
        refused(section(0x75, wrong))


@pytest.mark.spec("3.2.7", "an amqp-sequence section is a list")
def test_sequences() -> None:
    """All encodings of list are a sequence, the empty one too, and an array is none."""
    assert Message.decode(b"\0\x53\x76\x45").body == AmqpSequence([])
    assert Message.decode(b"\0\x53\x76\xc0\x03\x01\x55\x07").body == AmqpSequence([7])
    assert Message.decode(b"\0\x53\x76\xd0\0\0\0\x06\0\0\0\x01\x55\x07").body == AmqpSequence([7])
    values: list[Any] = [b"data", None, {}, Array("int", [1])]
    for wrong in values:
        refused(section(0x76, wrong))


@pytest.mark.spec("3.2.8", "an amqp-value section is any value")
@pytest.mark.parametrize(
    "value",
    [*SIMPLE, [1], {"a": 1}, Array("int", [Int(1)]), Described(ULong(0x70), [])],
    ids=lambda v: type(v).__name__,
)
def test_values(value: Any) -> None:
    """A value of every type crosses as that type; binary says that it is a value."""
    message = Message.decode(section(0x77, value))
    message.check()
    body = message.body.value if isinstance(value, bytes) else message.body
    assert isinstance(message.body, AmqpValue) == isinstance(value, bytes)
    assert body == value
    assert type(body) is type(value)
    assert Message(message.body).encode() == section(0x77, value)


@pytest.mark.deviation(
    "3.2",
    "a message without a body section is accepted; its body reads as None, and the broker passes it on unchanged",
    "qpid-proton, AMQP.Net Lite and Azure Service Bus send such messages for an empty body",
)
def test_no_body() -> None:
    """Each message that is sent from here has a body section. An empty payload is still refused."""
    for payload in (HEADER, PROPERTIES, HEADER + PROPERTIES, FOOTER):
        message = Message.decode(payload)
        message.check()
        assert message.body is None
        assert QueuedMessage.read(payload, 0, 0.0).outgoing(0.0) == payload
    assert section(0x77, None) in Message(subject="x").encode()
    refused(b"")
    with pytest.raises(DecodeError, match="an empty payload is not a message"):
        QueuedMessage.read(b"", 0, 0.0)


@pytest.mark.deviation(
    "3.2.10",
    'unknown annotations do not end the link with not-implemented, even if they do not begin with "x-opt-"',
    "RabbitMQ's x-exchange and x-death are such annotations, and applications may agree on others",
)
@pytest.mark.parametrize("key", [Symbol("x-opt-a"), Symbol("x-a"), Symbol("a"), ULong(7)])
def test_annotations_that_are_not_understood(key: Symbol | ULong) -> None:
    """The broker passes them on, and who receives them finds them in the message."""
    payload = Message(b"", message_annotations={key: 1}).encode()
    assert QueuedMessage.read(payload, 0, 0.0).outgoing(0.0) == payload
    assert Message.decode(payload).message_annotations == {key: 1}


@pytest.mark.deviation(
    "3.2",
    "the broker passes on sections in a wrong order after those it reads; the receiver gets an error",
    "it does not read bodies, which are between sender and receiver",
)
def test_the_broker_reads_no_bodies() -> None:
    """The client does, and finds it."""
    payload = VALUE + HEADER
    assert QueuedMessage.read(payload, 0, 0.0).outgoing(0.0) == payload
    refused(payload)
