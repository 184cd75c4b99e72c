"""Deliveries that came in bulk and that nobody took yet, by the run: objects are made of them portion by portion.

A run is three tuples of numbers and bytes, which Python's search for garbage cycles does not look into again. With 500
messages on each of 1000 connections, all here before the first is taken, it took two fifths of the time.
benchmarks/scale.py, "receive, by connections".
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...engine import IncomingDelivery
    from ._performatives import Transfer
    from ._receiver import ReceiverEndpoint


class Run:
    """Deliveries of one link that came one after the other, whole, and differ in these columns only.

    Attributes:
        taken: objects were made of so many of them, from the first on.
    """

    __slots__ = ("kind", "message_format", "numbers", "payloads", "settled", "state", "tags", "taken")

    def __init__(
        self,
        kind: type[IncomingDelivery],
        like: Transfer,
        numbers: tuple[int, ...],
        tags: tuple[bytes, ...],
        payloads: tuple[bytes, ...],
    ) -> None:
        self.kind = kind
        self.settled = bool(like.settled)
        self.message_format = like.message_format or 0
        self.state = like.state
        self.numbers = numbers
        self.tags = tags
        self.payloads = payloads
        self.taken = 0

    @property
    def over(self) -> bool:
        """There is an object of each."""
        return self.taken == len(self.numbers)

    def make(self, link: ReceiverEndpoint, most: int) -> list[IncomingDelivery]:
        """Objects of the next so many; those that are unsettled are in the tables of their link and session then."""
        part = slice(self.taken, self.taken + most)
        numbers, tags = self.numbers[part], self.tags[part]
        self.taken += len(numbers)
        deliveries = [*map(self.kind, repeat(link), numbers, tags, self.payloads[part], repeat(self.settled))]
        if self.message_format:
            for delivery in deliveries:
                delivery.message_format = self.message_format
        if self.state is not None:
            for delivery in deliveries:
                delivery.remote_state = self.state
        if not self.settled:
            link._unsettled.update(zip(tags, deliveries, strict=True))
            link.session.incoming.update(zip(numbers, deliveries, strict=True))
        return deliveries
