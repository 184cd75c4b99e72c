"""The turn to read on trio: a task that waits alone reads by itself, and nobody ever misses the reader."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

import anyio
import anyio.lowlevel
import pytest
from trio.lowlevel import current_statistics

from amqp10.engine import Event
from amqp10.errors import ConnectionClosed, ConnectionLost
from amqp10.net import Signal
from amqp10.net._reading import MAX_IN_VAIN, ReadingTurn, Whose, _watch_of_this_run

from ..kit.client.cancelling import CancelAt, at_each_checkpoint
from ..kit.net.pump_rig import HastyWire, Received, Rig, running

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.parametrize("anyio_backend", ["trio"])]


class LendingWire(HastyWire):
    """A stream that any task may receive from, whose other end answers what is written at once.

    Attributes:
        readers: the tasks that asked for what comes next, in turn.
    """

    def __init__(self) -> None:
        super().__init__()
        self.answers = True
        self.readers: list[int] = []
        self._receiving = anyio.CancelScope()

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        self.readers.append(anyio.get_current_task().id)
        with anyio.CancelScope() as self._receiving:
            return await super().receive(max_bytes)
        raise anyio.WouldBlock

    def stop_receiving(self) -> None:
        self._receiving.cancel()

    def send_at_once(self, buffers: object) -> object:  # type: ignore[override]
        if self.answers:
            self.give(b"answer")
        return super().send_at_once(buffers)  # type: ignore[arg-type]


class Asking:
    """Sends one question after the other, each when the answer to the one before is there."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.waiting: list[Signal] = []
        rig.on_events = self.told

    def told(self, events: list[Event]) -> None:
        answered = [event for event in events if not isinstance(event, Received) or event.data != b"news"]
        for _ in answered:
            if self.waiting:
                self.waiting.pop(0).set()

    async def ask(self, count: int = 1) -> None:
        for _ in range(count):
            answer = Signal()
            self.waiting.append(answer)
            self.rig.engine.say(b"?")
            self.rig.pump.write_now()
            while not answer.is_set():
                if self.rig.pump.takes_turn(answer):
                    await self.rig.pump.read_for(answer)
                else:
                    await answer.wait()


@asynccontextmanager
async def asking() -> AsyncIterator[tuple[Rig, LendingWire, Asking]]:
    wire = LendingWire()
    async with running(wire) as rig:
        yield rig, wire, Asking(rig)


async def test_who_waits_reads() -> None:
    """The reader reads the first answer; from then on it is the task that asks, and the reader sleeps."""
    async with asking() as (rig, wire, task):
        reader = wire.readers[0]
        await task.ask(5)
        assert wire.readers == [reader] + [anyio.get_current_task().id] * 4
        assert len(rig.told) == 5
        assert wire.sent == []


async def test_the_reader_reads_when_nobody_does() -> None:
    """As soon as the task does something else, the reader is there for what comes."""
    async with asking() as (rig, wire, task):
        reader = wire.readers[0]
        for times in (1, 2, 9):
            await task.ask(times)
            wire.give(b"news")
            await anyio.wait_all_tasks_blocked()
            assert rig.told[-1] == [Received(b"news")]
            assert wire.readers[-1] == reader


async def test_the_reader_reads_beside_a_busy_task() -> None:
    """A program that never sleeps does not keep the reader from its turn for more than a few passes."""
    async with asking() as (rig, wire, task):
        await task.ask(9)
        wire.give(b"news")
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        assert rig.told[-1] == [Received(b"news")]


async def test_a_pass_between_two_questions() -> None:
    """Who lets others run for one pass between two questions reads on."""
    async with asking() as (_, wire, task):
        for _ in range(5):
            await task.ask()
            await anyio.lowlevel.checkpoint()
        assert wire.readers[1:] == [anyio.get_current_task().id] * 4


async def test_what_is_for_others() -> None:
    """The task that reads hands on what others wait for, and they need no turn."""
    async with asking() as (_, wire, task):
        await task.ask(3)
        wire.answers = False
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(task.ask)
            await anyio.wait_all_tasks_blocked()
            wire.give(b"one", b"two", b"three")
        assert task.waiting == []


async def test_in_the_context_of_the_reader() -> None:
    """What is told while a task reads sees nothing of that task's context: a span of its own, for one."""
    span: ContextVar[str] = ContextVar("span", default="none")
    seen = []
    async with asking() as (rig, _, task):

        def look(events: list[Event]) -> None:
            seen.append(span.get())
            task.told(events)

        rig.on_events = look
        span.set("the task's")
        await task.ask(3)
        assert seen == ["none"] * 3


async def test_cancelled_anywhere() -> None:
    """Wherever a task that reads is cancelled, the reader reads what comes next, and the next question is answered."""

    async def trial(cancel: CancelAt) -> None:
        async with asking() as (rig, wire, task):
            await cancel.run(lambda: task.ask(6))
            task.waiting.clear()
            await anyio.wait_all_tasks_blocked()
            wire.give(b"news")
            await anyio.wait_all_tasks_blocked()
            assert rig.told[-1] == [Received(b"news")]
            await task.ask(4)

    await at_each_checkpoint(trial, 6)


async def test_a_question_given_up() -> None:
    """The turn that was asked for by a task that gave up is not given away for it."""
    async with asking() as (rig, wire, task):
        wire.answers = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(task.ask)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        wire.give(b"news", b"answer")
        await anyio.wait_all_tasks_blocked()
        assert len(rig.told) == 2


async def test_pauses_of_the_engine() -> None:
    """An engine that takes no more is not fed by a task that waits, either."""
    async with asking() as (rig, wire, task):
        await task.ask(3)
        wire.answers = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(task.ask)
            await anyio.wait_all_tasks_blocked()

            def pause(events: list[Event]) -> None:
                rig.engine.reading = False

            rig.on_events = pause
            wire.give(b"news", b"answer")
            await anyio.wait_all_tasks_blocked()
            assert rig.told[-1] == [Received(b"news")]
            rig.on_events = task.told
            rig.engine.reading = True
            rig.pump.wake()
        assert rig.told[-1] == [Received(b"answer")]


@pytest.mark.parametrize("broken", [anyio.EndOfStream(), anyio.BrokenResourceError(), OSError("gone")], ids=repr)
async def test_broken_while_a_task_reads(broken: Exception) -> None:
    """What the stream raises there is the loss of the connection, as where the reader reads."""
    async with asking() as (rig, wire, task):
        await task.ask(3)
        wire.answers = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(task.ask)
            await anyio.wait_all_tasks_blocked()
            wire.give(broken)
        await anyio.wait_all_tasks_blocked()
        assert isinstance(rig.error, ConnectionLost)
        assert rig.finished()


async def test_the_peer_closes_while_a_task_reads() -> None:
    """The end of the connection ends the pump."""
    async with asking() as (rig, wire, task):
        await task.ask(3)
        wire.answers = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(task.ask)
            await anyio.wait_all_tasks_blocked()
            wire.give(b"close")
        await anyio.wait_all_tasks_blocked()
        assert isinstance(rig.error, ConnectionClosed)
        assert rig.finished()


async def test_a_fault_while_a_task_reads() -> None:
    """What the pump's owner raises leaves the pump, not the task that happened to read."""
    wire, ended = LendingWire(), Signal()
    rig = Rig(wire)
    task = Asking(rig)

    async def run() -> None:
        with pytest.raises(ZeroDivisionError):
            await rig.run()
        ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await anyio.wait_all_tasks_blocked()
        await task.ask(3)
        told = task.told

        def fail(events: list[Event]) -> None:
            rig.on_events = told
            raise ZeroDivisionError

        rig.on_events = fail
        await task.ask()  # what the end of the connection tells is its answer
        await ended.wait()


async def test_interrupted_while_a_task_reads() -> None:
    """Ctrl-C there is the task's own; the connection, which may have missed what was read, is lost."""
    async with asking() as (rig, _, task):
        await task.ask(3)

        def interrupt(events: list[Event]) -> None:
            rig.on_events = task.told
            raise KeyboardInterrupt

        rig.on_events = interrupt
        with pytest.raises(KeyboardInterrupt):
            await task.ask()
        await anyio.wait_all_tasks_blocked()
        assert isinstance(rig.error, ConnectionLost)
        assert rig.finished()


async def test_the_end_while_a_task_reads() -> None:
    """Where another task of the pump finds the connection over, the turn is the reader's, which ends."""
    async with asking() as (rig, wire, task):
        await task.ask(3)
        wire.answers = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(task.ask)
            await anyio.wait_all_tasks_blocked()
            rig.engine.end(ConnectionLost("a timer has said so"))
            rig.pump._tell()
        await anyio.wait_all_tasks_blocked()
        assert rig.pump._turn is not None
        assert rig.pump._turn.whose is Whose.READER


async def test_cancelled_as_a_whole() -> None:
    """A pump that is cancelled while a task reads ends as any, and the task hears of it."""
    rig = Rig(LendingWire())
    task = Asking(rig)
    pumped = anyio.CancelScope()

    async def run() -> None:
        with pumped:
            await rig.run()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await anyio.wait_all_tasks_blocked()
        await task.ask(3)
        rig.wire.answers = False  # type: ignore[attr-defined]
        tasks.start_soon(task.ask)
        await anyio.wait_all_tasks_blocked()
        pumped.cancel()
    assert isinstance(rig.error, ConnectionLost)
    assert rig.wire.closed


async def test_asked_for_less_and_less() -> None:
    """Where the task does something else after each answer, the turn is given away once in `MAX_IN_VAIN` times."""
    async with asking() as (rig, wire, task):
        lent = 0
        for _ in range(4 * MAX_IN_VAIN):
            await task.ask()
            assert rig.pump._turn is not None
            lent += rig.pump._turn.whose is Whose.FREE
            await anyio.wait_all_tasks_blocked()
        assert 8 <= lent <= 12
        assert len(wire.readers) == 4 * MAX_IN_VAIN + 1


async def test_nothing_is_left_in_trio() -> None:
    """Trio is asked to say when it sleeps only as long as a turn is given away."""
    async with asking() as (_, _, task):
        await task.ask(9)
        assert _watch_of_this_run().lent == 1
        await anyio.wait_all_tasks_blocked()
        assert _watch_of_this_run().lent == 0


async def test_answered_by_another_task() -> None:
    """An answer that does not come by reading, as where a timer gives up, ends the wait of the task that reads."""
    async with asking() as (rig, wire, task):
        await task.ask(3)
        wire.answers = False
        with anyio.fail_after(1):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(task.ask)
                await anyio.wait_all_tasks_blocked()
                task.told([Event()])
        wire.give(b"news")
        await anyio.wait_all_tasks_blocked()
        assert rig.told[-1] == [Received(b"news")]


async def test_many_turns_that_are_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    """What trio takes long to count with many sockets is asked once a pass at most, not for each connection."""
    counted = []

    def count() -> object:
        counted.append(1)
        return current_statistics()

    monkeypatch.setattr("amqp10.net._reading.current_statistics", count)
    watch = _watch_of_this_run()
    watch.free.update(ReadingTurn() for _ in range(20))
    watch.before_io_wait(0)
    watch.before_io_wait(1)  # trio sleeps, and nothing has to be counted
    watch.free.clear()
    assert len(counted) == 1
