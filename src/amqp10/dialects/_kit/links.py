"""Links of dialects that have no answer to an attach, no parts of messages, no resumption and no drain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from ...engine import (
    DeliveriesReceived,
    DeliveriesUnresumed,
    IncomingDelivery,
    Link,
    LinkTerms,
    OutgoingDelivery,
    ReceiverLink,
    SenderLink,
)
from ...errors import LocalProtocolError
from ...messaging import DeliveryState, Error, TransactionalState

if TYPE_CHECKING:
    from .parents import EventSession

_NO_PROPERTIES: Final[Mapping[Any, Any]] = MappingProxyType({})


class PlainLink(Link):
    """A link that waits for no answer, and has nothing to resume. See `Link` for the contract.

    Attributes:
        ended: the link is over: `LinkEnded` was emitted, or is about to be.
    """

    session: EventSession
    terms: LinkTerms | None = None
    remote: LinkTerms | None = None
    attached = False
    ended: bool = False
    properties: Mapping[Any, Any] = _NO_PROPERTIES
    incomplete = False
    _name: str

    @property
    def name(self) -> str:
        return self._name

    def attach(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> None:
        raise self._not_waiting()

    def refuse(self, error: Error) -> None:
        raise self._not_waiting()

    def take_answer(self, terms: LinkTerms) -> bool:
        """Take the owner's terms, with which it answers an attach of the client's; return False if the link is over.

        Raises:
            LocalProtocolError: the owner has answered before.
        """
        if self.terms is not None:
            raise self._not_waiting()
        self.terms = terms
        return not self.ended

    def check_attached(self) -> None:
        """Raise `LocalProtocolError` unless the link is attached."""
        if not self.attached:
            raise LocalProtocolError(f"the link {self._name!r} is not attached")

    def _not_waiting(self) -> LocalProtocolError:
        return LocalProtocolError(f"the link {self._name!r} does not wait for an answer")

    def suspended(self) -> list[Any]:
        return []


class Unresumed:
    """The deliveries that a link was to resume. No dialect before 1.0 can: their owner decides what becomes of them.

    Attributes:
        deliveries: those whose owner was not told yet.
    """

    __slots__ = ("deliveries",)

    def __init__(self, resuming: Iterable[Any] | None) -> None:
        self.deliveries: list[Any] = [each for each in resuming or () if not each.local_settled]

    def beside(self, unsettled: Mapping[bytes, Any]) -> list[Any]:
        """Return what another link has to resume: these, and those of `unsettled` that are in no transaction."""
        own = [each for each in unsettled.values() if not isinstance(each.state, TransactionalState)]
        return self.deliveries + own

    def report(self, link: PlainLink) -> None:
        """Tell the owner of `link`, which has just been attached."""
        if self.deliveries:
            deliveries, self.deliveries = self.deliveries, []
            for delivery in deliveries:
                delivery.link = link
            link.session.engine.emit(DeliveriesUnresumed(link, deliveries))


class PlainSender(PlainLink, SenderLink):
    """A sending end that sends each message whole, and whose peer neither drains nor asks what is available.

    See `SenderLink` for the contract. A dialect that can send parts overrides `send_more` and `abort`.
    """

    credit = 0
    drain = False
    auto_settle = True
    _next_tag = 0

    @property
    def settled_by_sender(self) -> bool:
        return False

    def new_tag(self) -> bytes:
        """Return a delivery-tag that no unsettled delivery has, not even one of an earlier attachment."""
        while True:
            tag = self._next_tag.to_bytes(8, "big")
            self._next_tag += 1
            if tag not in self.unsettled:
                return tag

    def check_sendable(self, settled: bool) -> None:
        """Check that a message can be sent now.

        Raises:
            LocalProtocolError: the link is not attached, has no credit, or sends messages `settled` otherwise.
        """
        self.check_attached()
        if self.credit <= 0:
            raise LocalProtocolError(f"no credit on the link {self._name!r}")
        if self.terms is not None and self.terms.settle_mode == ("unsettled" if settled else "settled"):
            cure = ', or make the sender with settle_mode="settled" or "mixed"' if settled else ""
            raise LocalProtocolError(
                f"the link's settle mode is {self.terms.settle_mode!r}: send with settled={not settled}{cure}"
            )

    def check_tag(self, tag: bytes) -> None:
        """Check that a delivery can have this tag.

        Raises:
            LocalProtocolError: the tag is longer than 32 bytes, or an unsettled delivery has it.
        """
        if len(tag) > 32:
            raise LocalProtocolError(f"a delivery-tag must have at most 32 bytes, not {len(tag)}")
        if tag in self.unsettled:
            raise LocalProtocolError(f"the delivery-tag {tag!r} is in use by an unsettled delivery")

    def settle(self, delivery: OutgoingDelivery, state: DeliveryState | None = None) -> None:
        """Settle on this side; the peer is not told."""
        if state is not None:
            delivery.state = state
        delivery.local_settled = True
        self.unsettled.pop(delivery.tag, None)

    def settled_by_peer(self, delivery: OutgoingDelivery, state: DeliveryState) -> None:
        """Record that the peer has told the outcome `state`, which settles the delivery on both sides."""
        delivery.remote_state = state
        delivery.remote_settled = delivery.local_settled = True
        self.unsettled.pop(delivery.tag, None)

    def forget(self, delivery: OutgoingDelivery) -> None:
        self.settle(delivery)

    def take_back(self, delivery: OutgoingDelivery) -> None:
        """Do nothing: the peer cannot be told. What it says of the delivery later counts for nothing."""

    def resend(self, delivery: OutgoingDelivery) -> None:
        raise LocalProtocolError(f"the link {self._name!r} cannot send a delivery again")

    def drained(self, available: int = 0) -> None:
        """Do nothing: the peer cannot drain."""

    def offer(self, available: int) -> None:
        """Do nothing: the peer cannot be told."""

    def tell(self, properties: Mapping[Any, Any]) -> None:
        """Do nothing: the peer cannot be told."""

    def send_more(self, delivery: OutgoingDelivery, payload: bytes, *, more: bool = False) -> None:
        raise LocalProtocolError(f"the link {self._name!r} cannot send a message in parts")

    def abort(self, delivery: OutgoingDelivery) -> None:
        raise LocalProtocolError("only a delivery that was not yet sent completely can be aborted")


class PlainReceiver(PlainLink, ReceiverLink):
    """A receiving end that hands out each message whole; its attributes are those of a link before the first flow.

    See `ReceiverLink` for the contract. A dialect that can stream overrides `read` and `discard`.
    """

    credit = 0
    available = 0
    partial_state: DeliveryState | None = None
    streaming = False

    @property
    def settled_by_sender(self) -> bool:
        return False

    def check_credit(self, credit: int) -> None:
        """Raise `LocalProtocolError` unless `credit` fits 32 bits."""
        if not 0 <= credit <= 0xFFFF_FFFF:
            raise LocalProtocolError(f"credit must be in 0..{0xFFFF_FFFF}, not {credit}")

    def hand_out(self, delivery: IncomingDelivery) -> None:
        """Give a delivery to the owner. Its event comes only if no other waits to be taken."""
        if not self.incoming:
            self.session.engine.emit(DeliveriesReceived(self))
        self.incoming.append(delivery)

    def check_own(self, delivery: IncomingDelivery, unsettled: Mapping[bytes, IncomingDelivery]) -> None:
        """Check that a delivery came on this link: the number of another one means another message by now.

        Raises:
            LocalProtocolError: it is not among `unsettled`, those of this link.
        """
        if unsettled.get(delivery.tag) is not delivery:
            raise LocalProtocolError(
                "the delivery was not resumed, and cannot be settled: the sender may send the message again"
            )

    def settled_by_owner(self, delivery: IncomingDelivery, state: DeliveryState | None) -> None:
        """Record that the owner has settled a delivery, with `state` if that is given."""
        if state is not None:
            delivery.state = state
        delivery.local_settled = True
        self.unsettled.pop(delivery.tag, None)

    def read(self, delivery: IncomingDelivery) -> bytes | None:
        raise LocalProtocolError(f"the link {self._name!r} does not stream")

    def discard(self, delivery: IncomingDelivery) -> None:
        raise LocalProtocolError(f"the link {self._name!r} does not stream")
