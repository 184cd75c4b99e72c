"""Exchanges and bindings: which way messages take, and how they come and go."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.broker._routing.exchanges import Exchange
from amqp10.broker._routing.routes import MAX_KNOWN, RememberedRoutes
from amqp10.broker._routing.topology import Topology
from amqp10.messaging import Message
from amqp10.types import Decimal32, Symbol

from ...kit.clock import Clock
from ...kit.inside.broker import Node, Refused, VirtualHostCore

PLAIN = Message(b"x").encode()


def make_vhost() -> VirtualHostCore:
    """A vhost of its own, for tests that Hypothesis repeats."""
    return VirtualHostCore(clock=Clock())


def names(nodes: tuple[Node, ...]) -> list[str]:
    """Their names, sorted."""
    return sorted(node.name for node in nodes)


def reached(topology: Topology, exchange: str, key: str = "", payload: bytes = PLAIN) -> list[str]:
    """The nodes that a message comes to."""
    return names(topology.route(topology.find(exchange), key, payload).nodes)


def bind(
    vhost: VirtualHostCore, exchange: str, to: str, key: str = "", arguments: dict[str, Any] | None = None
) -> None:
    """Bind a queue, made if need be, or an exchange that is there."""
    topology = vhost.topology
    destination: Node | Exchange = topology.exchanges.get(to) or vhost.declare(to, "queue")
    topology.bind(topology.find(exchange), destination, key, arguments)


def test_predeclared(vhost: VirtualHostCore) -> None:
    """Every broker has the exchanges that the specification of 0-9-1 names, and nobody can take them away."""
    topology = vhost.topology
    kinds = {exchange.name: exchange.kind for exchange in topology.exchanges.values()}
    assert kinds == {
        "": "direct",
        "amq.direct": "direct",
        "amq.fanout": "fanout",
        "amq.topic": "topic",
        "amq.headers": "headers",
        "amq.match": "headers",
    }
    for name in kinds:
        with pytest.raises(Refused, match="is predeclared, and cannot be deleted") as refused:
            topology.delete(name)
        assert refused.value.error.condition == "amqp:unauthorized-access"
    assert topology.declare("amq.direct", "direct", durable=True) is topology.exchanges["amq.direct"]


def test_default_exchange(vhost: VirtualHostCore) -> None:
    """It knows each node by its name, new ones at once, and is bound to nothing else."""
    topology = vhost.topology
    assert reached(topology, "", "orders") == []
    queue = vhost.declare("orders", "queue")
    assert reached(topology, "", "orders") == ["orders"]
    with pytest.raises(Refused, match="default exchange"):
        topology.bind(topology.find(""), queue, "other")
    with pytest.raises(Refused, match="default exchange"):
        topology.declare("", "direct")
    vhost.delete(queue)
    assert reached(topology, "", "orders") == []


def test_each_kind(vhost: VirtualHostCore) -> None:
    """Direct compares, fanout does not look, topic matches patterns, headers matches arguments."""
    topology = vhost.topology
    for kind in ("direct", "fanout", "topic"):
        bind(vhost, f"amq.{kind}", "one", "a.b")
        bind(vhost, f"amq.{kind}", "two", "a.*")
    bind(vhost, "amq.headers", "one", arguments={"color": "red"})
    bind(vhost, "amq.headers", "two", arguments={"x-match": "any", "color": "blue", "size": None})
    assert reached(topology, "amq.direct", "a.b") == ["one"]
    assert reached(topology, "amq.direct", "a.*") == ["two"]
    assert reached(topology, "amq.fanout", "whatever") == ["one", "two"]
    assert reached(topology, "amq.topic", "a.b") == ["one", "two"]
    assert reached(topology, "amq.topic", "a.c") == ["two"]
    red = Message(b"", application_properties={"color": "red", "size": 1}).encode()
    assert reached(topology, "amq.headers", "a.b", red) == ["one", "two"]
    assert reached(topology, "amq.headers", "a.b", PLAIN) == []
    x = Message(b"", message_annotations={Symbol("x-kind"): "k"}).encode()
    bind(vhost, "amq.headers", "three", arguments={"x-match": "all-with-x", "x-kind": "k"})
    assert reached(topology, "amq.headers", "", x) == ["three"]


def test_each_queue_once(vhost: VirtualHostCore) -> None:
    """A queue that several bindings lead to, by several ways, gets one copy."""
    topology = vhost.topology
    topology.declare("inner", "fanout")
    for key in ("#", "a.#", "a.b"):
        bind(vhost, "amq.topic", "one", key)
        bind(vhost, "amq.topic", "inner", key)
    bind(vhost, "inner", "one")
    bind(vhost, "inner", "two")
    assert reached(topology, "amq.topic", "a.b") == ["one", "two"]


def test_circles(vhost: VirtualHostCore) -> None:
    """Exchanges that are bound in a circle are each asked once."""
    topology = vhost.topology
    ring = [topology.declare(f"e{number}", "fanout") for number in range(5)]
    for one, other in itertools.pairwise([*ring, ring[0]]):
        topology.bind(one, other, "")
        topology.bind(one, one, "")
    bind(vhost, "e3", "end")
    assert reached(topology, "e4") == ["end"]


def test_alternate(vhost: VirtualHostCore) -> None:
    """What an exchange has no binding for goes to its alternate, if that is there; the default exchange can be one."""
    topology = vhost.topology
    topology.declare("main", "direct", arguments={"alternate-exchange": "rest"})
    bind(vhost, "main", "known", "known")
    assert reached(topology, "main", "other") == []
    topology.declare("rest", "fanout")
    bind(vhost, "rest", "others")
    assert reached(topology, "main", "other") == ["others"]
    assert reached(topology, "main", "known") == ["known"]
    topology.declare("by-name", "fanout", arguments={"alternate-exchange": ""})
    assert reached(topology, "by-name", "known") == ["known"]


def test_declared_twice(vhost: VirtualHostCore) -> None:
    """The same again is found; another of the name is refused, and what is wrong is named."""
    topology = vhost.topology
    made = topology.declare("e", "topic", durable=True, arguments={"alternate-exchange": "rest"})
    assert topology.declare("e", "topic", durable=True, arguments={"alternate-exchange": "rest"}) is made
    different: list[tuple[str, dict[str, Any]]] = [
        ("type", {"kind": "direct", "durable": True}),
        ("durable", {"kind": "topic"}),
        ("auto-delete", {"kind": "topic", "durable": True, "auto_delete": True}),
        ("internal", {"kind": "topic", "durable": True, "internal": True}),
        ("alternate-exchange", {"kind": "topic", "durable": True}),
    ]
    for word, settings in different:
        with pytest.raises(Refused, match=word) as refused:
            topology.declare("e", **settings)
        assert refused.value.error.condition == "amqp:precondition-failed"


@pytest.mark.parametrize(
    ("name", "kind", "arguments", "condition"),
    [
        ("amq.mine", "direct", {}, "amqp:unauthorized-access"),
        ("e", "x-random", {}, "amqp:precondition-failed"),
        ("e", "direct", {"alternate-exchange": 1}, "amqp:precondition-failed"),
    ],
)
def test_declared_wrong(
    vhost: VirtualHostCore, name: str, kind: str, arguments: dict[str, Any], condition: str
) -> None:
    """Reserved names, unknown types and an alternate that is no name are refused."""
    with pytest.raises(Refused) as refused:
        vhost.topology.declare(name, kind, arguments=arguments)
    assert refused.value.error.condition == condition
    assert name not in vhost.topology.exchanges


def test_unbinding(vhost: VirtualHostCore) -> None:
    """A binding goes by all that it was made of; without arguments, all of its key go."""
    topology, queue = vhost.topology, vhost.declare("q", "queue")
    exchange = topology.find("amq.headers")
    for color in ("red", "blue"):
        topology.bind(exchange, queue, "k", {"color": color})
        topology.bind(exchange, queue, "k", {"color": color})
    assert len(topology.bound_to(queue)) == 2
    topology.unbind(exchange, queue, "k", {"color": "green"})
    topology.unbind(exchange, queue, "k", {"color": "red"})
    blue, red = (Message(b"", application_properties={"color": each}).encode() for each in ("blue", "red"))
    assert reached(topology, "amq.headers", "", blue) == ["q"]
    assert reached(topology, "amq.headers", "", red) == []
    topology.unbind(exchange, queue, "k")
    assert topology.bound_to(queue) == []


def test_arguments_that_equal_nothing(vhost: VirtualHostCore) -> None:
    """Bindings with a signaling NaN among their arguments, which equals nothing, are made and removed by their key."""
    for _ in range(2):
        bind(vhost, "amq.headers", "q", arguments={"n": Decimal32("sNaN")})
    topology, queue = vhost.topology, vhost.declare("q", "queue")
    headers = topology.find("amq.headers")
    assert headers.find(queue, "", {"n": Decimal32("sNaN")}) == []
    assert len(headers.find(queue, "", None)) == 2
    topology.unbind(headers, queue, "", None)
    assert not headers.bindings


def test_a_wrong_match_is_not_bound(vhost: VirtualHostCore) -> None:
    """Arguments that make no sense to a headers exchange bind nothing; other exchanges do not look at them."""
    topology, queue = vhost.topology, vhost.declare("q", "queue")
    with pytest.raises(Refused, match="x-match"):
        topology.bind(topology.find("amq.match"), queue, "", {"x-match": "some"})
    assert topology.bound_to(queue) == []
    topology.bind(topology.find("amq.direct"), queue, "", {"x-match": "some"})


def test_gone_nodes(vhost: VirtualHostCore) -> None:
    """With a queue go its bindings, and with the last of these an auto-delete exchange, and so on."""
    topology = vhost.topology
    for name in ("inner", "outer"):
        topology.declare(name, "fanout", auto_delete=True)
    queue = vhost.declare("q", "queue")
    topology.bind(topology.find("inner"), queue, "")
    topology.bind(topology.find("outer"), topology.find("inner"), "")
    topology.bind(topology.find("amq.fanout"), topology.find("outer"), "")
    vhost.delete(queue)
    assert "inner" not in topology.exchanges
    assert "outer" not in topology.exchanges
    assert reached(topology, "amq.fanout") == []


@pytest.mark.parametrize("what", ["the queue", "its binding", "the last exchange"])
def test_a_long_chain_that_goes(vhost: VirtualHostCore, what: str) -> None:
    """A chain of auto-delete exchanges goes at once, however long it is: it once ended the connection of who did it."""
    topology, queue = vhost.topology, vhost.declare("q", "queue")
    chain = [topology.declare(f"e{number}", "fanout", auto_delete=True) for number in range(1500)]
    for outer, inner in itertools.pairwise(chain):
        topology.bind(outer, inner, "")
    topology.bind(chain[-1], queue, "")
    if what == "the queue":
        vhost.delete(queue)
    elif what == "its binding":
        topology.unbind(chain[-1], queue, "")
    else:
        topology.delete(chain[-1].name)
    assert not any(exchange.name in topology.exchanges for exchange in chain)
    assert topology.binding_count == 0


def test_unbinding_the_last(vhost: VirtualHostCore) -> None:
    """An auto-delete exchange goes with the last binding that is undone, and not before; one without binding stays."""
    topology, queue = vhost.topology, vhost.declare("q", "queue")
    exchange = topology.declare("e", "direct", auto_delete=True)
    for key in "ab":
        topology.bind(exchange, queue, key)
    topology.unbind(exchange, queue, "a")
    assert topology.find("e") is exchange
    topology.unbind(exchange, queue, "b")
    assert "e" not in topology.exchanges
    topology.unbind(topology.declare("e", "direct"), queue, "none")
    assert "e" in topology.exchanges


def test_deleting(vhost: VirtualHostCore) -> None:
    """An exchange goes with its bindings; only unused, if asked so; what is not there is gone already."""
    topology = vhost.topology
    topology.declare("e", "fanout")
    bind(vhost, "e", "q")
    topology.bind(topology.find("amq.fanout"), topology.find("e"), "")
    with pytest.raises(Refused, match="in use"):
        topology.delete("e", if_unused=True)
    topology.delete("e")
    topology.delete("e")
    assert reached(topology, "amq.fanout") == []
    assert topology.bound_to(vhost.nodes["q"]) == []
    with pytest.raises(Refused, match="no exchange 'e'"):
        topology.find("e")


def test_counting(vhost: VirtualHostCore) -> None:
    """An exchange counts what came to it, and what of that went nowhere, remembered ways included."""
    topology = vhost.topology
    bind(vhost, "amq.direct", "q", "k")
    for key in ("k", "k", "other"):
        vhost.route(f"/exchanges/amq.direct/{key}", PLAIN)
    assert (topology.find("amq.direct").published, topology.find("amq.direct").unrouted) == (3, 1)


def test_memory_is_bounded(vhost: VirtualHostCore) -> None:
    """Senders may make up keys without end; what is remembered of them does not grow with that."""
    topology = vhost.topology
    bind(vhost, "amq.fanout", "q")
    for number in range(MAX_KNOWN + 10):
        vhost.route(f"/exchanges/amq.fanout/{number}", PLAIN)
    assert len(topology.remembered.by_address) <= MAX_KNOWN
    assert len(topology.remembered.ways) <= MAX_KNOWN


changes = st.lists(
    st.tuples(
        st.sampled_from(["bind", "unbind", "bind exchange", "unbind exchange", "delete queue", "delete exchange"]),
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(["", "x", "x.y", "#", "*.y"]),
    ),
    max_size=30,
)
EXCHANGES = {"a": "direct", "b": "fanout", "c": "topic"}


@given(changes)
def test_like_a_list_of_bindings(history: list[tuple[str, str, str, str]]) -> None:
    """After any history, asked after each step so that ways are remembered, messages go where the bindings say."""
    vhost = make_vhost()
    topology = vhost.topology
    bindings: set[tuple[str, str, str, str]] = set()  # exchange, "queue" or "exchange", destination, key
    for what, exchange, to, key in history:
        for name, kind in EXCHANGES.items():
            topology.declare(name, kind)
        kind = "exchange" if what.endswith("exchange") else "queue"
        if what.startswith("bind"):
            destination: Node | Exchange = topology.find(to) if kind == "exchange" else vhost.declare(to, "queue")
            topology.bind(topology.find(exchange), destination, key)
            bindings.add((exchange, kind, to, key))
        elif what.startswith("unbind"):
            destination = topology.find(to) if kind == "exchange" else vhost.declare(to, "queue")
            topology.unbind(topology.find(exchange), destination, key)
            bindings.discard((exchange, kind, to, key))
        elif what == "delete queue":
            vhost.delete(vhost.declare(to, "queue"))
            bindings = {each for each in bindings if each[1:3] != ("queue", to)}
        else:
            topology.delete(to)
            bindings = {each for each in bindings if each[0] != to and each[1:3] != ("exchange", to)}
        for name in EXCHANGES:
            if name in topology.exchanges:
                for routing_key in ("", "x", "x.y"):
                    assert reached(topology, name, routing_key) == sorted(_walk(bindings, name, routing_key))


def _walk(bindings: set[tuple[str, str, str, str]], start: str, routing_key: str) -> set[str]:
    """The queues that bindings lead to, by the definition."""
    found: set[str] = set()
    seen, waiting = {start}, [start]
    while waiting:
        at = waiting.pop()
        for exchange, kind, to, key in bindings:
            if exchange != at or not _fits(EXCHANGES[at], key, routing_key):
                continue
            if kind == "queue":
                found.add(to)
            elif to not in seen:
                seen.add(to)
                waiting.append(to)
    return found


def _fits(kind: str, key: str, routing_key: str) -> bool:
    if kind == "topic":
        return key in ("#", routing_key) or (key == "*.y" and routing_key == "x.y")
    return kind == "fanout" or key == routing_key


comings_and_goings = st.lists(
    st.tuples(
        st.sampled_from(["bind", "unbind", "declare queue", "delete queue", "declare exchange", "delete exchange"]),
        st.sampled_from(["a", "b", "c", "d"]),
        st.sampled_from(["a", "b", "c", "q", "queue://q", "queue://r"]),
        st.sampled_from(["", "q", "queue://q", "#"]),
    ),
    max_size=30,
)


@given(comings_and_goings)
def test_remembered_is_what_is_found(steps: list[tuple[str, str, str, str]]) -> None:
    """Whatever came and went, what is remembered is what would be found: by address, by key, through alternates."""
    kinds = {"a": "direct", "b": "fanout", "c": "topic", "d": "direct"}
    alternates = {"a": "b", "b": "c", "c": ""}
    vhost = make_vhost()
    topology = vhost.topology
    asked = [
        *((f"/exchanges/{exchange}/{key}", True) for exchange in "abcd" for key in ("", "q", "q.r")),
        *((address, False) for address in ("q", "queue://q", "r", "queue://r")),
        ("queue://q", True),
    ]

    def found() -> list[Any]:
        routes: list[Any] = []
        for address, on_demand in asked:
            if on_demand and not address.startswith("/") and "q" not in vhost.nodes:
                continue  # it would be made
            try:
                routes.append((address, vhost.route(address, PLAIN, on_demand=on_demand).nodes))
            except Refused as refused:
                routes.append((address, str(refused)))
        return routes

    for action, name, to, key in steps:
        if action == "declare exchange":
            alternate = {"alternate-exchange": alternates[name]} if name in alternates else {}
            topology.declare(name, kinds[name], arguments=alternate)
        elif action == "delete exchange":
            topology.delete(name)
        elif action == "declare queue" and to not in vhost.nodes:
            vhost.declare(to, "queue")
        elif action == "delete queue" and to in vhost.nodes:
            vhost.delete(vhost.nodes[to])
        elif action in ("bind", "unbind") and name in topology.exchanges:
            destination: Any = topology.exchanges.get(to) or vhost.nodes.get(to)
            if destination is not None:
                (topology.bind if action == "bind" else topology.unbind)(topology.find(name), destination, key)
        remembered = found()
        topology.remembered = RememberedRoutes()
        assert found() == remembered
        found()


def test_a_change_forgets_what_depends_on_it(vhost: VirtualHostCore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who declares, binds and deletes elsewhere does not make the broker find the ways of others again."""
    looked: list[str] = []
    for exchange in (vhost.topology.find("amq.topic"), vhost.topology.find("")):
        matching = exchange.matching

        def counted(*asked: Any, matching: Any = matching) -> Any:
            looked.append(asked[0])
            return matching(*asked)

        monkeypatch.setattr(exchange, "matching", counted)
    bind(vhost, "amq.topic", "q", "k.#")
    asked = [(f"/exchanges/amq.topic/k.{number}", True) for number in range(100)] + [("q", True), ("q", False)]

    def send() -> int:
        looked.clear()
        for address, on_demand in asked:
            assert names(vhost.route(address, PLAIN, on_demand=on_demand).nodes) == ["q"]
        return len(looked)

    assert send() == 101
    assert send() == 0
    for number in range(50):
        vhost.topology.declare(f"e{number}", "fanout")
        bind(vhost, f"e{number}", f"other{number}")
        bind(vhost, f"e{number}", "q")
        vhost.delete(vhost.temporary())
    assert send() == 0
    for number in range(50):
        vhost.topology.delete(f"e{number}")
        vhost.delete(vhost.nodes[f"other{number}"])
    assert send() == 0
    bind(vhost, "amq.topic", "more", "other.#")
    assert send() == 100
    vhost.delete(vhost.nodes["more"])
    assert send() == 100
    topology = vhost.topology
    vhost.delete(vhost.nodes["q"])
    assert not topology.remembered.by_address
    assert not topology.remembered.ways


def test_many_exchanges_in_a_row(vhost: VirtualHostCore) -> None:
    """A way that leads through very many depends on any change."""
    topology = vhost.topology
    for number in range(40):
        topology.declare(f"e{number}", "fanout")
        if number:
            bind(vhost, f"e{number - 1}", f"e{number}")
    bind(vhost, "e39", "q")
    for _ in range(2):
        assert reached(topology, "e0") == ["q"]
    bind(vhost, "e39", "r")
    assert reached(topology, "e0") == ["q", "r"]
