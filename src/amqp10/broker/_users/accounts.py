"""What users take of a virtual host, counted against the limits on it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from .._limits import check_count

if TYPE_CHECKING:
    from .._limits import BrokerLimits

_RESUME_AT: Final = 0.8
"""The part of a limit in use at which stopped senders may go on."""
_REFUSE_AT: Final = 1.25
"""The part of a limit in use at which even messages in flight are refused."""
_CROWDED_AT: Final = 0.25
"""The part of a limit that messages may take, in addition, while they wait for credit; beyond it few may wait."""


class MemoryUse:
    """The memory that messages take, against a limit at which their senders are to be stopped.

    Args:
        limit: octets; None: no limit.

    Attributes:
        octets: of all messages, approximately.
        partial_octets: those of messages that have arrived only in part.
        waiting_octets: those of messages that wait for credit, in dialects whose senders know no credit.
        stopped: whether senders are stopped.
        crowded: whether each connection may add only little, because much waits for credit.
    """

    def __init__(self, limit: int | None) -> None:
        self.octets: int = 0
        self.partial_octets: int = 0
        self.waiting_octets: int = 0
        self.stopped: bool = False
        self.crowded: bool = False
        self._stop_at = math.inf if limit is None else limit
        self._resume_at = self._stop_at * _RESUME_AT
        self._refuse_at = self._stop_at * _REFUSE_AT
        self._crowded_at = self._stop_at * _CROWDED_AT

    @property
    def refuses(self) -> bool:
        """Whether even messages in flight are refused, because messages take too much memory."""
        return self.octets > self._refuse_at

    @property
    def all_octets(self) -> int:
        """Of all messages, also of those that have arrived only in part and of those that wait for credit."""
        return self.octets + self.partial_octets + self.waiting_octets

    @property
    def full(self) -> bool:
        """Whether messages that have arrived only in part take too much memory, together with others."""
        return max(self.octets, self.waiting_octets) + self.partial_octets > self._refuse_at

    @property
    def due(self) -> bool:
        """Whether senders are to be stopped, or to go on."""
        return self.octets <= self._resume_at if self.stopped else self.octets >= self._stop_at

    @property
    def crowding_due(self) -> bool:
        """Whether `crowded` is to change."""
        if self.crowded:
            return self.waiting_octets <= self._crowded_at * _RESUME_AT
        return self.waiting_octets > self._crowded_at

    def turn(self) -> bool:
        """Change `stopped` if that is due; return whether it changed."""
        if not self.due:
            return False
        self.stopped = not self.stopped
        return True

    def turn_crowded(self) -> bool:
        """Change `crowded` if that is due; return whether it changed."""
        if not self.crowding_due:
            return False
        self.crowded = not self.crowded
        return True


class Account:
    """What one user uses in one virtual host through all connections, and the limits on it.

    Args:
        on_due: called when the user's senders are to be stopped or to go on.

    Attributes:
        nodes: the queues, topics and subscriptions that the user created and that still exist.
        most_nodes: how many of them there may be.
        look_for_unused: the virtual host's time from which to look again for unused ones.
        exchanges, bindings: how many the user made that still exist.
        arguments: octets of the arguments of what the user declared and still exists.
        declared: octets that the sessions and links of the user's connections declare.
        memory: what the messages sent by the user take.
        blocked: the reason why the user's senders are stopped; None: they are not.
        reason: that reason, whether they are stopped or not.
    """

    def __init__(self, user: str, limits: BrokerLimits, on_due: Callable[[Account], None]) -> None:
        self.user = user
        self.nodes: set[object] = set()
        self.look_for_unused: float = -math.inf
        self.exchanges = self.bindings = self.arguments = self.declared = 0
        self.blocked: str | None = None
        self.most_nodes: int = _or_half(limits.nodes_by_user, limits.nodes)
        self._most_exchanges = _or_half(limits.exchanges_by_user, limits.exchanges)
        self._most_bindings = _or_half(limits.bindings_by_user, limits.bindings)
        self._most_arguments = _or_half(limits.arguments_by_user, limits.all_arguments)
        of_user = limits.link_octets_by_user
        self._max_declared = of_user if of_user is not None else 4 * limits.link_octets
        most = limits.memory_by_user
        if most is None and limits.memory is not None:
            most = _or_half(None, limits.memory)
        self.memory: MemoryUse = MemoryUse(most)
        self._on_due = on_due
        self.reason: str = f"messages of {self._whose} take {most} octets of memory or more"

    def check_nodes(self) -> None:
        """Check that the user may create one more node.

        Raises:
            Refused: the user has reached the limit.
        """
        check_count(f"queues, topics and subscriptions of {self._whose}", len(self.nodes), self.most_nodes)

    def check_exchanges(self) -> None:
        """Check that the user may declare one more exchange; see `check_nodes`."""
        check_count(f"exchanges of {self._whose}", self.exchanges, self._most_exchanges)

    def check_bindings(self) -> None:
        """Check that the user may make one more binding; see `check_nodes`."""
        check_count(f"bindings of {self._whose}", self.bindings, self._most_bindings)

    def check_arguments(self, octets: int) -> None:
        """Check that `octets` more of arguments may be kept; see `check_nodes`."""
        check_count(f"octets of all arguments of {self._whose}", self.arguments + octets - 1, self._most_arguments)

    def check_declared(self, octets: int) -> None:
        """Check that sessions and links may declare `octets` more; see `check_nodes`."""
        check_count(
            f"octets of what sessions and links of {self._whose} say", self.declared + octets - 1, self._max_declared
        )

    @property
    def _whose(self) -> str:
        return f"user {self.user!r:.80}"

    def charge(self, octets: int) -> None:
        """Count `octets` more of memory for messages of the user; a negative number counts less."""
        memory = self.memory
        memory.octets += octets
        if memory.due:
            self._on_due(self)

    def count_waiting(self, octets: int) -> None:
        """Count `octets` more of messages of the user that wait for credit; a negative number counts less."""
        self.memory.waiting_octets += octets
        if self.memory.crowding_due:
            self._on_due(self)

    def regulate(self) -> bool:
        """Stop the user's senders or let them go on, if either is due; return whether that changed."""
        changed = self.memory.turn()
        self.blocked = self.reason if self.memory.stopped else None
        return changed


class Maker:
    """A connection that creates nodes.

    Attributes:
        nodes: those that it created and that still exist.
        account: its user's account; None: it has no user.
    """

    def __init__(self) -> None:
        self.nodes: set[object] = set()
        self.account: Account | None = None


def _or_half(limit: int | None, of: int) -> int:
    return limit if limit is not None else max(1, of // 2)
