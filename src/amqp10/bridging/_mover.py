"""Moves messages one by one: one task takes them, one sends them, and the target's outcomes go back to the source.

    source ──receive_batch──> taking ──queue──> passing ──forward──> target
       <──accept, reject──────────── look <──────outcome──────────────┘

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
from ._again import Again
from ._ends import Intake, uncertain
from ._onward import marked, onward
from ._transit import Flight, Phase, Transit

if TYPE_CHECKING:
    from ..client import Delivery
    from ..client.internals import ReceiverDelivery, SenderDelivery
    from ..engine import OutgoingDelivery
    from ..messaging import Outcome
    from ._ends import Ending, Outlet
    from ._settings import Settings

QUIET = 1.0
"""Seconds without a message after which a source without "drain" counts as empty."""


class Mover:
    """Moves messages until it has enough, is stopped, or fails.

    Attributes:
        flight: the messages in progress, and the counts.
        failure: the error that stopped it, or None.
    """

    def __init__(self, settings: Settings, source: Ending, target: Outlet, aside: Outlet | None) -> None:
        self.settings = settings
        self.flight = Flight()
        self.failure: Exception | None = None
        self._source = source
        self._target = target
        self._aside = aside
        self._asides: deque[Transit] = deque()
        self._again = Again(settings.most)
        self._generation = 0  # of the source's link at the last message
        self._freed = 0  # places freed since the last grant of credit
        self._next_at = 0.0
        self._scope = anyio.CancelScope()
        self._stopped = False
        self._work: anyio.Event | None = None
        self._change: anyio.Event | None = None
        core_of(source).forgotten = self._forgotten
        core_of(source).settled = self._settled
        core_of(target).unresumed = self._unresumed
        core_of(target).at_stake = lambda deliveries: sum(delivery.handed_over for delivery in deliveries)
        core_of(target).uncertain = self.fail
        if isinstance(source, Intake):
            core_of(source).at_stake = self._moving
            core_of(source).uncertain = self.fail

    async def run(self) -> None:
        """Move messages until the end; an error is in `failure`.

        Cancelling: messages without an outcome stay open; see `wind_up`.
        """
        for end in (self._target, self._aside):
            if end is not None:
                end.watch(self)
        self.set()
        try:
            with self._scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._or_fail, self._passing)
                    await self._or_fail(self._taking)
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
        for end in (self._target, self._aside):
            if end is not None and end.over and not self._stopped:
                self.fail(end.report_end())
        self._changed()

    # Continuing

    def recover(self, source: Intake, target: Outlet) -> None:
        """Resume messages that an earlier process had sent without an outcome, and ask the source to keep them."""
        kept = target.store
        if kept is None:
            return
        left = self.flight.recover([each.tag for each in kept.load()], anyio.current_time(), self.look)
        core_of(source).in_flight = [transit.source for transit in left.values()]
        core_of(source).keeps = lambda: kept.left

        def take_over(deliveries: Iterable[SenderDelivery]) -> None:
            for delivery in deliveries:
                self.flight.sent(left[delivery.tag], delivery)
                delivery.waiter = left[delivery.tag]

        core_of(target).take_over = take_over

    # Taking

    @property
    def _finished(self) -> int:
        return self.flight.moved + self.flight.refused

    def _enough(self) -> bool:
        """Return whether no more messages are needed, as far as is known now."""
        count = self.settings.count
        return count is not None and self._finished + self.flight.under_way >= count

    def _grant(self) -> None:
        """Grant credit for the free places."""
        self._freed = 0
        settings, flight, ahead = self.settings, self.flight, self._source.ahead
        room = min(settings.most, 1 + max(0, settings.max_bytes - flight.size) // flight.usual_size)
        room -= len(flight.held) + ahead
        if settings.count is not None:
            room = min(room, settings.count - self._finished - flight.under_way - ahead)
        # Not for a few places while credit is left.
        if room > 0 and (room >= ahead or room >= settings.most // 4) and not self._stopped:
            try:
                self._source.add_credit(room)
            except (AmqpError, anyio.ClosedResourceError):
                pass  # the link is over, as its `receive_batch` reports

    async def _taking(self) -> None:
        source, flight = self._source, self.flight
        while True:
            if self._enough():
                await self._until(lambda: not self._enough() or not flight.under_way)
                if self._enough():
                    return
            self._grant()
            if self.settings.until_empty and not source.ahead:
                await self._next_change()
                continue
            batch = await self._arrivals()
            if batch is None:
                if not flight.under_way:
                    return
                await self._until(lambda: not flight.under_way)
                continue
            if not batch:
                continue
            if self._generation != source.losses:
                self._generation = source.losses
                self._again.lost()
            flight.duplicates += self._again.count(batch)
            now = anyio.current_time()
            # Every delivery is a ReceiverDelivery.
            flight.took([Transit(each, now, self.look) for each in batch])  # type: ignore[arg-type]
            if flight.size > self.settings.max_bytes:
                source.withdraw()
            self._wake()

    async def _arrivals(self) -> list[Delivery] | None:
        """Return the deliveries that came, if any; None if the source is empty and the settings say to stop then."""
        source, most = self._source, self.settings.most
        if not self.settings.until_empty:
            return await source.receive_batch(most)
        await source.restored()
        generation = source.losses
        if "drain" in source.connection.capabilities:
            await source.drain()
        elif not source.buffered:
            batch = await source.receive_batch(1, max_wait=QUIET)
            if batch:
                return batch
        if source.buffered:
            return await source.receive_batch(most)
        # If the link was lost meanwhile, its credit was, too, so silence does not mean empty.
        return None if source.open and source.losses == generation else []

    # Sending

    async def _passing(self) -> None:
        while True:
            await self._pass_on()

    async def _pass_on(self) -> None:
        """Send the next message, or wait for it."""
        queue = self.flight.queue
        if self._asides:
            await self._send_aside(self._asides.popleft())
        elif not queue:
            self._work = anyio.Event()
            await self._work.wait()
        elif queue[0].stale:
            queue.popleft()
        else:
            await self._send(queue[0])

    async def _send(self, transit: Transit) -> None:
        await self._pace()
        source = transit.source
        await self._target.room(len(source.payload))
        if transit.stale:
            self._target.let_others()
            return
        self.flight.queue.popleft()
        tag = source.tag if self.settings.exactly_once else None
        self._hand_over(transit, self._target, payload_of(transit), tag)

    async def _send_aside(self, transit: Transit) -> None:
        assert self._aside is not None
        await self._aside.room(len(transit.source.payload))
        if transit.stale:
            self._aside.let_others()
        else:
            self._hand_over(transit, self._aside, marked(transit.source.payload, transit.aside), None)

    def _hand_over(self, transit: Transit, end: Outlet, payload: bytes, tag: bytes | None) -> None:
        try:
            sent = end.forward(payload, transit.source.message_format, tag=tag)
        except (DecodeError, EncodeError) as error:
            self._refused(transit, Rejected(Error("amqp:decode-error", str(error))))
        except LocalProtocolError as error:
            if not end.open:
                raise
            most = end.remote.max_message_size
            large = bool(most) and len(payload) > (most or 0)
            condition = "amqp:link:message-size-exceeded" if large else "amqp:invalid-field"
            self._refused(transit, Rejected(Error(condition, str(error))))
        else:
            self.flight.sent(transit, sent)
            sent.waiter = transit

    async def _pace(self) -> None:
        if self.settings.rate is not None:
            now = anyio.current_time()
            if self._next_at > now:
                await anyio.sleep_until(self._next_at)
            self._next_at = max(now, self._next_at) + 1 / self.settings.rate

    # Outcomes of the target

    def look(self, transit: Transit) -> None:
        """Handle the target's outcome of a message, or that there will be no outcome."""
        sent = transit.sent
        assert sent is not None
        outcome = known_outcome(sent)
        if outcome is None:
            error = unknown(sent)
            if error is None:
                sent.waiter = transit  # a state that is not an outcome
                return
            report_unknown(sent)
            self.flight.settled(transit, Phase.UNKNOWN)
            self.fail(error)
        elif type(outcome) is not Accepted:
            self._refused(transit, outcome)
        elif transit.aside:
            self._turn_down(transit)
        else:
            self._accepted(transit)

    def _accepted(self, transit: Transit) -> None:
        flight = self.flight
        if flight.told(transit) and not self.settings.exactly_once:
            self._again.told(transit.source)
        if self.settings.exactly_once and not transit.source.local_settled and transit.source in flight.held:
            flight.settled(transit, Phase.TOLD)
        else:
            flight.drop(transit)
            self._free()

    def _refused(self, transit: Transit, outcome: Outcome) -> None:
        flight, settings = self.flight, self.settings
        failure = not_accepted(outcome, self._target.connection.profile)
        if transit.stale:
            flight.drop(transit)
        elif self._aside is not None and not transit.aside:
            flight.settled(transit, Phase.WAITING)
            transit.aside = str(failure) or type(outcome).__name__.lower()
            self._asides.append(transit)
            self._wake()
        elif settings.on_refused == "reject":
            self._turn_down(transit, failure)
        else:
            flight.settled(transit, Phase.REFUSED)
            flight.refused += 1
            if settings.on_refused == "stop" or flight.left >= settings.most:
                self.fail(failure)
        self._free()

    def _turn_down(self, transit: Transit, why: Exception | None = None) -> None:
        """Settle a refused message at the source: it was sent aside, or is rejected for `why`."""
        self.flight.drop(transit)
        if transit.stale:
            return
        self.flight.refused += 1
        try:
            if why is None:
                transit.source.accept()
                self._again.told(transit.source)
            else:
                condition = getattr(why, "condition", None) or "amqp:not-allowed"
                description = f"the target of a bridge did not accept it: {why}"
                transit.source.settle(Rejected(Error(condition, description)))
        except (AmqpError, anyio.ClosedResourceError):
            self.flight.refused -= 1  # the source's link is over, so the message comes again
        self._free()

    def _unresumed(self, deliveries: list[OutgoingDelivery]) -> list[OutgoingDelivery]:
        """Return the messages to send again after the target's link was lost before their outcomes."""
        lost = [delivery for delivery in deliveries if delivery.handed_over]
        if not self.settings.exactly_once:
            self.flight.duplicates += len(lost)
            return deliveries
        for delivery in lost:
            if isinstance(delivery.waiter, Transit):
                self.flight.settled(delivery.waiter, Phase.UNKNOWN)
        if lost:
            core_of(self._target).forgot = True
            self.fail(uncertain("target", len(lost)))
        return [delivery for delivery in deliveries if not delivery.handed_over]

    # Settlements of the source

    def _settled(self, deliveries: Iterable[ReceiverDelivery]) -> None:
        for delivery in deliveries:
            transit = self.flight.held.get(delivery)
            if transit is not None and transit.phase is Phase.TOLD and delivery.local_settled:
                self.flight.drop(transit)
                self._free()

    def _moving(self, deliveries: Iterable[ReceiverDelivery]) -> int:
        """Return the number of messages that were sent on, but not yet settled at the source."""
        held = self.flight.held
        transits = [(held.get(delivery), delivery) for delivery in deliveries]
        return sum(
            transit.phase in (Phase.OUT, Phase.TOLD) if transit is not None else isinstance(delivery.state, Accepted)
            for transit, delivery in transits
        )

    def _forgotten(self, deliveries: Iterable[ReceiverDelivery]) -> None:
        """Handle the loss of the source's link, after which the messages come again."""
        flight, lost = self.flight, 0
        self._again.lost()
        for delivery in deliveries:
            transit = flight.held.get(delivery)
            if transit is None:
                if not isinstance(delivery.state, Accepted):
                    continue
                if self.settings.exactly_once:  # an earlier process settled it
                    lost += 1
                else:  # settled while the link was lost
                    flight.moved -= 1
                    flight.duplicates += 1
                    self._again.count([delivery])
                continue
            transit.stale = True
            if transit.phase in (Phase.WAITING, Phase.REFUSED):
                flight.drop(transit)
            elif self.settings.exactly_once:
                flight.settled(transit, Phase.UNKNOWN)
                lost += 1
            else:
                flight.duplicates += 1
        if lost:
            if isinstance(self._source, Intake):
                core_of(self._source).forgot = True
            self.fail(uncertain("source", lost))
        self._freed = self.settings.most
        self._free()

    # The end

    async def wind_up(self, deadline: float) -> None:
        """Wait for outstanding outcomes, then return the rest to the source.

        Cancelling: is not noticed; it takes at most until the deadline.
        """
        self.stop()
        flight, keep = self.flight, self._target.store is not None
        with shielded_until(deadline):
            await self._until(lambda: not flight.out or self._target.over or self._source.over)
        if self._source.over:
            self._drop_told()
            with shielded_until(deadline):
                await self._until(lambda: not flight.out or self._target.over)
            flight.duplicates += self._again.unheard
        self._drop_told()
        back = []
        for transit in flight.held.values():
            if transit.phase in (Phase.WAITING, Phase.REFUSED):
                back.append(transit.source)
            elif not keep and not transit.stale:
                flight.duplicates += 1
                transit.stale = True
                back.append(transit.source)
        flight.returned += len(back)
        self._source.give_back(back)

    def _drop_told(self) -> None:
        """Stop waiting for the source to settle, since its link or the store knows the outcome."""
        forgets = self._source.over and self._source.store is None
        for transit in [each for each in self.flight.held.values() if each.phase is Phase.TOLD]:
            self.flight.drop(transit)
            self.flight.duplicates += forgets

    # Waiting

    def _free(self) -> None:
        """Count a freed place of the window, and wake the mover when enough are free."""
        self._freed += 1
        if 3 * self._freed >= self.flight.under_way:
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

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._next_change()

    async def _next_change(self) -> None:
        if self._change is None:
            self._change = anyio.Event()
        await self._change.wait()


def payload_of(transit: Transit) -> bytes:
    """Return the payload to send on for a message."""
    source = transit.source
    if source.message_format:
        return source.payload
    return onward(source.payload, anyio.current_time() - transit.came)
