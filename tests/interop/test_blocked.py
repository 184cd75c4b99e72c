"""RabbitMQ out of memory: who sends in AMQP 0-9-1 waits as without credit, hears why, and goes on when it is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from amqp10 import Connection, ConnectionBlocked, ConnectionUnblocked

from ..kit.unavailable import unavailable
from .brokers import Unavailable, mortal_rabbitmq
from .brokers._rabbitmq import MortalRabbitMQ

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("blocked"),  # of one RabbitMQ
]


@pytest.fixture(scope="module")
def rabbit(authority: Path) -> Iterator[MortalRabbitMQ]:
    """One of its own, for its alarms would block the tests of others."""
    try:
        with mortal_rabbitmq(authority) as broker:
            yield broker
    except Unavailable as error:
        unavailable(f"no rabbitmq: {error}")


async def test_a_memory_alarm(rabbit: MortalRabbitMQ) -> None:
    """Sending waits, a receiver goes on, who is cancelled has sent nothing, and nothing is lost or sent twice."""
    async with Connection(rabbit.server.url(), dialect="0-9-1") as connection:
        events = connection.events()
        queue = (await connection.native.declare_queue(exclusive=True)).name
        async with connection.sender(queue) as sender, connection.receiver(queue) as receiver:
            await sender.send(b"before")
            await anyio.to_thread.run_sync(rabbit.alarm, True)
            try:
                # It says so to those who publish, when they do; and reads nothing more of them.
                first = await sender.submit(b"the one that tells")
                with anyio.fail_after(60):
                    blocked = await anext(events)
                assert isinstance(blocked, ConnectionBlocked)
                assert "memory" in blocked.reason
                with anyio.move_on_after(0.2) as scope:
                    await sender.send(b"never")
                assert scope.cancelled_caught
                before = await receiver.receive()
                assert before.message.body == b"before"
            finally:
                await anyio.to_thread.run_sync(rabbit.alarm, False)
            with anyio.fail_after(60):
                assert await anext(events) == ConnectionUnblocked()
                await first.outcome()
                await sender.send(b"after")
                before.accept()
                for body in (b"the one that tells", b"after"):
                    with await receiver.receive() as message:
                        assert message.body == body
            assert await connection.native.get(queue) is None
