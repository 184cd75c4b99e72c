"""Send, handle and trace an order, and count it. Usage: python telemetry.py [URL]

It prints its spans and metrics. For a collector take OTLPSpanExporter and
OTLPMetricExporter of the package
opentelemetry-exporter-otlp in place of the two that print.
"""

import sys

import anyio
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    ConsoleMetricExporter,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

from amqp10 import Connection, Message, Worker
from amqp10.otel import instrument, uninstrument

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost:5672"


def span_line(span: ReadableSpan) -> str:
    return f"{span.name}: {span.kind.name}, {len(span.links)} links\n"


def metric_lines(data: MetricsData) -> str:
    metrics = [
        each
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for each in scope.metrics
    ]
    return "".join(
        f"{each.name} in {each.unit}\n"
        for each in metrics
        if each.name.endswith("messages")
    )


async def main() -> None:
    resource = Resource.create({"service.name": "shop"})
    spans = TracerProvider(resource=resource)
    spans.add_span_processor(
        BatchSpanProcessor(ConsoleSpanExporter(out=sys.stdout, formatter=span_line))
    )
    printer = ConsoleMetricExporter(out=sys.stdout, formatter=metric_lines)
    metrics = MeterProvider(
        [PeriodicExportingMetricReader(printer, export_interval_millis=60_000)], resource
    )
    instrument(tracer_provider=spans, meter_provider=metrics)
    handled = anyio.Event()

    async def handle(message: Message) -> None:
        # The span `process orders`
        trace.get_current_span().set_attribute("shop.order", message.body)
        handled.set()

    async with (
        Connection(URL) as connection,
        connection.sender("orders") as sender,
        Worker(connection, "orders", handle),
    ):
        await sender.send(Message("order 1"))  # the context goes along
        await handled.wait()
    uninstrument()
    spans.shutdown()  # writes what waits
    metrics.shutdown()


anyio.run(main)
