"""Clocks for tests that are all in memory: they jump to the next deadline as soon as nothing else is left to do.

So what is to come in time does, however slow the machine is, and what is never to come is not waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial, wraps
from selectors import DefaultSelector, SelectorKey
from typing import Any

import anyio
import trio
from trio.testing import MockClock

Backend = tuple[str, dict[str, Any]]

MAX_PASSES = 100_000
"""Passes of a scheduler within one moment of its clock; the busiest test makes 5,000."""

LONGEST = 10_000_000
"""Seconds of such a clock that a test takes at most: one that waits for nothing that is to come is there at once."""


def jumping(name: str) -> Backend:
    """The backend of that name with such a clock, as `anyio_backend` has it."""
    watch = Watch()
    if name == "trio":
        return name, {"clock": MockClock(autojump_threshold=0), "instruments": [watch]}
    return name, {"loop_factory": partial(JumpingLoop, watch)}


def watched(test: Callable[..., Awaitable[None]], backend: Backend) -> Callable[..., Awaitable[None]]:
    """That test, ended with an error if it waits for ever, or is busy for ever within one moment of its clock."""
    options = backend[1]
    watch: Watch = options["instruments"][0] if backend[0] == "trio" else options["loop_factory"].args[0]

    @wraps(test)
    async def run(**arguments: Any) -> None:
        await watch.over(test(**arguments))

    return run


class Watch(trio.abc.Instrument):
    """Whoever waits until a moment that is already here asks again at once, and so for ever: the clock stands still.

    No timeout of the test would end that, for no time passes.
    """

    def __init__(self) -> None:
        self._scope: anyio.CancelScope | None = None
        self._now = 0.0
        self._passes = 0
        self._busy = ""

    async def over(self, test: Awaitable[None]) -> None:
        """Await a test.

        Raises:
            AssertionError: it was busy while its clock stood still; where its tasks were is in the message.
            TimeoutError: it waits for what never comes.
        """
        try:
            with anyio.fail_after(LONGEST) as self._scope:
                await test
        finally:
            if self._busy:
                raise AssertionError(f"{MAX_PASSES} passes at {self._now} s of a clock that jumps:{self._busy}")

    def before_io_wait(self, timeout: float) -> None:
        """Trio says so, once in each pass."""
        self.passed(trio.current_time(), lambda: coroutines(trio.lowlevel.current_root_task()))

    def passed(self, now: float, running: Callable[[], Iterator[Any]]) -> None:
        """Count a pass."""
        if now != self._now:
            self._now, self._passes = now, 0
        self._passes += 1
        if self._passes == MAX_PASSES and self._scope is not None:
            self._busy = "".join(f"\n  {where(coroutine)}" for coroutine in running())
            self._scope.cancel()


def coroutines(task: trio.lowlevel.Task | None) -> Iterator[Any]:
    """Those of a task of trio and of its children."""
    if task is not None:
        yield task.coro
        for nursery in task.child_nurseries:
            for child in nursery.child_tasks:
                yield from coroutines(child)


def where(coroutine: Any) -> str:
    """The lines at which a coroutine waits, the innermost last."""
    lines = []
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        lines.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
        coroutine = coroutine.cr_await
    return " > ".join(lines[-6:])


class JumpingLoop(asyncio.SelectorEventLoop):
    """Where a loop would sleep until the next deadline, it is there already; nothing else takes time, as in trio's."""

    def __init__(self, watch: Watch) -> None:
        self.now = 0.0  # seconds
        self.watch = watch
        super().__init__(JumpingSelector(self))

    def time(self) -> float:
        return self.now

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        await super().shutdown_default_executor()  # a thread's end is waited for as long as it takes


class JumpingSelector(DefaultSelector):
    """What the loop sleeps in."""

    def __init__(self, loop: JumpingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        ready: list[tuple[SelectorKey, int]] = super().select(0 if timeout else timeout)
        if timeout and not ready:
            self._loop.now += timeout
        self._loop.watch.passed(self._loop.now, lambda: (task.get_coro() for task in asyncio.all_tasks(self._loop)))
        return ready
