"""Byte streams: TCP, TLS and Unix sockets, from the client's side and the server's. The only sockets of the package."""

from __future__ import annotations

import os
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from typing import Final

import anyio
from anyio.abc import ByteStream, Listener, SocketAttribute
from anyio.streams.tls import TLSAttribute, TLSStream

from ..errors import ConnectionLost
from ._fork import keep_from_children
from ._tls import TLS, certificate_identity
from ._unix import UnixStream
from ._url import Endpoint, is_loopback

TLSSettings = TLS | ssl.SSLContext

STREAM_ERRORS: Final = (OSError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)
"""All that a stream raises when it is over; `ssl.SSLError` is an OSError."""


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """What is known of a stream's other end.

    Attributes:
        secure: secrets may cross as they are: TLS, loopback, or a Unix socket.
        tls: TLS is on.
        identity: who the verified client certificate is for; None without one.
        peer: the other end's address, for people.
    """

    secure: bool
    tls: bool = False
    identity: str | None = None
    peer: str = ""


async def connect(endpoint: Endpoint, tls: TLSSettings | None = None) -> tuple[ByteStream, StreamFacts]:
    """Connect, and secure the stream if the URL says amqps (or if `tls` is given for a TCP URL).

    All addresses of the host are tried, the next before the last has given up (RFC 8305).

    Raises:
        ConnectionLost: the host is unknown, does not answer or refuses, or TLS could not be agreed on; the cause is in
            `__cause__`.
        OSError: a file of `tls` cannot be read; nothing was connected.
        ValueError: a PKCS#12 file cannot be opened with its password, or TLS is asked for on a Unix socket.

    Cancelling: nothing is left open.
    """
    if endpoint.unix and tls is not None:
        raise ValueError("a Unix socket has no TLS")
    context, hostname = client_tls(endpoint, tls) if endpoint.tls or tls is not None else (None, "")
    try:
        if endpoint.unix:
            return UnixStream(await anyio.connect_unix(endpoint.path)), StreamFacts(secure=True, peer=endpoint.path)
        plain = await anyio.connect_tcp(endpoint.host, endpoint.port)
        set_no_delay(plain)
        if context is None:
            # By the address that was reached, for a name may lead anywhere. None: the peer is gone already.
            address = plain.extra(SocketAttribute.remote_address, None)
            return plain, StreamFacts(secure=address is not None and is_loopback(str(address[0])), peer=str(endpoint))
        try:
            secured = await TLSStream.wrap(plain, hostname=hostname, ssl_context=context, standard_compatible=False)
        except BaseException:
            await anyio.aclose_forcefully(plain)
            raise
        return secured, StreamFacts(secure=True, tls=True, peer=str(endpoint))
    except (*STREAM_ERRORS, UnicodeError) as error:  # the last: a host that can be no name
        raise ConnectionLost(f"cannot connect to {endpoint}: {describe(error)}") from error


def client_tls(endpoint: Endpoint, tls: TLSSettings | None) -> tuple[ssl.SSLContext, str]:
    """The context, and the name that the certificate must have."""
    if isinstance(tls, ssl.SSLContext):
        return tls, endpoint.host
    settings = tls if tls is not None else TLS()
    return settings.client_context(), settings.server_hostname or endpoint.host


def describe(error: BaseException) -> str:
    """An error of the network in one line; a group (one attempt an address) by its members."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(sorted({describe(one) for one in error.exceptions}))
    cause = error.__cause__
    if isinstance(cause, BaseExceptionGroup) or (isinstance(cause, OSError) and not getattr(error, "errno", None)):
        return describe(cause)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not valid: {error.verify_message}"
    if isinstance(error, anyio.EndOfStream):
        return "the peer closed the connection"
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError | socket.gaierror) and error.errno:
        return os.strerror(error.errno)  # one text for one error, whatever the backend made of it
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).strip()


def set_no_delay(stream: ByteStream) -> None:
    """Small frames go out at once (TCP_NODELAY): Nagle against delayed acknowledgments costs 40 ms a round trip."""
    raw = stream.extra(SocketAttribute.raw_socket, None)
    if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError):  # the peer may be gone already; reading will say so
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


# Server side


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
    return listener, f"amqp+unix://{path}"


async def accept(stream: ByteStream, tls: TLSSettings | None = None) -> tuple[ByteStream, StreamFacts]:
    """Take a stream that a listener gave: secure it (unless it is a Unix socket's), and tell what is known of its peer.

    Raises:
        ConnectionLost: the peer is gone, or TLS could not be agreed on; the stream is closed then.

    Cancelling: the stream is closed.
    """
    raw = stream.extra(SocketAttribute.raw_socket, None)
    address = stream.extra(SocketAttribute.remote_address, None)
    if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
        if address is None:
            await anyio.aclose_forcefully(stream)
            raise ConnectionLost("a peer was gone before it was served")
        set_no_delay(stream)
        host, port = str(address[0]), address[1]
        local, peer = is_loopback(host), f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    else:
        local, peer = True, "a local socket"
        if raw is not None:
            return UnixStream(stream), StreamFacts(secure=True, peer=peer)
    if tls is None:
        return stream, StreamFacts(secure=local, peer=peer)
    context = tls if isinstance(tls, ssl.SSLContext) else tls.server_context()
    try:
        secured = await TLSStream.wrap(stream, server_side=True, ssl_context=context, standard_compatible=False)
    except BaseException as error:
        await anyio.aclose_forcefully(stream)
        if isinstance(error, STREAM_ERRORS):
            raise ConnectionLost(f"no TLS with {peer}: {describe(error)}") from error
        raise
    certificate = secured.extra(TLSAttribute.peer_certificate, None)
    identity = certificate_identity(certificate)
    return secured, StreamFacts(secure=True, tls=True, identity=identity, peer=peer)
