"""Local transactions: work that is set aside until the discharge (§4).

    transfer      state=transactional-state   -> post      held here, with room reserved in the queue
    disposition   state=transactional-state   -> retire    the outcome waits, the consumer keeps the message
    flow          properties={txn-id: ...}    -> acquire   messages sent on that credit

Others see nothing of it before the commit. Consumers know the transaction of each delivery.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ...messaging import ACCEPTED, Accepted, Error, TransactionalState
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


K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Work:
    """The effects of a commit: messages that come to nodes, and messages that get their outcomes."""

    posted: dict[Node, list[QueuedMessage]]
    retired: list[tuple[Queue, QueuedMessage, Outcome]]


def take_all(posted: Mapping[Node, Sequence[QueuedMessage]], quarantine: Quarantine) -> None:
    """Put the messages of a transaction into their nodes, where room is reserved.

    A commit must be complete: a message that its node cannot handle goes into the quarantine, and the others go on.
    """
    for node, entries in posted.items():
        if node.takes_runs and len(entries) > 1:
            node.take_reserved_run(entries)
            continue
        for entry in entries:
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


def in_runs(work: Iterable[tuple[T, K]]) -> list[tuple[list[T], K]]:
    """Return what follows one another and has the same second part, in lists, each with that part."""
    runs: list[tuple[list[T], K]] = []
    for each, key in work:
        if not runs or runs[-1][1] is not key:
            runs.append(([], key))
        runs[-1][0].append(each)
    return runs


def attempt_run(end: Callable[[Sequence[T]], object], run: Sequence[T]) -> None:
    """Call `end` with all of `run`, or with each alone if that fails; it passes over what it has ended before.

    An error of one is logged, and does not stop the others.
    """
    try:
        end(run)
    except Exception:
        attempt_each((end, [each]) for each in run)


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

    def apply(self, deliveries: Sequence[OutgoingDelivery], outcome: Outcome) -> None:
        """Apply the outcome of retired deliveries and settle them, because the transaction is committed."""

    def revert(self, deliveries: Sequence[OutgoingDelivery]) -> None:
        """Discard the outcomes of retired deliveries, because the transaction is rolled back.

        If no other outcome can come, the default outcome applies (§4.4.4.2).
        """

    def acquire_in(self, transaction: LocalTransaction | None) -> None:
        """Acquire messages from now on in `transaction` (§4.4.3); None: outside transactions."""

    def keep(self, deliveries: Sequence[OutgoingDelivery]) -> None:
        """Keep deliveries that were acquired in a committed transaction, and whose outcomes are still to come."""

    def take_back(self, deliveries: Sequence[OutgoingDelivery]) -> None:
        """Undo the acquisition of deliveries, because the transaction is rolled back (§4.4.4.3)."""


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
        self._posted: dict[Node, list[QueuedMessage]] = {}
        # Deliveries that follow one another with the same consumer and outcome share a tuple.
        self._retired: dict[OutgoingDelivery, tuple[Participant, Outcome]] = {}
        self._last: tuple[Participant, Outcome] | None = None
        self._acquired: dict[OutgoingDelivery, Participant] = {}
        self._parts: dict[Hashable, Part] = {}

    # Work

    def post(self, node: Node, entry: QueuedMessage) -> None:
        """Reserve room for a message that came for a node (§4.4.1)."""
        node.reserve(entry)
        self._posted.setdefault(node, []).append(entry)

    def retire(self, consumer: Participant, delivery: OutgoingDelivery, outcome: Outcome) -> None:
        """Record the outcome that a consumer gave a delivery; only the last one counts (§4.4.2)."""
        last = self._last
        if last is None or last[0] is not consumer or not _is_same(last[1], outcome):
            self._last = last = consumer, outcome
        self._retired[delivery] = last

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
        for node in self._posted:
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
        for run, (consumer, outcome) in in_runs(self._retired.items()):
            attempt_run(partial(consumer.apply, outcome=outcome), run)
        for run, holder in in_runs(item for item in self._acquired.items() if item[0] not in self._retired):
            attempt_run(holder.keep, run)
        attempt_each((part.apply,) for part in self._parts.values())
        self._release_acquirers()
        return None

    def roll_back(self) -> None:
        """Undo the work. Retired deliveries return to their consumers, or are delivered again; so are acquired ones."""
        for node, entries in self._posted.items():
            node.unreserve_run(entries)
        for run, holder in in_runs(self._acquired.items()):
            attempt_run(holder.take_back, run)
        for run, (consumer, _) in in_runs(item for item in self._retired.items() if item[0] not in self._acquired):
            attempt_run(consumer.revert, run)
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


def _is_same(one: Outcome, other: Outcome) -> bool:
    return one is other or (isinstance(one, Accepted) and isinstance(other, Accepted))


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
