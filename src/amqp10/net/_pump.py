"""The loop between stream and engine: it reads, reports events and writes, but decides nothing of AMQP.

    reader: stream.receive ─> engine.receive_data ─> on_events(engine.events()) ─> wake the writer
    writer: woken ─> let others add to the output ─> engine.data_to_send, whole ─> on_events, where there are any
            ─> stream.send ─> again, until there is nothing
    timer:  sleep until the deadline that engine.tick gave ─> engine.tick ─> ...

A task that will wait for an answer may write by itself while the writer sleeps (`write_now`). On trio it may also read
by itself (`read_for`): the reader lends its turn, and gets it back as soon as nobody reads (`_reading`).

The writer takes all output at once, so what is queued while it writes goes out together in the next write. That makes
thousands of small frames cheap (benchmarks/budget.py, "send": a write for each would take four times the steps). A peer
that does not read stalls the writer, never the reader, up to a limit; one that does not write stalls the reader, never
the writer. An engine whose protocol cannot hold a sender back otherwise may stall the reader, too (`Engine.reading`).
"""

from __future__ import annotations

import math
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext, suppress
from time import monotonic
from typing import TYPE_CHECKING, Final

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream, TaskGroup

from ..engine import ConnectionEnded, ConnectionOpened, Engine, Event, Role
from ..errors import ConnectionLost
from ._signal import Signal, signal_type
from ._streams.base import STREAM_ERRORS, LayerAttribute, describe, hung_up

if TYPE_CHECKING:
    from ._reading import ReadingTurn

HIGH_WATER: Final = 1 << 20
"""The number of unwritten bytes above which `full` asks producers to wait."""

READ_SIZE: Final = 1 << 19
"""The bytes to read at a time.

With an eighth of it, receiving 1 KiB costs a fifth more; with half of it, receiving 64 KiB costs a quarter to two
fifths more, because more frames come in two pieces. benchmarks/run.py
"""

# glibc takes each allocation above 128 KiB from the system and returns free memory above that, so that read buffers and
# payloads cost a page fault for each page. After it once freed a larger block, it keeps that much. benchmarks/run.py,
# "send 64 KiB": a quarter.
bytes(1 << 22)

MAX_ANSWERS: Final = 1 << 24
"""The limit of unwritten answers to a peer that does not read, in bytes; beyond it the peer is cut off."""

WRITE_AT_ONCE: Final = 1 << 14
"""The bytes that are written without waiting for other tasks to add more."""

GATHERING: Final = 0.005
"""Seconds after which output is written even if other tasks still add to it."""

MAX_IN_VAIN: Final = 64
"""The most writes before the next try to wait for other tasks."""

LAST_WRITE: Final = 5.0
"""Seconds that writing may take after the connection has ended."""

LAST_WORDS: Final = 1.0
"""Seconds to read the peer's last frames after it stopped reading."""


LOOK_FOR_END: Final = 10.0
"""Seconds without reading after which, and then again, a server looks whether the client has hung up."""


class Pump:
    """Drives one engine over one byte stream.

    Args:
        stream: the transport, which belongs to the pump, and is closed when `run` ends.
        engine: a started and opened engine.
        on_events: called with the events after each read and tick; must not block.
        before_write: awaited after output was taken from the engine, before it is written.

    Attributes:
        received_at, sent_at: the times of the last read and write, by `time.monotonic`; None before the first.
        lends: whether waiting tasks may read: see `takes_turn`.
    """

    # Without slots an idle connection takes a kilobyte more.
    __slots__ = (
        "_answers",
        "_awake",
        "_before_write",
        "_cause",
        "_closed",
        "_crash",
        "_ended",
        "_engine",
        "_fault",
        "_hurried",
        "_in_vain",
        "_layer",
        "_line",
        "_new_signal",
        "_on_events",
        "_opened",
        "_over",
        "_readable",
        "_rest",
        "_scope",
        "_send_at_once",
        "_sleep",
        "_stop_receiving",
        "_stream",
        "_turn",
        "_wakeup",
        "_writing",
        "_written",
        "lends",
        "received_at",
        "sent_at",
    )

    def __init__(
        self,
        stream: ByteStream,
        engine: Engine,
        on_events: Callable[[list[Event]], None],
        before_write: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._stream = stream
        self._layer = stream.extra(LayerAttribute.layer, None)
        if self._layer is not None:
            self._layer.on_owed = self.wake
        self._engine = engine
        self._on_events = on_events
        self._before_write = before_write
        self.received_at: float | None = None
        self.sent_at: float | None = None
        self._awake = True  # the writer will check the output without being woken
        self._wakeup: Signal | None = None  # the writer waits for it
        self._writing = 0  # bytes that the stream is writing
        self._line: list[list[anyio.Event]] = []  # events of tasks that wait for room in the output
        self._readable: anyio.Event | None = None  # the reader waits for it while the engine takes no input
        self._answers = 0  # bytes of output caused by reading since the last write
        self._in_vain = 1  # writes to do without waiting for others, if the next wait is in vain
        self._hurried = 0  # of these, writes left
        self._written = False  # by a task that waits for an answer, since the last read
        self._rest: Sequence[bytes | memoryview] = ()  # of an immediate write: what the stream did not take
        # A store saves what is written before each write, which takes time.
        self._send_at_once = getattr(stream, "send_at_once", None) if before_write is None else None
        self._opened = self._ended = False
        self._sleep: anyio.CancelScope | None = None
        self._new_signal = signal_type()
        self._over = self._new_signal()
        self._scope: anyio.CancelScope | None = None  # of the three tasks
        self._closed = False  # in order
        self._cause: Exception | None = None  # the error of the transport
        self._crash: Exception | None = None  # a bug on this side
        self._fault: Exception | None = None  # a bug found while another task read; the reader raises it
        self._stop_receiving: Callable[[], None] | None = getattr(stream, "stop_receiving", None)
        self.lends: bool = self._stop_receiving is not None
        self._turn: ReadingTurn | None = None  # created on first use

    async def run(self) -> None:
        """Pump until the connection has ended and all output is written, or the transport breaks.

        Either way the last event is `ConnectionEnded`, once. If the transport broke, its error is the `__cause__` of
        the `ConnectionLost` in it. Errors of the transport are never raised; an error of `on_events` is raised
        unchanged, after the stream is closed.

        Cancelling: the stream is closed at once, unwritten output is dropped, and `ConnectionEnded` is reported.
        """
        try:
            async with anyio.create_task_group() as tasks:
                self._scope = tasks.cancel_scope
                if self._ended:
                    self._scope.deadline = anyio.current_time() + LAST_WRITE
                tasks.start_soon(self._guard, self._read, tasks)
                tasks.start_soon(self._guard, self._keep_time, tasks)
                await self._guard(self._write, tasks)
                tasks.cancel_scope.cancel()
            if self._layer is not None and self._crash is None:
                # Closing may exchange data, as a WebSocket does. All other users of the stream are done.
                with anyio.move_on_after(LAST_WORDS):
                    await self._stream.aclose()
                    self._closed = True
        finally:
            try:
                # Consequences of a bug must not hide it.
                with suppress(Exception) if self._crash is not None else nullcontext():
                    self._lose(None)
            finally:
                self._end()
                if not self._closed:
                    await anyio.aclose_forcefully(self._stream)
        if self._crash is not None:
            raise self._crash

    def wake(self) -> None:
        """Make the loop soon write the engine's output and resume reading. Cheap; call it after each operation."""
        if self._readable is not None:
            self._go_on_reading()
        if not self._awake:
            self._awake = True
            if self._wakeup is not None:
                self._wakeup.set()

    def write_now(self) -> None:
        """Write the output at once if no other write is in progress; otherwise wake the writer.

        For a task that then waits for an answer, this saves a pass of the scheduler. Of several such tasks the first
        writes, and the output of the others goes out together.
        """
        busy = self._wakeup is None or self._rest or self._line or self._readable is not None
        if busy or self._written or self._send_at_once is None or self._ended:
            self.wake()
            return
        self._written = True
        if buffers := self._engine.buffers_to_send():
            self._rest = self._send_at_once(buffers)
            self.sent_at = monotonic()
            self._answers = 0
        if self._rest:
            self._writing = sum(map(len, self._rest))
            self.wake()

    def takes_turn(self, answer: Signal) -> bool:
        """Return whether the calling task shall read until its answer is here (`read_for`), since nobody else reads.

        A task that wrote at once and waits alone soon gets the turn, because this asks the reader for it.
        """
        turn = self._turn
        if turn is not None and self._engine.reading and turn.take():
            return True
        if self._written:
            self._ask_to_read(answer)
        return False

    async def read_for(self, answer: Signal) -> None:
        """Read until the answer is here, or the turn is over; then wait for the answer like other tasks.

        Cancelling: the reader goes on reading.
        """
        turn = self._turn
        assert turn is not None
        on = True
        try:
            while on and not answer.is_set():
                # The answer may also come from a timer, or from another task that closes the link.
                answer.on_set = self._stop_receiving
                data = await self._stream.receive(READ_SIZE)
                answer.on_set = None
                on = turn.context.run(self._take_one, data)
        except anyio.WouldBlock:
            answer.on_set = None
        except STREAM_ERRORS as error:
            answer.on_set = None
            turn.give_back(error)
        except BaseException as error:
            answer.on_set = None
            cancelled = isinstance(error, anyio.get_cancelled_exc_class())
            # Any other exception, such as Ctrl-C, may have lost events of what was read.
            turn.give_back(None if cancelled else anyio.BrokenResourceError("reading was interrupted"))
            raise
        if on:
            turn.leave()
        else:
            turn.give_back()

    @property
    def waiting(self) -> int:
        """The number of bytes that wait for the stream."""
        return self._engine.output_size + self._writing

    @property
    def full(self) -> bool:
        """Whether producers should `await drained()`, because too much output waits. False after the end."""
        return self._engine.output_size + self._writing > HIGH_WATER and not self._ended

    @property
    def awaited(self) -> bool:
        """Whether a task waits in `drained`, so that others must queue behind it."""
        return bool(self._line)

    async def drained(self) -> None:
        """Wait in line until `full` is False, or the connection has ended.

        Tasks are released one after the other, each after the one before had time to produce.

        Cancelling: nothing changes.
        """
        if not (self.full or self._line):
            return
        turn = [anyio.Event()]
        self._line.append(turn)
        try:
            while not self._ended and (self.full or self._line[0] is not turn):
                self.wake()
                await turn[0].wait()
                turn[0] = anyio.Event()
        finally:
            self._line.remove(turn)
            self._release_next()

    # The three tasks

    async def _guard(self, part: Callable[[], Awaitable[None]], tasks: TaskGroup) -> None:
        """Run one task; its exception ends all three, and is kept, to be raised without an exception group."""
        try:
            await part()
        except Exception as error:
            if self._crash is None:
                self._crash = error
            tasks.cancel_scope.cancel()

    async def _read(self) -> None:
        receive_each = getattr(self._stream, "receive_each", None)
        while not self._ended:
            if not self._engine.reading:
                await self._pause()
                continue
            if self._engine.behind:
                await anyio.lowlevel.checkpoint()
                self._take(b"")
                continue
            try:
                if self._turn is not None and self._turn.due:
                    await self._turn.lend()
                    data = b""
                elif receive_each is not None:
                    await receive_each(READ_SIZE, self._take_one)
                    data = b""
                else:
                    data = await self._stream.receive(READ_SIZE)
            except STREAM_ERRORS as error:
                self._lose(error)
                return
            if self._fault is not None:
                raise self._fault
            if data:
                self._take(data)
                del data  # frees the memory until the next read

    def _ask_to_read(self, answer: Signal) -> None:
        """Ask the reader for its turn after this answer."""
        if self._turn is None:
            from ._reading import ReadingTurn  # here, because it imports trio

            self._turn = ReadingTurn()
        self._turn.ask(answer)

    def _take_one(self, data: bytes) -> bool:
        """Take data that another task read, and return whether to read on."""
        try:
            self._take(data)
        except Exception as error:
            self._fault = error
            return False
        return self._engine.reading and not (self._engine.behind or self._ended)

    def _take(self, data: bytes) -> None:
        """Pass data to the engine, and report the events."""
        engine = self._engine
        self.received_at = monotonic()
        self._written = False
        before = engine.output_size
        engine.receive_data(data)
        self._tell()
        # An answer is about as long as its request. More output is messages of ours that had to wait.
        if engine.output_size > before:
            written = engine.output_size - before
            self._answers += min(written, 4 * len(data) or written)
            if self._answers > MAX_ANSWERS:
                self._lose(ConnectionLost("the peer keeps sending and does not read the answers"))

    async def _pause(self) -> None:
        """Stop reading until a call of its owner makes the engine ready again, or the connection is over.

        A server also looks now and then whether the client has hung up, because reading would not show it. What the
        client sent before is lost: it did not close the connection, and nothing was taken from it all the time.
        """
        serves = self._engine.role is Role.SERVER
        while not (self._engine.reading or self._ended):
            self._readable = anyio.Event()
            with anyio.move_on_after(LOOK_FOR_END if serves else math.inf):
                await self._readable.wait()
            if serves and not (self._engine.reading or self._ended) and hung_up(self._stream):
                self._lose(ConnectionLost("the peer hung up while what it had sent waited for room"))
        self._readable = None

    def _go_on_reading(self) -> None:
        if self._engine.reading or self._ended:
            self._readable.set()  # type: ignore[union-attr] # the reader waits for it

    async def _write(self) -> None:
        engine, layer, before = self._engine, self._layer, self._before_write
        send = getattr(self._stream, "send_buffers", self._send_joined)
        hasty = hasattr(self._stream, "send_at_once")  # other tasks run during a send only if it must wait
        again = False
        try:
            while True:
                self._awake = False
                buffers = engine.buffers_to_send()
                self._tell()  # events caused by calls of the owner, or deferred
                if buffers or self._rest:
                    if again and hasty:
                        await anyio.lowlevel.checkpoint()
                    again = True
                    buffers, self._rest = [*self._rest, *buffers], ()
                    self._writing = sum(map(len, buffers))
                    if before is not None:
                        await before()
                    await send(buffers)
                    self.sent_at = monotonic()
                    self._writing = self._answers = 0
                    if self._turn is not None:
                        self._turn.withdraw()
                    self._release_waiters()
                elif layer is not None and layer.owed:
                    await send([])
                elif self._ended:
                    return
                elif not self._awake:
                    self._wakeup = self._new_signal()
                    await self._wakeup.wait()
                    self._wakeup = None
                    again = False
                    await self._gather()
        except STREAM_ERRORS as error:
            self._cause = self._cause or error
        if not self._ended:
            # The reader may still find the peer's last frames, such as a close with its reason, and then the end. If
            # only our direction is broken, there is no end, so the wait is limited.
            with anyio.move_on_after(LAST_WORDS):
                await self._over.wait()

    async def _gather(self) -> None:
        """Let other tasks add to the output as long as each pass of the scheduler adds something.

        With one task per message, each pass adds one message. A write, an answer and a read for each would cost more
        than the message itself: benchmarks/budget.py, "relay_task". After a pass that added nothing, the next writes do
        not wait, twice as many each time.
        """
        if self._hurried:
            self._hurried -= 1
            return
        engine = self._engine
        first = size = engine.output_size
        until = monotonic() + GATHERING
        quiet = 0  # passes in a row; in a single one, this task may have run before the others
        while size < WRITE_AT_ONCE and quiet < 2 and monotonic() < until and not self._ended:
            await anyio.lowlevel.checkpoint()
            before, size = size, engine.output_size
            quiet = quiet + 1 if size == before else 0
        if size > first:
            self._in_vain = 1
        elif first < WRITE_AT_ONCE:
            self._hurried = self._in_vain
            self._in_vain = min(2 * self._in_vain, MAX_IN_VAIN)

    async def _send_joined(self, buffers: Sequence[bytes | memoryview]) -> None:
        await self._stream.send(b"".join(buffers))

    async def _keep_time(self) -> None:
        while not self._ended:
            deadline = self._engine.tick(anyio.current_time())
            self._tell()
            # `_tell` can cut the sleep short: once the peer has opened, its idle timeout counts, too.
            with anyio.CancelScope(deadline=math.inf if deadline is None else deadline) as self._sleep:
                await self._over.wait()

    # What they share

    def _tell(self) -> None:
        """Report events, including those caused by handling them, and wake the writer."""
        engine = self._engine
        if self._ended:
            return
        while events := engine.events():
            last = events[-1]
            if isinstance(last, ConnectionEnded):
                if isinstance(last.error, ConnectionLost) and last.error.__cause__ is None:
                    last.error.__cause__ = self._cause
                    if isinstance(self._cause, ssl.SSLError) or (
                        isinstance(self._cause, anyio.BrokenResourceError) and self._cause.args  # of a WebSocket
                    ):
                        last.error.args = (f"{last.error}: {describe(self._cause)}",)
                self._end()
            elif not self._opened and any(isinstance(event, ConnectionOpened) for event in events):
                self._opened = True
                if self._sleep is not None:
                    self._sleep.cancel()
            self._on_events(events)
        if engine.output_size:
            self.wake()
        elif self._readable is not None:
            self._go_on_reading()

    def _lose(self, cause: Exception | None) -> None:
        """Report the end of the transport to the engine, unless it has already ended."""
        if not self._ended:
            if self._cause is None and not isinstance(cause, anyio.EndOfStream):
                self._cause = cause
            self._engine.receive_eof()
            self._tell()

    def _end(self) -> None:
        """Stop reporting events, and give the writer limited time to finish, without waiting for it."""
        if self._ended:
            return
        self._ended = True
        if self._turn is not None:
            self._turn.give_back()
        self._over.set()
        if self._scope is not None:
            self._scope.deadline = anyio.current_time() + LAST_WRITE
        self.wake()
        self._release_waiters()

    def _release_waiters(self) -> None:
        if self._ended:
            for turn in self._line:
                turn[0].set()
        else:
            self._release_next()

    def _release_next(self) -> None:
        if self._line:
            self._line[0][0].set()
