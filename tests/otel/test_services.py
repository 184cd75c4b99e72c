"""Spans of Service Bus, Event Hubs and RabbitMQ: names of operations and destinations as the conventions have them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.semconv._incubating.attributes import messaging_attributes
from opentelemetry.trace import SpanKind, StatusCode

from amqp10 import Connection, LinkDetached, Message
from amqp10.azure import EventHub, EventProcessor, MessageNotFound, ReceivedEvent, ServiceBus
from amqp10.azure.processor import MemoryLeases
from amqp10.broker import Broker, TokenRules
from amqp10.broker.azure import (
    EMULATOR_RULE,
    AzureConfig,
    EventHubConfig,
    QueueConfig,
    SubscriptionConfig,
    TopicConfig,
    connection_string,
)
from amqp10.otel import instrument
from amqp10.otel._services import destination
from amqp10.rabbitmq import exchange_address, management, queue_address

from ..kit.telemetry import Seen

pytestmark = [pytest.mark.anyio, pytest.mark.capability("OpenTelemetry")]

KNOWN = {value for name, value in vars(messaging_attributes).items() if name.isupper()}
STATUS = "messaging.servicebus.disposition_status"


@pytest.fixture
async def bus(seen: Seen) -> AsyncIterator[ServiceBus]:
    config = AzureConfig([QueueConfig("orders")], [TopicConfig("news", [SubscriptionConfig("all")])])
    async with Broker(azure=config, tokens=TokenRules([EMULATOR_RULE])) as broker:
        made = ServiceBus(connection_string(broker.url))
        instrument(made.connection, **seen.settings)
        async with made:
            yield made


@pytest.fixture
async def hub(seen: Seen) -> AsyncIterator[EventHub]:
    config = AzureConfig(event_hubs=[EventHubConfig("telemetry", 1, [])])
    async with Broker(azure=config, tokens=TokenRules([EMULATOR_RULE])) as broker:
        made = EventHub(connection_string(broker.url), "telemetry")
        instrument(made.connection, **seen.settings)
        async with made:
            yield made


def said(span: ReadableSpan) -> dict[str, Any]:
    return {name.removeprefix("messaging."): value for name, value in (span.attributes or {}).items()}


def links(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]


# Service Bus


@pytest.mark.parametrize("name", ["complete", "abandon", "defer", "dead_letter"])
async def test_settling(name: str, bus: ServiceBus, seen: Seen) -> None:
    """An outcome has the service's own word, as the operation and as the status of the disposition."""
    async with bus.sender("orders") as sender, bus.receiver("orders") as receiver:
        await sender.send(Message("x", message_id="m"))
        delivery = await receiver.receive()
        await getattr(delivery, name)()
    statuses = {each.value for each in messaging_attributes.MessagingServicebusDispositionStatusValues}
    span = seen.one(f"{name} orders")
    assert (span.kind, links(span)) == (SpanKind.CLIENT, [seen.one("send orders").context.span_id])
    assert said(span)["operation.type"] == "settle"
    assert said(span)["servicebus.disposition_status"] == said(span)["operation.name"] == name
    assert name in statuses
    # Tokens and the links of the management node are no messages of the application.
    assert {span.name for span in seen.spans()} == {"send orders", "receive orders", f"{name} orders"}


async def test_what_is_said_of_a_message(bus: ServiceBus, seen: Seen) -> None:
    """When it came, and how often it was delivered before."""
    async with bus.sender("orders") as sender, bus.receiver("orders") as receiver:
        await sender.send("x")
        first = await receiver.receive()
        await first.abandon()
        await (await receiver.receive()).complete()
    assert first.enqueued_at is not None
    came = int(first.enqueued_at.timestamp())
    before, again = (said(span) for span in seen.spans("receive orders"))
    assert (before["servicebus.message.enqueued_time"], again["servicebus.message.enqueued_time"]) == (came, came)
    assert "servicebus.message.delivery_count" not in before
    assert again["servicebus.message.delivery_count"] == 1


async def test_a_block(bus: ServiceBus, seen: Seen) -> None:
    """`async with delivery` is the processing: its outcome and the application's spans are within it."""
    async with bus.sender("orders") as sender, bus.receiver("orders") as receiver:
        await sender.send("x")
        with pytest.raises(ValueError, match="no"):
            async with await receiver.receive():
                raise ValueError("no")
        async with await receiver.receive() as message:
            with seen.tracer.start_as_current_span("work"):
                assert message.body == "x"
    failed, done = seen.spans("process orders")
    assert (said(failed)["error.type"], failed.status.status_code) == ("ValueError", StatusCode.ERROR)
    assert done.kind is SpanKind.CONSUMER
    assert links(done) == [seen.one("send orders").context.span_id]
    for name, within in (("abandon orders", failed), ("complete orders", done), ("work", done)):
        parent = seen.one(name).parent
        assert parent is not None
        assert parent.span_id == within.context.span_id
    assert [point.count for point in seen.metrics()["messaging.process.duration"]] == [1, 1]


async def test_messages_within_others(bus: ServiceBus, seen: Seen) -> None:
    """Those of a batch, and scheduled ones, each have the context of their own making; they are counted one by one."""
    async with bus.sender("orders") as sender, bus.receiver("orders") as receiver:
        batch = sender.batch()
        assert batch.add("a")
        assert batch.add("b")
        await sender.send(batch)
        await sender.schedule_many(["c"], datetime.now(UTC) - timedelta(seconds=1))
        for _ in range(3):
            await (await receiver.receive()).complete()
    made = [span.context.span_id for span in seen.spans("create orders")]
    assert len(made) == 3
    assert [link for span in seen.spans("receive orders") for link in links(span)] == made
    send, schedule = seen.one("send orders"), seen.one("schedule orders")
    assert (send.kind, said(send)["batch.message_count"]) == (SpanKind.CLIENT, 2)
    assert (schedule.kind, said(schedule)["batch.message_count"]) == (SpanKind.CLIENT, 1)
    assert said(schedule)["operation.type"] == "send"
    sent = {
        point.attributes["messaging.operation.name"]: point.value
        for point in seen.metrics()["messaging.client.sent.messages"]
    }
    assert sent == {"send": 2, "schedule": 1}


async def test_what_the_management_node_does(bus: ServiceBus, seen: Seen) -> None:
    """Each operation there is a span of its name; a message that it brings is linked to its making, and counted."""
    async with bus.sender("orders") as sender, bus.receiver("orders") as receiver:
        await sender.cancel_scheduled(await sender.schedule("later", datetime.now(UTC) + timedelta(hours=1)))
        await sender.send("x")
        delivery = await receiver.receive()
        await delivery.renew_lock()
        await delivery.defer()
        await receiver.peek()
        [deferred] = await receiver.receive_deferred(delivery.sequence_number)
        await deferred.complete()
    expected = {
        "cancel_scheduled": None,
        "renew_message_lock": None,
        "peek": "receive",
        "receive_deferred": "receive",
        "complete": "settle",
    }
    for name, kind in expected.items():
        span = seen.one(f"{name} orders")
        assert (span.kind, said(span).get("operation.type")) == (SpanKind.CLIENT, kind)
    assert (seen.one("complete orders").attributes or {})[STATUS] == "complete"
    made = seen.one("send orders").context.span_id
    assert links(seen.one("receive_deferred orders")) == links(seen.one("peek orders")) == [made]
    consumed = {
        point.attributes["messaging.operation.name"]: point.value
        for point in seen.metrics()["messaging.client.consumed.messages"]
    }
    assert consumed == {"receive": 1, "receive_deferred": 1, "peek": 1}
    assert {name for span in seen.spans() for name in span.attributes or {} if name.startswith("messaging.")} <= KNOWN


async def test_a_subscription(bus: ServiceBus, seen: Seen) -> None:
    """It is an attribute of its own, and the destination is the topic."""
    async with bus.sender("news") as sender, bus.receiver("news", subscription="all") as receiver:
        await sender.send("x")
        await (await receiver.receive()).complete()
    span = said(seen.one("receive news"))
    assert (span["destination.name"], span["destination.subscription.name"]) == ("news", "all")
    [point] = seen.metrics()["messaging.client.consumed.messages"]
    assert point.attributes["messaging.destination.subscription.name"] == "all"


async def test_what_is_refused(bus: ServiceBus, seen: Seen) -> None:
    """An operation that the service refuses is one that failed."""
    async with bus.sender("orders") as sender:
        with pytest.raises(MessageNotFound):
            await sender.cancel_scheduled(4711)
    span = seen.one("cancel_scheduled orders")
    assert span.status.status_code is StatusCode.ERROR
    assert said(span)["error.type"] == "com.microsoft:message-not-found"
    durations = seen.metrics()["messaging.client.operation.duration"]
    assert [point.attributes["error.type"] for point in durations] == ["com.microsoft:message-not-found"]


# Event Hubs


async def test_an_event_hub(hub: EventHub, seen: Seen) -> None:
    """Group and partition are attributes; reading settles nothing; what the hub says of itself is asked by name."""
    async with hub.sender(partition=0) as sender:
        batch = sender.batch()
        assert batch.add("a")
        await sender.send(batch)
    async with hub.reader("0") as reader:
        event = await reader.receive()
    await hub.properties()
    await hub.partition_properties("0")
    send, receive = seen.one("send telemetry"), seen.one("receive telemetry")
    assert links(receive) == [seen.one("create telemetry").context.span_id]
    assert said(send)["destination.partition.id"] == "0"
    assert event.enqueued_at is not None
    expected = {
        "system": "eventhubs",
        "operation.name": "receive",
        "destination.name": "telemetry",
        "destination.partition.id": "0",
        "consumer.group.name": "$Default",
        "eventhubs.message.enqueued_time": int(event.enqueued_at.timestamp()),
    }
    assert expected.items() <= said(receive).items()
    names = {span.name.split()[0] for span in seen.spans()}
    assert names == {"create", "send", "receive", "get_event_hub_properties", "get_partition_properties"}


async def test_a_processor(hub: EventHub, seen: Seen) -> None:
    """The handler of a processor runs in the span of the processing."""
    done = anyio.Event()

    async def handle(event: ReceivedEvent) -> None:
        with seen.tracer.start_as_current_span("work"):
            done.set()

    async with hub.sender() as sender:
        await sender.send("x")
    async with EventProcessor(hub, handle, store=MemoryLeases()):
        await done.wait()
    process = seen.one("process telemetry")
    assert links(process) == [seen.one("send telemetry").context.span_id]
    parent = seen.one("work").parent
    assert parent is not None
    assert parent.span_id == process.context.span_id


# RabbitMQ


async def test_rabbitmq(seen: Seen) -> None:
    """The destination is exchange and key for who sends, the queue for who receives; its management is no message."""
    properties = {"product": "RabbitMQ", "version": "4.3.0"}
    async with Broker(auto_create=False, properties=properties) as broker, Connection(broker.url) as connection:
        instrument(connection, **seen.settings)
        async with management(connection) as rabbit:
            await rabbit.declare_queue("orders/eu", "quorum")
            await rabbit.declare_exchange("events", "topic")
            await rabbit.bind("events", queue="orders/eu", key="order.#")
        async with connection.sender(exchange_address("events", "order.new")) as sender:
            await sender.send("x")
        async with connection.receiver(queue_address("orders/eu")) as receiver:
            (await receiver.receive()).accept()
        with pytest.raises(LinkDetached):
            async with connection.sender(queue_address("nobody")):
                pass
    sent, received = said(seen.one("send events:order.new")), said(seen.one("receive orders/eu"))
    for span in (sent, received):
        assert span["system"] == "rabbitmq"
        assert span["rabbitmq.destination.routing_key"] == "order.new"
    assert {span.name.split()[0] for span in seen.spans()} == {"send", "receive", "accept"}


@pytest.mark.parametrize(
    ("system", "address", "name", "more"),
    [
        ("rabbitmq", "/queues/a%2Fb", "a/b", {}),
        ("rabbitmq", "/exchanges/amq.topic/k%20k", "amq.topic:k k", {"rabbitmq.destination.routing_key": "k k"}),
        ("rabbitmq", "/exchanges/amq.fanout", "amq.fanout", {}),
        ("rabbitmq", "orders", "orders", {}),
        ("rabbitmq", "/queues/a/b", "/queues/a/b", {}),
        ("amqp", "/queues/a", "/queues/a", {}),
        ("servicebus", "t/Subscriptions/s", "t", {"destination.subscription.name": "s"}),
        (
            "servicebus",
            "t/subscriptions/s/$DeadLetterQueue",
            "t/subscriptions/s/$DeadLetterQueue",
            {"destination.subscription.name": "s"},
        ),
        ("servicebus", "orders/$DeadLetterQueue", "orders/$DeadLetterQueue", {}),
        ("servicebus", "orders/$management", "orders", {}),
        ("servicebus", "", "", {}),
        (
            "eventhubs",
            "h/ConsumerGroups/g/Partitions/12",
            "h",
            {"consumer.group.name": "g", "destination.partition.id": "12"},
        ),
        ("eventhubs", "h/Partitions/1", "h", {"destination.partition.id": "1"}),
        ("eventhubs", "h", "h", {}),
        ("eventhubs", "", "", {}),
        ("eventhubs", "/Partitions/1", "/Partitions/1", {}),
        ("eventhubs", "a\nb", "a\nb", {}),
    ],
)
def test_destinations(system: str, address: str, name: str, more: dict[str, str]) -> None:
    """What each service's addresses say; any other text is a name."""
    assert destination(system, address) == {
        f"messaging.{key}": value for key, value in {"destination.name": name, **more}.items()
    }
