"""The trace context of a message, written to the application-properties, which are the headers of 0-9-1.

It is read first from the message-annotations, where an intermediary may have changed it (W3C's draft for AMQP), then
from the application-properties, then from `Diagnostic-Id`, which Azure's older libraries write.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from opentelemetry import propagate, trace
from opentelemetry.context import Context

from ..errors import DecodeError
from ..messaging import Message

_DIAGNOSTIC_ID: Final = "Diagnostic-Id"
_MAX_LENGTH: Final = 8192
"""The longest field to read, in characters: W3C's limit. OpenTelemetry would log longer fields in full."""


def inject(message: Message, context: Context | None = None) -> Message:
    """Return a copy of the message with a trace context in its application-properties.

    A message that already has a context is returned unchanged.

    Args:
        context: the context to write; None for the current one.
    """
    if _found(message) is not None:
        return message
    carrier: dict[str, str] = {}
    propagate.inject(carrier, context)
    if not carrier:
        return message
    carrying = copy.copy(message)
    carrying.application_properties = {**message.application_properties, **carrier}
    return carrying


def extract(message: Message) -> Context:
    """Return the trace context of a message; an empty context if it has none, or is malformed."""
    carrier = _found(message)
    return propagate.extract(carrier, Context()) if carrier is not None else Context()


def span_context(message: Message) -> trace.SpanContext | None:
    """Return the context of the span that created a message; None if the message has none."""
    found = trace.get_current_span(extract(message)).get_span_context()
    return found if found.is_valid else None


def _found(message: Message) -> dict[str, str] | None:
    fields = propagate.get_global_textmap().fields
    try:
        for properties in (message.message_annotations, message.application_properties):
            if any(name in properties for name in fields):
                return _texts(properties)
        diagnostic = message.application_properties.get(_DIAGNOSTIC_ID)
    except DecodeError:
        return None
    return _texts({"traceparent": diagnostic}) if isinstance(diagnostic, str) else None


def _texts(properties: Mapping[Any, Any]) -> dict[str, str]:
    return {
        str(name): value for name, value in properties.items() if isinstance(value, str) and len(value) <= _MAX_LENGTH
    }
