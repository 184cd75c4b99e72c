"""What a virtual host's store has when the broker begins again, and when. It ends as a process does: without notice."""

from __future__ import annotations

import itertools
import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest

from amqp10.broker._store.load import load
from amqp10.broker._store.store import Store
from amqp10.broker._store.tables import MessageRow
from amqp10.errors import StoreError
from amqp10.messaging import ACCEPTED, RELEASED, Modified, Rejected
from amqp10.types import Symbol

from ...kit.broker.queue_doubles import Taker
from ...kit.broker.stored_life import Begin
from ...kit.clock import Clock
from ...kit.inside.broker import QueuedMessage, VirtualHostCore

pytestmark = pytest.mark.capability("broker store")


def test_messages_come_back(begin: Begin) -> None:
    """Durable messages are there again in order, each queue with its own; others are not."""
    life = begin()
    life.put(1, 2)
    life.put("not", durable=False)
    life.put("other", name="r")
    life.put(3)
    life.store.commit()
    life = begin()
    assert (life.bodies(), life.bodies("r")) == ([1, 2, 3], ["other"])
    assert life.queue().depth == 3


def test_only_what_is_committed(begin: Begin) -> None:
    """What was not committed is not there."""
    life = begin()
    life.put(1)
    life.store.commit()
    life.put(2)
    assert begin().bodies() == [1]


@pytest.mark.parametrize("replaced", [False, True])
def test_the_file_was_moved(begin: Begin, tmp_path: Path, replaced: bool) -> None:
    """What is written into a file that nobody would find again is not committed; it is, once the file is back."""
    life = begin()
    life.put(1)
    life.store.commit()
    path, elsewhere = Path(life.store.path), tmp_path / "elsewhere"
    path.rename(elsewhere)
    if replaced:
        path.write_bytes(elsewhere.read_bytes())
    life.put(2)
    for _ in range(2):
        with pytest.raises(sqlite3.OperationalError, match="moved or removed while it was open"):
            life.store.commit()
    elsewhere.replace(path)
    life.store.commit()
    assert begin().bodies() == [1, 2]


def test_nodes_come_back(begin: Begin) -> None:
    """Queues and topics are there again, as what they were; temporary ones are not."""
    life = begin()
    life.vhost.declare("t", "topic")
    life.vhost.declare("topic.q", "queue")
    life.vhost.temporary()
    life.store.commit()
    kinds = {name: type(node).__name__ for name, node in begin().vhost.nodes.items()}
    assert kinds == {"t": "Topic", "topic.q": "Queue"}


def test_another_kind_was_declared(begin: Begin, tmp_path: Path, clock: Clock) -> None:
    """A store with a queue of that name does not go with a broker that has it as a topic."""
    life = begin()
    life.queue()
    life.store.commit()
    life.store.file.close()
    vhost = VirtualHostCore(clock=clock)
    vhost.declare("q", "topic")
    store = Store(str(tmp_path / "store"), clock)
    with pytest.raises(StoreError, match="'q' is not a queue"):
        load(store, vhost)
    store.file.close()


def test_declared_before(begin: Begin, tmp_path: Path, clock: Clock) -> None:
    """What was declared before the store was opened is kept, too."""
    begin().store.file.close()
    vhost = VirtualHostCore(clock=clock)
    vhost.declare("early", "queue")
    store = Store(str(tmp_path / "store"), clock)
    load(store, vhost)
    store.commit()
    store.close()
    assert list(begin().vhost.nodes) == ["early"]


def test_accepted_are_gone(begin: Begin) -> None:
    """What a consumer accepted does not come again; neither does what was given settled."""
    life = begin()
    life.put(1, 2, 3)
    life.store.commit()
    taker = Taker(1)
    life.queue().settle(life.give(taker)[0], taker, ACCEPTED)
    life.give(Taker(1, settles=True))
    life.store.commit()
    assert begin().bodies() == [3]


def test_in_and_out_writes_nothing(begin: Begin) -> None:
    """A message that came and went between two commits is never written."""
    life = begin()
    life.queue().add_consumer(Taker(5, settles=True))
    life.queue().in_line(next(iter(life.queue().consumers.values())))
    life.put(1)
    life.vhost.flush()
    life.store.commit()
    assert list(life.store.file.rows(MessageRow)) == []


def test_held_count_as_attempts(begin: Begin) -> None:
    """What a consumer held comes first again, with a delivery-count; what was released before has none."""
    life = begin()
    life.put(1, 2, 3)
    life.store.commit()
    taker = Taker(2)
    second = life.give(taker)[1]
    life.store.commit()
    life.queue().settle(second, taker, RELEASED)
    life.store.commit()
    life = begin()
    assert [(message.body, message.delivery_count) for message in life.messages()] == [(1, 1), (2, 0), (3, 0)]
    life.store.commit()
    assert [message.delivery_count for message in begin().messages()] == [1, 0, 0]


def test_attempts_end_at_the_limit(begin: Begin) -> None:
    """The attempt that a crash ended may have been the last one: the message is a dead letter then, once."""
    life = begin(max_delivery_count=2)
    life.put("poison", delivery_count=1)
    life.give(Taker(1))
    life.store.commit()
    for _ in range(2):
        life = begin(max_delivery_count=2)
        assert life.bodies() == []
        (dead,) = life.messages("dead-letter")
        assert dead.body == "poison"
        assert dead.message_annotations is not None
        assert dead.message_annotations[Symbol("x-opt-dead-letter-reason")] == "max-delivery-count"
        life.store.commit()


@pytest.mark.parametrize("committed", [False, True])
def test_dead_letters_move_in_one_commit(begin: Begin, committed: bool) -> None:
    """A rejected message is in its queue or in that of dead letters, whenever the broker ends."""
    life = begin()
    life.put(1)
    life.store.commit()
    taker = Taker(1)
    life.queue().settle(life.give(taker)[0], taker, Rejected())
    if committed:
        life.store.commit()
    life = begin()
    assert (life.bodies(), life.bodies("dead-letter")) == (([], [1]) if committed else ([1], []))


def test_changes_are_kept(begin: Begin) -> None:
    """Annotations and attempts of `modified` are there again."""
    life = begin()
    life.put(1)
    life.store.commit()
    taker = Taker(1)
    outcome = Modified(delivery_failed=True, message_annotations={Symbol("x-opt-why"): "tired"})
    life.queue().settle(life.give(taker)[0], taker, outcome)
    life.store.commit()
    (message,) = begin().messages()
    assert (message.delivery_count, message.message_annotations) == (1, {"x-opt-why": "tired"})


def test_changed_while_it_is_written(begin: Begin) -> None:
    """What changes between the writing of a row and its commit is written with the next one."""
    life = begin()
    life.put(1, 2, 3)
    list(life.store._begin())
    taker = Taker(3)
    first, second, _ = life.give(taker)
    life.queue().settle(first, taker, ACCEPTED)
    life.queue().settle(second, taker, Modified(message_annotations={Symbol("x-opt-n"): 2}))
    life.store.file.commit()
    life.store._succeeded()
    life.store.commit()
    second_message, third = begin().messages()
    assert (second_message.body, second_message.message_annotations) == (2, {"x-opt-n": 2})
    assert (third.body, third.delivery_count) == (3, 1)


def test_time_goes_on(begin: Begin, clock: Clock) -> None:
    """A message lives as long as it was to live, by the time of day; what died in between is gone."""
    life = begin()
    life.put("long", ttl=timedelta(seconds=100))
    life.put("short", ttl=timedelta(seconds=10))
    life.put("always")
    life.store.commit()
    clock.now += 30
    life = begin()
    life.vhost.expire()
    assert [(message.body, message.ttl) for message in life.messages()] == [
        ("long", timedelta(seconds=70)),
        ("always", None),
    ]


@pytest.mark.parametrize("jump", [-100_000.0, 100_000.0])
@pytest.mark.parametrize("closed", [False, True])
def test_the_time_of_day_jumps(begin: Begin, clock: Clock, jump: float, closed: bool) -> None:
    """A message lives as long as it was to live: a clock that was wrong and is put right ends it no sooner or later."""
    life = begin()
    life.put("long", ttl=timedelta(seconds=100))
    life.put("short", ttl=timedelta(seconds=10))
    life.store.commit()
    clock.jumped += jump
    clock.now += 5
    if closed:
        life.store.close()
    else:
        life.put("later", ttl=timedelta(seconds=100))
        life.store.commit()
    clock.now += 30
    for _ in range(2):
        life = begin()
        life.vhost.expire()
        assert life.messages()[0].ttl == timedelta(seconds=65)
        assert life.bodies() == (["long"] if closed else ["long", "later"])
    clock.now += 64
    life = begin()
    life.vhost.expire()
    assert life.bodies() == (["long"] if closed else ["long", "later"])
    clock.now += 2
    life.vhost.expire()
    assert life.bodies() == ([] if closed else ["later"])


def test_other_formats(begin: Begin) -> None:
    """A message of a format that nobody here can read is kept as if it were durable, as it came."""
    life = begin()
    life.queue().put(QueuedMessage(b"not AMQP", 7))
    life.store.commit()
    taker = Taker(1)
    (entry,) = begin().give(taker)
    assert (entry.payload, entry.message_format) == (b"not AMQP", 7)


def test_deleted_queue(begin: Begin) -> None:
    """A queue that is deleted is gone with its messages, those that were not written yet among them."""
    life = begin()
    life.put(1)
    life.store.commit()
    life.put(2)
    life.vhost.delete(life.queue())
    life.store.commit()
    life = begin()
    assert life.vhost.nodes == {}
    assert list(life.store.file.rows(MessageRow)) == []


def test_numbers_go_on(begin: Begin) -> None:
    """What comes after a crash stands behind what was there, through any number of lives."""
    for number in itertools.islice(itertools.count(), 4):
        life = begin()
        assert life.bodies() == list(range(number))
        life.put(number)
        life.store.commit()


@pytest.mark.parametrize("where", ["begin", "put", "commit"])
def test_a_failed_commit_is_tried_again(begin: Begin, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the disk is full nothing counts as committed, and nothing is forgotten."""
    life = begin()
    alarms = []
    life.store.on_failure = lambda: alarms.append(life.store.failure)
    life.put(1, 2)
    life.store.commit()
    taker = Taker(2)
    first, second = life.give(taker)
    life.queue().settle(first, taker, ACCEPTED)
    life.queue().settle(second, taker, Modified(message_annotations={Symbol("x-opt-n"): 2}))
    life.put(3)

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(life.store.file, where, full)
        for _ in range(2):
            with pytest.raises(sqlite3.OperationalError):
                life.store.commit()
    assert [str(error) for error in alarms] == ["database or disk is full"]
    life.put(4)
    life.store.commit()
    assert life.store.failure is None
    messages = begin().messages()
    assert [message.body for message in messages] == [2, 3, 4]
    assert messages[0].message_annotations == {"x-opt-n": 2}


def test_close_writes_the_rest(begin: Begin) -> None:
    """Closing in order commits what is noted; if that fails it is as if the process had ended."""
    life = begin()
    life.put(1)
    life.store.close()
    life = begin()
    life.put(2)
    life.store.file.rollback()
    life.store.file.run("PRAGMA max_page_count = 1")
    life.put(b"x" * 100_000)
    life.store.close()
    assert begin().bodies() == [1]
