"""Sessions whose transport is lost, kept until their clients are back, in dialects that resume sessions.

Of such a session nothing ends with its connection: its links stay, what was sent on them stays out for settlement, and
the peer's view of it all waits. It goes on with the next connection of the same user that names the session, and ends
when its time is up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..engine import Engine, Session, SessionKeeper

if TYPE_CHECKING:
    from ._connection import Peer
    from ._entry import Clock

LONGEST = 300
"""Seconds that a session is kept at most."""
MOST = 1000
"""Sessions of one user that are kept; of more, the one that has waited longest ends."""

Key = tuple[str | None, bytes]


@dataclass(slots=True, eq=False)
class KeptSession:
    """A session that can be resumed.

    Attributes:
        peer: who has its links.
        timeout: seconds that it is kept; 0: it ends with its transport.
        deadline: when it ends, on the broker's clock; None while it has a transport.
    """

    session: Session
    peer: Peer
    timeout: int
    deadline: float | None = None


class KeptSessions:
    """All of one broker.

    Args:
        clock: the broker's.
        alarm: told of each deadline, for whoever calls `expire` in time.
    """

    def __init__(self, clock: Clock, alarm: Callable[[float], None]) -> None:
        self._clock = clock
        self._alarm = alarm
        self._kept: dict[Key, KeptSession] = {}

    def keep(self, peer: Peer, session: Session, name: bytes, timeout: int) -> None:
        """It is to be kept that long when its transport is lost; 0: not at all, but its name is its own till then."""
        key = peer.engine.identity, name
        self._make_room(key)
        self._kept[key] = KeptSession(session, peer, timeout)

    def _make_room(self, new: Key) -> None:
        waiting = [key for key, kept in self._kept.items() if key[0] == new[0] and kept.deadline is not None]
        if len(waiting) >= MOST and new not in self._kept:
            kept = self._kept.pop(waiting[0])
            kept.peer.session_expired(kept.session)

    def take(self, engine: Engine, name: bytes) -> Session | None:
        """The session that is resumed on another connection; see `SessionKeeper.take`."""
        kept = self._kept.get((engine.identity, name))
        if kept is None or (not kept.session.suspended and not kept.session.begun):
            return None
        if not kept.session.suspended:
            kept.peer.robbed(kept.session, keep=kept.timeout > 0)
        if not kept.timeout:
            return None
        kept.deadline = None
        return kept.session

    def attached(self, engine: Engine, name: bytes) -> bool:
        """Whether it is at work on a connection."""
        kept = self._kept.get((engine.identity, name))
        return kept is not None and kept.session.begun and not kept.session.suspended

    def peer_of(self, session: Session) -> Peer | None:
        """Who has the links of a session."""
        return next((kept.peer for kept in self._kept.values() if kept.session is session), None)

    def moved(self, session: Session, peer: Peer) -> None:
        """Another has them."""
        for kept in self._kept.values():
            if kept.session is session:
                kept.peer = peer

    def connection_lost(self, peer: Peer) -> bool:
        """The time of a peer's sessions runs; return whether there are any."""
        waiting = [kept for kept in self._kept.values() if kept.peer is peer and kept.session.suspended]
        for kept in waiting:
            if kept.deadline is None:
                kept.deadline = self._clock() + kept.timeout
                self._alarm(kept.deadline)
        return bool(waiting)

    def session_ended(self, session: Session) -> None:
        """It is over."""
        for key, kept in list(self._kept.items()):
            if kept.session is session:
                del self._kept[key]

    def expire(self, now: float) -> float | None:
        """End those whose time has come; return when the next one's does."""
        for key, kept in list(self._kept.items()):
            if kept.deadline is not None and kept.deadline <= now:
                del self._kept[key]
                kept.peer.session_expired(kept.session)
        return min((kept.deadline for kept in self._kept.values() if kept.deadline is not None), default=None)


class PeerKeeper(SessionKeeper):
    """The same, as the engine of one peer sees it."""

    longest = LONGEST

    def __init__(self, sessions: KeptSessions, peer: Peer) -> None:
        self._sessions = sessions
        self._peer = peer

    def keep(self, session: Any, name: bytes, timeout: int) -> None:
        self._sessions.keep(self._peer, session, name, timeout)

    def take(self, engine: Engine, name: bytes) -> Session | None:
        return self._sessions.take(engine, name)

    def attached(self, engine: Engine, name: bytes) -> bool:
        return self._sessions.attached(engine, name)
