"""Programs with a store of deliveries that are killed in mid-stream, and begin again where the store says."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from amqp10.broker import Broker

from ..kit.counts import KILLS
from ..kit.processes.programs import started

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    # The programs choose their own.
    pytest.mark.parametrize("anyio_backend", ["trio"]),
]

TOTAL = 300

HEAD = """
import sys, trio
from amqp10 import Connection, Message, Reconnect, SQLiteDeliveryStore, Target, Source

def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\\n")
    sys.stdout.flush()

async def main(url, path, first, total):
    with SQLiteDeliveryStore(path) as store:
        async with Connection(url, container_id="me", reconnect=Reconnect(), delivery_store=store) as connection:
"""
SENDER = (
    HEAD
    + """
            async with connection.sender("q", name="out", receiver_settle_mode="second") as sender:
                for delivery in sender.recovered:
                    await delivery.outcome()
                    first = max(first, Message.decode(delivery.payload).body + 1)
                for number in range(first, total):
                    await sender.send(Message(number))
                    say(number)

trio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
"""
)
RECEIVER = (
    HEAD
    + """
            async with connection.receiver("q", name="in", receiver_settle_mode="second", credit=50) as receiver:
                while batch := await receiver.receive_batch(1, max_wait=5):
                    (delivery,) = batch
                    say(delivery.message.body)
                    delivery.accept()
                    await delivery.wait_settled()

trio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
"""
)


def run(program: str, url: str, path: Path, first: int, until: int | None) -> list[int]:
    """What it says, from its start to its end; killed when it has said so much."""
    said: list[int] = []
    command = [sys.executable, "-c", program, url, str(path), str(first), str(TOTAL)]
    with started(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(int(line))
            if until is not None and len(said) == until:
                process.kill()
    assert (process.returncode == 0) == (until is None)
    return said


async def test_a_sender_that_is_killed(tmp_path: Path) -> None:
    """Everything arrives; again only what was settled while the program died before it could say so."""
    said: list[int] = []
    async with Broker() as broker:

        def send() -> None:
            for kill in range(KILLS + 1):
                first = said[-1] + 1 if said else 0
                until = TOTAL // (KILLS + 1) - 10 * kill if kill < KILLS else None
                said.extend(run(SENDER, broker.url, tmp_path / "store", first, until))

        await anyio.to_thread.run_sync(send)
        async with broker.connect() as connection, connection.receiver("q", credit=10 * TOTAL) as receiver:
            await receiver.drain()
            arrived = Counter(each.message.body for each in await receiver.receive_batch(10 * TOTAL, max_wait=0))
    print(f"arrived {arrived.total()}, duplicates {arrived.total() - len(arrived)}, lost {TOTAL - len(arrived)}")
    assert arrived.keys() == set(range(TOTAL))
    assert arrived.total() - TOTAL <= KILLS


async def test_a_receiver_that_is_killed(tmp_path: Path) -> None:
    """Everything is processed; again only what was being processed when the program died, not what was prefetched."""
    processed: Counter[int] = Counter()
    async with Broker() as broker:
        async with broker.connect() as connection, connection.sender("q") as sender:
            await sender.send_many(range(TOTAL))

        def receive() -> None:
            for kill in range(KILLS + 1):
                until = TOTAL // (KILLS + 1) if kill < KILLS else None
                processed.update(run(RECEIVER, broker.url, tmp_path / "store", 0, until))

        await anyio.to_thread.run_sync(receive)
        left = broker.queue("q").depth
    print(f"processed {processed.total()}, duplicates {processed.total() - TOTAL}, lost {TOTAL - len(processed)}")
    assert processed.keys() == set(range(TOTAL))
    assert processed.total() - TOTAL <= KILLS
    assert left == 0
