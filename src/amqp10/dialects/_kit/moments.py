"""Moments as programs of the older dialects count them: in seconds, or in milliseconds, since 1970."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from ...errors import EncodeError
from ...types import Timestamp

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SINCE_1973: Final = 100_000_000_000
"""Numbers from this one on are milliseconds; smaller ones are seconds, which reach to the year 5138."""


def milliseconds(moment: datetime | Timestamp) -> int:
    """Return a moment as AMQP 1.0 counts it.

    Raises:
        EncodeError: the datetime has no time zone.
    """
    if isinstance(moment, Timestamp):
        return int(moment)
    if moment.tzinfo is None:
        raise EncodeError(f"a datetime must have a time zone: {moment!r}")
    return (moment - EPOCH) // timedelta(milliseconds=1)
