"""Sender, receiver and broker are killed in turn while their connections break: exactly once, with a store for each."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from amqp10.testing import FaultProxy

from ..kit.broker.draining import take_the_rest
from ..kit.counts import KILLS
from ..kit.processes.stored_broker import StoredBroker

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.capability("nothing lost"),
    pytest.mark.timeout(400),
    # The programs choose their own.
    pytest.mark.parametrize("anyio_backend", ["trio"]),
]

TOTAL = 300 * KILLS

HEAD = """
import sys, trio
from amqp10 import Connection, Message, Reconnect, SQLiteDeliveryStore

def say(*words):
    print(*words, flush=True)

async def main(url, path, first, total):
    reconnect = Reconnect(initial_delay=0.02, max_delay=0.3, first_attempts=1000, attempt_timeout=3)
    with SQLiteDeliveryStore(path) as store:
        async with Connection(url, container_id=path, reconnect=reconnect, delivery_store=store) as connection:
"""
RUN = """
trio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
"""
SENDER = f"""{HEAD}
            async with connection.sender("q", name="out", receiver_settle_mode="second") as sender:
                for delivery in sender.recovered:
                    number = Message.decode(delivery.payload).body
                    say("begin", number)
                    await delivery.outcome()
                    say("end", number)
                    first = max(first, number + 1)
                for number in range(first, total):
                    say("begin", number)
                    await sender.send(Message(number, durable=True))
                    say("end", number)
{RUN}"""
RECEIVER = f"""{HEAD}
            async with connection.receiver("q", name="in", receiver_settle_mode="second", credit=50) as receiver:
                async for delivery in receiver:
                    say("begin", delivery.message.body)
                    delivery.accept()
                    await delivery.wait_settled()
                    say("end", delivery.message.body)
{RUN}"""


class Program:
    """A process that is killed and begins again.

    Attributes:
        began: how often it has begun on each number.
        ended: the numbers that it has done with.
        at: the number that it is at.
        doubtful: those of which it was killed before it knew whether it had done with them.
    """

    def __init__(self, program: str, url: str, store: Path) -> None:
        self._program, self._url, self._store = program, url, store
        self._output = store.with_suffix(".said")
        self.began: Counter[int] = Counter()
        self.ended: set[int] = set()
        self.doubtful: set[int] = set()
        self.start()

    def start(self) -> None:
        first = max(self.ended, default=-1) + 1
        command = [sys.executable, "-c", self._program, self._url, str(self._store), str(first), str(TOTAL)]
        with self._output.open("w") as output:
            self.process = subprocess.Popen(command, stdout=output)
        self._said = self._output.open()
        self._unfinished = ""
        self.at: int | None = None

    def listen(self) -> None:
        """Take in what it has said: whole lines, for one that crosses a page of the file may be seen in two parts."""
        *lines, self._unfinished = (self._unfinished + self._said.read()).split("\n")
        for line in lines:
            word, number = line.split()
            if word == "begin":
                self.at = int(number)
                self.began[self.at] += 1
            else:
                self.at = None
                self.ended.add(int(number))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.listen()
        self._said.close()
        if self.at is not None:
            self.doubtful.add(self.at)


async def test_exactly_once(tmp_path: Path) -> None:
    """Nothing is lost; only what a program was at when it was killed may have been done twice."""
    chance = random.Random(1)
    broker = StoredBroker(tmp_path / "broker")
    async with FaultProxy(broker.url) as proxy:
        sender = Program(SENDER, proxy.url, tmp_path / "sender")
        receiver = Program(RECEIVER, proxy.url, tmp_path / "receiver")

        def again(which: Program | StoredBroker) -> None:
            which.kill()
            which.start()

        async def cut() -> None:
            proxy.cut(reset=chance.random() < 0.5)

        async def cut_after() -> None:
            proxy.cut_after(chance.randrange(5000), chance.choice(("up", "down")))

        faults: list[Callable[[], Awaitable[None]]] = [
            lambda: anyio.to_thread.run_sync(again, sender),
            lambda: anyio.to_thread.run_sync(again, receiver),
            lambda: anyio.to_thread.run_sync(again, broker),
            cut,
            cut_after,
        ]
        try:
            for fault in chance.sample(faults, k=5 * KILLS, counts=[KILLS] * 5):
                await anyio.sleep(chance.random() / 2)
                await fault()
            await anyio.to_thread.run_sync(sender.process.wait)
            with anyio.fail_after(120):
                while len(receiver.began) < TOTAL or receiver.at is not None:
                    await anyio.sleep(0.05)
                    receiver.listen()
            assert await take_the_rest(broker.url, "q") == []
        finally:
            sender.kill()
            receiver.kill()
            broker.kill()
    twice = {number for number, count in receiver.began.items() if count > 1}
    assert sender.process.returncode == 0
    assert sender.ended | sender.doubtful == set(range(TOTAL)) == receiver.began.keys()
    assert twice <= receiver.doubtful | sender.doubtful
