"""Locks: which messages receivers have, by the tokens to settle or renew them with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID

    from .._messages import EntityMessage
    from .groups import Group


@dataclass(eq=False, slots=True)
class Lock:
    """The lock of a message that a receiver has.

    Attributes:
        group: the group of the message.
        own_until: when the lock ends if the entity has no sessions; `until` says when it ends in any case.
        transaction: the transaction in which the message has an outcome, or None.
        committing: whether the message is being settled together with others: then the lock holds until that is done.
    """

    token: UUID
    message: EntityMessage
    group: Group
    own_until: float
    transaction: object = None
    committing: bool = False

    @property
    def until(self) -> float:
        """When the lock ends, in seconds since 1970; that of a message in a session ends with the session's."""
        if self.committing:
            return math.inf
        return self.own_until if self.group.id is None else self.group.until


class Locks:
    """The locks of an entity. It knows no time: the entity ends expired locks."""

    def __init__(self) -> None:
        self._by_token: dict[UUID, Lock] = {}
        self._by_sequence: dict[int, Lock] = {}
        self._by_session: dict[Group, dict[Lock, None]] = {}

    def add(self, lock: Lock) -> None:
        """Add a lock for a message that has none."""
        self._by_token[lock.token] = self._by_sequence[lock.message.sequence] = lock
        if lock.group.id is not None:
            self._by_session.setdefault(lock.group, {})[lock] = None

    def remove(self, lock: Lock) -> None:
        """Remove a lock."""
        del self._by_token[lock.token]
        del self._by_sequence[lock.message.sequence]
        if lock.group.id is not None:
            others = self._by_session[lock.group]
            del others[lock]
            if not others:
                del self._by_session[lock.group]

    def clear(self) -> None:
        """Remove all locks."""
        self._by_token.clear()
        self._by_sequence.clear()
        self._by_session.clear()

    def by_token(self, token: UUID) -> Lock | None:
        """Return the lock with a token, or None."""
        return self._by_token.get(token)

    def of_message(self, sequence: int) -> Lock | None:
        """Return the lock of the message with a sequence number; None: it is not locked."""
        return self._by_sequence.get(sequence)

    def of_session(self, session: Group) -> list[Lock]:
        """Return the locks of a session's messages, in the order in which they were taken."""
        return list(self._by_session.get(session, ()))

    def without_session(self) -> list[Lock]:
        """Return the locks of messages outside sessions, in the order in which they were taken."""
        return [lock for lock in self._by_token.values() if lock.group.id is None]

    def is_locked(self, sequence: int) -> bool:
        """Return whether the message with a sequence number is locked."""
        return sequence in self._by_sequence
