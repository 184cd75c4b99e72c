"""A link on which the broker sends: messages from a queue, and outcomes back to it, at once or in a transaction."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..._arguments import counted
from ...messaging import ACCEPTED, OUTCOMES, RELEASED, TXN_ID, Accepted, Error, TransactionalState
from ...types import Symbol
from .._log import notice
from .._peer import LinkTaker
from .._queues.message import QueuedMessage, message_of
from .._queues.node import QueueConsumer
from .._transactions.local import LocalTransaction
from .terminus import FAILED

if TYPE_CHECKING:
    from ...engine import LinkTerms, OutgoingDelivery, SenderLink
    from ...messaging import Outcome
    from .._peer import Peer
    from .._queues.queue import Queue
    from .._retained.links import LinkJournal, ResumableLink

_keys = itertools.count(1)

ACTIVE: Final = Symbol("rabbitmq:active")
"""The property of a flow that tells a receiver whether it is the active consumer."""


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """What a receiver asks for by link properties (§2.7.3).

    Attributes:
        priority: "priority", as in Artemis and Broker-J, or "rabbitmq:priority"; 0 if it gives none.
        exclusive: "exclusive": it wants to be the only consumer.
        has_priority: whether it gives a priority.
        timeout: the seconds in "rabbitmq:consumer-timeout" (milliseconds) that it may take for a message; None: not
            given.
        one_shot: "x-opt-get": it takes one message if there is one, and ends; for dialects with a method for this.
    """

    priority: int
    exclusive: bool
    has_priority: bool
    one_shot: bool = False
    timeout: float | None = None

    @classmethod
    def of(cls, remote: LinkTerms, *, copying: bool) -> ConsumerOptions:
        """Read an attach; a priority that is not an integer counts as 0, and a browser is never exclusive."""
        for name in ("priority", "rabbitmq:priority"):
            priority = remote.properties.get(name)
            if isinstance(priority, int) and not isinstance(priority, bool):
                break
        else:
            priority = None
        exclusive, passing = (remote.properties.get(name) is True for name in ("exclusive", "x-opt-get"))
        timeout = remote.properties.get("rabbitmq:consumer-timeout")
        seconds = None
        if isinstance(timeout, int) and not isinstance(timeout, bool) and 0 <= timeout <= 0xFFFF_FFFF:
            seconds = timeout / 1000
        return cls(priority or 0, exclusive and not copying, priority is not None, passing, seconds)

    def properties(self) -> dict[Symbol, Any]:
        """Return the properties of the answer, which confirm what applies."""
        answer: dict[Symbol, Any] = {Symbol("priority"): self.priority} if self.has_priority else {}
        return answer | {Symbol("exclusive"): True} if self.exclusive else answer


class ConsumerLink(LinkTaker, QueueConsumer):
    """A consumer of a queue, on a link; see `QueueConsumer`.

    Args:
        default_outcome: the outcome of a delivery that is settled without one, or lost with the link.
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
        super().__init__(peer, link)
        self.key = next(_keys)
        self.copies = copies
        self.settles = settles
        self._sends_settled = settles
        self._queue = queue
        self._default_outcome = default_outcome
        self._acquirer: LocalTransaction | None = None  # the transaction in which messages are acquired
        self._in_transaction: dict[OutgoingDelivery, LocalTransaction] = {}
        self.resumable: ResumableLink | None = None
        self._journal: LinkJournal | None = None
        self._over = False
        self.acquired: set[QueuedMessage] = set()

    @property
    def queue(self) -> Queue:
        return self._queue

    def make_resumable(self, resumable: ResumableLink) -> None:
        """Make the link resumable; if it is resumed, continue as its old consumer."""
        self.resumable = resumable
        self._journal = self._peer.vhost.links.journal if resumable.key.connection is None else None
        if resumable.consumer is not None:
            self.key = resumable.consumer
        resumable.consumer = self.key

    def move_to(self, peer: Peer) -> None:
        """Move to another connection."""
        self._peer.held_up.remove(self._link)
        self._peer = peer

    def begin(self) -> None:
        """Enter the queue's line, because the link is attached."""
        self._link.count_waiting = self._count_waiting
        self._queue.add_consumer(self)
        self.credit_changed()

    def _count_waiting(self) -> int:
        """Return how many messages wait for credit; 0 if a browser or a filter would have to look at each."""
        return 0 if self.copies or self.filtering is not None else self._queue.available

    def on_credit(self) -> None:
        if self._over:
            return
        if self._link.properties:
            self.flow_properties()
        self.credit_changed()

    def credit_changed(self) -> None:
        link = self._link
        if link.credit > 0 or link.drain:
            self._queue.in_line(self, drain=link.drain)

    # For the queue

    def deliver(self, entry: QueuedMessage, payload: bytes) -> bool:
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
        if self._journal is not None and self.resumable is not None:
            self._journal.held(self.resumable, delivery.tag, entry)
        return True

    def run_room(self, sharers: int) -> int:
        # Messages of a transaction or of a recorded link are noted one by one.
        return 0 if self._acquirer is not None or self._journal is not None else self._link.run_room(sharers)

    @property
    def largest_in_run(self) -> int:  # type: ignore[override]
        return self._link.largest_in_run

    def deliver_run(self, entries: Sequence[QueuedMessage], payloads: Sequence[bytes]) -> None:
        self._link.send_run(payloads, entries, settled=self.settles)

    def give_up(self, entry: QueuedMessage) -> QueuedMessage | None:
        delivery = next((each for each in self._link.unsettled.values() if each.waiter is entry), None)
        if delivery is None or delivery in self._in_transaction:
            return None
        if self._journal is not None and self.resumable is not None:
            self._journal.settled(self.resumable, [delivery.tag])
        self._peer.wake()
        if not delivery.on_wire:
            self._link.abort(delivery)
            return entry
        # Another consumer may have the message soon, so this delivery gets an entry of its own, which has left.
        delivery.waiter = gone = QueuedMessage(b"")
        gone.free()
        self._link.take_back(delivery)
        return gone

    def active_changed(self, active: bool) -> None:
        self._link.tell({ACTIVE: active})
        self._peer.wake()

    # From the peer

    def on_outcomes(self, deliveries: Iterable[OutgoingDelivery]) -> None:
        """Handle outcomes that the receiver gave, and deliveries that it settled."""
        if self._journal is not None and self.resumable is not None:
            self._journal.settled(self.resumable, [delivery.tag for delivery in deliveries if delivery.local_settled])
        if self._in_transaction:
            deliveries = [delivery for delivery in deliveries if not self._named_again(delivery)]
        accepted: list[QueuedMessage] = []
        alike: list[QueuedMessage] = []  # with the same outcome, one after the other
        outcome: object = None
        for delivery in deliveries:
            state = delivery.remote_state
            if isinstance(state, Accepted):
                accepted.append(message_of(delivery))
                continue
            if isinstance(state, TransactionalState):
                self._retire(delivery, state)
                continue
            if not isinstance(state, OUTCOMES):
                if not delivery.remote_settled:
                    continue
                state = self._default_outcome
            if alike and state is not outcome:
                self._queue.settle_run(alike, self, outcome)
                alike = []
            alike.append(message_of(delivery))
            outcome = state
        if alike:
            self._queue.settle_run(alike, self, outcome)
        if accepted:
            self._queue.accept(accepted, self)
        if self.acquired:
            over = (message_of(each) for each in deliveries if each.local_settled and each not in self._in_transaction)
            self.acquired.difference_update(over)

    def on_run_accepted(self, waiters: Sequence[Any]) -> None:
        self._queue.accept(waiters, self)

    def acquire(self, delivery: OutgoingDelivery) -> bool:
        """Acquire a message that the receiver browsed; return whether that succeeded."""
        entry = message_of(delivery)
        if not self.copies or delivery.local_settled or not self._queue.acquire(entry):
            return False
        self.acquired.add(entry)
        return True

    def _retire(self, delivery: OutgoingDelivery, state: TransactionalState) -> None:
        """Record an outcome that takes effect when its transaction is committed (§4.4.2)."""
        transaction = self._peer.transaction(state.txn_id)
        if transaction is None:
            if delivery.local_settled:
                self._queue.settle(message_of(delivery), self, self._default_outcome)
            self._detach(Error("amqp:transaction:unknown-id", "the outcome names a transaction that is not open"))
            return
        outcome = state.outcome if isinstance(state.outcome, OUTCOMES) else None
        if outcome is None and delivery.local_settled:
            outcome = self._default_outcome
        if outcome is not None:
            transaction.retire(self, delivery, outcome)
            self._in_transaction[delivery] = transaction

    def _named_again(self, delivery: OutgoingDelivery) -> bool:
        """Handle a new state of a delivery in an open transaction: it must name that transaction (§4.4.2)."""
        transaction = self._in_transaction.get(delivery)
        if transaction is None:
            return False
        state = delivery.remote_state
        if isinstance(state, TransactionalState) and state.txn_id == transaction.id:
            self._retire(delivery, state)
        elif delivery.remote_settled or isinstance(state, (*OUTCOMES, TransactionalState)):
            reason = "a delivery that is part of the transaction was given an outcome outside of it"
            transaction.coordinator.terminate("amqp:transaction:rollback", reason)
        return True

    def acquire_in(self, transaction: LocalTransaction | None) -> None:
        if self._acquirer is not None:
            self._acquirer.acquirers.discard(self)
        self._acquirer = transaction
        # A message sent settled in a transaction leaves the queue only with the commit.
        self.settles = self._sends_settled and transaction is None
        if transaction is not None:
            transaction.acquirers.add(self)

    def flow_properties(self) -> None:
        """Read the properties of a flow."""
        properties = self._link.properties
        if TXN_ID not in properties:
            return
        txn_id = properties[TXN_ID]
        transaction = self._peer.transaction(txn_id)
        if txn_id is None or transaction is not None:
            if transaction is not None and self.copies:
                self._detach(Error("amqp:not-implemented", "messages that a browser looks at cannot be acquired"))
            else:
                self.acquire_in(transaction)
        else:
            self._detach(Error("amqp:transaction:unknown-id", "the flow names a transaction that is not open"))

    # For transactions that end

    def apply(self, deliveries: Sequence[OutgoingDelivery], outcome: Outcome) -> None:
        self._end_deliveries(deliveries, outcome, at_once=True)
        unsettled = [each for each in deliveries if not each.local_settled]
        if unsettled and (self._link.attached or self._link.lingers):
            for delivery in unsettled:
                self._link.settle(delivery, outcome)
            self._peer.wake()

    def keep(self, deliveries: Sequence[OutgoingDelivery]) -> None:
        for delivery in deliveries:
            self._in_transaction.pop(delivery, None)
            delivery.state = None
        self._end_deliveries([each for each in deliveries if each.local_settled], ACCEPTED, at_once=True)

    def revert(self, deliveries: Sequence[OutgoingDelivery]) -> None:
        over: list[OutgoingDelivery] = []
        kept = self._kept()
        for delivery in deliveries:
            self._in_transaction.pop(delivery, None)
            delivery.remote_state = None
            if delivery.local_settled or (self._over and delivery not in kept):
                if self._over:
                    self._forget(delivery)
                over.append(delivery)
        self._end_deliveries(over, self._default_outcome)

    def _kept(self) -> set[OutgoingDelivery]:
        """Return the deliveries that the link may still resume, if it is detached."""
        resumable = self.resumable
        return set(resumable.deliveries) if resumable is not None and resumable.requeue is not None else set()

    def take_back(self, deliveries: Sequence[OutgoingDelivery]) -> None:
        self._end_deliveries(deliveries, RELEASED)
        attached = self._link.attached
        for delivery in deliveries:
            if not attached:
                self._forget(delivery)
            elif not delivery.on_wire:
                self._link.abort(delivery)
            elif not delivery.local_settled:
                self._link.settle(delivery)
        self._peer.wake()

    def _end_deliveries(
        self, deliveries: Sequence[OutgoingDelivery], outcome: Outcome, *, at_once: bool = False
    ) -> None:
        """End deliveries with their transaction; `at_once`: all of them, so that a store commits them together."""
        for delivery in deliveries:
            self._in_transaction.pop(delivery, None)
        entries = list(map(message_of, deliveries))
        self._queue.settle_run(entries, self, outcome, at_once=at_once)
        self.acquired.difference_update(entries)

    # The end

    def _forget(self, delivery: OutgoingDelivery) -> None:
        """Forget a delivery of a link that is over, because its message goes back: others may have it soon."""
        if self._link.lingers:
            self._link.forget(delivery)

    def connection_lost(self) -> None:
        """Count the messages it holds as failed attempts, even in queues that do not count a detach as one."""
        if not self._queue.counts_detached:
            self._default_outcome = FAILED

    def suspended(self) -> list[OutgoingDelivery]:
        """Return the deliveries to keep for the link: those that it holds outside transactions."""
        return [] if self.copies else self._link.suspended()

    def on_unresumed(self, deliveries: Sequence[OutgoingDelivery]) -> None:
        """Requeue deliveries as failed attempts: the receiver may have settled them, or never received them."""
        if self._journal is not None and self.resumable is not None:
            self._journal.settled(self.resumable, [delivery.tag for delivery in deliveries])
        for delivery in deliveries:
            self._link.forget(delivery)
        self.requeue(deliveries)

    def requeue(self, deliveries: Iterable[OutgoingDelivery], untracked: Sequence[QueuedMessage] = ()) -> None:
        """Give back deliveries that are not resumed, and messages that never became deliveries."""
        begun: list[QueuedMessage] = [*untracked]
        unsent: list[QueuedMessage] = []
        for delivery in deliveries:
            (begun if delivery.begun else unsent).append(message_of(delivery))
        self._queue.settle_run(begun, self, self._default_outcome)
        self._queue.settle_run(unsent, self, RELEASED)  # a delivery that was never sent is no attempt

    def abandon(self, deliveries: Iterable[OutgoingDelivery]) -> None:
        """Give back deliveries without an outcome that no link resumed after the detach."""
        unsettled = [each for each in deliveries if not each.local_settled and each not in self._in_transaction]
        for delivery in unsettled:
            self._link.forget(delivery)
        before = self._returned
        self.requeue(unsettled)
        self._tell_returned(self._returned - before)

    @property
    def _returned(self) -> int:
        """How many messages have come back to the queue, or will in the next passes."""
        return self._queue.redelivered + self._queue.returning

    def _tell_returned(self, count: int) -> None:
        if count:
            text = (
                f"{counted(count, 'message')} of {self._queue.name!r:.200} came back from link {self._link.name!r:.100}"
            )
            fields = {"queue": self._queue.name, "link": self._link.name, "count": count}
            notice("messages_returned", logging.INFO, f"{text}, which ended without these outcomes", **fields)

    def end(self, kept: Iterable[OutgoingDelivery] = ()) -> None:
        """End the link, and give back what it held except `kept`."""
        self._over = True
        self._peer.held_up.remove(self._link)
        self.acquire_in(None)
        before = self._returned
        stays = set(kept)
        untracked = self._link.take_untracked()  # none, if some are kept
        if self.copies:
            untracked = [entry for entry in untracked if entry in self.acquired]
        given_back = []
        for delivery in [each for each in self._link.unsettled.values() if each not in stays]:
            transaction = self._in_transaction.get(delivery)
            if transaction is not None:
                if transaction.retired(delivery):
                    continue  # its outcome was given before the end
                transaction.forget(delivery)
            self._forget(delivery)
            given_back.append(delivery)
        self.requeue(given_back, untracked)
        self._tell_returned(self._returned - before)
        self._queue.remove_consumer(self)


class GetConsumerLink(ConsumerLink):
    """Takes one message if there is one, tells how many more there are, and ends."""

    one_shot = True

    def run_room(self, sharers: int) -> int:
        return 0

    def deliver(self, entry: QueuedMessage, payload: bytes) -> bool:
        self._link.offer(self._queue.depth - self._queue.unsettled - 1)
        return super().deliver(entry, payload)
