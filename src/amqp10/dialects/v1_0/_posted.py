"""Deliveries that nobody holds, by the run: objects are made of them only when there is more to say than "accepted".

Who sends many and counts their outcomes needs no object for each (`SenderLink.post`). A run is a few numbers and the
payloads, which Python's search for garbage cycles does not look into: with half a million deliveries under way it took
half of the time. benchmarks/scale.py, "send, by connections"; benchmarks/budget.py, "send": three tenths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...engine import OutgoingDelivery
    from ._sender import SenderEndpoint

MASK = 0xFFFF_FFFF


class Run:
    """Deliveries of one link, sent one after the other, all whole on the wire, none settled.

    Attributes:
        link, waiter: of all of them.
        number: delivery-id of the first that is left; the others follow, up to `end`.
        tag: the number that is its delivery-tag; the others' follow.
        payloads: of those that are left.
    """

    __slots__ = ("end", "link", "number", "payloads", "tag", "waiter")

    def __init__(self, link: SenderEndpoint, waiter: Any, number: int, tag: int) -> None:
        self.link = link
        self.waiter = waiter
        self.number = self.end = number
        self.tag = tag
        self.payloads: list[bytes] = []

    def drop(self, count: int) -> None:
        """The first are settled."""
        del self.payloads[:count]
        self.number = self.number + count & MASK
        self.tag += count
        self.link.posted -= count

    def overlaps(self, first: int, count: int) -> bool:
        """Whether any of it is in that range of delivery-ids."""
        return self.number - first & MASK < count or first - self.number & MASK < len(self.payloads)

    def deliveries(self) -> Iterator[OutgoingDelivery]:
        """Objects, as `send` would have made them."""
        for offset, payload in enumerate(self.payloads):
            delivery = self.link.delivery_type(self.link, tag_of(self.tag + offset), payload, False)
            delivery.delivery_id = self.number + offset & MASK
            delivery.on_wire = True
            delivery.waiter = self.waiter
            yield delivery


def tag_of(number: int) -> bytes:
    """The delivery-tag that is made of a link's count of deliveries."""
    return number.to_bytes(4 if number < 0x1_0000_0000 else 8, "big")
