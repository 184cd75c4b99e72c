"""A link on which the broker sends: messages out of a queue, outcomes back into it, at once or by a transaction."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..messaging import ACCEPTED, RELEASED, TXN_ID, Accepted, Error, Modified, Rejected, Released, TransactionalState
from ..types import Symbol
from ._node import Consumer

if TYPE_CHECKING:
    from ..engine import LinkTerms, OutgoingDelivery, SenderLink
    from ..messaging import Outcome
    from ._connection import Peer
    from ._coordinator import LocalTransaction
    from ._entry import Entry
    from ._queue import Queue
    from ._suspended import Keeper, KeptLink

_OUTCOMES = (Accepted, Rejected, Released, Modified)
_keys = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a receiver asks for by link properties (§2.7.3).

    Attributes:
        priority: "priority", as on Artemis and Broker-J, or "rabbitmq:priority"; 0 where it says none.
        exclusive: "exclusive": it wants to be the only consumer.
        said: it has said a priority.
        passing: "x-opt-get": it takes one message if there is one, and goes; how dialects say that have a word for it.
    """

    priority: int
    exclusive: bool
    said: bool
    passing: bool = False

    @classmethod
    def of(cls, remote: LinkTerms, *, copying: bool) -> Wishes:
        """What that attach asks for; what is no integer is no priority, and who only looks is never alone."""
        for name in ("priority", "rabbitmq:priority"):
            asked = remote.properties.get(name)
            if isinstance(asked, int) and not isinstance(asked, bool):
                break
        else:
            asked = None
        exclusive, passing = (remote.properties.get(name) is True for name in ("exclusive", "x-opt-get"))
        return cls(asked or 0, exclusive and not copying, asked is not None, passing)

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
        self._sends_settled = settles
        self._peer = peer
        self._link = link
        self._session = link.session
        self._queue = queue
        self._default_outcome = default_outcome
        self._largest = (link.remote.max_message_size if link.remote is not None else None) or None
        self._acquirer: LocalTransaction | None = None  # in which messages are taken
        self._in_transaction: dict[OutgoingDelivery, LocalTransaction] = {}
        self.kept: KeptLink | None = None
        self._keeper: Keeper | None = None
        self._over = False
        self.acquired: set[Entry] = set()

    @property
    def queue(self) -> Queue:
        """That it takes out of."""
        return self._queue

    def kept_as(self, kept: KeptLink) -> None:
        """The link can be resumed; or it was, and goes on as the consumer that it was."""
        self.kept = kept
        self._keeper = self._peer.keeper if kept.key.connection is None else None
        if kept.consumer is not None:
            self.key = kept.consumer
        kept.consumer = self.key

    def begin(self) -> None:
        """The link is attached: stand in line."""
        self._queue.add_consumer(self)
        self.credit_changed()

    def credit_changed(self) -> None:
        """Credit came, or the window or the output has room again."""
        link = self._link
        if link.credit > 0 or link.drain:
            self._queue.in_line(self, drain=link.drain)

    # What the queue asks for

    def ready(self) -> bool:
        # A peer that does not read fills its window or its output, and is then left alone until it does.
        return self._link.credit > 0 and self._session.sendable and not self._peer.full and self._link.attached

    def deliver(self, entry: Entry, payload: bytes) -> bool:
        if self._largest is not None and len(payload) > self._largest:
            return False
        acquirer = self._acquirer
        if acquirer is None:
            delivery = self._link.send(payload, settled=self.settles, message_format=entry.message_format)
        else:
            delivery = self._link.send(
                payload, settled=self._sends_settled, message_format=entry.message_format, state=acquirer.state
            )
            acquirer.acquire(self, delivery)
            self._in_transaction[delivery] = acquirer
        delivery.waiter = entry
        if self._keeper is not None and self.kept is not None:
            self._keeper.held(self.kept, delivery.tag, entry)
        return True

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
        self._detach(error)

    def _detach(self, error: Error) -> None:
        if self._link.attached:
            self._link.detach(closed=True, error=error)
            self._peer.wake()

    # What the peer says

    def outcomes(self, deliveries: Iterable[OutgoingDelivery]) -> None:
        """The receiver named outcomes, or settled."""
        if self._keeper is not None and self.kept is not None:
            self._keeper.settled(self.kept, [delivery.tag for delivery in deliveries if delivery.local_settled])
        if self._in_transaction:
            deliveries = [delivery for delivery in deliveries if not self._named_again(delivery)]
        settle = self._queue.settle
        for delivery in deliveries:
            state = delivery.remote_state
            if isinstance(state, _OUTCOMES):
                settle(delivery.waiter, self, state)
            elif isinstance(state, TransactionalState):
                self._retire(delivery, state)
            elif delivery.remote_settled:
                settle(delivery.waiter, self, self._default_outcome)
        if self.acquired:
            over = (each.waiter for each in deliveries if each.local_settled and each not in self._in_transaction)
            self.acquired.difference_update(over)

    def acquire(self, delivery: OutgoingDelivery) -> bool:
        """The receiver, who was only shown it, takes it; whether it can."""
        entry: Entry = delivery.waiter
        if not self.copies or delivery.local_settled or not self._queue.acquire(entry):
            return False
        self.acquired.add(entry)
        return True

    def _retire(self, delivery: OutgoingDelivery, state: TransactionalState) -> None:
        """The outcome counts when its transaction is committed (§4.4.2)."""
        transaction = self._peer.transaction(state.txn_id)
        if transaction is None:
            if delivery.local_settled:
                self._queue.settle(delivery.waiter, self, self._default_outcome)
            self._detach(Error(Symbol("amqp:transaction:unknown-id"), "an outcome for a transaction that is not open"))
            return
        outcome = state.outcome if isinstance(state.outcome, _OUTCOMES) else None
        if outcome is None and delivery.local_settled:
            outcome = self._default_outcome
        if outcome is not None:
            transaction.retire(self, delivery, outcome)
            self._in_transaction[delivery] = transaction

    def _named_again(self, delivery: OutgoingDelivery) -> bool:
        """Something is said of a delivery that is part of an open transaction: it has to be said in that (§4.4.2)."""
        transaction = self._in_transaction.get(delivery)
        if transaction is None:
            return False
        state = delivery.remote_state
        if isinstance(state, TransactionalState) and state.txn_id == transaction.id:
            self._retire(delivery, state)
        elif delivery.remote_settled or isinstance(state, (*_OUTCOMES, TransactionalState)):
            reason = "a delivery that is part of the transaction was given an outcome outside of it"
            transaction.coordinator.terminate("amqp:transaction:rollback", reason)
        return True

    def acquire_in(self, transaction: LocalTransaction | None) -> None:
        """What is sent from now on is acquired in this transaction (§4.4.3), or in none."""
        if self._acquirer is not None:
            self._acquirer.acquirers.discard(self)
        self._acquirer = transaction
        # What is sent settled in a transaction leaves the queue with the commit only.
        self.settles = self._sends_settled and transaction is None
        if transaction is not None:
            transaction.acquirers.add(self)

    def flow_properties(self) -> None:
        """A flow came that has properties."""
        properties = self._link.properties
        if TXN_ID not in properties:
            return
        txn_id = properties[TXN_ID]
        transaction = self._peer.transaction(txn_id)
        if txn_id is None or transaction is not None:
            if transaction is not None and self.copies:
                self._detach(Error(Symbol("amqp:not-implemented"), "what is only looked at cannot be acquired"))
            else:
                self.acquire_in(transaction)
        else:
            self._detach(Error(Symbol("amqp:transaction:unknown-id"), "a flow for a transaction that is not open"))

    # What a transaction asks for at its end

    def apply(self, delivery: OutgoingDelivery, outcome: Outcome) -> None:
        """It is committed: the outcome counts, and the delivery is settled with that."""
        self._in_transaction.pop(delivery, None)
        self._queue.settle(delivery.waiter, self, outcome)
        if not delivery.local_settled and (self._link.attached or self._link.lingers):
            self._link.settle(delivery, outcome)
            self._peer.wake()

    def keep(self, delivery: OutgoingDelivery) -> None:
        """It is committed, and an outcome of what was acquired in it is still to come, in whatever way."""
        self._in_transaction.pop(delivery, None)
        delivery.state = None
        if delivery.local_settled:
            self._queue.settle(delivery.waiter, self, ACCEPTED)

    def revert(self, delivery: OutgoingDelivery) -> None:
        """It is rolled back: the outcome is forgotten, and if nothing more can be said, is the default (§4.4.4.2)."""
        self._in_transaction.pop(delivery, None)
        delivery.remote_state = None
        if delivery.local_settled or (self._over and not self._is_kept(delivery)):
            self._queue.settle(delivery.waiter, self, self._default_outcome)

    def _is_kept(self, delivery: OutgoingDelivery) -> bool:
        """Return whether the link is detached and may still resume the delivery."""
        kept = self.kept
        return kept is not None and kept.give_back is not None and delivery in kept.deliveries

    def take_back(self, delivery: OutgoingDelivery, outcome: Outcome) -> None:
        """It is rolled back, and the acquiring with it (§4.4.4.3)."""
        self._in_transaction.pop(delivery, None)
        self._queue.settle(delivery.waiter, self, outcome)
        if self._link.attached:
            if not delivery.on_wire:
                self._link.abort(delivery)
            elif not delivery.local_settled:
                self._link.settle(delivery)
            self._peer.wake()

    # The end

    def suspended(self) -> list[OutgoingDelivery]:
        """What is to be kept of the link: the messages that it holds, but for those of transactions."""
        return [] if self.copies else self._link.suspended()

    def unresumed(self, deliveries: Iterable[OutgoingDelivery]) -> None:
        """The receiver may have settled these, or never have had them: they count as attempts, and come again."""
        deliveries = list(deliveries)
        if self._keeper is not None and self.kept is not None:
            self._keeper.settled(self.kept, [delivery.tag for delivery in deliveries])
        for delivery in deliveries:
            self._link.forget(delivery)
        self.give_back(deliveries)

    def give_back(self, deliveries: Iterable[OutgoingDelivery]) -> None:
        """These are not resumed."""
        for delivery in reversed(list(deliveries)):
            # What never left was never attempted.
            self._queue.settle(delivery.waiter, self, self._default_outcome if delivery.begun else RELEASED)

    def abandon(self, kept: Iterable[OutgoingDelivery]) -> None:
        """Nobody resumes these any more: give back those that have no outcome since the link was detached."""
        left = [each for each in kept if not each.local_settled and each not in self._in_transaction]
        for delivery in left:
            self._link.forget(delivery)
        self.give_back(left)

    def end(self, kept: Iterable[OutgoingDelivery] = ()) -> None:
        """The link is over: what it held goes back, but for what is `kept`.

        The youngest goes first, so that each finds its place at the front.
        """
        self._over = True
        self.acquire_in(None)
        stays = set(kept)
        for delivery in reversed([each for each in self._link.unsettled.values() if each not in stays]):
            transaction = self._in_transaction.get(delivery)
            if transaction is not None:
                if transaction.retired(delivery):
                    continue  # its outcome was named before the end
                transaction.forget(delivery)
            if self._link.lingers:
                self._link.forget(delivery)
            self.give_back([delivery])
        self._queue.remove_consumer(self)


class PassingConsumerLink(ConsumerLink):
    """One that takes a message if there is one, is told how many more there are, and goes."""

    passing = True

    def deliver(self, entry: Entry, payload: bytes) -> bool:
        self._link.offer(self._queue.depth - self._queue.unsettled - 1)
        return super().deliver(entry, payload)
