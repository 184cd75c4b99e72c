"""Properties that are sent on as they came: only of the very message that came, and only if they say all that it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from amqp10.dialects.v0_9.message.from_basic import FromBasic
from amqp10.dialects.v0_9.message.pass_through import MAX_KEPT, MAX_OCTETS, PassThrough, pass_through
from amqp10.dialects.v0_9.message.places import ACQUIRED_COUNT, SECTIONS
from amqp10.dialects.v0_9.message.to_basic import ToBasic
from amqp10.dialects.v0_9.wire.properties import BasicProperties
from amqp10.dialects.v0_9.wire.tables import DRAFT_TABLES, TABLES, Tables
from amqp10.messaging import Data, Message
from amqp10.testing.strategies import messages
from amqp10.types import Symbol

from ....kit.inside.engines import DELIVERY_COUNT, REST_HEADER

ROUTE = b"\0\1e\1k"
FRAME = 131_072


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(messages(), st.sampled_from((TABLES, DRAFT_TABLES)))
@example(Message(b"", delivery_count=1), DRAFT_TABLES)  # in a header that the draft spells in its own way
@example(Message(b"", message_annotations={ACQUIRED_COUNT: 1}), DRAFT_TABLES)  # in base64
@example(Message(b"", message_annotations={ACQUIRED_COUNT: 1}), TABLES)
def test_says_what_the_mapping_says(message: Message, tables: Tables) -> None:
    """What passes through has the place, the body and the bit of the mapping, and is read as the same message."""
    sent, octets = ToBasic(tables, "e", "k").map(message.encode())
    payload = FromBasic(tables).map(ROUTE, sent.properties, octets)
    passing = PassThrough()
    passing.keep(payload, ROUTE, sent.properties, octets)
    found = passing.find(payload, FRAME)
    if found is None:
        return
    passed, body = found
    mapped, mapped_body = ToBasic(tables, "", "q", forwarded=True).map(payload)
    assert (passed.exchange, passed.key, passed.redelivered) == (mapped.exchange, mapped.key, mapped.redelivered)
    assert body == mapped_body == octets
    assert FromBasic(tables).map(ROUTE, passed.properties, body) == payload


def passed(properties: BasicProperties, body: bytes = b"body") -> tuple[bytes, bytes] | None:
    """Return what is sent on for a message that came so."""
    octets = properties.encode(TABLES)
    payload = FromBasic(TABLES).map(ROUTE, octets, body)
    passing = PassThrough()
    passing.keep(payload, ROUTE, octets, body)
    found = passing.find(payload, FRAME)
    return None if found is None else (found[0].properties, found[1])


@pytest.mark.parametrize(
    "properties",
    [
        BasicProperties(),
        BasicProperties(message_id="1", app_id="a", headers={"n": 5, "list": [1, {"k": "v"}]}),
        BasicProperties(expiration="1000", type="t", user_id="u", headers={REST_HEADER: Message(footer={}).encode()}),
    ],
)
def test_passes_octet_for_octet(properties: BasicProperties) -> None:
    """The properties of a usual message stay as they are, and so does its body."""
    assert passed(properties) == (properties.encode(TABLES), b"body")
    assert passed(properties, b"") == (properties.encode(TABLES), b"")


@pytest.mark.parametrize(
    ("properties", "body"),
    [
        (BasicProperties(headers={DELIVERY_COUNT: 1}), b""),  # the bit "redelivered" says it
        (BasicProperties(headers={ACQUIRED_COUNT: 1}), b""),
        (BasicProperties(type=SECTIONS), Message(5).encode()),  # the body is sections
        (BasicProperties(headers={REST_HEADER: Message(None, footer={"f": 1}).encode_footer()}), b""),  # a footer
        (BasicProperties(headers={"x-opt-amqp10-sections": "1,3"}), b"body"),  # several data sections
        (BasicProperties(content_type="a" * 255, correlation_id="b"), bytes(MAX_OCTETS)),
    ],
)
def test_maps_the_others(properties: BasicProperties, body: bytes) -> None:
    """A message that is more than properties and one data section, or is large, is mapped back as before."""
    assert passed(properties, body) is None


def test_properties_without_a_place_in_a_message() -> None:
    """Properties of which the mapping keeps nothing are not sent on: nobody has checked whose user-id they name."""
    properties = BasicProperties(user_id="somebody", headers={"x-a": 1, "nul": "\0"}).encode(TABLES)
    passing = PassThrough()
    payload = Message(b"body", to="/exchanges/e/k", subject="k").encode()
    passing.keep(payload, ROUTE, properties, b"body")
    assert passing.find(payload, FRAME) is None


@pytest.mark.parametrize(
    "changed",
    [
        lambda payload: bytes(bytearray(payload)),
        lambda payload: Message.decode(payload).replace(delivery_count=1).encode(),
        lambda payload: Message.decode(payload).replace(message_annotations={Symbol("x-opt-a"): 1}).encode(),
    ],
)
def test_only_the_very_payload(changed: Callable[[bytes], bytes]) -> None:
    """Another object is another message, even one with the same octets, which somebody else may have sent."""
    properties = BasicProperties(app_id="a").encode(TABLES)
    payload = FromBasic(TABLES).map(ROUTE, properties, b"body")
    passing = PassThrough()
    passing.keep(payload, ROUTE, properties, b"body")
    assert passing.find(payload, FRAME) is not None
    assert passing.find(changed(payload), FRAME) is None


def test_properties_larger_than_a_frame_of_the_consumer() -> None:
    """They are mapped, which tells the consumer in another way: see `ToBasic`."""
    properties = BasicProperties(app_id="a" * 100).encode(TABLES)
    payload = FromBasic(TABLES).map(ROUTE, properties, b"")
    passing = PassThrough()
    passing.keep(payload, ROUTE, properties, b"")
    assert passing.find(payload, len(properties) + 12) is not None
    assert passing.find(payload, len(properties) + 11) is None


def test_keeps_a_bounded_number() -> None:
    """The oldest go first, and the bound holds for a process."""
    passing = PassThrough()
    properties = BasicProperties().encode(TABLES)
    payloads = [FromBasic(TABLES).map(ROUTE, properties, b"%d" % number) for number in range(MAX_KEPT + 1)]
    for number, payload in enumerate(payloads):
        passing.keep(payload, ROUTE, properties, b"%d" % number)
    found = [passing.find(payload, FRAME) is not None for payload in payloads]
    assert found == [False] + [True] * MAX_KEPT


def test_each_dialect_has_its_own() -> None:
    """The draft's tables are others than those of 0-9-1."""
    assert pass_through(TABLES) is pass_through(TABLES)
    assert pass_through(TABLES) is not pass_through(DRAFT_TABLES)


def test_several_data_sections_that_end_as_one() -> None:
    """An empty section before the body is written in the headers, which pass as they came."""
    sent, octets = ToBasic(TABLES, "e", "k").map(Message(Data(b"", b"body")).encode())
    payload = FromBasic(TABLES).map(ROUTE, sent.properties, octets)
    passing = PassThrough()
    passing.keep(payload, ROUTE, sent.properties, octets)
    found = passing.find(payload, FRAME)
    assert found is not None
    assert FromBasic(TABLES).map(ROUTE, found[0].properties, found[1]) == payload
