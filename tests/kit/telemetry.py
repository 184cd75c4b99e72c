"""What spans and metrics are exported to."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Seen:
    """What was exported.

    Attributes:
        tracer: of the application.
        settings: for `instrument`.
    """

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._spans))
        self._metrics = InMemoryMetricReader()
        self.tracer = provider.get_tracer("application")
        self.settings: dict[str, Any] = {
            "tracer_provider": provider,
            "meter_provider": MeterProvider([self._metrics]),
        }

    def spans(self, name: str | None = None) -> list[ReadableSpan]:
        return [span for span in self._spans.get_finished_spans() if name in (None, span.name)]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.spans(name)
        return span

    def metrics(self) -> dict[str, list[Any]]:
        data = self._metrics.get_metrics_data()
        scopes = [] if data is None else [scope for each in data.resource_metrics for scope in each.scope_metrics]
        return {metric.name: list(metric.data.data_points) for scope in scopes for metric in scope.metrics}
