"""Workers and brokers killed again and again: each message is handled, or a dead letter with its reason.

As many as `AMQP10_WORK` says: 50,000 in `make nightly`. In every run tests/worker/test_processes.py kills workers.
"""

from __future__ import annotations

import os
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

from ..kit.seeds import KILLS
from .brokers import Unavailable
from .conftest import unavailable
from .test_killed import Broker, start

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif("AMQP10_WORK" not in os.environ, reason="takes minutes: AMQP10_WORK=50000 is for make nightly"),
    pytest.mark.capability("workers"),
]

TOTAL = int(os.environ.get("AMQP10_WORK", "300"))
BAD = {number for number in range(TOTAL) if number % 50 == 7}
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
        kills: how many workers were killed.
    """

    def __init__(self, folder: Path, url: str) -> None:
        names = [queue_address(name) for name in ("orders", "later", "letters")]
        more = ["--concurrency", "20", "--attempts", "50", "--delay-queue", names[1], "--dead-letters", names[2]]
        self._command = [sys.executable, "-m", "amqp10", "work", "shop:orders", url, names[0], *more, "--quiet"]
        self._folder = folder
        self.handled: Counter[int] = Counter()
        self.kills = 0

    def work(self, most: int) -> None:
        """Run workers until all is handled, and kill each but the last when it has handled its share."""
        while len(self.handled) < TOTAL - len(BAD):
            share = (TOTAL - len(BAD)) * (self.kills + 1) // (most + 1)
            with subprocess.Popen(self._command, cwd=self._folder, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                for line in process.stdout:
                    self.handled[int(line)] += 1
                    if len(self.handled) >= share:
                        break
                last = len(self.handled) >= TOTAL - len(BAD)
                process.send_signal(signal.SIGTERM if last else signal.SIGKILL)
                self.kills += not last
                for line in process.stdout:
                    self.handled[int(line)] += 1


async def kill(broker: Broker, shop: Shop) -> None:
    """Kill the broker as often as it is due."""
    for number in range(KILLS):
        while len(shop.handled) < TOTAL * (2 * number + 1) // (2 * KILLS + 2):  # noqa: ASYNC110
            await anyio.sleep(0.05)
        broker.kill()
        await anyio.to_thread.run_sync(broker.restart)


@pytest.mark.parametrize("anyio_backend", ["trio"])
@pytest.mark.parametrize("name", ["embedded", "rabbitmq-quorum", "rabbitmq-newest-quorum"])
async def test_killed(name: str, authority: Path, tmp_path: Path) -> None:
    """Handlers fail at random, twice as many workers die as brokers, and what is tried again waits in a delay queue."""
    (tmp_path / "shop.py").write_text(HANDLER)
    began = time.monotonic()
    try:
        with start(name, authority, tmp_path) as (broker, url):
            async with Connection(url) as connection, management(connection) as rabbit:
                back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders"}
                for queue, arguments in (("orders", {}), ("later", back), ("letters", {})):
                    await rabbit.declare_queue(queue, "quorum", delivery_limit=-1, arguments=arguments)
                async with connection.sender(queue_address("orders")) as sender:
                    await sender.send_many(Message(number, durable=True) for number in range(TOTAL))
            shop = Shop(tmp_path, url)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.to_thread.run_sync, shop.work, 2 * KILLS)
                await kill(broker, shop)
            dead: set[int] = set()
            async with Connection(url, reconnect=Reconnect()) as connection:
                async with connection.receiver(queue_address("letters")) as receiver:
                    while dead != BAD:
                        with await receiver.receive() as message:
                            reason = message.message_annotations["x-opt-dead-letter-description"]
                            assert reason == "sevens are not sold"
                            dead.add(message.body)
    except Unavailable as error:
        unavailable(f"no {name}: {error}")
    twice = shop.handled.total() - len(shop.handled)
    print(f"{name}: {TOTAL} in {time.monotonic() - began:.0f} s, {shop.kills} workers killed, {twice} handled again")
    assert shop.handled.keys() == set(range(TOTAL)) - BAD
    assert shop.kills == 2 * KILLS
