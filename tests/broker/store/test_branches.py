"""Prepared branches over the end of the broker: what was promised is kept, whoever asks for it, and done once."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqp10 import Connection, Message
from amqp10.amqp010 import XAStatus, Xid
from amqp10.broker import Broker
from amqp10.messaging import ACCEPTED, Modified, Outcome, Rejected

from ...kit.broker.branches import BRANCH, Prepared
from ...kit.broker.queue_doubles import Taker
from ...kit.broker.stored_life import Begin, Life
from ...kit.inside.broker import QueuedMessage, Work


def prepare(life: Life, outcome: Outcome = ACCEPTED) -> None:
    """A branch in which one message comes, and the older of two has an outcome; the broker crashes just then."""
    life.put("older", "younger")
    (held, *_) = life.give(Taker(credit=1))
    message = Message("comes", durable=True).encode()
    passing = Message("passing").encode()
    posted = [QueuedMessage.read(each, 0, life.clock.now, life.wall) for each in (message, passing)]
    for entry in posted:
        life.queue().reserve(entry)
    work = Work({life.queue(): posted}, [(life.queue(), held, outcome)])
    assert life.vhost.prepared.prepare("u", BRANCH, Prepared(work))  # type: ignore[arg-type]
    life.store.commit()


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("outcome", [ACCEPTED, Rejected(None), Modified(delivery_failed=True)])
def test_over_a_crash(begin: Begin, commit: bool, outcome: Outcome) -> None:
    """It is there again with what is durable of it, nobody has the message that it holds, and its end is once."""
    prepare(begin(), outcome)
    life = begin()
    assert life.vhost.prepared.of("u") == (BRANCH,)
    assert life.vhost.prepared.of(None) == ()
    assert life.bodies() == ["younger"]
    assert life.queue().reserved == 1
    assert life.vhost.prepared.complete("u", BRANCH, commit=commit) is True
    life.store.commit()
    again = ["older"] if not commit or isinstance(outcome, Modified) else []
    comes = ["comes"] if commit else []
    assert life.bodies() == [*again, "younger", *comes]
    assert life.queue().reserved == 0
    life = begin()
    assert life.vhost.prepared.of("u") == ()
    assert life.bodies() == [*again, "younger", *comes]
    assert life.vhost.prepared.complete("u", BRANCH, commit=True) is None


def test_the_end_is_not_written(begin: Begin) -> None:
    """The broker crashes after a commit that nobody was told of: the branch waits still, and nothing of it happened."""
    prepare(begin())
    life = begin()
    assert life.vhost.prepared.complete("u", BRANCH, commit=True)
    life = begin()
    assert life.vhost.prepared.of("u") == (BRANCH,)
    assert life.bodies() == ["younger"]


def test_the_queue_is_deleted(begin: Begin) -> None:
    """What was promised cannot be done any more: it is rolled back."""
    prepare(begin())
    life = begin()
    life.vhost.delete(life.queue())
    life.store.commit()
    life = begin()
    assert life.vhost.prepared.complete("u", BRANCH, commit=True) is False
    assert life.bodies() == []


def test_a_commit_is_whole(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that its queue cannot handle is in the quarantine in the same commit, and the rest is done."""
    prepare(begin())
    life = begin()

    def fails(_: QueuedMessage) -> None:
        raise ValueError("what nobody thought of")

    monkeypatch.setattr(life.queue(), "insert", fails)
    assert life.vhost.prepared.complete("u", BRANCH, commit=True) is True
    life.store.commit()
    life = begin()
    assert life.vhost.prepared.of("u") == ()
    assert (life.bodies(), life.queue().reserved) == (["younger"], 0)
    (aside,) = life.vhost.quarantine
    assert Message.decode(aside.payload).body == "comes"
    life.vhost.quarantine.release(aside.number)
    assert life.bodies() == ["younger", "comes"]


@pytest.mark.anyio
async def test_on_the_wire(anyio_backend: str, tmp_path: Path) -> None:
    """A client prepares on one broker, and recovers and commits on the next."""
    xid = Xid(*BRANCH)
    store = tmp_path / "store"
    async with Broker(store=store) as broker, Connection(broker.url, dialect="0-10") as connection:
        async with connection.sender("q") as sender:
            await sender.send(Message("first", durable=True))
        async with connection.native.xa() as xa:
            await xa.start(xid)
            async with xa.session.sender("q") as sender, xa.session.receiver("q", credit=1) as receiver:
                (await receiver.receive()).accept()
                await sender.send(Message("second", durable=True))
                await xa.end(xid)
            assert await xa.prepare(xid) is XAStatus.OK
    async with Broker(store=store) as broker, Connection(broker.url, dialect="0-10") as connection:
        async with connection.native.xa() as xa:
            assert await xa.recover() == [xid]
            assert await xa.commit(xid) is XAStatus.OK
        async with connection.receiver("q") as receiver:
            with await receiver.receive() as message:
                assert message.body == "second"
            assert receiver.buffered == 0


@pytest.mark.anyio
async def test_over_before_the_end(anyio_backend: str, tmp_path: Path) -> None:
    """What one broker has prepared and committed is over for the next, which has nothing to commit again."""
    xid = Xid(*BRANCH)
    store = tmp_path / "store"
    async with Broker(store=store) as broker, Connection(broker.url, dialect="0-10") as connection:
        async with connection.native.xa() as xa:
            await xa.start(xid)
            async with xa.session.sender("q") as sender:
                await sender.send(Message("once", durable=True))
                await xa.end(xid)
            assert await xa.prepare(xid) is XAStatus.OK
            assert await xa.commit(xid) is XAStatus.OK
    async with Broker(store=store) as broker, Connection(broker.url, dialect="0-10") as connection:
        async with connection.native.xa() as xa:
            assert await xa.recover() == []
        async with connection.receiver("q") as receiver:
            with await receiver.receive() as message:
                assert message.body == "once"
