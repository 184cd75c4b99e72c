"""Tunnels through an HTTP proxy by CONNECT (RFC 9110 §9.3.6), for plain, TLS and WebSocket connections."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final

import anyio
from anyio.abc import ByteStream

from ...errors import ConnectionLost, HandshakeRefused
from .._streams.base import STREAM_ERRORS, client_context, describe, set_options
from .._streams.socket import take_over
from .._streams.tls import TLSStream
from .._url import Endpoint
from .options import Proxy

MAX_ANSWER: Final = 16_384
"""The limit of a proxy's response head, in bytes."""

_STATUS = re.compile(rb"HTTP/1\.[01] ([1-9][0-9][0-9])(?: [^\r\n]*)?\r?\n")


async def connect_through(proxy: Proxy, endpoint: Endpoint) -> ByteStream:
    """Open a stream through the proxy to the endpoint's host and port.

    Raises:
        HandshakeRefused: the proxy refused; with status 407 it requires another login.
        ConnectionLost: the proxy cannot be reached, or does not answer like a proxy.

    Cancelling: nothing is left open.
    """
    context = client_context(proxy.tls) if proxy.secure else None
    try:
        stream = await take_over(await anyio.connect_tcp(proxy.host, proxy.port))
        try:
            set_options(stream)
            if context is not None:
                stream = await TLSStream.wrap(stream, context, hostname=proxy.host)
            await stream.send(_request(proxy, endpoint))
            _check(await _answer(stream), proxy, endpoint)
        except BaseException:
            await anyio.aclose_forcefully(stream)
            raise
    except (*STREAM_ERRORS, UnicodeError) as error:
        raise ConnectionLost(f"cannot connect to {endpoint}: the proxy {proxy}: {describe(error)}") from error
    return stream


def _request(proxy: Proxy, endpoint: Endpoint) -> bytes:
    headers = {"Host": endpoint.authority, **proxy.headers}
    if proxy.authorization is not None:
        headers["Proxy-Authorization"] = proxy.authorization
    lines = [f"CONNECT {endpoint.authority} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1")


async def _answer(stream: ByteStream) -> bytes:
    """Return the head of the proxy's response; if it has no end or is not HTTP, what came of it."""
    data = b""
    while b"\r\n\r\n" not in data and len(data) < MAX_ANSWER and data[:7] == b"HTTP/1."[: len(data)]:
        data += await stream.receive()
    return data


def _check(answer: bytes, proxy: Proxy, endpoint: Endpoint) -> None:
    head, end, rest = answer.partition(b"\r\n\r\n")
    found = _STATUS.match(head + b"\r\n")
    if not end or found is None:
        raise ConnectionLost(f"cannot connect to {endpoint}: what is at {proxy} does not answer as an HTTP proxy")
    status = int(found[1])
    if not 200 <= status < 300:
        raise HandshakeRefused(f"cannot connect to {endpoint}: the proxy {proxy} {says(status)}", status)
    if rest:
        # The peer sends nothing before the client does, so these bytes are the proxy's.
        raise ConnectionLost(f"cannot connect to {endpoint}: the proxy {proxy} sends data of its own into the tunnel")


def says(status: int) -> str:
    """Describe an HTTP status in words."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "a status of its own"
    return f"answered {status} ({phrase})"
