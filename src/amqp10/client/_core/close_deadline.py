"""How long leaving may take: exits that follow one another at once, as those of nested blocks do, share a deadline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from typing import NamedTuple, Protocol

import anyio

# Seconds: an exit that begins so soon after another one of the same task belongs to it.
AT_ONCE = 0.1
# Of the time that there is, what links and sessions leave for the connection's own end.
END_SHARE = 0.1


class CloseDeadline(NamedTuple):
    """One exit, or several that followed one another at once.

    Attributes:
        over: when the last one was over.
        links_by, by: when links and sessions have to be left, and when the connection has.
    """

    over: float
    links_by: float
    by: float


NONE = CloseDeadline(-inf, -inf, -inf)

# Of each task: the last exit of each connection, as far as another one may belong to it.
_last: ContextVar[tuple[tuple[CloseDeadlines, CloseDeadline], ...]] = ContextVar("amqp10_last_exits", default=())


class CloseDeadlines:
    """The deadlines of one connection's exits."""

    def __init__(self) -> None:
        self._last = NONE  # of any task

    def interrupted(self) -> None:
        """Begin anew: what is closed from now on is closed for a reason of its own, or has another time for it."""
        self._last = NONE
        _last.set(tuple(each for each in _last.get() if each[0] is not self))

    def _mine(self) -> CloseDeadline:
        """Return this connection's last exit in this task."""
        return next((last for leaving, last in _last.get() if leaving is self), NONE)

    def _note(self, this: CloseDeadline) -> None:
        """Record this connection's last exit in this task, and forget those of others that are long over."""
        others = ((leaving, last) for leaving, last in _last.get() if leaving is not self)
        now = anyio.current_time()
        _last.set(tuple((leaving, last) for leaving, last in (*others, (self, this)) if now <= last.over + AT_ONCE))

    @contextmanager
    def exit(self, timeout: float, *, outermost: bool = False) -> Iterator[CloseDeadline]:
        """Take the block as one exit, which may belong to the one before.

        Args:
            timeout: seconds that it has, together with those right before it.
            outermost: it follows the exits of all tasks, not only its own's.
        """
        now = anyio.current_time()
        last = max(self._mine(), self._last) if outermost else self._mine()
        if not last.over <= now <= last.over + AT_ONCE:
            last = CloseDeadline(now, now + timeout * (1 - END_SHARE), now + timeout)
        try:
            yield last
        finally:
            self._last = last._replace(over=anyio.current_time())
            self._note(self._last)


def shielded_until(deadline: float, share: float = 1.0) -> anyio.CancelScope:
    """Return a shield until the deadline, or for a share of the time that is left."""
    now = anyio.current_time()
    return anyio.CancelScope(shield=True, deadline=now + max(0.0, deadline - now) * share)


class Leavable(Protocol):
    """A link that can be left."""

    def outlives_link(self) -> bool:
        """Return whether the terminus at the peer is meant to outlive the link."""

    async def leave(self, closed: bool, deadline: float) -> None:
        """Finish, detach and wait for the answer, until the deadline at most."""


async def leave_all(links: Iterable[Leavable], deadline: float) -> None:
    """Leave links that whoever opened them has not left, all at once.

    Cancelling: is not noticed; it takes until the deadline at most.
    """
    with anyio.CancelScope(shield=True):
        async with anyio.create_task_group() as tasks:
            for link in links:
                tasks.start_soon(link.leave, not link.outlives_link(), deadline)
