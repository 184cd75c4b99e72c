"""Connections break at both ends of a bridge, at any place: nothing is lost, and what may be there twice is counted."""

from __future__ import annotations

import random
from itertools import product

import anyio
import pytest

import amqp10
from amqp10 import Connection, DeliveryUncertain, MemoryDeliveryStore, Receiver, Reconnect
from amqp10.broker import Broker
from amqp10.testing import FaultProxy

from ..kit.broker.two_brokers import bodies, fill, two_brokers
from ..kit.counts import SEEDS
from ..kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.capability("nothing lost")]

QUICK = Reconnect(initial_delay=0.01, max_delay=0.05, attempt_timeout=2)
NOTHING_KEPT = Reconnect(initial_delay=0.01, max_delay=0.05, attempt_timeout=2, resume_timeout=0)
TOTAL = 600
BREAKS = 12


async def break_often(chance: random.Random, proxies: list[FaultProxy]) -> None:
    """Cut, at once or in the middle of what is written next, some times."""
    for _ in range(BREAKS):
        await anyio.sleep(chance.random() / 10)
        proxy = chance.choice(proxies)
        if chance.random() < 0.3:
            proxy.cut(reset=chance.random() < 0.5)
        else:
            proxy.cut_after(chance.randrange(20_000), chance.choice(("up", "down")))


async def through_breaks(
    seed: int, reconnect: Reconnect, *, exactly_once: bool, dialects: tuple[str, str] = ("1.0", "1.0")
) -> tuple[list[int], list[int], amqp10.BridgeReport]:
    """What is at the target afterwards, what is at the source, and the report."""
    chance = random.Random(seed)
    async with two_brokers() as (old, new):
        await fill(old, "a", range(TOTAL))
        async with FaultProxy(old.url) as before, FaultProxy(new.url) as behind, anyio.create_task_group() as tasks:
            async with (
                Connection(before.url, reconnect=reconnect, dialect=dialects[0]) as source,
                Connection(behind.url, reconnect=reconnect, dialect=dialects[1]) as target,
            ):
                bridge = amqp10.bridge(
                    (source, "a"), (target, "b"), until_empty=True, window=100, rate=1500, exactly_once=exactly_once
                )
                async with bridge:
                    tasks.start_soon(break_often, chance, [before, behind])
                    await bridge.done()
                    tasks.cancel_scope.cancel()
        assert before.cuts + behind.cuts > 3
        return await bodies(new, "b"), await bodies(old, "a"), bridge.report


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("reconnect", [QUICK, NOTHING_KEPT], ids=["resuming", "anew"])
async def test_at_least_once(seed: int, reconnect: Reconnect) -> None:
    """Every message arrives, and there are no more duplicates than the report says."""
    there, left, report = await through_breaks(seed, reconnect, exactly_once=False)
    assert left == []
    assert set(there) == set(range(TOTAL))
    assert len(there) - TOTAL <= report.duplicates
    assert TOTAL <= report.moved <= TOTAL + report.duplicates
    assert report.in_flight == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dialects", list(product(("1.0", "0-10"), repeat=2)))
async def test_exactly_once(seed: int, dialects: tuple[str, str]) -> None:
    """Where both ends resume their links, or sessions, every message arrives once, in order."""
    there, left, report = await through_breaks(seed, QUICK, exactly_once=True, dialects=dialects)
    assert there == list(range(TOTAL))
    assert left == []
    assert report.clean
    assert report.moved == TOTAL


async def test_what_a_lost_link_says_of_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that was lost and came again while it was drained is not taken for empty: it is asked anew."""
    drain, drains = Receiver.drain, 0

    async def lost_at_first(receiver: Receiver) -> None:
        nonlocal drains
        drains += 1
        if drains == 1:
            receiver._core.generation += 1
        else:
            await drain(receiver)

    monkeypatch.setattr(Receiver, "drain", lost_at_first)
    async with two_brokers() as (old, new):
        report = await amqp10.bridge((old.url, "a"), (new.url, "b"), until_empty=True)
    assert report.moved == 0
    assert drains == 2


async def test_the_target_is_over() -> None:
    """Without `reconnect` the bridge ends with the loss, and what was in flight is the source's again."""
    async with two_brokers() as (old, new), FaultProxy(new.url) as proxy:
        await fill(old, "a", range(100))
        async with Connection(old.url) as source, Connection(proxy.url) as target:
            with pytest.raises(amqp10.ConnectionLost) as lost:
                async with amqp10.bridge((source, "a"), (target, "b"), window=10, rate=500) as bridge:
                    await until(lambda: bridge.report.moved >= 10)
                    proxy.cut()
                    await bridge.done()
        assert "moved" in lost.value.__notes__[-1]
        there, left = await bodies(new, "b"), await bodies(old, "a")
    assert sorted({*there, *left}) == list(range(100))
    assert len(there) + len(left) - 100 <= bridge.report.duplicates


async def test_the_source_is_over() -> None:
    """The same with the other end; whoever does not wait is told on leaving."""
    async with two_brokers() as (old, new), FaultProxy(old.url) as proxy:
        await fill(old, "a", range(100))
        async with Connection(proxy.url) as source, Connection(new.url) as target:
            with pytest.raises(amqp10.ConnectionLost):
                async with amqp10.bridge((source, "a"), (target, "b"), window=10, rate=500) as bridge:
                    await until(lambda: bridge.report.moved >= 10)
                    proxy.cut()
                    await bridge._over.wait()
        there, left = await bodies(new, "b"), await bodies(old, "a")
    assert sorted({*there, *left}) == list(range(100))
    # Nobody knows which of the last outcomes the source has heard.
    assert len(there) + len(left) - 100 <= bridge.report.duplicates


@pytest.mark.parametrize("dialect", ["1.0", "0-10", "0-9-1"])
@pytest.mark.parametrize("how", ["silent", "lost"])
async def test_the_source_does_not_hear_the_last_acceptances(how: str, dialect: str) -> None:
    """It stands still when the bridge is left, or it was lost and is not back: all of them may be moved twice."""
    reconnect = NOTHING_KEPT if how == "lost" else None
    async with two_brokers() as (old, new), FaultProxy(old.url) as before, FaultProxy(new.url) as behind:
        async with (
            Connection(before.url, dialect=dialect, reconnect=reconnect, close_timeout=0.1) as source,
            Connection(behind.url) as target,
        ):
            async with amqp10.bridge((source, "a"), (target, "b"), close_timeout=0.5) as bridge:
                behind.stall("down")  # until the source stands still, no outcome comes
                await fill(old, "a", range(5))
                await until(lambda: bridge.report.in_flight == 5)
                before.stall("up")
                behind.resume()
                await until(lambda: bridge.report.moved == 5)
                if how == "lost":
                    before.refusing = True
                    before.cut()
                    await until(lambda: not source.open)
        before.cut()
        assert bridge.report.duplicates == 5
        assert not bridge.report.clean
        there = await bodies(new, "b")
        with anyio.fail_after(20):
            while len(await bodies(old, "a")) < 5:  # noqa: ASYNC110 - it notices the loss some time
                await anyio.sleep(0.01)
    assert sorted(there) == list(range(5))


@pytest.mark.parametrize("end", ["source", "target"])
async def test_exactly_once_with_an_end_that_forgets(end: str) -> None:
    """A broker that is started anew knows nothing of what was in flight: that is an error, and no silent duplicate."""
    async with two_brokers() as (old, new), FaultProxy(old.url) as before, FaultProxy(new.url) as behind:
        await fill(old, "a", range(100))
        broker, proxy = (old, before) if end == "source" else (new, behind)
        async with (
            Connection(before.url, reconnect=QUICK, close_timeout=0.5) as source,
            Connection(behind.url, reconnect=QUICK, close_timeout=0.5) as target,
        ):
            with pytest.raises(DeliveryUncertain, match=f"the {end} has forgotten 10 messages"):
                ends = (source, "a"), (target, "b")
                async with amqp10.bridge(*ends, exactly_once=True, window=10, close_timeout=0.5) as bridge:
                    behind.stall("down")
                    await until(lambda: bridge.report.in_flight == 10)
                    proxy.refusing = True
                    proxy.cut()
                    await until(lambda: all(link.steal is None for link in broker._hosts.usual.links._all.values()))
                    for link in list(broker._hosts.usual.links._all.values()):
                        broker._hosts.usual.links.end(link)
                    proxy.refusing = False
                    if end == "target":
                        behind.resume()
                    await bridge.done()


@pytest.mark.parametrize("end", ["source", "target"])
async def test_exactly_once_with_a_session_that_is_forgotten(end: str) -> None:
    """The same where sessions are resumed, of AMQP 0-10."""
    async with two_brokers() as (old, new), FaultProxy(old.url) as before, FaultProxy(new.url) as behind:
        await fill(old, "a", range(100))
        broker, proxy = (old, before) if end == "source" else (new, behind)
        sessions = broker._hosts.usual.sessions
        async with (
            Connection(before.url, dialect="0-10", reconnect=QUICK, close_timeout=0.5) as source,
            Connection(behind.url, dialect="0-10", reconnect=QUICK, close_timeout=0.5) as target,
        ):
            with pytest.raises(DeliveryUncertain, match=f"the {end} has forgotten 10 messages"):
                ends = (source, "a"), (target, "b")
                async with amqp10.bridge(*ends, exactly_once=True, window=10, close_timeout=0.5) as bridge:
                    behind.stall("down")
                    await until(lambda: bridge.report.in_flight == 10)
                    proxy.refusing = True
                    proxy.cut()
                    await until(lambda: all(kept.deadline is not None for kept in sessions._by_key.values()))
                    sessions.expire(float("inf"))
                    proxy.refusing = False
                    if end == "target":
                        behind.resume()
                    await bridge.done()


async def test_exactly_once_and_nobody_who_would_remember() -> None:
    """The source is gone before it has said that it heard: without a store these count as possible duplicates."""
    short = Reconnect(initial_delay=0.01, max_delay=0.02, max_time=0.3)
    async with two_brokers() as (old, new), FaultProxy(old.url) as before, FaultProxy(new.url) as behind:
        await fill(old, "a", range(100))
        async with (
            Connection(before.url, reconnect=short, close_timeout=0.5) as source,
            Connection(behind.url, reconnect=QUICK) as target,
        ):
            with pytest.raises(amqp10.AmqpError):
                async with amqp10.bridge((source, "a"), (target, "b"), exactly_once=True, window=10) as bridge:
                    behind.stall("down")
                    await until(lambda: bridge.report.in_flight == 10)
                    before.stall()
                    before.refusing = True
                    behind.resume()
                    await until(lambda: bridge.report.moved >= 10)
                    before.cut()
                    await bridge.done()
        for link in list(old._hosts.usual.links._all.values()):  # as in an hour, when nobody has come back
            old._hosts.usual.links.end(link)
        there, left = await bodies(new, "b"), await bodies(old, "a")
        assert len(there) + len(left) > 100
        assert len(there) + len(left) - 100 <= bridge.report.duplicates


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("reconnect", [QUICK, NOTHING_KEPT], ids=["resuming", "anew"])
@pytest.mark.parametrize("dialect", ["1.0", "0-10", "fast"])
async def test_within_one_broker(seed: int, dialect: str, reconnect: Reconnect) -> None:
    """In transactions, through a connection that breaks: every message is at one of the queues, and at one only."""
    chance = random.Random(seed)
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        await fill(broker, "a", range(TOTAL))
        async with (
            Connection(proxy.url, dialect=dialect, reconnect=reconnect) as connection,
            anyio.create_task_group() as tasks,
        ):
            ends = (connection, "a"), (connection, "b")
            async with amqp10.bridge(*ends, until_empty=True, exactly_once=True, window=50, rate=1000) as bridge:
                tasks.start_soon(break_often, chance, [proxy])
                report = await bridge.done()
                tasks.cancel_scope.cancel()
        assert proxy.cuts > 3
        there, left = await bodies(broker, "b"), await bodies(broker, "a")
    assert there == list(range(TOTAL))
    assert left == []
    assert TOTAL - report.in_doubt <= report.moved <= TOTAL
    assert report.refused == report.duplicates == 0


@pytest.mark.parametrize("reconnect", [QUICK, NOTHING_KEPT], ids=["resuming", "anew"])
async def test_within_one_broker_with_one_break(reconnect: Reconnect) -> None:
    """What was under way comes again, though links could be resumed: an empty source is one that has nothing left."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        await fill(broker, "a", range(100))
        async with Connection(proxy.url, reconnect=reconnect) as connection:
            ends = (connection, "a"), (connection, "b")
            async with amqp10.bridge(*ends, until_empty=True, exactly_once=True, window=20, rate=400) as bridge:
                await until(lambda: bridge.report.moved >= 20)
                passed = proxy.passed["up"]
                await until(lambda: proxy.passed["up"] > passed)  # the next batch
                proxy.cut()
                report = await bridge.done()
        there, left = await bodies(broker, "b"), await bodies(broker, "a")
    assert there == list(range(100))
    assert left == []
    assert 100 - report.in_doubt <= report.moved <= 100


@pytest.mark.parametrize("exactly_once", [False, True])
async def test_cancelled_in_the_middle(exactly_once: bool) -> None:
    """What is out has its outcome, the rest goes back, and nothing is at both ends."""
    async with two_brokers() as (old, new):
        await fill(old, "a", range(TOTAL))
        bridge = amqp10.bridge((old.url, "a"), (new.url, "b"), window=100, rate=2000, exactly_once=exactly_once)
        with anyio.move_on_after(0.3) as scope:
            await bridge
        assert scope.cancelled_caught
        there, left = await bodies(new, "b"), await bodies(old, "a")
    assert there + left == list(range(TOTAL))
    assert bridge.report.moved == len(there)
    assert bridge.report.clean


async def test_exactly_once_when_only_the_source_is_lost() -> None:
    """What the target accepts then is kept for the next bridge, which tells it to the source: nothing comes twice."""
    store = MemoryDeliveryStore()
    async with two_brokers() as (old, new), FaultProxy(old.url) as before, FaultProxy(new.url) as behind:
        await fill(old, "a", range(100))
        async with (
            Connection(before.url, container_id="s", delivery_store=store, close_timeout=1) as source,
            Connection(behind.url, container_id="t", delivery_store=store, close_timeout=1) as target,
        ):
            with pytest.raises(amqp10.ConnectionLost):
                async with amqp10.bridge((source, "a"), (target, "b"), exactly_once=True, window=10) as bridge:
                    behind.stall("down")
                    await until(lambda: bridge.report.in_flight == 10)
                    before.cut()
                    await until(lambda: not source.open)
                    behind.resume()
                    await bridge.done()
            assert bridge.report.in_flight == bridge.report.duplicates == 0
        async with (
            Connection(before.url, container_id="s", delivery_store=store) as source,
            Connection(behind.url, container_id="t", delivery_store=store) as target,
        ):
            await amqp10.bridge((source, "a"), (target, "b"), exactly_once=True, until_empty=True)
        assert await bodies(new, "b") == list(range(100))
        assert await bodies(old, "a") == []


async def test_stopping_with_much_that_waits() -> None:
    """It takes no longer than the outcomes that are out."""
    async with two_brokers() as (old, new):
        await fill(old, "a", range(TOTAL))
        async with amqp10.bridge((old.url, "a"), (new.url, "b"), window=500, close_timeout=60) as bridge:
            await until(lambda: bridge.report.moved > 10)
            bridge.stop()
            await bridge.done()
        assert bridge.report.clean
        assert await bodies(new, "b") + await bodies(old, "a") == list(range(TOTAL))
