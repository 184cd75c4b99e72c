"""A large message goes on where the connection was cut off, from user to broker and from broker to user."""

from __future__ import annotations

import anyio
import pytest

from amqp10 import Connection, Message, Reconnect
from amqp10.broker import Broker
from amqp10.testing import FaultProxy

from ...kit.inside.package import Way

pytestmark = [pytest.mark.anyio]

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
                with anyio.fail_after(60):
                    delivery = await receiver.receive()
                assert delivery.message.body == body
                assert delivery.message.message_id == "large"
                assert delivery.message.delivery_count == 1
                delivery.accept()
                assert proxy.cuts == 1
                assert SIZE < proxy.passed["down"] < SIZE + SIZE // 4
        assert broker.queue("q").depth == 0


LOGIN, ASKING, MIDDLE = 150, 420, 500_000
"""Octets of a new connection: within its opening, within prepare and ready, and within the rest of the message."""
FRAGMENT = 131_072


async def cut_again(proxy: FaultProxy, cuts: list[tuple[int, Way]]) -> None:
    """Cut each connection that comes after a cut, that far on."""
    for count, way in cuts:
        await proxy.until_cut()
        proxy.cut_after(count, way)


@pytest.mark.parametrize(
    "cuts",
    [
        [(LOGIN, "up"), (LOGIN, "down")],
        [(ASKING, "up")],
        [(ASKING, "down")],
        [(MIDDLE, "up"), (ASKING, "up"), (100_000, "up")],
        [(SIZE // 4, "up")],
    ],
)
async def test_cut_at_each_step_of_sending(cuts: list[tuple[int, Way]]) -> None:
    """However often the line breaks: the message arrives whole, and at most a fragment of what came comes again."""
    body = bytes(range(256)) * (SIZE // 256)
    async with Broker() as broker, FaultProxy(broker.url) as proxy, anyio.create_task_group() as tasks:
        async with Connection(proxy.url, dialect="fast", reconnect=QUICK) as connection:
            async with connection.sender("q") as sender:
                proxy.cut_after(SIZE * 3 // 4, "up")
                tasks.start_soon(cut_again, proxy, cuts)
                with anyio.fail_after(60):
                    await sender.send(Message(body, message_id="large"))
        assert proxy.passed["up"] < SIZE + (proxy.cuts + 1) * (FRAGMENT + 2000)
        async with broker.connect() as later, later.receiver("q") as receiver:
            with await receiver.receive() as message:
                assert message.body == body
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    "cuts",
    [
        [(LOGIN, "up"), (LOGIN, "down")],
        [(ASKING, "down")],
        [(MIDDLE, "down"), (ASKING, "down"), (100_000, "down")],
        [(SIZE // 4, "down")],
    ],
)
async def test_cut_at_each_step_of_receiving(cuts: list[tuple[int, Way]]) -> None:
    """The same the other way."""
    body = bytes(range(256)) * (SIZE // 256)
    async with Broker() as broker, FaultProxy(broker.url) as proxy, anyio.create_task_group() as tasks:
        async with broker.connect() as connection, connection.sender("q") as sender:
            await sender.send(Message(body, message_id="large"))
        async with Connection(proxy.url, dialect="fast", reconnect=QUICK) as connection:
            async with connection.receiver("q", credit=1) as receiver:
                proxy.cut_after(SIZE * 3 // 4, "down")
                tasks.start_soon(cut_again, proxy, cuts)
                with anyio.fail_after(60):
                    delivery = await receiver.receive()
                assert delivery.message.body == body
        assert proxy.passed["down"] < SIZE + (proxy.cuts + 1) * (FRAGMENT + 2000)
        tasks.cancel_scope.cancel()
