"""Distributed transactions: the verbs of X/Open XA, for who coordinates several resources (0-10 §10.4, class dtx)."""

from __future__ import annotations

from enum import IntEnum
from types import TracebackType
from typing import Any, Self

from ..client import Connection, Session
from ..client.internals import ask
from ..dialects.v0_10 import (
    Command,
    DtxCommit,
    DtxEnd,
    DtxForget,
    DtxGetTimeout,
    DtxPrepare,
    DtxRecover,
    DtxRollback,
    DtxSelect,
    DtxSetTimeout,
    DtxStart,
    Invoke,
    Xid,
)


class XAStatus(IntEnum):
    """The status of a branch after a command."""

    OK = 0
    ROLLED_BACK = 1
    TIMED_OUT = 2
    HEURISTIC_HAZARD = 3
    HEURISTIC_COMMIT = 4
    HEURISTIC_ROLLBACK = 5
    HEURISTIC_MIX = 6
    READ_ONLY = 7


class XA:
    """A session for work in branches of distributed transactions; made by `connection.native.xa()`.

        async with connection.native.xa() as xa:
            await xa.start(xid)
            async with xa.session.sender("orders") as sender:
                await sender.send("part of the branch")
            await xa.end(xid)
            await xa.prepare(xid)
            await xa.commit(xid)

    What is sent and settled on `session` between `start` and `end` is part of the branch; what is not, is not. Two
    phases: prepare all branches, then commit all; one phase: `commit(xid, one_phase=True)` without `prepare`.

    Every method raises `RequestRefused` when the server refuses, which ends the session; `info["reply-code"]` says why
    in numbers. `SessionEnded`, `ConnectionClosed`, `ConnectionLost`: no answer came, and it may have been done:
    `recover` on another connection tells which branches are prepared.

    Attributes:
        session: for senders and receivers of the branches.
    """

    session: Session

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def __aenter__(self) -> Self:
        """Begin the session, and make it ready for branches.

        Raises:
            RequestRefused: the server has no distributed transactions.
            ConnectionClosed, ConnectionLost: the connection is gone.

        Cancelling: the session is ended again.
        """
        self.session = self._connection.session()
        await self.session.__aenter__()
        try:
            await self._do(DtxSelect())
        except BaseException:
            await self.session.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the session; branches that are not prepared are rolled back with it, though not by Broker-J.

        Cancelling: is not noticed; it takes `close_timeout` seconds at most.
        """
        await self.session.__aexit__(exc_type, exc, traceback)

    async def _do(self, command: Command) -> Any:
        return await ask(self.session, Invoke(command))

    async def _status(self, command: Command) -> XAStatus:
        result = await self._do(command)
        return XAStatus(result.status)

    async def start(self, xid: Xid, *, join: bool = False, resume: bool = False) -> XAStatus:
        """Work in this branch from now on.

        Args:
            join: the branch is there already, and others work in it, too: at the embedded broker others of this
                connection (`Connection.native.xa()` once more), at Broker-J any of the user's.
            resume: the branch was suspended by `end`.

        Raises:
            RequestRefused: the branch is there already, or, to join or resume, is not; or one is being worked in.
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Cancelling: it may have been started.
        """
        return await self._status(DtxStart(xid, join=join, resume=resume))

    async def end(self, xid: Xid, *, fail: bool = False, suspend: bool = False) -> XAStatus:
        """Work in this branch no longer.

        Args:
            fail: it can only be rolled back.
            suspend: only for a while: `start(resume=True)` goes on.

        Raises:
            RequestRefused: it is not being worked in.
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Cancelling: it may have been ended.
        """
        return await self._status(DtxEnd(xid, fail=fail, suspend=suspend))

    async def prepare(self, xid: Xid) -> XAStatus:
        """Prepare the branch (first phase), so that it can be committed, come what may.

        `ROLLED_BACK`: the branch is gone. `READ_ONLY`: there is nothing to commit.

        Raises:
            RequestRefused: there is no such branch, or it is being worked in.
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Cancelling: it may have been prepared.
        """
        return await self._status(DtxPrepare(xid))

    async def commit(self, xid: Xid, *, one_phase: bool = False) -> XAStatus:
        """Commit the branch: the second phase, or the only one.

        Raises:
            RequestRefused: there is no such branch, it is being worked in, or not prepared where there are two phases.
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Cancelling: it may have been committed.
        """
        return await self._status(DtxCommit(xid, one_phase=one_phase))

    async def rollback(self, xid: Xid) -> XAStatus:
        """Roll the branch back.

        Raises:
            RequestRefused: there is no such branch, or it is being worked in.
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Cancelling: it may have been undone.
        """
        return await self._status(DtxRollback(xid))

    async def recover(self) -> list[Xid]:
        """Return the branches that are prepared and neither committed nor rolled back.

        Raises:
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Cancelling: nothing is changed.
        """
        result = await self._do(DtxRecover())
        return [each for each in result.in_doubt if isinstance(each, Xid)]

    async def forget(self, xid: Xid) -> None:
        """Forget a branch that the server completed on its own, by whatever heuristics.

        Raises:
            RequestRefused: the server did not complete the branch on its own.
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Cancelling: it may have been forgotten.
        """
        await self._do(DtxForget(xid))

    async def timeout(self, xid: Xid) -> int:
        """Return after how many seconds the branch is rolled back; 0 for never.

        Raises:
            RequestRefused: there is no such branch.
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Cancelling: nothing is changed.
        """
        result = await self._do(DtxGetTimeout(xid))
        return int(result.timeout)

    async def set_timeout(self, xid: Xid, seconds: int) -> None:
        """Roll the branch back after `seconds`; 0 for never.

        Raises:
            RequestRefused: there is no such branch, or it is prepared.
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Cancelling: it may have been set.
        """
        await self._do(DtxSetTimeout(xid, seconds))
