"""Resuming as sender, on the wire: the maps of both attaches, and what crosses again (§2.6.13, §3.4.6)."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.engine import (
    CreditChanged,
    DeliveriesUnresumed,
    LinkAttached,
    LinkIncomplete,
    OutcomesReceived,
    OutgoingDelivery,
    SessionBegun,
    SessionUnmapped,
)
from amqp10.errors import RemoteProtocolError
from amqp10.messaging import ACCEPTED, RELEASED, Received, Source, Target
from amqp10.testing import Attach, Detach, Disposition, End, Transfer

from ..kit.conformance.resuming import (
    ABSENT,
    BODY,
    IN_THE_BODY,
    PAYLOAD,
    TAG,
    WHOLE,
    Play,
    outgoing,
    resume_sender,
    terms,
)

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
    """Return the frames that go out for each pair of states, on a link whose receiver settles second."""
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


@pytest.mark.spec(
    "2.6.13", "what is said of an earlier attachment does not count once its delivery is sent again, or dropped"
)
@pytest.mark.parametrize("then", ["resend", "forget"])
def test_late_word_on_an_earlier_attachment(play_client: Play, then: str) -> None:
    """Though until then, after a detach that closes nothing, it does count."""
    script = play_client()
    session = script.session()
    before = script.sender(session, terms(), credit=5)
    before.lingers = True
    delivery = before.send(PAYLOAD)
    script.expect(Transfer, delivery_id=0)
    script.send(Detach(handle=0))
    script.expect(Detach)
    again = script.sender(session, terms(), credit=5)
    getattr(again, then)(delivery)
    script.take_events()
    script.send(Disposition(role=True, first=0, settled=True, state=RELEASED))
    assert delivery.local_settled is (then == "forget")
    assert delivery.remote_state is None
    assert script.take_events() == []


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


@pytest.mark.spec("2.7.3", "a new attach has a null map; one that resumes has a map, even an empty one")
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


# Incomplete maps


@pytest.mark.spec("2.6.13", "a delivery missing from an incomplete map proves nothing")
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


@pytest.mark.spec("2.7.3", "a map too large for a frame is cut, and marked incomplete")
@pytest.mark.spec("2.6.13", "with an incomplete map, a sender settles deliveries that only the receiver holds")
def test_our_map_is_incomplete(play_client: Play) -> None:
    """The map has as many deliveries as fit. A transfer settles those that the receiver holds and we have settled."""
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


@pytest.mark.spec("2.6.13", "a delivery to be resumed needs credit, and goes before newer ones")
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
