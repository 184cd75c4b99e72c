"""Recipes for pytest-asyncio: run `pytest test_with_asyncio.py`."""

import asyncio

import pytest
from shop import Shop, connect, place


@pytest.fixture
def connection(amqp_broker):
    return connect(amqp_broker.url)  # opened by the test, whose task closes it


@pytest.mark.asyncio  # not needed with asyncio_mode = "auto"
async def test_placed(amqp_broker, connection):
    """What was sent is in the queue."""
    async with connection:
        await place(connection, 1)
    assert amqp_broker.queue("orders").depth == 1


@pytest.mark.asyncio
async def test_shipped(connection):
    """The worker ships what is placed."""
    shop = Shop()
    async with asyncio.timeout(5), connection, shop.worker(connection):
        await place(connection, 1)
        while shop.shipped != {1}:
            await asyncio.sleep(0.01)


def test_without_a_loop(amqp_broker):
    """A test that is no coroutine has the same broker, in a thread."""

    async def main():
        async with connect(amqp_broker.url) as connection:
            await place(connection, 1)

    asyncio.run(main())
    assert amqp_broker.queue("orders").depth == 1
