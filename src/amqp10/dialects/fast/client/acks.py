"""What a receiver at the client answers: acknowledgments in order, messages given back, and the prefetch.

An acknowledgment covers all messages of the channel up to a number. So a message that is settled before earlier ones
waits for them. At the end those still unsettled are given back (handle-unget), so that it can be acknowledged.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from ....errors import RemoteProtocolError
from ....types import serial_lt
from ..wire.commands import ChannelAck, ChannelCommit, HandleConsume, HandleFlow, HandleUnget

if TYPE_CHECKING:
    from ....engine import IncomingDelivery
    from ....messaging import Error
    from ..session import EndpointEngine
    from .channel import ClientChannel
    from .handle import ClientHandle

MAX_PREFETCH: Final = 0xFFFF
TOLERANCE: Final = 1000
"""Messages beyond the prefetch that are taken from a server that counts in another way."""


class ReceivingLink(Protocol):
    """A receiver, as its acknowledgments see it."""

    engine: EndpointEngine
    channel: ClientChannel
    handle: ClientHandle
    credit: int
    ended: bool

    def flush(self) -> None: ...

    def consume(self, prefetch: int) -> HandleConsume: ...

    def drained(self) -> None: ...


class AckTracker:
    """The acknowledgments of one receiver.

    Args:
        unreliable: the server forgets each message that it sends. Messages are not acknowledged, and the prefetch is
            how many messages may come before the client states a prefetch again.

    Attributes:
        unacknowledged: the messages received and not acknowledged yet, in order of arrival.
    """

    def __init__(self, link: ReceivingLink, *, unreliable: bool) -> None:
        self.unreliable = unreliable
        self.unacknowledged: deque[IncomingDelivery] = deque()
        self._link = link
        self._engine = link.engine
        self._settled: set[int] = set()  # numbers that may be acknowledged
        self._back: list[int] = []  # numbers to be given back
        self._given_back: set[int] = set()  # of those that are held
        self._last: int | None = None  # the number of the last message
        self._prefetch = self._largest_prefetch = 1  # as the server knows it, and the largest so far
        self._to_come = 0  # unreliable: messages of the last prefetch that may still come
        self._paused = True
        self._drain = False  # a drain is still to be asked for
        self._stopping = 0  # pauses whose confirmation is still to come

    @property
    def exceeded(self) -> bool:
        """Return whether the server has sent far more than its prefetch allows."""
        if self.unreliable:
            return self._to_come < -TOLERANCE
        return len(self.unacknowledged) - len(self._given_back) > self._largest_prefetch + TOLERANCE

    # What happens

    def arrived(self, delivery: IncomingDelivery) -> None:
        """Record a message, or its first part, that has arrived.

        Raises:
            RemoteProtocolError: its number is no higher than that of the one before, so that an acknowledgment of it
                would cover others that are not settled.
        """
        if self.unreliable:
            self._to_come -= 1
            return
        number = delivery.delivery_id or 0
        if self._last is not None and not serial_lt(self._last, number):
            raise RemoteProtocolError(
                f"a message has the number {number}, although the last one had {self._last}", "amqp:illegal-state"
            )
        self._last = number
        self.unacknowledged.append(delivery)

    def settled(self, delivery: IncomingDelivery) -> None:
        """Mark a delivery as ready to be acknowledged."""
        if delivery.delivery_id is not None:
            self._settled.add(delivery.delivery_id)

    def give_back(self, delivery: IncomingDelivery) -> None:
        """Mark a delivery to be given back to the server."""
        if delivery.delivery_id is not None:
            self._back.append(delivery.delivery_id)
            self.settled(delivery)

    def set_credit(self, drain: bool) -> None:
        """Record that the link's credit was set, and whether to drain."""
        self._drain = drain

    # What is said

    def covers(self, deliveries: list[IncomingDelivery]) -> bool:
        """Return whether `deliveries` can be acknowledged: each earlier message is settled, or is one of them."""
        numbers = {each.delivery_id for each in deliveries}
        unacknowledged = [each.delivery_id for each in self.unacknowledged]
        last = max((at for at, number in enumerate(unacknowledged) if number in numbers), default=-1)
        return all(number in numbers or number in self._settled for number in unacknowledged[: last + 1])

    def write(self, *, commit: bool = True) -> None:
        """Write all pauses, prefetches, give-backs and acknowledgments that are due; with `commit`, also a commit."""
        if self.unreliable:
            self._write_unreliable()
            return
        link, engine = self._link, self._engine
        back, self._back = self._back, []
        last = self._acknowledgeable()
        self._given_back.update(back)
        if last is not None:
            self._given_back = {number for number in self._given_back if serial_lt(last, number)}
        unacknowledged = len(self.unacknowledged) - len(self._given_back)
        wanted = min(MAX_PREFETCH, unacknowledged + link.credit) if link.credit else 0
        if not wanted:
            self._pause()
        elif wanted < self._prefetch and not self._paused:
            self._say_prefetch(wanted)
        for number in back:
            engine.write(HandleUnget(handle_id=link.handle.id, message_nbr=number))
        if last is not None:
            self._acknowledge(last, commit)
        if wanted and wanted != self._prefetch:
            self._say_prefetch(wanted)
        if wanted:
            self._go_on()
        self._ask_to_drain()

    def _acknowledgeable(self) -> int | None:
        """Drop the settled messages at the front of `unacknowledged`; return the number of the last one, if any."""
        unacknowledged, settled = self.unacknowledged, self._settled
        last: int | None = None
        while unacknowledged and (number := unacknowledged[0].delivery_id) in settled:
            unacknowledged.popleft()
            settled.discard(number)
            last = number
        return last

    def _acknowledge(self, last: int, commit: bool) -> None:
        channel = self._link.channel
        self._engine.write(ChannelAck(channel_id=channel.id, message_nbr=last))
        if channel.transacted and commit:
            self._engine.write(ChannelCommit(channel_id=channel.id))

    def _say_prefetch(self, prefetch: int) -> None:
        self._engine.write(self._link.consume(prefetch))
        self._prefetch = prefetch
        self._largest_prefetch = max(self._largest_prefetch, prefetch)

    def _pause(self) -> None:
        if not self._paused:
            self._paused = True
            self._engine.write(HandleFlow(handle_id=self._link.handle.id, flow_pause=True))

    def _go_on(self) -> None:
        if self._paused:
            self._paused = False
            self._engine.write(HandleFlow(handle_id=self._link.handle.id))

    def _ask_to_drain(self) -> None:
        """Ask for a confirmed pause, if a drain is due: the server confirms it after it has sent all that it may."""
        if self._drain:
            self._drain = False
            self._stop()

    def _stop(self) -> None:
        self._paused = True
        self._stopping += 1
        self._link.handle.ask(HandleFlow(flow_pause=True), self._on_stopped)

    def _on_stopped(self, error: Error | None) -> None:
        self._stopping -= 1
        self._to_come = 0
        if self._stopping or not self._paused or self._link.ended:
            return
        if self.unreliable and self._link.credit:
            self._engine.flush_later(self._link)
        self._link.drained()

    def _write_unreliable(self) -> None:
        """Grant the credit as a prefetch when all messages of the last one have arrived; pause if the credit fell."""
        link = self._link
        if link.credit < self._to_come and not self._stopping:
            self._stop()
        elif link.credit and not self._to_come and not self._stopping:
            prefetch = min(MAX_PREFETCH, link.credit)
            self._engine.write(link.consume(prefetch))
            self._to_come = prefetch
            self._go_on()
        self._ask_to_drain()

    # The end

    def finish(self) -> None:
        """Acknowledge all settled messages, because the link ends; give back unsettled ones that came before them."""
        if self.unreliable:
            return
        numbers = [each.delivery_id for each in self.unacknowledged if each.delivery_id is not None]
        for number in self._back:
            self._engine.write(HandleUnget(handle_id=self._link.handle.id, message_nbr=number))
        self._back.clear()
        last = max((at for at, number in enumerate(numbers) if number in self._settled), default=None)
        if last is None:
            return
        self._pause()
        for number in numbers[:last]:
            if number not in self._settled:
                self._engine.write(HandleUnget(handle_id=self._link.handle.id, message_nbr=number))
        self._acknowledge(numbers[last], True)
