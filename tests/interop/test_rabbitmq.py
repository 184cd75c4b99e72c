"""Our client against RabbitMQ 4 and, in the same words, the embedded broker: addresses, management, outcomes."""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import anyio
import anyio.to_thread
import pika
import pytest

from amqp10 import (
    TLS,
    Connection,
    DialectName,
    External,
    ManagementError,
    Message,
    MessageRejected,
    MessageReleased,
    Modified,
    Released,
    SessionEnded,
)
from amqp10.rabbitmq import Binding, Management, QueueType, exchange_address, management, queue_address

from ._matrix import Embedded
from .brokers import Server

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.timeout(600),
    pytest.mark.capability("RabbitMQ management"),
]

NAMES = ("plain", "with/slash", "with space", "100% & more?#", "käse", "日本", ";key=a")


@pytest.fixture(params=["rabbitmq", "embedded"])
def broker(request: pytest.FixtureRequest) -> Server | Embedded:
    """Both brokers that have this management, in turn."""
    found: Server | Embedded = request.getfixturevalue(request.param)
    return found


@pytest.fixture
async def connection(broker: Server | Embedded, anyio_backend: str) -> AsyncIterator[Connection]:
    async with Connection(broker.url()) as connection:
        yield connection


@pytest.fixture
async def rabbit(connection: Connection) -> AsyncIterator[Management]:
    async with management(connection) as rabbit:
        yield rabbit


def fresh(name: str = "q") -> str:
    """A name that no other test has."""
    return f"{name}-{secrets.token_hex(4)}"


@pytest.mark.parametrize("queue_type", ["classic", "quorum", "stream"])
async def test_queue_of_each_type(rabbit: Management, queue_type: QueueType) -> None:
    """Each type is declared, found as it was declared, declared again, and deleted."""
    name = fresh()
    made = await rabbit.declare_queue(name, queue_type)
    assert (made.name, made.type, made.durable, made.messages) == (name, queue_type, True, 0)
    assert await rabbit.queue(name) == made
    assert (await rabbit.declare_queue(name, queue_type)).name == name
    assert await rabbit.delete_queue(name) == 0
    with pytest.raises(ManagementError) as caught:
        await rabbit.queue(name)
    assert caught.value.status == 404
    assert name in caught.value.description


async def test_arguments(rabbit: Management) -> None:
    """Typed arguments reach RabbitMQ under its names, times in its units."""
    quorum = await rabbit.declare_queue(
        fresh(), delivery_limit=3, max_length=10, overflow="reject-publish", message_ttl=timedelta(minutes=1)
    )
    assert quorum.arguments == {
        "x-queue-type": "quorum",
        "x-delivery-limit": 3,
        "x-max-length": 10,
        "x-overflow": "reject-publish",
        "x-message-ttl": 60_000,
    }
    stream = await rabbit.declare_queue(fresh(), "stream", max_age=timedelta(days=1), max_length_bytes=1_000_000)
    assert stream.arguments["x-max-age"] == "86400s"
    classic = await rabbit.declare_queue(fresh(), "classic", arguments={"x-max-priority": 5}, auto_delete=True)
    assert (classic.arguments["x-max-priority"], classic.auto_delete) == (5, True)
    for name in (quorum.name, stream.name, classic.name):
        await rabbit.delete_queue(name)


async def test_precondition_failed(rabbit: Management) -> None:
    """A queue that is there in another form is an error with RabbitMQ's words, and management goes on."""
    name = fresh()
    await rabbit.declare_queue(name, "classic")
    with pytest.raises(ManagementError, match="x-queue-type") as caught:
        await rabbit.declare_queue(name, "quorum")
    assert caught.value.status == 409
    assert await rabbit.delete_queue(name) == 0


@pytest.mark.parametrize("name", NAMES)
async def test_names(connection: Connection, rabbit: Management, name: str) -> None:
    """Any name is a queue's, an exchange's and a routing key, in management and in addresses."""
    queue, exchange = fresh(name), fresh(name)
    await rabbit.declare_queue(queue, "classic")
    await rabbit.declare_exchange(exchange, "direct")
    await rabbit.bind(exchange, queue=queue, key=name)
    assert await rabbit.bindings(exchange, queue=queue, key=name) == [Binding(exchange, queue, None, name, {})]
    async with connection.sender(exchange_address(exchange, name)) as sender:
        await sender.send("by exchange and key")
    async with connection.sender(queue_address(queue)) as sender:
        await sender.send("by queue")
    async with connection.receiver(queue_address(queue)) as receiver:
        for body in ("by exchange and key", "by queue"):
            with await receiver.receive() as message:
                assert message.body == body
    await rabbit.unbind(exchange, queue=queue, key=name)
    assert await rabbit.bindings(exchange, queue=queue, key=name) == []
    await rabbit.delete_exchange(exchange)
    await rabbit.delete_queue(queue)


async def test_topic_headers_and_exchanges(connection: Connection, rabbit: Management) -> None:
    """Topic and headers exchanges route by their keys and arguments, through an exchange bound to another."""
    first, second, queue = fresh("first"), fresh("second"), fresh()
    await rabbit.declare_exchange(first, "topic")
    await rabbit.declare_exchange(second, "headers")
    await rabbit.declare_queue(queue, "classic")
    await rabbit.bind(first, exchange=second, key="order.#")
    for region in ("eu", "us"):
        await rabbit.bind(second, queue=queue, arguments={"x-match": "all", "region": region})
    assert len(await rabbit.bindings(second, queue=queue)) == 2
    await rabbit.unbind(second, queue=queue, arguments={"x-match": "all", "region": "us"})
    async with connection.sender(exchange_address(first, "order.created")) as sender:
        await sender.send(Message("eu", application_properties={"region": "eu"}))
        with pytest.raises(MessageReleased):
            await sender.send(Message("us", application_properties={"region": "us"}))
    assert (await rabbit.queue(queue)).messages == 1
    await rabbit.delete_exchange(first)
    await rabbit.delete_exchange(second)
    await rabbit.delete_queue(queue)


async def test_11_unroutable_is_released(connection: Connection) -> None:
    """Pitfall 11: what no queue takes is released, and the exception says what that means here."""
    async with connection.sender(exchange_address("amq.direct", fresh("key"))) as sender:
        with pytest.raises(MessageReleased) as caught:
            await sender.send("nobody wants it")
    assert "no queue" in str(caught.value)


async def test_full_queue_rejects(connection: Connection, rabbit: Management) -> None:
    """A full queue rejects."""
    queue = fresh()
    await rabbit.declare_queue(queue, "classic", max_length=1, overflow="reject-publish")
    async with connection.sender(queue_address(queue)) as sender:
        with pytest.raises(MessageRejected):
            for _ in range(10):
                await sender.send("x")
    await rabbit.delete_queue(queue)


async def test_purge_and_delete_count(connection: Connection, rabbit: Management) -> None:
    """Purging and deleting say how many messages went."""
    queue = fresh()
    await rabbit.declare_queue(queue, "classic")
    async with connection.sender(queue_address(queue)) as sender:
        await sender.send_many(range(5))
        assert await rabbit.purge_queue(queue) == 5
        await sender.send_many(range(3))
    assert await rabbit.delete_queue(queue) == 3


async def test_counts(connection: Connection, rabbit: Management) -> None:
    """Messages that are out and unsettled are not counted, and not purged."""
    for queue_type in ("classic", "quorum"):
        queue = fresh()
        await rabbit.declare_queue(queue, queue_type)
        async with connection.sender(queue_address(queue)) as sender:
            await sender.send_many(range(5))
        async with connection.receiver(queue_address(queue), credit=0) as receiver:
            receiver.add_credit(2)
            first, second = await receiver.receive(), await receiver.receive()
            found = await rabbit.queue(queue)
            assert (found.messages, found.consumers) == (3, 1)
            assert await rabbit.purge_queue(queue) == 3
            first.accept()
            second.accept()
        await rabbit.delete_queue(queue)


async def test_requests_that_fail(rabbit: Management) -> None:
    """What is not there, what is reserved, what a type does not do: the status, and management goes on."""
    stream = fresh()
    await rabbit.declare_queue(stream, "stream")
    missing = fresh()
    for call, statuses in (
        (rabbit.queue(missing), {404}),
        (rabbit.purge_queue(missing), {400, 404}),
        (rabbit.purge_queue(stream), {400}),
        (rabbit.declare_queue("amq.mine"), {403}),
        (rabbit.declare_queue("two\nlines"), {400}),
        (rabbit.declare_exchange(missing, "no-such-type"), {400}),
        (rabbit.declare_exchange("amq.direct", "fanout"), {403, 409}),
        (rabbit.delete_exchange("amq.direct"), {403}),
        (rabbit.bind("amq.direct", queue=missing), {400, 404}),
        (rabbit.bind(missing, queue=stream), {400, 404}),
    ):
        with pytest.raises(ManagementError) as caught:
            await call
        assert caught.value.status in statuses, caught.value
    assert await rabbit.delete_queue(missing) == 0
    assert await rabbit.delete_queue(stream) == 0


async def test_forbidden(rabbitmq: Server) -> None:
    """A user who may not: RabbitMQ ends the session, which is management's own, and the rest goes on."""
    queue = fresh()
    async with Connection(rabbitmq.url()) as connection, management(connection) as rabbit:
        await rabbit.declare_queue(queue, "classic")
    async with Connection(rabbitmq.url(user="reader")) as connection, connection.receiver(queue_address(queue)):
        for number in range(2):
            async with management(connection) as forbidden:
                with pytest.raises(SessionEnded, match="amqp:unauthorized-access"):
                    await forbidden.declare_queue(f"{queue}-{number}")
        async with management(connection) as allowed:
            assert (await allowed.queue(queue)).consumers == 1
    async with Connection(rabbitmq.url()) as connection, management(connection) as rabbit:
        await rabbit.delete_queue(queue)


async def test_sessions_that_it_ends(rabbitmq: Server) -> None:
    """4.0 and 4.1 end the session over an unknown queue, again and again: each time the next session begins."""
    async with Connection(rabbitmq.url()) as connection, management(connection) as rabbit:
        for _ in range(200):
            with pytest.raises(SessionEnded, match="amqp:not-found"):
                async with connection.receiver(queue_address(fresh("missing"))):
                    pass
        queue = fresh()
        await rabbit.declare_queue(queue, "classic")
        async with connection.sender(queue_address(queue)) as sender:
            await sender.send("still here")
        assert await rabbit.delete_queue(queue) == 1


async def test_exclusive_queue(broker: Server | Embedded) -> None:
    """It is this connection's alone, outlives the management that made it, and ends with the connection."""
    queue = fresh()
    async with Connection(broker.url()) as other, management(other) as theirs:
        async with Connection(broker.url()) as owner:
            async with management(owner) as rabbit:
                await rabbit.declare_queue(queue, "classic", exclusive=True)
            async with owner.sender(queue_address(queue)) as sender:
                await sender.send("x")
            with pytest.raises(ManagementError) as caught:
                await theirs.declare_queue(queue, "classic", exclusive=True)
            assert caught.value.status in (400, 409)
        with anyio.fail_after(60), pytest.raises(ManagementError) as caught:
            while await theirs.queue(queue):
                pass
        assert caught.value.status == 404


async def test_many_at_once(rabbit: Management) -> None:
    """Operations of many tasks are told apart."""
    names = [fresh() for _ in range(20)]

    async def declare(name: str) -> None:
        assert (await rabbit.declare_queue(name, "classic")).name == name
        await rabbit.delete_queue(name)

    async with anyio.create_task_group() as tasks:
        for name in names:
            tasks.start_soon(declare, name)


async def test_tls_and_external(rabbitmq: Server) -> None:
    """TLS with a certificate that is verified, by password and by the client's certificate."""
    certificates = rabbitmq.certificates
    async with Connection(rabbitmq.url("amqps"), tls=TLS(ca=certificates / "ca.pem")) as connection:
        assert connection.mechanism == "PLAIN"
    tls = TLS(ca=certificates / "ca.pem", certificate=certificates / "client.pem", key=certificates / "client.key")
    async with Connection(rabbitmq.url("amqps", user=None), tls=tls, sasl=External()) as connection:
        assert connection.mechanism == "EXTERNAL"


@pytest.mark.parametrize("dialect", ["0-9-1", "1.0"])
@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
@pytest.mark.parametrize("name", ["rabbitmq", "rabbitmq_43", "embedded"])
async def test_what_came_before(
    request: pytest.FixtureRequest, name: str, queue_type: QueueType, dialect: DialectName
) -> None:
    """What says that a message came before is what the page's table says."""
    url, queue = request.getfixturevalue(name).url(), fresh()
    async with Connection(url) as connection, management(connection) as rabbit:
        await rabbit.declare_queue(queue, queue_type)
        async with (
            Connection(url, dialect=dialect) as consuming,
            connection.sender(queue_address(queue)) as sender,
            consuming.receiver(queue_address(queue), credit=1) as receiver,
        ):
            for outcome in (Released(), Modified(delivery_failed=True)):
                await sender.send(Message(b"again", durable=True))
                with anyio.fail_after(60):
                    first = await receiver.receive()
                    first.settle(outcome)
                    again = await receiver.receive()
                    again.accept()
                assert first.message.delivery_count == 0
                counted = dialect == "0-9-1" or (
                    isinstance(outcome, Modified) and (name, queue_type) != ("rabbitmq", "classic")
                )
                assert again.message.delivery_count == counted
                assert not again.message.first_acquirer
                assert first.message.first_acquirer == (dialect == "0-9-1" or name != "embedded")
                if dialect == "1.0" and isinstance(outcome, Released):
                    counting = "x-delivery-count" if name == "rabbitmq" else "x-acquired-count"
                    annotations = again.message.message_annotations
                    assert annotations.get(counting) == (1 if queue_type == "quorum" else None)


@pytest.mark.parametrize("dialect", ["0-9-1", "1.0"])
@pytest.mark.parametrize("name", ["rabbitmq", "rabbitmq_43"])
async def test_type_and_app_id(request: pytest.FixtureRequest, name: str, dialect: DialectName) -> None:
    """What the page about moving says to send as `type` and `app_id` reaches pika as these."""
    url, queue = request.getfixturevalue(name).url(), fresh()
    messages = {
        "0-9-1": Message(b"1", message_annotations={"x-opt-0-9-1": {"type": "created", "app-id": "shop"}}),
        "1.0": Message(b"1", group_id="shop", message_annotations={"x-basic-type": "created"}),
    }

    def got() -> tuple[object, object]:
        with pika.BlockingConnection(pika.URLParameters(url)) as connection:
            _, properties, _ = connection.channel().basic_get(queue, auto_ack=True)
            return properties.type, properties.app_id

    async with Connection(url) as connection, management(connection) as rabbit:
        await rabbit.declare_queue(queue)
        async with Connection(url, dialect=dialect) as sending, sending.sender(queue_address(queue)) as sender:
            await sender.send(messages[dialect])
        assert await anyio.to_thread.run_sync(got) == ("created", "shop")


def test_example(broker: Server | Embedded) -> None:
    """The page's example runs as written, at either."""
    example = Path(__file__).parents[2] / "examples" / "rabbitmq" / "topology.py"
    command = [sys.executable, "-W", "error", str(example), broker.url()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == ["quorum 1 message", "order 1"]
    assert "released = unroutable" in done.stdout
