"""The encoder: one writer for each Python type, found by `type(value)`; always the smallest encoding (§1.6).

A writer appends to a bytearray. A compound writes a header for up to 255 octets, then its items, and widens the header
in place if they are longer, so that nothing is encoded twice or copied through another buffer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import is_dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID

from ..errors import EncodeError
from ._compiled import fast
from ._decimal import write_decimal32, write_decimal64, write_decimal128
from ._plans import Part, Plans
from ._plans import Writer as Writer
from ._values import (
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

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)

# Precomputed heads and whole small values.
UINT_SMALL: Final = [b"\x43", *(bytes((0x52, n)) for n in range(1, 256))]
ULONG_SMALL: Final = [b"\x44", *(bytes((0x53, n)) for n in range(1, 256))]
STRING_HEAD: Final = [bytes((0xA1, n)) for n in range(256)]
SYMBOL_HEAD: Final = [bytes((0xA3, n)) for n in range(256)]
BINARY_HEAD: Final = [bytes((0xA0, n)) for n in range(256)]
_LONG_SMALL: Final = {n: struct.pack(">Bb", 0x55, n) for n in range(-128, 128)}
_INT_SMALL: Final = {n: struct.pack(">Bb", 0x54, n) for n in range(-128, 128)}

pack_octet: Final = struct.Struct(">BB").pack
pack_short: Final = struct.Struct(">BH").pack
pack_word: Final = struct.Struct(">BI").pack
pack_long: Final = struct.Struct(">BQ").pack
_pack_signed_octet = struct.Struct(">Bb").pack
_pack_signed_short = struct.Struct(">Bh").pack
_pack_signed_word = struct.Struct(">Bi").pack
_pack_signed_long = struct.Struct(">Bq").pack
_pack_float = struct.Struct(">Bf").pack
_pack_double = struct.Struct(">Bd").pack
_pack_wide = struct.Struct(">BII").pack

_SIZE_LIMIT: Final = 0xFFFF_FFFF
_LONG: Final = bytes(256)


def encode(value: Any) -> bytes:
    """Encode a value by the type mapping of `_values`.

    Raises:
        EncodeError: the value, or one inside it, has no AMQP type, is out of its type's range, is a datetime without
            time zone, or cannot be represented exactly.
    """
    if fast is not None:
        made: bytes | None = fast.encode(value)
        if made is not None:
            return made
    out = bytearray()
    encode_to(out, value)
    return bytes(out)


def encode_to(out: bytearray, value: Any) -> None:
    """Append the AMQP encoding of a value to `out`; on an error, `out` is unchanged.

    Raises:
        EncodeError: as for `encode`.
    """
    start = len(out)
    try:
        WRITERS[type(value)](out, value)
    except EncodeError as error:
        del out[start:]
        if path := path_to_fault(value):
            raise EncodeError(f"{path}: {error}") from None
        raise
    except RecursionError:
        del out[start:]
        raise EncodeError("the value is nested too deeply, or contains itself") from None


_MAX_DEPTH: Final = 32
"""The longest path of `path_to_fault`, in steps; in values nested deeper, the path ends early."""


def path_to_fault(value: Any) -> str:
    """Return the path to the part of `value` that cannot be encoded, as in "['x'][3]"; "" for the value itself."""
    path = ""
    for _ in range(_MAX_DEPTH):
        for step, part in _parts(value):
            if not _encodable(part):
                path, value = path + step, part
                break
        else:
            break
    return path


def _parts(value: Any) -> Iterable[tuple[str, Any]]:
    """Yield the path step to each part of a value, and the part."""
    if isinstance(value, Described):
        yield ".descriptor", value.descriptor
        yield ".value", value.value
    elif isinstance(value, Map | Mapping):
        for key, item in value.pairs if isinstance(value, Map) else value.items():
            yield f"[key {key!r:.80}]", key
            yield f"[{key!r:.80}]", item
    elif isinstance(value, list | tuple):
        for place, item in enumerate(value):
            yield f"[{place}]", item


def _encodable(value: Any) -> bool:
    try:
        WRITERS[type(value)](bytearray(), value)
    except (EncodeError, RecursionError):
        return False
    return True


class _Writers(dict[type, Writer]):
    """Writers by type; a type without a writer gets that of its nearest base class."""

    def __missing__(self, python: type) -> Writer:
        for base in python.__mro__:
            writer = self.get(base)
            if writer is not None:
                self[python] = writer
                return writer
        if issubclass(python, Mapping):
            self[python] = write_map
            return write_map
        hint = ""
        if issubclass(python, Set):
            hint = ": make it a list"
        elif issubclass(python, Enum):
            hint = ": give its value"
        elif issubclass(python, date):
            hint = ": make it text, with isoformat(), or a datetime with a time zone"
        elif is_dataclass(python):
            hint = ": make it a dict, with dataclasses.asdict"
        name = python.__qualname__
        raise EncodeError(f"{'an' if name[0] in 'AEIOaeio' else 'a'} {name} has no AMQP type{hint}")


_BITS = {"byte": 8, "short": 16, "int": 32, "long": 64}


def _out_of_range(name: str, value: object) -> EncodeError:
    bits = _BITS.get(name.removeprefix("u"))
    if bits is None:
        return EncodeError(f"{value!r} is out of range for {name}")
    least, most = (0, 2**bits - 1) if name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return EncodeError(f"{value!r} is out of range for {name}, {least}..{most}")


def write_null(out: bytearray, value: None) -> None:
    out.append(0x40)


def write_boolean(out: bytearray, value: bool) -> None:
    out.append(0x41 if value else 0x42)


def _fixed_writer(name: str, code: int, pack: Callable[[int, int], bytes]) -> Writer:
    """Return the writer of a number that always takes the same octets."""

    def write(out: bytearray, value: int) -> None:
        """Append a number (§1.6)."""
        try:
            out += pack(code, value)
        except struct.error:
            raise _out_of_range(name, value) from None

    return write


def _integer_writer(
    name: str, code: int, pack: Callable[[int, int], bytes], least: int, small: Sequence[bytes] | Mapping[int, bytes]
) -> Writer:
    """Return the writer of an integer that may be one of the 256 `small` ones; `least` is the first of these."""
    beyond = least + 256

    def write(out: bytearray, value: int) -> None:
        """Append a number (§1.6)."""
        if least <= value < beyond:
            out += small[value]
            return
        try:
            out += pack(code, value)
        except (struct.error, ValueError):  # PyPy: a ValueError for a negative number of 64 bits
            raise _out_of_range(name, value) from None

    return write


write_ubyte: Final = _fixed_writer("ubyte", 0x50, pack_octet)
write_ushort: Final = _fixed_writer("ushort", 0x60, pack_short)
write_uint: Final = _integer_writer("uint", 0x70, pack_word, 0, UINT_SMALL)
write_ulong: Final = _integer_writer("ulong", 0x80, pack_long, 0, ULONG_SMALL)
write_byte: Final = _fixed_writer("byte", 0x51, _pack_signed_octet)
write_short: Final = _fixed_writer("short", 0x61, _pack_signed_short)
write_int: Final = _integer_writer("int", 0x71, _pack_signed_word, -128, _INT_SMALL)
write_long: Final = _integer_writer("long", 0x81, _pack_signed_long, -128, _LONG_SMALL)
write_timestamp_ms: Final = _fixed_writer("timestamp", 0x83, _pack_signed_long)


def write_float(out: bytearray, value: float) -> None:
    if value != value:
        # The processor would make a signaling NaN quiet; its bits are moved as they are.
        bits = int.from_bytes(struct.pack(">d", value), "big")
        out += pack_word(0x72, bits >> 32 & 0x8000_0000 | 0x7F80_0000 | (bits >> 29 & 0x7F_FFFF or 1))
        return
    try:
        out += _pack_float(0x72, value)
    except OverflowError:
        raise _out_of_range("float", value) from None


def write_double(out: bytearray, value: float) -> None:
    out += _pack_double(0x82, value)


def write_d32(out: bytearray, value: Decimal) -> None:
    out += pack_word(0x74, write_decimal32(value))


def write_d64(out: bytearray, value: Decimal) -> None:
    out += pack_long(0x84, write_decimal64(value))


def write_d128(out: bytearray, value: Decimal) -> None:
    out.append(0x94)
    out += write_decimal128(value).to_bytes(16, "big")


def write_char(out: bytearray, value: str) -> None:
    if len(value) != 1 or "\ud800" <= value <= "\udfff":
        raise EncodeError(f"{value!r} is not one Unicode character")
    out += pack_word(0x73, ord(value))


def write_timestamp(out: bytearray, value: datetime) -> None:
    # Fractions of a millisecond are rounded toward the past.
    try:
        since = value - EPOCH
    except TypeError:
        raise EncodeError(f"{value!r} has no time zone; a timestamp needs one") from None
    out += _pack_signed_long(0x83, since // _MILLISECOND)


def write_uuid(out: bytearray, value: UUID) -> None:
    out.append(0x98)
    out += value.int.to_bytes(16, "big")


def write_binary(out: bytearray, value: bytes) -> None:
    size = len(value)
    if size < 256:
        out += BINARY_HEAD[size]
    else:
        out += _long_head(0xB0, size)
    out += value


def write_view(out: bytearray, value: memoryview) -> None:
    write_binary(out, value.tobytes())


def write_string(out: bytearray, value: str) -> None:
    """Append a string (§1.6)."""
    try:
        raw = value.encode()
    except UnicodeEncodeError as e:
        raise EncodeError(f"{value!r} is not Unicode text: {e.reason}") from None
    size = len(raw)
    if size < 256:
        out += STRING_HEAD[size]
    else:
        out += _long_head(0xB1, size)
    out += raw


def write_symbol(out: bytearray, value: str) -> None:
    """Append a symbol (§1.6)."""
    try:
        raw = value.encode("ascii")
    except UnicodeEncodeError:
        raise EncodeError(f"{value!r} is not ASCII, as a symbol must be") from None
    size = len(raw)
    if size < 256:
        out += SYMBOL_HEAD[size]
    else:
        out += _long_head(0xB3, size)
    out += raw


def _long_head(code: int, size: int) -> bytes:
    if size > _SIZE_LIMIT:
        raise EncodeError(f"{size} octets do not fit into an AMQP value")
    return pack_word(code, size)


def write_list(out: bytearray, value: Iterable[Any]) -> None:
    if not value:
        out.append(0x45)
        return
    start = len(out)
    out += b"\xc0\0\0"
    writers = WRITERS
    count = 0
    for item in value:
        writers[type(item)](out, item)
        count += 1
    close_compound(out, start, count)


def write_map(out: bytearray, value: Mapping[Any, Any]) -> None:
    if map_plans.write(out, value):
        return
    start = len(out)
    out += b"\xc1\0\0"
    write_entries(out, value, _keys, _write_key, WRITERS)
    close_compound(out, start, 2 * len(value))


def write_entries(
    out: bytearray,
    entries: Mapping[Any, Any],
    keys: dict[str, bytes],
    write_key: Writer,
    writers: Mapping[type, Writer],
) -> None:
    """Append keys by `write_key`, and each value by the writer for its type in `writers`.

    Args:
        keys: the cached encodings of keys of type `str`; `write_key` adds to it.
    """
    # The usual types are written here, without a call (benchmarks/real.py, "row encode"). If that fails, the writer of
    # the type raises the error.
    known, small = keys.get, _LONG_SMALL.get
    for key, item in entries.items():
        head = known(key) if type(key) is str else None
        if head is None:
            write_key(out, key)
        else:
            out += head
        kind = type(item)
        if kind is str:
            try:
                raw = item.encode()
            except UnicodeEncodeError:
                raw = _LONG
            if len(raw) < 256:
                out += STRING_HEAD[len(raw)]
                out += raw
            else:
                writers[kind](out, item)
        elif kind is int:
            head = small(item)
            if head is None:
                writers[kind](out, item)
            else:
                out += head
        elif kind is float:
            out += _pack_double(0x82, item)
        elif kind is bool:
            out += b"\x41" if item else b"\x42"
        elif item is None:
            out += b"\x40"
        else:
            writers[kind](out, item)


# Encodings of keys of type `str`, since the same few keys recur. Threads may share the table even without the GIL,
# because its entries are independent of each other.
_keys: dict[str, bytes] = {}
_KEYS_KEPT: Final = 1024
_KEY_LENGTH: Final = 64


def _write_key(out: bytearray, key: Any) -> None:
    start = len(out)
    WRITERS[type(key)](out, key)
    keep_key(_keys, key, out, start)


def keep_key(keys: dict[str, bytes], key: Any, out: bytearray, start: int) -> None:
    """Cache in `keys` the encoding of `key`, written at `start`, if the key may recur."""
    if type(key) is str and len(key) <= _KEY_LENGTH:
        if len(keys) >= _KEYS_KEPT:
            keys.clear()
        keys[key] = bytes(out[start:])


def write_pairs(out: bytearray, value: Map) -> None:
    start = len(out)
    out += b"\xc1\0\0"
    writers = WRITERS
    keys = set()
    for key, item in value.pairs:
        at = len(out)
        writers[type(key)](out, key)
        keys.add(bytes(out[at:]))
        writers[type(item)](out, item)
    if len(keys) != len(value.pairs):
        # "A map in which there exist two identical key values is invalid."
        raise EncodeError("a map has the same key twice")
    close_compound(out, start, 2 * len(value.pairs))


def close_compound(out: bytearray, start: int, count: int) -> None:
    """Set size and count of the list or map that began at `start` with a header of three octets."""
    size = len(out) - start - 2
    if size < 256 and count < 256:
        out[start + 1] = size
        out[start + 2] = count
    else:
        if size + 3 > _SIZE_LIMIT:
            raise EncodeError(f"{size} octets do not fit into an AMQP value")
        out[start : start + 3] = _pack_wide(out[start] + 0x10, size + 3, count)


def write_described(out: bytearray, value: Described) -> None:
    out.append(0)
    WRITERS[type(value.descriptor)](out, value.descriptor)
    WRITERS[type(value.value)](out, value.value)


WRITERS: Final = _Writers()
WRITERS.update(
    {
        type(None): write_null,
        bool: write_boolean,
        UByte: write_ubyte,
        UShort: write_ushort,
        UInt: write_uint,
        ULong: write_ulong,
        Byte: write_byte,
        Short: write_short,
        Int: write_int,
        int: write_long,
        Float: write_float,
        float: write_double,
        Decimal32: write_d32,
        Decimal64: write_d64,
        Decimal128: write_d128,
        Decimal: write_d128,
        Char: write_char,
        datetime: write_timestamp,
        Timestamp: write_timestamp_ms,
        UUID: write_uuid,
        bytes: write_binary,
        bytearray: write_binary,
        memoryview: write_view,
        str: write_string,
        Symbol: write_symbol,
        list: write_list,
        tuple: write_list,
        dict: write_map,
        Map: write_pairs,
        Described: write_described,
    }
)

if fast is not None:
    fast.use_writers(WRITERS)


PLAN_SCOPE: Final[dict[str, Any]] = {
    "BINARY_HEAD": BINARY_HEAD,
    "EPOCH": EPOCH,
    "MILLISECOND": _MILLISECOND,
    "STRING_HEAD": STRING_HEAD,
    "SYMBOL_HEAD": SYMBOL_HEAD,
    "join": b"".join,
    "pack_long": _pack_signed_long,
    "pack_word": pack_word,
    "small": _LONG_SMALL.get,
}


def plans_of(head: bytes, write_key: Writer, writers: Mapping[type, Writer]) -> Plans:
    """Return the plans of maps with keys written by `write_key`, values by `writers`, and `head` before each map."""

    def look(entries: Mapping[Any, Any]) -> list[Part] | None:
        parts = []
        for number, (key, value) in enumerate(entries.items()):
            written = bytearray()
            write_key(written, key)
            parts.append(Part(number, bytes(written), type(value), writers[type(value)]))
        return parts or None

    return Plans(PLAN_SCOPE, head, look, lambda parts: 2 * len(parts))


map_plans: Final = plans_of(b"\xc1", _write_key, WRITERS)

_INTEGERS = frozenset(
    (write_ubyte, write_ushort, write_uint, write_ulong, write_byte, write_short, write_int, write_long)
)
_REALS = frozenset((write_float, write_double))
_DECIMALS = frozenset((write_d32, write_d64, write_d128))
_TEXTS = frozenset((write_string, write_symbol))

# By AMQP type: the writers of the Python types that it accepts, and the writer to use.
_BY_NAME: Final[dict[str, tuple[frozenset[Writer], Writer]]] = {
    "null": (frozenset((write_null,)), write_null),
    "boolean": (frozenset((write_boolean,)), write_boolean),
    "ubyte": (_INTEGERS, write_ubyte),
    "ushort": (_INTEGERS, write_ushort),
    "uint": (_INTEGERS, write_uint),
    "ulong": (_INTEGERS, write_ulong),
    "byte": (_INTEGERS, write_byte),
    "short": (_INTEGERS, write_short),
    "int": (_INTEGERS, write_int),
    "long": (_INTEGERS, write_long),
    "float": (_REALS, write_float),
    "double": (_REALS, write_double),
    "decimal32": (_DECIMALS, write_d32),
    "decimal64": (_DECIMALS, write_d64),
    "decimal128": (_DECIMALS, write_d128),
    "char": (frozenset((write_char, write_string)), write_char),
    "uuid": (frozenset((write_uuid,)), write_uuid),
    "string": (_TEXTS, write_string),
    "symbol": (_TEXTS, write_symbol),
    "list": (frozenset((write_list,)), write_list),
}
_BY_VALUE: Final[dict[str, frozenset[Writer]]] = {
    "timestamp": frozenset((write_timestamp, write_timestamp_ms)),
    "binary": frozenset((write_binary, write_view)),
    "map": frozenset((write_map, write_pairs)),
}


def typed_writer(name: str) -> Writer:
    """Return the writer of the AMQP type `name`; it raises EncodeError for the wrong Python type."""
    if name in _BY_NAME:
        accepted, write = _BY_NAME[name]

        def write_as(out: bytearray, value: Any) -> None:
            if WRITERS[type(value)] not in accepted:
                raise EncodeError(f"{value!r} is not a {name}")
            write(out, value)

        return write_as
    accepted = _BY_VALUE[name] if name in _BY_VALUE else frozenset((WRITERS[Array],))

    def write_own(out: bytearray, value: Any) -> None:
        write = WRITERS[type(value)]
        if write not in accepted:
            raise EncodeError(f"{value!r} is not a {name}")
        write(out, value)

    return write_own


def check_types(name: str, items: Iterable[Any]) -> None:
    """Refuse items that have no Python type for `name`, an AMQP type of fixed width."""
    accepted, _ = _BY_NAME[name]
    for python in set(map(type, items)):
        if WRITERS[python] not in accepted:
            raise EncodeError(f"an array of {name} has an element of type {python.__qualname__}")
