"""What is retained while no link is attached to it, and when that ends (§3.5.3, §3.5.6)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from .._deadlines import Deadlines
from .._log import attempt

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...engine import LinkSession
    from ...messaging import TerminusExpiryPolicy
    from .._queues.message import Clock

DetachKind = Literal["closed", "detached"]
ExpiryTrigger = Literal["detached", "session", "connection"]
# For each expiry policy: what must have ended, besides the last link, for the time to start.
EXPIRES: dict[str, tuple[ExpiryTrigger, ...]] = {
    "link-detach": ("detached", "session", "connection"),
    "session-end": ("session", "connection"),
    "connection-close": ("connection",),
    "never": (),
}


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The event after which a terminus expires, and the seconds from then on."""

    expiry_policy: TerminusExpiryPolicy = "link-detach"
    timeout: int = 0


class Attachable(Protocol):
    """Something that links attach to, and leave.

    Attributes:
        lifetime: the lifetime in the last answer to an attach.
        session, connection: those of the last link that left; None: links are attached, or the connection is over.
        deadline: when it ends, on the broker's clock; None: not known yet.
    """

    lifetime: Lifetime
    session: LinkSession | None
    connection: object
    deadline: float | None


T = TypeVar("T", bound=Attachable)


class Retained(ABC, Generic[T]):
    """All that is retained of one kind in a virtual host.

    Args:
        clock: the broker's clock.
        alarm: called with each deadline, to have `expire` called in time.
    """

    def __init__(self, clock: Clock, alarm: Callable[[Retained[Any], float], None]) -> None:
        self._clock = clock
        self._alarm = alarm
        self._deadlines: Deadlines[T] = Deadlines()
        self._unattached: dict[object, dict[T, None]] = {}  # by the session and by the connection of the last link

    @abstractmethod
    def end(self, thing: T, /) -> None:
        """End something, because its time is up."""

    def _left(self, thing: T, session: LinkSession, connection: object) -> None:
        """Note that the last link has left."""
        thing.session, thing.connection = session, connection
        for end in (session, connection):
            self._unattached.setdefault(end, {})[thing] = None

    def _stop_expiry(self, thing: T) -> None:
        """Stop the time of something, because a link is attached again, or it has ended."""
        self._forget_ends(thing)
        thing.deadline = None
        self._deadlines.set(thing, None)

    def _forget_ends(self, thing: T) -> None:
        for end in (thing.session, thing.connection):
            of_end = self._unattached.get(end, {})
            of_end.pop(thing, None)
            if not of_end:
                self._unattached.pop(end, None)
        thing.session = thing.connection = None

    def session_ended(self, session: LinkSession) -> None:
        """Start the time of what expires with a session, whose links have ended."""
        for thing in list(self._unattached.get(session, ())):
            self._begin_expiry(thing, "session")

    def connection_ended(self, connection: object) -> None:
        """Start the time of what expires with a connection, whose sessions have ended."""
        for thing in list(self._unattached.get(connection, ())):
            self._begin_expiry(thing, "connection")
            self._forget_ends(thing)

    def _begin_expiry(self, thing: T, how: ExpiryTrigger, /) -> None:
        """End something now, later or never, as its expiry policy says."""
        lifetime = thing.lifetime
        if thing.deadline is not None or how not in EXPIRES[lifetime.expiry_policy]:
            return
        if lifetime.timeout:
            self._end_at(thing, self._clock() + lifetime.timeout)
        else:
            self.end(thing)

    def _end_at(self, thing: T, deadline: float) -> None:
        thing.deadline = deadline
        self._deadlines.set(thing, deadline)
        self._alarm(self, deadline)

    def expire(self, now: float) -> float | None:
        """End what is due at `now`; return when the next thing is due, or None."""
        for thing in self._deadlines.take(now):
            attempt(f"the end of a {type(thing).__name__}", self.end, thing)
        return self._deadlines.first
