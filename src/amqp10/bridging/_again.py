"""Messages that come again after the source's link was lost, and were moved before.

In mode "first" nobody says whether the source has heard that a message was accepted. If it has not, it delivers the
message again, and that is moved a second time. It is known by its bare message: what brokers say of another delivery,
all of them in their own way, is in the sections before that (§3.2).
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
"""The number of losses after which a message that was not seen again is taken as settled."""


class Again:
    """Counts what comes after a loss, and may have been moved before.

    Args:
        most: the greatest number of unsettled deliveries at the source: that many settlements may be lost.
    """

    def __init__(self, most: int) -> None:
        self._told: deque[int] = deque(maxlen=most)
        self._lost: Counter[int] = Counter()
        self._most_lost = LOSSES * most

    @property
    def unheard(self) -> int:
        """How many the source was told of last, and may not have heard of."""
        return len(self._told)

    def told(self, delivery: Delivery) -> None:
        """Record that the source was told of a message's acceptance."""
        self._told.append(_known_by(delivery))

    def lost(self) -> None:
        """Record that the source's link was lost: the messages it was told of last may come again."""
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
