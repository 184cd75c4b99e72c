"""The bridge and both brokers are killed in turn, with a store for each: every message is at the target once."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from amqp10 import Connection, Message

from ..kit.broker.two_brokers import Program
from ..kit.counts import KILLS, SEEDS
from ..kit.processes.stored_broker import StoredBroker

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    # The programs choose their own.
    pytest.mark.parametrize("anyio_backend", ["trio"]),
]

TOTAL = 500 * KILLS


@pytest.mark.parametrize("seed", SEEDS)
async def test_exactly_once(tmp_path: Path, seed: int) -> None:
    """Nothing is lost and nothing is there twice, whoever died, in whatever order."""
    chance = random.Random(seed)
    old, new = StoredBroker(tmp_path / "old"), StoredBroker(tmp_path / "new")
    ends = "--from", old.url, "a", "--to", new.url, "b", "--from-dialect", "1.0", "--to-dialect", "1.0"
    options = "--exactly-once", "--store", str(tmp_path / "store"), "--window", "50", "--rate", "400", "--until-empty"
    program = Program(*ends, *options)

    def again(which: StoredBroker | Program) -> None:
        which.kill()
        which.start()

    kills = [partial(again, which) for which in (old, new, program)]
    try:
        async with Connection(old.url) as connection, connection.sender("a") as sender:
            await sender.send_many(Message(number, durable=True) for number in range(TOTAL))
        program.start()
        for kill in chance.sample(kills, k=3 * KILLS, counts=[KILLS] * 3):
            await anyio.sleep(0.3 + chance.random() / 2)
            await anyio.to_thread.run_sync(kill)
        last = await anyio.to_thread.run_sync(program.end)
        async with Connection(new.url) as connection, connection.browser("b") as browser:
            there = [delivery.message.body async for delivery in browser]
        async with Connection(old.url) as connection, connection.browser("a") as browser:
            left = [delivery.message.body async for delivery in browser]
    finally:
        old.kill()
        new.kill()
        program.kill()
    assert sorted(there) == list(range(TOTAL))
    assert left == []
    assert last["duplicates"] == 0
