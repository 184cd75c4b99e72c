"""Moves messages one by one: one task receives them, one sends them, and the target's outcomes go back to the source.

    source ──receive_batch──> _receive ──queue──> _send_all ──forward──> target
       <──accept, reject─────────── on_outcome <─────outcome──────────────┘

Outcomes need no task: they arrive in the target's connection, which passes them to the source's at once. So the
target's acceptance and the source's outcome are written to a store of deliveries in one transaction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

import anyio

from ..client.internals import core_of, known_outcome, not_accepted, report_unknown, shielded_until, unknown
from ..errors import AmqpError, DecodeError, EncodeError, LocalProtocolError
from ..messaging import Accepted, Error, Rejected
from ._forwarding import for_next_hop, with_refusal
from ._in_flight import InFlight, InFlightMessage, Phase
from ._links import ConsumingSourceLink, forgotten_error
from ._redelivery import RedeliveryCounter

if TYPE_CHECKING:
    from ..client import Delivery
    from ..client.internals import ReceiverDelivery, SenderDelivery
    from ..engine import OutgoingDelivery
    from ..messaging import Outcome
    from ._links import SourceLink, TargetLink
    from ._settings import Settings

EMPTY_AFTER = 1.0
"""Seconds without a message after which a source without "drain" counts as empty."""


class Mover:
    """Moves messages until it has enough, is stopped, or fails.

    Attributes:
        in_flight: the messages in progress, and the counts.
        failure: the error that stopped it, or None.
    """

    def __init__(
        self, settings: Settings, source: SourceLink, target: TargetLink, refused_link: TargetLink | None
    ) -> None:
        self.settings = settings
        self.in_flight = InFlight()
        self.failure: Exception | None = None
        self._source = source
        self._target = target
        self._refused_link = refused_link
        self._refused_queue: deque[InFlightMessage] = deque()
        self._redeliveries = RedeliveryCounter(settings.max_in_flight)
        self._generation = 0  # of the source's link at the last message
        self._freed = 0  # places freed since the last grant of credit
        self._next_at = 0.0
        self._scope = anyio.CancelScope()
        self._stopped = False
        self._work: anyio.Event | None = None
        self._change: anyio.Event | None = None
        core_of(source).on_forgotten = self._on_forgotten
        core_of(source).on_settled = self._on_settled
        core_of(target).select_to_resend = self._select_to_resend
        core_of(target).count_in_flight = lambda deliveries: sum(delivery.handed_over for delivery in deliveries)
        core_of(target).on_unresumable = self.fail
        if isinstance(source, ConsumingSourceLink):
            core_of(source).count_in_flight = self._count_in_flight
            core_of(source).on_unresumable = self.fail

    async def run(self) -> None:
        """Move messages until the end; an error is in `failure`.

        Cancelling: messages without an outcome stay open; see `finish`.
        """
        for end in (self._target, self._refused_link):
            if end is not None:
                end.watch(self)
        self.set()
        try:
            with self._scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._or_fail, self._send_all)
                    await self._or_fail(self._receive)
                    tasks.cancel_scope.cancel()
        finally:
            self._stopped = True

    async def _or_fail(self, task: Callable[[], Awaitable[None]]) -> None:
        try:
            await task()
        except (AmqpError, anyio.ClosedResourceError) as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Stop with an error; the first error counts."""
        self.failure = self.failure or error
        self.stop()

    def stop(self) -> None:
        """Stop receiving and sending."""
        self._stopped = True
        self._scope.cancel()
        self._changed()

    def set(self) -> None:
        """Handle the end of a link at the target: the waiter of these links."""
        for end in (self._target, self._refused_link):
            if end is not None and end.over and not self._stopped:
                self.fail(end.report_end())
        self._changed()

    # Continuing

    def recover(self, source: ConsumingSourceLink, target: TargetLink) -> None:
        """Resume messages that an earlier process had sent without an outcome, and ask the source to keep them."""
        kept = target.store
        if kept is None:
            return
        recovered = self.in_flight.recover([each.tag for each in kept.load()], anyio.current_time(), self.on_outcome)
        core_of(source).to_resume = [message.source for message in recovered.values()]
        core_of(source).peer_must_keep = lambda: kept.left

        def on_recovered(deliveries: Iterable[SenderDelivery]) -> None:
            for delivery in deliveries:
                self.in_flight.record_sent(recovered[delivery.tag], delivery)
                delivery.waiter = recovered[delivery.tag]

        core_of(target).on_recovered = on_recovered

    # Receiving

    @property
    def _finished(self) -> int:
        return self.in_flight.moved + self.in_flight.refused

    def _has_enough(self) -> bool:
        """Return whether no more messages are needed, as far as is known now."""
        count = self.settings.count
        return count is not None and self._finished + self.in_flight.active >= count

    def _grant(self) -> None:
        """Grant credit for the free places."""
        self._freed = 0
        settings, in_flight, outstanding = self.settings, self.in_flight, self._source.outstanding
        credit = min(settings.max_in_flight, 1 + max(0, settings.max_bytes - in_flight.size) // in_flight.mean_size)
        credit -= len(in_flight.by_delivery) + outstanding
        if settings.count is not None:
            credit = min(credit, settings.count - self._finished - in_flight.active - outstanding)
        # Not for a few places while credit is left.
        if credit > 0 and (credit >= outstanding or credit >= settings.max_in_flight // 4) and not self._stopped:
            try:
                self._source.add_credit(credit)
            except (AmqpError, anyio.ClosedResourceError):
                pass  # the link is over, as its `receive_batch` reports

    async def _receive(self) -> None:
        source, in_flight = self._source, self.in_flight
        while True:
            if self._has_enough():
                await self._wait_until(lambda: not self._has_enough() or not in_flight.active)
                if self._has_enough():
                    return
            self._grant()
            if self.settings.until_empty and not source.outstanding:
                await self._next_change()
                continue
            batch = await self._receive_batch()
            if batch is None:
                if not in_flight.active:
                    return
                await self._wait_until(lambda: not in_flight.active)
                continue
            if not batch:
                continue
            if self._generation != source.losses:
                self._generation = source.losses
                self._redeliveries.on_link_lost()
            in_flight.duplicates += self._redeliveries.count(batch)
            now = anyio.current_time()
            # Every delivery is a ReceiverDelivery.
            in_flight.add([InFlightMessage(each, now, self.on_outcome) for each in batch])  # type: ignore[arg-type]
            if in_flight.size > self.settings.max_bytes:
                source.withdraw_credit()
            self._wake()

    async def _receive_batch(self) -> list[Delivery] | None:
        """Return the deliveries that came, if any; None if the source is empty and the settings say to stop then."""
        source, most = self._source, self.settings.max_in_flight
        if not self.settings.until_empty:
            return await source.receive_batch(most)
        await source.wait_restored()
        generation = source.losses
        if "drain" in source.connection.capabilities:
            await source.drain()
        elif not source.buffered:
            batch = await source.receive_batch(1, max_wait=EMPTY_AFTER)
            if batch:
                return batch
        if source.buffered:
            return await source.receive_batch(most)
        # If the link was lost meanwhile, its credit was, too, so silence does not mean empty.
        return None if source.open and source.losses == generation else []

    # Sending

    async def _send_all(self) -> None:
        while True:
            await self._send_next()

    async def _send_next(self) -> None:
        """Send the next message, or wait for it."""
        queue = self.in_flight.queue
        if self._refused_queue:
            await self._send_refused(self._refused_queue.popleft())
        elif not queue:
            self._work = anyio.Event()
            await self._work.wait()
        elif queue[0].stale:
            queue.popleft()
        else:
            await self._send(queue[0])

    async def _send(self, message: InFlightMessage) -> None:
        await self._pace()
        source = message.source
        await self._target.wait_sendable(len(source.payload))
        if message.stale:
            self._target.pass_turn()
            return
        self.in_flight.queue.popleft()
        tag = source.tag if self.settings.exactly_once else None
        self._forward(message, self._target, payload_of(message), tag)

    async def _send_refused(self, message: InFlightMessage) -> None:
        assert self._refused_link is not None
        await self._refused_link.wait_sendable(len(message.source.payload))
        if message.stale:
            self._refused_link.pass_turn()
        else:
            self._forward(message, self._refused_link, with_refusal(message.source.payload, message.refusal), None)

    def _forward(self, message: InFlightMessage, end: TargetLink, payload: bytes, tag: bytes | None) -> None:
        try:
            sent = end.forward(payload, message.source.message_format, tag=tag)
        except (DecodeError, EncodeError) as error:
            self._on_refused(message, Rejected(Error("amqp:decode-error", str(error))))
        except LocalProtocolError as error:
            if not end.open:
                raise
            most = end.remote.max_message_size
            large = bool(most) and len(payload) > (most or 0)
            condition = "amqp:link:message-size-exceeded" if large else "amqp:invalid-field"
            self._on_refused(message, Rejected(Error(condition, str(error))))
        else:
            self.in_flight.record_sent(message, sent)
            sent.waiter = message

    async def _pace(self) -> None:
        if self.settings.rate is not None:
            now = anyio.current_time()
            if self._next_at > now:
                await anyio.sleep_until(self._next_at)
            self._next_at = max(now, self._next_at) + 1 / self.settings.rate

    # Outcomes of the target

    def on_outcome(self, message: InFlightMessage) -> None:
        """Handle the target's outcome of a message, or that there will be no outcome."""
        sent = message.sent
        assert sent is not None
        outcome = known_outcome(sent)
        if outcome is None:
            error = unknown(sent)
            if error is None:
                sent.waiter = message  # a state that is not an outcome
                return
            report_unknown(sent)
            self.in_flight.set_phase(message, Phase.UNKNOWN)
            self.fail(error)
        elif type(outcome) is not Accepted:
            self._on_refused(message, outcome)
        elif message.refusal:
            self._settle_refused(message)
        else:
            self._on_accepted(message)

    def _on_accepted(self, message: InFlightMessage) -> None:
        in_flight = self.in_flight
        if in_flight.accept_at_source(message) and not self.settings.exactly_once:
            self._redeliveries.record_accepted(message.source)
        if self.settings.exactly_once and not message.source.local_settled and message.source in in_flight.by_delivery:
            in_flight.set_phase(message, Phase.ACCEPTED)
        else:
            in_flight.drop(message)
            self._free_place()

    def _on_refused(self, message: InFlightMessage, outcome: Outcome) -> None:
        in_flight, settings = self.in_flight, self.settings
        failure = not_accepted(outcome, self._target.connection.profile)
        if message.stale:
            in_flight.drop(message)
        elif self._refused_link is not None and not message.refusal:
            in_flight.set_phase(message, Phase.WAITING)
            message.refusal = str(failure) or type(outcome).__name__.lower()
            self._refused_queue.append(message)
            self._wake()
        elif settings.on_refused == "reject":
            self._settle_refused(message, failure)
        else:
            in_flight.set_phase(message, Phase.REFUSED)
            in_flight.refused += 1
            if settings.on_refused == "stop" or in_flight.refused_held >= settings.max_in_flight:
                self.fail(failure)
        self._free_place()

    def _settle_refused(self, message: InFlightMessage, why: Exception | None = None) -> None:
        """Settle a refused message at the source: sent to `refused_to`, or rejected for `why`."""
        self.in_flight.drop(message)
        if message.stale:
            return
        self.in_flight.refused += 1
        try:
            if why is None:
                message.source.accept()
                self._redeliveries.record_accepted(message.source)
            else:
                condition = getattr(why, "condition", None) or "amqp:not-allowed"
                description = f"the target of a bridge did not accept it: {why}"
                message.source.settle(Rejected(Error(condition, description)))
        except (AmqpError, anyio.ClosedResourceError):
            self.in_flight.refused -= 1  # the source's link is over, so the message comes again
        self._free_place()

    def _select_to_resend(self, deliveries: list[OutgoingDelivery]) -> list[OutgoingDelivery]:
        """Return the messages to send again after the target's link was lost before their outcomes."""
        lost = [delivery for delivery in deliveries if delivery.handed_over]
        if not self.settings.exactly_once:
            self.in_flight.duplicates += len(lost)
            return deliveries
        for delivery in lost:
            if isinstance(delivery.waiter, InFlightMessage):
                self.in_flight.set_phase(delivery.waiter, Phase.UNKNOWN)
        if lost:
            core_of(self._target).peer_forgot = True
            self.fail(forgotten_error("target", len(lost)))
        return [delivery for delivery in deliveries if not delivery.handed_over]

    # Settlements of the source

    def _on_settled(self, deliveries: Iterable[ReceiverDelivery]) -> None:
        for delivery in deliveries:
            message = self.in_flight.by_delivery.get(delivery)
            if message is not None and message.phase is Phase.ACCEPTED and delivery.local_settled:
                self.in_flight.drop(message)
                self._free_place()

    def _count_in_flight(self, deliveries: Iterable[ReceiverDelivery]) -> int:
        """Return the number of messages that were sent on, but not yet settled at the source."""
        by_delivery = self.in_flight.by_delivery
        messages = [(by_delivery.get(delivery), delivery) for delivery in deliveries]
        return sum(
            message.phase in (Phase.SENT, Phase.ACCEPTED)
            if message is not None
            else isinstance(delivery.state, Accepted)
            for message, delivery in messages
        )

    def _on_forgotten(self, deliveries: Iterable[ReceiverDelivery]) -> None:
        """Handle the loss of the source's link, after which the messages come again."""
        in_flight, lost = self.in_flight, 0
        self._redeliveries.on_link_lost()
        for delivery in deliveries:
            message = in_flight.by_delivery.get(delivery)
            if message is None:
                if not isinstance(delivery.state, Accepted):
                    continue
                if self.settings.exactly_once:  # an earlier process settled it
                    lost += 1
                else:  # settled while the link was lost
                    in_flight.moved -= 1
                    in_flight.duplicates += 1
                    self._redeliveries.count([delivery])
                continue
            message.stale = True
            if message.phase in (Phase.WAITING, Phase.REFUSED):
                in_flight.drop(message)
            elif self.settings.exactly_once:
                in_flight.set_phase(message, Phase.UNKNOWN)
                lost += 1
            else:
                in_flight.duplicates += 1
        if lost:
            if isinstance(self._source, ConsumingSourceLink):
                core_of(self._source).peer_forgot = True
            self.fail(forgotten_error("source", lost))
        self._freed = self.settings.max_in_flight
        self._free_place()

    # The end

    async def finish(self, deadline: float) -> None:
        """Wait for outstanding outcomes, then return the rest to the source.

        Cancelling: is not noticed; it takes at most until the deadline.
        """
        self.stop()
        in_flight, keep = self.in_flight, self._target.store is not None
        with shielded_until(deadline):
            await self._wait_until(lambda: not in_flight.unsettled or self._target.over or self._source.over)
        if self._source.over:
            self._drop_accepted()
            with shielded_until(deadline):
                await self._wait_until(lambda: not in_flight.unsettled or self._target.over)
        self._drop_accepted()
        back = []
        for message in in_flight.by_delivery.values():
            if message.phase in (Phase.WAITING, Phase.REFUSED):
                back.append(message.source)
            elif not keep and not message.stale:
                in_flight.duplicates += 1
                message.stale = True
                back.append(message.source)
        in_flight.returned += len(back)
        self._source.put_back(back)

    def count_unconfirmed(self) -> None:
        """Count the acceptances that may not have reached the source, after its link was left."""
        redeliveries = self._redeliveries
        heard = self._source.answered_detach  # and so all acceptances
        self.in_flight.duplicates += redeliveries.awaited if heard else redeliveries.unconfirmed

    def _drop_accepted(self) -> None:
        """Stop waiting for the source to settle, since its link or the store knows the outcome."""
        forgets = self._source.over and self._source.store is None
        for message in [each for each in self.in_flight.by_delivery.values() if each.phase is Phase.ACCEPTED]:
            self.in_flight.drop(message)
            self.in_flight.duplicates += forgets

    # Waiting

    def _free_place(self) -> None:
        """Count a freed place of the window, and wake the mover when enough are free."""
        self._freed += 1
        if 3 * self._freed >= self.in_flight.active:
            if not self.settings.until_empty:
                self._grant()
            self._changed()
        elif self._stopped:
            self._changed()

    def _wake(self) -> None:
        if self._work is not None:
            self._work.set()

    def _changed(self) -> None:
        event, self._change = self._change, None
        if event is not None:
            event.set()

    async def _wait_until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._next_change()

    async def _next_change(self) -> None:
        if self._change is None:
            self._change = anyio.Event()
        await self._change.wait()


def payload_of(message: InFlightMessage) -> bytes:
    """Return the payload to send on for a message."""
    source = message.source
    if source.message_format:
        return source.payload
    return for_next_hop(source.payload, anyio.current_time() - message.received_at)
