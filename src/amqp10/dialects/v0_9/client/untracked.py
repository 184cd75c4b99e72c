"""Runs of publishes without objects: objects are made only when there is more to say than "accepted".

Of a link's publishes without a confirm, those that are objects are older than those that are not. A new object comes
last (`send`), and an older one may be left open by a confirm out of order: then publishes become objects up to there.
Each becomes one at most once, in the order of sending. When the objects are gone, all is as quick as before.

See `dialects.v1_0.endpoints.untracked`. benchmarks/budget.py, "publish_0_9_1": a third of the steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ....engine import OutcomeCounter, OutgoingDelivery, SenderLink


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
        """Drop the first `count` publishes: they are confirmed, or are objects now."""
        del self.payloads[:count]
        self.first += count

    def take(self, count: int, link: SenderLink) -> Iterator[OutgoingDelivery]:
        """Take out the first `count` publishes, and yield them as objects, as `send` would have made them."""
        numbered = enumerate(self.payloads[:count], self.first)
        self.drop(count)
        for number, payload in numbered:
            delivery = link.delivery_type(link, number.to_bytes(8, "big"), payload, False)
            delivery.delivery_id = number
            delivery.on_wire = True
            delivery.waiter = self.waiter
            yield delivery
