"""How much memory the messages of a broker may take: senders wait, receivers go on."""

from __future__ import annotations

import logging
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import ByteStream

from amqp10 import AmqpError, Connection
from amqp10.broker import Broker, BrokerLimits
from amqp10.engine import dialect
from amqp10.errors import (
    MessageRejected,
)

from ...kit.broker.victims import NAMES, WAYS, fill_and_free
from ...kit.waiting import until

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


class TestParts:
    """Messages that have arrived only in part, of all connections together: nobody else can bound them."""

    @pytest.mark.parametrize("name", sorted(name for name in NAMES if "streaming" in dialect(name).capabilities))
    @pytest.mark.parametrize("users", [None, {"ann": "secret"}])
    async def test_connections_with_a_part_each(self, name: str, users: dict[str, str] | None) -> None:
        """What is beyond the limit is refused; when the connections are gone, there is room again."""
        limits = BrokerLimits(memory=1_000_000) if users is None else BrokerLimits(memory_by_user=1_000_000)
        refused: list[str] = []
        async with Broker(users=users, limits=limits, queues=["q"]) as broker:
            url = broker.url if users is None else broker.url.replace("//", "//ann:secret@")

            async def begin() -> None:
                try:
                    async with Connection(url, dialect=name) as connection, connection.sender("q") as sender:
                        async with sender.stream(size=600_000) as body:
                            await body.send(bytes(500_000))
                            while True:
                                await anyio.sleep(0.01)
                                await body.send(b"x")
                except AmqpError as error:
                    refused.append(str(error))

            for _ in range(2):
                refused.clear()
                async with anyio.create_task_group() as tasks:
                    for _ in range(6):
                        tasks.start_soon(begin)
                    await until(lambda: len(refused) == 4)
                    await anyio.sleep(0.1)
                    assert len(refused) == 4
                    assert all("no memory is left for incomplete messages" in each for each in refused)
                    tasks.cancel_scope.cancel()
            async with Connection(url, dialect=name) as connection, connection.sender("q") as sender:
                async with sender.stream(size=1_500_000) as body:  # alone, a message may be larger than the limit
                    await body.send(bytes(1_500_000))
            assert broker.queue("q").depth == 1

    async def test_in_0_9_1(self) -> None:
        """The same for a client that says how much comes, and sends half of it."""
        async with Broker(limits=BrokerLimits(memory=1_000_000), queues=["q"], anonymous=True) as broker:
            async with AsyncExitStack() as stack:
                said = [await stack.enter_async_context(half_a_publish(broker, 500_000)) for _ in range(3)]
                await heard(said[2], b"no memory is left for incomplete messages")
            async with half_a_publish(broker, 500_000) as other, Connection(broker.url) as connection:
                async with connection.sender("q") as sender:
                    await sender.send(b"there is room")
                with anyio.move_on_after(0) as waiting:
                    await other.receive()
                assert waiting.cancelled_caught


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


async def heard(stream: ByteStream, octets: bytes) -> None:
    """Wait until they come."""
    data = b""
    with anyio.fail_after(60):
        while octets not in data:
            data += await stream.receive()


@asynccontextmanager
async def half_a_publish(broker: Broker, octets: int) -> AsyncIterator[ByteStream]:
    """A client of 0-9-1 that has published that many octets of a message of twice as many."""
    stream = broker.open_stream()
    start_ok = b"\0\x0a\0\x0b\0\0\0\0\x09ANONYMOUS\0\0\0\0\x05en_US"
    tune_ok = b"\0\x0a\0\x1f" + struct.pack(">HIH", 100, 131_072, 0)
    await stream.send(b"AMQP\0\0\x09\x01" + frame(1, 0, start_ok) + frame(1, 0, tune_ok))
    await heard(stream, b"\0\x0a\0\x1e")  # connection.tune
    await stream.send(frame(1, 0, b"\0\x0a\0\x28\x01/\0\0"))
    await heard(stream, b"\0\x0a\0\x29")  # connection.open-ok
    await stream.send(frame(1, 1, b"\0\x14\0\x0a\0"))
    await heard(stream, b"\0\x14\0\x0b")  # channel.open-ok
    await stream.send(frame(1, 1, b"\0\x3c\0\x28\0\0\0\x01q\0"))
    await stream.send(frame(2, 1, struct.pack(">HHQH", 60, 0, 2 * octets, 0)))
    for _ in range(octets // 100_000):
        await stream.send(frame(3, 1, bytes(100_000)))
    try:
        yield stream
    finally:
        await stream.aclose()
