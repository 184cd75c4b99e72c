"""The client, as it is for every dialect, speaking AMQP/Fast with the embedded broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from amqp10 import Connection, Message
from amqp10.broker import Broker
from amqp10.errors import LinkDetached, TransactionRolledBack, Unsupported
from amqp10.messaging import Selector, Source

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def connected(**settings: object) -> AsyncIterator[Connection]:
    with anyio.fail_after(30):
        async with Broker(**settings) as broker, Connection(broker.url, dialect="fast") as connection:  # type: ignore[arg-type]
            yield connection


async def test_in_order() -> None:
    """Many messages, each with its outcome, arrive in order, and once."""
    async with connected() as connection, connection.sender("q") as sender, connection.receiver("q") as receiver:
        sent = [await sender.submit(Message(b"%d" % number)) for number in range(1200)]
        for number in range(1200):
            delivery = await receiver.receive()
            assert delivery.message.body == b"%d" % number
            delivery.accept()
        for each in sent:
            assert type(await each.outcome()).__name__ == "Accepted"


async def test_given_back() -> None:
    """What is released comes again, and so does what nobody settled when its receiver left."""
    async with connected() as connection, connection.sender("q") as sender:
        for body in (b"1", b"2", b"3"):
            await sender.send(Message(body))
        async with connection.receiver("q") as receiver:
            first, second = await receiver.receive(), await receiver.receive()
            second.accept()  # told although `first` is not settled
            assert first.message.body == b"1"
        async with connection.receiver("q") as receiver:
            again = await receiver.receive()
            again.release()
            bodies = set()
            for _ in range(2):
                delivery = await receiver.receive()
                bodies.add(delivery.message.body)
                delivery.accept()
            assert bodies == {b"1", b"3"}


async def test_back_pressure() -> None:
    """A queue that is full holds up who sends settled messages, and nothing is lost."""
    async with connected(max_queue_messages=50) as connection, connection.sender("q", settle_mode="settled") as sender:
        async with anyio.create_task_group() as tasks:

            async def send() -> None:
                for number in range(3000):
                    await sender.send(Message(b"%d" % number))

            tasks.start_soon(send)
            async with Connection(connection.url, dialect="fast") as other, other.receiver("q") as receiver:
                for number in range(3000):
                    delivery = await receiver.receive()
                    assert delivery.message.body == b"%d" % number
                    delivery.accept()


async def test_transactions() -> None:
    """What is sent and accepted in a transaction happens when it is committed, and only then."""
    async with (
        connected() as connection,
        connection.sender("in") as sender,
        connection.receiver("in") as receiver,
        connection.sender("out") as forward,
        connection.receiver("out") as forwarded,
    ):
        async with connection.transaction() as transaction:
            for body in ("1", "2"):
                await sender.send(Message(body), transaction=transaction)
            assert receiver.buffered == 0
        one, two = await receiver.receive(), await receiver.receive()
        async with connection.transaction() as transaction:
            one.accept(transaction=transaction)
            await forward.send(Message("done"), transaction=transaction)
        assert (await forwarded.receive()).message.body == "done"
        with pytest.raises(KeyError):
            async with connection.transaction() as transaction:
                two.accept(transaction=transaction)
                await forward.send(Message("not done"), transaction=transaction)
                raise KeyError
        assert transaction.state == "rolled-back"
        again = await receiver.receive()
        assert again.message.body == "2"
        again.accept()
        assert forwarded.buffered == 0


async def test_transaction_out_of_order() -> None:
    """Acknowledgments are in order: what is behind an unsettled message cannot be committed, and comes again."""
    async with connected() as connection, connection.sender("q") as sender, connection.receiver("q") as receiver:
        for body in ("1", "2"):
            await sender.send(Message(body))
        one, two = await receiver.receive(), await receiver.receive()
        with pytest.raises(TransactionRolledBack, match="in order"):
            async with connection.transaction() as transaction:
                two.accept(transaction=transaction)
        two = await receiver.receive()
        assert two.message.body == "2"
        async with connection.transaction() as transaction:
            one.accept(transaction=transaction)
            two.accept(transaction=transaction)
        assert transaction.state == "committed"


async def test_selector() -> None:
    """A selector is a filter that can be said; any other raises before a message comes."""
    async with connected() as connection, connection.sender("q") as sender:
        for color in ("red", "green"):
            await sender.send(Message(color, application_properties={"color": color}))
        green = Source("q", filters=[Selector("color = :color", color="green")])
        async with connection.receiver(green) as receiver:
            assert (await receiver.receive()).message.body == "green"


async def test_dynamic_and_anonymous() -> None:
    """A request finds its way back: by a temporary destination and a sender that has no address."""
    async with connected() as connection, connection.sender(None) as anonymous:
        async with connection.receiver(dynamic=True) as replies:
            assert replies.address is not None
            await anonymous.send(Message("reply", to=replies.address))
            delivery = await replies.receive()
            assert (delivery.message.body, delivery.message.to) == ("reply", replies.address)
            delivery.accept()


async def test_stream() -> None:
    """A body of many fragments is sent and received in pieces, with and without a size."""
    async with connected() as connection, connection.sender("q") as sender:
        for size in (500_000, None):
            async with sender.stream(Message(subject="s"), size=size) as body:
                for _ in range(50):
                    await body.send(b"x" * 10_000)
            async with connection.receiver("q", stream=True) as receiver:
                delivery = await receiver.receive()
                assert delivery.message.subject == "s"
                assert len(b"".join([piece async for piece in delivery.body()])) == 500_000
                delivery.accept()


async def test_refused() -> None:
    """Where no node is made on demand, a link to none is refused with its code."""
    async with connected(auto_create=False) as connection:
        for link in (connection.sender("none"), connection.receiver("none")):
            with pytest.raises(LinkDetached) as caught:
                async with link:
                    pass
            assert caught.value.condition == "amqp:not-found"
            assert caught.value.info == {"reply-code": 404}


async def test_unsupported() -> None:
    """What the dialect has no word for raises."""
    async with connected() as connection, connection.sender("q") as sender, connection.receiver("q") as receiver:
        with pytest.raises(Unsupported):
            async with connection.receiver("q", receiver_settle_mode="second"):
                pass
        await sender.send(Message("x"))
        delivery = await receiver.receive()
        with pytest.raises(Unsupported):
            delivery.reject("amqp:not-allowed")
        delivery.accept()


async def test_topic() -> None:
    """Every subscriber gets its copy; what is sent settled is neither confirmed nor acknowledged."""
    async with connected() as connection:
        async with connection.receiver("topic.t") as one, connection.receiver("topic.t", settle_mode="settled") as two:
            async with connection.sender("topic.t", settle_mode="settled") as sender:
                await sender.send(Message("all"))
            for receiver in (one, two):
                assert (await receiver.receive()).message.body == "all"
