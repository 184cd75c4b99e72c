"""An emulator with a store: the next one on the file goes on where it ended, or was killed."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from amqp10.azure import EventHub, MessageLockLost, MessageNotFound, ServiceBus, ServiceBusError
from amqp10.broker import Broker, BrokerLimits, SasRule, TokenRules
from amqp10.broker.azure import (
    AzureConfig,
    CorrelationRuleFilter,
    EventHubConfig,
    QueueConfig,
    Rule,
    SqlRuleFilter,
    SubscriptionConfig,
    TopicConfig,
    connection_string,
)
from amqp10.errors import MessageRejected
from amqp10.messaging import EventPosition, Message
from amqp10.types import ULong

from ...kit.azure.queue_bench import NOON
from ...kit.clock import Clock
from ...kit.inside.broker import RecordRow, StoreFile

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("Service Bus emulator")]

RULE = SasRule("all", "key")
CONFIG = AzureConfig(
    [
        "orders",
        QueueConfig("sessions", requires_session=True),
        QueueConfig("once", duplicate_window=600.0),
        QueueConfig("fragile", max_delivery_count=2),
    ],
    [TopicConfig("events", ["all", SubscriptionConfig("red", rules=[Rule("r", SqlRuleFilter("color = 'red'"))])])],
    event_hubs=[EventHubConfig("hub", 2, retention=3600.0)],
)


class Lives:
    """Emulators that live one after the other on one file, by one clock."""

    def __init__(self, folder: Path, config: AzureConfig = CONFIG) -> None:
        self.path = folder / "store"
        self.clock = Clock(NOON)
        self.config = config

    @asynccontextmanager
    async def bus(self) -> AsyncIterator[tuple[Broker, ServiceBus]]:
        config = AzureConfig(
            self.config.queues, self.config.topics, event_hubs=self.config.event_hubs, clock=self.clock
        )
        async with Broker(azure=config, tokens=TokenRules([RULE]), store=self.path) as broker:
            async with ServiceBus(connection_string(broker.url, RULE), clock=self.clock) as bus:
                yield broker, bus

    def fork(self, folder: Path) -> Lives:
        """What there is if the emulator is killed now."""
        folder.mkdir()
        for each in self.path.parent.glob(self.path.name + "*"):
            shutil.copy(each, folder)
        twin = Lives(folder, self.config)
        twin.clock.now = self.clock.now
        return twin


@pytest.fixture
def lives(tmp_path: Path) -> Lives:
    folder = tmp_path / "first"
    folder.mkdir()
    return Lives(folder)


async def bodies(bus: ServiceBus, entity: str) -> list[Any]:
    """What is in an entity, in any state."""
    async with bus.receiver(entity) as receiver:
        return [each.message.body for each in await receiver.peek()]


class TestMessages:
    async def test_all_of_them(self, lives: Lives) -> None:
        """A message is as it was: fields, number, times and attempts; so are deferred, scheduled and dead ones."""
        late = datetime.fromtimestamp(lives.clock.now + 100, UTC)
        sent = Message(b"1", message_id=ULong(7), subject="s", ttl=timedelta(seconds=500), message_annotations={"a": 1})
        async with lives.bus() as (_, bus):
            async with bus.sender("orders") as sender:
                for message in (sent, Message("two"), Message(b"3"), Message(b"4")):
                    await sender.send(message)
                await sender.schedule(Message(b"later"), late)
            async with bus.receiver("orders") as receiver:
                first, second, third, _ = await receiver.receive_batch(4)
                await first.abandon(properties={"tried": True})
                await second.defer()
                await third.dead_letter("bad", "very")
                before = [(each.message, each.state, each.enqueued_at) for each in await receiver.peek()]
        async with lives.bus() as (broker, bus):
            async with bus.receiver("orders") as receiver:
                now = await receiver.peek()
                assert [(each.message, each.state, each.enqueued_at) for each in now] == before
                assert [each.sequence_number for each in now] == [1, 2, 4, 5]
                [deferred] = await receiver.receive_deferred(2)
                await deferred.complete()
                again = await receiver.receive()
                assert (again.message.application_properties, again.delivery_count) == ({"tried": True}, 1)
                assert (again.message.message_id, again.message.message_annotations["a"]) == (7, 1)
                await again.complete()
                broker.azure.advance(101)
                batch = [await receiver.receive() for _ in range(2)]
                assert [(each.body, each.sequence_number) for each in batch] == [(b"4", 4), (b"later", 6)]
            async with bus.receiver("orders/$DeadLetterQueue") as receiver:
                dead = await receiver.receive()
                assert (dead.body, dead.dead_letter_reason, dead.dead_letter_source) == (b"3", "bad", None)

    async def test_locks(self, lives: Lives) -> None:
        """A lock lasts as long as it was to, and its token settles the message; its end counts as an attempt."""
        async with lives.bus() as (_, bus):
            async with bus.sender("fragile") as sender:
                for number in range(2):
                    await sender.send(Message(number))
            async with bus.receiver("fragile") as receiver:
                for delivery in await receiver.receive_batch(2):
                    await delivery.renew_lock()
        async with lives.bus() as (broker, bus), bus.receiver("fragile") as receiver:
            assert await receiver.receive_batch(2, max_wait=0) == []
            broker.azure.advance(61)
            found = await receiver.receive_batch(2)
            assert [(each.body, each.delivery_count) for each in found] == [(0, 1), (1, 1)]
            broker.azure.advance(61)
            assert sorted(await bodies(bus, "fragile/$DeadLetterQueue")) == [0, 1]  # the locks ended at one time

    async def test_what_was_told_is_there(self, lives: Lives, tmp_path: Path) -> None:
        """What a peer was told before the process was killed is so after that: nothing is lost, nothing comes twice."""
        async with lives.bus() as (_, bus):
            async with bus.sender("orders") as sender, bus.receiver("orders") as receiver:
                for number in range(4):
                    await sender.send(Message(number))
                await (await receiver.receive()).complete()
                async with bus.transaction() as transaction:
                    await (await receiver.receive()).complete(transaction=transaction)
                    async with bus.sender("events", via="orders") as onward:
                        await onward.send(Message("onward"), transaction=transaction)
                killed = lives.fork(tmp_path / "killed")
        async with killed.bus() as (_, bus):
            assert await bodies(bus, "orders") == [2, 3]
            assert await bodies(bus, "events/Subscriptions/all") == ["onward"]

    async def test_what_is_asked_in_transactions(self, lives: Lives, tmp_path: Path) -> None:
        """Schedules and outcomes of a committed one are there; of an open one no more than locks and used numbers."""
        later = datetime.fromtimestamp(lives.clock.now + 100, UTC)
        async with lives.bus() as (_, bus), bus.sender("orders") as sender, bus.receiver("orders") as receiver:
            for number in range(2):
                await sender.send(Message(number))
                await (await receiver.receive()).defer()
            first, second = await receiver.receive_deferred([1, 2])
            async with bus.transaction() as done:
                await first.complete(transaction=done)
                assert await sender.schedule(Message("kept"), later, transaction=done) == 3
            async with bus.transaction() as opened:
                await second.complete(transaction=opened)
                assert await sender.schedule(Message("gone"), later, transaction=opened) == 4
                killed = lives.fork(tmp_path / "killed")
        async with killed.bus() as (broker, bus), bus.sender("orders") as sender:
            assert await bodies(bus, "orders") == [1, "kept"]
            assert await sender.schedule(Message("next"), later) == 5
            async with bus.receiver("orders") as receiver:
                with pytest.raises(MessageNotFound):
                    await receiver.receive_deferred(2)
                broker.azure.advance(61)
                [again] = await receiver.receive_deferred(2)
                await again.complete()

    async def test_duplicates(self, lives: Lives) -> None:
        """The ids that were seen are known, for as long as they were to be; short ones and long ones of any type."""
        ids: list[Any] = ["a", ULong(1), b"b" * 200]
        for body in (b"first", b"second"):
            async with lives.bus() as (_, bus), bus.sender("once") as sender:
                for each in ids:
                    await sender.send(Message(body, message_id=each))
        async with lives.bus() as (broker, bus):
            assert await bodies(bus, "once") == [b"first"] * 3
            broker.azure.advance(601)
            async with bus.sender("once") as sender:
                await sender.send(Message(b"third", message_id="a"))
        async with lives.bus() as (_, bus):  # the clock stays where it was moved to
            assert await bodies(bus, "once") == [b"first"] * 3 + [b"third"]
            async with bus.sender("once") as sender:
                await sender.send(Message(b"fourth", message_id="a"))
            assert await bodies(bus, "once") == [b"first"] * 3 + [b"third"]

    async def test_numbers(self, lives: Lives) -> None:
        """A number is not given twice, though nothing is left of what had it."""
        for number in (1, 2, 3):
            async with lives.bus() as (_, bus), bus.sender("orders") as sender, bus.receiver("orders") as receiver:
                await sender.send(Message(b"x"))
                delivery = await receiver.receive()
                assert delivery.sequence_number == number
                await delivery.complete()


class TestSessions:
    async def test_state(self, lives: Lives) -> None:
        """A session has its messages and its state, and is free; what its receiver had comes without an attempt."""
        async with lives.bus() as (_, bus):
            async with bus.sender("sessions") as sender:
                for name in "ab":
                    await sender.send(Message(name, group_id=name))
            async with bus.session("sessions", "a") as session:
                await session.set_state(b"kept")
                await session.receive()
            async with bus.session("sessions", "b") as session:
                await session.set_state(b"not kept")
                await session.set_state(None)
                await (await session.receive()).complete()
        async with lives.bus() as (_, bus):
            assert await bus.list_sessions("sessions") == ["a"]
            async with bus.next_session("sessions") as session:
                assert (session.session_id, await session.state()) == ("a", b"kept")
                delivery = await session.receive()
                assert (delivery.body, delivery.delivery_count) == ("a", 0)


class TestSettings:
    async def test_rules(self, lives: Lives) -> None:
        """Rules that were added and removed stay so."""
        properties = {"n": 1, "t": "x", "m": datetime.fromtimestamp(NOON, UTC)}
        correlation = Rule("c", CorrelationRuleFilter(label="blue", properties=properties), "SET seen = TRUE")
        async with lives.bus() as (_, bus):
            rules = bus.rules("events", "red")
            await rules.add(correlation)
            await rules.remove("r")
            before = await rules.list()
        async with lives.bus() as (_, bus):
            assert await bus.rules("events", "red").list() == before
            assert [each.name for each in before] == ["c"]

    async def test_what_the_configuration_has_new(self, lives: Lives) -> None:
        """What is said of an entity in a configuration that has changed counts; what is in it stays."""
        async with lives.bus() as (_, bus):
            await bus.rules("events", "red").remove("r")
            async with bus.sender("events") as sender:
                await sender.send(Message(b"x"))
        red = SubscriptionConfig("red", rules=[Rule("other", SqlRuleFilter("color = 'blue'"))])
        lives.config = AzureConfig(["orders"], [TopicConfig("events", [red])])
        async with lives.bus() as (_, bus):
            assert [each.name for each in await bus.rules("events", "red").list()] == ["other"]
            assert await bodies(bus, "events/Subscriptions/all") == [b"x"]  # it is not said any more, and stays
            assert await bus.list_sessions("sessions") == []

    async def test_forwarding_begins(self, lives: Lives) -> None:
        """Where a queue passes on what it has by a later configuration, that goes on at once, and is kept there."""
        async with lives.bus() as (_, bus), bus.sender("orders") as sender:
            await sender.send(Message(b"x"))
        lives.config = AzureConfig([QueueConfig("orders", forward_to="archive"), "archive"])
        for _ in range(2):
            async with lives.bus() as (_, bus):
                assert await bodies(bus, "archive") == [b"x"]


class TestHubs:
    async def test_events(self, lives: Lives) -> None:
        """Events have their numbers, keys and times; numbers go on even when all events are gone."""
        async with lives.bus() as (broker, _), EventHub(connection_string(broker.url, RULE, "hub")) as hub:
            async with hub.sender(partition=0) as sender:
                for number in range(3):
                    await sender.send(Message(number))
                    broker.azure.advance(1)
            before = await hub.partition_properties(0), (await hub.properties()).created_at
        async with lives.bus() as (broker, _), EventHub(connection_string(broker.url, RULE, "hub")) as hub:
            assert (await hub.partition_properties(0), (await hub.properties()).created_at) == before
            async with hub.reader(0, start=EventPosition.first()) as reader:
                found = [await reader.receive() for _ in range(3)]
            assert [(each.body, each.sequence_number) for each in found] == [(0, 0), (1, 1), (2, 2)]
            broker.azure.advance(3600)
        async with lives.bus() as (broker, _), EventHub(connection_string(broker.url, RULE, "hub")) as hub:
            assert (await hub.partition_properties(0)).empty
            async with hub.sender(partition=0) as sender:
                await sender.send(Message(3))
            async with hub.reader(0, start=EventPosition.first()) as reader:
                event = await reader.receive()
                assert (event.body, event.sequence_number) == (3, 3)


async def test_damaged_records(lives: Lives) -> None:
    """A record that cannot be read is in the quarantine, and keeps nothing else from coming back."""
    async with lives.bus() as (_, bus), bus.sender("orders") as sender:
        for number in range(3):
            await sender.send(Message(number))
    wrong = [
        ("orders", "m" + "1".zfill(20), b"\x40"),
        ("orders", "m" + "2".zfill(20), b"\x45"),
        ("orders", "zzz", b"\x40"),
        ("orders", "i41", b"\xff"),
        ("sessions", "sa", b"\x40"),
        ("hub", "other", b"\x40"),
        ("hub/partitions/0", "m1", b"\x45"),
        ("hub/partitions/0", "#", b"\x41"),
        ("", "dnothing", b"\x40"),
        ("", "clock", b"\x40"),
    ]
    with closing(StoreFile(str(lives.path))) as file:
        file.begin()
        file.put(RecordRow, [(None, *each) for each in wrong])
        file.commit()
    async with lives.bus() as (broker, bus):
        assert await bodies(bus, "orders") == [2]
        assert len(broker.quarantine) == len(wrong)


@pytest.mark.parametrize("seed", range(5))
async def test_random_lives(lives: Lives, seed: int) -> None:
    """Whatever is done to a queue in several lives, what was told happened: each message is there once, or settled."""
    source = random.Random(seed)
    there: Counter[int] = Counter()
    sent = 0
    for _ in range(4):
        async with lives.bus() as (broker, bus), bus.sender("orders") as sender, bus.receiver("orders") as receiver:
            for _ in range(12):
                act = source.choice(("send", "send", "complete", "abandon", "defer", "lock", "wait"))
                if act == "send":
                    await sender.send(Message(sent))
                    there[sent] += 1
                    sent += 1
                elif act == "wait":
                    broker.azure.advance(source.choice((1, 61)))
                elif found := await receiver.receive_batch(1, max_wait=0):
                    [delivery] = found
                    try:
                        if act == "complete":
                            await delivery.complete()
                            del there[delivery.body]
                        elif act != "lock":
                            await getattr(delivery, act)()
                    except MessageLockLost:
                        pass
    async with lives.bus() as (_, bus):
        dead = await bodies(bus, "orders/$DeadLetterQueue")
        assert Counter([*await bodies(bus, "orders"), *dead]) == there


async def test_larger_than_what_is_free(lives: Lives, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message for which the disk has no room is refused, on a link and by a request; a smaller one is taken."""
    free = [2_500_000]
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free[0]))
    config = AzureConfig(["orders"], [TopicConfig("events", ["one", "two"])], event_hubs=["hub"])
    large, later = Message(bytes(600_000)), datetime.now(UTC) + timedelta(hours=1)
    limits, tokens = BrokerLimits(disk_free=1_000_000), TokenRules([RULE])
    async with Broker(azure=config, store=lives.path, limits=limits, tokens=tokens) as broker:
        text = connection_string(broker.url, RULE)
        async with ServiceBus(text) as bus:
            for address, most in (("orders", 1_000_000), ("events", 500_000)):
                async with bus.sender(address) as sender:
                    with pytest.raises(MessageRejected, match="no room for"):
                        await sender.send(Message(bytes(most + 200_000)))
                    await sender.send(Message(bytes(most - 100_000)))
            async with bus.sender("orders") as sender:
                with pytest.raises(ServiceBusError, match="no room for"):
                    await sender.schedule_many([large] * 3, later)
                await sender.schedule_many([large], later)
        async with EventHub(text, "hub") as hub, hub.sender() as events:
            free[0] = 1_500_000
            await events.send(Message(b"small"))  # after which the store looks
            with pytest.raises(MessageRejected, match="no room for"):
                await events.send(Message(bytes(1_000_000)))
