"""Version negotiation (§2.2) and what surrounds frames on the wire (§2.3), as the engine does them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amqp10.engine import ConnectionEnded, ConnectionOpened, Engine, Negotiation
from amqp10.errors import AmqpError, ConnectionClosed, RemoteProtocolError, Unsupported
from amqp10.messaging import Error
from amqp10.testing import Close, EngineScript, Open

AMQP = b"AMQP\0\1\0\0"
SASL = b"AMQP\3\1\0\0"

Make = Callable[..., Engine]
Play = Callable[..., EngineScript]


@pytest.mark.spec("2.2", "the client sends the protocol header first, of the version that it wants")
def test_client_header_first(client: Make) -> None:
    """A client engine writes its header before it has received anything."""
    engine = client()
    engine.start()
    assert engine.data_to_send() == AMQP


@pytest.mark.spec("2.2", "a server that takes the header answers with the same one")
def test_server_echoes_header(server: Make) -> None:
    """A server engine writes nothing before the client's header, and then the same header."""
    engine = server()
    engine.start()
    assert engine.data_to_send() == b""
    engine.receive_data(AMQP)
    assert engine.data_to_send() == AMQP


@pytest.mark.spec("2.2", "the header may arrive in any portions")
def test_header_in_portions(server: Make) -> None:
    """A header that dribbles in byte by byte is a header."""
    engine = server()
    engine.start()
    for number in range(8):
        engine.receive_data(AMQP[number : number + 1])
    assert engine.data_to_send() == AMQP
    assert engine.events() == []


@pytest.mark.spec("2.2", "a server that does not take the header answers with one that it supports, then closes")
@pytest.mark.parametrize(
    "header",
    [b"AMQP\0\2\0\0", b"AMQP\1\1\0\x0a", b"AMQP\0\0\x09\1", b"GET / HT", b"AMQP\0\1\0\1"],
)
def test_server_refuses_header(server: Make, header: bytes) -> None:
    """Another version, another protocol, or no AMQP at all: one of our headers goes out and the connection is over."""
    engine = server()
    engine.start()
    engine.receive_data(header)
    assert engine.data_to_send() in (AMQP, SASL)
    (ended,) = engine.events()
    assert isinstance(ended, ConnectionEnded)
    assert isinstance(ended.error, AmqpError)


@pytest.mark.spec("2.2", "a client that gets another header than its own closes")
def test_client_sees_other_version(client: Make) -> None:
    """The error names what the peer speaks, and nothing of AMQP 1.0 is sent after it."""
    engine = client()
    engine.start()
    engine.data_to_send()
    engine.receive_data(b"AMQP\0\0\x09\1")
    (ended,) = engine.events()
    assert isinstance(ended, ConnectionEnded)
    assert isinstance(ended.error, Unsupported)
    assert engine.data_to_send() == b""


@pytest.mark.spec("2.2", "a client that gets no AMQP header closes")
def test_client_meets_another_protocol(client: Make) -> None:
    """A web server on the port is told apart from a broker, at its first bytes."""
    engine = client()
    engine.start()
    engine.receive_data(b"HTTP/1.1 400 Bad Request\r\n")
    (ended,) = engine.events()
    assert isinstance(ended, ConnectionEnded)
    assert isinstance(ended.error, RemoteProtocolError)


@pytest.mark.spec("2.2", "bytes that cannot begin any known header are refused without waiting for eight of them")
def test_negotiation() -> None:
    """The server's choice of a dialect: by eight bytes, by fewer where they cannot become a header."""
    choice = Negotiation()
    assert not choice.receive_data(AMQP[:5])
    assert choice.receive_data(AMQP[5:] + b"more")
    assert choice.dialect is not None
    assert choice.dialect.name == "1.0"
    assert choice.received == AMQP + b"more"
    refused = Negotiation()
    assert refused.receive_data(b"G")
    assert refused.refusal in (AMQP, SASL)


@pytest.mark.spec("2.3.1", "a frame is malformed if its size is below eight")
def test_frame_too_short(play_client: Play) -> None:
    """The connection closes with a framing error."""
    script = play_client()
    script.send_bytes(b"\0\0\0\7\2\0\0\0")
    script.expect(Close, error=lambda error: error.condition == "amqp:connection:framing-error")
    error = script.expect_event(ConnectionEnded).error
    assert isinstance(error, RemoteProtocolError)
    assert error.condition == "amqp:connection:framing-error"


@pytest.mark.spec("2.3.1", "a frame is malformed if its data offset is below two")
def test_data_offset_too_small(play_client: Play) -> None:
    """The connection closes with a framing error."""
    script = play_client()
    script.send_bytes(b"\0\0\0\x08\1\0\0\0")
    script.expect(Close, error=lambda error: error.condition == "amqp:connection:framing-error")


@pytest.mark.spec("2.3.1", "the extended header is skipped")
def test_extended_header(play_client: Play) -> None:
    """A frame with a data offset of three words is read past the extra word."""
    script = play_client()
    close = Close().encode()
    script.send_bytes((12 + len(close)).to_bytes(4, "big") + b"\3\0\0\0\xde\xad\xbe\xef" + close)
    script.expect(Close, error=None)


@pytest.mark.spec("2.3.1", "a frame above max-frame-size is refused as soon as its header is here")
def test_frame_too_large(play_client: Play) -> None:
    """Eight bytes that announce a frame too large are enough; nothing is buffered in wait for the rest."""
    script = play_client(max_frame_size=1024)
    script.send_bytes((1025).to_bytes(4, "big") + b"\2\0\0\0")
    script.expect(Close, error=lambda error: error.condition == "amqp:connection:framing-error")
    assert isinstance(script.expect_event(ConnectionEnded).error, RemoteProtocolError)


@pytest.mark.spec("2.3.1", "a frame that is cut short by the end of the stream is no frame")
def test_truncated_frame(play_client: Play) -> None:
    """The connection is lost, and the half frame has no effect."""
    script = play_client()
    script.send_bytes(b"\0\0\0\x20\2\0\0\0\0\x53\x11")
    script.end_of_stream()
    (ended,) = script.take_events()
    assert isinstance(ended, ConnectionEnded)
    assert ended.error is not None


@pytest.mark.spec("2.3.1", "a frame of an unknown type is refused")
def test_unknown_frame_type(play_client: Play) -> None:
    """A frame of type 7 closes the connection with a framing error."""
    script = play_client()
    script.send_bytes(b"\0\0\0\x0b\2\7\0\0\0\x53\x18")
    script.expect(Close, error=lambda error: error is not None)
    assert isinstance(script.expect_event(ConnectionEnded).error, RemoteProtocolError)


@pytest.mark.spec("2.3.2", "a body that is no performative closes the connection with a decode error")
@pytest.mark.parametrize("body", [b"\x40", b"\0\x53\x77\x40", b"\0\x53\x10", b"\0\x53\x10\xc0\x00\x00", b"\xff" * 20])
def test_body_is_no_performative(play_client: Play, body: bytes) -> None:
    """One clear error, the right close, and no other effect."""
    script = play_client()
    script.send_bytes((8 + len(body)).to_bytes(4, "big") + b"\2\0\0\0" + body)
    script.expect(Close, error=lambda error: error.condition == "amqp:decode-error")
    (ended,) = script.take_events()
    assert isinstance(ended, ConnectionEnded)
    assert isinstance(ended.error, RemoteProtocolError)
    assert ended.error.condition == "amqp:decode-error"


@pytest.mark.spec("2.4.1", "max-frame-size is at least 512")
def test_max_frame_size_minimum(client: Make) -> None:
    """Less is taken to mean 512: Broker-J says 0 when it is about to refuse, and its close says why."""
    script = EngineScript(client())
    script.engine.open()
    script.send_bytes(AMQP)
    script.send(Open(container_id="script", max_frame_size=0))
    script.send(Close(error=Error("amqp:not-found", "no such host")))
    ended = script.expect_event(ConnectionEnded)
    assert isinstance(ended.error, ConnectionClosed)
    assert ended.error.condition == "amqp:not-found"
    assert script.engine.remote is not None
    assert script.engine.remote.max_frame_size == 512


@pytest.mark.spec("2.2", "several frames may arrive with the header, in one portion or byte by byte")
@pytest.mark.parametrize("portion", [1, 3, 7, 1000])
def test_any_portions(server: Make, portion: int) -> None:
    """How bytes are cut makes no difference."""
    script = EngineScript(server())
    opened = Open(container_id="script").encode()
    data = AMQP + (8 + len(opened)).to_bytes(4, "big") + b"\2\0\0\0" + opened
    for start in range(0, len(data), portion):
        script.send_bytes(data[start : start + portion])
    script.expect_event(ConnectionOpened)
    assert script.engine.remote is not None
    assert script.engine.remote.container_id == "script"
