"""Publishes that nobody holds, by the run: objects are made of them only when there is more to say than "accepted".

See `dialects.v1_0._posted`. benchmarks/budget.py, "publish_0_9_1": a third of the steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...engine import OutgoingDelivery, SenderLink


class Posted:
    """Publishes of one waiter, numbered one after the other, none of them confirmed.

    Attributes:
        first: the number of the first that is left.
        payloads: of those that are left.
    """

    __slots__ = ("first", "payloads", "waiter")

    def __init__(self, waiter: Any, first: int) -> None:
        self.waiter = waiter
        self.first = first
        self.payloads: list[bytes] = []

    @property
    def end(self) -> int:
        """The number after the last."""
        return self.first + len(self.payloads)

    def drop(self, count: int) -> None:
        """The first so many are confirmed."""
        del self.payloads[:count]
        self.first += count

    def deliveries(self, link: SenderLink) -> Iterator[OutgoingDelivery]:
        """Objects, as `send` would have made them."""
        for number, payload in enumerate(self.payloads, self.first):
            delivery = link.delivery_type(link, number.to_bytes(8, "big"), payload, False)
            delivery.delivery_id = number
            delivery.on_wire = True
            delivery.waiter = self.waiter
            yield delivery
