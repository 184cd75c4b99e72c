"""Workers on sessions of Azure Service Bus, on the emulator. All is in memory, and the clock jumps."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from amqp10 import LinkDetached, LocalProtocolError, Message, Reconnect, Rejected, Released
from amqp10.azure import ServiceBus, ServiceBusSession
from amqp10.broker import Broker, TokenRules
from amqp10.broker.azure import EMULATOR_RULE, AzureConfig, QueueConfig, TopicConfig, connection_string
from amqp10.testing import FaultProxy
from amqp10.worker import DeadLetter, Retries, Retry, SessionWorker

from ..kit.token_rig import wall

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("workers")]

CONFIG = AzureConfig(
    [QueueConfig("steps", lock_duration=60.0, requires_session=True, max_delivery_count=20), "plain"],
    [TopicConfig("events", ["all"])],
    clock=wall,
)
QUICK = Reconnect(initial_delay=0.01, max_delay=0.05, jitter=0)


@asynccontextmanager
async def emulated() -> AsyncIterator[tuple[Broker, ServiceBus]]:
    async with (
        Broker(azure=CONFIG, tokens=TokenRules([EMULATOR_RULE])) as broker,
        ServiceBus(connection_string(broker.url), clock=wall, reconnect=QUICK) as bus,
    ):
        yield broker, bus


async def fill(bus: ServiceBus, sessions: str, count: int) -> None:
    """Send to each session, in turns, so many messages: 0, 1, ..."""
    async with bus.sender("steps") as sender:
        await sender.send_many(Message(number, group_id=name) for number in range(count) for name in sessions)


async def left(bus: ServiceBus) -> list[Any]:
    """What no worker has handled, of sessions that nobody has locked."""
    found: list[Any] = []
    for name in await bus.list_sessions("steps"):
        async with bus.session("steps", name) as session:
            found += [each.message.body for each in await session.peek(1000)]
    return found


async def dead(bus: ServiceBus) -> list[tuple[Any, str | None]]:
    """The dead letters, with their descriptions."""
    async with bus.receiver("steps", dead_letters=True) as receiver:
        found = await receiver.receive_batch(100, max_wait=1)
        return [(each.message.body, each.dead_letter_description) for each in found]


async def until(condition: Callable[[], object]) -> None:
    with anyio.fail_after(3600):  # of the clock that jumps
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(1)


async def test_in_order_and_bounded() -> None:
    """Each session's messages in their order, no more sessions at a time than allowed, and all in the end."""
    seen: dict[str, list[int]] = defaultdict(list)
    running: set[str] = set()
    most = 0

    async def handle(message: Message, session: ServiceBusSession) -> None:
        nonlocal most
        assert session.session_id == message.group_id not in running
        running.add(session.session_id)
        most = max(most, len(running))
        assert worker.session_ids >= running
        await anyio.sleep(0.5)
        running.remove(session.session_id)
        seen[session.session_id].append(message.body)

    async with emulated() as (_, bus):
        await fill(bus, "abcdefg", 3)
        async with SessionWorker(bus, "steps", handle, sessions=3) as worker:
            await until(lambda: worker.handled == 21)
            await until(lambda: not worker.session_ids)  # each is handed back when nothing comes
            await fill(bus, "a", 1)
            await until(lambda: worker.handled == 22)
        assert await left(bus) == []
    assert seen.pop("a") == [0, 1, 2, 0]
    assert seen == {name: [0, 1, 2] for name in "bcdefg"}
    assert most == 3
    assert worker.sessions_lost == worker.locks_lost == worker.running == 0


async def test_retries_keep_the_order(caplog: pytest.LogCaptureFixture) -> None:
    """What waits for its retry holds back those behind it, longer than the lock lasts and than a session is idle."""
    seen: list[tuple[int, int]] = []

    async def handle(message: Message, session: ServiceBusSession) -> None:
        seen.append((message.body, message.delivery_count))
        await anyio.sleep(100)
        if message.body == 1 and message.delivery_count < 2:
            raise Retry(delay=200)
        if message.body == 2:
            raise DeadLetter("nobody can do that")

    async with emulated() as (_, bus):
        await fill(bus, "a", 4)
        async with SessionWorker(bus, "steps", handle, prefetch=2) as worker:
            await until(lambda: worker.handled + worker.dead_lettered == 4)
        assert await dead(bus) == [(2, "nobody can do that")]
        assert await left(bus) == []
    assert seen == [(0, 0), (1, 0), (1, 1), (1, 2), (2, 0), (3, 0)]
    assert (worker.retried, worker.sessions_lost) == (2, 0)
    assert "session_lost" not in [getattr(each, "amqp_event", None) for each in caplog.records]


async def test_a_retry_by_schedule() -> None:
    """A scheduled copy comes after those behind it, to its session, with its attempts counted."""
    seen: list[tuple[int, int, str | None]] = []

    async def handle(message: Message, session: ServiceBusSession) -> None:
        seen.append((message.body, message.delivery_count, session.session_id))
        if message.body == 0:
            raise ValueError("not yet")

    async with emulated() as (_, bus):
        await fill(bus, "a", 2)
        retries = Retries(attempts=3, initial_delay=200, jitter=0)
        async with SessionWorker(bus, "steps", handle, delay_by="broker", retries=retries, clock=wall) as worker:
            await until(lambda: worker.retried == worker.handled == 1)
            await until(lambda: not worker.session_ids)  # nothing is locked meanwhile
            await until(lambda: worker.dead_lettered)
        assert await dead(bus) == [(0, "ValueError: not yet (attempt 3 of 3)")]
        assert await left(bus) == []
    assert seen == [(0, 0, "a"), (1, 0, "a"), (0, 1, "a"), (0, 2, "a")]


async def test_a_session_that_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    """Its handler is cancelled and its messages come again, in their order; another session goes on."""
    seen: dict[str, list[tuple[int, int]]] = defaultdict(list)
    cancelled: list[str] = []

    async def handle(message: Message, session: ServiceBusSession) -> None:
        seen[session.session_id].append((message.body, message.delivery_count))
        if len(seen[session.session_id]) == 1:
            if session.session_id == "a":
                await until(lambda: "b" in seen)
                broker.azure.lose_locks("steps")
            try:
                await anyio.sleep_forever()
            finally:
                cancelled.append(session.session_id)

    async with emulated() as (broker, bus):
        await fill(bus, "ab", 2)
        async with SessionWorker(bus, "steps", handle, sessions=2) as worker:
            await until(lambda: worker.handled == 4)
        assert await left(bus) == []
    assert sorted(cancelled) == ["a", "b"]
    assert seen == {name: [(0, 0), (0, 1), (1, 0)] for name in "ab"}
    assert worker.sessions_lost == 2
    lost = [each for each in caplog.records if getattr(each, "amqp_event", None) == "session_lost"]
    assert {each.__dict__["amqp_session_id"] for each in lost} == {"a", "b"}
    assert {each.levelno for each in lost} == {logging.WARNING}


async def test_a_connection_that_is_lost() -> None:
    """The worker locks sessions again when the connection is back, and each one's order is kept."""
    seen: dict[str, list[int]] = defaultdict(list)

    async def handle(message: Message, session: ServiceBusSession) -> None:
        if message.body == 2 and len(seen["cuts"]) < 2:
            seen["cuts"].append(0)
            proxy.cut()
            await anyio.sleep_forever()
        await anyio.sleep(1)
        seen[session.session_id].append(message.body)

    async with (
        Broker(azure=CONFIG, tokens=TokenRules([EMULATOR_RULE])) as broker,
        FaultProxy(broker.url) as proxy,
        ServiceBus(connection_string(proxy.url), clock=wall, reconnect=QUICK) as bus,
    ):
        await fill(bus, "abc", 4)
        async with SessionWorker(bus, "steps", handle, sessions=2) as worker:
            await until(lambda: worker.handled >= 12 and not worker.session_ids)
        assert await left(bus) == []
    del seen["cuts"]
    for bodies in seen.values():
        assert list(dict.fromkeys(bodies)) == [0, 1, 2, 3]  # what comes a second time was handled before
    assert seen.keys() == set("abc")
    assert worker.sessions_lost >= 2


async def test_turns() -> None:
    """A session that never ends is handed back after its time, and one that waits gets its turn."""
    seen: list[str] = []

    async def handle(message: Message, session: ServiceBusSession) -> None:
        seen.append(session.session_id)
        await anyio.sleep(1)
        if session.session_id == "long":
            await more.send(Message(message.body + 1, group_id="long"))

    async with emulated() as (_, bus), bus.sender("steps") as more:
        await more.send(Message(0, group_id="long"))
        async with SessionWorker(bus, "steps", handle, sessions=1, session_time=10) as worker:
            await until(lambda: len(seen) == 3)
            await more.send(Message(0, group_id="short"))
            await until(lambda: "short" in seen)
            await until(lambda: seen[-1] == "long")  # which goes on
            worker.stop()
    assert 9 <= seen.index("short") <= 11


async def test_the_end_drains() -> None:
    """Handlers that run may finish, the rest is there for others at once, and no attempt is counted."""
    begun, ended = [], []

    async def handle(message: Message, session: ServiceBusSession) -> None:
        begun.append(message.body)
        await anyio.sleep(100)  # longer than the lock
        ended.append(message.body)

    async with emulated() as (_, bus):
        await fill(bus, "ab", 3)
        async with SessionWorker(bus, "steps", handle, sessions=4, prefetch=5, drain_timeout=1000) as worker:
            await until(lambda: worker.running == 2)
        assert begun == ended == [0, 0]
        assert worker.handled == 2
        async with bus.next_session("steps", max_wait=1) as session:
            got = await session.receive_batch(2)
            assert [(each.message.body, each.delivery_count) for each in got] == [(1, 0), (2, 0)]


@pytest.mark.parametrize("how", ["raise", "cancel", "drain"])
async def test_the_end_at_once(how: str) -> None:
    """An exception, a cancellation or the end of `drain_timeout` cancels handlers; their sessions are free."""

    async def handle(message: Message, session: ServiceBusSession) -> None:
        await anyio.sleep_forever()

    async with emulated() as (_, bus):
        await fill(bus, "ab", 1)
        try:
            with anyio.CancelScope() as scope:
                async with SessionWorker(bus, "steps", handle, drain_timeout=5) as worker:
                    await until(lambda: worker.running == 2)
                    if how == "raise":
                        raise KeyError("mine")
                    if how == "cancel":
                        scope.cancel()
        except KeyError:
            assert how == "raise"
        for _ in range(2):
            async with bus.next_session("steps", max_wait=1) as session:
                await (await session.receive()).complete()


async def test_state_and_outcomes() -> None:
    """A handler keeps a state with its session; a plain function returns what its message gets."""
    seen: list[int] = []

    def plain(message: Message, session: ServiceBusSession) -> Rejected | Released | None:
        seen.append(message.body)
        if message.body == 1:
            return Rejected()
        return Released() if seen.count(2) == 1 else None

    async def stateful(message: Message, session: ServiceBusSession) -> None:
        done = int(await session.state() or 0)
        await session.set_state(str(done + message.body).encode())

    async with emulated() as (_, bus):
        await fill(bus, "a", 3)
        async with SessionWorker(bus, "steps", plain) as worker:
            await until(lambda: len(seen) == 4 and not worker.session_ids)
        assert seen == [0, 1, 2, 2]
        assert (worker.handled, worker.dead_lettered) == (4, 1)
        await fill(bus, "a", 4)
        async with SessionWorker(bus, "steps", stateful) as worker:
            await until(lambda: worker.handled == 4)
        async with bus.session("steps", "a") as session:
            assert await session.state() == b"6"


@pytest.mark.parametrize("prefetch", [None, 3])
async def test_released_in_order(prefetch: int | None) -> None:
    """A released message holds back those behind it, even those that are here already."""
    seen: list[tuple[int, int]] = []

    async def handle(message: Message, session: ServiceBusSession) -> Released | None:
        seen.append((message.body, message.delivery_count))
        return Released() if message.body == 1 and len(seen) < 4 else None

    async with emulated() as (_, bus):
        await fill(bus, "a", 4)
        async with SessionWorker(bus, "steps", handle, prefetch=prefetch) as worker:
            await until(lambda: worker.handled == 6)
        assert await left(bus) == []
    assert seen == [(0, 0), (1, 0), (1, 0), (1, 0), (2, 0), (3, 0)]


async def test_a_busy_service(caplog: pytest.LogCaptureFixture) -> None:
    """A refusal that may be over soon is logged, and another attempt follows."""

    async def handle(message: Message, session: ServiceBusSession) -> None: ...

    async with emulated() as (broker, bus):
        await fill(bus, "a", 1)
        broker.azure.refuse_next("steps", 2)
        async with SessionWorker(bus, "steps", handle, sessions=1) as worker:
            await until(lambda: worker.handled)
    events = [getattr(each, "amqp_event", None) for each in caplog.records]
    assert events.count("session_refused") == 2


@pytest.mark.parametrize("address", ["nowhere", "plain"])
async def test_no_sessions_there(address: str) -> None:
    """The block is cancelled, and the reason raised: there is no such queue, or it has no sessions."""

    async def handle(message: Message, session: ServiceBusSession) -> None: ...

    async with emulated() as (_, bus):
        with pytest.raises(LinkDetached, match="amqp:not-"):
            async with SessionWorker(bus, address, handle):
                await anyio.sleep_forever()


async def test_wrong_use() -> None:
    async def handle(message: Message, session: ServiceBusSession) -> None: ...

    async def of_one(message: Message) -> None: ...

    async with emulated() as (_, bus):
        wrong: list[tuple[dict[str, Any], str]] = [
            ({"sessions": 0}, "sessions must be in 1..65536, not 0"),
            ({"sessions": 1 << 30}, "sessions must be in 1..65536, not 1073741824"),
            ({"prefetch": 0}, "prefetch must be in 1..4294967295, not 0"),
            ({"idle_time": 0}, "idle_time"),
            ({"delay_by": "hand"}, "delay_by must be one of"),
            ({"subscription": "all", "delay_by": "broker"}, "to all its subscriptions"),
            ({"dead_letters": "events"}, "dead_letters must be another address than the worker's own"),
        ]
        for settings, words in wrong:
            with pytest.raises(ValueError, match=words):
                SessionWorker(bus, "events", handle, **settings)
        with pytest.raises(TypeError, match="2 arguments, the message and the session"):
            SessionWorker(bus, "steps", of_one)  # type: ignore[arg-type]
        worker = SessionWorker(bus, "steps", handle)
        with pytest.raises(LocalProtocolError, match="inside the block"):
            await worker.until_signal()
        async with worker:
            assert repr(worker) == "<SessionWorker on 'steps': 0 sessions, 0 handled>"
        with pytest.raises(LocalProtocolError, match="once"):
            await worker.__aenter__()
