"""Links of AMQP/Fast that go on after a loss."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from amqp10.engine import (
    DeliveriesUnresumed,
    IncomingDelivery,
    LinkAttached,
    LinkTerms,
    OutgoingDelivery,
    ReceiverLink,
    SenderLink,
)
from amqp10.messaging import Message, Source, Target
from amqp10.testing import EnginePair

BODY = bytes(range(256)) * 100


def attached(
    resuming: list[OutgoingDelivery] | None = None, kept: list[object] | None = None
) -> tuple[EnginePair, object, ReceiverLink]:
    """A client that sends to a server that keeps what it has of it."""
    pair = EnginePair(dialect="fast")
    pair.client.terms = replace(pair.client.terms, max_frame_size=1024)
    pair.open()
    session, _ = pair.begin()
    link = session.attach_sender(LinkTerms("l", Source(), Target("q")), resuming=resuming)
    pair.run()
    theirs = next(event.link for event in pair.server_events if isinstance(event, LinkAttached))
    assert isinstance(theirs, ReceiverLink)
    assert theirs.remote is not None
    assert isinstance(theirs.remote.target, Target)
    assert (theirs.remote.target.expiry_policy, theirs.remote.target.timeout) == ("connection-close", 60)
    assert theirs.name == "l"
    theirs.attach(theirs.remote, resuming=kept)  # type: ignore[arg-type]
    theirs.flow(5)
    pair.run()
    return pair, link, theirs


def receiving(
    kept: list[IncomingDelivery] | None = None, payload: bytes | None = None
) -> tuple[EnginePair, ReceiverLink, SenderLink, OutgoingDelivery]:
    """A client that receives, to whose link a server with small frames sends a message."""
    pair = EnginePair(dialect="fast")
    pair.client.terms = replace(pair.client.terms, max_frame_size=1024)
    pair.open()
    session, _ = pair.begin()
    link = session.attach_receiver(LinkTerms("l", Source("q"), Target()), resuming=kept)
    pair.run()
    theirs = next(event.link for event in pair.server_events if isinstance(event, LinkAttached))
    assert isinstance(theirs, SenderLink)
    assert theirs.remote is not None
    theirs.attach(theirs.remote)
    link.flow(5)
    pair.run()
    assert not [event for event in pair.take("client") if isinstance(event, DeliveriesUnresumed)]
    return pair, link, theirs, theirs.send(payload if payload is not None else AGAIN)


FIRST = Message(BODY, message_id="m", ttl=timedelta(minutes=1)).encode()


AGAIN = Message(BODY, message_id="m", ttl=timedelta(seconds=50), delivery_count=1).encode()
