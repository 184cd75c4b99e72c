"""An event for what is waited for once a message: it makes no object of its backend before a task sleeps on it.

An event of anyio is two objects and six calls. benchmarks/budget.py, "send_each".
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import anyio
from sniffio import current_async_library

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    import trio


class Signal:
    """An event that is set once.

    Attributes:
        on_set: called when it is set: a task that reads until it is set sleeps on its stream. See `Pump.read_for`.
    """

    __slots__ = ("_event", "_set", "on_set")

    def __init__(self) -> None:
        self._set = False
        self._event: anyio.Event | None = None
        self.on_set: Callable[[], None] | None = None

    def set(self) -> None:
        """Let go on who waits, and whoever will."""
        self._set = True
        if self._event is not None:
            self._event.set()
        if self.on_set is not None:
            self.on_set()

    def is_set(self) -> bool:
        """Return whether it was set."""
        return self._set

    async def wait(self) -> None:
        """Wait until it is set; other tasks run only if it is not.

        Cancelling: nothing changes.
        """
        if not self._set:
            if self._event is None:
                self._event = anyio.Event()
            await self._event.wait()


class TrioSignal(Signal):
    """Wakes tasks of trio, by trio's own event."""

    __slots__ = ()

    _event: trio.Event | None  # type: ignore[assignment]

    async def wait(self) -> None:
        if not self._set:
            if self._event is None:
                self._event = sys.modules["trio"].Event()
            await self._event.wait()


class FutureSignal(Signal):
    """Wakes tasks of asyncio, by a future for each."""

    __slots__ = ("_sleeping",)

    def __init__(self) -> None:
        self._set = False
        self._sleeping: list[asyncio.Future[None]] = []

    def set(self) -> None:
        self._set = True
        for future in self._sleeping:
            if not future.done():
                future.set_result(None)

    async def wait(self) -> None:
        if not self._set:
            future: asyncio.Future[None] = sys.modules["asyncio"].get_running_loop().create_future()
            self._sleeping.append(future)
            try:
                await future
            finally:
                self._sleeping.remove(future)


def signal_type() -> type[Signal]:
    """Return the kind of signal for the backend that runs."""
    return {"asyncio": FutureSignal, "trio": TrioSignal}.get(current_async_library(), Signal)
