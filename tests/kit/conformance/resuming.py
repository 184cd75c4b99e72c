"""Deliveries that were left on a link that is lost, and the attach that takes them up again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amqp10.engine import (
    IncomingDelivery,
    LinkAttached,
    LinkTerms,
    OutgoingDelivery,
    ReceiverLink,
    SenderLink,
)
from amqp10.messaging import Message, Received, Source, Target
from amqp10.testing import EngineScript, Flow

Play = Callable[..., EngineScript]

TAG = b"tag"
# A header, properties and a data section, which begins at its octet 5 with the body's.
PAYLOAD = Message(b"0123456789", durable=True, subject="s").encode()
BODY = PAYLOAD.index(b"0123456789")
IN_THE_BODY = Received(2, 5 + 4)
WHOLE = Received(3, 0)
ABSENT: Any = object()


def terms(mode: Any = "first", name: str = "link") -> LinkTerms:
    """A link's, from our side."""
    return LinkTerms(name, Source("q"), Target("q"), receiver_settle_mode=mode)


def outgoing(play: Play, state: Any, *, streamed: bool = False) -> OutgoingDelivery:
    """A delivery that was sent on a link that is lost by now, and what this side knows of it."""
    script = play()
    link = script.sender(script.session(), terms(), credit=5)
    delivery = link.send(PAYLOAD, tag=TAG)
    script.end_of_stream()
    assert link.suspended() == [delivery]
    delivery.state = state
    delivery.past = 4 if streamed else 0
    return delivery


def resume_sender(
    script: EngineScript, delivery: OutgoingDelivery, theirs: Any, *, mode: Any = "first", owner_settles: bool = False
) -> SenderLink:
    """Attach with that delivery, and answer with what the peer says of it."""
    link = script.session().attach_sender(terms(mode), resuming=[delivery])
    link.auto_settle = not owner_settles
    script.answer_attach(unsettled={} if theirs is ABSENT else {TAG: theirs})
    script.flow(handle=0, delivery_count=0, link_credit=10)
    return link


def incoming(play: Play, *, more: bool = False, streaming: bool = False) -> IncomingDelivery:
    """A delivery that came on a link that is lost by now; `more`: up to the fourth octet of its body."""
    script = play()
    link = script.receiver(script.session(), terms(), credit=5)
    link.streaming = streaming
    script.transfer(7, PAYLOAD[: BODY + 4] if more else PAYLOAD, more=more, delivery_tag=TAG)
    link.incoming.clear()
    script.end_of_stream()
    (delivery,) = link.suspended()
    assert isinstance(delivery, IncomingDelivery)
    return delivery


def resume_receiver(
    script: EngineScript, delivery: IncomingDelivery, theirs: Any, *, mode: Any = "first", streaming: bool = False
) -> ReceiverLink:
    """Attach with that delivery, and answer with what the sender says of it."""
    link = script.session().attach_receiver(terms(mode), resuming=[delivery])
    link.streaming = streaming
    script.answer_attach(unsettled={} if theirs is ABSENT else {TAG: theirs})
    link.flow(10)
    script.expect(Flow)
    script.expect_event(LinkAttached)
    return link
