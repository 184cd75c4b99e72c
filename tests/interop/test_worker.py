"""Workers on the real brokers: handlers that fail, connections that are cut, delays that the broker keeps."""

from __future__ import annotations

import random
import time
from collections import Counter
from itertools import pairwise
from typing import Literal

import anyio
import pytest

from amqp10 import Connection, Message, Reconnect, Retries, Retry, Unsupported, Worker
from amqp10.rabbitmq import management, queue_address
from amqp10.testing import FaultProxy

from ._matrix import Peer, fresh_name
from .brokers import Server

pytestmark = [pytest.mark.anyio, pytest.mark.interop, pytest.mark.timeout(600), pytest.mark.capability("workers")]

TOTAL = 300
BAD = {number for number in range(TOTAL) if number % 60 == 7}


async def test_cut_and_failing(peer: Peer) -> None:
    """Three cuts, and handlers that fail at random: each is handled, or a dead letter with its reason. None is lost."""
    chance = random.Random(21)
    handled: Counter[int] = Counter()
    dead: Counter[int] = Counter()

    async def handle(message: Message) -> None:
        await anyio.sleep(0.001)
        if message.body in BAD:
            raise ValueError("a bad order")
        if chance.random() < 0.1:
            raise Retry(delay=0.01)
        handled[message.body] += 1

    async with Connection(peer.url()) as connection:
        address, letters = await peer.queue(connection), await peer.queue(connection)
        async with connection.sender(address) as sender:
            await sender.send_many(Message(number, durable=True) for number in range(TOTAL))
    retries = Retries(attempts=20, initial_delay=0, max_delay=0.01, never=(ValueError,))
    reconnect = Reconnect(initial_delay=0.05)
    async with FaultProxy(peer.url()) as proxy, Connection(proxy.url, reconnect=reconnect) as connection:
        async with Worker(connection, address, handle, retries=retries, dead_letters=letters) as worker:
            with anyio.fail_after(120):
                for cuts in (1, 2, 3):
                    while len(handled) < TOTAL * cuts // 4:  # noqa: ASYNC110
                        await anyio.sleep(0.005)
                    proxy.cut(reset=cuts == 2)
                while len(handled) < TOTAL - len(BAD) or worker.dead_lettered < len(BAD):  # noqa: ASYNC110
                    await anyio.sleep(0.005)
    async with Connection(peer.url()) as connection:
        async with connection.receiver(letters) as receiver:
            while batch := await receiver.receive_batch(100, max_wait=2):
                for delivery in batch:
                    with delivery as message:
                        dead[message.body] += 1
                        reason = message.message_annotations["x-opt-dead-letter-description"]
                        assert reason == "ValueError: a bad order"
        async with connection.receiver(address) as receiver:
            for delivery in await receiver.receive_batch(100, max_wait=2):
                assert delivery.message.body in handled.keys() | dead.keys()  # it came again after a cut
                delivery.accept()
    assert handled.keys() == set(range(TOTAL)) - BAD
    assert dead.keys() == BAD


async def test_delay_by_broker(peer: Peer) -> None:
    """The message is the broker's until it is time, and its attempts are counted; or it is said what to do instead."""
    counts: list[tuple[int, float]] = []

    async def handle(message: Message) -> None:
        counts.append((message.delivery_count, time.monotonic()))
        raise Retry(delay=1)

    async with Connection(peer.url()) as connection:
        address, letters = await peer.queue(connection, "quorum"), await peer.queue(connection)
        worker = Worker(
            connection, address, handle, retries=Retries(attempts=3), delay_by="broker", dead_letters=letters
        )
        if peer.name not in ("artemis", "embedded") and not peer.newest:
            with pytest.raises(Unsupported, match="delay_queue="):
                async with worker:
                    pass
            return
        async with connection.sender(address) as sender:
            await sender.send("x")
        async with worker:
            with anyio.fail_after(60):
                while not worker.dead_lettered:
                    assert worker.held == 0
                    await anyio.sleep(0.01)
        assert [count for count, _ in counts] == [0, 1, 2]
        for (_, before), (_, after) in pairwise(counts):
            assert after - before > 0.9  # the broker's clock is in milliseconds
        async with connection.receiver(letters) as receiver:
            with await receiver.receive() as message:
                assert message.message_annotations["x-opt-dead-letter-attempts"] == 3


@pytest.mark.parametrize("anyio_backend", ["trio"])
@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize("dialect", ["1.0", "0-9-1"])
@pytest.mark.parametrize("version", ["rabbitmq", "rabbitmq_43"])
async def test_delay_queue(
    request: pytest.FixtureRequest, version: str, dialect: str, kind: Literal["classic", "quorum"]
) -> None:
    """A declared queue keeps what is tried again: its time-to-live and dead-letter exchange lead it back."""
    rabbitmq: Server = request.getfixturevalue(version)
    seen: list[tuple[int, float]] = []
    orders, later, letters = (fresh_name() for _ in range(3))
    back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": orders}

    async def handle(message: Message) -> None:
        assert (message.message_id, message.application_properties) == ("m", {"k": 2})
        seen.append((message.delivery_count, time.monotonic()))
        raise Retry(delay=0.5)

    async with Connection(rabbitmq.url()) as declaring, management(declaring) as rabbit:
        await rabbit.declare_queue(orders, kind)
        await rabbit.declare_queue(later, kind, arguments=back)
        await rabbit.declare_queue(letters, kind)
        async with Connection(rabbitmq.url(), dialect=dialect) as connection:
            names = [queue_address(name) if dialect == "1.0" else name for name in (orders, later, letters)]
            async with connection.sender(names[0]) as sender:
                await sender.send(Message("x", message_id="m", application_properties={"k": 2}, durable=True))
            retries = Retries(attempts=3)
            async with Worker(
                connection, names[0], handle, retries=retries, delay_queue=names[1], dead_letters=names[2]
            ) as worker:
                with anyio.fail_after(60):
                    while not worker.dead_lettered:
                        assert worker.held == 0
                        await anyio.sleep(0.01)
            async with connection.receiver(names[2]) as receiver:
                with await receiver.receive() as message:
                    assert message.message_annotations["x-opt-dead-letter-attempts"] == 3
        for name in (orders, later, letters):
            await rabbit.delete_queue(name)
    assert [count for count, _ in seen] == [0, 1, 2]
    assert all(after - before >= 0.49 for (_, before), (_, after) in pairwise(seen))  # the broker's own milliseconds


@pytest.mark.parametrize("anyio_backend", ["trio"])
@pytest.mark.parametrize(("broker", "dialect"), [("rabbitmq", "0-9-1"), ("broker_j", "0-9-1"), ("broker_j", "0-10")])
async def test_older_dialects(request: pytest.FixtureRequest, broker: str, dialect: str) -> None:
    """The same objects: a bounded number at once, retries here, dead letters, order by key."""
    server = request.getfixturevalue(broker)
    seen: dict[str, list[int]] = {"a": [], "b": []}
    running, peak = 0, 0

    async def handle(message: Message) -> None:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await anyio.sleep(0.002)
        running -= 1
        number = message.body
        if number == 3 and message.delivery_count == 0:
            raise Retry(delay=0.05)
        if number == 4:
            raise ValueError("no fours")
        seen["ab"[number % 2]].append(number)

    async with Connection(server.url(), dialect=dialect) as connection:
        address, letters = fresh_name(), fresh_name()
        for name in (address, letters):
            await connection.native.declare_queue(name, durable=True)
        async with connection.sender(address) as sender:
            await sender.send_many(range(20))
        async with Worker(
            connection,
            address,
            handle,
            concurrency=4,
            retries=Retries(attempts=2, initial_delay=0.01),
            dead_letters=letters,
            key=lambda message: message.body % 2,
        ) as worker:
            with anyio.fail_after(60):
                while worker.handled + worker.dead_lettered < 20:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
        async with connection.receiver(letters) as receiver:
            with await receiver.receive() as message:
                assert message.body == 4
                assert message.message_annotations["x-opt-dead-letter-attempts"] == 2
        for name in (address, letters):
            await connection.native.delete_queue(name)
    assert peak == 2  # as many as there are keys
    assert seen == {"a": [0, 2, *range(6, 20, 2)], "b": list(range(1, 20, 2))}
