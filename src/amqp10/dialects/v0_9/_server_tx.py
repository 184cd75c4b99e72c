"""A server's transactions: the class tx, said to the owner as AMQP 1.0 says it, to a coordinator (§4).

A channel that selected transactions is always in one: it is declared at once, and anew whenever it was discharged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...engine import DeliveriesReceived, IncomingDelivery, LinkTerms, OutgoingDelivery, ReceiverLink
from ...errors import LocalProtocolError
from ...messaging import (
    AmqpValue,
    Coordinator,
    Declare,
    Declared,
    DeliveryState,
    Discharge,
    Error,
    Message,
    Rejected,
    Source,
)
from ._codes import Fault
from ._method import Method
from ._methods import TxCommit, TxCommitOk, TxRollbackOk, TxSelect, TxSelectOk
from ._server_link import ServerLink

if TYPE_CHECKING:
    from ...engine import Link
    from ._server_session import ServerSession


class ServerTransactions:
    """Those of one channel.

    Attributes:
        selected: the channel is transactional.
        txn_id: of the transaction that work is part of; None without one.
        acked: deliveries that were settled in it.
        at_commit: what is to be said before the answer to its commit.
    """

    def __init__(self, session: ServerSession) -> None:
        self.session = session
        self.selected = False
        self.txn_id: bytes | None = None
        self.acked: list[OutgoingDelivery] = []
        self.at_commit: list[Callable[[], None]] = []
        self._link: CoordinatorLink | None = None
        self._ending: Method | None = None  # what the end of the present one was asked with

    def links(self) -> list[Link]:
        return [] if self._link is None else [self._link]

    def clear(self) -> None:
        self._link = self.txn_id = None

    def receive(self, method: Method) -> None:
        """tx.select, tx.commit or tx.rollback."""
        session = self.session
        if isinstance(method, TxSelect):
            if session.confirming:
                raise Fault(406, "cannot switch from confirm to tx mode", method.code, soft=True)
            if self.selected:
                session.write(TxSelectOk())
                return
            self.selected = True
            self._ending = method
            self._link = CoordinatorLink(self)
            session.hold(self)
            self._link.announce()
            return
        if not self.selected or self._link is None or self.txn_id is None:
            raise Fault(406, "channel is not transactional", method.code, soft=True)
        self._ending = method
        session.hold(self)
        self._link.say(Discharge(self.txn_id, not isinstance(method, TxCommit)))

    def told(self, state: DeliveryState | None) -> None:
        """The owner has declared a transaction, or discharged it."""
        session, ending = self.session, self._ending
        if isinstance(state, Declared):
            self.txn_id = state.txn_id
            if isinstance(ending, TxSelect):
                session.write(TxSelectOk())
            self._ending = None
            # Not at once: what was said in the transaction has to be acted on before its end is asked for.
            session.engine.later(lambda: session.release(self))
            return
        error = state.error if isinstance(state, Rejected) else None
        acked, self.acked = self.acked, []
        at_commit, self.at_commit = self.at_commit, []
        self.txn_id = None
        if error is not None and ending is not None:
            session.consumers.give_back(acked)
            session.refuse_method(Error("amqp:precondition-failed", error.description), ending)
            return
        if isinstance(ending, TxCommit):
            for say in at_commit:
                say()
            session.consumers.committed(acked)
            session.write(TxCommitOk())
        else:
            session.consumers.give_back(acked)
            session.write(TxRollbackOk())
        if self._link is not None:
            self._link.say(Declare())


class CoordinatorLink(ServerLink, ReceiverLink):
    """What tells the owner of transactions. See `ReceiverLink` for the contract."""

    is_sender = False

    def __init__(self, transactions: ServerTransactions) -> None:
        session = transactions.session
        super().__init__(session, LinkTerms(f"tx-{session.number}", Source(), Coordinator(), on_demand=False))
        self.delivery_type = IncomingDelivery
        self.credit = 0
        self.available = 0
        self.incoming: deque[IncomingDelivery] = deque()
        self.unsettled: dict[bytes, IncomingDelivery] = {}
        self.partial_state: DeliveryState | None = None
        self.streaming = False
        self._transactions = transactions
        self._number = 0

    def begin(self) -> None:
        self.session.release(self)
        self.say(Declare())

    def say(self, what: Declare | Discharge) -> None:
        """Tell the owner."""
        self._number += 1
        tag = self._number.to_bytes(8, "big")
        delivery = self.delivery_type(self, self._number, tag, Message(AmqpValue(what)).encode(), False)
        self.unsettled[tag] = delivery
        self.incoming.append(delivery)
        self.engine.emit(DeliveriesReceived(self))

    def flow(self, credit: int, *, drain: bool = False, echo: bool = False, properties: Any = None) -> None:
        self.credit = credit

    def settle(self, delivery: IncomingDelivery, state: DeliveryState | None, *, settled: bool | None = None) -> None:
        if not delivery.local_settled:
            delivery.local_settled = True
            delivery.state = state
            self.unsettled.pop(delivery.tag, None)
            self._transactions.told(state)

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        if self.attached:
            self.session.end(error)

    def read(self, delivery: IncomingDelivery) -> bytes | None:
        raise LocalProtocolError("the link does not stream")

    def discard(self, delivery: IncomingDelivery) -> None:
        raise LocalProtocolError("the link does not stream")
