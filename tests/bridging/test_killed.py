"""The bridge itself is killed in mid-stream and started again, while its connections break."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from amqp10.testing import FaultProxy

from ._ends import bodies, fill, two_brokers

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.timeout(180),
    # The bridge chooses its own.
    pytest.mark.parametrize("anyio_backend", ["trio"]),
]

TOTAL = 3000
KILLS = 6
WINDOW = 100


class Program:
    """`amqp10 bridge`, which may be killed and begin again."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self.kills = 0  # while it was at it
        self.recovered = 0  # messages that it took up from the store

    def start(self) -> None:
        command = [sys.executable, "-m", "amqp10", "bridge", *self._arguments, "--json"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def kill(self) -> None:
        """SIGKILL, unless it has ended."""
        self.kills += self._process.poll() is None
        self._process.kill()
        self._count(self._process.communicate()[0])

    def _count(self, out: str) -> dict[str, object]:
        last: dict[str, object] = json.loads(out.splitlines()[-1]) if out else {"recovered": 0}
        self.recovered += int(str(last["recovered"]))
        return last

    def end(self) -> dict[str, object]:
        """Let it run to its end; the last counts."""
        out, err = self._process.communicate(timeout=60)
        assert self._process.returncode == 0, err
        return self._count(out)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("exactly_once", [True, False], ids=["exactly once", "at least once"])
async def test_the_bridge_is_killed(tmp_path: Path, seed: int, exactly_once: bool) -> None:
    """With a store each message is at the target once, in order; without one no more than what was in flight twice."""
    chance = random.Random(seed)
    async with two_brokers() as (old, new):
        await fill(old, "a", range(TOTAL))
        async with FaultProxy(old.url) as before, FaultProxy(new.url) as behind:
            store = "--exactly-once", "--store", str(tmp_path / "store")
            ends = "--from", before.url, "a", "--to", behind.url, "b"
            options = "--window", str(WINDOW), "--rate", "1000", "--until-empty"
            program = Program(*ends, *options, *(store if exactly_once else ()))
            for _ in range(KILLS):
                program.start()
                await anyio.sleep(0.8 + chance.random() / 2)
                if chance.random() < 0.7:
                    behind.stall(chance.choice(("up", "down")))  # so that much is in flight
                proxy = chance.choice([before, behind])
                proxy.cut_after(chance.randrange(3000), chance.choice(("up", "down")))
                await anyio.sleep(chance.random() / 5)
                await anyio.to_thread.run_sync(program.kill)
                behind.resume()
            program.start()
            last = await anyio.to_thread.run_sync(program.end)
        there, left = await bodies(new, "b"), await bodies(old, "a")
    assert program.kills >= 3
    assert left == []
    if exactly_once:
        assert there == list(range(TOTAL))
        assert last["duplicates"] == 0
        assert program.recovered > 0
    else:
        assert set(there) == set(range(TOTAL))
        assert len(there) - TOTAL <= 3 * KILLS * WINDOW
