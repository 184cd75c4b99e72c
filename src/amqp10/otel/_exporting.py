"""Spans of a process that has no code of its own for them, as `amqp10 broker --otel NAME` has it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from threading import Thread
from typing import Final

from ._broker import instrument_broker, uninstrument_broker

PATIENCE: Final = 5.0
"""Seconds that the exporter has for what waits, when the block is left."""

_log = logging.getLogger("amqp10.broker")


@contextmanager
def exporting_broker(exporter: str) -> Iterator[None]:
    """Let the brokers of this process make spans in the block, and export them; OpenTelemetry's variables say where to.

    Args:
        exporter: as in `OTEL_TRACES_EXPORTER`: the name that an installed package gave it.

    Raises:
        LookupError: no such exporter is installed, or OpenTelemetry's SDK is not.
    """
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise LookupError("spans need the package opentelemetry-sdk: pip install opentelemetry-sdk") from None
    found = {each.name: each for each in entry_points(group="opentelemetry_traces_exporter")}
    if exporter not in found:
        raise LookupError(
            f"the exporter {exporter!r:.80} is not installed; installed are {', '.join(sorted(found))}: otlp is in the "
            "package opentelemetry-exporter-otlp"
        )
    resource = Resource.create()
    if str(resource.attributes["service.name"]).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": "amqp10-broker"}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(found[exporter].load()()))
    instrument_broker(tracer_provider=provider)
    try:
        yield
    finally:
        uninstrument_broker()
        writing = Thread(target=provider.shutdown, daemon=True)  # writes what waits
        writing.start()
        writing.join(PATIENCE)
        if writing.is_alive():
            _log.error("the last spans were not exported within %g s", PATIENCE)
