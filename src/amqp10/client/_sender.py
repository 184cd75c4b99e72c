"""Sending: `send`, `submit`, `send_many`; outcomes come back by deliveries (§2.6.7, §2.6.12).

The path of a message: encode, `link.send`, wake the connection's writer. No event, lock or checkpoint is spent on it
as long as there is credit, the window is open and the output is not full (else `_sender_turns`); every 64 messages or
256 KiB other tasks run. benchmarks/budget.py, "send": with a checkpoint for each, five times the steps.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Self

import anyio

from ..engine import LinkTerms, OutgoingDelivery, SenderLink
from ..errors import AmqpError, EncodeError
from ..messaging import Accepted, Message, Target
from ._delivery import SentDelivery, not_accepted, unknown
from ._endpoint import fresh
from ._pipeline import Pipeline
from ._sender_streams import StreamingSender
from ._sender_turns import BURST, MESSAGE_COST

if TYPE_CHECKING:
    from ._connection import Connection
    from ._session import Session
    from ._transaction import Transaction


def encoded_body(body: object) -> bytes:
    """Return the encoded message that has just this body.

    Raises:
        EncodeError: the body, or a value in it, has no AMQP type.
    """
    try:
        return Message(body).encode()
    except EncodeError as error:
        if isinstance(body, list | tuple) and any(isinstance(each, Message) for each in body):
            raise EncodeError(f"{error}: send_many sends several messages") from None
        raise


class Sender(StreamingSender):
    """The sending end of a link; made by `connection.sender()`, attached by `async with`.

    Any number of tasks may send at once; who waits for credit gets it in order of arrival.

    On leaving, outcomes that are still out are waited for, `close_timeout` seconds at most. If deliveries are left
    without an outcome then, the exit raises: the cause if the link ended and no call has raised it yet, else
    TimeoutError. An exception of the block itself goes first.
    """

    _kind: ClassVar[str] = "sender"

    def __init__(self, connection: Connection, session: Session | None, terms: LinkTerms) -> None:
        super().__init__(connection, session, terms)
        self._waiters: set[anyio.Event | Pipeline] = set()  # of all who wait for outcomes
        self._wake: Callable[[], None] = connection._wake

    # Attaching

    async def __aenter__(self) -> Self:
        """Attach the link.

        Raises:
            LinkDetached: the peer refused the link; `condition` and `description` say why (§2.6.3).
            SessionEnded, ConnectionClosed, ConnectionLost: what the link needs is gone.
            Unsupported: the dialect cannot do what the link asks for.
            LocalProtocolError: the peer takes no further link, or the name is in use.

        Cancelling: the link is detached as soon as the peer's answer to the attach comes.
        """
        await self._attach()
        return self

    def _require_capabilities(self) -> None:
        target = self._terms.target
        if isinstance(target, Target):
            if target.dynamic:
                self._require("dynamic", "dynamic nodes")
            elif target.address is None:
                self._require("anonymous-terminus", "anonymous terminus")
        if self._terms.receiver_settle_mode == "second":
            self._require("settle-second", "receiver settle mode 'second'")

    def _attach_to(self, session: Session) -> SenderLink:
        resuming = self._pending if self._resuming else None
        self._link = link = session._in_engine.attach_sender(self._terms, resuming=resuming)
        link.delivery_type = SentDelivery
        link.lingers = True  # an outcome that comes after a detach is one all the same
        self._wake = self.connection._waker
        session._add_sender(self)
        self._on = session
        if resuming is not None:
            self._pending = []  # the link's now
        return link

    @property
    def _engine_link(self) -> SenderLink | None:
        return self._link

    # Facts

    @property
    def address(self) -> str | None:
        """The address of the peer's target (§3.5.4); None for an anonymous sender."""
        target = self.remote.target
        return target.address if isinstance(target, Target) else None

    @property
    def credit(self) -> int:
        """How many messages may be sent now without waiting for the receiver (§2.6.7)."""
        return self._link.credit if self._link is not None else 0

    # Sending

    async def send(self, message: object, *, settled: bool = False, transaction: Transaction | None = None) -> None:
        """Send a message and wait until the receiver has accepted it; sent settled, until it is handed to the wire.

        Args:
            message: a `Message`; any other value is sent as the body of one.
            settled: send it settled, at most once, without an outcome; for `settle_mode="mixed"` (with
                "settled" every message is).
            transaction: send it as part of this: it gets there when that is committed (§4.4.1). The outcome says
                what it will be then.

        Raises:
            MessageRejected, MessageReleased, MessageModified: the outcome was another one.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link is over. If the message was handed
                over before, whether it was processed is not known.
            EncodeError, LocalProtocolError: see `submit`.
            anyio.ClosedResourceError: the sender was closed here.

        Cancelling: while it waits to send, nothing was sent and no credit used. After that the message is on its way
            and stays so; only the waiting ends. Use `submit` to keep hold of the delivery.
        """
        delivery = await self.submit(message, settled=settled, transaction=transaction)
        outcome = await delivery.outcome()
        if type(outcome) is not Accepted:
            raise not_accepted(outcome, self.connection.profile)

    async def submit(
        self, message: object, *, settled: bool = False, transaction: Transaction | None = None
    ) -> SentDelivery:
        """Hand a message to the wire; `await delivery.outcome()` says later what became of it.

        Waits for link credit, the session's window and room in the output, for nothing else. Other tasks get to run
        once every 64 messages or 256 KiB at the latest.

        Args:
            message, settled, transaction: as for `send`.

        Raises:
            EncodeError: the message holds a value without an AMQP encoding; nothing was sent.
            LocalProtocolError: the message is larger than the peer takes (`remote.max_message_size`), or sent settled
                on a link whose settle mode forbids it, or the transaction is over or cannot cover this link; nothing
                was sent.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link is over; nothing was sent.
            anyio.ClosedResourceError: the sender was closed here.

        Cancelling: nothing was sent and no credit used.
        """
        payload = message.encode() if isinstance(message, Message) else encoded_body(message)
        link = self._link
        self._run = run = self._run + len(payload) + MESSAGE_COST
        if (
            link is None
            or run > BURST
            or self._turns
            or not self.open
            or link.credit <= 0
            or not link.session.sendable
            or self.connection._output_full
        ):
            link = await self._room()
        try:
            if transaction is None:
                self._last = delivery = link.send(payload, settled=settled or self._presettled)
            else:
                state = transaction._post(self)
                self._last = delivery = link.send(payload, settled=settled or self._presettled, state=state)
                transaction._add(delivery)  # type: ignore[arg-type]
        except BaseException:
            self._pass_on()
            raise
        if self._remembered is not None and transaction is None:
            self._remembered.submitted(delivery)
        self._wake()
        if self._draining:
            self._give_back()
        return delivery  # type: ignore[return-value]

    async def send_many(
        self,
        messages: Iterable[object] | AsyncIterable[object],
        *,
        window: int = 1000,
        settled: bool = False,
        transaction: Transaction | None = None,
    ) -> int:
        """Send messages one after the other and wait for all outcomes; return how many there were, all accepted.

        The first message that is not accepted stops the taking of further ones; the outcomes of those in flight are
        waited for all the same, and then its exception is raised. So everything taken from `messages` has an outcome
        when this returns or raises, but for the end of the link or a cancellation, and the same iterator can be used
        to go on. The exception carries a note with the numbers.

        Args:
            messages: any iterable or async iterable of what `send` takes; taken from as fast as it can be sent.
            window: at most so many without an outcome at a time.
            settled, transaction: as for `send`.

        Raises:
            MessageRejected, MessageReleased, MessageModified: the first outcome that was not Accepted.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link is over; whether what was in flight
                was processed is not known.
            EncodeError, LocalProtocolError: see `submit`; raised when those in flight have their outcomes, as is
                whatever `messages` itself raises.
            anyio.ClosedResourceError: the sender was closed here.

        Cancelling: no further message is sent; what is in flight stays so, and closing the sender waits for it.
        """
        pipeline = Pipeline(window)
        self._waiters.add(pipeline)
        try:
            return await self._run_pipeline(pipeline, messages, settled, transaction)
        except Exception as error:
            error.add_note(pipeline.account())
            raise
        finally:
            self._waiters.discard(pipeline)

    async def _run_pipeline(
        self,
        pipeline: Pipeline,
        messages: Iterable[object] | AsyncIterable[object],
        settled: bool,
        transaction: Transaction | None,
    ) -> int:
        try:
            if isinstance(messages, AsyncIterable):
                async for message in messages:
                    await self._feed(pipeline, message, settled, transaction)
                    if pipeline.full:
                        await self._window(pipeline)
                    if pipeline.failed:
                        break
            else:
                posts = transaction is None and self._remembered is None
                for message in messages:
                    # Mostly there is no need for a coroutine. benchmarks/budget.py, "send".
                    if not posts or not self._post(pipeline, message, settled):
                        await self._feed(pipeline, message, settled, transaction)
                    if pipeline.full:
                        await self._window(pipeline)
                    if pipeline.failed:
                        break
        except Exception:
            if not self._over:
                await self._flow_out(pipeline)
            raise
        await self._flow_out(pipeline)
        if pipeline.failure is not None:
            failure = pipeline.failure
            raise failure if isinstance(failure, AmqpError) else not_accepted(failure, self.connection.profile)
        return pipeline.accepted

    async def _feed(self, pipeline: Pipeline, message: object, settled: bool, transaction: Transaction | None) -> None:
        if transaction is not None or self._remembered is not None:
            pipeline.add(await self.submit(message, settled=settled, transaction=transaction))
        elif not self._post(pipeline, message, settled):
            self._post(pipeline, message, settled, await self._room())

    def _post(self, pipeline: Pipeline, message: object, settled: bool, link: SenderLink | None = None) -> bool:
        """`submit`, where the outcome is only counted and nothing is to be waited for; False if something is.

        Args:
            link: of who has waited: there is room on it.
        """
        if link is None:
            link = self._link
            if (
                link is None
                or self._run > BURST
                or self._turns
                or not self.open
                or link.credit <= 0
                or not link.session.sendable
                or self.connection._output_full
            ):
                return False
        try:
            payload = message.encode() if isinstance(message, Message) else encoded_body(message)
            settled = settled or self._presettled
            self._last = link.post(payload, pipeline, settled=settled)
        except BaseException:
            self._pass_on()
            raise
        self._run += len(payload) + MESSAGE_COST
        pipeline.sent += 1
        if settled:
            pipeline.accepted += 1
        else:
            pipeline.in_flight += 1
        self._wake()
        if self._draining:
            self._give_back()
        return True

    async def _window(self, pipeline: Pipeline) -> None:
        # Before the next message is taken, and not when it is: if one fails meanwhile, it would be lost to the caller.
        while pipeline.full and not pipeline.failed:
            await self._next_outcome(pipeline)

    async def _flow_out(self, pipeline: Pipeline) -> None:
        while pipeline.in_flight:
            await self._next_outcome(pipeline)

    async def _next_outcome(self, pipeline: Pipeline) -> None:
        if self._over:
            self._told = True
            raise self._lost()
        await pipeline.wait()

    # Outcomes

    def _on_outcomes(self, deliveries: Sequence[OutgoingDelivery]) -> None:
        """The receiver told states of these; whoever waits for one of them is woken once."""
        if self._remembered is not None:
            self._remembered.settled(deliveries)
        for delivery in deliveries:
            waiter = delivery.waiter
            if waiter is None:
                continue
            if type(waiter) is Pipeline:
                waiter.outcome_received(delivery)
            else:
                delivery.waiter = None
                self._waiters.discard(waiter)
                waiter.set()
        if self._change is not None:
            self._changed()

    def _on_accepted(self, pipeline: Pipeline, count: int) -> None:
        """The receiver accepted so many of those that were posted."""
        pipeline.accepted_more(count)
        if self._change is not None:
            self._changed()

    # Closing

    def _stop(self) -> None:
        self._wake_turns()
        self._changed()
        if self._over:
            if self._on is not None:
                self._on._remove_sender(self)
            for waiter in self._waiters:
                waiter.set()

    def _owing(self) -> bool:
        return True

    async def _finish(self) -> None:
        await self._until(lambda: self._over or self._finished())

    def _finished(self) -> bool:
        last = self._last
        return not self._interrupted and not self.unsettled and (last is None or _went(last))

    def _wrap_up(self) -> None:
        """Nothing to say: what is half on the wire the engine aborts (§2.6.4)."""

    def _without_outcome(self) -> int:
        last = self._last
        # Sent in order: if the last one is not whole on the wire, that or more was cut off, and the engine forgot it.
        cut_off = last is not None and not _went(last) and (self._link is None or last.tag not in self._link.unsettled)
        return self.unsettled + cut_off

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Wait for the outcomes that are out, then detach.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link ended with deliveries in flight, and
                no call has said so yet.
            DeliveryUncertain: of a delivery it is not known whether it arrived, and no call has said so yet.
            TimeoutError: deliveries had no outcome when `close_timeout` seconds had passed.

        Cancelling: is not noticed; it takes `close_timeout` seconds at most.
        """
        await self._leave(closed=not self._lasting())
        for delivery in self._untold:
            error = unknown(delivery)
            if error is not None and exc is None:
                raise fresh(error)
        left = self._without_outcome()
        if left and exc is None and not self._told:
            self._told = True
            if self._cause is not None:
                raise self._lost()
            raise TimeoutError(f"{left} deliveries had no outcome when close_timeout had passed")


def _went(delivery: OutgoingDelivery) -> bool:
    """Whether all of it was written, in this attachment of the link or in one whose outcome is known by now."""
    return delivery.on_wire or (delivery.handed_over and delivery.remote_state is not None)
