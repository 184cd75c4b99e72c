"""Whatever a peer of AMQP 1.0 sends can be passed on in each older dialect, or is refused in words: it breaks none."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10.dialects.fast.message.to_head import to_fast
from amqp10.dialects.v0_9.message.to_basic import ToBasic
from amqp10.dialects.v0_9.wire.tables import DRAFT_TABLES, TABLES
from amqp10.dialects.v0_10.message.to_transfer import write_message
from amqp10.engine import Address
from amqp10.errors import EncodeError
from amqp10.messaging import Message
from amqp10.testing.strategies import messages
from amqp10.types import Symbol

moments = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))
simple = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.text(max_size=300),
    st.binary(max_size=20),
    st.floats(),
    st.uuids(),
    moments,
    st.decimals(allow_nan=True),
)
keys = st.one_of(st.text(max_size=5), st.integers(0, 9), st.none())
anything = st.recursive(
    simple, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)), max_leaves=6
)
# The places in which dialects keep what others have no words for, and what they keep in them.
places = st.sampled_from(
    ["x-opt-0-9-1", "x-opt-0-10", "x-opt-fast", "x-opt-amqp10", "x-death", "x-exchange", "x-routing-key"]
)
kept = st.sampled_from(["headers", "children", "type", "app-id", "cluster-id", "expiration", "priority", "timestamp"])
odd_annotations = st.dictionaries(
    places.map(Symbol), st.one_of(anything, st.dictionaries(kept, anything, max_size=4)), max_size=3
)
QUEUE = Address("", "q")


@pytest.mark.slow
@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(messages(), odd_annotations)
def test_any_message(message: Message, odd: dict[Any, Any]) -> None:
    """Any message, with anything in the annotations that dialects have for their own."""
    message.message_annotations.update(odd)
    try:
        payload = message.encode()
    except EncodeError:
        return
    for tables in (TABLES, DRAFT_TABLES):
        for forwarded in (False, True):
            assert written_or_refused(ToBasic(tables, "", "q", forwarded=forwarded).map, payload)
    for address, fallback in ((QUEUE, None), (None, QUEUE)):
        assert written_or_refused(write_message, payload, address, fallback=fallback)
    assert written_or_refused(to_fast, payload, time.time())


def written_or_refused(write: Callable[..., object], *arguments: object, **options: object) -> object:
    """Return the written message, or the text of the error."""
    try:
        return write(*arguments, **options)
    except EncodeError as refusal:
        return str(refusal)
