"""AMQP 0-9-1 and its kin: what a server says to clients that go beyond what was agreed, or leave names and keys out."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.dialects.v0_9.wire.method_table import Method
from amqp10.dialects.v0_9.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicRecover,
    BasicRecoverOk,
    BasicReject,
    ChannelOpen,
    ExchangeDeclare,
    ExchangeUnbind,
    ExchangeUnbindOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueUnbind,
    QueueUnbindOk,
    TxCommit,
    TxRollback,
    TxSelect,
)
from amqp10.dialects.v0_9.wire.properties import BasicProperties
from amqp10.dialects.v0_9.wire.variant import V0_9_1, Variant

from ..kit.broker.older_clients import Client09
from ..kit.conformance.methods import FAMILY, said_by


def publish(client: Client09, key: str, body: bytes = b"m", exchange: str = "", **properties: Any) -> list[Any]:
    method = client.encode(BasicPublish(exchange=exchange, routing_key=key))
    return client.put(method + client.content(body, BasicProperties(**properties)))


# Limits


@pytest.mark.spec("0-9-1 channel.open", "opening an open channel ends the connection with 504")
@FAMILY
def test_open_twice(name: str, variant: Variant) -> None:
    """The close names the method."""
    client = Client09(name=name, variant=variant)
    (said,) = client.do(ChannelOpen())
    assert (said.name, said.reply_code, said.class_id, said.method_id) == ("connection.close", 504, 20, 10)


@pytest.mark.spec("0-9-1 connection.tune-ok", "a client that asks for more channels than were offered is closed")
@FAMILY
def test_more_channels_than_offered(name: str, variant: Variant) -> None:
    """As one is that asks for larger frames (530). 0 leaves it to the server."""
    client = Client09(name=name, variant=variant, opens=False, tune=(0, 0, 0))
    assert [each.name for each in client.opened] == ["connection.open-ok"]
    client = Client09(name=name, variant=variant, opens=False, tune=(65_535, 4096, 0))
    (said,) = client.tuned
    assert (said.name, said.reply_code, said.class_id, said.method_id) == ("connection.close", 530, 10, 31)
    assert "65535" in said.reply_text


@FAMILY
def test_channels_that_are_not_open(name: str, variant: Variant) -> None:
    """The close names the method that came on it."""
    client = Client09(name=name, variant=variant)
    (said,) = client.do(QueueDeclare(queue="q"), channel=7)
    assert (said.name, said.reply_code, said.class_id, said.method_id) == ("connection.close", 504, 50, 10)


# Names that are left out


@pytest.mark.spec(
    "0-9-1 queue.bind", "with neither a queue nor a routing key both are the queue that was declared last"
)
@FAMILY
@pytest.mark.parametrize("named", [False, True])
def test_bound_by_its_own_name(name: str, variant: Variant, named: bool) -> None:
    """A queue that is named is bound with the empty key."""
    client = Client09(name=name, variant=variant)
    queue = "q" if named else ""
    said = client.do(QueueDeclare(queue="q"), QueueBind(queue=queue, exchange="amq.direct"))
    assert said == [QueueDeclareOk("q", 0, 0), QueueBindOk()]
    publish(client, "" if named else "q", exchange="amq.direct")
    assert isinstance(client.do(BasicGet(queue="q", no_ack=True))[0], BasicGetOk)
    assert client.do(QueueUnbind(queue=queue, exchange="amq.direct")) == [QueueUnbindOk()]
    publish(client, "" if named else "q", exchange="amq.direct")
    assert client.do(BasicGet(queue="q")) == [BasicGetEmpty()]


@pytest.mark.deviation(
    "0-9-1 queue.unbind",
    "removing a binding with a missing end succeeds",
    "RabbitMQ's rule: it is not there afterwards",
)
@FAMILY
def test_unbound_from_nothing(name: str, variant: Variant) -> None:
    """Whichever end is missing; binding is refused all the same."""
    client = Client09(name=name, variant=variant)
    client.do(QueueDeclare(queue="q"))
    said = client.do(
        QueueUnbind(queue="q", exchange="absent"),
        QueueUnbind(queue="absent", exchange="amq.direct"),
        ExchangeUnbind(destination="absent", source="amq.direct"),
        ExchangeUnbind(destination="amq.direct", source="absent"),
    )
    assert said == [QueueUnbindOk(), QueueUnbindOk(), ExchangeUnbindOk(), ExchangeUnbindOk()]
    assert said_by(client, QueueBind(queue="q", exchange="absent")) == [("channel.close", 404)]


@FAMILY
def test_whether_direct_reply_to_is_known(name: str, variant: Variant) -> None:
    """Spring's clients declare the pseudo-queue passively to find out; nothing is made by that."""
    client = Client09(name=name, variant=variant)
    for passive in (True, False):
        assert client.do(QueueDeclare(queue="amq.rabbitmq.reply-to", passive=passive)) == [
            QueueDeclareOk("amq.rabbitmq.reply-to", 0, 1)
        ]


# Arguments


@pytest.mark.parametrize(
    "method",
    [
        QueueDeclare(queue="new", arguments={"x-queue-type": "quorum"}),
        QueueDeclare(queue="new", durable=True, exclusive=True, arguments={"x-queue-type": "quorum"}),
        QueueDeclare(queue="new", durable=True, auto_delete=True, arguments={"x-queue-type": "quorum"}),
        QueueDeclare(queue="new", arguments={"x-queue-type": "stream"}),
        QueueDeclare(queue="new", durable=True, exclusive=True, arguments={"x-queue-type": "stream"}),
        QueueDeclare(queue="new", durable=True, auto_delete=True, arguments={"x-queue-type": "stream"}),
        ExchangeDeclare(exchange="new", arguments={"alternate-exchange": 5}),
        BasicConsume(queue="q", arguments={"x-priority": "5"}),
        QueueDeclare(queue="q", arguments={"x-max-length": 4, "x-unknown": 1}),
        QueueDeclare(queue="q", arguments={"x-unknown": 1}),
    ],
    ids=repr,
)
def test_arguments_that_are_refused(method: Method) -> None:
    """With 406, as RabbitMQ does it."""
    client = Client09()
    client.do(QueueDeclare(queue="q", arguments={"x-max-length": 3}))
    assert said_by(client, method) == [("channel.close", 406)]
    client.do(ChannelOpen(), channel=2)
    (absent,) = client.do(QueueDeclare(queue="new", passive=True), channel=2)
    assert (absent.name, absent.reply_code) == ("channel.close", 404)


def test_arguments_without_meaning_may_differ() -> None:
    """They are no difference between a queue and its declaration, as on RabbitMQ."""
    client = Client09()
    first = QueueDeclare(queue="q", arguments={"x-max-length": 3, "x-mine": 1})
    other = QueueDeclare(queue="q", arguments={"x-max-length": 3, "x-yours": "2"})
    assert client.do(first, other, first) == [QueueDeclareOk("q", 0, 0)] * 3


# Consumers of a queue that is deleted


@FAMILY
def test_cancelled_behind_the_answer(name: str, variant: Variant) -> None:
    """As on RabbitMQ: to py-amqp a cancel before delete-ok is the end of its call. What follows comes behind both."""
    can: Any = {"consumer_cancel_notify": True} if variant.tables.holds(True) else "consumer_cancel_notify"
    client = Client09(name=name, variant=variant, capabilities=can)
    consume = BasicConsume(queue="q", consumer_tag="c")
    client.do(QueueDeclare(queue="q"), consume)
    said = client.do(QueueDelete(queue="q"), QueueDeclare(queue="q"), consume)
    assert [each.name for each in said] == [
        *("queue.delete-ok", "basic.cancel", "queue.declare-ok", "basic.consume-ok")
    ]


# Acks


@pytest.mark.spec("0-9-1 basic.ack", "a delivery-tag other than 0 is that of a delivery without an ack; else 406")
@FAMILY
@pytest.mark.parametrize("method", [BasicAck(9, True), BasicNack(9, True), BasicAck(9), BasicReject(9), BasicReject(0)])
def test_tags_beyond_the_last(name: str, variant: Variant, method: Method) -> None:
    """Multiple or not; nothing is settled."""
    client = Client09(name=name, variant=variant)
    client.do(QueueDeclare(queue="q"))
    for body in (b"1", b"2"):
        publish(client, "q", body)
        client.do(BasicGet(queue="q"))
    assert said_by(client, method) == [("channel.close", 406)]
    client.do(ChannelOpen(), channel=2)
    assert client.do(QueueDeclare(queue="q", passive=True), channel=2) == [QueueDeclareOk("q", 2, 0)]


@pytest.mark.spec("0-9-1 basic.recover", "all messages without an ack come again, also on a transacted channel")
@FAMILY
def test_recovered_in_a_transaction(name: str, variant: Variant) -> None:
    """At once: that is no part of the transaction, whose acks stay in it."""
    client = Client09(name=name, variant=variant)
    client.do(QueueDeclare(queue="q"), TxSelect())
    for body in (b"1", b"2"):
        publish(client, "q", body)
        client.do(TxCommit())
        client.do(BasicGet(queue="q"))
    client.do(BasicAck(1))
    assert client.do(BasicRecover(requeue=True)) == [BasicRecoverOk()]
    client.messages.clear()
    (again,) = client.do(BasicGet(queue="q"))
    assert (again.delivery_tag, again.redelivered, client.messages[0][1]) == (3, True, b"2")
    assert client.do(BasicGet(queue="q")) == [BasicGetEmpty()]
    client.do(TxRollback())
    assert said_by(client, BasicAck(3), BasicAck(1), TxCommit()) == [("tx.commit-ok", 0)]
    assert client.do(QueueDeclare(queue="q", passive=True)) == [QueueDeclareOk("q", 0, 0)]


# Time to live, and dead letters


def test_no_time_to_live() -> None:
    """An expiration of 0: a message for a consumer that waits, and for nobody else."""
    client = Client09()
    client.do(QueueDeclare(queue="q"), BasicConsume(queue="q", no_ack=True))
    said = publish(client, "q", b"now or never", expiration="0")
    assert [each.name for each in said] == ["basic.deliver"]


@pytest.mark.parametrize("own", [False, True])
def test_dead_letters_with_carbon_copies(own: bool) -> None:
    """They go by all keys that they came with, which x-death names; by a key of the queue instead if that has one."""
    client = Client09()
    arguments = {"x-dead-letter-exchange": "amq.direct"} | ({"x-dead-letter-routing-key": "own"} if own else {})
    client.do(QueueDeclare(queue="q", arguments=arguments), QueueBind(queue="q", exchange="amq.topic", routing_key="#"))
    for key in ("first", "copy", "own"):
        client.do(QueueDeclare(queue=key), QueueBind(queue=key, exchange="amq.direct", routing_key=key))
    publish(client, "first", exchange="amq.topic", headers={"CC": ["copy"], "x-death": "mine"})
    client.do(BasicGet(queue="q"))
    client.do(BasicReject(1, requeue=False))
    got = []
    for key in ("first", "copy", "own"):
        client.messages.clear()
        client.do(BasicGet(queue=key, no_ack=True))
        for properties, _ in client.messages:
            headers: Any = BasicProperties.decode(properties, V0_9_1.tables).headers
            got.append((key, headers["x-death"][0]["routing-keys"], headers["x-first-death-queue"]))
    keys = ["own"] if own else ["first", "copy"]
    assert got == [(key, ["first", "copy"], "q") for key in keys]
