"""Branches of distributed transactions that are prepared: no connection's any more, they wait for their second phase.

A branch is known to the user who had it prepared, by whatever connection of his.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..engine import BranchId
    from ._coordinator import LocalTransaction

MOST = 1000
"""Branches of one user that may wait."""

User = str | None


class PreparedBranches:
    """Those of one broker."""

    def __init__(self) -> None:
        self._users: dict[User, dict[BranchId, LocalTransaction]] = {}

    def prepare(self, user: User, branch: BranchId, transaction: LocalTransaction) -> bool:
        """Keep a transaction that can be committed; else it is rolled back, and the answer False."""
        branches = self._users.setdefault(user, {})
        good = transaction.obstacle is None and branch not in branches and len(branches) < MOST
        transaction.coordinator.let_go(transaction)
        if good:
            branches[branch] = transaction
        else:
            transaction.roll_back()
        return good

    def complete(self, user: User, branch: BranchId, *, commit: bool) -> bool | None:
        """Second phase: whether it ended as it was to; None if there is no such branch."""
        transaction = self._users.get(user, {}).pop(branch, None)
        if transaction is None:
            return None
        if commit:
            return transaction.commit() is None
        transaction.roll_back()
        return True

    def of(self, user: User) -> tuple[BranchId, ...]:
        """Those of one user, the oldest first."""
        return tuple(self._users.get(user, {}))
