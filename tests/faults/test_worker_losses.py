"""Workers whose connection is cut at random in the middle of their work: every message is handled, none is lost."""

from __future__ import annotations

import random
from collections import defaultdict

import anyio
import pytest

from amqp10 import Connection, Message, Reconnect
from amqp10.broker import Broker
from amqp10.testing import FaultProxy
from amqp10.worker import Retries, Retry, Worker

from ..kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.capability("workers")]

AGAIN = Retries(attempts=50, initial_delay=0, max_delay=0)


@pytest.mark.parametrize(
    ("dialect", "resume_timeout"), [("1.0", 0), ("1.0", 60), ("0-9-1", 0), ("0-10", 0), ("fast", 0)]
)
@pytest.mark.slow
async def test_cut_at_random(dialect: str, resume_timeout: int) -> None:
    """Six cuts, with handlers that fail at random: each is handled, and those of one key in their order."""
    chance = random.Random(f"{dialect} {resume_timeout}")
    total = 240
    handled: dict[str, list[int]] = defaultdict(list)
    reconnect = Reconnect(initial_delay=0.01, max_delay=0.05, resume_timeout=resume_timeout)

    async def handle(message: Message) -> None:
        await anyio.sleep(0.001)
        if chance.random() < 0.1:
            raise Retry(delay=0)
        handled[message.group_id or ""].append(message.body)

    def count() -> int:
        return len({body for bodies in handled.values() for body in bodies})

    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        async with broker.connect() as filling, filling.sender("orders") as sender:
            await sender.send_many(Message(number, group_id=str(number % 7)) for number in range(total))
        async with Connection(proxy.url, dialect=dialect, reconnect=reconnect) as connection:
            async with Worker(
                connection,
                "orders",
                handle,
                concurrency=8,
                retries=AGAIN,
                dead_letters="dead",
                key=lambda message: message.group_id,
            ) as worker:
                for cuts in range(1, 7):
                    await until(lambda cuts=cuts: count() >= total * cuts // 8)  # type: ignore[misc]
                    proxy.cut(reset=cuts % 2 == 0)
                await until(lambda: count() == total and not worker.running and not worker.held)
        assert broker.queue("orders").depth == 0
        assert worker.dead_lettered == 0
    for key, bodies in handled.items():
        first = list(dict.fromkeys(bodies))  # what comes a second time was handled before
        assert first == [number for number in range(total) if str(number % 7) == key]
