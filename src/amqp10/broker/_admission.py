"""Whether a virtual host takes messages: senders stop while memory is short, or while somebody blocks."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ._users.accounts import Account, MemoryUse

if TYPE_CHECKING:
    from ._limits import BrokerLimits
    from ._queues.node import Node

_MEMORY: Final = "memory"
"""The name under which this class blocks; `Broker` uses others."""


class Admission:
    """Counts the memory of all messages and of each user's, and says who must stop sending.

    Args:
        on_due: called when `regulate` has something to do.

    Attributes:
        memory: what the messages of all users take.
        blocked: the reason why no messages are taken; None: they are taken. `block` changes it.
    """

    def __init__(self, limits: BrokerLimits, on_due: Callable[[], None]) -> None:
        self.memory: MemoryUse = MemoryUse(limits.memory)
        self.blocked: str | None = None
        self._limits = limits
        self._on_due = on_due
        self._reasons: dict[str, str] = {}  # by who blocks
        self._accounts: weakref.WeakValueDictionary[str, Account] = weakref.WeakValueDictionary()  # by user
        self._accounts_due: dict[Account, None] = {}

    def account_of(self, user: str | None) -> Account | None:
        """Return the account of a user; None for a peer without a name."""
        if user is None:
            return None
        account = self._accounts.get(user)
        if account is None:
            account = self._accounts[user] = Account(user, self._limits, self._account_due)
        return account

    def _account_due(self, account: Account) -> None:
        self._accounts_due[account] = None
        self._on_due()

    def count(self, node: Node) -> None:
        """Update the count of memory by what a node takes now."""
        if node.counted is not None:
            octets = node.memory
            self.memory.octets += octets - node.counted
            node.counted = octets

    def count_no_more(self, node: Node) -> None:
        """Stop counting a node, because it is gone."""
        self.memory.octets -= node.counted or 0
        node.counted = None
        node.charge_no_more()

    def count_waiting(self, octets: int) -> None:
        """Count `octets` more of messages that wait for credit; a negative number counts less."""
        self.memory.waiting_octets += octets
        if self.memory.crowding_due:
            self._on_due()

    def watch(self) -> None:
        """Ask for a call of `regulate` if memory requires it."""
        if self.memory.due:
            self._on_due()

    def regulate(self) -> list[str]:
        """Stop senders that use too much memory, or let them go on; return the texts to log.

        In the same way it limits what may wait for credit, or no longer does (`MemoryUse.crowded`).
        """
        texts, limit = [], self._limits.memory
        reason = f"messages take {limit} octets of memory or more"
        if self.memory.turn() and self.block(_MEMORY, reason if self.memory.stopped else None):
            texts.append(f"senders are stopped: {self.blocked}" if self.blocked is not None else "senders go on")
        if self.memory.turn_crowded():
            texts.append(_waiting_text(self.memory, ""))
        due, self._accounts_due = self._accounts_due, {}
        for account in due:
            whose = f"of user {account.user!r:.80}"
            if account.regulate():
                text = f"senders {whose}"
                texts.append(f"{text} are stopped: {account.blocked}" if account.blocked else f"{text} go on")
            if account.memory.turn_crowded():
                texts.append(_waiting_text(account.memory, f" {whose}"))
        return texts

    def block(self, whose: str, reason: str | None) -> bool:
        """Block or unblock for `whose`; return whether the reason told to peers has changed.

        Messages are taken again when nobody blocks.

        Args:
            whose: names the caller; only the same name ends its block.
            reason: why no messages are taken; None unblocks.
        """
        before = self.blocked
        self._reasons.pop(whose, None)
        if reason is not None:
            self._reasons[whose] = reason
        self.blocked = next(iter(self._reasons.values()), None)
        return self.blocked != before


def _waiting_text(memory: MemoryUse, whose: str) -> str:
    if memory.crowded:
        return (
            f"messages{whose} that wait for credit take {memory.waiting_octets} octets of memory: "
            f"each connection{whose} is read until 1 MiB of them waits"
        )
    return f"messages{whose} that wait for credit take less memory: connections{whose} are read further ahead again"
