"""The one loop: read, give to the engine, tell the events, write what the engine has. Nothing of AMQP is decided here.

    reader: stream.receive ─> engine.receive_data ─> on_events(engine.events()) ─> wake the writer
    writer: woken ─> engine.data_to_send, whole ─> stream.send ─> again, until there is nothing
    timer:  sleep until the deadline that engine.tick gave ─> engine.tick ─> ...

The writer takes everything there is at once, so whatever is queued while it writes goes out together with its next
write: that is what makes thousands of small frames cheap. A peer that does not read stalls the writer, never the reader.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio
from anyio.abc import ByteStream

from ..engine import ConnectionEnded, Engine, Event

HIGH_WATER: Final = 1 << 20
"""Bytes waiting to be written above which `full` asks producers to wait."""

READ_SIZE: Final = 1 << 18
"""Bytes asked of the stream at a time."""

LAST_WRITE: Final = 5.0
"""Seconds that the last write may take, once the connection has ended."""


class Pump:
    """Drives one engine over one byte stream.

    Args:
        stream: the transport; the pump's from now on, closed when `run` ends.
        engine: started and opened by whoever made it.
        on_events: told what happened, after each read and each tick; called synchronously, must not block.
    """

    def __init__(self, stream: ByteStream, engine: Engine, on_events: Callable[[list[Event]], None]) -> None:
        self._stream = stream
        self._engine = engine
        self._on_events = on_events
        self._woken = False
        self._wakeup = anyio.Event()
        self._writing = 0  # bytes handed to the stream and not taken by it yet
        self._writable: anyio.Event | None = None
        self._ended = False

    async def run(self) -> None:
        """Pump until the engine's connection has ended and the rest is written, or the transport breaks.

        Either way `ConnectionEnded` is among the events, once, and last. Never raises for what the transport does.

        Cancelling: the stream is closed at once, whatever is unwritten is dropped, and `ConnectionEnded` is told.
        """
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read)
                tasks.start_soon(self._keep_time)
                self.wake()
                await self._write()
                tasks.cancel_scope.cancel()
        finally:
            if not self._ended:
                self._engine.receive_eof()
                self._tell()
            self._release_waiters()
            await anyio.aclose_forcefully(self._stream)

    def wake(self) -> None:
        """The engine has output: have it written soon. Cheap; call after each operation."""
        if not self._woken:
            self._woken = True
            self._wakeup.set()

    @property
    def full(self) -> bool:
        """More is waiting than the stream takes: producers should `await drained()`."""
        return self._engine.output_size + self._writing > HIGH_WATER

    async def drained(self) -> None:
        """Wait until `full` is False, or the pump has ended.

        Cancelling: nothing changes.
        """
        while self.full and not self._ended:
            if self._writable is None:
                self._writable = anyio.Event()
            await self._writable.wait()

    # The three tasks

    async def _read(self) -> None:
        receive, engine = self._stream.receive, self._engine
        try:
            while not self._ended:
                engine.receive_data(await receive(READ_SIZE))
                self._tell()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            engine.receive_eof()
            self._tell()

    async def _write(self) -> None:
        engine, send = self._engine, self._stream.send
        try:
            while True:
                await self._wakeup.wait()
                self._wakeup = anyio.Event()
                self._woken = False
                while data := engine.data_to_send():
                    self._writing = len(data)
                    if self._ended:
                        with anyio.move_on_after(LAST_WRITE):
                            await send(data)
                    else:
                        await send(data)
                    self._writing = 0
                    self._release_waiters()
                if self._ended:
                    return
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            self._writing = 0
            # What the peer said before it went, a close with its reason perhaps, may still be to be read: the reader
            # comes to the end by itself. Where it does not, because only our direction is broken, it is not waited for.
            with anyio.move_on_after(1):
                while not self._ended:
                    await self._wakeup.wait()
                    self._wakeup = anyio.Event()
                    self._woken = False

    async def _keep_time(self) -> None:
        while not self._ended:
            deadline = self._engine.tick(anyio.current_time())
            self._tell()
            if deadline is None:
                return
            await anyio.sleep_until(deadline)

    def _tell(self) -> None:
        engine = self._engine
        events = engine.events()
        if events:
            if not self._ended and isinstance(events[-1], ConnectionEnded):
                self._ended = True
            self._on_events(events)
        if engine.output_size or self._ended:
            self.wake()

    def _release_waiters(self) -> None:
        waiters, self._writable = self._writable, None
        if waiters is not None:
            waiters.set()
