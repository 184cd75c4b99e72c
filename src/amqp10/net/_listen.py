"""The server's side of streams: listening and accepting."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection
from os import PathLike
from urllib.parse import quote

import anyio
from anyio.abc import ByteStream, Listener, SocketAttribute, TaskGroup
from anyio.streams.tls import TLSAttribute

from ..errors import ConnectionLost
from ._connecting.tls_upgrade import answer_for_tls
from ._fork import keep_from_children
from ._streams.base import STREAM_ERRORS, StreamFacts, TLSSettings, describe, set_options
from ._streams.socket import take_over, take_over_listener
from ._streams.tls import TLSStream
from ._streams.tls_settings import CertificateName, certificate_identity
from ._url import is_loopback

ACCEPT_PAUSE = 0.1
"""Seconds until accepting is tried again after an error."""


async def listen_tcp(host: str, port: int, *, secure: bool = False) -> tuple[Listener[ByteStream], str]:
    """Listen on a port of a host; return the listener and its URL, with the actual port if `port` is 0.

    Raises:
        OSError: the address cannot be listened on.
    """
    multi = await anyio.create_tcp_listener(local_host=host, local_port=port, reuse_port=False)
    multi.listeners = list(map(take_over_listener, multi.listeners))
    for listener in multi.listeners:
        keep_from_children(listener, listener)
    actual = multi.extra(SocketAttribute.local_port)
    shown = f"[{host}]" if ":" in host else host
    return multi, f"{'amqps' if secure else 'amqp'}://{shown}:{actual}"


async def listen_unix(path: str | PathLike[str]) -> tuple[Listener[ByteStream], str]:
    """Listen on a Unix socket; return the listener and its URL.

    Raises:
        OSError: the socket cannot be created.
    """
    try:
        listener = await anyio.create_unix_listener(path)
    except OSError as error:  # without the path
        raise OSError(
            error.errno, f"path must be that of a socket to make: {error.strerror}", os.fspath(path)
        ) from error
    keep_from_children(listener, listener)
    return listener, f"amqp+unix://{quote(os.path.abspath(path))}"  # noqa: ASYNC240 - accesses no file


async def keep_accepting(
    listener: Listener[ByteStream],
    take: Callable[[ByteStream], Awaitable[None]],
    tasks: TaskGroup,
    failed: Callable[[BaseException], None],
) -> None:
    """Accept connections until cancelled, then close the listener; serve each connection by `take` in `tasks`.

    Accepting can fail, mostly because file descriptors have run out. `failed` then gets the error, accepted
    connections go on, and accepting is tried again after `ACCEPT_PAUSE`.
    """
    try:
        while True:
            try:
                await listener.serve(take, tasks)
            except* (OSError, anyio.BrokenResourceError) as errors:
                error = errors.exceptions[0]
                failed(error.__cause__ or error)  # on trio the error itself has no text
            await anyio.sleep(ACCEPT_PAUSE)
    finally:
        await close_listener(listener)


async def close_listener(listener: Listener[ByteStream]) -> None:
    """Close the listener of each address of a host, also when cancelled: anyio would stop after the first one."""
    with anyio.CancelScope(shield=True):
        await listener.aclose()


async def accept(
    stream: ByteStream,
    tls: TLSSettings | None = None,
    certificate_name: CertificateName = "CN",
    end_point: bytes | None = None,
) -> tuple[ByteStream, StreamFacts]:
    """Accept a stream from a listener: start TLS (except on a Unix socket), and return it with facts about the peer.

    With `tls` the peer may begin with TLS, or ask for it by AMQP's header (§5.2.1); without it nothing is exchanged.
    `certificate_name` selects the part of the peer's certificate that names it; `end_point` is `end_point_of` our own.

    Raises:
        ConnectionLost: the peer is gone, or the TLS handshake failed; the stream is then closed.

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
    secured.transport = stream  # the bytes read ahead are used up
    certificate = secured.extra(TLSAttribute.peer_certificate, None)
    identity = certificate_identity(certificate, certificate_name)
    return secured, StreamFacts(secure=True, tls=True, identity=identity, end_point=end_point, peer=peer)


async def accept_websocket(
    stream: ByteStream, origins: Collection[str], facts: StreamFacts
) -> tuple[ByteStream, bytes]:
    """Accept a stream whose peer may begin with HTTP; return the WebSocket or the stream, and the bytes read ahead.

    Any web page could connect to a broker on its visitor's machine (RFC 6455 §10.2). A browser sends the page's origin
    in `Origin`, so a request with an origin must have one of `origins`, or the host and port of the request itself,
    which clients such as Netty's send.

    Args:
        origins: the origins whose pages may connect, such as "https://app.example"; "*" for all.
        facts: the facts of the stream. On loopback without TLS, the request's own host counts only if it is an address
            or "localhost", because a page can make any name point here (DNS rebinding).

    Raises:
        ConnectionLost: the peer was refused, or is gone; the stream is closed.

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
