"""Sending: credit, session window and output are waited for here; outcomes come back by deliveries (§2.6.7, §2.6.12).

The path of a message: encode, `link.send`, wake the connection's writer. No event, lock or checkpoint is spent on it
as long as there is credit, the window is open and the output is not full; every 64 messages or 256 KiB other tasks run.

One file, though a long one: messages and streams wait in one line, and what ends one lets the next go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Self

import anyio
import anyio.lowlevel

from ..engine import LinkTerms, OutgoingDelivery, SenderLink
from ..errors import AmqpError, DeliveryUncertain, LocalProtocolError, TransactionRolledBack
from ..messaging import Accepted, Message, Target, TransactionalState
from ._delivery import SentDelivery, Unknown, not_accepted, unknown
from ._endpoint import fresh
from ._files import CHUNK, BodySource, chunks, size_of
from ._link import Left, Link
from ._pipeline import Pipeline
from ._stream import BodyWriter

if TYPE_CHECKING:
    from ._connection import Connection
    from ._session import Session
    from ._transaction import Transaction

# A sender lets other tasks run when it has sent this many bytes, each message counting MESSAGE_COST bytes more: some
# 200 µs. With a quarter of both, 1 KiB cost a tenth more a message, and 64 KiB a fifth. benchmarks/run.py, "send".
BURST = 262_144
MESSAGE_COST = 4096


class Turn:
    """A task's place in the queue of those who wait to send."""

    __slots__ = ("event",)

    def __init__(self) -> None:
        self.event = anyio.Event()


class Repeating:
    """A waiter of a delivery that sends the message again by itself after a loss, or has no more need of it."""

    __slots__ = ()

    def set(self) -> None:
        """The receiver told a state, or the link is over: look again."""

    def repeat(self, *, sure: bool) -> None:
        """The delivery was lost with its link. `sure`: it did not arrive."""


class Sender(Link):
    """The sending end of a link; made by `connection.sender()`, attached by `async with`.

    Any number of tasks may send at once; who waits for credit gets it in order of arrival.

    On leaving, outcomes that are still out are waited for, `close_timeout` seconds at most. If deliveries are left
    without an outcome then, the exit raises: the cause if the link ended and no call has raised it yet, else
    TimeoutError. An exception of the block itself goes first.
    """

    _kind: ClassVar[str] = "sender"

    def __init__(self, connection: Connection, session: Session | None, terms: LinkTerms) -> None:
        super().__init__(connection, session, terms)
        self._link: SenderLink | None = None
        self._presettled = terms.settle_mode == "settled"
        self._turns: deque[Turn] = deque()
        self._stream: Turn | None = None  # of a stream that is under way; the first in `_turns` then
        self._run = 0
        self._last: OutgoingDelivery | None = None
        self._draining = False
        self._waiters: set[anyio.Event | Pipeline] = set()  # of all who wait for outcomes
        self._recovered: tuple[SentDelivery, ...] = ()  # of an earlier connection
        self._untold: set[OutgoingDelivery] = set()  # whose fate is not known, which nobody was told yet
        self._spoiled = False  # an aborted delivery stands in the way of others, for the peer knows none
        self._wake: Callable[[], None] = connection._wake
        self._told = False  # the cause of the link's end has been raised to the user

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

    def _recalled(self) -> list[SentDelivery]:
        assert self._remembered is not None
        self._recovered = tuple(self._remembered.sent())
        return list(self._recovered)

    @property
    def recovered(self) -> tuple[SentDelivery, ...]:
        """Messages that an earlier connection sent on this link and left without an outcome (`delivery_store`).

        They are resumed, or sent again, by this one; `await delivery.outcome()` says what became of each.
        """
        return self._recovered

    @property
    def unsettled(self) -> int:
        """How many deliveries are out without an outcome."""
        if self._interrupted or self._pending:
            return len(self._pending)
        return len(self._link.unsettled) if self._link is not None else 0

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
        payload = message.encode() if isinstance(message, Message) else Message(message).encode()
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
                    if pipeline.failed:
                        break
            else:
                # `_feed`, written out: a coroutine less for each message. benchmarks/budget.py, "send".
                for message in messages:
                    while pipeline.full and not pipeline.failed:
                        await self._next_outcome(pipeline)
                    if not pipeline.failed:
                        pipeline.add(await self.submit(message, settled=settled, transaction=transaction))
                    if pipeline.failed:
                        break
        except Exception as error:
            if not self._over:
                await self._flow_out(pipeline)
            error.add_note(pipeline.account())
            raise
        await self._flow_out(pipeline)
        if pipeline.failure is not None:
            failure = pipeline.failure
            failed = failure if isinstance(failure, AmqpError) else not_accepted(failure, self.connection.profile)
            failed.add_note(pipeline.account())
            raise failed
        return pipeline.accepted

    async def _feed(self, pipeline: Pipeline, message: object, settled: bool, transaction: Transaction | None) -> None:
        while pipeline.full and not pipeline.failed:
            await self._next_outcome(pipeline)
        if not pipeline.failed:
            pipeline.add(await self.submit(message, settled=settled, transaction=transaction))

    async def _flow_out(self, pipeline: Pipeline) -> None:
        while pipeline.in_flight:
            await self._next_outcome(pipeline)

    async def _next_outcome(self, pipeline: Pipeline) -> None:
        if self._over:
            self._told = True
            lost = self._lost()
            lost.add_note(pipeline.account())
            raise lost
        await pipeline.wait()

    # Streaming

    def stream(
        self,
        message: Message | None = None,
        *,
        size: int | None = None,
        settled: bool = False,
        transaction: Transaction | None = None,
    ) -> BodyWriter:
        """Send a message while its body is made, in memory bounded by what is under way.

            async with sender.stream(Message(content_type="video/mp4")) as body:
                await body.send(chunk)

        Other messages of this sender wait until the block is left.

        Args:
            message: the header, annotations, properties and footer; its body must be None.
            size: how many bytes the body will have, if that is known: it is sent as one data section then, which every
                receiver can read. Otherwise each chunk is a data section.
            settled: as for `send`.
            transaction: as for `send`; the block has to be left before that of the transaction.

        Raises:
            ValueError: the message has a body, or `size` is negative.
            Unsupported: the dialect has no streaming.
        """
        message = message if message is not None else Message()
        if message.body is not None:
            raise ValueError("the message of a stream has no body yet: it is sent by the stream")
        if size is not None and size < 0:
            raise ValueError("a body cannot have less than no bytes")
        self._require("streaming", "streaming")
        return BodyWriter(self, message, size, settled or self._presettled, transaction)

    async def send_stream(
        self,
        message: Message | None,
        source: BodySource,
        *,
        size: int | None = None,
        settled: bool = False,
        transaction: Transaction | None = None,
    ) -> int:
        """Send a message whose body comes from a file or an iterator; return the bytes of the body.

        Args:
            message: as for `stream`.
            source: a path; a binary file, of which the rest is read, or anything with such a `read`, a coroutine or
                not; an iterable or async iterable of bytes; or the bytes themselves.
            size: as for `stream`; of a path and of bytes it is known.
            settled, transaction: as for `send`.

        Raises:
            MessageRejected, MessageReleased, MessageModified, LinkDetached, SessionEnded, ConnectionClosed,
                ConnectionLost, EncodeError, LocalProtocolError, anyio.ClosedResourceError: as for `stream` and what is
                called on it.
            OSError: the file cannot be read; the delivery is aborted, as with whatever else `source` raises.
            TypeError: `source` is none of these.

        Cancelling: the delivery is aborted as long as its end is not handed to the wire; after that only the waiting
            for the outcome ends. A file's `read` that blocks is waited for.
        """
        if size is None:
            size = await size_of(source)
        async with self.stream(message, size=size, settled=settled, transaction=transaction) as body:
            # As many bytes as fill whole frames.
            room = max(1, body.frame_room)
            async with aclosing(chunks(source, room * max(1, CHUNK // room))) as pieces:
                async for piece in pieces:
                    await body.send(piece)
        return body.sent

    def _begin_stream(self, delivery: OutgoingDelivery) -> None:
        """The link belongs to one delivery that is not whole; who sends finds `_turns` not empty, and waits."""
        self._last = delivery
        self._stream = turn = Turn()
        self._turns.appendleft(turn)

    def _end_stream(self, aborted: OutgoingDelivery | None = None) -> None:
        if aborted is not None:
            self._last = None
            self._spoiled = aborted.delivery_id is not None and not self.connection.profile.aborts
        if self._spoiled and self.open:
            self._changed()
            return
        if self._stream is not None:
            self._turns.remove(self._stream)
            self._stream = None
        self.connection._wake()
        self._wake_turns()
        if self._draining:
            self._give_back()
        self._changed()

    def _changed(self) -> None:
        super()._changed()
        if self._spoiled and self.open:
            if self.unsettled:
                self._change = anyio.Event()  # outcomes that come call this again
            else:
                self._change_link()

    def _change_link(self) -> None:
        """The peer does not know aborted deliveries, and forgets one with its link only: go on with another."""
        old, on = self._link, self._on
        assert old is not None
        assert on is not None
        old.context = Left(self)
        old.detach(closed=not self._lasting())
        self._spoiled = False
        self._terms = replace(self._terms, name=f"{self._terms.name}+")
        try:
            self._attach_to(on).context = self
        except LocalProtocolError as error:
            self._on_ended(error)
        self._end_stream()

    def _withdraw(self, delivery: SentDelivery) -> None:
        """Abort a message that is not whole on the wire, if it can be."""
        try:
            delivery.link.abort(delivery)
        except LocalProtocolError:
            return
        if delivery.link is self._link and delivery.delivery_id is not None and not self.connection.profile.aborts:
            self._spoiled = True
            self._changed()

    def _time_to_yield(self, size: int) -> bool:
        """So much is to be sent: whether others should run first."""
        self._run += size + MESSAGE_COST
        if self._run <= BURST:
            return False
        self._run = 0
        return True

    # Waiting to send

    async def _room(self) -> SenderLink:
        """Let others run if it is time, then wait in turn for credit, window and output.

        Returns without another checkpoint once there is room, so what is found is what is used.
        """
        behind = False
        if self._run > BURST:
            self._run = 0
            await anyio.lowlevel.checkpoint()
            behind = self.connection._output_awaited  # others have waited for what would be taken again
        link, turns = self._link, self._turns
        if link is None or not (self.open or self._returning):
            raise self._refusal()
        ahead = len(turns)
        if self._room_on(link, ahead) and not (behind or self.connection._output_full):
            return link
        turn = Turn()
        turns.append(turn)
        try:
            while behind or not self._room_on(link, ahead) or self.connection._output_full:
                if self._room_on(link, ahead):
                    await self.connection._output_drained()
                    behind = False
                else:
                    await turn.event.wait()
                    turn.event = anyio.Event()
                    ahead = 0  # whoever is woken has credit of its own
                if self._link is None or not (self.open or self._returning):
                    raise self._refusal()
                link = self._link
        except BaseException:
            turns.remove(turn)
            self._pass_on()
            raise
        turns.remove(turn)
        return link

    def _pass_on(self) -> None:
        """Who had waited does not send: its credit is for those behind, or the receiver's again."""
        self._wake_turns()
        if self._draining:
            self._give_back()

    def _room_on(self, link: SenderLink, ahead: int) -> bool:
        """Whether credit and window allow another message, behind so many."""
        return link.credit > ahead and self.open and link.session.sendable and self._stream is None

    @property
    def _returning(self) -> bool:
        """The link was lost, and who waits to send goes on waiting."""
        return self._interrupted and not self._closed

    def _refusal(self) -> Exception:
        self._told = True
        return self._gone()

    def _stream_lost(self) -> Exception:
        """Of a stream whose link is not the sender's any more: streams are not sent again."""
        if self._loss is not None and not (self._over or self._closed):
            return fresh(self._loss)
        return self._refusal()

    def _wake_turns(self) -> None:
        """Wake as many as there is credit for; a stream is waited for by all."""
        link = self._link
        if self._turns and link is not None and not (self._stream and self.open) and not self._returning:
            count = max(0, link.credit) if self.open else len(self._turns)
            for turn in islice(self._turns, count):
                turn.event.set()

    def _on_credit(self) -> None:
        """The peer's flow for this link."""
        link = self._link
        assert link is not None
        self._wake_turns()
        if link.drain:
            self._draining = True
            self._give_back()

    def _give_back(self) -> None:
        """The receiver drains: when nobody waits to send, or all is used, the rest of the credit is its again."""
        link = self._link
        if link is not None and self.open and (not self._turns or link.credit <= 0):
            self._draining = False
            link.drained(len(self._turns))
            self.connection._wake()

    def _on_window(self) -> None:
        """The session's window opened."""
        self._wake_turns()
        self._changed()

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

    # After a loss

    def _interrupt(self, error: AmqpError | None) -> None:
        if self._stream is not None:
            self._turns.remove(self._stream)  # whoever writes it is told by its next call
            self._stream = None
        self._draining = self._spoiled = False
        if self._last is not None and self._last.local_settled:
            self._last = None
        link = self._link
        assert link is not None
        for delivery in list(link.unsettled.values()):
            if isinstance(delivery.state, TransactionalState):
                lost = TransactionRolledBack(description="the connection was lost before the transaction was committed")
                lost.__cause__ = error
                self._lose(delivery, lost)
                self._untold.discard(delivery)  # its transaction says it
        known = set(map(id, self._pending))
        self._pending += [delivery for delivery in link.suspended() if id(delivery) not in known]
        super()._interrupt(error)

    def _on_restored(self) -> None:
        if self._link is not None and self._link.attached:
            self._on_unresumed(self._take_pending())
        self._wake_turns()

    def _on_unresumed(self, deliveries: Iterable[OutgoingDelivery]) -> None:
        """The peer cannot say what became of these."""
        link, recovery = self._link, self.connection._recovery
        assert link is not None
        if not link.attached:
            return  # any more, which is told next: they are the next one's
        resend = recovery is None or recovery.settings.on_uncertain == "resend"
        for delivery in deliveries:
            if isinstance(delivery.waiter, Repeating):
                link.forget(delivery)  # it is sent again by others, in other words
                self._last = None if self._last is delivery else self._last
                delivery.waiter.repeat(sure=not delivery.handed_over)
            elif delivery.streamed or (delivery.handed_over and not resend):
                link.forget(delivery)
                error = DeliveryUncertain(
                    "the link was lost before the outcome came: it is not known whether it arrived"
                )
                error.__cause__ = self._loss
                self._lose(delivery, error)
            else:
                self._resend(delivery)
        self.connection._wake()

    def _resend(self, delivery: OutgoingDelivery) -> None:
        link = self._link
        assert link is not None
        try:
            link.resend(delivery)
        except LocalProtocolError as error:
            if link.attached:  # the peer takes no message of that size any more, for one
                link.forget(delivery)
                self._lose(delivery, DeliveryUncertain(f"it cannot be sent again: {error}"))
            elif link.unsettled.get(delivery.tag) is not delivery:
                self._pending.append(delivery)  # the link has ended again meanwhile, as will be told next

    def _lose(self, delivery: OutgoingDelivery, error: AmqpError) -> None:
        """What became of it will never be known."""
        delivery.remote_state = Unknown(error)  # type: ignore[assignment]
        self._untold.add(delivery)
        if self._last is delivery:
            self._last = None
        self._on_outcomes((delivery,))

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
