"""Test how your code takes a server that breaks in mid-stream.

Usage: python scripted_peer.py
"""

import anyio

from amqp10 import Connection, ConnectionLost
from amqp10.testing import ScriptedPeer, Transfer


async def server(peer: ScriptedPeer) -> None:
    """Open everything as a good server would, take one message, and go without an
    outcome.
    """
    await peer.accept_connection()
    await peer.accept_session()
    await peer.accept_link(credit=1)
    await peer.expect(Transfer)
    await peer.drop()


async def client(url: str) -> None:
    async with Connection(url) as connection, connection.sender("orders") as sender:
        await sender.send("is anybody there?")


async def main() -> None:
    async with ScriptedPeer() as peer, anyio.create_task_group() as tasks:
        tasks.start_soon(server, peer)
        try:
            await client(peer.url)
        except ConnectionLost as error:
            print("connection lost:", error)


anyio.run(main)
