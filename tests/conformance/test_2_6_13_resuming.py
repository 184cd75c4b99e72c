"""Resuming deliveries, on the wire: the maps of both attaches, and what crosses again (§2.6.13, §3.4.6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amqp10.engine import (
    CreditChanged,
    DeliveriesResumed,
    DeliveriesUnresumed,
    FlowReceived,
    IncomingDelivery,
    LinkAttached,
    LinkEnded,
    LinkIncomplete,
    LinkTerms,
    OutcomesReceived,
    OutgoingDelivery,
    ReceiverLink,
    SenderLink,
    SessionBegun,
    SessionUnmapped,
    SettlementsReceived,
)
from amqp10.errors import RemoteProtocolError
from amqp10.messaging import ACCEPTED, RELEASED, Message, Received, Source, Target
from amqp10.testing import Attach, Detach, Disposition, End, EngineScript, Flow, Transfer

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


SENT_WHOLE = Received(3, 0)


@pytest.mark.spec("2.6.13", "the sender's attach says which deliveries it holds unsettled, with their states")
@pytest.mark.spec("3.4.6", "each of the fourteen examples, as sender")
@pytest.mark.parametrize(
    ("ours", "theirs", "frame", "payload"),
    [
        pytest.param(None, ABSENT, {"resume": False, "settled": False}, PAYLOAD, id="1-resent, not resumed"),
        pytest.param(
            None, IN_THE_BODY, {"resume": True, "state": IN_THE_BODY}, PAYLOAD[BODY + 4 :], id="2-from where it ends"
        ),
        pytest.param(None, ACCEPTED, {"resume": True, "settled": True, "state": ACCEPTED}, b"", id="3-settled"),
        pytest.param(None, None, {"resume": True, "state": None}, PAYLOAD, id="4-from the beginning"),
        pytest.param(SENT_WHOLE, ABSENT, None, b"", id="5-cannot be sent again"),
        pytest.param(SENT_WHOLE, WHOLE, {"resume": True, "state": WHOLE, "more": False}, b"", id="6-nothing missing"),
        pytest.param(SENT_WHOLE, Received(1, 0), {"resume": True, "aborted": True}, b"", id="7-too far back"),
        pytest.param(SENT_WHOLE, ACCEPTED, {"resume": True, "settled": True, "state": ACCEPTED}, b"", id="8-settled"),
        pytest.param(SENT_WHOLE, None, {"resume": True, "aborted": True}, b"", id="9-too far back"),
        pytest.param(ACCEPTED, ABSENT, None, b"", id="10-nothing to say"),
        pytest.param(ACCEPTED, Received(1, 0), {"resume": True, "aborted": True}, b"", id="11-decided here"),
        pytest.param(
            ACCEPTED, ACCEPTED, {"resume": True, "settled": True, "state": ACCEPTED}, b"", id="12-both say the same"
        ),
        pytest.param(ACCEPTED, RELEASED, {"resume": True, "settled": False, "state": ACCEPTED}, b"", id="13-restated"),
        pytest.param(ACCEPTED, None, {"resume": True, "aborted": True}, b"", id="14-decided here"),
    ],
)
def test_sender_rows(play_client: Play, ours: Any, theirs: Any, frame: dict[str, Any] | None, payload: bytes) -> None:
    """What goes out for each pair of states, on a link whose receiver settles second."""
    delivery = outgoing(play_client, ours, streamed=ours is SENT_WHOLE)
    script = play_client()
    session = script.session()
    link = session.attach_sender(terms("second"), resuming=[delivery])
    attach = script.expect(Attach, unsettled={TAG: ours}, incomplete_unsettled=False)
    assert delivery.delivery_id is None
    there = {} if theirs is ABSENT else {TAG: theirs}
    script.send(
        Attach(
            name="link",
            handle=0,
            role=True,
            rcv_settle_mode=1,
            source=attach.source,
            target=attach.target,
            unsettled=there,
        )
    )
    script.flow(handle=0, delivery_count=0, link_credit=10)
    if frame is None:
        script.expect_nothing()
    else:
        sent, came = script.expect_payload(Transfer, delivery_tag=TAG, delivery_id=0, message_format=lambda x: not x)
        assert {name: getattr(sent, name) or False for name in frame} == {
            name: value or False for name, value in frame.items()
        }
        assert came == payload
        script.expect_nothing()
        assert link.credit == 9
    told = [type(event) for event in script.take_events() if not isinstance(event, LinkAttached | CreditChanged)]
    known = ACCEPTED in (ours, theirs)
    restated = theirs == RELEASED
    asked = not known and (frame is None or "aborted" in frame)
    assert told == [OutcomesReceived] * (known and not restated) + [DeliveriesUnresumed] * asked
    assert (TAG in link.unsettled) == (restated or not known)


@pytest.mark.spec("2.6.13", "deliveries that only the source holds may be sent again, at the sender's discretion")
def test_only_the_source(play_client: Play) -> None:
    """On a link whose receiver settles first it may have been settled there: the owner decides."""
    delivery = outgoing(play_client, None)
    script = play_client()
    link = resume_sender(script, delivery, ABSENT)
    script.expect_nothing()
    assert script.expect_event(DeliveriesUnresumed).deliveries == [delivery]
    link.resend(delivery)
    script.expect(Transfer, delivery_tag=TAG, resume=False)


@pytest.mark.spec("2.6.13", "without a map from the peer nothing is resumed")
@pytest.mark.parametrize("mode", ["first", "second"])
def test_peer_does_not_resume(play_client: Play, mode: Any) -> None:
    """A null map is an attach anew: what was handed over is not known, in whatever mode."""
    delivery = outgoing(play_client, None)
    script = play_client()
    link = script.session().attach_sender(terms(mode), resuming=[delivery])
    script.answer_attach()
    script.flow(handle=0, delivery_count=0, link_credit=10)
    script.expect_nothing()
    assert script.expect_event(DeliveriesUnresumed).deliveries == [delivery]
    link.forget(delivery)
    assert not link.unsettled
    script.expect_nothing()


@pytest.mark.spec("2.7.3", "an attach that begins anew has a null map, one that resumes has one, be it empty")
def test_null_and_empty_maps(play_client: Play, play_server: Play) -> None:
    """As initiator and in the answer."""
    script = play_client()
    session = script.session()
    session.attach_sender(terms(name="a"))
    script.expect(Attach, unsettled=None)
    session.attach_receiver(terms(name="b"), resuming=[])
    script.expect(Attach, unsettled={}, incomplete_unsettled=False)
    script = play_server()
    script.begin()
    script.expect_event(SessionBegun).session.begin()
    script.read()
    answers: tuple[list[OutgoingDelivery] | None, ...] = (None, [])
    for handle, resuming in enumerate(answers):
        script.send(Attach(name=f"l{handle}", handle=handle, role=True, source=Source("q"), target=Target("q")))
        script.expect_event(LinkAttached).link.attach(terms(name=f"l{handle}"), resuming=resuming)
        script.expect(Attach, unsettled=None if resuming is None else {})


@pytest.mark.spec("2.7.3", "keys of the unsettled map are delivery-tags, never null")
@pytest.mark.parametrize("key", [None, "text", b"x" * 33])
def test_malformed_map(play_client: Play, key: Any) -> None:
    """Anything else ends the session."""
    script = play_client()
    script.session().attach_sender(terms(), resuming=[])
    script.answer_attach(unsettled={key: None})
    script.expect(End, error=lambda error: error.condition == "amqp:invalid-field")
    assert isinstance(script.expect_event(SessionUnmapped).error, RemoteProtocolError)


# As receiver


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


@pytest.mark.spec("2.6.13", "the receiver's attach says how far a delivery came, or the outcome it was given")
@pytest.mark.parametrize(
    ("more", "state", "said"),
    [(True, None, IN_THE_BODY), (False, None, WHOLE), (False, ACCEPTED, ACCEPTED)],
)
@pytest.mark.parametrize("streaming", [False, True])
def test_receivers_map(play_client: Play, more: bool, state: Any, said: Any, streaming: bool) -> None:
    """In part, whole, and with an outcome."""
    delivery = incoming(play_client, more=more, streaming=streaming)
    delivery.state = state
    script = play_client()
    link = script.session().attach_receiver(terms(), resuming=[delivery])
    script.expect(Attach, unsettled={TAG: said})
    assert link.unsettled == {TAG: delivery}


@pytest.mark.spec("2.6.13", "deliveries that only the target holds are settled")
def test_only_the_target(play_client: Play) -> None:
    """The sender has forgotten it; nothing more is said of it."""
    delivery = incoming(play_client)
    script = play_client()
    link = resume_receiver(script, delivery, ABSENT)
    assert script.expect_event(SettlementsReceived).deliveries == [delivery]
    assert delivery.remote_settled
    assert not link.unsettled
    link.settle(delivery, ACCEPTED)
    script.expect_nothing()


@pytest.mark.spec("2.6.13", "a resumed delivery that the receiver does not know is ignored, all of its transfers")
@pytest.mark.parametrize("streaming", [False, True])
def test_only_the_source_as_receiver(play_client: Play, streaming: bool) -> None:
    """It takes credit, and the next delivery comes as ever."""
    script = play_client()
    link = script.receiver(script.session(), terms(), credit=5)
    link.streaming = streaming
    script.transfer(0, PAYLOAD, resume=True, more=True)
    script.send(Transfer(handle=0), b"rest")
    assert not link.incoming
    assert not link.unsettled
    assert link.credit == 4
    assert script.expect_event(FlowReceived).link is link
    script.transfer(1, PAYLOAD)
    assert len(link.incoming) == 1


@pytest.mark.spec("2.6.13", "deliveries that both hold are resumed, and have a delivery-id again")
@pytest.mark.parametrize("mode", ["first", "second"])
def test_held_by_both(play_client: Play, mode: Any) -> None:
    """Without message data, or with what is here already; the outcome names the new delivery-id."""
    for state, payload in ((WHOLE, b""), (IN_THE_BODY, PAYLOAD[BODY + 4 :]), (None, b"")):
        delivery = incoming(play_client)
        script = play_client()
        link = resume_receiver(script, delivery, None, mode=mode)
        script.transfer(3, payload, delivery_tag=TAG, resume=True, state=state)
        assert script.expect_event(DeliveriesResumed).deliveries == (delivery,)
        assert (delivery.delivery_id, delivery.resumed, delivery.payload) == (3, True, PAYLOAD)
        assert not link.incoming
        link.settle(delivery, ACCEPTED)
        script.expect(Disposition, role=True, first=3, settled=mode == "first", state=ACCEPTED)


@pytest.mark.spec("2.6.13", "a delivery goes on where its data ended, or before")
@pytest.mark.parametrize("back", [0, 1, 4])
@pytest.mark.parametrize("streaming", [False, True])
def test_goes_on(play_client: Play, back: int, streaming: bool) -> None:
    """What is sent twice is taken once."""
    delivery = incoming(play_client, more=True, streaming=streaming)
    script = play_client()
    link = resume_receiver(script, delivery, None, streaming=streaming)
    state = Received(2, IN_THE_BODY.section_offset - back)
    script.transfer(0, PAYLOAD[BODY + 4 - back : -1], delivery_tag=TAG, resume=True, state=state, more=True)
    script.send(Transfer(handle=0), PAYLOAD[-1:])
    if streaming:
        parts = []
        while (part := link.read(delivery)) is not None:
            parts.append(part)
        assert (b"".join(parts), delivery.stream.whole) == (PAYLOAD, True)
        assert not link.incoming
    else:
        assert list(link.incoming) == [delivery]
        assert delivery.payload == PAYLOAD
    link.settle(delivery, ACCEPTED)
    script.expect(Disposition, first=0, settled=True, state=ACCEPTED)


@pytest.mark.spec("2.6.13", "a delivery cannot go on after a gap")
@pytest.mark.parametrize("streaming", [False, True])
def test_gap(play_client: Play, streaming: bool) -> None:
    """The link ends, and not with half a message."""
    delivery = incoming(play_client, more=True, streaming=streaming)
    script = play_client()
    link = resume_receiver(script, delivery, None, streaming=streaming)
    state = Received(2, IN_THE_BODY.section_offset + 1)
    script.transfer(0, PAYLOAD[BODY + 5 :], delivery_tag=TAG, resume=True, state=state)
    script.expect(Detach, error=lambda error: error is not None)
    assert isinstance(script.expect_event(LinkEnded).error, RemoteProtocolError)
    assert not link.incoming


@pytest.mark.spec("2.6.13", "a resumed transfer that is settled ends the delivery")
@pytest.mark.spec("2.7.5", "a resumed transfer that is aborted ends the delivery")
@pytest.mark.parametrize(
    "fields",
    [{"settled": True, "state": ACCEPTED}, {"settled": True}, {"aborted": True}, {"aborted": True, "more": True}],
)
@pytest.mark.parametrize("streaming", [False, True])
def test_ended_by_the_sender(play_client: Play, fields: dict[str, Any], streaming: bool) -> None:
    """Its owner hears of it, and the message does not come again."""
    delivery = incoming(play_client, streaming=streaming)
    delivery.state = ACCEPTED
    script = play_client()
    link = resume_receiver(script, delivery, None, mode="second", streaming=streaming)
    script.transfer(0, b"", delivery_tag=TAG, resume=True, **fields)
    assert list(script.expect_event(SettlementsReceived).deliveries) == [delivery]
    assert delivery.remote_settled
    assert not link.unsettled
    assert not link.incoming
    script.expect_nothing()


@pytest.mark.spec("2.7.5", "a delivery of which a part is here is dropped when its resumption is aborted")
@pytest.mark.parametrize("streaming", [False, True])
def test_part_aborted(play_client: Play, streaming: bool) -> None:
    """The next delivery may have its tag."""
    delivery = incoming(play_client, more=True, streaming=streaming)
    script = play_client()
    link = resume_receiver(script, delivery, None, streaming=streaming)
    script.transfer(0, b"", delivery_tag=TAG, resume=True, aborted=True)
    assert not link.unsettled
    if streaming:
        assert delivery.stream.aborted
    script.transfer(1, PAYLOAD, delivery_tag=TAG)
    assert [each.delivery_id for each in link.incoming] == [1]


@pytest.mark.spec("3.4.6", "where the outcomes differ the sender's stands; the receiver echoes it and settles")
def test_restated(play_client: Play) -> None:
    """The thirteenth example, as receiver."""
    delivery = incoming(play_client)
    delivery.state = RELEASED
    script = play_client()
    link = resume_receiver(script, delivery, ACCEPTED, mode="second")
    script.transfer(0, b"", delivery_tag=TAG, resume=True, state=ACCEPTED)
    script.expect(Disposition, first=0, settled=True, state=ACCEPTED)
    assert delivery.remote_state == ACCEPTED
    assert list(script.expect_event(SettlementsReceived).deliveries) == [delivery]
    assert not link.unsettled


@pytest.mark.spec("2.6.13", "an outcome that the map told is told again when the sender resumes without settling")
def test_outcome_told_again(play_client: Play) -> None:
    """And one that was given between the attach and the transfer is told then."""
    for early in (False, True):
        delivery = incoming(play_client)
        delivery.state = None if early else RELEASED
        script = play_client()
        link = resume_receiver(script, delivery, None)
        if early:
            link.settle(delivery, RELEASED)
            script.expect_nothing()
        script.transfer(0, b"", delivery_tag=TAG, resume=True)
        script.expect(Disposition, first=0, settled=True, state=RELEASED)


@pytest.mark.spec("2.6.13", "a sender that does not resume has nothing that could be said of what is held here")
def test_sender_does_not_resume(play_client: Play) -> None:
    """The deliveries are stale, and their tags free."""
    delivery = incoming(play_client)
    script = play_client()
    link = script.session().attach_receiver(terms(), resuming=[delivery])
    script.answer_attach()
    assert list(script.expect_event(DeliveriesUnresumed).deliveries) == [delivery]
    link.flow(1)
    script.expect(Flow)
    script.transfer(0, PAYLOAD, delivery_tag=TAG)
    assert [each.delivery_id for each in link.incoming] == [0]


# Incomplete maps


@pytest.mark.spec("2.6.13", "an incomplete map says nothing by what it leaves out")
def test_peers_map_is_incomplete(play_client: Play) -> None:
    """Nothing is sent anew; when what can be resumed is settled, the link is attached again."""
    delivery = outgoing(play_client, None)
    script = play_client()
    link = script.session().attach_sender(terms("second"), resuming=[delivery])
    script.answer_attach(unsettled={b"other": ACCEPTED}, incomplete_unsettled=True)
    script.flow(handle=0, delivery_count=0, link_credit=10)
    script.expect_nothing()
    assert (link.incomplete, link.credit) == (True, 0)
    assert script.expect_event(LinkIncomplete).link is link
    link.detach(closed=False)
    script.expect(Detach, closed=False)
    assert link.suspended() == [delivery]


@pytest.mark.spec("2.7.3", "a map that is too large for a frame is cut, and says so")
@pytest.mark.spec("2.6.13", "with an incomplete map of its own a sender settles what the receiver holds without need")
def test_our_map_is_incomplete(play_client: Play) -> None:
    """What fits is said; what the receiver holds and we have settled is settled by a transfer."""
    script = play_client()
    link = script.sender(script.session(), terms(), credit=50)
    for number in range(50):
        link.send(PAYLOAD, tag=b"%032d" % number)
    script.end_of_stream()
    deliveries = link.suspended()
    script = play_client({"max_frame_size": 512})
    link = script.session().attach_sender(terms(), resuming=deliveries)
    attach = script.expect(Attach, incomplete_unsettled=True)
    assert attach.unsettled is not None
    said = list(attach.unsettled)
    assert said == [delivery.tag for delivery in deliveries[: len(said)]]
    assert 5 < len(said) < 15
    theirs = {b"settled": ACCEPTED, b"half": IN_THE_BODY, deliveries[40].tag: ACCEPTED}
    script.send(Attach(name="link", handle=0, role=True, source=attach.source, target=attach.target, unsettled=theirs))
    script.flow(handle=0, delivery_count=0, link_credit=10)
    script.expect(Transfer, delivery_tag=b"settled", resume=True, settled=True, state=ACCEPTED)
    script.expect(Transfer, delivery_tag=b"half", resume=True, aborted=True)
    script.expect(Transfer, delivery_tag=deliveries[40].tag, resume=True, settled=True, state=ACCEPTED)
    script.expect_nothing()
    assert script.expect_event(OutcomesReceived).deliveries == [deliveries[40]]
    assert len(list(script.expect_event(DeliveriesUnresumed).deliveries)) == 49
    assert script.expect_event(LinkIncomplete).link is link


@pytest.mark.spec("2.6.13", "what waits to be resumed needs credit, and goes before anything newer")
def test_waits_for_credit(play_client: Play) -> None:
    """One credit, one delivery; the next one with the next."""
    script = play_client()
    link = script.sender(script.session(), terms("second"), credit=5)
    deliveries = [link.send(PAYLOAD) for _ in range(3)]
    script.end_of_stream()
    script = play_client()
    link = script.session().attach_sender(terms("second"), resuming=link.suspended())
    script.answer_attach(unsettled={deliveries[1].tag: WHOLE})
    script.expect_nothing()
    for credit, delivery in enumerate(deliveries, 1):
        script.flow(handle=0, delivery_count=0, link_credit=credit)
        script.expect(Transfer, delivery_tag=delivery.tag, resume=delivery is deliveries[1])
        script.expect_nothing()
        assert link.credit == 0
    script.flow(handle=0, delivery_count=3, link_credit=1)
    assert link.send(PAYLOAD).delivery_id == 3


@pytest.mark.spec("2.6.13", "delivery-ids of an earlier attachment mean nothing")
def test_old_delivery_ids(play_client: Play) -> None:
    """A disposition before the delivery is resumed names nothing."""
    delivery = outgoing(play_client, None)
    script = play_client()
    link = script.session().attach_sender(terms(), resuming=[delivery])
    script.answer_attach(unsettled={TAG: WHOLE})
    script.send(Disposition(role=True, first=0, settled=True, state=ACCEPTED))
    assert link.unsettled == {TAG: delivery}
    script.flow(handle=0, delivery_count=0, link_credit=1)
    script.expect(Transfer, delivery_id=0, resume=True)
    script.send(Disposition(role=True, first=0, settled=True, state=ACCEPTED))
    assert script.expect_event(OutcomesReceived).deliveries == [delivery]
    assert not link.unsettled


@pytest.mark.spec("2.6.13", "a stream that has its outcome is not sent to its end when it is resumed")
def test_stream_with_an_outcome(play_client: Play) -> None:
    """It ends there, is not taken for whole, and the credit is told of."""
    delivery = incoming(play_client, more=True, streaming=True)
    delivery.state = ACCEPTED
    script = play_client()
    link = resume_receiver(script, delivery, None, mode="second", streaming=True)
    script.transfer(0, b"", delivery_tag=TAG, resume=True, settled=True, state=ACCEPTED)
    assert list(script.expect_event(SettlementsReceived).deliveries) == [delivery]
    assert script.expect_event(FlowReceived).link is link
    assert (delivery.stream.whole, delivery.stream.aborted) == (False, True)
    assert delivery.remote_state == ACCEPTED
    assert not link.unsettled
    script.transfer(1, PAYLOAD)
    assert len(link.incoming) == 1
