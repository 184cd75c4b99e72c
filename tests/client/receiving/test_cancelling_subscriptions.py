"""Subscriptions and browsers, cancelled at every one of their checkpoints: nothing that waits is lost or locked."""

from __future__ import annotations

import anyio
import pytest

from amqp10.broker import Broker
from amqp10.client import Connection, Receiver
from amqp10.errors import LinkDetached

from ...kit.client.cancelling import CancelAt, at_each_checkpoint

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]


async def fill(broker: Broker, connection: Connection, shared: bool = False) -> None:
    """A durable subscription with three messages in it."""
    async with connection.subscription("topic.t", "s", shared=shared):
        pass
    async with connection.sender("topic.t") as sender:
        await sender.send_many(range(3))


async def idle(broker: Broker, connection: Connection) -> None:
    """Nothing is left of what was cut: no link, no session but the one in use, no note of a receiver."""
    await anyio.wait_all_tasks_blocked()
    assert connection._core.subscriptions == {}
    assert [each.consumers for each in broker.topic("topic.t").subscriptions] in ([], [0])


async def bodies(receiver: Receiver) -> list[object]:
    """Return the messages that wait for a receiver."""
    await receiver.drain()
    return [delivery.message.body for delivery in await receiver.receive_batch(100, max_wait=0)]


@pytest.mark.parametrize("shared", [False, True])
async def test_subscribing(shared: bool) -> None:
    """Wherever attaching, receiving or leaving is cut, the subscription is there, with what was not accepted."""

    async def trial(cancel: CancelAt) -> None:
        async with Broker() as broker, broker.connect(container_id="c") as connection:
            await fill(broker, connection, shared)
            accepted = []

            async def op() -> None:
                async with connection.subscription("topic.t", "s", shared=shared) as receiver:
                    delivery = await receiver.receive()
                    delivery.accept()
                    accepted.append(delivery.message.body)

            await cancel.run(op)
            await idle(broker, connection)
            async with connection.subscription("topic.t", "s", shared=shared) as receiver:
                assert accepted + await bodies(receiver) == [0, 1, 2]

    await at_each_checkpoint(trial, 4)


async def test_attaching_late() -> None:
    """A subscription that was given up before the answer came is left when it comes, and not ended."""
    async with Broker() as broker, broker.connect(container_id="c") as connection:
        await fill(broker, connection)
        with anyio.CancelScope() as scope:
            scope.cancel()
            async with connection.subscription("topic.t", "s"):
                pytest.fail("it has entered")
        await idle(broker, connection)
        (facts,) = broker.topic("topic.t").subscriptions
        assert (facts.depth, facts.unsettled) == (3, 0)


async def test_unsubscribing() -> None:
    """Wherever it is cut, the subscription is there or not, no link is left, and unsubscribing again tells which."""

    async def trial(cancel: CancelAt) -> None:
        async with Broker() as broker, broker.connect(container_id="c") as connection:
            await fill(broker, connection)
            await cancel.run(lambda: connection.unsubscribe("s"))
            await idle(broker, connection)
            if broker.topic("topic.t").subscriptions:
                assert not cancel.finished
                await connection.unsubscribe("s")
            else:
                with pytest.raises(LinkDetached, match="not-found"):
                    await connection.unsubscribe("s")
            assert broker.topic("topic.t").subscriptions == ()

    await at_each_checkpoint(trial, 3)


async def test_browsing() -> None:
    """Wherever it is cut, the queue has all that it had, and nobody holds any of it."""

    async def trial(cancel: CancelAt) -> None:
        async with Broker() as broker, broker.connect() as connection:
            async with connection.sender("q") as sender:
                await sender.send_many(range(7))

            async def op() -> list[object]:
                async with connection.browser("q", credit=3) as browser:
                    return [delivery.message.body async for delivery in browser]

            await cancel.run(op)
            await anyio.wait_all_tasks_blocked()
            facts = broker.queue("q")
            assert (facts.depth, facts.unsettled, facts.consumers, facts.redelivered) == (7, 0, 0, 0)
            if cancel.finished:
                assert cancel.result == list(range(7))

    await at_each_checkpoint(trial, 4)


async def test_going_on_after_a_cancelled_look() -> None:
    """A step of the iteration that was cut takes nothing out of it."""

    async def trial(cancel: CancelAt) -> None:
        async with Broker() as broker, broker.connect() as connection:
            async with connection.sender("q") as sender:
                await sender.send_many(range(5))
            async with connection.browser("q", credit=2) as browser:
                await cancel.run(browser.__anext__)
                seen = [cancel.result.message.body] if cancel.finished else []
                seen += [delivery.message.body async for delivery in browser]
                assert seen == list(range(5))

    await at_each_checkpoint(trial, 1)
