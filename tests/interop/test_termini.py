"""Termini that the brokers have or have not: dynamic, anonymous."""

from __future__ import annotations

import pytest

from amqp10 import Connection, Message

from ._matrix import Peer

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.timeout(600),
    pytest.mark.capability("dynamic and anonymous nodes"),
]


@pytest.mark.matrix("dynamic node")
async def test_dynamic(peer: Peer) -> None:
    """A node that the peer makes takes messages until its receiver goes."""
    async with Connection(peer.url()) as connection:
        if peer.name == "rabbitmq":
            with pytest.raises(peer.refused, match="not-implemented"):
                async with connection.receiver(dynamic=True):
                    pass
            peer.lacks(f"`{peer.refused.__name__}: amqp:not-implemented`")
            return
        async with connection.receiver(dynamic=True) as receiver:
            assert receiver.address
            async with connection.sender(receiver.address) as sender:
                await sender.send("to the temporary node")
            assert (await receiver.receive()).message.body == "to the temporary node"


@pytest.mark.matrix("anonymous terminus")
async def test_anonymous(peer: Peer) -> None:
    """A sender without address sends each message to where its `to` says."""
    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        async with connection.receiver(address) as receiver, connection.sender(None) as sender:
            await sender.send(Message("by its own address", to=address))
            with await receiver.receive() as message:
                assert message.body == "by its own address"
