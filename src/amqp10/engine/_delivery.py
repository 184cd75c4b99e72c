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
    from ..messaging._pieces import Pieces, Unmapped
    from ._api import ReceiverLink, SenderLink


class OutgoingDelivery:
    """A message on its way out (§2.6.12).

    Attributes:
        link: the sender link it belongs to.
        tag: the delivery-tag, at most 32 bytes, unique among the link's unsettled deliveries.
        delivery_id: the session-scoped number (RFC 1982), None until the first frame is formed, in each attachment.
        payload: the encoded message; kept until settled, for link resume.
        past: the engine's own, one number for all that is rarely so: 1, some of it went out in an earlier attachment;
            2, all of it did; 4, it is `streamed`.
        message_format: 0 for a standard AMQP message (§3.2).
        local_settled: this side has settled it (at once, if sent settled).
        state: what this side said last (a transactional state, for instance); of a stream that is whole, where it ends.
        remote_state: the receiver's last word; an outcome once `remote_settled`, or before, in mode "second".
        remote_settled: the receiver has settled it.
        on_wire: every frame has been handed to the output, in this attachment, or there is nothing left to be sent.
        waiter: whatever wants to know; the engine never touches it.
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

    def __init__(self, link: SenderLink, tag: bytes, payload: bytes, settled: bool, message_format: int = 0) -> None:
        self.link = link
        self.tag = tag
        self.payload = payload
        self.local_settled = settled
        self.message_format = message_format
        self.delivery_id: int | None = None
        self.state: DeliveryState | None = None
        self.remote_state: DeliveryState | None = None
        self.remote_settled = False
        self.on_wire = False
        self.past = 0
        self.waiter: Any = None

    @property
    def begun(self) -> bool:
        """Some frame of it was once handed to the output, in whatever attachment; else the peer surely has nothing."""
        return self.delivery_id is not None or self.past & 3 > 0

    @property
    def handed_over(self) -> bool:
        """All of its frames once were; else the peer surely has not had it whole."""
        return self.on_wire or self.past & 2 > 0

    @property
    def streamed(self) -> bool:
        """It was sent in parts that nobody keeps (`more=True`), so that it cannot be sent again."""
        return self.past & 4 > 0


class IncomingDelivery:
    """A message that came in whole, or is coming in, on a link that streams (§2.6.12).

    Attributes:
        link: the receiver link it came on.
        delivery_id: the session-scoped number (RFC 1982) of the delivery; None on a link that resumed, until the sender
            has resumed the delivery, too.
        tag: the delivery-tag, at most 32 bytes.
        pieces: the encoded message, a large one in the buffers that it came in, one of another protocol as it came;
            decoding is the holder's business.
        stream: on a link that streams, what is here of the message; elsewhere the same of one that the end of the link
            cut off; for all others unset, or None where this is compiled.
        message_format: 0 for a standard AMQP message (§3.2).
        local_settled: this side has settled it (at once, if it was sent settled).
        state: the outcome this side gave, None while it gave none.
        remote_state: the state the sender attached, if any.
        remote_settled: the sender has settled it.
        resumed: it is the continuation of a delivery of an earlier attachment (§2.6.13).
        decoded: what the holder made of the payload; the engine never touches it.
        waiter: whatever wants to know; the engine never touches it.
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
        self, link: ReceiverLink, delivery_id: int, tag: bytes, payload: bytes | Pieces | Unmapped, settled: bool
    ) -> None:
        self.link = link
        self.delivery_id: int | None = delivery_id
        self.tag = tag
        self.pieces = payload
        self.local_settled = settled
        self.remote_settled = settled
        self.message_format = 0
        self.state: DeliveryState | None = None
        self.remote_state: DeliveryState | None = None
        self.resumed = False
        self.decoded: Any = None
        self.waiter: Any = None

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
    link: ReceiverLink,
    numbers: Iterable[int],
    tags: Iterable[bytes],
    payloads: Iterable[bytes | Unmapped],
    settled: bool,
) -> list[IncomingDelivery]:
    """One for each, as `kind` called for each would make it, without the calls. benchmarks/budget.py, "receive"."""
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
    """One of a dialect in which a message goes to an exchange, whatever it says itself.

    Attributes:
        address: of the exchange, with the routing key: see `route_address`.
    """

    __slots__ = ("address",)

    address: str


class CopiedDelivery(RoutedDelivery):
    """One that goes to further addresses as well.

    Attributes:
        also: those.
    """

    __slots__ = ("also",)

    also: tuple[str, ...]


class IncomingStream:
    """What is here of a delivery on a link that streams (`ReceiverLink.streaming`).

    Attributes:
        parts: payload that was not read, one entry a transfer; `ReceiverLink.read` takes from it.
        whole: the last transfer came; nothing follows what is in `parts`.
        aborted: the sender aborted the delivery; what was not read is gone.
        discarded: the owner wants no more of it, and gets no more.
        size: bytes that came so far.
        place: where in the message that is, for link resume; the engine's own.
    """

    __slots__ = ("aborted", "discarded", "lent", "parts", "place", "size", "whole")

    def __init__(self) -> None:
        self.parts: deque[bytes] = deque()
        self.whole = False
        self.aborted = False
        self.discarded = False
        self.size = 0
        self.lent = False  # the part that was read last still counts against the session's window
        self.place: Any = None
