"""Values in tables and headers of the older dialects: moments, decimals, and text that may be octets.

Moments are counted in seconds, or in milliseconds, since 1970.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from ....errors import EncodeError
from ....types import Timestamp

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SINCE_1973: Final = 100_000_000_000
"""Numbers from this one on are milliseconds; smaller ones are seconds, which reach to the year 5138."""
MAX_DEPTH: Final = 32
"""How deep tables, maps and lists may be nested."""
_MAX_DIGITS: Final = 40  # more fit no decimal of 64 bits, and cost time


def milliseconds(when: datetime | Timestamp) -> int:
    """Return a moment as AMQP 1.0 counts it.

    Raises:
        EncodeError: the datetime has no time zone.
    """
    if isinstance(when, Timestamp):
        return int(when)
    if when.tzinfo is None:
        raise EncodeError(f"a datetime must have a time zone: {when!r}")
    return (when - EPOCH) // timedelta(milliseconds=1)


def moment(count: int) -> datetime | Timestamp:
    """Return the moment that is `count` milliseconds after the beginning of 1970; the reverse of `milliseconds`."""
    try:
        return EPOCH + timedelta(milliseconds=count)
    except OverflowError:
        return Timestamp(count)


def split_decimal(value: Decimal, bits: int) -> tuple[int, int]:
    """Return the digits of a decimal as one number, and its decimal places: 150 and 2 for 1.50.

    Raises:
        EncodeError: it is no number, has more than 255 places, or its digits do not fit `bits`, one for the sign.
    """
    sign, digits, exponent = value.as_tuple()
    if isinstance(exponent, int) and len(digits) <= _MAX_DIGITS:
        number = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
        if exponent > 0:
            number, exponent = number * 10 ** min(exponent, _MAX_DIGITS), 0
        if exponent >= -255 and -(1 << bits - 1) <= number < 1 << bits - 1:
            return number, -exponent
    raise EncodeError(f"{value!s:.80} does not fit a decimal of {bits} bits and 255 places")


def text_or_octets(octets: bytes) -> str | bytes:
    """Return text if the octets are UTF-8, else the octets: peers put binary in strings if they have no other type."""
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return octets
