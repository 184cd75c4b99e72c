"""A channel of AMQP 0-9-1 that is closed: by the client after its last publish, or by the broker in the middle."""

from __future__ import annotations

import pytest

from amqp10 import Connection, LinkDetached, Message
from amqp10.broker import Broker
from amqp10.dialects.v0_9.wire.methods import (
    BasicAck,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionCloseOk,
)

from ...kit.dialects.v0_9.method_peer import MethodPeer

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]


def publish(peer: MethodPeer, exchange: str, key: str, body: bytes) -> bytes:
    return peer.method(1, BasicPublish(exchange=exchange, routing_key=key)) + peer.content(1, body)


async def opened(peer: MethodPeer) -> None:
    await peer.open_connection()
    await peer.open_channel(1)
    await peer.send(1, ConfirmSelect())
    await peer.expect(ConfirmSelectOk)


async def test_closed_by_the_broker() -> None:
    """What follows the fault never came: it is neither kept nor confirmed; what came before it is both."""
    async with Broker(queues=["q"]) as broker, MethodPeer.over(broker.open_stream()) as peer:
        await opened(peer)
        faulty = publish(peer, "", "q", b"1") + publish(peer, "nowhere", "q", b"2") + publish(peer, "", "q", b"3")
        await peer.send_bytes(faulty)
        assert (await peer.expect(BasicAck)).delivery_tag == 1
        closed = await peer.expect(ChannelClose)
        assert (closed.reply_code, closed.class_id, closed.method_id) == (404, 60, 40)
        await peer.send_bytes(publish(peer, "", "q", b"4") + peer.method(1, ChannelCloseOk()))
        await peer.open_channel(1)
        await peer.send(0, ConnectionClose(200))
        await peer.expect(ConnectionCloseOk)  # and no word on the old channel in between
        assert broker.queue("q").depth == 1


async def test_closed_by_the_client() -> None:
    """All that it published before is taken, though nobody hears of it."""
    async with Broker(queues=["q"]) as broker, MethodPeer.over(broker.open_stream()) as peer:
        await opened(peer)
        publishes = b"".join(publish(peer, "", "q", b"%d" % n) for n in range(100))
        await peer.send_bytes(publishes + peer.method(1, ChannelClose(200)))
        await peer.expect(ChannelCloseOk, skip=(BasicAck,))
        await peer.send(0, ConnectionClose(200))
        await peer.expect(ConnectionCloseOk)
        assert broker.queue("q").depth == 100


async def test_our_own_client_goes_on() -> None:
    """The link ends that was at fault; the others of its connection do not."""
    async with Broker(queues=["q"]) as broker, Connection(broker.url, dialect="0-9-1") as connection:
        async with connection.sender("q") as good:
            async with connection.sender(None) as bad:
                deliveries = []
                for to in ("/queues/q", "/exchanges/nowhere/key", "/queues/q"):
                    deliveries.append(await bad.submit(Message(b"m", to=to)))
                with pytest.raises(LinkDetached, match="not-found"):
                    await deliveries[1].outcome()
            await good.send(b"fine")
        assert connection.open
