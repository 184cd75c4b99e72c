"""What only Event Hubs refuses, or takes away."""

from __future__ import annotations

from typing import Final

from ...errors import LinkDetached

STOLEN: Final = "amqp:link:stolen"


class OwnershipLost(LinkDetached):
    """Another reader has the partition: one of the same or a higher owner level, or of any where this one has none."""


def ownership_lost(error: LinkDetached) -> OwnershipLost | None:
    """Return the error for a link that another reader put out, or kept out; None: that is not why it ended."""
    return OwnershipLost(error.condition, error.description, error.info) if error.condition == STOLEN else None
