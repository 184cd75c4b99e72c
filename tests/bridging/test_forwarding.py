"""What an intermediary changes in a message, and what it leaves alone (§3.2.1, §3.2.2)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10 import Described, Message, Symbol, ULong
from amqp10.bridging._forwarding import for_next_hop, with_refusal
from amqp10.testing import strategies
from amqp10.types import encode


@pytest.mark.parametrize(
    "message",
    [
        Message(b"x"),
        Message(b"x", durable=True),
        Message(b"x", durable=True, priority=5, delivery_count=3, first_acquirer=True),
        Message(b"x", message_annotations={"x-opt-a": 1}),
        Message(b"x", subject="s", to="there", reply_to="here"),
        Message(b"x", application_properties={"n": 1}),
        Message("value"),
        Message([1, 2]),
    ],
)
def test_the_same_object(message: Message) -> None:
    """Where nothing is to be changed no octet is copied."""
    payload = message.encode()
    if message.priority == 4:
        assert for_next_hop(payload, 5.0) is payload
    assert for_next_hop(payload, 5.0) == payload


def test_a_time_to_live_becomes_less() -> None:
    """By the time that it was here, and never to nothing; other fields of the header stay."""
    message = Message(b"x", ttl=timedelta(seconds=10), durable=True, priority=2, delivery_count=1)
    short = Message.decode(for_next_hop(message.encode(), 4.0))
    assert short.ttl == timedelta(seconds=6)
    assert (short.durable, short.priority, short.delivery_count, short.body) == (True, 2, 1, b"x")
    assert Message.decode(for_next_hop(message.encode(), 60.0)).ttl == timedelta(milliseconds=1)
    assert for_next_hop(message.encode(), 0.0) == message.encode()


def test_delivery_annotations_end_here() -> None:
    """With a header before them or not, and with wide descriptors, as they are allowed."""
    message = Message(b"x", delivery_annotations={"x-opt-hop": 1}, message_annotations={"x-opt-kept": 2})
    for each in (message, message.replace(durable=True), message.replace(ttl=timedelta(seconds=9))):
        passed = Message.decode(for_next_hop(each.encode(), 0.0))
        assert passed.delivery_annotations == {}
        assert passed.message_annotations == {"x-opt-kept": 2}
        assert passed.body == b"x"
    wide = encode(Described(Symbol("amqp:delivery-annotations:map"), {Symbol("x-opt-hop"): 1}))
    assert for_next_hop(wide + Message(b"x").encode(), 0.0) == Message(b"x").encode()
    wider = encode(Described(ULong(0x70), [True])) + Message(b"x").encode()
    assert for_next_hop(wider, 1.0) == wider


@pytest.mark.parametrize("others", [{}, {"x-opt-kept": "v" * 300}])
@pytest.mark.parametrize("keys", [["one", "two"], [], "none that is valid"])
@pytest.mark.parametrize("fields", [{}, {"durable": True}, {"ttl": timedelta(seconds=9)}, {"subject": "s"}])
def test_no_copies_again(fields: dict[str, Any], keys: Any, others: dict[str, Any]) -> None:
    """Further keys, however they are said, go on by a name that no broker heeds; everything else as it was."""
    for said, left in (
        ({"x-cc": keys}, {}),
        ({"x-opt-0-9-1": {"headers": {"CC": keys}}}, {"x-opt-0-9-1": {"headers": {}}}),
        (
            {"x-opt-0-9-1": {"type": "t", "headers": {"CC": keys, "h": [1]}}},
            {"x-opt-0-9-1": {"type": "t", "headers": {"h": [1]}}},
        ),
    ):
        message = Message(b"x", message_annotations={**said, **others}, **fields)
        passed = Message.decode(for_next_hop(message.encode(), 0.0))
        assert passed.message_annotations == {**left, **others, "x-opt-bridge-cc": keys}
        assert passed.replace(message_annotations=None) == message.replace(message_annotations=None)


@pytest.mark.parametrize("annotations", [{"x-exchange": "CC", "x-routing-key": "x-cc"}, {"x-opt-0-9-1": {"CC": 1}}])
def test_what_only_sounds_like_copies(annotations: dict[str, Any]) -> None:
    """It goes on as it is."""
    payload = Message(b"x", message_annotations=annotations).encode()
    assert for_next_hop(payload, 0.0) is payload


@given(st.binary(max_size=60), st.floats(0, 100))
def test_what_is_no_message(payload: bytes, waited: float) -> None:
    """Nothing is raised, for whether that may be is for the target to say."""
    for some in (payload, *(b"\0\x53" + code + payload for code in (b"\x70", b"\x71", b"\x72", b"\x72\xc1\xffx-cc"))):
        assert isinstance(for_next_hop(some, waited), bytes)
    assert isinstance(with_refusal(payload, "why"), bytes)


@settings(max_examples=200)
@given(strategies.messages(), st.floats(0, 100))
def test_any_message(message: Message, waited: float) -> None:
    """All but the two stays as it is, for whatever message."""
    payload = message.encode()
    passed = Message.decode(for_next_hop(payload, waited))
    changed = message.replace(delivery_annotations=None, ttl=passed.ttl)
    assert passed.replace().encode() == changed.encode()
    if message.ttl is None:
        assert passed.ttl is None


def test_a_mark_says_why() -> None:
    """It is added to the annotations that are there."""
    message = Message(b"x", message_annotations={"x-opt-kept": 2})
    passed = Message.decode(with_refusal(message.encode(), "too large"))
    assert passed.message_annotations == {"x-opt-kept": 2, "x-opt-bridge-refused": "too large"}
