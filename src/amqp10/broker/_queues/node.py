"""What queues and topics share, and what they need of links. Nothing here knows a protocol.

A *producer* puts messages into a node, with the credit that the node grants; a *consumer* takes messages from a queue
while it is ready for more. Both are links of some connection; tests use plain objects.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from ...types import Symbol
from .._errors import Refused
from .._log import attempt, notice
from .duplicates import RecentIds, duplicate_id
from .stream_offsets import NEXT, StreamPosition

if TYPE_CHECKING:
    from ...messaging import Error
    from .._users.accounts import Account, Maker
    from .journal import QueueJournal
    from .message import QueuedMessage
    from .selection import Filtering


MESSAGE_OVERHEAD: Final = 256
"""Octets of memory that a message takes besides its payload, approximately."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one queue holds, and how much credit one producer gets.

    Attributes:
        messages: the most messages in a queue, including those that consumers hold; None: no limit.
        bytes: the most encoded bytes in a queue; None: no limit.
        credit: the most messages that one producer may send ahead.
    """

    messages: int | None = None
    bytes: int | None = None
    credit: int = 1000


class QueueFull(Refused):
    """A full queue refuses a message, as it was declared to (`x-overflow`); the error names the queue."""

    def __init__(self, name: str) -> None:
        info = {"queue": name, "reason": Symbol("maxlen")}
        super().__init__(
            "amqp:resource-limit-exceeded", f"queue {name!r} is full: it exceeded maximum length", info=info
        )


class Producer(Protocol):
    """A link that puts messages into a node."""

    @property
    def credit(self) -> int:
        """How many messages it may still send."""

    def grant(self, node: Node, credit: int) -> None:
        """Set its credit to `credit` messages; 0 stops it."""

    def relaxed(self, node: Node) -> None:
        """Learn that there is room again; a producer that was added only for the shortage may leave."""

    def node_deleted(self, error: Error) -> None:
        """End the link, because the node is deleted."""


class Taker(ABC):
    """A link that is given messages while it is ready.

    Attributes:
        waiting: set by the node: the link is in line.
    """

    waiting: bool = False

    @abstractmethod
    def ready(self) -> bool:
        """Return whether it can take one more message now."""

    @abstractmethod
    def fed(self) -> None:
        """Finish a pass in which the link was given messages."""

    @abstractmethod
    def nothing_left(self) -> None:
        """Learn that no message is left for the link now, although it could take more."""

    @abstractmethod
    def node_deleted(self, error: Error) -> None:
        """End the link, because the node is deleted."""


class QueueConsumer(Taker):
    """A link that takes messages from a queue, in any dialect.

    Attributes:
        key: unique among all consumers of the broker, also past ones.
        copies: whether it only browses (distribution-mode "copy"): messages stay.
        settles: whether its messages are settled when they are sent, and so leave the queue.
        filtering: the test for its messages; None: it takes all.
        priority: it gets nothing while a consumer of higher priority is ready.
        exclusive: whether it wants to be the only consumer besides browsers.
        one_shot: whether it takes what is there now, and does not count as one that stays.
        acquired: the messages that a browser (`copies`) acquired.
        place: where it begins to read in a stream.
        timeout: seconds that it may take for a message, in a queue that checks; None: the queue's own time.
        largest_in_run: the most octets of a message that it takes in a run.
    """

    key: int
    copies: bool
    settles: bool
    filtering: Filtering | None = None
    priority: int = 0
    exclusive: bool = False
    one_shot: bool = False
    acquired: Set[QueuedMessage] = frozenset()
    place: StreamPosition = NEXT
    timeout: float | None = None
    largest_in_run: int = 0

    @abstractmethod
    def deliver(self, entry: QueuedMessage, payload: bytes) -> bool:
        """Take a message; called only when `ready()`. Return False if it can never take this message (too large)."""

    def run_room(self, sharers: int) -> int:
        """Return how many messages `deliver_run` takes if `sharers` consumers each take as many; 0: one by one."""
        return 0

    def deliver_run(self, entries: Sequence[QueuedMessage], payloads: Sequence[bytes]) -> None:
        """Take up to `run_room` messages of message-format 0, each of at most `largest_in_run` octets."""

    def give_up(self, entry: QueuedMessage) -> QueuedMessage | None:
        """Give up a message that it held too long.

        Returns:
            What it settles in place of the message from now on; the message itself: nothing, because it was not sent
            completely. None: it does not hold the message, or not alone.
        """
        return None

    def active_changed(self, active: bool) -> None:
        """Learn whether it gets messages, in a queue with one active consumer at a time."""


class Node(ABC):
    """Something with an address.

    Changes are only noted (`touch`). Handing out messages and granting credit is done in `run`, once for many changes,
    when the driver of the broker ends its pass.

    Attributes:
        journal: records it in the store; None: the node does not survive the broker.
        recent: ids of messages that senders may send again; None: duplicates are not detected.
        duplicates: messages that were sent again and dropped.
        owner: the only connection that may receive from it and delete it; None: any may.
        for_replies: whether others may send to it although it has an owner.
        settles_at_once: whether outcomes are settled at once, whatever receiver-settle-mode senders ask for.
        maker: the connection that created it; None: the broker or its store did.
        largest: the most octets of a message; None: the broker's limit.
        takes_runs: whether it takes messages many at a time (`take_run`).
        keeps_records: whether a store keeps records of it in place of a queue.
        keeps_annotations: whether messages come with the delivery annotations of their senders.
        counted: set by the virtual host: octets that it counted for the node; None: it no longer counts them.
        charges: octets of its memory, by the user who sent the messages.
    """

    maker: Maker | None = None
    counted: int | None = 0
    owner: object | None = None
    for_replies = False
    settles_at_once = False
    keeps_records = False
    keeps_annotations = False
    largest: int | None = None
    takes_runs: bool = False
    journal: QueueJournal | None = None
    recent: RecentIds | None = None
    duplicates: int = 0
    reserved: int
    reserved_bytes: int

    def __init__(self, name: str, *, limits: Limits, touch: Callable[[Node], None], temporary: bool = False) -> None:
        self.name = name
        self.limits = limits
        self.temporary = temporary
        self.deleted = False
        self.producers: dict[Producer, None] = {}
        self.enqueued = 0
        # What open transactions will put here when they are committed.
        self.reserved = self.reserved_bytes = 0
        # There is no room for a full window of credit for each producer, so that each gets a share.
        self.rationing: bool = False
        self.full: bool = False  # as it was last logged
        self.charges: dict[Account, int] = {}
        self._touch = touch
        self._touched = False

    @property
    @abstractmethod
    def free(self) -> int:
        """How many more messages have room, cautiously estimated where bytes are limited."""

    @property
    def awaited(self) -> bool:
        """Whether a consumer would get a new message at once."""
        return False

    @property
    def memory(self) -> int:
        """Octets of memory, approximately, that its messages and those reserved by transactions take."""
        return self.reserved_bytes + self.reserved * MESSAGE_OVERHEAD

    @property
    def low_on_room(self) -> bool:
        """Whether there is too little room for a full window for each producer and one more."""
        return self.free < self.limits.credit * (len(self.producers) + 1)

    @abstractmethod
    def put(self, entry: QueuedMessage) -> None:
        """Take a message even if there is no room, because its sender had credit.

        Raises:
            QueueFull: the queue was declared to refuse messages when it is full.
        """

    @abstractmethod
    def insert(self, entry: QueuedMessage) -> None:
        """Take a message that was admitted before, by `reserve` or an earlier broker; it is never refused."""

    def copies_stored(self, durable: bool) -> int:
        """Return how many copies a store keeps of a message that is put here."""
        return int(self.keeps_records or (durable and self.journal is not None))

    def charge(self, account: Account, octets: int) -> None:
        """Count `octets` more of memory for a user's messages here; fewer, if negative."""
        if self.counted is not None:
            self.charges[account] = self.charges.get(account, 0) + octets
            account.charge(octets)

    def charge_no_more(self) -> None:
        """Stop counting the memory of its messages for their users, because the node is gone."""
        for account, octets in self.charges.items():
            account.charge(-octets)
        self.charges.clear()

    def take(self, entry: QueuedMessage) -> None:
        """Take a message from a sender as `put` does, or drop it if it is a duplicate.

        Raises:
            QueueFull: see `put`.
        """
        if self.recent is None:
            self.put(entry)
            return
        identity = duplicate_id(entry)
        if identity in self.recent:
            self.duplicates += 1
        else:
            self.put(entry)
            self.recent.remember(identity)

    def take_run(self, entries: Sequence[QueuedMessage]) -> None:
        """Take messages of one sender, as `take` does one after the other, where `takes_runs`."""
        for entry in entries:
            self.take(entry)

    def take_reserved(self, entry: QueuedMessage) -> None:
        """Take a message with reserved room and free that room; drop the message if it is a duplicate."""
        self.unreserve(entry)
        identity = duplicate_id(entry) if self.recent is not None else None
        if self.recent is not None and identity in self.recent:
            self.duplicates += 1
            return
        self.insert(entry)
        if self.recent is not None:
            self.recent.remember(identity)

    def take_reserved_run(self, entries: Sequence[QueuedMessage]) -> None:
        """Take messages of one sender, as `take_reserved` does one after the other, where `takes_runs`."""
        self.unreserve_run(entries)
        self.take_run(entries)

    def reserve(self, entry: QueuedMessage, *, restored: bool = False) -> None:
        """Reserve room for a message of an open transaction, so that `take_reserved` never refuses it.

        Args:
            restored: whether an earlier broker reserved the room, so that it is not checked again.

        Raises:
            QueueFull: see `put`.
        """
        self.reserve_room(entry.size, entry.account)

    def unreserve(self, entry: QueuedMessage) -> None:
        """Free reserved room, because the transaction is over."""
        self.unreserve_room(entry.size, entry.account)

    def unreserve_run(self, entries: Sequence[QueuedMessage]) -> None:
        """Free the room of messages of one sender, as `unreserve` does one after the other."""
        self.unreserve_room(sum([entry.size for entry in entries]), entries[0].account, len(entries))

    def reserve_room(self, octets: int, account: Account | None) -> None:
        """Reserve room for a message of `octets` octets, for its user if one is known."""
        self.reserved += 1
        self.reserved_bytes += octets
        if account is not None:
            self.charge(account, octets + MESSAGE_OVERHEAD)
        self.touch()

    def unreserve_room(self, octets: int, account: Account | None, messages: int = 1) -> None:
        """Free the room that `reserve_room` reserved for a number of messages."""
        self.reserved -= messages
        self.reserved_bytes -= octets
        if account is not None:
            self.charge(account, -octets - messages * MESSAGE_OVERHEAD)
        if not self.deleted:
            self.touch()

    def run(self) -> None:
        """Do what the changes since the last pass require."""
        self._touched = False
        if not self.deleted:
            self._regulate()

    @abstractmethod
    def delete(self, error: Error) -> None:
        """Delete the node, and tell its consumers and producers."""

    def touch(self) -> None:
        """Ask for a `run` at the end of this pass."""
        if not self._touched:
            self._touched = True
            self._touch(self)

    def add_producer(self, producer: Producer) -> None:
        """Add a producer, which gets credit in the next `run`."""
        self.producers[producer] = None
        self.rationing = True
        self.touch()

    def remove_producer(self, producer: Producer) -> None:
        """Remove a producer with its credit."""
        self.producers.pop(producer, None)
        if self.rationing:
            self.touch()

    def replenish(self, producer: Producer) -> None:
        """Top up a producer's credit when half of it is used; while room is short, `run` allocates it."""
        if self.rationing or self.low_on_room:
            self.rationing = True
            self.touch()
        elif producer.credit <= self.limits.credit // 2:
            producer.grant(self, self.limits.credit)

    def _end_links(self, consumers: Iterable[Taker], error: Error) -> None:
        """Tell consumers and all producers that the node is deleted."""
        for consumer in list(consumers):
            attempt(f"a consumer of {self.name!r}", consumer.node_deleted, error)
        for producer in list(self.producers):
            attempt(f"a producer for {self.name!r}", producer.node_deleted, error)
        self.producers.clear()

    def _regulate(self) -> None:
        """Allocate credit if room is short, or was until now."""
        if self.full:
            self._tell_full(self._is_full())
        if self.low_on_room:
            self.rationing = True
            if not self.full:
                self._tell_full(self._is_full())
            _allocate_credit(self, self.free, self.limits.credit)
        elif self.rationing:
            self.rationing = False
            _allocate_credit(self, self.free, self.limits.credit)
            for producer in list(self.producers):
                attempt(f"a producer for {self.name!r}", producer.relaxed, self)

    def _is_full(self) -> bool:
        """Return whether senders wait or are refused until a message leaves."""
        return self.free <= 0

    def _tell_full(self, full: bool) -> None:
        """Log when the node becomes full, and when it has room again."""
        if full is not self.full:
            self.full = full
            what = "is full: senders wait or are refused" if full else "has room again"
            level = logging.WARNING if full else logging.INFO
            notice("queue_full" if full else "queue_has_room", level, f"{self.name!r:.200} {what}", queue=self.name)


def _allocate_credit(node: Node, free: int, window: int) -> None:
    """Allocate `free` messages of room as credit among the producers of a node, at most `window` to each.

    A full node grants nothing and takes credit back, but drops no message in flight. While there is room, every
    producer has at least one credit, so that none starves behind an idle one. So a limit is exceeded at most by the
    number of producers, plus the messages in flight when credit was taken back.

    A producer is topped up when half of its share is used, so that one grant serves many messages.
    """
    producers = list(node.producers)
    if not producers:
        return
    if free <= 0:
        # Also those without credit here: they may have some of another node, as producers of several.
        for producer in producers:
            _grant(node, producer, 0)
        return
    share = max(1, min(window, free // len(producers)))
    needy = [producer for producer in producers if producer.credit <= share // 2]
    held = sum(producer.credit for producer in producers)
    if held + sum(share - producer.credit for producer in needy) > free:
        for producer in producers:
            if producer.credit > share:
                _grant(node, producer, share)
    for producer in needy:
        _grant(node, producer, share)


def _grant(node: Node, producer: Producer, credit: int) -> None:
    attempt(f"a producer for {node.name!r}", producer.grant, node, credit)
