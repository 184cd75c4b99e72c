"""Whatever happens to a queue, and whenever the broker ends, in mid-commit too: the next one has what the last one had.

First with plain queues, of which everything is compared; then with queues of any arguments, messages of any content,
links, transactions and branches, of which it is compared that no message is missing.
"""

from __future__ import annotations

import itertools
import re
import shutil
import sqlite3
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from amqp10.broker._store import store
from amqp10.broker._store.load import load
from amqp10.broker._store.store import Store
from amqp10.broker._store.tables import DeliveryRow, MessageRow, NodeRow, QuarantineRow, SubscriptionRow, WorkRow
from amqp10.errors import DecodeError
from amqp10.messaging import ACCEPTED, RELEASED, Message, Modified, Rejected, Source, TransactionalState
from amqp10.types import Symbol, Timestamp

from ...kit.broker.controller import controller
from ...kit.broker.queue_doubles import Taker
from ...kit.broker.wire import Wire
from ...kit.clock import Clock
from ...kit.inside.broker import (
    Queue,
    QueueDeclaration,
    QueuedMessage,
    QueueFull,
    Refused,
    VirtualHostCore,
    VirtualHostSettings,
)

pytestmark = pytest.mark.capability("nothing lost")

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
        self.vhost = VirtualHostCore(VirtualHostSettings(max_delivery_count=4), clock=self.clock)
        self.store = Store(self.path, self.clock, self.clock)
        load(self.store, self.vhost, self.clock)
        self.takers = {name: Taker() for name in NAMES}
        self.entries: list[QueuedMessage] = []
        for name, taker in self.takers.items():
            self.queue(name).add_consumer(taker)

    def queue(self, name: str) -> Queue:
        node = self.vhost.declare(name, "queue")
        assert isinstance(node, Queue)
        return node

    def held(self, name: str) -> list[QueuedMessage]:
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
            self.queue(name).put(QueuedMessage.read(payload, 0, self.clock(), self.clock))

    def give(self, name: str, count: int) -> None:
        taker = self.takers[name]
        taker.credit = count
        self.queue(name).in_line(taker)
        self.vhost.flush()

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
        """These happen while a commit is under way, which writes one row after the other."""
        before = {name: self.facts(name) for name in NAMES}
        with patch.object(store, "AT_ONCE", 1):
            writing = self.store._begin()
            for step in steps:
                next(writing, None)
                step(self)
            list(writing)
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


ANYWHERE = ("p", "q", "sink")
DURABLE = b"\x00\x53\x70\xc0\x02\x01\x41"  # a header that says so
ID = re.compile(rb"#(\d+)#")


def contents() -> st.SearchStrategy[tuple[bytes, int]]:
    """Messages with zeros for their number: well-formed, malformed in one section or another, and of another format."""
    fields = st.fixed_dictionaries(
        {},
        optional={
            "priority": st.integers(0, 20),
            "ttl": st.sampled_from([timedelta(seconds=5), timedelta(days=40)]),
            "delivery_count": st.integers(0, 3),
            "absolute_expiry_time": st.sampled_from([Timestamp(2**62), Timestamp(-(2**62))]),
            "application_properties": st.just({"a": 1, "_AMQ_DUPL_ID": "again"}),
        },
    )
    good = st.builds(lambda more: (Message(b"#000000#", durable=True, **more).encode(), 0), fields)
    odd = [
        *(DURABLE + b"\x00\x53" + bytes([section]) + b"\xff#000000#" for section in range(0x71, 0x7B)),
        *(b"\x00\x53" + bytes([section]) + b"\xff#000000#" for section in (0x6F, 0x70, 0x7F)),
        DURABLE + b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x74\xc1\x01#000000#",
        DURABLE + b"#000000#",
        DURABLE + DURABLE + b"\x00\x53\x75\xa0\x10#000000#",
        b"#000000#",
    ]
    return st.one_of(good, good, st.tuples(st.sampled_from(odd), st.just(0)), st.just((b"#000000# not AMQP", 7)))


def arguments() -> st.SearchStrategy[dict[str, Any]]:
    """What queues are declared with."""
    optional: dict[str, Any] = {
        "x-max-length": st.integers(0, 3),
        "x-max-length-bytes": st.integers(0, 200),
        "x-overflow": st.sampled_from(["drop-head", "reject-publish", "reject-publish-dlx"]),
        "x-max-priority": st.integers(1, 9),
        "x-message-ttl": st.sampled_from([0, 5000, 10**9]),
        "x-delivery-limit": st.integers(0, 2),
        "x-dead-letter-exchange": st.sampled_from(["amq.fanout", "amq.headers", "", "gone"]),
        "x-single-active-consumer": st.just(True),
    }
    refusing = {"x-max-length": st.integers(1, 3), "x-overflow": st.just("reject-publish")}
    dying = {"x-delivery-limit": st.integers(0, 1), "x-dead-letter-exchange": optional["x-dead-letter-exchange"]}
    return st.one_of(
        st.fixed_dictionaries(refusing),
        st.fixed_dictionaries(dying),
        st.fixed_dictionaries({}, optional=optional),
        st.fixed_dictionaries({"x-queue-type": st.just("stream")}, optional={"x-max-age": st.just("1h")}),
    )


class AnyWorld:
    """A broker with queues of any arguments, and the numbers of the messages that its store had at the last commit."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._numbers = itertools.count(1)
        self.path = self._folder / "store"
        self.clock = Clock()
        self.kept: set[int] = set()
        self.may_end: set[int] = set()
        self.begin()

    def begin(self) -> None:
        self.vhost = VirtualHostCore(
            VirtualHostSettings(max_delivery_count=3, dead_letter_expired=True, duplicate_ids=5), clock=self.clock
        )
        topology = self.vhost.topology
        self.vhost.begin_with(["sink"], [], {}, [("amq.fanout", "", "sink")])
        topology.bind(topology.find("amq.headers"), self.vhost.nodes["sink"], "", {"x-match": "any", "a": 1})
        self.store = Store(str(self.path), self.clock, self.clock)
        load(self.store, self.vhost, self.clock)
        self.check()
        self.takers = {name: Taker() for name in ANYWHERE}
        for name, taker in self.takers.items():
            queue = self.vhost.nodes.get(name)
            if isinstance(queue, Queue):
                queue.add_consumer(taker)
        self._wire: Wire | None = None
        self.senders: dict[str, Any] = {}
        self.receivers: dict[str, Any] = {}
        self.open: list[bytes] = []

    def check(self) -> None:
        """After the start every message is in its queue, in a branch or in the quarantine, and is counted there."""
        self.store.commit()
        lost = self.kept - self.found() - self.may_end
        assert not lost, f"{sorted(lost)} are lost"
        # What a broker has taken, the next one can restore.
        assert [row for row in self.store.file.rows(QuarantineRow) if row.origin is not None] == []
        for queue in self.vhost.nodes.values():
            if isinstance(queue, Queue) and queue.journal is not None:
                rows = [row for row in self.store.file.rows(MessageRow) if row.queue == queue.journal.number]
                assert queue.depth == len(rows), queue.name

    def found(self) -> set[int]:
        """The messages in the store."""
        file = self.store.file
        known = {row.number for row in file.rows(NodeRow)} | {row.number for row in file.rows(SubscriptionRow)}
        payloads = [row.payload for row in file.rows(MessageRow) if row.queue in known]
        payloads += [row.payload or b"" for row in file.rows(WorkRow)]
        payloads += [row.payload for row in file.rows(QuarantineRow)]
        return {int(found[1]) for payload in payloads if (found := ID.search(payload)) is not None}

    # What may happen

    def declare(self, name: str, arguments: dict[str, Any]) -> None:
        if name not in self.vhost.nodes:
            try:
                queue = self.vhost.declare_queue(name, QueueDeclaration(arguments=arguments))
            except Refused:
                return
            queue.add_consumer(self.takers[name])

    def _payload(self, content: tuple[bytes, int]) -> bytes:
        return content[0].replace(b"#000000#", b"#%06d#" % next(self._numbers))

    def put(self, name: str, content: tuple[bytes, int]) -> None:
        node = self.vhost.nodes.get(name)
        if node is not None:
            try:
                node.take(QueuedMessage.read(self._payload(content), content[1], self.clock(), self.clock))
            except (DecodeError, QueueFull):
                pass

    def give(self, name: str, count: int) -> None:
        queue, taker = self.vhost.nodes.get(name), self.takers[name]
        taker.credit = count
        if isinstance(queue, Queue):
            queue.in_line(taker)
        self.vhost.flush()

    def burst(self, name: str, content: tuple[bytes, int], count: int) -> None:
        """As many messages as are held then come again, which fills what has a limit; that is on the disk."""
        for _ in range(2):
            for _ in range(count):
                self.put(name, content)
            self.give(name, count)
        for _ in range(count):
            self.put(name, content)
        self.commit()

    def settle(self, name: str, which: int, outcome: Any) -> None:
        queue, taker = self.vhost.nodes.get(name), self.takers[name]
        held = [entry for entry in taker.taken if not entry.gone and not entry.available]
        if held and isinstance(queue, Queue):
            queue.settle(held[which % len(held)], taker, outcome)

    def wait(self, seconds: float) -> None:
        self.clock.now += seconds
        self.vhost.expire()
        self.vhost.flush()

    # Links that can be resumed, transactions, and branches

    @property
    def wire(self) -> Wire:
        """A client, from when it is needed."""
        if self._wire is None:
            self._wire = Wire(self.vhost)
            self.control = controller(self._wire)
        return self._wire

    def attach(self, name: str) -> None:
        """Have a link hold two messages, which are still its own after a crash."""
        if name not in self.receivers and name in self.vhost.nodes:
            source = Source(name, expiry_policy="never")
            self.receivers[name] = self.wire.receive_from(source, name=f"from {name}", credit=2)

    def post(self, name: str, content: tuple[bytes, int]) -> None:
        if not self.open:
            self.wire.turn()
            self.open.append(self.control.declare())
        if name not in self.senders and name in self.vhost.nodes:
            self.senders[name] = self.wire.send_to(name)
        sender = self.senders.get(name)
        if sender is not None and sender.attached and sender.credit > 0:
            state = TransactionalState(self.open[-1])
            sender.send(self._payload(content), message_format=content[1], state=state)
            self.wire.turn()

    def retire(self, name: str, outcome: Any) -> None:
        receiver = self.receivers.get(name)
        if self.open and receiver is not None and receiver.incoming and receiver.attached:
            delivery = receiver.incoming.popleft()
            receiver.settle(delivery, TransactionalState(self.open[-1], outcome or ACCEPTED))
            self.wire.turn()

    def end(self, fail: bool) -> None:
        if self.open:
            self.control.discharge(self.open.pop(), fail=fail)

    def prepare(self) -> None:
        if self.open:
            branch = (1, b"%d" % next(self._numbers), b"")
            self.vhost.prepared.prepare("u", branch, self.wire.peer.transactions[self.open.pop()])

    def complete(self, commit: bool) -> None:
        for branch in self.vhost.prepared.of("u")[:1]:
            self.vhost.prepared.complete("u", branch, commit=commit)
            self.vhost.flush()

    # Commits and crashes

    def commit(self) -> None:
        self.store.commit()
        self.note()

    def note(self) -> None:
        """Note what the next life is to have."""
        self.kept = self.found()
        file = self.store.file
        holders = {row.message for row in file.rows(DeliveryRow)} | {row.message for row in file.rows(WorkRow)}
        # Dead letters that may go nowhere, or in a circle.
        queues = (each for each in self.vhost.nodes.values() if isinstance(each, Queue))
        astray = {_number(each) for each in queues if each.dead_letter_to not in (None, ("amq.fanout", None))}
        self.may_end = set()
        for row in file.rows(MessageRow):
            found = ID.search(row.payload)
            if row.held and row.number not in holders and found is not None and row.queue in astray:
                self.may_end.add(int(found[1]))

    def crash(self) -> None:
        """The process ends, and what was not committed with it."""
        self.store.file.close()
        self.begin()

    def crash_in_commit(self) -> None:
        """The process ends in the middle of a commit."""
        list(self.store._begin())
        path = self._folder / f"store {next(self._numbers)}"
        for suffix in ("", "-wal"):
            shutil.copy(f"{self.path}{suffix}", f"{path}{suffix}")
        self.store.file.rollback()
        self.store.file.close()
        self.path = path
        self.begin()


def _number(node: Any) -> int | None:
    return node.journal.number if node.journal is not None else None


def any_steps() -> st.SearchStrategy[Any]:
    names = st.sampled_from(ANYWHERE)
    outcomes = st.sampled_from(OUTCOMES)
    declare = st.builds(lambda n, a: lambda world: world.declare(n, a), names, arguments())
    put = st.builds(lambda n, c: lambda world: world.put(n, c), names, contents())
    give = st.builds(lambda n, c: lambda world: world.give(n, c), names, st.integers(1, 4))
    burst = st.builds(lambda n, c, k: lambda world: world.burst(n, c, k), names, contents(), st.integers(1, 3))
    settle = st.builds(lambda n, w, o: lambda world: world.settle(n, w, o), names, st.integers(0, 5), outcomes)
    attach = st.builds(lambda n: lambda world: world.attach(n), names)
    post = st.builds(lambda n, c: lambda world: world.post(n, c), names, contents())
    retire = st.builds(lambda n, o: lambda world: world.retire(n, o), names, outcomes)
    end = st.builds(lambda fail: lambda world: world.end(fail), st.booleans())
    complete = st.builds(lambda commit: lambda world: world.complete(commit), st.booleans())
    wait = st.builds(lambda seconds: lambda world: world.wait(seconds), st.sampled_from([1, 10, 10_000]))
    whole = [st.just(each) for each in (AnyWorld.commit, AnyWorld.crash, AnyWorld.crash_in_commit, AnyWorld.prepare)]
    return st.one_of(declare, put, burst, burst, give, settle, attach, post, retire, end, complete, wait, *whole)


@given(
    st.lists(st.tuples(st.sampled_from(ANYWHERE[:2]), arguments()), min_size=1, max_size=2),
    st.lists(any_steps(), min_size=5, max_size=30),
)
@example(
    [("p", {"x-max-length": 1, "x-overflow": "reject-publish"})],
    [lambda world: world.burst("p", (Message(b"#000000#", durable=True).encode(), 0), 1)],
)
@example(
    [("p", {"x-delivery-limit": 0, "x-dead-letter-exchange": "amq.headers"})],
    [lambda world: world.burst("p", (DURABLE + b"\x00\x53\x74\xff#000000#", 0), 1)],
)
@settings(max_examples=40, deadline=None)
@pytest.mark.slow
def test_no_message_is_missing(queues: list[tuple[str, dict[str, Any]]], script: list[Any]) -> None:
    """Whatever queues, messages, links and transactions there are when the process ends, the broker begins again.

    Each message that was in the store is in its queue, in that of dead letters, in a branch or in the quarantine.
    """
    with tempfile.TemporaryDirectory() as folder:
        world = AnyWorld(folder)
        for name, given_arguments in queues:
            world.declare(name, given_arguments)
        for step in script:
            step(world)
        world.commit()
        world.crash()
        world.crash()
        world.store.file.close()
