"""A large message to a receiver goes on where the connection was cut off, from broker to user."""

from __future__ import annotations

import anyio
import pytest

from amqp10 import Connection, Message, Reconnect
from amqp10.broker import Broker
from amqp10.testing import FaultProxy

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

SIZE = 4_000_000
QUICK = Reconnect(initial_delay=0.01, max_delay=0.05)


@pytest.mark.parametrize("credit", [0, 1])
async def test_what_came_does_not_come_again(credit: int) -> None:
    """Most of the message is here when the line breaks: the rest follows, on the same credit."""
    body = bytes(range(256)) * (SIZE // 256)
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        async with Connection(broker.url) as connection, connection.sender("q") as sender:
            await sender.send(Message(body, message_id="large"))
        async with Connection(proxy.url, dialect="fast", reconnect=QUICK) as connection:
            async with connection.receiver("q", credit=credit) as receiver:
                proxy.cut_after(SIZE * 3 // 4, "down")
                if not credit:
                    receiver.add_credit(1)
                with anyio.fail_after(30):
                    delivery = await receiver.receive()
                assert delivery.message.body == body
                assert delivery.message.message_id == "large"
                assert delivery.message.delivery_count == 1
                delivery.accept()
                assert proxy.cuts == 1
                assert SIZE < proxy.passed["down"] < SIZE + SIZE // 4
        assert broker.queue("q").depth == 0
