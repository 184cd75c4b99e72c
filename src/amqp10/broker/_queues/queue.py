"""A queue: messages in order, consumers in turn, and what happens to a message when its delivery ends (§3.4).

It knows no protocol and does no I/O; its clock is injected. Changes are noted at once and handled in `run`, so that a
thousand messages that arrive together are handed out in one pass.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from ...messaging import ACCEPTED, Accepted, Modified, Rejected, Released
from .._deadlines import Deadlines
from .._log import attempt, report
from .browsers import Browsers
from .node import MESSAGE_OVERHEAD, Limits, Node
from .pending import GIVEN_BACK
from .selection import Looks, Selection
from .waiting import WaitingMessages

if TYPE_CHECKING:
    from ...messaging import Error
    from .arguments import QueueDeclaration
    from .journal import QueueJournal
    from .message import Clock, QueuedMessage
    from .node import QueueConsumer
    from .pending import PendingOutcomes
    from .selection import Filtering

# The room of a queue without limits; larger than any number of producers times their credit.
UNLIMITED = 1 << 60
# The assumed size of a message before the first one came.
_FIRST_GUESS = 4096
# Fewer outcomes are handled one by one.
_MIN_BULK = 3
# The cost of what a queue hands out in one pass, about 20 ms: 1 for each message of a run, more for one by itself.
PASS = 5000
_ALONE = 10
# How many messages may expire in one pass, and how many may become dead letters by that; each about 15 ms.
EXPIRE, EXPIRE_AS_DEAD_LETTERS = 5000, 500

_position = attrgetter("position")

Reason = Literal["rejected", "max-delivery-count", "expired", "maxlen"]
"""Why a message becomes a dead letter: its outcome (`settle`), failed attempts (`_end_if_exhausted`), time (`_expire`),
or too many messages in the queue (`DeclaredQueue`).
"""

DeadLetter = Callable[["Queue", "QueuedMessage", Reason, "Error | None"], bool]
SetAside = Callable[["Queue", "QueuedMessage", Exception], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """What all queues of a virtual host have in common.

    Attributes:
        clock: the broker's time in seconds.
        limits: how much a queue holds.
        touch: has a node run at the end of the pass.
        alarm: has `expire` of a queue called in time; None: nothing expires.
        set_aside: takes a message that makes the broker raise an exception; None: the exception is raised.
        dead_letter: takes a dead letter, and returns whether it did; None: dead letters end.
        dead_letter_expired: whether expired messages become dead letters.
        max_delivery_count: failed attempts after which a message becomes a dead letter; None: no limit.
        pending: applies in slices the outcomes that take long; None: all are applied at once.
    """

    clock: Clock
    limits: Limits = field(default_factory=Limits)
    touch: Callable[[Node], None]
    alarm: Callable[[Queue, float], None] | None = None
    set_aside: SetAside | None = None
    dead_letter: DeadLetter | None = None
    dead_letter_expired: bool = False
    max_delivery_count: int | None = None
    pending: PendingOutcomes | None = None


class Queue(Node):
    """Messages wait in order of arrival; each goes to one consumer (competing), and to every browser as a copy.

    - Ready consumers take turns, one message each. Those of higher priority come first.
    - A consumer with a filter takes the oldest message that passes; those before it stay for others.
    - A message that comes back returns to its old position. Only `modified(delivery-failed)` and lost links count as a
      failed attempt; `released` does not (§3.4.4, §3.4.5).
    - It waits for the time in the annotation `x-opt-delivery-time` of its outcome (milliseconds since 1970), if there
      is one. A store does not keep that.
    - Dead letters are messages that are rejected, that failed too often, that are too many for a `DeclaredQueue`, or
      that expired.
    - A message that makes the broker raise an exception is set aside, and the queue goes on.

    Attributes:
        depth: messages in it, including those that consumers hold unsettled.
        bytes: the encoded size of these messages.
        unsettled: messages that consumers hold.
        returning: those of them that come back in the next passes. Until they are here nothing is handed out, because
            they go first.
        enqueued, dequeued: messages that arrived, and that left because they were accepted or sent settled.
        redelivered: how often a message came back from a consumer.
        rejected, expired, exhausted, overflowed, dead_lettered: messages that left otherwise; `exhausted` ones failed
            `max_delivery_count` times, `overflowed` ones were too many for a `DeclaredQueue`; `dead_lettered` counts
            those of the four that `dead_letter` took.
        copied: copies given to browsers.
        terms: its declaration; None: it was created on demand.
        counts_detached: whether messages that a link leaves without an outcome count as failed, as on a lost
            connection.
        lends_runs: whether consumers may get many messages at once, and give them back at once.
        dead_letter_to: the exchange and routing key for its dead letters; None: the broker's own queue for them.
    """

    # With more than thirty attributes in a dict, an idle queue takes 1.3 KiB more.
    __slots__ = (
        "_alarm",
        "_browsing",
        "_bytes_in",
        "_clock",
        "_dead_letter",
        "_dead_letter_expired",
        "_delayed",
        "_draining",
        "_expirations",
        "_expiring",
        "_line",
        "_looks",
        "_max_delivery_count",
        "_pending",
        "_ranked",
        "_selections",
        "_set_aside",
        "_unfinished",
        "_unseen",
        "_until",
        "_waiting",
        "bytes",
        "consumers",
        "copied",
        "dead_lettered",
        "depth",
        "dequeued",
        "exhausted",
        "expired",
        "redelivered",
        "rejected",
        "returning",
        "unsettled",
    )

    terms: QueueDeclaration | None = None
    counts_detached = True
    lends_runs = True
    overflowed: int = 0
    dead_letter_to: tuple[str, str | None] | None = None

    def __init__(self, name: str, settings: QueueSettings, *, temporary: bool = False) -> None:
        super().__init__(name, limits=settings.limits, touch=settings.touch, temporary=temporary)
        self.consumers: dict[int, QueueConsumer] = {}
        self.depth: int = 0
        self.bytes: int = 0
        self.unsettled: int = 0
        self.returning: int = 0
        self.dequeued: int = 0
        self.redelivered: int = 0
        self.rejected: int = 0
        self.expired: int = 0
        self.exhausted: int = 0
        self.dead_lettered: int = 0
        self.copied: int = 0
        self._clock = settings.clock
        self._alarm = settings.alarm
        self._set_aside = settings.set_aside
        self._dead_letter = settings.dead_letter
        self._dead_letter_expired = settings.dead_letter_expired
        self._max_delivery_count = settings.max_delivery_count
        self._pending = settings.pending
        self._bytes_in = 0
        self._waiting = WaitingMessages()
        self._expiring: list[tuple[float, int, QueuedMessage]] = []  # a heap of messages with an expiry
        self._expirations = 0  # left for this pass
        self._delayed: Deadlines[QueuedMessage] = Deadlines()  # messages that came back, by when they are due
        self._until: float | None = None  # from the current outcome, in seconds since 1970
        self._line: deque[QueueConsumer] = deque()  # consumers that may be ready, the next one first
        self._ranked = False  # whether a consumer ever gave a priority
        self._draining: dict[int, QueueConsumer] = {}
        self._browsing = Browsers()
        self._selections: dict[Hashable, Selection] = {}  # by the key of the filter
        self._looks = Looks()
        self._unfinished = False  # there is more to hand out in a later pass
        self._unseen: list[deque[QueuedMessage]] = []  # those of browsers and selections, into which new messages go

    # Room

    @property
    def free(self) -> int:
        limits = self.limits
        free = UNLIMITED
        if limits.messages is not None:
            free = limits.messages - self.depth - self.reserved
        if limits.bytes is not None:
            typical = max(1, self._bytes_in // self.enqueued) if self.enqueued else _FIRST_GUESS
            left = limits.bytes - self.bytes - self.reserved_bytes
            free = min(free, max(1, left // typical) if left > 0 else 0)
        return free

    @property
    def memory(self) -> int:
        return super().memory + self.bytes + self.depth * MESSAGE_OVERHEAD

    @property
    def available(self) -> int:
        """How many messages consumers could get now: neither held nor delayed."""
        return self.depth - self.unsettled - len(self._delayed)

    # Coming in

    def insert(self, entry: QueuedMessage) -> None:
        self._bytes_in += entry.size
        self.bytes += entry.size
        self.depth += 1
        if entry.account is not None:
            self.charge(entry.account, entry.size + MESSAGE_OVERHEAD)
        entry.position = self.enqueued
        self.enqueued += 1
        entry.available = True
        self._waiting.append(entry)
        if entry.expires is not None:
            self._note_expiry([(entry.expires, entry.position, entry)])
        for unseen in self._unseen:
            unseen.append(entry)
        if entry.durable and self.journal is not None:
            self.journal.record(entry)
        if not self._touched:
            self.touch()

    @property
    def takes_runs(self) -> bool:  # type: ignore[override]
        return self.recent is None

    def take_run(self, entries: Sequence[QueuedMessage]) -> None:
        octets = sum([entry.size for entry in entries])
        self._bytes_in += octets
        self.bytes += octets
        self.depth += len(entries)
        account = entries[0].account
        if account is not None:
            self.charge(account, octets + len(entries) * MESSAGE_OVERHEAD)
        expiring = []
        for position, entry in enumerate(entries, self.enqueued):
            entry.position = position
            entry.available = True
            if entry.expires is not None:
                expiring.append((entry.expires, position, entry))
        self.enqueued += len(entries)
        self._waiting.extend(entries)
        if expiring:
            self._note_expiry(expiring)
        for unseen in self._unseen:
            unseen.extend(entries)
        if self.journal is not None:
            self.journal.record_run([entry for entry in entries if entry.durable])
        self.touch()

    def _note_expiry(self, expiring: Sequence[tuple[float, int, QueuedMessage]]) -> None:
        """Note when new messages expire."""
        if len(self._expiring) > 2 * self.depth + 256:
            self._sweep()
        for record in expiring:
            heappush(self._expiring, record)
        if self._alarm is not None:
            self._alarm(self, min(expiring)[0])

    put = insert  # it refuses nothing, and another call would cost every message

    def keep(self, journal: QueueJournal) -> None:
        """Keep durable messages from now on; those that consumers hold are recorded when they come back."""
        self.journal = journal
        for entry in self._waiting.available():
            if entry.durable:
                journal.record(entry)

    def restore(self, entry: QueuedMessage, *, was_held: bool) -> None:
        """Restore a message; if a consumer held it when the last broker ended, that was an attempt.

        It was admitted when it came, however full the queue is now. `end_exhausted` checks whether that attempt was its
        last, once all other messages are restored.
        """
        if was_held:
            entry.mark_acquired()
            entry.count_failure()
        # The store has it in this state, except for that attempt.
        journal, self.journal = self.journal, None
        self.insert(entry)
        self.journal = journal
        if was_held and journal is not None:
            journal.record_lazily(entry)

    def end_exhausted(self, entry: QueuedMessage) -> None:
        """End a restored message whose last allowed attempt ended with the last broker."""
        if entry.available:
            self._end_if_exhausted(entry)

    def restore_held(self, entry: QueuedMessage) -> None:
        """Restore a message that a consumer still holds, because its link can be resumed."""
        journal, self.journal = self.journal, None
        self.insert(entry)
        self.journal = journal
        entry.mark_acquired()
        entry.available = False
        entry.left_in_order = True
        self.unsettled += 1

    def lost(self, entry: QueuedMessage) -> None:
        """Give back a restored message that a link held, which was not resumed."""
        if not (entry.gone or entry.available or self.deleted or entry in self._delayed):
            self.unsettled -= 1
            self._fail(entry)
            self.touch()

    # Consumers

    def add_consumer(self, consumer: QueueConsumer) -> None:
        """Add a consumer. A browser is shown the messages that wait now, then new ones."""
        self.consumers[consumer.key] = consumer
        self._ranked = self._ranked or consumer.priority != 0
        if consumer.copies:
            self._browsing.begin(consumer, self._waiting.available())
        elif consumer.filtering is not None:
            key = consumer.filtering.key
            if key not in self._selections:
                self._selections[key] = Selection(consumer.filtering, self._waiting.available())
            self._selections[key].consumers += 1
        self._note_unseen()

    @property
    def users(self) -> int:
        """How many consumers it has that stay; see `stays`."""
        return sum(map(stays, self.consumers.values()))

    @property
    def awaited(self) -> bool:
        return any(not consumer.copies and consumer.ready() for consumer in self.consumers.values())

    def locked(self, exclusive: bool) -> bool:
        """Return whether to refuse a new consumer: an exclusive one is there, or it is `exclusive` and not alone."""
        # An exclusive consumer is the only one that stays, so the first one tells.
        first = next(filter(stays, self.consumers.values()), None)
        return first is not None and (exclusive or first.exclusive)

    def _note_unseen(self) -> None:
        selections = self._selections.values()
        self._unseen = [*self._browsing.unseen.values(), *(selection.unseen for selection in selections)]

    def remove_consumer(self, consumer: QueueConsumer) -> None:
        """Remove a consumer, which gives back what it held by itself (`settle`)."""
        if self.consumers.pop(consumer.key, None) is None:
            return
        self._browsing.unseen.pop(consumer.key, None)
        self._draining.pop(consumer.key, None)
        self._waiting.forget(consumer.key)
        if consumer.filtering is not None and not consumer.copies:
            selection = self._selections[consumer.filtering.key]
            selection.forget(consumer.key)
            selection.consumers -= 1
            if not selection.consumers:
                del self._selections[consumer.filtering.key]
        self._note_unseen()
        self._leave_line(consumer)

    def _leave_line(self, consumer: QueueConsumer) -> None:
        if consumer.waiting:
            consumer.waiting = False
            self._line_of(consumer).remove(consumer)

    def in_line(self, consumer: QueueConsumer, *, drain: bool = False) -> None:
        """Put a ready consumer in line; with `drain` it is told (`nothing_left`) when there is nothing more for it."""
        if not consumer.waiting:
            consumer.waiting = True
            self._line_of(consumer).append(consumer)
        if drain:
            self._draining[consumer.key] = consumer
        self.touch()

    def _line_of(self, consumer: QueueConsumer) -> MutableSequence[QueueConsumer]:
        return self._browsing.line if consumer.copies else self._line

    # The pass

    def run(self) -> None:
        self._touched = False
        if self.deleted:
            return
        self._looks.begin()
        self._expirations = self._most_expirations
        all_handed_out = self.returning > 0 or not self._line or self._hand_out()
        if self._browsing.unseen:
            self.copied += self._browsing.hand_out(self._clock(), self.depth, self._looks)
        if not all_handed_out or self._looks.remaining <= 0:
            self._go_on_later()
        elif self._draining and not (self.returning or self._unfinished):
            self._tell_draining()
        self._regulate()

    def _hand_out(self) -> bool:
        """Hand out what consumers may have; return False if some of it is left for a later pass."""
        if self._ranked:
            self._line = deque(sorted(self._line, key=lambda consumer: -consumer.priority))
        line = self._line
        now = self._clock()
        take = self._next_selected if self._selections else self._next
        fed: dict[QueueConsumer, None] = {}
        aside: list[QueueConsumer] = []
        by_runs = self.lends_runs and len(self._waiting) > len(line)
        left = math.inf if self._alarm is None else PASS
        while line and left > 0:
            consumer = line[0]
            if not consumer.ready():
                line.popleft()
                consumer.waiting = False
                continue
            if by_runs:
                before = self.unsettled + self.dequeued
                given = self._hand_out_run(now)
                fed.update(dict.fromkeys(given))
                by_runs = bool(given)
                left -= self.unsettled + self.dequeued - before
                continue
            entry = take(consumer, now)
            if entry is None:  # which counts for nothing: many consumers that get nothing would never all be asked
                if not self._waiting.excluded and not self._selections:
                    break
                # The remaining messages are not for this consumer, but may be for another.
                aside.append(line.popleft())
                continue
            left -= _ALONE
            try:
                taken = consumer.deliver(entry, entry.outgoing(now))
            except Exception as error:
                self.set_aside(entry, error)
                continue
            if not taken:
                entry.excluded = (entry.excluded or set()) | {consumer.key}
                self._make_available(entry)
                continue
            if consumer.settles:
                self.dequeued += 1
                self._forget([entry])
            else:  # as `_lend` does for many
                entry.available = False
                entry.mark_acquired()
                self.unsettled += 1
                if entry.row and self.journal is not None:
                    self.journal.record_lazily(entry)
            fed[consumer] = None
            if len(line) > 1 and self._ranked:
                line.popleft()
                behind = (place for place, other in enumerate(line) if other.priority < consumer.priority)
                line.insert(next(behind, len(line)), consumer)
            elif len(line) > 1:
                line.rotate(-1)
        all_handed_out = left > 0 or not line
        line.extend(aside)
        for consumer in fed:
            try:
                consumer.fed()
            except Exception as error:
                report(f"a consumer of {self.name!r} failed", error)
        if self._selections:
            self._waiting.sweep(self.depth)
            for selection in self._selections.values():
                selection.tidy(self.depth)
        return all_handed_out

    def _hand_out_run(self, now: float) -> list[QueueConsumer]:
        """Give the consumers in line the next messages, each its share at once; return those that got some.

        Each gets what it would get by turns. A run is so short that it may exceed the room in the consumers' output.
        """
        line = self._line
        count = len(line)
        if (count > 1 and (self._ranked or not self._are_alike(line))) or len(self._waiting) < 2 * count:
            return []
        for _ in range(count):
            consumer = line.popleft()
            consumer.waiting = consumer.ready()
            if consumer.waiting:
                line.append(consumer)
        count = len(line)
        room = min((consumer.run_room(count) for consumer in line), default=0)
        if room * count < 2:
            return []
        largest = min(consumer.largest_in_run for consumer in line)
        run = self._take_run(line[0].filtering, room * count, largest, now)
        given = list(line)[: len(run)]
        for place, consumer in enumerate(given):
            share = run[place::count]
            try:
                payloads = [
                    entry.outgoing(now) if entry.ttl_at or not entry.header_is_current else entry.payload
                    for entry in share
                ]
                consumer.deliver_run(share, payloads)
            except Exception as error:
                for entry in share:
                    self.set_aside(entry, error)
                continue
            if consumer.settles:
                self.dequeued += len(share)
                self._forget(share)
            else:
                self._lend(share)
        line.rotate(-len(run))
        return given

    def _are_alike(self, line: Iterable[QueueConsumer]) -> bool:
        """Return whether the consumers have equal filters, or none."""
        if not self._selections:
            return True
        return len({None if each.filtering is None else each.filtering.key for each in line}) == 1

    def _take_run(self, filtering: Filtering | None, most: int, largest: int, now: float) -> list[QueuedMessage]:
        """Take the next messages for consumers with this filter; [] if they are to be taken one by one."""
        if filtering is None:
            run = self._waiting.run(most, largest, now)
            if len(run) < 2:
                return []
            self._waiting.take_run(len(run))
            return run
        run = self._selections[filtering.key].run(most, largest, now, self._looks)
        for entry in run:
            entry.left_in_order = True
        return run

    def _lend(self, entries: Sequence[QueuedMessage]) -> None:
        """Record that a consumer holds these messages."""
        self.unsettled += len(entries)
        for entry in entries:
            entry.available = False
            entry.mark_acquired()
        if self.journal is not None:
            self.journal.record_run_lazily([entry for entry in entries if entry.row])

    def _go_on_later(self) -> None:
        """Schedule another pass after the others' turn, because this one has done its share."""
        self._unfinished = True
        self._wake_at(self._clock())

    def _wake_at(self, moment: float) -> None:
        """Set the alarm, if there is one, so that `expire` is called at that time."""
        if self._alarm is not None:
            self._alarm(self, moment)

    def _resume(self) -> None:
        if self._unfinished:
            self._unfinished = False
            self.touch()

    def _tell_draining(self) -> None:
        """Tell draining consumers in line that nothing is left for them; a later pass tells the others."""
        for consumer in list(self._draining.values()):
            if consumer.waiting:
                del self._draining[consumer.key]
                attempt(f"a consumer of {self.name!r}", consumer.nothing_left)

    def _next(self, consumer: QueueConsumer, now: float) -> QueuedMessage | None:
        """Take the oldest message that this consumer may have."""
        waiting = self._waiting
        while (entry := waiting.next(consumer.key)) is not None:
            if not entry.available:
                entry.left_in_order = False
                continue
            if entry.expires is not None and entry.expires <= now:
                self._expire(entry)
                self._expirations -= 1
                if self._expirations <= 0 and self._alarm is not None:
                    self._go_on_later()
                    return None
                continue
            return entry
        return None

    def _next_selected(self, consumer: QueueConsumer, now: float) -> QueuedMessage | None:
        """Take the oldest message that this consumer may have, when some consumers have filters."""
        if consumer.filtering is None:
            return self._next(consumer, now)
        selection = self._selections[consumer.filtering.key]
        while (entry := selection.next(consumer.key, self._looks)) is not None:
            entry.left_in_order = True
            if entry.expires is None or entry.expires > now:
                return entry
            self._expire(entry)
        return None

    def acquire(self, entry: QueuedMessage) -> bool:
        """Hold a message for a browser that acquires it; return False if it is no longer available."""
        if not entry.available or (entry.expires is not None and entry.expires <= self._clock()):
            return False
        entry.left_in_order = True
        self._lend([entry])
        return True

    # The end of a delivery

    def settle(self, entry: QueuedMessage, consumer: QueueConsumer, outcome: object) -> None:
        """End a delivery to a consumer in `outcome`; anything that is not an outcome counts as a failed attempt.

        Lost links also end their deliveries so: the consumer may have worked on the message, and the next one must be
        told that it might be a duplicate (§3.2.1 "delivery-count").
        """
        if entry.gone or entry.available or self.deleted:
            return
        if entry in self._delayed or (consumer.copies and entry not in consumer.acquired):
            return  # it came back already, or another consumer holds it
        self.unsettled -= 1
        if isinstance(outcome, Accepted):
            self.dequeued += 1
            self._forget([entry])
        elif isinstance(outcome, Rejected):
            self.rejected += 1
            self._end_as_dead_letter(entry, "rejected", outcome.error)
        elif isinstance(outcome, Released):
            self._return(entry, failed=False)
        elif isinstance(outcome, Modified):
            self._modify(entry, consumer, outcome)
        else:
            self._fail(entry)
        if not self._touched:
            self.touch()

    def settle_run(
        self, entries: Sequence[QueuedMessage], consumer: QueueConsumer, outcome: object, *, at_once: bool = False
    ) -> None:
        """End deliveries in the same outcome, as `settle` does for each.

        Messages that only come back do so together. What takes longer, such as dead letters, may end in later passes,
        unless all has to be done `at_once`.
        """
        if isinstance(outcome, Accepted):
            self.accept(entries, consumer)
            return
        if self.deleted:
            return
        alone, pending = entries, None if at_once else self._pending
        if len(entries) >= _MIN_BULK and self.lends_runs and not consumer.copies and _is_plain_return(outcome):
            if pending is not None and len(entries) > GIVEN_BACK:
                self.returning += len(entries)
                pending.give_back(partial(self._return_some, consumer, outcome), entries)
                return
            alone = self._return_run(entries, failed=_counts_as_failed(outcome))
        self._settle_alone(alone, consumer, outcome, pending)

    def _return_some(self, consumer: QueueConsumer, outcome: object, entries: Sequence[QueuedMessage]) -> None:
        """Return some of the messages that come back in several passes."""
        self.returning -= len(entries)
        if not self.deleted:
            alone = self._return_run(entries, failed=_counts_as_failed(outcome))
            self._settle_alone(alone, consumer, outcome, self._pending)
            self.touch()

    def _settle_alone(
        self,
        alone: Sequence[QueuedMessage],
        consumer: QueueConsumer,
        outcome: object,
        pending: PendingOutcomes | None,
    ) -> None:
        """End deliveries by `settle`, if they are many by `pending` in several passes; None: in this pass."""
        if pending is None or consumer.copies or len(alone) < _MIN_BULK:
            for entry in alone:
                self.settle(entry, consumer, outcome)
        else:
            pending.settle(self.settle, alone, consumer, outcome)

    def accept(self, entries: Sequence[QueuedMessage], consumer: QueueConsumer) -> None:
        """End deliveries as accepted, which nearly all are; the same as `settle` for each."""
        if len(entries) < _MIN_BULK or self.deleted or self._delayed or consumer.copies:
            for entry in entries:
                self.settle(entry, consumer, ACCEPTED)
            return
        held = {entry: None for entry in entries if not (entry.gone or entry.available)}
        self.unsettled -= len(held)
        self.dequeued += len(held)
        self._forget(held)
        if held and not self._touched:
            self.touch()

    def _return_run(self, entries: Sequence[QueuedMessage], *, failed: bool) -> list[QueuedMessage]:
        """Return those messages to the queue that come back as usual; return the others, which end otherwise."""
        now, delayed = self._clock(), self._delayed
        last = self._max_delivery_count - 1 if failed and self._max_delivery_count is not None else math.inf
        back: dict[QueuedMessage, None] = {}
        others = []
        for entry in entries:
            if entry.gone or entry.available or (delayed and entry in delayed):
                continue
            if entry.failures >= last or (entry.expires is not None and entry.expires <= now):
                others.append(entry)
            else:
                back[entry] = None
        self.unsettled -= len(back)
        self.redelivered += len(back)
        if failed:
            for entry in back:
                entry.count_failure()
        self._make_run_available(sorted(back, key=_position))
        if back and not self._touched:
            self.touch()
        return others

    def _modify(self, entry: QueuedMessage, consumer: QueueConsumer, outcome: Modified) -> None:
        if outcome.undeliverable_here:
            entry.excluded = (entry.excluded or set()) | {consumer.key}
        if outcome.message_annotations:
            self._annotate(entry, outcome.message_annotations)
            self._until = _delivery_time(outcome.message_annotations)
        if outcome.delivery_failed:
            self._fail(entry)
        else:
            self._return(entry, failed=False)
        self._until = None

    def _annotate(self, entry: QueuedMessage, annotations: Mapping[Any, Any]) -> None:
        before = entry.size
        entry.annotate(annotations)
        self.bytes += entry.size - before
        if entry.account is not None:
            self.charge(entry.account, entry.size - before)
        if entry.row and self.journal is not None:
            self.journal.rewritten(entry)

    def _fail(self, entry: QueuedMessage) -> None:
        entry.count_failure()
        if not self._end_if_exhausted(entry):
            self._return(entry, failed=True)

    def _end_if_exhausted(self, entry: QueuedMessage) -> bool:
        """End a message that has failed in its last allowed attempt; return whether it has."""
        limit = self._max_delivery_count
        if limit is None or entry.failures < limit:
            return False
        self.exhausted += 1
        self._end_as_dead_letter(entry, "max-delivery-count", None)
        return True

    def _return(self, entry: QueuedMessage, *, failed: bool) -> None:
        """Return a message to the queue at once, or when it is due."""
        delay = self._delay(entry, failed=failed)
        if delay <= 0:
            self._come_back(entry)
            return
        if entry.durable and self.journal is not None:
            self.journal.came_back(entry)
        due = self._clock() + delay
        self._delayed.set(entry, due)
        self._wake_at(due)

    def _delay(self, entry: QueuedMessage, *, failed: bool) -> float:
        """Return the seconds that a message waits before it comes back."""
        return self._until - time.time() if self._until is not None else 0

    def _come_back(self, entry: QueuedMessage) -> None:
        if entry.expires is not None and entry.expires <= self._clock():
            self._expire(entry)
            return
        self.redelivered += 1
        self._make_available(entry)

    def _make_available(self, entry: QueuedMessage) -> None:
        """Make a message available again, in its old position."""
        entry.available = True
        for selection in self._selections.values():
            selection.come_back(entry)
        if entry.durable and self.journal is not None:
            self.journal.came_back(entry)
        if entry.left_in_order:
            entry.left_in_order = False
        else:
            self._waiting.come_back(entry)

    def _make_run_available(self, entries: Sequence[QueuedMessage]) -> None:
        """Make messages available again, as `_make_available` does for each; they are in order of position."""
        out_of_order = []
        for entry in entries:
            entry.available = True
            if entry.left_in_order:
                entry.left_in_order = False
            else:
                out_of_order.append(entry)
        for selection in self._selections.values():
            for entry in entries:
                selection.come_back(entry)
        if self.journal is not None:
            self.journal.came_back_run([entry for entry in entries if entry.durable])
        self._waiting.come_back_run(out_of_order)

    def set_aside(self, entry: QueuedMessage, error: Exception) -> None:
        """Move a waiting message into the quarantine, because it caused `error`.

        Raises:
            Exception: `error`, if there is no quarantine.
        """
        self._quarantine(entry, error)
        self._forget([entry])

    def _quarantine(self, entry: QueuedMessage, error: Exception) -> None:
        if self._set_aside is None:
            raise error
        self._set_aside(self, entry, error)

    def _end_as_dead_letter(self, entry: QueuedMessage, reason: Reason, error: Error | None) -> None:
        self._give_to_dead_letters(entry, reason, error)
        self._forget([entry])

    def _give_to_dead_letters(self, entry: QueuedMessage, reason: Reason, error: Error | None) -> None:
        """Give a message to the dead letters; if that fails, it goes into the quarantine."""
        if self._dead_letter is None:
            return
        try:
            self.dead_lettered += self._dead_letter(self, entry, reason, error)
        except Exception as fault:
            self._quarantine(entry, fault)

    def _forget(self, entries: Collection[QueuedMessage]) -> None:
        """Remove messages from the queue for good."""
        octets = 0
        for entry in entries:
            octets += entry.size
            if entry.account is not None:
                self.charge(entry.account, -entry.size - MESSAGE_OVERHEAD)
            # As `free` does, without a call for each. benchmarks/budget.py, "broker_drain"
            entry.gone = True
            entry.available = False
            entry.payload = b""
        if self.journal is not None:
            self.journal.record_run([entry for entry in entries if entry.row])
        self.depth -= len(entries)
        self.bytes -= octets

    def purge(self) -> int:
        """Drop all waiting messages; return how many there were."""
        waiting = [*self._waiting.available(), *self._delayed.take(math.inf)]
        self._forget(waiting)
        self._waiting.sweep(self.depth)
        self.touch()
        return len(waiting)

    # Time

    def expire(self, now: float) -> float | None:
        """Expire the messages that are due and that nobody holds; return when the next one is due, or None."""
        self._resume()
        most = self._most_expirations
        for _ in range(most):
            entry = self._delayed.pop(now)
            if entry is None:
                break
            self._come_back(entry)
            self.touch()
        expiring = self._expiring
        # The others are for the next call, and so are dead letters that come back meanwhile.
        for _ in range(min(most, len(expiring))):
            if not expiring or not (expiring[0][0] <= now or expiring[0][2].gone):
                break
            entry = heappop(expiring)[2]
            # A message that is held expires when it comes back (`_come_back`).
            if entry.available:
                self._expire(entry)
                self.touch()
        self._waiting.sweep(self.depth)
        following = self._delayed.first
        if not expiring:
            return following
        return expiring[0][0] if following is None else min(expiring[0][0], following)

    @property
    def _most_expirations(self) -> int:
        """How many messages may expire in one pass."""
        return EXPIRE_AS_DEAD_LETTERS if self._dead_letter_expired else EXPIRE

    def _sweep(self) -> None:
        """Drop the deadlines of messages that left earlier, as most do."""
        self._expiring[:] = [record for record in self._expiring if not record[2].gone]
        heapify(self._expiring)

    def _expire(self, entry: QueuedMessage) -> None:
        self.expired += 1
        if self._dead_letter_expired:
            self._end_as_dead_letter(entry, "expired", None)
        else:
            self._forget([entry])

    # The end

    def delete(self, error: Error) -> None:
        self.deleted = True
        self._waiting.clear()
        self._expiring.clear()
        self._delayed.clear()
        self._line.clear()
        self._draining.clear()
        self._browsing.clear()
        self._selections.clear()
        self._unseen.clear()
        self.depth = self.bytes = 0
        self._end_links(self.consumers.values(), error)
        self.consumers.clear()


def stays(consumer: QueueConsumer) -> bool:
    """Return whether a consumer counts as one that stays: no browser, and no one-shot consumer."""
    return not (consumer.one_shot or consumer.copies)


def _delivery_time(annotations: Mapping[Any, Any]) -> float | None:
    """Return the time of the next delivery in seconds since 1970, as an outcome says it; None: it says none."""
    moment = annotations.get("x-opt-delivery-time")
    return moment / 1000 if isinstance(moment, int) else None


def _is_plain_return(outcome: object) -> bool:
    """Return whether a message with this outcome comes back as it was, but for its count of failures."""
    if isinstance(outcome, Modified):
        return not (outcome.undeliverable_here or outcome.message_annotations)
    return not isinstance(outcome, Rejected)


def _counts_as_failed(outcome: object) -> bool:
    """Return whether a delivery with this outcome, which is neither accepted nor rejected, was a failed attempt."""
    if isinstance(outcome, Modified):
        return bool(outcome.delivery_failed)
    return not isinstance(outcome, Released)
