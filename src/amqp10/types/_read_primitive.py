"""The readers of primitive values, and the table of all readers by constructor octet (§1.6).

A reader takes the data, the offset after the constructor, and `room`, the list `[levels, elements]`: the levels of
nesting and the zero-width array elements still allowed. It returns the value and the offset after it. Readers index the
data freely: an IndexError or struct.error means that the data ends early, a UnicodeDecodeError that text is not UTF-8,
and the public functions of `_decode` turn them into a DecodeError. A reader that slices checks the end itself, because
slicing raises no error.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final
from uuid import UUID, SafeUUID

from ..errors import DecodeError
from ._constructors import name_of
from ._decimal import read_decimal32, read_decimal64, read_decimal128
from ._encode import EPOCH
from ._values import (
    Byte,
    Char,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)

Reader = Callable[[bytes, int, list[int]], tuple[Any, int]]


def beyond(end: int, data: bytes) -> DecodeError:
    return DecodeError(f"a value ends {end - len(data)} octets behind the data")


def _unknown(code: int) -> Reader:
    def read(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
        raise DecodeError(f"{name_of(code)} at offset {at - 1}")

    return read


READERS: Final[list[Reader]] = [_unknown(code) for code in range(256)]


def reads(code: int) -> Callable[[Reader], Reader]:
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


@reads(0x45)
def _list0(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    return [], at


def _octet(code: int, values: list[Any]) -> None:
    def read(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
        return values[data[at]], at + 1

    READERS[code] = read


_SIGNED = (*range(128), *range(-128, 0))
SMALL_UINT: Final = [UInt(n) for n in range(256)]
SMALL_ULONG: Final = [ULong(n) for n in range(256)]
# The numbers of one octet, by constructor and octet, so that reading one makes no object.
SMALL_VALUES: Final[dict[int, list[Any]]] = {
    0x50: [UByte(n) for n in range(256)],
    0x51: [Byte(n) for n in _SIGNED],
    0x52: SMALL_UINT,
    0x53: SMALL_ULONG,
    0x54: [Int(n) for n in _SIGNED],
    0x55: list(_SIGNED),
}
for _code, _values in SMALL_VALUES.items():
    _octet(_code, _values)


@reads(0x56)
def _boolean(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    octet = data[at]
    if octet > 1:
        raise DecodeError(f"0x{octet:02x} is not a boolean")
    return octet == 1, at + 1


def _fixed(code: int, layout: str, python: Callable[[Any], Any]) -> None:
    unpack = struct.Struct(layout).unpack_from
    width = struct.calcsize(layout)

    def read(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
        return python(unpack(data, at)[0]), at + width

    READERS[code] = read


unpack_long: Final = struct.Struct(">q").unpack_from
unpack_double: Final = struct.Struct(">d").unpack_from
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


@reads(0x81)
def _long(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    return unpack_long(data, at)[0], at + 8


@reads(0x82)
def _double(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    return unpack_double(data, at)[0], at + 8


@reads(0x72)
def _float(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    value = _unpack_float(data, at)[0]
    if value != value:
        # The processor would make a signaling NaN quiet, so its bits are moved unchanged.
        bits = unpack_word(data, at)[0]
        wide = (bits & 0x8000_0000) << 32 | 0x7FF << 52 | (bits & 0x7F_FFFF) << 29
        value = struct.unpack(">d", wide.to_bytes(8, "big"))[0]
    return Float(value), at + 4


@reads(0x73)
def _char(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    point = unpack_word(data, at)[0]
    if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
        raise DecodeError(f"0x{point:x} is not a Unicode character")
    return Char(chr(point)), at + 4


_MILLISECOND: Final = timedelta(milliseconds=1)


def new_timestamp(ms: int) -> Any:
    """Return the moment `ms` milliseconds after 1970, as a datetime if possible, else a Timestamp."""
    try:
        return EPOCH + ms * _MILLISECOND
    except OverflowError:
        return Timestamp(ms)


@reads(0x83)
def _timestamp(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    return new_timestamp(unpack_long(data, at)[0]), at + 8


@reads(0x94)
def _decimal128(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    high, low = _unpack_pair(data, at)
    return read_decimal128(high << 64 | low), at + 16


# A third of the time of the constructor, which handles every form of a UUID (benchmarks/real.py, "row decode").
_new_uuid: Final[Any] = UUID.__new__
_set_int: Final[Any] = vars(UUID)["int"].__set__
_set_is_safe: Final[Any] = vars(UUID)["is_safe"].__set__
_SAFETY: Final = SafeUUID.unknown
_from_bytes: Final = int.from_bytes
_unpack_uuid = struct.Struct("16s").unpack_from


def new_uuid(octets: bytes) -> UUID:
    """Return the UUID with the 16 `octets`."""
    value: UUID = _new_uuid(UUID)
    _set_int(value, _from_bytes(octets, "big"))
    _set_is_safe(value, _SAFETY)
    return value


@reads(0x98)
def _uuid(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    return new_uuid(_unpack_uuid(data, at)[0]), at + 16


# Variable width (§1.6.19-21)


def _sized(code: int, python: Callable[[bytes], Any]) -> None:
    """Register the readers of a type whose length has one octet, and four with the constructor `code` + 0x10."""

    def read(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
        end = at + 1 + data[at]
        if end > len(data):
            raise beyond(end, data)
        return python(data[at + 1 : end]), end

    def read_wide(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
        end = at + 4 + unpack_word(data, at)[0]
        if end > len(data):
            raise beyond(end, data)
        return python(data[at + 4 : end]), end

    READERS[code], READERS[code + 0x10] = read, read_wide


known_symbols: Final[dict[bytes, Symbol]] = {}
_SYMBOLS_KEPT = 1024


def symbol_of(raw: bytes) -> Symbol:
    """Return the symbol with the octets `raw`. Recent symbols are cached, since the same few recur."""
    symbol = known_symbols.get(raw)
    if symbol is None:
        try:
            symbol = Symbol(raw, "ascii")
        except UnicodeDecodeError:
            raise DecodeError("a symbol is not ASCII") from None
        if len(raw) <= 64:
            if len(known_symbols) >= _SYMBOLS_KEPT:
                known_symbols.clear()
            known_symbols[raw] = symbol
    return symbol


_sized(0xA0, bytes)
_sized(0xA1, bytes.decode)
_sized(0xA3, symbol_of)
