"""Messages that are sent again, with the id that they had: nodes drop them, if they are asked to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amqp10 import Connection, Message
from amqp10.broker import Broker
from amqp10.broker._queues.duplicates import RecentIds, duplicate_id
from amqp10.broker._queues.message import QueuedMessage
from amqp10.engine import dialect_names

from ...kit.broker.stored_life import Life

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]


def saying(identity: object, body: str = "x") -> Message:
    return Message(body, durable=True, application_properties={"_AMQ_DUPL_ID": identity})


def test_ids() -> None:
    """Any simple value is one; what says none, or cannot be read, has none."""
    assert duplicate_id(QueuedMessage(saying("a").encode())) == "a"
    assert duplicate_id(QueuedMessage(saying(7).encode())) == 7
    assert duplicate_id(QueuedMessage(saying("a").encode(), message_format=3)) is None
    assert duplicate_id(QueuedMessage(Message("_AMQ_DUPL_ID").encode())) is None
    assert duplicate_id(QueuedMessage(b"\xff_AMQ_DUPL_ID")) is None


def test_long_ids() -> None:
    """An id takes little memory, however long it is, and is still not that of another message."""
    long = {
        kind: duplicate_id(QueuedMessage(saying(kind).encode()))
        for kind in ("x" * 10**6, "x" * 10**6 + "y", b"x" * 10**6)
    }
    assert len(set(long.values())) == 3
    assert all(len(digest) == 32 for _, digest in long.values())
    assert duplicate_id(QueuedMessage(saying("x" * 10**6, "again").encode())) == long["x" * 10**6]


def test_the_last_ones() -> None:
    """So many are remembered, the oldest are forgotten first."""
    recent = RecentIds(2)
    for identity in ("a", None, "b", "c"):
        recent.remember(identity)
    assert [each in recent for each in ("a", "b", "c", None)] == [False, True, True, False]


@pytest.mark.parametrize("dialect", sorted(dialect_names()))
async def test_sent_again(dialect: str) -> None:
    """It is accepted, and dropped; per queue, in every dialect, also when the first one was consumed already."""
    async with Broker(duplicate_ids=10) as broker, Connection(broker.url, dialect=dialect) as connection:
        for queue in ("q", "r"):
            async with connection.sender(queue) as sender, connection.receiver(queue) as receiver:
                for message in (saying("a"), saying("a"), saying("b"), Message("x"), Message("x")):
                    await sender.send(message)
                for _ in range(4):
                    (await receiver.receive()).accept()
                await sender.send(saying("b"))
        assert [(each.enqueued, each.duplicates) for each in broker.queues] == [(4, 2), (4, 2)]


async def test_transactions() -> None:
    """What was rolled back was not sent: it may be sent again."""
    async with Broker(duplicate_ids=10) as broker, broker.connect() as connection, connection.sender("q") as sender:
        with pytest.raises(ZeroDivisionError):
            async with connection.transaction() as transaction:
                await sender.send(saying("a"), transaction=transaction)
                raise ZeroDivisionError
        for _ in range(2):
            async with connection.transaction() as transaction:
                await sender.send(saying("a"), transaction=transaction)
        facts = broker.queue("q")
        assert (facts.depth, facts.duplicates) == (1, 1)


async def test_nobody_asked() -> None:
    """Then the property is one like any other."""
    async with Broker() as broker, broker.connect() as connection, connection.sender("q") as sender:
        for _ in range(2):
            await sender.send(saying("a"))
        assert broker.queue("q").depth == 2


def test_after_a_crash(begin: Callable[..., Life]) -> None:
    """The ids of messages that are still there are known again."""
    life = begin(duplicate_ids=10)
    entries = [QueuedMessage.read(saying("a").encode(), 0, 1000) for _ in range(2)]
    life.queue().take(entries[0])
    life.store.commit()
    again = begin(duplicate_ids=10)
    again.queue().take(entries[1])
    assert (again.queue().depth, again.queue().duplicates) == (1, 1)
