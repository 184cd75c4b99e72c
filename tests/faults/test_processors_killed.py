"""Processes that share a hub by an SQLite file, killed in turn while events are sent: each event is handled.

Three processes, each killed once; eight in `make nightly`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from amqp10.azure import ConsumerGroup, EventHub, SQLiteLeases
from amqp10.broker import Broker, TokenRules
from amqp10.broker.azure import EMULATOR_RULE, AzureConfig, EventHubConfig, connection_string

from ..kit.counts import KILLS

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.capability("Event Hubs processor"),
    # The programs choose their own.
    pytest.mark.parametrize("anyio_backend", ["trio"]),
]

PROCESSES = 3 if KILLS < 5 else 8
PARTITIONS = 8
PROGRAM = """
import sys, trio
from amqp10.azure import EventHub, EventProcessor, SQLiteLeases

async def handle(event):
    print(event.partition, event.body.decode(), flush=True)

async def main(where, leases):
    async with EventHub(where, "telemetry") as hub:
        store = SQLiteLeases(leases, timeout=60)
        async with EventProcessor(hub, handle, store=store, interval=0.5, expiry=3, checkpoint_interval=0.05):
            await trio.sleep_forever()

trio.run(main, *sys.argv[1:])
"""


class Program:
    """A process that is killed and begins again.

    Attributes:
        handled: what it has handled in all its lives, each with its partition.
    """

    def __init__(self, where: str, folder: Path, number: int) -> None:
        self._command = [sys.executable, "-c", PROGRAM, where, str(folder / "leases.db")]
        self._output = folder / f"handled by {number}"
        self.start()

    def start(self) -> None:
        with self._output.open("a") as output:
            self._process = subprocess.Popen(self._command, stdout=output)

    def kill(self) -> None:
        """Kill it; what it was writing stays half a line."""
        self._process.kill()
        self._process.wait()

    @property
    def handled(self) -> set[tuple[str, ...]]:
        return {tuple(line.split()) for line in self._output.read_text().splitlines()}


async def test_killed_in_turn(tmp_path: Path) -> None:
    """No event is lost, checkpoints never go back, and at the end they are behind the last event."""
    config = AzureConfig(event_hubs=[EventHubConfig("telemetry", PARTITIONS)])
    store = SQLiteLeases(tmp_path / "leases.db", timeout=60)
    sent: set[tuple[str, ...]] = set()
    kept = dict.fromkeys(map(str, range(PARTITIONS)), -1)

    async def send(hub: EventHub) -> None:
        """Send to each partition, 10 events at a time."""
        first = len(sent) // PARTITIONS
        for partition in kept:
            async with hub.sender(partition=partition) as sender:
                numbers = [str(number) for number in range(first, first + 10)]
                await sender.send_many([number.encode() for number in numbers])
                sent.update((partition, number) for number in numbers)

    async def look() -> None:
        """See how far the checkpoints are; none is behind where it was."""
        for partition, checkpoint in (await store.checkpoints(group)).items():
            assert checkpoint.sequence_number >= kept[partition]
            kept[partition] = checkpoint.sequence_number

    with anyio.fail_after(500):
        async with (
            Broker(azure=config, tokens=TokenRules([EMULATOR_RULE])) as broker,
            EventHub(connection_string(broker.url), "telemetry") as hub,
        ):
            group = ConsumerGroup(broker.url.partition("://")[2], "telemetry", "$Default")
            programs = [Program(connection_string(broker.url), tmp_path, number) for number in range(PROCESSES)]
            try:
                for program in programs:
                    handled = sum(len(each.handled) for each in programs)
                    await send(hub)
                    while sum(len(each.handled) for each in programs) <= handled:  # noqa: ASYNC110
                        await anyio.sleep(0.05)
                    await send(hub)
                    await anyio.to_thread.run_sync(program.kill)
                    await look()
                    program.start()
                await send(hub)
                last = len(sent) // PARTITIONS - 1
                while min(kept.values()) < last:
                    await anyio.sleep(0.05)
                    await look()
            finally:
                for program in programs:
                    program.kill()
    assert set.union(*(program.handled for program in programs)) >= sent
    assert set(kept.values()) == {last}
