"""Spans of the embedded broker: what it does with a message that no client sees."""

from __future__ import annotations

from functools import partial

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer, TracerProvider

from .._version import __version__
from ._services import brief
from ._telemetry import SCHEMA, links_to, readable_payload


def instrument_broker(*, tracer_provider: TracerProvider | None = None) -> None:
    """Let the brokers of this process make a span of each dead letter, with a link to the span that made the message.

    What is sent to a broker and received from it is seen by the spans of its clients. Calling it again replaces what
    was there.

    Args:
        tracer_provider: where to; None: OpenTelemetry's global one.
    """
    from ..broker.internals import dead_letter_observers  # only here: clients need not load the broker

    tracer = trace.get_tracer("amqp10", __version__, tracer_provider, schema_url=SCHEMA)
    dead_letter_observers[:] = [partial(_dead_lettered, tracer)]


def uninstrument_broker() -> None:
    """Let brokers make no more spans."""
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
    # It belongs to no trace of the program that runs the broker.
    span = tracer.start_span(
        f"dead_letter {brief(queue)}",
        context=Context(),
        kind=SpanKind.INTERNAL,
        attributes=attributes,
        links=links_to(made_by),
    )
    span.set_status(Status(StatusCode.ERROR, brief(reason)))
    span.end()
