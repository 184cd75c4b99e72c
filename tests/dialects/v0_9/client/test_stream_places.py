"""Where in a stream the next consumer begins, whatever else came on the channel, and when nothing came."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from amqp10 import Connection, MessageReleased
from amqp10.broker import Broker
from amqp10.dialects.v0_9.message.streams import OFFSET
from amqp10.dialects.v0_9.wire.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicQosOk,
    BasicReturn,
    ChannelOpenOk,
    ConfirmSelectOk,
    QueueDeclareOk,
    TxCommitOk,
    TxSelectOk,
)
from amqp10.dialects.v0_9.wire.properties import BasicProperties
from amqp10.dialects.v0_9.wire.variant import V0_9_1
from amqp10.engine import Engine, LinkTerms
from amqp10.messaging import ACCEPTED, Message, Returned, Source, StreamOffset, Target, TransactionalState

from ....kit.dialects.v0_9.client_engine import CAN, DIALECTS, frames, hear, opened, said
from ....kit.dialects.v0_9.consumer import consuming, deliver
from ....kit.dialects.v0_9.coordinator import coordinating, declare, discharge
from ....kit.dialects.v0_9.method_peer import channel_of
from ....kit.dialects.v0_9.runs import PLACES, receiver, stream
from ....kit.parents import session_of


def begins_at(engine: Engine) -> list[Any]:
    """The arguments of the consumers that were asked for since."""
    return [each.arguments for each in said(engine) if isinstance(each, BasicConsume)]


@pytest.mark.parametrize("place", [None, 7])
def test_what_came_back_is_no_place(place: int | None) -> None:
    """A transaction accepts what a stream's reader has, and one of its messages is returned: the reader goes on."""
    engine = opened(**CAN)
    link, tag = consuming(engine, 5)
    sender = session_of(link).attach_sender(LinkTerms("s", Source(), Target("q")))
    hear(engine, 2, ChannelOpenOk(), QueueDeclareOk("q"), ConfirmSelectOk())
    coordinator = coordinating(engine, link)
    deliver(engine, tag, 1, 2, 3, offset=100)
    txn_id = declare(coordinator)
    published = sender.send(Message(b"m").encode(), state=TransactionalState(txn_id))
    for delivery in link.incoming:
        link.settle(delivery, TransactionalState(txn_id, ACCEPTED))
    outcome = discharge(coordinator, txn_id)
    back = V0_9_1.framing.frame(1, 1, V0_9_1.methods.encode(BasicReturn(312, "no", "", "q")))
    properties = BasicProperties(headers=None if place is None else {OFFSET: place}).encode(V0_9_1.tables)
    hear(engine, 1, TxSelectOk())
    engine.receive_data(back + V0_9_1.framing.message(1, 60, properties, b"m", 4096))
    hear(engine, 1, TxCommitOk())
    assert isinstance(outcome.remote_state, Returned)
    assert isinstance(published.remote_state, TransactionalState)
    link.flow(2, drain=True)
    assert BasicCancel(tag) in said(engine)
    hear(engine, 1, BasicCancelOk(tag))
    link.flow(5)
    assert begins_at(engine) == [{OFFSET: 104}]


@pytest.mark.parametrize("runs", [True, False])
def test_a_consumer_to_which_nothing_came(runs: bool) -> None:
    """Drained before anything came to it: the next one begins where it did, with what the one before gave back."""
    engine, link = receiver(*DIALECTS[0], 20, "mixed")
    channel_of(link).has_runs = runs
    link.refills = False
    engine.receive_data(stream(V0_9_1, [(35, False, "q", PLACES, 5)]))  # 15 beyond the credit: they go back
    engine.receive_data(frames(V0_9_1, 1, BasicCancelOk("r")))
    said(engine)
    for tag in ("r.2", "r.3"):
        link.flow(10)
        assert begins_at(engine) == [{OFFSET: 1021}]
        link.flow(10, drain=True)
        engine.receive_data(frames(V0_9_1, 1, BasicQosOk(), BasicConsumeOk(tag)))
        assert said(engine) == [BasicCancel(tag)]
        engine.receive_data(frames(V0_9_1, 1, BasicCancelOk(tag)))
        assert said(engine) == []


@pytest.mark.anyio
@pytest.mark.parametrize("start", ["first", "next"])
async def test_read_on_after_a_return(start: str) -> None:
    """Of a stream of the embedded broker each message is read once, though a transaction in between is refused."""
    async with (
        Broker(queues={"s": {"x-queue-type": "stream"}}) as broker,
        Connection(broker.url, dialect="0-9-1") as connection,
        connection.sender("/queues/s") as sender,
        connection.sender("/exchanges/amq.direct/nobody") as nowhere,
        connection.receiver(Source("/queues/s", filters=[StreamOffset(start)]), credit=0) as receiver,
    ):
        receiver.add_credit(5)
        with anyio.fail_after(60):
            while not broker.queue("s").consumers:  # noqa: ASYNC110 - of a consumer there is no event here
                await anyio.sleep(0.001)
            await sender.send_many([b"0", b"1", b"2"])
            deliveries = [await receiver.receive() for _ in range(3)]
            with pytest.raises(MessageReleased):
                async with connection.transaction() as transaction:
                    await nowhere.submit(b"for nobody", transaction=transaction)
                    for delivery in deliveries:
                        delivery.accept(transaction=transaction)
            await receiver.drain()
            await sender.send_many([b"3", b"4", b"5"])
            receiver.add_credit(3)
            deliveries += [await receiver.receive() for _ in range(3)]
        assert [each.message.body for each in deliveries] == [b"%d" % number for number in range(6)]
