"""Prepared branches of distributed transactions: they belong to no connection, and wait for their second phase.

A branch belongs to the user who had it prepared, on any connection. With a store, the branch and its durable work are
on the disk before the user is told that it is prepared; its end is committed together with its effects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ...messaging import Error
from .._queues.node import QueueConsumer
from .local import attempt_each, take_all

if TYPE_CHECKING:
    from ...engine import BranchId
    from .._quarantine import Quarantine
    from .._queues.message import QueuedMessage
    from .local import LocalTransaction, Work

MAX_BRANCHES = 1000
"""The most branches of one user that may wait."""

User = str | None


class DetachedConsumer(QueueConsumer):
    """Holds the messages that a restored branch is to settle, whose consumer is gone."""

    key = 0
    copies = settles = False

    def ready(self) -> bool:
        return False

    def deliver(self, entry: QueuedMessage, payload: bytes) -> bool:
        return False

    def fed(self) -> None:
        """Do nothing, because it is never sent a message."""

    def nothing_left(self) -> None:
        """Do nothing, because it never asks for messages."""

    def node_deleted(self, error: Error) -> None:
        """Do nothing, because the branch checks this at its end."""


class RestoredBranch:
    """A branch that was prepared before the broker restarted.

    Args:
        whole: whether all its nodes still exist.
    """

    def __init__(self, work: Work, quarantine: Quarantine, *, whole: bool) -> None:
        self._work = work
        self._quarantine = quarantine
        self._whole = whole
        for node, entries in work.posted.items():
            for entry in entries:
                node.reserve(entry, restored=True)

    def commit(self) -> Error | None:
        """See `LocalTransaction.commit`."""
        if not self._whole or any(node.deleted for node in self._work.posted):
            self.roll_back()
            return Error("amqp:transaction:rollback", "one of its queues no longer exists")
        take_all(self._work.posted, self._quarantine)
        holder = DetachedConsumer()
        attempt_each((queue.settle, entry, holder, outcome) for queue, entry, outcome in self._work.retired)
        return None

    def roll_back(self) -> None:
        """See `LocalTransaction.roll_back`; the consumers of the messages are gone."""
        for node, entries in self._work.posted.items():
            node.unreserve_run(entries)
        attempt_each((queue.lost, entry) for queue, entry, _ in self._work.retired)


class BranchJournal(Protocol):
    """Records prepared branches."""

    def add_branch(self, user: str | None, branch: BranchId, work: Work) -> int:
        """Keep a prepared branch, with what its commit does; return its number."""

    def end_branch(self, number: int) -> None:
        """Record the end of a branch, in one commit with its effects."""


class PreparedBranches:
    """The prepared branches of one virtual host, and the names of those that are open.

    Attributes:
        store: keeps them; None: they are only in memory.
    """

    store: BranchJournal | None = None

    def __init__(self) -> None:
        self._users: dict[User, dict[BranchId, LocalTransaction | RestoredBranch]] = {}
        self._numbers: dict[LocalTransaction | RestoredBranch, int] = {}  # in the store
        self._open: dict[tuple[User, BranchId], LocalTransaction] = {}
        self._names: dict[LocalTransaction, tuple[User, BranchId]] = {}  # of those in `_open`

    def begin(self, user: User, branch: BranchId, transaction: LocalTransaction) -> bool:
        """Make a transaction an open branch; return False if the user has a branch of that name, open or prepared."""
        name = user, branch
        if name in self._open or branch in self._users.get(user, {}):
            return False
        self._open[name], self._names[transaction] = transaction, name
        return True

    def end(self, transaction: LocalTransaction) -> None:
        """Forget the name of a branch that is no longer open; do nothing for any other transaction."""
        name = self._names.pop(transaction, None)
        if name is not None:
            del self._open[name]

    def prepare(self, user: User, branch: BranchId, transaction: LocalTransaction) -> bool:
        """Keep a transaction and return True if it can be committed; otherwise roll it back and return False."""
        branches = self._users.setdefault(user, {})
        good = transaction.obstacle is None and branch not in branches and len(branches) < MAX_BRANCHES
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
        """Commit or roll back a branch; return whether that succeeded, or None if there is no such branch."""
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
        """Return the branches of one user, oldest first."""
        return tuple(self._users.get(user, {}))
