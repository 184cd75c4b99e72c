"""Values of application headers and those of AMQP 1.0, where both have the type; header names that the mapping uses.

| 1.0 | 0-10 |
|---|---|
| null, boolean, all integers, float, double, char, uuid, binary, string | the same |
| timestamp of whole seconds | datetime |
| decimal32, decimal64 | dec32, dec64, except infinity, NaN and exponents that do not fit |
| map with string keys, list, array of the types above | map, list, array |
| symbol, decimal128, described, other timestamps, strings above 65535 octets | none |
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from ....errors import EncodeError
from ....types import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    TypeName,
    UByte,
    UInt,
    ULong,
    UShort,
)
from ..._kit.message.mapping import PREFIX
from ..wire.values import Array010, encode_value

# Headers that hold fields which 0-10 does not have. `REST_HEADER` has values that 0-10 does not have, or that brokers
# alter: they override those of other headers.
LONG: Final = PREFIX + "long-"
"""The same for a text that is too long for a text header: the header holds its octets."""
BODY: Final = PREFIX + "body"
PARTS: Final = PREFIX + "parts"
"""The sizes of the data sections, if there are several."""

# The message annotation that holds fields which AMQP 1.0 does not have.
NATIVE_ANNOTATION: Final = Symbol("x-opt-0-10")
"""A map: fields of 0-10 by name, and as "headers" the encoded headers that have no type in AMQP 1.0."""

ENCODED: Final = "application/vnd.amqp10"
"""The content-type of a body that consists of encoded sections of AMQP 1.0."""
TEXT: Final = "text/plain"
MAP: Final = "amqp/map"
LIST: Final = "amqp/list"

_SAME: Final = frozenset(
    (type(None), bool, int, Byte, UByte, Short, UShort, Int, UInt, ULong, float, Float, Char, UUID, bytes, str)
)
_CHECKED: Final = frozenset((datetime, Timestamp, Decimal32, Decimal64))
_FRAGILE: Final = frozenset((UByte, UShort, UInt, ULong, Char, Decimal32, Decimal64, Array))
_LONG: Final = 16_000  # characters: the encoded size of a text up to this length certainly fits 16 bits

_ELEMENTS: Final[dict[str, int]] = {
    "boolean": 0x08,
    "byte": 0x01,
    "ubyte": 0x02,
    "short": 0x11,
    "ushort": 0x12,
    "int": 0x21,
    "uint": 0x22,
    "long": 0x31,
    "ulong": 0x32,
    "float": 0x23,
    "double": 0x33,
    "char": 0x27,
    "uuid": 0x48,
    "binary": 0xA0,
    "string": 0x95,
}
_NAMES: Final = {code: name for name, code in _ELEMENTS.items()} | {0x85: "string", 0x80: "binary", 0x90: "binary"}
_KINDS: Final[dict[str, Callable[[Any], Any]]] = {
    "byte": Byte,
    "ubyte": UByte,
    "short": Short,
    "ushort": UShort,
    "int": Int,
    "uint": UInt,
    "ulong": ULong,
    "float": Float,
    "char": Char,
}


class NoEquivalent(Exception):
    """The other side does not have that type of value."""


def to_header(value: Any) -> Any:
    """Return a value of AMQP 1.0 as one that a map of 0-10 holds.

    Raises:
        NoEquivalent: 0-10 does not have such a value.
    """
    kind = type(value)
    if kind in _SAME:
        if kind is str and len(value) > _LONG and len(value.encode("utf-8", "replace")) > 0xFFFF:
            raise NoEquivalent
        return value
    if kind in _CHECKED:
        try:
            encode_value(value)
        except EncodeError:
            raise NoEquivalent from None
        return value
    if kind is dict and all(type(key) is str and len(key.encode("utf-8", "replace")) < 256 for key in value):
        return {key: to_header(each) for key, each in value.items()}
    if kind is list:
        return [to_header(each) for each in value]
    if kind is Array and not value.descriptors and value.type in _ELEMENTS:
        element = _KINDS.get(value.type, lambda each: each)
        return Array010(_ELEMENTS[value.type], [to_header(element(each)) for each in value])
    raise NoEquivalent


def from_header(value: Any) -> Any:
    """Return a value of a map of 0-10 as one of AMQP 1.0.

    Raises:
        NoEquivalent: AMQP 1.0 does not have such a value.
    """
    kind = type(value)
    if kind is Timestamp and not -1 << 63 <= value < 1 << 63:
        raise NoEquivalent  # seconds there, milliseconds here
    if kind in _SAME or kind in _CHECKED:
        return value
    if kind is dict:
        return {key: from_header(each) for key, each in value.items()}
    if kind is list:
        return [from_header(each) for each in value]
    if kind is Array010 and value.code in _NAMES:
        name: TypeName = _NAMES[value.code]  # type: ignore[assignment]
        return Array(name, value)
    raise NoEquivalent


def altered_by_brokers(value: Any) -> bool:
    """Return whether brokers are known to alter values of this type as they pass them on.

    For example, Broker-J does not have unsigned integers.
    """
    if type(value) in (dict, list):
        return any(map(altered_by_brokers, value.values() if type(value) is dict else value))
    return type(value) in _FRAGILE


def is_application_value(value: Any) -> bool:
    """Return whether `value` may be an application property of AMQP 1.0 (§3.2.5): not a map, list or array."""
    return type(value) in _SAME or type(value) in _CHECKED
