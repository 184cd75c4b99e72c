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


class Again:
    """Counts messages that come after a loss and may have been moved before.

    Args:
        most: the greatest number of unsettled deliveries at the source: that many settlements may be lost.
    """

    def __init__(self, most: int) -> None:
        self._told: deque[int] = deque(maxlen=most)
        self._lost: Counter[int] = Counter()
        self._most_lost = LOSSES * most

    @property
    def unheard(self) -> int:
        """The number of recent acceptances that may not have reached the source."""
        return len(self._told)

    def told(self, delivery: Delivery) -> None:
        """Record that a message's acceptance was sent to the source."""
        self._told.append(_known_by(delivery))

    def lost(self) -> None:
        """Record that the source's link was lost: the messages accepted last may come again."""
        self._lost.update(self._told)
        self._told.clear()
        for oldest in list(self._lost)[: -self._most_lost]:
            del self._lost[oldest]

    def count(self, batch: Iterable[Delivery]) -> int:
        """Return how many of the messages may have been moved before; each counts once for each time it comes again."""
        if not self._lost:
            return 0
        found = 0
        for delivery in batch:
            known_by = _known_by(delivery)
            left = self._lost.get(known_by, 0)
            if left > 1:
                self._lost[known_by] = left - 1
            elif left:
                del self._lost[known_by]
            found += bool(left)
        return found


def _known_by(delivery: Delivery) -> int:
    try:
        return hash(bare_message(delivery.payload))
    except DecodeError:
        return hash(delivery.payload)
