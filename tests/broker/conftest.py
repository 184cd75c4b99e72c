"""Plain objects in the places of links and clocks, for tests of queues and topics without any protocol."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amqp10.broker._queues.message import QueuedMessage
from amqp10.broker._queues.node import Consumer, Limits, Node, Producer
from amqp10.broker._queues.queue import Queue
from amqp10.broker._queues.selection import Filtering
from amqp10.broker._router import Router
from amqp10.broker._store.load import load
from amqp10.broker._store.store import Store
from amqp10.messaging import Error, Message
from amqp10.types import Symbol, encode

from ..kit.broker.controller import Controller, controller
from ..kit.broker.wire import Wire

_keys = itertools.count(1_000_000)


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Taker(Consumer):
    """A consumer that takes up to `credit` messages and remembers them."""

    def __init__(
        self,
        credit: int = 0,
        *,
        copies: bool = False,
        settles: bool = False,
        largest: int = 1 << 30,
        filtering: Filtering | None = None,
    ) -> None:
        self.key = next(_keys)
        self.filtering = filtering
        self.copies = copies
        self.settles = settles
        self.credit = credit
        self.largest = largest
        self.taken: list[QueuedMessage] = []
        self.payloads: list[bytes] = []
        self.passes = 0
        self.told_exhausted = 0
        self.error: Error | None = None

    def ready(self) -> bool:
        return self.credit > 0

    def deliver(self, entry: QueuedMessage, payload: bytes) -> bool:
        if len(payload) > self.largest:
            return False
        self.credit -= 1
        self.taken.append(entry)
        self.payloads.append(payload)
        return True

    def fed(self) -> None:
        self.passes += 1

    def exhausted(self) -> None:
        self.told_exhausted += 1

    def node_deleted(self, error: Error) -> None:
        self.error = error

    @property
    def numbers(self) -> list[int]:
        """The bodies, where they are one byte."""
        return [payload[-1] for payload in self.payloads]


class Giver(Producer):
    """A producer that remembers what it was granted."""

    def __init__(self) -> None:
        self.granted = 0
        self.grants: list[int] = []
        self.told_relaxed = 0
        self.error: Error | None = None

    @property
    def credit(self) -> int:
        return self.granted

    def grant(self, node: Node, credit: int) -> None:
        self.granted = credit
        self.grants.append(credit)

    def relaxed(self, node: Node) -> None:
        self.told_relaxed += 1

    def node_deleted(self, error: Error) -> None:
        self.error = error

    def give(self, node: Node, count: int = 1, size: int = 0) -> None:
        """Put messages, as a link would: each costs a credit, and the node hears of it once."""
        for _ in range(count):
            self.granted -= 1
            node.put(entry(0, b"x" * size))
        node.replenish(self)


def entry(number: int, padding: bytes = b"") -> QueuedMessage:
    """A message of one Data section, whose last byte is `number`."""
    body = padding + bytes([number])
    return QueuedMessage(b"\x00\x53\x75\xb0" + len(body).to_bytes(4, "big") + body)


def why_rejected(payload: bytes) -> Error:
    """The error that a message's delivery annotations say that it was rejected with."""
    said = Message.decode(payload).delivery_annotations
    assert list(said) == ["rejected"]
    return Error.decode(encode(said[Symbol("rejected")]))


def fill(queue: Queue, *numbers: int) -> None:
    """Put one message for each number."""
    for number in numbers:
        queue.put(entry(number))


def attach(queue: Queue, *takers: Taker) -> None:
    """Add consumers that stand in line, and let the queue have its pass."""
    for taker in takers:
        queue.add_consumer(taker)
        queue.in_line(taker)
    queue.run()


def more(queue: Queue, taker: Taker, credit: int) -> None:
    """Give a consumer credit."""
    taker.credit = credit
    queue.in_line(taker)
    queue.run()


@pytest.fixture
def clock() -> Clock:
    """A clock at 1000 s."""
    return Clock()


@pytest.fixture
def router(clock: Clock) -> Router:
    """A router with the usual settings."""
    return Router(clock=clock, limits=Limits())


@pytest.fixture
def wire(router: Router) -> Wire:
    """A client of a broker with the usual settings."""
    return Wire(router)


@pytest.fixture
def control(wire: Wire) -> Controller:
    """A control link, attached."""
    return controller(wire)


@pytest.fixture
def make_queue(clock: Clock) -> Callable[..., Queue]:
    """Makes queues with the settings that the test names; the test runs them itself."""

    def make(**settings: object) -> Queue:
        settings.setdefault("limits", Limits())
        return Queue("q", clock=clock, touch=lambda node: None, **settings)  # type: ignore[arg-type]

    return make


# The time of day and the broker's clock go at the same pace and begin anywhere.
DAY = 1_000_000_000.0


class Life:
    """A router with a store, from begin to crash."""

    def __init__(self, path: Path, clock: Clock, **settings: object) -> None:
        self.clock = clock
        self.router = Router(clock=clock, limits=Limits(), **settings)  # type: ignore[arg-type]
        self.store = Store(str(path), clock, self.wall)
        try:
            load(self.store, self.router, self.wall)
        except BaseException:
            self.store.file.close()  # which Python 3.13 warns of
            raise

    def wall(self) -> float:
        return DAY + self.clock.now

    def queue(self, name: str = "q") -> Queue:
        node = self.router.declare(name, "queue")
        assert isinstance(node, Queue)
        return node

    def put(self, *bodies: object, name: str = "q", **fields: object) -> None:
        for body in bodies:
            payload = Message(body, **{"durable": True, **fields}).encode()  # type: ignore[arg-type]
            self.queue(name).put(QueuedMessage.read(payload, 0, self.clock.now, self.wall))

    def give(self, taker: Taker, name: str = "q") -> list[QueuedMessage]:
        """What the taker is given of the queue."""
        queue = self.queue(name)
        if taker.key not in queue.consumers:
            queue.add_consumer(taker)
        queue.in_line(taker)
        self.router.flush()
        return taker.taken

    def bodies(self, name: str = "q") -> list[object]:
        """All that waits in the queue, without taking it."""
        return [message.body for message in self.messages(name)]

    def messages(self, name: str = "q") -> list[Message]:
        browser = Taker(1000, copies=True)
        self.give(browser, name)
        self.queue(name).remove_consumer(browser)
        return [Message.decode(payload) for payload in browser.payloads]


Begin = Callable[..., Life]


@pytest.fixture
def begin(tmp_path: Path, clock: Clock) -> Iterator[Begin]:
    """Begins a life on the same file; the one before crashes with that."""
    lives: list[Life] = []

    def next_life(**settings: object) -> Life:
        for life in lives:
            life.store.file.close()
        lives.append(Life(tmp_path / "store", clock, **settings))
        return lives[-1]

    yield next_life
    for life in lives:
        life.store.file.close()
