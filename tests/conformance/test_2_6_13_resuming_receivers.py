"""Resuming as receiver, on the wire: the maps of both attaches, and what crosses again (§2.6.13, §3.4.6)."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.engine import (
    DeliveriesResumed,
    DeliveriesUnresumed,
    FlowReceived,
    LinkEnded,
    ReceiverLink,
    SettlementsReceived,
)
from amqp10.errors import LocalProtocolError, RemoteProtocolError
from amqp10.messaging import ACCEPTED, RELEASED, Error, Modified, Received, Rejected
from amqp10.testing import Attach, Detach, Disposition, EngineScript, Flow, Transfer
from amqp10.types import Symbol

from ..kit.conformance.resuming import (
    ABSENT,
    BODY,
    IN_THE_BODY,
    PAYLOAD,
    TAG,
    WHOLE,
    Play,
    incoming,
    resume_receiver,
    terms,
)


@pytest.mark.spec("2.6.13", "the receiver's attach has how far a delivery came, or its outcome")
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


@pytest.mark.spec("2.6.13", "a part that no delivery here began with is not resumed")
@pytest.mark.parametrize("fields", [{"resume": True}, {"delivery_tag": None}])
def test_part_of_nothing(receiving: tuple[EngineScript, ReceiverLink], fields: dict[str, Any]) -> None:
    """Neither one that resumes what is unknown here, nor one without a tag by which the sender could know it."""
    script, link = receiving
    script.transfer(0, b"x", more=True, **fields)
    script.end_of_stream()
    assert link.suspended() == []


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
    """A delivery that is sent twice is taken once."""
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


@pytest.mark.spec("2.7.5", "a partly received delivery is dropped when its resumption is aborted")
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


@pytest.mark.spec("3.4.6", "if the outcomes differ, the sender's counts; the receiver echoes it and settles")
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


@pytest.mark.spec("2.6.13", "an outcome in the map is sent again if the sender resumes without settling")
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


def test_outcome_too_large_to_tell(play_client: Play) -> None:
    """An outcome that no frame can tell is refused when it is given, before and after the sender has resumed."""
    delivery = incoming(play_client)
    script = play_client(peer={"max_frame_size": 512})
    link = resume_receiver(script, delivery, None)
    large = Rejected(Error(Symbol("x:large"), "x" * 500))
    for _ in range(2):
        with pytest.raises(LocalProtocolError, match="does not fit a frame"):
            link.settle(delivery, large)
        assert delivery.state is None
        if not delivery.resumed:
            script.transfer(3, b"", delivery_tag=TAG, resume=True)
    link.settle(delivery, ACCEPTED)
    script.expect(Disposition, first=3, state=ACCEPTED)


@pytest.mark.spec("2.6.13", "an outcome too large for the new connection's frames is sent without its details")
@pytest.mark.parametrize(
    ("state", "told"),
    [
        (Rejected(Error(Symbol("x:large"), "x" * 500)), Rejected(Error(Symbol("x:large")))),
        (Modified(True, False, {Symbol("x"): "x" * 500}), Modified(True, False)),
    ],
)
@pytest.mark.parametrize("restated", [False, True])
def test_outcome_too_large_for_the_new_frames(play_client: Play, state: Any, told: Any, restated: bool) -> None:
    """Both where it was given here, and where the sender's is to be echoed; the connection goes on."""
    delivery = incoming(play_client)
    delivery.state = ACCEPTED if restated else state
    script = play_client(peer={"max_frame_size": 512})
    resume_receiver(script, delivery, state if restated else None)
    script.transfer(3, b"", delivery_tag=TAG, resume=True, state=state if restated else None)
    script.expect(Disposition, first=3, settled=True, state=told)
    assert script.engine.opened
    assert delivery.local_settled


@pytest.mark.spec("2.6.13", "a sender that does not resume gets no states of the deliveries held here")
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


@pytest.mark.spec("2.6.13", "a resumed stream that has its outcome is not sent to its end")
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
