"""Runs of deliveries without objects: they become objects only if they get another outcome than "accepted".

An owner that only counts outcomes needs no object for each delivery (`SenderLink.send_untracked`). A run is a few
numbers and the payloads, which Python's search for garbage cycles does not look into: with half a million deliveries
under way that search took half of the time. benchmarks/scale.py, "send, by connections"; benchmarks/budget.py, "send":
three tenths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....engine import RunAccepted, UntrackedAccepted
from ....types import SERIAL_MASK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ....engine import Event, OutgoingDelivery
    from ..resumption.sender import ResumingSender


class UntrackedRun:
    """Unsettled deliveries of one link, sent one after the other, each of them completely.

    Attributes:
        link, waiter: the link and the waiter of all deliveries; those of a `SentRun` have waiters of their own.
        number: the delivery-id of the first delivery that is left; the others follow, up to `end`.
        tag: the number that its delivery-tag is made of; those of the others follow.
        payloads: the payloads of the deliveries that are left.
    """

    __slots__ = ("end", "link", "number", "payloads", "tag", "waiter")
    end: int
    number: int

    def __init__(self, link: ResumingSender, waiter: Any, number: int, tag: int) -> None:
        self.link: ResumingSender = link
        self.waiter: Any = waiter
        self.number = self.end = number
        self.tag: int = tag
        self.payloads: list[bytes] = []

    def drop(self, count: int) -> None:
        """Drop the first `count` deliveries, which are settled."""
        del self.payloads[:count]
        self.number = self.number + count & SERIAL_MASK
        self.tag += count
        self.link.untracked -= count

    def accept(self, count: int) -> Event:
        """Drop the first `count` deliveries, which are accepted; return what tells that."""
        self.drop(count)
        return UntrackedAccepted(self.link, self.waiter, count)

    def overlaps(self, first: int, count: int) -> bool:
        """Return whether a delivery of the run is in the range of `count` delivery-ids from `first` on."""
        return self.number - first & SERIAL_MASK < count or first - self.number & SERIAL_MASK < len(self.payloads)

    def deliveries(self) -> Iterator[OutgoingDelivery]:
        """Make the objects that `send` would have made."""
        for offset, payload in enumerate(self.payloads):
            delivery = self.link.delivery_type(self.link, tag_of(self.tag + offset), payload, False)
            delivery.delivery_id = self.number + offset & SERIAL_MASK
            delivery.on_wire = True
            delivery.waiter = self.waiter
            yield delivery


class SentRun(UntrackedRun):
    """The deliveries of one call of `send_run`, each with a waiter of its own. benchmarks/real_brokers.py"""

    __slots__ = ("_waiters",)

    def __init__(
        self, link: ResumingSender, payloads: Sequence[bytes], waiters: Sequence[object], number: int, tag: int
    ) -> None:
        super().__init__(link, None, number, tag)
        self.payloads: list[bytes] = list(payloads)
        self._waiters = list(waiters)

    def accept(self, count: int) -> Event:
        accepted = self._waiters[:count]
        del self._waiters[:count]
        self.drop(count)
        return RunAccepted(self.link, accepted)

    def deliveries(self) -> Iterator[OutgoingDelivery]:
        for delivery, waiter in zip(super().deliveries(), self._waiters, strict=True):
            delivery.waiter = waiter
            yield delivery


def tag_of(number: int) -> bytes:
    """Return the delivery-tag that is made of a link's count of deliveries."""
    return number.to_bytes(4 if number < 0x1_0000_0000 else 8, "big")
