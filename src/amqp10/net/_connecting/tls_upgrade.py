"""TLS by AMQP's own protocol header, on a connection that began in the clear (§5.2.1).

    client: AMQP 2 1 0 0 ─>
                         <─ AMQP 2 1 0 0 :server
            TLS handshake, and then the headers of SASL and AMQP inside

Only the eight bytes cross in the clear. Another answer, or a missing one, ends the connection: a client that asks for
TLS never goes on without it, so an attacker in between gains nothing by changing the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from anyio.abc import ByteStream

from ...errors import AmqpError, ConnectionLost, RemoteProtocolError, Unsupported

TLS_HEADER: Final = b"AMQP\x02\x01\x00\x00"
_HANDSHAKE: Final = b"\x16"  # how a record begins by which a client asks for TLS (RFC 8446 §5.1)
_ALERT: Final = b"\x15\x03\x03\x00\x02\x02\x0a"  # a fatal one: unexpected message (RFC 8446 §6.2)


async def ask_for_tls(stream: ByteStream, peer: str) -> None:
    """Client: agree on TLS; the handshake is to follow at once.

    Raises:
        Unsupported: the peer answered with the header of something else: it does not do this, or somebody on the way
            wants that to be believed.
        RemoteProtocolError: what it answered is no header.

    Cancelling: the stream is of no use any more.
    """
    await stream.send(TLS_HEADER)
    answer = b""
    while len(answer) < len(TLS_HEADER):
        # Not a byte more: what follows is TLS.
        answer += await stream.receive(len(TLS_HEADER) - len(answer))
    if answer != TLS_HEADER:
        raise _not_tls(answer, peer)


def _not_tls(answer: bytes, peer: str) -> AmqpError:
    if answer.startswith(b"AMQP"):
        return Unsupported(f"{peer} does not accept TLS by AMQP's header (§5.2.1): it answered {answer.hex(' ')}")
    return RemoteProtocolError(f"{peer} does not speak AMQP: it began with {answer!r}")


async def answer_for_tls(stream: ByteStream, peer: str) -> ByteStream:
    """Server: the stream to do the TLS handshake on, whether the client asks for TLS by the header or begins with it.

    Raises:
        ConnectionLost: it began without TLS; it was told so, and the stream is closed.

    Cancelling: the stream is of no use any more.
    """
    received = b""
    while len(received) < len(TLS_HEADER) and received[:4] == b"AMQP"[: len(received)]:
        received += await stream.receive(4096)  # less than TLS takes at a time, so that it takes all of it at once
    if received.startswith(TLS_HEADER):
        await stream.send(TLS_HEADER)
        received = received.removeprefix(TLS_HEADER)
    elif received.startswith(b"AMQP"):
        await stream.send(TLS_HEADER)
        await stream.aclose()
        raise ConnectionLost(f"{peer} began without TLS")
    elif received[:1] != _HANDSHAKE:
        # TLS would wait for the five octets of a record's head, and AMQP/Fast begins with two.
        await stream.send(_ALERT)
        await stream.aclose()
        raise ConnectionLost(f"{peer} began without TLS")
    return PrefixedStream(stream, received) if received else stream


class PrefixedStream(ByteStream):
    """A stream that first gives bytes which were read from it before."""

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
