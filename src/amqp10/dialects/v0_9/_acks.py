"""What is to be said of deliveries, merged: in the usual order of settling, one ack for all of them (basic.ack).

Numbers count up from 1 on a channel. `multiple` means everything up to the number that was not said before, so it is
used where nothing in between is still open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...messaging import Accepted, DeliveryState, Modified, Rejected
from ._channel import Channel, State
from ._method import Method
from ._methods import BasicAck, BasicNack, BasicReject

ACCEPT: Final = 0
REQUEUE: Final = 1
DISCARD: Final = 2

SIZE: Final = 13
"""Octets of each of those methods: its code, the number, and its bits."""


class Acks:
    """Those of one channel.

    Args:
        channel: where they are written.
        said: told how many were, of those after `since`.
        one: the method that says something of a single delivery.

    Attributes:
        done: everything up to this number has been said.
        since: what is up to this number counts no more.
    """

    def __init__(self, channel: Channel, said: Callable[[int], None], one: Callable[[int, int], Method]) -> None:
        self._channel = channel
        self._told = said
        self._one = one
        self.done = self.since = 0
        self._run = 0  # accepted up to here, from `done` on, and not said yet
        self._others: dict[int, int] = {}  # to be said
        self._runs: dict[int, int] = {}  # what was said beyond `done`: where each run of numbers ends, by its first
        self._ends: dict[int, int] = {}  # and where it begins, by its last
        self._owed = False

    def add(self, number: int, verb: int) -> None:
        """Note what to say of a delivery. benchmarks/amqp091.py."""
        if verb == ACCEPT and number == self._run + 1:
            self._run = number
        else:
            self._others[number] = verb
        if not self._owed:
            self._owed = True
            self._channel.engine.owe(self)

    def joins(self, number: int) -> bool:
        """Accept a delivery if the one before it was accepted and that is not said yet; else False."""
        if not self._owed or number != self._run + 1:
            return False
        self._run = number
        return True

    def add_run(self, first: int, last: int) -> None:
        """Accept all of these."""
        if first == self._run + 1:
            self._run = last - 1
            first = last
        for number in range(first, last + 1):
            self.add(number, ACCEPT)

    def forget(self, last: int) -> None:
        """Nothing is to be said of what came until now."""
        self.done = self.since = self._run = last
        self._others.clear()
        self._runs.clear()
        self._ends.clear()

    def flush(self) -> None:
        """Say it, as long as the channel is open: behind its close nothing may be said, and the peer has all back."""
        self._owed = False
        if self._channel.channel_state is not State.OPEN:
            return
        others = self._others
        before, count = self.done, 0
        while True:
            run = self._run
            while others.get(run + 1) == ACCEPT:  # settled in another order, by now all of them
                run += 1
                del others[run]
            if run > self.done:
                self._channel.write(BasicAck(run, run > self.done + 1))
                count += max(0, run - max(self.done, self.since))
                self._reach(run)
            if others.get(self._run + 1) != ACCEPT:
                break
        says = self.done > before
        if others:
            says = True
            count += sum(map(self.since.__lt__, others))
            self._say_each()
        if says:
            self._told(count)

    def _say_each(self) -> None:
        """In no order that `multiple` could say."""
        others, self._others = self._others, {}
        for number in sorted(others):
            self._channel.write(self._one(number, others[number]))
            first, last = self._ends.pop(number - 1, number), self._runs.pop(number + 1, number)
            self._runs[first], self._ends[last] = last, first
        self._reach(self.done)

    def _reach(self, number: int) -> None:
        """Everything up to there has been said, and what was said beyond it before."""
        last = self._runs.pop(number + 1, None)
        if last is not None:
            del self._ends[last]
            number = last
        self.done = number
        self._run = max(self._run, number)


def outcome(number: int, verb: int) -> Method:
    """What a consumer says of a delivery."""
    return BasicAck(number) if verb == ACCEPT else BasicReject(number, verb == REQUEUE)


def confirm(number: int, verb: int) -> Method:
    """What a server says of a publish."""
    return BasicAck(number) if verb == ACCEPT else BasicNack(number, requeue=False)


def verb_of(state: DeliveryState | None) -> int:
    """What is said for an outcome: rejected and undeliverable messages go where the queue sends dead letters."""
    if isinstance(state, Accepted):
        return ACCEPT
    if isinstance(state, Rejected) or (isinstance(state, Modified) and state.undeliverable_here):
        return DISCARD
    return REQUEUE
