"""A queue: messages in order, consumers in turn, and what becomes of a message when its delivery ends (§3.4).

It knows no protocol and does no I/O; time comes from an injected clock. Everything that happens to it is noted at
once and done in `run`, so that a thousand messages that arrive together are handed out in one pass.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from ..messaging import Accepted, Modified, Rejected, Released
from ._browsing import Browsing
from ._faults import attempt, report
from ._node import ENTRY, Node
from ._selection import Looks, Selection
from ._waiting import Waiting

if TYPE_CHECKING:
    from ..messaging import Error
    from ._declared import QueueTerms
    from ._entry import Clock, Entry
    from ._node import Consumer, Limits
    from ._store import Shelf

# Free room of a queue without limits; larger than any number of producers times their credit.
UNLIMITED = 1 << 60
# What a message is taken to weigh before the first one came.
_FIRST_GUESS = 4096

DeadLetter = Callable[["Queue", "Entry", str, "Error | None"], bool]
SetAside = Callable[["Queue", "Entry", Exception], None]


class Queue(Node):
    """Messages wait in order of arrival; each goes to one consumer (competing), and to every browser as a copy.

    - Consumers that are ready take turns, one message each.
    - Those of higher priority come first, as long as they are ready.
    - A consumer with a filter takes the oldest message that passes it; those before it stay for others.
    - A message that comes back takes its old place. Only `modified(delivery-failed)` and lost links count as a failed
      attempt; `released` does not (§3.4.4, §3.4.5).
    - Rejected messages, those that failed `max_delivery_count` times, and (if asked for) expired ones
        are given to `dead_letter`, which says whether it took them. Else they end.
    - A message that cannot be handled, for what it makes the broker raise, is given to `set_aside`, which keeps it; the
        queue goes on without it. Without `set_aside` the exception goes its way.
    - `alarm` is told when a message that just came will die, for whoever calls `expire` in time.

    Attributes:
        depth: messages held, those that consumers hold unsettled included.
        bytes: their encoded size.
        unsettled: messages that consumers hold.
        enqueued, dequeued: messages that came, and that left by being accepted or taken settled.
        redelivered: messages that came back from a consumer and wait again, or waited.
        rejected, expired, exhausted, dead_lettered: messages that left in another way; `exhausted` ones had failed
            `max_delivery_count` times; `dead_lettered` counts those of the three that were given to `dead_letter`.
        copied: copies handed to browsers.
        terms: how it was declared; None if it was made on demand.
        dead_letter_to: exchange and routing key for its dead letters; None for the broker's own queue of them.
    """

    terms: QueueTerms | None = None
    dead_letter_to: tuple[str, str | None] | None = None

    def __init__(
        self,
        name: str,
        *,
        clock: Clock,
        limits: Limits,
        touch: Callable[[Node], None],
        alarm: Callable[[float], None] | None = None,
        set_aside: SetAside | None = None,
        dead_letter: DeadLetter | None = None,
        dead_letter_expired: bool = False,
        max_delivery_count: int | None = None,
        temporary: bool = False,
    ) -> None:
        super().__init__(name, limits=limits, touch=touch, temporary=temporary)
        self.consumers: dict[int, Consumer] = {}
        self.depth = 0
        self.bytes = 0
        self.unsettled = 0
        self.dequeued = 0
        self.redelivered = 0
        self.rejected = 0
        self.expired = 0
        self.exhausted = 0
        self.dead_lettered = 0
        self.copied = 0
        self._clock = clock
        self._alarm = alarm
        self._set_aside = set_aside
        self._dead_letter = dead_letter
        self._dead_letter_expired = dead_letter_expired
        self._max_delivery_count = max_delivery_count
        self._bytes_in = 0
        self._waiting = Waiting()
        self._mortal: list[tuple[float, int, Entry]] = []  # a heap: die at a known time
        self._line: deque[Consumer] = deque()  # consumers that may be ready, whose turn is next first
        self._ranked = False  # some consumer has said a priority
        self._draining: dict[int, Consumer] = {}
        self._browsing = Browsing()
        self._selections: dict[Hashable, Selection] = {}  # by the key of the filter
        self._looks = Looks()
        self._unfinished = False  # filters have more to look at, in a pass to come
        self._unseen: list[deque[Entry]] = []  # of browsers and selections: what comes goes into all of them

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
    def held(self) -> int:
        return super().held + self.bytes + self.depth * ENTRY

    # Coming in

    def insert(self, entry: Entry) -> None:
        self._bytes_in += entry.size
        self.bytes += entry.size
        self.depth += 1
        if entry.account is not None:
            self.charge(entry.account, entry.size + ENTRY)
        entry.position = self.enqueued
        self.enqueued += 1
        entry.available = True
        self._waiting.append(entry)
        if entry.expires is not None:
            heappush(self._mortal, (entry.expires, entry.position, entry))
            if self._alarm is not None:
                self._alarm(entry.expires)
        for unseen in self._unseen:
            unseen.append(entry)
        if entry.durable and self.shelf is not None:
            self.shelf.note(entry)
        if not self._touched:
            self.touch()

    put = insert  # it refuses nothing; a call in between would cost every message

    def keep(self, shelf: Shelf) -> None:
        """What is durable in it is kept from now on; what consumers hold is when it comes back."""
        self.shelf = shelf
        for entry in self._waiting.available():
            if entry.durable:
                shelf.note(entry)

    def restore(self, entry: Entry, *, held: bool) -> None:
        """Take a message that was here before the broker began; if a consumer held it then, that was an attempt.

        It was admitted when it came: however full the queue is, it belongs here. `end_exhausted` looks whether that
        attempt was its last, when all other messages are back.
        """
        if held:
            entry.seen()
            entry.failed()
        # The store has it as it is, but for that attempt.
        shelf, self.shelf = self.shelf, None
        self.insert(entry)
        self.shelf = shelf
        if held and shelf is not None:
            shelf.mark(entry)

    def end_exhausted(self, entry: Entry) -> None:
        """End a restored message whose attempt at the end of the broker before was its last one."""
        if entry.available:
            self._exhausted(entry)

    def restore_held(self, entry: Entry) -> None:
        """Take one that a consumer held and still holds, for its link can be resumed."""
        shelf, self.shelf = self.shelf, None
        self.insert(entry)
        self.shelf = shelf
        entry.seen()
        entry.available = False
        entry.listed = True
        self.unsettled += 1

    def lost(self, entry: Entry) -> None:
        """The link that held it before the broker began is over."""
        if not (entry.gone or entry.available or self.deleted):
            self.unsettled -= 1
            self._fail(entry)
            self.touch()

    # Consumers

    def add_consumer(self, consumer: Consumer) -> None:
        """A consumer came. A browser sees what waits now, then what comes."""
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
        """How many consumers it is there for."""
        return sum(map(stays, self.consumers.values()))

    def locked(self, exclusive: bool) -> bool:
        """Whether a new consumer has to stay out: one is the only one, or it wants to be and is not."""
        others = [consumer for consumer in self.consumers.values() if stays(consumer)]
        return bool(others) and (exclusive or any(consumer.exclusive for consumer in others))

    def _note_unseen(self) -> None:
        selections = self._selections.values()
        self._unseen = [*self._browsing.unseen.values(), *(selection.unseen for selection in selections)]

    def remove_consumer(self, consumer: Consumer) -> None:
        """A consumer went; what it held is given back by its own hands (`settle`)."""
        if self.consumers.pop(consumer.key, None) is None:
            return
        self._browsing.unseen.pop(consumer.key, None)
        self._draining.pop(consumer.key, None)
        if consumer.filtering is not None and not consumer.copies:
            selection = self._selections[consumer.filtering.key]
            selection.consumers -= 1
            if not selection.consumers:
                del self._selections[consumer.filtering.key]
        self._note_unseen()
        if consumer.waiting:
            consumer.waiting = False
            self._line_of(consumer).remove(consumer)

    def in_line(self, consumer: Consumer, *, drain: bool = False) -> None:
        """A consumer is ready for more: it gets its turns from the next `run` on.

        `drain`: it wants to be told (`exhausted`) when there is nothing more for it.
        """
        if not consumer.waiting:
            consumer.waiting = True
            self._line_of(consumer).append(consumer)
        if drain:
            self._draining[consumer.key] = consumer
        self.touch()

    def _line_of(self, consumer: Consumer) -> deque[Consumer]:
        return self._browsing.line if consumer.copies else self._line

    # The pass

    def run(self) -> None:
        self._touched = False
        if self.deleted:
            return
        self._looks.begin()
        if self._line:
            self._hand_out()
        if self._browsing.unseen:
            self.copied += self._browsing.hand_out(self._clock(), self.depth, self._looks)
        if self._looks.left <= 0:
            self._go_on_later()
        elif self._draining:
            self._tell_draining()
        self._regulate()

    def _hand_out(self) -> None:
        if self._ranked:
            self._line = deque(sorted(self._line, key=lambda consumer: -consumer.priority))
        line = self._line
        now = self._clock()
        take = self._next_selected if self._selections else self._next
        fed: dict[Consumer, None] = {}
        aside: list[Consumer] = []
        while line:
            consumer = line[0]
            if not consumer.ready():
                line.popleft()
                consumer.waiting = False
                continue
            entry = take(consumer, now)
            if entry is None:
                if not self._waiting.picky and not self._selections:
                    break
                # What is left is not for this one; it may be for another.
                aside.append(line.popleft())
                continue
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
                self._forget(entry)
            else:
                entry.available = False
                entry.seen()
                self.unsettled += 1
                if entry.row and self.shelf is not None:
                    self.shelf.mark(entry)
            fed[consumer] = None
            if len(line) > 1 and self._ranked:
                line.popleft()
                behind = (place for place, other in enumerate(line) if other.priority < consumer.priority)
                line.insert(next(behind, len(line)), consumer)
            elif len(line) > 1:
                line.rotate(-1)
        line.extend(aside)
        for consumer in fed:
            try:
                consumer.fed()
            except Exception as error:
                report(f"a consumer of {self.name!r} failed", error)
        if self._selections:
            self._tidy()

    def _go_on_later(self) -> None:
        """Have a pass more when everybody else has had a turn: filters have looked at as much as they may in one."""
        self._unfinished = True
        if self._alarm is not None:
            self._alarm(self._clock())

    def _resume(self) -> None:
        if self._unfinished:
            self._unfinished = False
            self.touch()

    def _tell_draining(self) -> None:
        """Tell those that stand in line with nothing left for them; the others are told by a later pass."""
        for consumer in list(self._draining.values()):
            if consumer.waiting:
                del self._draining[consumer.key]
                attempt(f"a consumer of {self.name!r}", consumer.exhausted)

    def _next(self, consumer: Consumer, now: float) -> Entry | None:
        """Take the oldest message that this consumer may have."""
        waiting = self._waiting
        while (entry := waiting.next(consumer.key)) is not None:
            if not entry.available:
                entry.listed = False
                continue
            if entry.expires is not None and entry.expires <= now:
                self._expire(entry)
                continue
            return entry
        return None

    def _next_selected(self, consumer: Consumer, now: float) -> Entry | None:
        """The same where some consumers have filters; such a one takes messages out of turn."""
        if consumer.filtering is None:
            return self._next(consumer, now)
        selection = self._selections[consumer.filtering.key]
        while (entry := selection.next(consumer.key, self._looks)) is not None:
            entry.listed = True
            if entry.expires is None or entry.expires > now:
                return entry
            self._expire(entry)
        return None

    def _tidy(self) -> None:
        """Drop what left out of turn, when that is most of what is kept."""
        self._waiting.sweep(self.depth)
        for selection in self._selections.values():
            selection.tidy(self.depth)

    def acquire(self, entry: Entry) -> bool:
        """Have one that was only looked at held by who looked; False if it is not there to be had any more."""
        if not entry.available or (entry.expires is not None and entry.expires <= self._clock()):
            return False
        entry.available = False
        entry.listed = True
        entry.seen()
        self.unsettled += 1
        if entry.row and self.shelf is not None:
            self.shelf.mark(entry)
        return True

    # The end of a delivery

    def settle(self, entry: Entry, consumer: Consumer, outcome: object) -> None:
        """A delivery to a consumer ended in `outcome`; whatever is no outcome counts as a failed attempt.

        Lost links end their deliveries so too: the consumer may have worked on the message, and the next one has to
        be told that it might be a duplicate (§3.2.1 "delivery-count").
        """
        if entry.gone or entry.available or self.deleted:
            return
        if consumer.copies and entry not in consumer.acquired:
            return  # somebody else has it
        self.unsettled -= 1
        if isinstance(outcome, Accepted):
            self.dequeued += 1
            self._forget(entry)
        elif isinstance(outcome, Rejected):
            self.rejected += 1
            self._bury(entry, "rejected", outcome.error)
        elif isinstance(outcome, Released):
            self._come_back(entry)
        elif isinstance(outcome, Modified):
            self._modify(entry, consumer, outcome)
        else:
            self._fail(entry)
        if not self._touched:
            self.touch()

    def _modify(self, entry: Entry, consumer: Consumer, outcome: Modified) -> None:
        if outcome.undeliverable_here:
            entry.excluded = (entry.excluded or set()) | {consumer.key}
        if outcome.message_annotations:
            before = entry.size
            entry.annotate(outcome.message_annotations)
            self.bytes += entry.size - before
            if entry.account is not None:
                self.charge(entry.account, entry.size - before)
            if entry.row and self.shelf is not None:
                self.shelf.rewritten(entry)
        if outcome.delivery_failed:
            self._fail(entry)
        else:
            self._come_back(entry)

    def _fail(self, entry: Entry) -> None:
        entry.failed()
        if not self._exhausted(entry):
            self._come_back(entry)

    def _exhausted(self, entry: Entry) -> bool:
        """Whether that was the last attempt; it is gone then."""
        limit = self._max_delivery_count
        if limit is None or entry.failures < limit:
            return False
        self.exhausted += 1
        self._bury(entry, "max-delivery-count", None)
        return True

    def _come_back(self, entry: Entry) -> None:
        if entry.expires is not None and entry.expires <= self._clock():
            self._expire(entry)
            return
        self.redelivered += 1
        self._make_available(entry)

    def _make_available(self, entry: Entry) -> None:
        """Let it wait again, in its old place."""
        entry.available = True
        for selection in self._selections.values():
            selection.come_back(entry)
        if entry.durable and self.shelf is not None:
            self.shelf.came_back(entry)
        if entry.listed:
            entry.listed = False
        else:
            self._waiting.come_back(entry)

    def set_aside(self, entry: Entry, error: Exception) -> None:
        """Take a message that waits out of the queue and into the quarantine, for what it made the broker raise.

        Raises:
            Exception: `error`, where there is no quarantine.
        """
        self._quarantine(entry, error)
        self._forget(entry)

    def _quarantine(self, entry: Entry, error: Exception) -> None:
        if self._set_aside is None:
            raise error
        self._set_aside(self, entry, error)

    def _bury(self, entry: Entry, reason: str, error: Error | None) -> None:
        self._die(entry, reason, error)
        self._forget(entry)

    def _die(self, entry: Entry, reason: str, error: Error | None) -> None:
        """Give a message to the dead letters; what they cannot handle goes into the quarantine."""
        if self._dead_letter is None:
            return
        try:
            taken = self._dead_letter(self, entry, reason, error)
        except Exception as fault:
            self._quarantine(entry, fault)
        else:
            self.dead_lettered += taken

    def _forget(self, entry: Entry) -> None:
        self.depth -= 1
        self.bytes -= entry.size
        if entry.account is not None:
            self.charge(entry.account, -entry.size - ENTRY)
        entry.leave()
        if entry.row and self.shelf is not None:
            self.shelf.note(entry)

    def purge(self) -> int:
        """Drop what waits; how many messages that was."""
        waiting = self._waiting.available()
        for entry in waiting:
            self._forget(entry)
        self._waiting.sweep(self.depth)
        self.touch()
        return len(waiting)

    # Time

    def expire(self, now: float) -> float | None:
        """Let those die whose time has come and who are not held; return when the next one does."""
        self._resume()
        mortal = self._mortal
        if len(mortal) > 2 * self.depth + 256:
            # Most of them left alive, long ago.
            mortal[:] = [record for record in mortal if not record[2].gone]
            heapify(mortal)
        # What comes back as a dead letter meanwhile is for the next time.
        for _ in range(len(mortal)):
            if not mortal or not (mortal[0][0] <= now or mortal[0][2].gone):
                break
            entry = heappop(mortal)[2]
            # One that is held dies when it comes back (`_come_back`).
            if entry.available:
                self._expire(entry)
                self.touch()
        self._waiting.sweep(self.depth)
        return mortal[0][0] if mortal else None

    def _expire(self, entry: Entry) -> None:
        self.expired += 1
        if self._dead_letter_expired:
            self._bury(entry, "expired", None)
        else:
            self._forget(entry)

    # The end

    def delete(self, error: Error) -> None:
        self.deleted = True
        self._waiting.clear()
        self._mortal.clear()
        self._line.clear()
        self._draining.clear()
        self._browsing.clear()
        self._selections.clear()
        self._unseen.clear()
        self.depth = self.bytes = 0
        for consumer in list(self.consumers.values()):
            attempt(f"a consumer of {self.name!r}", consumer.node_deleted, error)
        for producer in list(self.producers):
            attempt(f"a producer for {self.name!r}", producer.node_deleted, error)
        self.consumers.clear()
        self.producers.clear()


def stays(consumer: Consumer) -> bool:
    """Whether it counts as a consumer, for whose sake the queue is there."""
    return not (consumer.passing or consumer.copies)
