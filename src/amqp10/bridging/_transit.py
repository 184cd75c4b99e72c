"""The messages between source and target, and the counts, without tasks or waiting.

came ──> WAITING ──> OUT ──> accepted by the target ──> the source told ──> moved
                      │                                      └──> TOLD until the source has settled ("second")
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

    WAITING = "taken from the source"
    OUT = "sent to the target"
    TOLD = "accepted, the source was told, and has not settled"
    REFUSED = "the target does not want it"
    UNKNOWN = "sent, and its outcome will never be known"


class Transit:
    """One message on its way, and the waiter for its outcome at the target.

    Attributes:
        source: the delivery at the source.
        sent: the delivery at the target; None until it is sent.
        came: when it was taken, by the event loop's clock.
        stale: the source has forgotten the delivery, so that the message comes again.
        aside: the reason of a refusal, if the message goes to the address for refused messages.
    """

    __slots__ = ("_look", "aside", "came", "phase", "sent", "source", "stale")

    def __init__(self, source: ReceiverDelivery, came: float, look: Callable[[Transit], None]) -> None:
        self.source = source
        self.sent: SenderDelivery | None = None
        self.came = came
        self.phase = Phase.WAITING
        self.stale = False
        self.aside = ""
        self._look = look

    def set(self) -> None:
        """Handle the outcome of `sent`."""
        self._look(self)


class Flight:
    """All messages in progress.

    Attributes:
        held: every message that was taken and is not done, by its delivery at the source.
        queue: the held messages still to send, in order.
        out: the number of messages that are `OUT` or `TOLD`.
        left: the number of messages that are `REFUSED`.
        size: bytes of the held messages.
        moved, moved_size, refused, returned, duplicates, in_doubt, recovered: see `BridgeReport`.
    """

    def __init__(self) -> None:
        self.held: dict[ReceiverDelivery, Transit] = {}
        self.queue: deque[Transit] = deque()
        self.out = self.left = self.size = 0
        self.moved = self.moved_size = self.refused = self.returned = 0
        self.duplicates = self.in_doubt = self.recovered = 0
        self._taken = self._taken_size = 0

    @property
    def under_way(self) -> int:
        """The number of messages that are neither done nor refused."""
        return len(self.held) - self.left

    @property
    def usual_size(self) -> int:
        """The mean size of the messages so far, in bytes."""
        return max(1, self._taken_size // self._taken) if self._taken else 16_384

    def took(self, transits: Iterable[Transit]) -> None:
        """Record messages received from the source."""
        for transit in transits:
            size = len(transit.source.payload)
            self.held[transit.source] = transit
            self.queue.append(transit)
            self.size += size
            self._taken += 1
            self._taken_size += size

    def recover(self, tags: Iterable[bytes], now: float, look: Callable[[Transit], None]) -> dict[bytes, Transit]:
        """Record messages that an earlier process had sent, by the tags of deliveries that the source shall resume."""
        unbound: Any = None  # has no link until it is attached
        found = {tag: Transit(ReceiverDelivery(unbound, unbound, tag, b"", False), now, look) for tag in tags}
        for transit in found.values():
            transit.phase = Phase.OUT
            self.held[transit.source] = transit
        self.recovered = self.out = len(found)
        return found

    def sent(self, transit: Transit, delivery: SenderDelivery) -> None:
        """Record that a message was sent to the target, possibly again on another link."""
        transit.sent = delivery
        if transit.phase is not Phase.OUT:  # recovered messages already are
            transit.phase = Phase.OUT
            self.out += 1

    def settled(self, transit: Transit, phase: Phase) -> None:
        """Record that the target's outcome arrived, or will never arrive."""
        if transit.phase in (Phase.OUT, Phase.TOLD):
            self.out -= 1
        transit.phase = phase
        if phase is Phase.TOLD:
            self.out += 1
        elif phase is Phase.REFUSED:
            self.left += 1

    def drop(self, transit: Transit) -> None:
        """Forget a message that is done, also in the counts."""
        if self.held.pop(transit.source, None) is None:
            return
        if transit.phase in (Phase.OUT, Phase.TOLD):
            self.out -= 1
        elif transit.phase is Phase.REFUSED:
            self.left -= 1
        self.size -= len(transit.source.payload)

    def told(self, transit: Transit) -> bool:
        """Accept a message at the source after the target accepted it, and count it; return whether it was possible."""
        if transit.stale:
            self.drop(transit)  # it comes again, as was counted
            return False
        try:
            transit.source.accept()
        except (AmqpError, anyio.ClosedResourceError):
            self.drop(transit)
            receiver: ReceiverCore = transit.source.link.owner  # type: ignore[assignment]
            kept = receiver.store
            if kept is None:
                self.duplicates += 1  # the source's link is over, so the message comes again
                return False
            kept.given(transit.source, ACCEPTED)  # sent when the link attaches again
        self.moved += 1
        self.moved_size += len(transit.source.payload)
        return True
