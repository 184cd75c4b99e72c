"""Locks of Service Bus, as its users hold them: kept while a block runs, lost, and renewed, against the emulator."""

from __future__ import annotations

import gc

import anyio
import pytest

from amqp10.azure import (
    MessageLockLost,
    ServerBusy,
    ServiceBusDelivery,
)

from ...kit.azure.emulated import emulated
from ...kit.azure.entities import put, take
from ...kit.token_rig import wall

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("Service Bus client")]


async def test_a_lock_is_renewed_while_a_block_runs() -> None:
    async with emulated() as (bus, _):
        await put(bus, "brief", "x")
        async with bus.receiver("brief") as receiver:
            delivery = await receiver.receive()
            async with delivery.keep_locked():
                await anyio.sleep(1.5)  # the lock lasts for 1 s
            await delivery.complete()
            assert await receiver.peek() == []


async def test_a_lock_that_is_lost_cancels_the_block() -> None:
    async with emulated() as (bus, azure):
        await put(bus, "brief", "x")
        async with bus.receiver("brief") as receiver:
            delivery = await receiver.receive()
            with pytest.raises(MessageLockLost):
                async with delivery.keep_locked():
                    azure.lose_locks("brief")
                    await anyio.sleep_forever()
            with pytest.raises(MessageLockLost):
                await delivery.complete()
            assert (await receiver.receive()).delivery_count == 1


async def test_a_renewal_that_comes_after_the_outcome() -> None:
    """The service has done with the message by then: that is no loss of its lock."""
    async with emulated() as (bus, _):
        await put(bus, "brief", "x")
        async with bus.receiver("brief") as receiver:
            delivery = await receiver.receive()
            async with delivery.keep_locked():
                await delivery.complete()
                with pytest.raises(MessageLockLost):
                    await delivery.renew_lock()
                await anyio.sleep(0.7)  # it would have been renewed meanwhile


async def test_what_a_kept_block_raises() -> None:
    """It is raised as it is, in no group; and a block may be done with before its lock is lost."""
    async with emulated() as (bus, azure):
        await put(bus, "brief", "x")
        delivery = await take(bus, "brief")
        with pytest.raises(ZeroDivisionError):
            async with delivery.keep_locked():
                raise ZeroDivisionError
        async with delivery.keep_locked():
            await anyio.sleep(0.4)
        azure.lose_locks("brief")
        with pytest.raises(MessageLockLost):
            await delivery.renew_lock()


async def test_a_lock_is_kept_no_longer_than_asked_for() -> None:
    async with emulated() as (bus, _):
        await put(bus, "brief", "x")
        delivery = await take(bus, "brief")
        async with delivery.keep_locked(max_time=0.7):
            await anyio.sleep(1.2)  # it was renewed after 0.5 s
            await delivery.renew_lock()
        async with delivery.keep_locked(max_time=0.0):
            await anyio.sleep(1.2)
            with pytest.raises(MessageLockLost):
                await delivery.renew_lock()


async def test_a_renewal_that_fails() -> None:
    """Another one follows as long as the lock lasts, and no longer: then the block is cancelled, with the reason."""
    async with emulated() as (bus, azure):
        await put(bus, "brief", "x")
        delivery = await take(bus, "brief")
        async with delivery.keep_locked():
            azure.refuse_next("brief")
            await anyio.sleep(1.5)
            await delivery.renew_lock()
        with pytest.raises(MessageLockLost, match="it could not be renewed") as lost:
            async with delivery.keep_locked():
                azure.refuse_next("brief", 100)
                await anyio.sleep_forever()
        assert isinstance(lost.value.__cause__, ServerBusy)


async def test_a_clock_that_is_wrong() -> None:
    """Whether a lock has ended is for the service to say, which alone knows the time."""
    async with emulated(clock=lambda: wall() + 70) as (bus, _):
        await put(bus, "orders", "x")
        async with bus.receiver("orders") as receiver:
            delivery = await receiver.receive()
            async with delivery.keep_locked():
                await anyio.sleep(0.3)
            await delivery.complete()
            assert delivery.settled


@pytest.mark.parametrize("behind", [30.0, 600.0])
async def test_a_clock_that_is_behind(behind: float) -> None:
    """A lock lasts five minutes at most: what ends later by the clock here is renewed before long."""
    async with emulated(clock=lambda: wall() - behind) as (bus, _):
        await put(bus, "orders", "x")
        delivery = await take(bus, "orders")
        until = delivery.locked_until
        async with delivery.keep_locked():
            await anyio.sleep(50)  # the lock lasts for 60 s
        assert until is not None
        assert delivery.locked_until is not None
        assert delivery.locked_until > until


async def test_keeping_locks_keeps_nothing_else() -> None:
    """Thousands of messages later the client holds no more than it did."""
    async with emulated() as (bus, _):
        await put(bus, "orders", *range(50))
        async with bus.receiver("orders", prefetch=50) as receiver:
            for _ in range(50):
                delivery = await receiver.receive()
                async with delivery.keep_locked(), delivery:
                    pass
            del delivery
            gc.collect()
            left = sum(isinstance(each, ServiceBusDelivery) for each in gc.get_objects())
            assert left <= 1  # asyncio of Python 3.12 still holds the traceback of what was cancelled last
