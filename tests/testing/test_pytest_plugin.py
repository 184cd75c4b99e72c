from __future__ import annotations

import subprocess
import sys

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


def test_costs_nothing_at_start() -> None:
    """Loading the plugin imports nothing of the package."""
    program = "import sys, pytest_amqp10; sys.exit(any(name.split('.')[0] == 'amqp10' for name in sys.modules))"
    subprocess.run([sys.executable, "-c", program], check=True)
