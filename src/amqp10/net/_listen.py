"""The server's side of streams: where to listen, and how to take what comes in."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Collection
from os import PathLike
from urllib.parse import quote

import anyio
from anyio.abc import ByteStream, Listener, SocketAttribute
from anyio.streams.tls import TLSAttribute

from ..errors import ConnectionLost
from ._connecting.tls_upgrade import answer_for_tls
from ._fork import keep_from_children
from ._streams.base import STREAM_ERRORS, StreamFacts, TLSSettings, describe, set_options
from ._streams.socket import take_over
from ._streams.tls import TLSStream
from ._streams.tls_settings import CertificateName, certificate_identity
from ._url import is_loopback


async def listen_tcp(host: str, port: int, *, secure: bool = False) -> tuple[Listener[ByteStream], str]:
    """Listen on one port of a host; the URL of it has the port that was chosen for 0.

    Raises:
        OSError: the address cannot be listened on.
    """
    multi = await anyio.create_tcp_listener(local_host=host, local_port=port, reuse_port=False)
    for listener in multi.listeners:
        keep_from_children(listener, listener)
    actual = multi.extra(SocketAttribute.local_port)
    shown = f"[{host}]" if ":" in host else host
    return multi, f"{'amqps' if secure else 'amqp'}://{shown}:{actual}"


async def listen_unix(path: str | PathLike[str]) -> tuple[Listener[ByteStream], str]:
    """Listen on a Unix socket.

    Raises:
        OSError: the socket cannot be made.
    """
    listener = await anyio.create_unix_listener(path)
    keep_from_children(listener, listener)
    return listener, f"amqp+unix://{quote(os.path.abspath(path))}"  # noqa: ASYNC240 - no file is looked at


async def accept(
    stream: ByteStream,
    tls: TLSSettings | None = None,
    certificate_name: CertificateName = "CN",
    end_point: bytes | None = None,
) -> tuple[ByteStream, StreamFacts]:
    """Take a stream that a listener gave: secure it (unless it is a Unix socket's), and tell what is known of its peer.

    With `tls` the peer may begin with TLS, or ask for it by AMQP's header (§5.2.1); without it nothing is spoken.
    `certificate_name` says which part of the peer's certificate names it; `end_point` is the `end_point_of` our own.

    Raises:
        ConnectionLost: the peer is gone, or TLS could not be agreed on; the stream is closed then.

    Cancelling: the stream is closed.
    """
    raw = stream.extra(SocketAttribute.raw_socket, None)
    address = stream.extra(SocketAttribute.remote_address, None)
    if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
        if address is None:
            await anyio.aclose_forcefully(stream)
            raise ConnectionLost("a peer disconnected before it was served")
        set_options(stream)
        host, port = str(address[0]), address[1]
        local, peer = is_loopback(host), f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    else:
        local, peer = True, "a local socket"
        if raw is not None:
            return await take_over(stream), StreamFacts(secure=True, peer=peer)
    if tls is None:
        return stream, StreamFacts(secure=local, peer=peer)
    context = tls if isinstance(tls, ssl.SSLContext) else tls.server_context()
    try:
        begun = await answer_for_tls(stream, peer)
        secured = await TLSStream.wrap(begun, context, server_side=True)
    except BaseException as error:
        await anyio.aclose_forcefully(stream)
        if isinstance(error, STREAM_ERRORS):
            raise ConnectionLost(f"the TLS handshake with {peer} failed: {describe(error)}") from error
        raise
    secured.transport = stream  # what was read ahead is used up
    certificate = secured.extra(TLSAttribute.peer_certificate, None)
    identity = certificate_identity(certificate, certificate_name)
    return secured, StreamFacts(secure=True, tls=True, identity=identity, end_point=end_point, peer=peer)


async def accept_websocket(
    stream: ByteStream, origins: Collection[str], facts: StreamFacts
) -> tuple[ByteStream, bytes]:
    """Take a stream whose peer may begin with HTTP: the WebSocket then, and else the stream with what it began with.

    A browser says in `Origin` which page asks. A page from anywhere can thus reach a broker on its visitor's own
    machine, and nobody else would stop it (RFC 6455 §10.2): whoever has an origin must have one of `origins`, or the
    host and port that the request itself is for, as clients have that set the header by themselves (Netty does).

    Args:
        origins: those whose pages may come in, "https://app.example" for instance; "*" for all.
        facts: the stream's. On loopback without TLS a request's own host counts only if it is an address or
            "localhost": any name could have been made to point here by the page that asks (DNS rebinding).

    Raises:
        ConnectionLost: it was refused, and told so, or is gone; the stream is closed.

    Cancelling: the stream is closed.
    """
    from ._connecting.websocket_handshake import Refused, upgrade  # needs wsproto, an extra

    try:
        received = await stream.receive()
        while len(received) < 4 and b"GET ".startswith(received):
            received += await stream.receive()
        if not received.startswith(b"GET "):
            return stream, received
        return await upgrade(stream, received, origins, names=facts.tls or not facts.secure), b""
    except BaseException as error:
        await anyio.aclose_forcefully(stream)
        if isinstance(error, STREAM_ERRORS):
            raise ConnectionLost(f"{facts.peer} disconnected before it was served: {describe(error)}") from error
        if isinstance(error, Refused):
            raise ConnectionLost(f"the WebSocket handshake with {facts.peer} failed: {error}") from error
        raise
