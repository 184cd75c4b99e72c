"""The HTTP handshake of a WebSocket, from both sides (RFC 6455 §4; OASIS AMQP WebSocket Binding 1.0)."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Collection
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from anyio.abc import ByteStream
from wsproto.connection import ConnectionType
from wsproto.events import AcceptConnection, RejectConnection, RejectData, Request
from wsproto.handshake import H11Handshake
from wsproto.utilities import RemoteProtocolError

from ...errors import ConnectionLost, HandshakeRefused
from .._streams.websocket import WebSocketStream
from .._url import PORTS, Endpoint
from .options import WebSocket
from .proxy import says

SUBPROTOCOLS: Final = ("amqp", "AMQPWSB10")
"""The subprotocols that the server accepts: the binding's name, and that of its drafts, used by Azure's clients."""

HTTP: Final = b"HTTP/1."
"""The beginning of a response."""

_BLANK_LINE: Final = re.compile(rb"\n\r?\n")
"""The end of a request's headers, as h11 finds it."""


# Client


async def open_websocket(stream: ByteStream, endpoint: Endpoint, settings: WebSocket) -> WebSocketStream:
    """Ask for a WebSocket over a stream.

    Raises:
        HandshakeRefused: the server answered with another HTTP status than 101.
        ConnectionLost: the server does not support WebSocket, or not the subprotocol.
        EndOfStream, BrokenResourceError: the stream ended.

    Cancelling: the stream is of no use any more.
    """
    handshake = H11Handshake(ConnectionType.CLIENT)
    host = endpoint.authority.removesuffix(f":{PORTS[endpoint.scheme]}")
    headers = [(name.encode("ascii"), value.encode("latin-1")) for name, value in settings.headers.items()]
    request = Request(host, endpoint.target, subprotocols=[settings.subprotocol], extra_headers=headers)
    await stream.send(handshake.send(request))
    try:
        received = b""
        while True:
            data = await stream.receive()
            received = (received + data)[: len(HTTP)]
            if not HTTP.startswith(received):
                raise ConnectionLost(f"cannot connect to {endpoint}: the server does not answer as HTTP")
            handshake.receive_data(data)
            for event in handshake.events():
                if isinstance(event, RejectConnection):
                    raise _refused(endpoint, event)
                if isinstance(event, AcceptConnection) and event.subprotocol != settings.subprotocol:
                    raise ConnectionLost(
                        f"cannot connect to {endpoint}: the server does not accept the subprotocol "
                        f"{settings.subprotocol}"
                    )
            if handshake.connection is not None:
                return WebSocketStream(stream, handshake.connection)
    except (RemoteProtocolError, ValueError) as error:  # the latter: bytes in its headers that are no text
        raise ConnectionLost(f"cannot connect to {endpoint}: no WebSocket there: {error}") from error


def _refused(endpoint: Endpoint, event: RejectConnection) -> HandshakeRefused:
    message = f"cannot connect to {endpoint}: the server {says(event.status_code)}"
    location = next((value for name, value in event.headers if name.lower() == b"location"), None)
    if 300 <= event.status_code < 400 and location is not None:
        # Without the query, which may hold secrets of a login. Redirects are not followed, to keep the credentials
        # here.
        message += f", which leads to {location.partition(b'?')[0].decode('latin-1')!r}; redirects are not followed"
    return HandshakeRefused(message, event.status_code)


# Server


class Refused(Exception):
    """The request was answered with a status other than 101."""


async def upgrade(
    stream: ByteStream, received: bytes, origins: Collection[str], *, names: bool = False
) -> WebSocketStream:
    """Answer a request whose beginning, `received`, was read ahead.

    Args:
        origins: the origins whose pages may connect, besides the host that the request names.
        names: whether that host may be any name, not only an address or "localhost".

    Raises:
        Refused: the request was refused, and the stream closed.
        EndOfStream, BrokenResourceError: the stream ended.

    Cancelling: the stream is of no use any more.
    """
    handshake = H11Handshake(ConnectionType.SERVER)
    try:
        handshake.receive_data(received)
        while (request := next(handshake.events(), None)) is None:
            received += (more := await stream.receive())
            handshake.receive_data(more)
        assert isinstance(request, Request)
        answer = _judge(request, received, origins, names)
    except (RemoteProtocolError, ValueError) as error:  # the latter: bytes in its headers that are no text
        hint = error.event_hint if isinstance(error, RemoteProtocolError) else None
        status = hint.status_code if isinstance(hint, RejectConnection) else HTTPStatus.BAD_REQUEST
        answer = str(error), status
    if isinstance(answer, AcceptConnection):
        await stream.send(handshake.send(answer))
        assert handshake.connection is not None
        return WebSocketStream(stream, handshake.connection)
    reason, status = answer
    body = f"AMQP over WebSocket: {reason}\n".encode()
    headers = [
        (b"Content-Type", b"text/plain; charset=utf-8"),
        (b"Content-Length", str(len(body)).encode()),
        (b"Connection", b"close"),
        (b"Sec-WebSocket-Version", b"13"),
    ]
    await stream.send(
        handshake.send(RejectConnection(status, headers, has_body=True)) + handshake.send(RejectData(body))
    )
    await stream.aclose()
    raise Refused(f"{reason} ({status})")


def _judge(
    request: Request, received: bytes, origins: Collection[str], names: bool
) -> AcceptConnection | tuple[str, int]:
    """Accept the request, or return the reason and status of a refusal. `received` is all that the peer has sent."""
    if not received.partition(b"\n")[0].rstrip().endswith(b"HTTP/1.1"):
        return "a WebSocket is asked for by HTTP/1.1", HTTPStatus.BAD_REQUEST  # RFC 6455 §4.2.1
    keys = [value for name, value in request.extra_headers if name == b"sec-websocket-key"]
    if len(keys) != 1 or not _is_key(keys[0]):
        return "Sec-WebSocket-Key must be there once, and stand for 16 octets", HTTPStatus.BAD_REQUEST  # §4.2.1
    head = _BLANK_LINE.search(received)
    if head is not None and head.end() < len(received):
        # RFC 6455 §4.1: a client waits for the answer. wsproto would drop what came before it.
        return "nothing may follow the request before its answer", HTTPStatus.BAD_REQUEST
    lengths = [value for name, value in request.extra_headers if name in (b"content-length", b"transfer-encoding")]
    if any(value != b"0" for value in lengths):
        # A proxy in between could read as the request's body what is read as frames here.
        return "a request for a WebSocket has no body", HTTPStatus.BAD_REQUEST
    came_from = [value.decode("latin-1") for name, value in request.extra_headers if name == b"origin"]
    if "*" not in origins and not all(
        origin in origins or _is_of_host(origin, request.host, names) for origin in came_from
    ):
        return f"pages of {', '.join(came_from)!r} may not come in", HTTPStatus.FORBIDDEN
    for name in SUBPROTOCOLS:
        if name in request.subprotocols:
            return AcceptConnection(name)
    return f"the subprotocol must be one of {', '.join(SUBPROTOCOLS)}", HTTPStatus.BAD_REQUEST


def _is_key(value: bytes) -> bool:
    """Return whether a key is 16 octets in base64."""
    try:
        return len(b64decode(value, validate=True)) == 16
    except ValueError:
        return False


def _is_of_host(origin: str, host: str, names: bool) -> bool:
    """Return whether an origin has the host and port of the request's `Host`, which may be a name if `names`."""
    try:
        page, server = urlsplit(origin), urlsplit(f"//{host}")
        usual = {"http": 80, "https": 443}[page.scheme]
        same = (page.hostname, page.port or usual) == (server.hostname, server.port or usual)
    except (KeyError, ValueError):
        return False
    return same and server.hostname is not None and (names or _is_address(server.hostname))


def _is_address(host: str) -> bool:
    """Return whether a host is found without a name server."""
    try:
        ip_address(host)
    except ValueError:
        return host == "localhost"
    return True
