"""A client of the broker that says one method after the other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from amqp10 import Message
from amqp10.broker import Broker
from amqp10.dialects.v0_9.wire.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    BasicQosOk,
    QueueDeclare,
)

from .method_peer import MethodPeer

END = QueueDeclare(queue="q", passive=True)
"""What has an answer, behind all that was said before."""


@asynccontextmanager
async def broker(messages: int = 0) -> AsyncIterator[tuple[Broker, MethodPeer]]:
    """A broker with so many messages in its queue q, and a client with channel 1."""
    async with Broker(host=None, queues=["q"]) as running:
        async with running.connect() as connection, connection.sender("q") as sender:
            for number in range(messages):
                await sender.send(Message(b"%d" % number))
        async with MethodPeer.over(running.open_stream()) as peer:
            await peer.open_connection()
            await peer.open_channel(1)
            yield running, peer


async def consume(peer: MethodPeer, prefetch: int = 0, **options: Any) -> str:
    if prefetch:
        await peer.send(1, BasicQos(prefetch_count=prefetch))
        await peer.expect(BasicQosOk)
    await peer.send(1, BasicConsume(queue="q", **options))
    return (await peer.expect(BasicConsumeOk)).consumer_tag
