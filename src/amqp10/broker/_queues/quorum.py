"""Quorum queues as in RabbitMQ 4.3: priorities, counts of attempts, delayed retries, consumer time-outs.

They are not replicated here. Clients see what https://www.rabbitmq.com/docs/quorum-queues describes;
tests/interop/test_rabbitmq_43.py compares this broker with RabbitMQ.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ...errors import DecodeError
from ...messaging import ACCEPTED, read_annotations
from ...types import Symbol
from .._errors import Refused
from .._log import notice
from .declared import USUAL_PRIORITY, DeclaredQueue, priority_of
from .queue import Queue, QueueSettings, stays

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...messaging import Error
    from .arguments import Arguments, QueueDeclaration
    from .message import QueuedMessage
    from .node import QueueConsumer

HIGHEST_PRIORITY: Final = 31
ATTEMPTS: Final = 20
"""Failed attempts after the first, by default."""
CONSUMER_TIMEOUT: Final = 1800.0
"""Seconds that a consumer may take for a message, by default."""

_MIN_TIMEOUT: Final = 0.01  # prevents a busy loop of immediate time-outs
_ACQUIRED, _FAILED = Symbol("x-acquired-count"), Symbol("x-delivery-count")


class QuorumQueue(DeclaredQueue):
    """A quorum queue; see `DeclaredQueue` for what they share.

    - All messages of a higher priority go before any of a lower one.
    - A message that comes back has the number of its deliveries in `x-acquired-count`, and of failed ones in
      `x-delivery-count`. Messages that are released, or left behind by a link, did not fail. Only failures are limited.
    - It waits before its next delivery if its outcome or the declaration of the queue says so.
    - A consumer that takes too long for a message loses it, and gets no other before it has settled that one.
    - If only one consumer is active, it is the one of highest priority; consumers are told whether they are active.
    """

    counts_detached = False
    takes_runs = False  # each message has a priority
    lends_runs = False  # the time-out of each message is noted by itself

    def __init__(
        self,
        name: str,
        settings: QueueSettings,
        terms: QueueDeclaration,
        arguments: Arguments,
        *,
        ended: Callable[[Queue], None],
        owner: object | None = None,
    ) -> None:
        if arguments.max_priority:
            raise Refused(
                "amqp:precondition-failed", "x-max-priority is only for classic queues: a quorum queue always has 32"
            )
        if settings.max_delivery_count is None:
            settings = replace(settings, max_delivery_count=ATTEMPTS + 1)
        super().__init__(name, settings, terms, arguments, ended=ended, owner=owner)
        self._timeout = CONSUMER_TIMEOUT if arguments.consumer_timeout is None else arguments.consumer_timeout
        # By time-out: the messages that consumers hold, oldest first, each with its deadline and holder.
        self._held: dict[float, dict[QueuedMessage, tuple[float, QueueConsumer]]] = {}
        self._late: dict[QueuedMessage, QueueConsumer] = {}  # what consumers settle in place of messages that they lost
        self._current: QueueConsumer | None = None  # the active consumer, if only one is active

    def insert(self, entry: QueuedMessage) -> None:
        super().insert(entry)
        priority = min(priority_of(entry), HIGHEST_PRIORITY)
        if priority != USUAL_PRIORITY:
            self._waiting.move(entry, entry.position + (USUAL_PRIORITY - priority << 48))

    # What comes back

    def _return(self, entry: QueuedMessage, *, failed: bool) -> None:
        self._count(entry)
        super()._return(entry, failed=failed)

    def _count(self, entry: QueuedMessage) -> None:
        """Count one more delivery in the annotations that consumers see."""
        try:
            before = read_annotations(entry.payload).get(_ACQUIRED) if entry.message_format == 0 else None
        except DecodeError:
            return
        known = before if isinstance(before, int) and 0 <= before < 1 << 62 else 0
        self._annotate(entry, {_ACQUIRED: known + 1} | ({_FAILED: entry.failures} if entry.failures else {}))

    def _delay(self, entry: QueuedMessage, *, failed: bool) -> float:
        if (delay := super()._delay(entry, failed=failed)) > 0:
            return delay
        terms = self._arguments
        if terms.retry_type is None or terms.retry_type == ("returned" if failed else "failed"):
            return 0
        return min(terms.retry_min * max(1, entry.failures), terms.retry_max)

    # Consumers that take too long

    def _next(self, consumer: QueueConsumer, now: float) -> QueuedMessage | None:
        return self._hold(super()._next(consumer, now), consumer, now)

    def _next_selected(self, consumer: QueueConsumer, now: float) -> QueuedMessage | None:
        return self._hold(super()._next_selected(consumer, now), consumer, now)

    def _hold(self, entry: QueuedMessage | None, consumer: QueueConsumer, now: float) -> QueuedMessage | None:
        """Record until when the consumer may hold a message."""
        if entry is not None and not consumer.settles:
            timeout = self._timeout_of(consumer)
            held = self._held.setdefault(timeout, {})
            held.pop(entry, None)
            held[entry] = now + timeout, consumer
            if len(held) == 1:
                self._wake_at(now + timeout)
        return entry

    def _timeout_of(self, consumer: QueueConsumer) -> float:
        return max(_MIN_TIMEOUT, self._timeout if consumer.timeout is None else consumer.timeout)

    def settle(self, entry: QueuedMessage, consumer: QueueConsumer, outcome: object) -> None:
        if entry in self._late:
            del self._late[entry]
            if consumer.key in self.consumers:
                self.in_line(consumer)
            return
        self._no_longer_held(entry, consumer)
        super().settle(entry, consumer, outcome)
        if self._arguments.single_active and self._ranked:
            self._active()  # a consumer of higher priority may have waited for this

    def _no_longer_held(self, entry: QueuedMessage, consumer: QueueConsumer) -> None:
        held = self._held.get(self._timeout_of(consumer))
        if held is not None and held.pop(entry, None) is not None:
            return
        for held in self._held.values():  # its link may have been resumed with another time-out
            if held.pop(entry, None) is not None:
                return

    def accept(self, entries: Sequence[QueuedMessage], consumer: QueueConsumer) -> None:
        for entry in entries:
            self.settle(entry, consumer, ACCEPTED)

    def _time_out(self, entry: QueuedMessage, holder: QueueConsumer, now: float) -> None:
        consumer = self.consumers.get(holder.key)
        if entry.gone or entry.available:
            return
        stand_in = consumer.give_up(entry) if consumer is not None else None
        if consumer is None or stand_in is None:
            # Its link is detached and may be resumed, or a transaction holds it.
            self._hold(entry, holder, now)
            return
        if stand_in is not entry:
            self._late[stand_in] = consumer
            self._leave_line(consumer)
            self._draining.pop(consumer.key, None)
        text = f"a consumer of {self.name!r:.200} took longer than {self._timeout_of(consumer):g} s for a message"
        notice(
            "delivery_timed_out",
            logging.WARNING,
            f"{text}, which comes again",
            queue=self.name,
            timeout=self._timeout_of(consumer),
            position=entry.position,
            failures=entry.failures,
        )
        self.unsettled -= 1
        self._return(entry, failed=False)
        if self._arguments.single_active:
            self._active()
        self.touch()

    def in_line(self, consumer: QueueConsumer, *, drain: bool = False) -> None:
        if self._is_late(consumer):
            if drain:
                consumer.nothing_left()
        else:
            super().in_line(consumer, drain=drain)

    def _is_late(self, consumer: QueueConsumer) -> bool:
        return bool(self._late) and any(each.key == consumer.key for each in self._late.values())

    # One consumer at a time

    def _active(self) -> QueueConsumer | None:
        """Return the active consumer; None while one of higher priority waits for another's unsettled messages."""
        able = [each for each in self.consumers.values() if stays(each) and not self._is_late(each)]
        best, current = max(able, key=lambda each: each.priority, default=None), self._current
        if current in able and best is not None and current is not None:
            if best.priority <= current.priority:
                return current
            if any(holder.key == current.key for held in self._held.values() for _, holder in held.values()):
                self._leave_line(current)
                return None
        self._current = best
        if current is not None and current.key in self.consumers and current is not best:
            self._leave_line(current)
            current.active_changed(False)
        if best is not None and best is not current:
            best.active_changed(True)
            super().in_line(best)
        return best

    def add_consumer(self, consumer: QueueConsumer) -> None:
        super().add_consumer(consumer)
        if self._arguments.single_active and stays(consumer):
            self._active()
            if consumer is not self._current:
                consumer.active_changed(False)

    def remove_consumer(self, consumer: QueueConsumer) -> None:
        for entry in [entry for entry, each in self._late.items() if each is consumer]:
            del self._late[entry]
        super().remove_consumer(consumer)

    # Time, and the end

    def expire(self, now: float) -> float | None:
        following = super().expire(now)
        if self.deleted:
            return following
        moments = [] if following is None else [following]
        for timeout, held in list(self._held.items()):
            for entry, (deadline, consumer) in list(held.items()):
                if deadline > now:
                    break
                del held[entry]
                self._time_out(entry, consumer, now)
            if not held:
                del self._held[timeout]
        moments += [deadline for held in self._held.values() for deadline, _ in list(held.values())[:1]]
        return min(moments, default=None)

    def delete(self, error: Error) -> None:
        super().delete(error)
        self._held.clear()
        self._late.clear()
        self._current = None
