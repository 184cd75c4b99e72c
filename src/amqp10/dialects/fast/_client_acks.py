"""What a receiver at the client says back: acknowledgments in order, messages given back, and the prefetch.

An acknowledgment is for all messages of the channel up to a number. So one that is settled before those that came ahead
of it waits for them; at the end those that are still in the way are given back, that it may be told (handle-unget).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from ...types import serial_lt
from ._commands import ChannelAck, ChannelCommit, HandleFlow, HandleUnget

if TYPE_CHECKING:
    from ...engine import IncomingDelivery
    from ...messaging import Error
    from ._client_receiver import ClientReceiver

MAX_PREFETCH: Final = 0xFFFF


class Acknowledging:
    """Of one receiver.

    Args:
        unreliable: the server forgets what it sends: nothing is acknowledged, and the prefetch is how many messages
            may come before it is said again.

    Attributes:
        held: what came and is not acknowledged, in order of arrival.
    """

    def __init__(self, link: ClientReceiver, *, unreliable: bool) -> None:
        self.unreliable = unreliable
        self.held: deque[IncomingDelivery] = deque()
        self._link = link
        self._engine = link.engine
        self._settled: set[int] = set()  # numbers that may be acknowledged
        self._back: list[int] = []  # numbers to be given back
        self._given_back: set[int] = set()  # of those that are held
        self._prefetch = 1  # as the server knows it
        self._to_come = 0  # unreliable: what may still come of it
        self._paused = True
        self._drain = False  # to be asked for
        self._stopping = 0  # confirmed pauses that are on their way

    # What happens

    def came(self, delivery: IncomingDelivery) -> None:
        """A message is here, or its first part."""
        if self.unreliable:
            self._to_come -= 1
        else:
            self.held.append(delivery)

    def settled(self, delivery: IncomingDelivery) -> None:
        """It may be acknowledged."""
        if delivery.delivery_id is not None:
            self._settled.add(delivery.delivery_id)

    def give_back(self, delivery: IncomingDelivery) -> None:
        """The server is to have it again."""
        if delivery.delivery_id is not None:
            self._back.append(delivery.delivery_id)
            self.settled(delivery)

    def granted(self, drain: bool) -> None:
        """The link's credit was set."""
        self._drain = drain

    # What is said

    def reaches(self, deliveries: list[IncomingDelivery]) -> bool:
        """Whether these can be acknowledged, for all that came before them is settled, or one of them."""
        numbers = {each.delivery_id for each in deliveries}
        held = [each.delivery_id for each in self.held]
        last = max((at for at, number in enumerate(held) if number in numbers), default=-1)
        return all(number in numbers or number in self._settled for number in held[: last + 1])

    def write(self, *, commit: bool = True) -> None:
        """Say all that there is to be said; `commit`: and that it is to happen."""
        if self.unreliable:
            self._write_unreliable()
            return
        link, engine = self._link, self._engine
        back, self._back = self._back, []
        last = self._acknowledgeable()
        self._given_back.update(back)
        if last is not None:
            self._given_back = {number for number in self._given_back if serial_lt(last, number)}
        unacknowledged = len(self.held) - len(self._given_back)
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
        """The last number before which all is settled; they are held no more."""
        held, settled = self.held, self._settled
        last: int | None = None
        while held and (number := held[0].delivery_id) in settled:
            held.popleft()
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

    def _pause(self) -> None:
        if not self._paused:
            self._paused = True
            self._engine.write(HandleFlow(handle_id=self._link.handle.id, flow_pause=True))

    def _go_on(self) -> None:
        if self._paused:
            self._paused = False
            self._engine.write(HandleFlow(handle_id=self._link.handle.id))

    def _ask_to_drain(self) -> None:
        """A pause that is confirmed is confirmed when the server has sent what it has, and so far may send."""
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
        if self._stopping or not self._paused or self._link.gone:
            return
        if self.unreliable and self._link.credit:
            self._engine.owe(self._link)
        self._link.drained()

    def _write_unreliable(self) -> None:
        """As many as there is credit for, when what was let come before is here."""
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
        """The link goes: what is settled is told, whatever is in its way."""
        if self.unreliable:
            return
        numbers = [each.delivery_id for each in self.held if each.delivery_id is not None]
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
