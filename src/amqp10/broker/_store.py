"""What of a broker has to survive it, and when that is on the disk.

    a pass: Peer.handle -> Router.flush    notes what changed       `Shelf`, `Store.note_...`
    Store.run                              all that is new since the last commit is one transaction
    Pump, before it writes                 waits until what was noted when it took its bytes is committed: `safe`

So nothing that a peer is told, an outcome or another peer's message, can be undone by the end of the process, and many
messages of many connections share one fsync. What is kept is state, not a journal of changes: rows are formed when they
are written, and a message that came and went in between costs nothing.

While the disk refuses (`failure`), what was noted waits in memory and is tried again; all connections are cut, for
their peers wait for answers that must not be written, and new ones are refused.
"""

from __future__ import annotations

import itertools
import logging
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from ..types import encode
from ._exchange import Exchange
from ._quarantine import QuarantineJournal
from ._queue import Queue
from ._store_file import (
    BindingRow,
    BranchRow,
    DeclarationRow,
    ExchangeRow,
    MessageRow,
    NodeRow,
    QuarantineRow,
    StoreFile,
    SubscriptionRow,
    WorkRow,
)
from ._store_links import LinkKeeper
from ._topic import Topic

if TYPE_CHECKING:
    from ..engine import BranchId
    from ._coordinator import Work
    from ._entry import Clock, Entry
    from ._exchange import Binding
    from ._node import Node
    from ._quarantine import QuarantinedMessage
    from ._store_links import KeptRow
    from ._subscriptions import Lasting

_log = logging.getLogger("amqp10.broker")

MOST_STORED = 900_000_000
"""Bytes of the largest message that a store takes; SQLite's limit, less what annotations may add."""

RETRY = 1.0
"""Seconds until a failed commit is tried again."""


class Shelf:
    """The place of one queue in the store; the queue tells it what happens to its durable messages.

    Attributes:
        number: of the queue, in the store.
        dropped: the queue is deleted, and all that was noted of it void.
    """

    __slots__ = ("_store", "dropped", "number")

    def __init__(self, store: Store, number: int) -> None:
        self._store = store
        self.number = number
        self.dropped = False

    def note(self, entry: Entry) -> None:
        """It came or went: nobody hears of it before that is on the disk."""
        if not entry.row:
            entry.row = self._store.number()
            entry.stored = False
        self._store.changes.messages[entry] = self
        self._store.note()

    def rewritten(self, entry: Entry) -> None:
        """Its payload is another."""
        self._store.changes.rewritten.add(entry)
        self.note(entry)

    def mark(self, entry: Entry) -> None:
        """A consumer took it: worth to be known after a crash, but not to be waited for."""
        self._store.changes.messages[entry] = self
        self._store.wake()

    def came_back(self, entry: Entry) -> None:
        """A consumer gave it back; it may be one that came before the queue was kept."""
        if entry.row:
            self.mark(entry)
        else:
            self.note(entry)

    def drop(self) -> None:
        """The queue is deleted, with what is in it."""
        self.dropped = True
        self._store.changes.dropped.append(self.number)
        self._store.note()


@dataclass(slots=True)
class Changes:
    """What is different from what the file has; the rows are formed when they are written.

    Attributes:
        noted: how often, since the broker's start, something was noted that has to be waited for.
    """

    noted: int = 0
    nodes: list[NodeRow] = field(default_factory=list)
    declarations: list[DeclarationRow] = field(default_factory=list)
    exchanges: list[ExchangeRow] = field(default_factory=list)
    bindings: list[BindingRow] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)  # exchanges and bindings
    subscriptions: dict[Lasting, None] = field(default_factory=dict)
    dropped: list[int] = field(default_factory=list)
    messages: dict[Entry, Shelf] = field(default_factory=dict)
    rewritten: set[Entry] = field(default_factory=set)
    links: dict[KeptRow, None] = field(default_factory=dict)
    deliveries: dict[tuple[KeptRow, bytes], None] = field(default_factory=dict)
    ended: list[int] = field(default_factory=list)
    branches: list[BranchRow] = field(default_factory=list)
    work: list[WorkRow] = field(default_factory=list)
    completed: list[int] = field(default_factory=list)  # branches
    quarantined: list[QuarantineRow] = field(default_factory=list)
    unquarantined: list[int] = field(default_factory=list)
    unrestored: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)  # rows, each with its table

    def __bool__(self) -> bool:
        others = self.nodes or self.subscriptions or self.dropped or self.links or self.deliveries or self.ended
        ways = self.exchanges or self.bindings or self.closed
        aside = self.quarantined or self.unquarantined or self.unrestored
        return bool(self.messages or others or ways or self.branches or self.completed or aside)

    def before(self, later: Changes) -> Changes:
        """These, which could not be written, and what came later."""
        return Changes(
            later.noted,
            self.nodes + later.nodes,
            self.declarations + later.declarations,
            self.exchanges + later.exchanges,
            self.bindings + later.bindings,
            self.closed + later.closed,
            self.subscriptions | later.subscriptions,
            self.dropped + later.dropped,
            self.messages | later.messages,
            self.rewritten | later.rewritten,
            self.links | later.links,
            self.deliveries | later.deliveries,
            self.ended + later.ended,
            self.branches + later.branches,
            self.work + later.work,
            self.completed + later.completed,
            self.quarantined + later.quarantined,
            self.unquarantined + later.unquarantined,
            self.unrestored + later.unrestored,
        )


class QuarantineKeeper(QuarantineJournal):
    """Notes in a store what becomes of durable messages in the quarantine."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def added(self, message: QuarantinedMessage) -> None:
        self.keep(message)

    def keep(self, message: QuarantinedMessage, origin: str | None = None, content: bytes | None = None) -> None:
        """Keep a message; or a row of the table `origin`, which could not be restored."""
        moment = message.time.timestamp()
        node, reason = (text.encode(errors="backslashreplace").decode() for text in (message.node, message.reason))
        told = (reason, message.message_format, message.payload)
        row = QuarantineRow(message.number, node, moment, *told, origin, content)
        self._store.changes.quarantined.append(row)
        self._store.note()

    def removed(self, message: QuarantinedMessage) -> None:
        self._store.changes.unquarantined.append(message.number)
        self._store.note()


class Store:
    """The store of a running broker.

    Args:
        clock, wall: the broker's clock and the time of day.

    Attributes:
        changes: what the file has not got yet.
        failure: why the last commit failed; None if it did not.
        on_failure: called when a commit fails after one that did not.

    Raises:
        StoreError: the file cannot be opened, is in use, is damaged, or is something else.
    """

    def __init__(self, path: str, clock: Clock, wall: Clock = time.time) -> None:
        self.file = StoreFile(path)
        self.path = path
        self.changes = Changes()
        self.failure: Exception | None = None
        self.on_failure: Callable[[], None] = lambda: None
        self.keeper = LinkKeeper(self)
        self.quarantine = QuarantineKeeper(self)
        self._clock = clock
        self._wall = wall
        self._numbers = itertools.count(1)
        self._committed = 0  # what `noted` was at the last commit
        self._writing: Changes | None = None
        self._awake = True
        self._wakeup: anyio.Event | None = None
        self._done: anyio.Event | None = None  # set by the next commit

    def number(self, above: int = 0) -> int:
        """A number that no row has, greater than `above`."""
        if above:
            self._numbers = itertools.count(above + 1)
        return next(self._numbers)

    # What happens

    def note(self) -> None:
        """Something changed that nobody may hear of before it is on the disk."""
        self.changes.noted += 1
        self.wake()

    def wake(self) -> None:
        """There is something to write."""
        if not self._awake:
            self._awake = True
            if self._wakeup is not None:
                self._wakeup.set()

    def add_node(self, node: Node) -> Shelf:
        """Keep a queue or a topic from now on."""
        shelf = Shelf(self, self.number())
        self.changes.nodes.append(NodeRow(shelf.number, node.name, "topic" if isinstance(node, Topic) else "queue"))
        terms = node.terms if isinstance(node, Queue) else None
        if terms is not None:
            arguments = encode(dict(terms.arguments))
            self.changes.declarations.append(DeclarationRow(shelf.number, terms.auto_delete, arguments))
        self.note()
        return shelf

    def add_exchange(self, exchange: Exchange) -> None:
        """Keep an exchange from now on."""
        exchange.number = self.number()
        arguments = encode(dict(exchange.arguments))
        row = ExchangeRow(
            exchange.number, exchange.name, exchange.kind, exchange.auto_delete, exchange.internal, arguments
        )
        self.changes.exchanges.append(row)
        self.note()

    def add_binding(self, binding: Binding) -> None:
        """Keep a binding from now on, if both of its ends are kept."""
        exchange, to = binding.exchange, binding.destination
        kept = to.durable if isinstance(to, Exchange) else to.shelf is not None
        if not (exchange.durable and kept):
            return
        binding.number = self.number()
        arguments = encode(dict(binding.arguments))
        row = BindingRow(binding.number, exchange.name, isinstance(to, Exchange), to.name, binding.key, arguments)
        self.changes.bindings.append(row)
        self.note()

    def drop(self, number: int) -> None:
        """An exchange or a binding is gone."""
        self.changes.closed.append(number)
        self.note()

    def note_subscription(self, lasting: Lasting) -> None:
        """A subscription came, or is to end at another time; if its source asks for it, it is kept from now on."""
        queue = lasting.queue
        if queue.shelf is None and lasting.durable:
            queue.keep(Shelf(self, self.number()))
        if queue.shelf is not None:
            self.changes.subscriptions[lasting] = None
            self.note()

    def add_branch(self, user: str | None, branch: BranchId, work: Work) -> int:
        """Keep a prepared branch, and what is to be done when it is committed, from now on; its number."""
        number = self.number()
        rows: list[WorkRow] = []
        for node, entry in work.posted:
            if entry.durable and node.shelf is not None:
                moment = self._time_of_day(entry.expires)
                told = (None, None, entry.message_format, entry.failures, moment, entry.payload)
                rows.append(WorkRow(number, len(rows), node.shelf.number, *told))
        for queue, entry, outcome in work.retired:
            if entry.row and queue.shelf is not None:
                done = (entry.row, encode(outcome), None, None, None, None)
                rows.append(WorkRow(number, len(rows), queue.shelf.number, *done))
        self.changes.branches.append(BranchRow(number, user, *branch))
        self.changes.work += rows
        self.note()
        return number

    def end_branch(self, number: int) -> None:
        """It is committed or rolled back: in the same commit with what that changes."""
        self.changes.completed.append(number)
        self.note()

    # Committing

    async def run(self) -> None:
        """Commit what is noted, as long as the broker runs.

        Cancelling: what is being written is committed first.
        """
        while True:
            self._awake = False
            if not self.changes:
                self._wakeup = anyio.Event()
                await self._wakeup.wait()
                self._wakeup = None
            try:
                self._begin()
                with anyio.CancelScope(shield=True):
                    # Not in line behind what the program does in threads.
                    await anyio.to_thread.run_sync(self.file.commit, limiter=anyio.CapacityLimiter(1))
                self._succeeded()
            except Exception as error:  # of SQLite; or a row cannot be formed, which must not end the broker either
                self._failed(error)
                await anyio.sleep(RETRY)

    async def safe(self) -> None:
        """Wait until all that was noted so far is on the disk.

        Cancelling: the waiting ends.
        """
        noted = self.changes.noted
        while self._committed < noted:
            if self._done is None:
                self._done = anyio.Event()
            await self._done.wait()

    def commit(self) -> None:
        """Write what is noted, at once.

        Raises:
            Exception: it is noted still; of SQLite, or a row cannot be formed.
        """
        try:
            self._begin()
            self.file.commit()
        except Exception as error:
            self._failed(error)
            raise
        self._succeeded()

    def _begin(self) -> None:
        changes = self._writing = self.changes
        self.changes = Changes(changes.noted)
        come, marked, gone = [], [], []
        for entry, shelf in changes.messages.items():
            if shelf.dropped:
                continue
            if entry.gone:
                if entry.stored:
                    gone.append((entry.row,))
            elif entry.stored and entry not in changes.rewritten:
                marked.append((entry.failures, not entry.available, entry.row))
            else:
                come.append(self._row(entry, shelf))
        file = self.file
        file.begin()
        if changes.unrestored:
            file.remove_rows(changes.unrestored)
        file.put_nodes(changes.nodes)
        file.put_declarations(changes.declarations)
        file.put_exchanges(changes.exchanges)
        file.put_bindings(changes.bindings)
        file.put_subscriptions(
            self._subscription_row(each, each.queue.shelf)
            for each in changes.subscriptions
            if each.queue.shelf is not None and not each.queue.shelf.dropped
        )
        file.put_messages(come)
        file.mark_messages(marked)
        file.remove_messages(gone)
        file.remove_queues((number,) for number in changes.dropped)
        file.remove_ways((number,) for number in changes.closed)
        if changes.links or changes.deliveries or changes.ended:
            self._write_links(changes)
        if changes.branches or changes.completed:
            file.put_branches(changes.branches, changes.work)
            file.remove_branches((number,) for number in changes.completed)
        if changes.quarantined or changes.unquarantined:
            file.put_quarantine(changes.quarantined)
            file.remove_quarantine((number,) for number in changes.unquarantined)

    def _write_links(self, changes: Changes) -> None:
        come, gone = self.keeper.delivery_rows(changes.deliveries)
        self.file.put_links(self.keeper.link_rows(changes.links))
        self.file.put_deliveries(come)
        self.file.remove_deliveries(gone)
        self.file.remove_links((number,) for number in changes.ended)

    def _row(self, entry: Entry, shelf: Shelf) -> MessageRow:
        expires = self._time_of_day(entry.expires)
        return MessageRow(
            entry.row,
            shelf.number,
            entry.message_format,
            entry.failures,
            not entry.available,
            expires,
            entry.payload,
            entry.arrived,
        )

    def _subscription_row(self, lasting: Lasting, shelf: Shelf) -> SubscriptionRow:
        key = lasting.key
        identity, container = key.owner or (None, None)
        deadline = self._time_of_day(lasting.deadline)
        source = encode(lasting.source)
        topic = lasting.queue.topic.name
        return SubscriptionRow(
            shelf.number, topic, key.owner is not None, identity, container, key.name, key.kind, source, deadline
        )

    def _time_of_day(self, moment: float | None) -> float | None:
        return None if moment is None else self._wall() + (moment - self._clock())

    def _succeeded(self) -> None:
        changes, self._writing = self._writing, None
        assert changes is not None
        for entry in changes.messages:
            entry.stored = True
        self._committed = changes.noted
        if self.failure is not None:
            _log.warning("%s: the store takes changes again", self.path)
            self.failure = None
        done, self._done = self._done, None
        if done is not None:
            done.set()

    def _failed(self, error: Exception) -> None:
        changes, self._writing = self._writing, None
        assert changes is not None
        self.changes = changes.before(self.changes)
        first, self.failure = self.failure is None, error
        if first:
            _log.error("%s: the store takes nothing, connections are cut until it does: %s", self.path, error)
            self.on_failure()
        try:
            self.file.rollback()
        except sqlite3.Error:
            _log.exception("%s: rolling back failed", self.path)

    def close(self) -> None:
        """Write what is noted, and close the file."""
        try:
            if self.changes:
                self.commit()
        except Exception:
            pass  # it is logged, and nobody was told otherwise
        finally:
            self.file.close()
