"""Property filters of the AMQP filter expressions: fields compared with values, no language to parse.

AMQP Filter Expressions 1.0, committee specification draft 01, section 4:
https://docs.oasis-open.org/amqp/filtex/v1.0/csd01/filtex-v1.0-csd01.html#_Toc67929266
RabbitMQ from 4.1 has them for streams (deps/rabbit/src/rabbit_amqp_filter_prop.erl), and the embedded broker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Final, TypedDict, Unpack
from uuid import UUID

from ...types import Symbol, Timestamp, UInt, ULong
from .filters import Filter


@dataclass(frozen=True, slots=True)
class StartsWith:
    """In a property filter: a string that begins with `text`, case and all."""

    text: str


@dataclass(frozen=True, slots=True)
class EndsWith:
    """In a property filter: a string that ends with `text`, case and all."""

    text: str


Text = str | StartsWith | EndsWith


class PropertyValues(TypedDict, total=False):
    """The keyword arguments of `PropertiesFilter`: the fields of the properties section (§3.2.4)."""

    message_id: Text | int | UUID | bytes
    user_id: bytes
    to: Text
    subject: Text
    reply_to: Text
    correlation_id: Text | int | UUID | bytes
    content_type: str
    content_encoding: str
    absolute_expiry_time: datetime | Timestamp
    creation_time: datetime | Timestamp
    group_id: Text
    group_sequence: int
    reply_to_group_id: Text


class PropertiesFilter(Filter):
    """Messages with these properties (`amqp:properties-filter`); all of them have to match.

        PropertiesFilter(subject=StartsWith("order."), group_id="eu")

    Raises:
        TypeError: a field that the properties section does not have.
    """

    __slots__ = ()
    descriptor_name: ClassVar[Symbol] = Symbol("amqp:properties-filter")
    descriptor_code: ClassVar[int] = 0x173
    usual_name = "properties-filter"

    def __init__(self, **fields: Unpack[PropertyValues]) -> None:
        if not fields.keys() <= PropertyValues.__annotations__.keys():
            unknown = min(fields.keys() - PropertyValues.__annotations__.keys())
            raise TypeError(f"the properties of a message have no {unknown!r}")
        super().__init__(
            {Symbol(name.replace("_", "-")): _TYPES.get(name, reference)(value) for name, value in fields.items()}
        )


class ApplicationPropertiesFilter(Filter):
    """Messages with these application properties (`amqp:application-properties-filter`); all have to match.

        ApplicationPropertiesFilter({"region": "eu", "kind": EndsWith(".created"), "urgent": True})

    Args:
        properties: name to value, of the simple types that application properties may have; None for any value.
    """

    __slots__ = ()
    descriptor_name: ClassVar[Symbol] = Symbol("amqp:application-properties-filter")
    descriptor_code: ClassVar[int] = 0x174
    usual_name = "application-properties-filter"

    def __init__(self, properties: Mapping[str, Any]) -> None:
        super().__init__({name: reference(value) for name, value in properties.items()})


# "&p:" is followed by a prefix, "&s:" by a suffix, and "&&" is an ampersand at the beginning (section 4.1.1).
PREFIX: Final = "&p:"
SUFFIX: Final = "&s:"


def reference(value: Any) -> Any:
    """Return a value as a property filter states it: a string's first characters may need to be escaped."""
    if isinstance(value, StartsWith):
        return PREFIX + value.text
    if isinstance(value, EndsWith):
        return SUFFIX + value.text
    if type(value) is str and value.startswith("&"):
        return "&" + value
    return value


def _identifier(value: Any) -> Any:
    return ULong(value) if type(value) is int else reference(value)


# Fields whose AMQP type is not that of the Python value.
_TYPES: Final[dict[str, Callable[[Any], Any]]] = {
    "message_id": _identifier,
    "correlation_id": _identifier,
    "content_type": Symbol,
    "content_encoding": Symbol,
    "group_sequence": UInt,
}
