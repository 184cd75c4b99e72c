"""Transactions on the embedded broker, and against coordinators that refuse, die and stay silent."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from amqp10 import (
    ConnectionLost,
    LinkDetached,
    LocalProtocolError,
    Message,
    TransactionError,
    TransactionInDoubt,
    TransactionRolledBack,
)
from amqp10.messaging import AmqpValue, Declare, Declared, Discharge, Error, Rejected, TransactionalState
from amqp10.testing import Detach, Disposition, Flow, Transfer
from amqp10.types import Symbol, as_composite

from ...kit.client.cancelling import CancelAt, at_each_checkpoint
from ...kit.client.coordinating import answer, broker_and_connection, connected, coordinate
from ...kit.client.memory_peer import MemoryPeer

pytestmark = [pytest.mark.anyio, pytest.mark.capability("transactions")]


async def test_commit() -> None:
    """Sends and outcomes count when the block is left, all at once."""
    async with broker_and_connection() as (broker, connection):
        async with connection.sender("in") as sender:
            await sender.send_many(range(3))
        async with connection.receiver("in") as receiver, connection.sender("out") as sender:
            async with connection.transaction() as transaction:
                for _ in range(3):
                    delivery = await receiver.receive()
                    await sender.send(delivery.message.body, transaction=transaction)
                    delivery.accept(transaction=transaction)
                assert (broker.queue("in").depth, broker.queue("out").depth) == (3, 0)
            assert (broker.queue("in").depth, broker.queue("out").depth) == (0, 3)
            assert not transaction.active


@pytest.mark.parametrize("how", ["exception", "cancellation", "by hand"])
async def test_rollback(how: str) -> None:
    """However the block is left but in order, nothing of it happened; what was consumed counts a failed attempt."""
    async with broker_and_connection() as (broker, connection):
        async with connection.sender("in") as sender:
            await sender.send("kept")
        async with connection.receiver("in") as receiver, connection.sender("out") as sender:

            async def work() -> None:
                async with connection.transaction() as transaction:
                    await sender.send_many(range(5), transaction=transaction)
                    (await receiver.receive()).accept(transaction=transaction)
                    if how == "exception":
                        raise KeyError
                    if how == "cancellation":
                        scope.cancel()
                        await anyio.lowlevel.checkpoint()
                    await transaction.rollback()
                    await transaction.rollback()  # again, and nothing happens

            with anyio.CancelScope() as scope:
                if how == "exception":
                    with pytest.raises(KeyError):
                        await work()
                else:
                    await work()
            assert broker.queue("out").depth == 0
            with await receiver.receive() as message:
                assert (message.body, message.delivery_count) == ("kept", 1)


async def test_every_outcome() -> None:
    """Rejected, released and modified are said in a transaction as well."""
    async with broker_and_connection() as (broker, connection):
        async with connection.sender("q") as sender, connection.receiver("q") as receiver:
            await sender.send_many(["reject", "release", "modify"])
            async with connection.transaction() as transaction:
                deliveries = [await receiver.receive() for _ in range(3)]
                deliveries[0].reject("test:no", transaction=transaction)
                deliveries[1].release(transaction=transaction)
                deliveries[2].modify(delivery_failed=True, transaction=transaction)
            again = [await receiver.receive() for _ in range(2)]
            assert [(each.message.body, each.message.delivery_count or 0) for each in again] == [
                ("release", 0),
                ("modify", 1),
            ]
            assert broker.queue("dead-letter").depth == 1


async def test_acquired_in_a_transaction() -> None:
    """Messages on credit of a transaction go back to the broker after a rollback, and are ours after a commit."""
    async with broker_and_connection() as (broker, connection):
        async with connection.sender("q") as sender:
            await sender.send_many(range(4))
        async with connection.receiver("q", credit=0) as receiver:
            async with connection.transaction() as transaction:
                receiver.add_credit(2, transaction=transaction)
                got = [await receiver.receive() for _ in range(2)]
                assert {type(delivery.remote_state) for delivery in got} == {TransactionalState}
                await transaction.rollback()
            receiver.add_credit(4)
            again = [await receiver.receive() for _ in range(4)]
            assert [delivery.message.body for delivery in again] == [0, 1, 2, 3]
            for delivery in again:
                delivery.accept()
        assert broker.queue("q").depth == 0


async def test_over_or_elsewhere() -> None:
    """Work in a transaction that is over, or on another connection, is a mistake; nothing is sent."""
    async with broker_and_connection() as (broker, connection), broker.connect() as second:
        async with connection.sender("q") as sender, connection.session() as session, second.sender("q") as stranger:
            async with connection.transaction() as transaction:
                with pytest.raises(LocalProtocolError, match="different connections"):
                    await stranger.send("x", transaction=transaction)
            with pytest.raises(LocalProtocolError, match="not active"):
                await sender.send("x", transaction=transaction)
            with pytest.raises(LocalProtocolError, match="over"):
                await transaction.commit()
            with pytest.raises(LocalProtocolError, match="once"):
                async with transaction:
                    pass
            async with session.transaction() as own, session.sender("q") as other:
                await other.send("x", transaction=own)
        assert broker.queue("q").depth == 1


async def test_full_queue() -> None:
    """Messages of open transactions take up room in the queue: nobody gets credit for it twice, nothing is lost."""
    async with broker_and_connection(max_queue_messages=10, credit=10) as (broker, connection):
        async with connection.sender("q") as sender:
            async with connection.transaction() as transaction:
                for number in range(10):
                    await sender.send(number, transaction=transaction)
                with anyio.move_on_after(0.1) as scope:
                    await sender.send("one too many")
                assert scope.cancelled_caught
                await transaction.rollback()
            await sender.send_many(range(10))
        assert broker.queue("q").depth == 10


async def test_many_transactions_share_the_coordinator_link() -> None:
    """Transactions of many tasks, one after the other and at once, use one link and leave nothing behind."""
    async with broker_and_connection() as (broker, connection), connection.sender("q") as sender:

        async def work(number: int) -> None:
            async with connection.transaction() as transaction:
                await sender.send(number, transaction=transaction)
                if number % 3 == 0:
                    await transaction.rollback()

        async with anyio.create_task_group() as tasks:
            for number in range(30):
                tasks.start_soon(work, number)
        assert broker.queue("q").depth == 20
        assert connection._core._default is not None
        assert len(connection._core._default._senders) == 2


# Coordinators that do not do as they should


@pytest.mark.in_memory
async def test_no_coordinator(memory_peer: MemoryPeer) -> None:
    """A peer without transactions says so when the first one is declared."""

    async def serve() -> None:
        await memory_peer.accept_connection()
        await memory_peer.accept_session()
        link = await memory_peer.accept_link(target=None)
        error = Error(Symbol("amqp:not-implemented"), "no transactions here")
        await memory_peer.send(Detach(handle=link.handle, closed=True, error=error))
        await memory_peer.expect(Detach)
        await memory_peer.accept_close()

    async with connected(memory_peer, serve) as connection:
        with pytest.raises(LinkDetached, match="no transactions here"):
            async with connection.transaction():
                pass


@pytest.mark.in_memory
async def test_declare_refused(memory_peer: MemoryPeer) -> None:
    """A coordinator that declares none gives its reason."""

    async def serve() -> None:
        await coordinate(memory_peer)
        await answer(memory_peer, 0, Declare, Rejected(Error(Symbol("amqp:transaction:timeout"), "too many")))
        await memory_peer.accept_close()

    async with connected(memory_peer, serve) as connection:
        with pytest.raises(TransactionError, match="too many") as caught:
            async with connection.transaction():
                pass
        assert caught.value.condition == "amqp:transaction:timeout"


@pytest.mark.in_memory
async def test_commit_refused(memory_peer: MemoryPeer) -> None:
    """A commit that the coordinator refuses is a rollback, with its reason."""

    async def serve() -> None:
        await coordinate(memory_peer)
        await answer(memory_peer, 0, Declare, Declared(b"t"))
        await answer(memory_peer, 1, Discharge, Rejected(Error(Symbol("amqp:transaction:rollback"), "conflict")))
        await memory_peer.accept_close()

    async with connected(memory_peer, serve) as connection:
        with pytest.raises(TransactionRolledBack, match="conflict"):
            async with connection.transaction() as transaction:
                assert transaction.id == b"t"


@pytest.mark.in_memory
async def test_in_doubt(memory_peer: MemoryPeer) -> None:
    """A connection that dies with the answer to a commit leaves it in doubt."""

    async def serve() -> None:
        await coordinate(memory_peer)
        await answer(memory_peer, 0, Declare, Declared(b"t"))
        await memory_peer.expect(Transfer)
        await memory_peer.drop()

    async with connected(memory_peer, serve, close_timeout=0.1) as connection:
        with pytest.raises(TransactionInDoubt) as caught:
            async with connection.transaction() as transaction:
                pass
        assert transaction.state == "in-doubt"
        assert isinstance(caught.value.__cause__, ConnectionLost)


@pytest.mark.in_memory
async def test_lost_before_the_commit(memory_peer: MemoryPeer) -> None:
    """A connection that dies while there is work is a rollback, not a doubt."""

    async def serve() -> None:
        await coordinate(memory_peer)
        await answer(memory_peer, 0, Declare, Declared(b"t"))
        await memory_peer.drop()

    async with connected(memory_peer, serve, close_timeout=0.1) as connection:
        with pytest.raises(TransactionRolledBack):
            async with connection.transaction():
                await connection._core.until(lambda: connection._core.over)


@pytest.mark.in_memory
async def test_a_message_that_is_not_accepted(memory_peer: MemoryPeer) -> None:
    """A submitted message that is rejected rolls the transaction back: a commit is of everything or nothing."""

    async def serve() -> None:
        await memory_peer.accept_connection()
        await memory_peer.accept_session()
        await memory_peer.accept_link(credit=10)
        await memory_peer.accept_link(credit=10, handle=1)
        await answer(memory_peer, 0, Declare, Declared(b"t"))
        transfer = await memory_peer.expect(Transfer, handle=0)
        assert transfer.state == TransactionalState(b"t")
        refused = TransactionalState(b"t", Rejected(Error(Symbol("test:no"), "not this")))
        await memory_peer.send(Disposition(role=True, first=1, settled=True, state=refused))
        discharge = await memory_peer.expect_any(Transfer, skip=Flow)
        assert isinstance(discharge, Transfer)
        assert as_composite(Message.decode(memory_peer.payload).body) == Discharge(b"t", True)
        await memory_peer.drop()

    async with connected(memory_peer, serve, close_timeout=0.3) as connection:
        with pytest.raises(TransactionRolledBack, match="not this"):
            async with connection.sender("q") as sender, connection.transaction() as transaction:
                await sender.submit("x", transaction=transaction)


async def test_cancelled_at_each_checkpoint() -> None:
    """Declare, send, accept, commit, cut anywhere: all of it or nothing, no transaction left open, links usable."""

    async def trial(cancel: CancelAt) -> None:
        async with broker_and_connection() as (broker, connection):
            async with connection.sender("in") as first:
                await first.send("x")
            async with connection.receiver("in") as receiver, connection.sender("out") as sender:
                delivery = await receiver.receive()

                async def op() -> None:
                    async with connection.transaction() as transaction:
                        await sender.send("y", transaction=transaction)
                        delivery.accept(transaction=transaction)

                await cancel.run(op)
                depths = broker.queue("in").depth, broker.queue("out").depth
                assert depths in ((1, 0), (0, 1)), depths
                assert depths == (0, 1) or not cancel.finished
                async with connection.transaction() as transaction:
                    await sender.send("z", transaction=transaction)
                assert broker.queue("out").depth == depths[1] + 1

    await at_each_checkpoint(trial, 4)


async def test_values_on_the_wire() -> None:
    """A declare is an amqp-value section, as §4.2 says."""
    assert Message(AmqpValue(Declare())).encode() == b"\x00\x53\x77\x00\x53\x31\x45"
