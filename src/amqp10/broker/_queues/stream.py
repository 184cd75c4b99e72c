"""Streams: queues that keep what was read. Messages have offsets, and each reader begins where it likes.

They follow RabbitMQ (https://www.rabbitmq.com/docs/streams): logs, declared with `x-queue-type` "stream".
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ...errors import DecodeError
from ...messaging import read_annotations
from ...types import Symbol
from .._errors import Refused
from .._log import attempt, report
from .arguments import number, text, wrong
from .node import MESSAGE_OVERHEAD
from .queue import UNLIMITED, Queue, QueueSettings
from .stream_offsets import Chunks, seconds

if TYPE_CHECKING:
    from ...messaging import Error
    from .arguments import QueueDeclaration
    from .journal import QueueJournal
    from .message import Clock, QueuedMessage
    from .node import QueueConsumer

OFFSET: Final = Symbol("x-stream-offset")

# Arguments that RabbitMQ refuses for a stream, where they would have no meaning.
_NOT_OF_STREAMS: Final = (
    *("x-message-ttl", "x-expires", "x-max-length", "x-overflow", "x-max-priority", "x-delivery-limit"),
    *("x-dead-letter-exchange", "x-dead-letter-routing-key", "x-single-active-consumer"),
)

# The annotations section for a message without any: a map8 of one pair, whose value is a long as in RabbitMQ.
_ANNOTATIONS: Final = b"\x00\x53\x72\xc1\x1b\x02\xa3\x0f" + OFFSET.encode() + b"\x81"
_HEADER: Final = b"\x00\x53\x70"
_LIST0, _LIST8 = 0x45, 0xC0
_MAX_OFFSET: Final = 1 << 62
"""No stream reaches this offset by itself; beyond it new messages would have no room."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How much a stream keeps. The oldest messages beyond that are dropped, but never the last message.

    Attributes:
        most_bytes: the most encoded bytes; None: no limit.
        age: the greatest age in seconds; None: no limit.
    """

    most_bytes: int | None = None
    age: float | None = None

    @classmethod
    def read(cls, terms: QueueDeclaration) -> Retention:
        """Parse the declaration of a stream.

        Raises:
            Refused: an argument is invalid, or is not allowed for streams.
        """
        arguments = terms.arguments
        for name in _NOT_OF_STREAMS:
            if name in arguments:
                raise wrong(name, "is not allowed for streams")
        age = text(arguments, "x-max-age")
        try:
            return cls(number(arguments, "x-max-length-bytes", least=1), None if age is None else seconds(age))
        except ValueError as error:
            raise wrong("x-max-age", str(error)) from None


class Stream(Queue):
    """A stream; see `Queue` for what they share. Messages of one pass form a chunk, as in RabbitMQ.

    - A consumer is a reader with a position of its own; its outcomes do not remove messages.
    - Each message has its offset in the annotation `x-stream-offset`; its header does not change.
    - A store keeps all messages, durable or not.

    Args:
        wall: returns the time of day.
        ages: the clock by which messages become too old; the broker's by default, which never jumps.

    Attributes:
        first: the offset of the oldest message, or of the next one if the stream is empty.
        min_depth: how many messages stay, whatever their age and size.
    """

    min_depth = 1
    depth: int
    bytes: int
    journal: QueueJournal | None
    copied: int

    takes_runs = False  # each has an offset and a time

    def __init__(
        self,
        name: str,
        settings: QueueSettings,
        terms: QueueDeclaration,
        retention: Retention,
        *,
        wall: Clock = time.time,
        ages: Clock | None = None,
    ) -> None:
        super().__init__(name, settings)
        self.terms: QueueDeclaration = terms
        self.first: int = 0
        self._retention = retention
        self._wall = wall
        self._ages = ages or self._clock
        self._log: dict[int, QueuedMessage] = {}  # by offset
        self._chunks = Chunks()
        self._begun = False  # the chunk of this pass has begun
        self._placed = False  # a restored message had its offset, which gives those of all others
        self._readers: dict[int, int] = {}  # the offset that each reader gets next, by its key

    @property
    def free(self) -> int:
        # A stream with a limit is never full; without one it fills up, because it may drop nothing.
        return super().free if self._retention == Retention() else UNLIMITED

    @property
    def users(self) -> int:
        return len(self.consumers)

    # Coming in

    def insert(self, entry: QueuedMessage) -> None:
        if not self._begun:
            self._begun = True
            self._chunks.begin(self._wall(), self._ages(), self.enqueued)
            if not self._log:
                self._chunks.begins_at(self.enqueued)
        entry.arrived = self._chunks.latest
        self._stamp(entry)
        self._append(entry)
        if self.journal is not None:
            entry.durable = True
            self.journal.record(entry)
        if not self._touched:
            self.touch()

    def put(self, entry: QueuedMessage) -> None:
        self.insert(entry)  # it refuses nothing

    def _append(self, entry: QueuedMessage) -> None:
        entry.position = self.enqueued
        entry.available = True
        self._log[entry.position] = entry
        self.enqueued += 1
        self.depth += 1
        self.bytes += entry.size
        if entry.account is not None:
            self.charge(entry.account, entry.size + MESSAGE_OVERHEAD)
        self._bytes_in += entry.size

    def _stamp(self, entry: QueuedMessage) -> None:
        """Write the offset of a message into its annotations."""
        payload, at = entry.payload, 0
        if payload[:3] == _HEADER and len(payload) > 4:
            at = {_LIST0: 4, _LIST8: 5 + payload[4]}.get(payload[3], len(payload))
        if (
            payload[at : at + 2] == _HEADER[:2]
            and payload[at + 2 : at + 3] > _ANNOTATIONS[2:3]
            and not entry.message_format
        ):
            entry.payload = payload[:at] + _ANNOTATIONS + self.enqueued.to_bytes(8, "big") + payload[at:]
            entry.size = len(entry.payload)
        else:
            entry.annotate({OFFSET: self.enqueued})

    def keep(self, journal: QueueJournal) -> None:
        self.journal = journal
        for entry in self._log.values():
            entry.durable = True
            journal.record(entry)

    def restore(self, entry: QueuedMessage, *, was_held: bool) -> None:
        if not self._placed and (offset := _offset(entry)) is not None:
            self._placed = True
            self._move(offset - self.enqueued)
        arrived = entry.arrived = entry.arrived or self._wall()
        if not self._chunks or arrived > self._chunks.latest:
            self._begin_earlier(arrived)
        self._append(entry)
        self.touch()

    def _begin_earlier(self, arrived: float) -> None:
        """Begin a chunk of an earlier run."""
        self._chunks.begin(arrived, self._ages() - (self._wall() - arrived), self.enqueued)

    def _move(self, further: int) -> None:
        """Add `further` to the offsets of all messages."""
        self.first += further
        self.enqueued += further
        self._chunks.move(further)
        for entry in self._log.values():
            entry.position += further
        self._log = {entry.position: entry for entry in self._log.values()}

    def restore_held(self, entry: QueuedMessage) -> None:
        """Restore a message; its reader holds nothing, because messages stay in a stream."""
        self.restore(entry, was_held=False)

    def lost(self, entry: QueuedMessage) -> None:
        """Do nothing, because readers give nothing back."""

    # Readers

    def add_consumer(self, consumer: QueueConsumer) -> None:
        self.consumers[consumer.key] = consumer
        place = consumer.place
        if place.offset is not None:
            position = place.offset
        elif place.word == "moment":
            position = self._chunks.at(place.moment, end=self.enqueued)
        else:
            last = self._chunks.last if self._log else self.first
            position = {"first": self.first, "last": last, "next": self.enqueued}[place.word]
        self._readers[consumer.key] = position

    def remove_consumer(self, consumer: QueueConsumer) -> None:
        super().remove_consumer(consumer)
        self._readers.pop(consumer.key, None)

    def _line_of(self, consumer: QueueConsumer) -> Any:
        return self._line

    def run(self) -> None:
        self._touched = self._begun = False
        if self.deleted:
            return
        self._truncate()
        if (death := self._next_death) is not None:
            self._wake_at(death)
        self._looks.begin()
        for consumer in list(self._line):
            self._feed(consumer)
        if self._looks.remaining <= 0:
            self._go_on_later()
        elif self._draining:
            self._tell_draining()
        self._regulate()

    def _feed(self, consumer: QueueConsumer) -> None:
        """Give a reader its next messages, while it is ready."""
        log, end, filtering = self._log, self.enqueued, consumer.filtering
        offset, copied = max(self._readers[consumer.key], self.first), 0
        looks = self._looks
        while offset < end and (filtering is None or looks.remaining > 0) and consumer.ready():
            entry = log[offset]
            offset += 1
            if filtering is not None:
                looks.look_at(entry, filtering)
            if filtering is None or filtering.passes(entry):
                try:
                    copied += consumer.deliver(entry, entry.payload)
                except Exception as error:
                    # The message stays, because offsets have no gaps; this reader continues after it.
                    report(f"a message of the stream {self.name!r} could not be given to a reader", error)
        if offset > self.first:
            self._readers[consumer.key] = offset
        if copied:
            self.copied += copied
            attempt(f"a reader of the stream {self.name!r}", consumer.fed)
        if offset < end and (filtering is None or looks.remaining > 0):
            consumer.waiting = False
            self._line.remove(consumer)

    def acquire(self, entry: QueuedMessage) -> bool:
        return False

    # The end of messages

    def _truncate(self) -> None:
        """Drop the messages that are too old or too many."""
        most, age = self._retention.most_bytes, self._retention.age
        oldest = self._ages() - age if age is not None else 0.0
        while self.depth > self.min_depth and (
            (most is not None and self.bytes > most) or (age is not None and self._chunks.oldest <= oldest)
        ):
            self._forget([self._log.pop(self.first)])
            self.first += 1
            self._chunks.begins_at(self.first)

    @property
    def latest(self) -> float | None:
        """The time of day, in seconds, of the last message; None: there was never one."""
        return self._chunks.latest if self._chunks else None

    def purge(self) -> int:
        raise Refused("amqp:not-implemented", f"{self.name!r} is a stream, which cannot be purged", reply_code=540)

    def expire(self, now: float) -> float | None:
        self._resume()
        self._truncate()
        return self._next_death

    @property
    def _next_death(self) -> float | None:
        """When the oldest message becomes too old, on the broker's clock; None: never."""
        if self._retention.age is None or self.depth <= self.min_depth:
            return None
        return self._clock() + max(0.0, self._chunks.oldest + self._retention.age - self._ages())

    def delete(self, error: Error) -> None:
        super().delete(error)
        self._log.clear()
        self._readers.clear()


def _offset(entry: QueuedMessage) -> int | None:
    """Return the offset of a stored message: its column in the store, or for older stores its annotation.

    None if the broker could not have written the annotation, because of the message's format or a malformed section:
    the annotation may then be the sender's.
    """
    if 0 <= entry.position < _MAX_OFFSET:
        return entry.position
    if entry.message_format:
        return None
    try:
        offset = read_annotations(entry.payload).get(OFFSET)
    except DecodeError:
        return None
    return offset if isinstance(offset, int) and 0 <= offset < _MAX_OFFSET else None
