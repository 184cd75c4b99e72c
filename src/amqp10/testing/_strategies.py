"""Hypothesis strategies for AMQP values: one for each type of Part 1, and `amqp_values` for all types.

Generated values have the types that `decode` returns, so that they survive a round trip unchanged. `exact` makes values
comparable by type: `UInt(1)`, `1` and `True` are equal in Python, but not their `exact`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from ..types import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Map,
    Short,
    Symbol,
    Timestamp,
    TypeName,
    UByte,
    UInt,
    ULong,
    UShort,
    encode,
)

Values = st.SearchStrategy[Any]


# Exact comparison

_NAMES: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    UByte: "ubyte",
    UShort: "ushort",
    UInt: "uint",
    ULong: "ulong",
    Byte: "byte",
    Short: "short",
    Int: "int",
    int: "long",
    Char: "char",
    UUID: "uuid",
    bytes: "binary",
    str: "string",
    Symbol: "symbol",
}


def exact(value: Any) -> Any:
    """Return a value as nested tuples of type names and plain values, equal only for the same value and types.

    In this form NaN equals NaN, 0.0 differs from -0.0, and maps are equal only in the same order.
    """
    python = type(value)
    if python in _NAMES:
        return _NAMES[python], value
    if python is list:
        return "list", tuple(map(exact, value))
    if python in (dict, Map):
        return "map", tuple((exact(key), exact(item)) for key, item in value.items())
    if python is Array:
        return "array", value.type, tuple(map(exact, value.descriptors)), tuple(map(exact, value))
    if python is Described:
        return "described", exact(value.descriptor), exact(value.value)
    if python in (float, Float):
        return "double" if python is float else "float", "NaN" if value != value else struct.pack(">d", value)
    if issubclass(python, Decimal):
        return python.__name__.lower(), value.as_tuple()
    if python is datetime:
        return "timestamp", (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    if python is Timestamp:
        return "timestamp", int(value)
    raise TypeError(f"a {python.__qualname__} is not an AMQP value")


# Scalars


def _integers(python: type[int], bits: int, *, signed: bool) -> Values:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    edges = sorted(
        {n for n in (low, low + 1, -129, -128, -1, 0, 1, 127, 128, 255, 256, high - 1, high) if low <= n <= high}
    )
    return st.one_of(st.sampled_from(edges), st.integers(low, high)).map(python)


def _decimals(python: type[Decimal], digits: int, lowest: int, highest: int) -> Values:
    number = st.builds(
        lambda sign, significand, exponent: python(f"{sign}{significand}E{exponent}"),
        st.sampled_from(["", "-"]),
        st.integers(0, 10**digits - 1),
        st.integers(lowest, highest),
    )
    nan = st.builds(
        lambda sign, kind, payload: python(f"{sign}{kind}{payload or ''}"),
        st.sampled_from(["", "-"]),
        st.sampled_from(["NaN", "sNaN"]),
        st.integers(0, 10 ** (digits - 1) - 1),
    )
    return st.one_of(number, nan, st.sampled_from([python("Infinity"), python("-Infinity")]))


_MS_OF_DATETIME = (-62_135_596_800_000, 253_402_300_799_999)


def _timestamp(ms: int) -> datetime | Timestamp:
    low, high = _MS_OF_DATETIME
    if low <= ms <= high:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    return Timestamp(ms)


_ASCII = st.characters(max_codepoint=127)
_UNICODE = st.characters(exclude_categories=["Cs"])

nulls: Callable[[], Values] = st.none
"""Return a strategy for null: None."""
booleans: Callable[[], Values] = st.booleans
"""Return a strategy for booleans."""


def ubytes() -> Values:
    """Generate `UByte`."""
    return _integers(UByte, 8, signed=False)


def ushorts() -> Values:
    """Generate `UShort`."""
    return _integers(UShort, 16, signed=False)


def uints() -> Values:
    """Generate `UInt`."""
    return _integers(UInt, 32, signed=False)


def ulongs() -> Values:
    """Generate `ULong`."""
    return _integers(ULong, 64, signed=False)


def bytes_() -> Values:
    """Generate `Byte`, the signed integer of 8 bits."""
    return _integers(Byte, 8, signed=True)


def shorts() -> Values:
    """Generate `Short`."""
    return _integers(Short, 16, signed=True)


def ints() -> Values:
    """Generate `Int`."""
    return _integers(Int, 32, signed=True)


def longs() -> Values:
    """Generate plain `int` of 64 bits."""
    return _integers(int, 64, signed=True)


def floats() -> Values:
    """Generate `Float`, including infinities and NaN."""
    return st.floats(width=32).map(Float)


def doubles() -> Values:
    """Generate plain `float`, including infinities and NaN."""
    return st.floats()


def decimal32s() -> Values:
    """Generate `Decimal32`: numbers of all exponents, zeros of both signs, infinities, NaN with and without payload."""
    return _decimals(Decimal32, 7, -101, 90)


def decimal64s() -> Values:
    """Generate `Decimal64`, like `decimal32s`."""
    return _decimals(Decimal64, 16, -398, 369)


def decimal128s() -> Values:
    """Generate `Decimal128`, like `decimal32s`."""
    return _decimals(Decimal128, 34, -6176, 6111)


def chars() -> Values:
    """Generate `Char`."""
    return _UNICODE.map(Char)


def timestamps() -> Values:
    """Generate aware `datetime` in ms, and `Timestamp` for moments that a datetime cannot hold."""
    return st.one_of(st.integers(*_MS_OF_DATETIME), st.integers(-(1 << 63), (1 << 63) - 1)).map(_timestamp)


def uuids() -> Values:
    """Generate `uuid.UUID`."""
    return st.uuids()


def binaries(max_size: int = 300) -> Values:
    """Generate `bytes`, for both widths of the size field."""
    return st.binary(max_size=max_size)


def strings(max_size: int = 100) -> Values:
    """Generate `str`, sometimes too long for the narrow size field."""
    return st.one_of(st.text(_UNICODE, max_size=max_size), st.text("aé€😀", min_size=60, max_size=300))


def symbols(max_size: int = 60) -> Values:
    """Generate `Symbol`."""
    return st.one_of(st.text(_ASCII, max_size=max_size), st.text("ab", min_size=250, max_size=260)).map(Symbol)


_SCALARS: dict[TypeName, Values] = {
    "null": nulls(),
    "boolean": booleans(),
    "ubyte": ubytes(),
    "ushort": ushorts(),
    "uint": uints(),
    "ulong": ulongs(),
    "byte": bytes_(),
    "short": shorts(),
    "int": ints(),
    "long": longs(),
    "float": floats(),
    "double": doubles(),
    "decimal32": decimal32s(),
    "decimal64": decimal64s(),
    "decimal128": decimal128s(),
    "char": chars(),
    "timestamp": timestamps(),
    "uuid": uuids(),
    "binary": binaries(),
    "string": strings(),
    "symbol": symbols(),
}


def scalars() -> Values:
    """Generate values of any type that contains no other value."""
    return st.one_of(*_SCALARS.values())


# Values that contain others


def _map_of(pairs: list[tuple[Any, Any]]) -> dict[Any, Any] | Map:
    unique = list({encode(key): (key, item) for key, item in pairs}.values())
    try:
        as_dict = dict(unique)
    except TypeError:
        return Map(unique)
    return as_dict if len(as_dict) == len(unique) else Map(unique)


def maps(keys: Values | None = None, values: Values | None = None, max_size: int = 5) -> Values:
    """Generate `dict`, or `Map` if a dict cannot hold the keys side by side; keys and values are scalars by default."""
    pairs = st.tuples(scalars() if keys is None else keys, scalars() if values is None else values)
    return st.lists(pairs, max_size=max_size).map(_map_of)


def lists(values: Values | None = None, max_size: int = 6) -> Values:
    """Generate `list`, of scalars by default."""
    return st.lists(scalars() if values is None else values, max_size=max_size)


def descriptors() -> Values:
    """Generate descriptors: `ULong` or `Symbol`."""
    return st.one_of(ulongs(), symbols(max_size=20))


def described(values: Values | None = None) -> Values:
    """Generate `Described`, of a scalar by default."""
    return st.builds(Described, descriptors(), scalars() if values is None else values)


def arrays(values: Values | None = None, max_size: int = 6, max_descriptors: int = 2) -> Values:
    """Generate `Array` of every type; `values` generates the contents of its lists and maps.

    The elements may be described, by up to `max_descriptors` nested descriptors.
    """
    inner = scalars() if values is None else values

    def array_of(name: TypeName, elements: Values, size: int) -> Values:
        described_by = st.lists(descriptors(), max_size=max_descriptors).map(tuple)
        return st.builds(Array, st.just(name), st.lists(elements, max_size=size), st.just(()) | described_by)

    elements: dict[TypeName, Values] = {**_SCALARS, "list": lists(inner, 3), "map": maps(values=inner, max_size=2)}
    elements["array"] = st.one_of(*(array_of(name, each, 3) for name, each in elements.items()))
    return st.one_of(*(array_of(name, each, max_size) for name, each in elements.items()))


def amqp_values(max_leaves: int = 12, max_descriptors: int = 2) -> Values:
    """Generate AMQP values of every type, nested in every way, with roughly up to `max_leaves` scalars."""
    return _amqp_values(max_leaves, max_descriptors)


@cache  # takes a tenth of a second, and is used by most strategies
def _amqp_values(max_leaves: int, max_descriptors: int) -> Values:
    def containers(inner: Values) -> Values:
        return st.one_of(
            lists(inner),
            maps(values=inner),
            maps(keys=inner),
            described(inner),
            arrays(inner, max_descriptors=max_descriptors),
        )

    return st.recursive(scalars(), containers, max_leaves=max_leaves)
