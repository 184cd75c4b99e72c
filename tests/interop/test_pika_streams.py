"""Streams by pika, on the embedded broker and on RabbitMQ: the same places, the same refusals."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("pika", reason="pika is not installed")

import pika.exceptions
from pika.adapters.blocking_connection import BlockingChannel

from ._amqp091 import Inbox, channel_of, connected
from ._matrix import fresh_name

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600), pytest.mark.capability("streams")]
STREAM = {"x-queue-type": "stream"}


@pytest.fixture(params=["rabbitmq", "embedded"])
def url(request: pytest.FixtureRequest) -> str:
    """Where each of the two listens."""
    found: str = request.getfixturevalue(request.param).url()
    return found


@pytest.fixture
def channel(url: str) -> Iterator[BlockingChannel]:
    """A channel with confirms and a prefetch, which RabbitMQ wants for streams."""
    with channel_of(url, confirms=True) as channel:
        channel.basic_qos(prefetch_count=100)
        yield channel


@pytest.fixture
def stream(channel: BlockingChannel) -> str:
    """A stream of five messages, each of them a chunk, for each was confirmed before the next."""
    name = fresh_name()
    channel.queue_declare(name, durable=True, arguments=STREAM)
    for number in range(5):
        channel.basic_publish("", name, b"%d" % number)
    return name


HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        ("first", [0, 1, 2, 3, 4]),
        ("last", [4]),
        (3, [3, 4]),
        ("1h", [0, 1, 2, 3, 4]),
        (datetime.now(UTC).replace(tzinfo=None) - HOUR, [0, 1, 2, 3, 4]),
    ],
)
def test_where_it_begins(channel: BlockingChannel, stream: str, where: Any, numbers: list[int]) -> None:
    """The argument `x-stream-offset`, and the header of that name on each message."""
    inbox = Inbox(channel, stream, arguments={"x-stream-offset": where})
    assert [int(body) for body in inbox.wait(len(numbers))] == numbers
    assert [properties.headers["x-stream-offset"] for _, properties, _ in inbox.taken] == numbers
    assert not any(method.redelivered for method, _, _ in inbox.taken)


def test_from_now_on(channel: BlockingChannel, stream: str) -> None:
    """Without an argument, and with "next"."""
    inboxes = [Inbox(channel, stream), Inbox(channel, stream, arguments={"x-stream-offset": "next"})]
    channel.basic_publish("", stream, b"new")
    assert [inbox.wait(1) for inbox in inboxes] == [[b"new"], [b"new"]]


def test_nothing_is_taken(channel: BlockingChannel, stream: str) -> None:
    """Acked, rejected or given back: another consumer has it all, and the first one nothing again."""
    one = Inbox(channel, stream, arguments={"x-stream-offset": "first"})
    one.wait(5)
    channel.basic_ack(one.tags[0])
    channel.basic_nack(one.tags[2], multiple=True, requeue=True)
    channel.basic_reject(one.tags[3], requeue=False)
    another = Inbox(channel, stream, arguments={"x-stream-offset": "first"})
    assert len(another.wait(5)) == len(one.wait(5)) == 5


def test_prefetch(url: str, stream: str) -> None:
    """It holds a consumer back until it has acked."""
    with channel_of(url) as channel:
        channel.basic_qos(prefetch_count=2)
        inbox = Inbox(channel, stream, arguments={"x-stream-offset": "first"})
        inbox.wait(2)
        channel.basic_ack(inbox.tags[-1], multiple=True)
        assert [int(body) for body in inbox.wait(4)] == [0, 1, 2, 3]


def test_through_an_exchange(channel: BlockingChannel) -> None:
    """A stream is bound as any queue."""
    name, exchange = fresh_name(), fresh_name()
    channel.queue_declare(name, durable=True, arguments=STREAM | {"x-max-age": "1h", "x-max-length-bytes": 1_000_000})
    channel.exchange_declare(exchange, "topic", auto_delete=True)
    channel.queue_bind(name, exchange, "a.#")
    for key in ("a.b", "b.c", "a"):
        channel.basic_publish(exchange, key, key.encode())
    assert Inbox(channel, name, arguments={"x-stream-offset": "first"}).wait(2) == [b"a.b", b"a"]


@pytest.mark.parametrize(
    "settings",
    [
        {"durable": False},
        {"durable": True, "exclusive": True},
        {"durable": True, "auto_delete": True},
        *(
            {"durable": True, "arguments": STREAM | {name: value}}
            for name, value in (
                ("x-max-length", 5),
                ("x-message-ttl", 5),
                ("x-expires", 5000),
                ("x-overflow", "drop-head"),
                ("x-max-priority", 5),
                ("x-dead-letter-exchange", ""),
                ("x-single-active-consumer", True),
                ("x-max-age", "1w"),
                ("x-queue-type", "bogus"),
            )
        ),
    ],
)
def test_what_streams_cannot_be(url: str, settings: dict[str, Any]) -> None:
    """Declaring it is refused with 406."""
    with channel_of(url) as channel:
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
            channel.queue_declare(fresh_name(), **{"arguments": STREAM, **settings})
        assert refused.value.reply_code == 406


def test_what_cannot_be_done_with_them(url: str, stream: str) -> None:
    """Getting one message, and purging, are not implemented (540): the connection ends."""
    for method in ("basic_get", "queue_purge"):
        with connected(url) as connection:
            channel = connection.channel()
            with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as refused:
                getattr(channel, method)(stream)
            assert refused.value.reply_code == 540
