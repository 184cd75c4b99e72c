"""Opens a client's stream: TCP or a tunnel through a proxy, then TLS and WebSocket as needed; or a Unix socket.

For another transport, see "How to add…" in CONTRIBUTING.md.
"""

from __future__ import annotations

import ssl

import anyio
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSAttribute

from ...errors import ConnectionLost, Unsupported
from .._fork import keep_from_children
from .._streams.base import PLAIN_URL, STREAM_ERRORS, StreamFacts, TLSSettings, client_context, describe, set_options
from .._streams.socket import take_over
from .._streams.tls import TLSStream
from .._streams.tls_settings import TLS, end_point_of
from .._threads import check_answerable
from .._url import Endpoint, is_loopback
from .options import TransportOptions, WebSocket
from .proxy import connect_through
from .tls_upgrade import ask_for_tls

DIRECT = TransportOptions()


async def connect(
    endpoint: Endpoint, tls: TLSSettings | None = None, route: TransportOptions = DIRECT
) -> tuple[ByteStream, StreamFacts]:
    """Connect, with TLS if the URL is amqps or wss (or if `tls` is given for another TCP URL).

    All addresses of the host are tried, each before the previous one has timed out (RFC 8305).

    Raises:
        ConnectionLost: the host is unknown, does not answer or refuses, or the TLS handshake failed; `__cause__` has
            the reason. `HandshakeRefused` if a proxy or a WebSocket server answered with an HTTP status.
        Unsupported: the peer does not support TLS by AMQP's header, or the package for WebSockets is not installed.
        LocalProtocolError: the thread that waits for the connection is the one that would have to accept it.
        RemoteProtocolError: the answer to AMQP's TLS header is not AMQP.
        OSError: a file of `tls` cannot be read; nothing was connected.
        ValueError: a PKCS#12 file cannot be opened with its password, or the settings do not fit together.

    Cancelling: nothing is left open.
    """
    route.check(endpoint, tls)
    check_answerable(endpoint)
    if endpoint.websocket:
        require_wsproto()
    secure = endpoint.tls or route.tls_upgrade or tls is not None
    context = client_context(tls) if secure else None
    end_point = None
    try:
        if endpoint.unix:
            stream = await take_over(await anyio.connect_unix(endpoint.path))
            return stream, StreamFacts(secure=True, peer=endpoint.path)
        stream, local = await _reach(endpoint, route)
        try:
            if route.tls_upgrade:
                await ask_for_tls(stream, str(endpoint))
            if context is not None:
                name = (tls.server_hostname if isinstance(tls, TLS) else None) or endpoint.name or endpoint.host
                stream = await TLSStream.wrap(stream, context, hostname=name)
                end_point = end_point_of(stream.extra(TLSAttribute.ssl_object).getpeercert(True))
            if endpoint.websocket:
                from .websocket_handshake import open_websocket

                stream = await open_websocket(stream, endpoint, route.websocket or WebSocket())
        except BaseException:
            await anyio.aclose_forcefully(stream)
            raise
    except (*STREAM_ERRORS, UnicodeError) as error:  # UnicodeError: an invalid host name
        reason = describe(error)
        if not endpoint.tls:  # TLS only by `tls`
            reason = reason.replace(PLAIN_URL, "leave out tls=, or name the port that does")
        raise ConnectionLost(f"cannot connect to {endpoint}: {reason}") from error
    # TLS with an unverified server does not protect against an attacker in between.
    checked = context is not None and context.verify_mode != ssl.CERT_NONE
    return stream, StreamFacts(secure=checked or local, tls=secure, end_point=end_point, peer=str(endpoint))


async def _reach(endpoint: Endpoint, route: TransportOptions) -> tuple[ByteStream, bool]:
    """Open a TCP stream to the endpoint; return the stream, and whether it stays on this machine."""
    if route.proxy is not None:
        return await connect_through(route.proxy, endpoint), False
    stream = await take_over(await anyio.connect_tcp(endpoint.host, endpoint.port))
    keep_from_children(stream, stream)  # during TLS and until it has an owner
    set_options(stream)
    # By the address reached, because a name may lead anywhere. None: the peer is already gone.
    address = stream.extra(SocketAttribute.remote_address, None)
    return stream, address is not None and is_loopback(str(address[0]))


def require_wsproto() -> None:
    """Check early that the optional package wsproto is installed.

    Raises:
        Unsupported: it is not.
    """
    try:
        import wsproto  # noqa: F401
    except ImportError as error:
        raise Unsupported("WebSockets need wsproto: pip install 'amqp10[websocket]'") from error
