"""Between a recover and its answer all that is out is the peer's already: whatever would be said of it is an error."""

from __future__ import annotations

import anyio
import pytest

from amqp10 import Connection
from amqp10.amqp091 import Native
from amqp10.broker import Broker
from amqp10.dialects.v0_9 import Recover
from amqp10.dialects.v0_9.wire.methods import BasicAck, BasicRecover, BasicRecoverOk, TxCommit, TxSelect
from amqp10.engine import DeliveriesUnresumed
from amqp10.errors import StaleDelivery, TransactionRolledBack
from amqp10.messaging import ACCEPTED, RELEASED, DeliveryState, TransactionalState

from ....kit.dialects.v0_9.client_engine import CAN, hear, opened, said
from ....kit.dialects.v0_9.consumer import consuming, deliver, deliver_all, receiving
from ....kit.dialects.v0_9.coordinator import coordinating, declare, discharge, why_rolled_back
from ....kit.dialects.v0_9.method_peer import channel_of


@pytest.mark.parametrize("state", [ACCEPTED, RELEASED])
def test_an_outcome_meanwhile(state: DeliveryState) -> None:
    """It is not said, and its delivery is one of those that come again; what is given after them is."""
    engine = opened(**CAN)
    link, tag = consuming(engine, 5)
    deliver(engine, tag, 1, 2, 3)
    first, second, third = list(link.incoming)
    link.incoming.clear()
    link.settle(first, ACCEPTED)
    assert said(engine) == [BasicAck(1)]
    pending = link.session.request(Recover(link))
    assert said(engine) == [BasicRecover(True)]
    link.settle(second, state)
    assert not link.settle_like_last(third.delivery_id, third.tag, state)
    link.settle(third, state)
    assert said(engine) == []
    events = hear(engine, 1, BasicRecoverOk())
    (lost,) = [event for event in events if isinstance(event, DeliveriesUnresumed)]
    assert list(lost.deliveries) == [second, third]
    assert pending.answered
    deliver(engine, tag, 4, 5)
    for delivery in link.incoming:
        link.settle(delivery, ACCEPTED)
    assert [each for each in said(engine) if isinstance(each, BasicAck)] == [BasicAck(5, True)]


@pytest.mark.parametrize("runs", [True, False])
def test_what_comes_settled_meanwhile(runs: bool) -> None:
    """It comes again, so it is not handed out twice, and no ack is said of it."""
    engine = opened(**CAN)
    link = receiving(engine, 2, settle_mode="settled")
    channel_of(link).has_runs = runs
    said(engine)
    link.session.request(Recover(link))
    assert said(engine) == [BasicRecover(True)]
    deliver_all(engine, link, *range(3, 9))
    assert said(engine) == []
    hear(engine, 1, BasicRecoverOk())
    deliver_all(engine, link, 9, 10)
    link.materialize(10)
    assert [delivery.delivery_id for delivery in link.incoming] == [1, 2, 9, 10]
    assert [each for each in said(engine) if isinstance(each, BasicAck)] == [BasicAck(10, True)]


@pytest.mark.parametrize("answered", [True, False])
@pytest.mark.parametrize("fail", [True, False])
def test_a_transaction_over_it(answered: bool, fail: bool) -> None:
    """The peer has the deliveries of the transaction again: it is rolled back, and they are not settled."""
    engine = opened(**CAN)
    link, tag = consuming(engine, 5)
    coordinator = coordinating(engine, link)
    deliver(engine, tag, 1, 2)
    txn_id = declare(coordinator)
    for delivery in link.incoming:
        link.settle(delivery, TransactionalState(txn_id, ACCEPTED))
    link.session.request(Recover(link))
    if answered:
        hear(engine, 1, BasicRecoverOk())
    said(engine)
    outcome = discharge(coordinator, txn_id, fail=fail)
    assert said(engine) == []
    if fail:
        assert outcome.remote_state is ACCEPTED
    else:
        assert "by a recover" in why_rolled_back(outcome)
    if not answered:
        hear(engine, 1, BasicRecoverOk())
    deliver(engine, tag, 3)
    txn_id = declare(coordinator)
    link.settle(link.incoming[-1], TransactionalState(txn_id, ACCEPTED))
    discharge(coordinator, txn_id)
    assert [type(each) for each in said(engine)] == [TxSelect, BasicAck, TxCommit]


@pytest.mark.anyio
async def test_a_reader_beside_it() -> None:
    """A task that takes and accepts while another one recovers keeps its link, and gets all messages again."""
    async with Broker() as broker, Connection(broker.url, dialect="0-9-1") as connection:
        async with connection.sender("q") as sender, connection.receiver("q") as receiver:
            assert await sender.send_many(map(str, range(5))) == 5
            early = await receiver.receive()

            async def read() -> None:
                for _ in range(4):
                    (await receiver.receive()).accept()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(Native(connection).recover, receiver)
                tasks.start_soon(read)
            with pytest.raises(StaleDelivery):
                early.accept()
            again = set()
            with anyio.fail_after(60):
                while "0" not in again:  # the others too, where the recover went out before they were accepted
                    delivery = await receiver.receive()
                    again.add(delivery.message.body)
                    delivery.accept()
            await sender.send("last")
            with anyio.fail_after(60):
                while (await receiver.receive()).message.body != "last":
                    pass


@pytest.mark.anyio
async def test_the_transaction_of_a_program() -> None:
    """It learns that nothing of it was done, and its messages come again."""
    async with Broker() as broker, Connection(broker.url, dialect="0-9-1") as connection:
        async with connection.sender("q") as sender, connection.receiver("q") as receiver:
            await sender.send("m")
            delivery = await receiver.receive()
            with pytest.raises(TransactionRolledBack, match="by a recover"):
                async with connection.transaction() as transaction:
                    delivery.accept(transaction=transaction)
                    await Native(connection).recover(receiver)
            with anyio.fail_after(60):
                again = await receiver.receive()
            async with connection.transaction() as transaction:
                again.accept(transaction=transaction)
