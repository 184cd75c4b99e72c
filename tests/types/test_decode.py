"""Every encoding of every type is read, and whatever is malformed ends in DecodeError."""

from __future__ import annotations

import gc
import struct
import tracemalloc
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from amqp10.errors import DecodeError
from amqp10.testing.strategies import amqp_values, exact
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
    Limits,
    Map,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    decode,
    decode_from,
    encode,
    skip,
)

from ..kit.steps import steps

ENCODINGS: list[tuple[str, Any]] = [
    ("40", None),
    ("41", True),
    ("42", False),
    ("5601", True),
    ("5600", False),
    ("50ff", UByte(255)),
    ("60ffff", UShort(65535)),
    ("43", UInt(0)),
    ("5200", UInt(0)),
    ("7000000000", UInt(0)),
    ("70ffffffff", UInt(2**32 - 1)),
    ("44", ULong(0)),
    ("5300", ULong(0)),
    ("800000000000000000", ULong(0)),
    ("80ffffffffffffffff", ULong(2**64 - 1)),
    ("51ff", Byte(-1)),
    ("61ffff", Short(-1)),
    ("54ff", Int(-1)),
    ("71ffffffff", Int(-1)),
    ("55ff", -1),
    ("557f", 127),
    ("81ffffffffffffffff", -1),
    ("723fc00000", Float(1.5)),
    ("823ff8000000000000", 1.5),
    ("74b2800001", Decimal32("-1")),
    ("84b1c0000000000001", Decimal64("-1")),
    ("94b0400000000000000000000000000001", Decimal128("-1")),
    ("7300010348", Char("\U00010348")),
    ("830000000000000001", datetime(1970, 1, 1, microsecond=1000, tzinfo=UTC)),
    ("830000e677d21fdbff", datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)),
    ("830000e677d21fdc00", Timestamp(253_402_300_800_000)),
    ("838000000000000000", Timestamp(-(2**63))),
    ("98000102030405060708090a0b0c0d0e0f", UUID(bytes=bytes(range(16)))),
    ("a00161", b"a"),
    ("b00000000161", b"a"),
    ("a102c3a9", "é"),
    ("b100000002c3a9", "é"),
    ("a30161", Symbol("a")),
    ("b30000000161", Symbol("a")),
    ("45", []),
    ("c00100", []),
    ("d00000000400000000", []),
    ("c0020140", [None]),
    ("d0000000050000000140", [None]),
    ("c10100", {}),
    ("d10000000400000000", {}),
    ("c103024140", {True: None}),
    ("d100000006000000024140", {True: None}),
    ("e003015007", Array("ubyte", [UByte(7)])),
    ("f0000000060000000150" + "07", Array("ubyte", [UByte(7)])),
    ("e0020341", Array("boolean", [True, True, True])),
    ("e0020242", Array("boolean", [False, False])),
    ("e0020243", Array("uint", [UInt(0), UInt(0)])),
    ("e0020144", Array("ulong", [ULong(0)])),
    ("e0020240", Array("null", [None, None])),
    ("e0020245", Array("list", [[], []])),
    ("e00601700000" + "0001", Array("uint", [UInt(1)])),
    ("e00701b1" + "00000001" + "61", Array("string", ["a"])),
    ("e00b01d0" + "00000005" + "00000001" + "41", Array("list", [[True]])),
    ("e00c01d1" + "00000006" + "00000002" + "4041", Array("map", [{None: True}])),
    ("e00c01f0" + "00000006" + "00000001" + "5007", Array("array", [Array("ubyte", [UByte(7)])])),
    ("e00801005301" + "c0020140", Array("list", [[None]], [ULong(1)])),
    ("e0060200a30178" + "43", Array("uint", [UInt(0), UInt(0)], [Symbol("x")])),
    ("00532445", Described(ULong(0x24), [])),
    ("008000000000000000244" + "5", Described(ULong(0x24), [])),
    ("00a3017840", Described(Symbol("x"), None)),
    ("00404" + "0", Described(None, None)),  # a reserved descriptor, kept
    ("0000530141" + "5307", Described(Described(ULong(1), True), ULong(7))),
]


@pytest.mark.parametrize(("digits", "value"), ENCODINGS)
def test_every_encoding(digits: str, value: Any) -> None:
    """The encoding, smallest or not, is read as the value of exactly this type, and skipped to its end."""
    data = bytes.fromhex(digits)
    assert exact(decode(data)) == exact(value)
    assert exact(decode(encode(decode(data)))) == exact(value)
    assert skip(data) == len(data)
    for buffer in (bytearray(data), memoryview(data)):
        assert exact(decode(buffer)) == exact(value)
        assert skip(buffer) == len(data)


def test_offsets() -> None:
    """`decode_from` and `skip` begin where they are told, and say where the value ends; what follows is no concern."""
    data = b"\xff\xff" + encode(["a", 1]) + b"\xff"
    for buffer in (data, bytearray(data), memoryview(data)):
        value, end = decode_from(buffer, 2)
        assert value == ["a", 1]
        assert end == skip(buffer, 2) == len(data) - 1


def test_views_are_not_kept() -> None:
    """What was decoded from a view does not hold the view's buffer."""
    buffer = bytearray(encode([b"abc", "def"]))
    value = decode(memoryview(buffer))
    buffer[:] = bytes(len(buffer))
    buffer.clear()  # would be a BufferError with a view alive
    assert value == [b"abc", "def"]


MALFORMED = [
    "",
    "00",
    "0053",
    "005324",
    "01",
    "46",
    "4f",
    "57",
    "62",
    "75",
    "85",
    "9f",
    "a2",
    "b2",
    "c2",
    "d2",
    "e1",
    "f1",
    "ff",
    "5602",
    "7300110000",
    "730000d800",
    "73ffffffff",
    "60ff",
    "70ffffff",
    "80",
    "94" + "00" * 15,
    "98" + "00" * 15,
    "a0",
    "a00261",
    "b0000000",
    "b0ffffffff",
    "a10261",
    "a101ff",
    "a102c328",
    "a103eda080",  # a surrogate
    "b100000001ff",
    "a30180",
    "b3000000017f7f",
    "c0",
    "c000",
    "c00000",
    "c00101",
    "c00102",
    "c0020240",
    "c0020040",
    "c0030141" + "41",
    "c0ff01" + "41",
    "c0020150" + "01",
    "d000000004",
    "d00000000300000000",
    "d0ffffffffffffffff",
    "d0000000040fffffff",
    "c1020140",
    "c10303404040",
    "c10502415501" + "41",
    "c10504" + "4141" + "4141",  # the same key twice
    "c10704" + "a10161" + "40" + "a10161" + "40",
    "c109045200404340" + "4040",
    "e0",
    "e000",
    "e00100",
    "e0020150",
    "e0020046",
    "e0010150",
    "e0040150" + "0102",
    "e00400005301",
    "e0ff0350" + "010203",
    "e00302a00161",
    "f0000000050fffffff50",
    "f000000005ffffffff40",
    "e0030000" + "00",
    "4040",
]


@pytest.mark.parametrize("digits", MALFORMED)
def test_malformed(digits: str) -> None:
    """Truncated, unknown, inconsistent, not of its character set, or more than one value: DecodeError."""
    data = bytes.fromhex(digits)
    with pytest.raises(DecodeError):
        decode(data)
    with pytest.raises(DecodeError):
        decode(memoryview(data))


@pytest.mark.parametrize("value", [["a", {"k": b"v"}], Array("symbol", ["a", "b"]), Described(ULong(300), [1.5])])
def test_every_truncation(value: Any) -> None:
    """A value cut off anywhere is a DecodeError, for `decode` and for `skip`."""
    data = encode(value)
    for size in range(len(data)):
        with pytest.raises(DecodeError):
            decode(data[:size])
        with pytest.raises(DecodeError):
            skip(data[:size])


def test_a_child_cannot_reach_behind_its_parent() -> None:
    """An item that ends after its list, within data that goes on, is refused."""
    with pytest.raises(DecodeError, match="size of a list"):
        decode_from(bytes.fromhex("c00301a002" + "616263"), 0)


# Keys


def test_keys_that_collide_in_python() -> None:
    """Keys that differ only by AMQP type, or that cannot be hashed, come as a Map and go out as they came."""
    for keys in ([UInt(1), Int(1), 1, True, 1.0], ["a", Symbol("a")], [0.0, -0.0], [[1], [2]], [Decimal32("sNaN"), 1]):
        data = encode(Map((key, None) for key in keys))
        value = decode(data)
        assert type(value) is Map
        assert [exact(key) for key in value] == [exact(key) for key in keys]
        assert encode(value) == data


def test_maps_that_a_dict_can_hold_are_dicts() -> None:
    """Small and large maps, of any key types, keep their order and are plain dicts."""
    for value in ({"b": 1, "a": 2}, {UInt(n): Symbol(str(n)) for n in range(300)}, {b"": [], None: {}, 2.5: ""}):
        again = decode(encode(value))
        assert type(again) is dict
        assert exact(again) == exact(value)


def test_keys_made_to_collide_do_not_stall() -> None:
    """Thousands of keys whose hashes a peer made equal are a Map, in steps that grow with their number only."""

    def cost(count: int) -> int:
        data = encode(Map((UUID(int=5 + n * (2**61 - 1)), None) for n in range(count)))
        value = decode(data)
        assert type(value) is Map
        assert len(value) == count
        return steps(lambda: decode(data))

    assert cost(4_000) < 2.1 * cost(2_000)


# Limits


def test_depth() -> None:
    """Nesting is counted in lists, maps, arrays and descriptions alike; neighbors do not add up."""
    limits = Limits(max_depth=3)
    assert decode(encode([[[1]]] * 1), limits) == [[[1]]]
    assert decode(encode([[[]], [[1]], {1: [2]}]), limits) == [[[]], [[1]], {1: [2]}]
    for value in (
        [[[[1]]]],
        {1: {1: {1: {1: 1}}}},
        Described(ULong(1), Described(ULong(1), Described(ULong(1), Described(ULong(1), 1)))),
        [[[Array("ubyte", [1])]]],
        [Array("ubyte", [1], [ULong(1)] * 3)],
    ):
        with pytest.raises(DecodeError, match="nested too deeply"):
            decode(encode(value), limits)


def test_depth_beyond_the_interpreter(request: pytest.FixtureRequest) -> None:
    """A limit above what the interpreter can follow still ends in DecodeError; so does endless description."""
    gc.disable()  # others' callbacks could not run at the bottom of the stack
    request.addfinalizer(gc.enable)
    deep = b"\x00" * 100_000
    for data in (deep, b"\x00\x53\x01" * 50_000, b"\xe0\xff\x01\x00" * 50_000):
        for limits in (Limits(), Limits(max_depth=10**9)):
            with pytest.raises(DecodeError):
                decode(data, limits)
    with pytest.raises(DecodeError):
        skip(deep)


def test_elements_of_no_width() -> None:
    """Elements that take no bytes are limited for all arrays of a value together."""
    few = Limits(max_elements=10)
    assert decode(encode([Array("null", [None] * 5)] * 2), few) == [[None] * 5] * 2
    with pytest.raises(DecodeError, match="no width"):
        decode(encode([Array("null", [None] * 5)] * 3), few)
    for code in (0x40, 0x41, 0x42, 0x43, 0x44, 0x45):
        with pytest.raises(DecodeError, match="no width"):
            decode(struct.pack(">BIIB", 0xF0, 5, 2**32 - 1, code))


# Properties


@settings(deadline=None)
@given(amqp_values())
def test_round_trip(value: Any) -> None:
    """Whatever there is comes back with the same types, and encodes to the same octets again."""
    data = encode(value)
    again, end = decode_from(b"?" + data + b"!", 1)
    assert end == len(data) + 1 == skip(b"?" + data + b"!", 1)
    assert exact(again) == exact(value)
    assert encode(again) == data


VALUES = amqp_values()


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    """An encoding with a few octets changed, removed, doubled or inserted."""
    data = bytearray(encode(draw(VALUES)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from("cidx")):
            case "c" if at < len(data):
                data[at] = draw(st.integers(0, 255))
            case "i":
                data[at:at] = draw(st.binary(max_size=4))
            case "d":
                del data[at : at + draw(st.integers(1, 8))]
            case _:
                data[at:at] = data[at : at + 8]
    return bytes(data)


def _decodes_or_refuses(data: bytes) -> None:
    try:
        value = decode(data)
    except DecodeError:
        return
    assert exact(decode(encode(value))) == exact(value)
    assert skip(data) == len(data)


@settings(max_examples=5 * settings().max_examples, deadline=None)
@given(st.one_of(st.binary(max_size=64), mutations()))
@example(b"\xe0\x02\xff\x40")
def test_anything_decodes_or_is_a_decode_error(data: bytes) -> None:
    """Random and mutated octets give a value that round-trips, or DecodeError, and never another exception."""
    _decodes_or_refuses(data)


AMPLIFIERS = {
    "list0": b"\x45",
    "empty maps": b"\xc1\x01\x00",
    "described": b"\x00\x44\x45",
    "empty arrays": b"\xe0\x02\x00\x40",
    "arrays of null": b"\xf0\x00\x00\x00\x05\x00\x00\x03\xe8\x40",
    "words": b"\x70\xff\xff\xff\xff",
    "decimals": b"\x74\x32\x80\x00\x01",
    "symbols": b"\xa3\x01a",
    "timestamps": b"\x83\0\0\0\0\0\0\0\1",
    "false sizes": b"\xd0\xff\xff\xff\xf0\x0f\xff\xff\xff",
    "false counts": b"\xc0\x02\xff\x40",
}


@pytest.mark.slow
@pytest.mark.parametrize("unit", AMPLIFIERS.values(), ids=AMPLIFIERS)
@pytest.mark.parametrize("head", [0xD0, 0xD1])
def test_memory_is_bounded_by_the_input(unit: bytes, head: int) -> None:
    """The peak of memory stays below a fixed multiple of the input's size, whatever the octets claim."""
    count = 60_000 // len(unit) & ~1
    data = struct.pack(">BII", head, len(unit) * count + 4, count) + unit * count
    tracemalloc.start()
    try:
        decode(data)
    except DecodeError:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak <= 120 * len(data) + 2_000_000
