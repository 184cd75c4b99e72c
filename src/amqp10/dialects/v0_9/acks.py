"""Settlements of deliveries, merged: in the usual order of settling, one basic.ack covers all of them.

Numbers count up from 1 on a channel. `multiple` settles everything up to a number that is not settled yet, so it is
used only if no delivery in between is still open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...messaging import Accepted, DeliveryState, Modified, Rejected
from .channel import Channel
from .states import ChannelState
from .wire.method_table import Method
from .wire.methods import BasicAck, BasicNack, BasicReject

ACCEPT: Final = 0
REQUEUE: Final = 1
DISCARD: Final = 2
FAIL: Final = 3
"""Requeue, and count that as an attempt that failed."""

SIZE: Final = 13
"""Octets of each method that settles: its code, the number, and its bits."""


class AckBatcher:
    """Merges the settlements of one channel.

    Args:
        channel: the channel that the methods are written on.
        on_flushed: called after each flush with the number of settled deliveries that come after `counted_from`.
        one: makes the method that settles a single delivery, from its number and verb.

    Attributes:
        done: every delivery up to this number is settled on the wire.
        counted_from: deliveries up to this number belong to an earlier consumer, and are not counted.
    """

    done: int
    counted_from: int

    def __init__(self, channel: Channel, on_flushed: Callable[[int], None], one: Callable[[int, int], Method]) -> None:
        self._channel = channel
        self._on_flushed = on_flushed
        self._one = one
        self.done = self.counted_from = 0
        self._run = 0  # accepted up to this number, from `done` on, and not written yet
        self._others: dict[int, int] = {}  # number -> verb, not written yet
        self._runs: dict[int, int] = {}  # runs written beyond `done`: first number -> last number
        self._ends: dict[int, int] = {}  # the same runs: last number -> first number
        self._flush_asked = False  # whether the engine will call `flush`

    def add(self, number: int, verb: int) -> None:
        """Record how delivery `number` is settled. benchmarks/amqp091.py."""
        if verb == ACCEPT and number == self._run + 1:
            self._run = number
        else:
            self._others[number] = verb
        if not self._flush_asked:
            self._flush_asked = True
            self._channel.engine.flush_later(self)

    def extend_run(self, number: int) -> bool:
        """Accept delivery `number` if the one before it is accepted and not written yet; return whether that is so."""
        if not self._flush_asked or number != self._run + 1:
            return False
        self._run = number
        return True

    def add_run(self, first: int, last: int) -> None:
        """Accept the deliveries from `first` to `last`."""
        if first == self._run + 1:
            self._run = last - 1
            first = last
        for number in range(first, last + 1):
            self.add(number, ACCEPT)

    def forget(self, last: int) -> None:
        """Forget all deliveries up to `last`: nothing is written about them any longer."""
        self.done = self.counted_from = self._run = last
        self._others.clear()
        self._runs.clear()
        self._ends.clear()

    def flush(self) -> None:
        """Write what is recorded if the channel is open. After its close nothing may be sent; the peer has it back."""
        self._flush_asked = False
        if self._channel.state is not ChannelState.OPEN:
            return
        others = self._others
        before, count = self.done, 0
        while True:
            run = self._run
            while others.get(run + 1) == ACCEPT:  # accepted in another order; by now the gap is closed
                run += 1
                del others[run]
            if run > self.done:
                self._channel.write(BasicAck(run, run > self.done + 1))
                count += max(0, run - max(self.done, self.counted_from))
                self._reach(run)
            if others.get(self._run + 1) != ACCEPT:
                break
        says = self.done > before
        if others:
            says = True
            count += sum(map(self.counted_from.__lt__, others))
            self._say_each()
        if says:
            self._on_flushed(count)

    def _say_each(self) -> None:
        """Write one method a delivery, for those settled in an order that `multiple` cannot express."""
        others, self._others = self._others, {}
        for number in sorted(others):
            self._channel.write(self._one(number, others[number]))
            first, last = self._ends.pop(number - 1, number), self._runs.pop(number + 1, number)
            self._runs[first], self._ends[last] = last, first
        self._reach(self.done)

    def _reach(self, number: int) -> None:
        """Set `done` to `number`, or to the end of the run, written before, that begins right after `number`."""
        last = self._runs.pop(number + 1, None)
        if last is not None:
            del self._ends[last]
            number = last
        self.done = number
        self._run = max(self._run, number)


class NoAcks:
    """Takes the place of an `AckBatcher` for a consumer whose deliveries need no ack."""

    counted_from = 0

    def add(self, number: int, verb: int) -> None: ...

    def extend_run(self, number: int) -> bool:
        return False

    def add_run(self, first: int, last: int) -> None: ...

    def forget(self, last: int) -> None: ...

    def flush(self) -> None: ...


def outcome(number: int, verb: int, *, nack: bool = False) -> Method:
    """Return the method by which a consumer settles a delivery.

    Args:
        nack: the server knows basic.nack. RabbitMQ since 4.3 counts what it requeues by basic.reject as failed, and
            what it requeues by basic.nack not.
    """
    if verb == ACCEPT:
        return BasicAck(number)
    if verb == REQUEUE and nack:
        return BasicNack(number, requeue=True)
    return BasicReject(number, verb != DISCARD)


def confirm(number: int, verb: int) -> Method:
    """Return the method by which a server confirms a publish."""
    return BasicAck(number) if verb == ACCEPT else BasicNack(number, requeue=False)


def verb_of(state: DeliveryState | None) -> int:
    """Return the verb for an outcome; rejected and undeliverable messages go where the queue sends dead letters."""
    if isinstance(state, Accepted):
        return ACCEPT
    if isinstance(state, Rejected) or (isinstance(state, Modified) and state.undeliverable_here):
        return DISCARD
    return FAIL if isinstance(state, Modified) and state.delivery_failed else REQUEUE
