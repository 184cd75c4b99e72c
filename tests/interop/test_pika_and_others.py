"""pika beside other dialects on one embedded broker: what it declares and sends, they see, and the reverse."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

pytest.importorskip("pika", reason="pika is not installed")

import pika

from amqp10 import Connection, LinkDetached, Message
from amqp10.broker import Broker
from amqp10.engine import dialect_names

from ._amqp091 import Inbox, all_in, channel_of, connected, wait_until
from ._matrix import Embedded, fresh_name

pytestmark = [pytest.mark.anyio, pytest.mark.interop, pytest.mark.timeout(600)]

DIALECTS = sorted(dialect_names())


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_declared_by_pika(embedded: Embedded, dialect: str) -> None:
    """A queue that pika declared and bound is there for every dialect; one that is only for pika is locked."""
    url, exchange = embedded.url(), fresh_name()
    with channel_of(url, confirms=True) as channel:
        queue = channel.queue_declare(fresh_name(), arguments={"x-max-length": 10}).method.queue
        channel.exchange_declare(exchange, "topic", auto_delete=True)
        channel.queue_bind(queue, exchange, "a.*")
        mine = channel.queue_declare("", exclusive=True).method.queue
        async with Connection(url, dialect=dialect) as connection:
            async with connection.sender(f"/exchanges/{exchange}/a.b") as sender:
                await sender.send(Message(b"by the exchange"))
            async with connection.sender(queue) as sender:
                await sender.send(Message(b"by name"))
            assert all_in(channel, queue) == [b"by the exchange", b"by name"]
            channel.basic_publish(exchange, "a.c", b"from pika")
            async with connection.receiver(queue) as receiver:
                delivery = await receiver.receive()
                assert delivery.message.body == b"from pika"
                delivery.accept()
            with pytest.raises(LinkDetached) as locked:
                async with connection.receiver(mine):
                    pass
            assert locked.value.condition == "amqp:resource-locked"
        channel.queue_delete(queue)


PROPERTIES: dict[str, Any] = {
    "type": "greeting",
    "app_id": "test",
    "cluster_id": "c",
    "delivery_mode": 2,
    "priority": 0,
    "content_type": "text/plain",
    "correlation_id": "c-1",
    "reply_to": "answers",
    "message_id": "m-1",
    "timestamp": 1_700_000_000,
    "user_id": "user",
    "headers": {
        "table": {"a": {"b": [True, None]}, "c": 1},
        "list": [1, "two", [3]],
        "text": "ö",
        "number": 7,
        "x-mine": "annotation",
        "x-table": {"a": 1},
    },
}


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_there_and_back(embedded: Embedded, dialect: str) -> None:
    """What pika says and another dialect has no words for comes back whole, if a program there passes a message on."""
    url, there, back = embedded.url(), fresh_name(), fresh_name()
    with channel_of(url, confirms=True) as channel:
        for queue in (there, back):
            channel.queue_declare(queue)
        channel.basic_publish("", there, b"body", pika.BasicProperties(**PROPERTIES))
        async with Connection(url, dialect=dialect) as connection:
            async with connection.receiver(there) as receiver, connection.sender(back) as sender:
                delivery = await receiver.receive()
                await sender.send(delivery.message)
                delivery.accept()
        _, properties, body = channel.basic_get(back, auto_ack=True)
        assert body == b"body"
        # Where the first of the two was sent, which the message says in 1.0, and the second way does not.
        properties.headers.pop("x-opt-amqp10-to", None)
        assert {name: getattr(properties, name) for name in PROPERTIES} == PROPERTIES
        for queue in (there, back):
            channel.queue_delete(queue)


async def test_a_full_queue_holds_pika_back() -> None:
    """A publisher that heeds no warning is held back by a full queue, to the last message, while others are served."""
    count, size = 1000, 50_000
    users = {"guest": "guest"}
    async with Broker(max_queue_messages=50, credit=10, queues=["full", "other"], users=users) as broker:
        port = broker.url.rpartition(":")[2]
        url = f"amqp://guest:guest@localhost:{port}"
        sent: list[int] = []
        begun = anyio.Event()

        def publish() -> None:
            with connected(url) as connection:
                channel = connection.channel()
                for number in range(count):
                    channel.basic_publish("", "full", b"%d" % number + bytes(size))
                    sent.append(number)
                    if number == 100:
                        anyio.from_thread.run_sync(begun.set)
                channel.basic_publish("", "other", b"the last")

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(anyio.to_thread.run_sync, publish, abandon_on_cancel=True))
                await begun.wait()
                async with Connection(url) as connection:
                    async with connection.sender("other") as sender:
                        await sender.send("served meanwhile")
                    assert len(sent) < count
                    async with connection.receiver("full", credit=10) as receiver:
                        for number in range(count):
                            # Its own limit, and the credit of one link.
                            assert broker.queue("full").depth <= 100
                            delivery = await receiver.receive()
                            assert delivery.message.body.startswith(b"%d\0" % number)
                            delivery.accept()
        assert len(sent) == count
        assert broker.queue("other").depth == 2


async def test_pika_is_told_that_the_broker_is_blocked() -> None:
    """By connection.blocked, with the reason; its consumers go on."""
    async with Broker(users={"guest": "guest"}) as broker:
        port = broker.url.rpartition(":")[2]
        told: list[str] = []

        def watch() -> None:
            with channel_of(f"amqp://guest:guest@localhost:{port}") as channel:
                connection = channel.connection
                connection.add_on_connection_blocked_callback(lambda _, frame: told.append(frame.method.reason))
                connection.add_on_connection_unblocked_callback(lambda _, frame: told.append("unblocked"))
                channel.queue_declare("q")
                channel.basic_publish("", "q", b"before")
                inbox = Inbox(channel, "q", auto_ack=True)
                inbox.wait(1)
                anyio.from_thread.run_sync(broker.block, "out of disk")
                wait_until(channel, lambda: told == ["out of disk"])
                channel.basic_publish("", "q", b"meanwhile")
                connection.process_data_events(0.1)
                assert inbox.wait(1) == [b"before"]
                anyio.from_thread.run_sync(broker.unblock)
                assert inbox.wait(2) == [b"before", b"meanwhile"]
                wait_until(channel, lambda: told == ["out of disk", "unblocked"])

        with anyio.fail_after(60):
            await anyio.to_thread.run_sync(watch)


async def test_consumers_of_all_dialects(embedded: Embedded) -> None:
    """Consumers of one queue take turns, whatever they speak."""
    url, queue = embedded.url(), fresh_name()
    with channel_of(url, confirms=True) as channel:
        channel.queue_declare(queue)
        channel.basic_qos(prefetch_count=1)
        inbox = Inbox(channel, queue)
        async with Connection(url) as one, Connection(url, dialect="fast") as two:
            async with one.receiver(queue, credit=1) as modern, two.receiver(queue, credit=1) as fast:
                for number in range(30):
                    channel.basic_publish("", queue, b"%d" % number)
                # None of them can have two at a time: as long as there are messages, each comes to have one.
                taken: list[int] = []
                for _ in range(5):
                    wait_until(channel, lambda: bool(inbox.taken))
                    for receiver in (modern, fast):
                        with await receiver.receive() as message:
                            taken.append(int(message.body))
                    ((method, _, body),) = inbox.taken
                    taken.append(int(body))
                    inbox.taken.clear()
                    channel.basic_ack(method.delivery_tag)
                assert len(taken) == len(set(taken)) == 15
        channel.queue_delete(queue)
