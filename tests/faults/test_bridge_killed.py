"""The bridge itself is killed in mid-stream and started again, while its connections break."""

from __future__ import annotations

import random
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from amqp10 import LinkKey, SQLiteDeliveryStore
from amqp10.testing import FaultProxy

from ..kit.broker.two_brokers import Program, bodies, fill, two_brokers
from ..kit.counts import KILLS, SEEDS
from ..kit.waiting import until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    # The bridge chooses its own.
    pytest.mark.parametrize("anyio_backend", ["trio"]),
]

TOTAL = 400 * (KILLS + 1)
WINDOW = 100


def in_flight(store: Path) -> int:
    """What a bridge that was killed has left in its store."""
    with SQLiteDeliveryStore(store) as kept:
        return len(kept.load(LinkKey("amqp10-bridge a b target", "amqp10-bridge a b", "sender")))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("exactly_once", [True, False], ids=["exactly once", "at least once"])
async def test_the_bridge_is_killed(tmp_path: Path, seed: int, exactly_once: bool) -> None:
    """With a store each message is at the target once, in order; without one no more than what was in flight twice."""
    chance = random.Random(seed)
    store, left_in_store = tmp_path / "store", 0
    async with two_brokers() as (old, new):
        await fill(old, "a", range(TOTAL))
        async with FaultProxy(old.url) as before, FaultProxy(new.url) as behind:
            ends = "--from", before.url, "a", "--to", behind.url, "b", "--from-dialect", "1.0", "--to-dialect", "1.0"
            # Slow enough that it has not moved all before it was killed for the last time.
            options = "--window", str(WINDOW), "--rate", "400", "--until-empty"
            program = Program(*ends, *options, *(("--exactly-once", "--store", str(store)) if exactly_once else ()))
            for _ in range(KILLS):
                sent = behind.passed["up"]
                program.start()
                await until(lambda: program.goes_on() and behind.passed["up"] > sent + 5000)  # noqa: B023
                behind.stall(chance.choice(("up", "down")))  # so that much is in flight
                await anyio.sleep(chance.random() / 5)
                chance.choice([before, behind]).cut_after(chance.randrange(3000), chance.choice(("up", "down")))
                await anyio.sleep(chance.random() / 5)
                await anyio.to_thread.run_sync(program.kill)
                left_in_store += in_flight(store) if exactly_once else 0
                behind.resume()
            program.start()
            last = await anyio.to_thread.run_sync(program.end)
        there, left = await bodies(new, "b"), await bodies(old, "a")
    assert program.kills == KILLS
    assert left == []
    if exactly_once:
        assert there == list(range(TOTAL))
        assert last["duplicates"] == 0
        assert left_in_store > 0
    else:
        assert set(there) == set(range(TOTAL))
        assert len(there) - TOTAL <= 3 * KILLS * WINDOW
