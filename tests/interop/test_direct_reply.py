"""RabbitMQ's direct reply-to in 0-9-1: replies without a queue, with pika on either side, there and embedded."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread
import pytest

pytest.importorskip("pika", reason="pika is not installed")

import pika
import pika.exceptions

from amqp10 import Connection, LinkDetached, Message, Reconnect
from amqp10.testing import FaultProxy

from ._amqp091 import channel_of
from ._matrix import fresh_name

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.timeout(600),
    pytest.mark.capability("requests and replies"),
]

REPLIES = "amq.rabbitmq.reply-to"


@pytest.fixture
def anyio_backend() -> str:
    return "trio"


@pytest.fixture(params=["rabbitmq", "embedded"])
def url(request: pytest.FixtureRequest) -> str:
    """Where each of the two listens."""
    found: str = request.getfixturevalue(request.param).url()
    return found


@asynccontextmanager
async def serving(url: str) -> AsyncIterator[str]:
    """A responder of ours that says each body twice; its queue."""
    queue = fresh_name()
    async with Connection(url, dialect="0-9-1") as connection:
        await connection.native.declare_queue(queue)
        async with connection.responder(queue) as responder, anyio.create_task_group() as tasks:

            async def serve() -> None:
                async for request in responder:
                    await request.reply(request.message.body * 2)

            tasks.start_soon(serve)
            yield queue
            tasks.cancel_scope.cancel()
        await connection.native.delete_queue(queue)


async def test_both_ours(url: str) -> None:
    """A requester gets its replies through an address that the broker made; many at a time, each its own."""
    async with serving(url) as queue, Connection(url, dialect="0-9-1") as connection:
        async with connection.requester(queue, reply_to=REPLIES, credit=5) as requester:
            assert requester.reply_to not in (None, "", REPLIES)
            replies = {}

            async def ask(number: int) -> None:
                replies[number] = (await requester.request(b"%d" % number)).body

            with anyio.fail_after(60):
                async with anyio.create_task_group() as tasks:
                    for number in range(100):
                        tasks.start_soon(ask, number)
            assert replies == {number: b"%d" % number * 2 for number in range(100)}
            assert requester.unmatched == 0


async def test_two_spellings_and_two_requesters(url: str) -> None:
    """Each has an address of its own, on one connection, too."""
    async with serving(url) as queue, Connection(url, dialect="0-9-1") as connection:
        async with (
            connection.requester(queue, reply_to=REPLIES) as one,
            connection.requester(queue, reply_to=f"/queues/{REPLIES}") as other,
        ):
            assert one.reply_to != other.reply_to
            with anyio.fail_after(60):
                assert (await one.request(b"a")).body == b"aa"
                assert (await other.request(b"b")).body == b"bb"


async def test_the_requester_is_gone(url: str) -> None:
    """A responder that has not replied to it before is told, for nobody is there."""
    queue = fresh_name()
    async with Connection(url, dialect="0-9-1") as connection, Connection(url, dialect="0-9-1") as others:
        await connection.native.declare_queue(queue)
        async with connection.responder(queue) as responder:
            async with others.requester(queue, reply_to=REPLIES) as requester, anyio.create_task_group() as tasks:
                tasks.start_soon(requester.request, b"x")
                with anyio.fail_after(60):
                    request = await responder.receive()
                tasks.cancel_scope.cancel()
            with pytest.raises(LinkDetached) as gone:
                await request.reply(b"y")
            assert gone.value.condition == "amqp:not-found"
            request.delivery.accept()
        assert await connection.native.delete_queue(queue) == 0


async def test_outlives_a_loss(url: str) -> None:
    """After a loss there is another address, and what was asked is asked again with that."""
    quick = Reconnect(initial_delay=0.02, max_delay=0.2)
    async with (
        serving(url) as queue,
        FaultProxy(url) as proxy,
        Connection(proxy.url, dialect="0-9-1", reconnect=quick) as connection,
        connection.requester(queue, reply_to=REPLIES) as requester,
    ):
        with anyio.fail_after(60):
            assert (await requester.request(b"a")).body == b"aa"
            before = requester.reply_to
            proxy.cut()
            assert (await requester.request(b"b")).body == b"bb"
            assert requester.reply_to != before


async def test_pika_asks(url: str) -> None:
    """pika's requests are answered as any others."""

    def ask(queue: str) -> list[bytes]:
        with channel_of(url) as channel:
            found: list[bytes] = []
            channel.basic_consume(REPLIES, lambda *reply: found.append(reply[-1]), auto_ack=True)
            for number in range(3):
                channel.basic_publish(
                    "", queue, b"%d" % number, pika.BasicProperties(reply_to=REPLIES, correlation_id=str(number))
                )
            while len(found) < 3:
                channel.connection.process_data_events(1)
            return found

    async with serving(url) as queue:
        with anyio.fail_after(60):
            assert await anyio.to_thread.run_sync(ask, queue) == [b"00", b"11", b"22"]


async def test_pika_answers(url: str) -> None:
    """pika replies to what a request says, to the default exchange."""
    queue, ready, over = fresh_name(), threading.Event(), threading.Event()

    def serve() -> None:
        with channel_of(url) as channel:
            channel.queue_declare(queue, auto_delete=True)

            def reply(_: object, method: object, said: pika.BasicProperties, body: bytes) -> None:
                answer = pika.BasicProperties(correlation_id=said.correlation_id)
                channel.basic_publish("", said.reply_to, body * 2, answer)

            channel.basic_consume(queue, reply, auto_ack=True)
            ready.set()
            while not over.is_set():
                channel.connection.process_data_events(0.1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.to_thread.run_sync, serve)
        try:
            await anyio.to_thread.run_sync(ready.wait, 30)
            async with Connection(url, dialect="0-9-1") as connection:
                async with connection.requester(queue, reply_to=REPLIES) as requester:
                    with anyio.fail_after(60):
                        assert (await requester.request(Message(b"a", correlation_id="own"))).body == b"aa"
                        assert (await requester.request(b"b")).body == b"bb"
        finally:
            over.set()


def test_nothing_to_ack(url: str) -> None:
    """Whoever would ack replies, or consumes them twice on a channel, loses the channel (406), as at RabbitMQ."""
    for again in (False, True):
        with channel_of(url) as channel:
            if again:
                channel.basic_consume(REPLIES, print, auto_ack=True)
            with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
                channel.basic_consume(REPLIES, print, auto_ack=again)
            assert closed.value.reply_code == 406
