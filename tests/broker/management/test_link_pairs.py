"""Pairs of links to the management node, over a connection whose bytes the test carries."""

from __future__ import annotations

import pytest

from amqp10 import Connection, LinkDetached
from amqp10.broker import Broker
from amqp10.broker._management.link_pairs import CREDIT
from amqp10.engine import LinkEnded, ReceiverLink, SenderLink, SessionTerms, dialect_names
from amqp10.messaging import AmqpValue, Message, Source, Target
from amqp10.types import Symbol

from ...kit.broker.wire import Wire
from ...kit.inside.broker import VirtualHostCore

PAIRED = {Symbol("paired"): True}


@pytest.fixture
def wire(vhost: VirtualHostCore) -> Wire:
    """A peer of the broker's."""
    return Wire(vhost)


def pair(wire: Wire, *, credit: int = 100, name: str = "pair") -> tuple[SenderLink, ReceiverLink]:
    """Two links of one name."""
    sender = wire.send_to("/management", name=name, source=Source("$me"), settle_mode="settled", properties=PAIRED)
    receiver = wire.receive_from("/management", name=name, credit=credit, properties=PAIRED)
    return sender, receiver


def get(number: int = 0) -> bytes:
    """A request."""
    return Message(AmqpValue(None), message_id=number, to="/queues/q", subject="GET", reply_to="$me").encode()


def answers(receiver: ReceiverLink) -> list[object]:
    """What came, by the requests that it is the answer to."""
    found = [Message.decode(delivery.payload) for delivery in receiver.incoming]
    receiver.incoming.clear()
    return [each.correlation_id for each in found]


def test_attached(wire: Wire) -> None:
    """Both are answered as they were asked for, and the requests' has credit."""
    sender, receiver = pair(wire)
    for link in (sender, receiver):
        assert link.remote is not None
        assert (link.remote.settle_mode, link.remote.properties) == ("settled", PAIRED)
    assert sender.credit == CREDIT
    assert isinstance(sender.remote.target, Target)  # type: ignore[union-attr]
    assert (sender.remote.target.address, sender.remote.source.address) == ("/management", "$me")  # type: ignore[union-attr]


def test_answered(wire: Wire) -> None:
    """Each request on the other link, settled, and there is credit again."""
    sender, receiver = pair(wire)
    for number in range(3 * CREDIT):
        sender.send(get(number), settled=True)
        wire.turn()
    assert all(delivery.remote_settled for delivery in receiver.incoming)
    assert answers(receiver) == list(range(3 * CREDIT))
    assert sender.credit > 0


def test_answers_wait_for_credit(wire: Wire) -> None:
    """No more requests are taken than that, and all are answered when there is some; or when it drains."""
    sender, receiver = pair(wire, credit=0)
    for number in range(CREDIT):
        sender.send(get(number), settled=True)
    wire.turn()
    assert (sender.credit, answers(receiver)) == (0, [])
    receiver.flow(2)
    wire.turn()
    assert (sender.credit, answers(receiver)) == (0, [0, 1])
    receiver.flow(100, drain=True)
    wire.turn()
    assert answers(receiver) == list(range(2, CREDIT))
    assert (sender.credit, receiver.credit) == (CREDIT, 0)


def test_answers_wait_for_room(vhost: VirtualHostCore) -> None:
    """A peer whose window or output is full is sent nothing, and asked nothing, until it reads again."""
    wire = Wire(vhost, session=SessionTerms(incoming_window=1))
    sender, receiver = pair(wire)
    wire.full = True
    for number in range(CREDIT):
        sender.send(get(number), settled=True)
    wire.turn()
    assert (sender.credit, answers(receiver)) == (0, [])
    wire.full = False
    wire.peer.resume()
    wire.turn()
    assert answers(receiver) == list(range(CREDIT))


def test_half_a_pair(wire: Wire) -> None:
    """A request that no response can be given to ends its link."""
    sender = wire.send_to("/management", name="half", settle_mode="settled", properties=PAIRED)
    sender.send(get(), settled=True)
    wire.turn()
    assert str(wire.refusal()).startswith("amqp:precondition-failed: a request came before the link")


def test_the_other_goes(wire: Wire) -> None:
    """Either can be attached again; the pair goes on."""
    sender, receiver = pair(wire)
    receiver.detach()
    wire.turn()
    receiver = wire.receive_from("/management", name="pair", credit=1, properties=PAIRED)
    sender.send(get(1), settled=True)
    wire.turn()
    assert answers(receiver) == [1]
    sender.detach()
    wire.turn()
    sender, receiver = pair(wire, name="other")
    sender.send(get(2), settled=True)
    wire.turn()
    assert answers(receiver) == [2]


def test_no_message(wire: Wire) -> None:
    """What is no message ends its link; the next pair works."""
    sender, _ = pair(wire)
    sender.send(b"nonsense", settled=True)
    wire.turn()
    assert wire.refusal().condition == "amqp:decode-error"
    sender, receiver = pair(wire, name="next")
    sender.send(get(), settled=True)
    wire.turn()
    assert answers(receiver) == [0]


def test_too_large_an_answer(wire: Wire) -> None:
    """An answer larger than the peer takes ends the link that it was for."""
    sender = wire.send_to("/management", name="pair", settle_mode="settled", properties=PAIRED)
    wire.receive_from("/management", name="pair", credit=5, properties=PAIRED, max_message_size=20)
    sender.send(get(), settled=True)
    wire.turn()
    assert wire.refusal().condition == "amqp:link:message-size-exceeded"


@pytest.mark.parametrize("sends", [False, True])
def test_not_paired(wire: Wire, sends: bool) -> None:
    """A link to the node that says of no pair is refused, and why; nothing is made of that name."""
    _ = wire.send_to("/management", settle_mode="settled") if sends else wire.receive_from("/management")
    assert str(wire.refusal()) == "amqp:invalid-field: a link to /management must have the property paired: true"
    assert "/management" not in wire.vhost.nodes


def test_unsettled(wire: Wire) -> None:
    """Requests must be sent settled; a link that says otherwise is refused."""
    wire.send_to("/management", settle_mode="unsettled", properties=PAIRED)
    assert str(wire.refusal()) == "amqp:invalid-field: requests to /management must be sent settled"


def test_nobody_answers_at_the_drafts_node(wire: Wire) -> None:
    """Who asks at `$management` is told at once; who means to answer there may."""
    wire.send_to("$management")
    assert str(wire.refusal()).startswith("amqp:not-found: nobody answers requests at '$management'")
    ended = len([event for event in wire.events if isinstance(event, LinkEnded)])
    wire.receive_from("$management", credit=1)
    wire.send_to("$management", name="again")
    assert len([event for event in wire.events if isinstance(event, LinkEnded)]) == ended


@pytest.mark.anyio
@pytest.mark.parametrize("name", dialect_names())
async def test_nobody_waits_at_the_drafts_node(name: str) -> None:
    """In no dialect does `connection.management()` wait for an answer that nobody gives."""
    async with Broker() as broker, Connection(broker.url, dialect=name) as connection:
        with pytest.raises(LinkDetached, match="nobody answers requests at"):
            async with connection.management():
                pass


def test_answers_nobody_takes(wire: Wire) -> None:
    """Large responses that wait for credit end the link of the requests, and take no memory when theirs ends."""
    sender, receiver = pair(wire, credit=0)
    large = Message(AmqpValue(None), message_id=b"i" * 400_000, to="/queues/q", subject="GET", reply_to="$me").encode()
    for _ in range(4):
        assert sender.attached
        sender.send(large, settled=True)
        wire.turn()
    assert not sender.attached
    assert wire.refusal().condition == "amqp:resource-limit-exceeded"
    receiver.detach(closed=True)
    wire.turn()
    assert wire.peer.unread_octets == 0
