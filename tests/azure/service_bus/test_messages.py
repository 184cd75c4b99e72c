"""Messages of Service Bus, as its users hold them: sent, received, settled, scheduled, deleted, at the emulator."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest

from amqp10 import (
    LocalProtocolError,
    Message,
)
from amqp10.azure import (
    MessageLockLost,
    MessageNotFound,
    ServiceBusError,
    SessionLockLost,
)

from ...kit.azure.emulated import emulated
from ...kit.azure.entities import HOUR, left, now, put, take, untyped

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("Service Bus client")]


async def test_a_message_and_what_the_service_says_of_it() -> None:
    async with emulated() as (bus, _):
        await put(bus, "orders", Message(b"two teas", message_id="m", ttl=HOUR, group_id=None))
        async with bus.receiver("orders") as receiver:
            delivery = await receiver.receive()
            assert (delivery.message.body, delivery.message.message_id) == (b"two teas", "m")
            assert (delivery.sequence_number, delivery.enqueued_sequence_number, delivery.delivery_count) == (1, 1, 0)
            assert delivery.enqueued_at is not None
            assert delivery.locked_until is not None
            assert abs(delivery.locked_until - delivery.enqueued_at - timedelta(seconds=60)) < timedelta(seconds=5)
            assert (delivery.state, delivery.session_id, delivery.partition_key) == ("active", None, None)
            assert (
                delivery.dead_letter_reason is delivery.dead_letter_description is delivery.dead_letter_source is None
            )
            assert not delivery.settled
            await delivery.complete()
            assert await receiver.peek() == []


async def test_a_block_settles() -> None:
    """Its end completes, an exception abandons, a cancellation gives back; an outcome in it counts."""
    async with emulated() as (bus, _):
        await put(bus, "orders", "x")
        async with bus.receiver("orders") as receiver:
            with pytest.raises(ZeroDivisionError):
                async with await receiver.receive():
                    raise ZeroDivisionError
            delivery = await receiver.receive()
            assert delivery.delivery_count == 1
            with anyio.CancelScope() as scope:
                async with delivery:
                    scope.cancel()
                    await anyio.sleep_forever()
            delivery = await receiver.receive()
            assert delivery.delivery_count == 1
            with pytest.raises(TypeError, match="needs `async with delivery as message:`, not `with`"):
                with delivery:
                    raise AssertionError("the block is not entered")
            async with delivery as message:
                assert message.body == delivery.body == "x"
                await delivery.abandon({"seen": True})
            async with await receiver.receive() as message:
                assert message.application_properties == {"seen": True}
            assert await receiver.peek() == []


async def test_settling_twice_does_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """The first outcome counts. A different one is told in the log, as without Service Bus; the same one is not."""
    async with emulated() as (bus, _):
        await put(bus, "orders", "x", "y")
        async with bus.receiver("orders") as receiver:
            delivery = await receiver.receive()
            await delivery.complete()
            await delivery.complete()
            async with await receiver.receive() as message:
                assert message.body == "y"
                await delivery.complete()
            assert not caplog.records
            await delivery.abandon()
            await receiver.complete_many([delivery])
            (record,) = caplog.records
            assert (record.name, record.levelname) == ("amqp10.azure", "WARNING")
            assert "does nothing, for the first outcome counts: Accepted()" in record.getMessage()
            assert await receiver.peek() == []


async def test_receiving_asks_for_what_is_wanted() -> None:
    """No message is locked that nobody asked for, unless it is to be fetched ahead."""
    async with emulated() as (bus, _):
        await put(bus, "orders", *range(6))
        async with bus.receiver("orders") as receiver, bus.receiver("orders") as other:
            assert [each.message.body for each in await receiver.receive_batch(2, max_wait=0)] == [0, 1]
            assert [each.message.body for each in await other.receive_batch(1)] == [2]
            assert [each.message.body async for each in _first(receiver, 1)] == [3]
            assert [each.message.body for each in await other.receive_batch(9, max_wait=0.02)] == [4, 5]
            assert await receiver.receive_batch(3, max_wait=0) == []
            assert await receiver.receive_batch(3, max_wait=0.02) == []
            with anyio.move_on_after(0.02):
                await receiver.receive()
            await put(bus, "orders", "late")
            assert (await receiver.receive()).message.body == "late"
            await put(bus, "orders", *range(4))
            async with bus.receiver("orders", prefetch=4) as ahead:
                first = await ahead.receive()
                assert [each.message.body for each in await other.receive_batch(9, max_wait=0)] == []
                assert [each.message.body for each in (first, *await ahead.receive_batch(9))] == [0, 1, 2, 3]


async def _first(receiver: Any, count: int) -> Any:
    for _ in range(count):
        yield await anext(receiver)


async def test_received_and_deleted() -> None:
    async with emulated() as (bus, _):
        await put(bus, "orders", "x")
        async with bus.receiver("orders", mode="receive-and-delete") as receiver:
            delivery = await receiver.receive()
            assert delivery.settled
            assert delivery.lock_token is None
            for act in (
                delivery.renew_lock,
                delivery.complete,
                delivery.abandon,
                delivery.defer,
                delivery.dead_letter,
                lambda: receiver.complete_many([delivery]),
            ):
                with pytest.raises(LocalProtocolError, match="has no lock and cannot be settled"):
                    await act()
            async with delivery as message:  # its end has nothing to settle
                assert message.body == delivery.body == "x"
            with pytest.raises(ZeroDivisionError):
                async with delivery:
                    raise ZeroDivisionError
            assert await receiver.peek() == []


async def test_deferred_and_dead() -> None:
    async with emulated() as (bus, _):
        await put(bus, "orders", "put aside", "bad", "fine")
        async with bus.receiver("orders") as receiver:
            aside, bad, fine = await receiver.receive_batch(3)
            await aside.defer({"later": 1})
            await bad.dead_letter("unreadable", "not by me", {"by": "us"})
            await fine.complete()
            assert [(each.message.body, each.state) for each in await receiver.peek()] == [("put aside", "deferred")]
            [again] = await receiver.receive_deferred(aside.sequence_number)
            assert again.message.application_properties == {"later": 1}
            assert again.locked_until is not None
            await again.renew_lock()
            await again.abandon()
            [again] = await receiver.receive_deferred([aside.sequence_number])
            async with again as message:
                assert message.body == "put aside"
            with pytest.raises(MessageNotFound):
                await receiver.receive_deferred(aside.sequence_number)
            assert await receiver.receive_deferred() == []
        async with bus.receiver("orders", dead_letters=True) as receiver:
            delivery = await receiver.receive()
            assert (delivery.dead_letter_reason, delivery.dead_letter_description) == ("unreadable", "not by me")
            assert delivery.message.application_properties["by"] == "us"
            assert delivery.dead_letter_source is None
            await delivery.complete()


async def test_expires_at() -> None:
    """The time to live counts from when the message came, whatever its sender computed; that of the entity, too."""
    async with emulated() as (bus, _):
        async with bus.sender("orders") as sender:
            early = datetime(2020, 1, 1, tzinfo=UTC)
            await sender.send(Message(b"own", ttl=timedelta(seconds=9), absolute_expiry_time=early))
            await sender.send(Message(b"none"))
        async with bus.sender("mortal") as sender:
            await sender.send(Message(b"of the entity"))
        lives = []
        for entity in ("orders", "mortal"):
            async with bus.receiver(entity) as receiver:
                for each in await receiver.peek(2):
                    assert each.enqueued_at is not None
                    lives.append(each.expires_at and (each.expires_at - each.enqueued_at).total_seconds())
        assert lives == [9, None, 50]


async def test_several_are_completed_at_once() -> None:
    """What cannot be completed keeps nothing else from it."""
    async with emulated() as (bus, azure):
        await put(bus, "orders", *range(10))
        async with bus.receiver("orders") as receiver:
            early = await receiver.receive_batch(2)
            azure.lose_locks("orders")
            batch = await receiver.receive_batch(20, max_wait=0)
            await batch[-1].abandon()
            with pytest.raises(MessageLockLost) as caught:
                await receiver.complete_many([*early, *batch])
            assert caught.value.__notes__ == ["2 of 11 messages could not be completed"]
            await put(bus, "orders", "x")
            batch = await receiver.receive_batch(2, max_wait=10)
            azure.detach_links("orders")  # and they are settled apart
            await receiver.complete_many(batch)
            assert await receiver.peek() == []
        await put(bus, "sessions", Message("x", group_id="a"))
        async with bus.session("sessions", "a") as session:
            batch = await session.receive_batch(1)
            azure.detach_links("sessions")
            with pytest.raises(SessionLockLost):
                await session.complete_many(batch)


async def test_what_cannot_be_read_is_a_dead_letter() -> None:
    async with emulated() as (bus, _):
        await put(bus, "orders", "x")
        delivery = await take(bus, "orders")
        delivery.message = Message.decode(b"\x00\x53\x77\xa1\x05ab")
        with pytest.raises(ValueError, match="the message ends"):
            async with delivery:
                raise AssertionError("the block is not entered")
        [dead] = await left(bus, "orders", dead_letters=True)
        assert dead.dead_letter_reason == "amqp:decode-error"


async def test_scheduled() -> None:
    async with emulated() as (bus, azure), bus.sender("orders") as sender, bus.receiver("orders") as receiver:
        at = now() + HOUR
        first = await sender.schedule("first", at)
        numbers = await sender.schedule_many([Message("second", message_id="m"), "third"], at)
        seen = await receiver.peek(2)
        assert [each.sequence_number for each in seen] == [first, numbers[0]]
        assert {each.state for each in seen} == {"scheduled"}
        assert seen[0].scheduled_for is not None
        assert abs(seen[0].scheduled_for - at) < timedelta(seconds=1)
        [third] = await receiver.peek(from_sequence=seen[-1].sequence_number + 1)
        assert third.message.body == "third"
        await sender.cancel_scheduled([first, numbers[1]])
        with pytest.raises(MessageNotFound):
            await sender.cancel_scheduled(first)
        azure.advance(3601)
        async with await receiver.receive() as message:
            assert message.body == "second"
        assert await receiver.peek() == []
        assert await sender.schedule_many([], at) == []
        with pytest.raises(ValueError, match="time zone"):
            await sender.schedule("x", datetime(2030, 1, 1))
        for wrong in (HOUR, 60, "2026-01-01"):
            with pytest.raises(TypeError, match=r"at must be a datetime, not .* is one with a time zone"):
                await sender.schedule("x", wrong)  # type: ignore[arg-type]
        for number in ("1", [None], "12"):
            with pytest.raises(TypeError, match="a sequence number must be an int"):
                await sender.cancel_scheduled(number)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="a sequence number must be an int"):
                await receiver.receive_deferred(number)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="64 bits"):
            await receiver.receive_deferred(1 << 63)
        with pytest.raises(TypeError, match=r"max_wait must be a number.*timedelta.total_seconds"):
            await receiver.receive_batch(1, max_wait=HOUR)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="at least 1"):
            await receiver.peek(0)


async def test_batches_know_their_size() -> None:
    async with emulated() as (bus, _), bus.sender("orders") as sender, bus.receiver("orders") as receiver:
        batch = sender.batch(2000)
        bodies = [bytes(number * 50) for number in range(20)]
        added = [body for body in bodies if batch.add(Message(body, message_id=str(len(body))))]
        assert len(batch) == len(added) < len(bodies)
        assert batch.size == len(batch.encode()) <= 2000 == batch.max_size
        await sender.send(batch)
        assert [each.message.body for each in await receiver.receive_batch(20, max_wait=0)] == added
        with pytest.raises(ValueError, match="this message alone makes it"):
            sender.batch(100).add(bytes(100))
        with pytest.raises(ValueError, match="at least one message"):
            await sender.send(sender.batch())
        with pytest.raises(ValueError, match="the service's limit for a batch"):
            sender.batch(1 << 40)


async def test_a_batch_is_full_by_count() -> None:
    """It takes as many messages as the service does, and that many are taken."""
    async with emulated() as (bus, _), bus.sender("orders") as sender:
        batch = sender.batch()
        while batch.add(b""):
            assert len(batch) <= 4500
        assert len(batch) == batch.max_count == 4500
        await sender.send(batch)


async def test_leaving_gives_back_what_nobody_took() -> None:
    """Nothing stays locked, and nothing counts as an attempt."""
    async with emulated() as (bus, _):
        await put(bus, "orders", *range(20))
        async with bus.receiver("orders", prefetch=10) as receiver:
            await (await receiver.receive()).complete()
        async with bus.receiver("orders") as receiver:
            batch = await receiver.receive_batch(20, max_wait=0)
            assert [(each.message.body, each.delivery_count) for each in batch] == [(n, 0) for n in range(1, 20)]


async def test_settled_on_an_idle_link() -> None:
    """After ten minutes without traffic the service detaches the link, heartbeats or not; the lock may be kept."""
    async with emulated() as (bus, azure):
        await put(bus, "orders", "x")
        async with bus.receiver("orders") as receiver, bus.sender("orders") as sender:
            delivery = await receiver.receive()
            for _ in range(13):
                azure.advance(50)
                await delivery.renew_lock()
            await delivery.complete()
            azure.advance(601)
            await sender.send("y")
            async with await receiver.receive() as message:
                assert message.body == "y"


async def test_many_are_deleted() -> None:
    """The oldest go that nobody has locked, and that came before a time; in a session those of that alone."""
    async with emulated() as (bus, azure), bus.receiver("orders") as receiver:
        await put(bus, "orders", 0, 1, 2)
        locked = await receiver.receive()
        azure.advance(10)
        between = datetime.fromtimestamp(azure.clock(), UTC)
        azure.advance(10)
        await put(bus, "orders", 3, 4)
        assert await receiver.delete_messages(1, before=between) == 1
        assert await receiver.delete_messages(100, before=between) == 1
        assert await receiver.delete_messages(100, before=between) == 0
        await locked.complete()
        assert [each.body for each in await receiver.peek()] == [3, 4]
        assert await receiver.delete_messages(100, before=between + HOUR) == 2
        assert await receiver.delete_messages(100) == 0
        with pytest.raises(ServiceBusError, match="1 to 4000"):
            await receiver.delete_messages(4001)
        for size, before, error in (
            (0, None, ValueError),
            (1, datetime(2026, 1, 1), ValueError),
            (1, "now", TypeError),
        ):
            with pytest.raises(error):
                await receiver.delete_messages(size, before=untyped(before))
        await put(bus, "sessions", Message(1, group_id="a"), Message(2, group_id="b"))
        async with bus.session("sessions", "a") as session:
            assert await session.delete_messages(100, before=between + HOUR) == 1
        assert await bus.list_sessions("sessions") == ["b"]


async def test_waiting_on_an_idle_link() -> None:
    """Who waits for a message goes on waiting when the service detaches the idle link, and gets what comes then."""
    async with emulated() as (bus, azure), bus.receiver("orders") as receiver, anyio.create_task_group() as tasks:
        found: list[Any] = []

        async def wait() -> None:
            async with await receiver.receive() as message:
                found.append(message.body)

        tasks.start_soon(wait)
        for body in range(2):
            await anyio.wait_all_tasks_blocked()
            azure.advance(601)
            if body:
                await put(bus, "orders", body)
    assert found == [1]
