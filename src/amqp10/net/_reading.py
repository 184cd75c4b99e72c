"""Decides who reads a stream on trio: the pump's reader, or a task that waits for an answer.

    whose     who reads                                        what ends it
    READER    the pump's reader                                it was asked for the turn, and has read the answer: FREE
    FREE      nobody: the task that had its answer runs on     it waits for the next one: WAITER
                                                               trio would sleep, or has made three passes: READER
    WAITER    a task that waits, for everybody                 it has its answer: FREE
                                                               cancelled, a fault, the end: READER

A pass through a second task costs as much as everything else that trio does for a message (benchmarks/real_clients.py,
"one"). But as soon as the task does something else, another must read. Setting and clearing a deadline for that would
cost as much again for each message. So an instrument of trio reports when trio is about to sleep, at almost no cost.

If the turn is mostly given back at once, it is requested less and less often, because that takes three passes.
"""

from __future__ import annotations

from contextvars import Context, copy_context
from enum import Enum
from typing import Final, Protocol

import anyio
from trio.abc import Instrument
from trio.lowlevel import RunVar, TrioToken, add_instrument, current_statistics, current_trio_token, remove_instrument

PASSES: Final = 2
"""The scheduler's passes for which the turn may stay free: a task with its answer wakes, and may let others run."""

FEW_ANSWERS: Final = 4
"""The number of answers for which handing the turn over does not pay."""

MAX_IN_VAIN: Final = 256
"""The most times to skip asking for the turn after it was given back at once."""


class Whose(Enum):
    """The holder of the turn; see above."""

    READER = "the reader's"
    FREE = "nobody's"
    WAITER = "a waiting task's"


class Answer(Protocol):
    """The answer that a task waits for."""

    def is_set(self) -> bool:
        """Return whether the answer is here."""


class ReadingTurn:
    """The turn to read one stream; created in the stream's run of trio.

    Attributes:
        whose: the holder.
        context: the reader's context, in which every task passes on what it read.
    """

    __slots__ = (
        "_asked_for",
        "_back",
        "_error",
        "_in_vain",
        "_passes",
        "_served",
        "_skip",
        "_watch",
        "context",
        "whose",
    )

    def __init__(self) -> None:
        self.whose = Whose.READER
        self.context: Context
        self._watch = _watch_of_this_run()
        self._asked_for: Answer | None = None
        self._back: anyio.Event | None = None  # the reader waits for it
        self._error: Exception | None = None  # raised by the stream to a waiting task
        self._passes = 0  # of the scheduler, without a holder
        self._served = 0  # answers that tasks have read since the reader lent the turn
        self._in_vain = 1  # requests to skip after the turn was lent for few answers
        self._skip = 0  # of these, requests left to skip

    # The waiting task

    def ask(self, answer: Answer) -> None:
        """Ask the reader to lend the turn as soon as it has read this answer."""
        if self._skip:
            self._skip -= 1
        else:
            self._asked_for = answer

    def withdraw(self) -> None:
        """Withdraw the request, because other tasks have written and wait for their own answers."""
        self._asked_for = None

    def take(self) -> bool:
        """Take the turn if it is free, and return whether it was."""
        if self.whose is not Whose.FREE:
            return False
        self.whose = Whose.WAITER
        self._watch.free.discard(self)
        return True

    def leave(self) -> None:
        """Release the turn to the next waiting task, or to the reader if no task waits."""
        if self.whose is Whose.WAITER:
            self._served += 1
            # `_set_free`, without a call (benchmarks/budget.py, "send_each").
            self.whose = Whose.FREE
            self._passes = 0
            self._watch.free.add(self)

    def give_back(self, error: Exception | None = None) -> None:
        """Return the turn to the reader and wake it; `error` is raised there, as if its own read had failed."""
        if self._back is not None and self.whose is not Whose.READER:
            self.whose, self._error = Whose.READER, error
            self._watch.free.discard(self)
            self._back.set()

    # The reader

    @property
    def due(self) -> bool:
        """Whether the turn was requested, and the answer is here."""
        return self._asked_for is not None and self._asked_for.is_set()

    async def lend(self) -> None:
        """Lend the turn, and wait until it is back.

        Raises:
            OSError, EndOfStream, BrokenResourceError, ClosedResourceError: the read of the other task failed.

        Cancelling: the reader has the turn.
        """
        self._asked_for, self._back = None, anyio.Event()
        self.context = copy_context()
        self._served = 0
        self._set_free()
        self._watch.begin()
        try:
            await self._back.wait()
        finally:
            self.whose = Whose.READER
            self._watch.free.discard(self)
            self._watch.end()
            self._back = None
        if self._served > FEW_ANSWERS:
            self._in_vain = 1
        else:
            self._skip = self._in_vain
            self._in_vain = min(2 * self._in_vain, MAX_IN_VAIN)
        error, self._error = self._error, None
        if error is not None:
            raise error

    # The scheduler

    def _set_free(self) -> None:
        self.whose = Whose.FREE
        self._passes = 0
        self._watch.free.add(self)

    def overdue(self) -> bool:
        """Count a pass of the scheduler without a holder; return whether the reader should take the turn."""
        self._passes += 1
        return self._passes > PASSES

    def reclaim(self) -> None:
        """Return the turn to the reader if it is still free."""
        if self.whose is Whose.FREE:
            self.give_back()


class _Watch(Instrument):
    """Returns free turns to their readers before trio sleeps.

    Attributes:
        free: the free turns.
        lent: the number of turns that readers have lent.
    """

    def __init__(self, token: TrioToken) -> None:
        self._token = token
        self.lent = 0
        self.free: set[ReadingTurn] = set()

    def begin(self) -> None:
        """Count one more lent turn, and watch trio's sleeps."""
        self.lent += 1
        if self.lent == 1:
            add_instrument(self)

    def end(self) -> None:
        """Count one lent turn less; stop watching after the last."""
        self.lent -= 1
        if not self.lent:
            remove_instrument(self)

    def before_io_wait(self, timeout: float) -> None:
        """Wake trio at once, and the reader of each turn that stays free."""
        if not self.free:
            return
        # Trio counts all its sockets for `current_statistics`, which is too slow for each turn.
        sleeps = timeout > 0 or not current_statistics().tasks_runnable
        for turn in self.free:
            if turn.overdue() or sleeps:
                self._token.run_sync_soon(turn.reclaim, idempotent=True)


_watch: RunVar[_Watch] = RunVar("amqp10.net.reading")


def _watch_of_this_run() -> _Watch:
    try:
        return _watch.get()
    except LookupError:
        watch = _Watch(current_trio_token())
        _watch.set(watch)
        return watch
