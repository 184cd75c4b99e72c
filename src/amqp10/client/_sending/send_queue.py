"""The queue of tasks that wait, in order of arrival, for credit, window and room in the output (§2.6.7)."""

from __future__ import annotations

import logging
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

import anyio
import anyio.lowlevel

from ..._arguments import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...engine import OutgoingDelivery, SenderLink
    from ...net import Pump
    from .._core.connection import ConnectionCore

# A sender lets other tasks run when it has sent this many bytes, each message counting MESSAGE_COST bytes more: some
# 200 µs. With a quarter of both, 1 KiB cost a tenth more a message, and 64 KiB a fifth. benchmarks/run.py, "send".
YIELD_AFTER_BYTES = 262_144
MESSAGE_COST = 4096

LONG: Final = 5.0
"""Seconds of waiting after which the log says what for: neither a task that waits nor its timeout's error says it."""

_log = logging.getLogger("amqp10.connection")


class SendingLink(Protocol):
    """A sender's core, as its queue sees it; see `SenderCore`."""

    connection: ConnectionCore
    open: bool
    link: SenderLink | None
    last: OutgoingDelivery | None
    pump: Pump | None
    wake: Callable[[], None]

    @property
    def face(self) -> object: ...

    @property
    def returning(self) -> bool: ...

    def report_end(self) -> Exception: ...


class Turn:
    """A task's place in the queue."""

    __slots__ = ("event",)

    def __init__(self) -> None:
        self.event: anyio.Event = anyio.Event()


class SendQueue:
    """The tasks that wait to send on one link, messages and streams alike.

    Attributes:
        waiting: the places of the waiting tasks, first in, first out. A task that finds others here waits behind them.
        stream: the place of the stream that is being sent, the first in `waiting`; None without one.
        since_yield: bytes that were sent since other tasks could run, each message counting MESSAGE_COST more.
        draining: the receiver wants unused credit back.
    """

    __slots__ = ("_report_due", "_sender", "draining", "since_yield", "stream", "waiting")

    def __init__(self, sender: SendingLink) -> None:
        self._sender = sender
        self.waiting: deque[Turn] = deque()
        self.stream: Turn | None = None
        self.since_yield: int = 0
        self.draining: bool = False
        self._report_due = LONG  # seconds of waiting after which the log says so next

    # Waiting

    def time_to_yield(self, size: int) -> bool:
        """Count `size` bytes before they are sent; return whether other tasks should run first."""
        self.since_yield += size + MESSAGE_COST
        if self.since_yield <= YIELD_AFTER_BYTES:
            return False
        self.since_yield = 0
        return True

    def free_link(self, size: int) -> SenderLink | None:
        """Count a message of `size` bytes; return the link if it can be sent now, None if `wait_sendable` has to wait.

        This finds out what `wait_sendable` would, without the cost of awaiting it. benchmarks/budget.py, "submit".
        """
        self.since_yield = since_yield = self.since_yield + size + MESSAGE_COST
        sender = self._sender
        link = sender.link
        if (
            since_yield > YIELD_AFTER_BYTES
            or self.waiting
            or not sender.open
            or not link.sendable  # type: ignore[union-attr] # an open sender has a link and a pump
            or sender.pump.full  # type: ignore[union-attr]
        ):
            return None
        return link

    async def wait_sendable(self) -> SenderLink:
        """Let other tasks run if it is time, then wait in turn for credit, window and output; return the link.

        Once there is room, this returns without yielding: no other task can take the credit in between.

        Cancelling: no credit was used.
        """
        sender, turns = self._sender, self.waiting
        behind = False
        if self.since_yield > YIELD_AFTER_BYTES:
            self.since_yield = 0
            await anyio.lowlevel.checkpoint()
            # Other tasks already wait for output room: line up behind them.
            behind = sender.connection.output_awaited
        link = self._usable()
        ahead = len(turns)
        if self._can_send(link, ahead) and not (behind or sender.connection.output_full):
            return link
        sender.connection.check_loop()
        turn, since, last = Turn(), anyio.current_time(), sender.last
        turns.append(turn)
        try:
            while behind or not self._can_send(link, ahead) or sender.connection.output_full:
                with anyio.move_on_after(LONG) as scope:
                    if self._can_send(link, ahead):
                        await sender.connection.output_drained()
                        behind = False
                    else:
                        await turn.event.wait()
                        turn.event = anyio.Event()
                        ahead = 0  # whoever is woken has credit of its own
                if scope.cancelled_caught and sender.last is last:
                    self._report(anyio.current_time() - since, len(turns))
                elif scope.cancelled_caught:  # others could send meanwhile
                    since, last = anyio.current_time(), sender.last
                link = self._usable()
        except BaseException:
            turns.remove(turn)
            self.pass_on()
            if sender.last is last:
                self._report(anyio.current_time() - since, len(turns) + 1)
            if not turns:
                self._report_due = LONG
            raise
        turns.remove(turn)
        self._report_due = LONG
        return link

    def _report(self, waited: float, count: int) -> None:
        """Log that `count` messages wait, after LONG seconds and each time that the seconds have doubled.

        Each task that waits asks for it: the first one to do so speaks for all.
        """
        withheld = self._withheld()
        if withheld is not None and round(waited) >= self._report_due:
            self._report_due = 2 * round(waited)
            what, why = withheld
            who, messages = self._sender.face, counted(count, "message")
            _log.warning("%r has waited %.0f s for %s, with %s to send: %s", who, waited, what, messages, why)

    def _withheld(self) -> tuple[str, str] | None:
        """Return what the peer withholds, and what that may mean; None if it withholds nothing."""
        sender = self._sender
        link = sender.link
        if link is None or not sender.open or self.stream is not None:
            return None
        if link.credit <= 0:
            return "credit", "the peer grants none; its queue or its memory may be full"
        if not link.session.sendable:
            return "the session's window", "the peer keeps it closed; its memory or its disk may be full"
        if sender.connection.output_full:
            return "room in the output", "the peer does not read; it or the network may be overloaded"
        return None

    def _usable(self) -> SenderLink:
        """Return the link if something can be sent on it now or later; raise the reason if not."""
        sender = self._sender
        if sender.link is None or not (sender.open or sender.returning):
            raise sender.report_end()
        return sender.link

    def _can_send(self, link: SenderLink, ahead: int) -> bool:
        """Return whether credit and window allow another message behind `ahead` others."""
        return link.credit > ahead and self._sender.open and link.session.sendable and self.stream is None

    def pass_on(self) -> None:
        """Pass unused credit of a task that waited on to the tasks behind it, or back to the receiver."""
        self.wake_waiting()
        if self.draining:
            self.give_back()

    def wake_waiting(self) -> None:
        """Wake as many tasks as there is credit for; none while a stream is being sent."""
        sender = self._sender
        link = sender.link
        if self.waiting and link is not None and not (self.stream and sender.open) and not sender.returning:
            count = max(0, link.credit) if sender.open else len(self.waiting)
            for turn in islice(self.waiting, count):
                turn.event.set()

    # Credit that the receiver wants back

    def credit_changed(self) -> None:
        """Act on the peer's flow for this link."""
        link = self._sender.link
        assert link is not None
        if self.waiting:
            self.wake_waiting()
        if link.drain:
            self.draining = True
            self.give_back()

    def give_back(self) -> None:
        """Give the remaining credit back to a receiver that drains, if no task waits to send or all credit is used."""
        link = self._sender.link
        if link is not None and self._sender.open and (not self.waiting or link.credit <= 0):
            self.draining = False
            link.drained(len(self.waiting))
            self._sender.connection.wake()

    # A stream, which has the link for itself until it is whole or aborted

    def begin_stream(self) -> None:
        """Make all other messages wait until the stream ends."""
        self.stream = turn = Turn()
        self.waiting.appendleft(turn)

    def end_stream(self) -> None:
        """Let the other messages go on."""
        self._forget_stream()
        self._sender.connection.wake()
        self.pass_on()

    def link_lost(self) -> None:
        """Forget the state of the lost link; the task that writes a stream gets the error in its next call."""
        self._forget_stream()
        self.draining = False

    def _forget_stream(self) -> None:
        if self.stream is not None:
            self.waiting.remove(self.stream)
            self.stream = None
