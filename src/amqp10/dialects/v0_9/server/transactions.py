"""A server's transactions: the class tx, passed on to the owner as AMQP 1.0 has it, through a coordinator (§4).

A channel that selected transactions is always in one: it is declared at once, and anew whenever it was discharged.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ....engine import IncomingDelivery, LinkTerms
from ....messaging import (
    Coordinator,
    Declare,
    Declared,
    DeliveryState,
    Discharge,
    Error,
    Rejected,
    Source,
)
from ..._kit.coordinators import RelayCoordinator
from ..codes import Fault
from ..wire.method_table import Method
from ..wire.methods import TxCommit, TxCommitOk, TxRollbackOk, TxSelect, TxSelectOk
from .link import ServerLink
from .parents import TransactionWork

if TYPE_CHECKING:
    from .parents import ServerLinkSession
    from .sender import Consumers


class ServerTransactions:
    """The transactions of one channel.

    Attributes:
        selected: whether the channel is transactional.
    """

    def __init__(self, session: ServerLinkSession, consumers: Consumers) -> None:
        self.session = session
        self.selected: bool = False
        self._consumers = consumers
        self._link: ServerCoordinator | None = None
        self._ending: Method | None = None  # the method that waits for the owner's answer

    def links(self) -> list[ServerLink]:
        return [] if self._link is None else [self._link]

    def clear(self) -> None:
        self._link = self.session.work.txn_id = None

    def receive(self, method: Method) -> None:
        """Carry out tx.select, tx.commit or tx.rollback."""
        session = self.session
        if isinstance(method, TxSelect):
            if session.confirming:
                raise Fault(406, "cannot switch from confirm to tx mode", method.code, soft=True)
            if self.selected:
                session.channel.write(TxSelectOk())
                return
            self.selected = True
            self._ending = method
            self._link = ServerCoordinator(self)
            session.channel.hold(self)
            self._link.announce()
            return
        if not self.selected or self._link is None or session.work.txn_id is None:
            raise Fault(406, "channel is not transactional", method.code, soft=True)
        self._ending = method
        session.channel.hold(self)
        self._link.say(Discharge(session.work.txn_id, not isinstance(method, TxCommit)))

    def on_outcome(self, state: DeliveryState | None) -> None:
        """Act on the owner's answer: the transaction is declared, or discharged."""
        session, ending = self.session, self._ending
        if isinstance(state, Declared):
            session.work.txn_id = state.txn_id
            if isinstance(ending, TxSelect):
                session.channel.write(TxSelectOk())
            self._ending = None
            # Not at once: what was said in the transaction has to be acted on before its end is asked for.
            session.engine.later(lambda: session.channel.release(self))
            return
        error = state.error if isinstance(state, Rejected) else None
        done, session.work = session.work, TransactionWork()
        if error is not None and ending is not None:
            self._consumers.give_back(done.acked)
            session.refuse_method(Error("amqp:precondition-failed", error.description), ending)
            return
        if isinstance(ending, TxCommit):
            for say in done.at_commit:
                say()
            self._consumers.committed(done.acked)
            session.channel.write(TxCommitOk())
        else:
            self._consumers.give_back(done.acked)
            session.channel.write(TxRollbackOk())
        if self._link is not None:
            self._link.say(Declare())


class ServerCoordinator(ServerLink, RelayCoordinator):
    """Tells the owner of transactions. See `ReceiverLink` for the contract."""

    def __init__(self, transactions: ServerTransactions) -> None:
        session = transactions.session
        super().__init__(session, LinkTerms(f"tx-{session.channel.number}", Source(), Coordinator(), on_demand=False))
        self.incoming: deque[IncomingDelivery] = deque()
        self.unsettled: dict[bytes, IncomingDelivery] = {}
        self._transactions = transactions

    def begin(self) -> None:
        self.session.channel.release(self)
        self.say(Declare())

    def say(self, what: Declare | Discharge) -> None:
        """Ask the owner to declare or discharge a transaction."""
        self.hand_out(self.delivery_of(what))

    def answered(self, delivery: IncomingDelivery, state: DeliveryState | None) -> None:
        self._transactions.on_outcome(state)

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        if self.attached:
            self.session.end(error)
