"""Runs of deliveries that were received in bulk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....engine import IncomingDelivery
from ..._kit.lazy_deliveries import LazyReceiver, LazyRun

if TYPE_CHECKING:
    from ..wire.performatives import Transfer


class TransferRun(LazyRun):
    """The deliveries of transfers that look alike.

    Args:
        incoming: the session's table of unsettled deliveries.
    """

    __slots__ = ("_incoming", "_payloads", "message_format", "state")

    def __init__(
        self,
        kind: type[IncomingDelivery],
        like: Transfer,
        numbers: tuple[int, ...],
        tags: tuple[bytes, ...],
        payloads: tuple[bytes, ...],
        incoming: dict[int, IncomingDelivery],
    ) -> None:
        super().__init__(kind, like.settled is True, numbers, tags)
        self.message_format: int = like.message_format or 0
        self.state: Any = like.state
        self._payloads = payloads
        self._incoming = incoming

    def payloads(self, part: slice) -> tuple[bytes, ...]:
        return self._payloads[part]

    def make(self, link: LazyReceiver, most: int) -> list[IncomingDelivery]:
        """Make objects of the next `most` deliveries, and enter unsettled ones in the session's table."""
        deliveries = super().make(link, most)
        if self.message_format:
            for delivery in deliveries:
                delivery.message_format = self.message_format
        if self.state is not None:
            for delivery in deliveries:
                delivery.remote_state = self.state
        if not self.settled:
            numbers = self.numbers[self.taken - len(deliveries) : self.taken]
            self._incoming.update(zip(numbers, deliveries, strict=True))
        return deliveries
