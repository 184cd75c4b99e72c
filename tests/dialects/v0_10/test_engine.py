"""The engines of both roles, command by command: opening, credit, completion, ends, and what peers do wrong."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10 import Message, Plain
from amqp10.dialects.v0_10 import DIALECT
from amqp10.dialects.v0_10.wire.commands import (
    DeliveryProperties,
    ExecutionException,
    ExecutionResult,
    ExecutionSync,
    MessageFlow,
    MessageReject,
    MessageRelease,
    MessageResume,
    MessageResumeResult,
    MessageSetFlowMode,
    MessageStop,
    MessageTransfer,
    TxSelect,
)
from amqp10.dialects.v0_10.wire.controls import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionHeartbeat,
    ConnectionOpen,
    ConnectionRedirect,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    SessionAttach,
    SessionCommandPoint,
    SessionCompleted,
    SessionConfirmed,
    SessionDetach,
    SessionDetached,
    SessionFlush,
    SessionKnownCompleted,
)
from amqp10.dialects.v0_10.wire.frames import PROTOCOL_HEADER
from amqp10.engine import (
    ConnectionEnded,
    CreditChanged,
    LinkAttached,
    LinkEnded,
    LinkTerms,
    OutcomesReceived,
    SessionUnmapped,
)
from amqp10.errors import (
    AuthenticationFailed,
    ConnectionClosed,
    ConnectionLost,
    LocalProtocolError,
    RemoteProtocolError,
    SessionEnded,
    Unsupported,
)
from amqp10.messaging import ACCEPTED, RELEASED, Error, Rejected, Returned

from ...kit.dialects.v0_10.engines import a_client, a_server, sender_on
from ...kit.dialects.v0_10.pair import TERMS
from ...kit.dialects.v0_10.raw_peer import Raw


def the_end(raw: Raw) -> Any:
    """Why the connection ended."""
    (end,) = [event for event in raw.engine.events() if isinstance(event, ConnectionEnded)]
    return end.error


# Opening


@pytest.mark.parametrize("make", [a_client, a_server])
def test_another_protocol(make: Any) -> None:
    """A peer that speaks something else is left; a server says what it speaks."""
    raw = make()
    raw.engine.receive_data(b"AMQP\x00\x00\x09\x01")
    assert isinstance(the_end(raw), Unsupported)
    assert raw.engine.data_to_send() == (PROTOCOL_HEADER if make is a_server else b"")
    raw = make()
    raw.engine.receive_data(b"HTTP/1.1 400")
    assert isinstance(the_end(raw), RemoteProtocolError)


def test_refused_logins() -> None:
    """Wrong credentials are told; for a mechanism that was not offered nothing more is said. Nothing is opened."""
    for mechanism, response in (("PLAIN", b"\0user\0wrong"), ("EXTERNAL", b"")):
        raw = a_server(users={"user": "secret"}, allow_insecure=True)
        raw.put(PROTOCOL_HEADER)
        answer = raw.say(ConnectionStartOk({}, mechanism, response, "en_US"), 0)
        assert [type(control) for control in answer] == ([ConnectionClose] if mechanism == "PLAIN" else [])
        assert isinstance(the_end(raw), AuthenticationFailed)
    engine = DIALECT.client(TERMS, (Plain("user", "wrong"),), True)
    engine.start()
    raw = Raw(engine)
    raw.put(PROTOCOL_HEADER)
    raw.say(ConnectionStart({}, ["PLAIN"], ["en_US"]), 0)
    raw.say(ConnectionClose(320, "no"), 0)
    assert isinstance(the_end(raw), AuthenticationFailed)


@pytest.mark.parametrize("code", [200, 501])
def test_a_close_during_the_login(code: int) -> None:
    """What brokers do not refuse a login by is told as what it is."""
    engine = DIALECT.client(TERMS, (Plain("user", "right"),), True)
    engine.start()
    raw = Raw(engine)
    raw.put(PROTOCOL_HEADER)
    raw.say(ConnectionStart({}, ["PLAIN"], ["en_US"]), 0)
    raw.say(ConnectionClose(code, "bye"), 0)
    assert isinstance(the_end(raw), ConnectionClosed)


def test_out_of_order() -> None:
    """Controls of the opening that come twice, too early or beyond what was offered close the connection."""
    for steps in (
        [ConnectionTuneOk(1, 65_535, 0)],
        [ConnectionStartOk({}, "ANONYMOUS", b"", "en"), ConnectionStartOk({}, "ANONYMOUS", b"", "en")],
        [ConnectionStartOk({}, "ANONYMOUS", b"", "en"), ConnectionTuneOk(300, 65_535, 0)],
        [ConnectionStartOk({}, "ANONYMOUS", b"", "en"), ConnectionTuneOk(1, 100, 0)],
        [ConnectionStartOk({}, "ANONYMOUS", b"", "en"), *[ConnectionTuneOk(1, 65_535, 0)] * 2],
        [ConnectionSecureOk(b"")],
        [ConnectionStartOk({}, "ANONYMOUS", b"", "en"), ConnectionSecureOk(b"")],
        [ConnectionOpen("", [])],  # by someone who has not logged in
        [ConnectionStartOk({}, "ANONYMOUS", b"", "en"), ConnectionOpen("", [])],
        [SessionAttach(b"too early")],
        [ConnectionTune(1, 2, 3, 4)],
    ):
        raw = a_server()
        raw.put(PROTOCOL_HEADER)
        answers = [each for step in steps for each in raw.say(step, 0)]
        assert isinstance(answers[-1], ConnectionClose), steps
        assert isinstance(the_end(raw), RemoteProtocolError)


@pytest.mark.parametrize(
    ("host", "info"),
    [
        ("other.example.com:5673", {"network-host": "other.example.com", "port": 5673}),
        ("other.example.com", {"network-host": "other.example.com"}),
        ("[::1]:5673", {"network-host": "::1", "port": 5673}),
        ("::1", {"network-host": "::1"}),
        ("[::1]", {"network-host": "::1"}),
        ("h:²", {"network-host": "h:²"}),  # which str.isdigit takes for a digit
        ("h:" + "9" * 200, {"network-host": "h:" + "9" * 200}),
        (":1", {"network-host": "", "port": 1}),
        ("", {"network-host": ""}),
        ("a\nb:1", {"network-host": "a\nb", "port": 1}),
    ],
)
def test_redirect(host: str, info: dict[str, Any]) -> None:
    """A server sends a client elsewhere, as redirects of 1.0 do."""
    raw = a_client()
    raw.put(PROTOCOL_HEADER)
    raw.say(ConnectionStart({}, ["ANONYMOUS"], ["en_US"]), 0)
    raw.say(ConnectionTune(256, 65_535, 0, 0), 0)
    raw.say(ConnectionRedirect(host, []), 0)
    error = the_end(raw)
    assert isinstance(error, ConnectionClosed)
    assert error.condition == "amqp:connection:redirect"
    assert error.info == info


def test_time() -> None:
    """Heartbeats are sent in silence and expected; who is silent for longer is given up."""
    raw = a_client(idle_timeout=10.0)
    raw.open_as_server()
    assert next(each for each in raw.heard if isinstance(each, ConnectionTuneOk)).heartbeat == 5
    assert raw.engine.tick(0.0) == 2.5
    raw.listen()
    for now in (2.5, 5.0):
        raw.engine.tick(now)
    assert isinstance(raw.listen()[-1], ConnectionHeartbeat)
    raw.say(ConnectionHeartbeat(), 0)
    raw.engine.tick(7.5)
    assert raw.engine.opened
    raw.engine.tick(17.5)
    assert isinstance(the_end(raw), ConnectionLost)


@pytest.mark.parametrize(
    ("code", "condition"), [(320, "amqp:connection:forced"), (501, "amqp:connection:framing-error")]
)
def test_closed_by_the_peer(code: int, condition: str) -> None:
    """The code is the condition; our answer goes out."""
    raw = a_client()
    raw.open_as_server()
    assert isinstance(raw.say(ConnectionClose(code, "why"), 0)[-1], ConnectionCloseOk)
    error = the_end(raw)
    assert (error.condition, error.description, error.info) == (condition, "why", {"reply-code": code})


def test_closed_by_us() -> None:
    """In order: close, close-ok, no error; what comes in between is dropped."""
    raw = a_client()
    raw.open_as_server()
    raw.engine.close(Error("amqp:connection:forced", "enough"))
    close = raw.listen()[-1]
    assert (close.reply_code, close.reply_text) == (320, "enough")
    raw.say(ConnectionHeartbeat(), 0)
    raw.say(ConnectionCloseOk(), 0)
    assert the_end(raw) is None


def test_no_channel_at_all() -> None:
    """A client that asks for none gets none."""
    raw = a_client(channel_max=0)
    raw.open_as_server()
    with pytest.raises(LocalProtocolError, match="0 sessions"):
        raw.engine.begin()


def test_no_channel_left() -> None:
    """So many sessions as the peer has channels, and no more."""
    raw = a_client(channel_max=3)
    raw.open_as_server()
    assert [raw.engine.begin() and None for _ in range(2)] == [None, None]
    with pytest.raises(LocalProtocolError, match="2 sessions"):
        raw.engine.begin()


def test_a_channel_above_the_limit() -> None:
    """It costs the client the connection; the last one below does not."""
    raw = a_server()
    raw.open_as_client(session=False)
    assert raw.names(raw.say(SessionAttach(b"last"), 256)) == ["session.attached"]
    assert isinstance(raw.say(SessionAttach(b"more"), 257)[-1], ConnectionClose)
    assert isinstance(the_end(raw), RemoteProtocolError)


# A client


def test_completion_is_the_outcome() -> None:
    """A transfer that is completed was accepted; one that was rejected before was not; the last asks for it."""
    raw = a_client()
    raw.open_as_server()
    link = sender_on(raw)
    deliveries = [link.send(Message(n).encode()) for n in range(4)]
    said = raw.listen()
    assert [each.sync for each in said if isinstance(each, MessageTransfer)] == [False, False, False, True]
    raw.do(MessageReject(((2, 2),), 1, "unroutable"))
    raw.do(MessageReject(((3, 3),), 0, "too bad"))
    raw.do(MessageRelease(((4, 4),)))
    answer = raw.say(SessionCompleted(((0, 4),), timely_reply=True))
    assert SessionKnownCompleted(((0, 4),)) in answer
    assert [each.remote_state for each in deliveries] == [
        ACCEPTED,
        RELEASED,
        Rejected(Error("amqp:precondition-failed", "too bad", {"reply-code": 0})),
        RELEASED,
    ]
    returned = deliveries[1].remote_state
    assert isinstance(returned, Returned)
    assert returned.error == Error("amqp:no-route", "unroutable", {"reply-code": 1})
    assert sum(len(e.deliveries) for e in raw.engine.events() if isinstance(e, OutcomesReceived)) == 4


def test_a_server_that_limits_publishers() -> None:
    """By message.stop and message.flow for the destination "", as Broker-J does when a queue is full."""
    raw = a_client()
    raw.open_as_server()
    link = sender_on(raw)
    assert link.credit == 1000
    raw.do(MessageSetFlowMode("", 0))
    raw.do(MessageStop(""))
    assert link.credit == 0
    with pytest.raises(LocalProtocolError, match="no credit"):
        link.send(Message("x").encode())
    raw.do(MessageFlow("", 0, 2))
    assert any(isinstance(event, CreditChanged) for event in raw.engine.events())
    link.send(Message("x").encode())
    assert link.credit == 1
    raw.do(MessageFlow("", 0, 0xFFFF_FFFF))
    assert link.credit == 999


def test_exception() -> None:
    """A command that fails takes its session along: links and session end with the condition and the code."""
    raw = a_client()
    raw.open_as_server()
    link = sender_on(raw)
    raw.do(ExecutionException(404, 0, 4, 1, description="no such exchange"))
    answer = raw.say(SessionDetach(next(e.name for e in raw.heard if isinstance(e, SessionAttach))))
    assert isinstance(answer[-1], SessionDetached)
    ends = [event for event in raw.engine.events() if isinstance(event, LinkEnded | SessionUnmapped)]
    assert [type(event) for event in ends] == [LinkEnded, SessionUnmapped]
    for event in ends:
        assert isinstance(event.error, SessionEnded)
        assert (event.error.condition, event.error.info) == ("amqp:not-found", {"reply-code": 404})
    with pytest.raises(LocalProtocolError):
        link.send(Message("x").encode())
    assert raw.engine.begin() is not None


def test_ids_that_wrap() -> None:
    """A server may begin to count just below 2^32."""
    raw = a_client()
    raw.open_as_server()
    session = raw.engine.begin()
    raw.listen()
    raw.attached(point=0xFFFF_FFFE)
    for _ in range(4):
        raw.do(ExecutionSync())
    done = [each for each in raw.heard if isinstance(each, SessionCompleted)][-1]
    assert done.commands == ((0xFFFF_FFFE, 1),)
    raw.say(SessionKnownCompleted(((0xFFFF_FFFE, 0),)))
    assert raw.say(SessionFlush(completed=True))[-1].commands == ((1, 1),)
    assert raw.say(SessionFlush(confirmed=True)) == [SessionConfirmed(((1, 1),))]
    assert session.begun


def test_a_server_that_commands_what_only_clients_may() -> None:
    """It loses the session, and hears why."""
    raw = a_client()
    raw.open_as_server()
    raw.engine.begin()
    raw.listen()
    raw.attached()
    answer = raw.do(TxSelect())
    assert [each.error_code for each in answer if isinstance(each, ExecutionException)] == [503]
    assert any(isinstance(event, SessionUnmapped) for event in raw.engine.events())


# A server


def test_said_again() -> None:
    """Commands that were here before are not done again, whatever the client goes back to."""
    raw = a_server()
    raw.open_as_client()
    raw.engine.events()[0].session.begin()  # type: ignore[attr-defined]
    for number in range(3):
        raw.do(MessageTransfer("", 0, 0), b"", b"%d" % number)
    raw.say(SessionCommandPoint(1, 0))
    for number in range(1, 5):
        raw.do(MessageTransfer("", 0, 0), b"", b"%d" % number)
    links: list[Any] = [event.link for event in raw.engine.events() if isinstance(event, LinkAttached)]
    link = links[0]
    link.attach(LinkTerms("transfers", link.remote.source, link.remote.target))
    link.flow(10)
    assert [Message.decode(each.payload).body for each in link.incoming] == [b"%d" % number for number in range(5)]


def test_resuming_a_message() -> None:
    """Nothing is here of a message that was cut off: it is to be sent from its beginning."""
    raw = a_server()
    raw.open_as_client()
    answer = raw.do(MessageResume("d", "id"))
    assert [each.value for each in answer if isinstance(each, ExecutionResult)] == [MessageResumeResult(0)]


def test_commands_without_a_point() -> None:
    """Without session.command-point nobody knows what number a command has: the session is detached."""
    raw = a_server()
    raw.open_as_client(session=False)
    raw.say(SessionAttach(b"name"))
    answer = raw.do(ExecutionSync())
    assert isinstance(answer[-1], SessionDetached)
    assert answer[-1].code == 4


def test_commands_without_a_session() -> None:
    """On a channel that has none: it is not attached."""
    raw = a_server()
    raw.open_as_client(session=False)
    answer = raw.do(ExecutionSync())
    assert isinstance(answer[-1], SessionDetached)
    assert answer[-1].code == 3


def test_malformed_message() -> None:
    """A header segment that is none costs the session."""
    raw = a_server()
    raw.open_as_client()
    answer = raw.do(MessageTransfer("", 0, 0), b"\0\0\0\5", b"x")
    assert [each.error_code for each in answer if isinstance(each, ExecutionException)] == [503]


def test_more_than_the_owner_takes() -> None:
    """Messages beyond the owner's credit wait, and the client is asked to stop. In the end no more is read."""
    raw = a_server()
    raw.open_as_client()
    raw.engine.events()[0].session.begin()  # type: ignore[attr-defined]
    header = DeliveryProperties(routing_key="q").encode_struct32()
    for _ in range(1000):
        raw.do(MessageTransfer("", 1, 0), header, b"x", sync=False)
    asked = [type(command) for command in raw.heard if isinstance(command, MessageStop | MessageSetFlowMode)]
    assert (asked, raw.engine.reading) == ([MessageSetFlowMode, MessageStop], True)
    raw.do(MessageTransfer("", 1, 0), header, bytes(1 << 24), sync=False)
    readings = [raw.engine.reading]  # one message may be as large as it is
    raw.do(MessageTransfer("", 1, 0), header, b"x", sync=False)
    assert [*readings, raw.engine.reading] == [True, False]
    links: list[Any] = [event.link for event in raw.engine.events() if isinstance(event, LinkAttached)]
    link = links[0]
    assert not link.incoming
    link.attach(LinkTerms("transfers", link.remote.source, link.remote.target))
    link.flow(2000)
    assert len(link.incoming) == 1002
    raw.listen()
    assert [command.value for command in raw.heard if isinstance(command, MessageFlow)] == [0xFFFFFFFF]
