"""What a server makes of acks in a transaction that is not committed: they were never said, however it ends."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import anyio
import pytest

from amqp10.broker import Broker
from amqp10.dialects.v0_9.wire.method_table import Method
from amqp10.dialects.v0_9.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ConnectionClose,
    ConnectionCloseOk,
    QueueDeclare,
    QueueDeclareOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)

from ....kit.dialects.v0_9.broker_client import END, broker, consume
from ....kit.dialects.v0_9.method_peer import MethodPeer

pytestmark = pytest.mark.anyio

WORDS: dict[str, Method] = {
    "ack": BasicAck(2, multiple=True),
    "reject": BasicReject(1, requeue=False),
    "nack": BasicNack(2, multiple=True, requeue=False),
}


async def close_channel(peer: MethodPeer) -> None:
    await peer.send(1, ChannelClose(200, "", 0, 0))
    await peer.expect(ChannelCloseOk)


async def close_connection(peer: MethodPeer) -> None:
    await peer.send(0, ConnectionClose(200, "", 0, 0))
    await peer.expect(ConnectionCloseOk)


async def break_a_rule(peer: MethodPeer) -> None:
    await peer.send(1, QueueDeclare(queue="nowhere", passive=True))
    assert (await peer.expect(ChannelClose)).reply_code == 404


async def vanish(peer: MethodPeer) -> None:
    await peer.hang_up()


ENDS: list[Callable[[MethodPeer], Awaitable[None]]] = [close_channel, close_connection, break_a_rule, vanish]


async def take(peer: MethodPeer, how: str) -> str:
    """Receive the two messages of the queue in a transaction; the consumer's tag."""
    await peer.send(1, TxSelect())
    await peer.expect(TxSelectOk)
    if how == "get":
        for _ in range(2):
            await peer.send(1, BasicGet(queue="q"))
            await peer.expect(BasicGetOk)
        return ""
    tag = await consume(peer)
    for _ in range(2):
        await peer.expect(BasicDeliver)
    return tag


async def all_back(running: Broker) -> None:
    """Both messages can be received again, by whoever asks."""
    with anyio.fail_after(60):
        async with running.connect() as connection, connection.receiver("q") as receiver:
            for number in range(2):
                assert (await receiver.receive()).message.body == b"%d" % number
        assert running.queue("q").depth == 2


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("how", ["get", "consume", "cancelled"])
async def test_not_committed(how: str, word: str, end: Callable[[MethodPeer], Awaitable[None]]) -> None:
    """The channel or the connection ends before the commit."""
    async with broker(2) as (running, peer):
        tag = await take(peer, how)
        await peer.send(1, WORDS[word])
        if how == "cancelled":
            await peer.send(1, BasicCancel(tag))
            await peer.expect(BasicCancelOk)
        await end(peer)
        await all_back(running)


@pytest.mark.parametrize("end", ENDS)
async def test_expired(end: Callable[[MethodPeer], Awaitable[None]]) -> None:
    """The broker has rolled it back already, for it took too long."""
    async with broker(2) as (running, peer):
        await take(peer, "consume")
        await peer.send(1, WORDS["ack"], END)
        await peer.expect(QueueDeclareOk)  # the ack was acted on
        running._hosts.usual.transactions.expire(math.inf)
        await end(peer)
        await all_back(running)


@pytest.mark.parametrize("how", ["get", "cancelled"])
@pytest.mark.parametrize("commits", [True, False])
async def test_of_a_consumer_that_is_cancelled(how: str, commits: bool) -> None:
    """Its acks can be said again after a rollback; its link is over with the commit."""
    async with broker(2) as (running, peer):
        tag = await take(peer, how)
        await peer.send(1, WORDS["ack"])
        if how == "cancelled":
            await peer.send(1, BasicCancel(tag))
            await peer.expect(BasicCancelOk)
        if not commits:
            await peer.send(1, TxRollback())
            await peer.expect(TxRollbackOk)
            await peer.send(1, WORDS["ack"])
        await peer.send(1, TxCommit())
        await peer.expect(TxCommitOk)
        await peer.send(1, END)
        facts = await peer.expect(QueueDeclareOk)
        assert (facts.message_count, facts.consumer_count, running.queue("q").depth) == (0, 0, 0)


async def test_rolled_back_and_settled_with_others() -> None:
    """An ack that was rolled back is said again by one for all up to a later delivery."""
    async with broker(messages=2) as (running, peer):
        await take(peer, "consume")
        for word in (BasicAck(1), TxRollback(), BasicAck(2, multiple=True), TxCommit()):
            await peer.send(1, word)
        await peer.expect(TxRollbackOk)
        await peer.expect(TxCommitOk)
        assert running.queue("q").depth == 0
