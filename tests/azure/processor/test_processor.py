"""The processor, as its users hold it, against the emulator."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from amqp10 import ConnectionLost, EventPosition, LocalProtocolError, Reconnect, StoreError
from amqp10.azure import EventHub, EventReader, ReceivedEvent
from amqp10.azure.processor import Checkpoint, ConsumerGroup, EventProcessor, Lease, MemoryLeases, SQLiteLeases
from amqp10.broker import Broker, TokenRules
from amqp10.broker.azure import EMULATOR_RULE, AzureConfig, EventHubConfig, connection_string
from amqp10.testing import FaultProxy

from ...kit.azure.malformed_events import MALFORMED, pass_on_malformed

pytestmark = [pytest.mark.anyio, pytest.mark.capability("Event Hubs processor")]

QUICK: dict[str, Any] = {"interval": 0.1, "expiry": 60.0, "initial_delay": 0.0, "checkpoint_interval": 0.0}
PARTITIONS = 4


@asynccontextmanager
async def emulated() -> AsyncIterator[EventHub]:
    config = AzureConfig(event_hubs=[EventHubConfig("telemetry", PARTITIONS, [])])
    with anyio.fail_after(60):
        async with Broker(azure=config, tokens=TokenRules([EMULATOR_RULE])) as broker:
            async with EventHub(
                connection_string(broker.url), "telemetry", reconnect=Reconnect(initial_delay=0.01)
            ) as hub:
                yield hub


def group(hub: EventHub) -> ConsumerGroup:
    return ConsumerGroup(hub.connection.url.partition("://")[2], "telemetry", "$Default")


async def put(hub: EventHub, count: int, *partitions: int) -> None:
    """Send events 0, 1, ... to each partition."""
    for partition in partitions or range(PARTITIONS):
        async with hub.sender(partition=partition) as sender:
            await sender.send_many([str(number).encode() for number in range(count)])


class Handled:
    """A handler that keeps what it got."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []
        self._changed = anyio.Event()

    async def __call__(self, event: ReceivedEvent) -> None:
        self.note(event)

    def note(self, event: ReceivedEvent) -> None:
        self.events.append((event.partition, int(event.body)))
        self._changed.set()

    async def wait(self, condition: Callable[[list[tuple[str, int]]], bool]) -> None:
        while not condition(self.events):
            self._changed = anyio.Event()
            await self._changed.wait()

    async def until(self, count: int) -> None:
        await self.wait(lambda events: len(set(events)) >= count)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110
        await anyio.sleep(0.01)


async def test_all_in_order() -> None:
    """One processor reads all partitions, each in its order; another one goes on where it was."""
    store, first, second = MemoryLeases(), Handled(), Handled()
    async with emulated() as hub:
        await put(hub, 5)
        async with EventProcessor(hub, first, store=store, **QUICK) as processor:
            assert processor.partitions == {"0", "1", "2", "3"}
            await first.until(5 * PARTITIONS)
        assert processor.handled == 5 * PARTITIONS
        assert [number for partition, number in first.events if partition == "2"] == [0, 1, 2, 3, 4]
        assert all(lease.owner == "" for lease in await store.leases(group(hub)))
        assert {each.sequence_number for each in (await store.checkpoints(group(hub))).values()} == {4}
        await put(hub, 1, 3)
        async with EventProcessor(hub, second, store=store, **QUICK):
            await second.until(1)
        assert second.events == [("3", 0)]


async def test_share() -> None:
    """Who joins gets a share, handed over without a loss or a repeat; who leaves is replaced."""
    store, one, two = MemoryLeases(), Handled(), Handled()
    async with emulated() as hub:
        await put(hub, 3)
        async with EventProcessor(hub, one, store=store, **QUICK) as first:
            await one.until(12)
            async with EventProcessor(hub, two, store=store, **QUICK) as second:
                await until(lambda: len(first.partitions) == len(second.partitions) == 2)
                assert not first.partitions & second.partitions
                mine = second.partitions
                await put(hub, 3)
                await until(lambda: len(one.events) + len(two.events) == 24)
                assert {partition for partition, _ in two.events} == mine
            await until(lambda: len(first.partitions) == 4)
            await put(hub, 1)
            await until(lambda: len(one.events) + len(two.events) == 28)
        assert set(Counter(one.events + two.events).values()) == {2, 3}


async def test_dead_owner() -> None:
    """The lease of a processor that is gone ends after the expiry, and not before."""
    store, handled = MemoryLeases(), Handled()
    async with emulated() as hub:
        await store.write(group(hub), [Lease(str(each), "dead") for each in range(PARTITIONS)])
        await put(hub, 1)
        began = anyio.current_time()
        async with EventProcessor(hub, handled, store=store, **QUICK | {"interval": 0.2, "expiry": 0.5}):
            await handled.until(PARTITIONS)
        assert anyio.current_time() - began >= 0.5


async def test_same_name() -> None:
    """A process that begins again under its name has its partitions at once."""
    store, handled = MemoryLeases(), Handled()
    async with emulated() as hub:
        await store.write(group(hub), [Lease(str(each), "pod-3") for each in range(PARTITIONS)])
        async with EventProcessor(hub, handled, store=store, name="pod-3", **QUICK) as processor:
            assert len(processor.partitions) == PARTITIONS


async def test_foreign_owner() -> None:
    """An owner that wipes requests out, as Microsoft's does, loses what is beyond its share to the next write."""
    store, handled = MemoryLeases(), Handled()

    async def renew() -> None:
        while True:
            mine = [each for each in await store.leases(group(hub)) if each.owner in ("", "theirs")]
            await store.write(group(hub), [Lease(each.partition, "theirs", each.version) for each in mine])
            await anyio.sleep(0.01)

    async with emulated() as hub, anyio.create_task_group() as tasks:
        await store.write(group(hub), [Lease(str(each), "theirs") for each in range(PARTITIONS)])
        tasks.start_soon(renew)
        async with EventProcessor(hub, handled, store=store, **QUICK) as processor:
            await until(lambda: len(processor.partitions) == 2)
            await anyio.lowlevel.checkpoint()
            assert sum(each.owner == "theirs" for each in await store.leases(group(hub))) == 2
        tasks.cancel_scope.cancel()


async def test_low_water_mark() -> None:
    """A checkpoint is never behind an event that is still handled, in whatever order handlers end."""
    store, go_on, started = MemoryLeases(), anyio.Event(), Handled()

    async def handle(event: ReceivedEvent) -> None:
        started.note(event)
        if event.body == b"1":
            await go_on.wait()

    async with emulated() as hub:
        await put(hub, 6, 0)
        async with EventProcessor(hub, handle, store=store, concurrency=3, **QUICK) as processor:
            await until(lambda: processor.handled == 5)
            while not await store.checkpoints(group(hub)):  # noqa: ASYNC110
                await anyio.sleep(0.01)
            assert (await store.checkpoints(group(hub)))["0"].sequence_number == 0
            go_on.set()
        assert (await store.checkpoints(group(hub)))["0"].sequence_number == 5


async def test_batches_and_threads() -> None:
    """A handler may get several events at a time, and may be a plain function, which runs in a thread."""
    batches: list[list[int]] = []
    threads = set()

    def handle(events: list[ReceivedEvent]) -> None:
        threads.add(threading.get_ident())
        batches.append([int(event.body) for event in events])

    async with emulated() as hub:
        await put(hub, 10, 0)
        async with EventProcessor(hub, handle, store=MemoryLeases(), batch_size=4, **QUICK) as processor:
            await until(lambda: processor.handled == 10)
    assert [number for batch in batches for number in batch] == list(range(10))
    assert max(map(len, batches)) <= 4
    assert threading.get_ident() not in threads


class Broken(Exception):
    pass


async def test_failure_raises() -> None:
    """An event that no attempt could handle ends the block with the error; what was handled before is kept."""
    store, attempts = MemoryLeases(), Counter[int]()

    async def handle(event: ReceivedEvent) -> None:
        attempts[int(event.body)] += 1
        if event.body == b"2":
            raise Broken("poison")

    async with emulated() as hub:
        await put(hub, 4, 0)
        with pytest.raises(Broken, match="poison"):
            async with EventProcessor(hub, handle, store=store, attempts=3, **QUICK):
                await anyio.sleep_forever()
        assert attempts == {0: 1, 1: 1, 2: 3}
        assert (await store.checkpoints(group(hub)))["0"].sequence_number == 1
        assert all(lease.owner == "" for lease in await store.leases(group(hub)))


async def test_failure_skips(caplog: pytest.LogCaptureFixture) -> None:
    """Or it is skipped, which the log says."""
    handled = Handled()

    async def handle(event: ReceivedEvent) -> None:
        if event.body == b"2":
            raise Broken("poison")
        handled.note(event)

    async with emulated() as hub:
        await put(hub, 4, 0)
        async with EventProcessor(hub, handle, store=MemoryLeases(), attempts=1, after_failure="skip", **QUICK):
            await handled.until(3)
    assert [number for _, number in handled.events] == [0, 1, 3]
    assert [record.amqp_event for record in caplog.records if record.levelname == "ERROR"] == ["event_skipped"]  # type: ignore[attr-defined]


async def test_malformed_in_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event that is no message is skipped alone: those that came with it are handled."""
    pass_on_malformed(monkeypatch)
    handled: list[int] = []

    async def handle(events: list[ReceivedEvent]) -> None:
        handled.extend(int(event.body) for event in events)

    async with emulated() as hub:
        async with hub.sender(partition=0) as sender:
            await sender.send_many(["0", "1", MALFORMED, "3", MALFORMED, MALFORMED, "6", "7"])
        settings: dict[str, Any] = {"batch_size": 100, "max_wait": 0.2, "after_failure": "skip", **QUICK}
        async with EventProcessor(hub, handle, store=MemoryLeases(), **settings):
            await until(lambda: 7 in handled)
    assert handled == [0, 1, 3, 6, 7]


async def test_failure_stops() -> None:
    """Or its partition is given up, while the others go on; another processor may try."""
    store, one, two = MemoryLeases(), Handled(), Handled()

    async def handle(event: ReceivedEvent) -> None:
        if event.partition == "0":
            raise Broken("not here")
        one.note(event)

    async with emulated() as hub:
        await put(hub, 2)
        async with EventProcessor(hub, handle, store=store, attempts=1, after_failure="stop", **QUICK) as first:
            await until(lambda: first.partitions == {"1", "2", "3"} and len(one.events) == 6)
            async with EventProcessor(hub, two, store=store, **QUICK):
                await two.wait(lambda events: ("0", 1) in events)
    assert {partition for partition, _ in one.events} == {"1", "2", "3"}


async def test_stolen() -> None:
    """A reader with a higher owner level takes a partition: it is not fought for, and read again some time later."""
    handled = Handled()
    async with emulated() as hub:
        async with EventProcessor(hub, handled, store=MemoryLeases(), **QUICK) as processor:
            async with hub.reader("0", owner_level=1) as theirs:
                await until(lambda: "0" not in processor.partitions)
                await put(hub, 1)
                assert (await theirs.receive()).body == b"0"  # it was not taken back
                await handled.until(PARTITIONS - 1)
                assert ("0", 0) not in handled.events
            await handled.until(PARTITIONS)
            assert "0" in processor.partitions
        assert sorted(handled.events) == [(str(partition), 0) for partition in range(PARTITIONS)]


class Failing(MemoryLeases):
    """A store that fails at times."""

    fails = False

    async def leases(self, group: ConsumerGroup) -> Sequence[Lease]:
        if self.fails:
            raise StoreError("no disk")
        return await super().leases(group)

    async def save(self, group: ConsumerGroup, checkpoints: Mapping[str, Checkpoint]) -> None:
        if self.fails:
            raise StoreError("no disk")
        await super().save(group, checkpoints)


async def test_store_fails(caplog: pytest.LogCaptureFixture) -> None:
    """A store that fails at the beginning is an error; later it is tried again, and meanwhile events are handled."""
    store, handled = Failing(), Handled()
    async with emulated() as hub:
        store.fails = True
        with pytest.raises(StoreError, match="no disk"):
            async with EventProcessor(hub, handled, store=store, **QUICK):
                pass
        store.fails = False
        async with EventProcessor(hub, handled, store=store, **QUICK) as processor:
            store.fails = True
            await put(hub, 1)
            await handled.until(4)
            await until(lambda: processor.store_error is not None)
            assert len(processor.partitions) == PARTITIONS
            store.fails = False
            await until(lambda: processor.store_error is None)
        assert len(await store.checkpoints(group(hub))) == PARTITIONS
    assert any(getattr(record, "amqp_event", "") == "store_failed" for record in caplog.records)


async def test_store_fails_for_long() -> None:
    """What could not be renewed is not read any longer, as others may read it by now."""
    store, handled = Failing(), Handled()
    async with emulated() as hub:
        async with EventProcessor(hub, handled, store=store, **QUICK | {"expiry": 0.5}) as processor:
            store.fails = True
            await until(lambda: not processor.partitions)
            assert isinstance(processor.store_error, StoreError)
            await put(hub, 1)
            assert handled.events == []
            store.fails = False
            await handled.until(PARTITIONS)


class Late(MemoryLeases):
    """A store that answers when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = anyio.Event()
        self.answer.set()

    async def leases(self, group: ConsumerGroup) -> Sequence[Lease]:
        await self.answer.wait()
        return await super().leases(group)


async def test_store_answers_late() -> None:
    """What could not be renewed is not read any longer, also while the store has yet to answer."""
    store, said, handled = Late(), Counter[str](), Handled()

    @asynccontextmanager
    async def around(partition: str) -> AsyncIterator[None]:
        yield
        said[partition] += 1

    async with emulated() as hub:
        settings = QUICK | {"expiry": 0.5}
        async with EventProcessor(hub, handled, store=store, around_partition=around, **settings):
            store.answer = anyio.Event()
            await until(lambda: len(said) == PARTITIONS)
            await put(hub, 1)
            assert handled.events == []
            store.answer.set()
            await handled.until(PARTITIONS)


class Unsaving(MemoryLeases):
    """A store that takes leases, and fails to keep so many checkpoints."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    async def save(self, group: ConsumerGroup, checkpoints: Mapping[str, Checkpoint]) -> None:
        if self.failures:
            self.failures -= 1
            raise StoreError("no room")
        await super().save(group, checkpoints)


async def test_kept_before_handed_over() -> None:
    """A partition is handed over when its checkpoint is kept: no event comes twice."""
    store, one, two = Unsaving(6), Handled(), Handled()
    settings = QUICK | {"checkpoint_interval": 3600.0}
    async with emulated() as hub:
        await put(hub, 5)
        async with EventProcessor(hub, one, store=store, **settings) as first:
            await one.until(5 * PARTITIONS)
            async with EventProcessor(hub, two, store=store, **settings) as second:
                await until(lambda: len(first.partitions) == len(second.partitions) == 2)
                await put(hub, 1, *map(int, second.partitions))
                await until(lambda: len(two.events) >= 2)
        assert sorted(two.events) == sorted((partition, 0) for partition, _ in two.events)
    assert not store.failures


async def test_pause_between_saves() -> None:
    """A store that fails to keep checkpoints is tried again, with pauses."""
    store, handled = Unsaving(20), Handled()
    async with emulated() as hub:
        await put(hub, 1, 0)
        began = anyio.current_time()
        async with EventProcessor(hub, handled, store=store, checkpoint_events=1, **QUICK):
            await until(lambda: not store.failures)
        assert anyio.current_time() - began >= 20 * QUICK["interval"] / 20


async def test_until_signal_outside_of_the_block() -> None:
    """A processor that handles nothing says so, and does not wait for ever."""
    async with emulated() as hub:
        processor = EventProcessor(hub, Handled(), store=MemoryLeases(), **QUICK)
        with pytest.raises(LocalProtocolError, match=r"this processor is not running.*inside the block"):
            await processor.until_signal()
        async with processor:
            processor.stop()
            assert await processor.until_signal() is None
        with pytest.raises(LocalProtocolError, match="async with"):
            await processor.until_signal()


async def test_around_partition() -> None:
    """Something is entered before a partition is read, and left when it is not read any longer."""
    said: list[str] = []

    @asynccontextmanager
    async def around(partition: str) -> AsyncIterator[None]:
        said.append(f"begin {partition}")
        yield
        said.append(f"end {partition}")

    async with emulated() as hub:
        async with EventProcessor(hub, Handled(), store=MemoryLeases(), around_partition=around, **QUICK):
            await until(lambda: len(said) == PARTITIONS)
    assert sorted(said) == sorted([*(f"begin {n}" for n in range(4)), *(f"end {n}" for n in range(4))])


async def test_error_in_block() -> None:
    """An error in the block cancels the handlers, and gives the partitions back."""
    store, cancelled, began = MemoryLeases(), [], anyio.Event()

    async def handle(event: ReceivedEvent) -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(event)

    async with emulated() as hub:
        await put(hub, 1, 0)
        with pytest.raises(Broken):
            async with EventProcessor(hub, handle, store=store, **QUICK):
                await began.wait()
                raise Broken
        assert len(cancelled) == 1
        assert all(lease.owner == "" for lease in await store.leases(group(hub)))
        assert not await store.checkpoints(group(hub))


async def test_slow_handler() -> None:
    """A handler that takes longer than it may at the end is cancelled; its event comes again."""
    store, began, cancelled, handled = MemoryLeases(), anyio.Event(), anyio.Event(), Handled()

    async def handle(event: ReceivedEvent) -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    async with emulated() as hub:
        await put(hub, 1, 0)
        async with EventProcessor(hub, handle, store=store, drain_timeout=0.0, **QUICK):
            await began.wait()
        assert cancelled.is_set()
        assert await store.checkpoints(group(hub)) == {}
        async with EventProcessor(hub, handled, store=store, **QUICK):
            await handled.until(1)
    assert handled.events == [("0", 0)]


async def test_start() -> None:
    """Without a checkpoint it begins where one says; with one, there."""
    store, handled = MemoryLeases(), Handled()
    async with emulated() as hub:
        await store.save(group(hub), {"0": Checkpoint(0)})
        await put(hub, 2, 0, 1)
        async with EventProcessor(hub, handled, store=store, start=EventPosition.latest(), **QUICK):
            await handled.until(1)
    assert handled.events == [("0", 1)]


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"interval": 10, "expiry": 15}, ValueError, "expiry at least twice as much, not 10 and 15"),
        ({"interval": 0}, ValueError, "interval must be more than 0"),
        ({"concurrency": 0}, ValueError, "concurrency must be at least 1, not 0"),
        ({"attempts": 0}, ValueError, "attempts must be at least 1"),
        ({"checkpoint_events": 0}, ValueError, "checkpoint_events must be at least 1"),
        ({"checkpoint_interval": -1}, ValueError, "must be 0 seconds or more"),
        ({"initial_delay": 2, "max_delay": 1}, ValueError, "initial_delay <= max_delay, not 2 and 1"),
        ({"after_failure": "retry"}, ValueError, "one of raise, stop, skip, not 'retry'"),
        ({"group": ""}, ValueError, "group must not be empty"),
        ({"name": ""}, ValueError, "name must not be empty"),
        (
            {"name": "a\udc80"},
            ValueError,
            r"name must not have lone surrogates, which UTF-8 cannot encode, unlike 'a\\udc80'",
        ),
        ({"name": b"a"}, TypeError, "name must be a str"),
        ({"start": "@latest"}, TypeError, "start must be an EventPosition"),
        ({"handler": None}, TypeError, "handler must be a function"),
    ],
)
async def test_wrong(settings: dict[str, Any], error: type[Exception], words: str) -> None:
    """What makes no sense is said at once."""
    hub = EventHub(connection_string("amqp://127.0.0.1"), "telemetry")
    arguments: dict[str, Any] = {"handler": Handled(), "store": MemoryLeases(), **settings}
    with pytest.raises(error, match=words):
        EventProcessor(hub, **arguments)


async def test_once() -> None:
    """A processor is begun once."""
    async with emulated() as hub:
        async with EventProcessor(hub, Handled(), store=MemoryLeases(), **QUICK) as processor:
            assert "4 partitions, 0 handled" in repr(processor)
            with pytest.raises(LocalProtocolError, match="entered by `async with` only once"):
                await processor.__aenter__()


async def test_other_file(tmp_path: Path) -> None:
    """A database of something else is left alone."""
    with sqlite3.connect(tmp_path / "other") as other:
        other.execute("CREATE TABLE theirs (x)")
    other.close()
    for path, words in ((tmp_path / "other", "name another file"), (tmp_path / "no" / "such", "unable to open")):
        with pytest.raises(StoreError, match=words):
            await SQLiteLeases(path).leases(ConsumerGroup("host", "hub", "group"))
    with pytest.raises(ValueError, match="timeout must be more than 0"):
        SQLiteLeases("x", timeout=0)


async def test_a_connection_that_is_lost() -> None:
    """The block raises the loss once, though each partition that is read ends by it."""
    config = AzureConfig(event_hubs=[EventHubConfig("telemetry", PARTITIONS, [])])
    handled = Handled()
    with anyio.fail_after(60):
        async with Broker(azure=config, tokens=TokenRules([EMULATOR_RULE])) as broker:
            async with EventHub(connection_string(broker.url), "telemetry") as hub:
                await put(hub, 1)
            with pytest.raises(ConnectionLost):
                async with (
                    FaultProxy(broker.url) as proxy,
                    EventHub(connection_string(proxy.url), "telemetry", reconnect=None) as hub,
                    EventProcessor(hub, handled, store=MemoryLeases(), **QUICK),
                ):
                    await handled.until(PARTITIONS)
                    proxy.cut()
                    await anyio.sleep_forever()


async def test_handlers_that_fail_at_once() -> None:
    """The block raises one error, though several handlers of a partition fail in one pass of the loop."""
    waiting, fail = 0, anyio.Event()

    async def handle(event: ReceivedEvent) -> None:
        nonlocal waiting
        waiting += 1
        await fail.wait()
        raise Broken(event.body.decode())

    async with emulated() as hub:
        await put(hub, 3, 0)
        with pytest.raises(Broken):
            async with EventProcessor(hub, handle, store=MemoryLeases(), concurrency=3, attempts=1, **QUICK):
                await until(lambda: waiting == 3)
                fail.set()
                await anyio.sleep_forever()


async def test_partitions_that_fail_at_once() -> None:
    """So it does where handlers of several partitions do."""
    waiting, fail = 0, anyio.Event()

    async def handle(event: ReceivedEvent) -> None:
        nonlocal waiting
        waiting += 1
        await fail.wait()
        raise Broken(event.partition)

    async with emulated() as hub:
        await put(hub, 1)
        with pytest.raises(Broken):
            async with EventProcessor(hub, handle, store=MemoryLeases(), attempts=1, **QUICK):
                await until(lambda: waiting == PARTITIONS)
                fail.set()
                await anyio.sleep_forever()


async def test_a_group_that_a_handler_raises() -> None:
    """It is raised as it is."""

    async def handle(event: ReceivedEvent) -> None:
        raise ExceptionGroup("both", [Broken("one"), Broken("two")])

    async with emulated() as hub:
        await put(hub, 1, 0)
        with pytest.raises(ExceptionGroup, match="both"):
            async with EventProcessor(hub, handle, store=MemoryLeases(), concurrency=2, attempts=1, **QUICK):
                await anyio.sleep_forever()


class TestFromTheLatestEvent:
    """What comes after the beginning is handled, whatever happens before the first checkpoint is kept."""

    @asynccontextmanager
    async def processing(self, handler: Any, store: MemoryLeases, **settings: Any) -> AsyncIterator[EventProcessor]:
        """A processor that reads all partitions."""
        readers: list[EventReader] = []
        async with emulated() as self.hub:
            make = self.hub.reader

            def reader(*arguments: Any, **how: Any) -> EventReader:
                readers.append(make(*arguments, **how))
                return readers[-1]

            self.hub.reader = reader  # type: ignore[method-assign]
            settings = QUICK | {"start": EventPosition.latest()} | settings
            async with EventProcessor(self.hub, handler, store=store, **settings) as processor:
                await until(lambda: len(readers) == PARTITIONS and all(each.receiver.open for each in readers))
                yield processor

    async def put(self, number: int) -> None:
        async with self.hub.sender(partition=0) as sender:
            await sender.send(str(number).encode())

    async def test_handler_failed(self) -> None:
        """An event that was given up comes again, although its partition has no checkpoint."""
        handled, failures = Handled(), [Broken("not now")]

        async def handle(event: ReceivedEvent) -> None:
            if failures:
                raise failures.pop()
            handled.note(event)

        settings: dict[str, Any] = {"expiry": 0.5, "attempts": 1, "after_failure": "stop"}
        async with self.processing(handle, MemoryLeases(), **settings):
            await self.put(0)
            await self.put(1)
            await handled.until(2)
        assert handled.events == [("0", 0), ("0", 1)]

    async def test_stolen(self) -> None:
        """What came while another reader had the partition is handled when it is read again."""
        handled = Handled()
        async with self.processing(handled, MemoryLeases()) as processor:
            async with self.hub.reader("0", owner_level=1):
                await until(lambda: "0" not in processor.partitions)
                await self.put(0)
            await handled.until(1)
        assert handled.events == [("0", 0)]

    async def test_store_fails(self) -> None:
        """What was handled while the store failed is known here when it answers again."""
        store, handled = Failing(), Handled()
        async with self.processing(handled, store, expiry=0.5) as processor:
            store.fails = True
            await self.put(0)
            await handled.until(1)
            await until(lambda: not processor.partitions)
            await self.put(1)
            store.fails = False
            await handled.until(2)
        assert handled.events == [("0", 0), ("0", 1)]

    async def test_checkpoints_come_late(self) -> None:
        """A partition that becomes free while the store answers is begun by a later answer, with its checkpoint."""
        handled = Handled()

        class Slow(MemoryLeases):
            waits = False
            asked, may_answer = anyio.Event(), anyio.Event()

            async def checkpoints(self, group: ConsumerGroup) -> Mapping[str, Checkpoint]:
                found = await super().checkpoints(group)
                if self.waits:
                    self.asked.set()
                    await self.may_answer.wait()
                return found

        store = Slow()
        async with self.processing(handled, store) as processor:
            store.waits = True
            async with self.hub.reader("1", owner_level=1):
                await until(lambda: "1" not in processor.partitions)
            await store.asked.wait()
            await self.put(0)
            await handled.until(1)
            async with self.hub.reader("0", owner_level=1):
                await until(lambda: "0" not in processor.partitions)
            await self.put(1)
            await anyio.sleep(2 * QUICK["interval"])
            store.may_answer.set()
            await handled.until(2)
            await until(lambda: len(processor.partitions) == PARTITIONS)
        assert handled.events == [("0", 0), ("0", 1)]
