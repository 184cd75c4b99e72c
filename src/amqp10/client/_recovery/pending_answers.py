"""What the peer has still to answer after a loss: nobody else waits for that, and nothing goes on without."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from .._core.connection import ConnectionCore, Restorable


class PendingAnswer:
    """A begin or an attach that is out; ignored as soon as its owner, or the connection, is lost.

    Attributes:
        deadline: when the answer should be here, on the clock of the event loop.
    """

    def __init__(self, owner: Restorable, timeout: float) -> None:
        self.owner = owner
        self.deadline = anyio.current_time() + timeout
        self._now = self._generations()

    def _generations(self) -> tuple[int, int]:
        return self.owner.generation, self.owner.connection.generation

    def unanswered(self) -> bool:
        """Return whether the answer is still waited for."""
        return self.owner.awaiting_peer and not self.owner.over and self._generations() == self._now


class PendingAnswers:
    """Waits for those of one connection. When one does not come in time, another connection is tried."""

    def __init__(self, connection: ConnectionCore, timeout: float) -> None:
        self._connection = connection
        self._timeout = timeout
        self._pending: deque[PendingAnswer] = deque()  # in the order in which their time is up

    def expect(self, owner: Restorable) -> None:
        """Wait for the answer to a begin or attach that was just sent."""
        self._pending.append(PendingAnswer(owner, self._timeout))
        if len(self._pending) == 1:
            self._connection.start(self._wait)

    async def _wait(self) -> None:
        try:
            while self._pending:
                first = self._pending[0]
                with anyio.CancelScope(deadline=first.deadline):
                    await first.owner.until(lambda first=first: not first.unanswered())  # type: ignore[misc]
                if first.unanswered():
                    self._connection.supervisor.drop()
                self._pending.popleft()
        finally:
            self._pending.clear()
