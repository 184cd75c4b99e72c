"""Property filters of the AMQP filter expressions, which compare fields with values.

AMQP Filter Expressions 1.0, committee specification draft 01, section 4:
https://docs.oasis-open.org/amqp/filtex/v1.0/csd01/filtex-v1.0-csd01.html#_Toc67929266
RabbitMQ from 4.1 has them for streams (deps/rabbit/src/rabbit_amqp_filter_prop.erl); so has the embedded broker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Final, TypedDict, Unpack
from uuid import UUID

from ..._arguments import check_range, checked
from ...types import Symbol, Timestamp, UInt, ULong
from .filters import Filter


@checked
@dataclass(frozen=True, slots=True)
class StartsWith:
    """In a property filter: matches a string that begins with `text`, case-sensitively."""

    text: str


@checked
@dataclass(frozen=True, slots=True)
class EndsWith:
    """In a property filter: matches a string that ends with `text`, case-sensitively."""

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


@checked
class PropertiesFilter(Filter):
    """A filter by properties, which must all match (`amqp:properties-filter`).

        PropertiesFilter(subject=StartsWith("order."), group_id="eu")

    Raises:
        TypeError: a keyword is not a field of the properties section, or a value has another type.
        ValueError: `group_sequence` does not fit in 32 bits.
    """

    __slots__ = ()
    descriptor_name: ClassVar[Symbol] = Symbol("amqp:properties-filter")
    descriptor_code: ClassVar[int] = 0x173
    usual_name = "properties-filter"

    def __init__(self, **fields: Unpack[PropertyValues]) -> None:
        if "group_sequence" in fields:
            check_range("group_sequence", fields["group_sequence"], 0, 0xFFFF_FFFF)
        super().__init__(
            {Symbol(name.replace("_", "-")): _TYPES.get(name, reference)(value) for name, value in fields.items()}
        )


@checked
class ApplicationPropertiesFilter(Filter):
    """A filter by application properties, which must all match (`amqp:application-properties-filter`).

        ApplicationPropertiesFilter({"region": "eu", "kind": EndsWith(".created"), "urgent": True})

    Args:
        properties: values by name, of the simple types of application properties; None for any value.
    """

    __slots__ = ()
    descriptor_name: ClassVar[Symbol] = Symbol("amqp:application-properties-filter")
    descriptor_code: ClassVar[int] = 0x174
    usual_name = "application-properties-filter"

    def __init__(self, properties: Mapping[str, Any]) -> None:
        super().__init__({name: reference(value) for name, value in properties.items()})


# "&p:" introduces a prefix, "&s:" a suffix, and "&&" escapes a leading ampersand (section 4.1.1).
PREFIX: Final = "&p:"
SUFFIX: Final = "&s:"


def reference(value: Any) -> Any:
    """Return a value as a property filter encodes it: the beginning of a string may need escaping."""
    if isinstance(value, StartsWith):
        return PREFIX + value.text
    if isinstance(value, EndsWith):
        return SUFFIX + value.text
    if type(value) is str and value.startswith("&"):
        return "&" + value
    return value


def _identifier(value: Any) -> Any:
    return ULong(value) if type(value) is int else reference(value)


# Fields whose AMQP type differs from that of the Python value.
_TYPES: Final[dict[str, Callable[[Any], Any]]] = {
    "message_id": _identifier,
    "correlation_id": _identifier,
    "content_type": Symbol,
    "content_encoding": Symbol,
    "group_sequence": UInt,
}
