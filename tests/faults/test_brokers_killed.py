"""Brokers killed again and again in mid-stream: connections come back by themselves, and what was sent is received."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import anyio
import anyio.to_thread
import pytest

from amqp10 import Connection, Message, MessageNotAccepted, Reconnect, StaleDelivery
from amqp10.rabbitmq import management, queue_address

from ..interop.brokers import Unavailable
from ..kit.broker.draining import take_the_rest
from ..kit.counts import KILLS
from ..kit.processes.mortal_brokers import Broker, start
from ..kit.unavailable import unavailable

pytestmark = [pytest.mark.anyio, pytest.mark.interop, pytest.mark.timeout(600), pytest.mark.capability("nothing lost")]

SENDERS = 4
EACH = 150
CREDIT = 20
QUICK = Reconnect(initial_delay=0.05, max_delay=1.0)


@pytest.fixture
def anyio_backend() -> str:
    """One is enough for what takes so long; test_soak.py has both."""
    return "trio"


async def queue(name: str, url: str) -> str:
    """The address of a queue; RabbitMQ makes none by itself."""
    if "rabbitmq" not in name:
        return "killed"
    async with Connection(url) as connection, management(connection) as rabbit:
        await rabbit.declare_queue("killed", "quorum" if "quorum" in name else "classic")
    # A quorum queue that is killed in its first second is gone: its name is written to the disk only now and then.
    await anyio.sleep(2)
    return queue_address("killed")


class Traffic:
    """What is sent and received while the broker dies and comes back.

    Attributes:
        accepted: those for which `send` has returned.
        received: how often each was received and accepted; those that come again when all have come among them, and
            those that are left in the queue then.
        stale: those whose acceptance came too late, for they are delivered again.
    """

    def __init__(self, url: str, address: str, settle: Literal["first", "second"], kills: int) -> None:
        self.kills = kills
        self.settle: Literal["first", "second"] = settle
        self.url = url
        self.address = address
        self.accepted: set[int] = set()
        self.received: Counter[int] = Counter()
        self.stale = 0
        self.progress = anyio.Event()

    async def run(self, broker: Broker) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._receive)
            for number in range(SENDERS):
                tasks.start_soon(self._send, range(number * EACH, number * EACH + EACH))
            await self._kill(broker)
        self.received.update(await take_the_rest(self.url, self.address))

    async def _send(self, numbers: range) -> None:
        async with (
            Connection(self.url, reconnect=QUICK) as connection,
            connection.sender(self.address, receiver_settle_mode=self.settle) as sender,
        ):
            for number in numbers:
                while number not in self.accepted:
                    try:
                        await sender.send(Message(number, durable=True))
                        self.accepted.add(number)
                    except MessageNotAccepted:  # it says that it did not take it
                        await anyio.sleep(0.05)
                self.progress.set()

    async def _receive(self) -> None:
        async with (
            Connection(self.url, reconnect=QUICK) as connection,
            connection.receiver(self.address, credit=CREDIT, receiver_settle_mode=self.settle) as receiver,
        ):
            while len(self.received) < SENDERS * EACH:
                delivery = await receiver.receive()
                try:
                    delivery.accept()
                except StaleDelivery:
                    self.stale += 1
                else:
                    self.received[delivery.message.body] += 1

    async def _kill(self, broker: Broker) -> None:
        for kill in range(self.kills):
            while len(self.accepted) < SENDERS * EACH * (kill + 1) // (self.kills + 1):
                self.progress = anyio.Event()
                await self.progress.wait()
            broker.kill()
            await anyio.to_thread.run_sync(broker.restart)


@pytest.mark.parametrize("name", ["artemis", "rabbitmq-quorum", "rabbitmq-classic", "embedded", "embedded-once"])
async def test_killed(
    name: str, authority: Path, tmp_path: Path, record_property: Callable[[str, object], None], anyio_backend: str
) -> None:
    """Every message that `send` returned for is received; what comes twice was on its way. Exactly once: none."""
    once = name.endswith("once")
    kills = KILLS if name.startswith("embedded") else max(1, KILLS // 2)  # what is restored there is not ours
    try:
        with start(name, authority, tmp_path) as (broker, url):
            traffic = Traffic(url, await queue(name, url), "second" if once else "first", kills)
            with anyio.fail_after(500):
                await traffic.run(broker)
    except Unavailable as error:
        unavailable(f"no {name}: {error}")
    lost = traffic.accepted - traffic.received.keys()
    duplicates = traffic.received.total() - len(traffic.received)
    for key, value in (("lost", len(lost)), ("duplicates", duplicates), ("stale", traffic.stale)):
        record_property(key, value)
    print(f"{name}: sent {len(traffic.accepted)}, duplicates {duplicates}, stale {traffic.stale}, lost {len(lost)}")
    assert len(traffic.accepted) == SENDERS * EACH
    assert not lost
    assert duplicates <= (0 if once else kills * (SENDERS + 2 * CREDIT))
