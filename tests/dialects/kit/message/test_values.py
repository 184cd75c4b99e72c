"""Moments, decimals and text, as the older dialects have them in tables and headers."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.dialects._kit.message.values import milliseconds, moment, split_decimal, text_or_octets
from amqp10.dialects.fast.wire.values import write_value
from amqp10.dialects.v0_9.wire.tables import TABLES
from amqp10.dialects.v0_10.wire.values import encode_value
from amqp10.errors import EncodeError
from amqp10.types import Decimal64, Timestamp


@given(st.integers(-(1 << 62), 1 << 62))
def test_moments(count: int) -> None:
    """Each comes back, as a datetime where one can hold it."""
    found = moment(count)
    assert milliseconds(found) == count
    assert isinstance(found, Timestamp) is not (-62_135_596_800_000 <= count <= 253_402_300_799_999)


def test_a_moment_without_a_zone() -> None:
    """Nobody can tell when it is."""
    with pytest.raises(EncodeError, match="time zone"):
        milliseconds(datetime(2024, 1, 1))
    assert milliseconds(datetime(1970, 1, 2, tzinfo=UTC)) == 86_400_000


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(0, 255))
def test_decimals(number: int, places: int) -> None:
    """Number and places come back as they were."""
    assert split_decimal(Decimal(number).scaleb(-places), 32) == (number, places)


@pytest.mark.parametrize(("text", "parts"), [("1.50", (150, 2)), ("-2E3", (-2000, 0)), ("0E99", (0, 0))])
def test_exponents(text: str, parts: tuple[int, int]) -> None:
    """What has a positive exponent gets zeros."""
    assert split_decimal(Decimal(text), 32) == parts


@pytest.mark.parametrize("text", ["NaN", "sNaN", "Infinity", "2147483648", "1E10", "1E-256", "1E999999", "1" * 5000])
def test_decimals_that_do_not_fit(text: str) -> None:
    """Are refused, however many digits they have."""
    with pytest.raises(EncodeError, match="does not fit a decimal of 32 bits"):
        split_decimal(Decimal(text), 32)


@pytest.mark.parametrize("write", [TABLES.encode, lambda table: write_value(table)], ids=["0-9-1", "fast"])
def test_digits_without_end(write: Any) -> None:
    """A decimal of 5,000 digits is an error of encoding in every dialect, and not Python's about long integers."""
    with pytest.raises(EncodeError, match="does not fit"):
        write({"d": Decimal("1" * 5000)})
    with pytest.raises(EncodeError, match="does not fit"):
        encode_value(Decimal64("1" * 5000))


def test_text() -> None:
    """Octets stay octets where they are no UTF-8."""
    assert (text_or_octets("é".encode()), text_or_octets(b"\xff")) == ("é", b"\xff")
