"""One trace over our client and Microsoft's SDK: each finds the context that the other writes, and links to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from anyio import to_thread
from azure.core.settings import settings
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from amqp10 import Message
from amqp10.azure import ServiceBus
from amqp10.broker.azure import AzureConfig
from amqp10.otel import extract, instrument, uninstrument
from amqp10.testing import BackgroundServiceBus

azure_spans = pytest.importorskip("azure.core.tracing.ext.opentelemetry_span")

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.parametrize("anyio_backend", ["trio"]),
    pytest.mark.capability("OpenTelemetry"),
]


class Spans:
    """What both have exported.

    Attributes:
        tracer: of the application.
    """

    def __init__(self) -> None:
        self._exported = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exported))
        self.tracer = self.provider.get_tracer("application")

    def one(self, name: str) -> ReadableSpan:
        """Return the only span of that name that has a link, or the only one."""
        found = [span for span in self._exported.get_finished_spans() if span.name == name]
        (span,) = [span for span in found if span.links] or found
        return span


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    """Both report here; the SDK knows OpenTelemetry's global provider alone, which is a process's for ever."""
    spans = Spans()
    before = settings.tracing_implementation()
    settings.tracing_implementation = azure_spans.OpenTelemetrySpan
    instrument(tracer_provider=spans.provider)
    monkeypatch.setattr(trace, "get_tracer", lambda *_, **__: spans.provider.get_tracer("azure"))
    yield spans
    uninstrument()
    settings.tracing_implementation = before


def answer(connection_string: str, spans: Spans) -> None:
    """Take an order by the SDK, and answer it within the trace that the order is of."""
    with ServiceBusClient.from_connection_string(connection_string) as client:
        with client.get_queue_receiver("orders") as receiver:
            [message] = receiver.receive_messages(1, max_wait_time=60)
            receiver.complete_message(message)
        written: Any = message.application_properties  # in bytes
        properties = {key.decode(): value.decode() for key, value in written.items()}
        context = extract(Message(b"", application_properties=properties))
        with spans.tracer.start_as_current_span("answer", context), client.get_queue_sender("answers") as sender:
            sender.send_messages(ServiceBusMessage("an answer"))


async def test_there_and_back(spans: Spans) -> None:
    """From our sender to the SDK's receiver, and from its sender to ours: all of it is one trace, by its links."""
    with BackgroundServiceBus(AzureConfig(["orders", "answers"])) as emulator:
        async with ServiceBus(emulator.connection_string) as bus:
            with spans.tracer.start_as_current_span("order") as order:
                async with bus.sender("orders") as sender:
                    await sender.send("an order")
            await to_thread.run_sync(answer, emulator.connection_string, spans)
            async with bus.receiver("answers") as receiver:
                delivery = await receiver.receive()
                await delivery.complete()
    made = spans.one("send orders").context
    assert made.trace_id == order.get_span_context().trace_id
    for name in ("ServiceBus.receive", "ServiceBus.complete"):
        assert [link.context.span_id for link in spans.one(name).links] == [made.span_id]
    written = spans.one("ServiceBus.message").context
    assert written.trace_id == made.trace_id
    for name in ("receive answers", "complete answers"):
        assert [(link.context.trace_id, link.context.span_id) for link in spans.one(name).links] == [
            (made.trace_id, written.span_id)
        ]
