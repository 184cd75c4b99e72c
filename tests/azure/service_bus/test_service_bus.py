"""Service Bus, as its users hold it: messages, locks, sessions, schedules and rules, against the emulator."""

from __future__ import annotations

import gc
import pickle
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest

from amqp10 import (
    ConnectionLost,
    DeliveryUncertain,
    LinkDetached,
    LocalProtocolError,
    Message,
    MessageRejected,
    SasKey,
    TokenRenewed,
)
from amqp10.azure import (
    CorrelationRuleFilter,
    EntityNotFound,
    FalseRuleFilter,
    MessageLockLost,
    MessageNotFound,
    NoSession,
    Rule,
    RuleExists,
    ServerBusy,
    ServiceBus,
    ServiceBusDelivery,
    ServiceBusError,
    SessionCannotBeLocked,
    SessionLockLost,
    SqlRuleFilter,
    TrueRuleFilter,
)
from amqp10.broker import Broker, SasRule, TokenRules
from amqp10.broker.azure import EMULATOR_RULE, AzureConfig, connection_string
from amqp10.testing import FaultProxy

from ...kit.azure.emulated import CONFIG, behind_a_proxy, emulated, emulating
from ...kit.azure.entities import HOUR, left, now, put, take, untyped
from ...kit.token_rig import Source, rules, wall

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("Service Bus client")]

# Messages


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


# Locks


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


# Sessions


async def test_sessions() -> None:
    async with emulated() as (bus, _):
        await put(bus, "sessions", *(Message(n, group_id=name) for n in range(3) for name in ("a", "b")))
        assert await bus.list_sessions("sessions") == ["a", "b"]
        assert await bus.list_sessions("sessions", updated_after=now() - HOUR) == []
        async with bus.next_session("sessions") as first, bus.session("sessions", "b") as second:
            assert (first.session_id, second.session_id) == ("a", "b")
            assert first.locked_until is not None
            assert timedelta() < first.locked_until - now() <= timedelta(seconds=61)
            batch = await first.receive_batch(3)
            assert [(each.session_id, each.message.body) for each in batch] == [("a", 0), ("a", 1), ("a", 2)]
            for each in reversed(batch):  # several of a session may be under way
                await each.complete()
            with pytest.raises(LocalProtocolError, match="the lock belongs to the session"):
                batch[0].keep_locked()
            assert await first.state() is None
            await first.set_state(b"")  # as good as none
            assert await first.state() is None
            await first.set_state(b"done")
            assert await first.state() == b"done"
            assert await second.state() is None
            with pytest.raises(TypeError, match="encode it"):
                await first.set_state("done")  # type: ignore[arg-type]
            with pytest.raises(SessionCannotBeLocked):
                async with bus.session("sessions", "b"):
                    raise AssertionError("it is locked already")
            with pytest.raises(NoSession):
                async with bus.next_session("sessions", max_wait=0.05):
                    raise AssertionError("there is none")
            [aside, *_] = await second.receive_batch(1)
            await aside.defer()
            [aside] = await second.receive_deferred(aside.sequence_number)
            await aside.complete()
            assert [each.session_id for each in await second.peek()] == ["b", "b"]
            async with second.keep_locked():
                assert (await second.renew_lock()) > now()
        assert await bus.list_sessions("sessions", updated_after=now() - HOUR) == ["a"]


async def test_a_session_that_is_lost() -> None:
    """Whatever is done with it then says so; it is not locked again by itself."""
    async with emulated() as (bus, azure):
        await put(bus, "sessions", Message("x", group_id="a"))
        async with bus.session("sessions", "a") as session:
            delivery = await session.receive()
            with pytest.raises(SessionLockLost):
                async with session.keep_locked():
                    azure.lose_locks("sessions")
                    await session.receive()
            for lost in (delivery.complete, session.receive, session.renew_lock, lambda: session.set_state(b"")):
                with pytest.raises(SessionLockLost):
                    await lost()
        async with bus.session("sessions", "a") as session:
            async with await session.receive() as message:
                assert message.body == "x"


# Rules


async def test_rules() -> None:
    async with emulated() as (bus, _):
        rules = bus.rules("events", "all")
        [usual] = await rules.list()
        assert (usual.name, usual.filter, usual.action) == ("$Default", TrueRuleFilter(), "")
        assert usual.created_at is not None
        wanted = [
            Rule("red", SqlRuleFilter("color = 'red'"), "SET seen = TRUE"),
            Rule("big", CorrelationRuleFilter(label="big", properties={"n": 1})),
            Rule("none", FalseRuleFilter()),
            Rule("all", TrueRuleFilter()),
        ]
        await rules.remove("$Default")
        for rule in wanted:
            await rules.add(rule)
        assert sorted(await rules.list(), key=lambda rule: rule.name) == sorted(wanted, key=lambda rule: rule.name)
        with pytest.raises(RuleExists):
            await rules.add(wanted[0])
        await rules.remove("all")
        with pytest.raises(EntityNotFound):
            await rules.remove("all")
        with pytest.raises(ServiceBusError, match="argument-error"):
            await rules.add(Rule("broken", SqlRuleFilter("color =")))
        red = {"color": "red"}
        await put(
            bus,
            "events",
            Message("red", application_properties=red),
            Message("big", subject="big", application_properties={"n": 1}),
            Message("neither"),
        )
        async with bus.receiver("events", subscription="all") as receiver:
            batch = await receiver.receive_batch(9, max_wait=0)
            assert [each.message.body for each in batch] == ["red", "big"]
            assert batch[0].message.application_properties == {**red, "seen": True}


# Losses


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


# Refusals


async def test_refused() -> None:
    async with emulated() as (bus, azure):
        with pytest.raises(LinkDetached) as caught:
            async with bus.receiver("nowhere"):
                raise AssertionError("there is no such entity")
        assert caught.value.condition == "amqp:not-found"
        azure.refuse_next("orders")
        with pytest.raises(ServerBusy) as busy:
            async with bus.receiver("orders"):
                raise AssertionError("the service is busy")
        assert isinstance(busy.value.__cause__, LinkDetached)
        async with bus.sender("orders") as sender, bus.receiver("orders") as receiver:
            azure.refuse_next("orders")
            with pytest.raises(MessageRejected, match="server-busy"):
                await sender.send("x")
            await sender.send("x")
            delivery = await receiver.receive()
            azure.refuse_next("orders")
            with pytest.raises(ServerBusy):
                await delivery.renew_lock()
            azure.refuse_next("orders", 1, "com.microsoft:timeout")
            with pytest.raises(ServiceBusError) as late:
                await delivery.renew_lock()
            assert type(late.value) is ServiceBusError  # nobody asked for a session
            await delivery.complete()
        with pytest.raises(LinkDetached):
            async with bus.receiver("sessions"):
                raise AssertionError("it has sessions")


async def test_a_wrong_key() -> None:
    async with emulating() as broker:
        async with ServiceBus(broker.url, SasKey(EMULATOR_RULE.name, "another")) as bus:
            with pytest.raises(Exception, match=r"401|not") as caught:
                async with bus.sender("orders"):
                    raise AssertionError("nobody knows that key")
            assert "another" not in str(caught.value)


async def test_a_token_that_the_service_ends_early() -> None:
    """Whoever attaches next puts another one."""
    async with emulated(reconnect=None) as (bus, azure):
        for _ in range(2):
            await put(bus, "orders", "x")
            azure.expire_tokens()
        async with bus.receiver("orders") as receiver:
            assert len(await receiver.receive_batch(3, max_wait=0)) == 2
    async with emulated() as (bus, azure):
        await put(bus, "orders", "x")
        azure.expire_tokens()
        await put(bus, "orders", "x")


async def test_a_credential_that_fails_for_a_while() -> None:
    """Its token is renewed when the credential works again; the link of a receiver stays, for as many hours as it may.

    With azure-sdk-for-python#23588 no token was renewed after the session of the credential was closed.
    """
    source = Source(lifetime=3600.0)

    def behave(count: int) -> None:
        if count in (1, 2, 4):
            raise OSError("the session is closed")

    source.behave = behave
    config = AzureConfig(["orders"], clock=wall, idle_timeout=None)
    async with Broker(azure=config, tokens=rules(required=True)) as broker:
        async with (
            ServiceBus(broker.url, source, clock=wall, reconnect=None) as bus,
            bus.receiver("orders") as receiver,
        ):
            await anyio.sleep(5 * 3600)
            await put(bus, "orders", "x")
            async with await receiver.receive() as message:
                assert message.body == "x"
    assert len(source.asked) > len(source.given) > 5


async def test_a_token_that_does_not_allow_it() -> None:
    """Another one is put once, and then the refusal is told."""
    listen = SasRule("listen", "key", ["Listen"])
    with anyio.fail_after(60):
        async with Broker(azure=CONFIG, tokens=TokenRules([listen], required=True)) as broker:
            async with ServiceBus(connection_string(broker.url, listen)) as bus, bus.receiver("orders"):
                events = bus.connection.events()
                with pytest.raises(LinkDetached) as caught:
                    async with bus.sender("orders"):
                        raise AssertionError("the token is for receiving")
                assert caught.value.condition == "amqp:unauthorized-access"
        assert [type(event) async for event in events].count(TokenRenewed) == 1


def test_errors_survive_pickling() -> None:
    for error in (MessageLockLost(description="x"), ServiceBusError("a", "b")):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), again.condition, str(again)) == (type(error), error.condition, str(error))


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda bus: bus.sender(), "name the queue or topic"),
        (lambda bus: bus.receiver("t", subscription=""), "name the queue or topic"),
        (lambda bus: bus.receiver("q", mode="peek"), "receive-and-delete"),
        (lambda bus: bus.receiver("q", prefetch=-1), "prefetch must be 0 or more"),
        (lambda bus: bus.session("q", "x" * 129), "session_id must have at most 128 characters, not 129"),
        (lambda bus: ServiceBus("Endpoint=sb://h"), "connection string has no key"),
        (lambda bus: bus.next_session("q", max_wait=0), "max_wait"),
        (lambda bus: ServiceBus("h.example", SasKey("a", "b"), request_timeout=0), "request_timeout"),
        (lambda bus: ServiceBus("h.example", SasKey("a", "b"), sasl=False), "leave both out"),
    ],
)
def test_wrong_arguments(make: Any, rule: str) -> None:
    bus = ServiceBus("name.servicebus.windows.net", SasKey("a", "b"))
    with pytest.raises(ValueError, match=rule):
        make(bus)


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda bus: ServiceBus(untyped(None)), "where must be a str.*environment variable"),
        (lambda bus: bus.session("q", None), r"next_session\(\)"),
        (lambda bus: bus.next_session("q", max_wait=HOUR), "max_wait must be a number.*timedelta.total_seconds"),
        (lambda bus: bus.rules("topic", None), "subscription must be a str, not None"),
        (lambda bus: Rule("s", untyped("color = 'red'")), "filter must be .*SqlRuleFilter"),
        (lambda bus: Rule(untyped(None)), "the name of a rule must be a str, not the NoneType None"),
    ],
)
def test_wrong_types(make: Any, rule: str) -> None:
    bus = ServiceBus("name.servicebus.windows.net", SasKey("a", "b"))
    with pytest.raises(TypeError, match=rule):
        make(bus)


async def test_rules_of_another_kind() -> None:
    rules = ServiceBus("name.servicebus.windows.net", SasKey("a", "b")).rules("t", "s")
    with pytest.raises(TypeError, match=r"rule must be a Rule, not a str; Rule\(\"red\""):
        await rules.add("x")  # type: ignore[arg-type]


async def test_the_entity_of_the_connection_string() -> None:
    async with emulating() as broker:
        async with ServiceBus(connection_string(broker.url) + "EntityPath=orders") as bus:
            async with bus.sender() as sender, bus.receiver() as receiver:
                await sender.send("x")
                await (await receiver.receive()).complete()
            for wrong in ("sessions", "orders2"):
                with pytest.raises(ValueError, match=f"for 'orders' alone.*'{wrong}' is asked for"):
                    bus.sender(wrong)
            for right in ("Orders", "orders/$DeadLetterQueue"):
                async with bus.receiver(right) as receiver:
                    assert await receiver.peek() == []


# What users complain of in other clients


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
