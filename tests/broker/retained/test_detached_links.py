"""Links that were detached and not closed: kept as long as their session, and their deliveries heard of (§2.6.4)."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.engine import (
    IncomingDelivery,
    LinkTerms,
    ReceiverLink,
    SenderLink,
)
from amqp10.messaging import (
    ACCEPTED,
    RELEASED,
    DeliveryState,
    Message,
    Modified,
    Outcome,
    Rejected,
    Source,
    Target,
    TransactionalState,
)

from ...kit.broker.controller import ROLLBACK, Controller, stock
from ...kit.broker.wire import Wire, bodies, queue_of
from ...kit.clock import Clock
from ...kit.inside.broker import Topic, VirtualHostCore


def received(wire: Wire, *messages: object, **source: Any) -> tuple[ReceiverLink, list[IncomingDelivery]]:
    """A receiver that has these messages of the queue."""
    stock(wire, *messages)
    link = wire.receive_from(Source("q", **source), name="r", credit=len(messages))
    return link, list(link.incoming)


def detach(wire: Wire, link: ReceiverLink | SenderLink, *, closed: bool = False) -> None:
    link.detach(closed=closed)
    wire.turn()


def say(wire: Wire, delivery: IncomingDelivery, state: DeliveryState, *, settled: bool = True) -> None:
    """A disposition by the delivery's number, whatever became of its link."""
    session: Any = wire.session
    session.dispositions.dispose(True, delivery.delivery_id, settled, state)
    wire.turn()


def counts(vhost: VirtualHostCore) -> tuple[int, int]:
    queue = queue_of(vhost, "q")
    return queue.depth, queue.unsettled


@pytest.mark.spec("3.5.6", "session-end, the default: a detached link is kept until its session ends")
@pytest.mark.parametrize("policy", ["session-end", "link-detach"])
def test_kept_in_the_session(wire: Wire, vhost: VirtualHostCore, policy: str) -> None:
    """Its messages are its own until then, and go back with the session; link-detach gives them back at once."""
    link, _ = received(wire, "a", "b", expiry_policy=policy)
    assert link.remote is not None
    assert isinstance(link.remote.source, Source)
    assert (link.remote.source.expiry_policy, link.remote.source.timeout) == (policy, 0)
    detach(wire, link)
    other = wire.receive_from("q", name="other", credit=5)
    if policy == "link-detach":
        assert bodies(other) == ["a", "b"]
        return
    assert bodies(other) == []
    assert counts(vhost) == (2, 2)
    wire.session.end()
    wire.turn()
    assert counts(vhost) == (2, 0)
    assert not vhost.links._of.get(wire.peer)


@pytest.mark.spec("3.5.6", "a link that is attached again in its session resumes what it held")
def test_resumed_in_the_session(wire: Wire, vhost: VirtualHostCore) -> None:
    """Each delivery goes on with its message, and the link is known by its name on this connection alone."""
    link, deliveries = received(wire, "a", "b")
    detach(wire, link)
    stranger = Wire(vhost)
    other = stranger.receive_from("q", name="r", credit=5)
    assert bodies(other) == []
    again = wire.session.attach_receiver(
        LinkTerms("r", Source("q"), Target(), receiver_settle_mode="first"), resuming=deliveries
    )
    again.flow(5)
    wire.turn()
    assert all(delivery.resumed for delivery in deliveries)
    for delivery in deliveries:
        again.settle(delivery, ACCEPTED)
    wire.turn()
    assert counts(vhost) == (0, 0)


@pytest.mark.deviation(
    "2.6.1",
    "links of one name on two connections of a container are two links if nothing of them is kept",
    "many programs share a container id and number their links; only a kept link can be taken by its name",
)
@pytest.mark.parametrize("kept", [False, True])
def test_one_name_on_two_connections(wire: Wire, vhost: VirtualHostCore, kept: bool) -> None:
    """What is kept is stolen, as the specification has it."""
    source = Source("q", expiry_policy="never") if kept else Source("q")
    first = wire.receive_from(source, name="same", credit=1)
    other = Wire(vhost)
    second = other.receive_from(source, name="same", credit=1)
    wire.turn()
    assert second.attached
    assert first.attached != kept
    if kept:
        assert wire.refusal().condition == "amqp:link:stolen"


@pytest.mark.deviation(
    "2.7.3",
    "a link whose peer names no terminus of its own still carries messages",
    "its credit, or its transfers, show that it has one",
)
def test_no_terminus_of_their_own(wire: Wire) -> None:
    """What it sends through such a link comes back through such another."""
    sender = wire.session.attach_sender(LinkTerms("s", source=None, target=Target("q")))
    receiver = wire.session.attach_receiver(LinkTerms("r", source=Source("q"), target=None))
    receiver.flow(1)
    wire.turn()
    sender.send(Message("x").encode())
    wire.turn()
    assert bodies(receiver) == ["x"]


@pytest.mark.deviation(
    "2.6.4",
    "a link attached again in its session without an unsettled map begins anew; its deliveries are given back",
    "clients without a map have forgotten the deliveries, which would stay locked until the session ends",
)
def test_attached_anew(wire: Wire, vhost: VirtualHostCore) -> None:
    """What it held is given back, and a late word on it is no word on the same message in other hands."""
    link, deliveries = received(wire, "a")
    detach(wire, link)
    other = wire.receive_from("q", name="other", credit=1)
    assert bodies(other) == []
    again = wire.receive_from("q", name="r")
    assert again.attached
    assert bodies(other) == ["a"]
    say(wire, deliveries[0], ACCEPTED)
    assert counts(vhost) == (1, 1)


@pytest.mark.spec("2.7.6", "a disposition of a delivery whose link is detached, and not closed, is applied")
@pytest.mark.spec("2.6.4", "detached links still communicate by delivery-ids")
@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize(
    ("outcome", "left"),
    [(ACCEPTED, (0, 0)), (RELEASED, (1, 0)), (Rejected(), (0, 0)), (Modified(undeliverable_here=True), (1, 0))],
)
def test_outcome_after_the_detach(
    wire: Wire, vhost: VirtualHostCore, outcome: Outcome, left: tuple[int, int], settled: bool
) -> None:
    """It counts once, the broker settles where the receiver has not, and nothing of it is left to be resumed."""
    link, (delivery,) = received(wire, "a")
    detach(wire, link)
    say(wire, delivery, outcome, settled=settled)
    assert counts(vhost) == left
    say(wire, delivery, ACCEPTED)
    assert counts(vhost) == left
    again = wire.session.attach_receiver(LinkTerms("r", Source("q"), Target()), resuming=())
    wire.turn()
    assert again.attached
    wire.session.end()
    wire.turn()
    assert counts(vhost) == left


@pytest.mark.spec("2.6.6", "a link that is closed has no deliveries any more: a disposition of one is ignored")
def test_outcome_after_the_close(wire: Wire, vhost: VirtualHostCore) -> None:
    """The message went back with the close."""
    link, (delivery,) = received(wire, "a")
    detach(wire, link, closed=True)
    assert counts(vhost) == (1, 0)
    say(wire, delivery, ACCEPTED)
    assert counts(vhost) == (1, 0)


@pytest.mark.spec("4.4.2", "an outcome in a transaction, of a delivery whose link is detached, is part of it")
@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("commits", [True, False])
def test_transactional_outcome_after_the_detach(
    wire: Wire, vhost: VirtualHostCore, control: Controller, settled: bool, commits: bool
) -> None:
    """Committed it is applied; rolled back the delivery is still held, or ended with its settling."""
    link, (delivery,) = received(wire, "a")
    detach(wire, link)
    txn_id = control.declare()
    say(wire, delivery, TransactionalState(txn_id, ACCEPTED), settled=settled)
    assert counts(vhost) == (1, 1)
    assert control.discharge(txn_id, fail=not commits) == ACCEPTED
    if commits:
        assert counts(vhost) == (0, 0)
    else:
        assert counts(vhost) == (1, 0 if settled else 1)
    wire.session.end()
    wire.turn()
    assert counts(vhost) == (0 if commits else 1, 0)


@pytest.mark.spec("4.4.2", "no discharge succeeds over an outcome that could not be applied")
@pytest.mark.parametrize("how", ["closed", "settled before", "never sent"])
def test_discharge_after_an_outcome_that_was_missed(
    wire: Wire, vhost: VirtualHostCore, control: Controller, how: str
) -> None:
    """The delivery is over, or never was: all of the transaction is undone, the outcomes that were applied too."""
    link, (first, second) = received(wire, "a", "b")
    txn_id = control.declare()
    if how == "closed":
        detach(wire, link, closed=True)
    elif how == "settled before":
        link.settle(first, ACCEPTED)
        wire.turn()
    else:
        assert first.delivery_id is not None
        first.delivery_id += 1000
    say(wire, first, TransactionalState(txn_id, ACCEPTED))
    if how != "closed":
        control.retire(second, txn_id)
    outcome = control.discharge(txn_id)
    assert isinstance(outcome, Rejected)
    assert outcome.error is not None
    assert outcome.error.condition == ROLLBACK
    assert queue_of(vhost, "q").depth == (1 if how == "settled before" else 2)


def dynamic(wire: Wire, **source: Any) -> tuple[ReceiverLink, str]:
    """A receiver of a node made for it, and its address."""
    link = wire.receive_from(Source(dynamic=True, **source), name="dynamic", credit=5)
    assert link.remote is not None
    assert isinstance(link.remote.source, Source)
    return link, link.remote.source.address


@pytest.mark.spec("3.5.3", "a dynamic node lives as long as the link that made it, which is as long as its session")
@pytest.mark.parametrize("by_address", [False, True])
def test_dynamic_node_in_the_session(wire: Wire, vhost: VirtualHostCore, by_address: bool) -> None:
    """Detached and attached again, dynamic or by its address, it is the same node with its messages."""
    link, address = dynamic(wire)
    detach(wire, link)
    sender = wire.send_to(address)
    sender.send(b"\0\x53\x77\xa1\1x")
    wire.turn()
    again = wire.receive_from(Source(address) if by_address else Source(dynamic=True), name="dynamic", credit=5)
    assert again.remote is not None
    assert isinstance(again.remote.source, Source)
    assert again.remote.source.address == address
    assert bodies(again) == ["x"]
    detach(wire, again, closed=True)
    assert address not in vhost.nodes


@pytest.mark.spec("3.5.6", "a dynamic node goes with its session, or with its link where that is its expiry policy")
@pytest.mark.parametrize("policy", ["session-end", "link-detach", "never"])
@pytest.mark.parametrize("over", ["session", "connection"])
def test_end_of_a_dynamic_node(wire: Wire, vhost: VirtualHostCore, policy: str, over: str) -> None:
    """No other policy is granted to one, as the answer says."""
    link, address = dynamic(wire, expiry_policy=policy)
    assert link.remote is not None
    assert isinstance(link.remote.source, Source)
    assert link.remote.source.expiry_policy == ("session-end" if policy == "never" else policy)
    detach(wire, link)
    assert (address in vhost.nodes) is (policy != "link-detach")
    if over == "session":
        wire.session.end()
        wire.turn()
    else:
        wire.server.receive_eof()
        wire.peer.handle(wire.server.events())
    assert address not in vhost.nodes


def test_too_many_detached_links(wire: Wire, vhost: VirtualHostCore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that detaches links without end is not kept more of than so many."""
    monkeypatch.setattr("amqp10.broker._retained.links.MAX_OF_CONNECTION", 3)
    for number in range(10):
        link = wire.receive_from(Source(dynamic=True), name=f"r{number}")
        detach(wire, link)
    assert len([name for name in vhost.nodes if name.startswith("temporary")]) == 3


@pytest.mark.parametrize("kind", ["settles", "copies"])
def test_nothing_held(wire: Wire, vhost: VirtualHostCore, kind: str) -> None:
    """Who takes messages settled, or only looks, holds nothing that could be kept."""
    stock(wire, "a")
    settle_mode: Any = "settled" if kind == "settles" else "unsettled"
    source = Source("q", distribution_mode="copy" if kind == "copies" else None)
    link = wire.receive_from(source, name="r", credit=1, settle_mode=settle_mode)
    detach(wire, link)
    assert counts(vhost) == (0 if kind == "settles" else 1, 0)
    assert "r" not in {key.name for key in vhost.links._of[wire.peer]}


@pytest.mark.deviation(
    "3.5.6",
    "a topic's subscription that is not durable ends with its link, and the answer has link-detach",
    "it would store messages for a client that has gone, and block the topic's senders when full",
)
def test_plain_subscription(wire: Wire, vhost: VirtualHostCore) -> None:
    """One that is asked to last by another expiry policy, or a timeout, does."""
    link = wire.receive_from("topic.t", name="plain")
    assert link.remote is not None
    assert isinstance(link.remote.source, Source)
    assert link.remote.source.expiry_policy == "link-detach"
    detach(wire, link)
    topic = vhost.nodes["topic.t"]
    assert isinstance(topic, Topic)
    assert not topic.subscriptions


@pytest.mark.spec("3.5.6", "conditions for expiry that are met again start the whole timeout anew")
@pytest.mark.parametrize("topic", [False, True])
def test_the_timeout_begins_anew(wire: Wire, vhost: VirtualHostCore, clock: Clock, topic: bool) -> None:
    """What was left of it when the link came back means nothing for its next end."""
    source = Source("topic.t" if topic else "q", expiry_policy="link-detach", timeout=50)
    if not topic:
        stock(wire, "a")
    link = wire.receive_from(source, name="r", credit=1)

    def kept() -> bool:
        vhost.expire()
        node = vhost.nodes["topic.t"] if topic else None
        return bool(node.subscriptions) if isinstance(node, Topic) else counts(vhost) == (1, 1)

    for _ in range(3):
        deliveries = list(link.unsettled.values())
        detach(wire, link)
        clock.now += 40
        assert kept()
        link = wire.session.attach_receiver(LinkTerms("r", source, Target()), resuming=deliveries)
        wire.turn()
        clock.now += 1000
        assert kept()
    detach(wire, link)
    clock.now += 49
    assert kept()
    clock.now += 2
    assert not kept()
