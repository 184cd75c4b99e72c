"""Where each older dialect keeps each field of a message: the places that programs without this package look at.

A message of ours is the same at both ends wherever it lies on the way, so that a test with our client at both ends does
not see it. This one looks at the wire's own fields: a table, field by field.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from amqp10 import Message
from amqp10.dialects.fast.message.to_head import to_fast
from amqp10.dialects.v0_9.message.to_basic import ToBasic
from amqp10.dialects.v0_9.wire.properties import BasicProperties
from amqp10.dialects.v0_9.wire.tables import TABLES
from amqp10.dialects.v0_10.wire.commands import ReplyTo
from amqp10.engine import Address

from ..kit.dialects.v0_10.messages import there

pytestmark = pytest.mark.capability("older dialects")

NOW = 1_000_000.0
MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SECONDS = int(MOMENT.timestamp())
QUEUE, EXCHANGE = Address("", "q"), Address("e", None)
Places = Mapping[str, Any]


def places_0_10(message: Message, address: Address) -> Places:
    """The fields of delivery-properties and message-properties, and the headers as "headers.NAME"."""
    delivery, properties, body = there(message, address)
    return {**fields(delivery), **fields(properties, "application_headers"), "body": body}


def places_0_9_1(message: Message, address: Address) -> Places:
    """The properties of the basic class, and where basic.publish sends it."""
    route, body = ToBasic(TABLES, address.exchange, address.key).map(message.encode())
    properties = BasicProperties.decode(route.properties, TABLES)
    said = {"exchange": route.exchange, "routing_key": route.key, "redelivered": route.redelivered, "body": body}
    return {**said, **fields(properties, "headers")}


def places_fast(message: Message, address: Address) -> Places:
    """The head of a message."""
    head, body = to_fast(message.encode(), NOW)
    return {**fields(head, "headers"), "body": body}


def fields(declared: Any, headers: str = "") -> dict[str, Any]:
    """Those that are said, by name."""
    names = [name for each in type(declared).__mro__ for name in getattr(each, "__annotations__", ())]
    found = {name: getattr(declared, name) for name in names if getattr(declared, name, None) is not None}
    table = found.pop(headers, None) or {}
    return found | {f"headers.{name}": value for name, value in table.items()}


def everywhere(places: dict[str, Any]) -> dict[str, dict[str, Any] | None]:
    """The same in each dialect."""
    return {"0-10": places, "0-9-1": places, "fast": places}


PLACES = {"0-10": places_0_10, "0-9-1": places_0_9_1, "fast": places_fast}
UUID_7 = UUID(int=7)
ID_HEADER, COUNT_HEADER = "headers.x-opt-amqp10-message-id", "headers.x-opt-amqp10-delivery-count"

# field -> the message, and in each dialect what is where; None: it is said elsewhere, by the command that carries it.
TABLE: dict[str, tuple[Message, dict[str, dict[str, Any] | None]]] = {
    "durable": (
        Message(b"x", durable=True),
        {"0-10": {"delivery_mode": 2}, "0-9-1": {"delivery_mode": 2}, "fast": {"persistent": True}},
    ),
    "priority": (
        Message(b"x", priority=6),
        {"0-10": {"priority": 6}, "0-9-1": {"priority": 6}, "fast": {"priority": 6}},
    ),
    "ttl": (
        Message(b"x", ttl=timedelta(minutes=1)),
        {"0-10": {"ttl": 60_000}, "0-9-1": {"expiration": "60000"}, "fast": {"expiration": int(NOW) + 60}},
    ),
    "delivery_count": (
        Message(b"x", delivery_count=2),
        {
            "0-10": {"redelivered": True, COUNT_HEADER: 2},
            "0-9-1": {"redelivered": True, "headers.x-delivery-count": 2},
            "fast": {"headers.x-delivery-count": 2},
        },
    ),
    "message_id, text": (
        Message(b"x", message_id="id"),
        {"0-10": {ID_HEADER: "id"}, "0-9-1": {"message_id": "id"}, "fast": {"identifier": "id"}},
    ),
    "message_id, a UUID": (
        Message(b"x", message_id=UUID_7),
        {"0-10": {"message_id": UUID_7}, "0-9-1": {"message_id": str(UUID_7)}, "fast": {"identifier": str(UUID_7)}},
    ),
    "to, by its link": (
        Message(b"x"),
        {"0-10": {"routing_key": "q"}, "0-9-1": {"exchange": "", "routing_key": "q"}, "fast": None},
    ),
    "subject": (
        Message(b"x", subject="s"),
        {
            "0-10": {"exchange": "e", "routing_key": "s"},
            "0-9-1": {"exchange": "e", "routing_key": "s"},
            "fast": {"headers.qpid.subject": "s"},
        },
    ),
    "reply_to": (
        Message(b"x", reply_to="/queues/answers"),
        {
            "0-10": {"reply_to": ReplyTo(routing_key="answers")},
            "0-9-1": {"reply_to": "answers"},
            "fast": {"headers.x-opt-amqp10-reply-to": "/queues/answers"},
        },
    ),
    "correlation_id": (
        Message(b"x", correlation_id="c"),
        {
            "0-10": {"correlation_id": b"c"},
            "0-9-1": {"correlation_id": "c"},
            "fast": {"headers.x-opt-amqp10-correlation-id": "c"},
        },
    ),
    "user_id": (
        Message(b"x", user_id=b"u"),
        {"0-10": {"user_id": b"u"}, "0-9-1": {"user_id": "u"}, "fast": {"headers.x-opt-amqp10-user-id": "u"}},
    ),
    "content_type, content_encoding": (
        Message(b"x", content_type="text/csv", content_encoding="gzip"),
        {
            "0-10": {"content_type": "text/csv", "content_encoding": "gzip"},
            "0-9-1": {"content_type": "text/csv", "content_encoding": "gzip"},
            "fast": {"mime_type": "text/csv", "encoding": "gzip"},
        },
    ),
    "absolute_expiry_time": (
        Message(b"x", absolute_expiry_time=MOMENT),
        {
            "0-10": {"expiration": SECONDS * 1000},
            "0-9-1": {"headers.x-opt-amqp10-absolute-expiry-time": SECONDS * 1000},
            "fast": {"expiration": SECONDS},
        },
    ),
    "creation_time": (
        Message(b"x", creation_time=MOMENT),
        {
            "0-10": {"timestamp": SECONDS * 1000},
            "0-9-1": {"timestamp": MOMENT},
            "fast": {"headers.x-opt-amqp10-creation-time": SECONDS},
        },
    ),
    "group_id, group_sequence": (
        Message(b"x", group_id="g", group_sequence=5),
        everywhere({"headers.JMSXGroupID": "g", "headers.JMSXGroupSeq": 5}),
    ),
    "application_properties": (
        Message(b"x", application_properties={"text": "t", "number": 1}),
        everywhere({"headers.text": "t", "headers.number": 1}),
    ),
    "message_annotations": (
        Message(b"x", message_annotations={"x-a": "b"}),
        everywhere({"headers.x-a": "b"}),
    ),
    "data": (Message(b"octets"), everywhere({"body": b"octets"})),
    "amqp-value, text": (
        Message("text"),
        {"0-10": {"content_type": "text/plain", "body": b"text"}, "0-9-1": None, "fast": None},
    ),
    "amqp-value, map": (Message({"a": 1}), {"0-10": {"content_type": "amqp/map"}, "0-9-1": None, "fast": None}),
    "amqp-value, list": (Message([True]), {"0-10": {"content_type": "amqp/list"}, "0-9-1": None, "fast": None}),
    "amqp-value, other": (
        Message(5),
        {
            "0-10": {"body": Message(5).encode()},
            "0-9-1": {"body": Message(5).encode()},
            "fast": {"body": Message(5).encode()},
        },
    ),
}


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("field", TABLE)
def test_in_its_place(field: str, name: str) -> None:
    """A field with a place of its own in the dialect is there."""
    message, wanted = TABLE[field]
    expected = wanted[name]
    if expected is None:
        return
    found = PLACES[name](message, EXCHANGE if field == "subject" else QUEUE)
    assert {place: found.get(place) for place in expected} == expected
