"""Groups of messages that are received together, and their receivers: sessions, or all messages of an entity."""

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
    """A receiver of an entity.

    Attributes:
        locks: whether messages stay in the entity, locked for it; otherwise they are removed when it gets them.
    """

    locks: bool

    @abstractmethod
    def deliver(self, token: UUID | None, payload: bytes) -> bool:
        """Take a message, locked by a token or for good, when `ready()`; return False and end if it is too large."""


class SessionReceiver(Receiver):
    """A receiver of one session, as long as it has the session locked."""

    @abstractmethod
    def accepted(self, session_id: str, until: float) -> None:
        """Begin, because the session is locked for it until `until`."""

    @abstractmethod
    def refused(self, error: Error) -> None:
        """End, because there was no session for it in time."""

    @abstractmethod
    def lock_lost(self, error: Error) -> None:
        """End, because the lock of the session is lost."""


@dataclass(eq=False, slots=True)
class Group:
    """The messages of a session, or, without an id, of an entity without sessions.

    Attributes:
        ready: a heap of sequence numbers, including some of messages that are gone.
        line: ready receivers in the order of their turns.
        count: messages in any state.
        holder: the receiver that has the session locked, or None.
        until: when that lock ends, in seconds since 1970.
        state: the state that receivers keep with it, or None.
        updated: when the state was last set; None: never.
        offered: the sequence number with which a free session is offered (`Sessions.offer`); 0: it is not.
    """

    id: str | None = None
    ready: list[int] = field(default_factory=list)
    line: deque[Receiver] = field(default_factory=deque)
    count: int = 0
    holder: SessionReceiver | None = None
    until: float = 0.0
    state: bytes | None = None
    updated: float | None = None
    offered: int = 0

    @property
    def blank(self) -> bool:
        """Whether dropping it would lose nothing."""
        return not self.count and self.holder is None and self.state is None
