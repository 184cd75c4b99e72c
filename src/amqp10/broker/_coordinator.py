"""Transactions of one peer: work that is kept aside until it is discharged, and the link that says so (§4).

Nothing of a transaction is seen by others before it is committed. Messages posted in it wait here, with their places in
the queues reserved; deliveries that were settled in it stay with their consumer until then.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from ..errors import DecodeError
from ..messaging import ACCEPTED, RELEASED, Declare, Declared, Discharge, Error, Message, Rejected
from ..types import Symbol, as_composite
from ._terminus import FAILED

if TYPE_CHECKING:
    from ..engine import IncomingDelivery, OutgoingDelivery, ReceiverLink
    from ..messaging import DeliveryState, Outcome
    from ._connection import Peer
    from ._consumer import ConsumerLink
    from ._entry import Entry
    from ._node import Node

CAPABILITIES = ("amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn")
CREDIT = 100
MOST = 1000
"""Transactions that one peer may have open at a time."""

_ids = itertools.count(1)


class LocalTransaction:
    """What was done in one transaction."""

    def __init__(self) -> None:
        self.id = next(_ids).to_bytes(8, "big")
        self._posted: list[tuple[Node, Entry]] = []
        self._retired: list[tuple[ConsumerLink, Entry, Outcome]] = []
        self._acquired: list[tuple[ConsumerLink, OutgoingDelivery]] = []

    def post(self, node: Node, entry: Entry) -> None:
        """A message came for a node (§4.4.1)."""
        node.reserve(entry)
        self._posted.append((node, entry))

    def retire(self, consumer: ConsumerLink, entry: Entry, outcome: Outcome) -> None:
        """A consumer named the outcome of a delivery (§4.4.2)."""
        self._retired.append((consumer, entry, outcome))

    def acquire(self, consumer: ConsumerLink, delivery: OutgoingDelivery) -> None:
        """A consumer was given a message (§4.4.3)."""
        self._acquired.append((consumer, delivery))

    def commit(self) -> Error | None:
        """Do it all; the error if it was rolled back instead."""
        gone = next((node for node, _ in self._posted if node.deleted), None)
        if gone is not None:
            self.roll_back()
            return Error(Symbol("amqp:transaction:rollback"), f"there is no {gone.name!r} any more")
        for node, entry in self._posted:
            node.unreserve(entry)
            node.put(entry)
        for consumer, entry, outcome in self._retired:
            consumer.queue.settle(entry, consumer, outcome)
        return None

    def roll_back(self) -> None:
        """Undo it all: what was consumed comes again, and counts as a failed attempt."""
        for node, entry in self._posted:
            node.unreserve(entry)
        for consumer, entry, _ in reversed(self._retired):
            consumer.queue.settle(entry, consumer, FAILED)
        for consumer, delivery in reversed(self._acquired):
            consumer.take_back(delivery, RELEASED)


class CoordinatorLink:
    """The link on which a peer declares and discharges (§4.2, §4.3); what is open when it ends is rolled back."""

    def __init__(self, peer: Peer, link: ReceiverLink) -> None:
        self._peer = peer
        self._link = link
        self._open: dict[bytes, LocalTransaction] = {}

    def begin(self) -> None:
        """The link is attached."""
        self._link.flow(CREDIT)

    def take(self) -> None:
        """Do what was asked for. The peer calls this when it has seen all other work of the pass."""
        link = self._link
        while link.incoming:
            delivery = link.incoming.popleft()
            self._answer(delivery, self._do(delivery))
        if link.attached and link.credit <= CREDIT // 2:
            link.flow(CREDIT)
        self._peer.wake()

    def _do(self, delivery: IncomingDelivery) -> DeliveryState:
        try:
            asked = as_composite(Message.decode(delivery.payload).body)
        except DecodeError as error:
            return _rejected("amqp:decode-error", str(error))
        if isinstance(asked, Declare):
            return self._declare(asked)
        if isinstance(asked, Discharge):
            return self._discharge(asked)
        return _rejected("amqp:not-implemented", "a coordinator takes declare and discharge")

    def _declare(self, asked: Declare) -> DeliveryState:
        if asked.global_id is not None:
            return _rejected("amqp:not-implemented", "there are no distributed transactions here")
        if len(self._peer.transactions) >= MOST:
            return _rejected("amqp:resource-limit-exceeded", f"{MOST} transactions are open")
        transaction = LocalTransaction()
        self._open[transaction.id] = self._peer.transactions[transaction.id] = transaction
        return Declared(transaction.id)

    def _discharge(self, asked: Discharge) -> DeliveryState:
        transaction = self._open.pop(asked.txn_id, None)
        if transaction is None:
            return _rejected("amqp:transaction:unknown-id", "no such transaction was declared on this link")
        del self._peer.transactions[asked.txn_id]
        if asked.fail:
            transaction.roll_back()
            return ACCEPTED
        error = transaction.commit()
        return ACCEPTED if error is None else Rejected(error)

    def _answer(self, delivery: IncomingDelivery, state: DeliveryState) -> None:
        if not delivery.local_settled and self._link.attached:
            self._link.settle(delivery, state)

    def end(self) -> None:
        """The link is over; what it said before still counts."""
        self.take()
        for transaction in self._open.values():
            self._peer.transactions.pop(transaction.id, None)
            transaction.roll_back()
        self._open.clear()


def _rejected(condition: str, description: str) -> Rejected:
    return Rejected(Error(Symbol(condition), description))
