"""Transactions of one peer: work that is kept aside until it is discharged, and the link that says so (§4).

    transfer      state=transactional-state   -> post      held here, its room in the queue reserved
    disposition   state=transactional-state   -> retire    the outcome waits, the message stays with its consumer
    flow          properties={txn-id: ...}    -> acquire   what is sent on that credit

Nothing of it is seen by others before the commit. Which delivery is part of which transaction the consumers know.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..engine import LinkTerms
from ..errors import DecodeError
from ..messaging import (
    ACCEPTED,
    RELEASED,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Error,
    Message,
    Rejected,
    TransactionalState,
)
from ..types import Symbol, as_composite

if TYPE_CHECKING:
    from ..engine import IncomingDelivery, OutgoingDelivery, ReceiverLink
    from ..messaging import DeliveryState, Outcome
    from ._connection import Peer
    from ._consumer import ConsumerLink
    from ._entry import Clock, Entry
    from ._node import Node
    from ._quarantine import Quarantine
    from ._queue import Queue

_log = logging.getLogger("amqp10.broker")

CAPABILITIES = ("amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn")
CREDIT = 100
MOST = 1000
"""Transactions that one peer may have open at a time."""

_ids = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Work:
    """What happens when a transaction is committed: messages come into nodes, and others have their outcomes."""

    posted: list[tuple[Node, Entry]]
    retired: list[tuple[Queue, Entry, Outcome]]


def take_all(posted: Iterable[tuple[Node, Entry]], quarantine: Quarantine) -> None:
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

    def __init__(self, coordinator: CoordinatorLink, quarantine: Quarantine) -> None:
        self.id = next(_ids).to_bytes(8, "big")
        self.state = TransactionalState(self.id)
        self.coordinator = coordinator
        self.failed: Error | None = None
        self.expired = False
        self.acquirers: set[ConsumerLink] = set()
        self._quarantine = quarantine
        self._posted: list[tuple[Node, Entry]] = []
        self._retired: dict[OutgoingDelivery, tuple[ConsumerLink, Outcome]] = {}
        self._acquired: dict[OutgoingDelivery, ConsumerLink] = {}

    # Work

    def post(self, node: Node, entry: Entry) -> None:
        """A message came for a node (§4.4.1)."""
        node.reserve(entry)
        self._posted.append((node, entry))

    def retire(self, consumer: ConsumerLink, delivery: OutgoingDelivery, outcome: Outcome) -> None:
        """A consumer named the outcome of a delivery; the last one that it names counts (§4.4.2)."""
        self._retired[delivery] = consumer, outcome

    def retired(self, delivery: OutgoingDelivery) -> bool:
        return delivery in self._retired

    def acquire(self, consumer: ConsumerLink, delivery: OutgoingDelivery) -> None:
        """A consumer was given a message (§4.4.3)."""
        self._acquired[delivery] = consumer

    def forget(self, delivery: OutgoingDelivery) -> None:
        """What was acquired has ended otherwise."""
        self._acquired.pop(delivery, None)

    @property
    def work(self) -> Work:
        """All of it."""
        retired = [(consumer.queue, each.waiter, outcome) for each, (consumer, outcome) in self._retired.items()]
        return Work(self._posted, retired)

    # The end

    @property
    def obstacle(self) -> Error | None:
        """Why it can not be committed."""
        for node, _ in self._posted:
            if node.deleted:
                return Error(Symbol("amqp:transaction:rollback"), f"there is no {node.name!r} any more")
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
        self._release_acquirers()
        return None

    def roll_back(self) -> None:
        """Undo it all: what was retired is the consumer's again, or comes again; so does what was acquired."""
        for node, entry in self._posted:
            node.unreserve(entry)
        retired, acquired = self._retired.items(), self._acquired.items()
        attempt_each((consumer.take_back, each, RELEASED) for each, consumer in acquired)
        attempt_each((consumer.revert, each) for each, (consumer, _) in retired if each not in self._acquired)
        self._release_acquirers()

    def expire(self, description: str) -> None:
        """It took too long: others may have what it held."""
        self.roll_back()
        self._posted.clear()
        self._retired.clear()
        self._acquired.clear()
        self.expired = True
        self.failed = Error(Symbol("amqp:transaction:timeout"), description)

    def _release_acquirers(self) -> None:
        """§4.4.3: "When a transaction is discharged, the txn-id of any link endpoints will be cleared"."""
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
        self, clock: Clock, alarm: Callable[[float], None], quarantine: Quarantine, longest: float | None = None
    ) -> None:
        self.quarantine = quarantine
        self._clock = clock
        self._alarm = alarm
        self._longest = longest
        self._deadlines: dict[LocalTransaction, float] = {}  # each later than the one before
        self._limits: dict[LocalTransaction, tuple[float, int]] = {}  # of few, that have one of their own, and seconds

    def add(self, transaction: LocalTransaction) -> None:
        """It was declared."""
        if self._longest is not None:
            deadline = self._deadlines[transaction] = self._clock() + self._longest
            self._alarm(deadline)

    def limit(self, transaction: LocalTransaction, seconds: int) -> None:
        """It may take so many seconds from now; 0: as any other."""
        if not seconds:
            self._limits.pop(transaction, None)
            return
        deadline = self._clock() + seconds
        self._limits[transaction] = deadline, seconds
        self._alarm(deadline)

    def remove(self, transaction: LocalTransaction) -> None:
        """It is over."""
        self._deadlines.pop(transaction, None)
        self._limits.pop(transaction, None)

    def expire(self, now: float) -> float | None:
        """Roll back those whose time has come; return when the next one's does."""
        for transaction, deadline in list(self._deadlines.items()):
            if deadline > now:
                break
            self._expire(transaction, f"it was not discharged within {self._longest:g} s")
        for transaction, (deadline, seconds) in list(self._limits.items()):
            if deadline <= now:
                self._expire(transaction, f"it was not over within {seconds} s")
        return min(
            (*itertools.islice(self._deadlines.values(), 1), *(deadline for deadline, _ in self._limits.values())),
            default=None,
        )

    def _expire(self, transaction: LocalTransaction, why: str) -> None:
        self.remove(transaction)
        transaction.expire(why)


class CoordinatorLink:
    """The link on which a peer declares and discharges (§4.2, §4.3); what is open when it ends is rolled back.

    Args:
        may_reject: the peer takes the outcome rejected; else the link is what ends.
    """

    def __init__(self, peer: Peer, link: ReceiverLink, *, may_reject: bool) -> None:
        self._peer = peer
        self._link = link
        self._may_reject = may_reject
        self._terminated = False
        self._open: dict[bytes, LocalTransaction] = {}

    def begin(self, remote: LinkTerms) -> None:
        """Attach the link, as the peer asks."""
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

    def take(self) -> None:
        """Do what was asked for. The peer calls this when it has seen all other work of the pass.

        What an answer brings is for the next pass: work that was held up by the question comes before that.
        """
        link = self._link
        for delivery in [link.incoming.popleft() for _ in range(len(link.incoming))]:
            if self._terminated:
                break
            if delivery.local_settled:
                self.terminate("amqp:not-allowed", "a declare or discharge was sent settled: who asks has to listen")
            else:
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
        transaction = LocalTransaction(self, self._peer.open_transactions.quarantine)
        self._open[transaction.id] = self._peer.transactions[transaction.id] = transaction
        self._peer.open_transactions.add(transaction)
        return Declared(transaction.id)

    def _discharge(self, asked: Discharge) -> DeliveryState:
        transaction = self._open.pop(asked.txn_id, None)
        if transaction is None:
            return _rejected("amqp:transaction:unknown-id", "no such transaction is open on this link")
        self._forget(transaction)
        if self._peer.posts_in_part(asked.txn_id):
            # "It is an error for the controller to attempt to discharge" it then (§4.4.1).
            transaction.roll_back()
            self.terminate("amqp:transaction:rollback", "a message of the transaction is not whole")
            return _rejected("amqp:transaction:rollback", "a message of the transaction is not whole")
        if asked.fail:
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
        # The outcomes of what was sent in a transaction are to be known before that of its discharge (§4.4.1).
        self._peer.engine.flush()
        self._link.settle(delivery, state)

    def let_go(self, transaction: LocalTransaction) -> None:
        """It ends by other hands."""
        del self._open[transaction.id]
        self._forget(transaction)

    # The end of the link

    def terminate(self, condition: str, description: str) -> None:
        """The peer broke a rule whose price is the control link, and all that is open on it (§4.4.1, §4.4.2)."""
        self._terminated = True
        self._roll_back()
        if self._link.attached:
            self._link.detach(closed=True, error=Error(Symbol(condition), description))
            self._peer.wake()

    def end(self) -> None:
        """The link is over; what was said on it before still counts."""
        self.take()
        self._roll_back()

    def _roll_back(self) -> None:
        while self._open:
            _, transaction = self._open.popitem()
            self._forget(transaction)
            transaction.roll_back()

    def _forget(self, transaction: LocalTransaction) -> None:
        del self._peer.transactions[transaction.id]
        self._peer.open_transactions.remove(transaction)


def _rejected(condition: str, description: str) -> Rejected:
    return Rejected(Error(Symbol(condition), description))
