"""What quorum queues of RabbitMQ 4.3 do, as a program of ours sees it: of RabbitMQ itself, and of the embedded broker.

Each test asks both for the same, so that neither drifts from the other unseen.
"""

from __future__ import annotations

import secrets
import time
from contextlib import suppress

import anyio
import anyio.to_thread
import pika
import pytest

from amqp10 import (
    Connection,
    ConnectionLost,
    DeliveriesStale,
    Int,
    LinkDetached,
    ManagementError,
    Message,
    MessageRejected,
    ReceiverActivity,
    StaleDelivery,
    Symbol,
    UInt,
)
from amqp10.rabbitmq import exchange_address, management, queue_address
from amqp10.testing import FaultProxy

from ._matrix import Serving

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.timeout(600),
    # What the broker does says nothing about our event loop.
    pytest.mark.parametrize("anyio_backend", ["trio"]),
    pytest.mark.capability("RabbitMQ management"),
]


@pytest.fixture(params=["rabbitmq_43", "embedded"])
def broker(request: pytest.FixtureRequest) -> Serving:
    """RabbitMQ 4.3 or a later one, and the broker that does the same."""
    server: Serving = request.getfixturevalue(request.param)
    return server


async def quorum_queue(connection: Connection, **arguments: object) -> str:
    """The address of a new one, with these arguments."""
    name = f"q-{secrets.token_hex(4)}"
    given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    async with management(connection) as manager:
        await manager.declare_queue(name, "quorum", arguments=given)
    return queue_address(name)


async def test_key_of_an_exchange(broker: Serving) -> None:
    """It is in the address, of the link or of the message; without one it is empty, whatever the subject."""
    async with Connection(broker.url()) as connection, management(connection) as manager:
        queue, exchange = (f"{kind}-{secrets.token_hex(4)}" for kind in ("q", "e"))
        await manager.declare_queue(queue, "classic")
        await manager.declare_exchange(exchange, "topic")
        await manager.bind(exchange, queue=queue, key="#")
        async with connection.sender(exchange_address(exchange)) as sender:
            await sender.send(Message("", subject="a.b"))
        async with connection.sender(exchange_address(exchange, "of.link")) as sender:
            await sender.send(Message("of.link", subject="a.b"))
        async with connection.sender(None) as sender:
            await sender.send(Message("", to=exchange_address(exchange), subject="a.b"))
            await sender.send(Message("to/it", to=exchange_address(exchange, "to/it")))
        async with connection.receiver(queue_address(queue)) as receiver:
            for _ in range(4):
                with await receiver.receive() as message:
                    assert message.message_annotations["x-routing-key"] == message.body
        await manager.delete_queue(queue)
        await manager.delete_exchange(exchange)


async def test_missing(rabbitmq_43: Serving) -> None:
    """A link that asks for a missing queue or exchange is refused alone: the session goes on, with its other links."""
    async with Connection(rabbitmq_43.url()) as connection:
        address = await quorum_queue(connection)
        async with connection.sender(address) as sender:
            for missing in ("/queues/missing", "/exchanges/missing", "/exchanges/missing/key"):
                with pytest.raises(LinkDetached, match="amqp:not-found"):
                    async with connection.sender(missing):
                        pass
            with pytest.raises(LinkDetached, match="amqp:not-found"):
                async with connection.receiver("/queues/missing"):
                    pass
            await sender.send("still here")


async def test_counting(broker: Serving) -> None:
    """A released message counts no failure and never meets the limit; one that failed does, and then is gone."""
    async with Connection(broker.url()) as connection:
        address = await quorum_queue(connection, delivery_limit=2)
        async with connection.sender(address) as sender, connection.receiver(address, credit=1) as receiver:
            await sender.send("again")
            with anyio.fail_after(60):
                for number in range(5):
                    delivery = await receiver.receive()
                    assert delivery.message.delivery_count == 0
                    assert delivery.message.message_annotations.get("x-acquired-count", 0) == number
                    delivery.release()
                for number in range(3):
                    delivery = await receiver.receive()
                    assert delivery.message.delivery_count == number
                    assert delivery.message.message_annotations.get("x-delivery-count", 0) == number
                    delivery.modify(delivery_failed=True)
            assert await receiver.receive_batch(1, max_wait=1) == []


@pytest.mark.parametrize(("limit", "comes"), [(None, 21), (-1, 30)])
async def test_usual_limit(broker: Serving, limit: int | None, comes: int) -> None:
    """A message may fail 20 times after the first, unless it is said otherwise."""
    async with Connection(broker.url()) as connection:
        address = await quorum_queue(connection, **({} if limit is None else {"delivery_limit": limit}))
        async with connection.sender(address) as sender, connection.receiver(address, credit=1) as receiver:
            await sender.send("again")
            with anyio.fail_after(60):
                for _ in range(comes):
                    (await receiver.receive()).modify(delivery_failed=True)
            left = await receiver.receive_batch(1, max_wait=1 if limit is None else 60)
            assert len(left) == (limit is not None)


async def test_left_behind(broker: Serving) -> None:
    """What a receiver leaves without an outcome did not fail; what a lost connection leaves did."""
    async with Connection(broker.url()) as connection, FaultProxy(broker.url()) as proxy:
        address = await quorum_queue(connection)
        async with connection.sender(address) as sender:
            await sender.send("again")
        with anyio.fail_after(60):
            async with connection.receiver(address, credit=1) as receiver:
                await receiver.receive()
            async with connection.receiver(address, credit=1) as receiver:
                delivery = await receiver.receive()
                assert delivery.message.delivery_count == 0
                assert delivery.message.message_annotations["x-acquired-count"] == 1
                delivery.release()
            with suppress(ConnectionLost):
                async with Connection(proxy.url) as lost, lost.receiver(address, credit=1) as receiver:
                    await receiver.receive()
                    proxy.cut()
                    await receiver.receive()
            async with connection.receiver(address, credit=1) as receiver:
                delivery = await receiver.receive()
                assert delivery.message.delivery_count == 1
                assert delivery.message.message_annotations["x-acquired-count"] >= 2
                delivery.accept()


async def test_strict_priorities(broker: Serving) -> None:
    """All of a higher one go before any of a lower one, as far as 31."""
    priorities = [0, 31, 4, 20, 5, 9]
    async with Connection(broker.url()) as connection:
        address = await quorum_queue(connection)
        async with connection.sender(address) as sender:
            for priority in priorities:
                await sender.send(Message(priority, priority=priority))
        async with connection.receiver(address) as receiver:
            got: list[object] = []
            with anyio.fail_after(60):
                while len(got) < len(priorities):
                    with await receiver.receive() as message:
                        got.append(message.body)
    assert got == sorted(priorities, reverse=True)


async def test_why_rejected(broker: Serving) -> None:
    """The error has the queue that refused, and its reason, in `info`."""
    async with Connection(broker.url()) as connection:
        address = await quorum_queue(connection, max_length=1, overflow="reject-publish")
        async with connection.sender(address) as sender:
            with pytest.raises(MessageRejected, match="exceeded maximum length") as caught:
                for _ in range(100):
                    await sender.send("too many")
    name = address.rpartition("/")[2]
    assert caught.value.info == {Symbol("queue"): name, Symbol("reason"): Symbol("maxlen")}


async def test_single_active_consumer(broker: Serving) -> None:
    """Each receiver knows whether it gets the messages; when that one leaves, the other is told."""
    async with Connection(broker.url()) as one, Connection(broker.url()) as two:
        address = await quorum_queue(one, single_active_consumer=True)
        events = two.events()
        with anyio.fail_after(60):
            async with one.receiver(address) as first:
                async with two.receiver(address) as second:
                    assert isinstance(told := await anext(events), ReceiverActivity)
                    assert (told.active, second.active, first.active) == (False, False, True)
                    await first.close()
                    assert isinstance(told := await anext(events), ReceiverActivity)
                    assert (told.link, told.active, second.active) == (second, True, True)


async def test_the_highest_priority_is_active(broker: Serving) -> None:
    """It takes the place of the active one, as soon as that one holds no message any more."""
    async with Connection(broker.url()) as one, Connection(broker.url()) as two:
        address = await quorum_queue(one, single_active_consumer=True)
        important = {Symbol("rabbitmq:priority"): Int(5)}
        async with one.sender(address) as sender, one.receiver(address, credit=1) as first:
            await sender.send(1)
            with anyio.fail_after(60):
                held = await first.receive()
                events, of_the_other = one.events(), two.events()
                async with two.receiver(address, properties=important) as second:
                    await sender.send(2)
                    assert isinstance(told := await anext(of_the_other), ReceiverActivity)
                    assert (told.active, first.active) == (False, True)
                    held.accept()
                    assert isinstance(told := await anext(events), ReceiverActivity)
                    assert not told.active
                    with await second.receive() as message:
                        assert message.body == 2
                    assert second.active


@pytest.mark.parametrize("said_by", ["queue", "link"])
async def test_a_consumer_that_takes_too_long(broker: Serving, said_by: str) -> None:
    """Its delivery is taken back, and another consumer has it; the outcome that comes too late is an error."""
    async with Connection(broker.url()) as slow, Connection(broker.url()) as quick:
        address = await quorum_queue(slow, **({"consumer_timeout": 2000} if said_by == "queue" else {}))
        properties = {Symbol("rabbitmq:consumer-timeout"): UInt(2000)} if said_by == "link" else {}
        async with slow.sender(address) as sender, slow.receiver(address, credit=0, properties=properties) as receiver:
            receiver.add_credit(1)
            await sender.send("work")
            events = slow.events()
            with anyio.fail_after(60):
                delivery = await receiver.receive()
                assert isinstance(told := await anext(events), DeliveriesStale)
                assert (told.count, told.cause) == (1, None)
                async with quick.receiver(address, credit=1) as other:
                    with await other.receive() as message:
                        assert (message.body, message.delivery_count) == ("work", 0)
                        assert message.message_annotations["x-acquired-count"] == 1
                with pytest.raises(StaleDelivery, match="consumer timeout"):
                    delivery.accept()
                await sender.send("more")
                receiver.add_credit(1)
                with await receiver.receive() as message:  # it goes on
                    assert message.body == "more"


@pytest.mark.parametrize(
    ("kind", "failed", "waits"),
    [
        ("all", True, True),
        ("all", False, True),
        ("failed", True, True),
        ("failed", False, False),
        ("returned", True, False),
        ("returned", False, True),
        ("sometimes", True, False),
    ],
)
async def test_delayed_retry(broker: Serving, kind: str, failed: bool, waits: bool) -> None:
    """What comes back waits, longer after each failed attempt; or it is there at once."""
    least, most = (300, 500) if waits else (600_000, 600_000)
    async with Connection(broker.url()) as connection:
        address = await quorum_queue(
            connection, delayed_retry_type=kind, delayed_retry_min=least, delayed_retry_max=most, delivery_limit=-1
        )
        async with connection.sender(address) as sender, connection.receiver(address, credit=1) as receiver:
            await sender.send("again")
            with anyio.fail_after(60):
                delivery = await receiver.receive()
                for seconds in (0.3, 0.5 if failed else 0.3):
                    began = time.monotonic()
                    delivery.modify(delivery_failed=failed)
                    delivery = await receiver.receive()
                    assert not waits or time.monotonic() - began > seconds - 0.01
                delivery.accept()


async def test_delivery_time(broker: Serving) -> None:
    """An outcome says when the message is to come again, in milliseconds since 1970; others go first."""
    async with Connection(broker.url()) as connection:
        address = await quorum_queue(connection)
        async with connection.sender(address) as sender, connection.receiver(address, credit=1) as receiver:
            await sender.send("later")
            with anyio.fail_after(60):
                began = time.monotonic()
                when = round((time.time() + 2) * 1000)
                (await receiver.receive()).modify(message_annotations={Symbol("x-opt-delivery-time"): when})
                await sender.send("now")
                with await receiver.receive() as message:
                    assert message.body == "now"
                with await receiver.receive() as message:
                    assert message.body == "later"
                    assert message.message_annotations["x-opt-delivery-time"] == when
                assert time.monotonic() - began > 1.9


async def test_no_priorities_of_its_own(broker: Serving) -> None:
    """A quorum queue has 32 anyway, and cannot be declared with another number."""
    async with Connection(broker.url()) as connection:
        with pytest.raises(ManagementError, match="x-max-priority"):
            await quorum_queue(connection, max_priority=10)


@pytest.mark.parametrize("taken", ["consumed", "got"])
async def test_older_clients(request: pytest.FixtureRequest, broker: Serving, taken: str) -> None:
    """0-9-1: a consumer that takes too long is cancelled; where there is none, the channel is closed. By pika."""
    async with Connection(broker.url()) as connection:
        address = await quorum_queue(connection, consumer_timeout=2000)
        async with connection.sender(address) as sender:
            await sender.send(Message("work", durable=True))
        said = await anyio.to_thread.run_sync(slow_pika, broker.url(), address.rpartition("/")[2], taken)
        if said is None and request.node.callspec.params["broker"] == "rabbitmq_43":
            pytest.skip(
                "RabbitMQ 4.3.6 said nothing in 30 s to a client of 0-9-1 that takes too long: at times it does so"
            )
        with anyio.fail_after(60):
            async with connection.receiver(address) as receiver:
                with await receiver.receive() as message:
                    assert message.message_annotations["x-acquired-count"] == 3
                    assert message.delivery_count == 1
    assert said == ("cancelled" if taken == "consumed" else 406)


def slow_pika(url: str, queue: str, taken: str) -> object:
    """Put a message back in two ways, take it again and do nothing more; what the broker says after its timeout.

    None: nothing in 30 s.
    """
    with pika.BlockingConnection(pika.URLParameters(f"{url}/%2F")) as connection:
        channel = connection.channel()
        for put_back in (channel.basic_nack, channel.basic_reject):
            found, properties, _ = channel.basic_get(queue)
            assert (properties.headers or {}).get("x-delivery-count") is None
            put_back(found.delivery_tag, requeue=True)
        end = time.monotonic() + 30
        if taken == "consumed":
            for found, properties, _ in channel.consume(queue, inactivity_timeout=1):
                if found is not None:
                    assert (found.redelivered, properties.headers["x-delivery-count"]) == (True, 1)
                elif time.monotonic() > end:
                    return None
            return "cancelled"
        found, properties, _ = channel.basic_get(queue)
        assert (found.redelivered, properties.headers["x-delivery-count"]) == (True, 1)
        try:
            while time.monotonic() < end:
                connection.process_data_events(1)
                channel.basic_qos(prefetch_count=1)
        except (pika.exceptions.ChannelClosed, pika.exceptions.ChannelWrongStateError):
            return 406
        return None
