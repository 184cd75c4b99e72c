"""From the rows of a store back to queues and subscriptions, when the broker begins."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ..errors import DecodeError, StoreError
from ..messaging import Source
from ..types import decode_composite
from ._address import AddressError
from ._entry import Entry
from ._filters import read_filters
from ._queue import Queue
from ._store import Shelf
from ._subscriptions import Key
from ._topic import Topic

if TYPE_CHECKING:
    from ._entry import Clock
    from ._router import Router
    from ._store import Store
    from ._store_file import MessageRow, SubscriptionRow

# No connection has this number: what a filter for messages of others compares with until its subscriber is back.
_NOBODY = -1


def load(store: Store, router: Router, wall: Clock = time.time) -> None:
    """Fill the router with what the store has, and keep what it has already; from now on its changes are noted.

    Raises:
        StoreError: what is in the store makes no sense, or is another kind of node than was declared.
    """
    queues: dict[int, Queue] = {}
    try:
        for node_row in store.file.nodes():
            node = router.declare(node_row.name, "topic" if node_row.kind == "topic" else "queue")
            node.shelf = Shelf(store, node_row.number)
            if isinstance(node, Queue):
                queues[node_row.number] = node
        for subscription_row in store.file.subscriptions():
            queues[subscription_row.number] = _subscribe(store, router, subscription_row, wall)
        store.number(above=store.file.highest())
        router.keep(store)
        for message_row in store.file.messages():
            _put(queues, message_row, router.clock(), wall)
    except (AddressError, DecodeError, KeyError, TypeError) as error:
        raise StoreError(f"{store.path}: {error}") from error
    router.subscriptions.restore()


def _subscribe(store: Store, router: Router, row: SubscriptionRow, wall: Clock) -> Queue:
    topic = router.declare(row.topic, "topic")
    source, _ = decode_composite(row.source)
    if not isinstance(topic, Topic) or not isinstance(source, Source):
        raise TypeError(f"the subscription {row.name!r} is none")
    owner = (row.identity, row.container or "") if row.owned else None
    filters, filtering = read_filters(source.filter, _NOBODY)
    key = Key(owner, row.name, "own" if row.kind == "own" else "shared")
    lasting = router.subscriptions.join(key, topic, source, filters, filtering)
    lasting.queue.shelf = Shelf(store, row.number)
    if row.deadline is not None:
        lasting.deadline = router.clock() + (row.deadline - wall())
    return lasting.queue


def _put(queues: dict[int, Queue], row: MessageRow, now: float, wall: Clock) -> None:
    expires = None if row.expires is None else now + (row.expires - wall())
    entry = Entry.stored_before(row.payload, row.format, row.failures, expires, now)
    entry.row = row.number
    entry.stored = True
    queues[row.queue].restore(entry, held=row.held)
