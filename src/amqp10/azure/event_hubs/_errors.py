"""The error of a reader that another reader displaced."""

from __future__ import annotations

from typing import Final

from ...errors import LinkDetached

STOLEN: Final = "amqp:link:stolen"


class OwnershipLost(LinkDetached):
    """Another reader has the partition: its owner level is as high or higher, or this reader has no owner level."""


def ownership_lost(error: LinkDetached) -> OwnershipLost | None:
    """Return the error for a link that ended or was refused because of another reader; None: for another reason."""
    return OwnershipLost(error.condition, error.description, error.info) if error.condition == STOLEN else None
