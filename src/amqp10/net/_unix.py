"""The stream of a Unix socket.

anyio's own, on asyncio, raises in the event loop where a `receive` is cancelled as data or the end comes in (it sets
the result of a future that is cancelled already), which is what happens at the end of every other connection. This one
waits by `anyio.wait_readable`, on either backend.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream, SocketAttribute


class UnixStream(ByteStream):
    """Takes over a stream that `anyio.connect_unix` or a listener of anyio gave."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._socket: socket.socket = stream.extra(SocketAttribute.raw_socket)
        self._closed = False
        self._waiting: set[anyio.CancelScope] = set()

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return self._stream.extra_attributes

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        """Bytes as they come, at most `max_bytes`.

        Raises:
            EndOfStream: the other end is closed.
            BrokenResourceError: it is broken.
            ClosedResourceError: this end was closed.

        Cancelling: nothing is taken.
        """
        await anyio.lowlevel.checkpoint()
        while True:
            try:
                data = self._socket.recv(max_bytes)
            except BlockingIOError:
                await self._wait(anyio.wait_readable)
            except OSError as error:
                raise self._over() from error
            else:
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
        await anyio.lowlevel.checkpoint()
        rest = memoryview(item)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                await self._wait(anyio.wait_writable)
            except OSError as error:
                raise self._over() from error

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
        self._closed = True
        for scope in self._waiting:
            scope.cancel()
        await self._stream.aclose()

    async def _wait(self, ready: Callable[[socket.socket], Awaitable[None]]) -> None:
        with anyio.CancelScope() as scope:
            self._waiting.add(scope)
            try:
                await ready(self._socket)
            finally:
                self._waiting.discard(scope)
        if self._closed:
            raise anyio.ClosedResourceError

    def _over(self) -> anyio.ClosedResourceError | anyio.BrokenResourceError:
        return anyio.ClosedResourceError() if self._closed else anyio.BrokenResourceError()
