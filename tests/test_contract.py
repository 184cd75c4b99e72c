"""The user's code, as the design promises it, on both backends against the embedded broker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import anyio
import pytest

import amqp10
from amqp10 import (
    Accepted,
    Connection,
    External,
    Message,
    MessageRejected,
    Modified,
    Plain,
    Released,
    ScramSha256,
    Source,
    Symbol,
    UInt,
)
from amqp10.broker import Broker

pytestmark = pytest.mark.anyio


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with Broker(users={"guest": "guest"}, anonymous=True) as broker:
        yield broker.url.replace("amqp://", "amqp://guest:guest@")


async def test_first_lines(url: str) -> None:
    """Send one, receive it, break out of the loop."""
    async with Connection(url) as connection:
        async with connection.sender("orders") as sender:
            await sender.send(Message("hello", subject="greeting", application_properties={"n": 1}))
        async with connection.receiver("orders", credit=100) as receiver:
            async for delivery in receiver:
                assert (delivery.message.body, delivery.message.subject) == ("hello", "greeting")
                delivery.accept()
                break


async def test_one_off_helpers(url: str) -> None:
    """`send` and `receive` for scripts."""
    await amqp10.send(url, "orders", "a", b"b", Message({"c": 1}))
    messages = await amqp10.receive(url, "orders", count=3)
    assert [message.body for message in messages] == ["a", b"b", {"c": 1}]


async def test_pipelining(url: str) -> None:
    """`submit` now, the outcome later; any iterable and any async iterable."""

    def some() -> Iterator[Message]:
        yield from (Message(n) for n in range(10))

    async def others() -> AsyncIterator[Message]:
        for message in some():
            yield message

    async with Connection(url) as connection, connection.sender("q") as sender:
        delivery = await sender.submit(Message("x"))
        assert isinstance(await delivery.outcome(), Accepted)
        assert await sender.send_many(some()) == 10
        assert await sender.send_many(others()) == 10


async def test_settlement_never_blocks(url: str) -> None:
    """Each outcome is a call that returns at once; a `with` block settles by how it ends."""
    async with Connection(url) as connection, connection.receiver("q") as receiver:
        async with connection.sender("q") as sender:
            await sender.send_many(range(5))
        deliveries = [await receiver.receive() for _ in range(5)]
        deliveries[0].accept()
        deliveries[1].reject("amqp:decode-error", "why")
        deliveries[2].release()
        deliveries[3].modify(delivery_failed=True, undeliverable_here=False, message_annotations={})
        with deliveries[4] as message:
            assert message.body == 4
        again = [await receiver.receive() for _ in range(2)]
        assert [(one.message.body, one.message.delivery_count) for one in again] == [(2, 0), (3, 1)]
        for one in again:
            one.accept()


async def test_batches_and_manual_credit(url: str) -> None:
    """1..500 deliveries, [] only when max_wait passed; credit by hand, and drain."""
    async with Connection(url) as connection:
        async with connection.sender("q") as sender:
            await sender.send_many(range(20))
        async with connection.receiver("q", credit=50) as receiver:
            batch = await receiver.receive_batch(20, max_wait=30)
            assert 1 <= len(batch) <= 20
            for delivery in batch:
                delivery.release()
        async with connection.receiver("q", credit=0) as receiver:
            assert await receiver.receive_batch(500, max_wait=0.01) == []
            receiver.add_credit(10)
            await receiver.drain()
            assert len(await receiver.receive_batch(500, max_wait=0.1)) == 10


async def test_settle_modes(url: str) -> None:
    """At most once, and the modes by the specification's words."""
    async with Connection(url) as connection:
        async with connection.sender("q", settle_mode="settled") as sender:
            await sender.send("at most once")
        async with connection.receiver("q", settle_mode="mixed", receiver_settle_mode="second") as receiver:
            delivery = await receiver.receive()
            assert delivery.message.body == "at most once"
            delivery.accept()
            await delivery.wait_settled()


async def test_nodes_and_sessions(url: str) -> None:
    """Sources as values, dynamic and anonymous nodes, sessions of one's own."""
    async with Connection(url) as connection:
        async with connection.receiver(Source("events", distribution_mode="move"), name="sub-1") as events:
            assert events.name == "sub-1"
        async with connection.receiver(dynamic=True) as replies, connection.sender(None) as anonymous:
            assert replies.address
            await anonymous.send(Message("x", to=replies.address))
            delivery = await replies.receive()
            assert delivery.message.body == "x"
            delivery.accept()
        async with connection.session(incoming_window=2048) as session:
            async with session.sender("q") as sender, session.receiver("q") as receiver:
                await sender.send({"typed": UInt(5), "symbol": Symbol("s")})
                body = (await receiver.receive()).message.body
                assert body == {"typed": 5, "symbol": "s"}
                assert isinstance(body, dict)
                assert (type(body["typed"]), type(body["symbol"])) == (UInt, Symbol)


async def test_mechanisms_can_be_named(url: str) -> None:
    """The mechanism of choice is used, and one that is not offered fails."""
    async with Connection(url, sasl=ScramSha256("guest", "guest")) as connection:
        assert connection.mechanism == "SCRAM-SHA-256"
    async with Connection(url, sasl=Plain("guest", "guest")) as connection:
        assert connection.mechanism == "PLAIN"
    with pytest.raises(amqp10.AuthenticationFailed):
        async with Connection(url, sasl=External()):
            pytest.fail("the server offers no EXTERNAL")


async def test_large_messages(url: str) -> None:
    """Memory bounded by the window, both ways; in a transaction, too."""
    async with Connection(url) as connection, connection.session() as session:
        async with session.sender("videos") as sender, session.transaction() as transaction:
            async with sender.stream(Message(content_type="video/mp4")) as body:
                await body.send(b"chunk")
            async with sender.stream(Message(content_type="video/mp4"), transaction=transaction) as body:
                await body.send(b"another")
        async with connection.receiver("videos", stream=True) as receiver:
            for expected in (b"chunk", b"another"):
                delivery = await receiver.receive()
                assert delivery.message.content_type == "video/mp4"
                async for chunk in delivery.iter_body():
                    assert chunk == expected
                delivery.accept()


async def test_passing_a_large_message_on(url: str) -> None:
    """Head, body and footer go on while they come in, as docs/build/large-messages.md says."""
    size = 5_000_000
    async with Connection(url) as connection, connection.sender("from") as first, connection.sender("to") as sender:
        await first.send_stream(Message(subject="s", footer={"x-opt-sum": 1}), bytes(size))
        async with connection.receiver("from", stream=True) as receiver:
            delivery = await receiver.receive()
            async with sender.stream(delivery.message.replace()) as body:
                async for chunk in delivery.iter_body():
                    await body.send(chunk)
                body.message.footer.update(delivery.message.footer)
            delivery.accept()
        async with connection.receiver("to") as receiver:
            with await receiver.receive() as message:
                assert bytes(message.body) == bytes(size)
                assert (message.subject, message.footer) == ("s", {"x-opt-sum": 1})


async def test_errors_leave_unwrapped(url: str) -> None:
    """One cause leaves as itself, whether of the block or of the connection."""
    with pytest.raises(KeyError):
        async with Connection(url) as connection, connection.sender("q"):
            raise KeyError("mine")
    with pytest.raises(TimeoutError):
        with anyio.fail_after(0.05):
            async with Connection(url) as connection, connection.receiver("empty") as receiver:
                await receiver.receive()


async def test_rejection_has_the_reason(url: str) -> None:
    """`send` raises unless accepted: a rejection with its condition and description."""
    async with Broker(auto_create=False) as broker, Connection(broker.url) as connection:
        async with connection.sender(None) as anonymous:
            with pytest.raises(MessageRejected) as caught:
                await anonymous.send(Message("x", to="nowhere"))
            assert caught.value.condition == "amqp:not-found"
            assert caught.value.description
            assert not isinstance(caught.value.outcome, Released | Modified)
