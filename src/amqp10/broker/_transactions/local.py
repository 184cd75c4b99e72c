"""Local transactions: work that is kept aside until it is discharged (§4).

    transfer      state=transactional-state   -> post      held here, its room in the queue reserved
    disposition   state=transactional-state   -> retire    the outcome waits, the message stays with its consumer
    flow          properties={txn-id: ...}    -> acquire   what is sent on that credit

Others see nothing of it before the commit. Consumers know the transaction of each delivery.
"""

from __future__ import annotations

import itertools
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...messaging import RELEASED, Error, TransactionalState
from ...types import Symbol
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
    """What happens when a transaction is committed: messages come into nodes, and others have their outcomes."""

    posted: list[tuple[Node, QueuedMessage]]
    retired: list[tuple[Queue, QueuedMessage, Outcome]]


def take_all(posted: Iterable[tuple[Node, QueuedMessage]], quarantine: Quarantine) -> None:
    """Take the messages of a transaction into their nodes, for which room is reserved.

    A commit is whole: a message that a node cannot handle goes into the quarantine, and the others are taken.
    """
    for node, entry in posted:
        try:
            node.take_reserved(entry)
        except Exception as error:
            told = (node.name, entry.payload, entry.message_format, error)
            quarantine.set_aside(*told, durable=entry.durable, node=node)


def attempt_each(calls: Iterable[tuple[Any, ...]]) -> None:
    """Make these calls, each a function with its arguments; what one raises is logged, and the others are made."""
    for function, *arguments in list(calls):
        try:
            function(*arguments)
        except Exception:
            _log.exception("the end of a transaction: one part of it failed, the others are done")


class Part(ABC):
    """Work of a transaction on a node of another kind than queues, which knows by itself what to do at the end."""

    @property
    @abstractmethod
    def obstacle(self) -> Error | None:
        """Why it cannot be done; None: it can."""

    @abstractmethod
    def apply(self) -> None:
        """Do it: the transaction is committed."""

    @abstractmethod
    def revert(self) -> None:
        """Forget it: the transaction is rolled back."""


class Participant(ABC):
    """A consumer of a queue whose deliveries are part of transactions."""

    @property
    @abstractmethod
    def queue(self) -> Queue:
        """The queue that this link consumes from."""

    @abstractmethod
    def apply(self, delivery: OutgoingDelivery, outcome: Outcome) -> None:
        """Let the outcome of a retired delivery count, and settle the delivery: the transaction is committed."""

    @abstractmethod
    def revert(self, delivery: OutgoingDelivery) -> None:
        """Forget the outcome of a retired delivery: the transaction is rolled back.

        If no other outcome can come, the default outcome counts (§4.4.4.2).
        """

    @abstractmethod
    def acquire_in(self, transaction: LocalTransaction | None) -> None:
        """Acquire what is sent from now on in `transaction` (§4.4.3), or in none."""

    @abstractmethod
    def keep(self, delivery: OutgoingDelivery) -> None:
        """Keep a delivery that was acquired in a committed transaction; its outcome is still to come."""

    @abstractmethod
    def take_back(self, delivery: OutgoingDelivery, outcome: Outcome) -> None:
        """Undo the acquisition of a delivery: the transaction is rolled back (§4.4.4.3)."""


class TransactionOwner(ABC):
    """A link that declared transactions."""

    @abstractmethod
    def let_go(self, transaction: LocalTransaction) -> None:
        """Forget a transaction that is ended from elsewhere."""

    @abstractmethod
    def terminate(self, condition: str, description: str) -> None:
        """End the link, and roll back all that is open on it: the peer broke a rule of §4.4.1 or §4.4.2."""


class LocalTransaction:
    """What was done in one transaction.

    Attributes:
        id: no other transaction of the broker has, or had, it.
        state: what is said of a message that is acquired in it.
        coordinator: the link that declared it.
        failed: why it cannot be committed; None as long as it can.
        expired: it took too long, was rolled back for that, and takes no work; only its discharge is still to come.
        acquirers: consumers whose credit is part of it.
    """

    def __init__(self, coordinator: TransactionOwner, quarantine: Quarantine) -> None:
        self.id: bytes = next(_ids).to_bytes(8, "big")
        self.state: TransactionalState = TransactionalState(self.id)
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
        """Note the outcome that a consumer named for a delivery; the last one that it names counts (§4.4.2)."""
        self._retired[delivery] = consumer, outcome

    def retired(self, delivery: OutgoingDelivery) -> bool:
        return delivery in self._retired

    def acquire(self, consumer: Participant, delivery: OutgoingDelivery) -> None:
        """Note a message that a consumer was given (§4.4.3)."""
        self._acquired[delivery] = consumer

    def forget(self, delivery: OutgoingDelivery) -> None:
        """Forget an acquired delivery that has ended otherwise."""
        self._acquired.pop(delivery, None)

    def include(self, key: Hashable, part: Part) -> None:
        """Note other work; the last part with the same key counts."""
        self._parts[key] = part

    @property
    def work(self) -> Work:
        """All of it, as far as a store can keep it before the end."""
        retired = [(consumer.queue, message_of(each), outcome) for each, (consumer, outcome) in self._retired.items()]
        return Work(self._posted, retired)

    # The end

    @property
    def obstacle(self) -> Error | None:
        """Why it can not be committed."""
        for node, _ in self._posted:
            if node.deleted:
                return Error(Symbol("amqp:transaction:rollback"), f"the node {node.name!r} no longer exists")
        for part in self._parts.values():
            if (error := part.obstacle) is not None:
                return error
        return self.failed

    def commit(self) -> Error | None:
        """Do it all; the error if it was rolled back instead."""
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
        """Undo it all: what was retired is the consumer's again, or comes again; so does what was acquired."""
        for node, entry in self._posted:
            node.unreserve(entry)
        retired, acquired = self._retired.items(), self._acquired.items()
        attempt_each((consumer.take_back, each, RELEASED) for each, consumer in acquired)
        attempt_each((consumer.revert, each) for each, (consumer, _) in retired if each not in self._acquired)
        attempt_each((part.revert,) for part in self._parts.values())
        self._release_acquirers()

    def expire(self, description: str) -> None:
        """Roll back a transaction that took too long: others may have what it held."""
        self.roll_back()
        self._posted.clear()
        self._retired.clear()
        self._acquired.clear()
        self._parts.clear()
        self.expired = True
        self.failed = Error(Symbol("amqp:transaction:timeout"), description)

    def _release_acquirers(self) -> None:
        """Clear the txn-id of all links that acquire in it, as §4.4.3 asks for at the discharge."""
        for consumer in list(self.acquirers):
            consumer.acquire_in(None)


class OpenTransactions:
    """Those of all peers, so that none holds its messages for ever.

    Args:
        clock: the broker's.
        alarm: told of each deadline, for whoever calls `expire` in time.
        quarantine: for what cannot be handled when a transaction is committed.
        longest: seconds that a transaction may take; None for any time.
    """

    def __init__(
        self,
        clock: Clock,
        alarm: Callable[[OpenTransactions, float], None],
        quarantine: Quarantine,
        longest: float | None = None,
    ) -> None:
        self.quarantine = quarantine
        self._clock = clock
        self._alarm = alarm
        self._longest = longest
        self._deadlines: dict[LocalTransaction, float] = {}  # each later than the one before
        self._limits: dict[LocalTransaction, int] = {}  # seconds, of those that have a time of their own
        self._ends: Deadlines[LocalTransaction] = Deadlines()  # of these

    def add(self, transaction: LocalTransaction) -> None:
        """Start the time of a transaction that was declared."""
        if self._longest is not None:
            deadline = self._deadlines[transaction] = self._clock() + self._longest
            self._alarm(self, deadline)

    def limit(self, transaction: LocalTransaction, seconds: int) -> None:
        """Give a transaction `seconds` from now; with 0, the same time as any other."""
        if not seconds:
            self._limits.pop(transaction, None)
            self._ends.set(transaction, None)
            return
        deadline = self._clock() + seconds
        self._limits[transaction] = seconds
        self._ends.set(transaction, deadline)
        self._alarm(self, deadline)

    def remove(self, transaction: LocalTransaction) -> None:
        """Forget a transaction that is over."""
        self._deadlines.pop(transaction, None)
        if self._limits.pop(transaction, None) is not None:
            self._ends.set(transaction, None)

    def expire(self, now: float) -> float | None:
        """Roll back those whose time has come; return when the next one's does."""
        while self._deadlines:
            transaction, deadline = next(iter(self._deadlines.items()))
            if deadline > now:
                break
            why = f"it was not discharged within {self._longest:g} s"
            attempt("the end of a transaction", self._expire, transaction, why)
        for transaction in self._ends.take(now):
            why = f"it was not over within {self._limits[transaction]} s"
            attempt("the end of a transaction", self._expire, transaction, why)
        first = self._ends.first
        return min((*itertools.islice(self._deadlines.values(), 1), *(() if first is None else (first,))), default=None)

    def _expire(self, transaction: LocalTransaction, why: str) -> None:
        self.remove(transaction)
        transaction.expire(why)
