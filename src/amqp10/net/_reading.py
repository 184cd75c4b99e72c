"""Whose turn it is to read a stream on trio: the pump's reader, or a task that waits for an answer by itself.

    whose     who reads                                        what ends it
    READER    the pump's reader                                it was asked for the turn, and has read the answer: FREE
    FREE      nobody: the task that had its answer runs on     it waits for the next one: WAITER
                                                               trio would sleep, or has made three passes: READER
    WAITER    a task that waits, for everybody                 it has its answer: FREE
                                                               cancelled, a fault, the end: READER

A pass through a second task costs as much as all else that trio does for a message (benchmarks/real_clients.py, "one").
But as soon as the task does something else, another has to read. To set a deadline for that, and take it back, for each
message costs as much again. So trio is asked to say when it is about to sleep: that costs nearly nothing.

Where the turn is mostly given back at once it is asked for less and less often, since that takes three passes.
"""

from __future__ import annotations

from contextvars import Context, copy_context
from enum import Enum
from typing import Final, Protocol

import anyio
from trio.abc import Instrument
from trio.lowlevel import RunVar, TrioToken, add_instrument, current_statistics, current_trio_token, remove_instrument

PASSES: Final = 2
"""Passes of the scheduler that the turn may be nobody's: the task that has its answer wakes, and may let others run."""

FEW: Final = 4
"""Answers for which it does not pay to hand the turn over and back."""

MOST_IN_VAIN: Final = 256
"""Times at most that the turn is not asked for after it was given back at once."""


class Whose(Enum):
    """Whose turn it is; see above."""

    READER = "the reader's"
    FREE = "nobody's"
    WAITER = "a waiting task's"


class Answer(Protocol):
    """What a task waits for."""

    def is_set(self) -> bool:
        """Return whether it is there."""


class ReadingTurn:
    """The turn to read one stream; made in the run of trio that the stream is of.

    Attributes:
        whose: whose it is.
        context: the reader's, in which everybody hands on what was read.
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
        self._back: anyio.Event | None = None  # what the reader sleeps on
        self._error: Exception | None = None  # what the stream raised to a task that waits
        self._passes = 0  # of the scheduler, in which it was nobody's
        self._served = 0  # answers that tasks have read since the reader gave the turn away
        self._in_vain = 1  # times that it will not be asked for once it was given away for few answers
        self._skip = 0  # of them, those left

    # The task that waits

    def ask(self, answer: Answer) -> None:
        """Ask the reader to give the turn away as soon as it has read this answer."""
        if self._skip:
            self._skip -= 1
        else:
            self._asked_for = answer

    def withdraw(self) -> None:
        """Ask no more: other tasks have written, and wait for answers of their own."""
        self._asked_for = None

    def take(self) -> bool:
        """Take the turn if it is nobody's, and return whether it was."""
        if self.whose is not Whose.FREE:
            return False
        self.whose = Whose.WAITER
        self._watch.free.discard(self)
        return True

    def leave(self) -> None:
        """Be done: whoever waits next may take the turn, and the reader has it if nobody does."""
        if self.whose is Whose.WAITER:
            self._served += 1
            self._set_free()

    def give_back(self, error: Exception | None = None) -> None:
        """Wake the reader, if the turn is not its own. `error`: raised there, as if its own reading had."""
        if self._back is not None and self.whose is not Whose.READER:
            self.whose, self._error = Whose.READER, error
            self._watch.free.discard(self)
            self._back.set()

    # The reader

    @property
    def due(self) -> bool:
        """The turn was asked for, and the answer is there."""
        return self._asked_for is not None and self._asked_for.is_set()

    async def lend(self) -> None:
        """Give the turn away, and wait until it is back.

        Raises:
            OSError, EndOfStream, BrokenResourceError, ClosedResourceError: what ended the reading of the other task.

        Cancelling: the turn is the reader's.
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
        if self._served > FEW:
            self._in_vain = 1
        else:
            self._skip = self._in_vain
            self._in_vain = min(2 * self._in_vain, MOST_IN_VAIN)
        error, self._error = self._error, None
        if error is not None:
            raise error

    # The scheduler

    def _set_free(self) -> None:
        self.whose = Whose.FREE
        self._passes = 0
        self._watch.free.add(self)

    def overdue(self) -> bool:
        """Count a pass of the scheduler in which nobody takes it; return whether the reader is to have it."""
        self._passes += 1
        return self._passes > PASSES

    def reclaim(self) -> None:
        """Give the turn back if nobody has taken it since."""
        if self.whose is Whose.FREE:
            self.give_back()


class _Watch(Instrument):
    """Looks, before trio sleeps, for turns that are nobody's.

    Attributes:
        free: these.
        lent: how many their readers have given away.
    """

    def __init__(self, token: TrioToken) -> None:
        self._token = token
        self.lent = 0
        self.free: set[ReadingTurn] = set()

    def begin(self) -> None:
        """Look before each sleep from now on: one more turn is given away."""
        self.lent += 1
        if self.lent == 1:
            add_instrument(self)

    def end(self) -> None:
        """Look no more if that was the last."""
        self.lent -= 1
        if not self.lent:
            remove_instrument(self)

    def before_io_wait(self, timeout: float) -> None:
        """Wake trio at once, and the reader of each turn that nobody takes."""
        if not self.free:
            return
        # Trio counts all its sockets for the second, which is not to be done for each turn.
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
