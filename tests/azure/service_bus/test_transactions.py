"""Transactions of Service Bus, as its users hold them, against the emulator."""

from __future__ import annotations

from contextlib import suppress

import anyio
import pytest

from amqp10 import DeliveryUncertain, LinkDetached, LocalProtocolError, Message, TransactionRolledBack
from amqp10.azure import MessageLockLost, MessageNotFound, ServiceBusError

from ...kit.azure.emulated import behind_a_proxy, emulated
from ...kit.azure.entities import HOUR, left, now, put, take

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("Service Bus client")]


@pytest.mark.parametrize("end", ["commit", "roll back"])
async def test_from_one_entity_to_another(end: str) -> None:
    """A message is completed in one entity and sent on to another, via the first: both or neither."""
    async with emulated() as (bus, _):
        await put(bus, "orders", "x")
        async with bus.receiver("orders") as receiver, bus.sender("events", via="orders") as sender:
            delivery = await receiver.receive()
            with suppress(ZeroDivisionError):
                async with bus.transaction() as work:
                    await sender.send("y", transaction=work)
                    batch = sender.batch()
                    assert batch.add(Message("z"))
                    await sender.send(batch, transaction=work)
                    await delivery.complete(transaction=work)
                    if end == "roll back":
                        raise ZeroDivisionError
            there = [each.message.body for each in await left(bus, "events", subscription="all")]
            if end == "commit":
                assert there == ["y", "z"]
            else:
                assert there == []
                await delivery.complete()  # it stayed locked
            assert await receiver.peek() == []


@pytest.mark.parametrize("end", ["commit", "roll back"])
async def test_what_goes_through_the_management_node(end: str) -> None:
    """Schedules, and outcomes of deferred messages, count with the transaction; a rollback leaves the locks."""
    async with emulated() as (bus, _):
        await put(bus, "orders", "complete", "abandon", "defer", "dead")
        async with bus.receiver("orders") as receiver, bus.sender("orders") as sender:
            numbers = []
            for each in await receiver.receive_batch(4):
                numbers.append(each.sequence_number)
                await each.defer()
            first, second, third, fourth = await receiver.receive_deferred(numbers)
            with suppress(ZeroDivisionError):
                async with bus.transaction() as work:
                    assert await sender.schedule("later", now() + HOUR, transaction=work) == 5
                    assert await sender.schedule_many(["x", "y"], now() + HOUR, transaction=work) == [6, 7]
                    await first.complete(transaction=work)
                    await second.abandon({"tried": True}, transaction=work)
                    await third.defer(transaction=work)
                    await fourth.dead_letter("bad", transaction=work)
                    assert [each.body for each in await receiver.peek()] == ["complete", "abandon", "defer", "dead"]
                    with pytest.raises(MessageNotFound):
                        await sender.cancel_scheduled(5)
                    if end == "roll back":
                        raise ZeroDivisionError
            left_over = [(each.body, each.state) for each in await receiver.peek()]
            dead = [each.body for each in await left(bus, "orders", dead_letters=True)]
            if end == "commit":
                assert left_over == [
                    *(("abandon", "deferred"), ("defer", "deferred")),
                    *(("later", "scheduled"), ("x", "scheduled"), ("y", "scheduled")),
                ]
                assert dead == ["dead"]
                await sender.cancel_scheduled([5, 6, 7])
            else:
                assert [state for _, state in left_over] == ["deferred"] * 4
                assert dead == []
                assert not await receiver.receive_batch(1, max_wait=0)
                async with bus.transaction() as work:  # they stayed locked
                    await first.complete(transaction=work)
                await second.complete()
                assert [each.body for each in await receiver.peek()] == ["defer", "dead"]
                assert await sender.schedule("later", now() + HOUR) == 8


async def test_a_message_whose_link_is_gone_in_a_transaction() -> None:
    """Its lock goes on, so it is settled through the management node; so it is after a rollback."""
    async with emulated() as (bus, _):
        await put(bus, "orders", "x", "y")
        x, y = await take(bus, "orders"), await take(bus, "orders")
        async with bus.transaction() as work:
            await x.complete(transaction=work)
            await y.complete(transaction=work)
            await work.rollback()
        async with bus.transaction() as work:
            await x.complete(transaction=work)
        assert [each.body for each in await left(bus, "orders")] == ["y"]
        await y.complete()
        assert await left(bus, "orders") == []


async def test_deferred_messages_of_a_session_in_a_transaction() -> None:
    async with emulated() as (bus, _):
        await put(bus, "sessions", Message("x", group_id="a"))
        async with bus.session("sessions", "a") as session:
            delivery = await session.receive()
            await delivery.defer()
            [deferred] = await session.receive_deferred(delivery.sequence_number)
            async with bus.transaction() as work:
                await deferred.complete(transaction=work)
            assert await session.peek() == []


async def test_a_lock_that_is_lost_in_a_transaction() -> None:
    """If it is lost before its outcome is told, that raises; if after it, the commit does."""
    async with emulated() as (bus, azure):
        await put(bus, "orders", "x", "y")
        async with bus.receiver("orders") as receiver:
            batch = await receiver.receive_batch(2)
            for each in batch:
                await each.defer()
            early, late = await receiver.receive_deferred([each.sequence_number for each in batch])
            azure.lose_locks("orders")
            async with bus.transaction() as work:
                with pytest.raises(MessageLockLost):
                    await early.complete(transaction=work)
            [late] = await receiver.receive_deferred(late.sequence_number)
            with pytest.raises(TransactionRolledBack, match="message-lock-lost"):
                async with bus.transaction() as work:
                    await late.complete(transaction=work)
                    azure.lose_locks("orders")


async def test_requests_in_a_transaction_that_is_over() -> None:
    """They are not sent, and the message can be settled still."""
    async with emulated() as (bus, _), emulated() as (other, _):
        await put(bus, "orders", "x")
        async with bus.receiver("orders") as receiver, bus.sender("orders") as sender:
            await (await receiver.receive()).defer()
            [deferred] = await receiver.receive_deferred(1)
            async with bus.transaction() as over:
                pass
            async with other.transaction() as foreign:
                for work in (over, foreign):
                    with pytest.raises(LocalProtocolError):
                        await sender.schedule("y", now() + HOUR, transaction=work)
                    with pytest.raises(LocalProtocolError):
                        await deferred.complete(transaction=work)
            await deferred.complete()
            assert await receiver.peek() == []


async def test_a_connection_that_is_lost_in_a_transaction() -> None:
    """What was asked in it is rolled back; what is asked after that raises, and is not sent again."""
    async with behind_a_proxy() as (bus, proxy):
        await put(bus, "orders", "x")
        async with bus.receiver("orders") as receiver, bus.sender("orders") as sender:
            await (await receiver.receive()).defer()
            [deferred] = await receiver.receive_deferred(1)
            with pytest.raises(TransactionRolledBack):
                async with bus.transaction() as work:
                    await deferred.complete(transaction=work)
                    assert await sender.schedule("y", now() + HOUR, transaction=work) == 2
                    proxy.cut()
                    await sender.schedule("z", now() + HOUR, transaction=work)
            assert [each.body for each in await receiver.peek()] == ["x"]
            await deferred.complete()
            assert await receiver.peek() == []


async def test_a_request_in_a_transaction_whose_answer_is_lost() -> None:
    """It is not sent again on the next connection: its work could be done twice."""
    async with behind_a_proxy() as (bus, proxy), bus.sender("orders") as sender:
        assert await sender.schedule("a", now() + HOUR) == 1
        with pytest.raises(TransactionRolledBack):
            async with bus.transaction() as work, anyio.create_task_group() as tasks:
                proxy.stall("down")
                passed = proxy.passed["up"]

                async def cut() -> None:
                    while proxy.passed["up"] == passed:
                        await anyio.lowlevel.checkpoint()
                    proxy.cut()
                    proxy.resume()

                tasks.start_soon(cut)
                try:
                    await sender.schedule("b", now() + HOUR, transaction=work)
                except (TransactionRolledBack, DeliveryUncertain):
                    pass
                else:
                    pytest.fail("it was answered")
        assert [each.body for each in await left(bus, "orders")] == ["a"]


async def test_sending_via_another_entity_is_refused() -> None:
    async with emulated() as (bus, _):
        for entity, via in (("missing", "orders"), ("orders", "missing")):
            with pytest.raises((LinkDetached, ServiceBusError)):
                await bus.sender(entity, via=via).__aenter__()
