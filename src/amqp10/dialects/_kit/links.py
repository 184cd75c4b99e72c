"""What links need that their dialect has no word for: no answer to an attach, no parts, no resumption, no drain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from ...engine import IncomingDelivery, Link, LinkTerms, OutgoingDelivery, ReceiverLink, SenderLink
from ...errors import LocalProtocolError
from ...messaging import DeliveryState, Error

_NO_PROPERTIES: Final[Mapping[Any, Any]] = MappingProxyType({})


class PlainLink(Link):
    """A link that waits for no answer, and has nothing to resume. See `Link` for the contract."""

    terms: LinkTerms | None = None
    remote: LinkTerms | None = None
    attached = False
    properties: Mapping[Any, Any] = _NO_PROPERTIES
    incomplete = False

    def attach(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> None:
        raise self._not_waiting()

    def refuse(self, error: Error) -> None:
        raise self._not_waiting()

    def take_terms(self, terms: LinkTerms) -> None:
        """Take the owner's terms, with which it answers an attach of the client's.

        Raises:
            LocalProtocolError: the owner has answered before.
        """
        if self.terms is not None:
            raise self._not_waiting()
        self.terms = terms

    def _not_waiting(self) -> LocalProtocolError:
        return LocalProtocolError(f"the link {self.name!r} does not wait for an answer")

    def suspended(self) -> list[Any]:
        return []


class PlainSender(SenderLink):
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

    def forget(self, delivery: OutgoingDelivery) -> None:
        self.settle(delivery)

    def take_back(self, delivery: OutgoingDelivery) -> None:
        """Do nothing: the peer cannot be told. What it says of the delivery later counts for nothing."""

    def resend(self, delivery: OutgoingDelivery) -> None:
        raise LocalProtocolError(f"the link {self.name!r} cannot send a delivery again")

    def drained(self, available: int = 0) -> None:
        """Do nothing: the peer cannot drain."""

    def offer(self, available: int) -> None:
        """Do nothing: the peer cannot be told."""

    def tell(self, properties: Mapping[Any, Any]) -> None:
        """Do nothing: the peer cannot be told."""

    def send_more(self, delivery: OutgoingDelivery, payload: bytes, *, more: bool = False) -> None:
        raise LocalProtocolError(f"the link {self.name!r} cannot send a message in parts")

    def abort(self, delivery: OutgoingDelivery) -> None:
        raise LocalProtocolError("only a delivery that was not yet sent completely can be aborted")


class PlainReceiver(ReceiverLink):
    """A receiving end that hands out each message whole, as it is before the first flow.

    See `ReceiverLink` for the contract. A dialect that can stream overrides `read` and `discard`.
    """

    credit = 0
    available = 0
    partial_state: DeliveryState | None = None
    streaming = False

    @property
    def settled_by_sender(self) -> bool:
        return False

    def read(self, delivery: IncomingDelivery) -> bytes | None:
        raise LocalProtocolError(f"the link {self.name!r} does not stream")

    def discard(self, delivery: IncomingDelivery) -> None:
        raise LocalProtocolError(f"the link {self.name!r} does not stream")
