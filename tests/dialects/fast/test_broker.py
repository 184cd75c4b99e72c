"""The client, as it is for every dialect, speaking AMQP/Fast with the embedded broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
import pytest

from amqp10 import Connection, Message, Reconnect
from amqp10.broker import Broker
from amqp10.errors import (
    FilterNotApplied,
    LinkDetached,
    LocalProtocolError,
    StaleDelivery,
    TransactionRolledBack,
    Unsupported,
)
from amqp10.messaging import PropertiesFilter, Selector, Source
from amqp10.testing import FaultProxy

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def connected(**settings: object) -> AsyncIterator[Connection]:
    with anyio.fail_after(60):
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
    """A released message comes again, and so does a message that nobody settled when its receiver left."""
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
    """Messages sent and accepted in a transaction take effect when it is committed, and only then."""
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


async def test_other_filters() -> None:
    """A content-type is a filter that can be said, too; what cannot be said is told before a message comes."""
    async with connected() as connection, connection.sender("q") as sender:
        for kind in ("text/plain", "image/png"):
            await sender.send(Message(kind, content_type=kind, subject="s"))
        pictures = Source("q", filters=[PropertiesFilter(content_type="image/png")])
        async with connection.receiver(pictures) as receiver:
            assert (await receiver.receive()).message.body == "image/png"
        by_subject = Source("q", filters=[PropertiesFilter(subject="s")])
        with pytest.raises(FilterNotApplied):
            async with connection.receiver(by_subject):
                pass


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
                assert len(b"".join([piece async for piece in delivery.iter_body()])) == 500_000
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
    """A feature that the dialect lacks raises."""
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


async def test_browse() -> None:
    """A browser sees what waits and leaves it there; asked again, it sees what came meanwhile."""
    async with connected() as connection, connection.sender("q") as sender:
        for number in range(1100):
            await sender.submit(Message(number, application_properties={"even": number % 2 == 0}))
        await sender.send(Message("last"))
        async with connection.browser("q", credit=50) as browser:
            seen = [delivery.message.body async for delivery in browser]
            assert seen == [*range(1100), "last"]
            assert [delivery async for delivery in browser] == []
            await sender.send(Message("new"))
            assert [delivery.message.body async for delivery in browser] == ["new"]
        async with connection.browser("q", filters=[Selector("even = TRUE")]) as browser:
            assert (await browser.receive()).message.body == 0
            assert (await browser.receive()).message.body == 2
        async with connection.receiver("q") as receiver:
            assert (await receiver.receive()).message.body == 0


async def test_durable_subscription() -> None:
    """A durable subscription takes in what comes while nobody is there, until it is ended."""
    async with Broker() as broker:
        with anyio.fail_after(60):
            async with Connection(broker.url, dialect="fast", container_id="me") as connection:
                async with connection.subscription("topic.t", "mine"):
                    pass
                async with connection.sender("topic.t") as sender:
                    await sender.send(Message("meanwhile"))
            async with Connection(broker.url, dialect="fast", container_id="me") as connection:
                async with connection.subscription("topic.t", "mine") as receiver:
                    delivery = await receiver.receive()
                    assert delivery.message.body == "meanwhile"
                    delivery.accept()
                await connection.unsubscribe("mine")
                with pytest.raises(LinkDetached) as caught:
                    await connection.unsubscribe("mine")
                assert caught.value.condition == "amqp:not-found"
                async with connection.sender("topic.t") as sender:
                    await sender.send(Message("too late"))
                async with connection.subscription("topic.t", "mine") as receiver:
                    await receiver.drain()
                    assert receiver.buffered == 0


async def test_shared_subscription() -> None:
    """Receivers share a subscription, each message going to one; priority says who is first."""
    async with connected() as connection, connection.sender("topic.t") as sender:
        async with (
            connection.subscription("topic.t", "s", durable=False, shared=True) as one,
            connection.subscription("topic.t", "s", durable=False, shared=True, priority=5) as two,
        ):
            for number in range(4):
                await sender.send(Message(number))
            assert [(await two.receive()).message.body for _ in range(4)] == [0, 1, 2, 3]
            assert one.buffered == 0


async def test_large_message_over_a_bad_line() -> None:
    """A large message goes on where the connection was cut off, and arrives once."""
    size = 3_000_000
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        with anyio.fail_after(60):
            again = Reconnect(initial_delay=0.01, max_delay=0.05)
            async with Connection(proxy.url, dialect="fast", reconnect=again, container_id="me") as connection:
                async with connection.sender("q") as sender:
                    proxy.cut_after(2_000_000, "up")
                    await sender.send(Message(b"x" * size, message_id="large"))
                    assert proxy.cuts == 1
                    assert proxy.passed["up"] < size + 500_000
                async with connection.receiver("q") as receiver:
                    delivery = await receiver.receive()
                    assert delivery.message == Message(b"x" * size, message_id="large")
                    delivery.accept()
                    await receiver.drain()
                    assert receiver.buffered == 0


async def test_reconnects() -> None:
    """Links come back when the connection is lost: what was not confirmed is sent again, what was not settled comes."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        with anyio.fail_after(60):
            again = Reconnect(initial_delay=0.01, max_delay=0.05)
            async with Connection(proxy.url, dialect="fast", reconnect=again) as connection:
                async with connection.sender("q") as sender, connection.receiver("q") as receiver:
                    seen: set[object] = set()
                    for number in range(60):
                        if number % 20 == 10:
                            proxy.cut()
                        await sender.send(Message(number))
                    while len(seen) < 60:
                        delivery = await receiver.receive()
                        seen.add(delivery.message.body)
                        with suppress(StaleDelivery):
                            delivery.accept()
                    assert proxy.cuts == 3


async def test_one_name_for_two_clients() -> None:
    """Both send to the same queue: neither takes anything from the other, as in every dialect."""
    async with Broker() as broker:
        async with (
            Connection(broker.url, dialect="fast", container_id="same") as one,
            Connection(broker.url, dialect="fast", container_id="same") as two,
            one.sender("q") as first,
            two.sender("q") as second,
        ):
            for sender in (first, second, first):
                await sender.send("x")
        assert broker.queue("q").depth == 3


async def test_numbers_that_cannot_be_said() -> None:
    """Are refused, and the next question is answered."""
    async with Broker() as broker, Connection(broker.url, dialect="fast") as connection:
        async with connection.sender("q") as sender:
            await sender.send("x")
        for number in (-1, 1 << 32):
            with pytest.raises(LocalProtocolError):
                await connection.native.show("q", number)
            with pytest.raises(LocalProtocolError):
                await connection.native.list("q", after=number)
        with pytest.raises(LocalProtocolError):
            await connection.native.list("q\0")
        with anyio.fail_after(60):
            (number,) = (await connection.native.list("q")).numbers
            assert (await connection.native.show("q", number)).body == "x"


@pytest.mark.parametrize("name", ["n" * 256, "a\0b"])
async def test_a_name_that_cannot_be_said(name: str) -> None:
    """Is refused by name, and the connection is over."""
    async with Broker() as broker:
        with pytest.raises(LocalProtocolError, match="container_id"):
            async with Connection(broker.url, dialect="fast", container_id=name):
                pass
