"""Link credit (§2.6.7): integers in, integers out. The unit is the delivery."""

from __future__ import annotations

from ...types import serial_diff

_MASK = 0xFFFF_FFFF


class SenderCredit:
    """The sender's view.

    Attributes:
        delivery_count: how many deliveries were begun, from the initial delivery-count on (RFC 1982).
        credit: how many may be begun now.
        available: how many wait, as last told.
        drain: the receiver wants its credit used now or given back.
    """

    __slots__ = ("_overdrawn", "available", "credit", "delivery_count", "drain", "initial")

    def __init__(self, initial_delivery_count: int) -> None:
        self.initial = self.delivery_count = initial_delivery_count
        self.credit = 0
        self.available = 0
        self.drain = False
        self._overdrawn = 0  # deliveries begun beyond a credit that was lowered meanwhile

    def sent(self) -> None:
        """A delivery was begun."""
        self.delivery_count = (self.delivery_count + 1) & _MASK
        self.credit -= 1

    def unsent(self) -> None:
        """A delivery begun never reached the wire."""
        self.delivery_count = (self.delivery_count - 1) & _MASK
        if self._overdrawn:
            self._overdrawn -= 1
        else:
            self.credit += 1

    def flow_received(self, delivery_count: int | None, link_credit: int, drain: bool) -> None:
        """The receiver's flow: its count plus its credit, less ours. A null count means that it has seen none yet.

        A count ahead of ours names deliveries that were never begun: they are no reason to send more than it granted.
        """
        seen = self.initial if delivery_count is None else delivery_count
        left = link_credit - max(0, serial_diff(self.delivery_count, seen))
        self.credit = max(0, left)
        self._overdrawn = max(0, -left)
        self.drain = drain

    def drained(self) -> None:
        """Give the rest back: the count goes on as if the credit had been used."""
        self.delivery_count = (self.delivery_count + self.credit) & _MASK
        self.credit = 0


class ReceiverCredit:
    """The receiver's view.

    Attributes:
        delivery_count: the sender's count as far as it is known; None before its attach.
        credit: how many deliveries may still come.
        spare: how many more may come all the same: they had credit that was taken back while they were on their way.
        available: how many the sender said to have waiting.
        drain: we asked for the credit to be used now or given back.
    """

    __slots__ = ("available", "credit", "delivery_count", "drain", "spare")

    def __init__(self, delivery_count: int | None) -> None:
        self.delivery_count = delivery_count
        self.credit = self.spare = 0
        self.available = 0
        self.drain = False

    def attached(self, initial_delivery_count: int) -> None:
        """The sender's attach names its first count."""
        self.delivery_count = initial_delivery_count

    def grant(self, credit: int, drain: bool) -> None:
        """Our flow. Until the sender sees it, it goes by those before: the furthest that any of them allows stands."""
        self.spare = max(0, self.credit + self.spare - credit)
        self.credit = credit
        self.drain = drain

    def received(self) -> bool:
        """A delivery began to come; False if none of our flows gave it credit."""
        if self.credit > 0:
            self.credit -= 1
        elif self.spare > 0:
            self.spare -= 1
        else:
            return False
        if self.delivery_count is not None:
            self.delivery_count = (self.delivery_count + 1) & _MASK
        return True

    def received_many(self, count: int) -> None:
        """The same as `received` as often, for no more than `credit`."""
        self.credit -= count
        if self.delivery_count is not None:
            self.delivery_count = (self.delivery_count + count) & _MASK

    @property
    def used_up(self) -> bool:
        """Nothing may come any more before we grant credit again."""
        return self.credit <= 0 and self.spare <= 0

    def flow_received(self, delivery_count: int | None, available: int | None) -> None:
        """The sender's flow: a count ahead of ours is credit that it gave back."""
        if delivery_count is not None and self.delivery_count is not None:
            skipped = serial_diff(delivery_count, self.delivery_count)
            if skipped > 0:
                self.delivery_count = delivery_count
                self.spare = max(0, self.spare - max(0, skipped - self.credit))
                self.credit = max(0, self.credit - skipped)
        if available is not None:
            self.available = available
