"""The one loop: read, give to the engine, tell the events, write what the engine has. Nothing of AMQP is decided here.

    reader: stream.receive ─> engine.receive_data ─> on_events(engine.events()) ─> wake the writer
    writer: woken ─> let others add to the output ─> engine.data_to_send, whole ─> on_events, where there are any
            ─> stream.send ─> again, until there is nothing
    timer:  sleep until the deadline that engine.tick gave ─> engine.tick ─> ...

A task that waits for an answer next may write by itself while the writer sleeps (`write_now`). On trio it may read by
itself, too (`read_for`): the reader gives its turn away, and has it back as soon as nobody reads (`_reading`).

The writer takes everything there is at once, so whatever is queued while it writes goes out together with its next
write: that is what makes thousands of small frames cheap (benchmarks/budget.py, "send": a write for each would be four
times the steps). A peer that does not read stalls the writer, never the reader, up to a bound; one that does not write
stalls the reader, never the writer. An engine whose protocol has no other way to hold a sender back may stall the
reader too (`Engine.reading`).
"""

from __future__ import annotations

import math
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext, suppress
from time import monotonic
from typing import TYPE_CHECKING, Final

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream, TaskGroup

from ..engine import ConnectionEnded, ConnectionOpened, Engine, Event
from ..errors import ConnectionLost
from ._signal import Signal
from ._streams.base import STREAM_ERRORS, LayerAttribute, describe

if TYPE_CHECKING:
    from ._reading import ReadingTurn

HIGH_WATER: Final = 1 << 20
"""Bytes waiting to be written above which `full` asks producers to wait."""

READ_SIZE: Final = 1 << 19
"""Bytes asked of the stream at a time: with an eighth of that receiving 1 KiB costs a fifth more, with half of it
receiving 64 KiB a quarter to two fifths more, for more frames come in two pieces. benchmarks/run.py"""

# What is read, and the payloads of messages, come from the C library. glibc takes whatever is larger than 128 KiB from
# the system anew each time, and gives back what lies free above as much: each page is a fault then. After it has freed
# something larger once it keeps that much for the next. benchmarks/run.py, "send 64 KiB": a quarter.
bytes(1 << 22)

MOST_ANSWERS: Final = 1 << 24
"""Bytes of answers to what a peer says that are kept for it while it takes none; a peer that asks on is cut off."""

ENOUGH: Final = 1 << 14
"""Bytes that are written without waiting for what others may add."""

GATHERING: Final = 0.005
"""Seconds after which what is there is written though others still add to it."""

MOST_IN_VAIN: Final = 64
"""Writes at most after which it is tried again whether others add to one."""

LAST_WRITE: Final = 5.0
"""Seconds that writing may still take once the connection has ended."""

LAST_WORDS: Final = 1.0
"""Seconds that the peer's last words are read for once it takes none of ours."""


class Pump:
    """Drives one engine over one byte stream.

    Args:
        stream: the transport; the pump's from now on, closed when `run` ends.
        engine: started and opened by whoever made it.
        on_events: told what happened, after each read and each tick; called synchronously, must not block.
        before_write: awaited when output was taken from the engine, before the stream gets it.

    Attributes:
        received_at, sent_at: when something crossed the transport last, by `time.monotonic`; None: nothing has.
        lends: tasks that wait may read: see `takes_turn`.
    """

    # Without these an idle connection takes a kilobyte more.
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
        "_on_events",
        "_opened",
        "_over",
        "_readable",
        "_rest",
        "_send_at_once",
        "_sleep",
        "_stop_receiving",
        "_stream",
        "_turn",
        "_wakeup",
        "_write_deadline",
        "_write_scope",
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
        self._awake = True  # the writer will look at the output without being told
        self._wakeup: anyio.Event | None = None  # what the writer sleeps on
        self._writing = 0  # bytes handed to the stream and not taken by it yet
        self._line: deque[list[anyio.Event]] = deque()  # of those who wait for room in the output, one event each
        self._readable: anyio.Event | None = None  # what the reader sleeps on while the engine takes no more
        self._answers = 0  # bytes that reading has led to since a write was last done
        self._in_vain = 1  # writes without a wait for others after the next such wait, if nobody adds anything then
        self._hurried = 0  # writes that are still to be done so
        self._written = False  # at once, by who waits for an answer, since something was read
        self._rest: Sequence[bytes | memoryview] = ()  # of what was written at once, and was not taken
        # A store says before each write what is written, which takes time.
        self._send_at_once = getattr(stream, "send_at_once", None) if before_write is None else None
        self._opened = self._ended = False
        self._sleep: anyio.CancelScope | None = None
        self._over = anyio.Event()
        self._write_deadline = math.inf
        self._write_scope: anyio.CancelScope | None = None
        self._closed = False  # the stream, in order
        self._cause: Exception | None = None  # what broke the transport
        self._crash: Exception | None = None  # a fault on this side
        self._fault: Exception | None = None  # the same, where it was not the reader that read: the reader raises it
        self._stop_receiving: Callable[[], None] | None = getattr(stream, "stop_receiving", None)
        self.lends: bool = self._stop_receiving is not None
        self._turn: ReadingTurn | None = None  # for that; made when first asked for

    async def run(self) -> None:
        """Pump until the engine's connection has ended and the rest is written, or the transport breaks.

        Either way `ConnectionEnded` is among the events, once, and last; where the transport broke, its error is the
        `__cause__` of the `ConnectionLost` in it. What the transport does is never raised; what `on_events` raises
        leaves as it is, after the stream is closed.

        Cancelling: the stream is closed at once, whatever is unwritten is dropped, and `ConnectionEnded` is told.
        """
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._guard, self._read, tasks)
                tasks.start_soon(self._guard, self._keep_time, tasks)
                await self._guard(self._write, tasks)
                tasks.cancel_scope.cancel()
            if self._layer is not None and self._crash is None:
                # It has a way of its own to close. All other users of the stream are done.
                with anyio.move_on_after(LAST_WORDS):
                    await self._stream.aclose()
                    self._closed = True
        finally:
            try:
                # A fault that is on its way out already is not to be hidden by its consequences.
                with suppress(Exception) if self._crash is not None else nullcontext():
                    self._lose(None)
            finally:
                self._end()
                if not self._closed:
                    await anyio.aclose_forcefully(self._stream)
        if self._crash is not None:
            raise self._crash

    def wake(self) -> None:
        """Make the loop write the engine's output and resume reading soon. Cheap; call it after each operation."""
        if self._readable is not None:
            self._go_on_reading()
        if not self._awake:
            self._awake = True
            if self._wakeup is not None:
                self._wakeup.set()

    def write_now(self) -> None:
        """Write the output at once, where nothing else is under way, and else wake the writer.

        For whoever then waits for an answer: it spares a pass of the scheduler. Of several tasks that do so the first
        writes, the output of the others goes out together.
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
        """Return whether the task that calls is to read until its answer is there (`read_for`), and nobody else does.

        Who wrote at once, and waits alone, is soon let: the reader is asked for its turn.
        """
        turn = self._turn
        if turn is not None and self._engine.reading and turn.take():
            return True
        if self._written:
            self._ask_to_read(answer)
        return False

    async def read_for(self, answer: Signal) -> None:
        """Read until the answer is there, or the turn over: then wait for it as others do.

        Cancelling: the reader reads on.
        """
        turn = self._turn
        assert turn is not None
        on = True
        try:
            while on and not answer.is_set():
                # It may come from elsewhere: a timer, or another task that closes the link.
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
            # All else, such as Ctrl-C, may leave what was read untold, and nobody would ever hear of it.
            turn.give_back(None if cancelled else anyio.BrokenResourceError("reading was interrupted"))
            raise
        if on:
            turn.leave()
        else:
            turn.give_back()

    @property
    def waiting(self) -> int:
        """Bytes that are to be written, and were not taken by the stream yet."""
        return self._engine.output_size + self._writing

    @property
    def full(self) -> bool:
        """More is waiting than the stream takes: producers should `await drained()`. False once it is over."""
        return self._engine.output_size + self._writing > HIGH_WATER and not self._ended

    @property
    def awaited(self) -> bool:
        """Whether a task waits in `drained`: then others line up behind it, so that each gets its turn."""
        return bool(self._line)

    async def drained(self) -> None:
        """Wait in line until `full` is False, or the connection has ended.

        They are let go one after the other, each when the one before has had the time to produce.

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
        """Run one task; its fault ends all three, and is kept so that it leaves without an exception group."""
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
                del data  # not to be kept until there is more

    def _ask_to_read(self, answer: Signal) -> None:
        """Ask the reader for its turn, for the time after this answer."""
        if self._turn is None:
            from ._reading import ReadingTurn  # here, for it imports trio

            self._turn = ReadingTurn()
        self._turn.ask(answer)

    def _take_one(self, data: bytes) -> bool:
        """Take what was not read by the reader, and return whether to read on."""
        try:
            self._take(data)
        except Exception as error:
            self._fault = error
            return False
        return self._engine.reading and not self._ended

    def _take(self, data: bytes) -> None:
        """Give the engine what was read, and tell what happened."""
        engine = self._engine
        self.received_at = monotonic()
        self._written = False
        before = engine.output_size
        engine.receive_data(data)
        self._tell()
        # An answer is about as long as what it answers: more is a message that was waiting for this, ours to send.
        self._answers += min(engine.output_size - before, 4 * len(data))
        if self._answers > MOST_ANSWERS:
            self._lose(ConnectionLost("the peer keeps sending and does not read the answers"))

    async def _pause(self) -> None:
        """Read no more until the engine is ready for it, which is so after some call of its owner's, or is over."""
        while not (self._engine.reading or self._ended):
            self._readable = anyio.Event()
            await self._readable.wait()
        self._readable = None

    def _go_on_reading(self) -> None:
        if self._readable is not None and (self._engine.reading or self._ended):
            self._readable.set()

    async def _write(self) -> None:
        engine, layer, before = self._engine, self._layer, self._before_write
        send = getattr(self._stream, "send_buffers", self._send_joined)
        hasty = hasattr(self._stream, "send_at_once")  # others run while it sends only if it has to wait
        again = False
        with anyio.CancelScope(deadline=self._write_deadline) as self._write_scope:
            try:
                while True:
                    self._awake = False
                    buffers = engine.buffers_to_send()
                    self._tell()  # of what a call of the owner's led to, or what was put off until now
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
                        self._wakeup = anyio.Event()
                        await self._wakeup.wait()
                        self._wakeup = None
                        again = False
                        await self._gather()
            except STREAM_ERRORS as error:
                self._cause = self._cause or error
        if not self._ended:
            # What the peer said before it went, a close with its reason perhaps, may still be to be read: the reader
            # comes to the end by itself. Where it does not, because only our direction is broken, it is not waited for.
            with anyio.move_on_after(LAST_WORDS):
                await self._over.wait()

    async def _gather(self) -> None:
        """Let other tasks add to the output as long as each pass of the scheduler brings something.

        A task a message makes one message a pass: a write for each, the peer's answer to each and the read of that
        would cost more than the message itself. benchmarks/budget.py, "relay_task". Where a pass brings nothing the
        next writes do without, each time twice as many.
        """
        if self._hurried:
            self._hurried -= 1
            return
        engine = self._engine
        first = size = engine.output_size
        until = monotonic() + GATHERING
        quiet = 0  # passes in a row: in one, this task may have run before those that add something
        while size < ENOUGH and quiet < 2 and monotonic() < until and not self._ended:
            await anyio.lowlevel.checkpoint()
            before, size = size, engine.output_size
            quiet = quiet + 1 if size == before else 0
        if size > first:
            self._in_vain = 1
        elif first < ENOUGH:
            self._hurried = self._in_vain
            self._in_vain = min(2 * self._in_vain, MOST_IN_VAIN)

    async def _send_joined(self, buffers: Sequence[bytes | memoryview]) -> None:
        await self._stream.send(b"".join(buffers))

    async def _keep_time(self) -> None:
        while not self._ended:
            deadline = self._engine.tick(anyio.current_time())
            self._tell()
            # A sleep that `_tell` can cut short: once the peer has opened, its idle timeout counts too.
            with anyio.CancelScope() as self._sleep:
                await anyio.sleep_until(math.inf if deadline is None else deadline)

    # What they share

    def _tell(self) -> None:
        """Hand the events over, those too that acting on them has brought, and have the writer look at the output."""
        engine = self._engine
        if self._ended:
            return
        while events := engine.events():
            last = events[-1]
            if isinstance(last, ConnectionEnded):
                if isinstance(last.error, ConnectionLost) and last.error.__cause__ is None:
                    last.error.__cause__ = self._cause
                    if isinstance(self._cause, ssl.SSLError):
                        last.error.args = (f"{last.error}: {describe(self._cause)}",)
                self._end()
            elif not self._opened and any(isinstance(event, ConnectionOpened) for event in events):
                self._opened = True
                if self._sleep is not None:
                    self._sleep.cancel()
            self._on_events(events)
        if engine.output_size:
            self.wake()
        else:
            self._go_on_reading()

    def _lose(self, cause: Exception | None) -> None:
        """Tell the engine that the transport has ended, unless it knows of an end already."""
        if not self._ended:
            if self._cause is None and not isinstance(cause, anyio.EndOfStream):
                self._cause = cause
            self._engine.receive_eof()
            self._tell()

    def _end(self) -> None:
        """Stop telling events, and let the writer finish in bounded time without waiting for it."""
        if self._ended:
            return
        self._ended = True
        if self._turn is not None:
            self._turn.give_back()
        self._over.set()
        self._write_deadline = anyio.current_time() + LAST_WRITE
        if self._write_scope is not None:
            self._write_scope.deadline = self._write_deadline
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
