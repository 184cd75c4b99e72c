"""The end of links (§2.6.4 to §2.6.6): detaching, closing, errors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amqp10.engine import (
    Engine,
    LinkAttached,
    LinkEnded,
    LinkTerms,
    ReceiverLink,
    Session,
    SessionBegun,
    SessionTerms,
)
from amqp10.errors import LinkDetached, LocalProtocolError, RemoteProtocolError
from amqp10.messaging import ACCEPTED, Error, Source, Target
from amqp10.testing import (
    Attach,
    Begin,
    Detach,
    Disposition,
    End,
    EnginePair,
    EngineScript,
    Flow,
    Open,
    Transfer,
)

from ..kit.conformance.play import Play, attach, condition_is


@pytest.mark.spec("2.6.4", "a detach is answered with a detach")
@pytest.mark.parametrize("closed", [True, False])
def test_detach_by_peer(play_client: Play, closed: bool) -> None:
    """Pitfall 12: closed is answered with closed, detached with detached; the session goes on."""
    script = play_client()
    session = script.session()
    link = script.sender(session, credit=5)
    script.send(Detach(handle=0, closed=closed, error=Error("amqp:link:detach-forced", "idle")))
    script.expect(Detach, handle=0, closed=closed, error=None)
    ended = script.expect_event(LinkEnded)
    assert ended.closed is closed
    assert isinstance(ended.error, LinkDetached)
    assert ended.error.condition == "amqp:link:detach-forced"
    assert not link.attached
    with pytest.raises(LocalProtocolError):
        link.send(b"")
    assert session.begun


@pytest.mark.spec("2.6.6", "a closing detach answered by a non-closing one still ends the link")
def test_detach_answered_without_closed(play_client: Play) -> None:
    """Pitfall 12: some brokers answer closed=true with closed=false; nothing waits for more."""
    script = play_client()
    session = script.session()
    link = script.sender(session)
    link.detach(closed=True)
    script.expect(Detach, closed=True)
    script.send(Detach(handle=0, closed=False))
    assert script.expect_event(LinkEnded).error is None
    script.expect_nothing()
    script.sender(session)


@pytest.mark.deviation(
    "2.6.6",
    "if the peer closes a link while our non-closing detach is on its way, it is closed without another attach",
    "the peer has already ended the link, and most peers would take the attach for a new link",
)
def test_closed_while_we_detach(play_client: Play) -> None:
    """It is told as closed, nothing more is said, and the handle is free."""
    script = play_client()
    session = script.session(handle_max=0)
    link = script.sender(session)
    link.detach(closed=False)
    script.expect(Detach, closed=False)
    script.send(Detach(handle=0, closed=True, error=Error("amqp:resource-deleted", "the queue is gone")))
    ended = script.expect_event(LinkEnded)
    assert ended.closed
    assert isinstance(ended.error, LinkDetached)
    script.expect_nothing()
    script.sender(session)


@pytest.mark.spec("2.6.6", "a side that detached while the other closed attaches again to close, and is answered")
@pytest.mark.parametrize("together", [True, False])
def test_attached_again_only_to_close(serving: tuple[EngineScript, Session], together: bool) -> None:
    """Its attach and closing detach find no link, and are answered with both."""
    script, session = serving
    script.send(attach("mine", 0, receives=False))
    link = script.expect_event(LinkAttached).link
    assert link.remote is not None
    link.attach(link.remote)
    script.expect(Attach)
    link.detach(closed=True)
    script.expect(Detach, closed=True)
    script.send(Detach(handle=0, closed=False))
    script.expect_event(LinkEnded)
    again = attach("mine", 0, receives=False)
    if together:
        script.send_together(again, Detach(handle=0, closed=True))
    else:
        script.send(again)
        offered = script.expect_event(LinkAttached).link
        assert offered.remote is not None
        offered.attach(offered.remote)
        script.send(Detach(handle=0, closed=True))
    script.expect(Attach, name="mine")
    script.expect(Detach, closed=True, error=None)
    assert session.begun


@pytest.mark.spec("2.6.4", "between our detach and the peer's, frames for the link are dropped")
def test_frames_after_our_detach(play_client: Play) -> None:
    """Transfers, flows and dispositions that were on their way are no fault and have no effect on the link."""
    script = play_client()
    session = script.session()
    link = script.receiver(session, credit=10)
    link.detach(closed=False)
    script.expect(Detach, closed=False)
    script.transfer(0)
    script.flow(handle=0, delivery_count=9, available=4)
    script.send(Disposition(role=False, first=0, settled=True, state=ACCEPTED))
    script.expect_nothing()
    assert not link.incoming
    script.send(Detach(handle=0, closed=False))
    ended = script.expect_event(LinkEnded)
    assert (ended.closed, ended.error) == (False, None)
    assert session.begun


@pytest.mark.spec("2.6.4", "transfers dropped after our detach still count in the session window")
def test_window_after_detach(play_client: Play) -> None:
    """The session goes on at the right transfer-id."""
    script = play_client()
    session = script.session(SessionTerms(incoming_window=4))
    link = script.receiver(session, credit=10)
    link.detach()
    script.expect(Detach)
    script.transfer(0)
    script.transfer(1)
    script.expect(Flow, handle=None, next_incoming_id=2, incoming_window=4)


@pytest.mark.spec("2.6.4", "both sides may detach at once")
@pytest.mark.parametrize("closed", [True, False])
def test_simultaneous_detach(closed: bool) -> None:
    """Two detaches that cross are each other's answer; the session goes on and the name is free."""
    pair = EnginePair()
    pair.open()
    terms = LinkTerms("x", Source("q"), Target("q"))
    sender, receiver = pair.attach(terms=terms)
    sender.detach(closed=closed)
    receiver.detach(closed=closed, error=Error("amqp:internal-error"))
    pair.run()
    for events in (pair.client_events, pair.server_events):
        assert len([event for event in events if isinstance(event, LinkEnded)]) == 1
    pair.client_events.clear()
    pair.server_events.clear()
    sender, receiver = pair.attach(terms=terms, credit=1)
    sender.send(b"again")
    pair.run()
    assert receiver.incoming[0].payload == b"again"


@pytest.mark.spec("2.6.4", "a link may be detached before its attach was answered")
def test_detach_before_answer(play_client: Play) -> None:
    """The answer is taken for what it is, and the link ends at the peer's detach."""
    script = play_client()
    session = script.session()
    link = session.attach_sender(LinkTerms("x", Source("q"), Target("q")))
    link.detach()
    frame = script.expect(Attach)
    script.expect(Detach, handle=frame.handle, closed=True)
    script.send(attach("x", 0, receives=True))
    script.send(Detach(handle=0, closed=True))
    assert not any(isinstance(event, LinkAttached) for event in script.events)
    assert script.expect_event(LinkEnded).error is None
    script.expect_nothing()


@pytest.mark.spec("2.6.4", "a link may be detached by the peer before we have answered its attach")
def test_peer_detaches_unanswered(serving: tuple[EngineScript, Session]) -> None:
    """It gets both: an attach and a detach; answering later is a local error."""
    script, session = serving
    script.send_together(attach("x", 0, receives=True), Detach(handle=0, closed=True))
    link = script.expect_event(LinkAttached).link
    script.expect(Attach, name="x")
    script.expect(Detach, closed=True)
    assert isinstance(script.expect_event(LinkEnded).error, LinkDetached)
    with pytest.raises(LocalProtocolError):
        link.attach(LinkTerms("x"))
    assert session.begun


@pytest.mark.spec("2.6.5", "a link error detaches the link with it, and nothing else")
def test_link_error(play_client: Play) -> None:
    """A delivery without credit costs its link alone."""
    script = play_client()
    session = script.session()
    script.receiver(session, credit=0)
    other = script.sender(session, credit=1, handle=1)
    script.transfer(0)
    script.expect(Detach, handle=0, closed=True, error=condition_is("amqp:link:transfer-limit-exceeded"))
    error = script.expect_event(LinkEnded).error
    assert isinstance(error, RemoteProtocolError)
    assert error.condition == "amqp:link:transfer-limit-exceeded"
    other.send(b"")
    script.expect(Transfer, handle=1)
    script.send(Detach(handle=0, closed=True))
    assert session.begun
    script.expect_nothing()


@pytest.mark.spec("2.6.7", "a transfer pipelined before there is credit costs only its link")
@pytest.mark.parametrize("opened", ["before", "together"])
def test_transfer_before_credit(play_server: Play, server: Callable[..., Engine], opened: str) -> None:
    """Begin, attach and transfer in one write, and open: the session stands, each is judged in its turn."""
    begin = Begin(next_outgoing_id=5, incoming_window=10, outgoing_window=10)
    ask = attach("early", 0, receives=False)
    transfer = Transfer(handle=0, delivery_id=0, delivery_tag=b"0"), b"\0\x53\x75\xa0\1x"
    if opened == "before":
        script = play_server()
        script.send_together(begin, ask, transfer)
    else:
        script = EngineScript(server())
        script.send_bytes(b"AMQP\0\1\0\0")
        script.expect_header()
        script.send_together(Open(container_id="script"), begin, ask, transfer)
        script.engine.open()
        script.expect(Open)
    session = script.expect_event(SessionBegun).session
    link = script.expect_event(LinkAttached).link
    error = script.expect_event(LinkEnded).error
    assert isinstance(error, RemoteProtocolError)
    assert error.condition == "amqp:link:transfer-limit-exceeded"
    session.begin()
    assert link.terms is not None
    script.expect(Begin)
    script.expect(Attach, name="early")
    script.expect(Detach, closed=True, error=condition_is("amqp:link:transfer-limit-exceeded"))
    script.send(Detach(handle=0, closed=True))
    script.send(attach("later", 0, receives=False))
    later = script.expect_event(LinkAttached).link
    assert isinstance(later, ReceiverLink)
    assert later.remote is not None
    later.attach(later.remote)
    later.flow(1)
    script.expect(Attach, name="later")
    script.expect(Flow, next_incoming_id=6, link_credit=1)
    script.transfer(1)
    assert len(later.incoming) == 1
    assert session.begun


@pytest.mark.spec("2.6.5", "input for a link that was detached with an error ends the session")
@pytest.mark.parametrize("kind", ["transfer", "flow", "disposition"])
def test_errant_link(play_client: Play, kind: str) -> None:
    """The condition is amqp:session:errant-link; a detach is what the link may still get."""
    script = play_client()
    session = script.session()
    link = script.receiver(session, LinkTerms("r", Source("q"), receiver_settle_mode="second"), credit=1)
    script.transfer(0)
    assert link.incoming
    script.transfer(1)
    script.expect(Detach, error=condition_is("amqp:link:transfer-limit-exceeded"))
    if kind == "transfer":
        script.transfer(2)
    elif kind == "flow":
        script.flow(handle=0, delivery_count=2)
    else:
        script.send(Disposition(role=False, first=0, settled=True))
    script.expect(End, error=condition_is("amqp:session:errant-link"))


@pytest.mark.spec("2.6.6", "closing ends the terminus, detaching does not")
def test_closed_is_told() -> None:
    """The owner of the other end is told which it was."""
    for closed in (True, False):
        pair = EnginePair()
        pair.open()
        sender, receiver = pair.attach()
        sender.detach(closed=closed)
        pair.run()
        (ended,) = [event for event in pair.server_events if isinstance(event, LinkEnded)]
        assert ended.link is receiver
        assert ended.closed is closed
        assert isinstance(ended.error, LinkDetached)
        assert ended.error.condition is None
