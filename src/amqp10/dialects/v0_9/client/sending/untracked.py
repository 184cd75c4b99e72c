"""Runs of publishes without delivery objects: one is made only when there is more to say than "accepted".

Of a link's unconfirmed publishes, the older ones may be delivery objects. The newer ones are kept as payloads only.
When a newer delivery is made (`send`), or a confirm out of order leaves an earlier publish open, payloads become
deliveries up to there, in the order of sending. When all deliveries are confirmed, payloads alone are kept again.

See `dialects.v1_0.endpoints.untracked`. benchmarks/budget.py, "publish_0_9_1": a third of the steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .....engine import OutcomeCounter, OutgoingDelivery, SenderLink


class UntrackedRun:
    """Publishes of one waiter, numbered one after the other, none of them confirmed.

    Attributes:
        first: the number of the first publish that is left.
        payloads: the payloads of the publishes that are left.
    """

    __slots__ = ("first", "payloads", "waiter")

    def __init__(self, waiter: OutcomeCounter, first: int) -> None:
        self.waiter: OutcomeCounter = waiter
        self.first: int = first
        self.payloads: list[bytes] = []

    def drop(self, count: int) -> None:
        """Drop the first `count` publishes: they are confirmed, or are deliveries now."""
        del self.payloads[:count]
        self.first += count

    def take(self, count: int, link: SenderLink) -> Iterator[OutgoingDelivery]:
        """Take out the first `count` publishes, and yield the deliveries that `send` would have made of them."""
        numbered = enumerate(self.payloads[:count], self.first)
        self.drop(count)
        for number, payload in numbered:
            delivery = link.delivery_type(link, number.to_bytes(8, "big"), payload, False)
            delivery.delivery_id = number
            delivery.on_wire = True
            delivery.waiter = self.waiter
            yield delivery
