"""Exchanges, queues and bindings by `connection.native`: the same calls do the same in every dialect with them."""

from __future__ import annotations

import pytest

from amqp10 import Connection, RequestRefused
from amqp10.broker import Broker

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["0-9-1", "0-9", "0-10"])
def dialect(request: pytest.FixtureRequest) -> str:
    """Each dialect that declares, but for the draft 0-9: its tables have no names with hyphens, so no `alternate`."""
    name: str = request.param
    return name


async def test_the_same_calls(dialect: str) -> None:
    """Queues and exchanges are declared, found, bound, unbound and deleted with one set of arguments."""
    async with Broker(auto_create=False) as broker, Connection(broker.url, dialect=dialect) as connection:
        native = connection.native
        await native.declare_exchange("dead", "fanout")
        await native.declare_exchange("events", "topic", alternate="dead")
        await native.declare_exchange("events", "topic", passive=True)
        assert await native.exchange_exists("events")
        assert (await native.exchange("events")).name == "events"
        assert await native.exchange("nowhere") is None
        assert (await native.declare_queue("orders", alternate="dead")).name == "orders"
        assert (await native.declare_queue("orders", passive=True)).messages == 0
        await native.bind("orders", "events", "order.#", {})
        async with connection.sender("/exchanges/events/order.new") as sender:
            await sender.send("one")
        assert (await native.queue("orders")).messages == 1
        await native.unbind("orders", "events", "order.#", {})
        assert await native.purge_queue("orders") == 1
        assert await native.delete_queue("orders", if_unused=True, if_empty=True) == 0
        assert await native.queue("orders") is None
        await native.delete_exchange("events", if_unused=True)
        assert not await native.exchange_exists("events")


async def test_alternate_is_the_dead_letter_exchange(dialect: str) -> None:
    """What a queue rejects goes to the exchange that `alternate` names, in each dialect."""
    async with Broker(auto_create=False) as broker, Connection(broker.url, dialect=dialect) as connection:
        native = connection.native
        await native.declare_exchange("dead", "fanout")
        await native.declare_queue("graves")
        await native.bind("graves", "dead")
        await native.declare_queue("orders", alternate="dead")
        async with connection.sender("orders") as sender, connection.receiver("orders") as receiver:
            await sender.send("bad")
            (await receiver.receive()).reject()
        async with connection.receiver("graves") as graves:
            assert (await graves.receive()).message.body == "bad"


@pytest.mark.parametrize("declare", ["declare_queue", "declare_exchange"])
async def test_passive_finds_only(dialect: str, declare: str) -> None:
    """`passive` makes nothing: what is not there is refused."""
    async with Broker(auto_create=False) as broker, Connection(broker.url, dialect=dialect) as connection:
        with pytest.raises(RequestRefused, match="nowhere"):
            await getattr(connection.native, declare)("nowhere", passive=True)


@pytest.mark.parametrize("version", ["0-9-1", "0-9"])
async def test_get_is_no_consumer(version: str) -> None:
    """A queue that goes with its last consumer does not go with a `get`, which finds it empty."""
    async with Broker(auto_create=False) as broker, Connection(broker.url, dialect=version) as connection:
        native = connection.native
        await native.declare_queue("orders", auto_delete=True)
        assert await native.get("orders") is None
        assert await native.queue("orders") is not None
        async with connection.receiver("orders"):
            pass
        assert await native.queue("orders") is None
