"""What the client relies on, in every dialect: nothing that is unsettled is forgotten."""

from __future__ import annotations

import anyio
import pytest

from amqp10 import (
    Connection,
    ConnectionRestored,
    LinkDetached,
    LocalProtocolError,
    Message,
    MessageRejected,
    MessageReleased,
    Reconnect,
    Session,
    TransactionRolledBack,
)
from amqp10.broker import Broker
from amqp10.client.internals import ConnectionCore
from amqp10.engine import dialect_names
from amqp10.testing import FaultProxy

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]


@pytest.mark.parametrize("name", dialect_names())
async def test_tags_of_earlier_attachments(name: str) -> None:
    """A message that is sent again keeps its tag, and later messages get other tags, so each has its outcome."""
    async with Broker() as broker, Connection(broker.url, dialect=name) as connection:
        async with connection.sender("orders") as sender:
            link = sender._core.link
            assert link is not None
            payload = Message("again").encode()
            # Deliveries of an earlier attachment whose first ones are settled; the dialects count from 0 or from 1.
            old = [link.delivery_type(link, number.to_bytes(8, "big"), payload, False) for number in range(4, 10)]
            for delivery in old:
                link.resend(delivery)
            new = [link.send(payload) for _ in range(12)]
            assert list(link.unsettled.values()) == [*old, *new]
            assert [link.unsettled[delivery.tag] for delivery in (*old, *new)] == [*old, *new]
            connection._core.wake()
            with anyio.fail_after(60):
                await sender._core.until(lambda: not link.unsettled)
            assert all(delivery.remote_settled for delivery in (*old, *new))


@pytest.mark.parametrize("name", ["0-9-1", "0-9", "0-9-draft", "0-10", "fast"])
async def test_a_message_above_the_limit(name: str) -> None:
    """It ends the receiver's link, with the condition that says why; the message stays, and so does the connection."""
    async with Broker() as broker, Connection(broker.url, dialect=name) as connection:
        async with connection.sender("orders") as sender:
            await sender.send(b"x" * 1000)
        with pytest.raises(LinkDetached) as caught, anyio.fail_after(60):
            async with connection.receiver("orders", max_message_size=500) as receiver:
                await receiver.receive()
        assert caught.value.condition == "amqp:link:message-size-exceeded"
        async with connection.receiver("orders") as receiver:
            with await receiver.receive() as message:
                assert message.body == b"x" * 1000


@pytest.mark.parametrize("name", dialect_names())
async def test_more_than_the_broker_takes(name: str) -> None:
    """Only the sender hears of it, with the condition that says why, and nobody sends it again and again."""
    quick = Reconnect(initial_delay=0.01, max_delay=0.05)
    async with (
        Broker(max_message_size=500) as broker,
        Connection(broker.url, dialect=name, reconnect=quick) as connection,
    ):
        async with connection.receiver("orders") as receiver:
            with anyio.fail_after(60):
                async with connection.sender("orders") as sender:
                    with pytest.raises((LocalProtocolError, LinkDetached, MessageRejected)) as caught:
                        await sender.send(b"x" * 1000)
                if isinstance(caught.value, LinkDetached | MessageRejected):  # else it was not even sent
                    assert caught.value.condition == "amqp:link:message-size-exceeded"
                async with connection.sender("orders") as sender:
                    await sender.send(b"x" * 100)
                assert (await receiver.receive()).message.body == b"x" * 100


@pytest.mark.parametrize("name", ["1.0", "0-10"])
async def test_why_it_was_rolled_back(name: str) -> None:
    """A message that was not accepted is the cause, whenever its outcome is told."""
    async with Broker() as broker, Connection(broker.url, dialect=name) as connection:
        async with connection.sender("orders") as sender, connection.sender("/exchanges/amq.direct/nobody") as nowhere:
            with pytest.raises(TransactionRolledBack) as caught:
                async with connection.transaction() as transaction:
                    await sender.send("with it", transaction=transaction)
                    await nowhere.submit("unroutable", transaction=transaction)
            assert isinstance(caught.value.__cause__, MessageReleased)
        assert broker.queue("orders").depth == 0


@pytest.mark.parametrize("name", dialect_names())
async def test_goes_on_after_a_loss(name: str) -> None:
    """One message at a time, in and out, with nothing else going on: neither waits for ever on another transport."""
    quick = Reconnect(initial_delay=0.01, max_delay=0.05)
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        async with Connection(proxy.url, dialect=name, reconnect=quick) as connection:
            async with connection.sender("q") as sender, connection.receiver("q", credit=1) as receiver:
                for number in range(9):
                    if number % 3 == 1:
                        proxy.cut()
                    with anyio.fail_after(60):
                        await sender.send(number)
                        while True:
                            with await receiver.receive() as message:
                                if message.body == number:
                                    break
        assert proxy.cuts == 3


@pytest.mark.parametrize("name", dialect_names())
async def test_a_transaction_is_the_first_thing(name: str) -> None:
    """Declared on a connection, or on one that has just come back, before its session has begun at the peer."""
    quick = Reconnect(initial_delay=0.01, max_delay=0.05)
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        async with Connection(proxy.url, dialect=name, reconnect=quick) as connection:
            restored = connection.events()
            for _ in range(3):
                with anyio.fail_after(60):
                    async with connection.transaction() as transaction:
                        assert transaction.active
                    proxy.cut()
                    while type(await anext(restored)) is not ConnectionRestored:
                        pass


async def test_first_requests_of_two_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """In 0-10 requests have a session of their own, which is begun once."""
    async with Broker() as broker, Connection(broker.url, dialect="0-10") as connection:
        begun = []
        begin = Connection.session

        def counted(self: Connection) -> Session:
            begun.append(begin(self))
            return begun[-1]

        monkeypatch.setattr(Connection, "session", counted)
        ready = ConnectionCore.ready

        async def later(self: ConnectionCore) -> None:
            """As if it was being restored."""
            await anyio.sleep(0.01)
            await ready(self)

        monkeypatch.setattr(ConnectionCore, "ready", later)
        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(connection.native.declare_queue, f"q{number}")
        assert {queue.name for queue in broker.queues} == {f"q{number}" for number in range(5)}
        assert len(begun) == 1
