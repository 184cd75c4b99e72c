"""The client's transactions: the coordinator of the engine's contract, implemented here on dtx (0-10 §10.4).

Messages and outcomes of a transaction are kept until its commit. Then all of them are sent in one branch of a
distributed transaction, between `dtx.start` and `dtx.end`, so that no other work of the session belongs to it. If the
server rejected nothing, the branch is committed in one phase.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

from ....engine import CreditChanged, LinkTerms, OutgoingDelivery
from ....messaging import ACCEPTED, Coordinator, Error, Rejected
from ..._kit.coordinators import ROLLED_BACK, LocalCoordinator, OpenTransactions, rejected
from ..codes import XA_OK, XA_READ_ONLY
from ..command_ids import CommandOwner
from ..link import LinkEndpoint
from ..states import Step
from ..wire.commands import (
    DtxCommit,
    DtxEnd,
    DtxRollback,
    DtxSelect,
    DtxSetTimeout,
    DtxStart,
    ExecutionSync,
    XaResult,
    Xid,
)
from .branches import FORMAT, Branch

if TYPE_CHECKING:
    from ....messaging import DeliveryState
    from ..command_ids import PendingCommand
    from .command_sequence import Commands
    from .parents import ClientLinkSession

TIMEOUT: Final = 60
"""Seconds until the server ends a branch whose client is gone; see `BYTES_PER_SECOND`."""
BYTES_PER_SECOND: Final = 100_000
"""Octets sent in a branch that extend its timeout by one second."""
XA_STATES: Final = (
    "ok",
    "rolled back",
    "timed out",
    "heuristic hazard",
    "heuristic commit",
    "heuristic rollback",
    "heuristic mix",
    "read only",
)


class _EndResult(CommandOwner):
    """The server's result for `dtx.end`."""

    given: Any = None

    def result(self, sent: PendingCommand, value: Any) -> None:
        """Keep `value`; it is checked once all commands of the branch are completed."""
        self.given = value


class ClientCoordinator(LinkEndpoint, LocalCoordinator[Branch]):
    """The sending link to a coordinator; see `SenderLink`. What is sent on it becomes commands, never a transfer."""

    session: ClientLinkSession
    terms: LinkTerms
    frame_room = 0

    def __init__(self, session: ClientLinkSession, terms: LinkTerms) -> None:
        super().__init__(session, terms.name)
        self.terms = terms
        self.unsettled: dict[bytes, OutgoingDelivery] = {}

    def begin(self) -> None:
        """Make the session ready for transactions, then attach."""
        self.session.run_commands(self._select(), self._ready, self.attach_failed)

    def _select(self) -> Commands:
        if self.session.transactions.selected:
            yield ExecutionSync()
            return
        yield DtxSelect()
        self.session.transactions.selected = True
        if self.session.to_qpid:
            self.session.transactions.sentinel = sentinel = Xid(FORMAT, secrets.token_bytes(16), b"witness")
            self.session.invoke(DtxStart(sentinel))
            yield DtxEnd(sentinel)

    def _ready(self, _: object) -> None:
        self.mark_attached(LinkTerms(self._name, self.terms.source, Coordinator(("amqp:local-transactions",))))
        if self.attached:
            self.session.engine.emit(CreditChanged(self))

    @property
    def credit(self) -> int:  # type: ignore[override]
        return 100 if self.attached else 0

    def number(self, count: int) -> None:
        return None  # the link sends commands, not transfers

    @property
    def transactions(self) -> OpenTransactions[Branch]:
        return self.session.transactions.open

    def new_work(self, txn_id: bytes) -> Branch:
        return Branch(txn_id)

    def answer_soon(self, delivery: OutgoingDelivery, state: DeliveryState) -> None:
        self.session.after_round_trip(self.answer, delivery, state)

    def commit(self, delivery: OutgoingDelivery, work: Branch) -> None:
        work.discharge = delivery
        self.session.run_commands(
            self._commit(work),
            lambda state: self.answer(delivery, state),
            lambda error: self.answer(delivery, Rejected(error)),
        )

    def _commit(self, branch: Branch) -> Commands:
        # Everything in one go: no other work of the session may get in between.
        transactions = self.session.transactions
        self.session.flush_dispositions()
        transactions.started[branch] = None
        self.session.invoke(DtxStart(branch.xid))
        if transactions.sentinel is not None:
            self.session.invoke(DtxSetTimeout(branch.xid, TIMEOUT + branch.size // BYTES_PER_SECOND))
        branch.do()
        self.session.flush_dispositions()
        end = _EndResult()
        self.session.invoke(DtxEnd(branch.xid), end)
        yield ExecutionSync()  # once that is completed, each message of the branch was taken or rejected
        if branch.failure is not None or not _good(end.given):
            yield DtxRollback(branch.xid)
            del transactions.started[branch]
            return branch.failure if branch.failure is not None else _rolled_back(end.given)
        branch.committing = True
        result = yield DtxCommit(branch.xid, one_phase=True)
        del transactions.started[branch]
        return ACCEPTED if _good(result) else _rolled_back(result)

    def report(self, delivery: OutgoingDelivery) -> None:
        self.session.outcome(self, delivery)

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        if self.detached:
            return
        self.transactions.give_up(self)
        self.advance(Step.DETACH)
        self.session.after_round_trip(self._gone, closed)


def _good(result: Any) -> bool:
    return isinstance(result, XaResult) and result.status in (XA_OK, XA_READ_ONLY)


def _rolled_back(result: Any) -> Rejected:
    status = result.status if isinstance(result, XaResult) else None
    word = XA_STATES[status] if status is not None and status < len(XA_STATES) else "no result"
    return rejected(ROLLED_BACK, f"the server's answer is: {word}")
