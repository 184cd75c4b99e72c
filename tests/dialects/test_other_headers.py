"""A server that speaks another protocol, and says so by its header: the client is told that, in every dialect."""

from __future__ import annotations

import pytest

from amqp10.engine import ConnectionEnded, ConnectionTerms, Dialect, dialects, is_a_header
from amqp10.errors import AmqpError, RemoteProtocolError, Unsupported

HEADERS = (b"AMQP\x00\x01\x00\x00", b"AMQP\x00\x00\x09\x01", b"AMQP\x01\x01\x00\x0a", b"\x80\x01")


def answered(spoken: Dialect, data: bytes, size: int) -> AmqpError | None:
    """Why a client ends whose server begins so, and ends; octets come in portions of that size."""
    client = spoken.client(ConnectionTerms("client"), None, True)
    client.start()
    client.open()
    for start in range(0, len(data), size):
        client.receive_data(data[start : start + size])
    client.receive_eof()
    (end,) = [event for event in client.events() if isinstance(event, ConnectionEnded)]
    return end.error


@pytest.mark.parametrize("size", [1, 100])
@pytest.mark.parametrize("header", HEADERS, ids=bytes.hex)
@pytest.mark.parametrize("spoken", dialects(), ids=lambda spoken: spoken.name)
def test_another_protocol(spoken: Dialect, header: bytes, size: int) -> None:
    """It is `Unsupported`, with the header, however the octets come."""
    if header in spoken.headers:
        return
    error = answered(spoken, header, size)
    assert isinstance(error, Unsupported)
    assert "the peer speaks another protocol: " in str(error)
    assert header[: 8 if size > 1 else 1].hex(" ") in str(error)


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "an HTTP server: AMQP over WebSockets has URLs that begin with ws://"),
        (b"\x15\x03\x01\x00\x02\x02\n", "TLS: the URL of a port with TLS begins with amqps://"),
        (b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03", "TLS: the URL of a port with TLS begins with amqps://"),
    ],
    ids=["HTTP", "alert", "handshake"],
)
@pytest.mark.parametrize("spoken", dialects(), ids=lambda spoken: spoken.name)
def test_no_protocol_of_ours(spoken: Dialect, said: bytes, advice: str) -> None:
    """Bytes that are no dialect's header are another fault, and the error says what to try."""
    error = answered(spoken, said, 100)
    assert isinstance(error, RemoteProtocolError)
    assert advice in str(error)


@pytest.mark.parametrize(
    ("header", "advice"),
    [
        (b"AMQP\x02\x01\x00\x00", "(TLS comes first there: amqps://, or tls_upgrade=True)"),
        (b"AMQP\x00\x00\x09\x01", "(dialect '0-9-1')"),
        (b"AMQP\x01\x01\x00\x0a", "(dialect '0-10')"),
        (b"AMQP\x00\x01\x00\x00", "(dialect '1.0')"),
    ],
    ids=["TLS", "0-9-1", "0-10", "1.0"],
)
@pytest.mark.parametrize("spoken", dialects(), ids=lambda spoken: spoken.name)
def test_advice(spoken: Dialect, header: bytes, advice: str) -> None:
    """The error says which dialect the server's header is of, or that it wants TLS."""
    if header in spoken.headers:
        return
    assert str(answered(spoken, header, 100)).endswith(advice)


def test_headers() -> None:
    """All of the family are known, by as much of them as is there."""
    assert all(is_a_header(header) for header in HEADERS)
    assert not any(is_a_header(start) for start in (b"", b"AMQ", b"HTTP", b"\x16\x03\x01"))
