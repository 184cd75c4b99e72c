"""Links to coordinators in dialects whose declare and discharge are not messages (§4.1).

client    LocalCoordinator: the owner sends on it, and this side answers
server    RelayCoordinator: this side asks on it what a client did by the dialect's own methods, and the owner answers
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from ...engine import IncomingDelivery, OutgoingDelivery
from ...errors import DecodeError, LocalProtocolError
from ...messaging import AmqpValue, Declare, DeliveryState, Discharge, Error, Message, Rejected
from ...types import as_composite
from .links import PlainReceiver, PlainSender


def rejected(condition: str, description: str | None) -> Rejected:
    """Return the outcome of a declare or a discharge that fails."""
    return Rejected(Error(condition, description))


class LocalCoordinator(PlainSender):
    """The client's link: this side answers what is sent on it, and sends none of it as it is."""

    _sent = 0  # deliveries

    def send(
        self,
        payload: bytes,
        *,
        settled: bool = False,
        tag: bytes | None = None,
        message_format: int = 0,
        state: DeliveryState | None = None,
        batchable: bool = False,
        more: bool = False,
    ) -> OutgoingDelivery:
        self.check_attached()
        if settled or more:
            raise LocalProtocolError("a declare or discharge must be sent unsettled, and in one part")
        try:
            request = as_composite(Message.decode(payload).body)
        except DecodeError as error:
            raise LocalProtocolError(f"the payload for a coordinator must be an encoded message: {error}") from error
        if not isinstance(request, Declare | Discharge):
            raise LocalProtocolError(
                f"a message to a coordinator must be a Declare or a Discharge, not {request!r:.80}"
            )
        self._sent += 1
        if tag is None:
            tag = self._sent.to_bytes(8, "big")
        else:
            self.check_tag(tag)
        delivery = self.delivery_type(self, tag, payload, False, message_format)
        delivery.delivery_id = self.number(self._sent)
        delivery.on_wire = True
        self.unsettled[tag] = delivery
        if isinstance(request, Declare):
            self.declare(delivery, request)
        else:
            self.discharge(delivery, request)
        return delivery

    def number(self, count: int) -> int | None:
        """Return the delivery-id of delivery number `count`, if the dialect has one."""
        return count

    @abstractmethod
    def declare(self, delivery: OutgoingDelivery, request: Declare) -> None:
        """Begin a transaction, and answer."""

    @abstractmethod
    def discharge(self, delivery: OutgoingDelivery, request: Discharge) -> None:
        """End a transaction, and answer when that is done."""

    def answer(self, delivery: OutgoingDelivery, state: DeliveryState) -> None:
        """Settle a declare or a discharge with its outcome, once."""
        if delivery.tag in self.unsettled:
            self.settled_by_peer(delivery, state)
            self.report(delivery)

    @abstractmethod
    def report(self, delivery: OutgoingDelivery) -> None:
        """Tell the owner of the outcome."""


class RelayCoordinator(PlainReceiver):
    """The server's link."""

    _questions_asked = 0

    def delivery_of(self, what: Declare | Discharge) -> IncomingDelivery:
        """Return `what` as an unsettled delivery that is still to be handed to the owner."""
        self._questions_asked = number = self._questions_asked + 1
        tag, payload = number.to_bytes(8, "big"), Message(AmqpValue(what)).encode()
        delivery = self.unsettled[tag] = self.delivery_type(self, number & 0xFFFF_FFFF, tag, payload, False)
        return delivery

    def flow(
        self, credit: int, *, drain: bool = False, echo: bool = False, properties: Mapping[Any, Any] | None = None
    ) -> None:
        self.credit = credit
        self.ask_on()

    def ask_on(self) -> None:
        """Ask the owner what waited for credit."""

    def settle(self, delivery: IncomingDelivery, state: DeliveryState | None, *, settled: bool | None = None) -> None:
        if delivery.tag in self.unsettled:
            self.settled_by_owner(delivery, state)
            self.answered(delivery, state)

    @abstractmethod
    def answered(self, delivery: IncomingDelivery, state: DeliveryState | None) -> None:
        """Act on the owner's answer."""
