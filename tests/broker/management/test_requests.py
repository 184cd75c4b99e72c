"""What peers ask for by requests: queues, exchanges, bindings; and how it is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest

from amqp10.broker._management.requests import Requests, check_owner
from amqp10.dialects.v0_10.server.requests import RULES
from amqp10.engine import (
    Bind,
    BindingFacts,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    ExchangeFacts,
    PendingRequest,
    PurgeQueue,
    QueryBinding,
    QueryExchange,
    QueryQueue,
    QueueFacts,
    Request,
    RequestRules,
    Session,
    Unbind,
)
from amqp10.messaging import Error

from ...kit.broker.queue_doubles import Taker, fill
from ...kit.inside.broker import Queue, VirtualHostCore
from ...kit.inside.broker import Refused as AddressError


class Refused(Exception):
    """A request was refused."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.description)
        self.condition = str(error.condition)


class Asking:
    """A peer's session: it asks, and has the answer at once."""

    request_rules = RequestRules()

    def __init__(self, vhost: VirtualHostCore) -> None:
        self.requests = Requests(vhost, self)

    def __call__(self, request: Request[Any]) -> Any:
        pending: PendingRequest[Any] = PendingRequest(cast(Session, self), request)
        self.requests.answer(pending)
        assert pending.answered
        return pending.result

    def answer(self, pending: PendingRequest[Any], result: Any) -> None:
        """The engine's part."""
        pending.answer(result)

    def refuse(self, pending: PendingRequest[Any], error: Error) -> None:
        """The engine's part."""
        raise Refused(error)


@pytest.fixture
def ask(vhost: VirtualHostCore) -> Asking:
    """Somebody who asks."""
    return Asking(vhost)


@pytest.fixture
def other(vhost: VirtualHostCore) -> Asking:
    """Somebody else."""
    return Asking(vhost)


def refused(ask: Asking, request: Request[Any], condition: str) -> None:
    """It is, for this reason."""
    with pytest.raises(Refused) as refusal:
        ask(request)
    assert refusal.value.condition == condition


def test_declare_queue(ask: Asking, vhost: VirtualHostCore) -> None:
    """Made, found again, and found by who only looks; its facts are those of the moment."""
    asked = DeclareQueue("q", durable=True, arguments={"x-max-length": 10})
    facts = QueueFacts("q", 0, 0, True, False, False, {"x-max-length": 10})
    assert ask(asked) == ask(asked) == ask(QueryQueue("q")) == facts
    queue = vhost.declare("q", "queue")
    fill(queue, 1, 2, 3)  # type: ignore[arg-type]
    taker = Taker(1)
    queue.add_consumer(taker)  # type: ignore[attr-defined]
    queue.in_line(taker)  # type: ignore[attr-defined]
    queue.run()
    found = ask(DeclareQueue("q", passive=True))
    assert (found.messages, found.consumers) == (2, 1)


@pytest.mark.parametrize(
    "different",
    [
        DeclareQueue("q"),
        DeclareQueue("q", durable=True, auto_delete=True),
        DeclareQueue("q", durable=True, arguments={"x-max-length": 11}),
    ],
)
def test_declared_otherwise(ask: Asking, different: DeclareQueue) -> None:
    """Another queue of that name is refused, and changes nothing; one for this connection only cannot be shared."""
    facts = ask(DeclareQueue("q", durable=True))
    refused(ask, different, "amqp:precondition-failed")
    assert ask(DeclareQueue("q", passive=True)) == facts
    refused(ask, DeclareQueue("q", durable=True, exclusive=True), "amqp:resource-locked")


def test_queues_that_nobody_declared(ask: Asking, vhost: VirtualHostCore) -> None:
    """A queue that a link made is found by a plain declare, durable or not; a topic is no queue."""
    vhost.resolve("q")
    vhost.resolve("topic.t")
    assert ask(DeclareQueue("q")).name == ask(DeclareQueue("q", durable=True)).name == "q"
    refused(ask, DeclareQueue("q", arguments={"x-expires": 1}), "amqp:precondition-failed")
    refused(ask, DeclareQueue("topic.t"), "amqp:precondition-failed")
    assert ask(DeclareQueue("topic.t", passive=True)) == QueueFacts("topic.t", 0, 0, True, False, False, {})


def test_names(ask: Asking) -> None:
    """The server names a queue that the client does not, and keeps its names for itself."""
    one, two = ask(DeclareQueue()), ask(DeclareQueue())
    assert one.name.startswith("amq.gen-")
    assert one.name != two.name
    assert ask(DeclareQueue(one.name)).name == one.name
    refused(ask, DeclareQueue("amq.mine"), "amqp:unauthorized-access")


def test_passive(ask: Asking, vhost: VirtualHostCore) -> None:
    """Looking makes nothing; on demand it does, if the broker makes nodes at all."""
    refused(ask, DeclareQueue("q", passive=True), "amqp:not-found")
    assert ask(QueryQueue("q")) is None
    assert ask(DeclareQueue("a/b%", passive=True, on_demand=True)).name == "a/b%"
    assert "a/b%" in vhost.nodes
    vhost.auto_create = False
    refused(ask, DeclareQueue("r", passive=True, on_demand=True), "amqp:not-found")


def test_exclusive(ask: Asking, other: Asking, vhost: VirtualHostCore) -> None:
    """For one connection, which may do all with it; it ends with that."""
    ask(DeclareQueue("q", exclusive=True))
    ask(DeclareExchange("e"))
    for request in (
        DeclareQueue("q", exclusive=True),
        DeclareQueue("q", passive=True),
        PurgeQueue("q"),
        DeleteQueue("q"),
        Bind("q", "e"),
    ):
        refused(other, request, "amqp:resource-locked")
        if not isinstance(request, DeleteQueue):
            ask(request)
    with pytest.raises(AddressError):
        check_owner(vhost.nodes["q"], other)
    other.requests.end()
    assert "q" in vhost.nodes
    ask.requests.end()
    assert "q" not in vhost.nodes


def test_exclusive_for_a_session(ask: Asking, other: Asking, vhost: VirtualHostCore) -> None:
    """One that outlives its session is free after it, with what is in it, and another may take it."""
    mine = DeclareQueue("q", durable=True, exclusive=True, outlives=True)
    facts = ask(mine)
    assert (facts.exclusive, facts.outlives) == (True, True)
    fill(cast(Queue, vhost.nodes["q"]), 1, 2, 3)
    refused(other, mine, "amqp:resource-locked")
    refused(other, PurgeQueue("q"), "amqp:resource-locked")
    onlooker = Asking(vhost)
    onlooker.requests = ask.requests  # another session of the same connection
    onlooker(DeclareQueue("q", exclusive=True, passive=True, outlives=True))
    ask.requests.session_ended(cast(Session, onlooker))
    refused(other, mine, "amqp:resource-locked")
    ask.requests.session_ended(cast(Session, ask))
    assert other(QueryQueue("q")).exclusive is False
    assert other(mine).messages == 3
    refused(ask, mine, "amqp:resource-locked")
    other.requests.end()
    assert ask(DeclareQueue("q", durable=True)).messages == 3
    cast(Queue, vhost.nodes["q"]).add_consumer(Taker())
    refused(ask, mine, "amqp:resource-locked")


def test_differences_have_their_names(ask: Asking, vhost: VirtualHostCore) -> None:
    """A queue or exchange declared otherwise is refused with each difference, by the name of its argument."""
    ask(DeclareQueue("q", durable=True, arguments={"x-dead-letter-exchange": "logs.dlx", "x-max-length": 5}))
    with pytest.raises(Refused) as queue:
        ask(DeclareQueue("q", arguments={"x-queue-type": "quorum", "x-max-length": 5, "x-own": 1}))
    assert str(queue.value) == (
        "queue 'q' has durable True, not False; x-dead-letter-exchange 'logs.dlx', not None; "
        "x-queue-type 'classic', not 'quorum'"
    )
    ask(DeclareExchange("e", "topic", durable=True, alternate="rest"))
    with pytest.raises(Refused) as exchange:
        ask(DeclareExchange("e", "direct", durable=True))
    assert str(exchange.value) == ("exchange 'e' has type 'topic', not 'direct'; alternate-exchange 'rest', not None")


def test_differences_in_0_10(vhost: VirtualHostCore) -> None:
    """There the exchange of dead letters is a field, alternate-exchange, and no arguments are compared."""
    ask = Asking(vhost)
    ask.request_rules = RULES
    ask(DeclareExchange("a", "topic"))
    ask(DeclareQueue("q", arguments={"x-dead-letter-exchange": "a"}))
    with pytest.raises(Refused, match=r"^queue 'q' has alternate-exchange 'a', not 'b'$"):
        ask(DeclareQueue("q", arguments={"x-dead-letter-exchange": "b", "x-max-length": 1}))


def test_delete_and_purge(ask: Asking, vhost: VirtualHostCore) -> None:
    """Both say how many messages that was; a queue in use or not empty may be spared."""
    ask(DeclareQueue("q"))
    queue = vhost.declare("q", "queue")
    fill(queue, 1, 2, 3)  # type: ignore[arg-type]
    assert ask(PurgeQueue("q")) == 3
    fill(queue, 1, 2)  # type: ignore[arg-type]
    refused(ask, DeleteQueue("q", if_empty=True), "amqp:precondition-failed")
    taker = Taker()
    queue.add_consumer(taker)  # type: ignore[attr-defined]
    refused(ask, DeleteQueue("q", if_unused=True), "amqp:precondition-failed")
    assert ask(DeleteQueue("q")) == 2
    assert taker.error is not None
    assert taker.error.condition == "amqp:resource-deleted"
    assert ask(DeleteQueue("q")) == 0
    refused(ask, PurgeQueue("q"), "amqp:not-found")


def test_exchanges(ask: Asking, vhost: VirtualHostCore) -> None:
    """Declared, looked at, deleted; what one asks for as `alternate` is an argument elsewhere."""
    ask(DeclareExchange("e", "topic", durable=True, alternate="rest"))
    ask(DeclareExchange("e", "topic", durable=True, arguments={"alternate-exchange": "rest"}))
    ask(DeclareExchange("e", passive=True))
    assert ask(QueryExchange("e")) == ExchangeFacts("e", "topic", True, {"alternate-exchange": "rest"})
    refused(ask, DeclareExchange("e", "direct", durable=True), "amqp:precondition-failed")
    refused(ask, DeclareExchange("f", passive=True), "amqp:not-found")
    ask(DeleteExchange("e"))
    ask(DeleteExchange("e"))
    assert ask(QueryExchange("e")) is None
    refused(ask, DeleteExchange("amq.topic"), "amqp:unauthorized-access")


def test_bindings(ask: Asking) -> None:
    """Queues and exchanges are bound, looked at and unbound; what is not there is said."""
    assert ask(QueryBinding("")) == BindingFacts(True, True, False, False, False)
    ask(DeclareQueue("q"))
    ask(DeclareExchange("e", "topic"))
    ask(Bind("q", "e", "a.*"))
    ask(Bind("e", "amq.fanout", kind="exchange"))
    assert ask(QueryBinding("e", "q", "a.*")) == BindingFacts(True, True, True, True, True)
    assert ask(QueryBinding("e", "q", "b", {"a": 1})) == BindingFacts(True, True, True, False, False)
    assert ask(QueryBinding("e", "q", arguments={"a": 1})) == BindingFacts(True, True, True, True, False)
    assert ask(QueryBinding("amq.fanout", "q")) == BindingFacts(True, True, False, False, False)
    assert ask(QueryBinding("f", "q")) == BindingFacts(False, True, False, False, False)
    assert ask(QueryBinding("e", "r")) == BindingFacts(True, False, False, False, False)
    assert ask(QueryBinding("", "q")) == ask(QueryBinding("", "q", "q")) == BindingFacts(True, True, True, True, True)
    assert ask(QueryBinding("", key="q")) == ask(QueryBinding("")) == BindingFacts(True, True, True, True, True)
    assert ask(QueryBinding("", "q", "k")) == BindingFacts(True, True, True, False, False)
    assert ask(QueryBinding("", key="r")) == BindingFacts(True, True, True, False, False)
    assert ask(QueryBinding("", "q", "q", {"a": 1})) == BindingFacts(True, True, True, True, False)
    for unbind in (Unbind("q", "e", "a.*"), Unbind("q", "e", "a.*"), Unbind("q", "f"), Unbind("r", "e")):
        ask(unbind)
    assert ask(QueryBinding("e", "q", "a.*")) == BindingFacts(True, True, False, False, False)
    for request in (Bind("r", "e"), Bind("q", "f"), Bind("f", "e", kind="exchange")):
        refused(ask, request, "amqp:not-found")
    refused(ask, Bind("q", "", "k"), "amqp:unauthorized-access")


@dataclass(frozen=True, slots=True)
class Sing(Request[None]):
    """What no broker does."""


def test_unknown(ask: Asking) -> None:
    """A request that is some dialect's own is refused by its name."""
    with pytest.raises(Refused, match="does not support the request Sing"):
        ask(Sing())
