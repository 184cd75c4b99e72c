"""Serial number arithmetic, around the wrap and at the undefined distance."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10.types import serial_add, serial_compare, serial_diff, serial_lt

NUMBERS = st.integers(0, 2**32 - 1)
STEPS = st.integers(1, 2**31 - 1)


def test_add_wraps() -> None:
    """The number after 2**32 - 1 is 0, and the one before 0 is 2**32 - 1."""
    assert serial_add(2**32 - 1, 1) == 0
    assert serial_add(0, -1) == 2**32 - 1
    assert serial_add(2**32 - 4, 10) == 6


def test_order_across_the_wraps() -> None:
    """Numbers just before a wrap of 32 or 31 bits come before those just after it."""
    assert serial_lt(2**32 - 1, 0)
    assert serial_lt(2**31 - 1, 2**31)
    assert not serial_lt(0, 2**32 - 1)
    assert serial_compare(2**32 - 2, 3) == -1
    assert serial_compare(3, 2**32 - 2) == 1
    assert serial_compare(7, 7) == 0


@settings(deadline=None)
@given(NUMBERS, STEPS)
def test_a_step_forward_is_later(number: int, step: int) -> None:
    """Whatever is added, less than half the circle, leads to a later number, at that distance."""
    later = serial_add(number, step)
    assert serial_lt(number, later)
    assert not serial_lt(later, number)
    assert serial_compare(number, later) == -1
    assert serial_diff(later, number) == step
    assert serial_diff(number, later) == -step


@settings(deadline=None)
@given(NUMBERS)
def test_half_the_circle_has_no_order(number: int) -> None:
    """RFC 1982 defines no order for two numbers 2**31 apart: neither is less, and comparing says so."""
    opposite = serial_add(number, 2**31)
    assert not serial_lt(number, opposite)
    assert not serial_lt(opposite, number)
    assert serial_diff(opposite, number) == -(2**31)
    with pytest.raises(ValueError, match="half the circle"):
        serial_compare(number, opposite)
