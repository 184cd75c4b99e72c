"""Messages that belong together, and the links that take them: sessions, or all that an entity has."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..._queues.node import Taker

if TYPE_CHECKING:
    from uuid import UUID

    from ....messaging import Error


class Receiver(Taker):
    """Something that takes messages of an entity.

    Attributes:
        locks: what it is given stays, locked; else it is gone from the entity with that.
    """

    locks: bool

    @abstractmethod
    def deliver(self, token: UUID | None, payload: bytes) -> bool:
        """Take a message, locked by that token; called only when `ready()`.

        False: it is too large for it, and it has ended with that.
        """


class SessionReceiver(Receiver):
    """Something that takes the messages of one session, as long as it has that locked."""

    @abstractmethod
    def accepted(self, session_id: str, until: float) -> None:
        """Begin: it has this session locked, until then."""

    @abstractmethod
    def refused(self, error: Error) -> None:
        """End: there was no session for it in time."""

    @abstractmethod
    def lock_lost(self, error: Error) -> None:
        """End: the session is not its own any more."""


@dataclass(eq=False, slots=True)
class Group:
    """The messages of a session; or, without an id, all those of an entity that has no sessions.

    Attributes:
        ready: a heap of sequence numbers; those that are not there any more among them.
        line: receivers that are ready for more, in order of their turns.
        count: messages in any state.
        holder: has the session locked.
        until: when that lock ends, seconds since 1970.
        state: what its receivers keep with it; None for nothing.
        updated: when the state was set last; None: never.
    """

    id: str | None = None
    ready: list[int] = field(default_factory=list)
    line: deque[Receiver] = field(default_factory=deque)
    count: int = 0
    holder: SessionReceiver | None = None
    until: float = 0.0
    state: bytes | None = None
    updated: float | None = None

    @property
    def blank(self) -> bool:
        """Whether nothing would be lost with it."""
        return not self.count and self.holder is None and self.state is None
