"""A program is killed with messages on their way, and the next one takes them up from its store of deliveries."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from amqp10 import Accepted, Connection, Message, SQLiteDeliveryStore

from ._matrix import Peer

pytestmark = [pytest.mark.anyio, pytest.mark.interop, pytest.mark.timeout(600), pytest.mark.capability("exactly once")]

COUNT = 50
PROGRAM = """
import os, signal, sys, trio
from amqp10 import Connection, Message, SQLiteDeliveryStore

async def main(url, address, path, mode, count):
    store = SQLiteDeliveryStore(path)
    async with Connection(url, container_id="killed", delivery_store=store) as connection:
        async with connection.sender(address, name="out", receiver_settle_mode=mode) as sender:
            for number in range(count):
                await sender.submit(Message(number, durable=True))
            await store.commit()
            os.kill(os.getpid(), signal.SIGKILL)

trio.run(main, *sys.argv[1:5], int(sys.argv[5]))
"""


@pytest.mark.matrix("taken up after a kill of the program (`delivery_store`)")
async def test_taken_up(peer: Peer, tmp_path: Path) -> None:
    """Each of its messages arrives: with the broker that resumes links once, else at least once."""
    mode: Any = "second" if peer.name == "embedded" else "first"
    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
    path = str(tmp_path / "deliveries")

    def run() -> int:
        command = [sys.executable, "-c", PROGRAM, peer.url(), address, path, mode, str(COUNT)]
        return subprocess.run(command, timeout=60).returncode

    assert await anyio.to_thread.run_sync(run) == -signal.SIGKILL
    with SQLiteDeliveryStore(path) as store:
        async with Connection(peer.url(), container_id="killed", delivery_store=store) as connection:
            async with connection.sender(address, name="out", receiver_settle_mode=mode) as sender:
                left = {Message.decode(delivery.payload).body for delivery in sender.recovered}
                for sent in sender.recovered:
                    assert isinstance(await sent.outcome(), Accepted)
            async with connection.receiver(address, credit=4 * COUNT) as receiver:
                arrived: Counter[object] = Counter()
                while len(arrived) < COUNT:
                    delivery = await receiver.receive()
                    delivery.accept()
                    arrived[delivery.message.body] += 1
                for delivery in await receiver.receive_batch(4 * COUNT, max_wait=0.5):
                    delivery.accept()
                    arrived[delivery.message.body] += 1
    assert left
    assert arrived.keys() == set(range(COUNT))
    if peer.name == "embedded":
        assert arrived.total() == COUNT
        peer.note("exactly once")
    else:
        assert arrived.total() <= COUNT + len(left)
        peer.note("at least once: it resumes no links")
