"""Times, as both services say them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from ..types import Timestamp


def moment(value: Any) -> datetime | None:
    """Return a time that the service says; None where it says none, or one beyond all calendars."""
    if isinstance(value, Timestamp):
        try:
            return datetime.fromtimestamp(value / 1000, UTC)
        except (ValueError, OverflowError, OSError):
            return None
    return value if isinstance(value, datetime) else None
