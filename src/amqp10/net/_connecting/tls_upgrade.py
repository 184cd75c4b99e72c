"""TLS by AMQP's own protocol header, on a connection that began without TLS (§5.2.1).

    client: AMQP 2 1 0 0 ─>
                         <─ AMQP 2 1 0 0 :server
            TLS handshake, and then the headers of SASL and AMQP inside

Only these eight bytes cross in the clear. Without the right answer the connection ends: a client that asks for TLS
never goes on without it, so an attacker gains nothing by changing the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from anyio.abc import ByteStream

from ...errors import AmqpError, ConnectionLost, RemoteProtocolError, Unsupported

TLS_HEADER: Final = b"AMQP\x02\x01\x00\x00"
_HANDSHAKE: Final = b"\x16"  # the first byte of a client's TLS handshake (RFC 8446 §5.1)
_ALERT: Final = b"\x15\x03\x03\x00\x02\x02\x0a"  # fatal: unexpected message (RFC 8446 §6.2)


async def ask_for_tls(stream: ByteStream, peer: str) -> None:
    """Agree on TLS as the client; the TLS handshake must follow at once.

    Raises:
        Unsupported: the peer answered with another header: it does not support this, or an attacker pretends so.
        RemoteProtocolError: the answer is not a protocol header.

    Cancelling: the stream becomes unusable.
    """
    await stream.send(TLS_HEADER)
    answer = b""
    while len(answer) < len(TLS_HEADER):
        # Not a byte more: TLS follows.
        answer += await stream.receive(len(TLS_HEADER) - len(answer))
    if answer != TLS_HEADER:
        raise _not_tls(answer, peer)


def _not_tls(answer: bytes, peer: str) -> AmqpError:
    if answer.startswith(b"AMQP"):
        return Unsupported(f"{peer} does not accept TLS by AMQP's header (§5.2.1): it answered {answer.hex(' ')}")
    return RemoteProtocolError(f"{peer} does not speak AMQP: it began with {answer!r}")


async def answer_for_tls(stream: ByteStream, peer: str) -> ByteStream:
    """Return, as the server, the stream for the TLS handshake, whether the client begins with the header or with TLS.

    Raises:
        ConnectionLost: the client began without TLS; it was told so, and the stream is closed.

    Cancelling: the stream becomes unusable.
    """
    received = b""
    while len(received) < len(TLS_HEADER) and received[:4] == b"AMQP"[: len(received)]:
        received += await stream.receive(4096)  # less than TLS reads at a time, so that TLS takes all of it
    if received.startswith(TLS_HEADER):
        await stream.send(TLS_HEADER)
        received = received.removeprefix(TLS_HEADER)
    elif received.startswith(b"AMQP"):
        await stream.send(TLS_HEADER)
        await stream.aclose()
        raise ConnectionLost(f"{peer} began without TLS")
    elif received[:1] != _HANDSHAKE:
        # TLS would wait for the five octets of a record's head, but AMQP/Fast sends only two at first.
        await stream.send(_ALERT)
        await stream.aclose()
        raise ConnectionLost(f"{peer} began without TLS")
    return PrefixedStream(stream, received) if received else stream


class PrefixedStream(ByteStream):
    """A stream that first returns bytes that were read ahead."""

    def __init__(self, stream: ByteStream, prefix: bytes) -> None:
        self.stream = stream
        self._prefix = prefix

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return self.stream.extra_attributes

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        if not self._prefix:
            return await self.stream.receive(max_bytes)
        chunk, self._prefix = self._prefix[:max_bytes], self._prefix[max_bytes:]
        return chunk

    async def send(self, item: bytes) -> None:
        await self.stream.send(item)

    async def send_eof(self) -> None:
        await self.stream.send_eof()

    async def aclose(self) -> None:
        await self.stream.aclose()
