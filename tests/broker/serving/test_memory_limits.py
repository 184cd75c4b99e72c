"""How much memory the messages of a broker may take: senders wait, receivers go on."""

from __future__ import annotations

import logging

import anyio
import anyio.lowlevel
import pytest

from amqp10 import Connection
from amqp10.broker import Broker, BrokerLimits
from amqp10.errors import (
    MessageRejected,
)

from .victims import NAMES, WAYS, fill_and_free, until

pytestmark = [pytest.mark.anyio, pytest.mark.capability("hostile peers")]


class TestMemory:
    """All messages in memory together: senders wait, receivers go on."""

    @pytest.mark.parametrize("name", NAMES)
    async def test_senders_wait_until_there_is_room(self, name: str) -> None:
        """Each dialect's senders are stopped at the watermark by its own means, and go on when a fifth is free."""
        limits = BrokerLimits(memory=1_000_000)
        async with Broker(limits=limits, queues=["q"], credit=10) as broker, Connection(broker.url) as other:
            async with (
                Connection(broker.url, dialect=name) as connection,
                connection.sender("q") as sender,
                other.receiver("q", credit=1) as receiver,
                anyio.create_task_group() as tasks,
            ):
                sent = 0

                async def send() -> None:
                    nonlocal sent
                    for _ in range(40):
                        await sender.send(bytes(50_000))
                        sent += 1

                tasks.start_soon(send)
                await until(lambda: broker.blocked is not None)
                await anyio.wait_all_tasks_blocked()
                assert "memory" in str(broker.blocked)
                assert sum(queue.bytes for queue in broker.queues) <= 1_250_000
                assert sent < 40
                with anyio.fail_after(60):
                    for _ in range(40):
                        with await receiver.receive() as message:
                            assert len(bytes(message.body)) == 50_000
                assert broker.blocked is None
            assert sent == 40

    async def test_who_ignores_it_is_refused(self) -> None:
        """What still comes by credit given before is taken as far as a quarter more; then it is rejected."""
        limits = BrokerLimits(memory=1_000_000)
        async with Broker(limits=limits, queues=["q", "r"], credit=100) as broker:
            async with Connection(broker.url) as connection, connection.sender("q") as sender:
                outcomes = []

                async def send() -> None:
                    try:
                        await sender.send(bytes(100_000))
                    except MessageRejected as error:
                        outcomes.append(error.condition)

                async with anyio.create_task_group() as tasks:
                    for _ in range(60):
                        tasks.start_soon(send)
                    await until(lambda: bool(outcomes))
                    assert set(outcomes) == {"amqp:resource-limit-exceeded"}
                    held = sum(queue.bytes for queue in broker.queues)
                    tasks.cancel_scope.cancel()
            assert 1_000_000 < held <= 1_250_000 + 600_000  # what one read brought

    async def test_user_and_memory_do_not_undo_each_other(self) -> None:
        """Senders go on when neither the user nor the memory says that they must wait."""
        async with Broker(limits=BrokerLimits(memory=100_000), queues=["q"]) as broker:
            async with Connection(broker.url) as connection:
                async with connection.sender("q") as sender:
                    await sender.send(bytes(120_000))
                await until(lambda: broker.blocked is not None)
                broker.block("maintenance")
                broker.unblock()
                assert "memory" in str(broker.blocked)
                broker.block("maintenance")
                async with connection.receiver("q") as receiver:
                    (await receiver.receive()).accept()
                await until(lambda: not broker.queue("q").depth and broker.blocked == "maintenance")
                broker.unblock()
                assert broker.blocked is None
                async with connection.sender("q") as sender:
                    await sender.send("again")

    @pytest.mark.parametrize("way", WAYS)
    async def test_all_that_is_freed_counts(self, way: str, caplog: pytest.LogCaptureFixture) -> None:
        """However messages go, the memory is seen to be free again."""
        caplog.set_level(logging.WARNING)
        async with Broker(limits=BrokerLimits(memory=50_000), queues=["q"], topics=["topic.t"]) as broker:
            async with Connection(broker.url) as connection:
                await fill_and_free(connection, way, caplog)
                assert broker.blocked is None

    async def test_a_stream_keeps_its_last(self) -> None:
        """The last message of a stream stays, and counts."""
        stream = {"x-queue-type": "stream", "x-max-length-bytes": 1000}
        async with Broker(limits=BrokerLimits(memory=50_000), queues={"q": stream}) as broker:
            async with Connection(broker.url) as connection, connection.sender("q") as sender:
                await sender.send(bytes(60_000))
                await until(lambda: broker.blocked is not None)
                assert broker.queue("q").bytes >= 60_000
