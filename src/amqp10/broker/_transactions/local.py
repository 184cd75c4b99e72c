"""Local transactions: work that is set aside until the discharge (§4).

    transfer      state=transactional-state   -> post      held here, with room reserved in the queue
    disposition   state=transactional-state   -> retire    the outcome waits, the consumer keeps the message
    flow          properties={txn-id: ...}    -> acquire   messages sent on that credit

Others see nothing of it before the commit. Consumers know the transaction of each delivery.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ...messaging import ACCEPTED, RELEASED, Error, TransactionalState
from .._deadlines import Deadlines
from .._log import attempt
from .._queues.message import message_of

if TYPE_CHECKING:
    from ...engine import OutgoingDelivery
    from ...messaging import Outcome
    from .._quarantine import Quarantine
    from .._queues.message import Clock, QueuedMessage
    from .._queues.node import Node
    from .._queues.queue import Queue

_log = logging.getLogger("amqp10.broker")

_ids = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Work:
    """The effects of a commit: messages that come to nodes, and messages that get their outcomes."""

    posted: list[tuple[Node, QueuedMessage]]
    retired: list[tuple[Queue, QueuedMessage, Outcome]]


def take_all(posted: Iterable[tuple[Node, QueuedMessage]], quarantine: Quarantine) -> None:
    """Put the messages of a transaction into their nodes, where room is reserved.

    A commit must be complete: a message that its node cannot handle goes into the quarantine, and the others go on.
    """
    for node, entry in posted:
        try:
            node.take_reserved(entry)
        except Exception as error:
            record = (node.name, entry.payload, entry.message_format, error)
            quarantine.set_aside(*record, durable=entry.durable, node=node)


def attempt_each(calls: Iterable[tuple[Any, ...]]) -> None:
    """Make each call, a function with its arguments; an error of one is logged, and does not stop the others."""
    for function, *arguments in list(calls):
        try:
            function(*arguments)
        except Exception:
            _log.exception("the end of a transaction: one part of it failed, the others are done")


class Part(Protocol):
    """Work of a transaction on a node that is not a queue, and that knows how to finish it."""

    @property
    def obstacle(self) -> Error | None:
        """The error that prevents a commit; None: it can be committed."""

    def apply(self) -> None:
        """Do the work, because the transaction is committed."""

    def revert(self) -> None:
        """Discard the work, because the transaction is rolled back."""


class Participant(Protocol):
    """A consumer of a queue whose deliveries are part of transactions."""

    @property
    def queue(self) -> Queue:
        """The queue that this link consumes from."""

    def apply(self, delivery: OutgoingDelivery, outcome: Outcome) -> None:
        """Apply the outcome of a retired delivery and settle it, because the transaction is committed."""

    def revert(self, delivery: OutgoingDelivery) -> None:
        """Discard the outcome of a retired delivery, because the transaction is rolled back.

        If no other outcome can come, the default outcome applies (§4.4.4.2).
        """

    def acquire_in(self, transaction: LocalTransaction | None) -> None:
        """Acquire messages from now on in `transaction` (§4.4.3); None: outside transactions."""

    def keep(self, delivery: OutgoingDelivery) -> None:
        """Keep a delivery that was acquired in a committed transaction, and whose outcome is still to come."""

    def take_back(self, delivery: OutgoingDelivery, outcome: Outcome) -> None:
        """Undo the acquisition of a delivery, because the transaction is rolled back (§4.4.4.3)."""


class TransactionOwner(Protocol):
    """A link that declares transactions."""

    def let_go(self, transaction: LocalTransaction) -> None:
        """Forget a transaction that is ended elsewhere."""

    def terminate(self, condition: str, description: str) -> None:
        """End the link and roll back its open transactions: the peer violated §4.4.1 or §4.4.2."""


class LocalTransaction:
    """The work of one transaction.

    Attributes:
        id: unique for the lifetime of the broker.
        state: the delivery-state of messages acquired in it.
        accepted: that of messages posted in it. One object, so that the outcomes of many are joined at once:
            benchmarks/budget.py, "broker_fill_transaction".
        coordinator: the link that declared it.
        failed: the error that prevents its commit, or None.
        expired: whether it took too long and was rolled back; then it takes no work, and only its discharge is to come.
        acquirers: consumers whose credit is part of it.
    """

    def __init__(self, coordinator: TransactionOwner, quarantine: Quarantine) -> None:
        self.id: bytes = next(_ids).to_bytes(8, "big")
        self.state: TransactionalState = TransactionalState(self.id)
        self.accepted: TransactionalState = TransactionalState(self.id, ACCEPTED)
        self.coordinator = coordinator
        self.failed: Error | None = None
        self.expired: bool = False
        self.acquirers: set[Participant] = set()
        self._quarantine = quarantine
        self._posted: list[tuple[Node, QueuedMessage]] = []
        self._retired: dict[OutgoingDelivery, tuple[Participant, Outcome]] = {}
        self._acquired: dict[OutgoingDelivery, Participant] = {}
        self._parts: dict[Hashable, Part] = {}

    # Work

    def post(self, node: Node, entry: QueuedMessage) -> None:
        """Reserve room for a message that came for a node (§4.4.1)."""
        node.reserve(entry)
        self._posted.append((node, entry))

    def retire(self, consumer: Participant, delivery: OutgoingDelivery, outcome: Outcome) -> None:
        """Record the outcome that a consumer gave a delivery; only the last one counts (§4.4.2)."""
        self._retired[delivery] = consumer, outcome

    def retired(self, delivery: OutgoingDelivery) -> bool:
        return delivery in self._retired

    def acquire(self, consumer: Participant, delivery: OutgoingDelivery) -> None:
        """Record a message that was sent to a consumer (§4.4.3)."""
        self._acquired[delivery] = consumer

    def forget(self, delivery: OutgoingDelivery) -> None:
        """Forget an acquired delivery that ended otherwise."""
        self._acquired.pop(delivery, None)

    def include(self, key: Hashable, part: Part) -> None:
        """Add other work; a later part with the same key replaces it."""
        self._parts[key] = part

    @property
    def work(self) -> Work:
        """The work, as far as a store can keep it before the commit."""
        retired = [(consumer.queue, message_of(each), outcome) for each, (consumer, outcome) in self._retired.items()]
        return Work(self._posted, retired)

    # The end

    @property
    def obstacle(self) -> Error | None:
        """The error that prevents a commit, or None."""
        for node, _ in self._posted:
            if node.deleted:
                return Error("amqp:transaction:rollback", f"the node {node.name!r} no longer exists")
        for part in self._parts.values():
            if (error := part.obstacle) is not None:
                return error
        return self.failed

    def commit(self) -> Error | None:
        """Commit the work; return the error if it was rolled back instead."""
        error = self.obstacle
        if error is not None:
            self.roll_back()
            return error
        take_all(self._posted, self._quarantine)
        retired, acquired = self._retired.items(), self._acquired.items()
        attempt_each((consumer.apply, each, outcome) for each, (consumer, outcome) in retired)
        attempt_each((consumer.keep, each) for each, consumer in acquired if each not in self._retired)
        attempt_each((part.apply,) for part in self._parts.values())
        self._release_acquirers()
        return None

    def roll_back(self) -> None:
        """Undo the work. Retired deliveries return to their consumers, or are delivered again; so are acquired ones."""
        for node, entry in self._posted:
            node.unreserve(entry)
        retired, acquired = self._retired.items(), self._acquired.items()
        attempt_each((consumer.take_back, each, RELEASED) for each, consumer in acquired)
        attempt_each((consumer.revert, each) for each, (consumer, _) in retired if each not in self._acquired)
        attempt_each((part.revert,) for part in self._parts.values())
        self._release_acquirers()

    def expire(self, description: str) -> None:
        """Roll back a transaction that took too long, so that others may have what it held."""
        self.roll_back()
        self._posted.clear()
        self._retired.clear()
        self._acquired.clear()
        self._parts.clear()
        self.expired = True
        self.failed = Error("amqp:transaction:timeout", description)

    def _release_acquirers(self) -> None:
        """Clear the txn-id of all links that acquire in it, as §4.4.3 demands at the discharge."""
        for consumer in list(self.acquirers):
            consumer.acquire_in(None)


class TransactionDeadlines:
    """When the open transactions of all peers are rolled back.

    Args:
        clock: the broker's clock.
        alarm: called with each deadline, to have `expire` called in time.
        longest: the most seconds that a transaction may take; None: no limit.
    """

    def __init__(
        self,
        clock: Clock,
        alarm: Callable[[TransactionDeadlines, float], None],
        longest: float | None = None,
    ) -> None:
        self._clock = clock
        self._alarm = alarm
        self._longest = longest
        self._common_deadlines: dict[LocalTransaction, float] = {}  # after `longest`; in ascending order
        self._own_seconds: dict[LocalTransaction, int] = {}  # from `limit`, in place of `longest` or beside it
        self._own_deadlines: Deadlines[LocalTransaction] = Deadlines()

    def add(self, transaction: LocalTransaction) -> None:
        """Start the time of a declared transaction."""
        if self._longest is not None:
            deadline = self._common_deadlines[transaction] = self._clock() + self._longest
            self._alarm(self, deadline)

    def limit(self, transaction: LocalTransaction, seconds: int) -> None:
        """Give a transaction `seconds` from now on; 0: the same time as any other."""
        if not seconds:
            self._own_seconds.pop(transaction, None)
            self._own_deadlines.set(transaction, None)
            return
        deadline = self._clock() + seconds
        self._own_seconds[transaction] = seconds
        self._own_deadlines.set(transaction, deadline)
        self._alarm(self, deadline)

    def remove(self, transaction: LocalTransaction) -> None:
        """Forget a transaction that has ended."""
        self._common_deadlines.pop(transaction, None)
        if self._own_seconds.pop(transaction, None) is not None:
            self._own_deadlines.set(transaction, None)

    def expire(self, now: float) -> float | None:
        """Roll back the transactions that are due at `now`; return when the next one is due, or None."""
        while self._common_deadlines:
            transaction, deadline = next(iter(self._common_deadlines.items()))
            if deadline > now:
                break
            why = f"it was not discharged within {self._longest:g} s"
            attempt("the end of a transaction", self._expire, transaction, why)
        for transaction in self._own_deadlines.take(now):
            why = f"it was not over within {self._own_seconds[transaction]} s"
            attempt("the end of a transaction", self._expire, transaction, why)
        common, own = itertools.islice(self._common_deadlines.values(), 1), self._own_deadlines.first
        return min((*common, *(() if own is None else (own,))), default=None)

    def _expire(self, transaction: LocalTransaction, why: str) -> None:
        self.remove(transaction)
        transaction.expire(why)
