"""Values with a type code: what maps, lists and arrays hold (0-10 §3, "Types").

The high half of a code gives the width, so that a value of an unknown type is read and written unchanged, as a `Raw`:

    0x0. 0x1. .. 0x7.   1, 2, 4 .. 128 octets        0xC. 0xD. 0xF.   5, 9, 0 octets
    0x8. 0x9. 0xA.      a size in 1, 2 or 4 octets, then the content

The types of 0-10 and their Python types (those of numbers and text are in `amqp10.types`):

    void None       boolean bool    int64 int       uint64 ULong    int32 Int       uint32 UInt     int16 Short
    uint16 UShort   int8 Byte       uint8 UByte     float Float     double float    char-utf32 Char uuid uuid.UUID
    str16 str       vbin32 bytes    map dict        list list       array Array010  struct32 Struct
    datetime datetime.datetime (aware, whole seconds), or Timestamp where that cannot hold the moment
    dec32, dec64 Decimal32, Decimal64
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from ....errors import DecodeError, EncodeError
from ....types import Byte, Char, Decimal32, Decimal64, Float, Int, Short, Timestamp, UByte, UInt, ULong, UShort
from ..._kit.message.values import EPOCH, MAX_DEPTH, moment, split_decimal


class Raw:
    """A value of a type without an equivalent in Python: its code, and its octets without their size."""

    __slots__ = ("code", "octets")

    def __init__(self, code: int, octets: bytes) -> None:
        self.code: int = code
        self.octets: bytes = octets

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Raw) and (self.code, self.octets) == (other.code, other.octets)

    def __hash__(self) -> int:
        return hash((self.code, self.octets))

    def __repr__(self) -> str:
        return f"Raw(0x{self.code:02x}, {self.octets!r})"


class Array010(list[Any]):
    """A sequence of values of one type, which `code` names."""

    __slots__ = ("code",)

    def __init__(self, code: int, items: Iterable[Any] = ()) -> None:
        super().__init__(items)
        self.code: int = code

    def __eq__(self, other: object) -> bool:
        return list.__eq__(self, other) and self.code == getattr(other, "code", self.code)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __repr__(self) -> str:
        return f"Array010(0x{self.code:02x}, {list.__repr__(self)})"


STR16: Final = 0x95
STRUCT32: Final = 0xAB

# Reading

Reader = Callable[[bytes], Any]


def _moment(octets: bytes) -> Any:
    return moment(int.from_bytes(octets, "big", signed=True) * 1000)


def _number(kind: Callable[[int], Any], signed: bool) -> Reader:
    return lambda octets: kind(int.from_bytes(octets, "big", signed=signed))


def _decimal(kind: type[Decimal]) -> Reader:
    return lambda octets: kind(Decimal(int.from_bytes(octets[1:], "big", signed=True)).scaleb(-octets[0]))


def _boolean(octets: bytes) -> bool:
    return octets != b"\0"


def _text(encoding: str, kind: type[str] = str) -> Reader:
    def read(octets: bytes) -> Any:
        try:
            return kind(octets.decode(encoding)) if kind is not str else octets.decode(encoding)
        except UnicodeDecodeError as error:
            raise DecodeError(f"text that is not {encoding}: {error.reason}") from None

    return read


_READERS: Final[dict[int, Reader]] = {
    0x01: _number(Byte, True),
    0x02: _number(UByte, False),
    0x04: _text("iso-8859-15", Char),
    0x08: _boolean,
    0x11: _number(Short, True),
    0x12: _number(UShort, False),
    0x21: _number(Int, True),
    0x22: _number(UInt, False),
    0x23: lambda octets: Float(struct.unpack(">f", octets)[0]),
    0x27: _text("utf-32-be", Char),
    0x31: _number(int, True),
    0x32: _number(ULong, False),
    0x33: lambda octets: struct.unpack(">d", octets)[0],
    0x38: _moment,
    0x48: lambda octets: UUID(bytes=octets),
    0x80: bytes,
    0x84: _text("iso-8859-15"),
    0x85: _text("utf-8"),
    0x86: _text("utf-16"),
    0x90: bytes,
    0x94: _text("iso-8859-15"),
    0x95: _text("utf-8"),
    0x96: _text("utf-16"),
    0xA0: bytes,
    0xC8: _decimal(Decimal32),
    0xD8: _decimal(Decimal64),
    0xF0: lambda octets: None,
}

_WIDTHS: Final = {0xC: 5, 0xD: 9, 0xF: 0} | {half: 1 << half for half in range(8)}


def extent(data: bytes, at: int, code: int) -> tuple[int, int]:
    """Return the start and end of the content of a value of type `code` that begins at `at`.

    Raises:
        DecodeError: the code gives no width, or the data ends within the value.
    """
    half = code >> 4
    width = _WIDTHS.get(half)
    if width is None:
        if half not in (8, 9, 10):
            raise DecodeError(f"the type code 0x{code:02x} has no known width")
        size = 1 << half - 8
        width = int.from_bytes(data[at : at + size], "big")
        if at + size > len(data):
            raise DecodeError(f"the data ends within the size of a value of type 0x{code:02x}")
        at += size
    if at + width > len(data):
        raise DecodeError(
            f"the data ends within a value of type 0x{code:02x}: it has {width} octets, and {len(data) - at} follow"
        )
    return at, at + width


def read_value(data: bytes, at: int, code: int, depth: int = 0) -> tuple[Any, int]:
    """Return the value of type `code` that begins at `at`, and where it ends.

    Raises:
        DecodeError: the value is malformed, ends too early, or is nested too deeply.
    """
    start, end = extent(data, at, code)
    reader = _READERS.get(code)
    if reader is not None:
        return reader(data[start:end]), end
    compound = _COMPOUNDS.get(code)
    if compound is None:
        return Raw(code, data[start:end]), end
    if depth >= MAX_DEPTH:
        raise DecodeError(f"values are nested more than {MAX_DEPTH} deep")
    return compound(data[start:end], depth + 1), end


def _count(data: bytes, at: int, what: str) -> int:
    if len(data) < at + 4:
        raise DecodeError(f"{what} of {len(data)} octets has no room for its count")
    count = int.from_bytes(data[at : at + 4], "big")
    if count > len(data) - at - 4:
        raise DecodeError(f"{what} of {len(data)} octets cannot have {count} entries")
    return count


def read_map(data: bytes, depth: int = 0) -> dict[str, Any]:
    """Decode the content of a map, after its size."""
    if not data:
        return {}
    found = {}
    count, at = _count(data, 0, "a map"), 4
    for _ in range(count):
        if at >= len(data) or at + 2 + data[at] > len(data):
            raise DecodeError("a map ends within an entry")
        key_end = at + 1 + data[at]
        try:
            key = data[at + 1 : key_end].decode()
        except UnicodeDecodeError:
            raise DecodeError("a key of a map is not UTF-8") from None
        found[key], at = read_value(data, key_end + 1, data[key_end], depth)
    if at != len(data):
        raise DecodeError(f"{len(data) - at} octets follow the last entry of a map")
    return found


def read_list(data: bytes, depth: int = 0) -> list[Any]:
    """Decode the content of a list, after its size."""
    if not data:
        return []
    found = []
    count, at = _count(data, 0, "a list"), 4
    for _ in range(count):
        if at >= len(data):
            raise DecodeError("a list ends before its last value")
        value, at = read_value(data, at + 1, data[at], depth)
        found.append(value)
    if at != len(data):
        raise DecodeError(f"{len(data) - at} octets follow the last value of a list")
    return found


def read_array(data: bytes, depth: int = 0) -> Array010:
    """Decode the content of an array, after its size; size 0 has no type, and gives an empty array of str16."""
    if not data:
        return Array010(STR16)
    found = Array010(data[0])
    count, at = _count(data, 1, "an array"), 5
    for _ in range(count):
        value, at = read_value(data, at, found.code, depth)
        found.append(value)
    if at != len(data):
        raise DecodeError(f"{len(data) - at} octets follow the last value of an array")
    return found


_COMPOUNDS: Final[dict[int, Callable[[bytes, int], Any]]] = {0xA8: read_map, 0xA9: read_list, 0xAA: read_array}

# Writing: the code of each Python type, and the function that writes what follows the code.

Writer = Callable[[Any], bytes]


def _sized(width: int) -> Writer:
    def write(octets: bytes) -> bytes:
        if len(octets) >> 8 * width:
            raise EncodeError(f"{len(octets)} octets exceed the limit of {(1 << 8 * width) - 1}")
        return len(octets).to_bytes(width, "big") + octets

    return write


sized8: Final = _sized(1)
sized16: Final = _sized(2)
sized32: Final = _sized(4)


def _integer(width: int, signed: bool) -> Writer:
    def write(value: int) -> bytes:
        try:
            return value.to_bytes(width, "big", signed=signed)
        except OverflowError:
            kind = f"{'' if signed else 'u'}int{8 * width}"
            raise EncodeError(f"{int(value)} does not fit {kind}") from None

    return write


def _float(value: float) -> bytes:
    try:
        return struct.pack(">f", value)
    except OverflowError:
        raise EncodeError(f"{value} does not fit a float") from None


def text(value: str) -> bytes:
    """Encode text as UTF-8.

    Raises:
        EncodeError: the text has surrogates.
    """
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise EncodeError(f"{value!r:.80} has no UTF-8 encoding") from None


def _character(value: str) -> bytes:
    if len(value) != 1:
        raise EncodeError(f"a char must be one character, not {value!r:.80}")
    try:
        return value.encode("utf-32-be")
    except UnicodeEncodeError:
        raise EncodeError(f"{value!r} is a surrogate") from None


def _seconds(milliseconds: int) -> bytes:
    if milliseconds % 1000:
        raise EncodeError("a datetime must have whole seconds")
    return _INT64(milliseconds // 1000)


def _datetime(value: datetime) -> bytes:
    if value.tzinfo is None:
        raise EncodeError(f"{value!r} must have a time zone")
    passed = value - EPOCH
    if passed.microseconds:
        raise EncodeError("a datetime must have whole seconds")
    return _INT64(passed // timedelta(seconds=1))


def _scaled(width: int) -> Writer:
    def write(value: Decimal) -> bytes:
        number, places = split_decimal(value, 8 * width)
        return bytes((places,)) + number.to_bytes(width, "big", signed=True)

    return write


def _array(value: Array010) -> bytes:
    out = bytearray([value.code]) + len(value).to_bytes(4, "big")
    for each in value:
        code, octets = encode_value(each)
        if code != value.code:
            octets = _recode(each, code, octets, value.code)
        out += octets
    return sized32(out)


def _recode(value: Any, code: int, octets: bytes, wanted: int) -> bytes:
    """Encode `value` as an element of an array of type `wanted`, if that only changes the width of text or octets.

    An int may also become an element of another integer type.
    """
    if isinstance(value, Raw):
        raise EncodeError(f"a value of type 0x{code:02x} in an array of 0x{wanted:02x}")
    if type(value) is bool or not (isinstance(value, (str, bytes)) or (type(value) is int and 0 < wanted < 0x40)):
        raise EncodeError(f"{value!r:.80} in an array of type 0x{wanted:02x}")
    writer = _ELEMENTS.get(wanted)
    if writer is None or isinstance(value, int) != (wanted < 0x40) or isinstance(value, str) != (wanted & 0xF == 5):
        raise EncodeError(f"{value!r:.80} in an array of type 0x{wanted:02x}")
    return writer(value)


def encode_map(value: dict[str, Any]) -> bytes:
    """Encode a map with its size.

    Raises:
        EncodeError: a key is not text of at most 255 octets, or a value has no type in 0-10.
    """
    out = bytearray(len(value).to_bytes(4, "big"))  # cheaper than a list of many small parts
    for key, each in value.items():
        if not isinstance(key, str):
            raise EncodeError(f"a key of a map must be text, not {key!r:.80}")
        code, octets = encode_value(each)
        out += sized8(text(key))
        out.append(code)
        out += octets
    return sized32(out)


def _list(value: list[Any]) -> bytes:
    out = bytearray(len(value).to_bytes(4, "big"))
    for each in value:
        code, octets = encode_value(each)
        out.append(code)
        out += octets
    return sized32(out)


def _raw(value: Raw) -> bytes:
    half = value.code >> 4
    width = _WIDTHS.get(half)
    if width is None and half in (8, 9, 10):
        return _sized(1 << half - 8)(value.octets)
    if width != len(value.octets):
        raise EncodeError(f"{value!r} does not have the width of its type")
    return value.octets


_INT64: Final = _integer(8, True)
_WRITERS: Final[dict[type, tuple[int, Writer]]] = {
    type(None): (0xF0, lambda value: b""),
    bool: (0x08, lambda value: b"\1" if value else b"\0"),
    int: (0x31, _INT64),
    str: (0x95, lambda value: sized16(text(value))),
    bytes: (0xA0, sized32),
    float: (0x33, struct.Struct(">d").pack),
    dict: (0xA8, encode_map),
    list: (0xA9, _list),
    Array010: (0xAA, _array),
    Byte: (0x01, _integer(1, True)),
    UByte: (0x02, _integer(1, False)),
    Short: (0x11, _integer(2, True)),
    UShort: (0x12, _integer(2, False)),
    Int: (0x21, _integer(4, True)),
    UInt: (0x22, _integer(4, False)),
    ULong: (0x32, _integer(8, False)),
    Float: (0x23, _float),
    Char: (0x27, _character),
    datetime: (0x38, _datetime),
    Timestamp: (0x38, _seconds),
    UUID: (0x48, lambda value: value.bytes),
    Decimal32: (0xC8, _scaled(4)),
    Decimal64: (0xD8, _scaled(8)),
}
# Types that an element of an array may have, though the same value in a map would get another.
_ELEMENTS: Final[dict[int, Writer]] = {
    0x85: lambda value: sized8(text(value)),
    0x95: lambda value: sized16(text(value)),
    0x80: sized8,
    0x90: sized16,
    0xA0: sized32,
} | {code: writer for kind, (code, writer) in _WRITERS.items() if issubclass(kind, int) and kind is not bool}


def encode_value(value: Any) -> tuple[int, bytes]:
    """Return the type code of a value, and the octets that follow it.

    Raises:
        EncodeError: the value has no type in 0-10, or does not fit its type.
    """
    found = _WRITERS.get(type(value))
    if found is not None:
        return found[0], found[1](value)
    if isinstance(value, Raw):
        return value.code, _raw(value)
    struct32 = getattr(value, "encode_struct32", None)
    if struct32 is not None:
        return STRUCT32, struct32()
    raise EncodeError(f"{value!r:.80} has no type in AMQP 0-10")
