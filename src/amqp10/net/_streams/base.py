"""Facts and errors of byte streams, and protocol layers between transport and AMQP."""

from __future__ import annotations

import os
import select
import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import anyio
from anyio import TypedAttributeSet, typed_attribute
from anyio.abc import ByteStream, SocketAttribute

from .tls_settings import TLS

TLSSettings = TLS | ssl.SSLContext

STREAM_ERRORS: Final = (OSError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)
"""The errors of a stream that is over; `ssl.SSLError` is an OSError."""


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """Facts about the other end of a stream.

    Attributes:
        secure: whether secrets may cross in the clear: TLS with a verified server, loopback, or a Unix socket.
        tls: whether the stream has TLS.
        identity: the identity of the verified client certificate; None without a certificate.
        end_point: the hash that SCRAM-PLUS binds a login to, see `end_point_of`; None if binding is impossible.
        peer: the other end's address, for people.
    """

    secure: bool
    tls: bool = False
    identity: str | None = None
    end_point: bytes | None = None
    peer: str = ""


class Layer(ABC):
    """A protocol between the transport and AMQP that sends answers of its own, such as a WebSocket's pongs.

    The task that drives the stream sets `on_owed`, and soon after its call sends, if only b"". So there is a single
    writer, and a peer that does not read cannot stall the reader. If `on_owed` is None, the layer writes by itself.

    Attributes:
        on_owed: called when the layer has something to send.
    """

    on_owed: Callable[[], None] | None = None

    @property
    @abstractmethod
    def owed(self) -> bool:
        """Whether the layer has something to send; the next `send` includes it."""


class LayerAttribute(TypedAttributeSet):
    """The attribute by which the driver of a stream finds its layer, through any wrappers."""

    layer: Layer = typed_attribute()


PLAIN_URL: Final = "the URL of a port without it begins with amqp:// (or ws://)"
_NO_TLS = f"what answers there does not speak TLS: {PLAIN_URL}"
_WANTED = "wants a client certificate: TLS(certificate=..., key=...)"
_NO_COMMON = f"the peer found no TLS version or cipher in common, or {_WANTED}"
_NOT_TAKEN = "the peer does not accept the client certificate"
_TLS_FAULTS: Final = {
    # OpenSSL's errors for octets that are not records (which one depends on its version).
    "WRONG_VERSION_NUMBER": _NO_TLS,
    "RECORD_LAYER_FAILURE": _NO_TLS,
    "PACKET_LENGTH_TOO_LONG": _NO_TLS,
    "UNKNOWN_PROTOCOL": _NO_TLS,
    "HTTP_REQUEST": _NO_TLS,
    # Alerts (RFC 8446 §6.2), which in TLS 1.3 arrive after the client's handshake.
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": f"the peer {_WANTED}",
    "TLSV1_ALERT_UNKNOWN_CA": f"{_NOT_TAKEN}: it does not know the authority that signed it",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": f"{_NOT_TAKEN}: it has expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": f"{_NOT_TAKEN}: it was revoked",
    "SSLV3_ALERT_BAD_CERTIFICATE": _NOT_TAKEN,
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": f"{_NOT_TAKEN}: it is of another kind, or for another purpose",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _NOT_TAKEN,
    "TLSV1_ALERT_ACCESS_DENIED": _NOT_TAKEN,
    "TLSV1_UNRECOGNIZED_NAME": "the peer does not know the host's name: TLS(server_hostname=...) names another",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": _NO_COMMON,
    "TLSV1_ALERT_INSUFFICIENT_SECURITY": _NO_COMMON,
    "TLSV1_ALERT_PROTOCOL_VERSION": "the peer speaks no TLS version that this side does",
}

_CURES: Final = {
    **dict.fromkeys((2, 18, 19, 20, 21), "trust its authority by TLS(ca=...)"),  # without a trusted signature
    **dict.fromkeys((9, 10), "renew it, unless it is the clock of this machine that is wrong"),
    **dict.fromkeys((62, 64), "name the host that it is for by TLS(server_hostname=...)"),
}
"""What to try after OpenSSL's X509_V_ERR."""


def describe(error: BaseException) -> str:
    """Describe a network error in one line; describe a group, with one attempt for each address, by its members."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(sorted({describe(one) for one in error.exceptions}))
    cause = error.__cause__
    if isinstance(cause, BaseExceptionGroup) or (isinstance(cause, OSError) and not getattr(error, "errno", None)):
        return describe(cause)
    if isinstance(error, ssl.SSLError) and (fault := _TLS_FAULTS.get(error.reason or "")):
        return f"{fault} ({error.reason})"
    if isinstance(error, ssl.SSLCertVerificationError):
        cure = _CURES.get(error.verify_code)
        message = error.verify_message.rstrip(".")
        return f"the certificate is not valid: {message}" + (f": {cure}" if cure else "")
    if isinstance(error, anyio.EndOfStream):
        return "the peer closed the connection"
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError | socket.gaierror) and error.errno:
        return os.strerror(error.errno)  # the same text for all backends
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).strip()


def set_options(stream: ByteStream) -> None:
    """Set the TCP options of every connection.

    - TCP_NODELAY: small frames go out at once. Nagle's algorithm with delayed acknowledgments costs 40 ms a round trip.
    - SO_KEEPALIVE: a lost peer is noticed eventually, even without an idle timeout (§2.4.5).
    """
    raw = stream.extra(SocketAttribute.raw_socket, None)
    if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError):  # the peer may be gone, as reading will show
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def hung_up(stream: ByteStream) -> bool:
    """Return whether the peer has closed the connection, even if what it sent before was not read yet.

    False also if this cannot be known: the stream has no socket, or the system has no `poll`.
    """
    raw = stream.extra(SocketAttribute.raw_socket, None)
    if raw is None or not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(raw, getattr(select, "POLLRDHUP", 0))  # Linux reports the end as this, others as POLLHUP
    return bool(poll.poll(0))


def client_context(tls: TLSSettings | None) -> ssl.SSLContext:
    """Return the context of a client; without settings it trusts the system's authorities.

    Raises:
        OSError, ValueError: as for `TLS.client_context`.
    """
    return tls if isinstance(tls, ssl.SSLContext) else (tls or TLS()).client_context()
