"""Plain objects in the places of links and clocks, for tests of queues and topics without any protocol."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from amqp10.broker._entry import Entry
from amqp10.broker._node import Consumer, Limits, Node, Producer
from amqp10.broker._queue import Queue
from amqp10.broker._router import Router
from amqp10.broker._selection import Filtering
from amqp10.messaging import Error

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
        self.taken: list[Entry] = []
        self.payloads: list[bytes] = []
        self.passes = 0
        self.told_exhausted = 0
        self.error: Error | None = None

    def ready(self) -> bool:
        return self.credit > 0

    def deliver(self, entry: Entry, payload: bytes) -> bool:
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


def entry(number: int, padding: bytes = b"") -> Entry:
    """A message of one Data section, whose last byte is `number`."""
    body = padding + bytes([number])
    return Entry(b"\x00\x53\x75\xb0" + len(body).to_bytes(4, "big") + body)


def fill(queue: Queue, *numbers: int) -> None:
    """Put one message for each number."""
    for number in numbers:
        queue.put(entry(number))


@pytest.fixture
def clock() -> Clock:
    """A clock at 1000 s."""
    return Clock()


@pytest.fixture
def router(clock: Clock) -> Router:
    """A router with the usual settings."""
    return Router(clock=clock, limits=Limits())


@pytest.fixture
def make_queue(clock: Clock) -> Callable[..., Queue]:
    """Makes queues with the settings that the test names; the test runs them itself."""

    def make(**settings: object) -> Queue:
        settings.setdefault("limits", Limits())
        return Queue("q", clock=clock, touch=lambda node: None, **settings)  # type: ignore[arg-type]

    return make
