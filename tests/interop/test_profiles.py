"""Each broker is recognized, and its profile's spelling is one that it takes."""

from __future__ import annotations

import pytest

from amqp10 import Connection, Unsupported
from amqp10.profiles import Profile, profile
from amqp10.rabbitmq import management

from ._matrix import Peer

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.timeout(600),
    pytest.mark.capability("broker profiles"),
]

NAMES = {"artemis": "artemis", "broker_j": "broker-j", "rabbitmq": "rabbitmq", "embedded": "embedded"}


@pytest.mark.matrix("recognized by its open, queue by profile")
async def test_queue(peer: Peer, address: str) -> None:
    """`connection.profile` is the broker's own, and a queue that it names takes and gives a message."""
    async with Connection(peer.url()) as connection:
        known: Profile = connection.profile
        assert known is profile(NAMES[peer.name])
        if peer.name == "rabbitmq":
            async with management(connection) as rabbit:
                await rabbit.declare_queue(address, "classic")
        async with connection.sender(known.target(address)) as sender:
            await sender.send("by profile")
        async with connection.receiver(known.source(address)) as receiver:
            with await receiver.receive() as message:
                assert message.body == "by profile"


@pytest.mark.matrix("topic by profile: a copy for each receiver")
async def test_topic(peer: Peer, address: str) -> None:
    """A topic that the profile names gives a copy to each receiver."""
    async with Connection(peer.url()) as connection:
        known = connection.profile
        if peer.name == "rabbitmq":
            with pytest.raises(Unsupported, match="bind one"):
                known.source(address, "topic")
            peer.lacks("`Unsupported`: bind queues to an exchange")
            return
        name = "amq.fanout" if peer.name == "broker_j" else f"topic.{address}"
        async with (
            connection.receiver(known.source(name, "topic")) as one,
            connection.receiver(known.source(name, "topic")) as two,
            connection.sender(known.target(name, "topic")) as sender,
        ):
            await sender.send("news")
            for receiver in (one, two):
                with await receiver.receive() as message:
                    assert message.body == "news"
