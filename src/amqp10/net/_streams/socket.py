"""The stream of a socket, TCP or Unix, on either backend: read and written by system calls of our own.

anyio's streams would do, but:

- they take one buffer at a time; here `send_buffers` spares the copy that joins large payloads with what is between
  them (benchmarks/run.py, "send 64 KiB");
- on asyncio its TCP stream reads into a queue of its own, and cuts, by copying, what is more than was asked for
  (benchmarks/run.py, "receive 64 KiB"); and its Unix stream raises in the event loop where a `receive` is cancelled as
  data or the end comes in, which is what happens at the end of every other connection.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final

import anyio
import anyio.abc
import anyio.lowlevel
from anyio.abc import ByteStream, SocketAttribute

_MOST_BUFFERS: Final = 1024
"""Buffers of one system call; Linux has 1024."""


async def take_over(stream: ByteStream) -> ByteStream:
    """Wrap the connection of an anyio stream that has read nothing yet in a `SocketStream`.

    Where its socket is its event loop's own (uvloop's, or that of asyncio on Windows), the stream itself.

    Cancelling: the stream is closed.
    """
    raw: Any = stream.extra(SocketAttribute.raw_socket, None)
    if isinstance(raw, socket.socket):
        return SocketStream(raw, stream)
    if raw is None or not isinstance(asyncio.get_running_loop(), asyncio.SelectorEventLoop):
        return stream
    # asyncio lets nobody else wait for the socket of a transport, so that this has to be a copy of it.
    copy: socket.socket = raw.dup()
    copy.setblocking(False)
    try:
        await anyio.aclose_forcefully(stream)
    except BaseException:
        copy.close()
        raise
    return SocketStream(copy, None)


class SocketStream(anyio.abc.SocketStream):
    """A connected socket.

    Args:
        raw: the socket, not blocking.
        owner: the stream that it is of, which is closed in its place.
    """

    def __init__(self, raw: socket.socket, owner: ByteStream | None) -> None:
        self._socket = raw
        self._owner = owner
        self._closed = False

    @property
    def _raw_socket(self) -> socket.socket:
        return self._socket

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        """Bytes as they come, at most `max_bytes`.

        Raises:
            EndOfStream: the other end is closed.
            BrokenResourceError: it is broken.
            ClosedResourceError: this end was closed.

        Cancelling: nothing is taken.
        """
        await anyio.lowlevel.checkpoint_if_cancelled()
        waited = False
        while True:
            try:
                data = self._socket.recv(max_bytes)
            except BlockingIOError:
                await anyio.wait_readable(self._socket)
                waited = True
            except OSError as error:
                raise self._over() from error
            else:
                break
        if not waited:
            await anyio.lowlevel.cancel_shielded_checkpoint()
        if not data:
            raise anyio.EndOfStream
        return data

    async def send(self, item: bytes) -> None:
        """Hand bytes over; waits while the other end does not take them.

        Raises:
            BrokenResourceError: the other end is closed.
            ClosedResourceError: this end is.

        Cancelling: a part may have been sent.
        """
        if not await self._send_all((item,)):
            await anyio.lowlevel.cancel_shielded_checkpoint()

    async def send_buffers(self, buffers: Sequence[bytes | memoryview]) -> None:
        """Send several buffers, one after the other, without joining them.

        Other tasks run meanwhile only if this has to wait: whoever calls it again and again lets them run by itself.
        """
        await self._send_all(buffers)

    def send_at_once(self, buffers: Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
        """Send what goes without waiting, and return the rest."""
        rest = deque(memoryview(each) for each in buffers)
        # An error shows again when the rest is sent.
        with suppress(OSError):
            _advance(rest, self._write(rest))
        return rest

    async def _send_all(self, buffers: Sequence[bytes | memoryview]) -> bool:
        """Send, and return whether it had to wait."""
        await anyio.lowlevel.checkpoint_if_cancelled()
        rest = deque(memoryview(each) for each in buffers)
        waited = False
        while rest:
            try:
                sent = self._write(rest)
            except BlockingIOError:
                await anyio.wait_writable(self._socket)
                waited = True
            except OSError as error:
                raise self._over() from error
            else:
                _advance(rest, sent)
        return waited

    if hasattr(socket.socket, "sendmsg"):

        def _write(self, buffers: deque[memoryview]) -> int:
            return self._socket.sendmsg(islice(buffers, _MOST_BUFFERS))

    else:  # Windows

        def _write(self, buffers: deque[memoryview]) -> int:
            return self._socket.send(buffers[0])

    async def send_eof(self) -> None:
        """Say that no more will be sent.

        Cancelling: it was said.
        """
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise self._over() from error
        await anyio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """Close this end.

        Cancelling: it is closed.
        """
        if not self._closed:
            self._closed = True
            anyio.notify_closing(self._socket)
            self._socket.close()
        if self._owner is not None:
            await self._owner.aclose()
        await anyio.lowlevel.checkpoint()

    def _over(self) -> anyio.ClosedResourceError | anyio.BrokenResourceError:
        return anyio.ClosedResourceError() if self._closed else anyio.BrokenResourceError()


def _advance(buffers: deque[memoryview], sent: int) -> None:
    """Leave what follows the first `sent` octets."""
    while buffers and sent >= len(buffers[0]):
        sent -= len(buffers.popleft())
    if sent:
        buffers[0] = buffers[0][sent:]
