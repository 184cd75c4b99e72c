"""Clients of dialects without credit that send what there is no room for, on many connections together."""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Callable

import anyio
import anyio.to_thread
import pytest

from amqp10.broker import Broker, BrokerLimits

from ...kit.hostile.bystander import still_serves
from ...kit.hostile.senders_without_credit import amqp_0_9_1, amqp_0_10, fast
from ...kit.inside.net import pump
from ...kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.capability("hostile peers")]

MIB = 1 << 20
CROWDED = "wait for credit take"
AGAIN = "are read further ahead again"

Begin = Callable[[socket.socket], bytes]


class Flood:
    """A connection that sends without end.

    Attributes:
        sent: octets that the broker has read, or that are in the buffers between.
    """

    def __init__(self, broker: Broker, begin: Begin) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
        self.socket.connect(("127.0.0.1", int(broker.url.rpartition(":")[2])))
        self.sent = 0
        self._begin = begin
        self._message = b""

    def go_on(self) -> None:
        """Send until the broker reads no more."""
        self._message = self._message or self._begin(self.socket)
        self.socket.settimeout(0.5)
        for _ in range(5000):
            rest = memoryview(self._message)[self.sent % len(self._message) :]
            while rest:
                try:
                    sent = self.socket.send(rest)
                except TimeoutError:
                    return
                self.sent += sent
                rest = rest[sent:]
        raise AssertionError(f"the broker read {self.sent} octets and wants more")

    def hang_up(self) -> None:
        """End the connection at once."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


async def flood(broker: Broker, begin: Begin) -> Flood:
    """Send on a new connection until the broker reads no more."""
    flood = await anyio.to_thread.run_sync(Flood, broker, begin)
    await anyio.to_thread.run_sync(flood.go_on)
    return flood


@pytest.fixture
def small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a broker has not read stays at its client: a system may hold tens of MiB for each connection otherwise."""
    listen = socket.socket.listen

    def listen_with_small_buffers(listener: socket.socket, *backlog: int) -> None:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)  # of what it accepts, too
        listen(listener, *backlog)

    monkeypatch.setattr(socket.socket, "listen", listen_with_small_buffers)


@pytest.mark.usefixtures("small_buffers")
@pytest.mark.parametrize("begin", [amqp_0_9_1, amqp_0_10, fast])
async def test_many_connections(
    begin: Begin, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a quarter of the memory waits, each connection adds a MiB at most; when they are gone, the others go on."""
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(pump, "LOOK_FOR_END", 0.05)
    limits = BrokerLimits(memory=20 * MIB)
    async with Broker(port=0, anonymous=True, max_queue_bytes=1000, queues=["q"], limits=limits) as broker:
        first = await flood(broker, begin)
        await until(lambda: CROWDED in caplog.text)
        assert first.sent > 4 * MIB
        others = [await flood(broker, begin) for _ in range(2)]
        assert all(other.sent < 2 * MIB for other in others)
        await still_serves(broker)
        first.hang_up()
        await until(lambda: AGAIN in caplog.text)
        before = others[0].sent
        await anyio.to_thread.run_sync(others[0].go_on)
        assert others[0].sent > before + MIB
        for other in others:
            other.hang_up()
        await until(lambda: broker.connections == 0)
        caplog.clear()
        last = await flood(broker, begin)  # all was counted back
        assert last.sent > 4 * MIB
        last.hang_up()
