"""Links to coordinators in dialects whose declare and discharge are not messages (§4.1).

client    LocalCoordinator: the owner sends on it, and this side answers
server    RelayCoordinator: this side asks on it what a client did by the dialect's own methods, and the owner answers
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

from ...engine import IncomingDelivery, OutgoingDelivery, SenderLink
from ...errors import DecodeError, LocalProtocolError
from ...messaging import (
    ACCEPTED,
    AmqpValue,
    Declare,
    Declared,
    DeliveryState,
    Discharge,
    Error,
    Message,
    Rejected,
)
from ...types import as_composite
from .links import PlainReceiver, PlainSender


def rejected(condition: str, description: str | None) -> Rejected:
    """Return the outcome of a declare or a discharge that fails."""
    return Rejected(Error(condition, description))


ROLLED_BACK: Final = "amqp:transaction:rollback"


class TransactionWork(Protocol):
    """The messages and outcomes of one transaction, which are kept until it is discharged."""

    def roll_back(self) -> None:
        """Drop the messages, and give the deliveries back."""


Work = TypeVar("Work", bound=TransactionWork)


class OpenTransactions(Generic[Work]):
    """The transactions that are declared and not discharged.

    Args:
        scope: the endpoint that they belong to, as errors name it.
    """

    __slots__ = ("_last", "_open", "_reason")

    def __init__(self, scope: str) -> None:
        self._reason = f"the transaction is not open: it was discharged, or declared on another {scope}"
        self._open: dict[bytes, tuple[SenderLink, Work]] = {}
        self._last = 0

    def declare(self, coordinator: SenderLink, make: Callable[[bytes], Work]) -> bytes:
        """Open a transaction, whose work is `make(its id)`, and return its id."""
        self._last += 1
        txn_id = self._last.to_bytes(8, "big")
        self._open[txn_id] = coordinator, make(txn_id)
        return txn_id

    def find(self, txn_id: bytes) -> Work:
        """Return the work of an open transaction.

        Raises:
            LocalProtocolError: it is not open.
        """
        if txn_id not in self._open:
            raise LocalProtocolError(self._reason)
        return self._open[txn_id][1]

    def end(self, txn_id: bytes) -> Work | Rejected:
        """Return the work of a transaction, which is open no longer, or else the outcome of its discharge."""
        if txn_id not in self._open:
            return rejected("amqp:transaction:unknown-id", self._reason)
        return self._open.pop(txn_id)[1]

    def give_up(self, coordinator: SenderLink) -> None:
        """Roll back the open transactions of `coordinator`, whose link is over."""
        for txn_id, (link, work) in list(self._open.items()):
            if link is coordinator:
                del self._open[txn_id]
                work.roll_back()


class LocalCoordinator(PlainSender, Generic[Work]):
    """The client's link: this side answers each declare and discharge itself; neither goes to the peer as a message."""

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
        if isinstance(request, Discharge):
            self._discharge(delivery, request)
        elif request.global_id is not None:
            self.answer_soon(delivery, rejected("amqp:not-implemented", "there are no distributed transactions"))
        else:
            self.answer_soon(delivery, Declared(self.transactions.declare(self, self.new_work)))
        return delivery

    def _discharge(self, delivery: OutgoingDelivery, request: Discharge) -> None:
        work = self.transactions.end(request.txn_id)
        if isinstance(work, Rejected):
            self.answer_soon(delivery, work)
        elif request.fail:
            work.roll_back()
            self.answer_soon(delivery, ACCEPTED)
        else:
            self.commit(delivery, work)

    def number(self, count: int) -> int | None:
        """Return the delivery-id of delivery number `count`, if the dialect has one."""
        return count

    @property
    @abstractmethod
    def transactions(self) -> OpenTransactions[Work]:
        """Return the transactions of the link's connection or session."""

    @abstractmethod
    def new_work(self, txn_id: bytes) -> Work:
        """Make what keeps the work of a transaction."""

    @abstractmethod
    def commit(self, delivery: OutgoingDelivery, work: Work) -> None:
        """Commit the work of a transaction, and answer its discharge when that is done."""

    def answer_soon(self, delivery: OutgoingDelivery, state: DeliveryState) -> None:
        """Answer what the server need not be asked for."""
        self.answer(delivery, state)

    def answer(self, delivery: OutgoingDelivery, state: DeliveryState) -> None:
        """Settle a declare or a discharge with its outcome, once."""
        if delivery.tag in self.unsettled:
            self.settled_by_peer(delivery, state)
            self.report(delivery)

    @abstractmethod
    def report(self, delivery: OutgoingDelivery) -> None:
        """Tell the owner of the outcome."""


class RelayCoordinator(PlainReceiver):
    """The server's link: what the client asks in its dialect comes to the owner as a declare or discharge."""

    _asked = 0

    def delivery_of(self, what: Declare | Discharge) -> IncomingDelivery:
        """Return `what` as an unsettled delivery that is still to be handed to the owner."""
        self._asked = number = self._asked + 1
        tag, payload = number.to_bytes(8, "big"), Message(AmqpValue(what)).encode()
        delivery = self.unsettled[tag] = self.delivery_type(self, number & 0xFFFF_FFFF, tag, payload, False)
        return delivery

    def flow(
        self, credit: int, *, drain: bool = False, echo: bool = False, properties: Mapping[Any, Any] | None = None
    ) -> None:
        self.credit = credit
        self.ask_waiting()

    def ask_waiting(self) -> None:
        """Ask the owner what waits, because it has granted credit."""

    def settle(self, delivery: IncomingDelivery, state: DeliveryState | None, *, settled: bool | None = None) -> None:
        if delivery.tag in self.unsettled:
            self.settled_by_owner(delivery, state)
            self.answered(delivery, state)

    @abstractmethod
    def answered(self, delivery: IncomingDelivery, state: DeliveryState | None) -> None:
        """Act on the owner's answer."""
