"""pika, which speaks AMQP 0-9-1, against the embedded broker, and against RabbitMQ to know that the tests are right."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pika", reason="pika is not installed")

import pika
import pika.exceptions

from ._amqp091 import Inbox, all_in, channel_of, connected, eventually, wait_until
from ._matrix import fresh_name

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600), pytest.mark.capability("AMQP 0-9-1")]


@pytest.fixture(params=["rabbitmq", "embedded"])
def url(request: pytest.FixtureRequest) -> str:
    """Where each of the two listens."""
    found: str = request.getfixturevalue(request.param).url()
    return found


# Publishing


@pytest.mark.parametrize("size", [0, 1, 1000, 1 << 20])
def test_confirmed(url: str, size: int) -> None:
    """What is confirmed is in the queue, in order, whole, whatever its size."""
    with channel_of(url, confirms=True) as channel:
        queue = channel.queue_declare("", exclusive=True).method.queue
        bodies = [bytes([number]) * size for number in range(5)]
        for body in bodies:
            channel.basic_publish("", queue, body)
        assert channel.queue_declare(queue, passive=True).method.message_count == 5
        assert all_in(channel, queue) == bodies


def test_unroutable(url: str) -> None:
    """A mandatory message that no queue is for comes back with 312, and is confirmed; one that is not just is."""
    with channel_of(url, confirms=True) as channel:
        for exchange, key in (("", fresh_name()), ("amq.topic", "nobody.listens")):
            channel.basic_publish(exchange, key, b"not mandatory")
            with pytest.raises(pika.exceptions.UnroutableError) as returned:
                channel.basic_publish(
                    exchange, key, b"x" * 10_000, pika.BasicProperties(message_id="m"), mandatory=True
                )
            (message,) = returned.value.messages
            assert message.method.reply_code == 312
            assert (message.method.exchange, message.method.routing_key) == (exchange, key)
            assert (message.properties.message_id, message.body) == ("m", b"x" * 10_000)


def test_returned_without_confirms(url: str) -> None:
    """The same without confirms: it is returned, and the channel goes on."""
    with channel_of(url) as channel:
        returned: list[Any] = []
        channel.add_on_return_callback(lambda *what: returned.append(what))
        channel.basic_publish("", fresh_name(), b"x", mandatory=True)
        wait_until(channel, lambda: bool(returned))
        assert returned[0][1].reply_code == 312
        assert channel.queue_declare("", exclusive=True).method.message_count == 0


def test_no_such_exchange(url: str) -> None:
    """Publishing to an exchange that is not there ends the channel with 404, and the channel only."""
    with connected(url) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
            channel.basic_publish(fresh_name(), "key", b"x")
        assert closed.value.reply_code == 404
        assert connection.channel().queue_declare("", exclusive=True).method.queue


PROPERTIES = {
    "content_type": "text/plain",
    "content_encoding": "utf-8",
    "delivery_mode": 2,
    "priority": 7,
    "correlation_id": "c-1",
    "reply_to": "answers",
    "message_id": "m-1",
    "timestamp": 1_700_000_000,
    "type": "greeting",
    "user_id": "user",
    "app_id": "test",
}
HEADERS: dict[str, Any] = {
    "text": "ö",
    "true": True,
    "int": 42,
    "negative": -1,
    "big": 1 << 40,
    "decimal": Decimal("3.14"),
    "time": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    "bytes": b"\0\xff",
    "nothing": None,
    "list": [1, "two", None, [3]],
    "table": {"a": {"b": [True]}, "c": 1},
    "x-mine": "annotation",
}


def test_properties(url: str) -> None:
    """All properties come as they went, and headers of all types that pika writes."""
    with channel_of(url, confirms=True) as channel:
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, b"x", pika.BasicProperties(headers=HEADERS, expiration="60000", **PROPERTIES))
        channel.basic_publish("", queue, b"y")
        method, properties, body = channel.basic_get(queue)
        assert (method.exchange, method.routing_key, method.redelivered, method.message_count) == ("", queue, False, 1)
        assert {name: getattr(properties, name) for name in PROPERTIES} == PROPERTIES
        # What is left of it, as AMQP 1.0 wants it; RabbitMQ says what was said.
        assert 50_000 < int(properties.expiration) <= 60_000
        assert _comparable(properties.headers) == _comparable(HEADERS)
        method, properties, body = channel.basic_get(queue)
        assert body == b"y"
        assert not any(getattr(properties, name) for name in (*PROPERTIES, "headers"))


def _comparable(headers: Any) -> Any:
    """pika gives times without a zone, and binaries as text where they are UTF-8."""
    return {
        name: value.replace(tzinfo=None) if isinstance(value, datetime) else value for name, value in headers.items()
    }


# Receiving


def test_consuming(url: str) -> None:
    """Messages come in order, once; acknowledged they are gone, one by one or all up to one."""
    with channel_of(url, confirms=True) as channel:
        queue = channel.queue_declare(fresh_name()).method.queue
        for number in range(6):
            channel.basic_publish("", queue, b"%d" % number)
        inbox = Inbox(channel, queue)
        assert inbox.wait(6) == [b"%d" % number for number in range(6)]
        assert not any(method.redelivered for method, _, _ in inbox.taken)
        channel.basic_ack(inbox.tags[1])
        channel.basic_ack(inbox.tags[3], multiple=True)
        channel.close()
        with channel_of(url) as other:
            eventually(lambda: other.queue_declare(queue, passive=True).method.message_count, 2)
            method, _, body = other.basic_get(queue, auto_ack=True)
            assert (method.redelivered, body) == (True, b"4")
            other.queue_delete(queue)


def test_giving_back(url: str) -> None:
    """Requeued messages come again in their old places, marked; those not requeued do not."""
    with channel_of(url, confirms=True) as channel:
        queue = channel.queue_declare("", exclusive=True).method.queue
        for number in range(6):
            channel.basic_publish("", queue, b"%d" % number)
        taken = [channel.basic_get(queue) for _ in range(6)]
        tags = [method.delivery_tag for method, _, _ in taken]
        channel.basic_reject(tags[0], requeue=True)
        channel.basic_reject(tags[1], requeue=False)
        channel.basic_nack(tags[3], multiple=True, requeue=True)
        channel.basic_nack(tags[4], requeue=False)
        channel.basic_ack(tags[5])
        found = [(method.redelivered, body) for method, _, body in (channel.basic_get(queue) for _ in range(3))]
        assert found == [(True, b"0"), (True, b"2"), (True, b"3")]
        assert channel.basic_get(queue) == (None, None, None)


def test_prefetch(url: str) -> None:
    """No more than so many are out at once; each that is settled lets another one come."""
    with channel_of(url, confirms=True) as channel:
        queue = channel.queue_declare("", exclusive=True).method.queue
        for number in range(10):
            channel.basic_publish("", queue, b"%d" % number)
        channel.basic_qos(prefetch_count=3)
        inbox = Inbox(channel, queue)
        inbox.wait(3)
        channel.basic_ack(inbox.tags[0])
        inbox.wait(4)
        channel.basic_nack(inbox.tags[2], multiple=True, requeue=False)
        inbox.wait(6)
        channel.basic_qos(prefetch_count=0)
        channel.basic_ack(0, multiple=True)
        inbox.wait(9)


def test_no_acknowledgement(url: str) -> None:
    """A consumer that acknowledges nothing gets all at once, and what it got is gone."""
    with channel_of(url, confirms=True) as channel:
        queue = channel.queue_declare("", exclusive=True).method.queue
        for _ in range(100):
            channel.basic_publish("", queue, b"x")
        channel.basic_qos(prefetch_count=1)
        inbox = Inbox(channel, queue, auto_ack=True)
        inbox.wait(100)
        channel.basic_cancel(inbox.tag)
        assert channel.queue_declare(queue, passive=True).method.message_count == 0


def test_in_turn(url: str) -> None:
    """Consumers of one queue take turns; one that goes leaves what it held to the others."""
    with channel_of(url, confirms=True) as channel, connected(url) as connection:
        queue = channel.queue_declare(fresh_name(), auto_delete=True).method.queue
        one, two = Inbox(channel, queue), Inbox(connection.channel(), queue)
        for number in range(10):
            channel.basic_publish("", queue, b"%d" % number)
        assert [len(inbox.wait(5)) for inbox in (one, two)] == [5, 5]
        assert set(one.wait(5)).isdisjoint(two.wait(5))
        connection.close()
        assert sorted(one.wait(10)) == [b"%d" % number for number in range(10)]


def test_cancelled(url: str) -> None:
    """A consumer that cancels gets nothing more, and may settle what it has; one whose queue is deleted is told."""
    with channel_of(url, confirms=True) as channel:
        queue = channel.queue_declare(fresh_name()).method.queue
        inbox = Inbox(channel, queue)
        channel.basic_publish("", queue, b"1")
        inbox.wait(1)
        channel.basic_cancel(inbox.tag)
        channel.basic_publish("", queue, b"2")
        channel.basic_ack(inbox.tags[0])
        inbox.wait(1)
        assert not inbox.cancelled
        second = Inbox(channel, queue)
        second.wait(1)
        with channel_of(url) as other:
            other.queue_delete(queue)
        wait_until(channel, lambda: second.cancelled)


def test_recover(url: str) -> None:
    """What is out and not settled comes again when it is asked back."""
    with channel_of(url, confirms=True) as channel:
        queue = channel.queue_declare("", exclusive=True).method.queue
        for number in range(3):
            channel.basic_publish("", queue, b"%d" % number)
        taken = [channel.basic_get(queue)[0].delivery_tag for _ in range(3)]
        channel.basic_ack(taken[0])
        channel.basic_recover(requeue=True)
        found = [channel.basic_get(queue) for _ in range(2)]
        assert [(method.redelivered, body) for method, _, body in found] == [(True, b"1"), (True, b"2")]


def test_unknown_tag(url: str) -> None:
    """Settling what was never delivered, or twice, ends the channel with 406."""
    with connected(url) as connection:
        for tags in ([7], [1, 1]):
            channel = connection.channel()
            channel.confirm_delivery()
            queue = channel.queue_declare("", exclusive=True).method.queue
            channel.basic_publish("", queue, b"x")
            channel.basic_get(queue)
            for tag in tags:
                channel.basic_ack(tag)
            with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
                channel.queue_declare(queue, passive=True)
            assert closed.value.reply_code == 406


# Transactions


def test_transactions(url: str) -> None:
    """What is published and acknowledged counts with the commit; a rollback undoes it."""
    with channel_of(url) as channel, channel_of(url) as other:
        queue = channel.queue_declare(fresh_name()).method.queue
        channel.tx_select()

        def depth() -> Any:
            return other.queue_declare(queue, passive=True).method.message_count

        channel.basic_publish("", queue, b"never")
        channel.tx_rollback()
        for number in range(3):
            channel.basic_publish("", queue, b"%d" % number)
        assert depth() == 0
        channel.tx_commit()
        assert depth() == 3
        tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(2)]
        channel.basic_ack(tags[1], multiple=True)
        channel.tx_rollback()
        channel.basic_ack(tags[0])
        channel.tx_commit()
        channel.close()
        eventually(depth, 2)
        assert all_in(other, queue) == [b"1", b"2"]
        other.queue_delete(queue)


def test_returned_with_the_commit(url: str) -> None:
    """Of what is mandatory and goes nowhere one hears by the commit, not before; and never if it is rolled back."""
    with channel_of(url) as channel:
        returned: list[Any] = []
        channel.add_on_return_callback(lambda *what: returned.append(what))
        channel.tx_select()
        for end in (channel.tx_rollback, channel.tx_commit):
            channel.basic_publish("", fresh_name(), b"x", mandatory=True)
            channel.basic_qos(prefetch_count=1)  # whose answer comes after what is returned at once
            channel.connection.process_data_events(0)
            assert not returned
            end()
        wait_until(channel, lambda: bool(returned))
        assert [each[1].reply_code for each in returned] == [312]


def test_refused_in_a_transaction(url: str) -> None:
    """What a full queue does not take makes the commit fail, with 406, and nothing of the transaction happens."""
    with connected(url) as connection:
        control = connection.channel()
        full = {"x-max-length": 1, "x-overflow": "reject-publish"}
        queue = control.queue_declare("", exclusive=True, arguments=full).method.queue
        for _ in range(3):  # RabbitMQ takes one more than it says
            control.basic_publish("", queue, b"x")
        channel = connection.channel()
        channel.tx_select()
        channel.basic_publish("", queue, b"y")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
            channel.tx_commit()
        assert closed.value.reply_code == 406
        assert b"y" not in all_in(control, queue)


# Connections


def test_wrong_password(url: str) -> None:
    """Who does not know the password is told so (403), not just cut off."""
    with pytest.raises(pika.exceptions.ProbableAuthenticationError, match="403"):
        with connected(url.replace("secret", "wrong")):
            pass


def test_many_channels(url: str) -> None:
    """Channels are apart: each has its own consumers and tags, and closing one leaves the others."""
    with connected(url) as connection:
        channels = [connection.channel() for _ in range(20)]
        queues = [channel.queue_declare("", exclusive=True).method.queue for channel in channels]
        for channel, queue in itertools.product(channels, queues):
            channel.basic_publish("", queue, b"x")
        channels[0].close()
        for channel, queue in zip(channels[1:], queues[1:], strict=True):
            inbox = Inbox(channel, queue)
            inbox.wait(20)
            assert inbox.tags == list(range(1, 21))


def test_small_frames(url: str) -> None:
    """A client that takes small frames only gets small ones; pika refuses others."""
    with connected(url, frame_max=8192) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, b"x" * 100_000)
        assert all_in(channel, queue) == [b"x" * 100_000]


def test_heartbeats(url: str) -> None:
    """A heartbeat is agreed on, and a connection that is quiet for longer than two of them lives."""
    with connected(url, heartbeat=1) as connection:
        channel = connection.channel()
        connection.sleep(3)
        assert channel.queue_declare("", exclusive=True).method.queue
