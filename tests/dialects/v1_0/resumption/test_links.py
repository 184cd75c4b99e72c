"""Links that are resumed, between two engines: what each end learns, and what crosses again (§2.6.13)."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.engine import (
    DeliveriesReceived,
    DeliveriesResumed,
    DeliveriesUnresumed,
    FlowReceived,
    LinkAttached,
    LinkIncomplete,
    LinkTerms,
    OutcomesReceived,
    SettlementsReceived,
)
from amqp10.errors import LocalProtocolError
from amqp10.messaging import ACCEPTED, RELEASED, Message, Received, Source, Target

from ....kit.dialects.v1_0.two_ends import Ends
from ....kit.parents import engine_of, session_of

BODY = Message("x").encode()
LARGE = Message(bytes(range(250)) * 8).encode()


@pytest.fixture(params=["sender", "receiver"])
def by(request: pytest.FixtureRequest) -> str:
    """Which end attaches."""
    return str(request.param)


def test_held_by_both(by: str) -> None:
    """A delivery that both hold is resumed without its payload, is not received twice, and can be settled as usual."""
    ends = Ends(by=by)
    sent = ends.sender.send(BODY)
    (delivery,) = ends.came()
    ends.resume()
    assert ends.told(DeliveriesResumed) == [delivery]
    assert ends.came() == []
    assert delivery.link is ends.receiver
    assert delivery.resumed
    ends.receiver.settle(delivery, ACCEPTED)
    assert ends.told(OutcomesReceived) == [sent]
    assert (sent.remote_state, sent.remote_settled) == (ACCEPTED, True)
    assert not ends.sender.unsettled
    assert not ends.receiver.unsettled


def test_ends(by: str) -> None:
    """The part that resumes is there from the attach until the last delivery has its place, and at no other time."""

    def resuming() -> list[bool]:
        links: list[Any] = [ends.sender, ends.receiver]
        return [link.resumption is not None for link in links]

    ends = Ends(by=by)
    assert resuming() == [False, False]
    for _ in range(2):
        ends.sender.send(BODY)
    held = ends.came()
    ends.resume(credit=0)
    assert resuming() == [True, True]
    ends.receiver.flow(1)
    ends.pair.run()
    assert resuming() == [True, True]
    ends.receiver.flow(1)
    ends.pair.run()
    assert resuming() == [False, False]
    for delivery in held:
        ends.receiver.settle(delivery, ACCEPTED)
    assert len(ends.told(OutcomesReceived)) == 2
    ends.resume()
    assert resuming() == [False, False]


def test_outcome_in_the_map(by: str) -> None:
    """An outcome that was given and never arrived is in the receiver's map, and ends the delivery on both sides."""
    ends = Ends("second", by=by)
    sent = ends.sender.send(BODY)
    (delivery,) = ends.came()
    ends.receiver.settle(delivery, ACCEPTED)
    ends.resume()
    assert ends.told(OutcomesReceived) == [sent]
    assert (sent.remote_state, sent.on_wire) == (ACCEPTED, True)
    assert ends.told(SettlementsReceived) == [delivery]
    assert delivery.remote_state == ACCEPTED
    assert not ends.sender.unsettled
    assert not ends.receiver.unsettled


def test_settlement_lost(by: str) -> None:
    """A delivery that the sender had settled is missing in its map, so the receiver forgets it, too."""
    ends = Ends("second", by=by)
    ends.sender.send(BODY)
    (delivery,) = ends.came()
    ends.receiver.settle(delivery, ACCEPTED)
    for engine, other in ((ends.pair.client, ends.pair.server), (ends.pair.server, ends.pair.client)):
        if ends.receiver.session.engine is engine:
            other.receive_data(engine.data_to_send())
    ends.resume()
    assert ends.told(SettlementsReceived) == [delivery]
    assert delivery.remote_settled
    assert not ends.receiver.unsettled


@pytest.mark.parametrize("mode", ["first", "second"])
def test_never_arrived(by: str, mode: str) -> None:
    """A delivery of which the receiver surely has nothing is sent again; in other cases the owner is asked."""
    ends = Ends(mode, by=by)  # type: ignore[arg-type]
    sent = ends.sender.send(BODY)
    ends.pair.client.data_to_send(), ends.pair.server.data_to_send()
    ends.resume()
    if mode == "first":
        assert ends.told(DeliveriesUnresumed) == [sent]
        assert ends.came() == []
        ends.sender.resend(sent)
        with pytest.raises(LocalProtocolError, match="not being sent can be sent again"):
            ends.sender.resend(sent)
    (delivery,) = ends.came()
    assert (delivery.tag, delivery.payload, delivery.resumed) == (sent.tag, BODY, False)


def test_never_left(by: str) -> None:
    """A delivery that was never written is sent without asking, before newer ones, even if the peer does not resume."""
    ends = Ends(by=by)
    sent = ends.sender.send(BODY)
    waiting = []
    ends.sender.session.window.remote_incoming_window = 0  # type: ignore[attr-defined]
    waiting.append(ends.sender.send(LARGE))
    assert (sent.begun, waiting[0].begun) == (True, False)
    ends.pair.lose()
    ends.attach(ends.sender.suspended(), None, credit=1)
    assert ends.told(DeliveriesUnresumed) == [sent]
    assert ends.sender.credit == 0
    assert [each.payload for each in ends.came()] == [LARGE]
    ends.sender.forget(sent)
    assert list(ends.sender.unsettled.values()) == waiting


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("mode", ["first", "second"])
def test_in_part(by: str, mode: str, streaming: bool) -> None:
    """A large message goes on where it was cut off, and comes once."""
    ends = Ends(mode, by=by, frame_size=512, streaming=streaming)  # type: ignore[arg-type]
    sent = ends.sender.send(LARGE)
    writer, reader = ends.pair.client, ends.pair.server
    if ends.sender.session.engine is reader:
        writer, reader = reader, writer
    reader.receive_data(writer.data_to_send()[:1200])
    assert len(ends.receiver.suspended()) == 1
    before = ends.pair
    ends.resume()
    assert ends.pair is not before
    (theirs,) = (ends.receiver.remote.unsettled or {}).items()  # type: ignore[union-attr]
    assert theirs == (sent.tag, None)
    if streaming:
        (delivery,) = ends.told(DeliveriesResumed)
        got = b""
        while (part := ends.receiver.read(delivery)) is not None:
            got += part
        assert delivery.stream.whole
    else:
        assert ends.told(DeliveriesResumed) == []
        assert len(ends.told(DeliveriesReceived)) == 1
        (delivery,) = ends.came()
        got = delivery.payload
    assert got == LARGE
    ends.receiver.settle(delivery, ACCEPTED)
    assert ends.told(OutcomesReceived) == [sent]
    assert not ends.sender.unsettled


def test_stale(by: str) -> None:
    """Where the sender does not resume, what the receiver holds is stale: nothing can be said of it any more."""
    ends = Ends(by=by)
    ends.sender.send(BODY)
    (delivery,) = ends.came()
    ends.pair.lose()
    ends.attach(None, ends.receiver.suspended())
    assert ends.told(DeliveriesUnresumed) == [delivery]
    with pytest.raises(LocalProtocolError, match="not resumed"):
        ends.receiver.settle(delivery, ACCEPTED)
    ends.sender.send(BODY)
    assert len(ends.came()) == 1


def test_settle_while_it_waits() -> None:
    """An outcome given before the sender has resumed the delivery is told when it has."""
    ends = Ends(by="receiver")
    sent = ends.sender.send(BODY)
    (delivery,) = ends.came()
    ends.resume(credit=0)
    ends.receiver.settle(delivery, RELEASED)
    ends.pair.run()
    assert sent.remote_state is None
    ends.receiver.flow(1)
    assert ends.told(OutcomesReceived) == [sent]
    assert sent.remote_state == RELEASED


def test_waits_before_newer() -> None:
    """A resumed delivery takes credit, and comes before newer ones."""
    ends = Ends("second")
    for _ in range(3):
        ends.sender.send(BODY)
    ends.pair.client.data_to_send()
    ends.resume(credit=2)
    assert ends.sender.credit == 0
    with pytest.raises(LocalProtocolError, match="no credit"):
        ends.sender.send(BODY)
    assert len(ends.came()) == 2
    ends.receiver.flow(2)
    ends.pair.run()
    assert ends.sender.credit == 1
    assert len(ends.came()) == 1


def test_stream_of_ours(by: str) -> None:
    """A stream that was sent to its end can be resumed, but not sent again; one that was cut off is not there."""
    ends = Ends("second", by=by)
    whole = ends.sender.send(BODY, more=True)
    ends.sender.send_more(whole, LARGE)
    (delivery,) = ends.came()
    lost = ends.sender.send(BODY, more=True)
    ends.sender.send_more(lost, LARGE)
    cut_off = ends.sender.send(BODY, more=True)
    for engine in (ends.pair.client, ends.pair.server):
        engine.data_to_send()
    assert ends.sender.suspended() == [whole, lost]
    assert cut_off.streamed
    ends.resume()
    assert ends.told(DeliveriesResumed) == [delivery]
    assert ends.told(DeliveriesUnresumed) == [lost]
    with pytest.raises(LocalProtocolError, match="in parts"):
        ends.sender.resend(lost)
    ends.sender.forget(lost)
    assert list(ends.sender.unsettled) == [whole.tag]


def test_resend_of_a_dead_link() -> None:
    """A link that began anew takes over what is to be sent again; its tag is kept unless it is taken by now."""
    ends = Ends()
    old = [ends.sender.send(BODY) for _ in range(2)]
    ends.pair.lose()
    ends.attach(None, None)
    newer = ends.sender.send(BODY)
    for each in old:
        ends.sender.resend(each)
    assert old[0].tag != newer.tag
    assert [delivery.tag for delivery in ends.came()] == [newer.tag, old[0].tag, old[1].tag]
    assert all(each.link is ends.sender for each in old)


def test_lost_again_and_again(by: str) -> None:
    """Attachments that end before anything was resumed change nothing."""
    ends = Ends("second", by=by)
    sent = [ends.sender.send(BODY) for _ in range(3)]
    held = ends.came()
    for _ in range(3):
        ends.resume(credit=0)
        assert ends.sender.suspended() == sent
        assert ends.receiver.suspended() == held
    ends.resume(credit=3)
    for delivery in held:
        ends.receiver.settle(delivery, ACCEPTED)
    ends.pair.run()
    assert not ends.sender.unsettled
    assert not ends.receiver.unsettled


@pytest.mark.parametrize("who", ["both", "sender", "receiver"])
@pytest.mark.parametrize("mode", ["first", "second"])
@pytest.mark.parametrize("joins", [False, True])
def test_incomplete(by: str, mode: str, who: str, joins: bool) -> None:
    """Maps larger than a frame take several attachments, and nothing new passes before the last one."""
    ends = Ends(mode, by=by, frame_size=512)  # type: ignore[arg-type]
    for number in range(60):
        ends.sender.send(BODY, tag=b"%032d" % number)
    held = ends.came()
    if who == "receiver":  # the sender has settled them, and the receiver did not hear of it
        for sent in list(ends.sender.unsettled.values())[20:]:
            ends.sender.settle(sent, ACCEPTED)
    if who == "sender":  # the receiver never had them
        for delivery in held[5:]:
            del ends.receiver.unsettled[delivery.tag]
        del held[5:]
    for _attachments in range(1, 40):
        ends.resume(credit=1000)
        for sent in ends.told(DeliveriesUnresumed):
            ends.sender.resend(sent)
        if not ends.sender.incomplete:
            break
        assert ends.sender.credit == 0
        with pytest.raises(LocalProtocolError, match="no credit"):
            ends.sender.send(BODY)
        for delivery in list(ends.receiver.unsettled.values()):
            # As a client accepts: with the one before it, if it can be.
            if not joins or not ends.receiver.settle_like_last(delivery.delivery_id, delivery.tag, ACCEPTED):
                ends.receiver.settle(delivery, ACCEPTED)
        link = ends.sender if by == "sender" else ends.receiver
        assert link in ends.told(LinkIncomplete)
        assert len(ends.told(LinkIncomplete)) <= 1
    else:
        raise AssertionError("it does not come to an end")
    assert _attachments > 1
    assert len(ends.came()) == (55 if who == "sender" else 0)
    ends.sender.send(BODY)
    ends.sender.send(BODY)
    one, other = ends.came()
    ends.receiver.settle(one, ACCEPTED)
    assert ends.receiver.settle_like_last(other.delivery_id, other.tag, ACCEPTED) == (mode == "first")  # whole again


def test_conflict() -> None:
    """Where the outcomes differ the sender's stands (§3.4.6, 13); where they agree it settles (12)."""
    ends = Ends("second")
    ends.sender.auto_settle = ends.auto_settle = False
    one, other = ends.sender.send(BODY), ends.sender.send(BODY)
    held = ends.came()
    for delivery in held:
        ends.receiver.settle(delivery, ACCEPTED)
    assert ends.told(OutcomesReceived) == [one, other]
    held[0].state = RELEASED
    ends.resume()
    assert held[0].remote_state == ACCEPTED
    assert ends.told(SettlementsReceived) == [held[0]]
    ends.sender.settle(other)
    assert ends.told(SettlementsReceived) == [held[1]]
    assert not ends.receiver.unsettled


def test_beyond(by: str) -> None:
    """A receiver that claims to have more than there is gets the delivery aborted, and the owner is asked."""
    ends = Ends("second", by=by)
    sent = ends.sender.send(BODY)
    (delivery,) = ends.came()
    delivery.state = Received(9, 9)
    ends.resume()
    assert ends.told(DeliveriesUnresumed) == [sent]
    assert ends.told(SettlementsReceived) == [delivery]
    ends.sender.resend(sent)
    assert len(ends.came()) == 1


def test_tags_are_not_made_again(by: str) -> None:
    """A delivery sent after a resume has a tag of its own, even if earlier ones are settled at the same time."""
    ends = Ends("second", by=by)
    ends.sender.send(BODY)
    (old,) = ends.came()
    ends.resume()
    ends.receiver.settle(old, ACCEPTED)
    writer, reader = ends.pair.client, ends.pair.server
    if ends.receiver.session.engine is reader:
        writer, reader = reader, writer
    reader.receive_data(writer.data_to_send())
    ends.sender.send(BODY)
    (new,) = ends.came()
    assert new.tag != old.tag
    assert ends.receiver.attached


@pytest.mark.parametrize("how", ["held", "aborted", "unknown"])
def test_resumed_transfers_use_up_credit(by: str, how: str) -> None:
    """Credit that goes for a delivery that does not come is told of, so that a receiver can grant more."""
    ends = Ends("second", by=by)
    ends.sender.send(BODY)
    (delivery,) = ends.came()
    if how == "aborted":
        delivery.state = Received(9, 9)
    ends.pair.lose()
    ends.attach(ends.sender.suspended(), ends.receiver.suspended(), credit=0)
    if how == "unknown":
        ends.receiver.end_resumption()  # type: ignore[attr-defined]
    ends.receiver.flow(1)
    ends.pair.run()
    assert ends.receiver.credit == 0
    events = [*ends.pair.client_events, *ends.pair.server_events]
    assert FlowReceived(ends.receiver, False, wasted=int(how == "unknown")) in events


def test_a_late_word_on_the_session_before(by: str) -> None:
    """An end that has lost the link to another attachment settles none of the deliveries which that one holds now."""
    ends = Ends("second", by=by)
    sent = ends.sender.send(BODY)
    (came,) = ends.came()
    ends.receiver.settle(came, ACCEPTED)
    speaker, robbed = engine_of(ends.receiver), engine_of(ends.sender)
    ends.attach(ends.sender.suspended(), None)
    robbed.receive_data(speaker.data_to_send())
    assert not list(robbed.events())
    assert not sent.local_settled
    assert ends.sender.suspended() == [sent]


def test_a_late_word_on_the_same_connection() -> None:
    """An end that attaches a link again before the peer knows of the detach applies the peer's last frames on it."""
    ends = Ends("first", by="sender")
    sent = ends.sender.send(BODY)
    (came,) = ends.came()
    ends.receiver.settle(came, ACCEPTED)
    ends.sender.detach(closed=False)
    again = session_of(ends.sender).attach_sender(LinkTerms("link", Source("q"), Target("q")), resuming=[sent])
    ends.pair.client.receive_data(ends.pair.server.data_to_send())
    told = [event for event in ends.pair.client.events() if isinstance(event, OutcomesReceived)]
    assert [(event.link, list(event.deliveries)) for event in told] == [(again, [sent])]
    assert sent.remote_state == ACCEPTED


def test_incomplete_is_told_last(by: str) -> None:
    """`LinkIncomplete` comes after what the maps told, so that who attaches again has acted on it."""
    ends = Ends(by="sender", frame_size=512)
    for number in range(60):
        ends.sender.send(BODY, tag=b"%032d" % number)
    for engine in (ends.pair.client, ends.pair.server):
        engine.data_to_send()
    ends.resume()
    kinds = [type(event) for event in ends.pair.client_events]
    assert kinds.index(DeliveriesUnresumed) < kinds.index(LinkIncomplete)
    ends.sender.detach(closed=False)
    for delivery in ends.sender.suspended():
        ends.sender.resend(delivery)
    assert all(not delivery.begun for delivery in ends.sender.suspended())


def test_unread_parts_hold_the_window(by: str) -> None:
    """The unread part of a stream counts against the window of the next session if the link is lost."""
    ends = Ends(by=by, frame_size=512, streaming=True, window=8)
    ends.sender.send(LARGE)
    ends.pair.run()
    assert ends.receiver.incoming
    (delivery,) = ends.came()
    before = len(delivery.stream.parts)
    assert before >= 4
    ends.resume()
    window = ends.receiver.session.window  # type: ignore[attr-defined]
    assert window.capacity == 8 - len(delivery.stream.parts)
    got = b""
    while (part := ends.receiver.read(delivery)) is not None:
        got += part
        ends.pair.run()
    assert got == LARGE
    assert window.capacity == 8


def test_attach_again_before_the_detach_is_answered() -> None:
    """The name of a link that this side has detached is free, though the peer has not said so yet."""
    ends = Ends(by="sender")
    ends.sender.send(BODY)
    (delivery,) = ends.came()
    ends.sender.detach(closed=False)
    session = session_of(ends.sender)
    terms = LinkTerms("link", Source("q"), Target("q"))
    again = session.attach_sender(terms, resuming=ends.sender.suspended())
    with pytest.raises(LocalProtocolError, match="already"):
        session.attach_sender(terms)
    ends.pair.run()
    attached = [event.link for event in ends.pair.server_events if isinstance(event, LinkAttached)]
    link = next(link for link in attached if link.terms is None)
    link.attach(terms, resuming=ends.receiver.suspended())
    link.flow(10)  # type: ignore[attr-defined]
    assert ends.told(DeliveriesResumed) == [delivery]
    assert again.attached
