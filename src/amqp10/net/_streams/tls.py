"""TLS over a stream, which reads all available records at once, and joins all output into one write.

anyio's TLS stream returns one record, of at most 16 KiB, for each `receive`: four passes of the loop for a message of
64 KiB. benchmarks/run.py --transport tls, "receive 64 KiB": two fifths less.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Self

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream
from anyio.streams.tls import TLSAttribute

RECORD: Final = 16_384
"""The most bytes in a record (RFC 8446 §5.1)."""

FED: Final = 65_536
"""The bytes to give OpenSSL at a time, because it keeps its largest buffer for each connection."""

SEND_SIZE: Final = 262_144
"""The bytes to encrypt before they are passed to the transport."""

MAX_ANSWERS: Final = 65_536
"""The bytes of TLS's own answers that may wait for a `send` in progress; with more, `receive` waits for it, too.

A peer may ask for thousands of them, such as changes of keys (RFC 8446 §4.6.3), and not read one.
"""

_NOTHING: Final = memoryview(b"")


class TLSStream(ByteStream):
    """One end of TLS; created by `wrap`.

    The end of the transport ends the stream even without TLS's closing alert, because AMQP has a close of its own.

    Attributes:
        transport: the stream of the records.
    """

    def __init__(self, transport: ByteStream, tls: ssl.SSLObject, incoming: ssl.MemoryBIO, out: ssl.MemoryBIO) -> None:
        self.transport = transport
        self._tls = tls
        self._incoming = incoming
        self._out = out
        self._raw = _NOTHING  # received, but not yet given to OpenSSL
        self._ended = False  # nothing more will come
        self._fault: Exception | None = None  # raised once all data before it was taken
        self._torn = False  # a record is only half sent
        self._sending = anyio.Lock(fast_acquire=True)
        self._heard: anyio.Event | None = None  # set by data of the peer, for a sender that waits for it

    @classmethod
    async def wrap(
        cls, transport: ByteStream, context: ssl.SSLContext, *, hostname: str | None = None, server_side: bool = False
    ) -> Self:
        """Perform the handshake.

        Args:
            hostname: the name that the peer's certificate must have.

        Raises:
            ssl.SSLError: the handshake failed.
            EndOfStream, BrokenResourceError: the transport ended.

        Cancelling: the stream is of no use any more.
        """
        incoming, out = ssl.MemoryBIO(), ssl.MemoryBIO()
        name: str | bytes | None = hostname
        if hostname is not None and not hostname.isascii():
            import idna  # a dependency of anyio

            name = idna.encode(hostname, uts46=True)
        self = cls(transport, context.wrap_bio(incoming, out, server_side, name), incoming, out)
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                await self._flush()
                if self._incoming.eof:
                    raise anyio.EndOfStream from None
                await self._fetch(RECORD)
            except (ssl.SSLEOFError, ssl.SSLSyscallError):
                raise anyio.EndOfStream from None
            except ssl.SSLError:
                with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await self._flush()  # the alert with the reason (RFC 8446 §6.2)
                raise
        await self._flush()
        return self

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return {
            **self.transport.extra_attributes,
            TLSAttribute.alpn_protocol: self._tls.selected_alpn_protocol,
            TLSAttribute.cipher: self._tls.cipher,
            TLSAttribute.peer_certificate: lambda: self._tls.getpeercert(False),
            TLSAttribute.ssl_object: lambda: self._tls,
            TLSAttribute.tls_version: self._tls.version,
        }

    # Receiving

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        """Receive all available bytes, at most `max_bytes`.

        Raises:
            EndOfStream: the peer ended TLS, or the transport.
            BrokenResourceError: the transport is broken.
            ssl.SSLError: the data is not TLS, or was changed on its way.
            ClosedResourceError: this end was closed.

        Cancelling: nothing is lost.
        """
        await anyio.lowlevel.checkpoint_if_cancelled()
        if self._out.pending > MAX_ANSWERS:
            await self._answer()
        waited = False
        while not (data := self._decrypt(max_bytes)):
            if self._ended:
                raise self._fault or anyio.EndOfStream
            await self._answer()
            if data is None:
                await anyio.lowlevel.checkpoint()
            else:
                await self._fetch(max_bytes)
                waited = True
        if not waited:
            await anyio.lowlevel.cancel_shielded_checkpoint()
        return data

    async def _answer(self) -> None:
        """Send answers to a change of keys (RFC 8446 §4.6.3) or to another handshake; a `send` includes them."""
        if self._out.pending and (self._out.pending > MAX_ANSWERS or not self._sending.locked()):
            async with self._sending:
                await self._flush()

    def _decrypt(self, room: int) -> bytes | None:
        """Return available data, at most `room` bytes; None if others must have a turn before there is any."""
        tls, incoming = self._tls, self._incoming
        parts = []
        before = room
        more = False
        try:
            while room and not self._ended and (incoming.pending or tls.pending() or incoming.eof or self._raw):
                try:
                    part = tls.read(min(room, RECORD))
                except ssl.SSLWantReadError:
                    if not self._raw:
                        break
                    self._feed()
                    if before - room < FED // 2:  # TLS's own messages, which are much work for their size
                        more = True
                        break
                    before = room
                    continue
                if part:
                    parts.append(part)
                    room -= len(part)
                else:
                    self._ended = True
        except ssl.SSLError as error:
            self._ended = True
            # OpenSSL reports as an error that both sides have ended TLS, or that only the transport has ended.
            ends = isinstance(error, ssl.SSLZeroReturnError | ssl.SSLEOFError)
            self._fault = None if ends or "UNEXPECTED_EOF" in (error.strerror or "") else error
        if self._heard is not None:
            self._heard.set()
        return None if more and not parts else b"".join(parts)

    async def _fetch(self, size: int) -> None:
        try:
            self._raw = memoryview(await self.transport.receive(size))
            self._feed()
        except anyio.EndOfStream:
            self._incoming.write_eof()

    def _feed(self) -> None:
        self._incoming.write(self._raw[:FED])
        self._raw = self._raw[FED:] if len(self._raw) > FED else _NOTHING  # a constant, which holds no buffer

    # Sending

    async def send(self, item: bytes) -> None:
        """Send bytes; wait while the transport does not take them, or the peer renegotiates.

        Raises:
            BrokenResourceError: the peer is gone, or an earlier call was cancelled halfway.
            ClosedResourceError: this end was closed.

        Cancelling: a part may have been sent, and then nothing more can be sent.
        """
        await self.send_buffers((item,))

    async def send_buffers(self, buffers: Sequence[bytes | memoryview]) -> None:
        """Send several buffers in order, without joining them."""
        async with self._sending:
            for each in buffers:
                rest = memoryview(each)
                while rest:
                    try:
                        rest = rest[self._tls.write(rest[:SEND_SIZE]) :]
                    except ssl.SSLWantReadError:
                        await self._shake_hands_again()
                    if self._out.pending >= SEND_SIZE:
                        await self._flush()
            await self._flush()

    async def _shake_hands_again(self) -> None:
        """Wait while the peer renegotiates, as TLS 1.2 allows (RFC 5246 §7.4.1.1); `receive` reads its records."""
        self._heard = heard = anyio.Event()
        await self._flush()
        if not self._ended:
            await heard.wait()
        if self._ended:
            raise anyio.BrokenResourceError

    async def _flush(self) -> None:
        if self._torn:
            raise anyio.BrokenResourceError
        while self._out.pending:  # a receiver may add to it meanwhile
            self._torn = True
            await self.transport.send(self._out.read())
            self._torn = False

    async def send_eof(self) -> None:
        """End the sending direction.

        Cancelling: the direction may have been ended.
        """
        async with self._sending:
            try:
                self._tls.unwrap()
            except ssl.SSLError:
                pass  # the peer has not ended its direction yet
            await self._flush()

    async def aclose(self) -> None:
        """Close the transport.

        Cancelling: the transport is closed.
        """
        await self.transport.aclose()
