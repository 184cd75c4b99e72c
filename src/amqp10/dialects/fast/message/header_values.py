"""Values of AMQP 1.0 in the header table of a message, and back.

    str S   Int, and other integers of 32 bits I   Decimal D   datetime T (whole seconds)   bytes S

What the table has no kind for is written as near as can be, so that a reader has something, and counts as not exact:
the whole then goes along beside it (`to_head`).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from ....errors import EncodeError
from ....types import Char, Decimal32, Decimal64, Int, Symbol, Timestamp
from ..._kit.message.values import EPOCH, moment, split_decimal, text_or_octets
from ..wire.values import Seconds

_INEXACT_TYPES: Final = (Symbol, Char, Decimal32, Decimal64, Timestamp)
NOTHING: Final[Any] = object()
"""Stands for a value that has no form on the other side."""


def to_header(value: Any) -> tuple[Any, bool]:
    """Return `value` as a table holds it, or `NOTHING`, and whether reading it back gives the same value."""
    exact = type(value) not in _INEXACT_TYPES
    if isinstance(value, str):
        return str(value), exact
    if isinstance(value, bytes):
        text = text_or_octets(value)
        return text, isinstance(text, bytes)
    if isinstance(value, bool):
        return int(value), False
    if isinstance(value, Timestamp):
        return (Seconds(value // 1000), False) if value >= 0 else (NOTHING, False)
    if isinstance(value, int):
        small = -(1 << 31) <= value < 1 << 31
        return (int(value) if small else str(int(value))), type(value) is Int
    if isinstance(value, datetime):
        seconds, rest = divmod(value - EPOCH, timedelta(seconds=1))
        return (Seconds(seconds), not rest) if seconds >= 0 else (NOTHING, False)
    if isinstance(value, Decimal):
        try:
            _, places = split_decimal(value, 32)
        except EncodeError:
            return str(value), False
        same = value.as_tuple().exponent == -places  # a table has no positive exponents
        return Decimal(value), exact and same and not (value.is_signed() and not value)
    if isinstance(value, float | UUID):
        return str(value), False
    return NOTHING, False


def from_header(value: Any) -> Any:
    """Return a table's value in AMQP 1.0's types; `NOTHING` for tables and for times that a datetime cannot hold."""
    if isinstance(value, Seconds):
        return read_moment(value) or NOTHING
    if isinstance(value, dict):
        return NOTHING
    return Int(value) if isinstance(value, int) else value


def read_moment(value: Any) -> datetime | None:
    """Return the time that a header holds; None for a header of another type, or a time that a datetime cannot hold."""
    found = moment(value * 1000) if isinstance(value, Seconds) else None
    return found if isinstance(found, datetime) else None
