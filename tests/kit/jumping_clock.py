"""Clocks for tests that are all in memory: they jump to the next deadline as soon as nothing else is left to do.

So what is to come in time does, however slow the machine is, and what is never to come is not waited for.
"""

from __future__ import annotations

import asyncio
from selectors import DefaultSelector, SelectorKey
from typing import Any

from trio.testing import MockClock

Backend = tuple[str, dict[str, Any]]


def jumping(name: str) -> Backend:
    """The backend of that name with such a clock, as `anyio_backend` has it."""
    if name == "trio":
        return name, {"clock": MockClock(autojump_threshold=0)}
    return name, {"loop_factory": JumpingLoop}


class JumpingLoop(asyncio.SelectorEventLoop):
    """Where a loop would sleep until the next deadline, it is there already; nothing else takes time, as in trio's."""

    def __init__(self) -> None:
        self.now = 0.0  # seconds
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
        return ready
