"""Connections (§2.4): opening, closing, idle timeout, channels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amqp10.engine import (
    ConnectionEnded,
    ConnectionOpened,
    ConnectionTerms,
    Engine,
    LinkEnded,
    LinkTerms,
    SessionBegun,
    SessionUnmapped,
)
from amqp10.errors import ConnectionClosed, ConnectionLost, LocalProtocolError, RemoteProtocolError
from amqp10.messaging import Error, Source, Target
from amqp10.testing import Attach, Begin, Close, Detach, End, EnginePair, EngineScript, Flow, Frame, Open
from amqp10.types import Composite, Symbol

from ..kit.conformance.play import Play, condition_is

AMQP = b"AMQP\0\1\0\0"

Make = Callable[..., Engine]


# Opening


@pytest.mark.spec("2.4.1", "both sides send an open first, with their limits")
def test_open_both_ways() -> None:
    """Each side knows what the other said."""
    mine = ConnectionTerms(
        "client",
        hostname="vhost",
        max_frame_size=4096,
        channel_max=7,
        idle_timeout=8.0,
        offered_capabilities=("a", "b"),
        desired_capabilities=("c",),
        properties={"product": "test"},
    )
    pair = EnginePair(client=mine, server=ConnectionTerms("server", max_frame_size=512, idle_timeout=None))
    pair.open()
    seen, back = pair.server.remote, pair.client.remote
    assert seen is not None
    assert back is not None
    assert (seen.container_id, seen.hostname, seen.max_frame_size, seen.channel_max) == ("client", "vhost", 4096, 7)
    assert (seen.offered_capabilities, seen.desired_capabilities) == (("a", "b"), ("c",))
    assert dict(seen.properties) == {"product": "test"}
    assert (back.container_id, back.max_frame_size, back.idle_timeout) == ("server", 512, None)


@pytest.mark.spec("2.4.1", "a frame before the open is illegal")
def test_frame_before_open(server: Make) -> None:
    """The connection is closed, by an open and a close with the reason."""
    script = EngineScript(server())
    script.send_bytes(AMQP)
    script.expect_header()
    script.send(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1))
    script.expect(Open)
    script.expect(Close, error=condition_is("amqp:illegal-state"))
    assert isinstance(script.expect_event(ConnectionEnded).error, RemoteProtocolError)


@pytest.mark.spec("2.4.1", "a second open is illegal")
def test_second_open(play_client: Play) -> None:
    """The connection is closed with an error."""
    script = play_client()
    script.send(Open(container_id="again"))
    script.expect(Close, error=condition_is("amqp:illegal-state"))


@pytest.mark.spec("2.7.1", "the open frame is on channel 0 alone")
def test_open_on_another_channel(server: Make, client: Make) -> None:
    """The connection is closed with an error, by either role, and nobody has opened it."""
    script = EngineScript(server())
    script.send_bytes(AMQP)
    script.expect_header()
    script.send(Open(container_id="script"), channel=1)
    script.expect(Open)
    script.expect(Close, error=condition_is("amqp:not-allowed"))
    engine = client()
    script = EngineScript(engine)
    engine.open()
    script.send_bytes(AMQP)
    script.expect_header()
    script.expect(Open)
    script.send(Open(container_id="script"), channel=1)
    assert not any(isinstance(event, ConnectionOpened) for event in script.events)
    assert isinstance(script.expect_event(ConnectionEnded).error, RemoteProtocolError)


@pytest.mark.spec("2.4.3", "a close may come on any channel up to channel-max; ours is on channel 0")
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("side", ["client", "server"])
def test_close_on_another_channel(play_client: Play, play_server: Play, side: str, begun: bool) -> None:
    """It is answered, and the reason in it is told, whether or not the channel has a session."""
    script = (play_client if side == "client" else play_server)(channel_max=3)
    if begun and side == "client":
        script.session(channel=3)
    elif begun:
        script.begin(channel=3)
    script.send(Close(error=Error("amqp:connection:forced", "maintenance")), channel=3)
    script.expect(Close, channel=0, error=None)
    ended = script.expect_event(ConnectionEnded).error
    assert isinstance(ended, ConnectionClosed)
    assert (ended.condition, ended.description) == ("amqp:connection:forced", "maintenance")


@pytest.mark.spec("2.7.1", "a frame on a channel above our channel-max closes the connection with framing-error")
@pytest.mark.parametrize("frame", [Close(), End(), Detach(handle=0), None], ids=lambda frame: type(frame).__name__)
def test_frames_above_channel_max(play_client: Play, frame: Composite | None) -> None:
    """An empty frame, too; a close is answered as a fault."""
    script = play_client(channel_max=3)
    script.session()
    script.send_bytes(Frame(4, frame).encode())
    script.expect(Close, channel=0, error=condition_is("amqp:connection:framing-error"))
    assert isinstance(script.expect_event(ConnectionEnded).error, RemoteProtocolError)


@pytest.mark.spec("2.4.1", "until the peer has opened, a frame is of 512 octets at most")
def test_size_of_the_open(client: Make) -> None:
    """An open of 512 octets is sent; one that is larger is refused here, and says what to shorten."""
    with pytest.raises(LocalProtocolError, match=r"open frame of \d+ bytes; the peer takes 512 .*shorten"):
        engine = client(properties={"note": "x" * 500})
        engine.start()
        engine.open()
    engine = client(properties={"note": "x" * 350})
    engine.start()
    engine.open()
    room = 512 - (len(engine.data_to_send()) - len(AMQP))
    engine = client(properties={"note": "x" * (350 + room)})
    script = EngineScript(engine)
    engine.open()
    script.expect_header()
    script.expect(Open)


@pytest.mark.deviation(
    "2.4.1",
    "an open larger than 512 octets is taken, up to our own max-frame-size",
    "clients send it with long properties, and refusing a readable open would gain nothing",
)
def test_large_open_is_taken(play_client: Play, play_server: Play) -> None:
    """By either role."""
    for play in (play_client, play_server):
        script = play(peer={"properties": {Symbol("note"): "x" * 1000}})
        assert script.engine.opened
        assert script.engine.remote is not None
        assert script.engine.remote.properties == {"note": "x" * 1000}


@pytest.mark.spec("2.4.1", "the answering open may be as large as the peer's max-frame-size")
def test_size_of_the_answering_open(play_server: Play) -> None:
    """A server has the client's max-frame-size before it answers."""
    script = play_server(peer={"max_frame_size": 4096}, properties={"note": "x" * 1000})
    assert script.engine.opened


@pytest.mark.spec("2.4.2", "the open may follow the header without waiting for the peer's")
def test_pipelined_open(client: Make) -> None:
    """Header and open leave together; the peer's answers may come in any portions after that."""
    engine = client()
    engine.start()
    engine.open()
    data = engine.data_to_send()
    assert data.startswith(AMQP)
    assert len(data) > 8
    assert b"tested" in data[8:]


@pytest.mark.spec("2.4.2", "frames known to be acceptable may be pipelined after the open")
def test_pipelined_begin_and_attach(client: Make) -> None:
    """Begin, attach, flow and close may all be written before the peer has answered anything."""
    script = EngineScript(client())
    script.engine.open()
    session = script.engine.begin()
    link = session.attach_receiver(LinkTerms("r", Source("queue"), Target("queue")))
    link.flow(10)
    script.expect_header()
    script.expect(Open)
    script.expect(Begin, channel=0, remote_channel=None)
    attach = script.expect(Attach, name="r", role=True)
    script.expect(Flow, handle=attach.handle, link_credit=10, next_incoming_id=None, delivery_count=None)
    script.send_bytes(AMQP)
    script.send(Open(container_id="script"))
    script.send(Begin(remote_channel=0, next_outgoing_id=5, incoming_window=10, outgoing_window=10))
    script.send(
        Attach(name="r", handle=0, role=False, source=Source("queue"), target=Target("queue"), initial_delivery_count=0)
    )
    script.transfer(0)
    assert len(link.incoming) == 1
    assert session.begun


@pytest.mark.spec("2.4.2", "a close may be pipelined too")
def test_pipelined_close(client: Make) -> None:
    """Header, open and close go out at once; the answers end the connection in order."""
    script = EngineScript(client())
    script.engine.open()
    script.engine.close()
    script.expect_header()
    script.expect(Open)
    script.expect(Close, error=None)
    script.send_bytes(AMQP)
    script.send(Open(container_id="script"))
    script.send(Close())
    assert script.expect_event(ConnectionEnded).error is None


@pytest.mark.spec("2.4.2", "a server reads frames that a client pipelines after its open")
def test_server_reads_pipeline(server: Make) -> None:
    """Header, open and begin in one read: the session is there when the server has opened."""
    script = EngineScript(server())
    begin = Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1)
    script.send_bytes(AMQP)
    script.send_together(Open(container_id="script"), begin)
    script.engine.open()
    script.expect_event(ConnectionOpened)
    script.expect_event(SessionBegun).session.begin()
    script.expect_header()
    script.expect(Open)
    script.expect(Begin, remote_channel=0)


# Channels


@pytest.mark.spec("2.7.1", "no session begins on a channel above the peer's channel-max")
def test_channel_max_obeyed(play_client: Play) -> None:
    """The third session is refused before a byte is written."""
    script = play_client(peer={"channel_max": 1})
    script.session()
    script.session()
    with pytest.raises(LocalProtocolError, match="2 sessions"):
        script.engine.begin()
    script.expect_nothing()


@pytest.mark.spec("2.7.1", "a begin above our channel-max closes the connection with a framing error")
def test_channel_max_enforced(play_server: Play) -> None:
    """The channel is told, and no session comes to be."""
    script = play_server(channel_max=3)
    script.begin(channel=4)
    script.expect(Close, error=condition_is("amqp:connection:framing-error"))
    assert not any(isinstance(event, SessionBegun) for event in script.take_events())


@pytest.mark.spec("2.7.1", "channels up to our channel-max are accepted")
def test_channel_max_itself(play_server: Play) -> None:
    """The highest channel is one of them."""
    script = play_server(channel_max=3)
    script.begin(channel=3)
    script.expect_event(SessionBegun).session.begin()
    script.expect(Begin, remote_channel=3)


@pytest.mark.spec("2.5.1", "a channel is free again when both sides have ended its session")
def test_channel_reuse(play_client: Play) -> None:
    """With room for one session, one after another can be begun."""
    script = play_client(peer={"channel_max": 0})
    for _ in range(3):
        session = script.session(channel=9)
        session.end()
        script.expect(End, channel=0)
        script.send(End())
    script.session()


@pytest.mark.spec("2.5.1", "the two sides number their channels independently")
def test_channel_numbers_differ(play_client: Play) -> None:
    """The peer answers the session of our channel 0 on its channel 7, and that of 1 on 0."""
    script = play_client()
    first, second = script.engine.begin(), script.engine.begin()
    script.expect(Begin, channel=0)
    script.expect(Begin, channel=1)
    windows: dict[str, Any] = {"next_outgoing_id": 0, "incoming_window": 1, "outgoing_window": 1}
    script.send(Begin(remote_channel=0, **windows), channel=7)
    script.send(Begin(remote_channel=1, **windows), channel=0)
    assert first.begun
    assert second.begun
    script.send(End(), channel=0)
    script.expect(End, channel=1)
    assert first.begun
    assert not second.begun


@pytest.mark.spec("2.4.1", "a frame on a channel without a session closes the connection")
def test_unmapped_channel(play_client: Play) -> None:
    """Whatever it is."""
    script = play_client()
    script.send(End(), channel=5)
    script.expect(Close, error=condition_is("amqp:not-allowed"))


@pytest.mark.spec("2.5.1", "a second begin on a channel in use closes the connection")
def test_begin_twice(play_server: Play) -> None:
    """The first session ends with it."""
    script = play_server()
    script.begin()
    script.expect_event(SessionBegun).session.begin()
    script.expect(Begin)
    script.begin()
    script.expect(Close, error=condition_is("amqp:illegal-state"))
    assert script.expect_event(SessionUnmapped).error is not None


@pytest.mark.spec("2.5.1", "an answer to a begin that was not sent closes the connection")
def test_begin_answers_nothing(play_client: Play) -> None:
    """`remote-channel` has to name a session that we began and that has no answer yet."""
    script = play_client()
    script.send(Begin(remote_channel=3, next_outgoing_id=0, incoming_window=1, outgoing_window=1))
    script.expect(Close, error=lambda error: error is not None)


# Closing


@pytest.mark.spec("2.4.3", "a close is answered with a close, and nothing is written after it")
def test_close_by_peer(play_client: Play) -> None:
    """The application is told why, endpoint by endpoint, and what it asks for afterwards writes nothing."""
    script = play_client()
    session = script.session()
    link = script.sender(session, credit=10)
    script.send(Close(error=Error("amqp:connection:forced", "going down")), channel=0)
    script.expect(Close, error=None)
    ended = script.take_events()
    assert [type(event) for event in ended] == [LinkEnded, SessionUnmapped, ConnectionEnded]
    for event in ended:
        assert isinstance(event, LinkEnded | SessionUnmapped | ConnectionEnded)
        assert isinstance(event.error, ConnectionClosed)
        assert (event.error.condition, event.error.description) == ("amqp:connection:forced", "going down")
    with pytest.raises(LocalProtocolError):
        link.send(b"")
    session.end()
    script.engine.close()
    script.expect_nothing()


@pytest.mark.spec("2.4.3", "after our close, frames come in until the peer's close")
def test_close_by_us(play_client: Play) -> None:
    """Frames that the peer sent before are not an error, and its close ends the connection in order."""
    script = play_client()
    script.session()
    script.engine.close()
    script.expect(Close, error=None)
    script.flow()
    script.send(Close())
    assert script.expect_event(ConnectionEnded).error is None
    assert not script.engine.opened


@pytest.mark.spec("2.4.3", "bytes after the close have no effect")
def test_bytes_after_close(play_client: Play) -> None:
    """Garbage behind the peer's close changes nothing."""
    script = play_client()
    script.send(Close())
    script.expect(Close)
    script.take_events()
    script.send_bytes(b"\xff" * 100)
    script.end_of_stream()
    assert script.take_events() == []
    script.expect_nothing()


@pytest.mark.spec("2.4.4", "both sides may close at once")
@pytest.mark.parametrize("error", [None, Error("amqp:internal-error")])
def test_simultaneous_close(error: Error | None) -> None:
    """Two closes that cross on the wire end both sides, without a third."""
    pair = EnginePair()
    pair.open()
    pair.attach()
    pair.client.close()
    pair.server.close(error)
    pair.run()
    for side in ("client", "server"):
        events = pair.client_events if side == "client" else pair.server_events
        assert isinstance(events[-1], ConnectionEnded)
    assert (pair.client.output_size, pair.server.output_size) == (0, 0)


@pytest.mark.spec("2.4.6", "DISCARDING: after a close with an error, input is dropped until the peer's close")
def test_discarding(play_client: Play) -> None:
    """Frames that would be faults in any other state are not looked at."""
    script = play_client()
    script.session()
    script.engine.close(Error("amqp:internal-error", "cannot go on"))
    script.expect(Close, error=condition_is("amqp:internal-error"))
    script.send(End(), channel=99)
    script.send(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1), channel=5)
    script.send(Open(container_id="again"))
    script.transfer(0, handle=77)
    script.expect_nothing()
    assert not [event for event in script.events if isinstance(event, ConnectionEnded | SessionBegun)]
    script.send(Close())
    assert script.expect_event(ConnectionEnded).error is None


@pytest.mark.spec("2.4.6", "after our close we send nothing")
def test_nothing_after_close(play_client: Play) -> None:
    """A request of the application after closing is refused or dropped, and never written."""
    script = play_client()
    session = script.session()
    link = script.sender(session, credit=5)
    script.engine.close()
    script.expect(Close)
    with pytest.raises(LocalProtocolError):
        script.engine.begin()
    with pytest.raises(LocalProtocolError):
        link.send(b"")
    session.end()
    script.flow(echo=True)
    script.expect_nothing()


@pytest.mark.spec("2.4.6", "the end of the stream without a close is a lost connection")
def test_eof(play_client: Play) -> None:
    """Every endpoint is told, once, with the same cause."""
    script = play_client()
    script.sender(script.session())
    script.end_of_stream()
    events = script.take_events()
    assert [type(event) for event in events] == [LinkEnded, SessionUnmapped, ConnectionEnded]
    assert len({id(event.error) for event in events}) == 1  # type: ignore[attr-defined]
    assert isinstance(events[-1].error, ConnectionLost)  # type: ignore[attr-defined]


# Idle timeout


@pytest.mark.spec("2.4.5", "the advertised timeout is half of the enforced one")
def test_idle_timeout_advertised(client: Make) -> None:
    """Pitfall 15: 10 s of patience are told as 5000 ms."""
    script = EngineScript(client(idle_timeout=10.0))
    script.engine.open()
    script.expect_header()
    script.expect(Open, idle_time_out=5000)
    script = EngineScript(client(idle_timeout=None))
    script.engine.open()
    script.expect_header()
    script.expect(Open, idle_time_out=None)


@pytest.mark.spec("2.4.5", "a connection without input for the whole timeout is closed with an error")
def test_idle_timeout_enforced(play_client: Play) -> None:
    """Just before it is alive, and at it is given up, with the reason told."""
    script = play_client(idle_timeout=10.0)
    engine = script.engine
    engine.tick(100.0)
    assert engine.tick(109.9) is not None
    assert engine.opened
    assert engine.tick(110.0) is None
    script.expect(Close, error=condition_is("amqp:resource-limit-exceeded"))
    script.events += engine.events()
    assert isinstance(script.expect_event(ConnectionEnded).error, ConnectionLost)


@pytest.mark.spec("2.4.5", "empty frames keep the connection alive")
def test_empty_frames_are_life(play_client: Play) -> None:
    """One empty frame per interval is enough, and it has no other effect."""
    script = play_client(idle_timeout=10.0)
    now = 0.0
    script.engine.tick(now)
    for _ in range(20):
        now += 5.0
        script.send_empty()
        assert script.engine.tick(now) is not None
    assert script.engine.opened
    assert script.take_events() == []


@pytest.mark.spec("2.4.5", "empty frames may come on any valid channel, and have no meaning there")
@pytest.mark.parametrize("channel", [0, 1, 3])
def test_empty_frames_on_any_channel(play_client: Play, channel: int) -> None:
    """With a session there, or without one: they are life, and nothing else."""
    script = play_client(channel_max=3, idle_timeout=10.0)
    script.session(channel=1)
    script.engine.tick(0.0)
    for now in (8.0, 16.0, 24.0):
        script.send_bytes(Frame(channel, None).encode())
        assert script.engine.tick(now) is not None
    assert script.engine.opened
    assert script.take_events() == []


@pytest.mark.spec("2.4.5", "empty frames are sent in time for the peer's idle-time-out")
@pytest.mark.parametrize("seconds", [0.5, 4.0, 30.0])
def test_heartbeats(play_client: Play, seconds: float) -> None:
    """Ticking at the deadlines that it returns, never more than half of the peer's timeout passes in silence."""
    script = play_client(peer={"idle_time_out": int(seconds * 1000)}, idle_timeout=None)
    now, silent_since = 0.0, 0.0
    while now < 10 * seconds:
        deadline = script.engine.tick(now)
        assert deadline is not None
        assert deadline > now
        item = script.read()
        if item is not None:
            assert now - silent_since <= seconds / 2 + 1e-6
            silent_since = now
        now = deadline
    assert now - silent_since <= seconds / 2 + 1e-6


@pytest.mark.spec("2.4.5", "no empty frame is needed while other frames are sent")
def test_no_heartbeat_beside_traffic(play_client: Play) -> None:
    """A connection that is busy writes no empty frames."""
    script = play_client(peer={"idle_time_out": 4000}, idle_timeout=None)
    session = script.session()
    link = script.receiver(session)
    now = 0.0
    script.engine.tick(now)
    while script.read() is not None:
        pass
    for number in range(40):
        link.flow(number)
        assert isinstance(script.read(), object)
        now += 0.5
        script.engine.tick(now)
        script.expect_nothing()


@pytest.mark.spec("2.4.5", "an idle-time-out of 0 means no time-out, as does an absent one")
@pytest.mark.parametrize("advertised", [None, 0])
def test_no_idle_timeout(play_client: Play, advertised: int | None) -> None:
    """No deadline, and no empty frame, ever."""
    script = play_client(peer={"idle_time_out": advertised}, idle_timeout=None)
    assert script.engine.tick(0.0) is None
    assert script.engine.tick(1e9) is None
    script.expect_nothing()


@pytest.mark.spec("2.4.5", "each side's timeout is honored on its own")
def test_idle_timeouts_are_independent() -> None:
    """A client with a short one and a server with a long one live side by side for ever, only by ticking."""
    pair = EnginePair(
        client=ConnectionTerms("client", idle_timeout=2.0), server=ConnectionTerms("server", idle_timeout=50.0)
    )
    pair.open()
    now, ends = 0.0, 300.0
    while now < ends:
        deadlines = [engine.tick(now) for engine in (pair.client, pair.server)]
        pair.run()
        now = min(deadline for deadline in deadlines if deadline is not None)
    assert pair.client.opened
    assert pair.server.opened
    assert pair.client_events == []
    assert pair.server_events == []
