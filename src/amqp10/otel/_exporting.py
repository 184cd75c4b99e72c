"""Exports spans of a process without code of its own for that, for `amqp10 broker --otel NAME`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from threading import Thread
from typing import Final

from .._arguments import without_secrets
from ._broker import instrument_broker, uninstrument_broker

TIMEOUT: Final = 5.0
"""Seconds that the exporter has to write pending spans when the block is left."""

_log = logging.getLogger("amqp10.broker")


@contextmanager
def exporting_broker(exporter: str) -> Iterator[None]:
    """Make and export spans of this process's brokers within the block, to where OpenTelemetry's variables point.

    Args:
        exporter: the name of an installed exporter, as in `OTEL_TRACES_EXPORTER`.

    Raises:
        LookupError: the exporter or OpenTelemetry's SDK is not installed.
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
            f"the exporter {without_secrets(exporter)} is not installed; installed are {', '.join(sorted(found))}: "
            "otlp is in the package opentelemetry-exporter-otlp"
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
        writing = Thread(target=provider.shutdown, daemon=True)  # writes pending spans
        writing.start()
        writing.join(TIMEOUT)
        if writing.is_alive():
            _log.error("the last spans were not exported within %g s", TIMEOUT)
