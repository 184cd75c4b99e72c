"""An event for waits that occur once per message: it creates no object of the backend before a task waits.

An event of anyio takes two objects and six calls. benchmarks/budget.py, "send_each".
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
        on_set: called when the event is set, for a task that waits for its stream instead: `Pump.read_for`, which runs
            on trio only. A `FutureSignal`, which is for asyncio, does not have it.
    """

    __slots__ = ("_event", "_set", "on_set")

    def __init__(self) -> None:
        self._set = False
        self._event: anyio.Event | None = None
        self.on_set: Callable[[], None] | None = None

    def set(self) -> None:
        """Wake all waiting tasks; later waits return at once."""
        self._set = True
        if self._event is not None:
            self._event.set()
        if self.on_set is not None:
            self.on_set()

    def is_set(self) -> bool:
        """Return whether the event was set."""
        return self._set

    async def wait(self) -> None:
        """Wait until the event is set; if it already is, other tasks do not run.

        Cancelling: nothing changes.
        """
        if not self._set:
            if self._event is None:
                self._event = anyio.Event()
            await self._event.wait()


class TrioSignal(Signal):
    """A signal for trio, without an event, which takes two objects and three calls. benchmarks/budget.py, "submit"."""

    __slots__ = ("_sleeping",)

    def __init__(self) -> None:
        self._set = False
        self._sleeping: list[trio.lowlevel.Task] = []
        self.on_set = None

    def set(self) -> None:
        self._set = True
        while self._sleeping:
            sys.modules["trio"].lowlevel.reschedule(self._sleeping.pop())
        if self.on_set is not None:
            self.on_set()

    async def wait(self) -> None:
        if not self._set:
            lowlevel = sys.modules["trio"].lowlevel
            task = lowlevel.current_task()
            self._sleeping.append(task)

            def wake_cancelled(_: object) -> trio.lowlevel.Abort:
                self._sleeping.remove(task)
                return lowlevel.Abort.SUCCEEDED  # type: ignore[no-any-return]

            await lowlevel.wait_task_rescheduled(wake_cancelled)


class FutureSignal(Signal):
    """A signal for asyncio, by a future for each task."""

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
    """Return the signal class for the running backend."""
    return {"asyncio": FutureSignal, "trio": TrioSignal}.get(current_async_library(), Signal)
