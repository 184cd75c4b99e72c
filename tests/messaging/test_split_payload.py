"""`messaging/_payload.py`: a message in several buffers is the message in one, and its body is copied once."""

from __future__ import annotations

import sys
import tracemalloc
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from amqp10.errors import DecodeError
from amqp10.messaging import AmqpSequence, Data, Message
from amqp10.messaging.payloads import SplitPayload
from amqp10.testing.strategies import exact_message, messages
from amqp10.types import Array, Symbol

LONG = st.binary(min_size=256, max_size=300)
BODIES = LONG | LONG.map(lambda data: Data(data, b"more")) | st.text(max_size=300)


def looked_at(payload: Any) -> Any:
    """All that is to be seen of a message: its fields, what it is when it is encoded, as it is and changed."""
    message = Message.decode(payload)
    try:
        message.check()
        seen = exact_message(message), message.encode(), message.encode_head(), message.encode_footer()
        message.subject = "changed"
        return *seen, message.encode(), message.replace(body=b"x").encode()
    except DecodeError:
        return DecodeError  # which octet is the first wrong one depends on how much of what follows is in view


@settings(deadline=None)
@given(
    messages(BODIES),
    st.lists(st.integers(0, 1000), max_size=4),
    st.lists(st.tuples(st.integers(0, 600), st.integers(0, 255)), max_size=2),
)
@example(Message(bytes(300)), [], [])
@example(Message(bytes(300), subject="s"), [0, 20, 21], [(0, 1)])
@example(Message(bytes(300), delivery_annotations={Symbol("a"): [Array("list", [[None]])]}), [], [(7, 200)])
def test_one_piece_or_several(message: Message, cuts: list[int], changed: list[tuple[int, int]]) -> None:
    """Wherever it is cut, and whatever octets of it are wrong, it is the same message, or an error."""
    payload = bytearray(message.encode())
    for place, octet in changed:
        payload[place % len(payload)] = octet
    whole = bytes(payload)
    places = [0, *sorted(cut % len(whole) for cut in cuts), len(whole)]
    view = memoryview(whole)
    pieces = SplitPayload([view[begin:end] for begin, end in pairwise(places)])
    assert len(pieces) == len(whole)
    assert bytes(pieces) == whole
    assert looked_at(pieces) == looked_at(whole)
    assert bytes(pieces) == whole


@pytest.mark.parametrize("fields", [{}, {"subject": "large", "application_properties": {"n": 1}}])
def test_the_body_is_copied_once(fields: Any) -> None:
    """From the buffers it came in, which are let go, and whoever wants the payload gets it all the same."""
    size = 1 << 22
    payload = Message(bytes(size), **fields).encode()
    view = memoryview(payload)
    pieces = SplitPayload([view[at : at + (1 << 18)] for at in range(0, len(payload), 1 << 18)])
    tracemalloc.start()
    try:
        message = Message.decode(pieces)
        assert len(message.body) == size
        assert size <= tracemalloc.get_traced_memory()[1] < size + 50_000
    finally:
        tracemalloc.stop()
    assert not any(isinstance(each, memoryview) for each in pieces.buffers)
    assert bytes(pieces) == payload


@pytest.mark.parametrize("body", ["x" * 40_000, Data(bytes(20_000), bytes(20_000)), AmqpSequence(["x" * 40_000])])
def test_what_is_joined_is_let_go(body: Any) -> None:
    """A body that is no single data section is read of the payload in one, which is then all that is kept of it."""
    payload = Message(body).encode()
    read = bytes(1 << 19) + payload
    unheld = sys.getrefcount(read)
    pieces = SplitPayload([memoryview(read)[1 << 19 : -100], memoryview(read)[-100:]])
    assert sys.getrefcount(read) > unheld
    message = Message.decode(pieces)
    assert sys.getrefcount(read) == unheld
    assert message.body == body
    assert len(pieces.buffers) == 1
    assert pieces.buffers[0] is message._source
    assert bytes(pieces) == payload
