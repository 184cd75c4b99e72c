"""A link on which the broker sends: messages out of a queue, outcomes back into it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..messaging import RELEASED, Accepted, Error, Modified, Rejected, Released, TransactionalState
from ..types import Symbol
from ._node import Consumer

if TYPE_CHECKING:
    from ..engine import LinkTerms, OutgoingDelivery, SenderLink
    from ..messaging import Outcome
    from ._connection import Peer
    from ._coordinator import LocalTransaction
    from ._entry import Entry
    from ._queue import Queue

_OUTCOMES = (Accepted, Rejected, Released, Modified)
_TXN_ID = Symbol("txn-id")
_keys = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a receiver asks for by link properties (§2.7.3).

    Attributes:
        priority: "priority", as on Artemis and Broker-J, or "rabbitmq:priority"; 0 where it says none.
        exclusive: "exclusive": it wants to be the only consumer.
        said: it has said a priority.
    """

    priority: int
    exclusive: bool
    said: bool

    @classmethod
    def of(cls, remote: LinkTerms, *, copying: bool) -> Wishes:
        """What that attach asks for; what is no integer is no priority, and who only looks is never alone."""
        for name in ("priority", "rabbitmq:priority"):
            asked = remote.properties.get(name)
            if isinstance(asked, int) and not isinstance(asked, bool):
                break
        else:
            asked = None
        return cls(asked or 0, remote.properties.get("exclusive") is True and not copying, asked is not None)

    def properties(self) -> dict[Symbol, Any]:
        """The same for the answer, so that the peer knows that it is so."""
        said: dict[Symbol, Any] = {Symbol("priority"): self.priority} if self.said else {}
        return said | {Symbol("exclusive"): True} if self.exclusive else said


class ConsumerLink(Consumer):
    """See `Consumer`.

    Args:
        default_outcome: what a delivery ends in that is settled without an outcome, or lost with the link.
    """

    def __init__(
        self,
        peer: Peer,
        link: SenderLink,
        queue: Queue,
        *,
        copies: bool,
        settles: bool,
        default_outcome: Outcome,
    ) -> None:
        self.key = next(_keys)
        self.copies = copies
        self.settles = settles
        self._peer = peer
        self._link = link
        self._session = link.session
        self.queue = queue
        self._default_outcome = default_outcome
        self._largest = (link.remote.max_message_size if link.remote is not None else None) or None

    def begin(self) -> None:
        """The link is attached: stand in line."""
        self.queue.add_consumer(self)
        self.credit_changed()

    def credit_changed(self) -> None:
        """Credit came, or the window or the output has room again."""
        link = self._link
        if link.credit > 0 or link.drain:
            self.queue.in_line(self, drain=link.drain)

    # What the queue asks for

    def ready(self) -> bool:
        # A peer that does not read fills its window or its output, and is then left alone until it does.
        return self._link.credit > 0 and self._session.sendable and not self._peer.full and self._link.attached

    def deliver(self, entry: Entry, payload: bytes) -> bool:
        if self._largest is not None and len(payload) > self._largest:
            return False
        link = self._link
        transaction = self._acquiring() if link.properties else None
        if transaction is not None:
            state = TransactionalState(transaction.id)
            delivery = link.send(payload, settled=self.settles, message_format=entry.message_format, state=state)
            transaction.acquire(self, delivery)
        else:
            delivery = link.send(payload, settled=self.settles, message_format=entry.message_format)
        delivery.waiter = entry
        return True

    def _acquiring(self) -> LocalTransaction | None:
        """The transaction that the credit of just now is part of (§4.4.3)."""
        txn_id = self._link.properties.get(_TXN_ID)
        return self._peer.transactions.get(txn_id) if isinstance(txn_id, bytes) else None

    def fed(self) -> None:
        link = self._link
        if link.drain and link.credit == 0:
            link.drained()
        self._peer.wake()

    def exhausted(self) -> None:
        link = self._link
        if link.drain and link.attached:
            link.drained()
            self._peer.wake()

    def node_deleted(self, error: Error) -> None:
        if self._link.attached:
            self._link.detach(closed=True, error=error)
            self._peer.wake()

    # What the peer says

    def outcomes(self, deliveries: Iterable[OutgoingDelivery]) -> None:
        """The receiver named outcomes, or settled."""
        settle = self.queue.settle
        for delivery in deliveries:
            state = delivery.remote_state
            if isinstance(state, _OUTCOMES):
                settle(delivery.waiter, self, state)
            elif isinstance(state, TransactionalState):
                self._retire(delivery, state)
            elif delivery.remote_settled:
                settle(delivery.waiter, self, self._default_outcome)

    def _retire(self, delivery: OutgoingDelivery, state: TransactionalState) -> None:
        """The outcome counts when its transaction is committed (§4.4.2)."""
        transaction = self._peer.transactions.get(state.txn_id)
        if transaction is None:
            if delivery.local_settled:
                self.queue.settle(delivery.waiter, self, self._default_outcome)
            if self._link.attached:
                error = Error(Symbol("amqp:transaction:unknown-id"), "the delivery is part of no open transaction")
                self._link.detach(closed=True, error=error)
        elif isinstance(state.outcome, _OUTCOMES):
            transaction.retire(self, delivery.waiter, state.outcome)

    def take_back(self, delivery: OutgoingDelivery, outcome: Outcome) -> None:
        """The transaction that the message was given in is rolled back (§4.4.3)."""
        if not delivery.local_settled:
            self.queue.settle(delivery.waiter, self, outcome)
            if self._link.attached:
                self._link.settle(delivery, outcome)
                self._peer.wake()

    def end(self) -> None:
        """The link is over: what it held goes back, the youngest first, so that each finds its place at the front."""
        for delivery in reversed(list(self._link.unsettled.values())):
            # What never left was never attempted.
            outcome = self._default_outcome if delivery.delivery_id is not None else RELEASED
            self.queue.settle(delivery.waiter, self, outcome)
        self.queue.remove_consumer(self)
