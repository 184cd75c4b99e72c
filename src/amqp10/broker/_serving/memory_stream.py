"""A byte stream within the process: a connection to the broker without a port."""

from __future__ import annotations

from collections import deque

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream

# Bytes in flight in one direction before a sender waits; about what the buffers of a socket hold.
_CAPACITY = 262_144


class _Pipe:
    """One direction of a stream."""

    def __init__(self) -> None:
        self.chunks: deque[bytes] = deque()
        self.size = 0
        self.ended = False  # the writer sends no more
        self.broken = False  # the reader is gone
        self._changed = anyio.Event()

    def change(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def wait(self) -> None:
        await self._changed.wait()


class MemoryStream(ByteStream):
    """One end of a stream; `memory_streams` makes two. A sender waits while the other end does not read."""

    def __init__(self, incoming: _Pipe, outgoing: _Pipe) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._closed = False

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        """Return the next bytes, at most `max_bytes`.

        Raises:
            EndOfStream: the other end has sent everything.
            ClosedResourceError: this end was closed.

        Cancelling: no bytes are taken.
        """
        await anyio.lowlevel.checkpoint()
        pipe = self._incoming
        while not pipe.chunks:
            if self._closed:
                raise anyio.ClosedResourceError
            if pipe.ended:
                raise anyio.EndOfStream
            await pipe.wait()
        if self._closed:
            raise anyio.ClosedResourceError
        chunk = pipe.chunks.popleft()
        if len(chunk) > max_bytes:
            pipe.chunks.appendleft(chunk[max_bytes:])
            chunk = chunk[:max_bytes]
        full = pipe.size >= _CAPACITY
        pipe.size -= len(chunk)
        if full:
            pipe.change()
        return chunk

    async def send(self, item: bytes) -> None:
        """Send bytes; wait while too many are in flight.

        Raises:
            BrokenResourceError: the other end is closed.
            ClosedResourceError: this end is closed.

        Cancelling: all bytes were sent, or none.
        """
        await anyio.lowlevel.checkpoint()
        pipe = self._outgoing
        while pipe.size >= _CAPACITY and not (self._closed or pipe.ended or pipe.broken):
            await pipe.wait()
        if self._closed or pipe.ended:
            raise anyio.ClosedResourceError
        if pipe.broken:
            raise anyio.BrokenResourceError
        if item:
            pipe.chunks.append(bytes(item))
            pipe.size += len(item)
            pipe.change()

    async def send_eof(self) -> None:
        """Announce that no more bytes will be sent.

        Cancelling: it is announced.
        """
        self._outgoing.ended = True
        self._outgoing.change()
        await anyio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """Close this end in both directions.

        Cancelling: it is closed.
        """
        self._closed = True
        self._outgoing.ended = True
        self._incoming.broken = True
        self._outgoing.change()
        self._incoming.change()
        await anyio.lowlevel.checkpoint()


def memory_streams() -> tuple[MemoryStream, MemoryStream]:
    """Make the two ends of one stream."""
    there, back = _Pipe(), _Pipe()
    return MemoryStream(back, there), MemoryStream(there, back)
