"""Messages that come again after the source's link was lost, and may have been moved before.

In mode "first" nobody says whether the source has heard that a message was accepted. If it has not, it delivers the
message again, and that is moved a second time; all that is seen of it is the mark in its header (§3.2.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..errors import DecodeError
from ..messaging import Header, read_header

if TYPE_CHECKING:
    from ..client import Delivery


class Again:
    """Counts, of what comes after a loss, what may have been moved before.

    Attributes:
        expected: how many are to come again that surely were not.
    """

    def __init__(self) -> None:
        self.expected = 0
        self._says_first = False  # the source says of a message that it is the first to be delivered, where it is

    def learn(self, batch: Sequence[Delivery]) -> None:
        """Before a loss: see how the source marks its messages."""
        if not self._says_first:
            self._says_first = bool(_header(batch[0]).first_acquirer)

    def count(self, batch: Iterable[Delivery]) -> int:
        """After a loss: how many of these were delivered before, beyond those that are expected."""
        marked = 0
        for delivery in batch:
            header = _header(delivery)
            if header.delivery_count or (self._says_first and not header.first_acquirer):
                marked += 1
        known = min(marked, self.expected)
        self.expected -= known
        return marked - known


def _header(delivery: Delivery) -> Header:
    try:
        return read_header(delivery.payload)
    except DecodeError:
        return Header()
