"""Flow control of links (§2.6.7 to §2.6.10): credit, drain, echo, available."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest

from amqp10.engine import CreditChanged, DeliveriesReceived, FlowReceived, LinkEnded, LinkTerms
from amqp10.errors import LocalProtocolError
from amqp10.messaging import Source, Target
from amqp10.testing import Detach, EnginePair, EngineScript, Flow, Transfer

pytestmark = pytest.mark.capability("credit")

Play = Callable[..., EngineScript]
Side = Literal["client", "server"]
NEAR_WRAP = [0, 2**31 - 2, 2**31, 2**32 - 4, 2**32 - 1]
SIDES: list[Side] = ["client", "server"]


@pytest.mark.spec("2.6.7", "a link has no credit until the receiver grants some")
def test_no_credit_at_first(play_client: Play) -> None:
    """Sending without credit is refused before a byte is written, and takes nothing."""
    script = play_client()
    link = script.sender(script.session())
    assert link.credit == 0
    with pytest.raises(LocalProtocolError, match="credit"):
        link.send(b"x")
    assert link.unsettled == {}
    script.expect_nothing()


@pytest.mark.spec("2.6.7", "each delivery takes one credit, however many frames it has")
def test_credit_counts_deliveries(play_client: Play) -> None:
    """Two credits are two messages of three frames each."""
    script = play_client(peer={"max_frame_size": 512})
    link = script.sender(script.session(), credit=2)
    for _ in range(2):
        link.send(bytes(1200))
    assert link.credit == 0
    for _ in range(6):
        script.expect(Transfer)
    with pytest.raises(LocalProtocolError, match="credit"):
        link.send(b"")


@pytest.mark.spec("2.6.7", "link-credit = delivery-count(rcv) + link-credit(rcv) - delivery-count(snd)")
@pytest.mark.parametrize("first", NEAR_WRAP)
def test_credit_is_relative(play_client: Play, first: int) -> None:
    """Pitfall 5: credit that was granted before the last deliveries were seen does not count twice."""
    script = play_client()
    terms = LinkTerms("s", Source("q"), Target("q"), initial_delivery_count=first)
    link = script.sender(script.session(), terms, credit=10)
    for _ in range(4):
        link.send(b"")
        script.expect(Transfer)
    script.flow(next_incoming_id=4, handle=0, delivery_count=(first + 1) % 2**32, link_credit=10)
    assert link.credit == 7
    script.flow(next_incoming_id=4, handle=0, delivery_count=(first + 4) % 2**32, link_credit=2)
    assert link.credit == 2
    script.flow(next_incoming_id=4, handle=0, delivery_count=first, link_credit=3)
    assert link.credit == 0


@pytest.mark.spec("2.6.7", "a null delivery-count of the receiver stands for the initial one")
@pytest.mark.parametrize("first", NEAR_WRAP)
def test_delivery_count_unknown(play_client: Play, first: int) -> None:
    """A receiver that has not seen our attach grants credit from its beginning."""
    script = play_client()
    terms = LinkTerms("s", Source("q"), Target("q"), initial_delivery_count=first)
    link = script.sender(script.session(), terms)
    script.flow(handle=0, delivery_count=None, link_credit=5)
    assert link.credit == 5


@pytest.mark.spec("2.6.7", "the receiver's delivery-count follows the sender's")
@pytest.mark.parametrize("first", NEAR_WRAP)
def test_receiver_counts(play_client: Play, first: int) -> None:
    """From the initial count on, modulo 2**32, and the credit goes down as deliveries come."""
    script = play_client()
    link = script.receiver(script.session(), credit=10, initial_delivery_count=first)
    for number in range(6):
        script.transfer(number)
    assert link.credit == 4
    link.flow(8)
    script.expect(Flow, delivery_count=(first + 6) % 2**32, link_credit=8)
    assert link.credit == 8


@pytest.mark.spec("2.7.4", "the receiver sets available to the last known value seen from the sender")
def test_available_is_echoed(play_client: Play) -> None:
    """It is 0 at first, as the sender's is."""
    script = play_client()
    link = script.receiver(script.session())
    link.flow(5)
    script.expect(Flow, link_credit=5, available=0)
    script.flow(handle=0, delivery_count=0, link_credit=5, available=9)
    link.flow(7)
    script.expect(Flow, link_credit=7, available=9)


@pytest.mark.spec("2.7.4", "a flow without a handle has no link state: its link fields are ignored")
def test_flow_without_handle(play_client: Play) -> None:
    """The session's part of it counts."""
    script = play_client()
    session = script.session()
    sender, receiver = script.sender(session, credit=5), script.receiver(session, credit=3)
    script.flow(incoming_window=1, delivery_count=4, link_credit=99, available=7, drain=True, echo=True)
    script.expect(Flow, handle=None, delivery_count=None, link_credit=None, available=None, drain=False)
    assert (sender.credit, sender.drain, receiver.credit, receiver.available) == (5, False, 3, 0)
    sender.send(b"")
    assert not session.sendable


@pytest.mark.spec("2.6.7", "credit may be reduced, and the receiver takes deliveries already on their way")
def test_credit_taken_back(play_client: Play) -> None:
    """The sender goes by the last flow that it has seen."""
    script = play_client()
    link = script.sender(script.session(), credit=10)
    script.flow(handle=0, delivery_count=0, link_credit=0)
    assert link.credit == 0
    with pytest.raises(LocalProtocolError):
        link.send(b"")


@pytest.mark.spec("2.6.7", "a delivery beyond the credit detaches the link with transfer-limit-exceeded")
def test_transfer_limit_exceeded(play_client: Play) -> None:
    """The deliveries that had credit are there, the one that had none is not."""
    script = play_client()
    link = script.receiver(script.session(), credit=2)
    for number in range(3):
        script.transfer(number)
    script.expect(Detach, closed=True, error=lambda error: error.condition == "amqp:link:transfer-limit-exceeded")
    assert len(link.incoming) == 2


@pytest.mark.spec("2.6.7", "the owner is told of every change of credit")
def test_credit_changed(play_client: Play) -> None:
    """A flow for the link is an event, a flow for the session alone is none."""
    script = play_client()
    link = script.sender(script.session())
    script.flow()
    assert script.take_events() == []
    script.flow(handle=0, delivery_count=0, link_credit=5, drain=True, properties={"k": "v"})
    assert script.expect_event(CreditChanged).link is link
    assert link.drain
    assert dict(link.properties) == {"k": "v"}


# Drain


@pytest.mark.spec("2.6.7", "drain: the sender uses or returns the credit, and reports it at once")
@pytest.mark.parametrize("first", NEAR_WRAP)
def test_drain_asked(play_client: Play, first: int) -> None:
    """Pitfall 7: with nothing to send, delivery-count advances by the credit and a flow says so."""
    script = play_client()
    terms = LinkTerms("s", Source("q"), Target("q"), initial_delivery_count=first)
    link = script.sender(script.session(), terms, credit=10)
    link.send(b"")
    script.expect(Transfer)
    script.flow(next_incoming_id=1, handle=0, delivery_count=(first + 1) % 2**32, link_credit=9, drain=True)
    link.drained()
    script.expect(Flow, handle=0, delivery_count=(first + 10) % 2**32, link_credit=0, drain=True)
    assert link.credit == 0
    script.flow(next_incoming_id=1, handle=0, delivery_count=(first + 10) % 2**32, link_credit=3, drain=False)
    assert link.credit == 3
    link.send(b"")
    script.expect(Transfer)


@pytest.mark.spec("2.6.7", "the sender's drain is the last known value of the receiver's")
def test_drain_is_repeated(play_client: Play) -> None:
    """In each flow: also after it drained, until the receiver says otherwise; and it drains once."""
    script = play_client()
    link = script.sender(script.session(), credit=10)
    script.flow(handle=0, delivery_count=0, link_credit=10, drain=True)
    link.drained()
    script.expect(Flow, link_credit=0, drain=True)
    assert not link.drain
    link.offer(3)
    script.expect(Flow, available=3, drain=True)
    script.flow(handle=0, delivery_count=10, link_credit=0, drain=False, echo=True)
    script.expect(Flow, available=3, drain=False)


@pytest.mark.spec("2.6.7", "a sender that is not asked to drain keeps its credit")
def test_drained_without_drain(play_client: Play) -> None:
    """`drained` without a drain writes nothing and gives nothing back."""
    script = play_client()
    link = script.sender(script.session(), credit=10)
    link.drained()
    script.expect_nothing()
    assert link.credit == 10


@pytest.mark.spec("2.6.7", "drain on an empty queue returns all credit")
@pytest.mark.parametrize("sender", SIDES)
def test_drain_empty(sender: Side) -> None:
    """Pitfall 7: the receiver is told once that it is drained, and the link is usable afterwards."""
    pair = EnginePair()
    pair.open()
    sending, receiving = pair.attach(credit=5, sender=sender)
    for _ in range(3):
        receiving.flow(5, drain=True)
        pair.run()
        sending.drained()
        pair.run()
        events = pair.client_events + pair.server_events
        assert [e.drained for e in events if isinstance(e, FlowReceived) and e.link is receiving] == [True]
        assert (sending.credit, receiving.credit) == (0, 0)
        pair.client_events.clear()
        pair.server_events.clear()
        receiving.flow(2)
        pair.run()
        assert not sending.drain
        sending.send(b"after")
        pair.run()
        assert receiving.incoming.popleft().payload == b"after"


@pytest.mark.spec("2.6.7", "drain with enough messages ends when the credit is used")
@pytest.mark.parametrize("sender", SIDES)
def test_drain_by_sending(sender: Side) -> None:
    """The last delivery that the credit allows drains the link as well as a flow does."""
    pair = EnginePair()
    pair.open()
    sending, receiving = pair.attach(sender=sender)
    receiving.flow(3, drain=True)
    pair.run()
    for _ in range(3):
        sending.send(b"x")
    sending.drained()
    pair.run()
    assert len(receiving.incoming) == 3
    events = pair.client_events + pair.server_events
    assert [event.drained for event in events if isinstance(event, FlowReceived)].count(True) == 1


@pytest.mark.spec("2.6.7", "drain with fewer messages sends them, then returns the rest of the credit")
def test_drain_partly(play_client: Play) -> None:
    """The receiver has both deliveries before it is told."""
    script = play_client()
    link = script.receiver(script.session())
    link.flow(10, drain=True)
    script.expect(Flow, link_credit=10, drain=True)
    script.transfer(0)
    script.transfer(1)
    assert not any(isinstance(event, FlowReceived) and event.drained for event in script.events)
    script.flow(handle=0, delivery_count=10, link_credit=0, drain=True, available=0)
    kinds = [type(event) for event in script.take_events()]
    assert kinds.index(DeliveriesReceived) < kinds.index(FlowReceived)
    assert (len(link.incoming), link.credit) == (2, 0)
    link.flow(1)
    script.expect(Flow, link_credit=1, delivery_count=10, drain=False)


@pytest.mark.spec("2.6.7", "drain without credit ends at once")
def test_drain_of_nothing() -> None:
    """A receiver that drains a credit of zero is answered, too."""
    pair = EnginePair()
    pair.open()
    sending, receiving = pair.attach()
    receiving.flow(0, drain=True)
    pair.run()
    sending.drained()
    pair.run()
    drained = [event.drained for event in pair.server_events if isinstance(event, FlowReceived)]
    assert drained == [True]


# Echo, available


@pytest.mark.spec("2.7.4", "an echo asks a sender for its link state at once")
def test_echo_to_sender(play_client: Play) -> None:
    """Delivery-count, credit and available come back; the answer asks for none."""
    script = play_client()
    link = script.sender(script.session(), credit=5)
    link.offer(3)
    script.expect(Flow, handle=0, available=3)
    script.flow(handle=0, delivery_count=0, link_credit=5, echo=True)
    script.expect(Flow, handle=0, delivery_count=0, link_credit=5, available=3, echo=False)
    script.expect_nothing()


@pytest.mark.spec("2.7.4", "an echo asks a receiver for its link state at once")
def test_echo_to_receiver(play_client: Play) -> None:
    """Pitfall 5: the credit in the answer is what is left, not what was granted."""
    script = play_client()
    script.receiver(script.session(), credit=5)
    script.transfer(0)
    script.flow(next_outgoing_id=1, handle=0, delivery_count=1, link_credit=4, available=9, echo=True)
    script.expect(Flow, handle=0, delivery_count=1, link_credit=4, echo=False)
    script.expect_nothing()


@pytest.mark.spec("2.7.4", "this side may ask for an echo, and gets one")
def test_echo_between_engines() -> None:
    """Both owners are told, and the exchange ends after one answer."""
    pair = EnginePair()
    pair.open()
    _, receiving = pair.attach(credit=5)
    receiving.flow(5, echo=True)
    pair.run()
    assert len([event for event in pair.server_events if isinstance(event, FlowReceived)]) == 1
    assert len([event for event in pair.client_events if isinstance(event, CreditChanged)]) == 1


@pytest.mark.spec("2.6.7", "available tells how many deliveries wait at the sender")
def test_available() -> None:
    """The receiver knows the number after an offer."""
    pair = EnginePair()
    pair.open()
    sending, receiving = pair.attach()
    sending.offer(12)
    pair.run()
    assert receiving.available == 12
    assert [event.link for event in pair.server_events if isinstance(event, FlowReceived)] == [receiving]


@pytest.mark.spec("2.6.7", "available counts the deliveries that wait when the flow is written")
def test_available_now() -> None:
    """Where the owner counts what waits, each flow of the sender's says it: the answer to an echo, and to a drain."""
    pair = EnginePair()
    pair.open()
    sending, receiving = pair.attach()
    waiting = [b"1", b"2", b"3"]
    sending.count_waiting = lambda: len(waiting)
    receiving.flow(0, echo=True)
    pair.run()
    assert receiving.available == 3
    receiving.flow(1, drain=True)
    pair.run()
    sending.send(waiting.pop())
    sending.drained()
    pair.run()
    assert (receiving.available, receiving.credit) == (2, 0)


@pytest.mark.spec("2.6.8", "synchronous get: one credit, one message or none, by drain")
def test_synchronous_get() -> None:
    """The pattern of the specification, with a message and without."""
    pair = EnginePair()
    pair.open()
    sending, receiving = pair.attach()
    receiving.flow(1)
    pair.run()
    sending.send(b"here")
    pair.run()
    assert receiving.incoming.popleft().payload == b"here"
    receiving.flow(1)
    pair.run()
    receiving.flow(1, drain=True)
    pair.run()
    sending.drained()
    pair.run()
    assert receiving.credit == 0
    assert not receiving.incoming


@pytest.mark.spec("2.6.10", "stopping a link: credit 0 with an echo; deliveries before the answer are taken")
def test_stop_with_deliveries_on_the_way(play_client: Play) -> None:
    """Credit that was taken back may have been used already: the deliveries are on their way and no fault."""
    script = play_client()
    session = script.session()
    link = script.receiver(session, credit=5)
    link.flow(0, echo=True)
    script.expect(Flow, link_credit=0, echo=True)
    script.transfer(0)
    script.transfer(1)
    assert len(link.incoming) == 2
    assert not any(isinstance(event, LinkEnded) for event in script.events)
    script.flow(next_outgoing_id=2, handle=0, delivery_count=2, link_credit=0)
    link.flow(3)
    script.expect(Flow, delivery_count=2, link_credit=3)
