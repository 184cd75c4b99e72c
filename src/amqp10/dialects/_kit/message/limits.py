"""How large a message may be, and how much of messages that are not whole a connection holds, in all dialects."""

from __future__ import annotations

from typing import Final

MAX_MESSAGE: Final = 1 << 29
"""Octets of the largest message that is put together for a link without `max_message_size`.

No peer is told of it; messages that come in one frame, and streams, may be larger.
"""
MAX_PARTIAL: Final = 1 << 26
"""Octets of incomplete messages that a connection may always hold, its links together."""
LARGEST_AT_ONCE: Final = 2
"""How many incomplete messages of the largest size a connection may hold, if they exceed `MAX_PARTIAL`."""
NO_ROOM: Final = "no memory is left for incomplete messages"
"""What a peer is told if those of all connections together have no room."""


def message_limit(declared: int | None) -> int:
    """Return the size of the largest message that is put together for a link; `declared`: its `max_message_size`."""
    return declared or MAX_MESSAGE


def limit_hint(declared: int | None) -> str:
    """Return what follows the size `message_limit(declared)` in the text of an error."""
    if declared:
        return ", the max_message_size of its receiver"
    return ": to take it, give the receiver a larger max_message_size, or read it as a stream"


def partial_limit(connection: int | None, link: int | None = None) -> int:
    """Return how many octets of incomplete messages a connection may hold.

    Args:
        connection: the largest message that it takes on all links; None: each link has a limit of its own.
        link: the largest that the link takes on which some came; None: it did not say.
    """
    return max(MAX_PARTIAL, LARGEST_AT_ONCE * (connection or max(link or 0, MAX_MESSAGE)))
