"""What a client of Service Bus does when its connection or link is lost, against the emulator."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from amqp10 import (
    ConnectionLost,
    DeliveryUncertain,
    Message,
)
from amqp10.azure import (
    SessionLockLost,
)
from amqp10.testing import FaultProxy

from ...kit.azure.emulated import behind_a_proxy, emulated
from ...kit.azure.entities import HOUR, left, now, put

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("Service Bus client")]


async def test_a_lock_outlives_its_connection() -> None:
    """What was received before a loss is settled after it, through the management node; the receiver goes on."""
    async with behind_a_proxy() as (bus, proxy):
        await put(bus, "orders", "x", "y")
        async with bus.receiver("orders") as receiver:
            delivery = await receiver.receive()
            proxy.cut()
            other = await receiver.receive()
            assert other.message.body == "y"
            await delivery.renew_lock()
            await delivery.complete()
            await other.complete()
            assert await receiver.peek() == []


async def test_a_lock_outlives_its_link() -> None:
    async with emulated() as (bus, azure):
        await put(bus, "orders", "x", "y")
        async with bus.receiver("orders") as receiver:
            first, second = await receiver.receive_batch(2)
            azure.detach_links("orders")
            await first.dead_letter("bad")
        async with second as message:  # nor does it need the receiver
            assert message.body == "y"
        assert await left(bus, "orders") == []


@asynccontextmanager
async def answer_lost(proxy: FaultProxy) -> AsyncIterator[None]:
    """What the block asks the service for arrives there; the connection is lost before the answer."""

    async def cut() -> None:
        await anyio.sleep(0.1)
        proxy.resume()
        proxy.cut()

    proxy.stall("down")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cut)
        yield


async def test_an_outcome_on_its_way_when_the_connection_is_lost() -> None:
    """The lock is gone, and nobody can say why."""
    async with behind_a_proxy() as (bus, proxy):
        await put(bus, "orders", "x")
        async with bus.receiver("orders") as receiver:
            delivery = await receiver.receive()
            async with answer_lost(proxy):
                with pytest.raises(DeliveryUncertain):
                    await delivery.complete()
            assert await receiver.peek() == []


async def test_a_request_on_its_way_when_the_connection_is_lost() -> None:
    """It is made again only if that can do no harm: no message is scheduled twice, and none more deleted."""
    async with behind_a_proxy() as (bus, proxy):
        await put(bus, "orders", "x", "y", "z")
        async with bus.sender("orders") as sender, bus.receiver("orders") as receiver:
            delivery = await receiver.receive()
            await receiver.peek()
            async with answer_lost(proxy):
                with pytest.raises(DeliveryUncertain):
                    await sender.schedule("later", now() + HOUR)
            async with answer_lost(proxy):
                with pytest.raises(DeliveryUncertain):
                    await receiver.delete_messages(1)
            async with answer_lost(proxy):
                assert await delivery.renew_lock() > now()
            async with answer_lost(proxy):
                assert [each.message.body for each in await receiver.peek()] == ["x", "z", "later"]


async def test_a_session_does_not_outlive_its_connection() -> None:
    async with behind_a_proxy() as (bus, proxy):
        await put(bus, "sessions", Message("x", group_id="a"))
        async with bus.session("sessions", "a") as session:
            delivery = await session.receive()
            proxy.cut()
            with pytest.raises(SessionLockLost):
                await session.receive()
            with pytest.raises(SessionLockLost):
                await delivery.complete()
        async with bus.sender("sessions") as sender:  # the connection is back
            await sender.send(Message("y", group_id="a"))


async def test_an_exception_is_not_kept_waiting() -> None:
    """What the service does not answer to, nobody waits for when the block has failed."""
    async with behind_a_proxy(close_timeout=0.1) as (bus, proxy):
        await put(bus, "orders", "x")
        async with bus.receiver("orders") as receiver:
            delivery = await receiver.receive()
            proxy.stall("down")
            with anyio.fail_after(60), pytest.raises(ZeroDivisionError):
                async with delivery:
                    raise ZeroDivisionError
            proxy.resume()


async def test_a_lock_is_kept_over_a_loss() -> None:
    async with behind_a_proxy() as (bus, proxy):
        await put(bus, "brief", "x")
        async with bus.receiver("brief") as receiver:
            delivery = await receiver.receive()
            async with delivery.keep_locked():
                proxy.cut()
                await anyio.sleep(1.4)
            await delivery.complete()
            assert delivery.settled


async def test_without_reconnect() -> None:
    """What is lost is over, and says so; management links that the service detached are attached anew."""
    async with behind_a_proxy(reconnect=None) as (bus, proxy):
        await put(bus, "orders", "x")
        async with bus.receiver("orders") as receiver:
            delivery = await receiver.receive()
            await delivery.renew_lock()
            proxy.cut()
            with pytest.raises(ConnectionLost):
                await receiver.receive()
            with pytest.raises(ConnectionLost):
                await delivery.complete()
            assert not delivery.settled
