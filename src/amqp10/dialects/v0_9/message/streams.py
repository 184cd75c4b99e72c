"""RabbitMQ's streams: logs that are read from a place on, which a consumer says in its arguments.

https://www.rabbitmq.com/docs/streams; a message says its own place in a header.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ....errors import DecodeError
from ....messaging import Message, Source
from ....types import Described, Symbol, ULong
from ..wire.properties import BasicProperties
from ..wire.tables import Tables

if TYPE_CHECKING:
    from ....engine import LinkTerms

OFFSET: Final = "x-stream-offset"
ARGUMENTS: Final = {
    "rabbitmq:stream-offset-spec": OFFSET,
    "rabbitmq:stream-filter": "x-stream-filter",
    "rabbitmq:stream-match-unfiltered": "x-stream-match-unfiltered",
}
"""Filters of AMQP 1.0, and the arguments that say the same."""


def stream_arguments(source: object) -> dict[str, Any]:
    """Return the filters of a source as arguments of basic.consume."""
    arguments = {}
    for value in (source.filter or {}).values() if isinstance(source, Source) else ():
        if isinstance(value, Described) and value.descriptor in ARGUMENTS:
            arguments[ARGUMENTS[str(value.descriptor)]] = (
                int(value.value) if isinstance(value.value, ULong) else value.value
            )
    return arguments


def stream_filters(arguments: Mapping[str, Any]) -> dict[Any, Any] | None:
    """Return the arguments of basic.consume as filters of a source. Whoever has the queue judges them."""
    return {
        Symbol(kind): Described(Symbol(kind), arguments[name]) for kind, name in ARGUMENTS.items() if name in arguments
    } or None


def consumer_arguments(terms: LinkTerms, place: int | None) -> dict[str, Any]:
    """Return the arguments of basic.consume: properties x-*, the filters of streams, and `place` if it is known."""
    properties = terms.properties
    arguments = {str(name): value for name, value in properties.items() if str(name).startswith("x-")}
    if "priority" in properties:
        arguments["x-priority"] = properties["priority"]
    arguments |= stream_arguments(terms.source)
    return arguments if place is None else arguments | {OFFSET: place}


def place_of(payload: bytes) -> int | None:
    """Return the place of a message in its stream; None for a message of a queue."""
    place = Message.decode(payload).message_annotations.get(Symbol(OFFSET))
    return int(place) if isinstance(place, int) else None


def place_after(properties: bytes, tables: Tables) -> int | None:
    """Return the place behind a message with these properties; None for a message of a queue."""
    if OFFSET.encode() not in properties:
        return None
    try:
        headers = BasicProperties.decode(properties, tables).headers
    except DecodeError:
        return None
    place = (headers or {}).get(OFFSET)
    return place + 1 if isinstance(place, int) else None
