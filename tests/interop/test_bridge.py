"""The bridge between real brokers, and between the dialects that each of them speaks."""

from __future__ import annotations

import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pika
import pytest

import amqp10
from amqp10 import Connection, Data, Message, Reconnect, Unsupported
from amqp10.testing import FaultProxy

from ._matrix import Embedded, Peer, embedded_broker

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = [pytest.mark.anyio, pytest.mark.interop, pytest.mark.timeout(600), pytest.mark.capability("bridge")]

QUICK = Reconnect(initial_delay=0.02, max_delay=0.2, resume_timeout=0)
COUNT = 1000
PAIRS = [
    ("artemis", "broker_j"),
    ("broker_j", "rabbitmq"),
    ("rabbitmq", "artemis"),
    ("rabbitmq", "embedded"),
    ("embedded", "artemis"),
    ("rabbitmq 0-9-1", "artemis"),
    ("rabbitmq 0-9-1", "rabbitmq"),
    ("rabbitmq 0-9-1", "broker_j 0-10"),
    ("artemis", "rabbitmq 0-9-1"),
    ("broker_j 0-9-1", "rabbitmq"),
    ("broker_j 0-10", "artemis"),
    ("broker_j 0-10", "rabbitmq 0-9-1"),
]


@dataclass(frozen=True)
class End:
    """A broker, the dialect to speak with it, and a queue that is its own."""

    peer: Peer
    dialect: str
    address: str

    def connection(self, url: str | None = None, **settings: Any) -> Connection:
        """In the dialect of this end."""
        return Connection(url or self.peer.url(), dialect=self.dialect, **settings)

    async def fill(self, messages: list[Message]) -> None:
        """Send them to it, in AMQP 1.0."""
        async with Connection(self.peer.url()) as connection, connection.sender(self.address) as sender:
            await sender.send_many(messages)

    async def empty(self, count: int) -> list[Message]:
        """So many messages, in AMQP 1.0; if there are fewer all that the broker has, by its own word.

        A batch that does not come in time says nothing: a broker that writes to a busy disk pauses between two.
        """
        found: list[Message] = []
        async with Connection(self.peer.url()) as connection, connection.receiver(self.address, credit=0) as receiver:
            while len(found) < count:
                receiver.add_credit(100)
                await receiver.drain()
                if not receiver.buffered:
                    receiver.add_credit(1)  # what a connection had that was lost comes back when the broker notices
                batch = await receiver.receive_batch(100, max_wait=1)
                for delivery in batch:
                    found.append(delivery.message)
                    delivery.accept()
                if not batch:
                    break
        return found


@asynccontextmanager
async def end(request: pytest.FixtureRequest, name: str, server: Embedded | None = None) -> AsyncIterator[End]:
    """An end with a new queue on that broker, or on one of the test's own."""
    broker, _, dialect = name.partition(" ")
    peer = Peer(broker, server or request.getfixturevalue(broker))
    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        async with connection.sender(address):  # which makes it, where queues are made on first use
            yield End(peer, dialect or "1.0", address)


def orders(count: int) -> list[Message]:
    """Messages with what every dialect has a place for."""
    return [
        Message(
            f"[{number}]".encode(),
            durable=True,
            priority=6,
            message_id=f"id-{number}",
            correlation_id=f"about-{number}",
            reply_to="answers",
            content_type="application/octet-stream",
            ttl=timedelta(hours=1),
            application_properties={"number": number, "region": "eu", "urgent": number % 2 == 0},
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("anyio_backend", ["trio"])
@pytest.mark.parametrize(("source", "target"), PAIRS, ids=[f"{source} to {target}" for source, target in PAIRS])
async def test_from_one_to_another(request: pytest.FixtureRequest, source: str, target: str) -> None:
    """Every message arrives, in order, with its body and properties; the source is empty, and the report says so."""
    async with end(request, source) as old, end(request, target) as new:
        await old.fill(orders(COUNT))
        async with old.connection() as there, new.connection() as here:
            bridge = amqp10.bridge((there, old.address), (here, new.address), until_empty=True, window=100)
            with anyio.fail_after(60):
                plan = await bridge.plan()
                report = await bridge
        assert (plan.messages, plan.more) == (COUNT, False)
        assert report.moved == COUNT
        assert report.clean
        came = await new.empty(COUNT)
        assert [message.body for message in came] == [message.body for message in orders(COUNT)]
        for number, message in enumerate(came):
            assert message.durable
            if "broker_j 0-10" not in (source, target):  # Broker-J itself makes UUIDs of ids there, and back
                assert message.message_id == f"id-{number}"
                assert message.correlation_id == f"about-{number}"
            assert message.reply_to is not None
            assert "answers" in message.reply_to
            assert message.content_type == "application/octet-stream"
            assert message.application_properties is not None
            for name, value in (("number", number), ("region", "eu"), ("urgent", number % 2 == 0)):
                assert message.application_properties[name] == value
        assert await old.empty(1) == []


@pytest.mark.parametrize("anyio_backend", ["trio"])
@pytest.mark.parametrize(
    ("source", "target"),
    [("artemis", "rabbitmq"), ("rabbitmq 0-9-1", "artemis"), ("broker_j 0-10", "rabbitmq")],
)
async def test_through_broken_connections(request: pytest.FixtureRequest, source: str, target: str) -> None:
    """Both connections break, again and again: nothing is lost, and duplicates are no more than were counted."""
    chance = random.Random(f"{source} {target}")
    async with end(request, source) as old, end(request, target) as new:
        await old.fill(orders(COUNT))
        async with (
            FaultProxy(old.peer.url()) as before,
            FaultProxy(new.peer.url()) as behind,
            old.connection(before.url, reconnect=QUICK) as there,
            new.connection(behind.url, reconnect=QUICK) as here,
            anyio.create_task_group() as tasks,
        ):

            async def break_often() -> None:
                while True:
                    await anyio.sleep(chance.random())
                    proxy = chance.choice((before, behind))
                    proxy.cut_after(chance.randrange(20_000), chance.choice(("up", "down")))

            ends = (there, old.address), (here, new.address)
            with anyio.fail_after(120):
                async with amqp10.bridge(*ends, rate=300, window=50) as bridge:
                    tasks.start_soon(break_often)
                    while bridge.report.moved < COUNT:  # noqa: ASYNC110 - a report has no event
                        await anyio.sleep(0.05)
                    tasks.cancel_scope.cancel()
            assert before.cuts + behind.cuts > 2
        came = [message.body for message in await new.empty(2 * COUNT)]
        left = [message.body for message in await old.empty(COUNT)]
    assert {*came, *left} == {message.body for message in orders(COUNT)}
    assert len(came) + len(left) - COUNT <= bridge.report.duplicates


@pytest.mark.parametrize("anyio_backend", ["trio"])
@pytest.mark.parametrize("target", ["rabbitmq 0-9-1", "rabbitmq"])
async def test_a_message_that_ends_its_channel(request: pytest.FixtureRequest, target: str) -> None:
    """RabbitMQ takes no message of another user: in 0-9-1 its channel ends with that. The others arrive."""
    with embedded_broker("--trust-user-id") as server:
        await bridge_a_message_that_is_refused(request, server, target)


async def bridge_a_message_that_is_refused(request: pytest.FixtureRequest, server: Embedded, target: str) -> None:
    async with end(request, "embedded", server) as old, end(request, target) as new:
        messages = [Message(f"{number}".encode(), user_id=b"mallory" if number == 5 else None) for number in range(10)]
        await old.fill(messages)
        async with old.connection() as there, new.connection() as here:
            ends = (there, old.address), (here, new.address)
            with anyio.fail_after(60):
                report = await amqp10.bridge(*ends, until_empty=True, on_refused="reject")
        assert (report.moved, report.refused) == (9, 1)
        came = [message.body for message in await new.empty(20)]
        assert set(came) == {b"%d" % number for number in range(10) if number != 5}
        assert len(came) - 9 <= report.duplicates


@pytest.mark.matrix("bridge: exactly once from queue to queue, in transactions")
async def test_within_one_broker(peer: Peer) -> None:
    """Each batch is moved as a whole; a broker without transactions is said to be one before a message moves."""
    async with Connection(peer.url()) as connection:
        here, there = await peer.queue(connection), await peer.queue(connection)
        async with connection.sender(here) as sender, connection.sender(there):
            await sender.send_many(orders(COUNT))
        ends = (connection, here), (connection, there)
        if peer.name == "rabbitmq":
            with pytest.raises(Unsupported, match="RabbitMQ does not resume links"):
                await amqp10.bridge(*ends, exactly_once=True)
            peer.lacks("no transactions over AMQP 1.0: `Unsupported`, nothing has moved")
            return
        report = await amqp10.bridge(*ends, exactly_once=True, until_empty=True)
        assert (report.moved, report.clean) == (COUNT, True)
        came = await End(peer, "1.0", there).empty(COUNT)
        assert [message.message_id for message in came] == [f"id-{number}" for number in range(COUNT)]


@pytest.mark.parametrize("anyio_backend", ["trio"])
@pytest.mark.parametrize("exchange", ["", "amq.topic"])
@pytest.mark.parametrize("between", ["artemis", "embedded", "embedded 0-10", "embedded fast"])
async def test_there_and_back_again(request: pytest.FixtureRequest, between: str, exchange: str) -> None:
    """From RabbitMQ in 0-9-1 to another broker or dialect, and back: what pika gets is what pika sent."""
    properties = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={
            "text": "t",
            "yes": True,
            "number": -5,
            "table": {"a": [1, "two"]},
            "none": None,
            "x-own": "annotation",
        },
        delivery_mode=2,
        priority=4,
        correlation_id="about",
        reply_to="answers",
        message_id="id",
        timestamp=1_700_000_000,
        type="order",
        user_id="user",
        app_id="shop",
    )
    async with end(request, "rabbitmq 0-9-1") as old, end(request, between) as other, end(request, "rabbitmq") as new:
        url = old.peer.url().replace("localhost", "127.0.0.1")

        def channel(name: str, body: bytes | None) -> tuple[Any, bytes] | None:
            with pika.BlockingConnection(pika.URLParameters(url)) as connection:
                there = connection.channel()
                if body is not None:
                    if exchange:
                        there.queue_bind(name, exchange, name)
                    there.basic_publish(exchange, name, body, properties)
                    return None
                _, got, content = there.basic_get(name, auto_ack=True)
                return got, content

        await anyio.to_thread.run_sync(channel, old.address.removeprefix("/queues/"), b"a body")
        back = End(new.peer, "0-9-1", new.address)
        for here, there in ((old, other), (other, back)):
            async with here.connection() as source, there.connection() as target:
                ends = (source, here.address), (target, there.address)
                assert (await amqp10.bridge(*ends, until_empty=True)).moved == 1
        found = await anyio.to_thread.run_sync(channel, new.address.removeprefix("/queues/"), None)
    assert found is not None
    got, content = found
    assert content == b"a body"
    assert got.headers == properties.headers
    assert vars(got) == vars(properties)


@pytest.mark.parametrize("anyio_backend", ["trio"])
@pytest.mark.parametrize("between", ["rabbitmq 0-9-1", "broker_j 0-9-1", "broker_j 0-9", "broker_j 0-10"])
async def test_sections_there_and_back_again(request: pytest.FixtureRequest, between: str) -> None:
    """A body of several data sections is one to programs of the older dialect, and comes back as it was."""
    bodies = [Data(b"one", b"", b"two"), Data(*[b"x" * 100] * 5000), b"one section", Data(b"", b"")]
    async with end(request, "embedded") as old, end(request, between) as other, end(request, "embedded") as new:
        await old.fill([Message(body, footer={"x-sum": 1}) for body in bodies])
        for here, there in ((old, other), (other, new)):
            async with here.connection() as source, there.connection() as target:
                ends = (source, here.address), (target, there.address)
                assert (await amqp10.bridge(*ends, until_empty=True)).moved == len(bodies)
        came = await new.empty(len(bodies))
    assert [message.body for message in came] == bodies
    assert all(message.footer == {"x-sum": 1} for message in came)


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_off_broker_j_in_0_10(request: pytest.FixtureRequest) -> None:
    """What was published in 0-9-1 there, and is taken in 0-10, arrives as it was: without expiry, text as octets."""
    async with end(request, "broker_j 0-10") as old, end(request, "embedded") as new:
        async with Connection(old.peer.url(), dialect="0-9-1") as there, there.sender(old.address) as sender:
            await sender.send(Message(b"text", content_type="text/plain"))
            await sender.send(b"nothing said")
        async with old.connection() as source, new.connection() as target:
            assert (await amqp10.bridge((source, old.address), (target, new.address), until_empty=True)).moved == 2
        came = await new.empty(2)
    assert [(message.body, message.content_type) for message in came] == [
        (b"text", "text/plain"),
        (b"nothing said", None),
    ]
    assert {(message.absolute_expiry_time, message.creation_time, message.content_encoding) for message in came} == {
        (None, None, None)
    }


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_within_broker_j_in_0_10(request: pytest.FixtureRequest) -> None:
    """Its transactions of 0-10 are one thing over both queues: moved once, through a connection that breaks."""
    chance = random.Random(10)
    async with end(request, "broker_j 0-10") as old, end(request, "broker_j 0-10") as new:
        await old.fill(orders(COUNT))
        async with (
            FaultProxy(old.peer.url()) as proxy,
            old.connection(proxy.url, reconnect=QUICK) as connection,
            anyio.create_task_group() as tasks,
        ):

            async def break_often() -> None:
                while True:
                    await anyio.sleep(chance.random())
                    proxy.cut_after(chance.randrange(20_000), chance.choice(("up", "down")))

            ends = (connection, old.address), (connection, new.address)
            with anyio.fail_after(120):
                async with amqp10.bridge(*ends, exactly_once=True, until_empty=True, rate=500, window=50) as bridge:
                    tasks.start_soon(break_often)
                    await bridge.done()
                    tasks.cancel_scope.cancel()
            assert proxy.cuts > 1
        came = [message.body for message in await new.empty(2 * COUNT)]
        assert came == [message.body for message in orders(COUNT)]
        assert await old.empty(1) == []


@pytest.mark.matrix("bridge: copy, and leave the messages")
async def test_copying(peer: Peer, request: pytest.FixtureRequest) -> None:
    """Both ends have all of them afterwards; a broker that only claims to copy is not trusted."""
    async with end(request, "embedded") as new, Connection(peer.url()) as there, new.connection() as here:
        address = await peer.queue(there)
        old = End(peer, "1.0", address)
        await old.fill(orders(100))
        copying = amqp10.bridge((there, address), (here, new.address), copy=True, until_empty=True)
        if peer.name == "rabbitmq":
            with pytest.raises(Unsupported, match="does not browse"):
                await copying
            peer.lacks("it would take them: `Unsupported`")
        else:
            assert (await copying).moved == 100
            assert len(await new.empty(100)) == 100
        assert len(await old.empty(100)) == 100


@pytest.mark.parametrize("anyio_backend", ["trio"])
@pytest.mark.parametrize("name", ["rabbitmq", "rabbitmq_43", "embedded"])
async def test_the_page_about_moving(request: pytest.FixtureRequest, name: str) -> None:
    """Its programs before and after, and the latter in both dialects, do the same, and come to an end."""
    url = request.getfixturevalue(name).url()
    for program in (["before.py"], ["after.py", "0-9-1"], ["after.py", "1.0"], ["before.py"]):
        file, *rest = program
        command = [sys.executable, "-W", "error", str(EXAMPLES / "rabbitmq" / file), url, *rest]
        with anyio.fail_after(120):
            done = await anyio.run_process(command, check=False)
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout.decode() == "no queue took order 3\norder 1 eu\norder 2 failed\norder 2 eu\n"
    both = [sys.executable, "-W", "error", str(EXAMPLES / "two_dialects.py"), url]
    done = await anyio.run_process(both, check=False)
    assert done.stdout.decode() == "sent in 0-9-1 received in 1.0\nsent in 1.0 received in 0-9-1\n", done.stderr


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_carbon_copies(request: pytest.FixtureRequest) -> None:
    """What another program published with a CC is not copied there once more, and says that it was."""
    async with (
        end(request, "rabbitmq 0-9-1") as old,
        end(request, "rabbitmq 0-9-1") as aside,
        end(request, "rabbitmq 0-9-1") as new,
    ):
        url = old.peer.url().replace("localhost", "127.0.0.1")

        def publish() -> None:
            with pika.BlockingConnection(pika.URLParameters(url)) as connection:
                properties = pika.BasicProperties(headers={"CC": [aside.address.removeprefix("/queues/")]})
                connection.channel().basic_publish("", old.address.removeprefix("/queues/"), b"x", properties)

        await anyio.to_thread.run_sync(publish)
        async with old.connection() as source, new.connection() as target:
            assert (await amqp10.bridge((source, old.address), (target, new.address), until_empty=True)).moved == 1
        (came,) = await new.empty(1)
        assert came.message_annotations["x-opt-bridge-cc"] == [aside.address.removeprefix("/queues/")]
        assert len(await aside.empty(2)) == 1
