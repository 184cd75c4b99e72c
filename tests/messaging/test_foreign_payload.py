"""Messages of other protocols: mapped when something besides the body is asked for, and only once."""

from __future__ import annotations

import copy
import pickle

import pytest

from amqp10.engine import IncomingDelivery
from amqp10.errors import DecodeError
from amqp10.messaging import Message
from amqp10.messaging.payloads import ForeignPayload, SplitPayload

HEAD = Message(subject="s", application_properties={"k": 1}).encode_head()


class Mapping:
    """Counts how often it maps."""

    def __init__(self, head: bytes = HEAD) -> None:
        self.count = 0
        self.head = head

    def __call__(self, route: bytes, properties: bytes) -> bytes:
        self.count += 1
        return self.head + route + properties

    def message(self, body: bytes = b"body") -> Message:
        return Message.decode(ForeignPayload((self, b"", b"", body)))


@pytest.mark.parametrize("body", [b"", b"body", bytes(300)])
def test_the_same_message(body: bytes) -> None:
    """It has the fields and the body of the same message in sections, equals it, and is encoded to the same."""
    payload = ForeignPayload((Mapping(), b"", b"", body))
    plain = Message(body, subject="s", application_properties={"k": 1})
    assert bytes(payload) == plain.encode()
    message = Message.decode(payload)
    assert (message.body, message.subject, message.application_properties) == (body, "s", {"k": 1})
    assert message == plain
    for same in (message, Message.decode(payload), pickle.loads(pickle.dumps(message)), copy.deepcopy(message)):
        assert same.encode() == plain.encode()
    assert Message.decode(payload).replace(subject="t").encode() == plain.replace(subject="t").encode()


def test_mapped_once_when_asked_for() -> None:
    """The body alone maps nothing; a field does, the next one not again."""
    mapping = Mapping()
    message = mapping.message()
    assert message.body == b"body"
    assert mapping.count == 0
    assert message.subject == "s"
    assert message.application_properties == {"k": 1}
    message.check()
    assert mapping.count == 1


def test_its_delivery() -> None:
    """The payload of a delivery is the sections; what it is shown as maps nothing."""
    mapping = Mapping()
    delivery = IncomingDelivery(None, 1, b"1", ForeignPayload((mapping, b"", b"", b"body")), False)  # type: ignore[arg-type]
    assert len(delivery.pieces) == len(b"body")
    assert mapping.count == 0
    assert delivery.payload == HEAD + Message(b"body").encode()


def test_malformed_sections() -> None:
    """What the other protocol's words are mapped to is read as any other: where it is looked at."""
    message = Mapping(b"\0\x53\x73\xc0\xff").message()
    assert message.body == b"body"
    with pytest.raises(DecodeError):
        _ = message.subject


def test_what_it_has_not() -> None:
    """An attribute that no message has is none of this one, either, mapped or not."""
    message = Mapping().message()
    for each in (message, Message(b"")):
        with pytest.raises(AttributeError, match="no attribute 'subjekt'"):
            _ = each.subjekt  # type: ignore[attr-defined]
        assert not hasattr(each, "_other")


@pytest.mark.parametrize("body", [b"body", bytes(40_000)])
def test_no_body_any_more(body: bytes) -> None:
    """A body that is taken away leaves the same octets, whatever the payload came as; a body there never was, none."""
    whole = Message(body, subject="s", application_properties={"k": 1}).encode()
    view = memoryview(whole)
    for payload in (ForeignPayload((Mapping(), b"", b"", body)), SplitPayload([view[:50], view[50:]])):
        message, plain = Message.decode(payload), Message.decode(whole)
        assert message.replace(body=None).encode() == plain.replace(body=None).encode()
        assert (
            message.replace(body=None).replace(subject="t").encode() == plain.replace(body=None, subject="t").encode()
        )
        message.body = plain.body = None
        assert message.encode() == plain.encode() != HEAD
    assert Message.decode(HEAD).replace(body=None).encode() == HEAD
