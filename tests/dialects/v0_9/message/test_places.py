"""Messages to and from the basic class: every field of 1.0 comes back, and every property of 0-9-1."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10.dialects.v0_9.message.from_basic import FromBasic, incoming_head
from amqp10.dialects.v0_9.message.places import NATIVE_ANNOTATION, RESERVED
from amqp10.dialects.v0_9.message.to_basic import ToBasic
from amqp10.dialects.v0_9.wire.properties import BasicProperties
from amqp10.dialects.v0_9.wire.tables import DRAFT_TABLES, TABLES, Tables
from amqp10.errors import EncodeError
from amqp10.messaging import AmqpSequence, AmqpValue, Data, Message
from amqp10.testing.strategies import messages
from amqp10.types import Int, Symbol, ULong

from ....kit.inside.engines import EXCHANGE, REST_HEADER, ROUTING_KEY

FIELDS = (
    *("durable", "priority", "ttl", "delivery_count", "message_id", "user_id", "subject", "reply_to"),
    *("correlation_id", "content_type", "content_encoding", "absolute_expiry_time", "creation_time", "group_id"),
    *("group_sequence", "reply_to_group_id", "application_properties", "footer", "body"),
)


def there_and_back(message: Message, tables: Tables = TABLES, exchange: str = "", key: str = "q") -> Message:
    """The message as it is behind a broker of 0-9-1."""
    route, body = ToBasic(tables, exchange, key).map(message.encode())
    parts = (part.encode() for part in (route.exchange, route.key))
    octets = b"".join((bytes((route.redelivered,)), *(bytes((len(part),)) + part for part in parts)))
    return Message.decode(FromBasic(tables).map(octets, route.properties, body))


@pytest.mark.parametrize("tables", [TABLES, DRAFT_TABLES], ids=["0-9-1", "draft"])
def test_properties_that_are_called_as_ours(tables: Tables) -> None:
    """Neither a name of ours nor what the draft makes of it is taken for ours when an application has it."""
    properties = dict.fromkeys(RESERVED, "theirs") | {DRAFT_TABLES.spelled(name): "theirs" for name in RESERVED}
    assert there_and_back(Message(application_properties=properties), tables).application_properties == properties


@pytest.mark.parametrize("tables", [TABLES, DRAFT_TABLES], ids=["0-9-1", "draft"])
def test_the_header_of_what_cannot_be_read(tables: Tables) -> None:
    """A durable message is published as one, even if its body is nested too deeply to be read; it passes as it is."""
    body: list[Any] = []
    for _ in range(60):
        body = [body]
    sent = Message(AmqpValue(body), durable=True, priority=7, ttl=timedelta(seconds=90), subject="s")
    came = there_and_back(sent, tables)
    assert (came.durable, came.priority, came.ttl) == (True, 7, timedelta(seconds=90))
    assert came.body == sent.encode()


@pytest.mark.parametrize("tables", [TABLES, DRAFT_TABLES], ids=["0-9-1", "draft"])
def test_every_field_comes_back(tables: Tables) -> None:
    """Whatever its type, with the tables of 0-9-1, and with the five types of the draft."""
    moment = datetime(2026, 11, 21, 15, 30, 12, 345_000, tzinfo=UTC)
    message = Message(
        b"body",
        durable=True,
        priority=9,
        ttl=timedelta(seconds=90),
        delivery_count=3,
        message_annotations={"x-route": "a", "other": 1, 5: [1, {"k": None}]},
        message_id=UUID(int=7),
        user_id=b"\xff\0",
        to="/queues/elsewhere",
        subject="s",
        reply_to="/queues/answers%20here",
        correlation_id=77,
        content_type="text/plain",
        content_encoding="gzip",
        absolute_expiry_time=moment,
        creation_time=moment,
        group_id="g",
        group_sequence=4_000_000_000,
        reply_to_group_id="r",
        application_properties={"a": 1, "u": ULong(2**63), "x-a": True, "b": b"\xff", "qpid.subject": "!", "t": moment},
        footer={"hash": b"1"},
    )
    back = there_and_back(message, tables)
    back.check()
    for name in (*FIELDS, "to"):
        assert getattr(back, name) == getattr(message, name), name
    there = {key: back.message_annotations[key] for key in message.message_annotations}
    assert there == message.message_annotations


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(messages(), st.sampled_from((TABLES, DRAFT_TABLES)))
def test_any_message_comes_back(message: Message, tables: Tables) -> None:
    """Messages made by Hypothesis keep all that is not an intermediary's."""
    message = message.replace(delivery_annotations=None, delivery_count=min(message.delivery_count, 0x7FFF_FFFF))
    back = there_and_back(message, tables)
    back.check()
    for name in FIELDS:
        ours, theirs = getattr(message, name), getattr(back, name)
        # By what they look like: NaN differs from itself.
        assert repr(_normal(ours)) == repr(_normal(theirs)), name


def _normal(value: Any) -> Any:
    """As it is after being encoded and decoded once."""
    if isinstance(value, dict):
        return sorted((str(key), repr(each)) for key, each in value.items())
    return value


@pytest.mark.parametrize("body", ["text", {"a": [1]}, AmqpSequence([1], ["x"]), None, AmqpValue(b"x")])
def test_bodies_that_are_not_data(body: Any) -> None:
    """They travel as sections, with the type that RabbitMQ gives them."""
    message = Message(body)
    route, octets = ToBasic(TABLES).map(message.encode())
    assert BasicProperties.decode(route.properties, TABLES).type == "amqp-1.0"
    assert octets == message.encode()
    assert there_and_back(message).body == message.body


@pytest.mark.parametrize("tables", [TABLES, DRAFT_TABLES], ids=["0-9-1", "draft"])
@pytest.mark.parametrize("body", [Data(b"a", b"bc"), Data(b"", b""), Data(*[b"x" * 70_000] * 3, b"", b"y")])
def test_several_data_sections(body: Data, tables: Tables) -> None:
    """They are one body to others, and come back as they were."""
    message = Message(body, footer={"f": 1})
    _, octets = ToBasic(tables).map(message.encode())
    assert octets == bytes(body)
    back = there_and_back(message, tables)
    assert (back.body, back.footer) == (body, message.footer)


def test_one_data_section_needs_no_word() -> None:
    """Nothing is said of it."""
    route, _ = ToBasic(TABLES).map(Message(Data(b"a")).encode())
    assert BasicProperties.decode(route.properties, TABLES).headers is None


def test_sections_of_too_many_sizes() -> None:
    """They would fill the frame of the properties: they become one, as they do for others."""
    message = Message(Data(*(b"x" * size for size in range(2000))))
    route, _ = ToBasic(TABLES).map(message.encode())
    assert len(route.properties) < 100
    assert there_and_back(message).body == bytes(message.body)


@pytest.mark.parametrize(
    "sizes", ["1,1", "3", "2,2,-1", "1*3", "3,0*9999999", "", "x", "1,", "³", "2,1" + "0" * 5000, 3, b"2,1", None, True]
)
def test_sizes_that_are_none(sizes: Any) -> None:
    """Whatever somebody puts there, or whoever changes the body behind it: the octets are what counts."""
    said = BasicProperties(headers={"x-opt-amqp10-sections": sizes, "a": 1})
    back = Message.decode(FromBasic(TABLES).map(b"\0\0\1q", said.encode(TABLES), b"abc"))
    back.check()
    assert bytes(back.body) == b"abc"
    assert len(Data(back.body) if isinstance(back.body, bytes) else back.body) <= 3
    assert back.application_properties == {"a": 1}


def test_where_a_message_came_from() -> None:
    """`to`, subject and two annotations say exchange and routing key."""
    for subject, beside in ((None, {}), ("news.eu", {NATIVE_ANNOTATION: {"headers": {"qpid.subject": "news.eu"}}})):
        back = there_and_back(Message(b"x", subject=subject), exchange="amq.topic", key="news.eu")
        assert back.to == "/exchanges/amq.topic/news.eu"
        assert back.subject == "news.eu"
        assert back.message_annotations == {EXCHANGE: "amq.topic", ROUTING_KEY: "news.eu", **beside}
    assert there_and_back(Message(b"x")).to == "/queues/q"


def test_the_subject_is_the_key_where_the_address_has_none() -> None:
    """As `/exchanges/NAME` means."""
    route, _ = ToBasic(TABLES, "amq.topic", None).map(Message(b"x", subject="a.b").encode())
    assert (route.exchange, route.key) == ("amq.topic", "a.b")
    assert not BasicProperties.decode(route.properties, TABLES).headers


def test_an_anonymous_link_needs_an_address() -> None:
    """Each message says where it goes, by an address that is one."""
    anonymous = ToBasic(TABLES, anonymous=True)
    route, _ = anonymous.map(Message(b"x", to="/exchanges/e/k").encode())
    assert (route.exchange, route.key) == ("e", "k")
    for message in (Message(b"x"), Message(b"x", to="/queues/a/b")):
        with pytest.raises(EncodeError):
            anonymous.map(message.encode())


def test_what_only_the_dialect_has_comes_back_whole() -> None:
    """Type, app-id, cluster-id, headers that are tables, and an expiration that is no number."""
    said = BasicProperties(
        type="order",
        app_id="shop",
        cluster_id="c",
        expiration="soon",
        headers={"CC": ["a", "b"], "nested": {"a": Int(1)}, "x-death": [{"count": 1}], "plain": "p"},
    )
    payload = FromBasic(TABLES).map(b"\0\0\1q", said.encode(TABLES), b"x")
    message = Message.decode(payload)
    assert message.application_properties == {"plain": "p"}
    assert message.message_annotations[Symbol("x-death")] == [{"count": 1}]
    assert message.message_annotations[NATIVE_ANNOTATION]["type"] == "order"
    route, body = ToBasic(TABLES, "", "q").map(payload)
    assert body == b"x"
    again = BasicProperties.decode(route.properties, TABLES)
    assert again.headers is not None
    assert said.headers is not None
    assert dict(sorted(again.headers.items())) == dict(sorted(said.headers.items()))
    again.headers = said.headers
    assert again == said


def test_readable_fields_win_where_somebody_changed_them() -> None:
    """A value that was kept aside counts only if the readable value beside it is still the same."""
    route, body = ToBasic(TABLES).map(Message(b"x", correlation_id=5, message_id=6).encode())
    said = BasicProperties.decode(route.properties, TABLES)
    assert said.correlation_id == "5"
    said.correlation_id = "other"
    back = Message.decode(FromBasic(TABLES).map(b"\0\0\1q", said.encode(TABLES), body))
    assert back.correlation_id == "other"
    assert back.message_id == 6


WHOLE = {
    "reserved headers": {"headers": {"x-exchange": "e", "x-routing-key": "k", "x-delivery-count": "many"}},
    "text that is not ASCII": {"content_type": "té", "content_encoding": "é"},
    "an address that is a name": {"reply_to": "/queues/x%20y"},
    "our type": {"type": "amqp-1.0"},
    "lists": {"headers": {"CC": ["a", "b"], "t": {"l": [1]}}},
    "a priority": {"priority": 4},
    "no priority": {},
    "a subject": {"headers": {"qpid.subject": "s"}},
    "a subject like the key": {"headers": {"qpid.subject": "key"}},
    "an expiration that is none": {"expiration": "soon"},
    "the rest": {"type": "t", "app_id": "a", "cluster_id": "c", "message_id": "m", "correlation_id": "c"},
}


@pytest.mark.parametrize("fields", WHOLE.values(), ids=WHOLE)
@pytest.mark.parametrize("exchange", ["", "e"])
def test_a_message_of_another_program(fields: dict[str, Any], exchange: str) -> None:
    """Handed on in 0-9-1, it says what it said, and nothing beside that but where it came from."""
    said = BasicProperties(**fields)
    route = b"\0" + bytes((len(exchange),)) + exchange.encode() + b"\3key"
    payload = FromBasic(TABLES).map(route, said.encode(TABLES), b"no sections")
    onward, body = ToBasic(TABLES, "", "other").map(payload)
    again = BasicProperties.decode(onward.properties, TABLES)
    assert again == said
    assert body == b"no sections"


@pytest.mark.parametrize("priority", range(10))
def test_priorities_keep_their_order(priority: int) -> None:
    """The usual one of 1.0, 4, is said, for 0-9-1 takes none for the lowest; and none is read as 0."""
    route, _ = ToBasic(TABLES).map(Message(b"x", priority=priority).encode())
    assert (BasicProperties.decode(route.properties, TABLES).priority or 0) == priority
    assert there_and_back(Message(b"x", priority=priority)).priority == priority


def test_expirations_that_are_moments() -> None:
    """To Qpid an expiration is a moment: it is read so, each time anew, and a time to live that was kept is that."""
    now = 1_000_000
    incoming = FromBasic(TABLES)
    incoming.clock = lambda: now
    said = BasicProperties(expiration="1090000").encode(TABLES)
    assert Message.decode(incoming.map(b"\0\0\1q", said, b"")).ttl == timedelta(seconds=90)
    now += 60_000
    assert Message.decode(incoming.map(b"\0\0\1q", said, b"")).ttl == timedelta(seconds=30)
    now += 60_000
    assert Message.decode(incoming.map(b"\0\0\1q", said, b"")).ttl == timedelta(0)
    route, _ = ToBasic(TABLES, clock=lambda: now).map(Message(b"x", ttl=timedelta(seconds=5)).encode())
    assert Message.decode(incoming.map(b"\0\0\1q", route.properties, b"")).ttl == timedelta(seconds=5)


@pytest.mark.parametrize(
    ("own", "header", "read"),
    [
        (None, "m", "m"),
        (None, 7, ULong(7)),
        (None, -1, ULong(2**64 - 1)),
        (None, b"m\xff", b"m\xff"),
        ("7", 7, ULong(7)),
        ("m", b"m", b"m"),
        ("m", "other", "m"),
        ("m", None, "m"),
        (None, {"a": 1}, None),
    ],
)
@pytest.mark.parametrize("field", ["message_id", "correlation_id"])
def test_ids_of_0_10(field: str, own: str | None, header: Any, read: Any) -> None:
    """An id in the header that this package's 0-10 writes counts, unless the property has another value."""
    said = BasicProperties(**{field: own}, headers={f"x-opt-amqp10-{field.replace('_', '-')}": header})
    message = Message.decode(FromBasic(TABLES).map(b"\0\0\1q", said.encode(TABLES), b""))
    assert (getattr(message, field), type(getattr(message, field))) == (read, type(read))
    left = message.message_annotations.get(NATIVE_ANNOTATION, {}).get("headers", {})
    assert list(left.values()) == ([] if header is None or read == header or own == "7" or header == -1 else [header])


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("direct:////?routingkey='answers'", "answers"),
        ("direct:////?routingkey='a'b?c=%20//'", "a'b?c=%20//"),
        ("topic://amq.topic//?routingkey='a.b'", "/exchanges/amq.topic/a.b"),
        ("headers://a/b?c//?routingkey='k'", "/exchanges/a%2Fb%3Fc/k"),
        ("fanout://amq.fanout//", "/exchanges/amq.fanout"),
        ("direct:////", "direct:////"),
        ("http://host//", "http://host//"),
        ("direct://host/path", "direct://host/path"),
        ("answers", "answers"),
    ],
)
def test_binding_urls(url: str, address: str) -> None:
    """A binding URL, Broker-J's form of a reply-to of 0-10, is read as an address; elsewhere it stays as it is."""
    incoming = FromBasic(TABLES)
    said = BasicProperties(reply_to=url).encode(TABLES)
    assert Message.decode(incoming.map(b"\0\0\1q", said, b"")).reply_to == url
    incoming = FromBasic(TABLES)
    incoming.clock = lambda: 0
    assert Message.decode(incoming.map(b"\0\0\1q", said, b"")).reply_to == address


def test_a_user_id_beside_its_property() -> None:
    """Servers compare the property with the login: another place is heeded for octets only that it cannot have."""
    for user_id, read in ((b"mallory", None), (b"\xff", b"\xff")):
        lost = Message(user_id=user_id).encode_head()
        said = BasicProperties(headers={REST_HEADER: lost}).encode(TABLES)
        assert Message.decode(FromBasic(TABLES).map(b"\0\0\1q", said, b"")).user_id == read
        said = BasicProperties(user_id="alice", headers={REST_HEADER: lost}).encode(TABLES)
        assert Message.decode(FromBasic(TABLES).map(b"\0\0\1q", said, b"")).user_id == b"alice"


@pytest.mark.parametrize("value", [{"a": 1}, [1], {"a": [1]}])
def test_no_tables_in_annotations_for_qpid(value: Any) -> None:
    """It cannot turn them into 1.0, and keeps such a message from all who ask; here they come back all the same."""
    message = Message(b"x", message_annotations={"x-table": value})
    route, body = ToBasic(TABLES, "", "q", clock=lambda: 0).map(message.encode())
    headers = BasicProperties.decode(route.properties, TABLES).headers
    assert headers is not None
    assert list(headers) == [REST_HEADER]
    back = Message.decode(FromBasic(TABLES).map(b"\0\0\1q", route.properties, body))
    assert back.message_annotations["x-table"] == value


@pytest.mark.parametrize("value", [[1], {"a": [1]}])
def test_no_arrays_for_qpid(value: Any) -> None:
    """It goes down when it has to turn one into 0-10; here they come back all the same."""
    for said in ({"x-list": value}, {NATIVE_ANNOTATION: {"headers": {"list": value}}}):
        message = Message(b"x", message_annotations=said)
        route, body = ToBasic(TABLES, "", "q", clock=lambda: 0).map(message.encode())
        headers = BasicProperties.decode(route.properties, TABLES).headers
        assert headers is not None
        assert list(headers) == [REST_HEADER]
        back = Message.decode(FromBasic(TABLES).map(b"\0\0\1q", route.properties, body))
        assert all(back.message_annotations[name] == each for name, each in said.items())


def test_what_rabbitmq_takes_for_its_own() -> None:
    """Application properties named as its lists of further routing keys are not said as headers."""
    message = Message(b"x", application_properties={"CC": "copy", "BCC": 5})
    route, _ = ToBasic(TABLES, "", "q").map(message.encode())
    headers = BasicProperties.decode(route.properties, TABLES).headers
    assert headers is not None
    assert list(headers) == [REST_HEADER]
    assert there_and_back(message).application_properties == message.application_properties


def test_what_is_no_message_passes_as_it_is() -> None:
    """A broker may have such a payload: it is not the engine that refuses it."""
    for payload in (b"", b"\0\x53\x75\xa0\5abc", b"rubbish"):
        _, body = ToBasic(TABLES).map(payload)
        assert body == payload


def test_a_body_that_claims_to_be_sections() -> None:
    """Where it is none, it is data, and its type is kept."""
    payload = FromBasic(TABLES).map(b"\0\0\1q", BasicProperties(type="amqp-1.0").encode(TABLES), b"rubbish")
    assert Message.decode(payload).body == b"rubbish"


def test_redelivery() -> None:
    """The bit stands for one failed attempt; RabbitMQ's header has the number."""
    once = Message.decode(FromBasic(TABLES).map(b"\1\0\1q", BasicProperties().encode(TABLES), b""))
    assert (once.delivery_count, once.first_acquirer) == (1, False)
    count = BasicProperties(headers={"x-delivery-count": 4}).encode(TABLES)
    assert Message.decode(FromBasic(TABLES).map(b"\1\0\1q", count, b"")).delivery_count == 4


def test_the_count_of_a_quorum_queue() -> None:
    """As an annotation it says what the header of that name says, so that other programs see nothing of ours."""
    message = Message(b"", delivery_count=2, message_annotations={Symbol("x-delivery-count"): ULong(2)})
    route, _ = ToBasic(TABLES, "", "q").map(message.encode())
    assert BasicProperties.decode(route.properties, TABLES).headers == {"x-delivery-count": 2}


@pytest.mark.parametrize("odd", [5, [1], {"headers": 5}, {"children": 5}, {"headers": {7: 7}}])
def test_odd_annotations_in_the_rest(odd: object) -> None:
    """A message is read even if a peer puts odd annotations in the place of the kept ones."""
    rest = Message(message_annotations={NATIVE_ANNOTATION: odd}).encode_head()
    said = BasicProperties()
    said.app_id = "app"
    said.headers = {REST_HEADER: rest, "table": {"a": 1}}
    head, _, _ = incoming_head(said, "", "q", False, TABLES)
    found = Message.decode(head + b"\0\x53\x75\xa0\0").message_annotations[NATIVE_ANNOTATION]
    assert found["app-id"] == "app"
    assert found["headers"]["table"] == {"a": 1}


ODD: list[Any] = [
    *(5, None, "x", [1], {}, {7: 7}, {"headers": 5}, {"headers": {7: 7}}, {"headers": {None: 1}}, {"headers": {"": 1}}),
    *(
        {"headers": {"x" * 300: 1}},
        {"headers": {"a": {7: 7}}},
        {"headers": {REST_HEADER: b"\xff"}},
        {"children": [b"\xff", 5]},
    ),
    *({"type": 5, "app-id": b"x", "cluster-id": "y" * 300}, {"expiration": "z" * 300}),
]


@pytest.mark.parametrize("tables", [TABLES, DRAFT_TABLES], ids=["0-9-1", "draft"])
@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_odd_annotations_of_others(odd: Any, tables: Tables) -> None:
    """Odd native annotations of a peer of another dialect are no error of the receiver: the message is read."""
    payload = Message(b"x", message_annotations={NATIVE_ANNOTATION: odd}).encode()
    route, body = ToBasic(tables, "", "q").map(payload)
    assert Message.decode(FromBasic(tables).map(b"\0\0\1q", route.properties, body)).body == b"x"
