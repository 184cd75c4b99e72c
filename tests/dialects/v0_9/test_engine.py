"""Both engines of 0-9-1, back to back: what goes in as words of AMQP 1.0 comes out as such, through real frames."""

from __future__ import annotations

from amqp10.engine import (
    ConnectionEnded,
    CreditChanged,
    DeclareQueue,
    DeliveriesReceived,
    Engine,
    Event,
    LinkEnded,
    LinkTerms,
    OutcomesReceived,
    QueueFacts,
    RequestAnswered,
)
from amqp10.errors import ConnectionClosed, LinkDetached
from amqp10.messaging import ACCEPTED, RELEASED, Error, Message, Rejected, Returned, Source, Target

from ...kit.dialects.v0_9.pair import Pair, opened


def kinds(events: list[Event]) -> list[type]:
    return [type(event) for event in events]


def test_opening_and_closing() -> None:
    """Header, SASL, tune, open; and both sides hear of an orderly end."""
    pair = opened()
    assert pair.server.identity == "user"
    assert pair.client.remote is not None
    assert pair.client.remote.properties["product"] == "test"
    pair.client.close()
    pair.run()
    assert isinstance(pair.client_events[-1], ConnectionEnded)
    assert pair.client_events[-1].error is None
    assert isinstance(pair.server_events[-1], ConnectionEnded)


def test_wrong_password() -> None:
    """The server says no, with the reason that 0-9-1 has for it."""
    pair = Pair("wrong")
    pair.run()
    assert isinstance(pair.client_events[-1], ConnectionEnded)
    assert type(pair.client_events[-1].error).__name__ == "AuthenticationFailed"


def test_sending() -> None:
    """Publishes come in order with where they go, and outcomes come back as confirms, merged."""
    pair = opened()
    sender = pair.client.begin().attach_sender(LinkTerms("s", Source(), Target("q")))
    pair.until_attached(sender)
    assert sender.credit > 0
    sent = [sender.send(Message(b"m%d" % n).encode()) for n in range(3)]
    pair.run()
    link = pair.publisher()
    deliveries = list(link.incoming)
    assert [Message.decode(each.payload).body for each in deliveries] == [b"m0", b"m1", b"m2"]
    assert Message.decode(deliveries[0].payload).to == "/queues/q"
    for each in deliveries:
        link.settle(each, ACCEPTED)
    pair.run()
    outcomes = [event for event in pair.client_events if isinstance(event, OutcomesReceived)]
    assert len(outcomes) == 1
    assert list(outcomes[0].deliveries) == sent
    assert all(each.remote_state == ACCEPTED and each.local_settled for each in sent)
    assert not sender.unsettled


def test_outcomes_in_any_order() -> None:
    """Unroutable comes back as a return, refused as a nack, and neighbors are accepted all the same."""
    pair = opened()
    sender = pair.client.begin().attach_sender(LinkTerms("s", Source(), Target("q")))
    pair.until_attached(sender)
    sent = [sender.send(Message(b"m%d" % n).encode()) for n in range(4)]
    pair.run()
    link = pair.publisher()
    deliveries = list(link.incoming)
    link.settle(deliveries[2], Rejected(Error("amqp:resource-limit-exceeded", "full")))
    link.settle(deliveries[1], RELEASED)
    link.settle(deliveries[3], ACCEPTED)
    pair.run()
    assert sent[0].remote_state is None
    link.settle(deliveries[0], ACCEPTED)
    pair.run()
    assert [type(each.remote_state).__name__ for each in sent] == ["Accepted", "Returned", "Rejected", "Accepted"]
    said = sent[1].remote_state
    assert isinstance(said, Returned)
    assert said.error is not None
    assert (said.error.condition, said.error.description) == ("amqp:no-route", "NO_ROUTE")
    assert said.error.info == {"reply-code": 312, "exchange": "", "routing-key": "q"}


def test_no_such_exchange_ends_the_link() -> None:
    """As a channel error with its reply code, and nothing else of the connection."""
    pair = opened()
    session = pair.client.begin()
    sender = session.attach_sender(LinkTerms("s", Source(), Target("q")))
    pair.until_attached(sender)
    sender.send(Message(b"m").encode())
    pair.run()
    link = pair.publisher()
    link.settle(link.incoming[0], Rejected(Error("amqp:not-found", "no exchange")))
    pair.run()
    ended = [event for event in pair.client_events if isinstance(event, LinkEnded)]
    assert isinstance(ended[0].error, LinkDetached)
    assert ended[0].error.info["reply-code"] == 404
    assert session.begun


def test_receiving_within_credit() -> None:
    """The server sends what the credit allows, and acks of neighbors go out as one."""
    pair = opened()
    receiver = pair.client.begin().attach_receiver(LinkTerms("r", Source("q"), Target()))
    receiver.flow(3)
    pair.until_attached(receiver)
    link = pair.consumer()
    assert link.credit == 3
    for number in range(3):
        link.send(Message(b"m%d" % number).encode())
    assert link.credit == 0
    pair.run()
    assert DeliveriesReceived in kinds(pair.client_events)
    assert receiver.credit == 0
    for delivery in list(receiver.incoming):
        receiver.settle(delivery, ACCEPTED)
    octets = pair.client.data_to_send()
    assert len(octets) == 7 + 4 + 8 + 1 + 1  # one basic.ack
    pair.server.receive_data(octets)
    pair.run()
    told = [event for event in pair.server_events if isinstance(event, OutcomesReceived)]
    assert [len(event.deliveries) for event in told] == [3]
    assert CreditChanged in kinds(pair.server_events)
    assert link.credit == 3


def test_more_than_the_credit_waits() -> None:
    """Messages sent ahead to a refilling owner are handed out in order when the owner grants credit."""
    pair = opened()
    receiver = pair.client.begin().attach_receiver(LinkTerms("r", Source("q"), Target()))
    receiver.flow(2)
    pair.until_attached(receiver)
    link = pair.consumer()
    for number in range(2):
        link.send(Message(b"m%d" % number).encode())
    pair.run()
    for delivery in list(receiver.incoming):
        receiver.settle(delivery, ACCEPTED)
    receiver.incoming.clear()
    pair.run()
    link.send(Message(b"m2").encode())
    pair.run()
    assert not receiver.incoming
    receiver.flow(2)
    assert [Message.decode(each.payload).body for each in receiver.incoming] == [b"m2"]
    assert receiver.credit == 1


def test_not_one_more_for_who_does_not_refill() -> None:
    """The consumer is cancelled as soon as the credit is used, before any ack could make room."""
    pair = opened()
    receiver = pair.client.begin().attach_receiver(LinkTerms("r", Source("q"), Target()))
    receiver.refills = False
    receiver.flow(1)
    pair.until_attached(receiver)
    link = pair.consumer()
    link.send(Message(b"m").encode())
    pair.run()
    receiver.settle(receiver.incoming[0], ACCEPTED)
    pair.run()
    assert link.credit == 0
    assert not link.attached
    receiver.flow(1)
    pair.run()
    assert pair.consumer() is not link
    assert pair.consumer().credit == 1


def test_requests() -> None:
    """A request is answered, and a refusal concerns it alone."""
    pair = opened()
    session = pair.client.begin()
    first, second, third = (session.request(DeclareQueue(name)) for name in ("a", "nonesuch", ""))
    pair.run()
    assert first.result == QueueFacts("a", 3, 1)
    assert type(second.error).__name__ == "RequestRefused"
    assert third.result.name == "made-up"
    assert len([event for event in pair.client_events if isinstance(event, RequestAnswered)]) == 3


def test_a_node_that_is_not_there() -> None:
    """Attaching finds out by a passive declare."""
    pair = opened()
    link = pair.client.begin().attach_receiver(LinkTerms("r", Source("nonesuch"), Target()))
    pair.run()
    ended = [event for event in pair.client_events if isinstance(event, LinkEnded)]
    assert ended[0].link is link
    assert isinstance(ended[0].error, LinkDetached)
    assert ended[0].error.condition == "amqp:not-found"


def test_the_servers_reason_to_close() -> None:
    """connection.close with its code becomes the error of every link."""
    pair = opened()
    link = pair.client.begin().attach_receiver(LinkTerms("r", Source("q"), Target()))
    pair.run()
    pair.server.close(Error("amqp:connection:forced", "shutting down"))
    pair.run()
    errors = [event.error for event in pair.client_events if isinstance(event, LinkEnded | ConnectionEnded)]
    assert len(errors) == 2
    assert all(isinstance(error, ConnectionClosed) for error in errors)
    assert errors[0] is not None
    assert "320" in str(errors[0].info)  # type: ignore[attr-defined]
    assert not link.attached


def test_large_messages_go_in_frames() -> None:
    """A body larger than a frame comes whole."""
    pair = opened()
    sender = pair.client.begin().attach_sender(LinkTerms("s", Source(), Target("q")))
    pair.until_attached(sender)
    sender.send(Message(b"x" * 300_000).encode())
    pair.run()
    assert Message.decode(pair.publisher().incoming[0].payload).body == b"x" * 300_000


def test_heartbeats() -> None:
    """Silence makes a heartbeat, and too much of it the end."""
    pair = opened()
    engine: Engine = pair.client
    engine.tick(0.0)
    engine.tick(10.0)
    deadline = engine.tick(30.0)
    assert engine.data_to_send() == bytes.fromhex("0800000000000000ce"[:16]) or deadline is not None
    for now in range(40, 200, 10):
        engine.tick(float(now))
    assert any(isinstance(event, ConnectionEnded) for event in engine.events())
