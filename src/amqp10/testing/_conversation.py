"""The frames that a scripted AMQP 1.0 peer reads and writes, over a real or an in-memory stream.

It keeps no protocol state except the last channel and frame. It reads only in `expect`, so a peer that expects nothing
acts like a silent peer, which lets the other side's writes pile up.
"""

from __future__ import annotations

import ssl
import struct
from socket import SO_LINGER, SOL_SOCKET
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
from anyio.abc import ByteStream, SocketAttribute, SocketListener
from anyio.streams.tls import TLSStream

from ..broker.internals import MemoryStream, memory_streams
from ..dialects.v1_0.wire.performatives import Begin, Close, Open
from ..types import Composite
from ._transcript import Frame, Transcript, garbage

P = TypeVar("P", bound=Composite)


class Conversation:
    """One side of AMQP 1.0, frame by frame; see `ScriptedPeer`."""

    def __init__(self, *, tls: ssl.SSLContext | None = None, patience: float = 60.0) -> None:
        self.patience = patience
        self.transcript: Transcript = Transcript()
        self.channel: int = 0
        self._channels: dict[int, int] = {}
        self.frame: Frame | None = None
        self._tls = tls
        self._listener: SocketListener | None = None
        self._waiting: list[ByteStream] = []
        self._connecting: anyio.Event | None = None  # set by `connect`, for connections without a port
        self._stream: ByteStream | None = None
        self._chunk: int | None = None
        self._stalled: bytearray | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, {'connected' if self._stream is not None else 'not connected'}>"

    @classmethod
    def over(cls, stream: ByteStream, *, patience: float = 60.0) -> Self:
        """Make a peer on an existing stream, without listening."""
        peer = cls(patience=patience)
        peer._stream = stream
        return peer

    # Life cycle

    async def __aenter__(self) -> Self:
        """Listen on a free port of the loopback, unless the peer has a stream."""
        if self._stream is None:
            listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
            (found,) = listener.listeners
            assert isinstance(found, SocketListener)
            self._listener = found
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close all streams and the port. Cancelling: they are closed."""
        with anyio.CancelScope(shield=True):
            for stream in self._waiting:
                await anyio.aclose_forcefully(stream)
            if self._stream is not None:
                await anyio.aclose_forcefully(self._stream)
            if self._listener is not None:
                await self._listener.aclose()

    @property
    def port(self) -> int:
        """The port that the peer listens on."""
        if self._listener is None:
            raise RuntimeError("the peer listens only inside `async with`")
        port: int = self._listener.extra(SocketAttribute.local_port)
        return port

    @property
    def url(self) -> str:
        """The URL for clients; they log in by ANONYMOUS, which `accept_connection` offers."""
        return f"{'amqps' if self._tls else 'amqp'}://127.0.0.1:{self.port}"

    def connect(self) -> MemoryStream:
        """Return the client's end of a new in-memory stream to this peer, for `Connection.over`."""
        mine, theirs = memory_streams()
        self._waiting.append(mine)
        if self._connecting is not None:
            self._connecting.set()
        return theirs

    # Connections

    async def accept(self) -> None:
        """Accept the next connection, close the one before, and start a new conversation.

        The first expectation accepts the first connection by itself.

        Raises:
             PeerMismatch: no connection came in time.

        Cancelling: no connection is lost.
        """
        if self._stream is not None:
            await anyio.aclose_forcefully(self._stream)
            self._stream = None
            self.transcript = Transcript()
        with anyio.move_on_after(self.patience):
            while self._listener is None and not self._waiting:
                self._connecting = anyio.Event()
                await self._connecting.wait()
            if self._waiting:
                self._stream = self._waiting.pop(0)
            elif self._listener is not None:
                self._stream = await self._listener.accept()
                if self._tls is not None:
                    self._stream = await TLSStream.wrap(self._stream, server_side=True, ssl_context=self._tls)
        if self._stream is None:
            raise self.transcript.mismatch(f"nobody connected within {self.patience} s")
        self.transcript.record_event("(connected)")
        self.channel = 0
        self._channels.clear()
        self._stalled = None

    async def _connected(self) -> ByteStream:
        if self._stream is None:
            await self.accept()
        assert self._stream is not None
        return self._stream

    # Expectations

    async def expect(self, kind: type[P], *, channel: int | None = None, **fields: Any) -> P:
        """Return the next performative, which must be of `kind` with `fields`; skip empty frames.

        Args:
            kind: the performative's class.
            channel: the required channel; None for any.
            fields: for each field the required value, or a function that returns whether a value is right.

        Raises:
            PeerMismatch: another frame came, nothing came in time, or the other side hung up.

        Cancelling: nothing is lost.
        """
        while True:
            item = await self._item(kind.__name__)
            if not isinstance(item, Frame) or item.performative is not None:
                break
        performative = self.transcript.check(item, kind, channel, fields)
        assert isinstance(item, Frame)
        self.frame = item
        self.channel = item.channel
        return performative

    async def expect_any(self, *kinds: type[P], skip: type[Composite] | tuple[type[Composite], ...] = ()) -> P:
        """Return the next performative, which must be one of `kinds`; skip those in `skip` and empty frames.

        Raises:
            PeerMismatch: another frame came, nothing came in time, or the other side hung up.

        Cancelling: nothing is lost.
        """
        wanted = " or ".join(kind.__name__ for kind in kinds)
        while True:
            item = await self._item(wanted)
            if not isinstance(item, Frame):
                raise self.transcript.unexpected(wanted, item)
            performative = item.performative
            if performative is None or isinstance(performative, skip):
                continue
            if not isinstance(performative, kinds):
                raise self.transcript.unexpected(wanted, item)
            self.frame = item
            self.channel = item.channel
            return performative

    @property
    def payload(self) -> bytes:
        """The payload after the last expected performative."""
        return self.frame.payload if self.frame is not None else b""

    async def expect_header(self, header: bytes | None = None) -> bytes:
        """Return the protocol header (§2.2) that must come next: `header`, or any if None.

        Raises:
            PeerMismatch: another header or no header came, nothing came in time, or the other side hung up.

        Cancelling: nothing is lost.
        """
        self.transcript.expect_header()
        item = await self._item("a protocol header")
        if not isinstance(item, bytes) or header not in (None, item):
            raise self.transcript.unexpected(f"the protocol header {header!r}" if header else "a protocol header", item)
        return item

    async def expect_empty(self) -> None:
        """Read the next frame, which must be empty: a heartbeat (§2.4.5).

        Raises:
            PeerMismatch: another frame came, nothing came in time, or the other side hung up.

        Cancelling: nothing is lost.
        """
        item = await self._item("an empty frame")
        if not isinstance(item, Frame) or item.performative is not None:
            raise self.transcript.unexpected("an empty frame", item)

    async def expect_end(self) -> None:
        """Wait until the other side hangs up, and fail if it sends anything before.

        Raises:
            PeerMismatch: something came, or the other side did not hang up in time.

        Cancelling: nothing is lost.
        """
        item = await self._item("the end of the stream", ends=True)
        if item is not None:
            raise self.transcript.unexpected("the end of the stream", item)

    async def _item(self, what: str, *, ends: bool = False) -> Frame | bytes | None:
        """Return the next header or frame; None for the end, if `ends` allows it."""
        stream = await self._connected()
        transcript = self.transcript
        with anyio.move_on_after(self.patience):
            while True:
                item = transcript.take()
                if item is not None:
                    return item
                try:
                    data = await stream.receive(65_536)
                except (anyio.EndOfStream, anyio.BrokenResourceError) as error:
                    transcript.record_event("(end of stream)")
                    if ends:
                        return None
                    raise transcript.mismatch(f"expected {what}, but the other side hung up") from error
                transcript.feed(data)
        raise transcript.mismatch(f"expected {what}, but nothing came within {self.patience} s")

    # Actions

    async def send(self, performative: Composite, payload: bytes = b"", *, channel: int | None = None) -> None:
        """Send a frame unchecked, on `channel`.

        By default, open and close go on channel 0, other frames on this side's channel of the session heard of last.

        Raises:
            EncodeError: a field of the performative has no encoding.
            BrokenResourceError: the other side is gone.

        Cancelling: a part of the frame may have been sent.
        """
        if channel is None:
            on_zero = isinstance(performative, Open | Close)
            channel = 0 if on_zero else self._channels.get(self.channel, self.channel)
        frame = Frame(channel, performative, payload)
        data = frame.encode()
        self.transcript.record_action(frame)
        await self._write(data)

    async def reply(self, performative: Composite, payload: bytes = b"") -> None:
        """Answer the last expected frame on its channel; a begin gets that channel as `remote_channel`.

        Raises:
            EncodeError: a field of the performative has no encoding.
            BrokenResourceError: the other side is gone.

        Cancelling: a part of the frame may have been sent.
        """
        if isinstance(performative, Begin) and performative.remote_channel is None:
            performative.remote_channel = self.channel
        await self.send(performative, payload)

    async def send_empty(self) -> None:
        """Send an empty frame, a heartbeat (§2.4.5). Cancelling: a part of it may have been sent."""
        self.transcript.record_action(Frame(0, None))
        await self._write(Frame(0, None).encode())

    async def send_bytes(self, data: bytes) -> None:
        """Send any bytes. Cancelling: a part of them may have been sent."""
        self.transcript.record_action(f"{len(data)} bytes: {data[:32].hex(' ')}{' ...' if len(data) > 32 else ''}")
        await self._write(data)

    async def send_garbage(self, size: int = 64, seed: int = 0) -> None:
        """Send random bytes, the same for the same seed. Cancelling: a part of them may have been sent."""
        await self.send_bytes(garbage(size, seed))

    async def _write(self, data: bytes) -> None:
        stream = await self._connected()
        if self._stalled is not None:
            self._stalled += data
            return
        size = self._chunk or max(1, len(data))
        for start in range(0, len(data), size):
            await stream.send(data[start : start + size])

    # Faults below the protocol

    def chunk(self, size: int | None) -> None:
        """Send bytes in portions of `size` from now on; None for whole writes."""
        self._chunk = size

    def stall(self) -> None:
        """Hold back further output until `resume`, like a network that hangs."""
        self.transcript.record_action("(stall)")
        if self._stalled is None:
            self._stalled = bytearray()

    async def resume(self) -> None:
        """Send the output held back since `stall`. Cancelling: a part of it may have been sent."""
        self.transcript.record_action("(resume)")
        held, self._stalled = self._stalled, None
        if held:
            await self._write(bytes(held))

    async def drop(self, *, reset: bool = False) -> None:
        """Cut the transport without closing AMQP. Cancelling: it is cut.

        Args:
            reset: over TCP, reset the connection; earlier output may be lost, too.
        """
        stream = await self._connected()
        self.transcript.record_action("(reset)" if reset else "(drop)")
        raw = stream.extra(SocketAttribute.raw_socket, None)
        if reset and raw is not None:
            raw.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        await anyio.aclose_forcefully(stream)

    def trace(self) -> str:
        """Return the conversation on this connection so far as text, without SASL secrets."""
        return str(self.transcript)
