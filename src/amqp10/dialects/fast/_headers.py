"""Values of AMQP 1.0 in the header table of a message, and back.

    str S   Int, and other integers of 32 bits I   Decimal D   datetime T (whole seconds)   bytes S

What the table has no kind for is written as near as can be, so that a reader has something, and counts as not exact:
the whole then goes along beside it (`_mapping`).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from ...errors import EncodeError
from ...types import Char, Decimal32, Decimal64, Int, Symbol, Timestamp
from ._values import Seconds, as_text, decimal_parts

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_INEXACT_TYPES: Final = (Symbol, Char, Decimal32, Decimal64, Timestamp)
NOTHING: Final[Any] = object()
"""There is no way to write it."""


def to_header(value: Any) -> tuple[Any, bool]:
    """The value as a table has it, or `NOTHING`; and whether it comes back as it was."""
    exact = type(value) not in _INEXACT_TYPES
    if isinstance(value, str):
        return str(value), exact
    if isinstance(value, bytes):
        text = as_text(value)
        return text, isinstance(text, bytes)
    if isinstance(value, bool):
        return int(value), False
    if isinstance(value, Timestamp):
        return (Seconds(value // 1000), False) if value >= 0 else (NOTHING, False)
    if isinstance(value, int):
        small = -(1 << 31) <= value < 1 << 31
        return (int(value) if small else str(int(value))), type(value) is Int
    if isinstance(value, datetime):
        seconds, rest = divmod(value - _EPOCH, timedelta(seconds=1))
        return (Seconds(seconds), not rest) if seconds >= 0 else (NOTHING, False)
    if isinstance(value, Decimal):
        try:
            decimal_parts(value)
        except EncodeError:
            return str(value), False
        return Decimal(value), exact and not (value.is_signed() and not value)
    if isinstance(value, float | UUID):
        return str(value), False
    return NOTHING, False


def from_header(value: Any) -> Any:
    """A table's value in AMQP 1.0's types; `NOTHING` for tables, and moments beyond its calendar."""
    if isinstance(value, Seconds):
        try:
            return _EPOCH + timedelta(seconds=int(value))
        except OverflowError:
            return NOTHING
    if isinstance(value, dict):
        return NOTHING
    return Int(value) if isinstance(value, int) else value


def moment(value: Any) -> datetime | Timestamp | None:
    """A header that says when, if it does."""
    found = from_header(value) if isinstance(value, Seconds) else None
    return found if isinstance(found, datetime) else None
