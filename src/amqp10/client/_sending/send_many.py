"""Sending many messages at once: their outcomes are counted, not kept, so ten million cost no more memory than ten."""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping
from typing import TYPE_CHECKING

import anyio

from ..._arguments import counted
from ...engine import OutcomeCounter
from ...errors import AmqpError
from ...messaging import Accepted, Message
from .delivery import known_outcome, not_accepted, unknown
from .encoding import encoded_body
from .send_queue import MESSAGE_COST, YIELD_AFTER_BYTES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from ...engine import OutgoingDelivery, SenderLink
    from ...messaging import Outcome
    from .core import SenderCore
    from .delivery import SenderDelivery


def check_messages(messages: object) -> None:
    """Refuse one message where several are wanted: it would be sent in pieces, letter by letter or key by key.

    Raises:
        TypeError: so it is.
    """
    if isinstance(messages, str | bytes | bytearray | memoryview | Mapping | Message):
        kind = type(messages).__name__
        raise TypeError(
            f"messages must be an iterable of messages, not a {kind}: use send() for one message, or make it a list"
        )


class Pipeline(OutcomeCounter):
    """The messages of one `send_many`: sends them, counts outcomes, and wakes its one waiter when there is room again.

    Attributes:
        accepted, not_accepted: how many messages have such an outcome.
        in_flight: how many were sent and have no outcome yet.
        failure: the first outcome that was not Accepted, or why there will never be one.
        failed: there is one.
    """

    __slots__ = (
        "_event",
        "_limit",
        "_queue",
        "_resume_at",
        "_sender",
        "_settled",
        "accepted",
        "failed",
        "failure",
        "in_flight",
        "not_accepted",
    )

    def __init__(self, sender: SenderCore, window: int, *, settled: bool) -> None:
        if window < 1:
            raise ValueError(f"window must be at least 1, not {window}")
        self._sender = sender
        self._queue = sender.queue
        self._limit = window
        self._settled = settled
        self._resume_at = 0
        self._event: anyio.Event | None = None
        self.accepted = 0
        self.not_accepted = 0
        self.in_flight = 0
        self.failure: Outcome | AmqpError | None = None
        self.failed = False

    # Sending

    async def run(
        self,
        messages: Iterable[object] | AsyncIterable[object],
        submit: Callable[[object], Awaitable[SenderDelivery]] | None,
    ) -> int:
        """Send the messages and wait for their outcomes; return how many were accepted: all.

        Args:
            messages: see `Sender.send_many`.
            submit: sends one message that needs a delivery; None: none of them does.
        """
        sender = self._sender
        sender.waiters.add(self)
        try:
            await self._send_all(messages, submit)
            if self.failure is not None:
                failure = self.failure
                raise failure if isinstance(failure, AmqpError) else not_accepted(failure, sender.connection.profile)
        except Exception as error:
            error.add_note(self.account())
            raise
        finally:
            sender.waiters.discard(self)
        return self.accepted

    async def _send_all(
        self,
        messages: Iterable[object] | AsyncIterable[object],
        submit: Callable[[object], Awaitable[SenderDelivery]] | None,
    ) -> None:
        try:
            if isinstance(messages, AsyncIterable):
                async for message in messages:
                    await self._send_one(message, submit)
                    if self.in_flight >= self._limit:
                        await self._window()
                    if self.failed:
                        break
            else:
                for message in messages:
                    # Mostly there is no need for a coroutine. benchmarks/budget.py, "send".
                    if submit is not None or not self._post(message):
                        await self._send_one(message, submit)
                    if self.in_flight >= self._limit:
                        await self._window()
                    if self.failed:
                        break
        except Exception:
            if not self._sender.over:
                await self._flow_out()
            raise
        await self._flow_out()

    async def _send_one(self, message: object, submit: Callable[[object], Awaitable[SenderDelivery]] | None) -> None:
        if submit is not None:
            self.add(await submit(message))
        elif not self._post(message):
            self._post(message, await self._queue.wait_sendable())

    def _post(self, message: object, link: SenderLink | None = None) -> bool:
        """Send without a wait, counting the outcome only; return False if something has to be waited for.

        Args:
            link: the link that `wait_sendable` returned; None before that.
        """
        sender, queue = self._sender, self._queue
        if link is None:
            link = sender.link
            # As `SendQueue.free_link`, without a call for each message. benchmarks/budget.py, "send".
            if (
                queue.since_yield > YIELD_AFTER_BYTES
                or queue.waiting
                or not sender.open
                or not link.sendable  # type: ignore[union-attr]
                or sender.pump.full  # type: ignore[union-attr]
            ):
                return False
        try:
            payload = message.encode() if isinstance(message, Message) else encoded_body(message)
            sender.last = link.send_untracked(payload, self, settled=self._settled)  # type: ignore[union-attr]
        except BaseException:
            queue.pass_on()
            raise
        queue.since_yield += len(payload) + MESSAGE_COST
        if self._settled:
            self.accepted += 1
        else:
            self.in_flight += 1
        sender.wake()
        if queue.draining:
            queue.give_back()
        return True

    async def _window(self) -> None:
        # Before the next message is taken, and not when it is: if one fails meanwhile, it would be lost to the caller.
        while self.in_flight >= self._limit and not self.failed:
            await self._next_outcome()

    async def _flow_out(self) -> None:
        while self.in_flight:
            await self._next_outcome()

    async def _next_outcome(self) -> None:
        if self._sender.over:
            self._sender.cause_reported = True
            raise self._sender.lost()
        await self.wait()

    # Counting

    def add(self, delivery: SenderDelivery) -> None:
        """Take a delivery that was just sent."""
        if delivery.local_settled:
            self.accepted += 1
        else:
            self.in_flight += 1
            delivery.waiter = self

    def outcome_received(self, delivery: OutgoingDelivery) -> None:
        outcome: Outcome | AmqpError | None = known_outcome(delivery)
        if outcome is None:
            outcome = unknown(delivery)
            if outcome is None:
                return
            self._sender.report(delivery)
        delivery.waiter = None
        self.in_flight -= 1
        if type(outcome) is Accepted:
            self.accepted += 1
        else:
            self.not_accepted += 1
            if not self.failed:
                self.failure = outcome
                self.failed = True
        if self._event is not None and (self.in_flight <= self._resume_at or self.failed):
            self._event.set()

    def accepted_more(self, count: int) -> None:
        self.in_flight -= count
        self.accepted += count
        if self._event is not None and self.in_flight <= self._resume_at:
            self._event.set()

    async def wait(self) -> None:
        """Wait until half of the deliveries have outcomes, or one has failed, or the link is over."""
        # Half of them: room for one would mean a switch of tasks for each message.
        self._resume_at = self.in_flight // 2
        self._event = anyio.Event()
        try:
            await self._event.wait()
        finally:
            self._event = None

    def set(self) -> None:
        if self._event is not None:
            self._event.set()

    def account(self) -> str:
        """Return the numbers, for a note on an exception."""
        sent = self.accepted + self.not_accepted + self.in_flight
        return (
            f"send_many: {counted(sent, 'message')} sent, {self.accepted} accepted, {self.not_accepted} not accepted, "
            f"{self.in_flight} without an outcome"
        )
