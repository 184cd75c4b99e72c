"""How values are put together (§1.1, §1.2): constructors, widths, counts, arrays, described values."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.errors import DecodeError
from amqp10.types import Array, Described, Symbol, UInt, ULong, decode, encode, skip

KNOWN = bytes.fromhex("00404142434445505152535455566061707172737480818283849498a0a1a3b0b1b3c0c1d0d1e0f0")


@pytest.mark.spec("1.2", "a constructor is one octet of subcategory and subtype; others are not of AMQP")
def test_unknown_constructors() -> None:
    """Each of the 216 octets that announce nothing is refused, by decoding and by skipping, whatever follows."""
    unknown = [code for code in range(256) if code not in KNOWN]
    assert len(unknown) == 216
    for code in unknown:
        for read in (decode, skip):
            with pytest.raises(DecodeError, match="unknown constructor"):
                read(bytes((code,)) + bytes(300))


@pytest.mark.spec("1.2.1", "the width of fixed-width data follows from the subcategory: 0, 1, 2, 4, 8, 16 octets")
def test_fixed_width() -> None:
    """Skipping any fixed-width constructor passes 0, 1, 2, 4, 8 or 16 octets."""
    for code in KNOWN[1:]:
        if code < 0xA0:
            width = {4: 0, 5: 1, 6: 2, 7: 4, 8: 8, 9: 16}[code >> 4]
            assert skip(bytes((code,)) + bytes(20)) == 1 + width


@pytest.mark.spec("1.2.2", "variable-width data has its size in front, in 1 or 4 octets")
def test_variable_width() -> None:
    """The size is that of the octets that follow; 255 is the most for one octet."""
    for code in (0xA0, 0xA1, 0xA3):
        for size in (0, 1, 255):
            data = bytes((code, size)) + b"x" * size
            assert encode(decode(data)) == data
        for size in (256, 70_000):
            data = bytes((code + 0x10,)) + size.to_bytes(4, "big") + b"x" * size
            assert encode(decode(data)) == data


@pytest.mark.spec("1.2.3", "compound data has size and count in front; the size includes the count")
def test_compound() -> None:
    """A size that does not agree with the items is malformed, and so is one that the count does not fit into."""
    assert decode(bytes.fromhex("c003024041")) == [None, True]
    assert decode(bytes.fromhex("d000000006000000024041")) == [None, True]
    for digits in ("c002024041", "c00402404141", "c0030140" + "41", "c003034041", "d000000005000000024041"):
        with pytest.raises(DecodeError):
            decode(bytes.fromhex(digits))


@pytest.mark.spec("1.2.4", "array data has size, count, one element constructor, and the elements without theirs")
def test_array_of_each_category() -> None:
    """Elements may be of fixed or variable width, compound, or arrays."""
    for value in (
        Array("uint", [UInt(1), UInt(2**32 - 1)]),
        Array("symbol", ["a", "b" * 300]),
        Array("map", [{"a": 1}, {}]),
        Array("list", [[], [None] * 300]),
        Array("array", [Array("boolean", [True]), Array("string", [])]),
    ):
        assert decode(encode(value)) == value


@pytest.mark.spec("1.2.4", "the constructor of the elements may be a described one")
def test_array_of_described_values() -> None:
    """The descriptor is written once, in front of the constructor, for all elements; also for none."""
    data = bytes.fromhex("e009020053f1a101610162")
    assert decode(data) == Array("string", ["a", "b"], [ULong(0xF1)])
    assert encode(decode(data)) == data
    empty = bytes.fromhex("e00500" + "0053f1" + "c0")
    assert decode(empty) == Array("list", [], [ULong(0xF1)])
    assert encode(decode(empty)) == empty


@pytest.mark.spec("1.1.2", "a described value is a descriptor, which says what it means, and a value of any type")
def test_described() -> None:
    """Descriptors are values of any type, the value too; a description may describe a description."""
    for value in (
        Described(Symbol("example:url"), "http://example.org"),
        Described(ULong(0x0000_0001_0000_0002), [1, {}]),
        Described(Described(ULong(1), "a"), Described(ULong(2), None)),
        Described("reserved", 1),
    ):
        data = encode(value)
        assert data[0] == 0
        assert decode(data) == value
        assert encode(decode(data)) == data


@pytest.mark.spec("1.5", "descriptor values are symbols and ulongs with a domain in the upper four octets")
def test_descriptor_values() -> None:
    """A numeric descriptor of any domain is kept whole."""
    value: Any = decode(b"\x00\x80\x00\x00\x46\x8c\x00\x00\x00\x04" + encode("filter"))
    assert value == Described(ULong(0x468C_0000_0004), "filter")
    assert type(value.descriptor) is ULong
