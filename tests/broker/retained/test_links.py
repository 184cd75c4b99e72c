"""Links of the broker that are lost and resumed: what is kept, for how long, and what becomes of it then."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from amqp10.broker._retained.links import LinkJournal, ResumableLink
from amqp10.engine import (
    DeliveriesResumed,
    DeliveriesUnresumed,
    LinkTerms,
    OutcomesReceived,
    OutgoingDelivery,
    ReceiverLink,
    SenderLink,
    SettlementsReceived,
)
from amqp10.messaging import ACCEPTED, RELEASED, DeliveryState, Message, Received, Source, Target

from ...kit.broker.wire import Wire, bodies, queue_of
from ...kit.clock import Clock
from ...kit.inside.broker import QueuedMessage, VirtualHostCore, VirtualHostSettings, destinations

LASTING: dict[str, Any] = {"expiry_policy": "connection-close", "timeout": 60}
MODES = pytest.mark.parametrize("mode", ["first", "second"])


def sender(wire: Wire, mode: str = "second", *, resuming: Iterable[OutgoingDelivery] | None = None) -> SenderLink:
    """A sender link that the broker is to keep."""
    terms = LinkTerms("s", Source(), Target("q", **LASTING), receiver_settle_mode=mode)  # type: ignore[arg-type]
    link = wire.session.attach_sender(terms, resuming=resuming)
    wire.turn()
    return link


def receiver(wire: Wire, mode: str = "second", *, resuming: Iterable[Any] | None = None, **source: Any) -> ReceiverLink:
    """A receiver link that the broker is to keep, with credit for what comes."""
    asked = Source(**{"address": "q"} | LASTING | source)
    terms = LinkTerms("r", asked, Target(), receiver_settle_mode=mode)  # type: ignore[arg-type]
    link = wire.session.attach_receiver(terms, resuming=resuming)
    link.flow(10)
    wire.turn()
    return link


def lose(wire: Wire, *, heard: bool = True) -> None:
    """The connection is lost; `heard`: the broker knows."""
    wire.client.receive_eof()
    if heard:
        wire.server.receive_eof()
        wire.peer.handle(wire.server.events())
        assert wire.over


def put(wire: Wire, *texts: str) -> None:
    """Messages in the queue."""
    link = wire.send_to("q", settle_mode="settled")
    for text in texts:
        link.send(Message(text).encode(), settled=True)
    wire.turn()
    link.detach()
    wire.turn()


def told(wire: Wire, kind: type[Any]) -> list[Any]:
    """The deliveries that the client's events of a kind have named."""
    wire.turn()
    events: list[Any] = [event for event in wire.events if type(event) is kind]
    return [each for event in events for each in event.deliveries]


@pytest.mark.parametrize("heard", [True, False])
def test_outcome_lost(vhost: VirtualHostCore, heard: bool) -> None:
    """A message that the broker took, and whose outcome got lost, is there once, and its sender learns so."""
    wire = Wire(vhost)
    link = sender(wire)
    sent = link.send(Message("x").encode())
    wire.server.receive_data(wire.client.data_to_send())
    wire.peer.handle(wire.server.events())
    wire.server.data_to_send()
    lose(wire, heard=heard)
    assert list(link.unsettled.values()) == [sent]
    again = Wire(vhost)
    new = sender(again, resuming=link.suspended())
    assert told(again, OutcomesReceived) == [sent]
    assert sent.remote_state == ACCEPTED
    assert not new.unsettled
    assert queue_of(vhost, "q").depth == 1
    (there,) = again.peer.links.producers
    assert not there.unsettled


@MODES
def test_never_came(vhost: VirtualHostCore, mode: str) -> None:
    """A message that got lost on the way is sent again where that is sure, else its sender is asked."""
    wire = Wire(vhost)
    link = sender(wire, mode)
    sent = link.send(Message("x").encode())
    wire.client.data_to_send()
    lose(wire)
    again = Wire(vhost)
    new = sender(again, mode, resuming=link.suspended())
    if mode == "first":
        assert told(again, DeliveriesUnresumed) == [sent]
        new.resend(sent)
    assert told(again, OutcomesReceived) == [sent]
    assert queue_of(vhost, "q").depth == 1


@MODES
def test_message_in_part(vhost: VirtualHostCore, mode: str) -> None:
    """A large message goes on where it was cut off."""
    payload = Message(b"x" * 300_000).encode()
    wire = Wire(vhost)
    link = sender(wire, mode)
    sent = link.send(payload)
    wire.server.receive_data(wire.client.data_to_send()[:200_000])
    wire.peer.handle(wire.server.events())
    lose(wire)
    assert queue_of(vhost, "q").depth == 0
    again = Wire(vhost)
    new = sender(again, mode, resuming=link.suspended())
    assert new.remote is not None
    (state,) = (new.remote.unsettled or {}).values()
    assert isinstance(state, Received)
    assert 100_000 < state.section_offset < 200_000
    assert told(again, OutcomesReceived) == [sent]
    (entry,) = queue_of(vhost, "q")._waiting.available()
    assert entry.payload == payload


@MODES
@pytest.mark.parametrize("heard", [True, False])
def test_held_by_a_consumer(vhost: VirtualHostCore, mode: str, heard: bool) -> None:
    """What a consumer holds stays its own while it is away, and it settles it when it is back."""
    wire = Wire(vhost)
    put(wire, "a", "b")
    link = receiver(wire, mode)
    held = list(link.incoming)
    lose(wire, heard=heard)
    other = Wire(vhost)
    assert bodies(other.receive_from("q", credit=10)) == []
    again = Wire(vhost)
    new = receiver(again, mode, resuming=link.suspended())
    assert told(again, DeliveriesResumed) == held
    new.settle(held[0], ACCEPTED)
    new.settle(held[1], RELEASED)
    again.turn()
    assert queue_of(vhost, "q").dequeued == 1
    assert queue_of(vhost, "q").depth == 1
    assert [text for link in other.peer.links.consumers for text in link.unsettled]
    if not heard:
        lose(wire)
        assert queue_of(vhost, "q").depth == 1


def test_consumers_outcome_lost(vhost: VirtualHostCore) -> None:
    """An outcome that got lost is in the consumer's map: the message leaves the queue once."""
    wire = Wire(vhost)
    put(wire, "a")
    link = receiver(wire)
    (delivery,) = link.incoming
    link.settle(delivery, ACCEPTED)
    lose(wire)
    again = Wire(vhost)
    receiver(again, resuming=link.suspended())
    assert told(again, SettlementsReceived) == [delivery]
    assert (queue_of(vhost, "q").dequeued, queue_of(vhost, "q").depth) == (1, 0)


@MODES
def test_consumer_never_had_it(vhost: VirtualHostCore, mode: str) -> None:
    """A message that got lost on its way to a consumer comes again; as an attempt, where it may have been settled."""
    wire = Wire(vhost)
    link = receiver(wire, mode)
    put(Wire(vhost), "a")
    wire.server.data_to_send()
    lose(wire)
    again = Wire(vhost)
    new = receiver(again, mode, resuming=link.suspended())
    (delivery,) = new.incoming
    assert (Message.decode(delivery.payload).delivery_count or 0) == (1 if mode == "first" else 0)
    assert queue_of(vhost, "q").unsettled == 1


def test_expires(vhost: VirtualHostCore, clock: Clock) -> None:
    """When its time is up, what a consumer held goes to others, as a failed attempt; a producer's state is gone."""
    wire = Wire(vhost)
    put(wire, "a")
    link, producer = receiver(wire), sender(wire)
    sent = producer.send(Message("b").encode())
    wire.server.receive_data(wire.client.data_to_send())
    wire.peer.handle(wire.server.events())
    lose(wire)
    clock.now += 59
    assert vhost.expire() == 1060.0
    other = Wire(vhost)
    waiting = other.receive_from("q", credit=10)
    assert bodies(waiting) == []
    clock.now += 1
    assert vhost.expire() is None
    vhost.flush()
    other.turn()
    assert [(each.body, each.delivery_count) for each in map(Message.decode, payloads(waiting))] == [("a", 1), ("b", 1)]
    again = Wire(vhost)
    receiver(again, resuming=link.suspended())
    sender(again, resuming=producer.suspended())
    assert told(again, DeliveriesUnresumed) == [*list(link.unsettled.values()), sent]


def payloads(link: ReceiverLink) -> list[bytes]:
    """What came in."""
    return [delivery.payload for delivery in link.incoming]


@pytest.mark.parametrize("how", ["anew", "closed", "elsewhere", "deleted"])
def test_ends(vhost: VirtualHostCore, how: str) -> None:
    """What was kept ends with a link that begins anew, is closed, or goes elsewhere, and with its queue."""
    wire = Wire(vhost)
    put(wire, "a")
    link = receiver(wire)
    if how == "closed":
        link.detach()
        wire.turn()
    lose(wire)
    if how == "deleted":
        vhost.delete(vhost.nodes["q"])
    again = Wire(vhost)
    address = "p" if how == "elsewhere" else "q"
    new = receiver(again, resuming=None if how == "anew" else link.suspended(), address=address)
    assert new.remote is not None
    assert new.remote.unsettled is None
    if how in ("anew", "closed"):
        assert [each.delivery_count for each in map(Message.decode, payloads(new))] == [1]
    elif how == "elsewhere":
        assert queue_of(vhost, "q").unsettled == 0
    assert len(vhost.links._all) == 1


def test_not_asked(vhost: VirtualHostCore) -> None:
    """A link that asks for nothing is kept as long as its session, no longer; the answer says so."""
    wire = Wire(vhost)
    put(wire, "a")
    link = wire.receive_from("q", credit=1)
    lose(wire)
    again = Wire(vhost)
    terms = LinkTerms(link.name, Source("q"), Target())
    new = again.session.attach_receiver(terms, resuming=link.suspended())
    again.turn()
    assert len(told(again, DeliveriesUnresumed)) == 1
    assert new.remote is not None
    assert isinstance(new.remote.source, Source)
    assert (new.remote.source.expiry_policy, new.remote.source.timeout) == ("session-end", 0)
    assert queue_of(vhost, "q").unsettled == 0
    assert not vhost.links._all


def test_answers(vhost: VirtualHostCore, clock: Clock) -> None:
    """The answer says for how long a link is kept; no longer than the broker keeps anything."""
    wire = Wire(vhost)
    for link in (sender(wire), receiver(wire)):
        assert link.remote is not None
        terminus = link.remote.target if link.is_sender else link.remote.source
        assert isinstance(terminus, Source | Target)
        assert (terminus.expiry_policy, terminus.timeout) == ("connection-close", 60)
    wire = Wire(VirtualHostCore(VirtualHostSettings(max_subscription_timeout=5), clock=clock))
    link = sender(wire)
    assert link.remote is not None
    assert isinstance(link.remote.target, Target)
    assert link.remote.target.timeout == 5


@pytest.mark.parametrize(
    ("policy", "timeout", "keeps"),
    [
        ("link-detach", 0, ()),
        ("link-detach", 5, ("link", "session", "connection")),
        ("session-end", 5, ("link", "session", "connection")),
        ("connection-close", 0, ("link", "session")),
        ("never", 0, ("link", "session", "connection")),
    ],
)
@pytest.mark.parametrize("over", ["link", "session", "connection"])
def test_policies(vhost: VirtualHostCore, policy: str, timeout: int, keeps: tuple[str, ...], over: str) -> None:
    """Each expiry policy keeps a link through what it says (§3.5.6)."""
    wire = Wire(vhost)
    put(wire, "a")
    link = receiver(wire, expiry_policy=policy, timeout=timeout)
    if over == "link":
        link.detach(closed=False)
    elif over == "session":
        link.session.end()
    wire.turn()
    if over == "connection":
        lose(wire)
    assert queue_of(vhost, "q").unsettled == (over in keeps)
    assert bool(vhost.links._all) == (over in keeps)


def test_a_browser_holds_nothing(vhost: VirtualHostCore) -> None:
    """Who only looks has nothing to resume."""
    wire = Wire(vhost)
    receiver(wire, distribution_mode="copy")
    assert not wire.vhost.links._all


class Notes(LinkJournal):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    def began(self, link: ResumableLink) -> None:
        self.said.append(("began", link.key.name))

    def noted(self, link: ResumableLink, tag: bytes, state: DeliveryState) -> None:
        self.said.append(("noted", link.key.name, tag, state))

    def held(self, link: ResumableLink, tag: bytes, entry: QueuedMessage) -> None:
        self.said.append(("held", link.key.name, tag))

    def settled(self, link: ResumableLink, tags: Iterable[bytes]) -> None:
        self.said.append(("settled", link.key.name, list(tags)))

    def ended(self, link: ResumableLink) -> None:
        self.said.append(("ended", link.key.name))


def test_keeper(vhost: VirtualHostCore) -> None:
    """Who keeps links is told what they hold when it changes."""
    notes = vhost.links.journal = Notes()
    wire = Wire(vhost)
    link = sender(wire)
    sent = link.send(Message("x", durable=True).encode())
    wire.turn()
    assert notes.said == [("began", "s"), ("noted", "s", sent.tag, ACCEPTED), ("settled", "s", [sent.tag])]
    link.detach()
    wire.turn()
    assert notes.said[3:] == [("ended", "s")]
    notes.said.clear()
    taker = receiver(wire)
    (delivery,) = taker.incoming
    taker.settle(delivery, ACCEPTED)
    wire.turn()
    assert notes.said == [("began", "r"), ("held", "r", delivery.tag), ("settled", "r", [delivery.tag])]
    lose(wire)
    assert notes.said[3:] == []
    vhost.links.end(*vhost.links._all.values())
    assert notes.said[3:] == [("ended", "r")]


def test_parts_are_bounded(vhost: VirtualHostCore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what was cut off the broker keeps so much and no more; the rest is sent again from its beginning."""
    monkeypatch.setattr("amqp10.broker._retained.links.MAX_PARTS", 150_000)
    payload = Message(b"x" * 300_000).encode()
    lost = []
    for name in ("a", "b"):
        wire = Wire(vhost)
        terms = LinkTerms(name, Source(), Target("q", **LASTING))
        link = wire.session.attach_sender(terms)
        wire.turn()
        link.send(payload)
        wire.server.receive_data(wire.client.data_to_send()[:200_000])
        wire.peer.handle(wire.server.events())
        lose(wire)
        lost.append(link)
    assert 100_000 < vhost.links._parts < 150_000
    for link, known in zip(lost, (1, 0), strict=True):
        wire = Wire(vhost)
        new = wire.session.attach_sender(
            LinkTerms(link.name, Source(), Target("q", **LASTING)), resuming=link.suspended()
        )
        wire.turn()
        assert new.remote is not None
        assert len(new.remote.unsettled or {}) == known
        for delivery in told(wire, DeliveriesUnresumed):
            new.resend(delivery)
        wire.turn()
    assert vhost.links._parts == 0
    assert [entry.payload for entry in queue_of(vhost, "q")._waiting.available()] == [payload, payload]


def test_who_never_settles_gets_no_credit(vhost: VirtualHostCore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outcomes that a sender does not settle are bounded, and their messages are not held for them."""
    monkeypatch.setattr(destinations, "MAX_UNSETTLED", 20)
    for target in (Target("q"), Target()):
        wire = Wire(vhost)
        terms = LinkTerms("s", Source(), target, receiver_settle_mode="second")
        link = wire.session.attach_sender(terms)
        link.auto_settle = False
        wire.turn()
        sent = 0
        while link.credit > 0:
            link.send(Message("x", to="q").encode())
            sent += 1
            wire.turn()
        assert sent == 20
        (there,) = wire.peer.links.producers
        assert [delivery.payload for delivery in there.unsettled.values()] == [b""] * 20
        for delivery in list(link.unsettled.values()):
            link.settle(delivery)
        wire.turn()
        assert link.credit > 0
