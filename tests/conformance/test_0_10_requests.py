"""AMQP 0-10: declaring, binding and deleting, judged by 0-10's own rules and not by those of 0-9-1."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from amqp10.dialects.v0_9.wire.methods import ExchangeDelete as Delete091
from amqp10.dialects.v0_9.wire.methods import ExchangeDeleteOk, QueueDeleteOk
from amqp10.dialects.v0_9.wire.methods import QueueDelete as QueueDelete091
from amqp10.dialects.v0_10.wire.commands import (
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    ExecutionResult,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueQuery,
)
from amqp10.dialects.v0_10.wire.struct import Command

from ..kit.broker.older_clients import Client010, Client09, new_vhost
from ..kit.inside.broker import QueueDeclaration, VirtualHostCore

MATCH = {"x-match": "all", "colour": "red"}


@pytest.fixture
def vhost() -> VirtualHostCore:
    return new_vhost()


@pytest.fixture
def client(vhost: VirtualHostCore) -> Client010:
    """A client with a session, a queue "q", and exchanges "d" (direct), "t" (topic) and "h" (headers)."""
    client = Client010(vhost)
    for command in (
        QueueDeclare("q"),
        ExchangeDeclare("d", "direct"),
        ExchangeDeclare("t", "topic"),
        ExchangeDeclare("h", "headers"),
    ):
        assert client.refusal(command) is None
    return client


def done(client: Client010, *commands: Command) -> None:
    for command in commands:
        assert client.refusal(command) is None


# What is not there


@pytest.mark.spec("0-10 queue.delete", "not-found, if there is no queue of that name")
@pytest.mark.spec("0-10 exchange.delete", "not-found, if there is no exchange of that name")
@pytest.mark.spec("0-10 exchange.unbind", "not-found, if there is no queue, no exchange, or no binding with that key")
@pytest.mark.spec("0-10 exchange.bind", "not-found, if there is no queue or no exchange")
@pytest.mark.parametrize(
    "command",
    [
        QueueDelete("absent"),
        QueuePurge("absent"),
        ExchangeDelete("absent"),
        ExchangeUnbind("q", "d", "absent"),
        ExchangeUnbind("absent", "d", "k"),
        ExchangeUnbind("q", "absent", "k"),
        ExchangeBind("absent", "d", "k"),
        ExchangeBind("q", "absent", "k"),
        QueueDeclare("absent", passive=True),
        ExchangeDeclare("absent", "direct", passive=True),
    ],
    ids=repr,
)
def test_absent(client: Client010, command: Command) -> None:
    """A request that 0-9-1 treats as already done ends the session here."""
    assert client.refusal(command) == 404


def test_absent_in_0_9_1(vhost: VirtualHostCore) -> None:
    """The same broker says nothing of it to clients of 0-9-1."""
    said = Client09(vhost).do(Delete091(exchange="absent"), QueueDelete091(queue="absent"))
    assert said == [ExchangeDeleteOk(), QueueDeleteOk(0)]


# Alternate exchanges


@pytest.mark.spec("0-10 queue.declare", "not-found, if the alternate exchange is not there")
@pytest.mark.parametrize(
    "command", [QueueDeclare("new", "absent"), ExchangeDeclare("new", "direct", "absent")], ids=repr
)
def test_an_alternate_that_is_not_there(client: Client010, vhost: VirtualHostCore, command: Command) -> None:
    """Nothing is made: messages would go nowhere, and nobody would know."""
    assert client.refusal(command) == 404
    assert "new" not in vhost.nodes
    assert "new" not in vhost.topology.exchanges


@pytest.mark.spec("0-10 exchange.delete", "not-allowed, while it is the alternate of a queue or an exchange")
@pytest.mark.parametrize("user", [QueueDeclare("new", "d"), ExchangeDeclare("new", "direct", "d")], ids=repr)
def test_an_alternate_in_use(client: Client010, vhost: VirtualHostCore, user: Any) -> None:
    """It can be deleted when who uses it is gone."""
    done(client, user)
    assert client.refusal(ExchangeDelete("d")) == 530
    gone = QueueDelete("new") if isinstance(user, QueueDeclare) else ExchangeDelete("new")
    done(Client010(vhost), gone, ExchangeDelete("d"))


@pytest.mark.spec("0-10 queue.declare", "not-allowed, if the queue is there and has another alternate exchange")
def test_another_alternate_of_a_queue(client: Client010) -> None:
    """The same one is taken, and none that is said is as good."""
    done(client, QueueDeclare("new", "d"), QueueDeclare("new", "d"), QueueDeclare("new"))
    assert client.refusal(QueueDeclare("new", "t")) == 530


@pytest.mark.spec("0-10 exchange.declare", "not-allowed, if it is there and has another alternate exchange")
def test_another_alternate_of_an_exchange(client: Client010) -> None:
    done(
        client,
        ExchangeDeclare("new", "direct", "d"),
        ExchangeDeclare("new", "direct", "d"),
        ExchangeDeclare("new", "direct"),
    )
    assert client.refusal(ExchangeDeclare("new", "direct", "t")) == 530


# What is there


@pytest.mark.spec("0-10 queue.declare", "durable and auto-delete are ignored, if the queue is there")
@pytest.mark.spec("0-10 exchange.declare", "durable and auto-delete are ignored, if the exchange is there")
@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("auto_delete", [True, False])
def test_declared_again(client: Client010, durable: bool, auto_delete: bool) -> None:
    """It stays what it is."""
    done(
        client,
        QueueDeclare("q", durable=durable, auto_delete=auto_delete),
        ExchangeDeclare("d", "direct", durable=durable, auto_delete=auto_delete),
        ExchangeDeclare("amq.topic", "topic", durable=durable, auto_delete=auto_delete),
    )
    result: Any = next(each for each in client.do(QueueQuery("q")) if isinstance(each, ExecutionResult))
    assert (result.value.durable, result.value.auto_delete) == (False, False)


@pytest.mark.spec("0-10 queue.declare", "resource-locked, if the queue is another session's alone")
def test_exclusive(client: Client010, vhost: VirtualHostCore) -> None:
    """Whose it is may say so again, or not; nobody else may."""
    done(
        client,
        QueueDeclare("mine", exclusive=True, auto_delete=True),
        QueueDeclare("mine", exclusive=True, auto_delete=True),
        QueueDeclare("mine"),
    )
    assert Client010(vhost).refusal(QueueDeclare("mine")) == 405
    assert client.refusal(QueueDeclare("q", exclusive=True, auto_delete=True)) == 405


@pytest.mark.spec("0-10 exchange.declare", "not-allowed, if it is there and of another type")
@pytest.mark.parametrize("name", ["d", "amq.direct"])
def test_another_type(client: Client010, name: str) -> None:
    assert client.refusal(ExchangeDeclare(name, "topic")) == 530


@pytest.mark.spec("0-10 exchange.declare", "not-found, if there is no such type of exchange")
def test_an_unknown_type(client: Client010) -> None:
    assert client.refusal(ExchangeDeclare("new", "x-random")) == 404


# Names


@pytest.mark.spec("0-10 queue.declare", "not-allowed, if the name is reserved")
@pytest.mark.spec("0-10 exchange.declare", "not-allowed, if the name is reserved")
@pytest.mark.parametrize(
    "command",
    [QueueDeclare("amq.mine"), ExchangeDeclare("amq.mine", "direct"), ExchangeDelete("amq.direct")],
    ids=repr,
)
def test_reserved_names(client: Client010, command: Command) -> None:
    assert client.refusal(command) == 530


@pytest.mark.spec("0-10 queue.declare", "invalid-argument, if the name is blank")
@pytest.mark.spec("0-10 exchange.declare", "invalid-argument, if the name is blank")
@pytest.mark.spec("0-10 exchange.bind", "invalid-argument, if the name of the exchange or of the queue is blank")
@pytest.mark.parametrize(
    "command",
    [
        QueueDeclare(""),
        QueueDelete(""),
        QueuePurge(""),
        ExchangeDeclare("", "direct"),
        ExchangeDelete(""),
        ExchangeBind("", "d", "k"),
        ExchangeBind("q", "", "k"),
        ExchangeUnbind("q", "", "k"),
    ],
    ids=repr,
)
def test_blank_names(client: Client010, command: Command) -> None:
    """There is no queue that was declared last here, and no default exchange to be bound."""
    assert client.refusal(command) == 542


# Arguments


@pytest.mark.spec("0-10 queue.declare", "not-implemented, if an argument is not understood")
@pytest.mark.spec("0-10 exchange.declare", "not-implemented, if an argument is not understood")
@pytest.mark.spec("0-10 exchange.bind", "not-implemented, if an argument is not understood")
@pytest.mark.parametrize(
    "command",
    [
        QueueDeclare("new", arguments={"qpid.last_value_queue": True}),
        QueueDeclare("new", arguments={"x-max-length": 5, "x-colour": "red"}),
        ExchangeDeclare("new", "direct", arguments={"qpid.ive": True}),
        ExchangeBind("q", "d", "k", {"colour": "red"}),
        ExchangeBind("q", "t", "k", {"x-match": "all"}),
    ],
    ids=repr,
)
def test_unknown_arguments(client: Client010, command: Command) -> None:
    assert client.refusal(command) == 540


@pytest.mark.deviation(
    "0-10 exchange.bind",
    "arguments that begin with x-filter- are left to the subscription, as is no-local at queue.declare",
    "Qpid's Java client repeats them when it subscribes, where they are applied",
)
def test_arguments_of_the_field(client: Client010) -> None:
    done(
        client,
        QueueDeclare("new", arguments={"no-local": True, "x-max-length": 5}),
        ExchangeBind("q", "t", "k", {"x-filter-jms-selector": ""}),
        ExchangeBind("q", "h", "k", MATCH),
    )


# Bindings


@pytest.mark.spec("0-10 exchange.bind", "an exchange and a queue have one binding by each key; its arguments stay")
def test_bound_again(client: Client010, vhost: VirtualHostCore) -> None:
    """With other arguments it is the same binding, with the first ones."""
    done(client, ExchangeBind("q", "h", "k", MATCH), ExchangeBind("q", "h", "k", {"x-match": "any", "size": "big"}))
    (binding,) = vhost.topology.bound_to(vhost.nodes["q"])
    assert binding.arguments == MATCH
    done(client, ExchangeBind("q", "h", "other", {"x-match": "any"}))
    assert len(vhost.topology.bound_to(vhost.nodes["q"])) == 2


@pytest.mark.spec("0-10 exchange.unbind", "a binding is found by its queue, exchange and key")
def test_unbound(client: Client010, vhost: VirtualHostCore) -> None:
    """Whatever arguments it has."""
    done(client, ExchangeBind("q", "h", "k", MATCH), ExchangeUnbind("q", "h", "k"))
    assert vhost.topology.bound_to(vhost.nodes["q"]) == []


def test_arguments_that_have_no_type_here(client: Client010, vhost: VirtualHostCore) -> None:
    """An argument declared by another dialect is reported as text if 0-10 has no type for it."""
    terms = QueueDeclaration(arguments={"x-limit": 5, "x-odd": Decimal("1.5"), "x-list": [1, {"deep": Decimal(2)}]})
    vhost.declare_queue("of another", terms)
    result: Any = next(each for each in client.do(QueueQuery("of another")) if isinstance(each, ExecutionResult))
    assert result.value.arguments["x-limit"] == 5
    assert result.value.arguments["x-odd"] == "1.5"
