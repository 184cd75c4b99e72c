"""Dispositions (§2.7.6) and delivery-tags (§2.6.12): ranges, what is unknown, what is told before an end."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.engine import (
    DeliveriesReceived,
    LinkEnded,
    LinkTerms,
    OutcomesReceived,
    ReceiverLink,
    SenderLink,
    SessionTerms,
)
from amqp10.errors import LocalProtocolError, RemoteProtocolError
from amqp10.messaging import ACCEPTED, RELEASED, Source, Target
from amqp10.testing import Detach, Disposition, End, EngineScript, Flow, Transfer

from ..kit.conformance.play import Play, condition_is


@pytest.mark.spec("2.7.6", "neighbors with one outcome are one range")
def test_range_out(receiving: tuple[EngineScript, ReceiverLink]) -> None:
    """Pitfall 22: a hundred settlements are one frame; a gap or another outcome begins a new one."""
    script, link = receiving
    for number in range(100):
        script.transfer(number)
    deliveries = list(link.incoming)
    for delivery in deliveries[:40] + deliveries[41:]:
        link.settle(delivery, ACCEPTED)
    link.settle(deliveries[40], RELEASED)
    spoken = {}
    while (item := script.read()) is not None:
        frame = script.transcript.check(item, Disposition, None, {"role": True, "settled": True})
        spoken[frame.first] = (frame.last if frame.last is not None else frame.first, type(frame.state))
    assert spoken == {0: (39, type(ACCEPTED)), 40: (40, type(RELEASED)), 41: (99, type(ACCEPTED))}


@pytest.mark.spec("2.7.6", "a delivery that is settled as the last one was joins its range")
def test_settled_like_the_last(receiving: tuple[EngineScript, ReceiverLink]) -> None:
    """It is unsettled no more, neither here nor, with the disposition, at the sender."""
    script, link = receiving
    for number in range(3):
        script.transfer(number)
    first, *others = link.incoming
    link.settle(first, ACCEPTED)
    for each in others:
        assert link.settle_like_last(each.delivery_id, each.tag, ACCEPTED)
    assert link.unsettled == {}
    script.expect(Disposition, role=True, first=0, last=2, settled=True, state=ACCEPTED)
    script.expect_nothing()


@pytest.mark.spec("2.7.6", "settled out of order, ranges are still ranges")
def test_range_out_of_order(receiving: tuple[EngineScript, ReceiverLink]) -> None:
    """The order of settling makes no difference within one write."""
    script, link = receiving
    for number in range(10):
        script.transfer(number)
    for delivery in sorted(link.incoming, key=lambda delivery: ((delivery.delivery_id or 0) * 7) % 10):
        link.settle(delivery, ACCEPTED)
    script.expect(Disposition, first=0, last=9)
    script.expect_nothing()


@pytest.mark.spec("2.7.6", "a range names deliveries of any link of the session")
def test_range_in_over_links(play_client: Play) -> None:
    """One disposition settles what two links have sent, each owner is told of its own."""
    script = play_client()
    session = script.session()
    one = script.sender(session, credit=10)
    two = script.sender(session, credit=10)
    for number in range(6):
        (one, two)[number % 2].send(b"")
        script.expect(Transfer, delivery_id=number)
    script.send(Disposition(role=True, first=0, last=5, settled=True, state=ACCEPTED))
    told = [event for event in script.take_events() if isinstance(event, OutcomesReceived)]
    assert {event.link: len(event.deliveries) for event in told} == {one: 3, two: 3}
    assert one.unsettled == two.unsettled == {}


@pytest.mark.spec("2.7.6", "a range may go beyond the unsettled deliveries without limit")
def test_range_beyond(sending: tuple[EngineScript, SenderLink]) -> None:
    """Ids that are settled or were never sent are passed over, however many."""
    script, link = sending
    for number in range(3):
        link.send(b"")
        script.expect(Transfer, delivery_id=number)
    script.send(Disposition(role=True, first=1, last=1, settled=True, state=RELEASED))
    script.send(Disposition(role=True, first=2**32 - 5, last=2**31 - 10, settled=True, state=ACCEPTED))
    assert link.unsettled == {}
    told = [event for event in script.take_events() if isinstance(event, OutcomesReceived)]
    assert [len(event.deliveries) for event in told] == [1, 2]


@pytest.mark.spec("2.7.6", "dispositions of deliveries that are unknown or settled are ignored")
def test_unknown_deliveries(sending: tuple[EngineScript, SenderLink]) -> None:
    """No event, no answer, no fault; also in the wrong role."""
    script, link = sending
    link.send(b"", settled=True)
    script.expect(Transfer)
    script.send(Disposition(role=True, first=0, settled=True, state=ACCEPTED))
    script.send(Disposition(role=True, first=77, last=99, settled=True, state=ACCEPTED))
    script.send(Disposition(role=False, first=0, last=9, settled=True))
    assert script.take_events() == []
    script.expect_nothing()
    assert link.attached


@pytest.mark.spec("2.7.6", "a range whose last is before its first is an error of the session")
def test_backward_range(sending: tuple[EngineScript, SenderLink]) -> None:
    """By RFC 1982, whose half of the circle is too far."""
    script, _ = sending
    script.send(Disposition(role=True, first=5, last=4, settled=True))
    script.expect(End, error=condition_is("amqp:invalid-field"))


@pytest.mark.spec("2.7.6", "batchable dispositions are taken like others")
def test_batchable(sending: tuple[EngineScript, SenderLink]) -> None:
    """It is a hint, no more."""
    script, link = sending
    link.send(b"")
    script.expect(Transfer)
    script.send(Disposition(role=True, first=0, settled=True, state=ACCEPTED, batchable=True))
    assert link.unsettled == {}


@pytest.mark.spec("2.6.12", "a delivery-tag that is in use by an unsettled delivery is an error of the link")
def test_tag_in_use(receiving: tuple[EngineScript, ReceiverLink]) -> None:
    """Two unsettled deliveries with one tag could not be told apart when the link is resumed."""
    script, link = receiving
    script.transfer(0, delivery_tag=b"same")
    script.transfer(1, delivery_tag=b"same")
    script.expect(Detach, closed=True, error=condition_is("amqp:invalid-field"))
    assert len(link.incoming) == 1


@pytest.mark.spec("2.6.12", "a delivery-tag is free again once its delivery is settled")
def test_tag_reuse(receiving: tuple[EngineScript, ReceiverLink]) -> None:
    """Peers that count tags in a byte do so."""
    script, link = receiving
    for number in range(3):
        script.transfer(number, delivery_tag=b"same")
        link.settle(link.incoming.popleft(), ACCEPTED)
        script.expect(Disposition, first=number)


@pytest.mark.spec("2.6.4", "settling on a link that is gone is refused")
def test_settle_after_detach(receiving: tuple[EngineScript, ReceiverLink]) -> None:
    """Pitfall 10: at once, with an error, nothing hangs and nothing is written."""
    script, link = receiving
    script.transfer(0)
    delivery = link.incoming.popleft()
    script.send(Detach(handle=0, closed=True))
    script.expect(Detach)
    with pytest.raises(LocalProtocolError):
        link.settle(delivery, ACCEPTED)
    script.expect_nothing()


@pytest.mark.spec("2.6.12", "settlements are sent before the end of their link")
def test_settled_before_detach(receiving: tuple[EngineScript, ReceiverLink]) -> None:
    """Settled deliveries are reported, although dispositions are collected until the output is taken."""
    script, link = receiving
    script.transfer(0)
    link.settle(link.incoming.popleft(), ACCEPTED)
    link.detach()
    script.expect(Disposition, first=0, settled=True)
    script.expect(Detach)


@pytest.mark.parametrize("ending", ["end", "close"])
@pytest.mark.spec("2.6.12", "settlements are sent before the end of their session or connection")
def test_settled_before_end(play_client: Play, ending: str) -> None:
    """As for the link."""
    script = play_client()
    session = script.session()
    link = script.receiver(session, credit=5)
    script.transfer(0)
    link.settle(link.incoming.popleft(), ACCEPTED)
    if ending == "end":
        session.end()
    else:
        script.engine.close()
    script.expect(Disposition, first=0, settled=True)


@pytest.mark.spec("2.7.5", "a transfer on a link whose sender we are ends the session")
def test_transfer_to_sender(sending: tuple[EngineScript, SenderLink]) -> None:
    """The peer is the receiver there."""
    script, link = sending
    script.transfer(0)
    script.expect(End, error=condition_is("amqp:not-allowed"))
    error = script.expect_event(LinkEnded).error
    assert isinstance(error, RemoteProtocolError)
    assert not link.attached


@pytest.mark.spec("2.6.12", "deliveries are told once a link and pass")
def test_one_event_for_many(receiving: tuple[EngineScript, ReceiverLink]) -> None:
    """A thousand deliveries in one portion of bytes are one event."""
    script, link = receiving
    parts: list[Any] = [
        (Transfer(handle=0, delivery_id=number, delivery_tag=bytes([number])), b"x") for number in range(50)
    ]
    script.send_together(*parts)
    events = [event for event in script.take_events() if isinstance(event, DeliveriesReceived)]
    assert [event.link for event in events] == [link]
    assert len(link.incoming) == 50


@pytest.mark.spec("2.6.13", "the state that resuming needs is kept until settlement")
def test_unsettled_state_is_kept(sending: tuple[EngineScript, SenderLink]) -> None:
    """Payload and tag stay with the sender while the link is lost, for the attach that resumes it."""
    script, link = sending
    sent = link.send(b"keep me", tag=b"tag")
    script.expect(Transfer)
    script.end_of_stream()
    assert link.unsettled == {b"tag": sent}
    assert sent.payload == b"keep me"
    assert sent.remote_state is None


@pytest.mark.spec("2.6.7", "the window counts an aborted transfer, too")
def test_window_counts_aborts(play_client: Play) -> None:
    """Transfer-ids go on with every frame."""
    script = play_client()
    session = script.session(SessionTerms(incoming_window=4))
    script.receiver(session, credit=5)
    script.transfer(0, b"x", more=True)
    script.send(Transfer(handle=0, aborted=True))
    script.expect(Flow, handle=None, next_incoming_id=2)


@pytest.mark.spec("2.7.6", "the sender hears an outcome that comes after its link was detached")
@pytest.mark.parametrize("settled", [True, False])
def test_sender_hears_after_the_detach(play_client: Play, settled: bool) -> None:
    """It counts, and is answered where the receiver has not settled; after a close it does not."""
    script: EngineScript = play_client()
    session = script.session()
    for name, closed in (("open", False), ("closed", True)):
        link = script.sender(session, LinkTerms(name, Source("q"), Target("q")), credit=5)
        link.lingers = True
        delivery = link.send(b"\0\x53\x77\xa1\1x")
        script.read()
        script.send(Detach(handle=0, closed=closed))
        script.expect(Detach, closed=closed)
        script.expect_event(LinkEnded)
        number = delivery.delivery_id
        assert number is not None
        script.send(Disposition(role=True, first=number, settled=settled, state=ACCEPTED))
        assert delivery.remote_state == (None if closed else ACCEPTED)
        if not closed:
            assert script.expect_event(OutcomesReceived).deliveries == [delivery]
            if not settled:
                script.expect(Disposition, role=False, first=number, settled=True)
        script.expect_nothing()
