"""The compiled readers and writers: where they say anything, it is what the plain ones say."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import random
import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from amqp10.errors import DecodeError, EncodeError
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
    _encode,
    decode,
    encode,
)

from ..kit.plain_readers import plain_readers

COMPILED = importlib.util.find_spec("amqp10.types._fast") is not None
fast: Any = importlib.import_module("amqp10.types._fast") if COMPILED else None

pytestmark = pytest.mark.skipif(not COMPILED, reason="a compiled installation has it: tests/test_compiled.py")

EVENT: dict[str, Any] = {
    "text": "Zoë",
    "empty": "",
    "number": 10**12,
    "small": -5,
    "real": 2.5,
    "yes": True,
    "no": False,
    "none": None,
    "at": datetime(2026, 11, 23, 1, 2, 3, 4000, UTC),
    "id": UUID(int=2**127 + 5),
    "octets": b"1234",
    "uint": UInt(7),
    "ulong": ULong(8),
    "int": Int(-9),
    "ubyte": UByte(200),
    "byte": Byte(-100),
    "ushort": UShort(60_000),
    "short": Short(-300),
    "wide": UInt(70_000),
    "far": Int(-70_000),
    "long": ULong(2**64 - 1),
    "symbol": Symbol("s"),
    "page": "x" * 300,
    "binary": b"x" * 300,
    "items": [1, [], {"a": [UInt(0), ULong(0)]}],
    "described": Described(Symbol("x:y"), [None, True]),
    "float": Float(0.5),
    "char": Char("c"),
    "decimal": Decimal128("1.5"),
    "decimal32": Decimal32("-2.5"),
    "decimal64": Decimal64("1E+3"),
    "array": Array("uint", [UInt(1), UInt(70_000)]),
    "texts": Array("string", ["a", "Zoë"]),
    "deep": [[[[[{"a": 1}]]]]],
}


def read(encoded: bytes) -> Any:
    """Read a list or map as far as the compiled reader does: None if it leaves it to the plain one."""
    return fast.Compound(encoded[0], lambda *_: (None, 0))(encoded, 1, [32, 0])[0]


def types(value: Any) -> Any:
    """Return the types in a value, in order."""
    if isinstance(value, dict):
        return [(type(key), types(each)) for key, each in value.items()]
    if isinstance(value, Described):
        return types(value.descriptor), types(value.value)
    return [types(each) for each in value] if isinstance(value, list) else type(value)


def same(one: Any, other: Any) -> bool:
    """Equal, in the same order, and of the same types."""
    return repr(one) == repr(other) and types(one) == types(other)


def test_takes_what_is_regular() -> None:
    """What most maps have is taken, and equals what was sent; so are wide ones, and lists."""
    for sent in (EVENT, {f"never before {id(EVENT)}": 1}, {}, [{"a": [2.5]}, "x"], {str(key): 1 for key in range(300)}):
        encoded = encode(sent)
        taken = read(encoded)
        assert same(taken, sent)
        assert encode(taken) == encoded


def test_a_key_is_one_object() -> None:
    """The same octets give the same key, which the plain reader gives as well."""
    encoded = encode({f"a key {id(EVENT)}": 1})
    first, again = next(iter(read(encoded))), next(iter(read(encoded)))
    with plain_readers():
        assert first is again is next(iter(decode(encoded)))


KEYS: dict[Any, Any] = {1: 2, UInt(5): 1, ULong(300): 2, False: 3, 2.5: 4, b"k": 5, "x" * 300: 6, UUID(int=1): 7}


@pytest.mark.parametrize(
    "sent", [{key: each} for key, each in KEYS.items()] + [{key: each for key, each in KEYS.items() if key != 1}]
)
def test_takes_other_keys(sent: dict[Any, Any]) -> None:
    """Keys that are numbers, binary or long text are taken."""
    assert same(read(encode(sent)), sent)


@dataclass(frozen=True, eq=False)
class Own(Mapping[str, Any]):
    entries: dict[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self.entries[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


class Color(StrEnum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


RARE: tuple[Any, ...] = (
    *(Decimal("1.5"), Decimal32("1"), Decimal64("1"), Float(0.5), Char("c"), Timestamp(2**60), Color.RED, Level.LOW),
    *(Array("int", [1]), Described(Symbol("x:y"), [1]), Map([(UInt(1), 1), (Int(1), 2)]), OrderedDict(a=1), (1, "x")),
    *(bytearray(b"ab"), memoryview(b"cd"), datetime(2026, 1, 1, 5, tzinfo=timezone(timedelta(hours=9)))),
    *(datetime(2026, 1, 1, tzinfo=ZoneInfo("UTC")), Own({"a": 1}), {(1, 2): 3}, [[[[[[[[[[1]]]]]]]]]]),
)


@pytest.mark.parametrize("value", RARE)
def test_writes_what_is_rare(value: Any) -> None:
    """A value of another type is written by the plain writer for it, and all around it at once."""
    for sent in (value, {"key": value, "b": [value]}):
        out = bytearray()
        _encode.encode_to(out, sent)
        assert fast.encode(sent) == out


def test_a_map_that_changes_meanwhile() -> None:
    """Maps and lists that a writer in Python changes around its value are left to the plain code, and harmless."""
    sent: dict[str, Any] = {}

    class Eager(Own):
        def __iter__(self) -> Iterator[str]:
            sent.clear()
            items.clear()
            return super().__iter__()

    items: list[Any] = []
    for size in (1, 2, 100):
        items += [Eager({"a": 1}), *(object() for _ in range(size))]
        sent |= {"a": items, "b": object()} | {str(number): [number] for number in range(size)}
        assert fast.encode(sent) is None


NESTED: list[Any] = [[[[[[[[["too deep"]]]]]]]]]


@pytest.mark.parametrize(
    "value", [Array("list", [[]]), Array("null", [None]), Map([(UInt(1), 1), (Int(1), 2)]), {Decimal(1): 1}, NESTED]
)
def test_leaves_the_rest(value: Any) -> None:
    """What is not so frequent is left to the plain reader, with all that it is in."""
    encoded = encode({"key": value})
    assert decode(encoded) == {"key": value}
    assert read(encoded) is None


def test_leaves_many_keys_of_chosen_hashes() -> None:
    """Many keys that are not text are left to the plain reader, which looks at their hashes first."""
    assert read(encode(dict.fromkeys(range(65), 1))) is None


@pytest.mark.parametrize(
    "octets", [b"\xc1\x01\x01", b"\xc1\x07\x04\xa1\x01a\x40\xa1\x01a\x40", b"\xd1\xff\xff\xff\xff"]
)
def test_leaves_what_is_malformed(octets: bytes) -> None:
    """A map cut short, of an odd count, with a key twice, or of a size that cannot be is refused as ever."""
    assert read(octets) is None
    with pytest.raises(DecodeError):
        decode(octets)


def test_depth() -> None:
    """Nesting is limited as it is without."""
    deep: Any = "x"
    for _ in range(32):
        deep = [deep]
    encoded = encode(deep)
    assert decode(encoded) == deep
    with pytest.raises(DecodeError, match="nested too deeply"):
        decode(encode([deep]))
    assert decode(encode({"a": [1]}), Limits(max_depth=2)) == {"a": [1]}
    with pytest.raises(DecodeError, match="nested too deeply"):
        decode(encode({"a": [1]}), Limits(max_depth=1))


def test_moments() -> None:
    """Each millisecond that a datetime can hold is that which the plain reader makes; others are left to it."""
    chance = random.Random(11)
    first, last = -62_135_596_800_000, 253_402_300_799_999
    edges = [first, first + 1, last, last - 1, 0, -1, 1, 951_782_400_000, 951_868_799_999, -86_400_000, -86_400_001]
    for ms in (*edges, *(chance.randrange(first, last + 1) for _ in range(5_000))):
        encoded = b"\xc1\x10\x02\xa1\x04when\x83" + ms.to_bytes(8, "big", signed=True)
        decode(encoded)
        when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
        assert read(encoded) == {"when": when}
        assert encode({"when": when.replace(microsecond=when.microsecond + chance.randrange(1000))}) == encoded
    for ms in (first - 1, last + 1, 2**63 - 1, -(2**63)):
        encoded = b"\xc1\x10\x02\xa1\x04when\x83" + ms.to_bytes(8, "big", signed=True)
        assert read(encoded) is None
        assert decode(encoded)["when"] == ms


def outcome(encoded: bytes) -> Any:
    """Return what is read with its types, or the text of the error."""
    try:
        value = decode(encoded)
    except DecodeError as error:
        return str(error)
    return repr(value), types(value)


def test_mutated() -> None:
    """Maps with octets changed or cut off are read, or refused in the same words, as the plain readers do."""
    chance = random.Random(13)
    good = encode(EVENT)
    taken = 0
    for _ in range(10_000):
        octets = bytearray(good)
        for _ in range(chance.randrange(1, 3)):
            octets[chance.randrange(len(octets))] = chance.choice((0, 0x40, 0x55, 0x81, 0xA1, chance.randrange(256)))
        if chance.random() < 0.1:
            del octets[chance.randrange(1, len(octets)) :]
        encoded = bytes(octets)
        with plain_readers():
            expected = outcome(encoded)
        assert outcome(encoded) == expected, encoded
        taken += encoded[0] in (0xC0, 0xC1, 0xD0, 0xD1) and read(encoded) is not None
    assert 100 < taken < 9_000


def test_writes_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same octets, or the same error, as the plain writer."""
    chance = random.Random(17)
    east = timezone(timedelta(hours=9))
    zoned = [datetime(2026, 1, 1, 5, tzinfo=east), datetime(1, 1, 1, tzinfo=east), datetime(2026, 1, 1)]
    values = [
        *zoned,
        UUID(int=2**128 - 1),
        UUID(int=1),
        *EVENT.values(),
        "x" * 255,
        "x" * 256,
        "\ud800",
        2**63,
        -(2**63),
        128,
        -129,
        127,
        -128,
        [1],
        object(),
        1j,
    ]
    for _ in range(3_000):
        entries = {f"key {chance.randrange(50)}": chance.choice(values) for _ in range(chance.randrange(6))}
        outcomes = []
        for writer in (fast, None):
            monkeypatch.setattr(_encode, "fast", writer)
            try:
                outcomes.append(encode(entries))
            except EncodeError as error:
                outcomes.append(str(error).encode())
        assert outcomes[0] == outcomes[1], entries


def test_keeps_nothing() -> None:
    """Reading and writing, regular or not, leave no object behind, and the count of references as it was."""
    encoded = encode(EVENT)
    wrong = [encoded[:at] + b"\xff" + encoded[at + 1 :] for at in range(3, len(encoded))]

    def work() -> None:
        for each in (encoded, encode(EVENT), *wrong):
            if each[0] == encoded[0]:
                read(each)
            try:
                decode(each)
            except DecodeError:
                pass
        for bad in ("\ud800", object(), 2**64):
            with pytest.raises(EncodeError):
                encode({"text": "x", "bad": bad})

    for _ in range(5):
        work()
    gc.collect()
    counts = [sys.getrefcount(each) for each in (None, True, UTC, UUID, EVENT["text"])]
    blocks = sys.getallocatedblocks()
    for _ in range(20):
        work()
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 200
    after = [sys.getrefcount(each) for each in (None, True, UTC, UUID, EVENT["text"])]
    assert all(abs(one - other) < 50 for one, other in zip(counts, after, strict=True)), (counts, after)
