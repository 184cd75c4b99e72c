"""The value classes: names of types that behave as the values they are."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from amqp10.types import (
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
    UByte,
    UInt,
    ULong,
    UShort,
)

pytestmark = pytest.mark.capability("types")

VALUES: list[Any] = [
    *(python(5) for python in (UByte, UShort, UInt, ULong, Byte, Short, Int, Timestamp)),
    Float(1.5),
    Decimal32("1.5"),
    Decimal64("1.5"),
    Decimal128("1.5"),
    Char("x"),
    Symbol("x"),
    Described(Symbol("d"), [1]),
    Array("uint", [1, 2], [Symbol("d")]),
    Map([(UInt(1), 2), ([3], 4)]),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_repr_names_the_type_and_evaluates_to_it(value: Any) -> None:
    """`repr` is the expression that makes the value."""
    again = eval(repr(value))
    assert type(again) is type(value)
    assert again == value


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_copies_keep_the_type(value: Any) -> None:
    """Pickle, copy and deepcopy give the same value of the same type."""
    for again in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert type(again) is type(value)
        assert again == value
        assert repr(again) == repr(value)


def test_numbers_and_text_read_as_plain_ones() -> None:
    """Equality, hash, str and format are those of the number or text itself."""
    assert UInt(5) == 5
    assert hash(ULong(5)) == hash(5)
    assert str(UInt(5)) == f"{UInt(5)}" == f"{UInt(5):d}" == "5"
    assert str(Float(1.5)) == f"{Float(1.5)}" == "1.5"
    assert str(Decimal64("1.50")) == "1.50"
    assert {"key": 1}[Symbol("key")] == 1
    assert str(Symbol("a")) == f"{Symbol('a')}" == "a"


def test_array_knows_its_type() -> None:
    """Arrays are lists that differ when their element types differ; a type must be one of the specification's."""
    assert Array("uint", [1]) == [1]
    assert Array("uint", [1]) != Array("int", [1])
    assert Array("uint", [1]) != Array("uint", [1], [Symbol("d")])
    with pytest.raises(ValueError, match="not an AMQP type"):
        Array("word")  # type: ignore[arg-type]


def test_map_looks_up_by_type_and_value() -> None:
    """A Map tells keys apart that a dict would not."""
    value = Map([(UInt(1), "uint"), (Int(1), "int"), ([1], "list")])
    assert value[Int(1)] == "int"
    assert value[[1]] == "list"
    assert len(value) == 3
    assert list(value) == [1, 1, [1]]
    with pytest.raises(KeyError):
        value[1]


def test_described_is_a_value() -> None:
    """Equal by descriptor and value, hashable where they are, and open to pattern matching."""
    assert Described(ULong(1), "a") == Described(ULong(1), "a")
    assert Described(ULong(1), "a") != Described(ULong(2), "a")
    assert Described(ULong(1), "a") != "a"
    assert len({Described(ULong(1), "a"), Described(ULong(1), "a")}) == 1
    match Described(ULong(1), "a"):
        case Described(descriptor, value):
            assert (descriptor, value) == (1, "a")
