"""Service Bus and Event Hubs without `await`, on the emulator: every kind of call."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import anyio
import pytest

import amqp10.sync.azure
from amqp10 import LocalProtocolError, Message
from amqp10.azure import MessageLockLost, Rule, SqlRuleFilter
from amqp10.broker.azure import AzureConfig, EventHubConfig, QueueConfig, TopicConfig
from amqp10.sync import Connection, Sender
from amqp10.sync.azure import EventHub, ServiceBus
from amqp10.testing import BackgroundEventHubs, BackgroundServiceBus

pytestmark = pytest.mark.capability("without async")

CONFIG = AzureConfig(
    ["orders", "archive", QueueConfig("sessions", requires_session=True)], [TopicConfig("events", ["all"])]
)


@pytest.fixture(scope="module")
def emulator() -> Iterator[BackgroundServiceBus]:
    with BackgroundServiceBus(CONFIG) as emulator:
        yield emulator


@pytest.fixture
def bus(emulator: BackgroundServiceBus) -> Iterator[ServiceBus]:
    with ServiceBus(emulator.connection_string) as bus:
        yield bus


def test_settling(bus: ServiceBus) -> None:
    """Messages are sent one by one, many at once and in a batch; a block completes its message, or abandons it."""
    with bus.sender("orders") as sender, bus.receiver("orders") as receiver:
        sender.send(Message(b"0"))
        assert sender.send_many(Message(b"%d" % number) for number in range(1, 4)) == 3
        batch = sender.batch()
        batch.add(Message(b"4"))
        sender.send(batch)
        with receiver.receive(timeout=60) as message:
            assert message.body == b"0"
        with pytest.raises(ZeroDivisionError), receiver.receive(timeout=60):
            raise ZeroDivisionError
        again = receiver.receive(timeout=60)
        assert (again.body, again.delivery_count) == (b"1", 1)
        again.dead_letter("bad", "very")
        deferred = next(iter(receiver))
        deferred.defer()
        assert [each.body for each in receiver.peek()] == [b"2", b"3", b"4"]
        found = [*receiver.receive_deferred(deferred.sequence_number), *receiver.receive_batch(2)]
        receiver.complete_many(found)
        assert all(each.settled for each in found)
        with pytest.raises(TimeoutError):
            receiver.receive(timeout=0.01)
    with bus.receiver("orders", dead_letters=True, mode="receive-and-delete") as receiver:
        assert receiver.receive(timeout=60).dead_letter_reason == "bad"


def test_locks(emulator: BackgroundServiceBus, bus: ServiceBus) -> None:
    """A lock is kept while a block runs; that it was lost meanwhile is told at the end of the block."""
    with bus.sender("orders") as sender, bus.receiver("orders") as receiver:
        sender.send(Message(b"x"))
        delivery = receiver.receive(timeout=60)
        before = delivery.locked_until
        emulator.advance(10)
        assert before is not None
        assert delivery.renew_lock() > before
        with delivery.keep_locked():
            delivery.complete()
        sender.send(Message(b"y"))
        delivery = receiver.receive(timeout=60)
        emulator.lose_locks("orders")
        with pytest.raises(MessageLockLost):
            delivery.complete()
        receiver.receive(timeout=60).complete()


def test_schedule_and_transaction(emulator: BackgroundServiceBus, bus: ServiceBus) -> None:
    """What is scheduled comes when it is due, and goes on to another entity in a transaction."""
    with bus.sender("orders") as sender, bus.receiver("orders") as receiver:
        due = datetime.now(UTC) + timedelta(hours=5)
        first, second = sender.schedule_many([Message(b"a"), Message(b"b")], due)
        sender.cancel_scheduled(first)
        emulator.advance(6 * 3600)
        delivery = receiver.receive(timeout=60)
        assert delivery.enqueued_sequence_number == second
        with bus.sender("archive", via="orders") as onward, bus.transaction() as work:
            onward.send(Message(b"archived"), transaction=work)
            delivery.complete(transaction=work)
    with bus.receiver("archive") as receiver:
        with receiver.receive(timeout=60) as message:
            assert message.body == b"archived"


def test_sessions(bus: ServiceBus) -> None:
    """A session is found, renewed and keeps a state."""
    with bus.sender("sessions") as sender:
        sender.send(Message(b"x", group_id="a"))
    assert bus.list_sessions("sessions") == ["a"]
    with bus.next_session("sessions", max_wait=30) as session, session.keep_locked():
        assert session.session_id == "a"
        session.set_state(b"half")
        assert session.state() == b"half"
        session.renew_lock()
        session.receive(timeout=60).complete()
        session.set_state(None)


def test_rules(bus: ServiceBus) -> None:
    """Rules are added, listed and removed."""
    rules = bus.rules("events", "all")
    rules.add(Rule("red", SqlRuleFilter("color = 'red'")))
    rules.remove("$Default")
    assert [rule.name for rule in rules.list()] == ["red"]


def test_hub() -> None:
    """Events are sent by key, to a partition and in batches, and read from a position on."""
    with BackgroundEventHubs(AzureConfig(event_hubs=[EventHubConfig("hub", 2)])) as emulator:
        with EventHub(emulator.of("hub")) as hub:
            assert (hub.name, list(hub.properties().partitions)) == ("hub", ["0", "1"])
            with hub.sender(partition=1) as sender:
                sender.send(Message(0))
                assert sender.send_many([Message(1), Message(2)]) == 2
                batch = sender.batch()
                batch.add(Message(3))
                sender.send(batch)
            assert hub.partition_properties(1).last_sequence_number == 3
            with hub.reader(1) as reader:
                assert reader.receive(timeout=60).body == 0
                assert [event.body for event in reader.receive_batch(2)] == [1, 2]
                assert next(reader).body == 3


def test_what_it_stands_on(emulator: BackgroundServiceBus) -> None:
    """The connection and the links are those of `amqp10.sync`; before it is open, and in threads."""
    bus = ServiceBus(emulator.connection_string)
    with pytest.raises(LocalProtocolError, match="not open yet"):
        bus.connection  # noqa: B018
    with bus, bus.sender("archive") as sender:
        assert isinstance(bus.connection, Connection)
        assert bus.connection.open
        assert isinstance(sender.sender, Sender)
        assert sender.sender.address == "archive"
        with pytest.raises(LocalProtocolError, match="once"):
            bus.connection.__enter__()
        threads = [threading.Thread(target=sender.send, args=(Message(number),)) for number in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with bus.receiver("archive", mode="receive-and-delete") as receiver:
            assert sorted(receiver.receive(timeout=60).body for _ in threads) == list(range(5))
    with pytest.raises(anyio.ClosedResourceError):
        sender.send(Message(b"x"))


def test_every_name() -> None:
    """Each class has the methods of the asynchronous one, and those that wait have a timeout."""
    for name in amqp10.sync.azure.__all__:
        here, there = getattr(amqp10.sync.azure, name), getattr(amqp10.azure, name)
        for method, function in inspect.getmembers(there, inspect.isfunction):
            if not method.startswith("_"):
                waits = inspect.iscoroutinefunction(function)
                assert ("timeout" in inspect.signature(getattr(here, method)).parameters) == waits, method
