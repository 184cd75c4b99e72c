"""The loop, with an engine that is all transparent and streams that do what the test says."""

from __future__ import annotations

import math
import platform
import socket
import subprocess
import sys

import anyio
import anyio.lowlevel
import pytest

from amqp10.engine import Event, Role
from amqp10.errors import ConnectionClosed, ConnectionLost
from amqp10.net import _pump as pump_module
from amqp10.net._pump import HIGH_WATER, READ_SIZE, WRITE_AT_ONCE

from ..kit.net.pump_rig import HastyWire, Received, Rig, SocketWire, running

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]


# Reading and telling


async def test_order() -> None:
    """Bytes to the engine, its events to the owner, what these lead to on the wire: pass by pass."""
    async with running() as rig:
        rig.on_events = lambda events: rig.engine.say(b"answer to " + events[0].data)  # type: ignore[attr-defined]
        rig.wire.give(b"one")
        await anyio.wait_all_tasks_blocked()
        rig.wire.give(b"two")
        await anyio.wait_all_tasks_blocked()
        assert rig.told == [[Received(b"one")], [Received(b"two")]]
        assert rig.wire.sent == [b"answer to one", b"answer to two"]
        assert rig.engine.log == ["tick", "receive 3", "receive 3"]
        assert rig.wire.asked == {READ_SIZE}


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library manages its heap in another way")
def test_the_heap_is_kept() -> None:
    """What messages take and free again is not given back to the system and taken anew, page by page, each time."""
    program = """if True:
        import resource
        import amqp10.net

        def faults():
            return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

        def messages():
            return [b"x" * 65_000 for _ in range(48)]

        messages()
        before = faults()
        for _ in range(10):
            messages()
        print(faults() - before)
        """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 48 * 65_000 // 4096  # of one round


async def test_what_was_queued_before() -> None:
    """What the engine has when the pump starts goes out without a word."""
    rig = Rig()
    rig.engine.say(b"header")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(rig.run)
        await anyio.wait_all_tasks_blocked()
        assert rig.wire.sent == [b"header"]
        tasks.cancel_scope.cancel()


async def test_an_engine_that_takes_no_more() -> None:
    """While the engine does not want to be fed nothing is read; a wake after it has changed its mind goes on."""
    async with running() as rig:
        rig.on_events = lambda events: setattr(rig.engine, "reading", False)
        for word in (b"one", b"two"):
            rig.wire.give(word)
            await anyio.wait_all_tasks_blocked()
        rig.pump.wake()
        await anyio.wait_all_tasks_blocked()
        assert rig.told == [[Received(b"one")]]
        rig.engine.reading = True
        rig.pump.wake()
        await anyio.wait_all_tasks_blocked()
        assert rig.told == [[Received(b"one")], [Received(b"two")]]


async def test_an_engine_with_more_to_do() -> None:
    """An engine that has input left goes on before anything is read, and others have their turn between."""
    turns: list[int] = []

    async def other() -> None:
        for _ in range(50):
            turns.append(len(rig.told))
            await anyio.lowlevel.checkpoint()

    async with running() as rig, anyio.create_task_group() as tasks:
        rig.on_events = lambda events: setattr(rig.engine, "behind", len(rig.told) < 4)
        rig.wire.give(b"one")
        rig.wire.give(b"two")
        tasks.start_soon(other)
        await anyio.wait_all_tasks_blocked()
        assert rig.told == [[Received(b"one")], *[[Received(b"")]] * 3, [Received(b"two")]]
        assert len({1, 2, 3, 4}.intersection(turns)) >= 2  # trio runs two tasks in any order


async def test_an_engine_with_more_to_do_that_takes_no_more() -> None:
    """What is left waits like other input, while the engine does not want to be fed."""
    async with running() as rig:

        def stop(events: list[Event]) -> None:
            rig.engine.behind, rig.engine.reading = len(rig.told) < 2, False

        rig.on_events = stop
        rig.wire.give(b"one")
        await anyio.wait_all_tasks_blocked()
        assert rig.told == [[Received(b"one")]]
        rig.engine.reading = True
        rig.pump.wake()
        await anyio.wait_all_tasks_blocked()
        assert rig.told == [[Received(b"one")], [Received(b"")]]


async def test_leaving_an_engine_that_takes_no_more() -> None:
    """A pump that does not read is cancelled as any other, and writes still."""
    async with running() as rig:
        rig.on_events = lambda events: setattr(rig.engine, "reading", False)
        rig.wire.give(b"one")
        await anyio.wait_all_tasks_blocked()
        rig.engine.say(b"x")
        rig.pump.wake()
        await anyio.wait_all_tasks_blocked()
        assert rig.wire.sent == [b"x"]


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("alive", [True, False])
async def test_a_peer_that_hangs_up_while_nothing_is_read(role: Role, alive: bool) -> None:
    """A server ends the connection, though the end comes after what it does not read; a client may read all of it."""
    ours, theirs = socket.socketpair()
    wire = SocketWire(ours)
    with ours, theirs:
        async with running(wire) as rig:
            rig.engine.role = role
            rig.on_events = lambda events: setattr(rig.engine, "reading", False)
            wire.give(b"one")
            await anyio.wait_all_tasks_blocked()
            theirs.send(b"two")
            if not alive:
                theirs.close()
            await anyio.sleep(5 * pump_module.LOOK_FOR_END)
            rig.pump.wake()
            await anyio.wait_all_tasks_blocked()
            if alive or role is Role.CLIENT:
                assert rig.told == [[Received(b"one")]]
            else:
                assert "hung up" in str(rig.error and rig.error.__cause__)


# Writing


async def test_batches() -> None:
    """All that is queued before the writer comes to run is one write; so is all that is queued while it writes."""
    async with running() as rig:
        for n in range(100):
            rig.engine.say(b"%02d" % n)
            rig.pump.wake()
        await anyio.wait_all_tasks_blocked()
        assert rig.wire.sent == [b"".join(b"%02d" % n for n in range(100))]
        rig.wire.sent.clear()
        rig.wire.gate = anyio.Event()
        for word in (b"a", b"b", b"c"):
            rig.engine.say(word)
            rig.pump.wake()
            await anyio.wait_all_tasks_blocked()
        assert rig.wire.sent == []
        rig.wire.gate.set()
        await anyio.wait_all_tasks_blocked()
        assert rig.wire.sent == [b"a", b"bc"]


async def test_waking_for_nothing() -> None:
    """A wake without output writes nothing, and the next one works."""
    async with running() as rig:
        rig.pump.wake()
        await anyio.wait_all_tasks_blocked()
        rig.engine.say(b"x")
        rig.pump.wake()
        rig.pump.wake()
        await anyio.wait_all_tasks_blocked()
        assert rig.wire.sent == [b"x"]


async def test_writing_at_once() -> None:
    """Who waits for an answer writes by itself; what others have for the same answer goes out together."""
    wire = HastyWire()
    async with running(wire) as rig:
        for round_ in range(2):
            for word in (b"a", b"b", b"c"):
                rig.engine.say(word)
                rig.pump.write_now()
            assert wire.at_once == [b"a"] * (round_ + 1)
            await anyio.wait_all_tasks_blocked()
            assert wire.sent == [b"bc"] * (round_ + 1)
            wire.give(b"an answer")
            await anyio.wait_all_tasks_blocked()


async def test_writing_at_once_in_part() -> None:
    """What the stream does not take at once is written after that and before what comes later."""
    wire = HastyWire()
    wire.room = 3
    wire.gate = anyio.Event()
    async with running(wire) as rig:
        rig.engine.say(b"abcdef")
        rig.pump.write_now()
        assert rig.pump.waiting == 3
        wire.give(b"an answer")
        await anyio.wait_all_tasks_blocked()
        rig.engine.say(b"ghi")
        rig.pump.write_now()
        assert rig.pump.waiting == 6
        wire.gate.set()
        await anyio.wait_all_tasks_blocked()
        assert wire.at_once == [b"abc"]
        assert wire.sent == [b"def", b"ghi"]
        assert rig.pump.waiting == 0


async def test_nothing_to_write_at_once() -> None:
    """Without output, and once it is over, nothing is written; what came too late goes the usual way."""
    wire = HastyWire()
    async with running(wire) as rig:
        rig.pump.write_now()
        assert wire.at_once == []
        wire.give(b"close")
        await anyio.wait_all_tasks_blocked()
        rig.engine.say(b"late")
        rig.pump.write_now()
        await anyio.wait_all_tasks_blocked()
        assert wire.at_once == []


async def test_a_stream_that_cannot_write_at_once() -> None:
    """The writer is woken."""
    async with running() as rig:
        rig.engine.say(b"x")
        rig.pump.write_now()
        assert rig.wire.sent == []
        await anyio.wait_all_tasks_blocked()
        assert rig.wire.sent == [b"x"]


async def test_a_stream_that_never_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """While there is always something to write, others still run."""
    wire = HastyWire()
    async with running(wire) as rig:
        monkeypatch.setattr(rig.engine, "buffers_to_send", lambda: [b"x"])
        rig.pump.wake()
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        assert 1 < len(wire.sent) <= 11
        monkeypatch.undo()


async def test_what_each_pass_adds_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a task adds to in each pass is one write, of some size at most; what nobody adds to waits for nobody."""
    monkeypatch.setattr(pump_module, "GATHERING", math.inf)  # a machine that stands still for a while ends no write
    async with running(HastyWire()) as rig:

        async def say(count: int, word: bytes) -> None:
            for _ in range(count):
                rig.engine.say(word)
                rig.pump.wake()
                await anyio.lowlevel.checkpoint()
            await anyio.wait_all_tasks_blocked()

        await say(10, b"x")
        assert rig.wire.sent == [b"x" * 10]
        rig.wire.sent.clear()
        await say(40, bytes(WRITE_AT_ONCE // 8))
        assert len(rig.wire.sent) > 2
        assert sum(map(len, rig.wire.sent)) == 5 * WRITE_AT_ONCE
        for _ in range(5):
            rig.wire.sent.clear()
            await say(1, b"y")
            assert rig.wire.sent == [b"y"]


async def test_what_is_added_for_long() -> None:
    """What others go on adding to is written after a while."""
    async with running(HastyWire()) as rig:
        added = 0
        with anyio.fail_after(60):
            while not rig.wire.sent:
                rig.engine.say(b"x")
                rig.pump.wake()
                added += 1
                await anyio.lowlevel.checkpoint()
        assert added < WRITE_AT_ONCE


async def test_backpressure() -> None:
    """Full above the mark, counting what is queued and what is being written; waiters go on when it was taken."""
    async with running() as rig:
        assert not rig.full()
        await rig.pump.drained()
        rig.wire.gate = anyio.Event()
        rig.engine.say(bytes(HIGH_WATER))
        assert not rig.full()
        rig.engine.say(b"x")
        assert rig.full()
        rig.pump.wake()
        await anyio.wait_all_tasks_blocked()
        assert rig.engine.output_size == 0
        assert rig.full()
        released = []

        async def wait() -> None:
            await rig.pump.drained()
            released.append(rig.full())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            assert not released
            rig.wire.gate.set()
        assert released == [False, False]


async def test_room_is_had_in_turn() -> None:
    """Producers that fill the output again and again have it one after the other, in the order in which they came."""
    async with running() as rig:
        served: list[int] = []

        async def produce(number: int) -> None:
            for _ in range(4):
                await rig.pump.drained()
                served.append(number)
                rig.engine.say(bytes(HIGH_WATER + 1))

        rig.wire.gate = anyio.Event()
        rig.engine.say(bytes(HIGH_WATER + 1))
        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(produce, number)
            await anyio.wait_all_tasks_blocked()
            rig.wire.gate.set()
        for round_ in range(4):
            assert sorted(served[round_ * 5 : round_ * 5 + 5]) == list(range(5))
        assert served[5:] == served[:5] * 3
        assert not rig.pump.awaited


async def test_drained_wakes_the_writer() -> None:
    """Who waits for room without having woken the writer does not wait for ever."""
    async with running() as rig:
        rig.engine.say(bytes(HIGH_WATER + 1))
        await rig.pump.drained()
        assert len(rig.wire.sent) == 1


async def test_waiting_for_room_may_be_cancelled() -> None:
    """And others wait on."""
    async with running() as rig:
        rig.wire.gate = anyio.Event()
        rig.engine.say(bytes(HIGH_WATER + 1))
        async with anyio.create_task_group() as first:
            first.start_soon(rig.pump.drained)
            await anyio.wait_all_tasks_blocked()
            first.cancel_scope.cancel()
        async with anyio.create_task_group() as second:
            second.start_soon(rig.pump.drained)
            await anyio.wait_all_tasks_blocked()
            rig.wire.gate.set()
        assert not rig.full()


async def test_a_peer_that_does_not_read() -> None:
    """Stalls writing, and reading goes on."""
    async with running() as rig:
        rig.wire.gate = anyio.Event()
        rig.engine.say(b"stuck")
        rig.pump.wake()
        for n in range(3):
            rig.wire.give(b"%d" % n)
            await anyio.wait_all_tasks_blocked()
        assert rig.events == [Received(b"0"), Received(b"1"), Received(b"2")]
        assert rig.wire.sent == []


async def test_a_peer_that_reads_none_of_its_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is cut off at a bound, lest it fill the memory with answers by asking on; what others produce counts not."""
    monkeypatch.setattr(pump_module, "MAX_ANSWERS", 10)
    monkeypatch.setattr(pump_module, "LAST_WRITE", 0.001)
    rig = Rig()
    rig.on_events = lambda events: rig.engine.say(b"answer") if rig.events[-1:] == [Received(b"ask")] else None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(rig.run)
        await anyio.wait_all_tasks_blocked()
        for _ in range(5):  # who reads may ask for ever
            rig.wire.give(b"ask")
            await anyio.wait_all_tasks_blocked()
        rig.wire.gate = anyio.Event()
        rig.engine.say(bytes(100))
        rig.wire.give(b"ask")
        await anyio.wait_all_tasks_blocked()
        assert not rig.pump._ended
        rig.wire.give(b"ask")
    assert isinstance(rig.error, ConnectionLost)
    assert isinstance(rig.error.__cause__, ConnectionLost)
    assert rig.wire.closed


# The end


async def test_the_peer_closes() -> None:
    """The end is told once, what is left is written, the stream is closed, and nothing is read after it."""
    async with running() as rig:
        rig.wire.give(b"close", b"more")
        await anyio.wait_all_tasks_blocked()
        assert rig.finished()
        assert isinstance(rig.error, ConnectionClosed)
        assert rig.events[0] == Received(b"close")
        assert rig.wire.sent == [b"closed"]
        assert rig.wire.closed
        assert rig.engine.log == ["tick", "receive 5"]


async def test_end_of_stream() -> None:
    """The engine learns of it, and says what it means; an end is no error of the transport, so there is no cause."""
    async with running() as rig:
        rig.wire.give(b"x", anyio.EndOfStream())
        await anyio.wait_all_tasks_blocked()
        assert rig.finished()
        assert isinstance(rig.error, ConnectionLost)
        assert rig.error.__cause__ is None
        assert rig.engine.log == ["tick", "receive 1", "eof"]


@pytest.mark.parametrize(
    "broken", [OSError(104, "reset"), anyio.BrokenResourceError(), anyio.ClosedResourceError()], ids=repr
)
async def test_broken_while_reading(broken: Exception) -> None:
    """What the stream raises does not leak: it is the cause of the loss."""
    async with running() as rig:
        rig.wire.give(broken)
        await anyio.wait_all_tasks_blocked()
        assert rig.finished()
        assert isinstance(rig.error, ConnectionLost)
        assert rig.error.__cause__ is broken


async def test_broken_while_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peer takes nothing more and says nothing: it is not waited for, and the write's error is the cause."""
    monkeypatch.setattr(pump_module, "LAST_WORDS", 0.001)
    rig = Rig()
    rig.wire.write_error = broken = anyio.BrokenResourceError()
    rig.engine.say(b"x")
    await rig.run()
    assert isinstance(rig.error, ConnectionLost)
    assert rig.error.__cause__ is broken


async def test_last_words() -> None:
    """The peer takes nothing more, but had said why: that is what is told."""
    async with running() as rig:
        rig.wire.write_error = anyio.BrokenResourceError()
        rig.engine.say(b"x")
        rig.pump.wake()
        await anyio.wait_all_tasks_blocked()
        assert not rig.finished()
        rig.wire.give(b"close")
        await anyio.wait_all_tasks_blocked()
        assert rig.finished()
        assert isinstance(rig.error, ConnectionClosed)


async def test_broken_in_both_directions_at_once() -> None:
    """One end, one cause, no group."""
    rig = Rig()
    rig.wire.write_error = OSError(32, "broken pipe")
    rig.engine.say(b"x")
    rig.wire.give(OSError(104, "reset"))
    await rig.run()
    assert isinstance(rig.error, ConnectionLost)
    assert isinstance(rig.error.__cause__, OSError)


async def test_the_last_write_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that has closed and does not read: the writer, stuck since before, is given up in time."""
    monkeypatch.setattr(pump_module, "LAST_WRITE", 0.001)
    rig = Rig()
    rig.wire.gate = anyio.Event()
    rig.engine.say(b"stuck")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(rig.run)
        await anyio.wait_all_tasks_blocked()
        rig.wire.give(b"close")
    assert isinstance(rig.error, ConnectionClosed)
    assert rig.wire.closed
    assert rig.wire.sent == []


async def test_waiters_at_the_end() -> None:
    """Who waits for room when it ends does not wait on, and is not told to wait again."""
    async with running() as rig:
        rig.wire.gate = anyio.Event()
        rig.engine.say(bytes(HIGH_WATER + 1))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(rig.pump.drained)
            await anyio.wait_all_tasks_blocked()
            rig.wire.give(anyio.EndOfStream())
        assert not rig.full()


async def test_wake_after_the_end() -> None:
    """Does nothing."""
    async with running() as rig:
        rig.wire.give(anyio.EndOfStream())
        await anyio.wait_all_tasks_blocked()
        assert rig.finished()
        rig.engine.say(b"x")
        rig.pump.wake()
        await anyio.wait_all_tasks_blocked()
        assert rig.wire.sent == []


@pytest.mark.parametrize("stuck", [False, True])
async def test_cancellation(stuck: bool) -> None:
    """The stream is closed at once, even with a write under way; the end is told."""
    async with running() as rig:
        if stuck:
            rig.wire.gate = anyio.Event()
            rig.engine.say(b"stuck")
            rig.pump.wake()
            await anyio.wait_all_tasks_blocked()
    assert not rig.finished()
    assert rig.wire.closed == 1
    assert rig.wire.sent == []
    assert isinstance(rig.error, ConnectionLost)


# Faults of our own


class Fault(Exception):
    pass


@pytest.mark.parametrize("when", [b"x", b"close"])
async def test_on_events_raises(when: bytes) -> None:
    """It leaves as it is, no group around it, after the end was told and the stream closed."""
    rig = Rig()

    def fail(events: list[Event]) -> None:
        raise Fault(len(rig.told))

    rig.on_events = fail
    rig.wire.give(when)
    with pytest.raises(Fault) as caught:
        await rig.run()
    assert caught.value.args == (1,)
    assert rig.error is not None
    assert rig.wire.closed


async def test_the_engine_raises_in_each_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault in reading, writing or keeping time ends all three, and leaves as it is."""
    for method in ("receive_data", "data_to_send", "tick"):
        rig = Rig()

        def fail(*args: object) -> None:
            raise Fault

        monkeypatch.setattr(rig.engine, method, fail)
        rig.wire.give(b"x")
        with pytest.raises(Fault):
            await rig.run()
        assert isinstance(rig.error, ConnectionLost)
        assert rig.wire.closed


# Time


async def test_no_deadline() -> None:
    """An engine without deadlines is asked once."""
    async with running() as rig:
        rig.wire.give(b"x")
        await anyio.wait_all_tasks_blocked()
        assert rig.engine.log.count("tick") == 1


async def test_ticks() -> None:
    """The engine is asked at the start and at each deadline it gave; what it has to say then is told and written."""
    rig = Rig()
    rig.engine.deadlines = [60.0, 300.0, None]
    times: list[float] = []

    def beat() -> None:
        times.append(anyio.current_time())
        rig.engine.say(b"%d" % len(times))
        if len(times) == 3:
            rig.engine.end(ConnectionLost("silent"))

    rig.engine.on_tick = beat
    await rig.run()
    assert [round(time - times[0]) for time in times] == [0, 60, 360]
    assert rig.wire.sent == [b"1", b"2", b"3"]
    assert rig.engine.log == ["tick"] * 3
    assert isinstance(rig.error, ConnectionLost)
