"""The process of a bridge dies at each of the commits of its store in turn; the next one goes on, exactly once."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

import amqp10
from amqp10 import AmqpError, Connection, SQLiteDeliveryStore
from amqp10.broker import Broker

from ..client.test_delivery_store import Mortal, MortalStream
from ._ends import bodies, fill, two_brokers

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

BODIES = list(range(8))


def mortal(broker: Broker, container: str, store: Mortal) -> Connection:
    stream = MortalStream(broker.open_stream(), store)
    return Connection.over(stream, container_id=container, delivery_store=store, close_timeout=0.2)


async def until_it_dies(old: Broker, new: Broker, path: Path, last: int, *, before: bool) -> bool:
    """One life of the bridge; whether it died."""
    with Mortal(path, last, before=before) as store:
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
@pytest.mark.parametrize("last", range(2, 8))
async def test_again_and_again(tmp_path: Path, last: int, before: bool) -> None:
    """It dies at that commit, at the next one in its next life, and so on: also while it takes up what was left."""
    path = tmp_path / "deliveries"
    async with two_brokers() as (old, new):
        await fill(old, "a", BODIES)
        for life in range(4):
            assert await until_it_dies(old, new, path, last + life, before=before)
        await and_lives(old, new, path)
