"""Recognizes messages that the source delivers again after a loss, although they were moved.

In mode "first" nothing tells whether an acceptance reached the source. If it did not, the source delivers the message
again, and it is moved a second time. It is recognized by its bare message, because brokers mark a redelivery, each in
its own way, in the sections before that (§3.2).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import DecodeError
from ..messaging import bare_message

if TYPE_CHECKING:
    from ..client import Delivery

LOSSES = 16
"""The number of losses after which a message that did not come again counts as settled."""


class RedeliveryCounter:
    """Counts messages that come after a loss and may have been moved before.

    Args:
        max_unsettled: the greatest number of unsettled deliveries at the source: that many settlements may be lost.

    Attributes:
        awaited: the number of messages accepted before the last losses that may still come again; 0 once another
            message came, because the source delivers those first.
    """

    def __init__(self, max_unsettled: int) -> None:
        self.awaited = 0
        self._accepted: deque[int] = deque(maxlen=max_unsettled)
        self._may_come_again: Counter[int] = Counter()
        self._max_lost = LOSSES * max_unsettled

    @property
    def unconfirmed(self) -> int:
        """The number of recent acceptances that may not have reached the source."""
        return len(self._accepted) + self.awaited

    def record_accepted(self, delivery: Delivery) -> None:
        """Record that a message's acceptance was sent to the source."""
        self._accepted.append(_message_hash(delivery))

    def on_link_lost(self) -> None:
        """Record that the source's link was lost: the messages accepted last may come again."""
        self._may_come_again.update(self._accepted)
        self.awaited += len(self._accepted)
        self._accepted.clear()
        for oldest in list(self._may_come_again)[: -self._max_lost]:
            del self._may_come_again[oldest]

    def count(self, batch: Iterable[Delivery]) -> int:
        """Return how many of the messages may have been moved before; each counts once for each time it comes again."""
        if not self._may_come_again:
            return 0
        found = 0
        for delivery in batch:
            key = _message_hash(delivery)
            left = self._may_come_again.get(key, 0)
            if left > 1:
                self._may_come_again[key] = left - 1
            elif left:
                del self._may_come_again[key]
            self.awaited = max(0, self.awaited - 1) if left else 0
            found += bool(left)
        return found


def _message_hash(delivery: Delivery) -> int:
    try:
        return hash(bare_message(delivery.payload))
    except DecodeError:
        return hash(delivery.payload)
