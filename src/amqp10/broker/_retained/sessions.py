"""Sessions that are kept when their transport is lost, in dialects that resume sessions.

Nothing of such a session ends with its connection: its links stay attached, and its deliveries unsettled. It continues
on the next connection of the same user that names the session, or ends when its time is up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ...engine import Engine, Session, SessionEngine, SessionKeeper
from .._deadlines import Deadlines
from .._log import attempt

if TYPE_CHECKING:
    from .._queues.message import Clock

MAX_TIMEOUT = 300
"""The most seconds that a session is kept."""
MAX_SESSIONS = 1000
"""The most sessions kept for one user; beyond that the one that has waited longest ends."""

Key = tuple[str | None, bytes]


class ResumableSessionOwner(Protocol):
    """A connection whose sessions can be resumed."""

    engine: Engine

    def session_expired(self, session: Session) -> None:
        """End the links of a session that was not resumed in time."""

    def session_taken_over(self, session: Session) -> None:
        """Detach a session that its client attaches on another connection; end it if it cannot be resumed."""


@dataclass(slots=True, eq=False)
class ResumableSession:
    """A resumable session.

    Attributes:
        peer: the connection that has its links.
        timeout: seconds that it is kept; 0: it ends with its transport.
        deadline: when it ends, on the broker's clock; None while it has a transport.
    """

    session: Session
    peer: ResumableSessionOwner
    timeout: int
    deadline: float | None = None


class ResumableSessions:
    """All resumable sessions of one virtual host.

    Args:
        clock: the broker's clock.
        alarm: called with each deadline, to have `expire` called in time.
    """

    def __init__(self, clock: Clock, alarm: Callable[[ResumableSessions, float], None]) -> None:
        self._clock = clock
        self._alarm = alarm
        self._deadlines: Deadlines[Key] = Deadlines()
        self._by_key: dict[Key, ResumableSession] = {}
        self._keys: dict[Session, Key] = {}  # of the sessions in `_by_key`
        self._of_peer: dict[ResumableSessionOwner, dict[Key, None]] = {}
        self._waiting: dict[str | None, dict[Key, None]] = {}  # by user, those without a transport, the oldest first

    def keep(self, peer: ResumableSessionOwner, session: Session, name: bytes, timeout: int) -> None:
        """Keep the session for `timeout` seconds after its transport is lost; with 0, reserve its name until then."""
        key = peer.engine.identity, name
        self._make_room(key)
        if key in self._by_key:
            self._forget(key)
        self._by_key[key] = ResumableSession(session, peer, timeout)
        self._keys[session] = key
        self._of_peer.setdefault(peer, {})[key] = None

    def _make_room(self, new: Key) -> None:
        waiting = self._waiting.get(new[0], {})
        if len(waiting) >= MAX_SESSIONS and new not in self._by_key:
            resumable = self._forget(next(iter(waiting)))
            resumable.peer.session_expired(resumable.session)

    def take(self, engine: SessionEngine, name: bytes) -> Session | None:
        """Return the session to resume on another connection; see `SessionKeeper.take`."""
        resumable = self._by_key.get((engine.identity, name))
        if resumable is None or (not resumable.session.suspended and not resumable.session.begun):
            return None
        if not resumable.session.suspended:
            resumable.peer.session_taken_over(resumable.session)
        if not resumable.timeout:
            return None
        resumable.deadline = None
        _drop(self._waiting, engine.identity, (engine.identity, name))
        return resumable.session

    def attached(self, engine: SessionEngine, name: bytes) -> bool:
        """Return whether a session of that name is in use on a connection."""
        resumable = self._by_key.get((engine.identity, name))
        return resumable is not None and resumable.session.begun and not resumable.session.suspended

    def peer_of(self, session: Session) -> ResumableSessionOwner | None:
        """Return the connection that has the links of a session."""
        key = self._keys.get(session)
        return self._by_key[key].peer if key is not None else None

    def moved(self, session: Session, peer: ResumableSessionOwner) -> None:
        """Record that another connection has the links of a session."""
        key = self._keys.get(session)
        if key is not None:
            resumable = self._by_key[key]
            _drop(self._of_peer, resumable.peer, key)
            resumable.peer = peer
            self._of_peer.setdefault(peer, {})[key] = None

    def suspended(self, peer: ResumableSessionOwner) -> bool:
        """Start the time of the sessions of a connection that have no transport; return whether there are any."""
        waiting = [key for key in self._of_peer.get(peer, ()) if self._by_key[key].session.suspended]
        for key in waiting:
            resumable = self._by_key[key]
            if resumable.deadline is None:
                resumable.deadline = self._clock() + resumable.timeout
                self._waiting.setdefault(key[0], {})[key] = None
                self._deadlines.set(key, resumable.deadline)
                self._alarm(self, resumable.deadline)
        return bool(waiting)

    def session_ended(self, session: Session) -> None:
        """Forget a session that has ended."""
        if session in self._keys:
            self._forget(self._keys[session])

    def _forget(self, key: Key) -> ResumableSession:
        resumable = self._by_key.pop(key)
        del self._keys[resumable.session]
        _drop(self._of_peer, resumable.peer, key)
        _drop(self._waiting, key[0], key)
        return resumable

    def expire(self, now: float) -> float | None:
        """End the sessions that are due at `now`; return when the next one is due, or None."""
        for key in self._deadlines.take(now):
            resumable = self._by_key.get(key)
            if resumable is not None and resumable.deadline is not None and resumable.deadline <= now:
                self._forget(key)
                attempt("the end of a session that was kept", resumable.peer.session_expired, resumable.session)
        return self._deadlines.first


def _drop(keys_by: dict[Any, dict[Key, None]], of: object, key: Key) -> None:
    """Drop one of the keys of `of`, if it is there."""
    keys = keys_by.get(of)
    if keys is not None:
        keys.pop(key, None)
        if not keys:
            del keys_by[of]


class PeerSessions(SessionKeeper):
    """The resumable sessions, as the engine of one peer sees them."""

    longest = MAX_TIMEOUT

    def __init__(self, sessions: ResumableSessions, peer: ResumableSessionOwner) -> None:
        self._sessions = sessions
        self._peer = peer

    def keep(self, session: Session, name: bytes, timeout: int) -> None:
        self._sessions.keep(self._peer, session, name, timeout)

    def take(self, engine: SessionEngine, name: bytes) -> Session | None:
        return self._sessions.take(engine, name)

    def attached(self, engine: SessionEngine, name: bytes) -> bool:
        return self._sessions.attached(engine, name)

    def detached(self) -> None:
        self._sessions.suspended(self._peer)
