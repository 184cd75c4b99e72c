"""Receiving: `receive`, `async for`, `receive_batch`, `add_credit`, `drain` (§2.6.7).

The path of a message: the engine appends a `Delivery` to the link's deque, `receive` takes it from there. No task,
event, lock or checkpoint lies between as long as there is something to take. benchmarks/budget.py, "receive".
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio

from ..._arguments import checked, made_by
from ...messaging import Message
from .._core.transaction_work import TransactionFace as Transaction
from .._core.transaction_work import work_of
from .._links.link import Link
from .consumer import YIELD_AFTER_MESSAGES
from .core import ReceiverCore
from .delivery_face import Delivery

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence


@made_by("connection.receiver(address)", "ReceiverCore")
class Receiver(Link):
    """The receiving end of a link. `connection.receiver()` makes it, and `async with` attaches it.

    `async for delivery in receiver` continues until the link ends, and then raises the reason.

    Credit is automatic with `credit` > 0. The deliveries that the peer may send and those that wait here are never more
    than `credit` together. The credit is topped up when `receive` has taken half of them, so a slow application gets no
    more. With `credit=0` it is manual: `add_credit`, `drain`.

    Leaving the block drains the credit and releases every delivery that was not taken, so that nothing stays locked at
    the peer. The peer sends deliveries again that were taken and not settled.
    """

    _core: ReceiverCore

    def __init__(self, core: ReceiverCore) -> None:
        super().__init__(core)

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
        core = self._core
        await core.attach()
        if core.unfit is not None:
            await core.leave(closed=not core.outlives_link())
            raise core.unfit
        return self

    # Facts

    @property
    def address(self) -> str | None:
        """The address of the peer's source; for a dynamic receiver, the address of the node made for it (§3.5.3)."""
        return self._core.address

    @property
    def credit(self) -> int:
        """How many deliveries the peer may still send."""
        return self._core.credit.left

    @property
    def buffered(self) -> int:
        """How many deliveries are here and wait to be received."""
        return self._core.buffered

    @property
    def available(self) -> int:
        """How many waiting messages the peer has announced; 0 if it announced none."""
        return self._core.link.available if self._core.link is not None else 0

    @property
    def active(self) -> bool | None:
        """Whether the peer has this receiver get messages now, of several on a queue with a single active consumer.

        RabbitMQ reports it since 4.3, for quorum queues, by the flow property `rabbitmq:active`. None if the peer has
        not reported it. `ReceiverActivity` reports each change.
        """
        return self._core.active

    @property
    def unsettled(self) -> int:
        """How many deliveries, received or still buffered here, are not settled at both ends."""
        return self._core.unsettled

    # Credit

    @checked
    def add_credit(self, credit: int, *, transaction: Transaction | None = None) -> None:
        """Let the peer send `credit` more deliveries (§2.6.7). For receivers with `credit=0`; never blocks.

        Args:
            transaction: acquires all messages of the current credit as part of this transaction (§4.4.3), and includes
                their outcomes, however they are given. A rollback returns all of them to the peer. At the end of the
                transaction the remaining credit is drained; messages without an outcome by then are settled as usual.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, anyio.ClosedResourceError: the link is over.
            LocalProtocolError: the credit of this receiver is automatic; the transaction is over, or cannot cover this
                link; or the receiver acquires in another transaction, or in one where none is given.
            Unsupported: the peer is known not to acquire in transactions; or the receiver streams.
            ValueError: `credit` is negative.
        """
        if credit < 0:
            raise ValueError(f"credit must not be negative, not {credit}: drain() takes back all of it")
        self._core.add_credit(credit, None if transaction is None else work_of(transaction))

    @checked
    async def drain(self) -> None:
        """Ask the peer to use the credit now or give it back, and wait until it has (§2.6.7).

        Afterwards `credit` is 0, and the deliveries that the peer sent for it wait here (`buffered`). The link stays
        usable: add manual credit again; automatic credit is topped up as soon as deliveries are taken or waited for.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, anyio.ClosedResourceError: the link is over.
            anyio.BusyResourceError: another task is draining this receiver.
            Unsupported: the dialect has no drain.

        Cancelling: the credit that is left is the peer's again, as before.
        """
        self._core.require("drain", "drain")
        await self._core.credit.drain()

    # Receiving

    async def receive(self) -> Delivery:
        """Return the next delivery, in order of arrival.

        While deliveries wait here, most calls return one without letting other tasks run. After every 64 of them, other
        tasks run if half a millisecond has passed since their last turn. After the end of the link, the deliveries that
        are here are still returned; then the reason is raised.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link is over, and why.
            TransactionRolledBack: the credit was a transaction's, and the link was lost.
            anyio.BusyResourceError: another task is receiving from this receiver.
            anyio.ClosedResourceError: the receiver was closed here.

        Cancelling: no delivery is lost; one that has arrived stays for the next call. Up to 64 waiting deliveries may
            still be returned before the cancellation takes effect.
        """
        consumer = self._core.consumer
        incoming, turn = consumer.incoming, consumer.turn
        if not turn or not incoming:
            await consumer.wait()
            turn = YIELD_AFTER_MESSAGES
        consumer.turn = turn - 1
        delivery: Delivery = incoming.popleft()
        consumer.taken = taken = consumer.taken + 1
        if taken >= consumer.refill_at:
            self._core.credit.refill()
        return delivery

    def __aiter__(self) -> AsyncIterator[Delivery]:
        return self

    __anext__ = receive

    @checked
    async def receive_batch(self, size: int, *, max_wait: float | None = None) -> list[Delivery]:
        """Receive several deliveries at once, in order of arrival: 1 to `size` of them, [] only when `max_wait` passed.

        Args:
            size: the maximum number to return. With automatic credit a batch is never larger than `credit`, because the
                peer sends no more before some were taken.
            max_wait: how long to collect, in seconds: return when the batch is full or this time has passed. None:
                wait for the first delivery, and return it with the others that have arrived by then.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link is over and nothing is left here.
            anyio.BusyResourceError: another task is receiving from this receiver.
            anyio.ClosedResourceError: the receiver was closed here.
            ValueError: `size` is not positive, or `max_wait` is negative.

        Cancelling: no delivery is lost: those that came stay for the next call.
        """
        if size < 1:
            raise ValueError(f"size must be at least 1, not {size}")
        if max_wait is not None and max_wait < 0:
            raise ValueError(f"max_wait must be at least 0 seconds, not {max_wait}")
        core = self._core
        consumer = core.consumer
        consumer.check_free()
        incoming, buffered = consumer.incoming, core.buffered
        turn_over = consumer.use_turn(min(size, buffered))
        if max_wait is None:
            if turn_over or not incoming:
                await consumer.wait()
        elif buffered < size:
            with anyio.move_on_after(max_wait):
                await consumer.collect(size)
        elif turn_over:
            await consumer.wait()
        consumer.fill(size)
        batch: list[Delivery] = [incoming.popleft() for _ in range(min(size, len(incoming)))]
        consumer.taken += len(batch)
        if consumer.taken >= consumer.refill_at:
            core.credit.refill()
        return batch

    # Closing

    def processing(self, messages: Sequence[Message]) -> AbstractContextManager[object]:
        """Return a context manager for the handling of messages: a span with telemetry, and nothing without.

        `with delivery` and a `Worker` have one by themselves: this is for several messages that are handled at once.
        """
        processing = self._core.processing
        return nullcontext() if processing is None else processing(messages)

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Drain, release what was prefetched, detach.

        Cancelling: is not noticed; it takes `close_timeout` seconds at most.
        """
        await self._core.leave(closed=not self._core.outlives_link())
        if self._core.over:
            self._core.consumer.incoming.clear()
