"""What hostile peers do to the engines: each has its code on the wire and one error, in bounded memory and time."""

from __future__ import annotations

import struct
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from amqp10 import Message, Plain, ScramSha256, Source, Target
from amqp10.dialects.v0_10 import DIALECT
from amqp10.dialects.v0_10.wire.commands import (
    ExecutionException,
    ExecutionResult,
    ExecutionSync,
    MessageAccept,
    MessageFlow,
    MessageReject,
    MessageSubscribe,
    MessageTransfer,
    QueueQueryResult,
    TxCommit,
    TxSelect,
    XaResult,
)
from amqp10.dialects.v0_10.wire.controls import (
    ConnectionClose,
    ConnectionHeartbeat,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    SessionCommandPoint,
    SessionCompleted,
    SessionDetached,
    SessionExpected,
    SessionFlush,
    SessionGap,
    SessionKnownCompleted,
)
from amqp10.dialects.v0_10.wire.frames import PROTOCOL_HEADER, encode_control, encode_segment
from amqp10.dialects.v0_10.wire.struct import Control
from amqp10.engine import (
    ConnectionEnded,
    ConnectionTerms,
    LinkAttached,
    LinkTerms,
    QueryQueue,
    Role,
    SessionUnmapped,
)
from amqp10.errors import DecodeError, RemoteProtocolError
from amqp10.messaging import Declared
from amqp10.sasl import Authenticator

from ...kit.dialects.v0_10.engines import a_client, a_server, outlet_on, sender_on
from ...kit.dialects.v0_10.raw_peer import Raw

MAX_BYTES = 24_000_000
MAX_SECONDS = 8.0  # of the processor: what others do on the machine is none of the peer's cost
MAX_MESSAGE = 20_000
TOO_LARGE = f"amqp:link:message-size-exceeded: a message of more than {MAX_MESSAGE} octets"


@pytest.fixture(autouse=True)
def _bounds() -> Iterator[None]:
    """Whatever the peer did, it did not cost more than this."""
    tracemalloc.start()
    began = time.process_time()
    yield
    seconds = time.process_time() - began
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MAX_BYTES
    assert seconds < MAX_SECONDS


def frame(kind: int, payload: bytes, flags: int = 15, *, channel: int = 1, track: int = 1, size: int = -1) -> bytes:
    """A frame with any head."""
    length = 12 + len(payload) if size < 0 else size
    return struct.pack(">BBHBBHI", flags, kind, length, 0, track, channel, 0) + payload


def control(said: Control, channel: int = 1) -> bytes:
    return bytes(encode_control(channel, said.encode()))


def nested(depth: int) -> bytes:
    """Maps inside maps."""
    value = struct.pack(">II", 4, 0)
    for _ in range(depth):
        entry = b"\1k\xa8" + value
        value = struct.pack(">II", 4 + len(entry), 1) + entry
    return value


SET_BOMB = tuple((number << 18, (number << 18) + (1 << 17)) for number in range(8000))
"""About as many ranges as a frame has room for, each of 131,073 numbers."""
OVERLAPPING = ((0, 0x7FFF_FFFF),) * 8000
TRANSFER = MessageTransfer("r", 0, 0).encode()
FIRST, LAST = 8 | 2 | 1, 4 | 2 | 1

# What closes the connection, with its code.
CLOSING: dict[str, tuple[bytes, int]] = {
    "a control that is none": (frame(0, b"\2\x63\0\0", track=0), 501),
    "a control cut short": (frame(0, b"\2\1\1\0\0", track=0), 501),
    "a control with flags of no field": (frame(0, b"\2\7\0\x80", track=0), 501),
    "a frame smaller than its head": (frame(1, b"", size=11), 501),
    "a segment that is none": (frame(4, TRANSFER), 501),
    "flags that are none": (frame(1, TRANSFER, 0x1F), 501),
    "content without a command": (frame(3, b"body"), 501),
    "a frame that continues nothing": (frame(1, TRANSFER, 4 | 1), 501),
    "a command within another": (frame(1, TRANSFER, FIRST) * 2, 501),
    "a header after the body": (frame(1, TRANSFER, FIRST) + frame(3, b"b", 2 | 1) + frame(2, b"", LAST), 501),
    "a segment that changes midway": (frame(1, TRANSFER, 8 | 2) + frame(2, b"", LAST), 501),
    "connection.start on an open connection": (control(ConnectionStart({}, [], []), 0), 320),
    "a point within a command": (control(SessionCommandPoint(0, 7)), 320),
    "a thousand commands in part": (b"".join(frame(1, b"", FIRST, channel=n) for n in range(2000)), 320),
}

# What ends the session, by an exception with its code.
EXCEPTIONS: dict[str, tuple[bytes, int]] = {
    "a class that is none": (frame(1, b"\x63\1\1\0\0\0"), 503),
    "a command that is none": (frame(1, b"\4\x63\1\0\0\0"), 503),
    "a command without a session header": (frame(1, b"\4"), 503),
    "a session header that is none": (frame(1, b"\4\2\7" + bytes(20)), 503),
    "flags of no field": (frame(1, b"\4\2\1\0\0\x80"), 503),
    "a field that is required": (frame(1, b"\4\2\1\0\0\0"), 503),
    "a field cut short": (frame(1, b"\4\2\1\0\1\0\0\x08\0\0"), 503),
    "octets after the fields": (frame(1, b"\3\1\1\0\0\0more"), 503),
    "half a range": (frame(1, b"\4\2\1\0\1\0\0\x04\0\0\0\0"), 503),
    "maps in maps without end": (frame(1, MessageSubscribe("q", "x").encode()[:4] + b"\x80\0" + nested(400)), 503),
    "content with a command that has none": (
        frame(1, MessageAccept(((0, 0),)).encode(), FIRST) + frame(2, b"", LAST),
        503,
    ),
    "a header that is none": (frame(1, TRANSFER, FIRST) + frame(2, b"\0\0\0\5", LAST), 503),
    "a header of another size": (frame(1, TRANSFER, FIRST) + frame(2, b"\0\0\0\1\4", LAST), 503),
    "a command without end": (b"".join(frame(1, bytes(60_000), 8 | 2 if n == 0 else 8) for n in range(300)), 506),
    "a message without end": (
        frame(1, TRANSFER, FIRST) + b"".join(frame(3, bytes(4000), 4 | 2 if n == 0 else 4) for n in range(9000)),
        506,
    ),
    "settled, and without end": (  # nobody waits for an outcome that would say so
        frame(1, MessageTransfer("r", 1, 0).encode(), FIRST)
        + b"".join(frame(3, bytes(4000), 4 | 2 if n == 0 else 4) for n in range(100)),
        506,
    ),
    "a message of tiny frames": (
        frame(1, TRANSFER, FIRST)
        + b"".join(frame(3, b"x", 4 | 2 if n == 0 else 4) for n in range(MAX_MESSAGE))
        + frame(3, b"x", 4 | 1),
        506,
    ),
}

# What is answered by detaching the session, with its code.
DETACHING: dict[str, tuple[bytes, int]] = {
    "commands left out without a gap": (control(SessionCommandPoint(1000, 0)), 4),
    "a point before the first command": (control(SessionCommandPoint(0xFFFF_0000, 0)), 4),
    "a channel without a session": (frame(1, ExecutionSync().encode(), channel=9), 3),
}

# What costs little, and changes nothing.
HARMLESS: dict[str, bytes] = {
    "completed of what was never sent": control(SessionCompleted(((5, 0x7FFF_0000),))),
    "completed in thousands of ranges": control(SessionCompleted(SET_BOMB)),
    "completed again and again": control(SessionCompleted(OVERLAPPING)),
    "known of what was never completed": control(SessionKnownCompleted(SET_BOMB)),
    "expected, which nobody asked for": control(SessionExpected(((0, 0),))),
    "a range backwards": control(SessionCompleted(((9, 3),))),
    "a gap that is not next": control(SessionGap(((500, 600),))),
    "heartbeats": control(ConnectionHeartbeat(), 0) * 1000,
    "flushes": control(SessionFlush(expected=True, confirmed=True, completed=True)) * 100,
}


@pytest.fixture(params=["client", "server"])
def raw(request: pytest.FixtureRequest) -> Raw:
    """The other end of an engine of either role, with a session."""
    terms = ConnectionTerms("c", idle_timeout=None, max_message_size=MAX_MESSAGE)
    if request.param == "server":
        engine = DIALECT.server(terms, Authenticator(anonymous=True))
        engine.start()
        raw = Raw(engine)
        raw.open_as_client()
        (begun,) = engine.events()
        begun.session.begin()  # type: ignore[attr-defined]
    else:
        engine = DIALECT.client(terms, None, True)
        engine.start()
        engine.open()
        raw = Raw(engine)
        raw.open_as_server()
        engine.begin()
        raw.listen()
        raw.attached()
    engine.events()
    return raw


@pytest.mark.parametrize("name", CLOSING)
def test_closes_the_connection(raw: Raw, name: str) -> None:
    """connection.close with the code, and one error that tells why."""
    data, code = CLOSING[name]
    closes = [each for each in raw.put(data) if isinstance(each, ConnectionClose)]
    assert [each.reply_code for each in closes] == [code]
    ends = [event for event in raw.engine.events() if isinstance(event, ConnectionEnded)]
    assert len(ends) == 1
    assert isinstance(ends[0].error, RemoteProtocolError)
    assert raw.put(data) == []


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_ends_the_session(raw: Raw, name: str) -> None:
    """execution.exception with the code, and one error that tells why; the connection goes on."""
    data, code = EXCEPTIONS[name]
    if raw.engine.role is Role.CLIENT and name.startswith("a header"):
        link = subscribed(raw)
        raw.put(data)
        with pytest.raises(DecodeError):  # who receives it finds out, and can reject it
            Message.decode(link.incoming.popleft().payload).check()
        return
    said = raw.put(data)
    at_client = raw.engine.role is Role.CLIENT
    if name.startswith("a message") or (at_client and name == "settled, and without end"):
        rejected = [] if at_client else [TOO_LARGE]  # a client is told so, message by message; at it, it is for no link
        assert [each.text for each in said if isinstance(each, MessageReject)] == rejected
        assert not [event for event in raw.engine.events() if isinstance(event, SessionUnmapped)]
        return
    assert [each.error_code for each in said if isinstance(each, ExecutionException)] == [code]
    ends = [event for event in raw.engine.events() if isinstance(event, SessionUnmapped)]
    assert len(ends) == 1
    assert isinstance(ends[0].error, RemoteProtocolError)
    if "without end" not in name:
        assert raw.put(frame(1, ExecutionSync().encode(sync=True))) == []
    assert raw.engine.opened


@pytest.mark.parametrize("name", DETACHING)
def test_detaches(raw: Raw, name: str) -> None:
    """session.detached with the code; the connection goes on."""
    data, code = DETACHING[name]
    said = [each.code for each in raw.put(data) if isinstance(each, SessionDetached)]
    late = raw.engine.role is Role.CLIENT and code == 3  # for a session that is over: dropped
    assert said == ([] if late else [code])
    assert raw.engine.opened


@pytest.mark.parametrize("name", HARMLESS)
def test_what_changes_nothing(raw: Raw, name: str) -> None:
    """It is taken in at little cost, and the session goes on: a sync is completed."""
    for _ in range(3):
        raw.put(HARMLESS[name])
    said = raw.put(frame(1, ExecutionSync().encode(sync=True)))
    assert any(isinstance(each, SessionCompleted) for each in said)
    assert not [event for event in raw.engine.events() if isinstance(event, SessionUnmapped | ConnectionEnded)]


def test_gaps_without_end(raw: Raw) -> None:
    """Each gap is taken for done, so that what is to be said of it does not grow."""
    raw.put(frame(1, ExecutionSync().encode()))
    for number in range(1, 3000, 2):
        raw.put(control(SessionGap(((number, number),))))
        raw.put(frame(1, ExecutionSync().encode()))
    done = [each for each in raw.heard if isinstance(each, SessionCompleted)][-1]
    assert done.commands == ((0, number + 1),)


def subscribed(raw: Raw) -> Any:
    """A receiver of a client engine, on the session that is there; it has credit."""
    session = next(iter(raw.engine.sessions.values()))  # type: ignore[attr-defined]
    link = session.attach_receiver(LinkTerms("r", Source("q"), Target()))
    raw.listen()
    raw.do(ExecutionResult(0, QueueQueryResult("q")))
    for _ in range(2):
        raw.put(control(SessionCompleted(((0, session.outbox.next - 1),))))
    assert link.attached
    link.flow(10)
    raw.listen()
    raw.engine.events()
    return link


# A server


@pytest.fixture
def server() -> Raw:
    """A client of a server engine, with a session."""
    raw = a_server()
    raw.open_as_client()
    session: Any = raw.engine.events()[0]
    session.session.begin()
    return raw


@pytest.mark.slow
@pytest.mark.parametrize("ranges", [SET_BOMB, OVERLAPPING])
def test_outcomes_in_thousands_of_ranges(server: Raw, ranges: Any) -> None:
    """They are found in no time, each once."""
    link = outlet_on(server)
    server.do(MessageFlow("d", 1, 0xFFFF_FFFF))
    server.do(MessageFlow("d", 0, 2000))
    deliveries = [link.send(Message(n).encode()) for n in range(2000)]
    server.listen()
    told = []
    for _ in range(2):
        server.put(b"".join(encode_segment(1, 1, 12, MessageAccept(ranges).encode(), 60_000)))
        told += [each for event in server.engine.events() for each in getattr(event, "deliveries", ())]
    assert told == deliveries[: len(told)]
    assert len(told) == 2000


def test_syncs_without_end(server: Raw) -> None:
    """They wait for a message that nobody takes: so many may wait, and no more."""
    server.do(MessageTransfer("", 0, 0), b"", b"held")
    sync = frame(1, ExecutionSync().encode())
    said = [each for _ in range(101) for each in server.put(sync * 100)]
    assert [each.error_code for each in said if isinstance(each, ExecutionException)] == [506]


def test_commands_behind_a_commit_that_waits(server: Raw) -> None:
    """While a commit waits for messages that nobody takes, what comes is held; when it is much nothing more is read."""
    links: list[Any] = []
    server.do(TxSelect())
    for event in server.engine.events():
        if isinstance(event, LinkAttached):
            links.append(event.link)
    assert links
    (controller,) = links
    controller.attach(LinkTerms("transactions", Source(), controller.remote.target))
    controller.flow(10)
    declare = controller.incoming.popleft()
    controller.settle(declare, Declared(b"txn"))
    server.do(MessageTransfer("", 0, 0), b"", b"held")
    server.do(TxCommit())
    for _ in range(18):
        server.do(MessageTransfer("", 0, 0), b"", bytes(1_000_000), sync=False)
    assert not server.engine.reading
    server.engine.receive_eof()
    assert server.engine.reading


def test_subscriptions_without_end(server: Raw) -> None:
    """So many, and no more."""
    said = []
    for n in range(1100):
        said += server.do(MessageSubscribe("q", f"d{n}"), sync=False)
        for event in server.engine.events():
            if isinstance(event, LinkAttached):
                event.link.attach(LinkTerms(f"d{n}"))
    assert [each.error_code for each in said if isinstance(each, ExecutionException)] == [506]


def test_endless_login_of_a_client() -> None:
    """A client that never comes to an end with its responses is cut off."""
    raw = a_server(users={"u": "p"}, allow_insecure=True)
    raw.put(PROTOCOL_HEADER)
    said = raw.say(ConnectionStartOk({}, "SCRAM-SHA-256", b"", "en_US"), 0)
    for _ in range(100):
        if isinstance(said[-1] if said else None, ConnectionClose):
            break
        said = raw.say(ConnectionSecureOk(b"n,,n=u,r=x"), 0)
    (end,) = [event for event in raw.engine.events() if isinstance(event, ConnectionEnded)]
    assert end.error is not None


# A client


@pytest.mark.parametrize("mechanism", [Plain("u", "p"), ScramSha256("u", "p")])
def test_endless_login_of_a_server(mechanism: Any) -> None:
    """A server that never stops challenging is given up, whatever the mechanism."""
    engine = DIALECT.client(ConnectionTerms("c", idle_timeout=None), (mechanism,), True)
    engine.start()
    engine.open()
    raw = Raw(engine)
    raw.put(PROTOCOL_HEADER)
    raw.say(ConnectionStart({}, [mechanism.name], ["en_US"]), 0)
    answers = [each for _ in range(100) for each in raw.say(ConnectionSecure(b"more"), 0)]
    assert sum(isinstance(each, ConnectionSecureOk) for each in answers) < 20
    (end,) = [event for event in engine.events() if isinstance(event, ConnectionEnded)]
    assert end.error is not None


@pytest.mark.slow
@pytest.mark.parametrize("ranges", [SET_BOMB, OVERLAPPING])
def test_rejects_in_thousands_of_ranges(ranges: Any) -> None:
    """They are found in no time, and each outcome is told once."""
    raw = a_client()
    raw.open_as_server()
    link = sender_on(raw)
    for n in range(1000):
        link.send(Message(n).encode())
    raw.listen()
    for _ in range(2):
        raw.put(b"".join(encode_segment(1, 1, 12, MessageReject(ranges, 1, "no").encode(), 60_000)))
    raw.put(control(SessionCompleted(((0, 2000),))))
    told = [each for event in raw.engine.events() for each in getattr(event, "deliveries", ())]
    assert len(told) == len(set(told)) == 1000


def test_results_that_nobody_asked_for() -> None:
    """Of what was never commanded, or gives none: they are dropped; what is no such result costs the session."""
    raw = a_client()
    raw.open_as_server()
    link = sender_on(raw)
    delivery = link.send(Message("x").encode())
    raw.listen()
    for number in (7, 500, 0xFFFF_FFFF):
        raw.do(ExecutionResult(number, XaResult(0)))
    assert raw.engine.opened
    assert delivery.remote_state is None
    session = link.session
    assert session.begun
    session.request(QueryQueue("q"))
    raw.listen()
    said = raw.do(ExecutionResult(session.outbox.next - 1, XaResult(0)))
    assert [each.error_code for each in said if isinstance(each, ExecutionException)] == [531]


def test_tunes_that_cannot_be() -> None:
    """No channels, frames smaller than any: the least is taken that the specification allows, and nothing is raised."""
    for tune in (ConnectionTune(0, 0, 0, 0), ConnectionTune(1, 1, 5, 1), ConnectionTune(0xFFFF, 0xFFFF, 0xFFFF, 0)):
        engine = DIALECT.client(ConnectionTerms("c"), None, True)
        engine.start()
        engine.open()
        raw = Raw(engine)
        raw.put(PROTOCOL_HEADER)
        raw.say(ConnectionStart({}, ["ANONYMOUS"], ["en_US"]), 0)
        raw.say(tune, 0)
        raw.say(ConnectionOpenOk([]), 0)
        assert engine.opened
        deadline = engine.tick(0.0)
        assert deadline is None or deadline > 0
        engine.begin()
        assert raw.listen()
