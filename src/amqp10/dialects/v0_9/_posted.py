"""Publishes that nobody holds, by the run: objects are made of them only when there is more to say than "accepted".

Of a link's publishes without a confirm, those that are objects are older than those that are not: what is posted comes
last, and where an object is to come behind it (`send`), or stays behind (a confirm out of order), it becomes objects up
to there. So each becomes one at most once, in the order of sending, and all is as quick as before when they are gone.

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

    def drop(self, count: int) -> None:
        """The first so many are confirmed, or objects."""
        del self.payloads[:count]
        self.first += count

    def take(self, count: int, link: SenderLink) -> Iterator[OutgoingDelivery]:
        """The first so many as objects, as `send` would have made them; they are no longer here."""
        numbered = enumerate(self.payloads[:count], self.first)
        self.drop(count)
        for number, payload in numbered:
            delivery = link.delivery_type(link, number.to_bytes(8, "big"), payload, False)
            delivery.delivery_id = number
            delivery.on_wire = True
            delivery.waiter = self.waiter
            yield delivery
