"""Every value gets its type's smallest encoding, and what has no encoding is refused without a trace."""

from __future__ import annotations

import enum
import gc
import math
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest

from amqp10.errors import EncodeError
from amqp10.types import (
    Array,
    Byte,
    Char,
    Decimal32,
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
    decode,
    encode,
    encode_to,
)
from amqp10.types._encode import typed_writer

UUID_OCTETS = bytes(range(16))

SMALLEST: list[tuple[Any, str]] = [
    (None, "40"),
    (True, "41"),
    (False, "42"),
    (UByte(255), "50ff"),
    (UShort(1), "600001"),
    (UInt(0), "43"),
    (UInt(1), "5201"),
    (UInt(255), "52ff"),
    (UInt(256), "7000000100"),
    (UInt(2**32 - 1), "70ffffffff"),
    (ULong(0), "44"),
    (ULong(255), "53ff"),
    (ULong(256), "800000000000000100"),
    (ULong(2**64 - 1), "80ffffffffffffffff"),
    (Byte(-128), "5180"),
    (Short(-2), "61fffe"),
    (Int(127), "547f"),
    (Int(-128), "5480"),
    (Int(128), "7100000080"),
    (Int(-129), "71ffffff7f"),
    (0, "5500"),
    (-128, "5580"),
    (128, "810000000000000080"),
    (-(2**63), "818000000000000000"),
    (Float(1.5), "723fc00000"),
    (1.5, "823ff8000000000000"),
    (Char("€"), "73000020ac"),
    (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "8300000000000003e8"),
    (datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC), "83ffffffffffffffff"),
    (datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), "830000000000000000"),
    (Timestamp(2**63 - 1), "837fffffffffffffff"),
    (UUID(bytes=UUID_OCTETS), "98" + UUID_OCTETS.hex()),
    (b"", "a000"),
    (b"\0\xff", "a00200ff"),
    (bytearray(b"ab"), "a0026162"),
    (memoryview(b"abcd")[::2], "a0026163"),
    ("", "a100"),
    ("é", "a102c3a9"),
    (Symbol("a"), "a30161"),
    ([], "45"),
    ((), "45"),
    ([None], "c0020140"),
    ({}, "c10100"),
    ({"a": True}, "c10502a1016141"),
    (Map([(UInt(1), None), (1, None)]), "c107045201405501" + "40"),
    (Described(ULong(0x24), []), "00532445"),
    (Described(Symbol("x"), 1), "00a301785501"),
    (Described(ULong(1), Described(ULong(2), None)), "0053010053" + "0240"),
]


class Hue(enum.Enum):
    """A value of a program that AMQP has no type for."""

    RED = "red"


@dataclass
class Row:
    """What a program may try to send."""

    number: int


@pytest.mark.parametrize(("value", "digits"), SMALLEST)
def test_smallest_encoding(value: Any, digits: str) -> None:
    """The value is written in the fewest octets that its type has for it."""
    assert encode(value).hex() == digits


@pytest.mark.parametrize(
    ("size", "narrow", "wide"), [(255, "a0ff", ""), (256, "", "b000000100"), (70_000, "", "b000011170")]
)
def test_width_of_sizes(size: int, narrow: str, wide: str) -> None:
    """One octet counts up to 255 octets of content, four count more; binary, string and symbol alike."""
    head = bytes.fromhex(narrow or wide)
    for step, value in enumerate((b"a" * size, "a" * size, Symbol("a" * size))):
        kind = (0, 1, 3)[step]
        assert encode(value) == bytes((head[0] + kind,)) + head[1:] + b"a" * size


def test_width_of_lists_and_maps() -> None:
    """A list or map goes to the wide header when its size or its count needs more than an octet."""
    assert encode([None] * 254)[:3].hex() == "c0fffe"
    assert encode([None] * 255)[:9].hex() == "d000000103000000ff"
    assert encode(["x" * 250])[:3].hex() == "c0fd01"
    assert encode(["x" * 253])[:9].hex() == "d00000010300000001"
    big = {str(n): None for n in range(200)}
    assert encode(big)[0] == 0xD1
    assert decode(encode(big)) == big


def test_wide_headers_within_each_other() -> None:
    """Widening an inner header moves nothing wrongly: three levels of wide lists come back."""
    value = [["x" * 200, ["y" * 300, [None] * 300], "z"], {"k": ["w" * 300]}]
    assert decode(encode(value)) == value


@pytest.mark.parametrize(
    ("value", "digits"),
    [
        (Array("null", [None, None]), "e0020240"),
        (Array("boolean", [True, False]), "e00402560100"),
        (Array("ubyte", [1]), "e003015001"),
        (Array("uint", [0, 255]), "e004025200ff"),
        (Array("uint", [0, 256]), "e00a02700000000000000100"),
        (Array("ulong", []), "e0020053"),
        (Array("long", [-1]), "e0030155ff"),
        (Array("long", [128]), "e00a01810000000000000080"),
        (Array("float", [Float(1.5)]), "e00601723fc00000"),
        (Array("double", [1.5]), "e00a01823ff8000000000000"),
        (Array("char", ["a"]), "e006017300000061"),
        (Array("symbol", ["a", "bc"]), "e00702a30161026263"),
        (Array("list", [[], [True]]), "e00702c00100020141"),
        (Array("map", [{}]), "e00401c10100"),
        (Array("array", [Array("ubyte", [7])]), "e00601e003015007"),
        (Array("list", [[]], [ULong(0x24)]), "e00701005324c00100"),
        (Array("ubyte", [7], [ULong(1), Symbol("x")]), "e00a01005301" + "00a301785007"),
    ],
)
def test_arrays(value: Array, digits: str) -> None:
    """All elements share one constructor, the narrowest that fits them all; a descriptor stands in front of it."""
    assert encode(value).hex() == digits


def test_wide_arrays() -> None:
    """Elements, or the array itself, that need four octets of size get them."""
    long = Array("string", ["a", "b" * 256])
    assert encode(long)[:10].hex() == "f0" + f"{4 + 1 + 4 + 1 + 4 + 256:08x}" + "00000002" + "b1"
    lists = Array("list", [[1], ["x" * 300]])
    assert encode(lists)[9] == 0xD0
    assert decode(encode(lists)) == lists
    assert encode(Array("null", [None] * 300))[:10].hex() == "f0000000050000012c40"


class Color(enum.IntEnum):
    RED = 3


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("value", "same"),
    [
        (Color.RED, 3),
        (Point(1, 2), [1, 2]),
        (OrderedDict(a=1), {"a": 1}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (Decimal("1.5"), None),
    ],
)
def test_subclasses_are_written_as_their_base(value: Any, same: Any) -> None:
    """An IntEnum is a long, a namedtuple a list, any Mapping a map, a plain Decimal a decimal128."""
    encoded = encode(value)
    assert encoded == (encode(same) if same is not None else bytes.fromhex("94303e000000000000000000000000000f"))
    assert encode(value) == encoded  # the second time from the table


def test_what_is_finer_than_a_millisecond_is_cut_off() -> None:
    """A datetime loses its microseconds below the millisecond, toward the past on both sides of 1970."""
    after = datetime(2026, 1, 1, microsecond=1999, tzinfo=UTC)
    before = datetime(1969, 12, 31, 23, 59, 59, 998_001, tzinfo=UTC)
    assert decode(encode(after)) == after.replace(microsecond=1000)
    assert decode(encode(before)) == before.replace(microsecond=998_000)


@pytest.mark.parametrize("value", [math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308])
def test_doubles_keep_their_bits(value: float) -> None:
    """Infinities, the sign of zero and the smallest and largest numbers come back."""
    assert encode(decode(encode(value))) == encode(value)
    assert decode(encode(value)) == value


@pytest.mark.parametrize("digits", ["727f800001", "72ffc12345", "827ff0000000000001", "82fff8000000abcdef"])
def test_nan_keeps_its_bits(digits: str) -> None:
    """Sign, payload and signal of a NaN survive, in 32 bits as in 64."""
    assert encode(decode(bytes.fromhex(digits))).hex() == digits


@pytest.mark.parametrize(
    "value",
    [
        UByte(256),
        UByte(-1),
        UShort(65536),
        UInt(2**32),
        UInt(-1),
        ULong(2**64),
        ULong(-1),
        Byte(128),
        Short(-32769),
        Int(2**31),
        2**63,
        -(2**63) - 1,
        Timestamp(2**63),
        Float(1e39),
        Char(""),
        Char("ab"),
        Char("\ud800"),
        "\ud800",
        Symbol("é"),
        datetime(2026, 1, 1),
        object(),
        {1, 2},
        1j,
        int,
        Decimal32("12345678"),
        Array("uint", [-1]),
        Array("uint", [True]),
        Array("uint", ["a"]),
        Array("null", [1]),
        Array("boolean", [1]),
        Array("double", [1]),
        Array("long", [2**63]),
        Array("symbol", ["a", b"b"]),
        Array("list", [{}]),
        Array("map", [[]]),
        Array("array", [[]]),
        Array("timestamp", [1]),
        [[object()]],
        {"a": object()},
        {object(): "a"},
        Described(ULong(1), object()),
        Described(object(), 1),
    ],
)
def test_what_has_no_encoding_is_refused(value: Any) -> None:
    """Out of range, not of the type, or of no AMQP type: EncodeError, and nothing is left in the output."""
    out = bytearray(b"before")
    with pytest.raises(EncodeError):
        encode_to(out, value)
    assert out == b"before"
    with pytest.raises(EncodeError):
        encode_to(out, ["good", value])
    assert out == b"before"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"x": [1, 2, 3, {4}]}, "['x'][3]: a set has no AMQP type: make it a list"),
        ([[], [datetime(2026, 1, 1)]], r"[1][0]: datetime.datetime(2026, 1, 1, 0, 0) has no time zone"),
        ({"a": {frozenset(): 1}}, "['a'][key frozenset()]: a frozenset has no AMQP type: make it a list"),
        (Map([("k", {"z": 2**63})]), "['k']['z']: 9223372036854775808 is out of range for long"),
        (Described(Symbol("d"), [object]), ".value[0]: a type has no AMQP type"),
        ({1}, "a set has no AMQP type: make it a list"),
        (
            [date(2026, 1, 1)],
            "[0]: a date has no AMQP type: make it text, with isoformat(), or a datetime with a time zone",
        ),
        ({"a": Hue.RED}, "['a']: a Hue has no AMQP type: give its value"),
        ([Row(1)], "[0]: a Row has no AMQP type: make it a dict, with dataclasses.asdict"),
        ({"a": Map([(1, 1), (1, 1)])}, "['a']: a map has the same key twice"),
    ],
)
def test_the_fault_is_found(value: Any, said: str) -> None:
    """The error says where in the value it is."""
    with pytest.raises(EncodeError) as caught:
        encode(value)
    assert str(caught.value).startswith(said)


def test_a_value_that_contains_itself_is_refused(request: pytest.FixtureRequest) -> None:
    """Endless nesting is an EncodeError, not a RecursionError."""
    gc.disable()  # others' callbacks could not run at the bottom of the stack
    request.addfinalizer(gc.enable)
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(EncodeError, match="nested too deeply"):
        encode(endless)


@pytest.mark.parametrize("keys", [(1, 1), ([1], [1]), (UInt(0), True, UInt(0)), (float("nan"), float("nan"))])
def test_a_map_with_the_same_key_twice_is_not_written(keys: tuple[object, ...]) -> None:
    """No peer may take such a map (§1.6.23), so it ends here; what AMQP tells apart may stand side by side."""
    with pytest.raises(EncodeError, match="same key twice"):
        encode(Map([(key, n) for n, key in enumerate(keys)]))
    assert len(decode(encode(Map([(1, 0), (UInt(1), 0), (True, 0), (1.0, 0), (Symbol("1"), 0), ("1", 0)])))) == 6


def test_a_map_of_pairs_goes_where_a_map_goes() -> None:
    """In an array, and in a place whose type is given, as in any other; the same key twice is refused there too."""
    pairs = Map([(1, "a"), (UInt(1), "b")])
    assert list(decode(encode(Array("map", [pairs, {}])))) == [pairs, {}]
    out = bytearray()
    typed_writer("map")(out, pairs)
    assert out == encode(pairs)
    with pytest.raises(EncodeError, match="same key twice"):
        typed_writer("map")(bytearray(), Map([(1, 0), (1, 1)]))
    with pytest.raises(EncodeError, match="same key twice"):
        encode(Array("map", [Map([(1, 0), (1, 1)])]))
