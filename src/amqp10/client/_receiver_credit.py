"""Credit: how much a peer may send, granted as it is taken or by hand, drained, a transaction's (§2.6.7, §4.4.3)."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from ..engine import LinkTerms, ReceiverLink
from ..errors import LocalProtocolError, Unsupported
from ..messaging import TXN_ID, TransactionalState
from ._delivery import AcquiredDelivery
from ._endpoint import busy
from ._link import Link

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..engine import IncomingDelivery
    from ._connection import Connection
    from ._session import Session
    from ._transaction import Transaction

MOST_CREDIT = 0xFFFF_FFFF
# Seconds without an answer to a drain after which it is asked for again.
DRAIN_AGAIN = 0.5


class CreditingReceiver(Link):
    """The part of a receiver that grants credit and takes it back."""

    def __init__(self, connection: Connection, session: Session | None, terms: LinkTerms, credit: int) -> None:
        super().__init__(connection, session, terms)
        if not 0 <= operator.index(credit) <= MOST_CREDIT:
            raise ValueError(f"credit is 0 to {MOST_CREDIT}, not {credit}")
        self._link: ReceiverLink | None = None
        self._incoming: deque[Any] = deque()
        self._automatic = credit
        self._refill_at = max(1, credit // 2) if credit else 0xFFFF_FFFF
        self._taken = 0  # deliveries handed out since the credit was set
        self._drain_running = False
        self._drained = False
        self._given_back = 0  # credit, in this drain
        self._used_up = False  # the last drain ended by deliveries, without an answer
        self._acquirer: Transaction | None = None  # in which messages are acquired
        self._flow_properties: dict[Any, Any] | None = None
        self._granted = 0  # while the link is lost: what it had, and what was added
        self._spent_again: set[Any] = set()  # resumed, with a credit that was theirs before: they take a second one
        self._wake: Callable[[], None] = connection._wake

    @property
    @abstractmethod
    def buffered(self) -> int:
        """How many deliveries are here and wait to be received."""

    @property
    def credit(self) -> int:
        """How many deliveries the peer may still send."""
        return self._link.credit if self._link is not None else 0

    def _refill(self) -> None:
        """Grant what was taken. What is on its way counts as granted still, a delivery half here among it."""
        link = self._link
        # In one pass with what is told just now the peer may have detached already.
        if link is not None and self.open and link.attached and not self._drain_running:
            credit = min(link.credit + self._taken, self._automatic - self.buffered + len(self._spent_again))
            self._taken = 0
            link.flow(max(0, credit))
            self._wake()

    def add_credit(self, credit: int, *, transaction: Transaction | None = None) -> None:
        """Let the peer send `credit` more deliveries (§2.6.7). For receivers with `credit=0`; never blocks.

        Args:
            transaction: what comes on all the credit that there is now is acquired as part of this (§4.4.3), and so are
                its outcomes, in whatever way they are given. If it is rolled back, the peer has all of it again. At
                its end the credit that is left is drained; what came and has no outcome by then is settled as usual.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, anyio.ClosedResourceError: the link is over.
            LocalProtocolError: the credit of this receiver is automatic; the transaction is over, or cannot cover this
                link; or the receiver acquires in another transaction, or in one where none is given.
            Unsupported: the peer is known not to acquire in transactions; or the receiver streams.
            ValueError: `credit` is negative.
        """
        if credit < 0:
            raise ValueError("credit is added, never taken back; drain() takes all of it back")
        link = self._link
        if link is None or not (self.open or self._interrupted) or self._closed:
            raise self._gone()
        if self._automatic:
            raise LocalProtocolError("the credit of this receiver is automatic; manual credit needs credit=0")
        if self._interrupted and transaction is None:
            self._granted += credit
            return
        if transaction is not self._acquirer:
            self._acquire_in(transaction)
        self._flow(link.credit + credit)

    def _flow(self, credit: int, *, drain: bool = False) -> None:
        """Say the credit, and in which transaction messages are acquired on it."""
        assert self._link is not None
        self._link.flow(credit, drain=drain, properties=self._flow_properties)
        if self._acquirer is None:
            self._flow_properties = None
        self._wake()

    def _acquire_in(self, transaction: Transaction | None) -> None:
        assert self._link is not None
        if transaction is None or self._acquirer is not None:
            raise LocalProtocolError(
                "the receiver acquires in a transaction: all its credit is part of that until it ends"
            )
        if self._link.streaming:
            raise Unsupported("a streaming receiver acquires in no transaction")
        self._flow_properties = {TXN_ID: transaction._acquire(self)}
        self._acquirer = transaction
        self._link.delivery_type = AcquiredDelivery

    async def _stop_acquiring(self) -> None:
        """Before the end of the transaction: nothing more is to come that might be in it or not (§4.4.3)."""
        if self._drain_running:
            await self._until(lambda: self._drained or self._over)
        elif self.open:
            await self._drain()

    def _acquired_in(self, transaction: Transaction) -> None:
        """The transaction is over. After a rollback, what was acquired in it is the peer's again."""
        link = self._link
        assert link is not None
        self._acquirer = None
        # The peer forgets the id with its transaction, but for those that do not: the next flow says that it is none.
        self._flow_properties = {TXN_ID: None}
        if transaction.state != "rolled-back":
            return
        state = TransactionalState(transaction._posted.txn_id)

        def acquired(delivery: IncomingDelivery) -> bool:
            theirs = delivery.remote_state
            return isinstance(theirs, TransactionalState) and theirs.txn_id == state.txn_id

        unsettled = list(link.unsettled.values())  # which brings what waits
        kept = [delivery for delivery in self._incoming if not acquired(delivery)]
        self._incoming.clear()
        self._incoming.extend(kept)
        if not self._over and link.attached:
            for delivery in filter(acquired, unsettled):
                link.settle(delivery, None, settled=True)
            self._wake()

    async def drain(self) -> None:
        """Ask the peer to use the credit now or give it back; return when it has (§2.6.7).

        Afterwards `credit` is 0, all that the peer had for it is here (`buffered`), and the link is usable: manual
        credit is added again, automatic credit is topped up as soon as deliveries are taken or waited for.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, anyio.ClosedResourceError: the link is over.
            anyio.BusyResourceError: another task is draining this receiver.
            Unsupported: the dialect has no drain.

        Cancelling: the credit that is left is the peer's again, as before.
        """
        if self._drain_running:
            raise busy("draining this receiver")
        self._require("drain", "drain")
        await anyio.lowlevel.checkpoint()
        if self._interrupted and not self._closed:
            self._granted = 0
            return
        if not self.open:
            raise self._gone()
        try:
            await self._drain()
        except BaseException:
            if self._link is not None and self.open and self._link.attached:
                if not self._drained:
                    self._flow(self._link.credit)
                self._grant_again(self._given_back)
            raise
        if not self._drained and not self.open:
            raise self._gone()
        if self.open:
            self._taken = max(0, self._automatic - self.buffered)

    async def _drain(self) -> None:
        link = self._link
        if link is None or not link.attached or link.credit <= 0:
            self._drained = True
            return
        self._drain_running, self._given_back = True, 0
        try:
            asked, here = link.credit, self.buffered
            await self._use_up(asked)
            if self._used_up and self.open and self.buffered == here:
                # The drain before needed no answer, for deliveries used up the credit. Artemis may give one all the
                # same, so late that it gives this one's credit back.
                await self._use_up(asked)
            self._used_up = self.buffered - here >= asked
        finally:
            self._drain_running = False

    async def _use_up(self, credit: int) -> None:
        self._drained = False
        while not self._drained and not self._over:
            self._flow(credit, drain=True)
            # Artemis overlooks a drain while it ends the one before: after a while it is asked again.
            with anyio.move_on_after(DRAIN_AGAIN):
                await self._until(lambda: self._drained or self._over)
            credit = self.credit

    def _on_flow(self, drained: bool, wasted: int) -> None:
        """The peer's flow for this link."""
        if self._drain_running:
            self._given_back += wasted
        elif wasted:
            self._grant_again(wasted)
        if drained:
            self._drained = True
            self._changed()

    def _grant_again(self, wasted: int) -> None:
        """So much credit is gone for nothing, for deliveries that were aborted for instance: others may come."""
        link = self._link
        if self._automatic:
            self._taken += wasted
            if self._taken >= self._refill_at:
                self._refill()
        elif link is None or not link.attached:
            self._granted += wasted
        elif self.open and not self._drain_running:
            self._flow(link.credit + wasted)
