"""Consumers of AMQP 0-9-1 that have a place to lose: the only one of its queue, and one that reads a stream."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from amqp10 import Connection, ConnectionClosed, LinkDetached, Reconnect, Source, StreamOffset

from ._matrix import fresh_name
from .brokers import Server

pytestmark = [pytest.mark.anyio, pytest.mark.interop, pytest.mark.timeout(600)]


@pytest.fixture
def anyio_backend() -> str:
    return "trio"


@pytest.fixture(params=["rabbitmq", "embedded"])
def url(request: pytest.FixtureRequest) -> str:
    """Where each of the two listens."""
    found: str = request.getfixturevalue(request.param).url()
    return found


@pytest.mark.parametrize("credit", [2, 0], ids=["settles late", "by hand"])
async def test_exclusive(url: str, credit: int) -> None:
    """It stays the only one: while it holds more than its credit, and where it has no credit between two rounds."""
    async with Connection(url, dialect="0-9-1") as connection, Connection(url, dialect="0-9-1") as others:
        queue = fresh_name()
        await connection.native.declare_queue(queue)
        async with connection.sender(queue) as sender:
            await sender.send_many([b"%d" % n for n in range(8)])
        stolen: list[Any] = []
        refused, refusals = anyio.create_memory_object_stream[Any](1)

        async def steal() -> None:
            while True:
                try:
                    async with others.receiver(queue) as thief:
                        stolen.append((await thief.receive()).message.body)
                except LinkDetached as error:
                    await refused.send(error.info["reply-code"])

        async def refused_again() -> None:
            for _ in range(3):  # of which two may have been under way before
                assert await refusals.receive() == 403

        async with connection.receiver(queue, credit=credit, exclusive=True) as receiver:
            deliveries = []
            with anyio.fail_after(60):
                if not credit:
                    receiver.add_credit(1)
                deliveries.append(await receiver.receive())
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(steal)
                    for _ in range(7):
                        await refused_again()
                        if not credit:
                            receiver.add_credit(1)
                        deliveries.append(await receiver.receive())
                    await refused_again()
                    tasks.cancel_scope.cancel()
            assert [delivery.message.body for delivery in deliveries] == [b"%d" % n for n in range(8)]
            for delivery in deliveries:
                delivery.accept()
        refused.close()
        refusals.close()
        assert stolen == []
        assert await connection.native.delete_queue(queue) == 0


@pytest.mark.parametrize("kind", ["classic", "quorum"])
async def test_single_active(url: str, kind: str) -> None:
    """Of a queue that was declared so, the first consumer keeps its place while it holds more than its credit."""
    queue, arguments = fresh_name(), {"x-queue-type": kind, "x-single-active-consumer": True}
    async with Connection(url, dialect="0-9-1") as connection, Connection(url, dialect="0-9-1") as others:
        for each in (connection, others):  # as programs do: they begin with declaring what they need
            await each.native.declare_queue(queue, durable=True, arguments=arguments)
        async with connection.sender(queue) as sender:
            await sender.send_many([b"%d" % n for n in range(8)])
        async with connection.receiver(queue, credit=2) as active, others.receiver(queue, credit=2) as standby:
            with anyio.fail_after(60):
                held = [await active.receive() for _ in range(8)]
            assert [delivery.message.body for delivery in held] == [b"%d" % n for n in range(8)]
            assert standby.buffered == 0
            await active.close()
            with anyio.fail_after(60):
                for delivery in [await standby.receive() for _ in range(8)]:
                    delivery.accept()
        assert await connection.native.delete_queue(queue) == 0


async def test_an_early_drain_of_a_stream(rabbitmq: Server) -> None:
    """Nothing has shown that it is one: RabbitMQ ends the connection, once. With `reconnect` the work just goes on."""
    url, queue = rabbitmq.url(), fresh_name()
    async with Connection(url, dialect="0-9-1") as connection:
        await connection.native.declare_queue(queue, durable=True, arguments={"x-queue-type": "stream"})
    async with Connection(url, dialect="0-9-1") as connection:
        async with connection.receiver(queue, credit=0) as receiver:
            receiver.add_credit(1)
            with pytest.raises(ConnectionClosed) as closed, anyio.fail_after(60):
                await receiver.drain()
            assert (closed.value.condition, closed.value.info["reply-code"]) == ("amqp:connection:forced", 540)
    quick = Reconnect(initial_delay=0.02, max_delay=0.2)
    async with (
        Connection(url, dialect="0-9-1", reconnect=quick) as connection,
        connection.receiver(queue, credit=0) as receiver,
        connection.sender(queue) as sender,
    ):
        receiver.add_credit(1)
        with anyio.fail_after(60):
            await receiver.drain()
            receiver.add_credit(1)
            got = False
            while not got:  # what is sent before its consumer is there again is not for it
                await sender.send(b"x")
                with anyio.move_on_after(1):
                    with await receiver.receive() as message:
                        got = message.body == b"x"
            receiver.add_credit(1)
            await receiver.drain()
            assert receiver.credit == 0
        await connection.native.delete_queue(queue)


async def test_no_drain_of_a_stream(url: str) -> None:
    """It ends at once, the connection goes on, and the next round where this one was."""
    async with Connection(url, dialect="0-9-1") as connection:
        queue = fresh_name()
        await connection.native.declare_queue(queue, durable=True, arguments={"x-queue-type": "stream"})
        async with connection.sender(queue) as sender:
            for number in range(4):
                await sender.send(b"%d" % number)
        async with connection.receiver(Source(queue, filters=[StreamOffset("first")]), credit=0) as receiver:
            got: list[Any] = []
            with anyio.fail_after(60):
                while len(got) < 4:
                    receiver.add_credit(1)
                    with await receiver.receive() as message:
                        got.append(message.body)
                    receiver.add_credit(1)
                    await receiver.drain()
                    for delivery in await receiver.receive_batch(9, max_wait=0):
                        got.append(delivery.message.body)
                        delivery.accept()
        assert got == [b"0", b"1", b"2", b"3"]
        await connection.native.delete_queue(queue)
