"""Clients of dialects without credit that send what there is no room for, and then hang up without a close."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

import anyio
import anyio.to_thread
import pytest

from amqp10.broker import Broker

from ...kit.hostile.bystander import still_serves
from ...kit.hostile.senders_without_credit import amqp_0_9_1, amqp_0_10, fast
from ...kit.inside.engines import backlog
from ...kit.inside.net import pump
from ...kit.waiting import until

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("begin", [amqp_0_9_1, amqp_0_10, fast])
@pytest.mark.parametrize("reset", [False, True])
async def test_connections_that_are_not_read(
    begin: Callable[[socket.socket], bytes], reset: bool, anyio_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They end, and give their memory back, though what comes before their end is never read."""
    monkeypatch.setattr(pump, "LOOK_FOR_END", 0.05)
    monkeypatch.setattr(backlog, "MAX_AHEAD", 100_000)
    async with Broker(port=0, anonymous=True, max_queue_bytes=1000, queues=["q"]) as broker:
        port = int(broker.url.rpartition(":")[2])

        def fill() -> None:
            """Send until the broker reads no more, which is soon, and hang up."""
            with socket.create_connection(("127.0.0.1", port)) as client:
                message = begin(client)
                client.settimeout(0.3)
                with pytest.raises(TimeoutError):
                    for _ in range(5000):
                        client.sendall(message)
                if reset:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        await anyio.to_thread.run_sync(fill)
        await until(lambda: broker.connections == 0)
        await still_serves(broker)
