"""What queues and topics share, and what they ask of the two kinds of links: nothing here knows a protocol.

A *producer* puts messages into a node and lives on the credit that the node grants it; a *consumer* takes messages
out of a queue as long as it is ready for more. Both are links of some connection; tests use plain objects.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ...types import Symbol
from .._log import attempt, notice
from .duplicates import RecentIds, duplicate_id
from .stream_offsets import NEXT, Place

if TYPE_CHECKING:
    from ...messaging import Error
    from .._limits import Account, Maker
    from .journal import QueueJournal
    from .message import QueuedMessage
    from .selection import Filtering


MESSAGE_OVERHEAD: Final = 256
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


class NotTaken(Exception):
    """A node refuses a message.

    Attributes:
        condition: what its sender is told.
        info: more of that.
    """

    condition = "amqp:resource-limit-exceeded"

    def __init__(
        self, description: str, condition: str | None = None, info: Mapping[Symbol, Any] | None = None
    ) -> None:
        super().__init__(description)
        self.info = dict(info or {})
        if condition is not None:
            self.condition = condition


class QueueFull(NotTaken):
    """A full queue refuses a message, as it was declared to (`x-overflow`); its name goes to the sender."""

    def __init__(self, name: str) -> None:
        info = {Symbol("queue"): name, Symbol("reason"): Symbol("maxlen")}
        super().__init__(f"queue {name!r} is full: it exceeded maximum length", info=info)


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
        """Learn that there is room again; a producer that was added only for the shortage may leave."""

    @abstractmethod
    def node_deleted(self, error: Error) -> None:
        """End the link: the node is gone."""


class Taker(ABC):
    """A link that is given messages, as long as it is ready for more.

    Attributes:
        waiting: a mark of the node that gives them: it is in line.
    """

    waiting: bool = False

    @abstractmethod
    def ready(self) -> bool:
        """Return whether one more message can be given now."""

    @abstractmethod
    def fed(self) -> None:
        """End a pass in which the link was given something."""

    @abstractmethod
    def exhausted(self) -> None:
        """Learn that there are no more messages now, though the link could take more."""

    @abstractmethod
    def node_deleted(self, error: Error) -> None:
        """End the link: the node is gone."""


class Consumer(Taker):
    """A link that takes messages out of a queue.

    Attributes:
        key: names it among all consumers of the broker, for ever.
        copies: it only looks (distribution-mode "copy"): messages stay.
        settles: what it is given is settled at once and leaves the queue with that.
        filtering: which messages are for it; None for all.
        priority: as long as one of higher priority is ready, it gets nothing.
        exclusive: it wants to be the only one, but for those that copy.
        one_shot: it takes what there is just now, and is not counted among those that stay.
        acquired: for a browser (`copies`), the messages that it acquired later.
        place: where it begins to read, in a queue that is a stream.
        timeout: seconds that it may take for a message, where the queue looks; None: as long as the queue says.
        largest_in_run: the most octets of a message that it takes together with others.
    """

    key: int
    copies: bool
    settles: bool
    filtering: Filtering | None = None
    priority: int = 0
    exclusive: bool = False
    one_shot: bool = False
    acquired: Set[QueuedMessage] = frozenset()
    place: Place = NEXT
    timeout: float | None = None
    largest_in_run: int = 0

    @abstractmethod
    def deliver(self, entry: QueuedMessage, payload: bytes) -> bool:
        """Take a message; called only when `ready()`. False: this message is not for it, now or ever (too large)."""

    def run_room(self, sharers: int) -> int:
        """Return how many messages `deliver_run` takes now, if `sharers` consumers each take as many.

        It is 0 for a consumer that is given each by itself.
        """
        return 0

    def deliver_run(self, entries: Sequence[QueuedMessage]) -> None:
        """Take messages of message-format 0 as they are: `run_room` at most, of `largest_in_run` octets at most."""

    def give_up(self, entry: QueuedMessage) -> QueuedMessage | None:
        """Lose a message that it has taken too long for.

        Returns:
            What it settles in place of the message from now on; None: it does not have the message, or not alone.
        """
        return None

    def active_changed(self, active: bool) -> None:
        """Learn whether messages go to it, in a queue where one consumer is active at a time."""


class Node(ABC):
    """Something with an address.

    Changes are only noted at once (`touch`); the work that follows from them, handing out messages and granting
    credit, is done once for many of them in `run`, when whoever drives the broker ends its pass.

    Attributes:
        journal: its place in the store; None for a node that does not survive the broker.
        recent: ids of messages that senders may send again; None where nobody asked to have them told apart.
        duplicates: messages that senders sent again, and that were dropped.
        owner: the connection that alone may receive from it and delete it; None for all.
        for_replies: it has an owner, and yet others may find it, for they send to it.
        settles_at_once: outcomes of what is sent to it are settled when they are told, whatever senders ask for
            (receiver-settle-mode).
        maker: the connection that made it; None for nodes that the broker began with, or had in its store.
        largest: octets of a message that is taken; None: as many as the broker takes.
        keeps_records: a store keeps records of it, and no queue.
        counted: the router's own mark: octets that it has counted for it; None where it counts none any more.
        charges: of the memory that it takes, octets for each user who sent the messages.
    """

    maker: Maker | None = None
    counted: int | None = 0
    owner: object | None = None
    for_replies = False
    settles_at_once = False
    keeps_records = False
    largest: int | None = None
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
        # What open transactions will put here, if they are committed.
        self.reserved = self.reserved_bytes = 0
        # More producers than room for a full grant each: credit is dealt out by share until that is over.
        self.rationing: bool = False
        self.full: bool = False  # as it was told last
        self.charges: dict[Account, int] = {}
        self._touch_router = touch
        self._touched = False

    @property
    @abstractmethod
    def free(self) -> int:
        """How many more messages find room now, by a cautious guess where bytes are limited."""

    @property
    def awaited(self) -> bool:
        """Whether a message that comes now is given to a consumer at once."""
        return False

    @property
    def held(self) -> int:
        """Octets of memory, about: messages here, and those that open transactions will put here."""
        return self.reserved_bytes + self.reserved * MESSAGE_OVERHEAD

    @property
    def low_on_room(self) -> bool:
        """Whether there is less room than a full grant for each producer, and one more."""
        return self.free < self.limits.credit * (len(self.producers) + 1)

    @abstractmethod
    def put(self, entry: QueuedMessage) -> None:
        """Take a message, whether there is room or not: whoever had credit is never refused.

        Raises:
            QueueFull: but by a queue that was declared to refuse.
        """

    @abstractmethod
    def insert(self, entry: QueuedMessage) -> None:
        """Take a message that was admitted before, by `reserve` or by a broker before: it is never refused."""

    def copies_stored(self, durable: bool) -> int:
        """Return how often a store keeps a message that is put here."""
        return int(self.keeps_records or (durable and self.journal is not None))

    def charge(self, account: Account, octets: int) -> None:
        """Count memory that messages of a user take here now, or take no more."""
        if self.counted is not None:
            self.charges[account] = self.charges.get(account, 0) + octets
            account.hold(octets)

    def charge_no_more(self) -> None:
        """Count the memory of its messages for nobody any longer: the node is gone."""
        for account, octets in self.charges.items():
            account.hold(-octets)
        self.charges.clear()

    def take(self, entry: QueuedMessage) -> None:
        """Take what a sender sent, as `put` does; or drop it, if it is here already.

        Raises:
            QueueFull: as for `put`.
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

    def take_reserved(self, entry: QueuedMessage) -> None:
        """Take a message for which room was reserved, and give back that room; or drop it, if it is here already."""
        self.unreserve(entry)
        identity = duplicate_id(entry) if self.recent is not None else None
        if self.recent is not None and identity in self.recent:
            self.duplicates += 1
            return
        self.insert(entry)
        if self.recent is not None:
            self.recent.remember(identity)

    def reserve(self, entry: QueuedMessage, *, restored: bool = False) -> None:
        """Keep room for a message of an open transaction.

        Args:
            restored: a broker before had reserved it, so it is not asked again whether there is room.

        Raises:
            QueueFull: as for `put`; `take_reserved` is then never refused.
        """
        self.reserve_room(entry.size, entry.account)

    def unreserve(self, entry: QueuedMessage) -> None:
        """Give back reserved room: the transaction is over."""
        self.unreserve_room(entry.size, entry.account)

    def reserve_room(self, octets: int, account: Account | None) -> None:
        """Keep room for a message of that many octets, and of that user if one is known."""
        self.reserved += 1
        self.reserved_bytes += octets
        if account is not None:
            self.charge(account, octets + MESSAGE_OVERHEAD)
        self.touch()

    def unreserve_room(self, octets: int, account: Account | None) -> None:
        """Give back room that was kept so."""
        self.reserved -= 1
        self.reserved_bytes -= octets
        if account is not None:
            self.charge(account, -octets - MESSAGE_OVERHEAD)
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
        """Add a producer, which is granted credit in the next `run`."""
        self.producers[producer] = None
        self.rationing = True
        self.touch()

    def remove_producer(self, producer: Producer) -> None:
        """Remove a producer, and its credit with it."""
        self.producers.pop(producer, None)
        if self.rationing:
            self.touch()

    def replenish(self, producer: Producer) -> None:
        """Top up the credit of a producer by half windows; while room is short, `run` deals it out."""
        if self.rationing or self.low_on_room:
            self.rationing = True
            self.touch()
        elif producer.credit <= self.limits.credit // 2:
            producer.grant(self, self.limits.credit)

    def _regulate(self) -> None:
        """Deal out credit if room is short, or was short until now."""
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
        """Return whether senders wait, or are refused, until something leaves."""
        return self.free <= 0

    def _tell_full(self, full: bool) -> None:
        """Log it once when the node becomes full, and once when it has room again."""
        if full is not self.full:
            self.full = full
            what = "is full: senders wait or are refused" if full else "has room again"
            level = logging.WARNING if full else logging.INFO
            notice("queue_full" if full else "queue_has_room", level, f"{self.name!r:.200} {what}", queue=self.name)


def _allocate_credit(node: Node, free: int, window: int) -> None:
    """Deal out `free` messages of room among the producers of a node as credit, `window` at most to each.

    A full node grants nothing and takes back what it had granted, but it takes what is already on its way: nothing is
    dropped. While there is room every producer has at least one credit, so that none starves behind an idle one; so a
    limit is overshot at most by the number of producers and by what was in flight when credit was taken back.

    A producer is topped up when it is down to half of its share, so that a grant comes once for many messages.
    """
    producers = list(node.producers)
    if not producers:
        return
    if free <= 0:
        # Those without credit too: it may be for another node's sake, and they are producers of several.
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
