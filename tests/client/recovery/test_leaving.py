"""Leaving a receiver whose link is away: outcomes that were given are told all the same."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from amqp10.broker import Broker
from amqp10.testing import FaultProxy

from ...kit.client.hosts import connecting
from ...kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]


@pytest.mark.parametrize("mode", ["first", "second"])
@pytest.mark.parametrize("credit", [0, 1, 100])
async def test_outcomes_are_told_before_the_end(mode: Any, credit: int) -> None:
    """Deliveries accepted while the connection was lost do not arrive again, even if the receiver is left at once."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        async with broker.connect() as local, local.sender("q") as sender:
            await sender.send_many(range(5))
        async with connecting(proxy.url) as connection:
            async with connection.receiver("q", credit=credit, receiver_settle_mode=mode) as receiver:
                if not credit:
                    receiver.add_credit(5)
                delivery = await receiver.receive()
                proxy.stall()
                proxy.cut()
                await until(lambda: not receiver.open)
                delivery.accept()
                proxy.resume()
        await until(lambda: broker.queue("q").unsettled == 0)
        assert broker.queue("q").depth == 4
        assert broker.queue("q").dequeued == 1


async def test_an_outcome_on_its_way_when_the_receiver_is_left() -> None:
    """In mode "second" an outcome that the cut swallowed is told by the attach that follows."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        async with broker.connect() as local, local.sender("q") as sender:
            await sender.send("x")
        async with connecting(proxy.url) as connection:
            async with connection.receiver("q", receiver_settle_mode="second") as receiver:
                delivery = await receiver.receive()
                proxy.cut_after(0, "up")
                delivery.accept()
        assert proxy.cuts == 1
        await until(lambda: broker.queue("q").depth == 0)


async def test_leaving_does_not_wait_for_ever() -> None:
    """Where the connection does not come back it is the deadline that ends it; the message is the broker's again."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        async with broker.connect() as local, local.sender("q") as sender:
            await sender.send("x")
        with anyio.fail_after(60):
            async with connecting(proxy.url, close_timeout=0.5) as connection:
                async with connection.receiver("q", receiver_settle_mode="second") as receiver:
                    delivery = await receiver.receive()
                    proxy.refusing = True
                    proxy.cut()
                    await until(lambda: not receiver.open)
                    delivery.accept()
        assert broker.queue("q").depth == 1
