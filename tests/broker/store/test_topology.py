"""Declared queues, exchanges and bindings over the end of the broker."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from amqp10.broker._store.load import load
from amqp10.broker._store.store import Store
from amqp10.broker._store.tables import (
    BindingRow,
    BranchRow,
    DeclarationRow,
    ExchangeRow,
    MessageRow,
    NodeRow,
    StoreFile,
)
from amqp10.messaging import Message

from ...kit.broker.stored_life import Begin, Life
from ...kit.clock import Clock
from ...kit.inside.broker import Queue, QueueDeclaration, VirtualHostCore

PAYLOAD = Message(b"x", durable=True).encode()


def reached(life: Life, exchange: str, key: str = "") -> list[str]:
    """Where a message goes."""
    topology = life.vhost.topology
    return sorted(node.name for node in topology.route(topology.find(exchange), key, PAYLOAD).nodes)


def test_what_is_durable_survives(begin: Begin) -> None:
    """Durable queues with their terms, durable exchanges, bindings between what is durable; and nothing else."""
    life = begin()
    vhost, topology = life.vhost, life.vhost.topology
    kept = vhost.declare_queue("kept", QueueDeclaration(auto_delete=True, arguments={"x-max-length": 2}))
    passing = vhost.declare_queue("passing", QueueDeclaration(durable=False))
    mine = vhost.declare_queue("mine", QueueDeclaration(exclusive=True), owner=life)
    outer = topology.declare("outer", "topic", durable=True, arguments={"alternate-exchange": "amq.fanout"})
    inner = topology.declare("inner", "headers", durable=True, internal=True, auto_delete=True)
    other = topology.declare("other", "topic")
    for queue in (kept, passing, mine):
        topology.bind(outer, queue, "a.*")
        topology.bind(other, queue, "#")
        topology.bind(topology.find("amq.fanout"), queue, "")
    topology.bind(outer, inner, "b", {"n": 1})
    topology.bind(inner, kept, "", {"x-match": "any", "color": None})
    life.put(*range(2), name="kept")
    life.store.commit()

    life = begin()
    topology = life.vhost.topology
    assert life.bodies("kept") == [0, 1]
    assert life.queue("kept").terms == QueueDeclaration(auto_delete=True, arguments={"x-max-length": 2})
    life.put(2, name="kept")
    life.vhost.flush()
    assert life.bodies("kept") == [1, 2]
    assert set(topology.exchanges) >= {"outer", "inner"}
    assert "other" not in topology.exchanges
    assert {"passing", "mine"}.isdisjoint(life.vhost.nodes)
    assert reached(life, "outer", "a.b") == reached(life, "outer", "nothing") == ["kept"]
    found = topology.find("inner")
    assert (found.internal, found.auto_delete, found.kind) == (True, True, "headers")
    assert [binding.arguments for binding in topology.bound_to(found)] == [{"n": 1}]


def test_what_is_gone_stays_gone(begin: Begin) -> None:
    """Exchanges, bindings and queues that were deleted do not come back, nor do those that went with them."""
    life = begin()
    vhost, topology = life.vhost, life.vhost.topology
    queue = vhost.declare_queue("q", QueueDeclaration())
    for name in ("one", "two"):
        topology.bind(topology.declare(name, "fanout", durable=True), queue, "")
    topology.bind(topology.find("one"), topology.find("two"), "")
    topology.bind(topology.find("amq.direct"), queue, "k")
    life.store.commit()
    topology.delete("one")
    topology.unbind(topology.find("amq.direct"), queue, "k")
    life.store.commit()

    life = begin()
    assert "one" not in life.vhost.topology.exchanges
    assert reached(life, "two") == ["q"]
    assert reached(life, "amq.direct", "k") == []
    life.vhost.delete(life.vhost.nodes["q"])
    life.store.commit()

    life = begin()
    assert "q" not in life.vhost.nodes
    assert reached(life, "two") == []
    assert list(life.store.file.rows(BindingRow)) == []
    assert list(life.store.file.rows(DeclarationRow)) == []


def test_named_by_the_program_too(begin: Begin) -> None:
    """A queue that a peer declared stays as it was declared when the program names it as one to begin with."""
    life = begin()
    life.vhost.declare_queue("q", QueueDeclaration(arguments={"x-max-length": 1}))
    life.store.commit()
    path = life.store.path
    life.store.file.close()
    vhost = type(life.vhost)(clock=life.clock)
    vhost.declare("q", "queue")
    store = Store(path, life.clock, life.wall)
    load(store, vhost, life.wall)
    with closing(store.file):
        found = vhost.declare("q", "queue")
        assert found.terms == QueueDeclaration(arguments={"x-max-length": 1})  # type: ignore[attr-defined]


def test_a_store_of_the_first_version(tmp_path: Path) -> None:
    """A file from before there were exchanges, streams and prepared branches is taken, and is of this version then."""
    path = str(tmp_path / "store")
    StoreFile(path).close()
    with closing(sqlite3.connect(path)) as database:
        for table in ("declarations", "exchanges", "bindings", "branches", "work", "quarantine", "records", "clock"):
            database.execute(f"DROP TABLE {table}")
        database.execute("ALTER TABLE messages DROP COLUMN place")
        database.execute("ALTER TABLE messages DROP COLUMN arrived")
        database.execute("PRAGMA user_version = 1")
        database.execute("INSERT INTO nodes VALUES (1, 'q', 'queue')")
        database.execute("INSERT INTO messages VALUES (2, 1, 0, 0, 0, NULL, x'00')")
        database.commit()
    with closing(StoreFile(path)) as file:
        assert list(file.rows(NodeRow)) == [(1, "q", "queue")]
        assert list(file.rows(BindingRow)) == []
        assert list(file.rows(ExchangeRow)) == []
        assert list(file.rows(MessageRow)) == [(2, 1, 0, 0, 0, None, b"\0", None, None)]
        assert list(file.rows(BranchRow)) == []
        assert file.pragma("user_version") == 8


@pytest.mark.parametrize("arguments", [None, {"x-max-length": 5}])
def test_bindings_that_the_program_adds(tmp_path: Path, clock: Clock, arguments: dict[str, Any] | None) -> None:
    """A binding that the program names since the first run is there in the next, and in those without it."""

    def run(*bindings: tuple[str, str, str]) -> list[list[str]]:
        vhost = VirtualHostCore(clock=clock)
        vhost.begin_with({"q": arguments or {}}, [], {"e": "direct"}, bindings)
        store = Store(str(tmp_path / "store"), clock)
        load(store, vhost)
        store.commit()
        store.file.close()
        topology = vhost.topology
        assert len(topology.bound_to(vhost.nodes["q"])) == len(set(bindings) | {("e", "a", "q")})
        assert set(vhost.nodes) == {"q"}
        ways = (topology.route(topology.find("e"), key, PAYLOAD).nodes for key in "ab")
        return [[node.name for node in nodes] for nodes in ways]

    assert run(("e", "a", "q")) == [["q"], []]
    assert run(("e", "a", "q"), ("e", "b", "q")) == [["q"], ["q"]]


def test_bindings_to_a_queue_that_a_peer_declared(begin: Begin, tmp_path: Path, clock: Clock) -> None:
    """The same where a peer had declared the queue with arguments of its own: those stay, and the binding is there."""
    life = begin()
    life.vhost.declare_queue("q", QueueDeclaration(arguments={"x-max-length": 2}))
    life.put(1, name="q")
    life.store.commit()
    life.store.file.close()
    vhost = VirtualHostCore(clock=clock)
    vhost.begin_with(["q"], [], {"e": "direct"}, [("e", "b", "q")])
    store = Store(str(tmp_path / "store"), clock)
    load(store, vhost)
    store.close()
    (queue,) = vhost.topology.route(vhost.topology.find("e"), "b", PAYLOAD).nodes
    assert isinstance(queue, Queue)
    assert queue is vhost.nodes["q"]
    assert (queue.depth, queue.terms) == (1, QueueDeclaration(arguments={"x-max-length": 2}))
    assert reached(begin(), "e", "b") == ["q"]
