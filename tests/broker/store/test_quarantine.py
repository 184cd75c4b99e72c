"""Rows that cannot be restored, and messages that were set aside: the broker begins without them, and keeps them."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from amqp10.broker import QuarantinedMessage
from amqp10.broker._store.tables import MessageRow, NodeRow, QuarantineRow, SubscriptionRow, WorkRow
from amqp10.errors import StoreError
from amqp10.messaging import ACCEPTED, Message, Source, Target
from amqp10.types import encode

from ...kit.broker.branches import BRANCH, Prepared
from ...kit.broker.queue_doubles import Taker
from ...kit.broker.stored_life import Begin, Life, crash
from ...kit.broker.wire import Wire
from ...kit.inside.broker import QueueDeclaration, QueuedMessage, Work

FAULT = ValueError("what nobody thought of")


def rich(life: Life) -> None:
    """Make a store with a row in each table."""
    vhost, topology = life.vhost, life.vhost.topology
    queue = vhost.declare_queue("q", QueueDeclaration(arguments={"x-max-length": 100}))
    vhost.declare_queue("s", QueueDeclaration(arguments={"x-queue-type": "stream"}))
    topology.bind(topology.declare("e", "topic", durable=True), queue, "a.*", {"n": 1})
    wire = Wire(vhost)
    wire.receive_from(Source("topic.t", durable="configuration", expiry_policy="never"), name="subscription")
    life.put("by a link", "by a branch", "third")
    wire.receive_from(Source("q", expiry_policy="never"), name="work", credit=1)
    sender = wire.send_to(Target("plain", expiry_policy="never"), name="orders", receiver_settle_mode="second")
    payload = Message("in a topic", durable=True).encode()
    sender.send(payload)
    wire.server.receive_data(wire.client.data_to_send())  # and the answer is lost
    wire.peer.handle(wire.server.events())
    vhost.nodes["topic.t"].put(QueuedMessage.read(payload, 0, life.clock.now, life.wall))
    vhost.nodes["s"].put(QueuedMessage.read(payload, 0, life.clock.now, life.wall))
    (held,) = life.give(Taker(1))
    posted = QueuedMessage.read(payload, 0, life.clock.now, life.wall)
    queue.reserve(posted)
    work = Work({queue: [posted]}, [(queue, held, ACCEPTED)])
    assert vhost.prepared.prepare("u", BRANCH, Prepared(work))  # type: ignore[arg-type]
    life.clock.jumped += 1000
    life.store.commit()


def damaged(begin: Begin, tmp_path: Path, *statements: str) -> Life:
    """Make such a store, damage it, and begin again."""
    life = begin()
    rich(life)
    life.store.file.close()
    with closing(sqlite3.connect(tmp_path / "store")) as database:
        for statement in statements:
            assert database.execute(statement).rowcount, statement
        database.commit()
    return begin()


def found(life: Life) -> list[QuarantinedMessage]:
    return list(life.vhost.quarantine)


def tables(life: Life) -> set[str]:
    """From which tables there are rows in the quarantine."""
    return {str(row.origin) for row in life.store.file.rows(QuarantineRow)}


def test_nothing_is_wrong(begin: Begin, tmp_path: Path) -> None:
    """A store that nobody damaged has a row in each table, but for records of Azure, and fills no quarantine."""
    life = damaged(begin, tmp_path)
    with closing(sqlite3.connect(f"file:{tmp_path / 'store'}?immutable=1", uri=True)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    counts = {name: life.store.file.run(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names}
    assert [name for name, count in counts.items() if not count] == ["quarantine", "records"]
    assert found(life) == []
    assert life.bodies() == ["third"]
    assert (life.queue().unsettled, life.queue().reserved) == (2, 1)


SUBSCRIPTION = "topic, owned, identity, container, name, kind, source, deadline"
DAMAGE = {
    "messages": (
        "UPDATE messages SET payload = x'005370ff'",  # a header that is none
        "UPDATE messages SET payload = 'text'",
        "UPDATE messages SET queue = 99",
        "UPDATE messages SET queue = (SELECT number FROM nodes WHERE kind = 'topic')",
        "UPDATE messages SET format = -1",
        "UPDATE messages SET format = 'seven'",
        "UPDATE messages SET expires = x'00'",
        "UPDATE messages SET failures = 'often'",
    ),
    "nodes": (
        "UPDATE nodes SET name = '' WHERE name = 'q'",
        "UPDATE nodes SET kind = 'river' WHERE name = 's'",
        "UPDATE nodes SET name = x'ff' WHERE name = 'topic.t'",
        "UPDATE nodes SET name = CAST(x'ff' AS TEXT) WHERE name = 'q'",
    ),
    "clock": (
        "UPDATE clock SET ahead = 'late'",
        "UPDATE clock SET ahead = 9e999",
    ),
    "declarations": (
        "UPDATE declarations SET number = number + 50",
        "UPDATE declarations SET arguments = 'none'",
    ),
    "exchanges": (
        "UPDATE exchanges SET kind = 'roundabout'",
        "UPDATE exchanges SET name = 'amq.mine'",
        "UPDATE exchanges SET name = 'amq.topic'",
        "UPDATE exchanges SET arguments = x'a103616263'",  # no map
        "UPDATE exchanges SET arguments = x'ff'",
    ),
    "bindings": (
        "UPDATE bindings SET exchange = 'gone'",
        "UPDATE bindings SET destination = 'gone'",
        "UPDATE bindings SET exchange = 'amq.headers', arguments = x'c11302a107782d6d61746368a106617272617979'",
        "UPDATE bindings SET arguments = x'd1'",
    ),
    "subscriptions": (
        "UPDATE subscriptions SET source = x'ff'",
        "UPDATE subscriptions SET source = x'40'",
        "UPDATE subscriptions SET topic = 'q'",
        f"INSERT INTO subscriptions SELECT number + 9, {SUBSCRIPTION} FROM subscriptions",
    ),
    "links": (
        "UPDATE links SET policy = 'whenever'",
        "UPDATE links SET direction = 'sideways'",
        "UPDATE links SET node = 99",
        "INSERT INTO links SELECT number + 50, identity, container, name, direction, node, policy, timeout FROM links",
    ),
    "deliveries": (
        "UPDATE deliveries SET outcome = x'ff' WHERE message IS NULL",
        "UPDATE deliveries SET outcome = x'40' WHERE message IS NULL",
        "UPDATE deliveries SET message = 99 WHERE message IS NOT NULL",
        "UPDATE deliveries SET link = 99",
        "UPDATE deliveries SET tag = 'text'",
        "UPDATE deliveries SET tag = CAST(x'ff' AS TEXT), link = 99 WHERE message IS NOT NULL",
        "UPDATE deliveries SET message = (SELECT max(number) FROM messages) WHERE message IS NOT NULL",
    ),
    "branches": (
        "UPDATE branches SET global_id = 'text'",
        "INSERT INTO branches SELECT number + 50, identity, format, global_id, branch_id FROM branches",
    ),
    "work": (
        "UPDATE work SET outcome = x'ff' WHERE message IS NOT NULL",
        "UPDATE work SET outcome = NULL WHERE message IS NOT NULL",
        "UPDATE work SET payload = x'005370ff' WHERE message IS NULL",
        "UPDATE work SET branch = 99",
    ),
}


@pytest.mark.parametrize(("table", "statement"), [(table, each) for table, all_ in DAMAGE.items() for each in all_])
def test_what_cannot_be_restored(
    begin: Begin, tmp_path: Path, caplog: pytest.LogCaptureFixture, table: str, statement: str
) -> None:
    """The broker begins, has the row in the quarantine and in the log, and all messages; so in the next life."""
    before = {b"by a link", b"by a branch", b"third", b"in a topic"}
    life = damaged(begin, tmp_path, statement)
    first = found(life)
    assert first
    assert all(each.durable and "could not be restored" in each.reason for each in first)
    assert any(
        each.levelno == logging.ERROR and f"a row of {table}, number" in each.getMessage() for each in caplog.records
    )
    life = crash(begin, life)
    assert table in tables(life)
    assert found(life) == first, "not the same in the next life"
    if table != "messages":  # where their content is what is damaged
        kept = b"".join([*(each.payload for each in found(life)), *_everything(life)])
        assert all(body in kept for body in before)
    life.put("goes on", name="plain")
    assert life.bodies("plain")[-1] == "goes on"


def _everything(life: Life) -> list[bytes]:
    """The messages in all that was restored."""
    file = life.store.file
    known = {row.number for row in file.rows(NodeRow)} | {row.number for row in file.rows(SubscriptionRow)}
    prepared = [row.payload or b"" for row in file.rows(WorkRow)]
    return [*prepared, *(row.payload for row in file.rows(MessageRow) if row.queue in known)]


def test_all_at_once(begin: Begin, tmp_path: Path) -> None:
    """Whatever is wrong at a time: the broker begins."""
    statements = [all_[0] for all_ in DAMAGE.values()]
    life = damaged(begin, tmp_path, *statements)
    count = len(found(life))
    assert count >= len(DAMAGE)
    assert len(found(crash(begin, life))) == count


@pytest.mark.parametrize("where", ["nodes", "subscriptions"])
def test_messages_of_what_is_gone(begin: Begin, tmp_path: Path, where: str) -> None:
    """Messages whose queue cannot be restored are read, released and dropped in the quarantine, and stay so."""
    name = {"nodes": "q", "subscriptions": "subscription"}[where]
    damage = {
        "nodes": "UPDATE declarations SET arguments = x'40' WHERE number = (SELECT number FROM nodes WHERE name = 'q')",
        "subscriptions": "UPDATE subscriptions SET source = x'40'",
    }
    life = damaged(begin, tmp_path, damage[where])
    messages = [each for each in found(life) if each.node == name]
    bodies = [Message.decode(each.payload).body for each in messages]
    assert bodies == (["by a link", "by a branch", "third"] if where == "nodes" else ["in a topic"])
    quarantine = life.vhost.quarantine
    with pytest.raises(ValueError, match="no longer exists"):
        quarantine.release(messages[0].number)
    quarantine.release(messages[0].number, to="rescued")
    for each in found(life):
        if each.node == "" or each in messages[1:]:
            quarantine.drop(each.number)
    life = crash(begin, life)
    assert life.bodies("rescued") == bodies[:1]
    assert [each for each in found(life) if each.node == name] == []


def test_a_row_can_be_read(begin: Begin, tmp_path: Path) -> None:
    """What is no message is in the quarantine as one, its columns a map in the body."""
    life = damaged(begin, tmp_path, "UPDATE bindings SET destination = 'gone'")
    (row,) = found(life)
    body = Message.decode(row.payload).body
    assert isinstance(body, dict)
    assert (body["exchange"], body["destination"], body["key"]) == ("e", "gone", "a.*")
    assert body["arguments"] == encode({"n": 1})
    life.vhost.quarantine.release(row.number, to="looked at")
    assert crash(begin, life).bodies("looked at") == [body]


def test_set_aside_while_it_ran(begin: Begin) -> None:
    """A durable message that was set aside is in the quarantine of the next broker, and not in its queue."""
    life = begin()
    life.put("bad", "good")
    life.put("passing", durable=False)
    life.store.commit()
    bad, _, passing = life.queue()._waiting.available()
    life.queue().set_aside(bad, FAULT)
    life.queue().set_aside(passing, FAULT)
    assert len(found(life)) == 2
    life = crash(begin, life)
    assert life.bodies() == ["good"]
    (message,) = found(life)
    assert Message.decode(message.payload).body == "bad"
    assert (message.node, message.reason) == ("q", "ValueError: what nobody thought of")
    life.vhost.quarantine.release(message.number)
    life = crash(begin, life)
    assert (found(life), life.bodies()) == ([], ["good", "bad"])
    life.queue().set_aside(life.queue()._waiting.available()[0], FAULT)
    life = crash(begin, life)
    life.vhost.quarantine.drop(found(life)[0].number)
    life = crash(begin, life)
    assert (found(life), life.bodies()) == ([], ["bad"])


@pytest.mark.slow
def test_what_a_store_brought_is_not_pushed_out(begin: Begin) -> None:
    """However much is set aside later, what was confirmed and came from the store stays."""
    life = begin()
    life.put("kept")
    life.queue().set_aside(life.queue()._waiting.available()[0], FAULT)
    life = crash(begin, life)
    quarantine = life.vhost.quarantine
    for _ in range(10_010):
        quarantine.set_aside("q", b"", 0, FAULT)
    assert len(quarantine) == 10_001
    assert Message.decode(found(life)[0].payload).body == "kept"


def test_far_away(begin: Begin, tmp_path: Path) -> None:
    """Times beyond all computing are as good as for ever."""
    life = damaged(begin, tmp_path, "UPDATE messages SET expires = 9e999, failures = 1 << 62")
    taker = Taker(1)
    life.give(taker)
    assert Message.decode(taker.payloads[0]).body == "third"
    life.vhost.expire()
    crash(begin, life)


def test_numbers_are_used_up(begin: Begin, tmp_path: Path) -> None:
    """A file whose numbers leave none for what is to come is refused, before it is too late."""
    with pytest.raises(StoreError, match="no number is left for new rows"):
        damaged(begin, tmp_path, f"UPDATE nodes SET number = {2**63 - 1} WHERE name = 's'")
