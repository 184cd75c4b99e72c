"""Sessions (§2.5): beginning, ending, errors, and the flow control of both windows."""

from __future__ import annotations

import pytest

from amqp10.engine import (
    ConnectionEnded,
    LinkAttached,
    LinkEnded,
    LinkTerms,
    SessionBegun,
    SessionTerms,
    SessionUnmapped,
    WindowOpened,
)
from amqp10.errors import LocalProtocolError, RemoteProtocolError, SessionEnded
from amqp10.messaging import ACCEPTED, Error, Source, Target
from amqp10.testing import Attach, Begin, Detach, Disposition, End, EnginePair, Flow, Transfer

from ..kit.conformance.play import Play, condition_is

NEAR_WRAP = [0, 2**31 - 2, 2**31, 2**32 - 4, 2**32 - 1]


# Beginning


@pytest.mark.spec("2.5.1", "a begin is answered with a begin whose remote-channel names it")
def test_begin_answered(play_server: Play) -> None:
    """The peer's session is offered, and answered with our own windows and limits."""
    script = play_server()
    script.begin(channel=4, next_outgoing_id=17, incoming_window=50, outgoing_window=60, handle_max=8)
    session = script.expect_event(SessionBegun).session
    assert not session.begun
    assert session.remote == SessionTerms(50, 60, 8, 17)
    session.begin(SessionTerms(incoming_window=11, outgoing_window=12, handle_max=13, next_outgoing_id=14))
    script.expect(Begin, remote_channel=4, incoming_window=11, outgoing_window=12, handle_max=13, next_outgoing_id=14)
    assert session.begun


@pytest.mark.spec("2.5.1", "several sessions share a connection")
def test_sessions_side_by_side() -> None:
    """Both sides begin some, and each has its own links and counters."""
    pair = EnginePair()
    pair.open()
    ends = [pair.begin(by=by) for by in ("client", "server", "client")]
    links = [pair.attach(f"q{number}", credit=5, session=mine) for number, (mine, _) in enumerate(ends)]
    for number, (sender, _) in enumerate(links):
        sender.send(b"%d" % number)
    pair.run()
    assert [receiver.incoming[0].payload for _, receiver in links] == [b"0", b"1", b"2"]
    assert [receiver.incoming[0].delivery_id for _, receiver in links] == [0, 0, 0]


# Ending


@pytest.mark.spec("2.5.2", "an end is answered with an end")
def test_end_by_peer(play_client: Play) -> None:
    """The links end first, then the session, all with the peer's reason; the connection lives on."""
    script = play_client()
    session = script.session()
    script.sender(session)
    script.send(End(error=Error("amqp:resource-deleted", "gone")))
    script.expect(End, error=None)
    events = script.take_events()
    assert [type(event) for event in events] == [LinkEnded, SessionUnmapped]
    for event in events:
        assert isinstance(event, LinkEnded | SessionUnmapped)
        assert isinstance(event.error, SessionEnded)
        assert event.error.condition == "amqp:resource-deleted"
    assert script.engine.opened
    script.session()


@pytest.mark.spec("2.5.2", "after our end nothing is sent on the session, and the peer's remaining frames are no error")
def test_nothing_after_end(play_client: Play) -> None:
    """Frames still on their way are taken or dropped. Requests of the application are refused or dropped."""
    script = play_client()
    session = script.session()
    sender = script.sender(session, credit=5)
    receiver = script.receiver(session, credit=5, handle=1)
    script.transfer(0, handle=1)
    delivery = receiver.incoming.popleft()
    sent = sender.send(b"x")
    script.expect(Transfer)
    session.end()
    script.expect(End, error=None)
    with pytest.raises(LocalProtocolError):
        sender.send(b"")
    with pytest.raises(LocalProtocolError):
        session.attach_sender(LinkTerms("late", Source("q"), Target("q")))
    receiver.settle(delivery, ACCEPTED)
    script.flow(echo=True)
    script.flow(handle=0, link_credit=9, delivery_count=0, echo=True)
    script.transfer(1, handle=1)
    script.transfer(2, handle=55)
    script.send(Attach(name="new", handle=2, role=True, source=Source("q"), target=Target("q")))
    script.send(Disposition(role=True, first=0, settled=True, state=ACCEPTED))
    script.send(Detach(handle=0))
    script.expect_nothing()
    assert sent.remote_settled
    assert not any(isinstance(event, LinkAttached) for event in script.take_events())
    script.send(End())
    assert script.expect_event(SessionUnmapped).error is None
    assert script.engine.opened
    script.expect_nothing()


@pytest.mark.spec("2.5.3", "both sides may end at once")
@pytest.mark.parametrize("error", [None, Error("amqp:internal-error")])
def test_simultaneous_end(error: Error | None) -> None:
    """Two ends that cross are each other's answer, and the channels are free again."""
    pair = EnginePair()
    pair.open()
    mine, theirs = pair.begin()
    pair.attach(session=mine)
    mine.end()
    theirs.end(error)
    pair.run()
    assert any(isinstance(event, SessionUnmapped) for event in pair.client_events)
    assert any(isinstance(event, SessionUnmapped) for event in pair.server_events)
    assert pair.client.opened
    pair.begin()


@pytest.mark.spec("2.5.4", "a session error ends the session alone, with the condition")
def test_session_error(play_client: Play) -> None:
    """The other session of the connection goes on."""
    script = play_client()
    good = script.session()
    bad = script.session(channel=1)
    script.transfer(0, handle=3)
    script.expect(End, channel=1, error=condition_is("amqp:session:unattached-handle"))
    error = script.expect_event(SessionUnmapped).error
    assert isinstance(error, RemoteProtocolError)
    assert good.begun
    assert not bad.begun
    assert script.engine.opened


@pytest.mark.spec("2.5.5", "DISCARDING: after an end with an error, input is dropped until the peer's end")
def test_discarding(play_client: Play) -> None:
    """Frames that would be faults are not looked at, and the channel is free after the peer's end."""
    script = play_client(peer={"channel_max": 0})
    session = script.session()
    session.end(Error("amqp:internal-error"))
    script.expect(End, error=condition_is("amqp:internal-error"))
    script.transfer(0, handle=3)
    script.flow(handle=9)
    script.send(Detach(handle=4))
    script.expect_nothing()
    script.send(End())
    assert not any(isinstance(event, ConnectionEnded) for event in script.take_events())
    script.session()


@pytest.mark.spec("2.5.5", "a session may be ended before its begin was answered")
def test_end_before_answer(play_client: Play) -> None:
    """The end follows as soon as the answer is here, since the table has none before it."""
    script = play_client()
    session = script.engine.begin()
    session.end()
    script.expect(Begin)
    script.send(Begin(remote_channel=0, next_outgoing_id=0, incoming_window=1, outgoing_window=1))
    script.expect(End)
    script.send(End())
    assert script.expect_event(SessionUnmapped).error is None


# Windows


@pytest.mark.spec("2.5.6", "no transfer is sent beyond the peer's incoming window")
def test_window_obeyed(play_client: Play) -> None:
    """Three frames go, the rest wait in order; a flow lets them out, and the owner hears that the window is open."""
    script = play_client()
    session = script.session(incoming_window=3)
    link = script.sender(session, credit=100)
    script.flow(incoming_window=3)
    for number in range(8):
        link.send(b"%d" % number)
    for number in range(3):
        assert script.expect_payload(Transfer, delivery_id=number)[1] == b"%d" % number
    script.expect_nothing()
    script.flow(next_incoming_id=3, incoming_window=2)
    for number in (3, 4):
        script.expect(Transfer, delivery_id=number)
    script.expect_nothing()
    script.take_events()
    script.flow(next_incoming_id=5, incoming_window=100)
    for number in (5, 6, 7):
        script.expect(Transfer, delivery_id=number)
    assert session.sendable
    assert script.expect_event(WindowOpened).session is session


@pytest.mark.spec("2.5.6", "remote-incoming-window = flow.next-incoming-id + flow.incoming-window - next-outgoing-id")
def test_window_counts_frames_on_their_way(play_client: Play) -> None:
    """A flow that has not seen the last frames yet grants so many fewer."""
    script = play_client()
    session = script.session(incoming_window=5)
    link = script.sender(session, credit=100)
    for _ in range(4):
        link.send(b"")
        script.expect(Transfer)
    script.flow(next_incoming_id=1, incoming_window=5)
    for _ in range(5):
        link.send(b"")
    for _ in range(2):
        script.expect(Transfer)
    script.expect_nothing()


@pytest.mark.spec("2.5.6", "windows count transfer frames, not deliveries")
def test_window_counts_transfers(play_client: Play) -> None:
    """Pitfall 1: a message of several frames takes several places, and its delivery one delivery-id."""
    script = play_client(peer={"max_frame_size": 512})
    session = script.session(incoming_window=4)
    link = script.sender(session, credit=100)
    script.flow(incoming_window=4, handle=0, link_credit=100, delivery_count=0)
    link.send(bytes(1200))
    link.send(b"second")
    parts = [script.expect_payload(Transfer) for _ in range(4)]
    assert parts[0][0].delivery_id == 0
    assert [transfer.more for transfer, _ in parts] == [True, True, False, False]
    assert parts[3][0].delivery_id == 1
    link.send(b"third")
    script.expect_nothing()
    script.flow(next_incoming_id=4, incoming_window=1)
    script.expect(Transfer, delivery_id=2)


@pytest.mark.spec("2.5.6", "the incoming window is refreshed at half, with no link flow needed")
@pytest.mark.parametrize("first_id", NEAR_WRAP)
def test_window_refresh(play_client: Play, first_id: int) -> None:
    """Pitfall 3: a session flow without handle says that the window is whole again, settled or not."""
    script = play_client()
    session = script.session(SessionTerms(incoming_window=10), next_outgoing_id=first_id)
    link = script.receiver(session, credit=1000)
    for number in range(30):
        script.transfer(number)
        item = script.read()
        if number % 5 == 4:
            assert item is not None
            flow = script.transcript.check(item, Flow, None, {})
            assert flow.handle is None
            assert flow.incoming_window == 10
            assert flow.next_incoming_id == (first_id + number + 1) % 2**32
        else:
            assert item is None
    assert len(link.unsettled) == 30


@pytest.mark.spec("2.5.6", "the window counts received transfers, not settled ones")
def test_window_never_waits_for_settlement() -> None:
    """Pitfall 4: ten thousand deliveries go through a window of 16 without a single settlement."""
    pair = EnginePair()
    pair.open()
    mine, _ = pair.begin(SessionTerms(incoming_window=16), SessionTerms(incoming_window=16))
    sender, receiver = pair.attach(session=mine, credit=10_000)
    for _ in range(10_000):
        sender.send(b"x")
    pair.run()
    assert len(receiver.incoming) == len(receiver.unsettled) == 10_000


@pytest.mark.spec("2.5.6", "one link whose deliveries stay unsettled does not stall another")
def test_unsettled_link_stalls_nobody() -> None:
    """Pitfall 4: a link that has used up its credit and settles nothing shares a session with one that flows."""
    pair = EnginePair()
    pair.open()
    mine, _ = pair.begin(SessionTerms(incoming_window=8), SessionTerms(incoming_window=8))
    stuck, _ = pair.attach("stuck", session=mine, credit=50)
    busy, taker = pair.attach("busy", session=mine, credit=5000)
    for _ in range(50):
        stuck.send(b"")
    for _ in range(5000):
        busy.send(b"")
    pair.run()
    assert len(taker.incoming) == 5000


@pytest.mark.spec("2.5.6", "transfer-ids and delivery-ids wrap by RFC 1982")
@pytest.mark.parametrize("first_id", NEAR_WRAP)
@pytest.mark.parametrize("sender", ["client", "server"])
def test_serial_numbers_wrap(first_id: int, sender: str) -> None:
    """Pitfall 2: with transfer-ids from just below the wrap, everything arrives once and is settled once."""
    pair = EnginePair(chunk=100)
    pair.open()
    terms = SessionTerms(incoming_window=4, next_outgoing_id=first_id)
    mine, _ = pair.begin(terms, terms)
    sending, receiving = pair.attach(session=mine, credit=40, sender=sender)  # type: ignore[arg-type]
    for number in range(40):
        sending.send(b"%d" % number)
    pair.run()
    assert [delivery.payload for delivery in receiving.incoming] == [b"%d" % number for number in range(40)]
    for delivery in receiving.incoming:
        receiving.settle(delivery, ACCEPTED)
    pair.run()
    assert sending.unsettled == {}


@pytest.mark.spec("2.5.6", "delivery-ids of the peer wrap by RFC 1982, in dispositions too")
@pytest.mark.parametrize("first_id", NEAR_WRAP)
def test_delivery_ids_wrap(play_client: Play, first_id: int) -> None:
    """Pitfall 2: settled in arrears, a run across the wrap is one range."""
    script = play_client()
    session = script.session(next_outgoing_id=first_id)
    link = script.receiver(session, credit=100)
    for number in range(8):
        script.transfer(0, delivery_id=(first_id + number) % 2**32, delivery_tag=bytes([number]))
    for delivery in list(link.incoming):
        link.settle(delivery, ACCEPTED)
    script.expect(Disposition, role=True, first=first_id, last=(first_id + 7) % 2**32, settled=True, state=ACCEPTED)
    script.expect_nothing()
    assert link.unsettled == {}


@pytest.mark.spec("2.5.6", "a transfer beyond our incoming window is a window violation")
def test_window_violation(play_client: Play) -> None:
    """A window of zero that was told so: the first transfer ends the session."""
    script = play_client()
    session = script.session(SessionTerms(incoming_window=0))
    script.receiver(session, credit=10)
    script.transfer(0)
    script.expect(End, error=condition_is("amqp:session:window-violation"))


@pytest.mark.spec("2.5.6", "the peer's outgoing window is no promise: it may send more than that")
def test_remote_outgoing_window_is_no_promise(play_client: Play) -> None:
    """Two transfers of a peer whose begin said an outgoing window of one both arrive."""
    script = play_client()
    link = script.receiver(script.session(outgoing_window=1), credit=10)
    script.transfer(0)
    script.transfer(1)
    script.expect_nothing()
    assert len(link.unsettled) == 2


@pytest.mark.spec("2.5.6", "a flow that acknowledges unsent frames is an error")
def test_flow_from_the_future(play_client: Play) -> None:
    """A next-incoming-id ahead of our next-outgoing-id ends the session."""
    script = play_client()
    script.session()
    script.flow(next_incoming_id=1)
    script.expect(End, error=lambda error: error is not None)


@pytest.mark.spec("2.7.4", "next-incoming-id is null until the peer's begin arrives, then counts from its first id")
@pytest.mark.parametrize("first_id", NEAR_WRAP)
def test_flow_before_begin_seen(play_client: Play, first_id: int) -> None:
    """A peer that has not seen our begin grants a window from our first id on."""
    script = play_client()
    session = script.session(SessionTerms(next_outgoing_id=first_id), incoming_window=0)
    link = script.sender(session)
    script.flow(next_incoming_id=None, incoming_window=2, handle=0, link_credit=10, delivery_count=None)
    for _ in range(3):
        link.send(b"")
    script.expect(Transfer, delivery_id=0)
    script.expect(Transfer, delivery_id=1)
    script.expect_nothing()


@pytest.mark.spec("2.7.4", "an echo asks for our session state at once")
def test_echo_of_session(play_client: Play) -> None:
    """The answer is a flow without handle, and itself asks for none."""
    script = play_client()
    script.session(SessionTerms(incoming_window=33, next_outgoing_id=7), next_outgoing_id=90)
    script.flow(next_incoming_id=7, next_outgoing_id=90, echo=True)
    script.expect(Flow, handle=None, next_incoming_id=90, incoming_window=33, next_outgoing_id=7, echo=False)
    script.expect_nothing()


@pytest.mark.spec("2.7.4", "a flow may name an incoming window of any size")
def test_huge_window(play_client: Play) -> None:
    """A window of 2**32-1 frames is as good as open, and stays so."""
    script = play_client()
    session = script.session(incoming_window=2**32 - 1)
    link = script.sender(session, credit=50)
    script.flow(incoming_window=2**32 - 1)
    for number in range(10):
        link.send(b"")
        script.expect(Transfer, delivery_id=number)
        script.flow(next_incoming_id=number + 1, incoming_window=2**32 - 1)
    assert session.sendable


@pytest.mark.spec("2.5.6", "two full windows cannot deadlock: both directions are refreshed independently")
def test_both_directions_at_once() -> None:
    """Pitfall 4: both sides send through windows of two frames at the same time, on one session."""
    pair = EnginePair()
    pair.open()
    mine, _ = pair.begin(SessionTerms(incoming_window=2), SessionTerms(incoming_window=2))
    one = pair.attach("a", session=mine, credit=500, sender="client")
    two = pair.attach("b", session=mine, credit=500, sender="server")
    for sender, _ in (one, two):
        for _ in range(500):
            sender.send(b"x")
    pair.run()
    assert len(one[1].incoming) == len(two[1].incoming) == 500
