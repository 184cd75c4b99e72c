"""Branches that lost sessions left open at the server, which another session of ours ends.

Broker-J (10.1.0) does not roll back the branch of a session that is gone: the messages accepted in it would stay out
of everybody's reach. So another session of this connection, or of the next one, sends `dtx.rollback`. The answer also
tells what became of a commit whose answer was lost. A branch that could be rolled back was not committed. A branch
that the server does not know was committed, provided that the server was not restarted since. The witness shows that:
a branch without work that is ended last. A restarted server does not know the witness, and then the outcome of the
commit stays unknown.

If the client never comes back, the server ends the branches after their timeout (`dtx.set-timeout`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from ....engine import SessionTerms
from ....errors import AmqpError, LocalProtocolError
from ....messaging import ACCEPTED, Error, Rejected
from ..wire.commands import DtxRollback, DtxSelect
from .session import ClientSession

if TYPE_CHECKING:
    from ....engine import Event
    from ..wire.commands import Xid
    from .branches import Branch
    from .command_sequence import Commands
    from .parents import ClientSessionEngine

NOT_COMMITTED: Final = Rejected(
    Error("amqp:transaction:rollback", "its session was lost, and it was rolled back on another one")
)


class _SessionRemains:
    """The branches that one session left.

    Attributes:
        branches: may still exist at the server.
        vanished: are unknown to the server, after it was asked to commit them.
        sentinel: see `Transactions`.
    """

    def __init__(self, branches: Iterable[Branch], sentinel: Xid) -> None:
        self.branches = deque(branches)
        self.vanished: list[Branch] = []
        self.sentinel = sentinel


class _CleanupSession(ClientSession):
    """The session that rolls the branches back; the owner of the engine does not hear of it."""

    def __init__(self, engine: ClientSessionEngine, channel: int, orphaned_branches: OrphanedBranches) -> None:
        super().__init__(engine, channel)
        self._orphaned_branches = orphaned_branches

    def announce(self, event: Event) -> None:
        """Drop the event: the owner of the engine does not know this session."""

    def end_links(self, error: AmqpError | None) -> None:
        super().end_links(error)
        self._orphaned_branches.cleanup_gone(self)


class OrphanedBranches:
    """All branches that lost sessions left on an engine; one session's are rolled back after the other's.

    Attributes:
        waiting: some are still to be rolled back.
    """

    def __init__(self, engine: ClientSessionEngine) -> None:
        self._engine = engine
        self._remains: deque[_SessionRemains] = deque()
        self._cleanup: _CleanupSession | None = None
        self._learned_outcome = False  # the executor learned what became of a branch or of the witness
        self._done: Callable[[], None] | None = None

    @property
    def waiting(self) -> bool:
        return bool(self._remains)

    def inherit(self, before: OrphanedBranches) -> None:
        """Take over the branches that `before`, of the previous connection, has not rolled back."""
        self._remains, before._remains = before._remains, deque()

    def left(self, branches: Iterable[Branch], sentinel: Xid) -> None:
        """Add the branches of a session that is gone, and begin to roll them back if the connection is open."""
        self._remains.append(_SessionRemains(branches, sentinel))
        if self._engine.opened and self._cleanup is None:
            self._go_on()

    def settle(self, done: Callable[[], None]) -> None:
        """Begin to roll the branches back; call `done` when no more can be done."""
        self._done = done
        self._go_on()

    def _go_on(self) -> None:
        if not self._remains:
            cleanup, self._cleanup = self._cleanup, None
            if cleanup is not None:
                cleanup.end()
            done, self._done = self._done, None
            if done is not None:
                done()
            return
        if self._cleanup is None:
            try:
                self._cleanup = self._engine.begin_as(lambda channel: _CleanupSession(self._engine, channel, self))
            except LocalProtocolError:
                return  # all channels are in use: left to the next connection
            self._cleanup.begin(SessionTerms(timeout=0))
            self._cleanup.invoke(DtxSelect())
            self._learned_outcome = False
        remains = self._remains[0]
        self._cleanup.run_commands(
            self._settle(remains), lambda _: self._settled(), lambda error: self._failed(remains, error)
        )

    def _settle(self, remains: _SessionRemains) -> Commands:
        while remains.branches:
            yield DtxRollback(remains.branches[0].xid)
            remains.branches.popleft().decided(NOT_COMMITTED)
        yield DtxRollback(remains.sentinel)
        for branch in remains.vanished:
            branch.decided(ACCEPTED)

    def _settled(self) -> None:
        self._remains.popleft()
        self._go_on()

    def _failed(self, remains: _SessionRemains, error: Error) -> None:
        """Conclude from `error` what became of the branch or witness that could not be rolled back.

        The session ends with that error.
        """
        self._learned_outcome = True
        if not remains.branches:
            self._remains.popleft()  # the witness is gone
            return
        branch = remains.branches.popleft()
        if not branch.committing:
            branch.decided(NOT_COMMITTED)
        elif error.condition == "amqp:not-found":
            remains.vanished.append(branch)

    def cleanup_gone(self, cleanup: _CleanupSession) -> None:
        """Go on with another session; give the branches up if this one learned nothing."""
        if self._cleanup is not cleanup:
            return
        self._cleanup = None
        if not self._engine.opened:
            return  # the next connection rolls back the rest
        if not self._learned_outcome:
            self._remains.clear()
        self._go_on()
