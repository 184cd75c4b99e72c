"""RabbitMQ's streams: logs that are read from a place on, which a consumer says in its arguments.

https://www.rabbitmq.com/docs/streams; a message says its own place in a header.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ...errors import DecodeError
from ...messaging import Message, Source
from ...types import Described, Symbol, ULong
from ._properties import BasicProperties
from ._table import Tables

if TYPE_CHECKING:
    from ...engine import LinkTerms

OFFSET: Final = "x-stream-offset"
ARGUMENTS: Final = {
    "rabbitmq:stream-offset-spec": OFFSET,
    "rabbitmq:stream-filter": "x-stream-filter",
    "rabbitmq:stream-match-unfiltered": "x-stream-match-unfiltered",
}
"""Filters of AMQP 1.0, and the arguments that say the same."""


def stream_arguments(source: object) -> dict[str, Any]:
    """The filters of a source as arguments of basic.consume."""
    said = {}
    for value in (source.filter or {}).values() if isinstance(source, Source) else ():
        if isinstance(value, Described) and value.descriptor in ARGUMENTS:
            said[ARGUMENTS[str(value.descriptor)]] = int(value.value) if isinstance(value.value, ULong) else value.value
    return said


def stream_filters(arguments: Mapping[str, Any]) -> dict[Any, Any] | None:
    """The way back; whoever has the queue judges them."""
    return {
        Symbol(kind): Described(Symbol(kind), arguments[name]) for kind, name in ARGUMENTS.items() if name in arguments
    } or None


def consumer_arguments(terms: LinkTerms, place: int | None) -> dict[str, Any]:
    """Those of basic.consume: properties x-*, the filters of streams, and the place to begin at, once there is one."""
    properties = terms.properties
    said = {str(name): value for name, value in properties.items() if str(name).startswith("x-")}
    if "priority" in properties:
        said["x-priority"] = properties["priority"]
    said |= stream_arguments(terms.source)
    return said if place is None else said | {OFFSET: place}


def place_of(payload: bytes) -> int | None:
    """Where in its stream a message is; None for one of a queue."""
    place = Message.decode(payload).message_annotations.get(Symbol(OFFSET))
    return int(place) if isinstance(place, int) else None


def place_after(properties: bytes, tables: Tables) -> int | None:
    """The place behind a message with these properties; None for one of a queue."""
    if OFFSET.encode() not in properties:
        return None
    try:
        headers = BasicProperties.decode(properties, tables).headers
    except DecodeError:
        return None
    place = (headers or {}).get(OFFSET)
    return place + 1 if isinstance(place, int) else None
