from __future__ import annotations

import anyio
import pytest

from amqp10.broker import Broker
from amqp10.client import Connection
from amqp10.testing import ScriptedPeer


@pytest.mark.anyio
async def test_amqp_broker(amqp_broker: Broker) -> None:
    """A broker of the test's own, that a client reaches."""
    async with Connection(amqp_broker.url) as connection, connection.sender("orders") as sender:
        await sender.send("hello")
    assert amqp_broker.queue("orders").depth == 1


@pytest.mark.anyio
async def test_amqp_peer(amqp_peer: ScriptedPeer) -> None:
    """A peer that listens."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await amqp_peer.accept_connection()
            await amqp_peer.accept_close()

        tasks.start_soon(serve)
        async with Connection(amqp_peer.url):
            pass
