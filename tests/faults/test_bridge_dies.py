"""The process of a bridge dies at each of the commits of its store in turn; the next one goes on, exactly once."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

import amqp10
from amqp10 import AmqpError, Connection, DeliveryUncertain, LinkKey, Reconnect, SQLiteDeliveryStore
from amqp10.broker import Broker
from amqp10.testing import FaultProxy

from ..kit.broker.two_brokers import bodies, fill, two_brokers
from ..kit.client.mortal_store import Mortal, MortalStream
from ..kit.waiting import until

pytestmark = [pytest.mark.anyio]

BODIES = list(range(8))
TAKEN = LinkKey("s", "amqp10-bridge a b", "receiver")
SENT = LinkKey("t", "amqp10-bridge a b", "sender")


class Interrupted(Mortal):
    """The process dies with messages on their way, whichever of them are committed together.

    Args:
        known: the target has accepted one, and its outcome is not committed any more; else it had none of them.
    """

    def __init__(self, path: Path, *, known: bool) -> None:
        super().__init__(path, sys.maxsize, before=False)
        self._known = known

    async def _commit(self) -> None:
        sent = self.load(SENT)
        if self._known and self.load(TAKEN):
            self.die()
        await super()._commit()
        if sent and not self._known:
            self.die()


def mortal(broker: Broker, container: str, store: Mortal) -> Connection:
    stream = MortalStream(broker.open_stream(), store)
    return Connection.over(stream, container_id=container, delivery_store=store, close_timeout=0.2)


async def until_it_dies(old: Broker, new: Broker, path: Path, last: int, *, before: bool) -> bool:
    """One life of the bridge; whether it died."""
    return await dies(old, new, Mortal(path, last, before=before))


async def until_some_are_left(old: Broker, new: Broker, path: Path, *, known: bool) -> int:
    """One life of the bridge, which ends with so many messages on their way."""
    assert await dies(old, new, Interrupted(path, known=known))
    with SQLiteDeliveryStore(path) as store:
        left = len(store.load(SENT))
        assert left > 0 == len(store.load(TAKEN))
        return left


async def dies(old: Broker, new: Broker, mortality: Mortal) -> bool:
    """One life of the bridge; whether it died."""
    with mortality as store:
        with suppress(AmqpError, TimeoutError):
            async with mortal(old, "s", store) as source, mortal(new, "t", store) as target:
                await amqp10.bridge(
                    (source, "a"), (target, "b"), exactly_once=True, window=3, until_empty=True, close_timeout=0.2
                )
        return store.dead.is_set()


async def and_lives(old: Broker, new: Broker, path: Path) -> None:
    """A life that ends in order; then every message is at the target, once and in order, and none at the source."""
    with SQLiteDeliveryStore(path) as store:
        async with (
            old.connect(container_id="s", delivery_store=store) as source,
            new.connect(container_id="t", delivery_store=store) as target,
        ):
            report = await amqp10.bridge((source, "a"), (target, "b"), exactly_once=True, until_empty=True)
    assert report.duplicates == report.in_flight == 0
    assert await bodies(new, "b") == BODIES
    assert await bodies(old, "a") == []


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("last", range(1, 25))
async def test_once(tmp_path: Path, last: int, before: bool) -> None:
    """It dies once, at that commit."""
    path = tmp_path / "deliveries"
    async with two_brokers() as (old, new):
        await fill(old, "a", BODIES)
        await until_it_dies(old, new, path, last, before=before)
        await and_lives(old, new, path)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("last", range(7, 12))
async def test_again_and_again(tmp_path: Path, last: int, before: bool) -> None:
    """It dies at that commit, at the next one in its next life, and so on: also while it takes up what was left."""
    path = tmp_path / "deliveries"
    async with two_brokers() as (old, new):
        await fill(old, "a", BODIES)
        for life in range(4):
            await until_it_dies(old, new, path, last + life, before=before)
        await and_lives(old, new, path)


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("forgets", ["source", "target"])
async def test_an_end_that_has_forgotten(tmp_path: Path, forgets: str, known: bool) -> None:
    """It is said at each start how many messages that is about, until the store is given up; then none is lost."""
    path = tmp_path / "deliveries"
    async with two_brokers() as (old, new), Broker() as blank:
        await fill(old, "a", BODIES)
        left = await until_some_are_left(old, new, path, known=known)
        ends = (blank, new) if forgets == "source" else (old, blank)
        for _ in range(2):
            with SQLiteDeliveryStore(path) as store:
                async with (
                    ends[0].connect(container_id="s", delivery_store=store, close_timeout=0.2) as source,
                    ends[1].connect(container_id="t", delivery_store=store, close_timeout=0.2) as target,
                ):
                    with pytest.raises(DeliveryUncertain, match=f"the {forgets} has forgotten {left} messages"):
                        await amqp10.bridge((source, "a"), (target, "b"), exactly_once=True, close_timeout=0.2)
        with SQLiteDeliveryStore(tmp_path / "another") as store:
            async with (
                old.connect(container_id="s", delivery_store=store) as source,
                new.connect(container_id="t", delivery_store=store) as target,
            ):
                await amqp10.bridge((source, "a"), (target, "b"), exactly_once=True, until_empty=True)
        assert set(await bodies(new, "b")) == set(BODIES)
        assert await bodies(old, "a") == []


@pytest.mark.parametrize("forgets", ["source", "target"])
async def test_an_end_that_has_forgotten_and_a_death_just_then(tmp_path: Path, forgets: str) -> None:
    """The bridge asks that end to resume, and dies before it has the answer: the next one is told all the same."""
    path = tmp_path / "deliveries"
    async with two_brokers() as (old, new), Broker() as blank:
        await fill(old, "a", BODIES)
        left = await until_some_are_left(old, new, path, known=True)
        await fill(blank, "a", ["another"])
        await fill(blank, "b", ["another"])
        ends = (blank, new) if forgets == "source" else (old, blank)
        for _ in range(2):
            with SQLiteDeliveryStore(path) as store:
                async with (
                    FaultProxy(ends[forgets == "target"].url) as proxy,
                    Connection(
                        proxy.url if forgets == "source" else ends[0].url,
                        container_id="s",
                        delivery_store=store,
                        close_timeout=0.1,
                    ) as source,
                    Connection(
                        proxy.url if forgets == "target" else ends[1].url,
                        container_id="t",
                        delivery_store=store,
                        close_timeout=0.1,
                    ) as target,
                    anyio.create_task_group() as tasks,
                ):
                    proxy.stall("down")
                    asked = proxy.passed["up"]
                    bridge = amqp10.bridge((source, "a"), (target, "b"), exactly_once=True, close_timeout=0.1)

                    async def life() -> None:
                        with suppress(AmqpError):
                            await bridge  # noqa: B023

                    tasks.start_soon(life)
                    await until(lambda: proxy.passed["up"] > asked + 100)  # noqa: B023
                    await bodies(blank, "a")  # which the broker answers after it has acted on what was asked before
                    proxy.cut()
                    tasks.cancel_scope.cancel()
        with SQLiteDeliveryStore(path) as store:
            async with (
                ends[0].connect(container_id="s", delivery_store=store, close_timeout=0.2) as source,
                ends[1].connect(container_id="t", delivery_store=store, close_timeout=0.2) as target,
            ):
                with pytest.raises(DeliveryUncertain, match=f"the {forgets} has forgotten {left} messages"):
                    await amqp10.bridge((source, "a"), (target, "b"), exactly_once=True, close_timeout=0.2)
        assert await bodies(blank, "b") == ["another"]


async def test_two_of_one_name() -> None:
    """The second takes the first one's link at the source, and that one says so; no message is at both ends."""
    async with two_brokers() as (old, new):
        await fill(old, "a", BODIES)

        def life(source: Connection, target: Connection, **settings: Any) -> amqp10.Bridge:
            return amqp10.bridge((source, "a"), (target, "b"), exactly_once=True, **settings)

        async with (
            Connection(old.url, container_id="s", close_timeout=0.5, reconnect=Reconnect()) as source,
            Connection(new.url, container_id="t", close_timeout=0.5, reconnect=Reconnect()) as target,
            Connection(old.url, container_id="s", close_timeout=0.5, reconnect=Reconnect()) as other_source,
            Connection(new.url, container_id="u", close_timeout=0.5, reconnect=Reconnect()) as other_target,
        ):
            with pytest.raises(amqp10.LinkDetached) as stolen:
                async with life(source, target, name="one", rate=1, window=1) as first:
                    await until(lambda: first.report.moved)
                    await life(other_source, other_target, name="one", until_empty=True)
                    await first.done()
            assert stolen.value.condition == "amqp:link:stolen"
        assert sorted(await bodies(new, "b") + await bodies(old, "a")) == BODIES
