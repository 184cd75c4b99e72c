"""How long leaving may take: exits that follow one another at once, as those of nested blocks do, share a deadline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import anyio

if TYPE_CHECKING:
    from ._link import Link

# Seconds: an exit that begins so soon after another one of the same task belongs to it.
AT_ONCE = 0.1
# Of the time that there is, what links and sessions leave for the connection's own end.
END_SHARE = 0.1


class Exit(NamedTuple):
    """One exit, or several that followed one another at once.

    Attributes:
        over: when the last one was over.
        links_by, by: when links and sessions have to be left, and when the connection has.
    """

    over: float
    links_by: float
    by: float


NONE = Exit(-inf, -inf, -inf)

# Of each task: the last exit of each connection, as far as another one may belong to it.
_last: ContextVar[tuple[tuple[Leaving, Exit], ...]] = ContextVar("amqp10_last_exits", default=())


class Leaving:
    """The deadlines of one connection's exits."""

    def __init__(self) -> None:
        self._last = NONE  # of any task

    def interrupted(self) -> None:
        """Something was opened: what is left from now on is left for a reason of its own."""
        self._last = NONE
        self._note(NONE)

    def _mine(self) -> Exit:
        """Return this connection's last exit in this task."""
        return next((last for leaving, last in _last.get() if leaving is self), NONE)

    def _note(self, this: Exit) -> None:
        """Record this connection's last exit in this task, and forget those of others that are long over."""
        others = ((leaving, last) for leaving, last in _last.get() if leaving is not self)
        now = anyio.current_time()
        _last.set(tuple((leaving, last) for leaving, last in (*others, (self, this)) if now <= last.over + AT_ONCE))

    @contextmanager
    def exit(self, timeout: float, *, outermost: bool = False) -> Iterator[Exit]:
        """An exit begins, and is over with the block.

        Args:
            timeout: seconds that it has, together with those right before it.
            outermost: it follows the exits of all tasks, not only its own's.
        """
        now = anyio.current_time()
        last = max(self._mine(), self._last) if outermost else self._mine()
        if not last.over <= now <= last.over + AT_ONCE:
            last = Exit(now, now + timeout * (1 - END_SHARE), now + timeout)
        try:
            yield last
        finally:
            self._last = last._replace(over=anyio.current_time())
            self._note(self._last)


def until(deadline: float, share: float = 1.0) -> anyio.CancelScope:
    """A shield until then, or for a share of the time that is left."""
    now = anyio.current_time()
    return anyio.CancelScope(shield=True, deadline=now + max(0.0, deadline - now) * share)


async def leave_all(links: Iterable[Link], deadline: float) -> None:
    """Leave links that whoever opened them has not left, all at once.

    Cancelling: is not noticed; it takes until the deadline at most.
    """
    with anyio.CancelScope(shield=True):
        async with anyio.create_task_group() as tasks:
            for link in links:
                tasks.start_soon(link._leave, not link._lasting(), deadline)
