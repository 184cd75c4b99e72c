"""Reading a partition from a position on, also after a loss."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Final, Self

from ..._arguments import checked
from ...client import Delivery, Receiver
from ...errors import AmqpError, DecodeError, LinkDetached
from ...messaging import EventPosition, Source
from ...types import Symbol
from ._errors import ownership_lost
from ._events import ReceivedEvent
from ._properties import PartitionProperties

POSITION: Final = Symbol(EventPosition.usual_name)


class EventReader:
    """Reads one partition; made by `hub.reader()`, attached by `async with`.

        async with hub.reader("0", start=EventPosition.offset(checkpoint)) as reader:
            async for event in reader: ...

    Reading removes nothing from the hub. To continue another time, keep the `offset` of the last event you handled.
    After a loss the reader continues by itself behind the last event that came, and returns no event twice.

    Args:
        source: the partition; its filter is moved forward with each event.
        start: where to begin.
        last_of: asks for the properties of the partition.

    Attributes:
        receiver: the link that brings the events.
        partition: the id of the partition.
        start: where it begins; `EventPosition.latest()` becomes the last event when the link is attached first.
    """

    def __init__(
        self,
        receiver: Receiver,
        partition: str,
        source: Source,
        start: EventPosition,
        last_of: Callable[[str], Awaitable[PartitionProperties]],
    ) -> None:
        self.receiver = receiver
        self.partition = partition
        self._source = source
        self.start: EventPosition = start
        self._last_of = last_of
        self._last = -1
        self._waiting: deque[Delivery] = deque()  # came with others in a batch, and were not returned yet

    async def __aenter__(self) -> Self:
        """Attach the link. A reader that starts at `EventPosition.latest()` misses no later event, even if the link is
        lost.

        Raises:
            OwnershipLost: another reader has the partition: its owner level is higher, or this reader has none.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, AuthenticationFailed: see `Receiver`; there is
                no such hub or consumer group ("amqp:not-found") or partition ("com.microsoft:argument-out-of-range"),
                the partition has no such position ("com.microsoft:argument-error"), there are five readers already
                ("amqp:resource-limit-exceeded"), or the token does not allow listening ("amqp:unauthorized-access").
            ManagementError, TimeoutError: the service did not say where the partition ends.

        Cancelling: the link is detached as soon as the service's answer comes.
        """
        if self.start.value == EventPosition.latest().value:
            last = (await self._last_of(self.partition)).last_sequence_number
            self.start = EventPosition.sequence_number(last) if last >= 0 else EventPosition.first()
            self._move_to(self.start)
        with _own_errors():
            await self.receiver.__aenter__()
        return self

    def _move_to(self, position: EventPosition) -> None:
        """Change the filter so that the next attach of the link begins at `position`."""
        assert self._source.filter is not None
        self._source.filter[POSITION] = position.described

    async def receive(self) -> ReceivedEvent:
        """Return the next event.

        Raises:
            OwnershipLost: another reader has taken the partition.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link is over, and why. With `reconnect` it
                comes back by itself.
            DecodeError: the event cannot be decoded; the next call returns the one after it.
            anyio.BusyResourceError: another task is receiving from this reader.
            anyio.ClosedResourceError: the reader was closed here.

        Cancelling: no event is lost: one that came stays for the next call.
        """
        while True:
            if self._waiting:
                event = next(iter(self._take(1)), None)
            else:
                with _own_errors():
                    delivery = await self.receiver.receive()
                event = self._taken(delivery)
            if event is not None:
                return event

    def __aiter__(self) -> AsyncIterator[ReceivedEvent]:
        return self

    __anext__ = receive

    @checked
    async def receive_batch(self, size: int, *, max_wait: float | None = None) -> list[ReceivedEvent]:
        """Receive several events at once: 1 to `size` of them, [] only when `max_wait` passed.

        Args:
            size: the most to return; never more than the `prefetch` of the reader.
            max_wait: how long to collect, in seconds; 0: return what has arrived. None: wait for the first event, and
                return it with the others that have arrived by then.

        Raises:
            OwnershipLost, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, DecodeError,
                anyio.BusyResourceError, anyio.ClosedResourceError: see `receive`. Events before one that cannot be
                decoded are returned first, and those after it by the next calls.
            ValueError: `size` is not positive, or `max_wait` is negative.
            TypeError: `max_wait` is not a number.

        Cancelling: no event is lost: those that came stay for the next call.
        """
        while True:
            if not self._waiting:
                with _own_errors():
                    self._waiting.extend(await self.receiver.receive_batch(size, max_wait=max_wait))
            events = self._take(size)
            if events or max_wait is not None:
                return events

    def _take(self, most: int) -> list[ReceivedEvent]:
        """Return at most `most` of the events that wait, up to the first one that cannot be decoded.

        Raises:
            DecodeError: that is the first one; it waits no longer.
        """
        events: list[ReceivedEvent] = []
        while self._waiting and len(events) < most:
            try:
                event = self._taken(self._waiting[0])
            except DecodeError:
                if events:
                    break
                self._waiting.popleft()
                raise
            self._waiting.popleft()
            if event is not None:
                events.append(event)
        return events

    def _taken(self, delivery: Delivery) -> ReceivedEvent | None:
        """Return the event of a delivery; None: the reader returned this event before."""
        if not delivery.local_settled:
            with suppress(AmqpError):  # Event Hubs ignores the outcome, and the link may be lost
                delivery.accept()
        event = ReceivedEvent(delivery.message, self.partition)
        number = event.sequence_number
        if 0 <= number <= self._last:
            return None
        if number >= 0:
            self._last = number
            self._move_to(EventPosition.sequence_number(number))
        return event

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Detach.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: see `Receiver`.

        Cancelling: is not noticed; it takes `close_timeout` seconds at most.
        """
        await self.receiver.__aexit__(exc_type, exc, traceback)

    def __repr__(self) -> str:
        return f"<EventReader {self.receiver.address!r}>"


@contextmanager
def _own_errors() -> Iterator[None]:
    """Raise `OwnershipLost` where the link ended because of another reader."""
    try:
        yield
    except LinkDetached as error:
        lost = ownership_lost(error)
        if lost is None:
            raise
        raise lost from error
