"""A client and a server of AMQP/Fast back to back: what the seam promises, in this dialect."""

from __future__ import annotations

from dataclasses import replace

import pytest

from amqp10.engine import (
    Authenticated,
    ConnectionEnded,
    ConnectionTerms,
    DeliveriesReceived,
    FlowReceived,
    LinkAttached,
    LinkEnded,
    LinkTerms,
    OutcomesReceived,
    ReceiverLink,
    SenderLink,
    SessionUnmapped,
)
from amqp10.errors import AuthenticationFailed, ConnectionClosed, LinkDetached, LocalProtocolError, Unsupported
from amqp10.messaging import ACCEPTED, RELEASED, Error, Message, Modified, Rejected, Returned, Source, Target
from amqp10.sasl import Authenticator, Plain, ScramSha256
from amqp10.testing import EnginePair

from ...kit.dialects.fast.pair import opened

CHUNKS = [None, 1, 7]


@pytest.mark.parametrize("chunk", CHUNKS)
def test_opens(chunk: int | None) -> None:
    """Each side learns what the other says of itself, and the smaller limits are in force."""
    pair = opened(
        chunk,
        client=ConnectionTerms("me", hostname="vhost:there", max_frame_size=5000, properties={"product": "p"}),
        server=ConnectionTerms("you", channel_max=20, properties={"product": "q"}, offered_capabilities=("a", "b")),
    )
    assert pair.server.remote is not None
    assert pair.client.remote is not None
    assert (pair.server.remote.container_id, pair.server.remote.hostname) == ("me", "vhost:there")
    assert pair.server.remote.properties == {"product": "p"}
    assert (pair.client.remote.container_id, pair.client.remote.properties) == ("you", {"product": "q"})
    assert pair.client.remote.offered_capabilities == ("a", "b")
    assert (pair.client.remote.max_frame_size, pair.client.remote.channel_max) == (5000, 20)
    assert pair.server.remote.max_frame_size == 5000


@pytest.mark.parametrize("mechanism", [Plain("guest", "secret"), ScramSha256("guest", "secret")])
def test_login(mechanism: Plain | ScramSha256) -> None:
    """A user with the password is let in and known by name; both mechanisms fit in tables."""
    authenticator = Authenticator({"guest": "secret"}).for_connection(secure=True)
    pair = EnginePair(dialect="fast", mechanisms=(mechanism,), authenticator=authenticator)
    pair.open()
    assert pair.server.identity == "guest"
    assert Authenticated(mechanism.name, "guest") in pair.server_events
    assert Authenticated(mechanism.name, None) in pair.client_events


def test_login_refused() -> None:
    """A user without it is told so by a close, and by nothing else."""
    authenticator = Authenticator({"guest": "secret"}).for_connection(secure=True)
    pair = EnginePair(dialect="fast", mechanisms=(Plain("guest", "wrong"),), authenticator=authenticator)
    pair.client.open()
    pair.run()
    (ended,) = pair.client_events
    assert isinstance(ended, ConnectionEnded)
    assert isinstance(ended.error, AuthenticationFailed)
    assert isinstance(pair.server_events[-1], ConnectionEnded)


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("sender", ["client", "server"])
def test_sends(chunk: int | None, sender: str) -> None:
    """A message of many fragments arrives as it was, and its outcome comes back."""
    pair = opened(chunk, client=ConnectionTerms("c", max_frame_size=1024))
    sending, receiving = pair.attach(credit=3, sender=sender)  # type: ignore[arg-type]
    message = Message(bytes(range(256)) * (40 if chunk else 400), subject="s", application_properties={"a": 1})
    delivery = sending.send(message.encode())
    assert delivery.tag in sending.unsettled
    pair.run()
    (arrived,) = receiving.incoming
    assert Message.decode(arrived.payload) == message
    assert receiving.credit == 2
    receiving.settle(arrived, ACCEPTED)
    pair.run()
    assert delivery.remote_state == ACCEPTED
    assert delivery.remote_settled
    assert not sending.unsettled
    assert not receiving.unsettled
    events = pair.client_events if sender == "client" else pair.server_events
    assert OutcomesReceived(sending, [delivery]) in events


def test_settled() -> None:
    """A message that is sent settled is settled at both ends, and nothing comes back."""
    pair = opened()
    sending, receiving = pair.attach(credit=10)
    pair.take("client")
    sending.send(Message(b"x").encode(), settled=True)
    pair.run()
    assert receiving.incoming[0].local_settled
    assert not pair.client_events
    terms = LinkTerms("settled", Source("q"), Target("q"), settle_mode="settled")
    sending, receiving = pair.attach(credit=2, sender="server", terms=terms)
    assert sending.settled_by_sender
    sending.send(Message(b"y").encode(), settled=True)
    sending.send(Message(b"z").encode(), settled=True)
    pair.run()
    assert [Message.decode(each.payload).body for each in receiving.incoming] == [b"y", b"z"]
    assert all(each.local_settled for each in receiving.incoming)
    assert not sending.unsettled
    assert sending.credit == 0


def test_credit_unreliable() -> None:
    """Of a consumer that acknowledges nothing, no more comes than there is credit for, however it is changed."""
    pair = opened()
    terms = LinkTerms("settled", Source("q"), Target("q"), settle_mode="settled")
    sending, receiving = pair.attach(credit=3, sender="server", terms=terms)
    sending.send(Message(b"1").encode(), settled=True)
    receiving.flow(1)
    pair.run()
    assert receiving.credit == 0
    for credit in (5, 2, 4, 0, 1):
        receiving.flow(credit)
        pair.run()
        assert sending.credit <= credit
        sent = sending.credit
        for _ in range(sent):
            sending.send(Message(b"n").encode(), settled=True)
        pair.run()
        assert receiving.credit == credit - sent


@pytest.mark.parametrize("state", [RELEASED, Rejected(Error("amqp:not-allowed", "no")), Modified(delivery_failed=True)])
def test_outcomes_of_a_producer(state: Rejected) -> None:
    """Replies say what became of a message: each of its own."""
    pair = opened()
    sending, receiving = pair.attach(credit=3)
    first, second = sending.send(Message(b"1").encode()), sending.send(Message(b"2").encode())
    pair.run()
    receiving.settle(receiving.incoming[1], ACCEPTED)
    receiving.settle(receiving.incoming[0], state)
    pair.run()
    assert second.remote_state == ACCEPTED
    assert isinstance(first.remote_state, Rejected if isinstance(state, Rejected) else Returned)
    error = first.remote_state.error
    assert error is not None
    said = (error.condition, error.info and error.info["reply-code"])
    assert said == (("amqp:not-allowed", 530) if isinstance(state, Rejected) else ("amqp:no-route", 312))


def test_acknowledges_in_order() -> None:
    """An acceptance out of order is sent when the earlier messages are settled; a release is sent at once."""
    pair = opened()
    sending, receiving = pair.attach(credit=10, sender="server")
    sent = [sending.send(Message(b"%d" % n).encode()) for n in range(4)]
    pair.run()
    here = list(receiving.incoming)
    receiving.settle(here[2], ACCEPTED)
    pair.run()
    assert [each.remote_state for each in sent] == [None] * 4
    receiving.settle(here[1], RELEASED)
    pair.run()
    assert [each.remote_state for each in sent] == [None, RELEASED, None, None]
    receiving.settle(here[0], ACCEPTED)
    pair.run()
    assert [each.remote_state for each in sent] == [ACCEPTED, RELEASED, ACCEPTED, None]
    assert list(receiving.unsettled.values()) == [here[3]]
    assert sending.credit == receiving.credit == 6


def test_settled_out_of_order_at_the_end() -> None:
    """A link that is left tells all that was settled, and gives back what is in the way of that."""
    pair = opened()
    sending, receiving = pair.attach(credit=10, sender="server")
    sent = [sending.send(Message(b"%d" % n).encode()) for n in range(4)]
    pair.run()
    receiving.settle(receiving.incoming[2], ACCEPTED)
    receiving.detach()
    pair.run()
    assert [each.remote_state for each in sent] == [RELEASED, RELEASED, ACCEPTED, None]
    assert LinkEnded(receiving, True, None) in pair.client_events
    assert list(sending.unsettled.values()) == [sent[3]]


def test_no_reject() -> None:
    """There is no word for a rejected message: asking for it raises, and nothing is written."""
    pair = opened()
    sending, receiving = pair.attach(credit=1, sender="server")
    sending.send(Message(b"x").encode())
    pair.run()
    (arrived,) = receiving.incoming
    for state in (Rejected(), Modified(undeliverable_here=True), Modified(message_annotations={"x-a": 1})):
        with pytest.raises(Unsupported):
            receiving.settle(arrived, state)
    assert pair.client.data_to_send() == b""
    assert not arrived.local_settled


@pytest.mark.parametrize("sender", ["client", "server"])
def test_credit(sender: str) -> None:
    """No more is on its way than the receiver allows; a client's messages beyond that wait at the server."""
    pair = opened()
    sending, receiving = pair.attach(credit=2, sender=sender)  # type: ignore[arg-type]
    if sender == "server":
        sending.send(Message(b"1").encode())
        sending.send(Message(b"2").encode())
        with pytest.raises(LocalProtocolError):
            sending.send(Message(b"3").encode())
        pair.run()
        receiving.settle(receiving.incoming[0], ACCEPTED)
        pair.run()
        assert sending.credit == 0  # an acknowledgment alone is no credit
        receiving.flow(3)
        pair.run()
        assert sending.credit == 3
        receiving.flow(0)
        pair.run()
        assert sending.credit == 0
    else:
        for number in range(5):
            sending.send(Message(b"%d" % number).encode())
        pair.run()
        assert len(receiving.incoming) == 2
        receiving.flow(2)
        assert len(receiving.incoming) == 4
        receiving.flow(5)
        assert [Message.decode(each.payload).body for each in receiving.incoming] == [b"%d" % n for n in range(5)]


def test_drain() -> None:
    """A pause that is to be confirmed is, when the server has nothing more to send for the credit."""
    pair = opened()
    sending, receiving = pair.attach(credit=5, sender="server")
    receiving.flow(5, drain=True)
    pair.run()
    assert sending.drain
    assert sending.credit == 5
    sending.send(Message(b"x").encode())
    sending.drained()
    pair.run()
    assert pair.client_events[-1] == FlowReceived(receiving, True, wasted=4)
    assert sending.credit == receiving.credit == 0
    receiving.flow(2)
    pair.run()
    assert sending.credit == 2


def test_refused() -> None:
    """A link that the server refuses ends with its reason, and the session goes on."""
    pair = opened()
    session, _ = pair.begin()
    for attach in (session.attach_sender, session.attach_receiver):
        link = attach(LinkTerms("l", Source("q"), Target("q")))
        pair.run()
        theirs = next(event.link for event in pair.server_events if isinstance(event, LinkAttached))
        pair.server_events.clear()
        theirs.refuse(Error("amqp:not-found", "no q"))
        pair.run()
        ended = next(event for event in pair.client_events if isinstance(event, LinkEnded))
        pair.client_events.clear()
        assert ended.link is link
        assert isinstance(ended.error, LinkDetached)
        assert (ended.error.condition, ended.error.description) == ("amqp:not-found", "no q")
    assert session.begun


def test_all_in_use() -> None:
    """When the server takes no more channels or handles a link is refused before anything is begun of it."""
    for terms in (ConnectionTerms("server", channel_max=3), ConnectionTerms("server")):
        pair = opened(server=terms)
        session, _ = pair.begin()
        pair.client.handle_max = 2  # type: ignore[attr-defined]
        links = [session.attach_sender(LinkTerms(name, Source(), Target("q"))) for name in "ab"]
        with pytest.raises(LocalProtocolError, match="and all are in use"):
            session.attach_sender(LinkTerms("c", Source(), Target("q")))
        with pytest.raises(LocalProtocolError, match="and all are in use"):
            session.attach_receiver(LinkTerms("c", Source("q"), Target()))
        assert list(session.links) == links  # type: ignore[attr-defined]
        session.end()
        pair.run()
        assert SessionUnmapped(session, None) in pair.client_events


def test_given_up() -> None:
    """A sender that settles its message waits for no reply: there is room for another."""
    pair = opened()
    sending, _ = pair.attach()
    delivery = sending.send(Message(b"x").encode())
    assert sending.credit == 999
    sending.settle(delivery)
    assert (sending.credit, sending.unsettled) == (1000, {})


def test_anonymous() -> None:
    """A sender without an address sends where its messages say; that is where they go at the server."""
    pair = opened()
    session, _ = pair.begin()
    link = session.attach_sender(LinkTerms("l", Source(), Target()))
    pair.run()
    theirs = next(event.link for event in pair.server_events if isinstance(event, LinkAttached))
    assert isinstance(theirs, ReceiverLink)
    assert theirs.remote is not None
    assert theirs.remote.target == Target()
    theirs.attach(replace(theirs.remote))
    theirs.flow(1)
    pair.run()
    link.send(Message(b"x", to="there").encode())
    pair.run()
    assert Message.decode(theirs.incoming[0].payload).to == "there"


def test_dynamic() -> None:
    """A temporary destination is named by the server, for sender and receiver."""
    pair = opened()
    session, _ = pair.begin()
    terms = LinkTerms("l", Source(dynamic=True), Target())
    link = session.attach_receiver(terms)
    pair.run()
    theirs = next(event.link for event in pair.server_events if isinstance(event, LinkAttached))
    assert isinstance(theirs, SenderLink)
    assert theirs.remote is not None
    assert theirs.remote.source is not None
    assert theirs.remote.source.dynamic
    theirs.attach(replace(theirs.remote, source=Source("made-up", dynamic=True)))
    pair.run()
    assert link.remote is not None
    assert link.remote.source is not None
    assert link.remote.source.address == "made-up"
    link.flow(1)
    pair.run()
    theirs.send(Message(b"x").encode())
    pair.run()
    assert len(link.incoming) == 1


@pytest.mark.parametrize("by", ["client", "server"])
def test_closes(by: str) -> None:
    """Handle, channel and connection are closed by either side, each answered, and told once."""
    pair = opened()
    client_session, server_session = pair.begin()
    sending, receiving = pair.attach(credit=2, session=client_session)
    link = sending if by == "client" else receiving
    link.detach(error=None if by == "client" else Error("amqp:resource-deleted", "gone"))
    pair.run()
    ended = [event for event in pair.client_events if isinstance(event, LinkEnded)]
    assert len(ended) == len([event for event in pair.server_events if isinstance(event, LinkEnded)]) == 1
    if by == "server":
        assert isinstance(ended[0].error, LinkDetached)
        assert ended[0].error.condition == "amqp:resource-deleted"
    else:
        assert ended[0].error is None
    pair.take("server")
    session = client_session if by == "client" else server_session
    session.end(None if by == "client" else Error("amqp:not-allowed", "no"))
    pair.run()
    for events in (pair.client_events, pair.server_events):
        assert len([event for event in events if isinstance(event, SessionUnmapped)]) == 1
    engine = pair.client if by == "client" else pair.server
    engine.close(None if by == "client" else Error("amqp:connection:forced", "bye"))
    pair.run()
    for events in (pair.client_events, pair.server_events):
        assert isinstance(events[-1], ConnectionEnded)
    ending = pair.client_events[-1]
    assert isinstance(ending, ConnectionEnded)
    if by == "server":
        assert isinstance(ending.error, ConnectionClosed)
        assert ending.error.condition == "amqp:connection:forced"
    else:
        assert ending.error is None


def test_told_before_the_end() -> None:
    """A sender that leaves at once learns the outcomes first, and then gets the answer to the close."""
    pair = opened()
    sending, receiving = pair.attach(credit=5)
    delivery = sending.send(Message(b"x").encode())
    sending.detach()
    pair.server.receive_data(pair.client.data_to_send())
    events = pair.server.events()
    assert events[:2] == [DeliveriesReceived(receiving), LinkEnded(receiving, True, None)]
    receiving.settle(receiving.incoming[0], ACCEPTED)
    pair.run()
    assert delivery.remote_state == ACCEPTED
    assert LinkEnded(sending, True, None) in pair.client_events
    assert not receiving.attached


def test_pings() -> None:
    """Silence is broken by pings in time, and who is silent for too long is given up."""
    pair = opened(client=ConnectionTerms("c", idle_timeout=10), server=ConnectionTerms("s", idle_timeout=4))
    now, silent = 100.0, 0
    for _ in range(40):
        deadline = pair.client.tick(now)
        assert deadline is not None
        pair.server.tick(now)
        silent = silent + 1 if not pair.client.output_size else 0
        pair.run()
        now += 0.5
        assert silent <= 3
    assert pair.client.opened
    assert pair.server.opened
    for _ in range(40):
        now += 0.5
        pair.client.tick(now)
        pair.client.data_to_send()
    assert isinstance(pair.client.events()[-1], ConnectionEnded)
