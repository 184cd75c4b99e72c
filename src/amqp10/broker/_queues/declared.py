"""Declared queues: with limits, dead letters, exclusive to one connection, or deleted with their last consumer.

Queues that links create on demand have none of these features, and do not pay for them.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final, cast

from ...errors import DecodeError
from ...messaging import read_priority
from .._log import notice
from .arguments import Arguments, QueueDeclaration
from .node import QueueFull
from .queue import Queue, QueueSettings, Reason, stays

if TYPE_CHECKING:
    from ...messaging import Error
    from .message import QueuedMessage
    from .node import QueueConsumer

USUAL_PRIORITY: Final = 4  # the priority of a message that states none (§3.2.1)
DROP_AS_DEAD_LETTERS: Final = 1000
"""How many of the messages that are too many may become dead letters in one pass, about 20 ms."""
_ANYONE: Final = cast("QueueConsumer", SimpleNamespace(key=-1, settles=True))
"""The consumer for which messages are dropped."""
REPORT_EVERY: Final = 60.0
"""Seconds after which a queue that goes on dropping messages says so again."""


class DeclaredQueue(Queue):
    """A queue that was declared; see `Queue`.

    Args:
        ended: called when the queue ends by its own rules.
        owner: the connection that it is exclusive to, or None.
    """

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
        super().__init__(name, settings)
        if arguments.delivery_limit is not None:
            # The first attempt is no redelivery.
            self._max_delivery_count = arguments.delivery_limit + 1 if arguments.delivery_limit >= 0 else None
        self.terms = terms
        self._auto_delete = terms.auto_delete
        self.owner = owner
        self.dead_letter_to = arguments.dead_letter
        self._ended = ended
        self._handing_out = False
        self._leaving, self._leaving_bytes = 0, 0  # messages that leave as dead letters, which may come back here
        self._arguments = arguments
        self._rejects = arguments.overflow != "drop-head"
        self._limited = arguments.max_length is not None or arguments.max_bytes is not None
        self._dead_letter_expired = self._dead_letter_expired or arguments.dead_letter is not None
        self._report_at = -math.inf  # when the log may say next that messages are dropped
        # when it was last used other than by a consumer; None: not since the first `expire`
        self._used: float | None = None
        if arguments.expires is not None:
            self._wake_at(-math.inf)  # its clock may not run yet, because a broker is made before its event loop

    # Messages

    @property
    def takes_runs(self) -> bool:  # type: ignore[override]
        arguments = self._arguments
        return super().takes_runs and not (self._limited or arguments.max_priority or arguments.ttl is not None)

    def put(self, entry: QueuedMessage) -> None:
        if self._limited and self._rejects and self._over(entry):
            if self._line and not self._handing_out:
                self._hand_out()
            if self._over(entry):
                if self._arguments.overflow == "reject-publish-dlx" and self.dead_letter_to is not None:
                    self._give_to_dead_letters(entry, "maxlen", None)
                self._tell_full(True)
                raise QueueFull(self.name)
        self.insert(entry)

    def _end_as_dead_letter(self, entry: QueuedMessage, reason: Reason, error: Error | None) -> None:
        size = entry.size
        self._leaving += 1
        self._leaving_bytes += size
        try:
            super()._end_as_dead_letter(entry, reason, error)
        finally:
            self._leaving -= 1
            self._leaving_bytes -= size

    def _hand_out(self) -> bool:
        # A message that expires meanwhile may come here again, as a dead letter: see `put`.
        self._handing_out = True
        try:
            return super()._hand_out()
        finally:
            self._handing_out = False

    def insert(self, entry: QueuedMessage) -> None:
        arguments = self._arguments
        if arguments.ttl is not None:
            deadline = self._clock() + arguments.ttl
            entry.expires = deadline if entry.expires is None else min(deadline, entry.expires)
        priority = min(priority_of(entry), arguments.max_priority) if arguments.max_priority else 0
        super().insert(entry)
        if arguments.max_priority:
            # It goes before those of lower priority. Browsers and filters see it in the order of arrival.
            self._waiting.move(entry, entry.position + ((arguments.max_priority - priority) << 48))

    def reserve(self, entry: QueuedMessage, *, restored: bool = False) -> None:
        if self._limited and self._rejects and not restored and self._over(entry):
            self._tell_full(True)
            raise QueueFull(self.name)
        super().reserve(entry)

    def _is_full(self) -> bool:
        max_length, max_bytes = self._arguments.max_length, self._arguments.max_bytes
        refuses = self._rejects and (
            (max_length is not None and self.depth >= max_length) or (max_bytes is not None and self.bytes >= max_bytes)
        )
        return refuses or super()._is_full()

    def _over(self, entry: QueuedMessage | None = None) -> bool:
        """Return whether the queue holds too much, including `entry` if it is given."""
        messages, size = (1, entry.size) if entry is not None else (0, 0)
        max_length, max_bytes = self._arguments.max_length, self._arguments.max_bytes
        waiting = self.depth - self._leaving - self.unsettled + self.reserved + messages
        octets = self.bytes - self._leaving_bytes + self.reserved_bytes + size
        return (max_length is not None and waiting > max_length) or (max_bytes is not None and octets > max_bytes)

    def run(self) -> None:
        super().run()
        if self._limited and not self._rejects and not self.deleted:
            # Dead letters that come back meanwhile are for the next pass.
            limit = math.inf if self.dead_letter_to is None or self._alarm is None else DROP_AS_DEAD_LETTERS
            before = self.overflowed
            for dropped in range(1, self.depth + 1):
                if not (self._over() and self._drop_head()):
                    break
                if dropped >= limit:
                    self._go_on_later()
                    break
            if self.overflowed > before and self.dead_letter_to is None:
                self._report_dropped()

    def _report_dropped(self) -> None:
        """Log that messages are lost, once and then from time to time: that is declared, but easily forgotten."""
        now = self._clock()
        if now < self._report_at:
            return
        self._report_at = now + REPORT_EVERY
        text = (
            f"{self.name!r:.200} holds as much as its x-max-length or x-max-length-bytes allows, and drops its oldest "
            f"messages: {self.overflowed} so far"
        )
        notice("messages_dropped", logging.WARNING, text, queue=self.name, count=self.overflowed)

    def _drop_head(self) -> bool:
        """Drop the oldest waiting message; return False if no message waits."""
        entry = self._next(_ANYONE, self._clock())
        if entry is None:
            return False
        self.overflowed += 1
        if self.dead_letter_to is not None:
            self._end_as_dead_letter(entry, "maxlen", None)
        else:
            self._forget([entry])
        return True

    # One consumer at a time

    def _active(self) -> QueueConsumer | None:
        """Return the consumer that gets the messages if only one is active: the first one."""
        return next(filter(stays, self.consumers.values()), None)

    def locked(self, exclusive: bool) -> bool:
        return (self._arguments.single_active and exclusive) or super().locked(exclusive)

    def in_line(self, consumer: QueueConsumer, *, drain: bool = False) -> None:
        if self._arguments.single_active and stays(consumer) and consumer is not self._active():
            if drain:
                consumer.nothing_left()
        else:
            super().in_line(consumer, drain=drain)

    # Its end

    def remove_consumer(self, consumer: QueueConsumer) -> None:
        counts = consumer.key in self.consumers and stays(consumer)
        super().remove_consumer(consumer)
        if self._arguments.single_active and counts and (heir := self._active()) is not None:
            self.in_line(heir)
        if counts and not self.deleted and not self.users:
            self.used()
            if self._auto_delete:
                self._ended(self)

    def used(self) -> None:
        """Restart the time of `x-expires`, because something other than a consumer used the queue."""
        self._used = self._clock()
        if self._arguments.expires is not None:
            self._wake_at(self._used + self._arguments.expires)

    def expire(self, now: float) -> float | None:
        following = super().expire(now)
        expires = self._arguments.expires
        if expires is None or self.deleted or self.users:
            return following
        if self._used is None:
            self._used = now
        deadline = self._used + expires
        if deadline <= now:
            self._ended(self)
            return None
        return deadline if following is None else min(deadline, following)


def priority_of(entry: QueuedMessage) -> int:
    """Return the priority that a message states, or the usual one if it states none or cannot be read.

    In the older dialects no priority means 0, which their mapping writes into the header.
    """
    try:
        stated = read_priority(entry.payload) if entry.message_format == 0 else None
    except DecodeError:
        stated = None
    return USUAL_PRIORITY if stated is None else stated
