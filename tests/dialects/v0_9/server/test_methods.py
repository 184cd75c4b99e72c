"""A server of 0-9-1, octet by octet, as a client hears the embedded broker: order, limits, refusals, transactions."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.dialects.v0_9.server.sender import ServerSender
from amqp10.dialects.v0_9.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverOk,
    BasicReject,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
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


async def until_end(peer: MethodPeer) -> list[Any]:
    """All that comes before the answer to `END`."""
    await peer.send(1, END)
    found = []
    while not isinstance(method := await peer.next_method(), QueueDeclareOk):
        found.append(method)
    return found


async def publish(peer: MethodPeer, key: str, body: bytes = b"m", *, mandatory: bool = False, **said: Any) -> None:
    await peer.send(1, BasicPublish(routing_key=key, mandatory=mandatory))
    await peer.send_bytes(peer.content(1, body, **said))


async def depth(peer: MethodPeer) -> int:
    await peer.send(1, END)
    return (await peer.expect(QueueDeclareOk)).message_count


async def refused(peer: MethodPeer, code: int) -> None:
    assert (await peer.expect(ChannelClose)).reply_code == code


# Consuming


async def test_tags_are_one_consumers_own() -> None:
    """Another consumer of the same tag ends the connection, as it does at RabbitMQ."""
    async with broker() as (_, peer):
        await consume(peer, consumer_tag="t")
        await peer.send(1, BasicConsume(queue="q", consumer_tag="t"))
        assert (await peer.expect(ConnectionClose)).reply_code == 530


async def test_a_limit_for_all_consumers() -> None:
    """basic.qos global: together they have no more out than that."""
    async with broker(5) as (_, peer):
        await peer.send(1, BasicQos(prefetch_count=3, global_=True))
        await peer.expect(BasicQosOk)
        await peer.send(1, BasicConsume(queue="q", consumer_tag="a"), BasicConsume(queue="q", consumer_tag="b"))
        got = [each for each in await until_end(peer) if isinstance(each, BasicDeliver)]
        assert len(got) == 3
        await peer.send(1, BasicAck(2, True))
        got += [each for each in await until_end(peer) if isinstance(each, BasicDeliver)]
        assert [each.delivery_tag for each in got] == [1, 2, 3, 4, 5]


async def test_a_client_that_wants_no_content() -> None:
    """channel.flow: nothing is delivered until it is wanted again."""
    async with broker(2) as (_, peer):
        await peer.send(1, ChannelFlow(False))
        assert (await peer.expect(ChannelFlowOk)).active is False
        await consume(peer)
        assert await until_end(peer) == []
        await peer.send(1, ChannelFlow(True))
        await peer.expect(ChannelFlowOk)
        assert [each.delivery_tag for each in await until_end(peer)] == [1, 2]


async def test_how_many_are_left() -> None:
    """basic.get says how many more there are; and that there is none."""
    async with broker(2) as (_, peer):
        for left in (1, 0):
            await peer.send(1, BasicGet(queue="q", no_ack=True))
            assert (await peer.expect(BasicGetOk)).message_count == left
        await peer.send(1, BasicGet(queue="q"))
        await peer.expect(BasicGetEmpty)


@pytest.mark.parametrize("multiple", [False, True])
async def test_acks_of_nothing(multiple: bool) -> None:
    """An ack of what is not out ends the channel with 406; of everything (0), never."""
    async with broker(1) as (_, peer):
        await consume(peer)
        await peer.expect(BasicDeliver)
        await peer.send(1, BasicAck(0, True), BasicAck(0, True))
        assert await depth(peer) == 0
        await peer.send(1, BasicAck(1, multiple))
        await refused(peer, 406)


async def test_what_is_given_back() -> None:
    """Nacked or rejected with requeue, or recovered, it comes again, marked so; without requeue it does not."""
    async with broker(1) as (_, peer):
        await consume(peer)
        assert (await peer.expect(BasicDeliver)).redelivered is False
        for number, method in enumerate(
            (BasicNack(1, requeue=True), BasicReject(2, requeue=True), BasicRecover(requeue=True)), 2
        ):
            await peer.send(1, method)
            again = await peer.expect(BasicDeliver, skip=(BasicRecoverOk,))
            assert (again.delivery_tag, again.redelivered) == (number, True)
        await peer.send(1, BasicNack(4, requeue=False))
        assert [each for each in await until_end(peer) if isinstance(each, BasicDeliver)] == []


async def test_the_end_of_a_queue() -> None:
    """A client that understands a cancel gets one; a client that did not announce that gets none."""
    async with broker() as (_, peer):
        await consume(peer)
        await peer.send(1, QueueDelete(queue="q"))
        await peer.expect(QueueDeleteOk, skip=())
        assert not peer.bodies


async def test_cancelled() -> None:
    """Nothing comes any more; what is out can still be acked."""
    async with broker(3) as (_, peer):
        tag = await consume(peer, 1)
        await peer.expect(BasicDeliver)
        await peer.send(1, BasicCancel(tag))
        await peer.expect(BasicCancelOk)
        await peer.send(1, BasicAck(1))
        assert await until_end(peer) == []
        assert await depth(peer) == 2


async def test_the_queue_of_another_connection() -> None:
    """405, and the channel ends, not the connection."""
    async with broker() as (running, peer), running.connect(dialect="0-9-1") as other:
        queue = await other.native.declare_queue("", exclusive=True)
        await peer.send(1, BasicConsume(queue=queue.name))
        await refused(peer, 405)
        await peer.open_channel(2)


# Publishing


async def test_confirms_count_from_their_beginning() -> None:
    """A message that was published before confirms were requested has no number."""
    async with broker() as (_, peer):
        await publish(peer, "q")
        await peer.send(1, ConfirmSelect())
        await peer.expect(ConfirmSelectOk)
        await publish(peer, "q")
        assert (await peer.expect(BasicAck)).delivery_tag == 1


async def test_immediate_is_not_there() -> None:
    """Nobody has it any more: 540, and the connection ends."""
    async with broker() as (_, peer):
        await peer.send(1, BasicPublish(routing_key="q", immediate=True))
        assert (await peer.expect(ConnectionClose)).reply_code == 540


async def test_copies_for_nobody_to_see() -> None:
    """BCC sends copies, and is not passed on; CC is."""
    async with broker() as (running, peer):
        await peer.send(1, QueueDeclare(queue="copies"))
        await peer.expect(QueueDeclareOk)
        await publish(peer, "q", headers={"BCC": ["copies"], "CC": ["copies"], "n": 1})
        assert await depth(peer) == 1
        async with running.connect(dialect="0-9-1") as connection, connection.receiver("copies") as receiver:
            with await receiver.receive() as message:
                assert "BCC" not in str(message.message_annotations)
                assert "CC" in str(message.message_annotations)


async def test_replies_for_nobody() -> None:
    """A request that asks for direct replies on a channel without their consumer is refused, as at RabbitMQ."""
    async with broker() as (_, peer):
        await publish(peer, "q", reply_to="amq.rabbitmq.reply-to.of-another")
        assert await depth(peer) == 1
        await publish(peer, "q", headers={"n": "amq.rabbitmq.reply-to"})
        assert await depth(peer) == 2
        await publish(peer, "q", reply_to="amq.rabbitmq.reply-to")
        await refused(peer, 406)


async def test_no_queue_is_named() -> None:
    """Without a name the queue that was declared last is meant; and 404 where none was."""
    async with broker() as (_, peer):
        await peer.send(1, QueueDeclare())
        name = (await peer.expect(QueueDeclareOk)).queue
        await publish(peer, name)
        await peer.send(1, BasicGet(no_ack=True))
        assert (await peer.expect(BasicGetOk)).routing_key == name
        await peer.open_channel(2)
        await peer.send(2, BasicGet())
        await refused(peer, 404)


# Transactions


async def test_either_confirms_or_transactions() -> None:
    """406 for the one after the other, in both orders."""
    async with broker() as (_, peer):
        await peer.send(1, ConfirmSelect(), TxSelect())
        await peer.expect(ConfirmSelectOk)
        await refused(peer, 406)
        await peer.open_channel(2)
        await peer.send(2, TxSelect(), ConfirmSelect())
        await peer.expect(TxSelectOk)
        await refused(peer, 406)


@pytest.mark.parametrize("commits", [True, False])
async def test_returns_come_with_the_commit(commits: bool) -> None:
    """A message that no queue takes comes back before tx.commit-ok; a rolled back one does not come back."""
    async with broker() as (_, peer):
        await peer.send(1, TxSelect())
        await peer.expect(TxSelectOk)
        await publish(peer, "nowhere", mandatory=True)
        assert await until_end(peer) == []
        await peer.send(1, TxCommit() if commits else TxRollback())
        if commits:
            assert (await peer.expect(BasicReturn)).reply_code == 312
        await peer.expect(TxCommitOk if commits else TxRollbackOk)
        assert await until_end(peer) == []


async def test_acks_that_are_rolled_back() -> None:
    """They were never said: the same delivery can be acked again, and with the commit it is."""
    async with broker(1) as (running, peer):
        await consume(peer)
        await peer.expect(BasicDeliver)
        await peer.send(1, TxSelect())
        await peer.expect(TxSelectOk)
        for method, answer in ((TxRollback(), TxRollbackOk), (TxCommit(), TxCommitOk)):
            await peer.send(1, BasicAck(1), method)
            await peer.expect(answer)
            await peer.send(1, END)
            await peer.expect(QueueDeclareOk)
            assert running.queue("q").depth == (0 if answer is TxCommitOk else 1)


async def test_a_commit_that_is_refused() -> None:
    """It ends the channel with 406, and undoes the acks, too: what they were of is there again."""
    async with broker(1) as (_, peer):
        full = {"x-max-length": 1, "x-overflow": "reject-publish"}
        await peer.send(1, QueueDeclare(queue="full", arguments=full))
        await peer.expect(QueueDeclareOk)
        await consume(peer)
        await peer.expect(BasicDeliver)
        await peer.send(1, TxSelect())
        await peer.expect(TxSelectOk)
        await publish(peer, "full")
        await publish(peer, "full")
        await peer.send(1, BasicAck(1), TxCommit())
        await refused(peer, 406)
        await peer.send(1, ChannelCloseOk())
        await peer.open_channel(2)
        for queue, there in (("q", 1), ("full", 0)):
            await peer.send(2, QueueDeclare(queue=queue, passive=True))
            assert (await peer.expect(QueueDeclareOk)).message_count == there


async def test_acks_behind_a_select_that_waits() -> None:
    """They are part of the transaction, though acks go past other methods that wait for an answer."""
    async with broker(1) as (running, peer):
        await consume(peer)
        await peer.expect(BasicDeliver)
        await peer.send(1, QueueDeclare(queue="other"), TxSelect(), BasicAck(1), TxRollback())
        await peer.expect(TxRollbackOk, skip=(QueueDeclareOk, TxSelectOk))
        assert running.queue("q").depth == 1


async def test_a_return_of_before_the_transaction() -> None:
    """It comes at once, and not at the commit of what was begun meanwhile."""
    async with broker() as (_, peer):
        publishing = peer.method(1, BasicPublish(routing_key="nowhere", mandatory=True)) + peer.content(1, b"m")
        await peer.send_bytes(publishing + peer.method(1, TxSelect()) + peer.method(1, TxRollback()))
        await peer.expect(BasicReturn, skip=(TxSelectOk,))
        await peer.expect(TxRollbackOk, skip=(TxSelectOk,))


async def test_limit_of_all_consumers(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more are out to all consumers of a channel than they share; a flood of methods looks at each consumer once."""
    looked = 0
    admit = ServerSender.admit

    def counted(link: ServerSender) -> None:
        nonlocal looked
        looked += 1
        admit(link)

    async with broker(messages=4) as (_, peer):
        await peer.send(1, BasicQos(prefetch_count=2, global_=True))
        await peer.expect(BasicQosOk)
        await peer.send(1, *[BasicConsume(queue="q")] * 3)
        for number in (1, 2):
            assert (await peer.expect(BasicDeliver, skip=(BasicConsumeOk,))).delivery_tag == number
        assert {type(each) for each in await until_end(peer)} <= {BasicConsumeOk}
        monkeypatch.setattr(ServerSender, "admit", counted)
        flood = [ChannelFlow(active=False), ChannelFlow(active=True), BasicQos(prefetch_count=2, global_=True)] * 50
        await peer.send(1, *flood, BasicAck(1))
        assert (await peer.expect(BasicDeliver, skip=(ChannelFlowOk, BasicQosOk))).delivery_tag == 3
        assert await until_end(peer) == []
        assert looked <= 4 * 3
