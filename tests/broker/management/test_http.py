"""The management node: what each request does, and the status of what is refused, as RabbitMQ 4 has them.

That RabbitMQ has them so is asked of it in tests/interop/test_management.py.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amqp10.broker._management.http import Management
from amqp10.broker._management.requests import Requests
from amqp10.engine import Bind, DeclareQueue
from amqp10.errors import DecodeError
from amqp10.messaging import AmqpValue, Message
from amqp10.testing.strategies import amqp_values, symbols
from amqp10.types import Array, Decimal32, Symbol, UInt, ULong

from ...kit.broker.queue_doubles import fill
from ...kit.inside.broker import PeerConnection, Queue, VirtualHostCore


class Asking:
    """A connection that asks."""

    def __init__(self, vhost: VirtualHostCore) -> None:
        self.requests = Requests(vhost, self)
        self.management = Management(cast(PeerConnection, SimpleNamespace(do=self.requests.do, vhost=vhost)), "broker")

    def __call__(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        request = Message(AmqpValue(body), message_id="1", to=path, subject=method, reply_to="$me")
        answer = Message.decode(self.management.answer(request.encode()))
        assert answer.correlation_id == "1"
        assert answer.application_properties == {"http:response": "1.1"}
        return int(answer.subject or ""), answer.body


@pytest.fixture
def ask(vhost: VirtualHostCore) -> Asking:
    """Somebody who asks."""
    return Asking(vhost)


def test_queue(ask: Asking, vhost: VirtualHostCore) -> None:
    """It is made, found, declared again, emptied and deleted, with all that is known of it in the right types."""
    status, made = ask("PUT", "/queues/a%2Fb", {"arguments": {"x-max-length": 5}})
    assert (status, type(made["message_count"]), type(made["consumer_count"])) == (201, ULong, UInt)
    assert made == {
        "leader": "broker",
        "message_count": 0,
        "consumer_count": 0,
        "name": "a/b",
        "vhost": "/",
        "durable": True,
        "auto_delete": False,
        "exclusive": False,
        "type": "classic",
        "arguments": {"x-max-length": 5},
        "replicas": Array("string", ["broker"]),
    }
    fill(cast(Queue, vhost.nodes["a/b"]), 0, 1, 2)
    assert ask("PUT", "/queues/a%2Fb", {"arguments": {"x-max-length": 5}}) == (200, {**made, "message_count": 3})
    assert ask("GET", "/queues/a%2Fb") == (200, {**made, "message_count": 3})
    assert ask("DELETE", "/queues/a%2Fb/messages") == (200, {"message_count": 3})
    assert ask("DELETE", "/queues/a%2Fb") == (200, {"message_count": 0})
    assert "a/b" not in vhost.nodes
    assert ask("DELETE", "/queues/a%2Fb") == (200, {"message_count": 0})


def test_exchange_and_bindings(ask: Asking, vhost: VirtualHostCore) -> None:
    """They are made and found; each binding of a key has a place of its own, by which it is undone."""
    assert ask("PUT", "/exchanges/%C3%A4", {"type": "headers"}) == (204, None)
    assert ask("PUT", "/exchanges/f", {}) == (204, None)
    ask("PUT", "/queues/q", {})
    binding = {"source": "ä", "destination_queue": "q", "binding_key": "a b", "arguments": {}}
    other = {**binding, "arguments": {"n": 1, "x-match": "any"}}
    for each in (binding, other, {**binding, "source": "f"}):
        assert ask("POST", "/bindings", each) == (204, None)
    to_exchange = {"source": "f", "destination_exchange": "ä", "binding_key": "", "arguments": {}}
    assert ask("POST", "/bindings", to_exchange) == (204, None)
    status, (first, second) = ask("GET", "/bindings?src=%C3%A4&dstq=q&key=a%20b")
    assert (status, first) == (200, {**binding, "location": "/bindings/src=%C3%A4;dstq=q;key=a%20b;args="})
    assert second == {**other, "location": second["location"]}
    assert second["location"] != first["location"]
    assert ask("DELETE", second["location"]) == (204, None)
    assert ask("GET", "/bindings?src=%C3%A4&dstq=q&key=a%20b") == (200, [first])
    status, (found,) = ask("GET", "/bindings?src=f&dste=%C3%A4&key=")
    assert found == {**to_exchange, "location": "/bindings/src=f;dste=%C3%A4;key=;args="}
    assert ask("DELETE", found["location"]) == (204, None)
    assert ask("DELETE", found["location"]) == (204, None)
    assert ask("DELETE", "/exchanges/%C3%A4") == (204, None)
    assert "ä" not in vhost.topology.exchanges
    assert ask("GET", "/bindings?src=%C3%A4&dstq=q&key=a%20b") == (200, [])


def test_one_topology(ask: Asking, vhost: VirtualHostCore) -> None:
    """What other dialects declare is the same: found, and bound beside."""
    other = Requests(vhost, object())
    other.do(DeclareQueue("q", durable=True))
    other.do(Bind("q", "amq.direct", "k"))
    assert ask("PUT", "/queues/q", {"arguments": {"x-queue-type": "classic"}})[0] == 200
    assert [each["binding_key"] for each in ask("GET", "/bindings?src=amq.direct&dstq=q&key=k")[1]] == ["k"]
    assert ask("PUT", "/queues/s", {"arguments": {"x-queue-type": "stream"}})[1]["type"] == "stream"
    assert ask("DELETE", "/queues/s/messages")[0] == 400


def test_declared_again_with_a_signaling_nan(ask: Asking) -> None:
    """A queue whose argument is a number differs from one with a signaling NaN there, which equals nothing."""
    assert ask("PUT", "/queues/q", {"arguments": {"x-max-length": ULong(5)}})[0] == 201
    assert ask("PUT", "/queues/q", {"arguments": {"x-max-length": Decimal32("sNaN")}})[0] == 409


def test_exclusive(vhost: VirtualHostCore) -> None:
    """It is for one connection: others may look, and no more."""
    one, other = Asking(vhost), Asking(vhost)
    assert one("PUT", "/queues/q", {"exclusive": True})[0] == 201
    assert other("GET", "/queues/q")[1]["exclusive"] is True
    for method, path, body in (
        ("PUT", "/queues/q", {"exclusive": True}),
        ("DELETE", "/queues/q/messages", None),
        ("DELETE", "/queues/q", None),
        ("POST", "/bindings", {"source": "amq.fanout", "destination_queue": "q", "binding_key": "", "arguments": {}}),
    ):
        assert other(method, path, body)[0] == 400
    one.requests.end()
    assert other("GET", "/queues/q")[0] == 404


BINDING = {"source": "amq.direct", "destination_queue": "q", "binding_key": "k", "arguments": {}}


@pytest.mark.parametrize(
    ("status", "method", "path", "body"),
    [
        (404, "GET", "/queues/none", None),
        (404, "DELETE", "/queues/none/messages", None),
        (404, "GET", "/nothing", None),
        (404, "PUT", "/queues/a/b", {}),
        (404, "PUT", "queues/a", {}),
        (405, "POST", "/queues/q", {}),
        (405, "GET", "/exchanges/amq.direct", None),
        (405, "PUT", "/bindings", {}),
        (400, "PUT", "/queues/", {}),
        (400, "PUT", "/queues/%FF", {}),
        (400, "PUT", "/queues/two%0Alines", {}),
        (400, "DELETE", "/queues/two%0Alines", None),
        (400, "PUT", "/queues/x", None),
        (400, "PUT", "/queues/x", {"nonsense": 1}),
        (400, "PUT", "/queues/x", {"durable": "yes"}),
        (400, "PUT", "/queues/x", {"arguments": {1: 2}}),
        (400, "PUT", "/queues/x", {"durable": False, "arguments": {"x-queue-type": "quorum"}}),
        (400, "PUT", "/queues/x", {"exclusive": True, "arguments": {"x-queue-type": "stream"}}),
        (409, "PUT", "/queues/x", {"arguments": {"x-message-ttl": -1}}),
        (409, "PUT", "/queues/x", {"arguments": {"x-queue-type": "odd"}}),
        (409, "PUT", "/queues/x", {"arguments": {"x-queue-type": Decimal32("sNaN")}}),
        (409, "PUT", "/queues/x", {"arguments": {"x-queue-type": []}}),
        (409, "PUT", "/queues/q", {"durable": False}),
        (409, "PUT", "/queues/q", {"arguments": {"x-queue-type": "quorum"}}),
        (403, "PUT", "/queues/amq.mine", {}),
        (403, "PUT", "/exchanges/", {}),
        (403, "PUT", "/exchanges/amq.mine", {}),
        (403, "DELETE", "/exchanges/amq.direct", None),
        (403, "DELETE", "/exchanges/", None),
        (400, "PUT", "/exchanges/x", {"type": "odd"}),
        (400, "PUT", "/exchanges/x", {"type": 1}),
        (409, "PUT", "/exchanges/amq.direct", {"type": "fanout"}),
        (400, "POST", "/bindings", {**BINDING, "source": "none"}),
        (400, "POST", "/bindings", {**BINDING, "destination_queue": "none"}),
        (403, "POST", "/bindings", {**BINDING, "source": ""}),
        (400, "POST", "/bindings", {"source": "amq.direct", "binding_key": "k", "arguments": {}}),
        (400, "POST", "/bindings", {**BINDING, "source": "amq.headers", "arguments": {"x-match": "odd"}}),
        (400, "GET", "/bindings?src=amq.direct&key=k", None),
        (403, "GET", "/bindings?src=amq.direct&dste=&key=k", None),
        (400, "DELETE", "/bindings/odd", None),
    ],
)
def test_refused(ask: Asking, vhost: VirtualHostCore, status: int, method: str, path: str, body: object) -> None:
    """Each with its status, and nothing has changed."""
    ask("PUT", "/queues/q", {})
    nodes, exchanges = dict(vhost.nodes), dict(vhost.topology.exchanges)
    found, why = ask(method, path, body)
    assert (found, bool(why)) == (status, True)
    assert (vhost.nodes, vhost.topology.exchanges) == (nodes, exchanges)
    assert vhost.topology.bound_to(nodes["q"]) == []


@pytest.mark.parametrize("missing", ["message_id", "to", "subject", "reply_to"])
def test_incomplete(ask: Asking, missing: str) -> None:
    """Without a word of what a request has, the answer is 400."""
    fields = {"message_id": "1", "to": "/queues/q", "subject": "GET", "reply_to": "$me"}
    del fields[missing]
    answer = Message.decode(ask.management.answer(Message(None, **fields).encode()))  # type: ignore[arg-type]
    assert (answer.subject, answer.correlation_id) == ("400", fields.get("message_id"))


def test_body_first(ask: Asking) -> None:
    """RabbitMQ's client for Python says that there is no body before it says what it wants."""
    request = Message(message_id=ULong(7), to="/queues/none", subject="GET", reply_to="$me").encode()
    nothing = Message(AmqpValue(None)).encode()
    assert request.endswith(nothing)
    answer = Message.decode(ask.management.answer(nothing + request[: -len(nothing)]))
    assert (answer.subject, answer.correlation_id, type(answer.correlation_id)) == ("404", 7, ULong)


def test_no_message(ask: Asking) -> None:
    """What is none is told apart."""
    for payload in (b"", b"nonsense", b"\x00\x53\x77"):
        with pytest.raises(DecodeError):
            ask.management.answer(payload)


def test_symbols_are_strings(ask: Asking, vhost: VirtualHostCore) -> None:
    """Names of arguments come as symbols from some; they are kept as strings, as those of other dialects are."""
    assert ask("PUT", "/queues/q", {"arguments": {Symbol("x-max-length"): 1}})[0] == 201
    assert ask("PUT", "/queues/q", {"arguments": {"x-max-length": 1}})[0] == 200
    assert [type(name) for name in vhost.nodes["q"].terms.arguments] == [str]  # type: ignore[attr-defined]


NAMES = st.sampled_from(
    ["q", "e", "none", "", "amq.direct", "amq.mine", "ä", "a/b", "two\nlines", "..", "%", "x" * 300]
)
ARGUMENTS = st.dictionaries(
    st.sampled_from(["x-queue-type", "x-max-length", "x-match", "alternate-exchange", "x-overflow", "other"])
    | st.integers(0, 9)
    | symbols(),
    st.sampled_from(["quorum", "stream", "any", "e", 5, -1]) | amqp_values(max_leaves=3),
    max_size=3,
)
BODIES = amqp_values(max_leaves=3) | st.fixed_dictionaries(
    {},
    optional={
        "durable": st.booleans(),
        "exclusive": st.booleans(),
        "type": st.sampled_from(["direct", "headers", "odd", 5]),
        "source": NAMES,
        "destination_queue": NAMES,
        "destination_exchange": NAMES,
        "binding_key": NAMES,
        "arguments": ARGUMENTS,
        "odd": amqp_values(max_leaves=3),
    },
)
PATHS = st.one_of(
    st.builds("/queues/{}".format, NAMES.map(quote)),
    st.builds("/queues/{}/messages".format, NAMES.map(quote)),
    st.builds("/exchanges/{}".format, NAMES.map(quote)),
    st.just("/bindings"),
    st.builds("/bindings?src={}&dstq={}&key={}".format, NAMES.map(quote), NAMES.map(quote), NAMES.map(quote)),
    st.builds("/bindings?src={}&dste={}&key={}".format, NAMES.map(quote), NAMES.map(quote), NAMES.map(quote)),
    st.builds("/bindings/src={};dstq={};key={};args=".format, NAMES, NAMES, NAMES),
    st.text(max_size=20),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(["PUT", "GET", "POST", "DELETE", "x"]), PATHS, BODIES), max_size=8))
def test_whatever_is_asked(ask: Asking, asked: list[tuple[str, str, object]]) -> None:
    """Each request has an answer, and nothing is raised."""
    for method, path, body in asked:
        status, _ = ask(method, path, body)
        assert status in (200, 201, 204, 400, 403, 404, 405, 409)
