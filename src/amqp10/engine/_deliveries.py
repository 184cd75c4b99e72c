"""One delivery as the engine sees it, from either end; the client and the broker subclass these two.

They are slotted and mutable: one is made per message, and every attribute is on the message path.
"""

from __future__ import annotations

from collections import deque
from itertools import repeat
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..messaging import DeliveryState
    from ..messaging.payloads import ForeignPayload, SplitPayload
    from ._parents import IncomingLink, OutgoingLink


class OutgoingDelivery:
    """A message on its way out (§2.6.12).

    Attributes:
        link: the sender link it belongs to.
        tag: the delivery-tag, at most 32 bytes, unique among the link's unsettled deliveries.
        delivery_id: the session-scoped number (RFC 1982), None until the first frame is formed, in each attachment.
        payload: the encoded message; kept until settled, for link resume.
        past: flags for rare cases: 1, some frames were sent in an earlier attachment; 2, all were; 4, the delivery is
            `streamed`. The engine sets them; its owner only sets 2, on what a store brought back.
        message_format: 0 for a standard AMQP message (§3.2).
        local_settled: this side has settled the delivery (at once, if it was sent settled).
        state: the last state that this side sent (a transactional state, for instance); of a complete stream, its end.
        remote_state: the last state that the receiver sent; an outcome once `remote_settled`, or before, in mode
            "second".
        remote_settled: the receiver has settled the delivery.
        on_wire: every frame was handed to the output in this attachment, or no frame is left to send.
        waiter: for the owner's use; the engine never touches it.
    """

    __slots__ = (
        "delivery_id",
        "link",
        "local_settled",
        "message_format",
        "on_wire",
        "past",
        "payload",
        "remote_settled",
        "remote_state",
        "state",
        "tag",
        "waiter",
    )

    def __init__(self, link: OutgoingLink, tag: bytes, payload: bytes, settled: bool, message_format: int = 0) -> None:
        self.link: OutgoingLink = link
        self.tag: bytes = tag
        self.payload: bytes = payload
        self.local_settled: bool = settled
        self.message_format: int = message_format
        self.delivery_id: int | None = None
        self.state: DeliveryState | None = None
        self.remote_state: DeliveryState | None = None
        self.remote_settled: bool = False
        self.on_wire: bool = False
        self.past: int = 0
        self.waiter: object = None

    @property
    def begun(self) -> bool:
        """Return whether a frame was ever handed to the output. False: the peer certainly has no part of it."""
        return self.delivery_id is not None or self.past & 3 > 0

    @property
    def handed_over(self) -> bool:
        """Return whether all frames were ever handed to the output. False: the peer certainly never had all of it."""
        return self.on_wire or self.past & 2 > 0

    @property
    def streamed(self) -> bool:
        """Return whether it was sent in parts that are not kept (`more=True`), so that it cannot be sent again."""
        return self.past & 4 > 0


class IncomingDelivery:
    """A message that was received, or on a link that streams is being received (§2.6.12).

    Attributes:
        link: the receiver link it came on.
        delivery_id: the session-scoped number (RFC 1982) of the delivery; None on a link that resumed, until the sender
            resumes the delivery too.
        tag: the delivery-tag, at most 32 bytes.
        pieces: the encoded message: a large one in the buffers it was received in, one of another protocol as received;
            the owner decodes it.
        stream: on a link that streams, the part of the message that is here; on other links the same for a delivery
            that the end of the link cut off. For all others unset, or None if this module is compiled.
        message_format: 0 for a standard AMQP message (§3.2).
        local_settled: this side has settled the delivery (at once, if it was sent settled).
        state: the outcome that this side gave; None before that.
        remote_state: the state that the sender attached, if any.
        remote_settled: the sender has settled the delivery.
        resumed: the delivery continues one of an earlier attachment (§2.6.13).
        decoded: the payload as the owner decoded it; the engine never touches it.
        waiter: for the owner's use; the engine never touches it.
    """

    __slots__ = (
        "decoded",
        "delivery_id",
        "link",
        "local_settled",
        "message_format",
        "pieces",
        "remote_settled",
        "remote_state",
        "resumed",
        "state",
        "stream",
        "tag",
        "waiter",
    )

    stream: IncomingStream

    def __init__(
        self,
        link: IncomingLink,
        delivery_id: int,
        tag: bytes,
        payload: bytes | SplitPayload | ForeignPayload,
        settled: bool,
    ) -> None:
        self.link: IncomingLink = link
        self.delivery_id: int | None = delivery_id
        self.tag: bytes = tag
        self.pieces = payload
        self.local_settled: bool = settled
        self.remote_settled: bool = settled
        self.message_format: int = 0
        self.state: DeliveryState | None = None
        self.remote_state: DeliveryState | None = None
        self.resumed: bool = False
        self.decoded: Any = None
        self.waiter: object = None

    @property
    def payload(self) -> bytes:
        """The encoded message in one piece; empty on a link that streams."""
        if type(self.pieces) is not bytes:
            self.pieces = bytes(self.pieces)
        return self.pieces

    @payload.setter
    def payload(self, payload: bytes) -> None:
        self.pieces = payload


def deliveries(
    kind: type[IncomingDelivery],
    link: IncomingLink,
    numbers: Iterable[int],
    tags: Iterable[bytes],
    payloads: Iterable[bytes | ForeignPayload],
    settled: bool,
) -> list[IncomingDelivery]:
    """Make a delivery of `kind` for each payload, without a call for each. benchmarks/budget.py, "receive"."""
    if kind.__init__ is not IncomingDelivery.__init__:
        return [*map(kind, repeat(link), numbers, tags, payloads, repeat(settled))]
    new = kind.__new__
    made = []
    for number, tag, payload in zip(numbers, tags, payloads, strict=True):
        delivery = new(kind)
        delivery.link = link
        delivery.delivery_id = number
        delivery.tag = tag
        delivery.pieces = payload
        delivery.local_settled = settled
        delivery.remote_settled = settled
        delivery.message_format = 0
        delivery.state = None
        delivery.remote_state = None
        delivery.resumed = False
        delivery.decoded = None
        delivery.waiter = None
        made.append(delivery)
    return made


class RoutedDelivery(IncomingDelivery):
    """A delivery of a dialect whose messages go to an exchange, whatever their field `to` says.

    Attributes:
        address: names the exchange and the routing key: see `route_address`.
    """

    __slots__ = ("address",)

    address: str


class CopiedDelivery(RoutedDelivery):
    """A delivery that goes to further addresses as well.

    Attributes:
        also: the further addresses.
    """

    __slots__ = ("also",)

    also: tuple[str, ...]


class ImmediateDelivery(RoutedDelivery):
    """A delivery that counts as unroutable unless each queue that it goes to has a consumer that is ready for it."""

    __slots__ = ()


class IncomingStream:
    """The part of a delivery that is here, on a link that streams (`ReceiverLink.streaming`).

    Attributes:
        parts: payload that was not read, one entry per transfer; `ReceiverLink.read` takes from it.
        whole: the last transfer was received; nothing follows the parts in `parts`.
        aborted: the sender aborted the delivery; the parts that were not read are gone.
        discarded: the owner discarded the rest of the delivery.
        size: bytes received so far.
        place: the place in the message that `size` stands for, for link resume; used by the engine only.
    """

    __slots__ = ("aborted", "discarded", "last_part_held", "parts", "place", "size", "whole")

    def __init__(self) -> None:
        self.parts: deque[bytes] = deque()
        self.whole: bool = False
        self.aborted: bool = False
        self.discarded: bool = False
        self.size: int = 0
        self.last_part_held: bool = False  # the part that was read last still counts against the session's window
        self.place: Any = None
