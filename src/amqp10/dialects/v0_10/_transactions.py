"""The client's transactions: the coordinator that the seam asks for, played here on dtx (0-10 §10.4).

What is sent and settled in a transaction is kept until it is to be committed, then done in one branch of a distributed
transaction, `dtx.start` to `dtx.end`: whatever else happens on the session is no part of it. If the server rejected
nothing, the branch is committed in one phase.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ...engine import CreditChanged, LinkTerms, OutgoingDelivery, SenderLink
from ...errors import DecodeError, LocalProtocolError
from ...messaging import ACCEPTED, RELEASED, Coordinator, Declare, Declared, Discharge, Error, Message, Rejected, Undone
from ...types import as_composite
from ._codes import outcome_of
from ._commands import ExecutionSync
from ._ledger import CommandOwner
from ._link import LinkEndpoint
from ._topology import DtxCommit, DtxEnd, DtxRollback, DtxSelect, DtxSetTimeout, DtxStart, XaResult, Xid

if TYPE_CHECKING:
    from ...messaging import DeliveryState
    from ._client_session import ClientSession
    from ._conversation import Talk
    from ._ledger import Sent

FORMAT: Final = 0x616D7170
"""The format of our xids: "amqp"."""
TIMEOUT: Final = 60
"""Seconds after which a server ends a branch whose client is gone, and ..."""
SLOWEST: Final = 100_000
"""... one more for so many octets that are sent in it."""
XA_OK: Final = 0
XA_READ_ONLY: Final = 7
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


class Branch(CommandOwner):
    """One transaction.

    Attributes:
        id: its name.
        failure: why it can not be committed.
        size: octets of what is sent in it.
        discharge: asks for its commit, once that is so.
        committing: the server was asked to commit it.
    """

    def __init__(self, number: bytes) -> None:
        self.id = number
        self.xid = Xid(FORMAT, secrets.token_bytes(16), number)
        self.failure: Undone | None = None
        self.size = 0
        self.discharge: OutgoingDelivery | None = None
        self.committing = False
        self._work: list[Callable[[], None]] = []
        self._undo: list[Callable[[], None]] = []

    def add(self, work: Callable[[], None], undo: Callable[[], None] | None = None) -> None:
        """Something to be done in it; `undo` is for when that is never done."""
        self._work.append(work)
        if undo is not None:
            self._undo.append(undo)

    def undo(self) -> None:
        """It is rolled back before the server heard of it."""
        for undo in self._undo:
            undo()

    def do(self) -> None:
        """Do it all."""
        for work in self._work:
            work()

    def decided(self, state: DeliveryState) -> None:
        """How it ended, if nobody was told so far."""
        if self.discharge is not None and self.discharge.remote_state is None:
            self.discharge.remote_state = state
            self.discharge.remote_settled = True

    # As the owner of its transfers

    def rejected(self, sent: Sent, code: int, text: str | None) -> None:
        """The server rejected a message of it."""
        outcome = outcome_of(code, text)
        why = f"a message of it was rejected: {text or code}"
        self.failure = Undone(Error("amqp:transaction:rollback", why, {"reply-code": code}), outcome)

    def released(self, sent: Sent) -> None:
        """The server gave a message of it back."""
        self.failure = Undone(Error("amqp:transaction:rollback", "a message of it was released"), RELEASED)


class _Ended(CommandOwner):
    """What the server gave for the end of a branch."""

    given: Any = None

    def result(self, sent: Sent, value: Any) -> None:
        """It is looked at when all is completed."""
        self.given = value


class Transactions:
    """Those of a session.

    Attributes:
        selected: the session is ready for branches.
        started: those that the server has, and has not ended.
        witness: a branch without work, that the server has as long as it knows what it did; None where a
            server rolls back what a session leaves.
    """

    def __init__(self) -> None:
        self._branches: dict[bytes, Branch] = {}
        self._count = 0
        self.selected = False
        self.started: dict[Branch, None] = {}
        self.witness: Xid | None = None

    def declare(self) -> Branch:
        """A new one."""
        self._count += 1
        branch = Branch(self._count.to_bytes(4, "big"))
        self._branches[branch.id] = branch
        return branch

    def branch(self, number: bytes) -> Branch:
        """The one with that name.

        Raises:
            LocalProtocolError: there is none.
        """
        try:
            return self._branches[number]
        except KeyError:
            raise LocalProtocolError("there is no such transaction") from None

    def end(self, number: bytes) -> Branch | None:
        """It is over."""
        return self._branches.pop(number, None)

    def leave(self) -> list[Xid]:
        """The session ends: what is to be rolled back before."""
        witness, self.witness = self.witness, None
        return [each.xid for each in self.started if not each.committing] + [witness] if witness is not None else []


class CoordinatorLink(LinkEndpoint, SenderLink):
    """The sending link to a coordinator; see `SenderLink`. What is sent on it never leaves this side as it is."""

    session: ClientSession
    is_sender = True
    drain = False
    frame_room = 0

    def __init__(self, session: ClientSession, terms: LinkTerms) -> None:
        super().__init__(session, terms.name)
        self.terms = terms
        self.unsettled: dict[bytes, OutgoingDelivery] = {}
        self.auto_settle = True
        self.delivery_type = OutgoingDelivery
        self._next_tag = 0

    def begin(self) -> None:
        """Make the session ready."""
        self.session.converse(self._select(), self._ready, self.turn_down)

    def _select(self) -> Talk:
        if self.session.transactions.selected:
            yield ExecutionSync()
            return
        yield DtxSelect()
        self.session.transactions.selected = True
        if self.session.to_qpid:
            self.session.transactions.witness = witness = Xid(FORMAT, secrets.token_bytes(16), b"witness")
            self.session.invoke(DtxStart(witness))
            yield DtxEnd(witness)

    def _ready(self, _: object) -> None:
        assert self.terms is not None
        self.stand(LinkTerms(self._name, self.terms.source, Coordinator(("amqp:local-transactions",))))
        if self.attached:
            self.session.engine.emit(CreditChanged(self))

    @property
    def credit(self) -> int:  # type: ignore[override]
        return 100 if self.attached else 0

    def send(
        self,
        payload: bytes,
        *,
        settled: bool = False,
        tag: bytes | None = None,
        message_format: int = 0,
        state: DeliveryState | None = None,
        batchable: bool = False,
        more: bool = False,
    ) -> OutgoingDelivery:
        if not self.attached or settled or more:
            raise LocalProtocolError("the coordinator takes whole unsettled messages while it is attached")
        try:
            asked = as_composite(Message.decode(payload).body)
        except DecodeError as error:
            raise LocalProtocolError(f"no message to a coordinator: {error}") from error
        if not isinstance(asked, Declare | Discharge):
            raise LocalProtocolError("a coordinator is asked to declare and to discharge, and nothing else")
        self._next_tag += 1
        delivery = self.delivery_type(self, self._next_tag.to_bytes(8, "big"), payload, False, 0)
        self.unsettled[delivery.tag] = delivery
        delivery.on_wire = True
        if isinstance(asked, Declare):
            self.session.soon(self._declare, delivery)
        else:
            self._discharge(delivery, asked)
        return delivery

    def _declare(self, delivery: OutgoingDelivery) -> None:
        self._tell(delivery, Declared(self.session.transactions.declare().id))

    def _discharge(self, delivery: OutgoingDelivery, asked: Discharge) -> None:
        branch = self.session.transactions.end(asked.txn_id)
        if branch is None:
            unknown = Rejected(Error("amqp:transaction:unknown-id", "there is no such transaction"))
            self.session.soon(self._tell, delivery, unknown)
        elif asked.fail:
            branch.undo()
            self.session.soon(self._tell, delivery, ACCEPTED)
        else:
            branch.discharge = delivery
            self.session.converse(
                self._commit(branch),
                lambda state: self._tell(delivery, state),
                lambda error: self._tell(delivery, Rejected(error)),
            )

    def _commit(self, branch: Branch) -> Talk:
        # All at once: what the session is asked to do besides must not get in between.
        transactions = self.session.transactions
        self.session.flush_dispositions()
        transactions.started[branch] = None
        self.session.invoke(DtxStart(branch.xid))
        if transactions.witness is not None:
            self.session.invoke(DtxSetTimeout(branch.xid, TIMEOUT + branch.size // SLOWEST))
        branch.do()
        self.session.flush_dispositions()
        end = _Ended()
        self.session.invoke(DtxEnd(branch.xid), end)
        yield ExecutionSync()  # by then each message of it is taken, or was rejected
        if branch.failure is not None or not _good(end.given):
            yield DtxRollback(branch.xid)
            del transactions.started[branch]
            return branch.failure if branch.failure is not None else _rolled_back(end.given)
        branch.committing = True
        result = yield DtxCommit(branch.xid, one_phase=True)
        del transactions.started[branch]
        return ACCEPTED if _good(result) else _rolled_back(result)

    def _tell(self, delivery: OutgoingDelivery, state: DeliveryState) -> None:
        delivery.remote_state = state
        delivery.remote_settled = delivery.local_settled = True
        self.unsettled.pop(delivery.tag, None)
        self.session.outcome(self, delivery)

    # What coordinators have no use for

    def drained(self, available: int = 0) -> None:
        """Nobody drains it."""

    def offer(self, available: int) -> None:
        """Nobody asks."""

    def settle(self, delivery: OutgoingDelivery, state: DeliveryState | None = None) -> None:
        delivery.local_settled = True
        self.unsettled.pop(delivery.tag, None)

    def send_more(self, delivery: OutgoingDelivery, payload: bytes, *, more: bool = False) -> None:
        raise LocalProtocolError("AMQP 0-10 sends no message in parts")

    def abort(self, delivery: OutgoingDelivery) -> None:
        raise LocalProtocolError("only a delivery that is not whole on the wire can be aborted")

    def suspended(self) -> list[Any]:
        return []

    def resend(self, delivery: OutgoingDelivery) -> None:
        raise LocalProtocolError("nothing is sent to a coordinator again")

    def forget(self, delivery: OutgoingDelivery) -> None:
        self.settle(delivery)

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        if self.detach_sent or self._ended:
            return
        self.detach_sent = True
        self.attached = False
        self.session.soon(self._gone, closed)

    def _gone(self, closed: bool) -> None:
        self.end(closed, None)


def _good(result: Any) -> bool:
    return isinstance(result, XaResult) and result.status in (XA_OK, XA_READ_ONLY)


def _rolled_back(result: Any) -> Rejected:
    status = result.status if isinstance(result, XaResult) else None
    word = XA_STATES[status] if status is not None and status < len(XA_STATES) else "no result"
    return Rejected(Error("amqp:transaction:rollback", f"the server's answer is: {word}"))
