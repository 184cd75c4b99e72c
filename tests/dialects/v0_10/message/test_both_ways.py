"""Messages of AMQP 1.0 as messages of 0-10 and back: what has a field goes there, and nothing is lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amqp10 import AmqpSequence, AmqpValue, Data, Message
from amqp10.dialects.v0_10.message.from_transfer import read_message
from amqp10.dialects.v0_10.message.header_values import BODY
from amqp10.dialects.v0_10.message.to_transfer import write_message
from amqp10.dialects.v0_10.wire.commands import DeliveryProperties, MessageProperties, ReplyTo
from amqp10.dialects.v0_10.wire.values import Array010, Raw
from amqp10.engine import Address, route_address
from amqp10.errors import DecodeError, EncodeError
from amqp10.testing.strategies import messages
from amqp10.types import Array, Decimal128, Described, Short, Symbol, Timestamp, UInt, ULong

from ....kit.dialects.v0_10.messages import QUEUE, there
from ....kit.inside.engines import PREFIX, REST_HEADER

FIELDS = (
    "durable",
    "priority",
    "ttl",
    "delivery_count",
    "message_id",
    "user_id",
    "subject",
    "reply_to",
    "correlation_id",
    "content_encoding",
    "absolute_expiry_time",
    "creation_time",
    "group_id",
    "group_sequence",
    "reply_to_group_id",
    "application_properties",
    "footer",
)


def back(delivery: DeliveryProperties, properties: MessageProperties, body: bytes) -> Message:
    """Return what is received of that."""
    header = delivery.encode_struct32() + properties.encode_struct32()
    return Message.decode(read_message("", header, body).payload)


def same(one: Any, other: Any) -> bool:
    """Equal in value and type, to the depths."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(map(repr, one)) == list(map(repr, other)) and all(
            same(each, its) for each, its in zip(one.values(), other.values(), strict=True)
        )
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return repr(one) == repr(other)


def as_octets(section: dict[Any, Any]) -> dict[str, bytes]:
    """A section entry by entry, encoded: NaN is not equal to itself."""
    return {repr(key): Message(AmqpValue(value)).encode() for key, value in section.items()}


def plain(body: Any) -> Any:
    return bytes(body) if isinstance(body, Data) else body


@settings(max_examples=3 * settings().max_examples, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(messages())
@pytest.mark.slow
def test_any_message_comes_back(message: Message) -> None:
    """Whatever a message has but delivery-annotations and first-acquirer, which are for one hop, comes back."""
    came = back(*there(message))
    came.check()
    message = Message.decode(message.encode())
    for name in FIELDS:
        ours, theirs = getattr(message, name), getattr(came, name)
        if isinstance(ours, dict):
            assert as_octets(ours) == as_octets(theirs), name
        else:
            assert same(ours, theirs), name
    annotations = {k: v for k, v in came.message_annotations.items() if k not in ("x-exchange", "x-routing-key")}
    kept = {k: v for k, v in message.message_annotations.items() if k not in ("x-exchange", "x-routing-key")}
    assert as_octets(annotations) == as_octets(kept)
    assert came.to == (message.to if message.to is not None else "/queues/q")
    assert Message(came.body).encode() == Message(message.body).encode()
    assert came.content_type == message.content_type


def test_fields() -> None:
    """Each field goes to the one that means the same, as other clients read it."""
    uuid = UUID(int=7)
    moment = datetime(2024, 5, 6, 7, 8, 9, 123000, tzinfo=UTC)
    delivery, properties, body = there(
        Message(
            b"data",
            durable=True,
            priority=7,
            ttl=timedelta(seconds=3),
            message_id=uuid,
            user_id=b"guest",
            subject="s",
            reply_to="/exchanges/amq.direct/r",
            correlation_id="c",
            content_type="image/png",
            content_encoding="gzip",
            absolute_expiry_time=moment,
            creation_time=moment,
            group_id="g",
            group_sequence=5,
            application_properties={"n": 1, "u": Short(2)},
            message_annotations={"x-note": "n"},
        )
    )
    ms = 1_714_979_289_123
    assert delivery == DeliveryProperties(
        priority=7, delivery_mode=2, ttl=3000, routing_key="q", timestamp=ms, expiration=ms
    )
    assert properties == MessageProperties(
        content_length=4,
        message_id=uuid,
        correlation_id=b"c",
        reply_to=ReplyTo("amq.direct", "r"),
        content_type="image/png",
        content_encoding="gzip",
        user_id=b"guest",
        application_headers={
            "x-note": "n",
            "qpid.subject": "s",
            "JMSXGroupID": "g",
            "JMSXGroupSeq": 5,
            "n": 1,
            "u": 2,
        },
    )
    assert body == b"data"


def test_routing() -> None:
    """The address is the routing; without a key in it the subject is; without any address the message says it."""
    assert there(Message(b"x", subject="s"), Address("e", "k"))[0].routing_key == "k"
    delivery, properties, _ = there(Message(b"x", subject="s"), Address("e", None))
    assert (delivery.exchange, delivery.routing_key) == ("e", "s")
    assert properties.application_headers is None
    assert there(Message("x", to="/exchanges/e/k"), None)[0].exchange == "e"
    came = back(*there(Message("x", subject="s"), Address("e", None)))
    assert (came.to, came.subject) == ("/exchanges/e/s", "s")
    assert came.message_annotations == {"x-exchange": "e", "x-routing-key": "s"}
    with pytest.raises(EncodeError, match="has no `to`"):
        write_message(Message("x").encode(), None)
    with pytest.raises(EncodeError, match="is not an address"):
        write_message(Message("x", to="/queues/a/b").encode(), None)
    with pytest.raises(EncodeError, match="255"):
        write_message(Message("x", subject="s" * 256).encode(), Address("e", None))
    with pytest.raises(DecodeError):
        write_message(b"nonsense", QUEUE)


BODIES = [
    ("text", "text/plain", b"text"),
    ({"a": 1}, "amqp/map", bytes.fromhex("00000010000000010161310000000000000001")[:20]),
    ([True], "amqp/list", bytes.fromhex("0000000600000001") + b"\x08\x01"),
    (b"\0\1", None, b"\0\1"),
    (AmqpSequence([1], [2]), "application/vnd.amqp10", None),
    (Symbol("s"), "application/vnd.amqp10", None),
    (None, "application/vnd.amqp10", None),
    ({"s": Symbol("s")}, "application/vnd.amqp10", None),
    (AmqpValue(b"octets"), "application/vnd.amqp10", None),
]


@pytest.mark.parametrize(("body", "content_type", "octets"), BODIES, ids=lambda each: repr(each)[:20])
def test_bodies(body: Any, content_type: str | None, octets: bytes | None) -> None:
    """Text, maps and lists are what every client of 0-10 takes for that; other values are encoded sections."""
    _, properties, sent = there(Message(body))
    assert properties.content_type == content_type
    if octets is not None and content_type != "amqp/map":
        assert sent == octets
    came = back(*there(Message(body)))
    assert same(plain(came.body), plain(body)) or came.body == body


def test_data_that_looks_like_a_value() -> None:
    """Octets stay octets, whatever the user calls them; text with a type of its own stays text."""
    for content_type in ("text/plain", "amqp/map", "amqp/list", "application/vnd.amqp10"):
        came = back(*there(Message(b"\0\0\0\0", content_type=content_type)))
        assert came.body == b"\0\0\0\0"
        assert came.content_type == content_type
    for said in ("application/json", "text/plain", "", None):
        came = back(*there(Message("{}", content_type=said)))
        assert (came.body, came.content_type) == ("{}", said)


def test_nothing_said() -> None:
    """Moments of 0 and empty types are none: so Broker-J says it. Ours say those that were meant."""
    came = back(
        DeliveryProperties(timestamp=0, expiration=0), MessageProperties(content_type="", content_encoding=""), b""
    )
    assert (came.creation_time, came.absolute_expiry_time) == (None, None)
    assert (came.content_type, came.content_encoding) == (None, None)
    began = datetime(1970, 1, 1, tzinfo=UTC)
    meant = Message(b"", creation_time=began, absolute_expiry_time=began, content_type="", content_encoding="")
    came = back(*there(meant))
    assert (came.creation_time, came.absolute_expiry_time) == (began, began)
    assert (came.content_type, came.content_encoding) == ("", "")


def test_from_strangers() -> None:
    """The properties of other 0-10 clients are read: text, maps, times in seconds, and ones that AMQP 1.0 lacks."""
    headers = {"int": UInt(3), "map": {"a": [1, "b"]}, "raw": Raw(0x20, b"1234"), "x-map": {"y": 1}}
    came = back(
        DeliveryProperties(
            exchange="amq.topic",
            routing_key="a.b",
            timestamp=1_700_000_000,
            immediate=True,
            redelivered=True,
            resume_id="r",
            resume_ttl=5,
            ttl=1 << 40,
        ),
        MessageProperties(
            content_type="text/plain", correlation_id=b"\xff", app_id=b"app", application_headers=headers
        ),
        b"hello",
    )
    assert (came.body, came.content_type) == (b"hello", "text/plain")
    assert came.creation_time == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert came.correlation_id == b"\xff"
    assert came.delivery_count == 1
    assert came.ttl is None
    assert came.application_properties == {"int": 3}
    assert came.message_annotations["x-map"] == {"y": 1}
    assert came.to == "/exchanges/amq.topic/a.b"
    # And in 0-10 again it is what it was.
    delivery, properties, body = there(came, Address("amq.topic", "a.b"))
    assert delivery.immediate
    assert (delivery.resume_id, delivery.resume_ttl, delivery.ttl) == ("r", 5, 1 << 40)
    assert properties.app_id == b"app"
    assert properties.content_type == "text/plain"
    assert properties.correlation_id == b"\xff"
    assert properties.application_headers is not None
    assert {name: properties.application_headers[name] for name in headers} == headers
    assert body == b"hello"


def test_bad_headers_of_ours() -> None:
    """Headers that only look like ours do no harm."""
    headers = {
        REST_HEADER: b"nonsense",
        BODY: 5,
        PREFIX + "priority": "high",
        PREFIX + "message-id": [5],
        PREFIX + "creation-time": "now",
        PREFIX + "to": 7,
        "JMSXGroupSeq": -1,
        "JMSXGroupID": 5,
        "qpid.subject": 5,
    }
    came = back(DeliveryProperties(), MessageProperties(content_type="amqp/map", application_headers=headers), b"\0")
    came.check()
    assert came.body == b"\0"
    assert (came.priority, came.message_id, came.creation_time, came.to) == (4, None, None, None)
    came = back(
        DeliveryProperties(),
        MessageProperties(content_type="application/vnd.amqp10", application_headers={}),
        Message("x", subject="not a body").encode(),
    )
    assert isinstance(came.body, bytes)


def test_kinds_without_an_equal() -> None:
    """Symbols, decimal128, described values, fine moments and long texts travel as they were encoded."""
    properties: dict[str, Any] = {
        "symbol": Symbol("s"),
        "decimal": Decimal128("1.5"),
        "moment": datetime(2020, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC),
        "long": "x" * 70_000,
        "x-mine": 1,
        "qpid.subject": "not the subject",
        "k" * 300: True,
    }
    annotations: dict[Any, Any] = {
        Symbol("x-described"): Described(ULong(1), "v"),
        Symbol("x-array"): Array("int", [1, 2]),
        Symbol("other"): 1,
        ULong(5): "number",
    }
    came = back(*there(Message("x", application_properties=properties, message_annotations=annotations)))
    assert came.application_properties == properties
    assert {key: came.message_annotations[key] for key in annotations} == annotations
    assert isinstance(came.application_properties["symbol"], Symbol)
    _, written, _ = there(Message("x", message_annotations=annotations))
    assert written.application_headers is not None
    assert written.application_headers["x-array"] == Array010(0x21, [1, 2])


def test_nested_annotations_at_qpid() -> None:
    """Broker-J has no words for them in 1.0, and would keep the message: they travel as they were encoded."""
    annotations: dict[Any, Any] = {"x-list": [1], "x-map": {"a": 1}, "x-array": Array("int", [1]), "x-text": "t"}
    delivery, properties, body = there(Message(b"x", message_annotations=annotations), to_qpid=True)
    assert sorted(properties.application_headers or {}) == ["x-opt-amqp10", "x-text"]
    came = back(delivery, properties, body).message_annotations
    assert {str(key): came[key] for key in annotations} == annotations


@pytest.mark.parametrize("kind", [str, str.encode])
def test_long_ids(kind: Any) -> None:
    """Ids that no header has room for come back as what they were, text or octets."""
    long = kind("i" * 70_000)
    came = back(*there(Message(b"", message_id=long, correlation_id=long)))
    assert (came.message_id, came.correlation_id) == (long, long)


def test_far_moments() -> None:
    """Moments near 1970 are not taken for seconds, and those beyond all calendars come back."""
    for moment in (datetime(1971, 1, 1, tzinfo=UTC), Timestamp(1 << 60), datetime(1900, 1, 1, tzinfo=UTC)):
        came = back(*there(Message("x", creation_time=moment, absolute_expiry_time=moment)))
        assert came.creation_time == came.absolute_expiry_time == moment


def test_moments_beyond_those_of_1_0() -> None:
    """Headers with seconds that are no milliseconds of 64 bits spoil no message: they wait, and go on as they came."""
    far = Timestamp(2**62 * 1000)
    headers = {"far": far, "x-far": [far], "near": 1}
    came = back(DeliveryProperties(), MessageProperties(application_headers=dict(headers)), b"x")
    assert came.application_properties == {"near": 1}
    _, properties, _ = there(came)
    assert properties.application_headers == headers


@pytest.mark.parametrize(("days", "said"), [(49, True), (50, False)])
def test_an_expiry_far_ahead(days: int, said: bool) -> None:
    """Broker-J shuts down over one that is not within a ttl of 32 bits: it is kept in a header."""
    moment = datetime.now(UTC).replace(microsecond=0) + timedelta(days=days)
    delivery, properties, body = there(Message(b"", absolute_expiry_time=moment), to_qpid=True)
    assert (delivery.expiration is not None) is said
    assert back(delivery, properties, body).absolute_expiry_time == moment


def test_malformed_header() -> None:
    """A header segment that is none is refused."""
    with pytest.raises(DecodeError):
        read_message("", b"\0\0", b"")


def test_unknown_struct() -> None:
    """A struct that nobody here knows is passed over."""
    header = bytes.fromhex("00000004f0f00000") + DeliveryProperties(routing_key="q").encode_struct32()
    assert Message.decode(read_message("", header, b"x").payload).to == "/queues/q"


@given(st.binary(max_size=120), st.binary(max_size=40))
def test_noise(header: bytes, body: bytes) -> None:
    """Whatever comes as a header, the reader says `DecodeError`, or gives a message that says where it came from."""
    try:
        read = read_message("e", header, body)
    except DecodeError:
        return
    message = Message.decode(read.payload)
    message.check()
    said = message.message_annotations
    assert message.to == route_address(said["x-exchange"], said["x-routing-key"])


@pytest.mark.parametrize("headers", [{}, {"qpid.subject": "key"}, {"qpid.subject": "s"}])
def test_a_routing_key_is_no_subject(headers: dict[str, Any]) -> None:
    """A message of an exchange that goes on by another key says no subject if it had none, and the one it had."""
    delivery, properties = DeliveryProperties(exchange="e", routing_key="key"), MessageProperties()
    properties.application_headers = headers
    _, again, _ = there(back(delivery, properties, b"x"), Address("", "other"))
    assert (again.application_headers or {}) == headers


def test_where_a_message_came_from_is_no_address_of_its_sender() -> None:
    """A `to` that says what the annotations say of the way it came is not kept; another is."""
    came = {"x-exchange": "", "x-routing-key": "old"}
    for to, kept in (("/queues/old", False), ("/queues/another", True)):
        _, properties, _ = there(Message(b"x", to=to, message_annotations=came))
        assert ("x-opt-amqp10-to" in (properties.application_headers or {})) is kept
