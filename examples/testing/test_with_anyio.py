"""Recipes for anyio's plugin, which comes with anyio: run `pytest test_with_anyio.py`."""

from contextlib import ExitStack
from urllib.parse import urlsplit

import anyio
import pytest
from anyio.to_thread import run_sync
from shop import Shop, connect, place

from amqp10 import Connection, Error, LinkDetached, MessageRejected, Reconnect, Rejected
from amqp10.broker import Broker
from amqp10.testing import BackgroundBroker, Disposition, FaultProxy, Transfer

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"  # without this fixture each test runs on asyncio and on trio


async def until(condition):
    """Wait for what other tasks do."""
    with anyio.fail_after(5):
        while not condition():
            await anyio.sleep(0.01)


async def test_placed(amqp_broker):
    """What was sent is in the queue."""
    async with connect(amqp_broker.url) as connection:
        await place(connection, 1)
        async with connection.browser("orders") as browser:
            assert [delivery.message.body async for delivery in browser] == [{"order": 1}]


async def test_shipped_and_dead(amqp_broker):
    """The worker ships a good order, and puts a bad one aside."""
    shop = Shop()
    async with connect(amqp_broker.url) as connection, shop.worker(connection):
        await place(connection, 1)
        await place(connection, -1)
        await until(lambda: "orders.dead" in [each.name for each in amqp_broker.queues])
        await until(
            lambda: amqp_broker.queue("orders.dead").depth == 1 and shop.shipped == {1}
        )


async def test_the_connection_is_cut(amqp_broker):
    """As RabbitMQ, Artemis and Service Bus do it: links are not resumed, so messages come
    again.
    """
    shop = Shop()
    async with FaultProxy(amqp_broker.url) as proxy:
        quick = Reconnect(initial_delay=0.01, resume_timeout=0)
        async with connect(proxy.url, quick) as connection, shop.worker(connection):
            for order in range(20):
                if order % 7 == 0:
                    proxy.cut(reset=True)
                await place(connection, order)
            await until(lambda: shop.shipped == set(range(20)))


async def test_the_broker_restarts(tmp_path):
    """It comes back on the same port with what it stored, and nothing is lost."""
    shop = Shop()
    quick = Reconnect(initial_delay=0.01, max_delay=0.1, resume_timeout=0)
    with ExitStack() as running:
        broker = running.enter_context(BackgroundBroker(store=tmp_path / "store"))
        again = BackgroundBroker(store=tmp_path / "store", port=urlsplit(broker.url).port)
        async with connect(broker.url, quick) as connection:
            for order in range(10):
                await place(connection, order)
            # In a thread, because the broker waits for our side of the connection
            await run_sync(running.close)
            running.enter_context(again)
            async with shop.worker(connection):
                for order in range(10, 20):
                    await place(connection, order)
                await until(lambda: shop.shipped == set(range(20)))


async def test_no_such_queue():
    """A broker that makes no queues by itself, as RabbitMQ."""
    async with (
        Broker(queues=["others"], auto_create=False) as broker,
        connect(broker.url) as connection,
    ):
        with pytest.raises(LinkDetached, match="orders"):
            await place(connection, 1)


async def test_refused(amqp_peer):
    """A peer that you write frame by frame: this one has no room."""

    async def server():
        await amqp_peer.accept_connection()
        await amqp_peer.accept_session()
        await amqp_peer.accept_link(credit=1)
        order = await amqp_peer.expect(Transfer)
        rejected = Rejected(Error("amqp:resource-limit-exceeded", "the queue is full"))
        await amqp_peer.send(
            Disposition(role=True, first=order.delivery_id, settled=True, state=rejected)
        )

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server)
        with pytest.raises(MessageRejected, match="the queue is full"):
            async with Connection(amqp_peer.url, close_timeout=0.1) as connection:
                await place(connection, 1)
