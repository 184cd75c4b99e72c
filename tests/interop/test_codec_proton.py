"""The codec against python-qpid-proton's: equal in type and value, both ways, on values that Hypothesis makes.

Values cross as the tuples of `exact`, which are built from and written to proton's `Data` node by node here, so that
neither side's Python classes stand in for the other's.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amqp10.testing.strategies import amqp_values, arrays, exact, maps, scalars, uints, ulongs
from amqp10.types import TYPE_NAMES, Decimal32, Decimal64, Decimal128, decode, encode

proton: Any = pytest.importorskip("proton")
Data = proton.Data

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.capability("types")]

# proton hands decimals over as the bits of the encoding; bits and meaning are compared with IEEE 754's own
# examples in tests/types/test_decimal.py.
DECIMALS: dict[str, tuple[Callable[..., Any], int]] = {
    "decimal32": (Decimal32, 4),
    "decimal64": (Decimal64, 8),
    "decimal128": (Decimal128, 16),
}
CODES = {name: getattr(Data, {"boolean": "BOOL"}.get(name, name.upper())) for name in (*TYPE_NAMES, "described")}
NAMES = {code: name for name, code in CODES.items()}


def comparable(value: Any) -> Any:
    """`exact`, with decimals as the bits that proton shows."""
    return as_bits(exact(value))


def as_bits(value: Any) -> Any:
    if not isinstance(value, tuple):
        return value
    if value and isinstance(value[0], str) and value[0] in DECIMALS and len(value) == 2:
        python, _ = DECIMALS[value[0]]
        return value[0], encode(python(value[1]))[1:]
    return tuple(map(as_bits, value))


def read(data: Any) -> Any:
    """The current node of a proton Data as such a tuple."""
    name = NAMES[data.type()]
    if name == "null":
        return "null", None
    if name in ("list", "map", "described"):
        data.enter()
        children = []
        while data.next() is not None:
            children.append(read(data))
        data.exit()
        if name == "list":
            return "list", tuple(children)
        if name == "map":
            return "map", tuple(zip(children[::2], children[1::2], strict=True))
        return "described", *children
    if name == "array":
        _, described, element = data.get_array()
        data.enter()
        children = []
        while data.next() is not None:
            children.append(read(data))
        data.exit()
        descriptors = (children.pop(0),) if described else ()
        return "array", NAMES[element], descriptors, tuple(children)
    raw = getattr(data, {"boolean": "get_bool"}.get(name, f"get_{name}"))()
    if name in ("float", "double"):
        return name, "NaN" if raw != raw else struct.pack(">d", raw)
    if name == "decimal128":
        return name, bytes(raw)
    if name in DECIMALS:
        return name, int(raw).to_bytes(DECIMALS[name][1], "big")
    if name in ("string", "symbol", "char"):
        return name, str(raw)
    if name == "boolean":
        return name, bool(raw)
    if name == "binary":
        return name, bytes(raw)
    if name == "uuid":
        return name, raw
    return name, int(raw)


def write(data: Any, value: Any) -> None:
    """Put such a tuple into a proton Data."""
    name = value[0]
    if name == "null":
        data.put_null()
    elif name == "list":
        data.put_list()
        fill(data, value[1])
    elif name == "map":
        data.put_map()
        fill(data, [each for pair in value[1] for each in pair])
    elif name == "described":
        data.put_described()
        fill(data, value[1:])
    elif name == "array":
        _, element, descriptors, items = value
        data.put_array(bool(descriptors), CODES[element])
        fill(data, [*descriptors, *items])
    else:
        raw = value[1]
        if name in ("float", "double"):
            raw = float("nan") if raw == "NaN" else struct.unpack(">d", raw)[0]
        elif name in ("decimal32", "decimal64"):
            raw = int.from_bytes(raw, "big")
        getattr(data, {"boolean": "put_bool"}.get(name, f"put_{name}"))(raw)


def fill(data: Any, children: Any) -> None:
    data.enter()
    for child in children:
        write(data, child)
    data.exit()


def proton_decode(encoded: bytes) -> Any:
    data = Data()
    assert data.decode(encoded) == len(encoded)
    data.rewind()
    data.next()
    return read(data)


def proton_encode(value: Any) -> bytes:
    data = Data()
    write(data, value)
    encoded: bytes = data.encode()
    return encoded


def twice_described(value: Any) -> bool:
    """Return whether the tuple of a value contains a description of a description.

    proton 0.40 takes what follows it in a list or a map for a part of it.
    """
    if not isinstance(value, tuple):
        return False
    if value and value[0] == "described" and len(value) == 3 and value[2][0] == "described":
        return True
    return any(map(twice_described, value))


def check(value: Any) -> None:
    expected = comparable(value)
    assert proton_decode(encode(value)) == expected
    assert comparable(decode(proton_encode(expected))) == expected


def checked(values: st.SearchStrategy[Any], examples: int) -> None:
    """Check so many examples of ten values each, both ways."""

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.lists(values, min_size=10, max_size=10))
    def each_way(batch: list[Any]) -> None:
        for value in batch:
            check(value)

    each_way()


# Ten values an example: 7,500 encoded by ours and decoded by proton, and as many the other way.


def test_scalars_cross_both_ways() -> None:
    """2,500 values of the types that contain no other."""
    checked(scalars(), 250)


def test_maps_cross_both_ways() -> None:
    """500 maps, also with keys that only their AMQP type tells apart."""
    checked(maps(keys=st.one_of(scalars(), uints(), ulongs()), values=scalars()), 50)


def test_arrays_cross_both_ways() -> None:
    """1,500 arrays of every type. proton knows one descriptor for the elements of an array at most."""
    checked(arrays(max_descriptors=1), 150)


def test_nested_values_cross_both_ways() -> None:
    """3,000 values of any type, nested."""
    values = amqp_values(max_leaves=6, max_descriptors=1)
    checked(values.filter(lambda value: not twice_described(comparable(value))), 300)
