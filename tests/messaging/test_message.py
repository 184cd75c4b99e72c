"""`messaging/_message.py`: fields, bodies, laziness, and what encoding keeps."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10.errors import DecodeError, EncodeError
from amqp10.messaging import AmqpSequence, AmqpValue, Data, Header, Message, MessageFields, Properties
from amqp10.testing.strategies import exact_body, exact_message, messages
from amqp10.types import Array, Described, Symbol, UInt, ULong, encode


def wire(code: int, value: Any) -> bytes:
    return encode(Described(ULong(code), value))


def test_fields_have_the_defaults_of_the_specification() -> None:
    """A message with nothing set says what the specification says of an absent header, and nothing else."""
    message = Message()
    assert (message.durable, message.priority, message.ttl) == (False, 4, None)
    assert (message.first_acquirer, message.delivery_count) == (False, 0)
    for field in Properties.fields:
        assert getattr(message, field.name) is None
    for name in ("delivery_annotations", "message_annotations", "application_properties", "footer"):
        assert getattr(message, name) == {}
    assert message.body is None


def test_none_is_the_default() -> None:
    """A field given as None reads as its default, and is not sent."""
    message = Message(b"x", priority=None, durable=None, subject=None, application_properties=None)
    assert (message.priority, message.durable, message.subject, message.application_properties) == (4, False, None, {})
    assert message.encode() == Message(b"x").encode()


def test_keywords_are_the_fields_of_the_sections() -> None:
    """The typed keywords are exactly the fields declared by the sections, and the four maps."""
    declared = {field.name for section in (Header, Properties) for field in section.fields}
    maps = {"delivery_annotations", "message_annotations", "application_properties", "footer"}
    assert set(MessageFields.__annotations__) == declared | maps


def test_an_unknown_keyword_is_a_type_error() -> None:
    """A misspelled field is refused at construction, and cannot be set later."""
    with pytest.raises(TypeError, match="subjekt"):
        Message(b"", subjekt="x")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="subjekt"):
        Message(b"").replace(subjekt="x")  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        Message(b"").subjekt = "x"  # type: ignore[attr-defined]


@settings(deadline=None)
@given(messages())
def test_round_trip_keeps_values_and_types(message: Message) -> None:
    """What is encoded and decoded is equal, to the AMQP type of every value in it."""
    decoded = Message.decode(message.encode())
    decoded.check()
    assert exact_message(decoded) == exact_message(message)


@settings(deadline=None)
@given(messages())
def test_decoding_and_encoding_keeps_the_octets(message: Message) -> None:
    """A decoded message encodes to the payload it came from, whether or not it was read."""
    payload = message.encode()
    decoded = Message.decode(payload)
    assert decoded.encode() == payload
    decoded.check()
    assert decoded.encode() == payload
    repr(decoded)
    assert decoded.encode() == payload
    assert decoded.replace().encode() == payload


@settings(deadline=None)
@given(messages(), messages())
def test_a_change_leaves_the_other_sections(message: Message, other: Message) -> None:
    """Setting fields of a decoded message gives what the message would have been with them."""
    for name in ("subject", "ttl", "application_properties", "footer", "body"):
        expected = exact_message(message)
        decoded = Message.decode(message.encode())
        setattr(decoded, name, getattr(other, name))
        expected[name] = exact_message(other)[name]
        assert exact_message(Message.decode(decoded.encode())) == expected
        assert exact_message(decoded) == expected


def test_sections_that_are_not_changed_keep_encodings_that_are_not_ours() -> None:
    """Of a message in wide encodings only the section that was changed is written anew."""
    properties = b"\0\x80" + (0x73).to_bytes(8, "big") + b"\xd0\0\0\0\x0a\0\0\0\x01\xb1\0\0\0\x01i"
    application = b"\0\x53\x74\xd1\0\0\0\x09\0\0\0\x02\xa1\x01k\x55\x07"
    body = b"\0\xa3\x10amqp:data:binary\xb0\0\0\0\x02hi"
    message = Message.decode(properties + application + body)
    message.check()
    assert (message.message_id, message.application_properties, message.body) == ("i", {"k": 7}, b"hi")
    assert message.encode() == properties + application + body
    message.subject = "s"
    assert message.encode() == wire(0x73, ["i", None, None, "s"]) + application + body
    message.application_properties["k"] = 8
    assert message.encode().endswith(wire(0x74, {"k": 8}) + body)
    message.body = b"ho"
    assert message.encode().endswith(wire(0x75, b"ho"))


def test_a_change_within_a_body_is_seen() -> None:
    """A list that was read from a payload and then changed is encoded as it is now."""
    message = Message.decode(Message([1, 2]).encode())
    message.body.append(3)
    assert Message.decode(message.encode()).body == [1, 2, 3]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", wire(0x75, b"")),
        (b"x" * 255, wire(0x75, b"x" * 255)),
        (b"x" * 256, wire(0x75, b"x" * 256)),
        (bytearray(b"ab"), wire(0x75, b"ab")),
        (memoryview(b"abcd")[::2], wire(0x75, b"ac")),
        (Data(b"a"), wire(0x75, b"a")),
        (Data(b"a", b"b"), wire(0x75, b"a") + wire(0x75, b"b")),
        (AmqpSequence([1], ("a",)), wire(0x76, [1]) + wire(0x76, ["a"])),
        (AmqpValue(b"a"), wire(0x77, b"a")),
        (AmqpValue("a"), wire(0x77, "a")),
        (None, wire(0x77, None)),
        ("text", wire(0x77, "text")),
        (UInt(5), wire(0x77, UInt(5))),
        ([1, "a"], wire(0x77, [1, "a"])),
        ({"a": 1}, wire(0x77, {"a": 1})),
        (Array("int", [1]), wire(0x77, Array("int", [1]))),
        (Described(Symbol("x:y"), 1), wire(0x77, Described(Symbol("x:y"), 1))),
    ],
)
def test_bodies_become_their_sections(body: Any, expected: bytes) -> None:
    """Bytes make a data section, the explicit classes theirs, everything else an amqp-value."""
    assert Message(body).encode() == expected
    assert Message(body, footer={"f": 1}).encode() == expected + wire(0x78, {Symbol("f"): 1})
    decoded = Message.decode(expected)
    assert Message(decoded.body).encode() == expected
    assert exact_body(decoded.body)[0] == exact_body(Message.decode(Message(body, subject="s").encode()).body)[0]


@pytest.mark.parametrize("size", [0, 1, 255, 256, 70_000])
def test_one_data_section_is_bytes(size: int) -> None:
    """A data section alone gives its bytes, at every size of the size field."""
    body = b"\xa5" * size
    message = Message.decode(Message(body).encode())
    message.check()
    assert message.body == body
    assert type(message.body) is bytes
    assert message.encode() == Message(body).encode()


def test_a_message_is_read_section_by_section() -> None:
    """A broken section raises when it is asked for, not before; the others stay readable."""
    payload = wire(0x70, [True]) + b"\0\x53\x73\xc0\x02\x01\xff" + wire(0x74, {"a": 1}) + wire(0x77, "body")
    message = Message.decode(payload)
    assert (message.durable, message.application_properties, message.body) == (True, {"a": 1}, "body")
    with pytest.raises(DecodeError):
        _ = message.subject
    with pytest.raises(DecodeError):
        message.check()
    assert "cannot be decoded" in repr(message)
    assert message.encode() == payload


def test_nothing_is_read_before_it_is_asked_for() -> None:
    """Decoding garbage raises nothing until a field or the body is used."""
    message = Message.decode(b"garbage")
    with pytest.raises(DecodeError):
        _ = message.subject
    with pytest.raises(DecodeError):
        _ = message.body
    with pytest.raises(DecodeError):
        message.check()


def test_other_buffers_are_copied() -> None:
    """A bytearray may be decoded, and changed afterwards without harm."""
    buffer = bytearray(Message(b"abc").encode())
    message = Message.decode(buffer)  # type: ignore[arg-type]
    buffer[-1] = 0
    assert message.body == b"abc"


_KINDS: dict[str, tuple[list[Any], list[Any]]] = {
    "durable": ([True], [1, "yes"]),
    "priority": ([0, 255, UInt(7)], [-1, 256, "4", True, 4.0]),
    "ttl": ([timedelta(0), timedelta(days=49)], [timedelta(days=50), timedelta(seconds=-1), 5, 5.0]),
    "first_acquirer": ([True], [0, "no"]),
    "delivery_count": ([1, 0xFFFF_FFFF], [-1, 1 << 32, "1"]),
    "message_id": ([7, ULong(7), "id", b"id", UUID(int=1)], [-1, 1 << 64, UInt(7), True, 1.5, Symbol("a"), ["a"]]),
    "user_id": ([b"me", bytearray(b"me")], ["me", 1]),
    "to": (["queue"], [b"queue", 1]),
    "subject": (["s"], [b"s", 1]),
    "reply_to": (["queue"], [b"queue", 1]),
    "correlation_id": ([7, "id", b"id", UUID(int=1)], [-1, UInt(7), None, 1.5]),
    "content_type": (["text/plain", Symbol("a/b")], ["é", b"a/b", 1]),
    "content_encoding": (["gzip"], ["é", 1]),
    "absolute_expiry_time": ([datetime(2020, 1, 1, tzinfo=UTC)], [datetime(2020, 1, 1), 5, "2020"]),
    "creation_time": ([datetime(2020, 1, 1, tzinfo=UTC)], [datetime(2020, 1, 1), 5.0]),
    "group_id": (["g"], [1]),
    "group_sequence": ([0xFFFF_FFFF], [-1, 1 << 32, "1", True]),
    "reply_to_group_id": (["g"], [1]),
    "application_properties": ([{"a": None}, {"a": Symbol("s")}], [{"a": []}, {"a": {}}, {1: 1}, {Symbol("a"): 1}, 5]),
    "delivery_annotations": ([{"a": 1}, {Symbol("a"): [1]}, {ULong(1): {}}, {1: 1}], [{1.5: 1}, {b"a": 1}, {"é": 1}]),
    "message_annotations": ([{"a": 1}], [{UInt(1): 1}, {"a": object()}, [("a", 1)]]),
    "footer": ([{"a": b"hash"}], [{None: 1}, "footer"]),
}


@pytest.mark.parametrize("name", MessageFields.__annotations__)
def test_a_wrong_field_is_named(name: str) -> None:
    """Every field takes its types, and names itself in the EncodeError for a value that is not of them."""
    good, bad = _KINDS[name]
    for value in good:
        message = Message(b"", **{name: value})
        read = getattr(Message.decode(message.encode()), name)
        assert read == value
        assert type(read) is not ULong or name.endswith("_id")
    for value in bad:
        if value is not None:
            with pytest.raises(EncodeError, match=name):
                Message(b"", **{name: value}).encode()
            decoded = Message.decode(Message(b"").encode())
            setattr(decoded, name, value)
            with pytest.raises(EncodeError, match=name):
                decoded.encode()


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (Message({"x": [1, 2, 3, {4}]}), "body['x'][3]: a set"),
        (Message({4}), "body: a set"),
        (Message(AmqpValue([{4}])), "body[0]: a set"),
        (Message(AmqpSequence([1], [2, {4}])), "body[1][1]: a set"),
        (Message(b"", message_annotations={"a": [{"b": {4}}]}), "message_annotations['a'][0]['b']: a set"),
        (Message(b"", application_properties={"a": [{4}]}), "application_properties['a']: "),
        (Message({"x": {4}}, footer={"f": 1}), "body['x']: a set"),
    ],
)
def test_the_place_of_a_fault_is_said(message: Message, said: str) -> None:
    """Of a value within others that has no AMQP type, in each part of a message, also of one that was decoded."""
    with pytest.raises(EncodeError) as caught:
        message.encode()
    assert str(caught.value).startswith(said)
    decoded = Message.decode(Message(b"before").encode())
    decoded.body, decoded.footer = message.body, message.footer
    decoded.message_annotations = message.message_annotations
    decoded.application_properties = message.application_properties
    with pytest.raises(EncodeError) as caught:
        decoded.encode()
    assert str(caught.value).startswith(said)


def test_a_body_without_encoding_is_an_encode_error() -> None:
    """An object that is no AMQP value, and a list that contains itself, are refused."""
    with pytest.raises(EncodeError):
        Message(object()).encode()
    loop: list[Any] = []
    loop.append(loop)
    for message in (Message(loop), Message(b"", message_annotations={"a": loop})):
        with pytest.raises(EncodeError):
            message.encode()
    with pytest.raises(EncodeError):
        Message.decode(Message(b"").encode()).replace(body=loop).encode()


def test_time_to_live_is_rounded_up() -> None:
    """What is finer than a millisecond makes one more, so that a message that lives is never sent as dead."""
    message = Message.decode(Message(b"", ttl=timedelta(microseconds=1)).encode())
    assert message.ttl == timedelta(milliseconds=1)
    message = Message.decode(Message(b"", ttl=timedelta(0)).encode())
    assert message.ttl == timedelta(0)


def test_keys_of_annotations_become_symbols() -> None:
    """Text keys are sent as symbols, and found by text when they come back; numbers are sent as ulongs."""
    message = Message.decode(Message(b"", message_annotations={"x-opt-a": 1, 7: 2}).encode())
    assert [type(key) for key in message.message_annotations] == [Symbol, ULong]
    assert message.message_annotations["x-opt-a"] == 1
    assert message.message_annotations[7] == 2


def test_map_fields_are_dicts_that_may_be_filled() -> None:
    """An absent section reads as an empty dict that is sent once it has something."""
    for message in (Message(b""), Message.decode(Message(b"").encode())):
        message.application_properties["a"] = 1
        assert Message.decode(message.encode()).application_properties == {"a": 1}
        message.application_properties.clear()
        assert message.encode() == Message(b"").encode()


def test_replace_leaves_the_original_alone() -> None:
    """A copy with changes has its own dicts, and drops what is replaced by None."""
    original = Message("a", subject="s", priority=9, application_properties={"n": 1})
    for message in (original, Message.decode(original.encode())):
        changed = message.replace(body="b", subject=None, to="q")
        changed.application_properties["n"] = 2
        assert (changed.body, changed.subject, changed.to, changed.priority) == ("b", None, "q", 9)
        assert Message.decode(changed.encode()) == changed
        assert message == original
        assert message.application_properties == {"n": 1}


def test_messages_are_equal_by_value() -> None:
    """Defaults, explicit bodies, and where the message came from make no difference; fields and bodies do."""
    assert Message(b"a", priority=4) == Message(Data(b"a"))
    assert Message(AmqpValue("a")) == Message("a")
    assert Message(b"a") != Message(AmqpValue(b"a"))
    assert Message(b"a") != Message(b"a", subject="s")
    assert Message(b"a") != b"a"
    assert Message.decode(Message("x", subject="s", footer={"f": 1}).encode()) == Message(
        "x", subject="s", footer={"f": 1}
    )
    with pytest.raises(TypeError):
        hash(Message())


@settings(deadline=None, max_examples=min(30, settings().max_examples))
@given(messages())
def test_copies_and_pickles_are_equal(message: Message) -> None:
    """Messages can cross process borders and be copied."""
    expected = exact_message(message)
    assert exact_message(pickle.loads(pickle.dumps(message))) == expected
    assert exact_message(copy.deepcopy(message)) == expected


def test_repr_is_short() -> None:
    """The representation names what is set, and cuts long bodies and values."""
    assert repr(Message("hello", subject="greeting")) == "Message('hello', subject='greeting')"
    assert len(repr(Message(b"x" * 1_000_000, to="y" * 1_000_000, footer={"f": "z" * 10_000}))) < 700


@settings(deadline=None, max_examples=3 * settings().max_examples)
@given(messages(), st.data())
def test_mutated_payloads_raise_nothing_but_decode_errors(message: Message, data: st.DataObject) -> None:
    """Whatever is done to the octets, reading all of the message ends well or in DecodeError."""
    payload = bytearray(message.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(payload)))
        match data.draw(st.sampled_from(["set", "cut", "insert", "end"])):
            case "set":
                payload[at : at + 1] = bytes(
                    [data.draw(st.sampled_from([*range(0x40, 0x90), *range(0xA0, 256), 0, 1]))]
                )
            case "cut":
                del payload[at : at + data.draw(st.integers(1, 8))]
            case "insert":
                payload[at:at] = data.draw(st.binary(max_size=8))
            case "end":
                del payload[at:]
    read_all(bytes(payload))


@settings(deadline=None, max_examples=3 * settings().max_examples)
@given(st.lists(st.sampled_from([*range(0x70, 0x79)]), max_size=4), st.binary(max_size=30))
def test_garbage_raises_nothing_but_decode_errors(codes: list[int], garbage: bytes) -> None:
    """Sections of garbage end in DecodeError too."""
    read_all(b"".join(b"\0\x53" + bytes([code]) + garbage for code in codes) + garbage)


def read_all(payload: bytes) -> None:
    message = Message.decode(payload)
    readable = True
    for name in (*MessageFields.__annotations__, "body"):
        try:
            getattr(message, name)
        except DecodeError:
            readable = False
    repr(message)
    assert message.encode() == payload
    if readable:
        message.check()
        Message(message.body, **{name: getattr(message, name) for name in MessageFields.__annotations__}).encode()
    else:
        with pytest.raises(DecodeError):
            message.check()
