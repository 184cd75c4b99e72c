"""A TCP proxy that breaks connections, to test how a program handles network failures.

client ──up──> FaultProxy ──up──> server
       <─down─            <─down─
"""

from __future__ import annotations

import logging
import math
import socket
import struct
from contextlib import suppress
from types import TracebackType
from typing import Final, Literal, Self
from urllib.parse import urlsplit

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream, Listener, SocketAttribute, TaskGroup

from .._arguments import checked
from ..net import describe

Way = Literal["up", "down"]
WAYS: Final[tuple[Way, Way]] = ("up", "down")
"""The ways: from the client to the server, and back."""

_log = logging.getLogger("amqp10.testing")
_BROKEN = (OSError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)
_RESET = struct.pack("ii", 1, 0)


@checked
class FaultProxy:
    """A proxy to a server, on a free port of the loopback, within `async with`.

        async with FaultProxy(broker.url) as proxy, Connection(proxy.url) as connection:
            proxy.cut_after(1000, "up")

    Settings apply at once, to present and later connections. TLS passes through undecrypted.

    Args:
        url: the URL of the server. `proxy.url` is the same URL with the proxy's host and port.

    Attributes:
        delay: seconds to hold each read before it is passed on.
        piece: the most bytes to write at a time; None for no limit.
        refusing: close new connections as soon as they are accepted.
        accepted: the number of connections so far.
        failures: the number of connections closed at once because the server could not be reached. The logger
            `amqp10.testing` has the reasons.
        cuts: the number of connections that the proxy has cut.
        passed: the number of bytes passed on, by way.
    """

    _tasks: TaskGroup

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        try:
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if not host or not port:
            raise ValueError("a FaultProxy needs a URL with a host and a port")
        self._server = host, port
        self._parts = parts
        self._port = 0
        self.delay: float = 0.0
        self.piece: int | None = None
        self.refusing = False
        self.accepted: int = 0
        self.failures: int = 0
        self.cuts: int = 0
        self.passed: dict[Way, int] = dict.fromkeys(WAYS, 0)
        self._relays: dict[Relay, None] = {}
        self._limits: dict[Way, float] = dict.fromkeys(WAYS, math.inf)
        self._reset = False
        self._open_gates: dict[Way, anyio.Event | None] = dict.fromkeys(WAYS)  # None: not stalled
        self._was_cut: anyio.Event | None = None

    def __repr__(self) -> str:
        return f"<FaultProxy to {self._server[0]}:{self._server[1]}, {self.accepted} connections accepted>"

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            OSError: no port can be listened on.

        Cancelling: nothing is left open.
        """
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        self._port = listener.extra(SocketAttribute.local_port)
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._listen, listener)
        return self

    async def _listen(self, listener: Listener[ByteStream]) -> None:
        async with listener:
            await listener.serve(self._serve)

    @property
    def url(self) -> str:
        """The server's URL, including credentials, with the proxy's host and port."""
        login, at, _ = self._parts.netloc.rpartition("@")
        return self._parts._replace(netloc=f"{login}{at}127.0.0.1:{self._port}").geturl()

    @property
    def connections(self) -> int:
        """The number of present connections."""
        return len(self._relays)

    # Faults

    def cut(self, *, reset: bool = False) -> None:
        """Cut every connection now, both ways.

        Args:
            reset: send a TCP reset, which discards unread bytes, instead of an orderly end.
        """
        for relay in list(self._relays):
            self._cut(relay, reset)

    def cut_after(self, count: float, way: Way, *, reset: bool = False) -> None:
        """Cut one connection, once, when exactly `count` more bytes have passed one way.

        Args:
            count: bytes of all connections together, counted from now; `math.inf` cancels the cut.
            reset: see `cut`.
        """
        self._limits[way] = self.passed[way] + count
        self._reset = reset

    async def until_cut(self) -> None:
        """Wait for the next cut.

        Cancelling: nothing changes.
        """
        if self._was_cut is None:
            self._was_cut = anyio.Event()
        await self._was_cut.wait()

    def stall(self, *ways: Way) -> None:
        """Hold back all bytes in `ways` (both if none is given) until `resume`."""
        for way in ways or WAYS:
            if self._open_gates[way] is None:
                self._open_gates[way] = anyio.Event()

    def resume(self) -> None:
        """Pass on the bytes held back by `stall`."""
        for way in WAYS:
            gate, self._open_gates[way] = self._open_gates[way], None
            if gate is not None:
                gate.set()

    async def half_close(self, way: Way) -> None:
        """End one way of every connection, like a peer that has finished writing; the other way goes on.

        Further bytes in the ended way break the connection.

        Cancelling: some connections may be half closed, others not.
        """
        for relay in list(self._relays):
            relay.shut.add(way)
            with suppress(*_BROKEN):
                await relay.sinks[way].send_eof()

    # Relaying

    async def _serve(self, client: ByteStream) -> None:
        self.accepted += 1
        async with client:
            if self.refusing:
                return
            try:
                server = await anyio.connect_tcp(*self._server)
            except OSError as error:
                self.failures += 1
                _log.warning("the server at %s:%s cannot be reached: %s", *self._server, describe(error))
                return
            relay = Relay(client, server)
            self._relays[relay] = None
            try:
                with relay.scope:
                    async with server, anyio.create_task_group() as tasks:
                        tasks.start_soon(self._pass, relay, "down")
                        await self._pass(relay, "up")
            finally:
                del self._relays[relay]

    async def _pass(self, relay: Relay, way: Way) -> None:
        """Pass on the bytes of one way of a connection until its end."""
        source = relay.sources[way]
        try:
            while True:
                data = await source.receive()
                if self.delay:
                    await anyio.sleep(self.delay)
                await self._forward(data, relay, way)
        except anyio.EndOfStream:
            await self._opened(way)
            with suppress(*_BROKEN):
                await relay.sinks[way].send_eof()
            relay.ended.add(way)
            if len(relay.ended) == len(WAYS):
                relay.scope.cancel()
        except _BROKEN:
            relay.scope.cancel()

    async def _opened(self, way: Way) -> None:
        while (gate := self._open_gates[way]) is not None:
            await gate.wait()

    async def _forward(self, data: bytes, relay: Relay, way: Way) -> None:
        """Write data in pieces, up to the cut."""
        size = self.piece or len(data)
        for at in range(0, len(data), size):
            await self._opened(way)
            left = self._limits[way] - self.passed[way]
            piece = data[at : at + int(min(size, left))]
            self.passed[way] += len(piece)
            last = self.passed[way] >= self._limits[way]
            if last:  # of this connection; others that write at the same time go on
                self._limits[way] = math.inf
            if piece and way in relay.shut:
                raise anyio.BrokenResourceError  # like a socket
            if piece:
                await relay.sinks[way].send(piece)
            if last:
                self._cut(relay, self._reset)
                await anyio.lowlevel.checkpoint()

    def _cut(self, relay: Relay, reset: bool) -> None:
        if relay.scope.cancel_called:
            return  # already ending; its sockets may be closed
        self.cuts += 1
        if reset:
            for stream in (relay.client, relay.server):
                raw = stream.extra(SocketAttribute.raw_socket, None)
                if raw is not None:
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        relay.scope.cancel()
        event, self._was_cut = self._was_cut, None
        if event is not None:
            event.set()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop listening, and drop all connections.

        Cancelling: is not noticed; it takes no time.
        """
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(None, None, None)


class Relay:
    """One connection through the proxy."""

    def __init__(self, client: ByteStream, server: ByteStream) -> None:
        self.client = client
        self.server = server
        self.sources: dict[Way, ByteStream] = {"up": client, "down": server}
        self.sinks: dict[Way, ByteStream] = {"up": server, "down": client}
        self.scope = anyio.CancelScope()
        self.ended: set[Way] = set()
        self.shut: set[Way] = set()  # by `half_close`
