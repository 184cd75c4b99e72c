"""Times as both services write them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from ..types import Timestamp


def moment(value: Any) -> datetime | None:
    """Return `value` as a datetime; None if it is no time, or lies outside the range of datetime."""
    if isinstance(value, Timestamp):
        try:
            return datetime.fromtimestamp(value / 1000, UTC)
        except (ValueError, OverflowError, OSError):
            return None
    return value if isinstance(value, datetime) else None
