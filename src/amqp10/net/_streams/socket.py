"""The stream of a TCP or Unix socket on either backend, with its own system calls.

    trio      TrioSocketStream: read by the receiving task, as soon as trio reports data
    asyncio   WatchedSocketStream: read by the event loop, which watches the socket from one receive to the next, or
              passes the data to a function (`receive_each`); a server's are accepted by WatchedListener

Why not anyio's streams:

- they take one buffer at a time, while `send_buffers` avoids a copy to join large payloads with the frames between them
  (benchmarks/run.py, "send 64 KiB");
- on asyncio their TCP stream reads into a queue of its own, and copies data that exceeds the requested size
  (benchmarks/run.py, "receive 64 KiB"); and their Unix stream raises in the event loop if a `receive` is cancelled
  while data or the end arrives, which is common at the end of a connection.

On asyncio, `anyio.wait_readable` would start and stop watching the socket for each wait, at the cost of two system
calls and some objects. benchmarks/real_clients.py, "one": 0.6 of the CPU.
"""

from __future__ import annotations

import socket
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import copy_context
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.abc
import anyio.lowlevel
from anyio.abc import ByteStream, Listener, SocketAttribute
from sniffio import current_async_library, current_async_library_cvar

if TYPE_CHECKING:
    import asyncio

_MAX_BUFFERS: Final = 1024
"""The most buffers in one system call; Linux allows 1024."""


async def take_over(stream: ByteStream) -> ByteStream:
    """Wrap the socket of an anyio stream, which has read nothing yet, in a `SocketStream`.

    Return the stream itself if the event loop owns the socket (uvloop, or asyncio on Windows).

    Cancelling: the stream is closed.
    """
    raw: Any = stream.extra(SocketAttribute.raw_socket, None)
    loop = _selector_loop()
    if isinstance(raw, socket.socket):
        if loop is not None:
            return WatchedSocketStream(raw, stream, loop)
        return TrioSocketStream(raw, stream) if current_async_library() == "trio" else SocketStream(raw, stream)
    if raw is None or loop is None:
        return stream
    # A duplicate, because asyncio lets nobody else wait for the socket of a transport.
    copy: socket.socket = raw.dup()
    copy.setblocking(False)
    try:
        await anyio.aclose_forcefully(stream)
    except BaseException:
        copy.close()
        raise
    return WatchedSocketStream(copy, None, loop)


def take_over_listener(listener: Listener[anyio.abc.SocketStream]) -> Listener[anyio.abc.SocketStream]:
    """Wrap the socket of an anyio listener, which has not accepted yet, in a `WatchedListener`.

    Return the listener itself where the event loop does not watch sockets of others, and on trio.
    """
    raw = listener.extra(SocketAttribute.raw_socket, None)
    loop = _selector_loop()
    return WatchedListener(raw, loop) if isinstance(raw, socket.socket) and loop is not None else listener


def _selector_loop() -> asyncio.SelectorEventLoop | None:
    """Return the running asyncio loop if it can watch sockets of others, else None."""
    if "asyncio" not in sys.modules:
        return None
    import asyncio  # here, so that trio users do not load it

    try:
        task = asyncio.current_task()  # None: trio runs as the guest of an asyncio loop
    except RuntimeError:
        return None
    loop = None if task is None else task.get_loop()
    return loop if isinstance(loop, asyncio.SelectorEventLoop) else None


class SocketStream(anyio.abc.SocketStream):
    """A connected socket.

    Args:
        raw: the non-blocking socket.
        owner: the stream that owns the socket, and is closed in its place.
    """

    def __init__(self, raw: socket.socket, owner: ByteStream | None) -> None:
        self._socket = raw
        self._owner = owner
        self._closed = False
        self._empty = False  # all available data was read, so the next receive must wait

    @property
    def _raw_socket(self) -> socket.socket:
        return self._socket

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        """Receive available bytes, at most `max_bytes`.

        Raises:
            EndOfStream: the other end is closed.
            BrokenResourceError: the connection is broken.
            ClosedResourceError: this end was closed.

        Cancelling: nothing is taken.
        """
        # A read without data costs an exception: benchmarks/real_clients.py, "one".
        data = None
        if not self._empty:
            await anyio.lowlevel.checkpoint_if_cancelled()
            data = self._take(max_bytes)
        if data is None:
            data = await self._wait(max_bytes)
        else:
            await anyio.lowlevel.cancel_shielded_checkpoint()
        self._empty = len(data) < max_bytes
        if not data:
            raise anyio.EndOfStream
        return data

    def _take(self, max_bytes: int) -> bytes | None:
        """Take available data; return None if there is no data."""
        try:
            return self._socket.recv(max_bytes)
        except BlockingIOError:
            return None
        except OSError as error:
            raise self._over() from error

    async def _wait(self, max_bytes: int) -> bytes:
        """Wait for data, and take it."""
        while True:
            await anyio.wait_readable(self._socket)
            if (data := self._take(max_bytes)) is not None:
                return data

    async def _writable(self) -> None:
        await anyio.wait_writable(self._socket)

    async def send(self, item: bytes) -> None:
        """Send bytes; wait while the other end does not take them.

        Raises:
            BrokenResourceError: the other end is closed.
            ClosedResourceError: this end is closed.

        Cancelling: a part may have been sent.
        """
        if not await self._send_all((item,)):
            await anyio.lowlevel.cancel_shielded_checkpoint()

    async def send_buffers(self, buffers: Sequence[bytes | memoryview]) -> None:
        """Send several buffers in order, without joining them.

        Other tasks run meanwhile only if the send must wait, so a caller in a loop must let them run.
        """
        await self._send_all(buffers)

    def send_at_once(self, buffers: Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
        """Send as much as possible without waiting, and return the rest."""
        try:
            sent = self._write(buffers)
        except OSError:  # sending the rest raises it again
            sent = 0
        if sent == sum(map(len, buffers)):
            return ()
        rest = deque(memoryview(each) for each in buffers)
        _advance(rest, sent)
        return rest

    async def _send_all(self, buffers: Sequence[bytes | memoryview]) -> bool:
        """Send all, and return whether the send had to wait."""
        await anyio.lowlevel.checkpoint_if_cancelled()
        rest = deque(memoryview(each) for each in buffers)
        waited = False
        while rest:
            try:
                sent = self._write(rest)
            except BlockingIOError:
                await self._writable()
                waited = True
            except OSError as error:
                raise self._over() from error
            else:
                _advance(rest, sent)
        return waited

    if hasattr(socket.socket, "sendmsg"):

        def _write(self, buffers: Sequence[bytes | memoryview]) -> int:
            if len(buffers) == 1:
                return self._socket.send(buffers[0])
            return self._socket.sendmsg(islice(buffers, _MAX_BUFFERS))

    else:  # Windows

        def _write(self, buffers: Sequence[bytes | memoryview]) -> int:
            return self._socket.send(buffers[0])

    async def send_eof(self) -> None:
        """End the sending direction.

        Cancelling: the direction is ended.
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
            self._empty = False
            self._forget()
            self._socket.close()
        if self._owner is not None:
            await self._owner.aclose()
        await anyio.lowlevel.checkpoint()

    def _forget(self) -> None:
        """Wake tasks that wait for the socket, which is about to be closed."""
        anyio.notify_closing(self._socket)

    def _over(self) -> anyio.ClosedResourceError | anyio.BrokenResourceError:
        return anyio.ClosedResourceError() if self._closed else anyio.BrokenResourceError()


class TrioSocketStream(SocketStream):
    """A connected socket on trio. Any task may receive, one at a time: see `net._reading`."""

    def stop_receiving(self) -> None:
        """Wake the task in `receive`, which raises WouldBlock and takes nothing."""
        if not self._closed:
            sys.modules["trio"].lowlevel.notify_closing(self._socket)  # the only way to wake it from another task

    async def _wait(self, max_bytes: int) -> bytes:
        # As anyio does; not imported above, so that asyncio users do not load it.
        trio = sys.modules["trio"]
        while True:
            try:
                await trio.lowlevel.wait_readable(self._socket)
            except trio.BusyResourceError:
                raise anyio.BusyResourceError("reading from") from None
            except trio.ClosedResourceError:
                raise anyio.ClosedResourceError if self._closed else anyio.WouldBlock from None
            if (data := self._take(max_bytes)) is not None:
                return data

    async def _writable(self) -> None:
        try:
            await super()._writable()
        except anyio.ClosedResourceError:
            if self._closed:
                raise
            # `stop_receiving` wakes this, too, and it waits again.


class WatchedSocketStream(SocketStream):
    """A connected socket that asyncio's loop watches and reads while a task waits.

    Args:
        raw, owner: as for `SocketStream`.
        loop: the running loop.
    """

    def __init__(self, raw: socket.socket, owner: ByteStream | None, loop: asyncio.SelectorEventLoop) -> None:
        super().__init__(raw, owner)
        self._loop = loop
        self._watched = False
        self._waiter: asyncio.Future[None] | None = None
        self._wanted = 0  # the most bytes, by the waiting task
        self._came: bytes | OSError | None = None  # read by the loop, not yet taken
        self._handler: Callable[[bytes], bool] | None = None  # gets data in place of a waiting task

    def _take(self, max_bytes: int) -> bytes | None:
        came = self._came
        if came is None:
            return None if self._empty and self._watched else super()._take(max_bytes)
        self._came = None
        if isinstance(came, OSError):
            raise self._over() from came
        if len(came) > max_bytes:  # a receive with a larger limit was cancelled
            came, self._came = came[:max_bytes], came[max_bytes:]
        return came

    async def _wait(self, max_bytes: int) -> bytes:
        """Wait for data like the base class. If cancelled, the next receive gets what the loop has read."""
        if self._waiter is not None:
            raise anyio.BusyResourceError("reading from")
        self._wanted = max_bytes
        while True:
            if not self._watched:
                self._watch()
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
            if (data := self._take(max_bytes)) is not None:
                return data

    async def receive_each(self, max_bytes: int, handler: Callable[[bytes], bool]) -> None:
        """Read in the event loop, without waking a task, and call `handler` with each piece until it returns False.

        Args:
            max_bytes: the most bytes at a time.
            handler: called with each piece; must not raise.

        Raises:
            EndOfStream, BrokenResourceError, ClosedResourceError: as for `receive`.

        Cancelling: no data is lost.
        """
        # The rest of a cancelled `receive` comes first.
        while handler(await self.receive(max_bytes)):
            if self._came is None:
                break
        else:
            return
        self._wanted, self._handler = max_bytes, handler
        self._waiter = self._loop.create_future()
        if not self._watched:
            self._watch()
        try:
            await self._waiter
        finally:
            self._waiter = self._handler = None
        if self._closed:
            raise self._over()
        came, self._came = self._came, None
        if isinstance(came, OSError):
            raise self._over() from came
        if came is not None:
            raise anyio.EndOfStream

    def _read(self) -> None:
        """Read for the waiting task; the loop calls this while there is data."""
        waiter = self._waiter
        if waiter is None or waiter.done():
            self._unwatch()
            return
        self._empty = False
        try:
            came = self._socket.recv(self._wanted)
        except BlockingIOError:
            return
        except OSError as error:
            self._came = error
        else:
            if came and self._handler is not None:
                self._empty = len(came) < self._wanted
                if self._handler(came):
                    return
            else:
                self._came = came
        if not waiter.done():
            waiter.set_result(None)

    def _watch(self) -> None:
        # A handler runs outside tasks, from which alone anyio would detect asyncio.
        context = copy_context()
        context.run(current_async_library_cvar.set, "asyncio")
        context.run(self._loop.add_reader, self._socket, self._read)
        self._watched = True

    def _unwatch(self) -> None:
        if self._watched:
            self._watched = self._empty = False
            self._loop.remove_reader(self._socket)

    def _forget(self) -> None:
        super()._forget()
        self._unwatch()
        self._came = None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class WatchedListener(anyio.abc.SocketListener):
    """A listening socket on asyncio, whose connections are read only while a task waits for data.

    anyio's TCP stream reads from the start, and stops only after a `receive` that had to wait. So a peer that sends
    without waiting for answers could fill the memory while its messages have no room.

    Args:
        raw: the non-blocking socket.
        loop: the running loop.
    """

    def __init__(self, raw: socket.socket, loop: asyncio.SelectorEventLoop) -> None:
        self._socket = raw
        self._loop = loop

    @property
    def _raw_socket(self) -> socket.socket:
        return self._socket

    async def accept(self) -> SocketStream:
        """Accept a connection.

        Raises:
            OSError: accepting failed.
            ClosedResourceError: the listener was closed.

        Cancelling: no connection is accepted.
        """
        await anyio.lowlevel.checkpoint()
        while True:
            if self._socket.fileno() < 0:
                raise anyio.ClosedResourceError
            try:
                raw, _ = self._socket.accept()
            except BlockingIOError:
                await anyio.wait_readable(self._socket)
            else:
                raw.setblocking(False)
                return WatchedSocketStream(raw, None, self._loop)

    async def aclose(self) -> None:
        """Stop listening.

        Cancelling: the socket is closed.
        """
        if self._socket.fileno() >= 0:
            anyio.notify_closing(self._socket)
            self._socket.close()
        await anyio.lowlevel.checkpoint()


def _advance(buffers: deque[memoryview], sent: int) -> None:
    """Drop the first `sent` octets."""
    while buffers and sent >= len(buffers[0]):
        sent -= len(buffers.popleft())
    if sent:
        buffers[0] = buffers[0][sent:]
