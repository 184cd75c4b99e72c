"""The arithmetic of a prefetch: what basic.qos asks for, and how many deliveries may still come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from amqp10.dialects.v0_9.client.receiving.prefetch import MAX_PREFETCH, NO_LIMIT, Prefetch

COUNTS = st.integers(0, 2 * MAX_PREFETCH)


@given(COUNTS, st.integers(1, MAX_PREFETCH), COUNTS)
def test_prefetch(wanted: int, least: int, unacked: int) -> None:
    """It is what is wanted, between what the user wants and what 0-9-1 can say; what has no ack takes room."""
    prefetch = Prefetch()
    assert prefetch.room == 0
    prefetch.least, prefetch.unacked = least, unacked
    assert prefetch.set(wanted).prefetch_count == prefetch.count
    assert least <= prefetch.count <= MAX_PREFETCH
    assert prefetch.count in (wanted, least, MAX_PREFETCH)
    assert prefetch.room == prefetch.count - unacked


def test_without_acks() -> None:
    """Deliveries that need no acks never use up the room."""
    prefetch = Prefetch(NO_LIMIT)
    prefetch.unacked += 1 << 40
    assert prefetch.room > MAX_PREFETCH
