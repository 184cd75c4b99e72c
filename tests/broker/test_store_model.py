"""Whatever happens to a queue, and whenever the broker ends: the next one has what the last commit had."""

from __future__ import annotations

import itertools
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amqp10.broker._entry import Entry
from amqp10.broker._node import Limits
from amqp10.broker._queue import Queue
from amqp10.broker._router import Router
from amqp10.broker._store import Store
from amqp10.broker._store_load import load
from amqp10.messaging import ACCEPTED, RELEASED, Message, Modified, Rejected
from amqp10.types import Symbol

from .conftest import Clock, Taker

NAMES = ("a", "b", "dead-letter")
OUTCOMES = (
    ACCEPTED,
    RELEASED,
    Rejected(),
    Modified(),
    Modified(delivery_failed=True),
    Modified(undeliverable_here=True, message_annotations={Symbol("x-opt-seen"): True}),
    None,  # the link is lost
)
Facts = list[tuple[object, int, bool]]


class World:
    """A broker's nodes and store, a consumer for each queue, and what the last commit had."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.clock = Clock()
        self.bodies = itertools.count(1)
        self.kept: dict[str, Facts] = {name: [] for name in NAMES}
        self.begin()

    def begin(self) -> None:
        self.router = Router(clock=self.clock, limits=Limits(), max_delivery_count=4)
        self.store = Store(self.path, self.clock, self.clock)
        load(self.store, self.router, self.clock)
        self.takers = {name: Taker() for name in NAMES}
        self.entries: list[Entry] = []
        for name, taker in self.takers.items():
            self.queue(name).add_consumer(taker)

    def queue(self, name: str) -> Queue:
        node = self.router.declare(name, "queue")
        assert isinstance(node, Queue)
        return node

    def held(self, name: str) -> list[Entry]:
        return [entry for entry in self.takers[name].taken if not entry.gone and not entry.available]

    def facts(self, name: str) -> Facts:
        """All that is durable in the queue, in order, as the next life has it."""
        entries = {
            entry.position: entry
            for entry in [*self.queue(name)._waiting.available(), *self.held(name)]
            if entry.durable
        }
        found = []
        for _, entry in sorted(entries.items()):
            message = Message.decode(entry.payload)
            annotated = "x-opt-seen" in (message.message_annotations or {})
            found.append((message.body, entry.failures + (not entry.available), annotated))
        return found

    def crash(self) -> None:
        """The process ends; the next finds what the last commit had, less what had its last attempt in that."""
        self.store.file.close()
        self.begin()
        for name in "a", "b":
            alive = [fact for fact in self.kept[name] if fact[1] < 4 or name == "dead-letter"]
            assert self.facts(name) == alive
        exhausted = {fact[0] for name in "ab" for fact in self.kept[name] if fact[1] >= 4}
        bodies = [body for body, *_ in self.facts("dead-letter")]
        assert set(bodies) == {body for body, *_ in self.kept["dead-letter"]} | exhausted
        assert len(bodies) == len(set(bodies))

    # What may happen

    def put(self, name: str, durable: bool, count: int) -> None:
        for _ in range(count):
            payload = Message(next(self.bodies), durable=durable).encode()
            self.queue(name).put(Entry.read(payload, 0, self.clock(), self.clock))

    def give(self, name: str, count: int) -> None:
        taker = self.takers[name]
        taker.credit = count
        self.queue(name).in_line(taker)
        self.router.flush()

    def settle(self, name: str, which: int, outcome: Any) -> None:
        held = self.held(name)
        if held:
            self.queue(name).settle(held[which % len(held)], self.takers[name], outcome)

    def commit(self) -> None:
        self.store.commit()
        self.kept = {name: self.facts(name) for name in NAMES}

    def fail(self) -> None:
        """A commit on a full disk."""
        (pages,) = self.store.file.run("PRAGMA page_count").fetchone()
        self.put("a", True, 1)
        real = self.store.file.commit

        def full() -> None:
            raise sqlite3.OperationalError(f"full at {pages}")

        self.store.file.commit = full  # type: ignore[method-assign]
        try:
            self.store.commit()
        except sqlite3.OperationalError:
            pass
        self.store.file.commit = real  # type: ignore[method-assign]

    def overlap(self, steps: list[Any]) -> None:
        """These happen while a commit is under way."""
        before = {name: self.facts(name) for name in NAMES}
        self.store._begin()
        for step in steps:
            step(self)
        self.store.file.commit()
        self.store._succeeded()
        self.kept = before


def steps() -> st.SearchStrategy[Any]:
    names = st.sampled_from(NAMES)
    put = st.builds(lambda n, d, c: lambda world: world.put(n, d, c), names, st.booleans(), st.integers(1, 3))
    give = st.builds(lambda n, c: lambda world: world.give(n, c), names, st.integers(1, 4))
    settle = st.builds(
        lambda n, w, o: lambda world: world.settle(n, w, o), names, st.integers(0, 5), st.sampled_from(OUTCOMES)
    )
    small = st.one_of(put, give, settle, settle)
    whole = [st.just(World.commit), st.just(World.crash), st.just(World.fail)]
    overlap = st.builds(lambda each: lambda world: world.overlap(each), st.lists(small, max_size=6))
    return st.one_of(small, small, small, *whole, overlap)


@given(st.lists(steps(), min_size=10, max_size=50))
def test_the_next_life_has_the_last_commit(script: list[Any]) -> None:
    """Commits, failed commits, changes while one is under way, and crashes, in any order."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(str(Path(folder, "store")))
        for step in script:
            step(world)
        world.crash()
        world.store.file.close()
