"""A pump between an engine that is all transparent and a stream that does what the test says."""

from __future__ import annotations

import math
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream, SocketAttribute
from sniffio import current_async_library

from amqp10.engine import ConnectionEnded, ConnectionTerms, Engine, Event, Role, Session, SessionTerms
from amqp10.errors import AmqpError, ConnectionClosed, ConnectionLost
from amqp10.messaging import Error
from amqp10.net import Pump


@dataclass(frozen=True, slots=True)
class Received(Event):
    data: bytes


class Double(Engine):
    """An engine that tells all it gets, in order, and says what it is told to.

    b"close" from the peer ends the connection with the peer's error, after a last word; b"" never comes.
    """

    role = Role.CLIENT
    capabilities = frozenset()
    remote = None
    identity = None
    opened = True

    def __init__(self) -> None:
        self.terms = ConnectionTerms("double")
        self.log: list[str] = []
        self.output = bytearray()
        self.ended = False
        self.deadlines: list[float | None] = []
        self.on_tick: Callable[[], None] = lambda: None
        self._events: list[Event] = []

    @property
    def output_size(self) -> int:  # type: ignore[override]
        return len(self.output)

    def end(self, error: AmqpError | None) -> None:
        assert not self.ended
        self.ended = True
        self._events.append(ConnectionEnded(error))

    def say(self, data: bytes) -> None:
        self.output += data

    # Engine

    def start(self) -> None:
        self.log.append("start")

    def receive_data(self, data: bytes) -> None:
        self.log.append(f"receive {len(data)}")
        self._events.append(Received(data))
        if data.endswith(b"close"):
            self.say(b"closed")
            self.end(ConnectionClosed("amqp:connection:forced"))

    def receive_eof(self) -> None:
        self.log.append("eof")
        if not self.ended:
            self.end(ConnectionLost("the transport ended"))

    def events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def flush(self) -> None:
        pass

    def data_to_send(self) -> bytes:
        data = bytes(self.output)
        self.output.clear()
        return data

    def tick(self, now: float) -> float | None:
        self.log.append("tick")
        self.on_tick()
        return now + self.deadlines.pop(0) if self.deadlines and self.deadlines[0] is not None else None  # type: ignore[operator]

    def open(self, terms: ConnectionTerms | None = None) -> None:
        raise AssertionError

    def begin(self, terms: SessionTerms | None = None) -> Session:
        raise AssertionError

    def close(self, error: Error | None = None) -> None:
        raise AssertionError


class Wire(ByteStream):
    """A stream of which the test is the other end.

    Attributes:
        sent: what was written, one item a call.
        gate: writing waits for it.
        asked: the sizes that were asked for in reading.
    """

    def __init__(self) -> None:
        self._to_read, self._incoming = anyio.create_memory_object_stream[bytes | Exception](math.inf)
        self.sent: list[bytes] = []
        self.gate = anyio.Event()
        self.gate.set()
        self.write_error: Exception | None = None
        self.asked: set[int] = set()
        self.closed = 0

    def give(self, *items: bytes | Exception) -> None:
        for item in items:
            self._to_read.send_nowait(item)

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        self.asked.add(max_bytes)
        item = await self._incoming.receive()
        if isinstance(item, Exception):
            raise item
        return item

    async def send(self, item: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        await self.gate.wait()
        if self.write_error is not None:
            raise self.write_error
        self.sent.append(item)

    async def send_eof(self) -> None:
        raise AssertionError

    async def aclose(self) -> None:
        self.closed += 1
        self._to_read.close()
        self._incoming.close()
        await anyio.lowlevel.checkpoint()


class HastyWire(Wire):
    """A stream that can take something at once, as a socket does, and does not let others run while it sends.

    Attributes:
        at_once: what was taken so.
        room: octets that it takes so.
    """

    def __init__(self) -> None:
        super().__init__()
        self.at_once: list[bytes] = []
        self.room = 1000

    def send_at_once(self, buffers: Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
        data = b"".join(buffers)
        if taken := data[: self.room]:
            self.at_once.append(taken)
        return [rest] if (rest := data[self.room :]) else []

    async def send_buffers(self, buffers: Sequence[bytes | memoryview]) -> None:
        if not self.gate.is_set():
            await self.gate.wait()
        self.sent.append(b"".join(buffers))


class SocketWire(Wire):
    """A wire that has a socket, as its end shows."""

    def __init__(self, raw: socket.socket) -> None:
        super().__init__()
        self._raw = raw

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return {SocketAttribute.raw_socket: lambda: self._raw}


class HandingWire(Wire):
    """A wire that hands over what it receives, as asyncio's stream does."""

    async def receive_each(self, max_bytes: int, handler: Callable[[bytes], bool]) -> None:
        while handler(await self.receive(max_bytes)):
            pass


class Rig:
    """A pump between a double and a wire: without one given, on asyncio that which hands over what it receives."""

    def __init__(self, wire: Wire | None = None) -> None:
        self.engine = Double()
        self.wire = wire or (HandingWire() if current_async_library() == "asyncio" else Wire())
        self.told: list[list[Event]] = []
        self.on_events: Callable[[list[Event]], None] = lambda events: None
        self.pump = Pump(self.wire, self.engine, self._tell)
        self.done = False

    def _tell(self, events: list[Event]) -> None:
        self.told.append(events)
        self.on_events(events)

    async def run(self) -> None:
        await self.pump.run()
        self.done = True

    def full(self) -> bool:
        return self.pump.full

    def finished(self) -> bool:
        return self.done

    @property
    def events(self) -> list[Event]:
        return [event for batch in self.told for event in batch]

    @property
    def error(self) -> AmqpError | None:
        """Of the one end that must have been told, last."""
        assert [isinstance(event, ConnectionEnded) for event in self.events].count(True) == 1
        last = self.events[-1]
        assert isinstance(last, ConnectionEnded)
        return last.error


@asynccontextmanager
async def running(wire: Wire | None = None) -> AsyncIterator[Rig]:
    rig = Rig(wire)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(rig.run)
        await anyio.wait_all_tasks_blocked()
        yield rig
        tasks.cancel_scope.cancel()
    assert rig.wire.closed
