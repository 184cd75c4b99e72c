"""Messages of AMQP 1.0 through head and body of AMQP/Fast: nothing is lost on the way there and back."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.dialects.fast.message.from_head import from_fast
from amqp10.dialects.fast.message.header_names import NATIVE, SECTIONS, WHOLE
from amqp10.dialects.fast.message.to_head import to_fast
from amqp10.dialects.fast.wire.commands import MessageHead
from amqp10.dialects.fast.wire.values import Seconds, read_table
from amqp10.messaging import AmqpSequence, AmqpValue, Data, Message
from amqp10.testing.strategies import exact_message, messages
from amqp10.types import Int, Symbol

from ....kit.dialects.fast.strategies import table, tables, texts
from ....kit.inside.engines import REST_HEADER

NOW = 1_700_000_000.25
HOP_HEADERS = {REST_HEADER, "x-opt-amqp10-ttl", "x-opt-amqp10-priority", "x-opt-amqp10-sections", "x-delivery-count"}
HOP = ("first_acquirer", "delivery_annotations")


def there_and_back(message: Message) -> Message:
    head, body = to_fast(message.encode(), NOW)
    wire = head.write() + body
    read, at = MessageHead.read(wire, 0, len(wire))
    assert wire[at:] == body
    assert read.body_size == len(body)
    payload, number = from_fast(read, wire[at:], NOW)
    assert number == 0
    return Message.decode(payload)


def end_to_end(message: Message) -> dict[str, Any]:
    """Return the message that should come back, with `priority` 4 and `ttl` in whole ms given or not."""
    return {name: value for name, value in exact_message(message).items() if name not in HOP}


@pytest.mark.slow
@given(messages())
def test_any_message(message: Message) -> None:
    """Every field, annotation, property and body comes back with its type; what is per hop does not."""
    sent = Message.decode(message.encode())
    assert end_to_end(there_and_back(sent)) == end_to_end(sent)


def test_readable() -> None:
    """A field with a place is in its place, for a peer that knows nothing of AMQP 1.0."""
    moment = datetime(2024, 5, 1, 12, 0, tzinfo=UTC)
    message = Message(
        b"hello",
        durable=True,
        priority=7,
        ttl=timedelta(milliseconds=1500),
        message_id="m1",
        subject="s",
        content_type="text/plain",
        content_encoding="gzip",
        creation_time=moment,
        group_id="g",
        group_sequence=3,
        user_id=b"me",
        application_properties={"text": "t", "number": Int(5), "price": Decimal("1.50"), "when": moment},
        message_annotations={Symbol("x-region"): "north"},
    )
    head, body = to_fast(message.encode(), NOW)
    assert body == b"hello"
    assert (head.persistent, head.priority, head.identifier) == (True, 7, "m1")
    assert (head.mime_type, head.encoding, head.expiration) == ("text/plain", "gzip", 1_700_000_002)
    headers = dict(head.headers)
    assert headers.pop("x-opt-amqp10-creation-time") == Seconds(moment.timestamp())
    assert headers == {
        "qpid.subject": "s",
        "JMSXGroupID": "g",
        "JMSXGroupSeq": 3,
        "x-opt-amqp10-user-id": "me",
        "x-opt-amqp10-ttl": "1500",
        "x-region": "north",
        "text": "t",
        "number": 5,
        "price": Decimal("1.50"),
        "when": Seconds(moment.timestamp()),
    }


@pytest.mark.parametrize(
    ("body", "mime_type"),
    [
        (b"x", ""),
        (Data(b"x", b"y"), ""),
        (AmqpValue("x"), SECTIONS),
        (AmqpSequence([1], [2]), SECTIONS),
        (None, SECTIONS),
    ],
)
def test_bodies(body: Any, mime_type: str) -> None:
    """A body of data is itself; any other says what it is."""
    head, octets = to_fast(Message(body).encode(), NOW)
    assert head.mime_type == mime_type
    assert Message.decode(from_fast(head, octets, NOW)[0]) == Message(body)
    if mime_type == "":
        assert octets == (bytes(body) if isinstance(body, Data) else body)


def test_changed_on_the_way() -> None:
    """A header changed by an intermediary counts, even if the whole message that goes along has another value."""
    head, body = to_fast(Message(b"x", application_properties={"n": 1, "b": True}).encode(), NOW)
    assert REST_HEADER in head.headers
    assert Message.decode(from_fast(head, body, NOW)[0]).application_properties == {"n": 1, "b": True}
    head.headers["n"] = 2
    assert Message.decode(from_fast(head, body, NOW)[0]).application_properties == {"n": Int(2), "b": Int(1)}
    for nonsense in ("no base64!", base64.b64encode(b"no message").decode(), 5):
        head.headers[REST_HEADER] = nonsense
        assert Message.decode(from_fast(head, body, NOW)[0]).application_properties["n"] == 2


def test_time_to_live() -> None:
    """The remaining time counts from now, in ms until a second has passed; a time in the past leaves 0."""
    head, body = to_fast(Message(b"", ttl=timedelta(seconds=10)).encode(), NOW)
    for later, left in ((0, 10_000), (5.5, 5250), (60, 0)):
        assert Message.decode(from_fast(head, body, NOW + later)[0]).ttl == timedelta(milliseconds=left)
    head = MessageHead(expiration=int(NOW) + 30)
    assert Message.decode(from_fast(head, b"", NOW)[0]).ttl == timedelta(seconds=29.75)
    expiring = Message(b"", absolute_expiry_time=datetime.fromtimestamp(NOW + 5, UTC))
    head, body = to_fast(expiring.encode(), NOW)
    assert head.expiration == int(NOW) + 6
    assert Message.decode(from_fast(head, body, NOW)[0]).ttl is None


def test_redelivered() -> None:
    """A message that was delivered before has been tried once at least."""
    head, body = to_fast(Message(b"", delivery_count=3).encode(), NOW)
    assert Message.decode(from_fast(head, body, NOW, redelivered=True)[0]).delivery_count == 3
    assert Message.decode(from_fast(MessageHead(), b"", NOW, redelivered=True)[0]).delivery_count == 1


def test_of_the_handle() -> None:
    """A head that says no mime-type and encoding has those of its handle."""
    payload, _ = from_fast(MessageHead(), b"", NOW, mime_type="text/plain", encoding="gzip", to="there")
    message = Message.decode(payload)
    assert (message.content_type, message.content_encoding, message.to) == ("text/plain", "gzip", "there")


@pytest.mark.parametrize("payload", [b"", b"nonsense", Message(b"x").encode() + b"more"])
def test_no_message(payload: bytes) -> None:
    """A payload that is not an AMQP 1.0 message goes unchanged, with its message-format."""
    head, body = to_fast(payload, NOW)
    assert (head.mime_type, body) == (WHOLE, payload)
    assert from_fast(head, body, NOW) == (payload, 0)
    assert from_fast(*to_fast(payload, NOW, message_format=7), NOW) == (payload, 7)


def test_large_head() -> None:
    """Properties that a head has no room for go as part of the body."""
    message = Message(b"x", application_properties={"large": "y" * 70_000})
    head, body = to_fast(message.encode(), NOW)
    assert head.mime_type == WHOLE
    assert Message.decode(from_fast(head, body, NOW)[0]) == message
    assert to_fast(Message(b"x", subject="z" * 500).encode(), NOW, max_octets=400)[0].mime_type == WHOLE


@given(
    st.builds(
        MessageHead,
        persistent=st.booleans(),
        priority=st.integers(0, 9),
        mime_type=texts,
        encoding=texts,
        identifier=texts,
        headers=tables.map(table),
    ),
    st.binary(max_size=20),
)
def test_any_head(head: MessageHead, body: bytes) -> None:
    """Fields that AMQP/Fast has and AMQP 1.0 lacks come back whole in AMQP/Fast."""
    head.body_size = len(body)
    payload, number = from_fast(head, body, NOW)
    if head.mime_type in (WHOLE, SECTIONS) or HOP_HEADERS & head.headers.keys():
        return
    again, octets = to_fast(payload, NOW, message_format=number)
    assert octets == body
    again.headers.pop(REST_HEADER, None)
    assert again == head


def test_native_kinds() -> None:
    """Tables, and moments beyond the calendar, are kept as octets in an annotation."""
    native = {"deep": {"a": 1}, "late": Seconds(1 << 63)}
    payload, _ = from_fast(MessageHead(headers={**native, "plain": "p"}), b"", NOW)
    message = Message.decode(payload)
    assert message.application_properties == {"plain": "p"}
    kept = message.message_annotations[NATIVE]
    assert read_table(kept, 0, len(kept))[0] == {"headers": native}
    assert to_fast(payload, NOW)[0].headers == {"plain": "p"} | native
