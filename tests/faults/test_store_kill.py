"""A broker that is killed in mid-stream, again and again, and begins again on the same store and port."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from amqp10 import Connection, Message, Reconnect, Sender, Source, StreamOffset
from amqp10.engine import ReceiverSettleMode

from ..kit.broker.draining import take_the_rest
from ..kit.counts import KILLS
from ..kit.processes.stored_broker import StoredBroker

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.capability("nothing lost")]

SENDERS = 8
EACH = 300
CREDIT = 50


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[StoredBroker]:
    broker = StoredBroker(tmp_path / "store")
    yield broker
    broker.kill()


@pytest.mark.spec("3.2.1", "durable messages are not lost when an intermediary is terminated and restarted")
@pytest.mark.parametrize("mode", ["first", "second"])
async def test_nothing_accepted_is_lost(
    broker: StoredBroker, mode: ReceiverSettleMode, record_property: Callable[[str, object], None]
) -> None:
    """Each message whose `send` returned is received, whenever the broker is killed; in mode "second" once.

    Those are counted that come again when all have come, too, and those that are left in the queue then.
    """
    accepted: set[int] = set()
    received: Counter[int] = Counter()
    total = SENDERS * EACH
    progress = anyio.Event()

    def connecting(container_id: str) -> Connection:
        return Connection(broker.url, container_id=container_id, reconnect=Reconnect(initial_delay=0.02, max_delay=0.2))

    async def send(sender: Sender, first: int) -> None:
        nonlocal progress
        for number in range(first, first + EACH):
            await sender.send(Message(number, durable=True))
            accepted.add(number)
            progress.set()
            progress = anyio.Event()

    async def send_all() -> None:
        async with connecting("s") as connection, connection.sender("orders", receiver_settle_mode=mode) as sender:
            async with anyio.create_task_group() as tasks:
                for number in range(SENDERS):
                    tasks.start_soon(send, sender, number * EACH)

    async def receive_all() -> None:
        async with connecting("r") as connection:
            async with connection.receiver("orders", credit=CREDIT, receiver_settle_mode=mode) as receiver:
                while len(received) < total:
                    delivery = await receiver.receive()
                    received[delivery.message.body] += 1
                    delivery.accept()

    async def kill() -> None:
        for kill in range(KILLS):
            while len(accepted) < total * (kill + 1) // (KILLS + 1):
                await progress.wait()
            broker.kill()
            await anyio.to_thread.run_sync(broker.start)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send_all)
        tasks.start_soon(receive_all)
        tasks.start_soon(kill)

    received.update(await take_the_rest(broker.url, "orders"))
    lost = accepted - received.keys()
    duplicates = received.total() - len(received)
    record_property("duplicates", duplicates)
    print(f"accepted {len(accepted)}, received {received.total()}, duplicates {duplicates}, lost {len(lost)}")
    assert (len(accepted), lost) == (total, set())
    # Only what was on its way in either direction at a kill can come twice.
    assert duplicates <= (0 if mode == "second" else KILLS * (SENDERS + CREDIT))


async def test_what_waits_survives(broker: StoredBroker) -> None:
    """A queue that nobody takes from has all of it in order after each kill, and the rest comes behind it."""
    for number in range(KILLS):
        async with Connection(broker.url) as connection, connection.sender("orders") as sender:
            await sender.send_many(Message(each, durable=True) for each in range(number * 100, number * 100 + 100))
        broker.kill()
        await anyio.to_thread.run_sync(broker.start)
    async with Connection(broker.url) as connection, connection.receiver("orders", credit=1000) as receiver:
        await receiver.drain()
        deliveries = await receiver.receive_batch(1000, max_wait=0)
        assert [delivery.message.body for delivery in deliveries] == list(range(KILLS * 100))
        assert {delivery.message.delivery_count for delivery in deliveries} == {0}


async def test_a_stream_survives(broker: StoredBroker) -> None:
    """All of it, durable or not, with its offsets, after each kill; and it goes on counting."""
    async with Connection(broker.url, dialect="0-9-1") as older:
        await older.native.declare_queue("log", durable=True, arguments={"x-queue-type": "stream"})
    for number in range(KILLS):
        async with Connection(broker.url) as connection, connection.sender("log") as sender:
            await sender.send_many(Message(each) for each in range(number * 50, number * 50 + 50))
        broker.kill()
        await anyio.to_thread.run_sync(broker.start)
        source = Source("log", filters=[StreamOffset(10)])
        async with Connection(broker.url) as connection, connection.receiver(source, credit=1000) as receiver:
            await receiver.drain()
            deliveries = await receiver.receive_batch(1000, max_wait=0)
            found = [(each.message.body, each.message.message_annotations["x-stream-offset"]) for each in deliveries]
            assert found == [(each, each) for each in range(10, number * 50 + 50)]
