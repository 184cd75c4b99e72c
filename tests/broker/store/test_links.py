"""Exactly once through crashes of the broker: links resumed by clients whose broker had nothing but its store."""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import Any

import pytest

from amqp10.broker._store.tables import DeliveryRow, LinkRow, MessageRow
from amqp10.engine import DeliveriesReceived, DeliveriesUnresumed, LinkTerms, OutgoingDelivery, ReceiverLink, SenderLink
from amqp10.messaging import ACCEPTED, Accepted, Message, Source, Target

from ...kit.broker.stored_life import Begin, Life
from ...kit.broker.wire import Wire
from ...kit.clock import Clock

pytestmark = pytest.mark.capability("exactly once")

BODIES = [1, 2, 3]
KEPT: dict[str, Any] = {"expiry_policy": "connection-close", "timeout": 60}


class Line:
    """A client's connection to one life of the broker, and what passes on it step by step.

    Three steps are one pass: the broker reads and acts, commits, and writes what it has to say. A crash may come after
    each of them.
    """

    def __init__(self, life: Life) -> None:
        self.life = life
        self.wire = Wire(life.vhost)
        self.turn()

    def step(self, number: int) -> None:
        wire = self.wire
        match number % 3:
            case 0:
                wire.server.receive_data(wire.client.data_to_send())
                wire.peer.handle(wire.server.events())
            case 1:
                self.life.store.commit()
            case 2:
                wire.client.receive_data(wire.server.data_to_send())
                self.told(wire.client.events())

    def told(self, events: list[Any]) -> None:
        """The client acts on what happened."""
        assert not any(isinstance(event, DeliveriesUnresumed) for event in events)
        for event in events:
            if isinstance(event, DeliveriesReceived):
                while event.link.incoming:
                    delivery = event.link.incoming.popleft()
                    self.processed(Message.decode(delivery.payload).body)
                    event.link.settle(delivery, ACCEPTED)

    def processed(self, body: object) -> None:
        raise AssertionError(f"nobody receives, and {body} came")

    def turn(self) -> None:
        for number in range(30):
            self.step(number)

    def lose(self) -> None:
        """The client's side of the end."""
        self.wire.client.receive_eof()
        self.wire.client.events()


def unsettled_rows(life: Life) -> int:
    return len(list(life.store.file.rows(DeliveryRow)))


@pytest.mark.spec("2.6.13", "a delivery resumed after the loss of its link arrives exactly once, as sender")
@pytest.mark.parametrize("mode", ["first", "second"])
@pytest.mark.parametrize("address", ["q", "topic.t", None])
@pytest.mark.parametrize("steps", range(16))
def test_sent_exactly_once(begin: Begin, steps: int, address: str | None, mode: str) -> None:
    """The broker ends after any step of taking messages in; in mode "second" each is there once when all is done."""

    def attach(line: Line, resuming: list[OutgoingDelivery] | None) -> SenderLink:
        target = Target(address, durable="unsettled-state", **KEPT)
        terms = LinkTerms("orders", source=Source(), target=target, receiver_settle_mode=mode)  # type: ignore[arg-type]
        link = line.wire.session.attach_sender(terms, resuming=resuming)
        line.turn()
        assert link.remote is not None
        assert isinstance(link.remote.target, Target)
        assert link.remote.target.durable == "unsettled-state"
        return link

    life = begin()
    line = Line(life)
    subscription = Source("topic.t", durable="configuration", expiry_policy="never")
    line.wire.receive_from(subscription, name="s").detach(closed=False)
    line.turn()
    link = attach(line, None)
    deliveries = [link.send(Message(body, durable=True, to="q").encode()) for body in BODIES]
    for number in range(steps):
        line.step(number)
    line.lose()
    life = begin()
    line = Line(life)
    if mode == "first":
        # A sender whose receiver settles first cannot know; it may ask for what was neither told nor refused.
        line.told = lambda events: None  # type: ignore[method-assign]
    link = attach(line, link.suspended())
    line.turn()
    name = "q" if address != "topic.t" else life.vhost.nodes["topic.t"].subscriptions  # type: ignore[attr-defined]
    if isinstance(name, str):
        found = life.bodies(name)
    else:
        (queue,) = name.values()
        found = [Message.decode(entry.payload).body for entry in queue._waiting.available()]
    if mode == "second":
        assert found == BODIES
        assert all(isinstance(delivery.remote_state, Accepted) for delivery in deliveries)
    else:
        assert set(found) <= set(BODIES)
        assert max(Counter(found).values(), default=1) == 1
    assert unsettled_rows(life) == 0


@pytest.mark.spec("2.6.13", "a delivery resumed after the loss of its link arrives exactly once, as receiver")
@pytest.mark.parametrize("address", ["q", "topic.t"])
@pytest.mark.parametrize("steps", range(20))
def test_received_exactly_once(begin: Begin, steps: int, address: str) -> None:
    """The broker ends after any step of giving messages out: the receiver sees each once, and none is left."""
    seen: list[object] = []

    def attach(line: Line, resuming: list[Any] | None) -> ReceiverLink:
        line.processed = seen.append  # type: ignore[assignment]
        source = Source(address, durable="unsettled-state", **KEPT)
        terms = LinkTerms("work", source=source, target=Target(), receiver_settle_mode="second")
        return line.wire.session.attach_receiver(terms, resuming=resuming)

    life = begin()
    line = Line(life)
    link = attach(line, None)
    line.turn()
    assert link.remote is not None
    assert link.remote.source is not None
    assert link.remote.source.durable == "unsettled-state"
    sender = line.wire.send_to(address)
    for body in BODIES:
        sender.send(Message(body, durable=True).encode())
    line.turn()
    link.flow(10)
    for number in range(steps):
        line.step(number)
    line.lose()
    life = begin()
    line = Line(life)
    link = attach(line, link.suspended())
    link.flow(10)
    line.turn()
    assert seen == BODIES
    assert link.unsettled == {}
    assert list(life.store.file.rows(MessageRow)) == []
    assert unsettled_rows(life) == 0


def test_not_durable_are_sent_again(begin: Begin) -> None:
    """The outcome of a message that is not durable is lost with it: who resumes sends it again, and it is there."""

    def attach(line: Line, resuming: list[OutgoingDelivery] | None) -> SenderLink:
        terms = LinkTerms("s", source=Source(), target=Target("q", **KEPT), receiver_settle_mode="second")
        link = line.wire.session.attach_sender(terms, resuming=resuming)
        line.turn()
        return link

    line = Line(begin())
    link = attach(line, None)
    delivery = link.send(Message("volatile").encode())
    line.step(0)
    line.step(1)
    assert line.life.bodies() == ["volatile"]
    line.lose()
    life = begin()
    assert life.bodies() == []
    attach(Line(life), link.suspended())
    assert life.bodies() == ["volatile"]
    assert isinstance(delivery.remote_state, Accepted)


def receive_two(line: Line) -> ReceiverLink:
    """A link that can be resumed and holds two messages, which are on the disk as held."""
    sender = line.wire.send_to("q")
    for body in BODIES:
        sender.send(Message(body, durable=True).encode())
    sender.send(Message("volatile").encode())
    line.told = lambda events: None  # type: ignore[method-assign]
    link = line.wire.receive_from(Source("q", **KEPT), name="work", credit=2, receiver_settle_mode="second")
    line.turn()
    assert len(link.incoming) == 2
    return link


def test_held_for_the_link(begin: Begin, clock: Clock) -> None:
    """What a link holds is nobody else's, until its time is up; then it was an attempt, and comes first again."""
    receive_two(Line(begin()))
    life = begin()
    assert life.bodies() == [3]
    assert life.queue().unsettled == 2
    clock.now += 61
    life.vhost.expire()
    assert [(message.body, message.delivery_count) for message in life.messages()] == [(1, 1), (2, 1), (3, 0)]
    life.store.commit()
    assert unsettled_rows(life) == 0
    assert begin().bodies() == [1, 2, 3]


def test_begun_anew(begin: Begin) -> None:
    """A link of that name that resumes nothing ends what was kept: the messages come again at once."""
    receive_two(Line(begin()))
    life = begin()
    line = Line(life)
    line.told = lambda events: None  # type: ignore[method-assign]
    link = line.wire.receive_from(Source("q", **KEPT), name="work", credit=3, receiver_settle_mode="second")
    line.turn()
    found = [Message.decode(delivery.payload) for delivery in link.incoming]
    assert [(message.body, message.delivery_count) for message in found] == [(1, 1), (2, 1), (3, 0)]


def test_closed_links_are_forgotten(begin: Begin) -> None:
    """A closing detach leaves nothing of a link in the store; neither does the end of its queue."""
    line = Line(begin())
    link = receive_two(line)
    link.detach(closed=True)
    line.turn()
    assert unsettled_rows(line.life) == 0
    assert list(line.life.store.file.rows(LinkRow)) == []
    line = Line(begin())
    receive_two(line)
    line.life.vhost.delete(line.life.queue())
    line.turn()
    assert unsettled_rows(line.life) == 0
    assert list(line.life.store.file.rows(LinkRow)) == []


def test_through_many_lives(begin: Begin) -> None:
    """A link is resumed by one broker after the other, and holds what it held."""
    line = Line(begin())
    link = receive_two(line)
    held = list(link.incoming)
    for _ in range(4):
        line.lose()
        line = Line(begin())
        line.told = lambda events: None  # type: ignore[method-assign]
        terms = LinkTerms("work", source=Source("q", **KEPT), target=Target(), receiver_settle_mode="second")
        link = line.wire.session.attach_receiver(terms, resuming=link.suspended())
        line.turn()
        assert list(link.unsettled.values()) == held
    for delivery in held:
        link.settle(delivery, ACCEPTED)
    line.turn()
    assert begin().bodies() == [3]


def test_failed_commits_keep_links(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be written of a link is written with the next commit."""
    life = begin()
    line = Line(life)

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("full")

    commit = life.store.commit

    def fails() -> None:
        with pytest.raises(sqlite3.OperationalError):
            commit()

    with monkeypatch.context() as patch:
        patch.setattr(life.store.file, "commit", full)
        patch.setattr(life.store, "commit", fails)
        receive_two(line)
    life.store.commit()
    assert unsettled_rows(life) == 2
    assert begin().bodies() == [3]
