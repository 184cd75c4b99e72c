"""Spans of the embedded broker, for work that no client sees."""

from __future__ import annotations

from functools import partial

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer, TracerProvider

from .._arguments import checked
from .._version import __version__
from ._services import brief
from ._telemetry import SCHEMA, links_to, readable_payload


@checked
def instrument_broker(*, tracer_provider: TracerProvider | None = None) -> None:
    """Let the brokers of this process make a span for each dead letter, linked to the span that created the message.

    Sending to a broker and receiving from it have the spans of the clients. A second call replaces the first.

    Args:
        tracer_provider: where spans go; None for OpenTelemetry's global provider.
    """
    from ..broker.internals import dead_letter_observers  # here, so that clients do not load the broker

    tracer = trace.get_tracer("amqp10", __version__, tracer_provider, schema_url=SCHEMA)
    dead_letter_observers[:] = [partial(_dead_lettered, tracer)]


def uninstrument_broker() -> None:
    """Stop the spans of brokers."""
    from ..broker.internals import dead_letter_observers

    dead_letter_observers.clear()


def _dead_lettered(tracer: Tracer, system: str, queue: str, payload: bytes, reason: str) -> None:
    message = readable_payload(payload)
    attributes = {
        "messaging.system": system,
        "messaging.operation.name": "dead_letter",
        "messaging.destination.name": brief(queue),
        "error.type": brief(reason),
    }
    if message is not None and message.message_id is not None:
        attributes["messaging.message.id"] = brief(message.message_id)
    made_by = () if message is None else (message,)
    # The span belongs to no trace of the program that runs the broker.
    span = tracer.start_span(
        f"dead_letter {brief(queue)}",
        context=Context(),
        kind=SpanKind.INTERNAL,
        attributes=attributes,
        links=links_to(made_by),
    )
    span.set_status(Status(StatusCode.ERROR, brief(reason)))
    span.end()
