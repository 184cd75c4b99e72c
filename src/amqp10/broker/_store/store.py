"""The store of a broker, and when its contents are on the disk.

    a pass: Peer.handle -> VirtualHostCore.flush    notes what changed       `StoredQueue`, `Store.note_...`
    Store.run                              commits all new changes in one transaction
    Pump, before it writes                 waits until all changes noted before are committed: `wait_durable`

So nothing that a peer was told, an outcome or another peer's message, can be undone by the end of the process;
and many messages of many connections share one fsync. The store keeps state and no journal of changes: rows are formed
when they are written, and a message that came and went in between costs nothing.

While the disk refuses writes (`failure`), changes wait in memory and are tried again. All connections are cut, because
their peers wait for answers that must not be written, and new ones are refused.

Two tests look at what a killed process leaves: `tests/broker/store/test_model.py` in mid-commit,
`tests/faults/test_store_kill.py` at any time.
"""

from __future__ import annotations

import itertools
import logging
import math
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from ...types import encode
from .._queues.queue import Queue
from .._queues.topic import Topic
from .._routing.exchanges import Exchange
from .changes import Changes, StoredQueue, StoredRecords
from .links import StoredLinks
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
    StoreFile,
    SubscriptionRow,
    WorkRow,
)

if TYPE_CHECKING:
    from ...engine import BranchId
    from .._quarantine import QuarantinedMessage
    from .._queues.journal import QueueJournal
    from .._queues.message import Clock
    from .._queues.node import Node
    from .._retained.subscriptions import RetainedSubscription
    from .._routing.exchanges import Binding
    from .._transactions.local import Work

_log = logging.getLogger("amqp10.broker")

T = TypeVar("T")

Write = tuple[Callable[[Sequence[Any]], object], Sequence[Any]]
"""What writes rows, and the rows."""

MAX_STORED = 900_000_000
"""The most bytes of a message in a store: SQLite's limit, minus what annotations may add."""

RETRY = 1.0
"""Seconds until a failed commit is tried again."""

AT_ONCE = 5000
"""Rows that are written in one pass of the event loop, about 10 ms; a commit of more has others' turns between them."""

JUMP = 1.0
"""Seconds by which the time of day and the broker's clock must come apart for a jump of the time of day."""

LOOK_AGAIN = 1.0
"""Seconds between two checks of the free space while it is low."""
RESUME_FACTOR = 1.1
"""The multiple of `least_room` at which senders may go on, so that they do not stop and go for each message."""
NEEDED = 0.75
"""The part of `least_room` that must be free on the disk itself: changes go into a log before they go into the file."""
RESERVED = 0.5
"""The part of `least_room`, on the disk itself, that messages on their way may not take either: removing needs it."""


class StoredQuarantine:
    """Records the durable messages of the quarantine."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def added(self, message: QuarantinedMessage) -> None:
        self.keep(message)

    def keep(self, message: QuarantinedMessage, origin: str | None = None, content: bytes | None = None) -> None:
        """Keep a message, or a row of the table `origin` that could not be restored."""
        moment = message.time.timestamp()
        node, reason = (text.encode(errors="backslashreplace").decode() for text in (message.node, message.reason))
        record = (reason, message.message_format, message.payload)
        row = QuarantineRow(message.number, node, moment, *record, origin, content)
        self._store.changes.rows.append(row)
        self._store.note()

    def removed(self, message: QuarantinedMessage) -> None:
        self._store.changes.removed.append((QuarantineRow, message.number))
        self._store.note()


class Store:
    """The store of a running broker.

    Args:
        clock, wall: the broker's clock and the time of day.
        least_room: octets; with less room senders are to stop, so that removing messages still works.

    Attributes:
        short: the reason why senders are to stop: the disk has little room; None: it has enough.
        on_room: called when `short` changes.
        changes: what is not in the file yet.
        failure: the error of the last commit; None: it succeeded.
        on_failure: called when a commit fails after one that succeeded.

    Raises:
        StoreError: the file cannot be opened, is in use, is damaged, or is not a store.
    """

    def __init__(self, path: str, clock: Clock, wall: Clock = time.time, least_room: int = 0) -> None:
        self.short: str | None = None
        self.on_room: Callable[[], None] = lambda: None
        self._least_room = least_room
        self._largest = math.inf  # octets of messages that the file has room for
        self._coming = 0  # octets of messages to store since the last commit began
        self._under_way = 0  # octets of those that the commit writes; then the free room is known without them
        self.file = StoreFile(path)
        self.path = path
        self.changes = Changes()
        self.failure: Exception | None = None
        self.on_failure: Callable[[], None] = lambda: None
        self.links: StoredLinks = StoredLinks(self)
        self.quarantine: StoredQuarantine = StoredQuarantine(self)
        self._clock = clock
        self._wall = wall
        self._ahead = 0.0  # seconds by which the time of day has jumped
        self._begun_at = wall() - clock()  # the store's time of day at zero of the broker's clock
        self._numbers = itertools.count(1)
        self._committed = 0  # the value of `noted` at the last commit
        self._writing: Changes | None = None
        self._awake = True
        self._wakeup: anyio.Event | None = None
        self._done: anyio.Event | None = None  # set by the next commit

    def number(self, above: int = 0) -> int:
        if above:
            self._numbers = itertools.count(above + 1)
        return next(self._numbers)

    # Recording

    def note(self) -> None:
        self.changes.noted += 1
        self.wake()

    def wake(self) -> None:
        if not self._awake:
            self._awake = True
            if self._wakeup is not None:
                self._wakeup.set()

    def add_node(self, node: Node) -> StoredQueue:
        journal = StoredQueue(self, self.number())
        self.changes.rows.append(NodeRow(journal.number, node.name, "topic" if isinstance(node, Topic) else "queue"))
        terms = node.terms if isinstance(node, Queue) else None
        if terms is not None:
            arguments = encode(dict(terms.arguments))
            self.changes.rows.append(DeclarationRow(journal.number, terms.auto_delete, arguments))
        self.note()
        return journal

    def records(self, owner: str) -> StoredRecords:
        return StoredRecords(self, owner)

    def add_exchange(self, exchange: Exchange) -> None:
        exchange.number = self.number()
        arguments = encode(dict(exchange.arguments))
        row = ExchangeRow(
            exchange.number, exchange.name, exchange.kind, exchange.auto_delete, exchange.internal, arguments
        )
        self.changes.rows.append(row)
        self.note()

    def add_binding(self, binding: Binding) -> None:
        exchange, to = binding.exchange, binding.destination
        kept = to.durable if isinstance(to, Exchange) else to.journal is not None
        if not (exchange.durable and kept):
            return
        binding.number = self.number()
        arguments = encode(dict(binding.arguments))
        row = BindingRow(binding.number, exchange.name, isinstance(to, Exchange), to.name, binding.key, arguments)
        self.changes.rows.append(row)
        self.note()

    def drop(self, number: int) -> None:
        self.changes.removed += ((ExchangeRow, number), (BindingRow, number))
        self.note()

    def note_subscription(self, lasting: RetainedSubscription) -> None:
        queue = lasting.queue
        if queue.journal is None and lasting.durable:
            queue.keep(StoredQueue(self, self.number()))
        if queue.journal is not None:
            self.changes.subscriptions[lasting] = None
            self.note()

    def add_branch(self, user: str | None, branch: BranchId, work: Work) -> int:
        number = self.number()
        rows: list[WorkRow] = []
        for node, entries in work.posted.items():
            if node.journal is None:
                continue
            for entry in entries:
                if entry.durable:
                    moment = self._time_of_day(entry.expires)
                    row = (None, None, entry.message_format, entry.failures, moment, entry.payload)
                    rows.append(WorkRow(number, len(rows), node.journal.number, *row))
        for queue, entry, outcome in work.retired:
            if entry.row and queue.journal is not None:
                done = (entry.row, encode(outcome), None, None, None, None)
                rows.append(WorkRow(number, len(rows), queue.journal.number, *done))
        self.changes.rows += (BranchRow(number, user, *branch), *rows)
        self.note()
        return number

    def end_branch(self, number: int) -> None:
        self.changes.removed.append((BranchRow, number))
        self.note()

    # Committing

    async def run(self) -> None:
        """Commit changes as long as the broker runs.

        Cancelling: a commit that has begun is finished first.
        """
        self._look_for_room(*await self._in_thread(self._room))
        while True:
            self._awake = False
            if not self.changes:
                self._wakeup = anyio.Event()
                with anyio.move_on_after(math.inf if self.short is None else LOOK_AGAIN):
                    await self._wakeup.wait()
                self._wakeup = None
            try:
                if not self.changes:
                    room = await self._in_thread(self._room)
                else:
                    for _ in self._begin():
                        await anyio.lowlevel.cancel_shielded_checkpoint()
                    room = await self._in_thread(self._write)
                    self._succeeded()
                self._look_for_room(*room)
            except Exception as error:  # an error of SQLite, or a row that cannot be formed; neither may end the broker
                self._failed(error)
                await anyio.sleep(RETRY)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        """Call a function in a thread, without waiting for the program's own threads; cancelling waits for it."""
        with anyio.CancelScope(shield=True):
            result = await anyio.to_thread.run_sync(call, limiter=anyio.CapacityLimiter(1))
        return result  # noqa: RET504  # mypy thinks that the scope may swallow an exception

    def _write(self) -> tuple[float, float]:
        self.file.commit()
        return self._room()

    def _room(self) -> tuple[float, float]:
        """Return the free octets on the disk, and those in the file where messages were removed."""
        if not self._least_room:
            return math.inf, 0
        import shutil  # with eight other modules, which only stores need

        if self.short is not None:
            # SQLite keeps the log as large as it ever was, which may be more than the disk has room for.
            with suppress(sqlite3.Error):
                self.file.empty_log()
        free = shutil.disk_usage(os.path.dirname(os.path.abspath(self.path))).free
        return free, int(self.file.pragma("freelist_count")) * int(self.file.pragma("page_size"))

    def _look_for_room(self, free: float, within: float) -> None:
        """Stop senders when there is little room, and let them go on when there is enough again."""
        before, least = self.short, self._least_room
        room = free if free < least * NEEDED else free + within
        # What is stored is first written to the log, and then into the file.
        reserved = least * RESERVED
        self._largest = min(free - reserved, (free - reserved + within) / 2)
        if room >= (least if before is None else least * RESUME_FACTOR):
            self.short = None
        elif before is None:
            self.short = f"the disk of the store has room for less than {least} octets"
        if self.short is not before:
            self.on_room()

    def fits(self, octets: int) -> bool:
        if self._under_way + self._coming + octets > self._largest:
            return False
        self._coming += octets
        return True

    async def wait_durable(self) -> None:
        """Wait until everything noted so far is on the disk.

        Cancelling: the waiting ends.
        """
        noted = self.changes.noted
        while self._committed < noted:
            if self._done is None:
                self._done = anyio.Event()
            await self._done.wait()

    def commit(self) -> None:
        """Write all changes at once.

        Raises:
            Exception: an error of SQLite, or a row cannot be formed; the changes stay noted.
        """
        try:
            for _ in self._begin():
                pass
            self.file.commit()
        except Exception as error:
            self._failed(error)
            raise
        self._succeeded()

    def _begin(self) -> Iterator[None]:
        """Begin a commit of what has changed until now: write the rows, some in each step."""
        writes = self._form()
        self.file.begin()
        left = AT_ONCE
        for write, rows in writes:
            for first in range(0, len(rows), AT_ONCE):
                if left <= 0:
                    yield
                    left = AT_ONCE
                some = rows[first : first + AT_ONCE]
                write(some)
                left -= len(some)

    def _form(self) -> list[Write]:
        """Form the rows of what has changed until now; return what is to be written, in this order."""
        changes = self._writing = self.changes
        self.changes = Changes(changes.noted)
        self._under_way += self._coming
        self._coming = 0
        come, marked, gone = [], [], []
        if self._has_jumped():
            self._ahead = self._wall() - self._clock() - self._begun_at
            changes.rows.append(ClockRow(1, self._ahead))
        rewritten, begun_at = changes.rewritten, self._begun_at
        for entry, journal in changes.messages.items():
            if journal.dropped:
                continue
            if entry.gone:
                if entry.stored:
                    gone.append((entry.row,))
            elif entry.stored and entry not in rewritten:
                marked.append((entry.failures, not entry.available, entry.row))
            else:
                # The columns of a `MessageRow` as a plain tuple, for speed: most rows of most commits are these.
                expires, arrived = entry.expires, entry.arrived
                come.append(
                    (
                        entry.row,
                        journal.number,
                        entry.message_format,
                        entry.failures,
                        not entry.available,
                        None if expires is None else begun_at + expires,
                        entry.payload,
                        arrived,
                        None if arrived is None else entry.position,
                    )
                )
        file = self.file
        writes: list[Write] = [(file.remove_rows, changes.unrestored)]
        writes += ((partial(file.put, kind), list(rows)) for kind, rows in itertools.groupby(changes.rows, type))
        subscriptions = [
            self._subscription_row(each, each.queue.journal)
            for each in changes.subscriptions
            if each.queue.journal is not None and not each.queue.journal.dropped
        ]
        writes += (
            (partial(file.put, SubscriptionRow), subscriptions),
            (partial(file.put, MessageRow), come),
            (file.mark_messages, marked),
            (partial(file.remove, MessageRow), gone),
        )
        if changes.links or changes.deliveries:
            writes += self._link_writes(changes)
        writes += ((partial(file.remove, kind), [(number,)]) for kind, number in changes.removed)
        if changes.records or changes.emptied:
            writes += self._record_writes(changes)
        return writes

    def _record_writes(self, changes: Changes) -> Iterator[Write]:
        kept = [(each.owner, key, form) for (each, key), form in changes.records.items() if not each.dropped]
        yield self.file.remove_owners, [(owner,) for owner in changes.emptied]
        put = [(None, owner, key, form()) for owner, key, form in kept if form is not None]
        yield partial(self.file.put, RecordRow), put
        yield partial(self.file.remove, RecordRow), [(owner, key) for owner, key, form in kept if form is None]

    def _link_writes(self, changes: Changes) -> Iterator[Write]:
        come, gone = self.links.delivery_rows(changes.deliveries)
        yield partial(self.file.put, LinkRow), list(self.links.link_rows(changes.links))
        yield partial(self.file.put, DeliveryRow), come
        yield partial(self.file.remove, DeliveryRow), gone

    def _subscription_row(self, lasting: RetainedSubscription, journal: QueueJournal) -> SubscriptionRow:
        key = lasting.key
        identity, container = key.owner or (None, None)
        deadline = self._time_of_day(lasting.deadline)
        source = encode(lasting.source)
        topic = lasting.queue.topic.name
        return SubscriptionRow(
            journal.number, topic, key.owner is not None, identity, container, key.name, key.kind, source, deadline
        )

    def _time_of_day(self, moment: float | None) -> float | None:
        """Return a moment of the broker's clock as the store's time of day, which never jumps."""
        return None if moment is None else self._begun_at + moment

    def jumped(self, ahead: float) -> None:
        """Go on from an earlier run, by whose end the time of day had jumped ahead, in seconds."""
        self._ahead = ahead
        self._begun_at -= ahead

    def moment(self, time_of_day: float) -> float:
        """Return the store's time of day as a moment of the broker's clock."""
        return time_of_day - self._begun_at

    def _has_jumped(self) -> bool:
        return abs(self._wall() - self._clock() - self._begun_at - self._ahead) > JUMP

    def _succeeded(self) -> None:
        changes, self._writing = self._writing, None
        assert changes is not None
        for entry in changes.messages:
            entry.stored = True
        self._committed = changes.noted
        self._under_way = 0
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
        """Write all changes, and close the file."""
        try:
            if self.changes or self._has_jumped():
                self.commit()
        except Exception:
            pass  # it is logged, and no peer was told of these changes
        finally:
            self.file.close()
