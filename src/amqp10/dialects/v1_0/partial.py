"""Deliveries on the way: what is left to send of one, and what came of one so far (§2.6.14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from ...messaging.payloads import LARGE, SplitPayload

if TYPE_CHECKING:
    from ...engine import IncomingDelivery, OutgoingDelivery
    from ...messaging import DeliveryState
    from .wire.performatives import Transfer

PART_WEIGHT: Final = 64
"""The overhead, in octets, of holding a frame's payload."""


class PartSender(Protocol):
    """The link of an `OutgoingPart`.

    Attributes:
        drain_owed: a drain was asked for, and waits for parts that the session holds back.
        incomplete: see `Link`.
    """

    drain_owed: bool
    incomplete: bool

    def write_frame_of(self, part: OutgoingPart) -> None:
        """Write the next frame of a part; the session has made sure of the window."""

    def held_part_sent(self) -> None:
        """Act on the end of a part that the session had held back; if `drain_owed` or `incomplete`."""


class OutgoingPart:
    """Payload of one delivery that is to be cut into frames: the whole of it, or a portion of a streamed one.

    `resume`: it is that of a resumed delivery, from `state` on, or with it as the outcome (§2.6.13).
    """

    __slots__ = (
        "abort",
        "batchable",
        "delivery",
        "done",
        "first",
        "link",
        "more",
        "offset",
        "payload",
        "resume",
        "state",
    )

    def __init__(
        self, link: PartSender, delivery: OutgoingDelivery, payload: bytes, first: bool, more: bool, batchable: bool
    ) -> None:
        self.link: PartSender = link
        self.delivery: OutgoingDelivery = delivery
        self.payload: bytes = payload
        self.offset: int = 0
        self.first: bool = first
        self.more: bool = more
        self.batchable: bool = batchable
        self.abort: bool = False
        self.done: bool = False
        self.resume: bool = False
        self.state: DeliveryState | None = None


class PartialDelivery:
    """The frames received so far of an incomplete delivery.

    `resumed` is the delivery of an earlier attachment that this one continues; None without one, or if it is unknown.
    """

    __slots__ = ("first", "parts", "resumed", "settled", "size", "state")

    def __init__(self, first: Transfer) -> None:
        self.first: Transfer = first
        self.parts: list[bytes | memoryview] = []
        self.size: int = 0
        self.settled: bool = False
        self.state: DeliveryState | None = None
        self.resumed: IncomingDelivery | None = None

    @property
    def weight(self) -> int:
        """Roughly the octets of memory in use: for small frames that is more than their payload."""
        return self.size + PART_WEIGHT * len(self.parts)

    def payload(self) -> bytes | SplitPayload:
        """Return the whole payload; a large one stays in the buffers it was received in."""
        return SplitPayload(self.parts) if self.size >= LARGE else b"".join(self.parts)
