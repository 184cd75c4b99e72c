"""Senders that the broker has no room for, in every dialect: a full queue, and a broker that is blocked."""

from __future__ import annotations

import anyio
import pytest

from amqp10 import Connection, ConnectionBlocked, ConnectionUnblocked
from amqp10.broker import Broker
from amqp10.engine import dialect_names

from ...kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

DIALECTS = sorted(dialect_names())


@pytest.mark.slow
@pytest.mark.parametrize(("count", "size"), [(600, 2000), (40, 300_000)])
@pytest.mark.parametrize("mode", ["settled", "unsettled"])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_publishing_and_consuming_on_one_connection(dialect: str, mode: str, count: int, size: int) -> None:
    """What makes room is behind what there is no room for, in the same stream of bytes: it is heard all the same."""

    async def produce(connection: Connection) -> None:
        async with connection.sender("q", settle_mode=mode) as sender:  # type: ignore[arg-type]
            for _ in range(count):
                await sender.submit(b"x" * size)

    with anyio.fail_after(60):
        async with Broker(max_queue_messages=10) as broker, Connection(broker.url, dialect=dialect) as connection:
            async with connection.receiver("q", credit=5) as receiver, anyio.create_task_group() as tasks:
                tasks.start_soon(produce, connection)
                for _ in range(count):
                    with await receiver.receive() as message:
                        assert message.body == b"x" * size
            await until(lambda: broker.queue("q").depth == 0)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_one_message_larger_than_all_that_may_wait(dialect: str) -> None:
    """It is read to its end, and the settlement behind it is heard."""
    body = b"x" * 17_000_000

    async def produce(connection: Connection) -> None:
        async with connection.sender("q") as sender:
            deliveries = [await sender.submit(each) for each in ("first", "second", body)]
            for delivery in deliveries:
                await delivery.outcome()

    with anyio.fail_after(60):
        async with Broker(max_queue_messages=1) as broker, Connection(broker.url, dialect=dialect) as connection:
            async with connection.receiver("q", credit=1) as receiver, anyio.create_task_group() as tasks:
                tasks.start_soon(produce, connection)
                for expected in ("first", "second", body):
                    with await receiver.receive() as message:
                        assert message.body == expected


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_blocked_broker(dialect: str) -> None:
    """It takes nothing, from whoever was there or comes, gives what it has, and goes on when it is unblocked."""
    async with Broker() as broker, Connection(broker.url, dialect=dialect) as connection:
        async with connection.sender("q") as sender, connection.receiver("q") as receiver:
            await sender.send("before")
            broker.block("no memory")
            (await receiver.receive()).accept()
            async with Connection(broker.url, dialect=dialect) as newcomer, newcomer.sender("q") as second:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(sender.send, "one")
                    tasks.start_soon(second.send, "two")
                    assert await receiver.receive_batch(1, max_wait=0.1) == []
                    assert broker.queue("q").enqueued == 1
                    broker.unblock()
            bodies = []
            for _ in range(2):
                with await receiver.receive() as message:
                    bodies.append(message.body)
            assert sorted(bodies) == ["one", "two"]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_log_of_a_sender_says_so(dialect: str, caplog: pytest.LogCaptureFixture) -> None:
    """A sender that is out of credit for 5 s says so once, however many messages wait."""
    async with Broker() as broker, Connection(broker.url, dialect=dialect) as connection:
        async with connection.sender("q") as sender:
            broker.block("no memory")
            with anyio.move_on_after(7):
                async with anyio.create_task_group() as tasks:
                    for n in range(2100):
                        tasks.start_soon(sender.submit, n)
            assert connection.health().credit == 0
            assert connection.health().ready is (connection.health().state != "blocked")
            lines = [record.getMessage() for record in caplog.records if " for credit, " in record.getMessage()]
            assert [line.partition(" with ")[0] for line in lines] == [f"{sender!r} has waited 5 s for credit,"]
            broker.unblock()


async def test_clients_are_told() -> None:
    """Those of 0-9-1, which has a word for it."""
    async with Broker() as broker, Connection(broker.url, dialect="0-9-1") as connection:
        events = connection.events()
        broker.block("no memory")
        assert (await anext(events), broker.blocked) == (ConnectionBlocked("no memory"), "no memory")
        broker.unblock()
        assert (await anext(events), broker.blocked) == (ConnectionUnblocked(), None)


async def test_anonymous_senders_and_exchanges() -> None:
    """They are held back as well."""
    async with Broker(exchanges={"e": "fanout"}, bindings=[("e", "", "q")]) as broker, broker.connect() as connection:
        async with connection.sender("/exchanges/e") as sender:
            broker.block()
            await anyio.wait_all_tasks_blocked()
            with anyio.move_on_after(0.05):
                await sender.send("held back")
            assert (sender.credit, broker.queue("q").depth) == (0, 0)
            broker.unblock()
            await sender.send("taken")
            assert broker.queue("q").depth == 1
