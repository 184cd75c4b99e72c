"""A network of memory for tests in one process: nothing waits for the operating system, so that clocks can jump."""

from __future__ import annotations

import errno
import itertools
import math
import os
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from anyio.abc import ByteStream, SocketAttribute, SocketListener
from anyio.streams.stapled import MultiListener

from amqp10.broker.internals import MemoryStream, memory_streams

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class MemoryNetwork:
    """What `anyio.connect_tcp` and `anyio.create_tcp_listener` lead to; and no thread runs meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.listeners: dict[int, MemoryListener] = {}
        self._free = itertools.count(50_000)
        monkeypatch.setattr(anyio, "connect_tcp", self.connect)
        monkeypatch.setattr(anyio, "create_tcp_listener", self.listen)
        monkeypatch.setattr(anyio.to_thread, "run_sync", at_once)

    async def listen(self, *, local_host: str = "127.0.0.1", local_port: int = 0, **_: Any) -> MultiListener[Any]:
        await anyio.lowlevel.checkpoint()
        port = local_port or next(self._free)
        if local_host not in LOOPBACK:
            raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
        if port in self.listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        listener = self.listeners[port] = MemoryListener(self, local_host, port)
        return MultiListener([listener])

    async def connect(self, host: str, port: int, **_: Any) -> MemoryConnection:
        await anyio.lowlevel.checkpoint()
        if host not in LOOPBACK or port not in self.listeners:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        here, there = memory_streams()
        near, far = (host, next(self._free)), (host, port)
        self.listeners[port].come(MemoryConnection(there, local=far, remote=near))
        return MemoryConnection(here, local=near, remote=far)


async def at_once(call: Callable[..., Any], *arguments: Any, **_: Any) -> Any:
    """Do what else a thread would do, which a clock that jumps would not wait for."""
    await anyio.lowlevel.checkpoint()
    return call(*arguments)


class MemoryListener(SocketListener):
    """Where a broker, a proxy or a scripted peer waits for whom it serves."""

    def __init__(self, network: MemoryNetwork, host: str, port: int) -> None:
        self._network = network
        self._address = host, port
        self._send, self._receive = anyio.create_memory_object_stream[MemoryConnection](math.inf)

    def come(self, connection: MemoryConnection) -> None:
        self._send.send_nowait(connection)

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return {
            SocketAttribute.local_address: lambda: self._address,
            SocketAttribute.local_port: lambda: self._address[1],
        }

    @property
    def _raw_socket(self) -> Any:
        raise NotImplementedError

    async def accept(self) -> Any:
        return await self._receive.receive()

    async def aclose(self) -> None:
        if self._network.listeners.get(self._address[1]) is self:
            del self._network.listeners[self._address[1]]
        self._send.close()
        while self._receive.statistics().current_buffer_used:  # they would be reset
            await anyio.aclose_forcefully(self._receive.receive_nowait())
        self._receive.close()
        await anyio.lowlevel.checkpoint()


class MemoryConnection(ByteStream):
    """A stream that says where it comes from."""

    def __init__(self, stream: MemoryStream, *, local: tuple[str, int], remote: tuple[str, int]) -> None:
        self._stream = stream
        self._local = local
        self._remote = remote

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return {
            SocketAttribute.local_address: lambda: self._local,
            SocketAttribute.local_port: lambda: self._local[1],
            SocketAttribute.remote_address: lambda: self._remote,
            SocketAttribute.remote_port: lambda: self._remote[1],
        }

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        return await self._stream.receive(max_bytes)

    async def send(self, item: bytes) -> None:
        await self._stream.send(item)

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()
