"""No client at all: what a round trip of `await sender.send()` costs by itself, on a blocking socket, trio or asyncio.

`trio+reader` has a task of its own that reads and wakes the one that waits, as a client with several links has.

The same octets go out and come in as with this project's client; nothing is decoded.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import Generator
from pathlib import Path

import trio
from real_messages import clock_of

sys.path.append(str(Path(__file__).resolve().parents[1]))
from counterpart import AMQP, ATTACH, BEGIN, CLOSE, OPEN, Messages, frame, truth, uint

clock = clock_of("bare")
DISPOSITION, TRANSFER = b"\x00\x53\x15", 0x14


def text(value: str) -> bytes:
    return b"\xa1" + bytes((len(value),)) + value.encode()


def conversation() -> Generator[bytes, bytes]:
    """What is written next, given what was read since."""
    target = bytes((0, 0x53, 0x29, 0xC0, 3 + len(clock.address), 1)) + text(clock.address)
    source = bytes((0, 0x53, 0x28, 0x45))
    unmapped = (b"\x40", b"\x40")
    attach = frame(
        0, ATTACH, text("it"), uint(0), truth(False), b"\x50\x00", b"\x50\x00", source, target, *unmapped, b"\x43"
    )
    begin = frame(0, BEGIN, b"\x40", uint(0), uint(2000), uint(2000))
    read = yield AMQP + frame(0, OPEN, text("bare"), text("it"), uint(131_072)) + begin + attach
    while b"\x00\x53\x13" not in read:  # the credit
        read += yield b""
    clock.begin()
    body = b"\x00\x53\x75" + (b"\xb0" + len(clock.body).to_bytes(4, "big")) + clock.body
    transfers = Messages(0, 0, False, [body])
    for number in range(clock.total):
        began = time.perf_counter()
        read = yield transfers.transfer(number)
        while DISPOSITION not in read:
            read += yield b""
        clock.latencies.append(time.perf_counter() - began)
        clock.tick()
    clock.report()
    yield frame(0, CLOSE)


def blocking() -> None:
    with socket.create_connection((clock.host, clock.port)) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        speaking = conversation()
        write = next(speaking)
        while True:
            if write:
                link.sendall(write)
            if clock.done == clock.total:
                return
            write = speaking.send(link.recv(65_536))


async def on_trio() -> None:
    """One task that writes and reads."""
    stream = await trio.open_tcp_stream(clock.host, clock.port)
    async with stream:
        speaking = conversation()
        write = next(speaking)
        while True:
            if write:
                await stream.send_all(write)
            if clock.done == clock.total:
                return
            write = speaking.send(bytes(await stream.receive_some(65_536)))


async def on_trio_with_reader() -> None:
    """One task that writes and waits for another, which reads."""
    stream = await trio.open_tcp_stream(clock.host, clock.port)
    came = b""
    ready = trio.Event()

    async def read() -> None:
        nonlocal came
        while True:
            came += await stream.receive_some(65_536)
            ready.set()

    async with stream, trio.open_nursery() as tasks:
        tasks.start_soon(read)
        speaking = conversation()
        write = next(speaking)
        while True:
            if write:
                await stream.send_all(write)
            if clock.done == clock.total:
                tasks.cancel_scope.cancel()
                return
            while not came:
                ready = trio.Event()
                await ready.wait()
            read_now, came = came, b""
            write = speaking.send(read_now)


class Waited(asyncio.Protocol):
    """Has a task wait for what comes."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._came = b""
        self._waiter: asyncio.Future[None] | None = None

    def data_received(self, data: bytes) -> None:
        self._came += data
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def read(self) -> bytes:
        if not self._came:
            self._waiter = self._loop.create_future()
            await self._waiter
        came, self._came = self._came, b""
        return came


async def on_asyncio() -> None:
    """One task that writes and is woken by a protocol that reads; asyncio sets TCP_NODELAY by itself."""
    transport, protocol = await asyncio.get_running_loop().create_connection(Waited, clock.host, clock.port)
    speaking = conversation()
    write = next(speaking)
    while True:
        if write:
            transport.write(write)
        if clock.done == clock.total:
            transport.close()
            return
        write = speaking.send(await protocol.read())


if clock.variant == "trio":
    trio.run(on_trio)
elif clock.variant == "trio+reader":
    trio.run(on_trio_with_reader)
elif clock.variant == "asyncio":
    asyncio.run(on_asyncio())
else:
    blocking()
