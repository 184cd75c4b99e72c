"""Transactions of clients, tx and dtx, as a link to the owner's coordinator (0-10 §10.3, §10.4).

tx.select            a transaction is declared; all that the session does is part of it
tx.commit, rollback  the transaction is discharged, and the next one declared
dtx.start, end       a transaction is declared for the branch; between the two the session's work is part of it
dtx.commit, rollback the branch's transaction is discharged
dtx.prepare          the owner takes the branch: any connection of the same user commits it or rolls it back

Until a branch is prepared, only its connection knows it, and it ends with the session that started it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from ....engine import (
    BeginBranch,
    BranchId,
    CompleteBranch,
    Dispatcher,
    Handlers,
    IncomingDelivery,
    LimitBranch,
    PrepareBranch,
    QueryBranches,
)
from ....errors import AmqpError
from ....messaging import Coordinator, Declare, Declared, Discharge, Error, Rejected
from ..._kit.coordinators import RelayCoordinator
from ..codes import XA_OK, XA_ROLLED_BACK, XA_TIMED_OUT, ErrorCode, SessionFault
from ..wire.commands import (
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
    GetTimeoutResult,
    RecoverResult,
    TxCommit,
    TxRollback,
    TxSelect,
    XaResult,
    Xid,
)
from ..wire.struct import Command
from ..wire.values import STRUCT32, Array010
from .receiver import ServerReceiver

if TYPE_CHECKING:
    from ....messaging import DeliveryState
    from .parents import ServerLinkSession


def key_of(xid: Xid) -> BranchId:
    """Return an xid as a key."""
    return xid.format, xid.global_id, xid.branch_id


class ServedBranch:
    """A branch of a distributed transaction.

    Attributes:
        id: the owner's transaction for the branch.
        coordinator: the coordinator of the session that started the branch.
        workers: the coordinators of the sessions that work in the branch.
        suspended: a session suspended its work in the branch, and may resume it.
        failed: the branch can only be rolled back.
        timeout: seconds until the branch is rolled back, as the client set it; 0: never.
    """

    def __init__(self, xid: Xid, number: bytes, coordinator: ServerCoordinator) -> None:
        self.xid = xid
        self.id = number
        self.coordinator = coordinator
        self.workers: set[ServerCoordinator] = set()
        self.suspended = False
        self.failed = False
        self.timeout = 0


class ServerCoordinator(Dispatcher, RelayCoordinator, ServerReceiver):
    """The link to the owner's coordinator, and the client's commands for it."""

    credit: int
    handlers: ClassVar[Handlers] = {
        TxSelect: "_tx_select",
        TxCommit: "_tx_end",
        TxRollback: "_tx_end",
        DtxSelect: "_dtx_select",
        DtxStart: "_start",
        DtxEnd: "_end",
        DtxPrepare: "_prepare",
        DtxCommit: "_commit",
        DtxRollback: "_roll_back",
        DtxRecover: "_recover",
        DtxGetTimeout: "_get_timeout",
        DtxSetTimeout: "_set_timeout",
        DtxForget: "_forget",
    }

    def __init__(self, session: ServerLinkSession) -> None:
        super().__init__(session, "transactions", Coordinator(("amqp:local-transactions", "amqp:multi-txns-per-ssn")))
        self._mode = ""
        self._requested: dict[bytes, Callable[[Any], None]] = {}
        self._questions: deque[IncomingDelivery] = deque()
        self._branch: ServedBranch | None = None  # the branch that the session works in
        self._others: dict[
            tuple[ServerCoordinator, int], Callable[[], None]
        ] = {}  # commands, by coordinator and id, that wait for this session; the call is for when it is lost

    # Asking the owner

    def _ask(self, body: Declare | Discharge, done: Callable[[Any], None]) -> None:
        """Send `body` to the coordinator, and call `done` with its answer; the client's next commands wait for that."""
        self.session.pause()
        delivery = self.delivery_of(body)
        self._requested[delivery.tag] = done
        self._questions.append(delivery)
        self.ask_waiting()

    def ask_waiting(self) -> None:
        while self._questions and self.credit > 0:
            self.credit -= 1
            self.hand_out(self._questions.popleft())

    def answered(self, delivery: IncomingDelivery, state: DeliveryState | None) -> None:
        done = self._requested.pop(delivery.tag)
        session = self.session
        if session.ended_locally:
            return
        try:
            done(state)
        except SessionFault as fault:
            session.fail(fault, session.current, None)
        if not self._requested:
            session.go_on()

    def _declare(self, declared: Callable[[bytes], None]) -> None:
        def done(state: Any) -> None:
            if not isinstance(state, Declared):
                raise SessionFault(ErrorCode.ILLEGAL_STATE, _why(state))
            declared(state.txn_id)

        self._ask(Declare(), done)

    def _discharge(self, number: bytes, fail: bool, done: Callable[[Any], None]) -> None:
        """Discharge the transaction `number`, once the owner has taken all that the client sent before."""
        self.session.pause()
        self.session.when_taken(lambda: self._ask(Discharge(number, fail), done))

    # tx

    def do(self, number: int, command: Command) -> None:
        """Do a command of the client."""
        self.by_type[type(command)](self, number, command)

    def _tx_select(self, number: int, command: TxSelect) -> None:
        if self._mode:
            raise SessionFault(ErrorCode.ILLEGAL_STATE, f"the session has selected {self._mode} already")
        self._mode = "tx"
        self._next_transaction(number)

    def _next_transaction(self, number: int) -> None:
        def declared(txn_id: bytes) -> None:
            self.session.transaction = txn_id
            self.session.complete(number)

        self._declare(declared)

    def _tx_end(self, number: int, command: TxCommit | TxRollback) -> None:
        transaction = self.session.transaction
        if self._mode != "tx" or transaction is None:
            raise SessionFault(ErrorCode.ILLEGAL_STATE, "tx.select comes first")
        fail = isinstance(command, TxRollback)

        def done(state: Any) -> None:
            self.session.transaction = None
            if isinstance(state, Rejected) and not fail:
                raise SessionFault(ErrorCode.ILLEGAL_STATE, _why(state))
            self._next_transaction(number)

        self._discharge(transaction, fail, done)

    # dtx

    def _dtx_select(self, number: int, command: DtxSelect) -> None:
        if self._mode == "tx":
            raise SessionFault(ErrorCode.ILLEGAL_STATE, "the session has tx already")
        self._mode = "dtx"
        self.session.complete(number)

    @property
    def _branches(self) -> dict[BranchId, ServedBranch]:
        return self.session.engine.branches

    def _start(self, number: int, command: DtxStart) -> None:
        if self._mode != "dtx" or self._branch is not None:
            raise SessionFault(ErrorCode.ILLEGAL_STATE, "dtx.select comes first, and one branch at a time")
        if command.join and command.resume:
            raise SessionFault(ErrorCode.NOT_ALLOWED, "join and resume exclude each other")
        key = key_of(command.xid)
        known = self._branches.get(key)
        if command.join or command.resume:
            if known is None or (command.resume and not known.suspended):
                # Until it is prepared, only its own connection can work in a branch; after that, no session can.
                raise SessionFault(ErrorCode.NOT_ALLOWED, "no open branch with this xid was started on this connection")
            self._work_in(known)
            self._result(number, XA_OK)
            return
        if known is not None:
            raise SessionFault(ErrorCode.NOT_ALLOWED, "the branch exists already")

        def declared(txn_id: bytes) -> None:
            self.session.ask(number, command, BeginBranch(txn_id, key), partial(begun, txn_id))

        def begun(txn_id: bytes, is_new: bool) -> XaResult:
            if not is_new:
                raise SessionFault(ErrorCode.NOT_ALLOWED, "the branch exists already, on another connection")
            branch = self._branches[key] = ServedBranch(command.xid, txn_id, self)
            self._work_in(branch)
            return XaResult(XA_OK)

        self._declare(declared)

    def _work_in(self, branch: ServedBranch) -> None:
        branch.workers.add(self)
        branch.suspended = False
        self._branch = branch
        self.session.transaction = branch.id

    def _end(self, number: int, command: DtxEnd) -> None:
        branch = self._branch
        if branch is None or key_of(branch.xid) != key_of(command.xid):
            raise SessionFault(ErrorCode.ILLEGAL_STATE, "the session does not work in that branch")
        if command.fail and command.suspend:
            raise SessionFault(ErrorCode.NOT_ALLOWED, "suspend and fail exclude each other")
        self._branch = self.session.transaction = None
        branch.workers.discard(self)
        branch.suspended = command.suspend
        branch.failed = branch.failed or command.fail
        self._result(number, XA_ROLLED_BACK if command.fail else XA_OK)

    def _known(self, xid: Xid) -> ServedBranch | None:
        """Return the branch `xid`; None if it is prepared, or was not started on this connection.

        Raises:
            SessionFault: a session works in the branch.
        """
        branch = self._branches.get(key_of(xid))
        if branch is not None and branch.workers:
            raise SessionFault(ErrorCode.ILLEGAL_STATE, "a session works in the branch")
        return branch

    def _prepare(self, number: int, command: DtxPrepare) -> None:
        branch = self._known(command.xid)
        if branch is None:
            raise SessionFault(ErrorCode.NOT_FOUND, "there is no such branch that could be prepared")
        if branch.failed:
            self._finish(number, branch, fail=True)
            return
        key = key_of(command.xid)
        del self._branches[key]
        ask = PrepareBranch(branch.id, key)
        self.session.pause()

        def taken() -> None:
            self._heard(number, branch)
            self.session.ask(number, command, ask, lambda good: XaResult(XA_OK if good else XA_ROLLED_BACK))

        # Messages that the client sent before are part of the branch.
        self._wait_for(number, branch)
        branch.coordinator.session.when_taken(taken)

    def _commit(self, number: int, command: DtxCommit) -> None:
        branch = self._known(command.xid)
        if branch is None:
            if command.one_phase:
                raise SessionFault(ErrorCode.NOT_FOUND, "there is no such branch, or it is prepared")
            self._complete(number, command, commit=True)
        elif branch.failed or command.one_phase:
            self._finish(number, branch, fail=branch.failed)
        else:
            raise SessionFault(ErrorCode.ILLEGAL_STATE, "the branch is not prepared")

    def _roll_back(self, number: int, command: DtxRollback) -> None:
        branch = self._known(command.xid)
        if branch is None:
            self._complete(number, command, commit=False)
        else:
            self._finish(number, branch, fail=True, status=XA_OK)

    def _complete(self, number: int, command: DtxCommit | DtxRollback, *, commit: bool) -> None:
        """Do the second phase of a prepared branch, on whatever connection it was prepared."""

        def ended(good: bool | None) -> XaResult:
            if good is None:
                raise SessionFault(ErrorCode.NOT_FOUND, "there is no such branch")
            return XaResult(XA_OK if good else XA_ROLLED_BACK)

        self.session.ask(number, command, CompleteBranch(key_of(command.xid), commit), ended)

    def _finish(self, number: int, branch: ServedBranch, *, fail: bool, status: int = XA_ROLLED_BACK) -> None:
        del self._branches[key_of(branch.xid)]

        def done(state: Any) -> None:
            self._heard(number, branch)
            self._result(number, status if fail else _xa(state))
            if branch.coordinator is not self:
                self.session.go_on()

        if branch.coordinator is not self:
            self.session.pause()
            self._wait_for(number, branch, status)
        branch.coordinator._discharge(branch.id, fail, done)

    def _wait_for(self, number: int, branch: ServedBranch, status: int = XA_ROLLED_BACK) -> None:
        """Let the command `number` wait for the session that started `branch`.

        If that session is lost, the branch is rolled back, and `status` is the result of the command.
        """

        def lost() -> None:
            if not self.session.ended_locally:
                self._result(number, status)
                self.session.go_on()

        branch.coordinator._others[self, number] = lost

    def _heard(self, number: int, branch: ServedBranch) -> None:
        branch.coordinator._others.pop((self, number), None)

    def _recover(self, number: int, command: DtxRecover) -> None:
        def prepared(branches: tuple[BranchId, ...]) -> RecoverResult:
            return RecoverResult(Array010(STRUCT32, [Xid(*branch) for branch in branches]))

        self.session.ask(number, command, QueryBranches(), prepared)

    def _get_timeout(self, number: int, command: DtxGetTimeout) -> None:
        self.session.result_of(number, GetTimeoutResult(self._any(command.xid).timeout))

    def _set_timeout(self, number: int, command: DtxSetTimeout) -> None:
        branch = self._any(command.xid)
        branch.timeout = command.timeout
        self.session.ask(number, command, LimitBranch(branch.id, command.timeout), lambda _: None)

    def _any(self, xid: Xid) -> ServedBranch:
        """Return the branch `xid`, even if a session works in it.

        Raises:
            SessionFault: there is no such branch.
        """
        branch = self._branches.get(key_of(xid))
        if branch is None:
            raise SessionFault(ErrorCode.NOT_FOUND, "there is no such branch")
        return branch

    def _forget(self, number: int, command: DtxForget) -> None:
        self._any(command.xid)
        raise SessionFault(ErrorCode.ILLEGAL_STATE, "the branch was not completed heuristically")

    def _result(self, number: int, status: int) -> None:
        self.session.result_of(number, XaResult(status))

    # The end

    def moved(self, before: dict[BranchId, ServedBranch]) -> None:
        """Bring the session's branches to its new connection; `before` holds the branches of the old one."""
        self._branches.update((key, branch) for key, branch in before.items() if branch.coordinator is self)

    def over(self, error: AmqpError | None) -> None:
        if self._branch is not None:  # another session may have started it; its work is incomplete now
            self._branch.workers.discard(self)
            self._branch.failed = True
        for key, branch in list(self._branches.items()):
            if branch.coordinator is self:
                del self._branches[key]
        super().over(error)
        others, self._others = self._others, {}
        for (other, _), lost in others.items():
            if other is not self:
                lost()

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        """End the session, for the owner gives up its transactions."""
        super().detach(closed=closed, error=error or Error("amqp:transaction:rollback", "the coordinator is gone"))


def _xa(state: Any) -> int:
    """Return the XA status of a commit that ended with the outcome `state`."""
    if not isinstance(state, Rejected):
        return XA_OK
    late = state.error is not None and state.error.condition == "amqp:transaction:timeout"
    return XA_TIMED_OUT if late else XA_ROLLED_BACK


def _why(state: Any) -> str:
    error = state.error if isinstance(state, Rejected) else None
    return (error.description or str(error.condition)) if error is not None else "the transaction is not to be had"
