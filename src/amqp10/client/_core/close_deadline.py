"""Close deadlines: exits that follow each other immediately, such as those of nested blocks, share one deadline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from typing import NamedTuple, Protocol

import anyio

# Seconds: an exit that begins within this time after another one of the same task shares its deadline.
AT_ONCE = 0.1
# The share of the remaining time that is reserved for closing the connection itself.
END_SHARE = 0.1


class CloseDeadline(NamedTuple):
    """The deadline of one exit, or of several that followed each other immediately.

    Attributes:
        over: when the last exit ended.
        links_by, by: when links and sessions must be closed, and when the connection must be.
    """

    over: float
    links_by: float
    by: float


NONE = CloseDeadline(-inf, -inf, -inf)

# For each task: the last exit of each connection, while another exit may still share its deadline.
_last: ContextVar[tuple[tuple[CloseDeadlines, CloseDeadline], ...]] = ContextVar("amqp10_last_exits", default=())


class CloseDeadlines:
    """The deadlines of one connection's exits."""

    def __init__(self) -> None:
        self._last = NONE  # of any task

    def interrupted(self) -> None:
        """Forget the last exits: what closes from now on gets a new deadline."""
        self._last = NONE
        _last.set(tuple(each for each in _last.get() if each[0] is not self))

    def _mine(self) -> CloseDeadline:
        """Return this connection's last exit in this task."""
        return next((last for leaving, last in _last.get() if leaving is self), NONE)

    def _note(self, this: CloseDeadline) -> None:
        """Record this connection's last exit in this task, and drop exits of other connections that ended long ago."""
        others = ((leaving, last) for leaving, last in _last.get() if leaving is not self)
        now = anyio.current_time()
        _last.set(tuple((leaving, last) for leaving, last in (*others, (self, this)) if now <= last.over + AT_ONCE))

    @contextmanager
    def exit(self, timeout: float, *, outermost: bool = False) -> Iterator[CloseDeadline]:
        """Treat the block as one exit, which may share the deadline of the exit before it.

        Args:
            timeout: seconds for this exit and those that it shares the deadline with.
            outermost: the exit may share the deadline of an exit of any task, not only of its own.
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
    """Return a scope that is shielded until the deadline, or for a share of the remaining time."""
    now = anyio.current_time()
    return anyio.CancelScope(shield=True, deadline=now + max(0.0, deadline - now) * share)


class Leavable(Protocol):
    """A link that can be closed."""

    def outlives_link(self) -> bool:
        """Return whether the terminus at the peer is meant to outlive the link."""

    async def leave(self, closed: bool, deadline: float) -> None:
        """Finish, detach and wait for the answer, until the deadline at most."""


async def leave_all(links: Iterable[Leavable], deadline: float) -> None:
    """Close, at the same time, all links that were opened and not closed by the program.

    Cancelling: is not noticed; it takes until the deadline at most.
    """
    with anyio.CancelScope(shield=True):
        async with anyio.create_task_group() as tasks:
            for link in links:
                tasks.start_soon(link.leave, not link.outlives_link(), deadline)
