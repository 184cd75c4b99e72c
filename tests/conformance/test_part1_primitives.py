"""The primitive types (§1.6): every encoding of each, and what each section demands beyond it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from amqp10.errors import DecodeError, EncodeError
from amqp10.types import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Float,
    Int,
    Map,
    Short,
    Symbol,
    UByte,
    UInt,
    ULong,
    UShort,
    decode,
    encode,
)

# Section, the encoding's name, an example of it, its value, and whether it is the one written.
ENCODINGS: list[tuple[str, str, str, Any, bool]] = [
    ("1.6.1", "null 0x40", "40", None, True),
    ("1.6.2", "boolean 0x56", "5601", True, False),
    ("1.6.2", "boolean true 0x41", "41", True, True),
    ("1.6.2", "boolean false 0x42", "42", False, True),
    ("1.6.3", "ubyte 0x50", "5080", UByte(128), True),
    ("1.6.4", "ushort 0x60", "608000", UShort(32768), True),
    ("1.6.5", "uint 0x70", "7080000000", UInt(2**31), True),
    ("1.6.5", "smalluint 0x52", "5280", UInt(128), True),
    ("1.6.5", "uint0 0x43", "43", UInt(0), True),
    ("1.6.6", "ulong 0x80", "808000000000000000", ULong(2**63), True),
    ("1.6.6", "smallulong 0x53", "5380", ULong(128), True),
    ("1.6.6", "ulong0 0x44", "44", ULong(0), True),
    ("1.6.7", "byte 0x51", "5180", Byte(-128), True),
    ("1.6.8", "short 0x61", "618000", Short(-(2**15)), True),
    ("1.6.9", "int 0x71", "7180000000", Int(-(2**31)), True),
    ("1.6.9", "smallint 0x54", "5480", Int(-128), True),
    ("1.6.10", "long 0x81", "818000000000000000", -(2**63), True),
    ("1.6.10", "smalllong 0x55", "5580", -128, True),
    ("1.6.11", "float 0x72", "72bf800000", Float(-1), True),
    ("1.6.12", "double 0x82", "82bff0000000000000", -1.0, True),
    ("1.6.13", "decimal32 0x74", "74b2800001", Decimal32(-1), True),
    ("1.6.14", "decimal64 0x84", "84b1c0000000000001", Decimal64(-1), True),
    ("1.6.15", "decimal128 0x94", "94b040" + "00" * 13 + "01", Decimal128(-1), True),
    ("1.6.16", "char 0x73", "730001f600", Char("😀"), True),
    ("1.6.17", "timestamp 0x83", "83ffffffffffffffff", datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC), True),
    ("1.6.18", "uuid 0x98", "98" + "0f" * 16, UUID("0f" * 16), True),
    ("1.6.19", "vbin8 0xa0", "a002ff00", b"\xff\0", True),
    ("1.6.19", "vbin32 0xb0", "b000000002ff00", b"\xff\0", False),
    ("1.6.20", "str8-utf8 0xa1", "a104f09f9880", "😀", True),
    ("1.6.20", "str32-utf8 0xb1", "b100000004f09f9880", "😀", False),
    ("1.6.21", "sym8 0xa3", "a30161", Symbol("a"), True),
    ("1.6.21", "sym32 0xb3", "b30000000161", Symbol("a"), False),
    ("1.6.22", "list0 0x45", "45", [], True),
    ("1.6.22", "list8 0xc0", "c0040241a100", [True, ""], True),
    ("1.6.22", "list32 0xd0", "d0000000070000000241a100", [True, ""], False),
    ("1.6.23", "map8 0xc1", "c1040241a100", {True: ""}, True),
    ("1.6.23", "map32 0xd1", "d1000000070000000241a100", {True: ""}, False),
    ("1.6.24", "array8 0xe0", "e0040250ff00", Array("ubyte", [255, 0]), True),
    ("1.6.24", "array32 0xf0", "f0000000070000000250ff00", Array("ubyte", [255, 0]), False),
]


@pytest.mark.parametrize(
    ("digits", "value", "written"),
    [
        pytest.param(digits, value, written, id=name, marks=pytest.mark.spec(section, f"the encoding {name}"))
        for section, name, digits, value, written in ENCODINGS
    ],
)
def test_encoding(digits: str, value: Any, written: bool) -> None:
    """The encoding is read as this value of this type, and is what is written where no smaller one is."""
    data = bytes.fromhex(digits)
    again = decode(data)
    assert type(again) is type(value)
    assert again == value
    assert (encode(value) == data) is written
    assert type(decode(encode(value))) is type(value)


@pytest.mark.parametrize(
    ("python", "low", "high"),
    [
        pytest.param(python, low, high, id=python.__name__, marks=pytest.mark.spec(section, "the range of the type"))
        for section, python, low, high in (
            ("1.6.3", UByte, 0, 2**8 - 1),
            ("1.6.4", UShort, 0, 2**16 - 1),
            ("1.6.5", UInt, 0, 2**32 - 1),
            ("1.6.6", ULong, 0, 2**64 - 1),
            ("1.6.7", Byte, -(2**7), 2**7 - 1),
            ("1.6.8", Short, -(2**15), 2**15 - 1),
            ("1.6.9", Int, -(2**31), 2**31 - 1),
            ("1.6.10", int, -(2**63), 2**63 - 1),
        )
    ],
)
def test_range(python: type[int], low: int, high: int) -> None:
    """Both ends of the range cross; one beyond either is refused, not wrapped or widened."""
    for number in (low, high):
        assert decode(encode(python(number))) == number
    for number in (low - 1, high + 1):
        with pytest.raises(EncodeError):
            encode(python(number))


@pytest.mark.spec("1.6.2", "0x56 has 0x00 for false and 0x01 for true")
def test_boolean_octet() -> None:
    """No other octet is a boolean."""
    assert decode(b"\x56\x00") is False
    with pytest.raises(DecodeError):
        decode(b"\x56\x02")


@pytest.mark.spec("1.6.16", "a single Unicode character, in UTF-32BE")
def test_char() -> None:
    """Numbers that are no Unicode character are refused."""
    assert decode(encode(Char("\U0010ffff"))) == "\U0010ffff"
    for digits in ("7300110000", "730000d800", "730000dfff"):
        with pytest.raises(DecodeError):
            decode(bytes.fromhex(digits))


@pytest.mark.spec("1.6.17", "milliseconds since 1970-01-01T00:00:00Z, negative before it")
def test_timestamp() -> None:
    """The epoch is zero; times of any zone are written as the moment that they are."""
    assert encode(datetime(1970, 1, 1, tzinfo=UTC)) == b"\x83" + bytes(8)
    assert encode(datetime.fromisoformat("1970-01-01T01:00:00+01:00")) == b"\x83" + bytes(8)
    assert decode(b"\x83" + (2**62).to_bytes(8, "big")) == 2**62  # beyond any calendar


@pytest.mark.spec("1.6.20", "UTF-8, with no byte order mark demanded or removed")
def test_string() -> None:
    """Text crosses as it is; octets that are not UTF-8 are refused."""
    for text in ("", "\0", "\ufeffa", "e\u0301", "😀"):
        assert decode(encode(text)) == text
    for digits in ("a101ff", "a102c080", "a103eda080", "a104f4908080"):
        with pytest.raises(DecodeError):
            decode(bytes.fromhex(digits))


@pytest.mark.spec("1.6.21", "symbols are ASCII")
def test_symbol() -> None:
    """A symbol beyond ASCII is neither written nor read."""
    with pytest.raises(EncodeError):
        encode(Symbol("ü"))
    with pytest.raises(DecodeError):
        decode(b"\xa3\x01\xfc")


@pytest.mark.spec("1.6.22", "a list is a sequence of polymorphic values")
def test_list() -> None:
    """Values of all types follow one another, nested too."""
    value = [None, True, UInt(1), "a", [Symbol("b"), {b"": 1.5}], Array("short", [-1])]
    assert decode(encode(value)) == value


@pytest.mark.spec("1.6.23", "a map has an even number of items; the order is kept")
def test_map_pairs() -> None:
    """An odd count is malformed; pairs come in the order of the wire."""
    with pytest.raises(DecodeError):
        decode(bytes.fromhex("c1020141"))
    assert list(decode(encode({"b": 1, "a": 2}))) == ["b", "a"]


@pytest.mark.spec("1.6.23", "a map in which there exist two identical key values is invalid")
def test_map_identical_keys() -> None:
    """The same key twice is malformed, in whatever encodings; keys of different types are different."""
    for digits in ("c1050441404140", "c106045601404140", "c1060443405200" + "40"):
        with pytest.raises(DecodeError):
            decode(bytes.fromhex(digits))
    assert decode(encode(Map([(UInt(1), "a"), (ULong(1), "b")])))[ULong(1)] == "b"


@pytest.mark.spec("1.6.24", "an array is a sequence of values of a single type")
def test_array() -> None:
    """One constructor serves all elements; a value of another type is refused."""
    assert decode(bytes.fromhex("e00803a1016101620163")) == Array("string", ["a", "b", "c"])
    with pytest.raises(EncodeError):
        encode(Array("string", ["a", 1]))
