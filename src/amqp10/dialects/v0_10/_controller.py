"""Transactions of clients, tx and dtx, as the owner knows them: a link to its coordinator (0-10 §10.3, §10.4).

    tx.select            a transaction is declared; all that the session does is part of it
    tx.commit, rollback  it is discharged, and the next one declared
    dtx.start, end       one is declared for the branch; between the two the session's work is part of it
    dtx.commit, rollback it is discharged
    dtx.prepare          it is the owner's: any connection of the same user commits it or rolls it back

Branches are known on their connection until they are prepared, and end with the session that started them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ...engine import (
    BranchId,
    CompleteBranch,
    DeliveriesReceived,
    IncomingDelivery,
    LimitBranch,
    PrepareBranch,
    QueryBranches,
)
from ...errors import AmqpError
from ...messaging import AmqpValue, Coordinator, Declare, Declared, Discharge, Error, Message, Rejected
from ._codes import SessionFault
from ._commands import TxCommit, TxRollback, TxSelect
from ._declare import Command
from ._intake import IntakeLink
from ._topology import (
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
    XaResult,
    Xid,
)
from ._values import STRUCT32, Array010

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...messaging import DeliveryState
    from ._server_session import ServerSession

NOT_FOUND: Final = 404
ILLEGAL_STATE: Final = 409
NOT_ALLOWED: Final = 530
XA_OK: Final = 0
XA_ROLLED_BACK: Final = 1
XA_TIMED_OUT: Final = 2


def key_of(xid: Xid) -> BranchId:
    """An xid as a key."""
    return xid.format, xid.global_id, xid.branch_id


class ServedBranch:
    """A branch of a distributed transaction.

    Attributes:
        id: the owner's transaction.
        controller: the session's that started it.
        workers: the sessions' that work in it.
        suspended: a session did, and will again.
        failed: it can only be rolled back.
        timeout: seconds that the client gave it; 0 for any time.
    """

    def __init__(self, xid: Xid, number: bytes, controller: Controller) -> None:
        self.xid = xid
        self.id = number
        self.controller = controller
        self.workers: set[Controller] = set()
        self.suspended = False
        self.failed = False
        self.timeout = 0


class Controller(IntakeLink):
    """The link to the owner's coordinator, and what the client commands of it."""

    def __init__(self, session: ServerSession) -> None:
        super().__init__(session, "transactions", Coordinator(("amqp:local-transactions", "amqp:multi-txns-per-ssn")))
        self._mode = ""
        self._asked: dict[bytes, Callable[[Any], None]] = {}
        self._questions: deque[IncomingDelivery] = deque()
        self._count = 0
        self._branch: ServedBranch | None = None  # that the session works in
        self._others: dict[tuple[Controller, int], Callable[[], None]] = {}  # who waits for it, and if it never comes

    # Asking the owner

    def _ask(self, body: object, done: Callable[[Any], None]) -> None:
        """Have the coordinator answer; the client's next commands wait until it has."""
        self.session.pause()
        self._count += 1
        tag = b"tx" + self._count.to_bytes(8, "big")
        delivery = self.delivery_type(self, self._count & 0xFFFF_FFFF, tag, Message(AmqpValue(body)).encode(), False)
        self.unsettled[tag] = delivery
        self._asked[tag] = done
        self._questions.append(delivery)
        self._hand_questions_over()

    def _hand_questions_over(self) -> None:
        while self._questions and self.credit > 0:
            self.credit -= 1
            if not self.incoming:
                self.session.engine.emit(DeliveriesReceived(self))
            self.incoming.append(self._questions.popleft())

    def flow(
        self, credit: int, *, drain: bool = False, echo: bool = False, properties: Mapping[Any, Any] | None = None
    ) -> None:
        self.credit = credit
        self._hand_questions_over()

    def settle(self, delivery: IncomingDelivery, state: DeliveryState | None, *, settled: bool | None = None) -> None:
        done = self._asked.pop(delivery.tag, None)
        if done is None:
            return
        delivery.state = state
        delivery.local_settled = True
        self.unsettled.pop(delivery.tag, None)
        session = self.session
        if session.muted:
            return
        try:
            done(state)
        except SessionFault as fault:
            session.fail(fault, session.current, None)
        if not self._asked:
            session.go_on()

    def _declare(self, declared: Callable[[bytes], None]) -> None:
        def done(state: Any) -> None:
            if not isinstance(state, Declared):
                raise SessionFault(ILLEGAL_STATE, _why(state))
            declared(state.txn_id)

        self._ask(Declare(), done)

    def _discharge(self, number: bytes, fail: bool, done: Callable[[Any], None]) -> None:
        """What the client sent before is to be seen before."""
        self.session.pause()
        self.session.when_taken(lambda: self._ask(Discharge(number, fail), done))

    # tx

    def do(self, number: int, command: Command) -> None:
        """A command of the client's."""
        _ACTIONS[type(command)](self, number, command)

    def _tx_select(self, number: int, command: TxSelect) -> None:
        if self._mode:
            raise SessionFault(ILLEGAL_STATE, f"the session has {self._mode} already")
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
            raise SessionFault(ILLEGAL_STATE, "tx.select comes first")
        fail = isinstance(command, TxRollback)

        def done(state: Any) -> None:
            self.session.transaction = None
            if isinstance(state, Rejected) and not fail:
                raise SessionFault(ILLEGAL_STATE, _why(state))
            self._next_transaction(number)

        self._discharge(transaction, fail, done)

    # dtx

    def _dtx_select(self, number: int, command: DtxSelect) -> None:
        if self._mode == "tx":
            raise SessionFault(ILLEGAL_STATE, "the session has tx already")
        self._mode = "dtx"
        self.session.complete(number)

    @property
    def _branches(self) -> dict[BranchId, ServedBranch]:
        return self.session.engine.branches

    def _start(self, number: int, command: DtxStart) -> None:
        if self._mode != "dtx" or self._branch is not None:
            raise SessionFault(ILLEGAL_STATE, "dtx.select comes first, and one branch at a time")
        if command.join and command.resume:
            raise SessionFault(NOT_ALLOWED, "join and resume exclude each other")
        key = key_of(command.xid)
        known = self._branches.get(key)
        if command.join or command.resume:
            if known is None or (command.resume and not known.suspended):
                # Transactions are a connection's until they are prepared, and then nobody works in them any more.
                raise SessionFault(NOT_ALLOWED, "no such branch that can be worked in was started on this connection")
            self._work_in(known)
            self._result(number, XA_OK)
            return
        if known is not None:
            raise SessionFault(NOT_ALLOWED, "the branch is known already")

        def declared(txn_id: bytes) -> None:
            branch = self._branches[key] = ServedBranch(command.xid, txn_id, self)
            self._work_in(branch)
            self._result(number, XA_OK)

        self._declare(declared)

    def _work_in(self, branch: ServedBranch) -> None:
        branch.workers.add(self)
        branch.suspended = False
        self._branch = branch
        self.session.transaction = branch.id

    def _end(self, number: int, command: DtxEnd) -> None:
        branch = self._branch
        if branch is None or key_of(branch.xid) != key_of(command.xid):
            raise SessionFault(ILLEGAL_STATE, "the session does not work in that branch")
        if command.fail and command.suspend:
            raise SessionFault(NOT_ALLOWED, "suspend and fail exclude each other")
        self._branch = self.session.transaction = None
        branch.workers.discard(self)
        branch.suspended = command.suspend
        branch.failed = branch.failed or command.fail
        self._result(number, XA_ROLLED_BACK if command.fail else XA_OK)

    def _known(self, xid: Xid) -> ServedBranch | None:
        """The branch, if it is not prepared."""
        branch = self._branches.get(key_of(xid))
        if branch is not None and branch.workers:
            raise SessionFault(ILLEGAL_STATE, "a session works in the branch")
        return branch

    def _prepare(self, number: int, command: DtxPrepare) -> None:
        branch = self._known(command.xid)
        if branch is None:
            raise SessionFault(NOT_FOUND, "there is no such branch to be prepared")
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

        # What the client sent before is part of it.
        self._wait_for(number, branch)
        branch.controller.session.when_taken(taken)

    def _commit(self, number: int, command: DtxCommit) -> None:
        branch = self._known(command.xid)
        if branch is None:
            if command.one_phase:
                raise SessionFault(NOT_FOUND, "there is no such branch, or it is prepared")
            self._complete(number, command, commit=True)
        elif branch.failed or command.one_phase:
            self._finish(number, branch, fail=branch.failed)
        else:
            raise SessionFault(ILLEGAL_STATE, "the branch is not prepared")

    def _roll_back(self, number: int, command: DtxRollback) -> None:
        branch = self._known(command.xid)
        if branch is None:
            self._complete(number, command, commit=False)
        else:
            self._finish(number, branch, fail=True, status=XA_OK)

    def _complete(self, number: int, command: DtxCommit | DtxRollback, *, commit: bool) -> None:
        """Second phase, of a branch that whoever had prepared."""

        def ended(good: bool | None) -> XaResult:
            if good is None:
                raise SessionFault(NOT_FOUND, "there is no such branch")
            return XaResult(XA_OK if good else XA_ROLLED_BACK)

        self.session.ask(number, command, CompleteBranch(key_of(command.xid), commit), ended)

    def _finish(self, number: int, branch: ServedBranch, *, fail: bool, status: int = XA_ROLLED_BACK) -> None:
        del self._branches[key_of(branch.xid)]

        def done(state: Any) -> None:
            self._heard(number, branch)
            self._result(number, status if fail else _xa(state))
            if branch.controller is not self:
                self.session.go_on()

        if branch.controller is not self:
            self.session.pause()
            self._wait_for(number, branch, status)
        branch.controller._discharge(branch.id, fail, done)

    def _wait_for(self, number: int, branch: ServedBranch, status: int = XA_ROLLED_BACK) -> None:
        """A command waits for the session that has the branch: with that it is rolled back."""

        def lost() -> None:
            if not self.session.muted:
                self._result(number, status)
                self.session.go_on()

        branch.controller._others[self, number] = lost

    def _heard(self, number: int, branch: ServedBranch) -> None:
        branch.controller._others.pop((self, number), None)

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
        """The branch, whoever works in it."""
        branch = self._branches.get(key_of(xid))
        if branch is None:
            raise SessionFault(NOT_FOUND, "there is no such branch")
        return branch

    def _forget(self, number: int, command: DtxForget) -> None:
        self._any(command.xid)
        raise SessionFault(ILLEGAL_STATE, "the branch was not completed heuristically")

    def _result(self, number: int, status: int) -> None:
        self.session.result_of(number, XaResult(status))

    # The end

    def moved(self, before: dict[BranchId, ServedBranch]) -> None:
        """Its session goes on on another connection; `before` are the branches of the one that was."""
        self._branches.update((key, branch) for key, branch in before.items() if branch.controller is self)

    def over(self, error: AmqpError | None) -> None:
        if self._branch is not None:  # which may be another session's: what was done in it is not whole
            self._branch.workers.discard(self)
            self._branch.failed = True
        for key, branch in list(self._branches.items()):
            if branch.controller is self:
                del self._branches[key]
        super().over(error)
        others, self._others = self._others, {}
        for (other, _), lost in others.items():
            if other is not self:
                lost()

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        """The owner gives the session's transactions up, and so the session."""
        super().detach(closed=closed, error=error or Error("amqp:transaction:rollback", "the coordinator is gone"))


def _xa(state: Any) -> int:
    """How a commit ended."""
    if not isinstance(state, Rejected):
        return XA_OK
    late = state.error is not None and state.error.condition == "amqp:transaction:timeout"
    return XA_TIMED_OUT if late else XA_ROLLED_BACK


def _why(state: Any) -> str:
    error = state.error if isinstance(state, Rejected) else None
    return (error.description or str(error.condition)) if error is not None else "the transaction is not to be had"


_ACTIONS: Final[dict[type[Command], Any]] = {
    TxSelect: Controller._tx_select,
    TxCommit: Controller._tx_end,
    TxRollback: Controller._tx_end,
    DtxSelect: Controller._dtx_select,
    DtxStart: Controller._start,
    DtxEnd: Controller._end,
    DtxPrepare: Controller._prepare,
    DtxCommit: Controller._commit,
    DtxRollback: Controller._roll_back,
    DtxRecover: Controller._recover,
    DtxGetTimeout: Controller._get_timeout,
    DtxSetTimeout: Controller._set_timeout,
    DtxForget: Controller._forget,
}
TRANSACTIONAL: Final = frozenset(_ACTIONS)
