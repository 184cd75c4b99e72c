"""The types that fields of commands have, and the values in tables.

    octet, short, long   unsigned, 1, 2 and 4 octets       shortstr   u8 length, UTF-8 without NUL
    bit                  packed (`struct`)                longstr    u16 length, octets (not u32)
    table                u16 length, then entries: name as shortstr, type octet, value

The specification says nothing of what is in a table, so it is what the AMQP 0-9 drafts of its time have: S string (u32
length), I int32, D decimal (u8 places, int32), T seconds since 1970 (u64), F table (u32 length).
"""

from __future__ import annotations

from decimal import Decimal
from struct import Struct
from typing import Any, Final

from ....errors import DecodeError, EncodeError
from ..._kit.message.values import MAX_DEPTH, split_decimal, text_or_octets

MAX_SHORTSTR: Final = 255
MAX_LONGSTR: Final = 0xFFFF

_LONG: Final = Struct(">I")
_INT: Final = Struct(">i")
_DECIMAL: Final = Struct(">Bi")
_SECONDS: Final = Struct(">Q")

Table = dict[str, Any]
"""str or bytes (S), int (I), Decimal (D), `Seconds` (T), dict (F). S is octets: a str where they are UTF-8."""


class Seconds(int):
    """A moment, in seconds since 1970 (T)."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Seconds({int(self)})"


# Reading: each function reads from `at`, not beyond `end`, and returns the value and the offset where it ends.


def read_shortstr(data: bytes, at: int, end: int) -> tuple[str, int]:
    """Read a short string.

    Raises:
        DecodeError: the string runs past `end`, has a NUL, or is not UTF-8.
    """
    stop = at + 1 + data[at] if at < end else end + 1
    if stop > end:
        raise DecodeError("a short string runs past the end")
    raw = data[at + 1 : stop]
    if b"\0" in raw:
        raise DecodeError("a short string has a NUL octet")
    try:
        return raw.decode(), stop
    except UnicodeDecodeError:
        raise DecodeError("a short string is not UTF-8") from None


def read_longstr(data: bytes, at: int, end: int) -> tuple[bytes, int]:
    """Read a long string, as octets.

    Raises:
        DecodeError: the string runs past `end`.
    """
    stop = at + 2 + int.from_bytes(data[at : at + 2], "big")
    if stop > end:
        raise DecodeError("a long string runs past the end")
    return data[at + 2 : stop], stop


def read_table(data: bytes, at: int, end: int) -> tuple[Table, int]:
    """Read a table.

    Raises:
        DecodeError: the table runs past `end`, an entry runs past the end of the table, or a value's type is unknown.
    """
    stop = at + 2 + int.from_bytes(data[at : at + 2], "big")
    if stop > end:
        raise DecodeError("a table runs past the end")
    return _read_entries(data, at + 2, stop, 1), stop


def _read_entries(data: bytes, at: int, end: int, depth: int) -> Table:
    if depth > MAX_DEPTH:
        raise DecodeError(f"tables must be nested at most {MAX_DEPTH} deep")
    table: Table = {}
    while at < end:
        name, at = read_shortstr(data, at, end)
        kind = data[at : at + 1] if at < end else b""
        value, at = _read_value(kind, data, at + 1, end, depth)
        table.setdefault(name, value)  # of two of one name the first counts
    return table


def _read_value(kind: bytes, data: bytes, at: int, end: int, depth: int) -> tuple[Any, int]:
    if kind in (b"S", b"F"):
        stop = at + 4 + int.from_bytes(data[at : at + 4], "big") if at + 4 <= end else end + 1
    else:
        stop = at + _SIZES.get(kind, 0)
    if stop > end:
        raise DecodeError("a value in a table runs past its end")
    if kind == b"S":
        return text_or_octets(data[at + 4 : stop]), stop
    if kind == b"I":
        return _INT.unpack_from(data, at)[0], stop
    if kind == b"D":
        places, number = _DECIMAL.unpack_from(data, at)
        return Decimal(number).scaleb(-places), stop
    if kind == b"T":
        return Seconds(_SECONDS.unpack_from(data, at)[0]), stop
    if kind == b"F":
        return _read_entries(data, at + 4, stop, depth + 1), stop
    raise DecodeError(f"a value in a table has the unknown type {kind!r}")


_SIZES: Final = {b"I": 4, b"D": 5, b"T": 8}


# Writing


def write_shortstr(value: str) -> bytes:
    """Encode a short string.

    Raises:
        EncodeError: the string is longer than 255 octets, or has a NUL.
    """
    raw = value.encode()
    if len(raw) > MAX_SHORTSTR:
        raise EncodeError(f"a short string must have at most {MAX_SHORTSTR} octets, not {len(raw)}: {value[:40]!r}...")
    if b"\0" in raw:
        raise EncodeError(f"a short string must not have a NUL: {value!r}")
    return bytes((len(raw),)) + raw


def write_longstr(value: bytes) -> bytes:
    """Encode a long string.

    Raises:
        EncodeError: the string is longer than 65535 octets.
    """
    if len(value) > MAX_LONGSTR:
        raise EncodeError(f"a long string must have at most {MAX_LONGSTR} octets, not {len(value)}")
    return len(value).to_bytes(2, "big") + value


def write_table(table: Table) -> bytes:
    """Encode a table.

    Raises:
        EncodeError: the table is longer than 65535 octets, or has a value of a type that tables do not have.
    """
    if not table:
        return b"\0\0"
    raw = _write_entries(table, 1)
    if len(raw) > MAX_LONGSTR:
        raise EncodeError(f"a table must have at most {MAX_LONGSTR} octets, not {len(raw)}")
    return len(raw).to_bytes(2, "big") + raw


def _write_entries(table: Table, depth: int) -> bytes:
    if depth > MAX_DEPTH:
        raise EncodeError(f"tables must be nested at most {MAX_DEPTH} deep")
    return b"".join(write_shortstr(name) + write_value(value, depth) for name, value in table.items())


def write_value(value: Any, depth: int = 1) -> bytes:
    """Encode a value as in a table: its type octet, then the value.

    Raises:
        EncodeError: tables have no type for this value.
    """
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return b"S" + _LONG.pack(len(value)) + value
    if isinstance(value, Seconds) and 0 <= value < 1 << 64:
        return b"T" + _SECONDS.pack(value)
    if isinstance(value, int) and not isinstance(value, bool | Seconds) and -(1 << 31) <= value < 1 << 31:
        return b"I" + _INT.pack(value)
    if isinstance(value, Decimal):
        number, places = split_decimal(value, 32)
        return b"D" + _DECIMAL.pack(places, number)
    if isinstance(value, dict):
        raw = _write_entries(value, depth + 1)
        return b"F" + _LONG.pack(len(raw)) + raw
    raise EncodeError(f"a table cannot hold {value!r:.60}")
