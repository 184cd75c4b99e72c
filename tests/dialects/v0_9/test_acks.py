"""What is said of deliveries, merged: each once, counted where it belongs, and no dearer for one that is kept."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10 import Connection, Receiver
from amqp10.broker import Broker
from amqp10.dialects.v0_9.acks import ACCEPT, DISCARD, REQUEUE, AckBatcher, outcome
from amqp10.dialects.v0_9.states import ChannelState
from amqp10.dialects.v0_9.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicQosOk,
)
from amqp10.engine import Engine, ReceiverLink
from amqp10.messaging import ACCEPTED

from ...kit.dialects.v0_9.client_engine import CAN, hear, opened, said
from ...kit.dialects.v0_9.consumer import consuming, deliver


def accept(engine: Engine, link: ReceiverLink, *numbers: int) -> list[Any]:
    """All of these in one go; what is said of them."""
    for delivery in list(link.unsettled.values()):
        if delivery.delivery_id in numbers:
            link.settle(delivery, ACCEPTED)
    return said(engine)


def test_acks_of_two_consumers_in_one() -> None:
    """Of what is acked together, only the present consumer's makes room in its prefetch."""
    engine = opened(**CAN)
    link, tag = consuming(engine, 2, refills=True)
    deliver(engine, tag, 1, 2)
    link.flow(2)
    hear(engine, 1, BasicCancelOk(tag))
    (tag,) = [each.consumer_tag for each in said(engine) if isinstance(each, BasicConsume)]
    hear(engine, 1, BasicQosOk(), BasicConsumeOk(tag))
    deliver(engine, tag, 3, 4)
    assert accept(engine, link, 1, 2, 3) == [BasicAck(3, True)]
    link.flow(2)
    assert said(engine) == []
    deliver(engine, tag, 5)
    assert said(engine) == [
        BasicCancel(consumer_tag=tag)
    ]  # both that it may have are out, and there is credit for more


def test_acks_in_another_order_count_once() -> None:
    """Acks behind an open delivery are not counted again when that delivery is settled."""
    engine = opened(**CAN)
    link, tag = consuming(engine, 3, refills=True)
    deliver(engine, tag, 1, 2, 3)
    assert accept(engine, link, 2) == [BasicAck(2)]
    assert accept(engine, link, 1) == [BasicAck(1)]
    link.flow(3)
    deliver(engine, tag, 4, 5)
    assert said(engine) == [BasicCancel(consumer_tag=tag)]  # with the third there are as many as it may have
    assert accept(engine, link, 3, 4, 5) == [BasicAck(5, True)]


@pytest.mark.slow
def test_one_that_is_kept() -> None:
    """A delivery that stays open costs nothing for each that is settled after it, whichever way those go."""
    engine = opened(**CAN)
    link, tag = consuming(engine, 1000, exclusive=True, refills=True)
    deliver(engine, tag, 1)
    before = 0
    tracemalloc.start()
    try:
        for number in range(2, 4000, 2):
            link.flow(1000)
            deliver(engine, tag, number, number + 1)
            link.incoming.clear()
            assert accept(engine, link, number + 1) == [BasicAck(number + 1)]
            assert accept(engine, link, number) == [BasicAck(number)]
            engine.events()
            if number == 1000:
                gc.collect()
                before = tracemalloc.get_traced_memory()[0]
        gc.collect()  # what tests before this one have left
        # An entry for each of 3,000 would take three times that; other tests' threads take some, too.
        assert tracemalloc.get_traced_memory()[0] - before < 100_000
    finally:
        tracemalloc.stop()
    assert accept(engine, link, 1) == [BasicAck(1)]
    deliver(engine, tag, 4000, 4001)
    assert accept(engine, link, 4000, 4001) == [BasicAck(4001, True)]


class Channel:
    """Where acks are written; it knows what is open, as a server does."""

    def __init__(self) -> None:
        self.engine: Any = self
        self.last = 0
        self.open: set[int] = set()
        self.heard: dict[int, int] = {}
        self.counted: list[int] = []
        self.state = ChannelState.OPEN

    def flush_later(self, acks: AckBatcher) -> None: ...

    def write(self, method: Any) -> None:
        multiple = isinstance(method, BasicAck) and method.multiple
        numbers = {each for each in self.open if each <= method.delivery_tag} if multiple else {method.delivery_tag}
        assert numbers <= self.open
        self.open -= numbers
        verb = ACCEPT if isinstance(method, BasicAck) else REQUEUE if method.requeue else DISCARD
        self.heard |= dict.fromkeys(numbers, verb)


@given(st.data())
def test_each_is_said_once(data: st.DataObject) -> None:
    """In whatever order, in how many goes, and wherever another consumer begins."""
    channel = Channel()
    acks = AckBatcher(channel, channel.counted.append, outcome)  # type: ignore[arg-type]
    verbs: dict[int, int] = {}
    numbers = data.draw(st.permutations(range(1, data.draw(st.integers(1, 12)) + 1)))
    channel.open.update(numbers)
    while numbers:
        heard, counted = dict(channel.heard), len(channel.counted)
        for _ in range(data.draw(st.integers(1, len(numbers)))):
            number = numbers.pop()
            verbs[number] = data.draw(st.sampled_from((ACCEPT, ACCEPT, ACCEPT, REQUEUE, DISCARD)))
            if verbs[number] != ACCEPT or not acks.extend_run(number):
                acks.add(number, verbs[number])
        acks.flush()
        assert channel.heard == verbs
        assert channel.counted[counted:] == [len([each for each in verbs.keys() - heard if each > acks.counted_from])]
        acks.counted_from = data.draw(st.integers(acks.counted_from, 12))
    assert acks.done == len(verbs)
    acks.flush()
    assert sum(channel.counted) <= len(verbs)


@pytest.mark.anyio
@pytest.mark.parametrize("dialect", ["0-9-1", "0-9", "0-9-draft", "1.0"])
@pytest.mark.parametrize("order", ["batches", "pairs the other way round, then a batch"])
async def test_more_than_the_credit_is_kept(dialect: str, order: str) -> None:
    """Credit is of what was not taken: who takes a batch larger than that, and accepts it then, gets the next one."""

    async def take(receiver: Receiver, count: int) -> list[Any]:
        with anyio.fail_after(60):
            return [await receiver.receive() for _ in range(count)]

    async with Broker() as broker, Connection(broker.url, dialect=dialect) as connection:
        async with connection.sender("q") as sender:
            await sender.send_many(b"%d" % number for number in range(200))
        async with connection.receiver("q", credit=10) as receiver:
            if order == "batches":
                for first in range(0, 132, 11):
                    batch = await take(receiver, 11)
                    assert [int(delivery.message.body) for delivery in batch] == [*range(first, first + 11)]
                    for delivery in batch:
                        delivery.accept()
            else:
                for _ in range(6):
                    first, second = await take(receiver, 2)
                    second.accept()
                    await anyio.wait_all_tasks_blocked()
                    first.accept()
                batch = await take(receiver, 15)
                assert [int(delivery.message.body) for delivery in batch] == [*range(12, 27)]
