"""What queues and topics share, and what they ask of the two kinds of links: nothing here knows a protocol.

A *producer* puts messages into a node and lives on the credit that the node grants it; a *consumer* takes messages
out of a queue as long as it is ready for more. Both are links of some connection; tests use plain objects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ._credit import share_out
from ._duplicates import RecentIds, duplicate_id
from ._faults import attempt
from ._stream_place import NEXT, Place

if TYPE_CHECKING:
    from ..messaging import Error
    from ._entry import Entry
    from ._limits import Account, Maker
    from ._selection import Filtering
    from ._store import Shelf


ENTRY: Final = 256
"""Octets of memory that a message takes beside its own, about."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one queue holds, and how much credit one producer gets at most.

    Attributes:
        messages: messages in a queue, those that consumers hold included; None for any number.
        bytes: encoded bytes in a queue; None for any number.
        credit: messages that one producer may send ahead.
    """

    messages: int | None = None
    bytes: int | None = None
    credit: int = 1000


class NodeFull(Exception):
    """A queue that was declared so (`x-overflow`) refuses a message, for it is full."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name!r} is full")


class Producer(ABC):
    """A link that puts messages into a node."""

    @property
    @abstractmethod
    def credit(self) -> int:
        """Messages that it may still send."""

    @abstractmethod
    def grant(self, node: Node, credit: int) -> None:
        """Let it send `credit` messages from now, not added to what it has; 0 stops it."""

    @abstractmethod
    def relaxed(self, node: Node) -> None:
        """Room is not short any more; who was a producer of the node only for that may go."""

    @abstractmethod
    def node_deleted(self, error: Error) -> None:
        """The node is gone."""


class Consumer(ABC):
    """A link that takes messages out of a queue.

    Attributes:
        key: names it among all consumers of the broker, for ever.
        copies: it only looks (distribution-mode "copy"): messages stay.
        settles: what it is given is settled at once and leaves the queue with that.
        filtering: which messages are for it; None for all.
        priority: as long as one of higher priority is ready, it gets nothing.
        exclusive: it wants to be the only one, but for those that copy.
        passing: it takes what there is just now, and is not counted among those that stay.
        acquired: of one that copies, what it has taken after all.
        place: where it begins to read, in a queue that is a stream.
    """

    key: int
    copies: bool
    settles: bool
    filtering: Filtering | None = None
    priority: int = 0
    exclusive: bool = False
    passing: bool = False
    acquired: Set[Entry] = frozenset()
    place: Place = NEXT
    waiting: bool = False  # the queue's own mark: it is in line

    @abstractmethod
    def ready(self) -> bool:
        """Whether one more message can be given now."""

    @abstractmethod
    def deliver(self, entry: Entry, payload: bytes) -> bool:
        """Take a message; called only when `ready()`. False: this message is not for it, now or ever (too large)."""

    @abstractmethod
    def fed(self) -> None:
        """A pass in which it was given something is over."""

    @abstractmethod
    def exhausted(self) -> None:
        """It could take more, but there is nothing more for it now."""

    @abstractmethod
    def node_deleted(self, error: Error) -> None:
        """The node is gone."""


class Node(ABC):
    """Something with an address.

    Changes are only noted at once (`touch`); the work that follows from them, handing out messages and granting
    credit, is done once for many of them in `run`, when whoever drives the broker ends its pass.

    Attributes:
        shelf: its place in the store; None for a node that does not survive the broker.
        recent: ids of messages that senders may send again; None where nobody asked to have them told apart.
        duplicates: messages that senders sent again, and that were dropped.
        owner: the connection that alone may receive from it and delete it; None for all.
        for_replies: it has an owner, and yet others may find it, for they send to it.
        maker: the connection that made it; None for nodes that the broker began with, or had in its store.
        counted: the router's own mark: octets that it has counted for it; None where it counts none any more.
        charges: of the memory that it takes, octets for each user who sent the messages.
    """

    maker: Maker | None = None
    counted: int | None = 0
    owner: object | None = None
    for_replies = False
    shelf: Shelf | None = None
    recent: RecentIds | None = None
    duplicates = 0

    def __init__(self, name: str, *, limits: Limits, touch: Callable[[Node], None], temporary: bool = False) -> None:
        self.name = name
        self.limits = limits
        self.temporary = temporary
        self.deleted = False
        self.producers: dict[Producer, None] = {}
        self.enqueued = 0
        # What open transactions will put here, if they are committed.
        self.reserved = self.reserved_bytes = 0
        # More producers than room for a full grant each: credit is dealt out by share until that is over.
        self.tight = False
        self.charges: dict[Account, int] = {}
        self._touch_router = touch
        self._touched = False

    @property
    @abstractmethod
    def free(self) -> int:
        """How many more messages find room now, by a cautious guess where bytes are limited."""

    @property
    def held(self) -> int:
        """Octets of memory, about: messages here, and those that open transactions will put here."""
        return self.reserved_bytes + self.reserved * ENTRY

    @property
    def short(self) -> bool:
        """Whether there is less room than a full grant for each producer, and one more."""
        return self.free < self.limits.credit * (len(self.producers) + 1)

    @abstractmethod
    def put(self, entry: Entry) -> None:
        """Take a message, whether there is room or not: whoever had credit is never refused.

        Raises:
            NodeFull: but by a queue that was declared to refuse.
        """

    @abstractmethod
    def insert(self, entry: Entry) -> None:
        """Take a message that was admitted before, by `reserve` or by a broker before: it is never refused."""

    def charge(self, account: Account, octets: int) -> None:
        """Count memory that messages of a user take here now, or take no more."""
        if self.counted is not None:
            self.charges[account] = self.charges.get(account, 0) + octets
            account.hold(octets)

    def charge_no_more(self) -> None:
        """The node is gone, and with it what is in it."""
        for account, octets in self.charges.items():
            account.hold(-octets)
        self.charges.clear()

    def take(self, entry: Entry) -> None:
        """Take what a sender sent, as `put` does; or drop it, if it is here already.

        Raises:
            NodeFull: as for `put`.
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

    def take_reserved(self, entry: Entry) -> None:
        """Take a message for which room was reserved, and give back that room; or drop it, if it is here already."""
        self.unreserve(entry)
        identity = duplicate_id(entry) if self.recent is not None else None
        if self.recent is not None and identity in self.recent:
            self.duplicates += 1
            return
        self.insert(entry)
        if self.recent is not None:
            self.recent.remember(identity)

    def reserve(self, entry: Entry, *, restored: bool = False) -> None:
        """Keep room for a message of an open transaction.

        Args:
            restored: a broker before had reserved it, so it is not asked again whether there is room.

        Raises:
            NodeFull: as for `put`; `take_reserved` is then never refused.
        """
        self.reserved += 1
        self.reserved_bytes += entry.size
        if entry.account is not None:
            self.charge(entry.account, entry.size + ENTRY)
        self.touch()

    def unreserve(self, entry: Entry) -> None:
        """The transaction is over."""
        self.reserved -= 1
        self.reserved_bytes -= entry.size
        if entry.account is not None:
            self.charge(entry.account, -entry.size - ENTRY)
        if not self.deleted:
            self.touch()

    @abstractmethod
    def run(self) -> None:
        """Do what the changes since the last pass ask for."""

    @abstractmethod
    def delete(self, error: Error) -> None:
        """End the node; consumers and producers are told."""

    def touch(self) -> None:
        """Ask for a `run` at the end of this pass."""
        if not self._touched:
            self._touched = True
            self._touch_router(self)

    def add_producer(self, producer: Producer) -> None:
        """A producer came; it is granted credit in the next `run`."""
        self.producers[producer] = None
        self.tight = True
        self.touch()

    def remove_producer(self, producer: Producer) -> None:
        """A producer went, and its credit with it."""
        self.producers.pop(producer, None)
        if self.tight:
            self.touch()

    def replenish(self, producer: Producer) -> None:
        """A producer has used up credit: top it up by half windows; while room is short, `run` deals it out."""
        if self.tight or self.short:
            self.tight = True
            self.touch()
        elif producer.credit <= self.limits.credit // 2:
            producer.grant(self, self.limits.credit)

    def _regulate(self) -> None:
        """Deal out credit if room is short, or was short until now."""
        if self.short:
            self.tight = True
            share_out(self, self.free, self.limits.credit)
        elif self.tight:
            self.tight = False
            share_out(self, self.free, self.limits.credit)
            for producer in list(self.producers):
                attempt(f"a producer for {self.name!r}", producer.relaxed, self)
