"""The link on which a peer declares and discharges transactions (§4.2, §4.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...engine import LinkOwner, LinkTerms
from ...errors import DecodeError
from ...messaging import ACCEPTED, Coordinator, Declare, Declared, Discharge, Error, Message, Rejected
from ...types import as_composite
from .._transactions.local import LocalTransaction

if TYPE_CHECKING:
    from ...engine import IncomingDelivery, ReceiverLink
    from ...messaging import DeliveryState
    from .._peer import Peer

CAPABILITIES = ("amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn")
CREDIT = 100
MAX_TRANSACTIONS = 1000
"""The most transactions that one peer may have open at a time."""


class CoordinatorLink(LinkOwner):
    """The link on which a peer declares and discharges (§4.2, §4.3); when it ends, open transactions are rolled back.

    Args:
        may_reject: whether the peer accepts the outcome rejected; otherwise a refusal ends the link.
    """

    def __init__(self, peer: Peer, link: ReceiverLink, *, may_reject: bool) -> None:
        self._peer = peer
        self._link = link
        self._may_reject = may_reject
        self._terminated = False
        self._open: dict[bytes, LocalTransaction] = {}

    def begin(self, remote: LinkTerms) -> None:
        """Attach the link with the peer's terms."""
        self._link.attach(
            LinkTerms(
                name=self._link.name,
                source=remote.source,
                target=Coordinator(CAPABILITIES),
                settle_mode=remote.settle_mode,
                receiver_settle_mode="first",
            )
        )
        self._link.flow(CREDIT)

    def on_deliveries(self) -> None:
        """Wait for the other work of the pass: other links bring the work of a transaction before its discharge."""
        self._peer.end_of_pass.append(self._take)

    def _take(self) -> None:
        """Carry out the declares and discharges that arrived.

        Those that an answer brings in are for the next pass: work that waited for the answer comes before them.
        """
        link = self._link
        for delivery in [link.incoming.popleft() for _ in range(len(link.incoming))]:
            if self._terminated:
                break
            if delivery.local_settled:
                self.terminate("amqp:not-allowed", "a declare or discharge was sent settled; send it unsettled")
            else:
                self._answer(delivery, self._do(delivery))
        if link.attached and link.credit <= CREDIT // 2:
            link.flow(CREDIT)
        self._peer.wake()

    def _do(self, delivery: IncomingDelivery) -> DeliveryState:
        try:
            request = as_composite(Message.decode(delivery.payload).body)
        except DecodeError as error:
            return _rejected("amqp:decode-error", str(error))
        if isinstance(request, Declare):
            return self._declare(request)
        if isinstance(request, Discharge):
            return self._discharge(request)
        return _rejected("amqp:not-implemented", "a coordinator takes declare and discharge")

    def _declare(self, request: Declare) -> DeliveryState:
        if request.global_id is not None:
            return _rejected("amqp:not-implemented", "there are no distributed transactions here")
        if len(self._peer.transactions) >= MAX_TRANSACTIONS:
            return _rejected("amqp:resource-limit-exceeded", f"{MAX_TRANSACTIONS} transactions are open")
        transaction = LocalTransaction(self, self._peer.vhost.quarantine)
        self._open[transaction.id] = self._peer.transactions[transaction.id] = transaction
        self._peer.vhost.transactions.add(transaction)
        return Declared(transaction.id)

    def _discharge(self, request: Discharge) -> DeliveryState:
        transaction = self._open.pop(request.txn_id, None)
        if transaction is None:
            return _rejected("amqp:transaction:unknown-id", "no such transaction is open on this link")
        self._forget(transaction)
        if self._peer.posts_in_part(request.txn_id):
            # "It is an error for the controller to attempt to discharge" then (§4.4.1).
            transaction.roll_back()
            self.terminate("amqp:transaction:rollback", "a message of the transaction is not whole")
            return _rejected("amqp:transaction:rollback", "a message of the transaction is not whole")
        if request.fail:
            transaction.roll_back()
            return ACCEPTED
        error = transaction.commit()
        return ACCEPTED if error is None else Rejected(error)

    def _answer(self, delivery: IncomingDelivery, state: DeliveryState) -> None:
        if not self._link.attached:
            return
        if isinstance(state, Rejected) and not self._may_reject:
            assert state.error is not None
            self.terminate(state.error.condition, state.error.description or "")
            return
        # The outcomes of messages in a transaction must arrive before that of its discharge (§4.4.1).
        self._peer.engine.flush()
        self._link.settle(delivery, state)

    def move_to(self, peer: Peer) -> None:
        """Move to another connection, with the open transactions."""
        for number in self._open:
            peer.transactions[number] = self._peer.transactions.pop(number)
        self._peer = peer

    def let_go(self, transaction: LocalTransaction) -> None:
        del self._open[transaction.id]
        self._forget(transaction)

    # The end of the link

    def terminate(self, condition: str, description: str) -> None:
        self._terminated = True
        self._roll_back()
        if self._link.attached:
            self._link.detach(closed=True, error=Error(condition, description))
            self._peer.wake()

    def end(self) -> None:
        """End the link; requests that came before still count."""
        self._take()
        self._roll_back()

    def _roll_back(self) -> None:
        while self._open:
            _, transaction = self._open.popitem()
            self._forget(transaction)
            transaction.roll_back()

    def _forget(self, transaction: LocalTransaction) -> None:
        del self._peer.transactions[transaction.id]
        self._peer.vhost.transactions.remove(transaction)
        self._peer.vhost.prepared.end(transaction)


def _rejected(condition: str, description: str) -> Rejected:
    return Rejected(Error(condition, description))
