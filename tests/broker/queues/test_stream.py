"""Streams without any protocol: what readers get, what is kept, and what survives."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from amqp10.broker._queues.arguments import QueueDeclaration
from amqp10.broker._queues.message import QueuedMessage
from amqp10.broker._queues.node import Limits
from amqp10.broker._queues.queue import QueueSettings
from amqp10.broker._queues.selection import Filtering
from amqp10.broker._queues.stream import Retention, Stream
from amqp10.broker._queues.stream_offsets import StreamPosition
from amqp10.messaging import ACCEPTED, RELEASED, Message, Rejected, read_annotations
from amqp10.types import Symbol, ULong

from ...kit.broker.queue_doubles import Giver, Taker, attach, entry, fill, more
from ...kit.broker.stored_life import Life
from ...kit.clock import Clock
from ...kit.inside.broker import Refused, VirtualHostCore

pytestmark = pytest.mark.capability("streams")

OFFSET = Symbol("x-stream-offset")
FIRST = StreamPosition("first")
Make = Callable[..., Stream]


@pytest.fixture
def make(clock: Clock) -> Make:
    """Makes streams of a retention; the time of day is that of the test's clock."""

    def make(*, limits: Limits | None = None, **retention: Any) -> Stream:
        settings = QueueSettings(clock=clock, limits=limits or Limits(), touch=lambda node: None)
        return Stream("s", settings, QueueDeclaration(), Retention(**retention), wall=clock)

    return make


def reader(place: StreamPosition = FIRST, credit: int = 1000, **settings: Any) -> Taker:
    taker = Taker(credit, copies=True, **settings)
    taker.place = place
    return taker


def offsets(taker: Taker) -> list[int]:
    """What the annotations of its messages say."""
    return [read_annotations(payload)[OFFSET] for payload in taker.payloads]


class TestReading:
    def test_many_readers(self, make: Make) -> None:
        """Each has a position of its own, and what one does with a message is nothing to the others."""
        stream = make()
        fill(stream, 10, 11, 12)
        stream.run()
        one, two = reader(credit=2), reader(StreamPosition(offset=1))
        attach(stream, one, two)
        assert (one.numbers, two.numbers) == ([10, 11], [11, 12])
        for outcome in (ACCEPTED, RELEASED, Rejected()):
            stream.settle(one.taken[0], one, outcome)
        more(stream, one, 5)
        assert (one.numbers, offsets(one)) == ([10, 11, 12], [0, 1, 2])
        fill(stream, 13)
        stream.run()
        assert (one.numbers[-1], two.numbers[-1], stream.depth, stream.copied) == (13, 13, 4, 7)

    @pytest.mark.parametrize(
        ("place", "numbers"),
        [
            (FIRST, [0, 1, 2, 3]),
            (StreamPosition("last"), [2, 3]),
            (StreamPosition("next"), []),
            (StreamPosition(offset=3), [3]),
            (StreamPosition(offset=6), []),
            (StreamPosition("moment", moment=0), [0, 1, 2, 3]),
            (StreamPosition("moment", moment=1005), [2, 3]),
            (StreamPosition("moment", moment=1010), [2, 3]),
            (StreamPosition("moment", moment=1010.5), []),
        ],
    )
    def test_where_it_begins(self, make: Make, clock: Clock, place: StreamPosition, numbers: list[int]) -> None:
        """At a word, an offset, a moment; what is taken in one pass is one chunk."""
        stream = make()
        for now, pair in ((1000, (0, 1)), (1010, (2, 3))):
            clock.now = now
            fill(stream, *pair)
            stream.run()
        taker = reader(place)
        attach(stream, taker)
        assert taker.numbers == numbers

    def test_nobody_acquires(self, make: Make) -> None:
        """Nothing can be taken after all, either."""
        stream, taker = make(), reader()
        fill(stream, 1)
        attach(stream, taker)
        assert not stream.acquire(taker.taken[0])
        assert stream.depth == 1

    def test_an_offset_to_come(self, make: Make) -> None:
        """Who names it gets nothing before it."""
        stream = make()
        taker = reader(StreamPosition(offset=2))
        attach(stream, taker)
        fill(stream, 0, 1, 2, 3)
        stream.run()
        assert offsets(taker) == [2, 3]

    def test_a_filter(self, make: Make) -> None:
        """Hides messages from who asked for it only."""
        stream = make()
        odd = reader(filtering=Filtering(None, lambda entry: entry.position % 2 == 1))
        everything = reader()
        attach(stream, odd, everything)
        fill(stream, 0, 1, 2, 3)
        stream.run()
        assert (odd.numbers, everything.numbers) == ([1, 3], [0, 1, 2, 3])

    def test_too_large_for_a_reader(self, make: Make) -> None:
        """It is passed over."""
        stream = make()
        small = reader(largest=60)
        attach(stream, small)
        stream.put(entry(1, b"x" * 100))
        fill(stream, 2)
        stream.run()
        assert small.numbers == [2]

    def test_drain(self, make: Make) -> None:
        """A reader at the end is told so, one with messages left is not."""
        stream = make()
        fill(stream, 0, 1)
        one, two = reader(credit=5), reader(credit=1)
        attach(stream, one, two)
        for each in (one, two):
            stream.in_line(each, drain=True)
        stream.run()
        assert (one.told_nothing_left, two.told_nothing_left) == (1, 0)

    def test_a_reader_that_went(self, make: Make) -> None:
        """It is given nothing more, and does not count."""
        stream = make()
        gone = reader()
        attach(stream, gone)
        assert stream.users == 1
        stream.remove_consumer(gone)
        fill(stream, 0)
        stream.run()
        assert (gone.numbers, stream.users) == ([], 0)


class TestOffsets:
    @pytest.mark.parametrize(
        "message",
        [
            Message(1),
            Message(1, durable=True),
            Message(1, priority=7, subject="x"),
            Message(1, message_annotations={Symbol("x-a"): 1, OFFSET: 99}),
            Message(1, durable=True, message_annotations={Symbol("x-a"): 1}),
            Message(b"data", delivery_annotations={Symbol("x"): 1}),
        ],
    )
    def test_the_annotation(self, make: Make, message: Message) -> None:
        """Is added to whatever stands before the bare message, which stays as it is."""
        stream, taker = make(), reader()
        stream.put(QueuedMessage(Message(0).encode()))
        stream.put(QueuedMessage.read(message.encode(), 0, 1000))
        attach(stream, taker)
        got = Message.decode(taker.payloads[1])
        assert type(got.message_annotations[OFFSET]) is int
        assert got.message_annotations == {**message.message_annotations, OFFSET: 1}
        assert (got.body, got.durable, got.priority, got.subject) == (
            message.body,
            message.durable,
            message.priority,
            message.subject,
        )

    @pytest.mark.parametrize("payload", [b"\x00", b"\x00\x53", b"\x00\x53\x70", b"\x00\x53\x70\xc0", b"\xff" * 9])
    def test_what_nobody_can_read(self, make: Make, payload: bytes) -> None:
        """It is in the log as it came."""
        stream, taker = make(), reader()
        stream.put(QueuedMessage(payload))
        attach(stream, taker)
        assert taker.payloads == [payload]

    def test_another_format(self, make: Make) -> None:
        """Nothing is written into it."""
        stream, taker = make(), reader()
        stream.put(QueuedMessage(b"\x00\x53\x75\xa0\x01x", message_format=7))
        attach(stream, taker)
        assert taker.payloads == [b"\x00\x53\x75\xa0\x01x"]


class TestRetention:
    def test_bytes(self, make: Make) -> None:
        """The oldest go; who was to read them goes on with what is there, and the last message stays."""
        stream = make(most_bytes=100)
        slow = reader(credit=0)
        attach(stream, slow)
        fill(stream, *range(10))
        stream.run()
        kept = 100 // (stream.bytes // stream.depth)
        assert (stream.depth, stream.first, stream.enqueued) == (kept, 10 - kept, 10)
        more(stream, slow, 100)
        assert slow.numbers == list(range(10 - kept, 10))
        stream.put(entry(77, b"x" * 1000))
        stream.run()
        assert (stream.depth, stream.first, stream.free > 1_000_000) == (1, 10, True)

    @pytest.mark.parametrize("jump", [-1000.0, 1000.0])
    def test_age_where_the_time_of_day_jumps(self, clock: Clock, jump: float) -> None:
        """A clock that is put right makes no message older or younger."""
        settings = QueueSettings(clock=clock, limits=Limits(), touch=lambda node: None)

        def wall() -> float:
            return clock.now + clock.jumped

        stream = Stream("s", settings, QueueDeclaration(), Retention(age=60.0), wall=wall)
        fill(stream, 1)
        stream.run()
        clock.now += 10
        clock.jumped += jump
        fill(stream, 2)
        stream.run()
        assert stream.expire(clock.now) == clock.now + 50
        assert (stream.first, stream.depth) == (0, 2)
        clock.now += 50
        stream.expire(clock.now)
        assert (stream.first, stream.depth) == (1, 1)

    def test_age(self, make: Make, clock: Clock) -> None:
        """By the clock of the broker; `expire` says when it is time again."""
        stream = make(age=60.0)
        for now in (1000, 1030, 1050):
            clock.now = now
            fill(stream, now % 256)
            stream.run()
        assert (stream.expire(clock.now), stream.first) == (1060, 0)
        clock.now = 1075
        assert (stream.expire(clock.now), stream.first, stream.depth) == (1090, 1, 2)
        clock.now = 9999
        assert (stream.expire(clock.now), stream.first, stream.depth) == (None, 2, 1)

    def test_without_one(self, make: Make) -> None:
        """It fills up as any queue, and takes no more: nothing is dropped that nobody gave up."""
        stream, giver = make(limits=Limits(messages=5, credit=10)), Giver()
        stream.add_producer(giver)
        stream.run()
        assert giver.granted == 5
        giver.give(stream, 5)
        stream.run()
        assert (giver.granted, stream.depth) == (0, 5)

    @pytest.mark.parametrize(
        "arguments",
        [
            {"x-max-age": "1x"},
            {"x-max-age": 5},
            {"x-max-length-bytes": 0},
            {"x-max-length": 5},
            {"x-message-ttl": 5},
            {"x-dead-letter-exchange": "x"},
        ],
    )
    def test_arguments_that_make_no_sense(self, vhost: VirtualHostCore, arguments: dict[str, Any]) -> None:
        """They are refused, as on RabbitMQ, and nothing is there."""
        with pytest.raises(Refused):
            vhost.declare_queue("s", QueueDeclaration(arguments={"x-queue-type": "stream", **arguments}))
        assert vhost.nodes == {}

    def test_purge(self, make: Make) -> None:
        """There is none."""
        stream = make()
        fill(stream, 1)
        with pytest.raises(Refused):
            stream.purge()
        assert stream.depth == 1


class TestStore:
    def declared(self, life: Life, **arguments: Any) -> Stream:
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        stream = life.vhost.declare_queue("s", QueueDeclaration(arguments={"x-queue-type": "stream", **named}))
        assert isinstance(stream, Stream)
        return stream

    def there(self, life: Life) -> Stream:
        stream = life.vhost.nodes["s"]
        assert isinstance(stream, Stream)
        return stream

    def test_offsets_survive(self, begin: Callable[..., Life]) -> None:
        """With retention, and messages that are not durable; what comes goes on counting."""
        life = begin()
        stream = self.declared(life, x_max_length_bytes=100)
        fill(stream, *range(10))
        life.vhost.flush()
        life.store.commit()
        kept, first = stream.depth, stream.first
        again = begin()
        stream, taker = self.there(again), reader()
        attach(stream, taker)
        assert (taker.numbers, offsets(taker)) == (list(range(first, 10)), list(range(first, 10)))
        fill(stream, 10)
        again.vhost.flush()
        assert (offsets(taker)[-1], stream.enqueued, stream.depth) == (10, 11, kept)

    @pytest.mark.parametrize("claimed", [-7, (1 << 63) - 1, (1 << 64) - 1, 5])
    def test_claimed_offset(self, begin: Callable[..., Life], claimed: int) -> None:
        """A message of another format, which the broker stamps nothing on, does not say where the stream goes on."""
        life = begin()
        stream = self.declared(life, x_max_length_bytes=400)
        for number in range(10):
            stream.put(entry(number, b" " * 60))
        forged = Message("x", message_annotations={OFFSET: ULong(claimed) if claimed > 0 else claimed})
        stream.put(QueuedMessage(forged.encode(), 1))
        stream.put(entry(11, b" " * 250))
        life.vhost.flush()
        life.store.commit()
        assert (stream.first, stream.depth) == (10, 2)
        again = begin()
        stream, taker = self.there(again), reader()
        attach(stream, taker)
        fill(stream, 12)
        again.vhost.flush()
        assert (stream.first, stream.enqueued, taker.numbers[1:]) == (10, 13, [11, 12])
        assert [read_annotations(payload)[OFFSET] for payload in taker.payloads[1:]] == [11, 12]

    def test_all_of_other_formats(self, begin: Callable[..., Life]) -> None:
        """Their offsets are beside them in the store, for nothing is written into them."""
        life = begin()
        stream = self.declared(life, x_max_length_bytes=100)
        for number in range(10):
            stream.put(QueuedMessage(bytes([number] * 30), 7))
        life.vhost.flush()
        life.store.commit()
        assert (stream.first, stream.enqueued) == (7, 10)
        stream = self.there(begin())
        assert (stream.first, stream.enqueued) == (7, 10)

    def test_an_older_store(self, begin: Callable[..., Life]) -> None:
        """One of version 5 has the offsets in the messages; it is taken, and has them beside what comes."""
        life = begin()
        stream = self.declared(life, x_max_length_bytes=100)
        fill(stream, *range(10))
        life.vhost.flush()
        life.store.commit()
        first, path = stream.first, life.store.path
        life.store.file.close()
        with closing(sqlite3.connect(path)) as database:
            database.execute("ALTER TABLE messages DROP COLUMN place")
            database.execute("DROP TABLE records")
            database.execute("DROP TABLE clock")
            database.execute("PRAGMA user_version = 5")
            database.commit()
        life = begin()
        stream = self.there(life)
        assert first > 0
        assert (stream.first, stream.enqueued) == (first, 10)
        stream.put(QueuedMessage(b"x" * 90, 7))
        life.vhost.flush()
        life.store.commit()
        assert (stream.first, stream.enqueued) == (10, 11)
        stream = self.there(begin())
        assert (stream.first, stream.enqueued) == (10, 11)

    def test_moments_survive(self, begin: Callable[..., Life]) -> None:
        """Chunks are what they were, and a reader finds them by their time."""
        life = begin()
        stream = self.declared(life)
        moments = []
        for numbers in ((0, 1), (2, 3, 4), (5,)):
            fill(stream, *numbers)
            moments.append(stream._chunks.latest)
            stream.run()
        life.store.commit()
        stream = self.there(begin())
        last, middle = reader(StreamPosition("last")), reader(StreamPosition("moment", moment=moments[1]))
        attach(stream, last, middle)
        assert (last.numbers, middle.numbers) == ([5], [2, 3, 4, 5])

    def test_a_stream_that_is_kept_later(self, begin: Callable[..., Life]) -> None:
        """What was in it before the store was there is kept, too."""
        life = begin()
        stream = self.declared(life)
        shelf, stream.journal = stream.journal, None
        fill(stream, 1, 2)
        assert shelf is not None
        stream.keep(shelf)
        life.store.commit()
        taker = reader()
        attach(self.there(begin()), taker)
        assert taker.numbers == [1, 2]
