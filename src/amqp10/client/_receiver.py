"""Receiving: `receive`, `async for`, `receive_batch` (§2.6.7 for the credit, which is `_receiver_credit`'s).

The path of a message: the engine appends a `Delivery` to the link's deque, `receive` takes it from there. No task,
event, lock or checkpoint lies between as long as there is something to take. benchmarks/budget.py, "receive".
"""

from __future__ import annotations

import logging
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Self

import anyio
import anyio.lowlevel

from ..engine import LinkTerms, ReceiverLink
from ..errors import AmqpError, FilterNotApplied, Unsupported
from ..messaging import RELEASED, TransactionalState, only_for_streams, outlives_link, unapplied_filters
from ..types import Symbol
from ._delivery import Delivery
from ._endpoint import busy
from ._receiver_recovery import RecoveringReceiver, has_outcome

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ._connection import Connection
    from ._session import Session

_log = logging.getLogger("amqp10.connection")

# Other tasks run when `receive` has handed out so many deliveries in a row, and so many seconds have passed: a pass of
# the scheduler, and what is written in it, costs as much as twenty messages. benchmarks/run.py, "receive": a sixth.
BURST = 64
TURN = 0.0005
# Seconds that a receiver by hand waits without credit before the log says so.
NO_CREDIT = 5.0
# The link property by which a receiver asks to be the only one, and a broker that has that says that it is.
EXCLUSIVE = Symbol("exclusive")


class Receiver(RecoveringReceiver):
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
        super().__init__(connection, session, terms, credit)
        self._require_filters = require_filters
        self._unfit: AmqpError | None = None  # what the peer's answer lacks
        self._run = 0  # deliveries handed out since the clock was looked at
        self._turn_ends = 0.0  # when others are to run
        self._warned = False  # that it waits without credit

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
            self._require("stream-filters" if only_for_streams(source.filter) else "filters", "filters")
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
        resuming = self._pending if self._resuming else self._parts or None
        self._link = link = session._in_engine.attach_receiver(self._terms, resuming=resuming)
        if self._resuming and not self._standing:
            self._pending = []  # the link's now
        link.delivery_type = Delivery
        self._wake = self.connection._waker
        link.refills = self._automatic > 0
        link.by_portions = True
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
    def buffered(self) -> int:
        """How many deliveries are here and wait to be received."""
        return len(self._incoming) + (self._link.waiting if self._link is not None else 0)

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

        When deliveries wait here, other tasks get to run once every 64 of them only, and once every half a millisecond
        where that is longer. After the end of the link the deliveries that are here still come out, then the reason is
        raised.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link is over, and why.
            TransactionRolledBack: the credit was a transaction's, and the link was lost.
            anyio.BusyResourceError: another task is receiving from this receiver.
            anyio.ClosedResourceError: the receiver was closed here.

        Cancelling: no delivery is lost: one that came stays for the next call. Up to 64 that wait here are still given
            before it is noticed.
        """
        if self._waiter is not None:
            raise busy("receiving from this receiver")
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
            raise busy("receiving from this receiver")
        incoming = self._incoming
        self._run += min(size, self.buffered)
        if max_wait is None:
            if self._run > BURST or not incoming:
                await self._wait()
        elif self.buffered < size:
            with anyio.move_on_after(max_wait):
                await self._collect(size)
        elif self._run > BURST:
            await self._wait()
        self._bring(size)
        batch: list[Delivery] = [incoming.popleft() for _ in range(min(size, len(incoming)))]
        self._taken += len(batch)
        if self._taken >= self._refill_at:
            self._refill()
        return batch

    async def _wait(self) -> None:
        """Until there is something to take; let others run, unless they could a moment ago. Or be cancelled."""
        self._run = 0
        if not self.buffered or monotonic() >= self._turn_ends:
            try:
                if self.buffered:
                    self._waiter = anyio.Event()
                    await anyio.lowlevel.checkpoint()
                while not self.buffered:
                    await self._next_arrival()
            finally:
                self._waiter = None
            self._turn_ends = monotonic() + TURN
        else:
            await anyio.lowlevel.checkpoint_if_cancelled()
        self._bring(BURST)

    def _bring(self, enough: int) -> None:
        """Have so many in the deque, if that many are here."""
        if self._link is not None:
            self._link.bring(enough - len(self._incoming))

    async def _collect(self, size: int) -> None:
        """Until `size` deliveries are here, or no more can come.

        The engine tells of arrivals when the deque was empty, so what is here is held aside meanwhile.
        """
        incoming = self._incoming
        held = self._collected
        self._run = 0
        try:
            while True:
                self._bring(self.buffered)
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
        if not (self._automatic or self.credit or self._granted or self._warned):
            with anyio.move_on_after(NO_CREDIT):
                await waiter.wait()
            if not (waiter.is_set() or self.credit or self._granted):
                self._warned = True
                _log.warning("%r waits for messages, and none may come: say by add_credit() how many", self)
        await waiter.wait()

    def _on_deliveries(self) -> None:
        """The engine has put something in the deque."""
        self._arrived()

    def _arrived(self) -> None:
        if self._closed:
            self._release_buffered()
        elif self._waiter is not None:
            self._waiter.set()

    # Closing

    def _stop(self) -> None:
        if self._waiter is not None:
            self._waiter.set()
        link = self._link
        if link is not None and (self._over or self._closed):
            for delivery in link.unsettled.values():
                if delivery.waiter is not None:
                    delivery.waiter.set()

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
        self._bring(self.buffered)
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
