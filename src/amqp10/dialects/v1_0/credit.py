"""Link credit (§2.6.7): integers in, integers out. The unit is the delivery."""

from __future__ import annotations

from ...types import SERIAL_MASK as _MASK
from ...types import serial_diff


class SenderCredit:
    """The sender's view.

    Attributes:
        delivery_count: how many deliveries were begun, from the initial delivery-count on (RFC 1982).
        credit: how many deliveries may be begun now.
        available: how many deliveries wait, as last told.
        drain: the receiver wants its credit used now or given back.
        drain_requested: the `drain` of the receiver's last flow, which our flows repeat.
    """

    __slots__ = ("_overdrawn", "available", "credit", "delivery_count", "drain", "drain_requested", "initial")
    drain_requested: bool
    delivery_count: int
    drain: bool
    initial: int

    def __init__(self, initial_delivery_count: int) -> None:
        self.initial = self.delivery_count = initial_delivery_count
        self.credit: int = 0
        self.available: int = 0
        self.drain = self.drain_requested = False
        self._overdrawn = 0  # deliveries begun beyond a credit that was lowered meanwhile

    def sent(self) -> None:
        """Count a delivery that was begun."""
        self.delivery_count = (self.delivery_count + 1) & _MASK
        self.credit -= 1

    def unsent(self) -> None:
        """Take back a delivery that was begun and never reached the wire."""
        self.delivery_count = (self.delivery_count - 1) & _MASK
        if self._overdrawn:
            self._overdrawn -= 1
        else:
            self.credit += 1

    def flow_received(self, delivery_count: int | None, link_credit: int, drain: bool) -> None:
        """Set the credit: the receiver's count plus its credit, less our count. Null: it has seen no delivery.

        A count ahead of ours has deliveries that were never begun; it does not raise the credit above `link_credit`.
        """
        seen = self.initial if delivery_count is None else delivery_count
        left = link_credit - max(0, serial_diff(self.delivery_count, seen))
        self.credit = max(0, left)
        self._overdrawn = max(0, -left)
        self.drain = self.drain_requested = drain

    def drained(self) -> None:
        """Give the rest of the credit back: the count goes on as if the credit had been used."""
        self.delivery_count = (self.delivery_count + self.credit) & _MASK
        self.credit = 0
        self.drain = False


class ReceiverCredit:
    """The receiver's view.

    Attributes:
        delivery_count: the sender's count as far as it is known; None before its attach.
        credit: how many deliveries may still come.
        spare: how many more may come: deliveries that were under way when their credit was taken back.
        available: how many deliveries wait at the sender, as it told.
        drain: we asked the sender to use its credit now or give it back.
    """

    __slots__ = ("available", "credit", "delivery_count", "drain", "spare")
    credit: int
    spare: int

    def __init__(self, delivery_count: int | None) -> None:
        self.delivery_count = delivery_count
        self.credit = self.spare = 0
        self.available: int = 0
        self.drain: bool = False

    def attached(self, initial_delivery_count: int) -> None:
        """Take the first delivery-count from the sender's attach."""
        self.delivery_count = initial_delivery_count

    def grant(self, credit: int, drain: bool) -> None:
        """Take the credit of our flow. Keep spare what earlier flows allowed: the sender may not have ours yet."""
        self.spare = max(0, self.credit + self.spare - credit)
        self.credit = credit
        self.drain = drain

    def received(self) -> bool:
        """Count a delivery that begins; return False if no flow of ours gave it credit."""
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
        """Count `count` deliveries, no more than `credit`, as `received` would."""
        self.credit -= count
        if self.delivery_count is not None:
            self.delivery_count = (self.delivery_count + count) & _MASK

    @property
    def used_up(self) -> bool:
        """Return whether no delivery may come before we grant credit again."""
        return self.credit <= 0 and self.spare <= 0

    def flow_received(self, delivery_count: int | None, available: int | None) -> None:
        """Take the sender's flow: a count ahead of ours is credit that it gave back."""
        if delivery_count is not None and self.delivery_count is not None:
            skipped = serial_diff(delivery_count, self.delivery_count)
            if skipped > 0:
                self.delivery_count = delivery_count
                self.spare = max(0, self.spare - max(0, skipped - self.credit))
                self.credit = max(0, self.credit - skipped)
        if available is not None:
            self.available = available
