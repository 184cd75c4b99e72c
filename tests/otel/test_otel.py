"""Spans, metrics and contexts against OpenTelemetry's own SDK, and its own table of names."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Sequence
from datetime import timedelta
from importlib.metadata import EntryPoint
from typing import Any

import aio_pika
import anyio
import pytest
from opentelemetry import propagate, trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.semconv._incubating.attributes import messaging_attributes
from opentelemetry.semconv._incubating.metrics import messaging_metrics
from opentelemetry.semconv.attributes import error_attributes, server_attributes
from opentelemetry.trace import SpanKind, StatusCode

import amqp10.sync
from amqp10 import Connection, Delivery, Message, MessageRejected, Receiver, Sender, Symbol, Worker, bridge
from amqp10.azure import ServiceBus
from amqp10.broker import Broker, TokenRules
from amqp10.broker.azure import EMULATOR_RULE, AzureConfig, QueueConfig, connection_string
from amqp10.otel import _exporting, extract, inject, instrument, instrument_broker, uninstrument, uninstrument_broker
from amqp10.otel._telemetry import GAUGES, SCHEMA, error_type
from amqp10.otel.internals import exporting_broker
from amqp10.testing import BackgroundBroker

from ..kit.inside.broker import log
from ..kit.telemetry import Seen

pytestmark = [pytest.mark.anyio, pytest.mark.capability("OpenTelemetry")]

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-11111111111111111111111111111111-2222222222222222-01"


# Spans


async def test_a_message_and_its_spans(seen: Seen) -> None:
    """Names, kinds and attributes as the conventions have them; links to the making of the message, not parents."""
    async with Broker() as broker, Connection(broker.url) as connection:
        instrument(connection, **seen.settings)
        async with connection.sender("orders") as sender, connection.receiver("orders") as receiver:
            await sender.send(Message("x", message_id="m-1", correlation_id="c-1"))
            with await receiver.receive() as message:
                assert message.body == "x"
                with seen.tracer.start_as_current_span("work"):
                    pass
    send, receive = seen.one("send orders"), seen.one("receive orders")
    process, settle, work = seen.one("process orders"), seen.one("accept orders"), seen.one("work")
    assert (send.kind, receive.kind, process.kind, settle.kind) == (
        SpanKind.PRODUCER,
        SpanKind.CLIENT,
        SpanKind.CONSUMER,
        SpanKind.CLIENT,
    )
    assert [link.context.span_id for link in send.links] == []
    for span in (receive, process, settle):
        assert [link.context.span_id for link in span.links] == [send.context.span_id]
        assert span.context.trace_id != send.context.trace_id
    assert work.parent is not None
    assert work.parent.span_id == process.context.span_id
    assert settle.parent is not None
    assert settle.parent.span_id == process.context.span_id
    assert dict(send.attributes or {}) == {
        "messaging.system": "amqp",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.message.id": "m-1",
        "messaging.message.conversation_id": "c-1",
        "server.address": "127.0.0.1",
        "server.port": int(broker.url.rpartition(":")[2]),
    }
    assert [(span.attributes or {})["messaging.operation.type"] for span in (receive, process, settle)] == [
        "receive",
        "process",
        "settle",
    ]
    assert {span.instrumentation_scope.schema_url for span in (send, receive) if span.instrumentation_scope} == {SCHEMA}


async def test_names_are_those_of_the_conventions(seen: Seen) -> None:
    """Each attribute and metric that is not our own is in the conventions' package."""
    await _everything(seen)
    modules = (messaging_attributes, error_attributes, server_attributes)
    known = {value for module in modules for name, value in vars(module).items() if name.isupper()}
    used = {name for span in seen.spans() for name in span.attributes or {}}
    assert used <= known
    metrics = {value for name, value in vars(messaging_metrics).items() if name.isupper()}
    own = {gauge[0] for gauge in GAUGES}
    assert {name for name in seen.metrics() if name not in own} <= metrics
    systems = {each.value for each in messaging_attributes.MessagingSystemValues}
    types = {each.value for each in messaging_attributes.MessagingOperationTypeValues}
    for span in seen.spans():
        attributes = span.attributes or {}
        assert attributes["messaging.system"] in {*systems, "amqp"}
        assert attributes["messaging.operation.type"] in types


async def _everything(seen: Seen) -> None:
    async with Broker() as broker, Connection(broker.url) as connection:
        instrument(connection, **seen.settings)
        async with connection.sender("q") as sender, connection.receiver("q") as receiver:
            await sender.send_many(["a", "b", "c"])
            await (await sender.submit("d")).outcome()
            for delivery in await receiver.receive_batch(2, max_wait=5):
                delivery.accept()
            (await receiver.receive()).release()
            (await receiver.receive()).reject("shop:odd")


async def test_what_is_acquired_in_a_transaction(seen: Seen) -> None:
    """Its outcome has a span like any other."""
    async with Broker() as broker, Connection(broker.url) as connection:
        instrument(connection, **seen.settings)
        async with connection.sender("orders") as sender, connection.receiver("orders", credit=0) as receiver:
            await sender.send("x")
            async with connection.transaction() as transaction:
                receiver.add_credit(1, transaction=transaction)
                (await receiver.receive()).accept()
    assert seen.one("accept orders").kind is SpanKind.CLIENT


async def test_many(seen: Seen) -> None:
    """`send_many` is one span of the sending, and one of each message's making, which is what receivers link to."""
    async with Broker() as broker, Connection(broker.url) as connection:
        instrument(connection, **seen.settings)
        async with connection.sender("q") as sender, connection.receiver("q") as receiver:
            assert await sender.send_many(["a", "b", "c"]) == 3
            batch = await receiver.receive_batch(3, max_wait=5)
            while len(batch) < 3:
                batch += await receiver.receive_batch(3)
            for delivery in batch:
                delivery.accept()
    made = [span.context.span_id for span in seen.spans("create q")]
    assert len(set(made)) == 3
    send = seen.one("send q")
    assert send.kind is SpanKind.CLIENT
    assert (send.attributes or {})["messaging.batch.message_count"] == 3
    linked = [link.context.span_id for span in seen.spans("receive q") for link in span.links]
    assert linked == made
    assert {span.parent.span_id for span in seen.spans("create q") if span.parent} == {send.context.span_id}


async def test_failures(seen: Seen) -> None:
    """What fails has the AMQP condition as its error.type, and the status of an error."""
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    async with Broker(queues={"q": arguments}) as broker, Connection(broker.url) as connection:
        instrument(connection, **seen.settings)
        async with connection.sender("q") as sender:
            await sender.send("fits")
            with pytest.raises(MessageRejected):
                await sender.send("does not")
        async with connection.receiver("q") as receiver:
            with pytest.raises(ValueError, match="no"):
                with await receiver.receive():
                    raise ValueError("no")
    well, failed = seen.spans("send q")
    assert well.status.status_code is StatusCode.UNSET
    assert failed.status.status_code is StatusCode.ERROR
    assert (failed.attributes or {})["error.type"] == "amqp:resource-limit-exceeded"
    process = seen.one("process q")
    assert ((process.attributes or {})["error.type"], process.status.status_code) == ("ValueError", StatusCode.ERROR)
    assert seen.spans("modify q")
    assert error_type(KeyError()) == "KeyError"


# Contexts


@pytest.mark.parametrize("dialect", ["1.0", "0-9-1", "0-10"])
async def test_the_context_travels(dialect: str, seen: Seen) -> None:
    """In each dialect the message has the sender's span in its properties; the user's message stays as it was."""
    async with Broker(queues=["q"]) as broker, Connection(broker.url, dialect=dialect) as connection:
        instrument(connection, **seen.settings)
        async with connection.sender("q") as sender, connection.receiver("q") as receiver:
            message = Message("x", application_properties={"mine": 1})
            for _ in range(2):
                await sender.send(message)
            assert message.application_properties == {"mine": 1}
            parents = []
            for _ in range(2):
                delivery = await receiver.receive()
                delivery.accept()
                parents.append(delivery.message.application_properties["traceparent"].rpartition("-")[0])
                assert delivery.message.application_properties["mine"] == 1
    sent = [span.context for span in seen.spans("send q")]
    assert parents == [f"00-{each.trace_id:032x}-{each.span_id:016x}" for each in sent]


async def test_a_context_of_the_user_stays(seen: Seen) -> None:
    """Neither `send` nor `send_many` writes over it, and the sending is linked to it."""
    async with Broker() as broker, Connection(broker.url) as connection:
        instrument(connection, **seen.settings)
        async with connection.sender("q") as sender, connection.receiver("q") as receiver:
            own = Message("x", application_properties={"traceparent": PARENT})
            await sender.send(own)
            await sender.send_many([own])
            for _ in range(2):
                delivery = await receiver.receive()
                assert delivery.message.application_properties == {"traceparent": PARENT}
                delivery.accept()
    assert seen.spans("create q") == []
    assert [link.context.span_id for link in seen.spans("send q")[0].links] == [0xB7AD6B7169203331]


@pytest.mark.parametrize(
    ("message", "span"),
    [
        (Message("x", application_properties={"traceparent": PARENT}), 0xB7AD6B7169203331),
        (Message("x", application_properties={"Diagnostic-Id": PARENT}), 0xB7AD6B7169203331),
        (
            Message(
                "x",
                message_annotations={Symbol("traceparent"): OTHER},
                application_properties={"traceparent": PARENT, "Diagnostic-Id": PARENT},
            ),
            0x2222222222222222,
        ),
        (Message("x", application_properties={"traceparent": "nonsense"}), 0),
        (Message("x", application_properties={"traceparent": 7}), 0),
        (Message("x"), 0),
    ],
)
async def test_where_it_is_read(message: Message, span: int) -> None:
    """Annotations, then properties, then `Diagnostic-Id`; what is no context is none."""
    decoded = Message.decode(message.encode())
    assert trace.get_current_span(extract(decoded)).get_span_context().span_id == span


async def test_nothing_to_inject() -> None:
    """Without a span there is no context, and the message is the same object."""
    message = Message("x")
    assert inject(message) is message


# Metrics


async def test_metrics(seen: Seen) -> None:
    """The conventions' four, and gauges of a connection's health."""
    async with Broker() as broker, Connection(broker.url) as connection:
        instrument(connection, **seen.settings)
        async with connection.sender("q") as sender, connection.receiver("q") as receiver:
            await sender.send_many(range(5))
            await sender.send("x")
            for _ in range(4):
                with await receiver.receive():
                    pass
            while receiver.unsettled < 2:
                await receiver.receive()
            found = seen.metrics()
            sizes = {name: [point.value for point in found[name]] for name in found if "connection" in name}
    assert sum(point.value for point in found["messaging.client.sent.messages"]) == 6
    assert sum(point.value for point in found["messaging.client.consumed.messages"]) >= 4
    assert [point.count for point in found["messaging.process.duration"]] == [4]
    durations = found["messaging.client.operation.duration"]
    operations = {point.attributes["messaging.operation.name"] for point in durations}
    assert operations == {"send", "receive", "accept"}
    assert sizes["amqp10.connection.unsettled"] == [2]
    assert sizes["amqp10.connection.reconnects"] == [0]
    assert sizes["amqp10.connection.credit"][0] > 0
    assert "amqp10.connection.token.expires_in" not in sizes


async def test_addresses_of_messages(seen: Seen) -> None:
    """Where single messages say that they go has no end: a span says it, and no metric, nor the name of a span."""
    async with Broker(queues=["a", "b"]) as broker, Connection(broker.url) as connection:
        instrument(connection, **seen.settings)
        async with connection.sender(None) as sender:
            for address in ("a", "b", "a"):
                await sender.send(Message("x", to=address))
    spans = [span for span in seen.spans() if span.name.startswith("send ")]
    assert [span.attributes["messaging.destination.name"] for span in spans if span.attributes] == ["a", "b", "a"]
    assert {span.name for span in spans} == {f"send {broker.url.removeprefix('amqp://')}"}
    for points in seen.metrics().values():
        assert not any("messaging.destination.name" in point.attributes for point in points)
    assert len(seen.metrics()["messaging.client.operation.duration"]) == 1


async def test_long_values(seen: Seen, caplog: pytest.LogCaptureFixture) -> None:
    """What a message says is cut; fields of its context that are too long are not read, nor logged."""
    said = {"traceparent": PARENT, "tracestate": "a=b," * 100_000, "baggage": "k=v," * 100_000}
    message = Message("x", message_id="i" * 1_000_000, correlation_id=b"c" * 1_000_000, application_properties=said)
    async with Broker(queues=["q"]) as broker, Connection(broker.url) as connection:
        async with connection.sender("q") as sender:
            await sender.send(message)
        instrument(connection, **seen.settings)
        async with connection.receiver("q") as receiver:
            (await receiver.receive()).accept()
    span = seen.one("receive q")
    assert span.attributes is not None
    assert max(len(str(value)) for value in span.attributes.values()) == 1024
    assert [f"{link.context.trace_id:032x}" in PARENT for link in span.links] == [True]
    assert sum(len(record.getMessage()) for record in caplog.records) < 10_000
    assert not extract(Message("x", application_properties={"Diagnostic-Id": PARENT + "0" * 9000}))


async def test_gauges_end_with_their_connection(seen: Seen) -> None:
    """A connection that is over and forgotten is not held, nor told of."""
    async with Broker() as broker:
        async with Connection(broker.url) as connection:
            instrument(connection, **seen.settings)
            assert len(seen.metrics()["amqp10.connection.unsettled"]) == 1
        assert seen.metrics()["amqp10.connection.unsettled"][0].value == 0


# Everywhere, and nowhere


@pytest.mark.usefixtures("everywhere")
async def test_all_connections(seen: Seen) -> None:
    """`instrument()` is for whatever is opened from then on, streams and subscriptions, too."""
    async with Broker(topics=["t"]) as broker, Connection(broker.url) as connection:
        async with connection.subscription("t", "s", durable=False) as subscription, connection.sender("t") as sender:
            await sender.send("x")
            (await subscription.receive()).accept()
        async with connection.sender("q") as sender, connection.receiver("q", stream=True) as receiver:
            await sender.send(b"y")
            delivery = await receiver.receive()
            assert [piece async for piece in delivery.iter_body()] == [b"y"]
            delivery.accept()
            assert isinstance(sender, Sender)
            assert isinstance(receiver, Receiver)
            assert isinstance(delivery, Delivery)
            assert repr(sender).startswith("<Sender ")
    assert len(seen.spans("receive t")) == len(seen.spans("receive q")) == 1


@pytest.mark.usefixtures("everywhere")
def test_sync(seen: Seen, caplog: pytest.LogCaptureFixture) -> None:
    """The synchronous form has the same spans, the caller's as their parents."""
    with BackgroundBroker() as broker, amqp10.sync.Connection(broker.url) as connection:
        with connection.sender("q") as sender, connection.receiver("q") as receiver:
            with seen.tracer.start_as_current_span("request") as request:
                sender.send("x")
            with receiver.receive() as message:
                assert message.body == "x"
            with receiver.processing([message, message]), seen.tracer.start_as_current_span("of both") as of_both:
                pass
    alone, both = seen.spans("process q")
    assert isinstance(of_both, ReadableSpan)
    assert of_both.parent is not None
    assert of_both.parent.span_id == both.context.span_id
    send = seen.one("send q")
    assert send.parent is not None
    assert send.parent.span_id == request.get_span_context().span_id
    assert [link.context.span_id for link in alone.links] == [send.context.span_id]
    assert "detach" not in caplog.text


@pytest.mark.usefixtures("everywhere")
async def test_a_bridge(seen: Seen) -> None:
    """It passes contexts on as they are, from dialect to dialect: who receives is linked to who sent."""
    async with (
        Broker(queues=["here", "there"]) as broker,
        Connection(broker.url, dialect="0-9-1") as old,
        Connection(broker.url) as new,
    ):
        async with old.sender("here") as sender, new.receiver("there") as receiver:
            await sender.send("x")
            await bridge((old, "here"), (new, "there"), until_empty=True)
            (await receiver.receive()).accept()
    made = seen.one("send here").context.span_id
    of_bridge = [seen.one(name) for name in ("receive here", "send there", "accept here")]
    for span in (*of_bridge, seen.one("receive there")):
        assert [link.context.span_id for link in span.links] == [made]
    assert [span.kind for span in of_bridge] == [SpanKind.CLIENT] * 3
    counts = {
        name: sum(point.value for point in points) for name, points in seen.metrics().items() if "messages" in name
    }
    assert counts == {"messaging.client.sent.messages": 2, "messaging.client.consumed.messages": 2}


async def test_one_bridge_of_several(seen: Seen) -> None:
    """Where one end alone is instrumented there are its spans, those of copies and of messages in parts, too."""
    async with Broker(queues=["large", "kept", "there"]) as broker:
        async with Connection(broker.url) as told, Connection(broker.url) as other:
            instrument(told, **seen.settings)
            async with other.sender("large") as large, other.sender("kept") as kept:
                await large.send("in parts")
                await kept.send("kept")
            await bridge((told, "kept"), (other, "there"), until_empty=True, copy=True)
            await bridge((told, "large"), (other, "there"), until_empty=True, stream=True)
            await bridge((other, "there"), (told, "end"), until_empty=True)
        assert broker.queue("end").depth == 2
    assert {span.name for span in seen.spans()} == {"receive kept", "receive large", "accept large", "send end"}
    assert len(seen.spans("send end")) == 2


async def test_from_aio_pika_over_a_bridge(seen: Seen, anyio_backend: str) -> None:
    """One trace: the context that a program of 0-9-1 writes into its headers is that of who receives in 1.0."""
    if anyio_backend == "trio":
        return  # aio-pika is for asyncio
    async with Broker(users={"guest": "guest"}, queues=["here", "there"]) as broker:
        url = broker.url.replace("//", "//guest:guest@")
        with seen.tracer.start_as_current_span("order") as order:
            headers: dict[str, Any] = {}
            propagate.inject(headers)
            async with await aio_pika.connect(url) as theirs, theirs.channel() as channel:
                await channel.default_exchange.publish(aio_pika.Message(b"x", headers=headers), "here")
        async with Connection(url, dialect="0-9-1") as old, Connection(url) as new:
            instrument(new, **seen.settings)
            await bridge((old, "here"), (new, "there"), until_empty=True)
            async with new.receiver("there") as receiver:
                with await receiver.receive():
                    pass
    made = order.get_span_context().trace_id, order.get_span_context().span_id
    for name in ("send there", "receive there", "process there", "accept there"):
        [link] = seen.one(name).links
        assert (link.context.trace_id, link.context.span_id) == made, name


async def test_uninstrumented(seen: Seen) -> None:
    """After `uninstrument` links are those of the client, exactly."""
    instrument(**seen.settings)
    uninstrument()
    async with Broker() as broker, Connection(broker.url) as connection:
        async with connection.sender("q") as sender:
            assert type(sender) is Sender
            await sender.send("x")
    assert seen.spans() == []


@pytest.mark.parametrize("batch", [None, 2])
@pytest.mark.usefixtures("everywhere")
async def test_a_worker(batch: int | None, seen: Seen) -> None:
    """The handler runs in a span of its processing, which is linked to the messages' making."""
    done = anyio.Event()
    handled: list[Message] = []

    async def handle(given: Any) -> None:
        with seen.tracer.start_as_current_span("work"):
            handled.extend(given if batch else [given])
        if len(handled) == 2:
            done.set()

    async with Broker() as broker, Connection(broker.url) as connection, connection.sender("q") as sender:
        await sender.send_many(["a", "b"])
        settings: dict[str, Any] = {} if batch is None else {"batch_size": batch, "max_wait": 5}
        async with Worker(connection, "q", handle, **settings):
            await done.wait()
    processes = seen.spans("process q")
    assert len(processes) == (2 if batch is None else 1)
    made = {span.context.span_id for span in seen.spans("create q")}
    assert {link.context.span_id for span in processes for link in span.links} == made
    parents = {span.parent.span_id for span in seen.spans("work") if span.parent}
    assert parents == {span.context.span_id for span in processes}
    assert len(seen.spans("accept q")) == 2


@pytest.mark.parametrize("how", ["rejected", "expired", "too often"])
async def test_a_dead_letter_in_the_broker(how: str, seen: Seen) -> None:
    """It is a span of the broker, linked to the span that made the message, and no part of the program's trace."""
    instrument_broker(tracer_provider=seen.settings["tracer_provider"])
    try:
        with seen.tracer.start_as_current_span("of the program"):
            async with Broker(dead_letter_expired=True, max_delivery_count=1) as broker, broker.connect() as connection:
                ttl = timedelta(0) if how == "expired" else None
                properties = {"traceparent": PARENT}
                async with connection.sender("orders") as sender:
                    await sender.send(Message("x", message_id="m", application_properties=properties, ttl=ttl))
                if (
                    how != "expired"
                ):  # then nobody takes it: a consumer that waits gets a message without any time to live
                    async with connection.receiver("orders") as receiver:
                        delivery = await receiver.receive()
                        if how == "rejected":
                            delivery.reject("shop:sold-out", "no more of it")
                        else:
                            delivery.modify(delivery_failed=True)
                async with connection.receiver("dead-letter") as dead:
                    with await dead.receive() as message:
                        assert message.application_properties == properties  # for whoever handles it
    finally:
        uninstrument_broker()
    async with Broker() as broker, broker.connect() as connection, connection.sender("orders") as sender:
        await sender.send("y")
        async with connection.receiver("orders") as receiver, connection.receiver("dead-letter") as dead:
            (await receiver.receive()).reject()
            (await dead.receive()).accept()
    span = seen.one("dead_letter orders")
    assert (span.kind, span.parent, span.status.status_code) == (SpanKind.INTERNAL, None, StatusCode.ERROR)
    assert [trace.format_span_id(link.context.span_id) for link in span.links] == [PARENT.split("-")[2]]
    reasons = {"rejected": "shop:sold-out", "expired": "expired", "too often": "max-delivery-count"}
    assert span.attributes is not None
    assert dict(span.attributes) == {
        "messaging.system": "amqp",
        "messaging.operation.name": "dead_letter",
        "messaging.destination.name": "orders",
        "messaging.message.id": "m",
        "error.type": reasons[how],
    }


@pytest.mark.parametrize("how", ["asked", "too often", "expired"])
async def test_a_dead_letter_of_the_emulator(how: str, seen: Seen, caplog: pytest.LogCaptureFixture) -> None:
    """One of Service Bus is a span, too, and a line of the log."""
    caplog.set_level(logging.INFO, "amqp10.broker")
    queue = QueueConfig("orders", max_delivery_count=1, dead_letter_expired=True)
    config = AzureConfig([queue])
    instrument_broker(tracer_provider=seen.settings["tracer_provider"])
    try:
        async with Broker(azure=config, tokens=TokenRules([EMULATOR_RULE])) as broker:
            async with ServiceBus(connection_string(broker.url)) as bus:
                ttl = timedelta(milliseconds=1) if how == "expired" else None
                async with bus.sender("orders") as sender:
                    message = Message(b"x", message_id="m", application_properties={"traceparent": PARENT}, ttl=ttl)
                    await sender.send(message)
                async with bus.receiver("orders") as receiver, bus.receiver("orders", dead_letters=True) as dead:
                    if how != "expired":
                        delivery = await receiver.receive()
                        await (
                            delivery.abandon() if how == "too often" else delivery.dead_letter("sold-out", "no more")
                        )
                    await (await dead.receive()).complete()
    finally:
        uninstrument_broker()
    reasons = {"too often": "MaxDeliveryCountExceeded", "expired": "TTLExpiredException"}
    span = seen.one("dead_letter orders")
    assert [trace.format_span_id(link.context.span_id) for link in span.links] == [PARENT.split("-")[2]]
    assert span.attributes is not None
    assert dict(span.attributes) == {
        "messaging.system": "servicebus",
        "messaging.operation.name": "dead_letter",
        "messaging.destination.name": "orders",
        "messaging.message.id": "m",
        "error.type": reasons.get(how, "sold-out"),
    }
    said = [each for each in caplog.records if getattr(each, "amqp_event", None) == "message_dead_lettered"]
    assert [getattr(each, "amqp_reason", None) for each in said] == [reasons.get(how, "sold-out")]


@pytest.mark.parametrize("azure", [None, AzureConfig([QueueConfig("orders", max_delivery_count=1)])])
async def test_a_fault_of_telemetry(
    azure: AzureConfig | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A tracer that raises is a line of the log: the message is a dead letter, once, and everybody goes on."""

    def fail(*_: object) -> None:
        raise OSError("no room for spans")

    monkeypatch.setattr(log, "dead_letter_observers", [fail])
    for module in ("_routing.dead_letters", "azure._service_bus.entity"):
        monkeypatch.setattr(f"amqp10.broker.{module}.dead_letter_observers", [fail])
    dead = "dead-letter" if azure is None else "orders/$DeadLetterQueue"
    async with Broker(azure=azure) as broker, broker.connect() as connection:
        async with connection.sender("orders") as sender:
            await sender.send("x")
        async with connection.receiver("orders") as receiver, connection.receiver(dead) as letters:
            (await receiver.receive()).reject()
            (await letters.receive()).accept()
            async with connection.sender("orders") as sender:  # the same connection goes on
                await sender.send("y")
            with await receiver.receive() as message:
                assert message.body == "y"
    assert "no room for spans" in caplog.text


class Blocked(SpanExporter):
    """An exporter that waits for what does not answer."""

    answered = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.answered.wait()
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        self.answered.wait()


def test_an_exporter_that_blocks(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """What runs the broker ends soon all the same, and says what was lost."""
    entry = EntryPoint("blocked", f"{__name__}:Blocked", "opentelemetry_traces_exporter")
    monkeypatch.setattr(_exporting, "entry_points", lambda group: [entry])
    monkeypatch.setattr(_exporting, "TIMEOUT", 0.01)
    with exporting_broker("blocked"):
        pass
    Blocked.answered.set()
    assert "the last spans were not exported within 0.01 s" in caplog.text


def test_nothing_is_imported() -> None:
    """`import amqp10` loads nothing of OpenTelemetry."""
    program = "import sys, amqp10; sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_without_the_extra() -> None:
    """The error says what to install."""
    code = "import sys; sys.modules['opentelemetry'] = None; import amqp10.otel"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stderr.splitlines()[-1].startswith(
        "ImportError: amqp10.otel needs OpenTelemetry: pip install 'amqp10[otel]'"
    )
