"""RabbitMQ's own client for AMQP 1.0 in Python, against the embedded broker; and RabbitMQ, to know the tests are right.

It talks to nobody but RabbitMQ 4, so the embedded broker says that it is that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import anyio.to_thread
import pytest

from ._matrix import fresh_name

client = pytest.importorskip("rabbitmq_amqp_python_client", reason="rabbitmq-amqp-python-client is not installed")

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.timeout(600),
    # It blocks, and says nothing about our event loop: one backend is enough.
    pytest.mark.parametrize("anyio_backend", ["trio"]),
]


@contextmanager
def connected(url: str) -> Iterator[Any]:
    """A connection of the client's."""
    with client.Environment(uri=url) as environment:
        connection = environment.connection()
        connection.dial()
        yield connection
        connection.close()


async def run(work: Callable[[Any, str], None], url: str) -> None:
    """Do that with a connection, in a thread, and with a name that no other test has."""

    def there() -> None:
        with connected(url) as connection:
            work(connection, fresh_name())

    await anyio.to_thread.run_sync(there)


class Enough(Exception):
    """What leaves a consumer's loop, which has no other end that leaves its connection alone."""


class Taker(client.AMQPMessagingHandler):  # type: ignore[misc, name-defined]
    """Accepts so many messages."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.bodies: list[Any] = []
        self.count = count

    def on_amqp_message(self, event: Any) -> None:
        self.delivery_context.accept(event)
        self.bodies.append(bytes(event.message.body))
        if len(self.bodies) == self.count:
            raise Enough


def taken(connection: Any, queue: str, count: int, **options: Any) -> list[bytes]:
    """So many messages of a queue."""
    handler = Taker(count)
    consumer = connection.consumer(client.AddressHelper.queue_address(queue), message_handler=handler, **options)
    with pytest.raises(Enough):
        consumer.run()
    consumer.close()
    return handler.bodies


def publish(connection: Any, address: str, *bodies: str) -> list[Any]:
    """Send them; their outcomes."""
    publisher = connection.publisher(address)
    messages = [client.Message(body=client.Converter.string_to_bytes(body)) for body in bodies]
    outcomes = [publisher.publish(message).remote_state for message in messages]
    publisher.close()
    return outcomes


def released(connection: Any, address: str) -> bool:
    """Whether no queue takes a message."""
    with pytest.raises(client.qpid.proton._utils.SendException) as caught:
        publish(connection, address, "nobody's")
    return bool(caught.value.state == client.OutcomeState.RELEASED)


async def test_topology(rabbit_url: str) -> None:
    """It declares, binds, sends by exchange and key, looks, receives, purges, unbinds and deletes."""

    def work(connection: Any, name: str) -> None:
        queue, exchange = f"{name} %/?", f"{name}.e"
        management = connection.management()
        kind = client.ExchangeType.topic
        management.declare_exchange(client.ExchangeSpecification(name=exchange, exchange_type=kind))
        management.declare_queue(client.QuorumQueueSpecification(name=queue, message_ttl=None))
        binding = client.ExchangeToQueueBindingSpecification(exchange, queue, "a.#")
        path = management.bind(binding)
        by_key = partial(client.AddressHelper.exchange_address, exchange)
        assert publish(connection, by_key("a.b"), "1", "2", "3") == [client.OutcomeState.ACCEPTED] * 3
        assert released(connection, by_key("b"))
        info = management.queue_info(queue)
        assert (info.name, info.queue_type, info.message_count) == (queue, client.QueueType.quorum, 3)
        assert taken(connection, queue, 2) == [b"1", b"2"]
        assert management.purge_queue(queue) == 1
        management.unbind(path)
        assert released(connection, by_key("a.b"))
        management.delete_exchange(exchange)
        management.delete_queue(queue)
        with pytest.raises(client.ValidationCodeException, match="404"):
            management.queue_info(queue)
        management.close()

    await run(work, rabbit_url)


async def test_declared_otherwise(rabbit_url: str) -> None:
    """It knows the conflict, and goes on."""

    def work(connection: Any, name: str) -> None:
        management = connection.management()
        management.declare_queue(client.ClassicQueueSpecification(name=name))
        management.declare_queue(client.ClassicQueueSpecification(name=name))
        with pytest.raises(client.ValidationCodeException, match="ErrPreconditionFailed"):
            management.declare_queue(client.QuorumQueueSpecification(name=name))
        management.delete_queue(name)
        management.close()

    await run(work, rabbit_url)


async def test_stream(rabbit_url: str) -> None:
    """It declares a stream, and reads it from the beginning, twice."""

    def work(connection: Any, name: str) -> None:
        management = connection.management()
        management.declare_queue(client.StreamSpecification(name=name))
        publish(connection, client.AddressHelper.queue_address(name), *"abc")
        for _ in range(2):
            options = client.StreamConsumerOptions(offset_specification=client.OffsetSpecification.first)
            assert taken(connection, name, 3, consumer_options=options) == [b"a", b"b", b"c"]
        management.delete_queue(name)
        management.close()

    await run(work, rabbit_url)
