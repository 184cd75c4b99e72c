"""What sessions left behind at the server: branches without an end, which another session of ours ends.

Broker-J (10.1.0) does not roll back the branch of a session that is gone: what was accepted in it would stay out of
everybody's reach. So whoever is left on the connection, or comes back with the next one, says `dtx.rollback`. That also
tells what became of a commit whose answer was lost: a branch that could be rolled back was not committed. One that is
not there any more was, if the server is still the one that it was: it knows a branch without any work, the witness,
which nobody ends before. A server that was started again does not, and then nothing is known, as before.

A client that never comes back is what the timeout of branches is for (`dtx.set-timeout`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from ...engine import SessionTerms
from ...errors import AmqpError, LocalProtocolError
from ...messaging import ACCEPTED, Error, Rejected
from ._client_session import ClientSession
from ._topology import DtxRollback, DtxSelect

if TYPE_CHECKING:
    from ...engine import Event
    from ._conversation import Talk
    from ._engine import V010Engine
    from ._topology import Xid
    from ._transactions import Branch

NOT_COMMITTED: Final = Rejected(
    Error("amqp:transaction:rollback", "its session was lost, and it was rolled back on another one")
)


class _Estate:
    """What one session left.

    Attributes:
        branches: that may be there.
        vanished: those that are not there any more, though their commit was asked for.
    """

    def __init__(self, branches: Iterable[Branch], witness: Xid) -> None:
        self.branches = deque(branches)
        self.vanished: list[Branch] = []
        self.witness = witness


class _Executor(ClientSession):
    """The session that does it; the owner of the engine does not hear of it."""

    def __init__(self, engine: V010Engine, channel: int, aftermath: Aftermath) -> None:
        super().__init__(engine, channel)
        self._aftermath = aftermath

    def announce(self, event: Event) -> None:
        """It is nobody's business."""

    def end_links(self, error: AmqpError | None) -> None:
        super().end_links(error)
        self._aftermath.executor_gone(self)


class Aftermath:
    """The estates that an engine knows of, settled one after the other.

    Attributes:
        waiting: there are some.
    """

    def __init__(self, engine: V010Engine) -> None:
        self._engine = engine
        self._estates: deque[_Estate] = deque()
        self._executor: _Executor | None = None
        self._fruitful = False  # the executor has found something out
        self._done: Callable[[], None] | None = None

    @property
    def waiting(self) -> bool:
        return bool(self._estates)

    def inherit(self, before: Aftermath) -> None:
        """Those of the connection before this one."""
        self._estates, before._estates = before._estates, deque()

    def left(self, branches: Iterable[Branch], witness: Xid) -> None:
        """A session is gone."""
        self._estates.append(_Estate(branches, witness))
        if self._engine.opened and self._executor is None:
            self._go_on()

    def settle(self, done: Callable[[], None]) -> None:
        """Begin with it; `done` is called when no more can be done."""
        self._done = done
        self._go_on()

    def _go_on(self) -> None:
        if not self._estates:
            executor, self._executor = self._executor, None
            if executor is not None:
                executor.end()
            done, self._done = self._done, None
            if done is not None:
                done()
            return
        if self._executor is None:
            try:
                self._executor = self._engine.begin_as(lambda channel: _Executor(self._engine, channel, self))
            except LocalProtocolError:
                return  # all channels are in use: the next connection will do it
            self._executor.begin(SessionTerms(timeout=0))
            self._executor.invoke(DtxSelect())
            self._fruitful = False
        estate = self._estates[0]
        self._executor.converse(
            self._settle(estate), lambda _: self._settled(), lambda error: self._failed(estate, error)
        )

    def _settle(self, estate: _Estate) -> Talk:
        while estate.branches:
            yield DtxRollback(estate.branches[0].xid)
            estate.branches.popleft().decided(NOT_COMMITTED)
        yield DtxRollback(estate.witness)
        for branch in estate.vanished:
            branch.decided(ACCEPTED)

    def _settled(self) -> None:
        self._estates.popleft()
        self._go_on()

    def _failed(self, estate: _Estate, error: Error) -> None:
        """The server does not know what was to be rolled back; the session ends with that."""
        self._fruitful = True
        if not estate.branches:
            self._estates.popleft()  # the witness is gone
            return
        branch = estate.branches.popleft()
        if not branch.committing:
            branch.decided(NOT_COMMITTED)
        elif error.condition == "amqp:not-found":
            estate.vanished.append(branch)

    def executor_gone(self, executor: _Executor) -> None:
        """Go on with another one, unless it was of no use."""
        if self._executor is not executor:
            return
        self._executor = None
        if not self._engine.opened:
            return  # what is left is the next connection's
        if not self._fruitful:
            self._estates.clear()
        self._go_on()
