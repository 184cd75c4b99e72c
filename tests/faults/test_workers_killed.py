"""Workers and brokers killed again and again: each message is handled, or a dead letter with its reason.

As many as `AMQP10_WORK` says, 50,000 in `make nightly`, on all brokers. Else a few hundred, on two brokers, which are
killed once.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from amqp10 import Connection, Message, Reconnect
from amqp10.rabbitmq import management, queue_address

from ..interop.brokers import Unavailable
from ..kit.counts import KILLS, WORK
from ..kit.processes.mortal_brokers import Broker, start
from ..kit.processes.programs import started
from ..kit.unavailable import unavailable

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.capability("workers"),
]

LONG = WORK > 300
BROKER_KILLS = KILLS if LONG else 1
KEYS = 7
nightly = pytest.mark.skipif(not LONG, reason="takes minutes: `make nightly` does it, or AMQP10_WORK=50000")
BAD = {number for number in range(WORK) if number % 50 == 7}
HANDLER = """
import random
from amqp10.worker import DeadLetter, Retry

async def orders(message):
    if message.body % 50 == 7:
        raise DeadLetter("sevens are not sold")
    if random.random() < 0.1:
        raise Retry(delay=0.01)
    print(f"{message.body}\\n", end="", flush=True)
"""


class Shop:
    """Workers, one after another, and what they have handled.

    Attributes:
        handled: how often each message was.
        order: the messages of each key, as they were handled for the first time.
        kills: how many workers were killed.
    """

    def __init__(self, folder: Path, url: str, orders: str, letters: str, *more: str) -> None:
        often = ["--concurrency", "20", "--attempts", "50", "--dead-letters", letters, *more]
        self._command = [sys.executable, "-m", "amqp10", "work", "shop:orders", url, orders, *often, "--quiet"]
        self._folder = folder
        self.handled: Counter[int] = Counter()
        self.order: dict[int, list[int]] = {key: [] for key in range(KEYS)}
        self.kills = 0

    def work(self, most: int) -> None:
        """Run workers until all is handled, and kill each but the last when it has handled its share."""
        while len(self.handled) < WORK - len(BAD):
            share = (WORK - len(BAD)) * (self.kills + 1) // (most + 1)
            with started(self._command, limit=3600, cwd=self._folder, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                for line in process.stdout:
                    self._note(int(line))
                    if len(self.handled) >= share:
                        break
                last = len(self.handled) >= WORK - len(BAD)
                process.send_signal(signal.SIGTERM if last else signal.SIGKILL)
                self.kills += not last
                for line in process.stdout:
                    self._note(int(line))

    def _note(self, number: int) -> None:
        self.handled[number] += 1
        if self.handled[number] == 1:
            self.order[number % KEYS].append(number)


async def kill(broker: Broker, shop: Shop) -> None:
    """Kill the broker as often as it is due."""
    for number in range(BROKER_KILLS):
        while len(shop.handled) < WORK * (2 * number + 1) // (2 * BROKER_KILLS + 2):  # noqa: ASYNC110
            await anyio.sleep(0.05)
        broker.kill()
        await anyio.to_thread.run_sync(broker.restart)


async def fill(name: str, url: str) -> list[str]:
    """Declare the queues, send the orders, and return the addresses: of the orders, of those for later, of letters."""
    names = ["orders", "later", "letters"]
    async with Connection(url) as connection:
        if name != "artemis":
            async with management(connection) as rabbit:
                back = {
                    "x-dead-letter-exchange": "",
                    "x-dead-letter-routing-key": "orders",
                    # Else RabbitMQ loses what it is handing on when it is killed.
                    "x-dead-letter-strategy": "at-least-once",
                    "x-overflow": "reject-publish",
                }
                for queue in names:
                    arguments = back if queue == "later" else {}
                    await rabbit.declare_queue(queue, "quorum", delivery_limit=-1, arguments=arguments)
            names = [queue_address(queue) for queue in names]
        async with connection.sender(names[0]) as sender:
            await sender.send_many(Message(number, durable=True, group_id=str(number % KEYS)) for number in range(WORK))
    return names


@pytest.mark.parametrize("anyio_backend", ["trio"])
@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("embedded", "in order"),
        ("artemis", "in order"),
        *(
            pytest.param(name, way, marks=nightly)
            for name, way in [
                ("embedded", "delay queue"),
                ("rabbitmq-quorum", "delay queue"),
                ("rabbitmq-quorum", "in order"),
                ("rabbitmq-newest-quorum", "delay queue"),
                ("rabbitmq-newest-quorum", "in order"),
            ]
        ),
    ],
)
async def test_killed(name: str, way: str, authority: Path, tmp_path: Path) -> None:
    """Handlers fail at random, and twice as many workers die as brokers.

    What is tried again waits in a delay queue; or it holds back those behind it of its key, whose order is kept.
    """
    (tmp_path / "shop.py").write_text(HANDLER)
    began = time.monotonic()
    try:
        with start(name, authority, tmp_path) as (broker, url):
            orders, later, letters = await fill(name, url)
            how = ["--delay-queue", later] if way == "delay queue" else ["--key", "group_id"]
            shop = Shop(tmp_path, url, orders, letters, *how)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.to_thread.run_sync, shop.work, 2 * BROKER_KILLS)
                await kill(broker, shop)
            dead: set[int] = set()
            async with Connection(url, reconnect=Reconnect()) as connection:
                async with connection.receiver(letters) as receiver:
                    while dead != BAD:
                        with await receiver.receive() as message:
                            reason = message.message_annotations["x-opt-dead-letter-description"]
                            assert reason == "sevens are not sold"
                            dead.add(message.body)
    except Unavailable as error:
        unavailable(f"no {name}: {error}")
    twice = shop.handled.total() - len(shop.handled)
    print(f"{name}: {WORK} in {time.monotonic() - began:.0f} s, {shop.kills} workers killed, {twice} handled again")
    assert shop.handled.keys() == set(range(WORK)) - BAD
    assert shop.kills == 2 * BROKER_KILLS
    if way == "in order":
        assert {key: sorted(numbers) for key, numbers in shop.order.items()} == shop.order
