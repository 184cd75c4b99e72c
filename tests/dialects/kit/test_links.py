"""What the links of all dialects before 1.0 share."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.engine import DeliveriesUnresumed, IncomingDelivery, LinkAttached, LinkTerms, OutgoingDelivery, SessionBegun
from amqp10.errors import LocalProtocolError
from amqp10.messaging import Accepted, DeliveryState, Message, Released, Source, Target, TransactionalState
from amqp10.testing import EnginePair

from ...kit.broker.wire import Wire, queue_of
from ...kit.inside.broker import VirtualHostCore

OLDER = ["0-9-1", "0-10", "fast"]


@pytest.mark.parametrize("dialect", ["1.0", *OLDER])
@pytest.mark.parametrize("credit", [-1, 1 << 32])
def test_credit_that_does_not_fit_32_bits(dialect: str, credit: int) -> None:
    """It is refused where it is granted, and the credit stays as it was."""
    pair = EnginePair(dialect=dialect)
    pair.open()
    link = pair.client.begin().attach_receiver(LinkTerms("l", Source("q"), Target()))
    link.flow(5)
    with pytest.raises(LocalProtocolError, match="credit must be in"):
        link.flow(credit)
    assert link.credit == 5


@pytest.mark.parametrize("dialect", OLDER)
def test_deliveries_that_are_not_resumed(dialect: str) -> None:
    """The link keeps them until it is attached: then its owner decides what becomes of them, once."""
    pair = EnginePair(dialect=dialect)
    pair.open()
    session = pair.client.begin()
    lost: Any = None
    delivery = OutgoingDelivery(lost, b"tag", Message(b"body").encode(), False, 0)
    settled = OutgoingDelivery(lost, b"settled", Message(b"body").encode(), True, 0)
    link = session.attach_sender(LinkTerms("l", Source(), Target(None)), resuming=[delivery, settled])
    assert link.suspended() == [delivery]
    for _ in ("the session", "the link"):
        for event in pair.take("server"):
            if isinstance(event, SessionBegun):
                event.session.begin()
            elif isinstance(event, LinkAttached) and event.link.remote is not None:
                event.link.attach(event.link.remote)
    (unresumed,) = [event for event in pair.take("client") if isinstance(event, DeliveriesUnresumed)]
    assert (unresumed.link, unresumed.deliveries) == (link, [delivery])
    assert delivery.link is link
    assert link.suspended() == []


@pytest.mark.parametrize("dialect", ["1.0", *OLDER])
@pytest.mark.parametrize("state", [Accepted(), Released(), TransactionalState(b"txn", Accepted())])
def test_outcomes_of_deliveries_that_are_not_resumed(dialect: str, state: DeliveryState) -> None:
    """They are refused: their numbers are those of other messages by now."""
    wire = Wire(VirtualHostCore(clock=lambda: 0.0), dialect)
    wire.vhost.declare("q", "queue")
    sender = wire.send_to("q")
    sender.send(Message("new").encode(), settled=sender.settled_by_sender)
    lost: Any = None
    number: Any = None if dialect == "1.0" else 1
    delivery = IncomingDelivery(lost, number, b"another tag", Message("old").encode(), False)
    link = wire.session.attach_receiver(LinkTerms("l", Source("q"), Target()), resuming=[delivery])
    link.flow(1)
    wire.turn()
    assert [event.deliveries for event in wire.events if isinstance(event, DeliveriesUnresumed)] == [[delivery]]
    delivery.tag = next(iter(link.unsettled))
    with pytest.raises(LocalProtocolError, match="the delivery was not resumed"):
        link.settle(delivery, state)
    assert not delivery.local_settled
    wire.turn()
    assert queue_of(wire.vhost, "q").unsettled == len(link.unsettled) == 1
