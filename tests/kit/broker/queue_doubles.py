"""Plain objects in the places of links and clocks, for tests of queues and topics without any protocol."""

from __future__ import annotations

import itertools

from amqp10.messaging import Error, Message
from amqp10.types import Symbol, encode

from ..inside.broker import Filtering, Node, Producer, Queue, QueueConsumer, QueuedMessage

_keys = itertools.count(1_000_000)


class Taker(QueueConsumer):
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
        self.told_nothing_left = 0
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

    def nothing_left(self) -> None:
        self.told_nothing_left += 1

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
