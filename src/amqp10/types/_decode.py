"""Bytes -> values: one reader per constructor octet, in a table of 256 slots (§1.2, §1.6).

A reader is called with the data, the offset after the constructor, and `room`, the list `[levels, elements]` of what
may still be nested and of how many array elements of no width may still come; it gives the value and the offset
after it. Readers index the data freely: an IndexError (or struct.error) means that the data ends early, and the
public functions turn it into a DecodeError. What slices checks its end first, since slicing is silent. A compound
checks its size and count against the octets present before it reads its items, and its end after them, so no
value can take anything from behind its parent.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from itertools import repeat
from typing import Any, Final, cast
from uuid import UUID

from ..errors import DecodeError
from ._codes import CODES, name_of
from ._decimal import read_decimal32, read_decimal64, read_decimal128
from ._encode import EPOCH, encode
from ._values import (
    Array,
    Byte,
    Char,
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
)

Data = bytes | bytearray | memoryview
Reader = Callable[[bytes, int, list[int]], tuple[Any, int]]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a decoder accepts; everything else is bounded by the bytes themselves.

    Attributes:
        max_depth: levels of lists, maps, arrays and described values within each other.
        max_elements: array elements that take no bytes (null, true, uint0, ...), all arrays of a value together.
    """

    max_depth: int = 32
    max_elements: int = 65_536


DEFAULT_LIMITS: Final = Limits()

# What a reader may raise when the data ends early or nests deeper than the interpreter goes.
BROKEN: Final = (IndexError, struct.error, RecursionError)


def decode(data: Data, limits: Limits = DEFAULT_LIMITS) -> Any:
    """The one value that `data` is the encoding of.

    Raises:
        DecodeError: the data is not exactly one valid encoding, or exceeds the limits.
    """
    value, end = decode_from(data, 0, limits)
    if end != len(data):
        raise DecodeError(f"{len(data) - end} octets follow the value")
    return value


def decode_from(data: Data, at: int = 0, limits: Limits = DEFAULT_LIMITS) -> tuple[Any, int]:
    """The value that begins at the offset `at`, and the offset after it.

    `bytes` are read in place; of another buffer the octets of the value are copied first.

    Raises:
        DecodeError: there is no valid encoding at `at`, or it exceeds the limits.
    """
    if type(data) is not bytes:
        end = skip(data, at)
        return decode_from(bytes(data[at:end]), 0, limits)[0], end
    try:
        return READERS[data[at]](data, at + 1, [limits.max_depth, limits.max_elements])
    except BROKEN as e:
        raise broken(e) from None


def skip(data: Data, at: int = 0) -> int:
    """The offset after the value that begins at `at`; its extent is checked, its content is not looked at.

    Raises:
        DecodeError: an unknown constructor, or the data ends before the value does.
    """
    due = 1  # values still to pass: a description is two more, its descriptor and what it describes
    try:
        while due:
            code = data[at]
            at += 1
            if code == 0:
                due += 1
                continue
            due -= 1
            kind = code >> 4
            if code not in CODES:
                raise DecodeError(f"{name_of(code)} at offset {at - 1}")
            if kind < 0xA:
                at += CODES[code][1]
            elif kind & 1:
                at += 4 + int.from_bytes(data[at : at + 4], "big")
            else:
                at += 1 + data[at]
    except IndexError:
        at = len(data) + 1
    if at > len(data):
        raise DecodeError("the data ends within a value")
    return at


def broken(error: Exception) -> DecodeError:
    """The DecodeError for one of `BROKEN`."""
    if isinstance(error, RecursionError):
        return DecodeError("the value is nested too deeply")
    return DecodeError("the data ends within a value")


def _short(end: int, data: bytes) -> DecodeError:
    return DecodeError(f"a value ends {end - len(data)} octets behind the data")


def _unknown(code: int) -> Reader:
    def read(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
        raise DecodeError(f"{name_of(code)} at offset {at - 1}")

    return read


READERS: Final[list[Reader]] = [_unknown(code) for code in range(256)]


def _reads(code: int) -> Callable[[Reader], Reader]:
    def register(reader: Reader) -> Reader:
        READERS[code] = reader
        return reader

    return register


# Fixed width (§1.6.1-18)


def _constant(code: int, value: Any) -> None:
    def read(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
        return value, at

    READERS[code] = read


_constant(0x40, None)
_constant(0x41, True)
_constant(0x42, False)
_constant(0x43, UInt(0))
_constant(0x44, ULong(0))


@_reads(0x45)
def _list0(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    return [], at


def _octet(code: int, values: list[Any]) -> None:
    def read(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
        return values[data[at]], at + 1

    READERS[code] = read


_SIGNED = (*range(128), *range(-128, 0))
SMALL_UINT: Final = [UInt(n) for n in range(256)]
SMALL_ULONG: Final = [ULong(n) for n in range(256)]
_octet(0x50, [UByte(n) for n in range(256)])
_octet(0x51, [Byte(n) for n in _SIGNED])
_octet(0x52, SMALL_UINT)
_octet(0x53, SMALL_ULONG)
_octet(0x54, [Int(n) for n in _SIGNED])
_octet(0x55, list(_SIGNED))


@_reads(0x56)
def _boolean(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    octet = data[at]
    if octet > 1:
        raise DecodeError(f"0x{octet:02x} is no boolean")
    return octet == 1, at + 1


def _fixed(code: int, layout: str, python: Callable[[Any], Any]) -> None:
    unpack = struct.Struct(layout).unpack_from
    width = struct.calcsize(layout)

    def read(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
        return python(unpack(data, at)[0]), at + width

    READERS[code] = read


_unpack_long = struct.Struct(">q").unpack_from
_unpack_double = struct.Struct(">d").unpack_from
_unpack_float = struct.Struct(">f").unpack_from
unpack_word: Final = struct.Struct(">I").unpack_from
unpack_words: Final = struct.Struct(">II").unpack_from
unpack_ulong: Final = struct.Struct(">Q").unpack_from
_unpack_pair = struct.Struct(">QQ").unpack_from

_fixed(0x60, ">H", UShort)
_fixed(0x61, ">h", Short)
_fixed(0x70, ">I", UInt)
_fixed(0x71, ">i", Int)
_fixed(0x74, ">I", read_decimal32)
_fixed(0x80, ">Q", ULong)
_fixed(0x84, ">Q", read_decimal64)


@_reads(0x81)
def _long(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    return _unpack_long(data, at)[0], at + 8


@_reads(0x82)
def _double(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    return _unpack_double(data, at)[0], at + 8


@_reads(0x72)
def _float(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    value = _unpack_float(data, at)[0]
    if value != value:
        # The processor would make a signaling NaN quiet; its bits are moved as they are.
        bits = unpack_word(data, at)[0]
        wide = (bits & 0x8000_0000) << 32 | 0x7FF << 52 | (bits & 0x7F_FFFF) << 29
        value = struct.unpack(">d", wide.to_bytes(8, "big"))[0]
    return Float(value), at + 4


@_reads(0x73)
def _char(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    point = unpack_word(data, at)[0]
    if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
        raise DecodeError(f"0x{point:x} is no Unicode character")
    return Char(chr(point)), at + 4


@_reads(0x83)
def read_timestamp(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    ms = _unpack_long(data, at)[0]
    try:
        return EPOCH + timedelta(0, ms // 1000, ms % 1000 * 1000), at + 8
    except OverflowError:
        return Timestamp(ms), at + 8


@_reads(0x94)
def _decimal128(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    high, low = _unpack_pair(data, at)
    return read_decimal128(high << 64 | low), at + 16


@_reads(0x98)
def _uuid(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    high, low = _unpack_pair(data, at)
    return UUID(int=high << 64 | low), at + 16


# Variable width (§1.6.19-21)


@_reads(0xA0)
def _binary8(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    end = at + 1 + data[at]
    if end > len(data):
        raise _short(end, data)
    return data[at + 1 : end], end


@_reads(0xB0)
def _binary32(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    end = at + 4 + unpack_word(data, at)[0]
    if end > len(data):
        raise _short(end, data)
    return data[at + 4 : end], end


@_reads(0xA1)
def _string8(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    end = at + 1 + data[at]
    if end > len(data):
        raise _short(end, data)
    try:
        return data[at + 1 : end].decode(), end
    except UnicodeDecodeError as e:
        raise DecodeError(f"a string is not UTF-8: {e.reason}") from None


@_reads(0xB1)
def _string32(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    end = at + 4 + unpack_word(data, at)[0]
    if end > len(data):
        raise _short(end, data)
    try:
        return data[at + 4 : end].decode(), end
    except UnicodeDecodeError as e:
        raise DecodeError(f"a string is not UTF-8: {e.reason}") from None


_symbols: dict[bytes, Symbol] = {}
_SYMBOLS_KEPT = 1024


def symbol_of(raw: bytes) -> Symbol:
    """The symbol of these octets. The same few come again and again, so that some are kept."""
    symbol = _symbols.get(raw)
    if symbol is None:
        try:
            symbol = Symbol(raw, "ascii")
        except UnicodeDecodeError:
            raise DecodeError("a symbol is not ASCII") from None
        if len(raw) <= 64:
            if len(_symbols) >= _SYMBOLS_KEPT:
                _symbols.clear()
            _symbols[raw] = symbol
    return symbol


@_reads(0xA3)
def _symbol8(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    end = at + 1 + data[at]
    if end > len(data):
        raise _short(end, data)
    return symbol_of(data[at + 1 : end]), end


@_reads(0xB3)
def _symbol32(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    end = at + 4 + unpack_word(data, at)[0]
    if end > len(data):
        raise _short(end, data)
    return symbol_of(data[at + 4 : end]), end


# Compound (§1.6.22-23)


def check_compound(data: bytes, at: int, end: int, count: int) -> None:
    """Refuse a compound or array whose size or count cannot be, before any of its `count` items is read at `at`."""
    if end > len(data):
        raise _short(end, data)
    if count > end - at:
        raise DecodeError(f"{count} items cannot be in {max(end - at, 0)} octets")


@_reads(0xC0)
def _list8(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    return _items(data, at + 2, at + 1 + data[at], data[at + 1], room)


@_reads(0xD0)
def _list32(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    size, count = unpack_words(data, at)
    return _items(data, at + 8, at + 4 + size, count, room)


def _items(data: bytes, at: int, end: int, count: int, room: list[int]) -> tuple[Any, int]:
    check_compound(data, at, end, count)
    if not room[0]:
        raise DecodeError("the value is nested too deeply")
    room[0] -= 1
    readers = READERS
    items: list[Any] = []
    append = items.append
    for _ in repeat(None, count):
        value, at = readers[data[at]](data, at + 1, room)
        append(value)
    if at != end:
        raise DecodeError("the size of a list is not that of its items")
    room[0] += 1
    return items, end


@_reads(0xC1)
def _map8(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    return _entries(data, at + 2, at + 1 + data[at], data[at + 1], room)


@_reads(0xD1)
def _map32(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    size, count = unpack_words(data, at)
    return _entries(data, at + 8, at + 4 + size, count, room)


def _entries(data: bytes, at: int, end: int, count: int, room: list[int]) -> tuple[Any, int]:
    check_compound(data, at, end, count)
    if count & 1:
        raise DecodeError(f"a map has a key without a value: {count} items")
    if not room[0]:
        raise DecodeError("the value is nested too deeply")
    room[0] -= 1
    count >>= 1
    if count > _TRUSTED_ENTRIES:
        return _large_map(data, at, end, count, room)
    readers = READERS
    entries: dict[Any, Any] = {}
    for done in range(count):
        key, at = readers[data[at]](data, at + 1, room)
        try:
            known = key in entries
        except TypeError:  # a list, a map, or a signaling NaN
            known = True
        if known:
            value, at = readers[data[at]](data, at + 1, room)
            pairs = [*entries.items(), (key, value)]
            return _more_pairs(data, at, end, count - done - 1, pairs, room)
        entries[key], at = readers[data[at]](data, at + 1, room)
    if at != end:
        raise DecodeError("the size of a map is not that of its entries")
    room[0] += 1
    return entries, end


def _more_pairs(
    data: bytes, at: int, end: int, count: int, pairs: list[tuple[Any, Any]], room: list[int]
) -> tuple[Any, int]:
    """The map that begins with these pairs, has `count` more at `at`, and keys that a dict may not hold."""
    readers = READERS
    for _ in repeat(None, count):
        key, at = readers[data[at]](data, at + 1, room)
        value, at = readers[data[at]](data, at + 1, room)
        pairs.append((key, value))
    if at != end:
        raise DecodeError("the size of a map is not that of its entries")
    # "A map in which there exist two identical key values is invalid."
    if len({encode(key) for key, _ in pairs}) != len(pairs):
        raise DecodeError("a map has the same key twice")
    room[0] += 1
    return Map(pairs), end


# Keys with one and the same hash make a dict slow beyond measure, and except for text and binary a peer chooses
# the hashes. The keys of a map with more entries than this are looked at before they meet in a dict.
_TRUSTED_ENTRIES = 64
_SAME_HASHES = 16


def _large_map(data: bytes, at: int, end: int, count: int, room: list[int]) -> tuple[Any, int]:
    value, end = _more_pairs(data, at, end, count, [], room)
    try:
        if max(Counter(hash(key) for key in value).values()) <= _SAME_HASHES:
            entries = dict(value.pairs)
            if len(entries) == count:
                return entries, end
    except TypeError:
        pass
    return value, end


# Array (§1.6.24)


@_reads(0xE0)
def _array8(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    return _elements(data, at + 2, at + 1 + data[at], data[at + 1], room)


@_reads(0xF0)
def _array32(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    size, count = unpack_words(data, at)
    return _elements(data, at + 8, at + 4 + size, count, room)


def _elements(data: bytes, at: int, end: int, count: int, room: list[int]) -> tuple[Any, int]:
    if end > len(data):
        raise _short(end, data)
    if not room[0]:
        raise DecodeError("the value is nested too deeply")
    room[0] -= 1
    descriptors: list[Any] = []
    code = data[at]
    while not code:
        # A description of a description nests as deep as it is long.
        if len(descriptors) >= room[0]:
            raise DecodeError("the value is nested too deeply")
        descriptor, at = READERS[data[at + 1]](data, at + 2, room)
        descriptors.append(descriptor)
        code = data[at]
    at += 1
    if code not in CODES:
        raise DecodeError(f"{name_of(code)} at offset {at - 1}")
    name, width = CODES[code]
    if width:
        if count * width > end - at:
            raise DecodeError(f"{count} elements cannot be in {max(end - at, 0)} octets")
    else:
        # They take no bytes, so that nothing but a limit stands between a small array and all the memory.
        room[1] -= count
        if room[1] < 0:
            raise DecodeError("too many array elements of no width")
    read = READERS[code]
    items: list[Any] = []
    append = items.append
    for _ in repeat(None, count):
        item, at = read(data, at, room)
        append(item)
    if at != end:
        raise DecodeError("the size of an array is not that of its elements")
    room[0] += 1
    return Array(cast("TypeName", name), items, descriptors), end


# Described (§1.2)


@_reads(0x00)
def _described(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    if not room[0]:
        raise DecodeError("the value is nested too deeply")
    room[0] -= 1
    readers = READERS
    descriptor, at = readers[data[at]](data, at + 1, room)
    value, at = readers[data[at]](data, at + 1, room)
    room[0] += 1
    return Described(descriptor, value), at
