"""The messages between source and target, and the counts, without tasks or waiting.

received ──> WAITING ──> SENT ──> accepted by the target ──> accepted at the source ──> moved
                          │                                   └──> ACCEPTED until the source has settled ("second")
                          ├──> not accepted ──> REFUSED, or rejected at the source
                          └──> the link was lost, and nobody knows ──> UNKNOWN
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any

import anyio

from ..client.internals import ReceiverDelivery
from ..errors import AmqpError
from ..messaging import ACCEPTED

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..client.internals import ReceiverCore, SenderDelivery


class Phase(Enum):
    """The phase of a message."""

    WAITING = "received from the source"
    SENT = "sent to the target"
    ACCEPTED = "accepted at the target and the source, which has not settled"
    REFUSED = "the target did not accept it"
    UNKNOWN = "sent, and its outcome will never be known"


class InFlightMessage:
    """A message in flight, and the waiter for its outcome at the target.

    Attributes:
        source: the delivery at the source.
        sent: the delivery at the target; None until it is sent.
        received_at: when it was received, by the event loop's clock.
        stale: the source has forgotten the delivery, so that the message comes again.
        refusal: the reason of a refusal, if the message goes to the address for refused messages.
    """

    __slots__ = ("_on_outcome", "phase", "received_at", "refusal", "sent", "source", "stale")

    def __init__(
        self, source: ReceiverDelivery, received_at: float, on_outcome: Callable[[InFlightMessage], None]
    ) -> None:
        self.source = source
        self.sent: SenderDelivery | None = None
        self.received_at = received_at
        self.phase = Phase.WAITING
        self.stale = False
        self.refusal = ""
        self._on_outcome = on_outcome

    def set(self) -> None:
        """Handle the outcome of `sent`."""
        self._on_outcome(self)


class InFlight:
    """All messages in progress.

    Attributes:
        by_delivery: every message that was received and is not done, by its delivery at the source.
        queue: the messages still to send, in order.
        unsettled: the number of messages that are `SENT` or `ACCEPTED`.
        refused_held: the number of messages that are `REFUSED`.
        size: bytes of the messages in `by_delivery`.
        moved, moved_size, refused, returned, duplicates, in_doubt, recovered: see `BridgeReport`.
    """

    def __init__(self) -> None:
        self.by_delivery: dict[ReceiverDelivery, InFlightMessage] = {}
        self.queue: deque[InFlightMessage] = deque()
        self.unsettled = self.refused_held = self.size = 0
        self.moved = self.moved_size = self.refused = self.returned = 0
        self.duplicates = self.in_doubt = self.recovered = 0
        self._received = self._received_size = 0

    @property
    def active(self) -> int:
        """The number of messages that are neither done nor refused."""
        return len(self.by_delivery) - self.refused_held

    @property
    def mean_size(self) -> int:
        """The mean size of the messages so far, in bytes."""
        return max(1, self._received_size // self._received) if self._received else 16_384

    def add(self, messages: Iterable[InFlightMessage]) -> None:
        """Record messages received from the source."""
        for message in messages:
            size = len(message.source.payload)
            self.by_delivery[message.source] = message
            self.queue.append(message)
            self.size += size
            self._received += 1
            self._received_size += size

    def recover(
        self, tags: Iterable[bytes], now: float, on_outcome: Callable[[InFlightMessage], None]
    ) -> dict[bytes, InFlightMessage]:
        """Record messages that an earlier process had sent, by the tags of deliveries that the source shall resume."""
        unbound: Any = None  # has no link until it is attached
        found = {
            tag: InFlightMessage(ReceiverDelivery(unbound, unbound, tag, b"", False), now, on_outcome) for tag in tags
        }
        for message in found.values():
            message.phase = Phase.SENT
            self.by_delivery[message.source] = message
        self.recovered = self.unsettled = len(found)
        return found

    def record_sent(self, message: InFlightMessage, delivery: SenderDelivery) -> None:
        """Record that a message was sent to the target, possibly again on another link."""
        message.sent = delivery
        if message.phase is not Phase.SENT:  # recovered messages already are
            message.phase = Phase.SENT
            self.unsettled += 1

    def set_phase(self, message: InFlightMessage, phase: Phase) -> None:
        """Record that the target's outcome arrived, or will never arrive."""
        if message.phase in (Phase.SENT, Phase.ACCEPTED):
            self.unsettled -= 1
        message.phase = phase
        if phase is Phase.ACCEPTED:
            self.unsettled += 1
        elif phase is Phase.REFUSED:
            self.refused_held += 1

    def drop(self, message: InFlightMessage) -> None:
        """Forget a message that is done, also in the counts."""
        if self.by_delivery.pop(message.source, None) is None:
            return
        if message.phase in (Phase.SENT, Phase.ACCEPTED):
            self.unsettled -= 1
        elif message.phase is Phase.REFUSED:
            self.refused_held -= 1
        self.size -= len(message.source.payload)

    def accept_at_source(self, message: InFlightMessage) -> bool:
        """Accept a message at the source after the target accepted it, and count it; return whether it was possible."""
        if message.stale:
            self.drop(message)  # it comes again, as was counted
            return False
        try:
            message.source.accept()
        except (AmqpError, anyio.ClosedResourceError):
            self.drop(message)
            receiver: ReceiverCore = message.source.link.owner  # type: ignore[assignment]
            kept = receiver.store
            if kept is None:
                self.duplicates += 1  # the source's link is over, so the message comes again
                return False
            kept.given(message.source, ACCEPTED)  # sent when the link attaches again
        self.moved += 1
        self.moved_size += len(message.source.payload)
        return True
