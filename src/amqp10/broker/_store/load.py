"""From the rows of a store to queues, subscriptions and links, when the broker starts.

What is in the store was admitted once, so no limit is checked again. A row that cannot be restored is put into the
quarantine with its content, and logged; all other rows are restored.
"""

from __future__ import annotations

import logging
import math
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ...errors import StoreError
from ...messaging import OUTCOMES, AmqpValue, Message, Source
from ...types import decode, decode_composite, encode
from .._errors import Refused
from .._filters.filter_set import read_filters
from .._quarantine import QuarantinedMessage
from .._queues.arguments import QueueDeclaration
from .._queues.duplicates import duplicate_id
from .._queues.message import QueuedMessage
from .._queues.queue import Queue
from .._queues.topic import SubscriptionKey, Topic
from .._retained.retained import EXPIRES
from .._transactions.local import Work
from .._transactions.prepared import RestoredBranch
from .changes import StoredQueue
from .tables import (
    BindingRow,
    BranchRow,
    ClockRow,
    DeclarationRow,
    DeliveryRow,
    ExchangeRow,
    LinkRow,
    MessageRow,
    NodeRow,
    QuarantineRow,
    RecordRow,
    Row,
    SubscriptionRow,
    WorkRow,
    check_row,
    columns_of,
    table_of,
)

if TYPE_CHECKING:
    from .._queues.message import Clock
    from .._queues.node import Node
    from .._virtual_host_core import VirtualHostCore
    from .store import Store

_log = logging.getLogger("amqp10.broker")

# No connection has this number: the no-local filter of a subscription compares with it until its subscriber is back.
_NOBODY = -1
_MAX_LOGGED: Final = 10
"""If more rows of one table cannot be restored, only their number is logged."""
_MAX_NUMBERS: Final = 1 << 62
"""Higher row numbers would leave too few for new rows."""
_FAR: Final = 1e13
"""Seconds from now, in either direction, beyond which times are cut: calculating with larger ones is inexact."""


def load(store: Store, vhost: VirtualHostCore, wall: Clock = time.time) -> None:
    """Restore the contents of a store into the virtual host, and record the virtual host's changes in it from now on.

    Raises:
        StoreError: the file cannot be read, or has a node or exchange as another kind than was declared.
    """
    try:
        Loading(store, vhost, wall).run()
    except sqlite3.Error as error:
        raise StoreError(f"{store.path}: {error}") from error


class Loading:
    """Restores the tables in order; each refers to those before it."""

    def __init__(self, store: Store, vhost: VirtualHostCore, wall: Clock) -> None:
        self._store = store
        self._vhost = vhost
        self._wall = wall
        self._now = vhost.clock()
        self._nodes: dict[int, Node] = {}  # including subscriptions
        self._names: dict[int, str] = {}  # names of all stored nodes, also of those that could not be restored
        self._declared: dict[int, DeclarationRow] = {}
        self._holders: set[int] = set()  # numbers of messages that a link or branch holds
        self._held: dict[int, tuple[Queue, QueuedMessage]] = {}  # those that no link or branch has claimed yet
        # messages whose delivery attempt ended with the last broker
        self._interrupted: list[tuple[Queue, QueuedMessage]] = []
        self._quarantined = 0  # the highest number in the quarantine
        self._refused: Counter[str] = Counter()  # rows that could not be restored, by table

    def run(self) -> None:
        store, vhost, file = self._store, self._vhost, self._store.file
        highest = file.highest()
        if highest > _MAX_NUMBERS:
            raise StoreError(
                f"{store.path}: row numbers must be {_MAX_NUMBERS} or less, not {highest}: "
                "no number is left for new rows"
            )
        store.number(above=highest)
        self._each(ClockRow, self._jumped)
        self._each(QuarantineRow, self._quarantine)
        self._each(DeclarationRow, self._read_declaration)
        self._each(NodeRow, self._node)
        for number, row in self._declared.items():
            if number not in self._nodes:
                self._set_aside(row, LookupError("its queue does not exist"))
        self._each(ExchangeRow, self._exchange)
        self._each(BindingRow, self._bind)
        self._each(SubscriptionRow, self._subscribe)
        if (space := vhost.name_space) is not None:
            self._each(RecordRow, lambda row: space.restore(row.owner, row.key, row.content))
        vhost.keep(store)
        claims: list[DeliveryRow | WorkRow] = [*file.rows(DeliveryRow), *file.rows(WorkRow)]
        self._holders = {row.message for row in claims if row.message is not None}
        self._each(MessageRow, self._put)
        self._restore_links()
        self._restore_branches()
        # No link or branch holds these after all.
        for queue, entry in self._held.values():
            self._end(queue, queue.lost, entry)
        # Some become dead letters, which go behind the messages already in their queue.
        for queue, entry in self._interrupted:
            self._end(queue, queue.end_exhausted, entry)
        vhost.subscriptions.restore()
        for table, count in self._refused.items():
            if count > _MAX_LOGGED:
                _log.error("%s: %d rows of %s in all could not be restored", store.path, count, table)

    def _each(self, kind: type[Row], restore: Callable[[Row], object]) -> None:
        """Restore the rows of a kind; set aside those that cannot be restored."""
        for row in self._store.file.rows(kind):
            try:
                check_row(row)
                restore(row)
            except StoreError:
                raise
            except Exception as error:
                self._set_aside(row, error)

    def _end(self, queue: Queue, end: Callable[[QueuedMessage], None], entry: QueuedMessage) -> None:
        """End an earlier delivery attempt; a message that causes an error is set aside."""
        try:
            end(entry)
        except Exception as error:
            queue.set_aside(entry, error)

    def _set_aside(self, row: tuple[Any, ...], error: Exception) -> None:
        """Move a row from its table into the quarantine."""
        table, path, reason = table_of(type(row)), self._store.path, f"{type(error).__name__}: {error}"
        self._refused[table] += 1
        if table == "quarantine":
            if self._refused[table] <= _MAX_LOGGED:
                _log.error("%s: number %s in the quarantine cannot be read: %s", path, row[0], reason)
            return
        columns = dict(zip(columns_of(row), row, strict=True))
        if isinstance(row, MessageRow) and isinstance(row.payload, bytes):
            node, message_format, payload = self._names.get(row.queue, ""), row.format, columns.pop("payload")
            found = self._nodes.get(row.queue)
            node = found.name if found is not None else node
        else:
            node, message_format, payload = "", 0, Message(AmqpValue(columns)).encode()
        if not isinstance(message_format, int) or not 0 <= message_format < 1 << 32:
            message_format = 0
        self._quarantined += 1
        message = QuarantinedMessage(
            self._quarantined,
            node,
            datetime.fromtimestamp(self._wall(), UTC),
            f"a row of {table} could not be restored: {reason}"[:1000],
            payload,
            message_format,
            durable=True,
        )
        self._vhost.quarantine.restore(message)
        self._store.quarantine.keep(message, table, encode(columns))
        self._store.changes.unrestored.append(row)
        if self._refused[table] <= _MAX_LOGGED:
            words = "%s: a row of %s, number %r, could not be restored and is in the quarantine as number %d: %s"
            _log.error(words, path, table, row[0], message.number, reason)

    def _quarantine(self, row: QuarantineRow) -> None:
        moment = datetime.fromtimestamp(row.moment, UTC)
        message = (row.reason, row.payload, row.format)
        self._vhost.quarantine.restore(QuarantinedMessage(row.number, row.node, moment, *message, durable=True))
        self._quarantined = row.number

    # Nodes

    def _read_declaration(self, row: DeclarationRow) -> None:
        self._declared[row.number] = row

    def _node(self, row: NodeRow) -> None:
        self._names[row.number] = row.name
        if not row.name or row.kind not in ("queue", "topic"):
            raise ValueError(f"{row.name!r:.60} is not a name, or {row.kind!r:.60} not a kind of node")
        declared = self._declared.get(row.number)
        node = self._plain_node(row) if declared is None else self._declared_queue(row.name, declared)
        node.journal = StoredQueue(self._store, row.number)
        self._nodes[row.number] = node

    def _plain_node(self, row: NodeRow) -> Node:
        try:
            return self._vhost.declare(row.name, "topic" if row.kind == "topic" else "queue")
        except Refused as error:  # the program declares it as another kind
            raise StoreError(f"{self._store.path}: {error}") from error

    def _declared_queue(self, name: str, declared: DeclarationRow) -> Queue:
        vhost, topology = self._vhost, self._vhost.topology
        there = vhost.nodes.get(name)
        if there is not None and not isinstance(there, Queue):
            raise StoreError(f"{self._store.path}: {name!r} is not a queue")
        terms = QueueDeclaration(auto_delete=bool(declared.auto_delete), arguments=_map(declared.arguments))
        queue = vhost.declare_queue(name, terms)
        if there is not None:
            # The program names the queue, too: the stored declaration stays, with the program's bindings.
            for binding in topology.bound_to(there):
                topology.bind(binding.exchange, queue, binding.key, binding.arguments)
            topology.forget(there)
            vhost.delete(there)
        return queue

    def _exchange(self, row: ExchangeRow) -> None:
        topology = self._vhost.topology
        there = topology.exchanges.get(row.name)
        try:
            exchange = topology.declare(
                row.name,
                row.kind,
                durable=True,
                auto_delete=bool(row.auto_delete),
                internal=bool(row.internal),
                arguments=_map(row.arguments),
            )
        except Refused as error:
            if there is not None and not there.predeclared:
                raise StoreError(f"{self._store.path}: {error}") from error
            raise
        if exchange.predeclared:
            raise ValueError(f"the exchange {row.name!r} is the broker's own")
        exchange.number = row.number

    def _bind(self, row: BindingRow) -> None:
        topology, name = self._vhost.topology, row.destination
        to = topology.find(name) if row.to_exchange else self._vhost.nodes.get(name)
        if to is None:
            raise LookupError(f"the queue {name!r} does not exist")
        topology.bind(topology.find(row.exchange), to, row.key, _map(row.arguments)).number = row.number

    def _subscribe(self, row: SubscriptionRow) -> None:
        self._names[row.number] = row.name
        source, _ = decode_composite(row.source)
        if not isinstance(source, Source) or source.expiry_policy not in EXPIRES:
            raise TypeError(f"the source of the subscription {row.name!r:.60} has the wrong type")
        owner = (row.identity, row.container or "") if row.owned else None
        filters, filtering = read_filters(source.filter, _NOBODY)
        key = SubscriptionKey(owner, row.name, "own" if row.kind == "own" else "shared")
        topic = self._vhost.declare(row.topic, "topic")
        assert isinstance(topic, Topic)
        if any(isinstance(each, Queue) and getattr(each, "key", None) == key for each in self._nodes.values()):
            raise ValueError(f"the subscription {row.name!r:.60} exists already")
        lasting = self._vhost.subscriptions.join(key, topic, source, filters, filtering)
        lasting.queue.journal = StoredQueue(self._store, row.number)
        lasting.deadline = self._moment(row.deadline)
        self._nodes[row.number] = lasting.queue

    def _moment(self, time_of_day: float | None) -> float | None:
        """Return a time of day of the store on the broker's clock."""
        if time_of_day is None:
            return None
        return self._now + max(-_FAR, min(_FAR, self._store.moment(time_of_day) - self._now))

    def _jumped(self, row: ClockRow) -> None:
        if not math.isfinite(row.ahead):
            raise ValueError(f"{row.ahead} is not a number of seconds")
        self._store.jumped(row.ahead)

    # Messages

    def _put(self, row: MessageRow) -> None:
        queue = self._nodes.get(row.queue)
        if queue is None:
            raise LookupError("its queue does not exist")
        if not isinstance(queue, Queue):
            raise TypeError(f"{queue.name!r}, where it was, is a topic")
        entry = self._entry(row.payload, row.format, row.failures, row.expires)
        entry.row = row.number
        entry.stored = True
        entry.arrived = row.arrived
        if row.place is not None:
            entry.position = row.place
        if queue.recent is not None:
            queue.recent.remember(duplicate_id(entry))
        if row.number in self._holders:
            queue.restore_held(entry)
            self._held[row.number] = queue, entry
            return
        queue.restore(entry, was_held=bool(row.held))
        if row.held:
            self._interrupted.append((queue, entry))

    def _entry(self, payload: bytes, message_format: int, failures: int, expires: float | None) -> QueuedMessage:
        if not 0 <= message_format < 1 << 32:
            raise ValueError(f"{message_format} is not a message format")
        return QueuedMessage.stored_before(payload, message_format, failures, self._moment(expires), self._now)

    def _claim(self, number: int, queue: Node | None) -> QueuedMessage:
        """Return a message for the one link or branch of that queue that holds it."""
        found, entry = self._held[number]
        if found is not queue:
            raise ValueError(f"the message {number} is not in its queue")
        del self._held[number]
        return entry

    # Links

    def _restore_links(self) -> None:
        links: dict[int, LinkRow] = {}
        held: dict[int, dict[bytes, Any]] = defaultdict(dict)
        names = set()

        def read(row: LinkRow) -> None:
            if row.policy not in EXPIRES or row.direction not in ("in", "out"):
                raise ValueError(
                    f"{row.policy!r:.60} is not an expiry policy, or {row.direction!r:.60} not a direction"
                )
            if row.node is not None and row.node not in self._nodes:
                raise LookupError("its queue does not exist")
            name = (row.identity, row.container, row.name, row.direction)
            if name in names:
                raise ValueError(f"the link {row.name!r:.60} exists already")
            names.add(name)
            links[row.number] = row

        def hold(row: DeliveryRow) -> None:
            if row.link not in links:
                raise LookupError("its link does not exist")
            if row.message is not None:
                node = links[row.link].node
                held[row.link][row.tag] = self._claim(row.message, None if node is None else self._nodes[node])
                return
            outcome = decode_composite(row.outcome or b"")[0]
            if not isinstance(outcome, OUTCOMES):
                raise TypeError("its outcome has the wrong type")
            held[row.link][row.tag] = outcome

        self._each(LinkRow, read)
        self._each(DeliveryRow, hold)
        for link in links.values():
            node = self._nodes[link.node] if link.node is not None else None
            kept = self._store.links.restore(link, node, held[link.number], self._now)
            self._vhost.links.restore(kept, partial(self._give_back, node))

    def _give_back(self, queue: Node | None, deliveries: list[Any]) -> None:
        """Give back what a link held that was not resumed; each message counts as an attempt."""
        if isinstance(queue, Queue):
            for delivery in reversed(deliveries):
                if isinstance(delivery.waiter, QueuedMessage):
                    self._end(queue, queue.lost, delivery.waiter)

    # Branches

    def _restore_branches(self) -> None:
        work: dict[int, Work] = defaultdict(lambda: Work({}, []))
        branches: dict[int, BranchRow] = {}
        broken: Counter[int] = Counter()
        names = set()

        def read(row: BranchRow) -> None:
            name = (row.identity, row.format, row.global_id, row.branch_id)
            if name in names:
                raise ValueError("a branch of that name exists already")
            names.add(name)
            branches[row.number] = row

        def do(row: WorkRow) -> None:
            if row.branch not in branches:
                raise LookupError("its branch does not exist")
            broken[row.branch] += 1  # until this row is restored
            node = self._nodes.get(row.node)
            if node is None or (row.message is not None and row.message not in self._held):
                return  # the node or message was deleted since
            if row.message is None:
                entry = self._entry(row.payload or b"", row.format or 0, row.failures or 0, row.expires)
                work[row.branch].posted.setdefault(node, []).append(entry)
            else:
                outcome = decode_composite(row.outcome or b"")[0]
                if not isinstance(node, Queue) or not isinstance(outcome, OUTCOMES):
                    raise TypeError("its outcome has the wrong type")
                work[row.branch].retired.append((node, self._claim(row.message, node), outcome))
            broken[row.branch] -= 1

        self._each(BranchRow, read)
        self._each(WorkRow, do)
        for each in branches.values():
            branch = RestoredBranch(work[each.number], self._vhost.quarantine, whole=not broken[each.number])
            name = (each.format, each.global_id, each.branch_id)
            self._vhost.prepared.restore(each.identity, name, each.number, branch)


def _map(encoded: bytes) -> dict[str, Any]:
    found = decode(encoded)
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise TypeError("its arguments are not a map")
    return found
