"""More unsettled deliveries than an attach has room for: the client attaches until all are resumed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from amqp10 import Connection, Message, Receiver, Reconnect
from amqp10.broker import Broker
from amqp10.client.internals import receiver_delivery
from amqp10.engine import ReceiverSettleMode
from amqp10.testing import FaultProxy

pytestmark = pytest.mark.anyio

TOTAL = 120


@asynccontextmanager
async def receiving(mode: ReceiverSettleMode) -> AsyncIterator[tuple[FaultProxy, Receiver]]:
    """A receiver in frames of 512 bytes, so many messages for it, and what its connection goes through."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        async with broker.connect() as connection, connection.sender("q") as sender:
            await sender.send_many(Message(str(number)) for number in range(TOTAL))
        reconnect = Reconnect(initial_delay=0.01)
        async with (
            Connection(proxy.url, reconnect=reconnect, max_frame_size=512) as connection,
            connection.receiver("q", receiver_settle_mode=mode, credit=90) as receiver,
        ):
            yield proxy, receiver


@pytest.mark.spec("2.6.13", "a receiver whose map is incomplete attaches again until it has said all")
async def test_receiver() -> None:
    """Held deliveries are settled and the others come, each once, with frames of 512 bytes."""
    async with receiving("second") as (proxy, receiver):
        held = [await receiver.receive() for _ in range(60)]
        proxy.cut()
        for delivery in held:
            delivery.accept()
        bodies = [delivery.message.body for delivery in held]
        with anyio.fail_after(60):
            while len(bodies) < TOTAL:
                delivery = await receiver.receive()
                delivery.accept()
                bodies.append(delivery.message.body)
        assert sorted(bodies, key=int) == [str(number) for number in range(TOTAL)]


@pytest.mark.parametrize("mode", ["first", "second"])
@pytest.mark.spec("2.6.13", "a receiver whose map is incomplete attaches again until it has said all")
async def test_receiver_that_settles_when_resumed(mode: ReceiverSettleMode) -> None:
    """The same where the last that the map could say is accepted with the one before it, when both are resumed."""
    async with receiving(mode) as (proxy, receiver):
        held = [receiver_delivery(await receiver.receive()) for _ in range(10)]
        with anyio.fail_after(60):
            while receiver.buffered < 80:
                await anyio.lowlevel.checkpoint()
            first = held[0].link
            proxy.cut()
            while held[0].link is first or any(delivery.delivery_id is None for delivery in held):
                await anyio.lowlevel.checkpoint()
            assert held[0].link.incomplete
            for delivery in held:
                delivery.accept()
            bodies = [delivery.message.body for delivery in held]
            while len(bodies) < TOTAL:
                another = await receiver.receive()
                another.accept()
                bodies.append(another.message.body)
        assert sorted(bodies, key=int) == [str(number) for number in range(TOTAL)]


@pytest.mark.spec("2.6.13", "a sender that is answered with an incomplete map attaches again until it knows all")
async def test_sender() -> None:
    """Outcomes that never arrived are learned, in frames of 512 bytes, and no message is sent twice."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        async with (
            Connection(proxy.url, reconnect=Reconnect(initial_delay=0.01), max_frame_size=512) as connection,
            connection.sender("q", receiver_settle_mode="second") as sender,
        ):
            proxy.stall("down")
            with anyio.fail_after(60):
                async with anyio.create_task_group() as tasks:
                    for number in range(TOTAL):
                        tasks.start_soon(sender.send, Message(str(number)))
                    while not broker.queues or broker.queue("q").depth < TOTAL:
                        await anyio.lowlevel.checkpoint()
                    proxy.cut()
                    proxy.resume()
        assert broker.queue("q").enqueued == TOTAL
