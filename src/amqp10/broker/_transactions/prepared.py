"""Branches of distributed transactions that are prepared: no connection's any more, they wait for their second phase.

A branch is known to the user who had it prepared, by whatever connection of his. With a store it is on the disk before
he is told that it is prepared, with all that is durable of it; its end is written with what it changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from ...messaging import Error
from ...types import Symbol
from .._queues.node import Consumer
from .local import attempt_each, take_all

if TYPE_CHECKING:
    from ...engine import BranchId
    from .._quarantine import Quarantine
    from .._queues.message import QueuedMessage
    from .local import LocalTransaction, Work

MOST = 1000
"""Branches of one user that may wait."""

User = str | None


class DetachedConsumer(Consumer):
    """Holds the messages that a branch is to settle, if their consumer is gone since a restart."""

    key = 0
    copies = settles = False

    def ready(self) -> bool:
        return False

    def deliver(self, entry: QueuedMessage, payload: bytes) -> bool:
        return False

    def fed(self) -> None:
        """Do nothing: it is never given a message."""

    def exhausted(self) -> None:
        """Do nothing: it never asks for messages."""

    def node_deleted(self, error: Error) -> None:
        """Do nothing: the branch finds out at its end."""


class RestoredBranch:
    """One that a broker before has prepared.

    Args:
        whole: all nodes of it are still there.
    """

    def __init__(self, work: Work, quarantine: Quarantine, *, whole: bool) -> None:
        self._work = work
        self._quarantine = quarantine
        self._whole = whole
        for node, entry in work.posted:
            node.reserve(entry, restored=True)

    def commit(self) -> Error | None:
        """See `LocalTransaction.commit`."""
        if not self._whole or any(node.deleted for node, _ in self._work.posted):
            self.roll_back()
            return Error(Symbol("amqp:transaction:rollback"), "one of its queues no longer exists")
        take_all(self._work.posted, self._quarantine)
        holder = DetachedConsumer()
        attempt_each((queue.settle, entry, holder, outcome) for queue, entry, outcome in self._work.retired)
        return None

    def roll_back(self) -> None:
        """See `LocalTransaction.roll_back`; who held the messages is gone."""
        for node, entry in self._work.posted:
            node.unreserve(entry)
        attempt_each((queue.lost, entry) for queue, entry, _ in self._work.retired)


class BranchJournal(ABC):
    """Records which branches are prepared."""

    @abstractmethod
    def add_branch(self, user: str | None, branch: BranchId, work: Work) -> int:
        """Keep a prepared branch, with what its commit does, from now on; return its number."""

    @abstractmethod
    def end_branch(self, number: int) -> None:
        """Record that a branch is committed or rolled back, in one commit with what that changes."""


class PreparedBranches:
    """Those of one broker.

    Attributes:
        store: where they are kept; None for in memory.
    """

    store: BranchJournal | None = None

    def __init__(self) -> None:
        self._users: dict[User, dict[BranchId, LocalTransaction | RestoredBranch]] = {}
        self._numbers: dict[LocalTransaction | RestoredBranch, int] = {}  # in the store

    def prepare(self, user: User, branch: BranchId, transaction: LocalTransaction) -> bool:
        """Keep a transaction that can be committed; else it is rolled back, and the answer False."""
        branches = self._users.setdefault(user, {})
        good = transaction.obstacle is None and branch not in branches and len(branches) < MOST
        transaction.coordinator.let_go(transaction)
        if not good:
            transaction.roll_back()
            return False
        branches[branch] = transaction
        if self.store is not None:
            self._numbers[transaction] = self.store.add_branch(user, branch, transaction.work)
        return True

    def restore(self, user: User, branch: BranchId, number: int, restored: RestoredBranch) -> None:
        """Add a branch from the store."""
        self._users.setdefault(user, {})[branch] = restored
        self._numbers[restored] = number

    def complete(self, user: User, branch: BranchId, *, commit: bool) -> bool | None:
        """Second phase: whether it ended as it was to; None if there is no such branch."""
        transaction = self._users.get(user, {}).pop(branch, None)
        if transaction is None:
            return None
        number = self._numbers.pop(transaction, None)
        if self.store is not None and number is not None:
            self.store.end_branch(number)
        if commit:
            return transaction.commit() is None
        transaction.roll_back()
        return True

    def of(self, user: User) -> tuple[BranchId, ...]:
        """Return the branches of one user, the oldest first."""
        return tuple(self._users.get(user, {}))
