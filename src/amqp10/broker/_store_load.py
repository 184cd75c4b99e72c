"""From the rows of a store back to queues, subscriptions and links, when the broker begins."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ..errors import DecodeError, StoreError
from ..messaging import Accepted, Modified, Rejected, Released, Source
from ..types import decode, decode_composite
from ._address import AddressError
from ._coordinator import Work
from ._declared import QueueTerms
from ._duplicates import duplicate_id
from ._entry import Entry
from ._filters import read_filters
from ._prepared import RestoredBranch
from ._queue import Queue
from ._store import Shelf
from ._subscriptions import Key
from ._topic import Topic

if TYPE_CHECKING:
    from ._entry import Clock
    from ._node import Node
    from ._router import Router
    from ._store import Store
    from ._store_file import DeclarationRow, MessageRow, NodeRow, SubscriptionRow

# No connection has this number: what a filter for messages of others compares with until its subscriber is back.
_NOBODY = -1
OUTCOMES = (Accepted, Rejected, Released, Modified)


def load(store: Store, router: Router, wall: Clock = time.time) -> None:
    """Fill the router with what the store has, and keep what it has already; from now on its changes are noted.

    Raises:
        StoreError: what is in the store makes no sense, or is another kind of node than was declared.
    """
    try:
        Loading(store, router, wall).run()
    except (AddressError, DecodeError, KeyError, TypeError) as error:
        raise StoreError(f"{store.path}: {error}") from error


class Loading:
    """One go through the tables, each of which needs what is in those before."""

    def __init__(self, store: Store, router: Router, wall: Clock) -> None:
        self._store = store
        self._router = router
        self._wall = wall
        self._now = router.clock()
        self._nodes: dict[int, Node] = {}  # subscriptions among them
        self._held: dict[int, Entry | None] = {}  # messages that a link holds, when they are found
        self._interrupted: list[tuple[Queue, Entry]] = []  # whose attempt the end of the broker before ended

    def run(self) -> None:
        store, router, file = self._store, self._router, self._store.file
        declared = {row.number: row for row in file.declarations()}
        for row in file.nodes():
            node = self._nodes[row.number] = self._node(row, declared.get(row.number))
            node.shelf = Shelf(store, row.number)
        self._restore_topology()
        for subscription in file.subscriptions():
            self._nodes[subscription.number] = self._subscribe(subscription)
        store.number(above=file.highest())
        router.keep(store)
        holders = (row.message for table in (file.deliveries(), file.work()) for row in table)
        self._held = {message: None for message in holders if message is not None}
        for message in file.messages():
            self._put(message)
        self._restore_links()
        self._restore_branches()
        # Some become dead letters, which go behind what was in their queue before.
        for queue, entry in self._interrupted:
            queue.end_exhausted(entry)
        router.subscriptions.restore()

    def _node(self, row: NodeRow, declared: DeclarationRow | None) -> Node:
        if declared is None:
            return self._router.declare(row.name, "topic" if row.kind == "topic" else "queue")
        there = self._router.nodes.get(row.name)
        if isinstance(there, Queue):
            # The program names it, too: it stays as it was declared.
            self._router.delete(there)
        elif there is not None:
            raise AddressError("amqp:precondition-failed", f"{row.name!r} is not a queue")
        terms = QueueTerms(auto_delete=bool(declared.auto_delete), arguments=_map(declared.arguments))
        return self._router.declare_queue(row.name, terms)

    def _restore_topology(self) -> None:
        router, topology, file = self._router, self._router.topology, self._store.file
        for row in file.exchanges():
            exchange = topology.declare(
                row.name,
                row.kind,
                durable=True,
                auto_delete=bool(row.auto_delete),
                internal=bool(row.internal),
                arguments=_map(row.arguments),
            )
            exchange.number = row.number
        for each in file.bindings():
            to = topology.find(each.destination) if each.to_exchange else router.nodes[each.destination]
            topology.bind(topology.find(each.exchange), to, each.key, _map(each.arguments)).number = each.number

    def _subscribe(self, row: SubscriptionRow) -> Queue:
        topic = self._router.declare(row.topic, "topic")
        source, _ = decode_composite(row.source)
        if not isinstance(topic, Topic) or not isinstance(source, Source):
            raise TypeError(f"the subscription {row.name!r} is none")
        owner = (row.identity, row.container or "") if row.owned else None
        filters, filtering = read_filters(source.filter, _NOBODY)
        key = Key(owner, row.name, "own" if row.kind == "own" else "shared")
        lasting = self._router.subscriptions.join(key, topic, source, filters, filtering)
        lasting.queue.shelf = Shelf(self._store, row.number)
        if row.deadline is not None:
            lasting.deadline = self._now + (row.deadline - self._wall())
        return lasting.queue

    def _put(self, row: MessageRow) -> None:
        expires = None if row.expires is None else self._now + (row.expires - self._wall())
        entry = Entry.stored_before(row.payload, row.format, row.failures, expires, self._now)
        entry.row = row.number
        entry.stored = True
        entry.arrived = row.arrived
        queue = self._nodes[row.queue]
        if queue.recent is not None:
            queue.recent.remember(duplicate_id(entry))
        if not isinstance(queue, Queue):
            raise TypeError(f"a message in {queue.name!r}, which is a topic")
        if row.number in self._held:
            self._held[row.number] = entry
            queue.restore_held(entry)
        else:
            queue.restore(entry, held=bool(row.held))
            if row.held:
                self._interrupted.append((queue, entry))

    def _restore_links(self) -> None:
        held: dict[int, dict[bytes, Any]] = defaultdict(dict)
        for row in self._store.file.deliveries():
            if row.message is not None:
                what: Any = self._held[row.message]
            else:
                what = decode_composite(row.outcome or b"")[0]
            if what is not None:
                held[row.link][row.tag] = what
        for link in self._store.file.links():
            node = self._nodes[link.node] if link.node is not None else None
            kept = self._store.keeper.restore(link, node, held[link.number], self._now)
            self._router.links.restore(kept, lambda deliveries, queue=node: _give_back(queue, deliveries))  # type: ignore[misc]

    def _restore_branches(self) -> None:
        work: dict[int, Work] = defaultdict(lambda: Work([], []))
        broken = set()
        for row in self._store.file.work():
            node = self._nodes.get(row.node)
            if node is None:
                broken.add(row.branch)
            elif row.message is None:
                expires = None if row.expires is None else self._now + (row.expires - self._wall())
                entry = Entry.stored_before(row.payload or b"", row.format or 0, row.failures or 0, expires, self._now)
                work[row.branch].posted.append((node, entry))
            else:
                held, outcome = self._held[row.message], decode_composite(row.outcome or b"")[0]
                if held is None or not isinstance(node, Queue) or not isinstance(outcome, OUTCOMES):
                    broken.add(row.branch)
                else:
                    work[row.branch].retired.append((node, held, outcome))
        for each in self._store.file.branches():
            branch = RestoredBranch(work[each.number], whole=each.number not in broken)
            name = (each.format, each.global_id, each.branch_id)
            self._router.prepared.restore(each.identity, name, each.number, branch)


def _map(encoded: bytes) -> dict[str, Any]:
    found = decode(encoded)
    if not isinstance(found, dict):
        raise TypeError("arguments that are no map")
    return found


def _give_back(queue: Node | None, deliveries: list[Any]) -> None:
    """The link ends without having come back: what it held counts as attempts."""
    if isinstance(queue, Queue):
        for delivery in reversed(deliveries):
            if isinstance(delivery.waiter, Entry):
                queue.lost(delivery.waiter)
