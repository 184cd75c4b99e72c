"""Receiving: what was prefetched, and the credit that says how much may be (§2.6.7).

The path of a message: the engine appends a `Delivery` to the link's deque, `receive` takes it from there. No task,
event, lock or checkpoint lies between as long as there is something to take.
"""

from __future__ import annotations

import operator
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import anyio
import anyio.lowlevel

from ..engine import LinkTerms, ReceiverLink
from ..errors import AmqpError, FilterNotApplied, LocalProtocolError, StaleDelivery, Unsupported
from ..messaging import RELEASED, TXN_ID, TransactionalState, outlives_link, unapplied_filters
from ..types import Symbol
from ._delivery import AcquiredDelivery, Delivery, Stale, is_stale
from ._link import Link

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

    from ..engine import IncomingDelivery
    from ..messaging import DeliveryState
    from ._connection import Connection
    from ._session import Session
    from ._transaction import Transaction

MOST_CREDIT = 0xFFFF_FFFF
# How many deliveries `receive` hands out in a row before it lets other tasks run. benchmarks/run.py, "receive".
BURST = 64
# Seconds without an answer to a drain after which it is asked for again.
DRAIN_AGAIN = 0.5
# The link property by which a receiver asks to be the only one, and a broker that has that says that it is.
EXCLUSIVE = Symbol("exclusive")


class Receiver(Link):
    """The receiving end of a link; made by `connection.receiver()`, attached by `async with`.

    `async for delivery in receiver` goes on until the link ends, and raises why.

    Credit is automatic with `credit` > 0: what the peer may send and what waits here is never more than `credit`
    deliveries together, and it is topped up when half of that was taken by `receive`; an application that lags gets
    no more. With `credit=0` it is manual: `add_credit`, `drain`.

    On leaving, the credit is drained and whatever was not taken is released, so that nothing stays locked at the
    peer. Deliveries that were taken and not settled are the peer's to send again.
    """

    _kind: ClassVar[str] = "receiver"

    def __init__(
        self, connection: Connection, session: Session | None, terms: LinkTerms, credit: int, *, require_filters: bool
    ) -> None:
        super().__init__(connection, session, terms)
        if not 0 <= operator.index(credit) <= MOST_CREDIT:
            raise ValueError(f"credit is 0 to {MOST_CREDIT}, not {credit}")
        self._require_filters = require_filters
        self._unfit: AmqpError | None = None  # what the peer's answer lacks
        self._link: ReceiverLink | None = None
        self._incoming: deque[Any] = deque()
        self._automatic = credit
        self._refill_at = max(1, credit // 2) if credit else 0xFFFF_FFFF
        self._taken = 0  # deliveries handed out since the credit was set
        self._run = 0  # deliveries handed out since other tasks could run
        self._collected: list[Any] = []  # what `receive_batch` has taken aside
        self._waiter: anyio.Event | None = None  # also the mark that a task is in receive
        self._drain_running = False
        self._drained = False
        self._given_back = 0  # credit, in this drain
        self._used_up = False  # the last drain ended by deliveries, without an answer
        self._acquirer: Transaction | None = None  # in which messages are acquired
        self._flow_properties: dict[Any, Any] | None = None
        # Of the link that was lost: those of its deliveries that nobody took, and the credit that was out.
        self._hidden: dict[Any, None] = {}
        # Of the link that is restored, what is resumed: what takes the credit it had before, and what a second one.
        self._again: set[Any] = set()
        self._spent_again: set[Any] = set()
        self._granted = 0
        self._wake: Callable[[], None] = connection._wake

    # Attaching

    async def __aenter__(self) -> Self:
        """Attach the link.

        Raises:
            LinkDetached: the peer refused the link; `condition` and `description` say why (§2.6.3).
            FilterNotApplied: the peer does not apply a filter of the source; no credit was given, and the link is
                detached again.
            SessionEnded, ConnectionClosed, ConnectionLost: what the link needs is gone.
            Unsupported: the dialect cannot do what the link asks for; or the peer, as its answer shows: keep the
                subscription, share it, let this receiver be the only one, browse.
            LocalProtocolError: the peer takes no further link, or the name is in use.

        Cancelling: the link is detached as soon as the peer's answer to the attach comes; no credit was given, so no
            message is concerned.
        """
        await self._attach()
        if self._unfit is not None:
            await self._leave(closed=not self._lasting())
            raise self._unfit
        return self

    def _require_capabilities(self) -> None:
        source = self._terms.source
        if source is not None and source.dynamic:
            self._require("dynamic", "dynamic nodes")
        if source is not None and source.filter:
            self._require("filters", "filters")
        if source is not None and source.distribution_mode == "copy":
            self._require("browse", "browsing")
        if outlives_link(source):
            self._require("durable-subscriptions", "sources that outlive their links")
        if self._terms.receiver_settle_mode == "second":
            self._require("settle-second", "receiver settle mode 'second'")

    def _move(self, connection: Connection) -> None:
        super()._move(connection)
        self._wake = connection._wake

    def _attach_to(self, session: Session) -> ReceiverLink:
        resuming = self._pending if self._resuming else None
        self._link = link = session._in_engine.attach_receiver(self._terms, resuming=resuming)
        if resuming is not None and not self._standing:
            self._pending = []  # the link's now
        link.delivery_type = Delivery
        self._wake = self.connection._waker
        link.refills = self._automatic > 0
        # The same at every attachment: `receive` holds on to it.
        link.incoming = self._incoming
        return link

    def _on_attached(self) -> None:
        first = not self._standing
        super()._on_attached()
        if self.open and first:
            self._unfit = self._examine()
            if self._automatic and self._unfit is None:
                self._note_resumed()
                self._taken = self._automatic + len(self._spent_again)
                self._refill()

    def _examine(self) -> AmqpError | None:
        """What the peer's answer lacks, for which the link is given up before any credit."""
        asked, answered = self._terms.source, self.source
        if self._require_filters and asked is not None and asked.filter:
            unapplied = unapplied_filters(asked.filter, answered.filter if answered is not None else None)
            if unapplied:
                names = ", ".join(str(name) for name in unapplied)
                return FilterNotApplied(f"the peer does not apply the filters asked for: {names}", unapplied)
        if self._terms.properties.get(EXCLUSIVE) and not self.remote.properties.get(EXCLUSIVE):
            advice = self.connection.profile.hints.get("no exclusive", "it did not confirm the property 'exclusive'")
            return Unsupported(f"the peer has no consumers that are exclusive by their own wish: {advice}")
        return None

    @property
    def _engine_link(self) -> ReceiverLink | None:
        return self._link

    # Facts

    @property
    def address(self) -> str | None:
        """The address of the peer's source; for a dynamic receiver, of the node that was made for it (§3.5.3)."""
        source = self.remote.source
        return None if source is None else source.address

    @property
    def credit(self) -> int:
        """How many deliveries the peer may still send."""
        return self._link.credit if self._link is not None else 0

    @property
    def buffered(self) -> int:
        """How many deliveries are here and wait to be received."""
        return len(self._incoming)

    @property
    def available(self) -> int:
        """How many messages the peer said to have waiting; 0 when it said nothing."""
        return self._link.available if self._link is not None else 0

    @property
    def unsettled(self) -> int:
        """How many deliveries, received or still buffered here, are not settled at both ends."""
        return len(self._link.unsettled) if self._link is not None else 0

    # Receiving

    async def receive(self) -> Delivery:
        """The next delivery, in order of arrival.

        When deliveries wait here, other tasks get to run once every 64 of them only. After the end of the link the
        deliveries that are here still come out, then the reason is raised.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link is over, and why.
            TransactionRolledBack: the credit was a transaction's, and the link was lost.
            anyio.BusyResourceError: another task is receiving from this receiver.
            anyio.ClosedResourceError: the receiver was closed here.

        Cancelling: no delivery is lost: one that came stays for the next call.
        """
        if self._waiter is not None:
            raise anyio.BusyResourceError("receiving from this receiver")
        run = self._run + 1
        incoming = self._incoming
        if run > BURST or not incoming:
            await self._wait()
            run = 1
        self._run = run
        delivery: Delivery = incoming.popleft()
        taken = self._taken + 1
        self._taken = taken
        if taken >= self._refill_at:
            self._refill()
        return delivery

    def __aiter__(self) -> AsyncIterator[Delivery]:
        return self

    __anext__ = receive

    async def receive_batch(self, size: int, *, max_wait: float | None = None) -> list[Delivery]:
        """Several deliveries at once, in order of arrival: 1 to `size` of them, [] only when `max_wait` passed.

        Args:
            size: the most to return. With automatic credit a batch is never larger than `credit`, for no more is sent
                before some were taken.
            max_wait: how long to collect, in seconds: return when the batch is full or this time has passed. None:
                wait for the first delivery and return it with those that are there by then.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link is over and nothing is left here.
            anyio.BusyResourceError: another task is receiving from this receiver.
            anyio.ClosedResourceError: the receiver was closed here.
            ValueError: `size` is not positive.

        Cancelling: no delivery is lost: those that came stay for the next call.
        """
        if size < 1:
            raise ValueError("a batch has room for one delivery at least")
        if self._waiter is not None:
            raise anyio.BusyResourceError("receiving from this receiver")
        incoming = self._incoming
        self._run += len(incoming)
        if max_wait is None:
            if self._run > BURST or not incoming:
                await self._wait()
        elif len(incoming) < size:
            with anyio.move_on_after(max_wait):
                await self._collect(size)
        elif self._run > BURST:
            await self._wait()
        batch: list[Delivery] = [incoming.popleft() for _ in range(min(size, len(incoming)))]
        self._taken += len(batch)
        if self._taken >= self._refill_at:
            self._refill()
        return batch

    async def _wait(self) -> None:
        """Until there is something to take; let others run in any case."""
        incoming = self._incoming
        self._run = 0
        try:
            if incoming:
                self._waiter = anyio.Event()
                await anyio.lowlevel.checkpoint()
            while not incoming:
                await self._next_arrival()
        finally:
            self._waiter = None

    async def _collect(self, size: int) -> None:
        """Until `size` deliveries are here, or no more can come.

        The engine tells of arrivals when the deque was empty, so what is here is held aside meanwhile.
        """
        incoming = self._incoming
        held = self._collected
        self._run = 0
        try:
            while True:
                held.extend(incoming)
                incoming.clear()
                if held and not self._closed and (len(held) >= size or not self.open or self.credit <= 0):
                    self._waiter = anyio.Event()
                    await anyio.lowlevel.checkpoint()
                    return
                await self._next_arrival()
        finally:
            self._waiter = None
            incoming.extendleft(reversed(held))
            held.clear()
            if self._closed:
                self._release_buffered()

    async def _next_arrival(self) -> None:
        """Wait for deliveries; raise if none can come any more."""
        if not self.open and (self._closed or not self._interrupted):
            raise self._gone()
        if self._acquirer is not None:
            self._acquirer._check_acquiring(self)
        if self._automatic and self.credit <= 0 and self._taken:
            self._refill()  # after a drain, for one: whoever waits here wants more
        self._waiter = waiter = anyio.Event()
        await waiter.wait()

    def _on_deliveries(self) -> None:
        """The engine has put something in the deque."""
        self._arrived()

    def _arrived(self) -> None:
        if self._closed:
            self._release_buffered()
        elif self._waiter is not None:
            self._waiter.set()

    # Credit

    def _refill(self) -> None:
        """Grant what was taken. What is on its way counts as granted still, a delivery half here among it."""
        link = self._link
        # In one pass with what is told just now the peer may have detached already.
        if link is not None and self.open and link.attached and not self._drain_running:
            credit = min(link.credit + self._taken, self._automatic - len(self._incoming) + len(self._spent_again))
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

        kept = [delivery for delivery in self._incoming if not acquired(delivery)]
        self._incoming.clear()
        self._incoming.extend(kept)
        if not self._over and link.attached:
            for delivery in [each for each in link.unsettled.values() if acquired(each)]:
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
            raise anyio.BusyResourceError("draining this receiver")
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
            self._taken = max(0, self._automatic - len(self._incoming))

    async def _drain(self) -> None:
        link = self._link
        if link is None or not link.attached or link.credit <= 0:
            self._drained = True
            return
        self._drain_running, self._given_back = True, 0
        try:
            asked, here = link.credit, len(self._incoming)
            await self._use_up(asked)
            if self._used_up and self.open and len(self._incoming) == here:
                # The drain before needed no answer, for deliveries used up the credit. Artemis may give one all the
                # same, so late that it gives this one's credit back.
                await self._use_up(asked)
            self._used_up = len(self._incoming) - here >= asked
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

    # Settlement by the sender

    def _on_settlements(self, deliveries: Sequence[IncomingDelivery]) -> None:
        if self._remembered is not None:
            self._remembered.settled(deliveries)
        wasted = sum(map(self._to_come, self._again.intersection(deliveries))) if self._again else 0
        for delivery in deliveries:
            if delivery.waiter is not None:
                delivery.waiter.set()
            self._hidden.pop(delivery, None)  # nobody has seen it, and the sender is done with it
        if self._again or self._spent_again:
            self._resumed(deliveries)
        if wasted:  # it resumed them only to be done with them
            self._grant_again(wasted)
        if self._change is not None:
            self._changed()

    # After a loss

    def _recalled(self) -> list[Delivery]:
        assert self._remembered is not None
        return self._remembered.received()

    def _interrupt(self, error: AmqpError | None) -> None:
        link, incoming = self._link, self._incoming
        assert link is not None
        if not self._drain_running:
            # But for what deliveries that were to be resumed would have used: they ask for it again.
            waiting = len(self._spent_again) + sum(map(self._to_come, self._again))
            self._granted += max(0, link.credit - waiting)
        # What was sent settled is ours. The rest is handed out when the peer has resumed it, else it comes again.
        known = set(map(id, self._pending))
        self._pending += [delivery for delivery in link.suspended() if id(delivery) not in known]
        resumable = set(map(id, self._pending))
        here = [*self._collected, *incoming]
        away = [delivery for delivery in here if not delivery.local_settled]
        self._hidden.update((delivery, None) for delivery in away if id(delivery) in resumable)
        self._granted += len([delivery for delivery in away if id(delivery) not in resumable])
        kept = [delivery for delivery in here if delivery.local_settled]
        self._collected.clear()
        incoming.clear()
        incoming.extend(kept)
        self._flow_properties = None
        self._drained = True  # there is no credit any more
        super()._interrupt(error)
        if not self._may_resume:
            self._resume_none()
        if self._acquirer is not None:
            self._granted = 0  # it was credit of a transaction that can only be rolled back
            if self._waiter is not None:
                self._waiter.set()
        if self._closed and not self._owing():
            self._end_for_good(error)

    def _resume_none(self) -> None:
        """What nobody took comes again, on a credit of its own."""
        pending = self._take_pending()
        self._granted += sum(map(self._to_come, pending))
        self._give_up(pending)

    def _end_for_good(self, error: AmqpError | None) -> None:
        super()._end_for_good(error)
        self._hidden.clear()
        self._pending.clear()

    def _on_restored(self) -> None:
        unfit = self._examine()
        if unfit is not None:  # another host perhaps, which has no such filter
            self._detach(closed=not self._lasting())
            self._end_for_good(unfit)
            return
        link = self._link
        assert link is not None
        if not link.attached:
            return  # and detached again, which is told next
        theirs = self.remote.unsettled if self._resuming else None
        if theirs is None:
            self._resume_none()
        else:
            self._resume_some(theirs)
        self._note_resumed()
        granted, self._granted = self._granted, 0
        if self._closed:  # only what was given an outcome is still to be settled
            granted = 0
        if self._automatic and not self._closed:
            self._taken = self._automatic + len(self._spent_again)
            self._refill()
        elif granted or self._spent_again:
            link.flow(granted + len(self._spent_again))
            self._wake()

    def _resume_some(self, theirs: Mapping[bytes, object]) -> None:
        """What nobody took, and the peer does not have any more, leaves its credit to another."""
        pending = self._take_pending()  # the link's now
        if not self.remote.incomplete_unsettled:
            self._granted += sum(delivery.tag not in theirs and self._to_come(delivery) for delivery in pending)

    def _note_resumed(self) -> None:
        """See which deliveries will take a credit again although they were handed out before."""
        link, theirs = self._link, self.remote.unsettled if self._resuming else None
        assert link is not None
        again = {delivery for tag, delivery in link.unsettled.items() if theirs and tag in theirs}
        self._again = {delivery for delivery in again if self._to_come(delivery)}
        self._spent_again = again - self._again
        if not self._automatic:
            self._granted += len(self._again)

    def _resumed(self, deliveries: Iterable[IncomingDelivery]) -> None:
        """These have taken their credit, or need none any more."""
        self._again.difference_update(deliveries)
        self._spent_again.difference_update(deliveries)

    def _to_come(self, delivery: IncomingDelivery) -> bool:
        """Whether it is still to be handed out when it is resumed: then it uses the credit that it has used before."""
        cut_off = self._link is not None and not self._link.streaming and hasattr(delivery, "stream")
        return cut_off or delivery in self._hidden

    def _on_unresumed(self, deliveries: Iterable[IncomingDelivery]) -> None:
        """The peer does not have these any more, or not for this link."""
        hidden = len(self._hidden)
        self._give_up(deliveries)
        dropped = hidden - len(self._hidden)
        if dropped and not self._automatic and self._link is not None and self.open:
            if self._link.attached:
                self._flow(self._link.credit + dropped)
            else:
                self._granted += dropped

    def _on_resumed(self, deliveries: Iterable[IncomingDelivery]) -> None:
        """These live on; those that nobody took are handed out now."""
        deliveries = list(deliveries)
        back = [delivery for delivery in deliveries if delivery in self._hidden]
        for delivery in back:
            del self._hidden[delivery]
        self._resumed(deliveries)
        for delivery in back:
            self._insert(delivery)
        if back:
            self._arrived()

    def _insert(self, delivery: Any) -> None:
        """Among what waits, before the newer ones that came in the same pass."""
        incoming, newer = self._incoming, []
        while incoming and incoming[-1].link is delivery.link and follows(incoming[-1], delivery):
            newer.append(incoming.pop())
        incoming.append(delivery)
        incoming.extend(reversed(newer))

    def _give_up(self, deliveries: Iterable[Any]) -> None:
        """Nothing can be told of these any more."""
        deliveries = list(deliveries)
        self._resumed(deliveries)
        if self._remembered is not None:
            self._remembered.given_up(deliveries)
        stale = Stale(self)
        for delivery in deliveries:
            self._hidden.pop(delivery, None)
            delivery.link = stale
            if delivery.waiter is not None:
                delivery.waiter.set()

    def _stale(self) -> StaleDelivery:
        error = StaleDelivery("the link that the delivery came on was lost since: the peer delivers the message again")
        error.__cause__ = self._loss
        return error

    def _settle_after_loss(self, delivery: Delivery, state: DeliveryState, error: LocalProtocolError) -> None:
        """The engine has no link to say it on."""
        if is_stale(delivery):
            recovery = self.connection._recovery
            if recovery is None or recovery.settings.on_stale == "raise":
                raise self._stale() from None
        elif self._interrupted and not self._closed and not isinstance(state, TransactionalState):
            delivery.state = state  # the attach tells it
        elif self.open:
            raise error
        else:
            raise self._gone() from None

    # Closing

    def _stop(self) -> None:
        if self._waiter is not None:
            self._waiter.set()
        link = self._link
        if link is not None and (self._over or self._closed):
            for delivery in link.unsettled.values():
                if delivery.waiter is not None:
                    delivery.waiter.set()

    def _owing(self) -> bool:
        """Outcomes that were given are told when the link is resumed; what nobody took the peer has back anyway."""
        return self._may_resume and has_outcome(self._pending)

    async def _finish(self) -> None:
        await self._until(lambda: self._over or not self._interrupted)
        self._release_buffered()
        capabilities = self.connection.capabilities
        # Where detaching gives back whatever was sent, nothing has to be fetched for that.
        if "drain" in capabilities and "detach-releases" not in capabilities and not self._drain_running:
            await self._drain()
        if self.receiver_settle_mode == "second":
            await self._until(lambda: self._over or not self._half_settled())

    def _half_settled(self) -> bool:
        """An outcome that was given here is still to be settled by the sender (§2.6.12)."""
        return self._link is not None and has_outcome(self._link.unsettled.values())

    def _wrap_up(self) -> None:
        self._release_buffered()
        link = self._link
        if link is not None and link.attached:
            for delivery in list(link.unsettled.values()):
                if isinstance(delivery.state, TransactionalState):
                    # The outcome outlives the link, but at Broker-J only when it is settled.
                    link.settle(delivery, delivery.state, settled=True)
                    self._wake()

    def _release_buffered(self) -> None:
        """Give back what nobody took. "Settled" in mode "second" too: this link will not hear the sender's word."""
        incoming, link = self._incoming, self._link
        while incoming:
            delivery = incoming.popleft()
            if link is not None and link.attached and not delivery.local_settled:
                released = RELEASED if self._acquirer is None else self._acquirer._given_back
                link.settle(delivery, released, settled=True)
                self._wake()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Drain, release what was prefetched, detach.

        Cancelling: is not noticed; it takes `close_timeout` seconds at most.
        """
        await self._leave(closed=not self._lasting())
        if self._over:
            self._incoming.clear()


def follows(one: IncomingDelivery, other: IncomingDelivery) -> bool:
    """Whether its delivery-id is later in serial arithmetic (§2.8.8)."""
    assert one.delivery_id is not None
    assert other.delivery_id is not None
    return 0 < (one.delivery_id - other.delivery_id) % (1 << 32) < 1 << 31


def has_outcome(deliveries: Iterable[IncomingDelivery]) -> bool:
    """Whether one of these was given an outcome, outside of a transaction."""
    return any(each.state is not None and not isinstance(each.state, TransactionalState) for each in deliveries)
