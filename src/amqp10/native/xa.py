"""Distributed transactions: the verbs of X/Open XA, to coordinate several resources (0-10 §10.4, class dtx)."""

from __future__ import annotations

from enum import IntEnum
from types import TracebackType
from typing import Any, Self

from .._arguments import check_range, checked
from ..client.internals import ConnectionFace, Session, ask
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

    Only what is sent and settled on `session` between `start` and `end` is part of the branch. For two phases, prepare
    all branches, then commit all; for one phase, call `commit(xid, one_phase=True)` without `prepare`.

    Every method raises `RequestRefused` if the server refuses, which ends the session; `info["reply-code"]` has the
    code. After `SessionEnded`, `ConnectionClosed` or `ConnectionLost`, no answer came, and the request may have been
    carried out: `recover` on another connection returns the prepared branches.

    Attributes:
        session: the session for senders and receivers of the branches.
    """

    session: Session

    def __init__(self, connection: ConnectionFace) -> None:
        self._connection = connection

    def __repr__(self) -> str:
        return f"<XA of {self._connection!r}>"

    async def __aenter__(self) -> Self:
        """Begin the session, and select it for branches.

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
        """End the session; unprepared branches are then rolled back, except by Broker-J.

        Cancelling: is not noticed; it takes at most `close_timeout` seconds.
        """
        await self.session.__aexit__(exc_type, exc, traceback)

    async def _do(self, command: Command) -> Any:
        return await ask(self.session, Invoke(command))

    async def _status(self, command: Command) -> XAStatus:
        result = await self._do(command)
        return XAStatus(result.status)

    async def start(self, xid: Xid, *, join: bool = False, resume: bool = False) -> XAStatus:
        """Start work in the branch `xid`.

        Args:
            join: join a branch in which other sessions work: at the embedded broker those of this connection (another
                `Connection.native.xa()`), at Broker-J those of the user.
            resume: resume a branch suspended by `end`.

        Raises:
            RequestRefused: the branch exists already, or does not exist, to join or resume; or the session already
                works in a branch.
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Cancelling: the work may have been started.
        """
        return await self._status(DtxStart(xid, join=join, resume=resume))

    async def end(self, xid: Xid, *, fail: bool = False, suspend: bool = False) -> XAStatus:
        """End work in the branch `xid`.

        Args:
            fail: the branch can then only be rolled back.
            suspend: suspend the work; `start(resume=True)` continues it.

        Raises:
            RequestRefused: the session does not work in the branch.
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Cancelling: the work may have been ended.
        """
        return await self._status(DtxEnd(xid, fail=fail, suspend=suspend))

    async def prepare(self, xid: Xid) -> XAStatus:
        """Prepare the branch (first phase), so that it can be committed even after a failure.

        `ROLLED_BACK` means that the branch is gone, `READ_ONLY` that there is nothing to commit.

        Raises:
            RequestRefused: the branch does not exist, or work in it has not ended.
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Cancelling: the branch may have been prepared.
        """
        return await self._status(DtxPrepare(xid))

    async def commit(self, xid: Xid, *, one_phase: bool = False) -> XAStatus:
        """Commit the branch: the second phase, or the only one.

        Raises:
            RequestRefused: the branch does not exist, work in it has not ended, or for two phases it is not prepared.
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Cancelling: the branch may have been committed.
        """
        return await self._status(DtxCommit(xid, one_phase=one_phase))

    async def rollback(self, xid: Xid) -> XAStatus:
        """Roll the branch back.

        Raises:
            RequestRefused: the branch does not exist, or work in it has not ended.
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Cancelling: the branch may have been rolled back.
        """
        return await self._status(DtxRollback(xid))

    async def recover(self) -> list[Xid]:
        """Return the branches that are prepared, but neither committed nor rolled back.

        Raises:
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Cancelling: nothing is changed.
        """
        result = await self._do(DtxRecover())
        return [each for each in result.in_doubt if isinstance(each, Xid)]

    async def forget(self, xid: Xid) -> None:
        """Forget a branch that the server completed on its own, by a heuristic decision.

        Raises:
            RequestRefused: the server did not complete the branch on its own.
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Cancelling: the branch may have been forgotten.
        """
        await self._do(DtxForget(xid))

    async def timeout(self, xid: Xid) -> int:
        """Return the seconds after which the branch is rolled back; 0 for never.

        Raises:
            RequestRefused: the branch does not exist.
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Cancelling: nothing is changed.
        """
        result = await self._do(DtxGetTimeout(xid))
        return int(result.timeout)

    @checked
    async def set_timeout(self, xid: Xid, seconds: int) -> None:
        """Roll the branch back after `seconds`; 0 for never.

        Raises:
            ValueError: `seconds` does not fit in 32 bits.
            RequestRefused: the branch does not exist, or is prepared.
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Cancelling: the time-out may have been set.
        """
        check_range("seconds", seconds, 0, 0xFFFF_FFFF)
        await self._do(DtxSetTimeout(xid, seconds))
