"""The deliveries of one `send_many`: counted, not kept, so that ten million of them cost no more than ten."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from ..messaging import Accepted
from ._delivery import unknown

if TYPE_CHECKING:
    from ..engine import OutgoingDelivery
    from ..errors import AmqpError
    from ..messaging import Outcome
    from ._delivery import SentDelivery


class Pipeline:
    """Counts outcomes, and wakes its one waiter when there is room again, once for many.

    Attributes:
        sent, accepted: how many deliveries, and how many of them were accepted.
        in_flight: how many have no outcome yet.
        failure: the first outcome that was not Accepted, or why there will never be one.
        failed: there is one.
    """

    __slots__ = ("_event", "_limit", "_resume_at", "accepted", "failed", "failure", "in_flight", "not_accepted", "sent")

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError("one delivery must be allowed in flight at least")
        self._limit = limit
        self._resume_at = 0
        self._event: anyio.Event | None = None
        self.sent = 0
        self.accepted = 0
        self.not_accepted = 0
        self.in_flight = 0
        self.failure: Outcome | AmqpError | None = None
        self.failed = False

    @property
    def full(self) -> bool:
        return self.in_flight >= self._limit

    def add(self, delivery: SentDelivery) -> None:
        """Take a delivery that was just sent."""
        self.sent += 1
        if delivery.local_settled:
            self.accepted += 1
        else:
            self.in_flight += 1
            delivery.waiter = self

    def outcome_received(self, delivery: OutgoingDelivery) -> None:
        """The receiver told a state of the delivery, perhaps its outcome."""
        outcome = delivery._known_outcome()  # type: ignore[attr-defined]
        if outcome is None:
            outcome = unknown(delivery)
            if outcome is None:
                return
            delivery.link.context._untold.discard(delivery)
        delivery.waiter = None
        self.in_flight -= 1
        if type(outcome) is Accepted:
            self.accepted += 1
        else:
            self.not_accepted += 1
            if not self.failed:
                self.failure = outcome
                self.failed = True
        if self._event is not None and (self.in_flight <= self._resume_at or self.failed):
            self._event.set()

    def accepted_more(self, count: int) -> None:
        """The receiver accepted so many of those that are no objects."""
        self.in_flight -= count
        self.accepted += count
        if self._event is not None and self.in_flight <= self._resume_at:
            self._event.set()

    async def wait(self) -> None:
        """Until half of the deliveries have outcomes, or one has failed, or the link is over."""
        # Half of them: room for one would mean a switch of tasks for each message.
        self._resume_at = self.in_flight // 2
        self._event = anyio.Event()
        try:
            await self._event.wait()
        finally:
            self._event = None

    def set(self) -> None:
        """The link is over: look again."""
        if self._event is not None:
            self._event.set()

    def account(self) -> str:
        """The numbers, for a note on an exception."""
        return (
            f"send_many: {self.sent} messages sent, {self.accepted} accepted, {self.not_accepted} not accepted, "
            f"{self.in_flight} without an outcome"
        )
