"""The prefetch of a link's consumer (basic.qos): how many deliveries the peer may have sent that have no ack."""

from __future__ import annotations

from typing import Final

from ...wire.methods import BasicQos

MAX_PREFETCH: Final = 0xFFFF
NO_LIMIT: Final = 1 << 62
"""The prefetch of a consumer that needs no acks."""
TOLERANCE: Final = 1000
"""Deliveries beyond the prefetch and the credit that are taken from a peer that counts in another way."""


class Prefetch:
    """The arithmetic of a prefetch.

    Attributes:
        count: the prefetch; 0 before the first basic.qos.
        least: the least that the user wants.
        most_waiting: the most deliveries that may wait for credit.
        unacked: deliveries of the present consumer without an ack.
    """

    __slots__ = ("count", "least", "most_waiting", "unacked")

    def __init__(self, count: int = 0) -> None:
        self.count: int = count
        self.least: int = 1
        self.most_waiting: int = min(count, MAX_PREFETCH) + TOLERANCE
        self.unacked: int = 0

    @property
    def room(self) -> int:
        """Return how many deliveries the peer may send before the next ack."""
        return self.count - self.unacked

    def set(self, wanted: int) -> BasicQos:
        """Set the prefetch to `wanted`, as far as the user and 0-9-1 allow it; return the method to write."""
        self.count = min(max(wanted, self.least), MAX_PREFETCH)
        self.most_waiting = max(self.most_waiting, self.count + TOLERANCE)
        return BasicQos(prefetch_count=self.count)
