"""What the peer has still to answer after a loss: nobody else waits for that, and nothing goes on without."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from ._connection import Connection
    from ._link import Link
    from ._session import Session


class Asked:
    """A begin or an attach that is out; of nobody's interest any more as soon as its owner, or the connection, is lost.

    Attributes:
        deadline: when the answer should be here, on the clock of the event loop.
    """

    def __init__(self, owner: Session | Link, timeout: float) -> None:
        self.owner = owner
        self.deadline = anyio.current_time() + timeout
        self._now = self._generations()

    def _generations(self) -> tuple[int, int]:
        return self.owner._generation, self.owner.connection._generation

    def unanswered(self) -> bool:
        """Whether it is waited for still."""
        return self.owner._asking and not self.owner._over and self._generations() == self._now


class Answers:
    """Waits for those of one connection. When one does not come in time, another connection is tried."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        self._connection = connection
        self._timeout = timeout
        self._asked: deque[Asked] = deque()  # in the order in which their time is up

    def expect(self, owner: Session | Link) -> None:
        """It has just asked."""
        self._asked.append(Asked(owner, self._timeout))
        if len(self._asked) == 1:
            self._connection._start(self._wait)

    async def _wait(self) -> None:
        try:
            while self._asked:
                asked = self._asked[0]
                with anyio.CancelScope(deadline=asked.deadline):
                    await asked.owner._until(lambda asked=asked: not asked.unanswered())  # type: ignore[misc]
                if asked.unanswered():
                    self._connection._lifeline.drop()
                self._asked.popleft()
        finally:
            self._asked.clear()
