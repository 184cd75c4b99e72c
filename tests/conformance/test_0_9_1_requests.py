"""AMQP 0-9-1 and its kin: declaring, binding and deleting, where RabbitMQ or Qpid go beyond the specification."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from amqp10.dialects.v0_9.wire.draft import Content
from amqp10.dialects.v0_9.wire.method_table import Method
from amqp10.dialects.v0_9.wire.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicPublish,
    BasicQos,
    BasicReturn,
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpenOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueueUnbind,
    QueueUnbindOk,
)
from amqp10.dialects.v0_9.wire.properties import BasicProperties
from amqp10.dialects.v0_9.wire.rare_methods import (
    METHODS_0_9,
    BasicRecoverSync,
    BasicRecoverSyncOk,
    ExchangeBound,
    ExchangeBoundOk,
)
from amqp10.dialects.v0_9.wire.variant import V0_9, V0_9_DRAFT, Variant

from ..kit.broker.older_clients import Client09
from ..kit.conformance.methods import FAMILY, said_by

# Whether something is bound


@pytest.mark.deviation("0-9-1 exchange.bound", "the method, an addition of Qpid, is answered", "Qpid's clients use it")
@FAMILY
@pytest.mark.parametrize(
    ("exchange", "key", "queue", "code"),
    [
        ("e", "k", "q", 0),
        ("e", "k", "", 0),
        ("e", "", "q", 0),
        ("e", "", "", 0),
        ("absent", "k", "q", 1),
        ("e", "k", "absent", 2),
        ("e", "", "absent", 2),
        ("empty", "", "", 3),
        ("empty", "", "q", 4),
        ("e", "", "other", 4),
        ("e", "absent", "", 5),
        ("empty", "k", "", 5),
        ("e", "k", "other", 6),
        ("e", "absent", "q", 6),
        ("", "", "", 0),
        ("", "", "q", 0),
        ("", "q", "", 0),
        ("", "q", "q", 0),
        ("", "", "absent", 2),
        ("", "absent", "", 5),
        ("", "k", "q", 6),
    ],
)
def test_bound(name: str, variant: Variant, exchange: str, key: str, queue: str, code: int) -> None:
    """With Qpid's codes; a name that is left out does not matter, and is not that of the last queue declared."""
    client = Client09(name=name, variant=variant)
    client.do(
        ExchangeDeclare(exchange="empty"),
        ExchangeDeclare(exchange="e"),
        QueueDeclare(queue="q"),
        QueueDeclare(queue="other"),
        QueueBind(queue="q", exchange="e", routing_key="k"),
    )
    (said,) = client.do(ExchangeBound(exchange, key, queue))
    assert isinstance(said, ExchangeBoundOk)
    assert (said.reply_code, bool(said.reply_text)) == (code, code != 0)


def test_bound_with_long_names() -> None:
    """The words are cut where a short string ends, within no character."""
    said: Any = Client09().do(ExchangeBound("é" * 127, "", ""))[0]
    assert said.reply_code == 1
    assert 250 < len(said.reply_text.encode()) <= 255


# What RabbitMQ does on purpose


@pytest.mark.deviation(
    "0-9-1 connection.open",
    "an unknown virtual host is refused with 530, not with 402",
    "RabbitMQ's code, which its clients know",
)
@pytest.mark.spec("0-9-1 connection.open", "a virtual host that is not there: the connection is closed, not opened")
@FAMILY
def test_no_such_virtual_host(name: str, variant: Variant) -> None:
    """The close comes in place of open-ok, names the method, and is the last that is said."""
    client = Client09(name=name, variant=variant, virtual_hosts=["/"], opens=False, open_to="other")
    (said,) = client.opened
    assert isinstance(said, ConnectionClose)
    assert (said.reply_code, said.class_id, said.method_id) == (530, 10, 40)
    assert "'other'" in said.reply_text
    assert client.do(ChannelOpen()) == []
    client.do(ConnectionCloseOk(), channel=0)
    assert client.served.over


@FAMILY
def test_a_virtual_host_that_is_there(name: str, variant: Variant) -> None:
    client = Client09(name=name, variant=variant, virtual_hosts=["/", "other"], open_to="other")
    assert [type(each) for each in client.opened] == [ConnectionOpenOk]
    assert client.do(QueueDeclare(queue="q")) == [QueueDeclareOk("q", 0, 0)]


@pytest.mark.deviation(
    "0-9-1 queue.delete", "deleting a missing queue succeeds", "RabbitMQ's rule: it is not there afterwards"
)
@pytest.mark.deviation(
    "0-9-1 exchange.delete",
    "deleting a missing exchange succeeds",
    "RabbitMQ's rule: it is not there afterwards",
)
@pytest.mark.deviation(
    "0-9-1 queue.unbind",
    "removing a missing binding succeeds",
    "RabbitMQ's rule: it is not there afterwards",
)
@FAMILY
def test_absent(name: str, variant: Variant) -> None:
    """Once or twice."""
    client = Client09(name=name, variant=variant)
    client.do(QueueDeclare(queue="q"))
    said = client.do(
        QueueDelete(queue="absent"), ExchangeDelete(exchange="absent"), QueueUnbind(queue="q", exchange="amq.direct")
    )
    assert said == [QueueDeleteOk(0), ExchangeDeleteOk(), QueueUnbindOk()]


@pytest.mark.deviation(
    "0-9-1 basic.qos", "a prefetch-size ends the connection (540)", "RabbitMQ has no prefetch-size: it counts messages"
)
@FAMILY
def test_prefetch_size(name: str, variant: Variant) -> None:
    """A limit that is not kept is better refused."""
    assert said_by(Client09(name=name, variant=variant), BasicQos(prefetch_size=1)) == [("connection.close", 540)]


@pytest.mark.deviation(
    "0-9-1 exchange.declare",
    "declaring an exchange again with another type ends the channel (406), not the connection (530)",
    "RabbitMQ's rule: the type is compared like any other setting",
)
@pytest.mark.deviation(
    "0-9-1 exchange.declare",
    "an unknown type ends the channel (406), not the connection (503)",
    "RabbitMQ's rule since 4.0, as the other channels are not involved",
)
@pytest.mark.deviation(
    "0-9-1 exchange.declare",
    "auto-delete must match an existing exchange (406), and is not ignored",
    "RabbitMQ's rule: a request for an auto-delete exchange should not get a permanent one",
)
@pytest.mark.deviation(
    "0-9-1 queue.declare",
    "auto-delete must match an existing queue (406), and is not ignored",
    "RabbitMQ's rule; the specification has both rules",
)
@FAMILY
@pytest.mark.parametrize(
    "again",
    [
        ExchangeDeclare(exchange="e", type="fanout"),
        ExchangeDeclare(exchange="new", type="absent"),
        ExchangeDeclare(exchange="e", auto_delete=True),
        ExchangeDeclare(exchange="e", durable=True),
        QueueDeclare(queue="q", auto_delete=True),
        QueueDeclare(queue="q", durable=True),
    ],
    ids=repr,
)
def test_declared_again(name: str, variant: Variant, again: Method) -> None:
    """The same is taken, and what differs ends the channel."""
    client = Client09(name=name, variant=variant)
    first = ExchangeDeclare(exchange="e"), QueueDeclare(queue="q")
    assert client.do(*first, *first) == [ExchangeDeclareOk(), QueueDeclareOk("q", 0, 0)] * 2
    assert said_by(client, again) == [("channel.close", 406)]


@pytest.mark.deviation(
    "0-9-1 3.1.3",
    "predeclared exchanges are durable, and may only be declared as durable (406)",
    "RabbitMQ's are; nothing about them must be stored",
)
@FAMILY
@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_predeclared(name: str, variant: Variant, kind: str) -> None:
    """By their type and durable they are found, passively by their name alone."""
    client = Client09(name=name, variant=variant)
    found = client.do(
        ExchangeDeclare(exchange=f"amq.{kind}", type=kind, durable=True),
        ExchangeDeclare(exchange=f"amq.{kind}", passive=True),
    )
    assert found == [ExchangeDeclareOk()] * 2
    assert said_by(client, ExchangeDeclare(exchange=f"amq.{kind}", type=kind)) == [("channel.close", 406)]


@pytest.mark.deviation(
    "0-9-1 exchange.delete",
    "predeclared exchanges cannot be deleted (403)",
    "RabbitMQ's rule: others rely on them",
)
@FAMILY
@pytest.mark.parametrize("exchange", ["", "amq.direct", "amq.topic", "amq.match"])
def test_predeclared_stay(name: str, variant: Variant, exchange: str) -> None:
    """Nor can the default exchange."""
    assert said_by(Client09(name=name, variant=variant), ExchangeDelete(exchange=exchange)) == [("channel.close", 403)]


@pytest.mark.deviation(
    "0-9-1 exchange.delete",
    "other names with amq. can be deleted with permission, and are then missing",
    "RabbitMQ's rule; names that the broker chooses for queues begin so",
)
@FAMILY
def test_reserved_names(name: str, variant: Variant) -> None:
    """A name that the broker chose is as good as any."""
    client = Client09(name=name, variant=variant)
    (made,) = client.do(QueueDeclare())
    assert isinstance(made, QueueDeclareOk)
    assert made.queue.startswith("amq.")
    assert client.do(QueueDelete(queue=made.queue)) == [QueueDeleteOk(0)]
    assert said_by(client, QueueDeclare(queue="amq.mine")) == [("channel.close", 403)]


@pytest.mark.spec("0-9 1.1", "a method that the server does not implement ends the connection with 540")
@pytest.mark.parametrize(
    ("variant", "kind"),
    [
        pytest.param(variant, kind, id=f"{variant.name} {kind.name}")
        for variant in (V0_9, V0_9_DRAFT)
        for kind in METHODS_0_9
        if kind in variant.methods
        if kind not in (BasicRecoverSync, ExchangeBound) and kind.name != "connection.redirect"
    ],
)
def test_methods_that_nobody_implements(variant: Variant, kind: type[Method]) -> None:
    """All that is in the table for the codec alone; what is a server's to say is out of place (503)."""
    expected = 503 if kind in (BasicRecoverSyncOk, ExchangeBoundOk) else 540
    moments = {
        field.name: datetime(2024, 1, 1, tzinfo=UTC)
        for field in kind.fields
        if field.name in ("timestamp", "expiration")
    }
    assert said_by(Client09(name=variant.name, variant=variant), kind(**moments)) == [("connection.close", expected)]


# Direct reply-to


@FAMILY
@pytest.mark.parametrize("tag", ["mine", ""])
def test_the_pseudo_queue_of_replies_again(name: str, variant: Variant, tag: str) -> None:
    """When its consumer is cancelled there may be another on the channel; without one nobody could get the reply."""
    client = Client09(name=name, variant=variant)
    consume = BasicConsume(queue="amq.rabbitmq.reply-to", consumer_tag=tag, no_ack=True)
    for _ in range(2):
        client.do(QueueDeclare(queue="q"))
        (made,) = client.do(consume)
        assert isinstance(made, BasicConsumeOk)
        asking = BasicProperties(reply_to="amq.rabbitmq.reply-to")
        client.put(client.encode(BasicPublish(routing_key="q")) + client.content(b"question", asking))
        client.do(BasicGet(queue="q", no_ack=True))
        properties, _ = client.messages[-1]
        reply_to = BasicProperties.decode(properties, variant.tables).reply_to
        assert reply_to not in (None, "amq.rabbitmq.reply-to")
        client.put(client.encode(BasicPublish(routing_key=reply_to or "")) + client.content(b"answer"))
        assert client.messages[-1][1] == b"answer"
        assert client.do(BasicCancel(made.consumer_tag)) == [BasicCancelOk(made.consumer_tag)]
    (refused,) = client.put(client.encode(BasicPublish(routing_key="q")) + client.content(b"question", asking))
    assert (refused.name, refused.reply_code) == ("channel.close", 406)


@pytest.mark.spec("0-9-draft basic.return", "the whole content comes back, with the contents within it")
def test_contents_within_come_back() -> None:
    """As they came, octet by octet."""
    client = Client09(name="0-9-draft", variant=V0_9_DRAFT)
    properties = bytes(BasicProperties(content_type="a").encode(V0_9_DRAFT.tables))
    within = Content(properties, 0, 0, [b"within"])
    whole = V0_9_DRAFT.framing.message(1, 60, properties, b"body", 4096, [within])
    publish = client.encode(BasicPublish(routing_key="absent", mandatory=True))
    answer = client.served.take(publish + whole)
    back = client.encode(BasicReturn(312, "NO_ROUTE", "", "absent"))
    assert len(answer) == len(back) + len(whole)
    assert b"within" in answer
