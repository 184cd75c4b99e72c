"""A WebSocket as a byte stream (RFC 6455; OASIS AMQP WebSocket Binding 1.0): bytes go as binary messages, and whatever
the peer's messages and fragments are cut into comes out as bytes.

Parts of messages are passed on as they come, so no message is too large. Only the latest ping is answered (§5.5.3
allows it, and a flood of pings then costs nothing). Text, compression and violations of the protocol end the connection
with the close code of RFC 6455.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream
from wsproto.connection import Connection, ConnectionState
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage
from wsproto.frame_protocol import CloseReason

from .base import STREAM_ERRORS, Layer, LayerAttribute

MESSAGE_SIZE: Final = 32_768
"""The most bytes of one message, because HTTP servers tend to refuse more than 64 KiB; AMQP may be split anywhere."""

READ_SIZE: Final = 65_536
"""The bytes to read from the transport at a time."""

MAX_EVENTS: Final = 256
"""The frames to read before other tasks get a turn.

Empty frames are much work for their size, and 32,768 of them fit into one read.
"""

SEND_SIZE: Final = 8 * MESSAGE_SIZE
"""The bytes, before framing, to pass to the transport at a time."""

CLOSE_WAIT: Final = 1.0
"""Seconds for the peer to answer the closing handshake."""


class WebSocketStream(ByteStream, Layer):
    """One end of a WebSocket after the HTTP handshake; created by `open_websocket` and `accept_websocket`.

    Args:
        stream: the transport, which belongs to this stream.
        connection: an open connection of wsproto.
    """

    def __init__(self, stream: ByteStream, connection: Connection) -> None:
        self._stream = stream
        self._connection = connection
        self._incoming = b""
        self._more = False  # wsproto may have more events
        self._pong: Pong | None = None
        self._close: CloseConnection | None = None  # to send
        self._failure: str | None = None  # the error after which nothing more comes
        self._ended = False  # nothing more will come
        self._torn = False  # a message is only half sent
        self._receiving = False
        self._closed = False
        self._sending = anyio.Lock(fast_acquire=True)
        self._take()  # data that came with the handshake

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return {**self._stream.extra_attributes, LayerAttribute.layer: lambda: self}

    # Receiving

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        """Receive available bytes, at most `max_bytes`.

        Raises:
            EndOfStream: the peer closed the WebSocket, or ended the transport.
            BrokenResourceError: the peer closed with another code than 1000 or 1001, or broke the protocol, as the
                message explains.
            ClosedResourceError: this end was closed.

        Cancelling: nothing is lost.
        """
        if self._incoming:
            await anyio.lowlevel.checkpoint()
        while not self._incoming:
            if self._ended:
                await self._answer()
                raise self._over()
            await self._read(min(max_bytes, READ_SIZE))
            if not self._more:
                await self._answer()
        chunk, self._incoming = self._incoming[:max_bytes], self._incoming[max_bytes:]
        return chunk

    async def _read(self, size: int) -> None:
        """Handle pending events after other tasks had a turn; without any, read."""
        self._receiving = True
        try:
            if self._more:
                await anyio.lowlevel.checkpoint()
            else:
                data = await self._stream.receive(size)
                self._connection.receive_data(data)
        finally:
            self._receiving = False
        self._take()

    def _take(self) -> None:
        """Handle some of wsproto's events in order, so that bytes before an error count."""
        parts = []
        count = 0
        for event in islice(self._connection.events(), MAX_EVENTS):
            count += 1
            if isinstance(event, BytesMessage):
                parts.append(event.data)
            elif isinstance(event, Ping):
                self._pong = event.response()
            elif isinstance(event, TextMessage):
                self._fail(CloseReason.UNSUPPORTED_DATA, "the peer sent text over the WebSocket; AMQP is binary")
            elif isinstance(event, CloseConnection):
                if self._connection.state in (ConnectionState.REMOTE_CLOSING, ConnectionState.CLOSED):
                    self._end(event)
                else:  # wsproto's own close, for malformed input
                    self._fail(event.code, f"the peer broke the WebSocket protocol: {event.reason}")
            if self._ended:
                break
        self._more = count == MAX_EVENTS and not self._ended
        self._incoming += b"".join(parts)

    def _end(self, event: CloseConnection) -> None:
        """Answer the peer's close with the same code (§5.5.1)."""
        self._ended = True
        if self._connection.state is ConnectionState.REMOTE_CLOSING:
            self._close = event.response()
        if event.code not in (CloseReason.NORMAL_CLOSURE, CloseReason.GOING_AWAY, CloseReason.NO_STATUS_RCVD):
            reason = f": {event.reason}" if event.reason else ""
            self._failure = f"the peer closed the WebSocket with code {int(event.code)}{reason}"

    def _fail(self, code: int, reason: str) -> None:
        self._ended = True
        self._failure = reason
        if self._connection.state is ConnectionState.OPEN:
            self._close = CloseConnection(code, reason)

    def _over(self) -> Exception:
        """Return the error for a task that receives now."""
        if self._closed:
            return anyio.ClosedResourceError()
        return anyio.EndOfStream() if self._failure is None else anyio.BrokenResourceError(self._failure)

    # Sending

    @property
    def owed(self) -> bool:
        return self._pong is not None or self._close is not None

    async def _answer(self) -> None:
        """Ask the task that drives the stream to send a pong or close, or send it if there is no such task."""
        if self.owed:
            if self.on_owed is not None:
                self.on_owed()
            elif not self._sending.locked():  # a send in progress includes it
                async with self._sending:
                    await self._transmit(self._owed_bytes())

    def _owed_bytes(self) -> bytes:
        pong, self._pong = self._pong, None
        close, self._close = self._close, None
        data = b""
        if pong is not None and self._connection.state is ConnectionState.OPEN:
            data += self._connection.send(pong)
        if close is not None and self._connection.state in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING):
            data += self._connection.send(close)
        return data

    async def send(self, item: bytes) -> None:
        """Send bytes and pending answers; wait while the transport does not take them.

        Raises:
            BrokenResourceError: the peer has closed, or is gone.
            ClosedResourceError: this end was closed.

        Cancelling: a part may have been sent, and then nothing more can be sent.
        """
        async with self._sending:
            rest = memoryview(item)
            while True:
                data = self._owed_bytes()
                sendable = not (self._closed or self._torn) and self._connection.state is ConnectionState.OPEN
                if sendable:
                    portion, rest = rest[:SEND_SIZE], rest[SEND_SIZE:]
                    messages = (bytes(portion[at : at + MESSAGE_SIZE]) for at in range(0, len(portion), MESSAGE_SIZE))
                    data += b"".join(self._connection.send(BytesMessage(message)) for message in messages)
                await self._transmit(data)
                if not sendable:
                    raise self._over() if self._closed else anyio.BrokenResourceError(self._failure or "it is closed")
                if not rest and not self.owed:
                    return

    async def _transmit(self, data: bytes) -> None:
        if data and not self._torn:
            self._torn = True
            await self._stream.send(data)
            self._torn = False

    async def send_eof(self) -> None:
        """End the sending direction by the closing handshake, the only way of a WebSocket.

        Cancelling: the handshake may have begun.
        """
        async with self._sending:
            if self._connection.state in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING):
                self._close = self._close or CloseConnection(CloseReason.NORMAL_CLOSURE)
            await self._transmit(self._owed_bytes())

    # Closing

    async def aclose(self) -> None:
        """Close the WebSocket by the closing handshake (§7.1.1), within a second, and then the transport.

        Cancelling: the transport is closed at once.
        """
        try:
            if not self._closed:
                self._closed = True
                with anyio.move_on_after(CLOSE_WAIT):
                    await self._shake_hands()
        except STREAM_ERRORS:
            pass  # the peer is gone, so the stream is closed
        finally:
            self._ended = True
            await self._stream.aclose()

    async def _shake_hands(self) -> None:
        await anyio.lowlevel.checkpoint_if_cancelled()
        await self.send_eof()
        # A task in `receive` gets the transport's end instead; two tasks cannot receive.
        while not (self._receiving or self._torn or self._ended or self._connection.state is ConnectionState.CLOSED):
            await self._read(READ_SIZE)
            self._incoming = b""
