"""The context of a trace in a message: written to application-properties, which are the headers of 0-9-1.

It is read from message-annotations first, where one is that changed it on the way (W3C's draft for AMQP), then from
application-properties, then from `Diagnostic-Id` as Azure's older libraries write it.
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
_LONGEST: Final = 8192
"""Characters of a field that is read: the most that W3C has for any. OpenTelemetry logs longer ones in full."""


def inject(message: Message, context: Context | None = None) -> Message:
    """Return the message with the context of a span in its application-properties; the message itself stays as it is.

    A message that has a context already, whoever set it, is returned as it is.

    Args:
        context: that to write; None: the current one.
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
    """Return the context that a message has; an empty one where it has none, or cannot be read."""
    carrier = _found(message)
    return propagate.extract(carrier, Context()) if carrier is not None else Context()


def span_context(message: Message) -> trace.SpanContext | None:
    """Return the span that made a message; None where it names none."""
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
    return {str(name): value for name, value in properties.items() if isinstance(value, str) and len(value) <= _LONGEST}
