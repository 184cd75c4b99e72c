"""Field tables: named values, each with an octet that says its type (0-9-1 §4.2.5.5).

The specification and its implementations disagree on some of those octets. What is written here are those on which
RabbitMQ and Qpid agree, and what is read is what either of them writes:

    t bool   b Byte   B UByte   s Short   u UShort   I Int   i UInt   l L int (64 bits)   f Float   d float
    D Decimal   S str   x bytes   T datetime   A list   F dict   V None   k Char   c C str (Qpid)

Moments are whole seconds, but to Qpid, which writes and reads them as milliseconds.

The draft 0-9 knows only S I D T F, and is strict about names.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from ....engine import ON_DEMAND_ARGUMENT
from ....errors import DecodeError, EncodeError
from ....types import (
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
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
from ..._kit.message.values import MAX_DEPTH, SINCE_1973, milliseconds, moment, split_decimal, text_or_octets

Writer = Callable[[bytearray, Any], None]

_MAX_MS: Final = 0x7FFF_FFFF_FFFF_FFFF
_NAME: Final = re.compile(r"[A-Za-z$#][A-Za-z0-9$#_]{0,127}\Z")


# Types that are written as another type.
_NARROWED: Final = frozenset(
    (ULong, Symbol, Char, Decimal, Decimal32, Decimal64, Decimal128, Timestamp, tuple, bytearray, memoryview)
)


class Latin1(str):
    """Text from an old program whose octets are not UTF-8; it is written as the same octets again."""

    __slots__ = ()


def read_text(octets: bytes) -> str:
    """Return octets as text, in whatever encoding they are."""
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return Latin1(octets, "latin-1")


def octets_of(text: str) -> bytes:
    return text.encode("latin-1" if type(text) is Latin1 else "utf-8")


class BadName(DecodeError):
    """A field has a name that the draft does not allow: 503, where other faults are 502."""


# Values to octets

_LENGTH: Final = struct.Struct(">I")


def _number(code: str, layout: str) -> Writer:
    pack = struct.Struct(f">c{layout}").pack
    octet = code.encode()

    def write(out: bytearray, value: Any) -> None:
        try:
            out += pack(octet, value)
        except struct.error:
            raise EncodeError(f"{value!r} is out of range for the field type {code!r}") from None

    return write


def _write_bool(out: bytearray, value: bool) -> None:
    out += b"t\1" if value else b"t\0"


def _write_none(out: bytearray, value: None) -> None:
    out += b"V"


def _write_str(out: bytearray, value: str) -> None:
    data = value.encode()
    out += b"S" + _LENGTH.pack(len(data))
    out += data


def _write_bytes(out: bytearray, value: bytes | bytearray | memoryview) -> None:
    data = bytes(value)
    out += b"x" + _LENGTH.pack(len(data))
    out += data


def seconds(value: datetime | Timestamp) -> int:
    """Return a moment in whole seconds since 1970; anything finer is left out.

    Raises:
        EncodeError: it is before 1970, or has no time zone.
    """
    whole = milliseconds(value) // 1000
    if whole < 0:
        raise EncodeError(f"{value!r} is before 1970")
    return whole


def _write_decimal(out: bytearray, value: Decimal) -> None:
    number, places = split_decimal(value, 32)
    out += struct.pack(">cBi", b"D", places, number)


class Tables:
    """Reads and writes the tables of one dialect.

    Args:
        codes: the field types that may be written; others are refused.
        strict_names: names have only letters, digits, `$`, `#` and `_`, as the specification asks and few peers heed.
        in_milliseconds: whether moments are written in milliseconds, not seconds; on reading, their size decides.
    """

    def __init__(self, codes: str | None = None, *, strict_names: bool = False, in_milliseconds: bool = False) -> None:
        self._codes = codes
        self._strict = strict_names
        self._in_milliseconds = in_milliseconds
        self._fixed = _FIXED | {ord("T"): _fixed("Q", self.moment)}
        integer = _number("l", "q") if codes is None else _number("I", "i")
        writers: dict[type, tuple[str, Writer]] = {
            bool: ("t", _write_bool),
            int: ("l" if codes is None else "I", integer),
            Byte: ("b", _number("b", "b")),
            UByte: ("B", _number("B", "B")),
            Short: ("s", _number("s", "h")),
            UShort: ("u", _number("u", "H")),
            Int: ("I", _number("I", "i")),
            UInt: ("i", _number("i", "I")),
            ULong: ("l", integer),
            Float: ("f", _number("f", "f")),
            float: ("d", _number("d", "d")),
            str: ("S", _write_str),
            Symbol: ("S", _write_str),
            Char: ("S", _write_str),
            bytes: ("x", _write_bytes),
            bytearray: ("x", _write_bytes),
            memoryview: ("x", _write_bytes),
            datetime: ("T", self._write_moment),
            Timestamp: ("T", self._write_moment),
            type(None): ("V", _write_none),
            list: ("A", self._write_list),
            tuple: ("A", self._write_list),
            dict: ("F", self._write_dict),
        }
        for kind in (Decimal, Decimal32, Decimal64, Decimal128):
            writers[kind] = ("D", _write_decimal)
        self._writers = {kind: write for kind, (code, write) in writers.items() if codes is None or code in codes}

    @property
    def binary(self) -> bool:
        """Return whether the tables have a type for bytes."""
        return self._codes is None or "x" in self._codes

    def names(self, name: Any) -> bool:
        """Return whether `name` can be the name of a field."""
        return isinstance(name, str) and len(octets_of(name)) <= 255 and not (self._strict and not _NAME.match(name))

    def spelled(self, name: str) -> str:
        """Return a name of this package as these tables allow it."""
        return name.replace("-", "_").replace(".", "_") if self._strict else name

    def holds(self, value: Any) -> bool:
        """Return whether the value comes back from a table unchanged, with the same type."""
        kind = type(value)
        if kind not in self._writers or kind in _NARROWED:
            return False
        if kind is int and self._codes is not None:
            return False
        if kind is dict:
            return all(type(key) is str and self.names(key) and self.holds(each) for key, each in value.items())
        if kind is list:
            return all(map(self.holds, value))
        try:
            self._writers[kind](bytearray(), value)
            return kind is not datetime or self.nearest(value) == value
        except EncodeError:
            return False

    def instant(self, value: datetime | Timestamp) -> int:
        """Return a moment as the number that is written; anything finer is left out.

        Raises:
            EncodeError: it is before 1970, or has no time zone.
        """
        return milliseconds(value) if self._in_milliseconds and milliseconds(value) >= 0 else seconds(value)

    def moment(self, number: int) -> datetime | Timestamp:
        """Return the moment that a written number stands for."""
        is_seconds = not self._in_milliseconds or number < SINCE_1973
        return moment(min(number * 1000 if is_seconds else number, _MAX_MS))

    def nearest(self, value: datetime | Timestamp) -> datetime | Timestamp:
        """Return a moment as it comes back from a table.

        Raises:
            EncodeError: see `instant`.
        """
        return self.moment(self.instant(value))

    def on_demand(self) -> dict[str, Any]:
        """Return the argument of a passive declare that lets a server of this package make the node."""
        return {self.spelled(ON_DEMAND_ARGUMENT): True if self.holds(True) else Int(1)}

    def takes(self, name: Any, value: Any) -> bool:
        """Return whether the field can be written, even if the value comes back with another type."""
        try:
            self.encode({name: value})
        except EncodeError:
            return False
        return True

    @property
    def structured(self) -> bool:
        """Return whether the dialect is the draft, whose content may have contents in it."""
        return self._strict

    def encode(self, table: Mapping[str, Any]) -> bytes:
        """Return the table, preceded by its length.

        Raises:
            EncodeError: a name is longer than 255 octets, or a value has no type in these tables; the error names it.
        """
        out = bytearray()
        try:
            self.write(out, table)
        except RecursionError:
            raise EncodeError("the table is nested too deeply, or contains itself") from None
        return bytes(out)

    def write(self, out: bytearray, table: Mapping[str, Any]) -> None:
        """Append the table."""
        start = len(out)
        out += b"\0\0\0\0"
        for name, value in table.items():
            self._write_name(out, name)
            try:
                self._write_value(out, value)
            except EncodeError as error:
                raise EncodeError(f"{name}: {error}") from None
        out[start : start + 4] = _LENGTH.pack(len(out) - start - 4)

    def _write_name(self, out: bytearray, name: str) -> None:
        if not self.names(name):
            raise EncodeError(f"{name!r:.80} cannot be the name of a field")
        data = octets_of(name)
        out.append(len(data))
        out += data

    def _write_value(self, out: bytearray, value: Any) -> None:
        writer = self._writers.get(type(value))
        if writer is None:
            writer = self._inherited(value)
        writer(out, value)

    def _inherited(self, value: Any) -> Writer:
        for base in type(value).__mro__:
            if base in self._writers:
                return self._writers[base]
        if isinstance(value, Mapping):
            return self._write_dict
        raise EncodeError(f"a {type(value).__qualname__} has no field type")

    def _write_moment(self, out: bytearray, value: datetime | Timestamp) -> None:
        out += struct.pack(">cQ", b"T", self.instant(value))

    def _write_list(self, out: bytearray, value: Any) -> None:
        out += b"A\0\0\0\0"
        start = len(out)
        for each in value:
            self._write_value(out, each)
        out[start - 4 : start] = _LENGTH.pack(len(out) - start)

    def _write_dict(self, out: bytearray, value: Any) -> None:
        out += b"F"
        self.write(out, value)

    # Octets to values

    def read(self, data: bytes, at: int, depth: int = 0) -> tuple[dict[str, Any], int]:
        """Return the table that begins at `at`, and the offset after it. If a name comes twice, the first one counts.

        Raises:
            DecodeError: it is malformed, nested too deeply, or longer than the data.
        """
        end = at + 4 + _word(data, at)
        at += 4
        if end > len(data):
            raise DecodeError("the data ends within a field table")
        table: dict[str, Any] = {}
        while at < end:
            stop = at + 1 + data[at]
            name = _text(data, at + 1, stop, end)
            if self._strict and not _NAME.match(name):
                raise BadName(f"{name!r:.80} is not the name of a field")
            value, at = self._read_value(data, stop, end, depth)
            table.setdefault(name, value)
        if at > end:
            raise DecodeError("a field goes beyond its table")
        return table, end

    def _read_value(self, data: bytes, at: int, end: int, depth: int) -> tuple[Any, int]:
        if at >= end:
            raise DecodeError("a field table ends within a field")
        code = data[at]
        fixed = self._fixed.get(code)
        if fixed is not None:
            unpack, size, convert = fixed
            stop = at + 1 + size
            if stop > end:
                raise DecodeError("a field table ends within a field")
            return convert(unpack(data, at + 1)[0]), stop
        if code in _SIZED:
            start = at + 5
            stop = start + _word(data, at + 1)
            if stop > end:
                raise DecodeError("a field table ends within a field")
            return _SIZED[code](data[start:stop]), stop
        if code == 0x56:
            return None, at + 1
        if code == 0x44:
            if at + 6 > end:
                raise DecodeError("a field table ends within a field")
            places, number = struct.unpack_from(">Bi", data, at + 1)
            return Decimal(number).scaleb(-places), at + 6
        if depth >= MAX_DEPTH:
            raise DecodeError("a field table is nested too deeply")
        if code == 0x46:
            return self.read(data, at + 1, depth + 1)
        if code == 0x41:
            stop = at + 5 + _word(data, at + 1)
            if stop > end:
                raise DecodeError("an array goes beyond its table")
            at += 5
            items = []
            while at < stop:
                value, at = self._read_value(data, at, stop, depth + 1)
                items.append(value)
            return items, stop
        raise DecodeError(f"unknown field type 0x{code:02x}")


def _word(data: bytes, at: int) -> int:
    if at + 4 > len(data):
        raise DecodeError("the data ends within a field table")
    return int.from_bytes(data[at : at + 4], "big")


def _text(data: bytes, start: int, stop: int, end: int) -> str:
    if stop > end:
        raise DecodeError("a field table ends within a name")
    return read_text(data[start:stop])


def _fixed(layout: str, convert: Callable[[Any], Any]) -> tuple[Callable[[bytes, int], Any], int, Callable[[Any], Any]]:
    compiled = struct.Struct(f">{layout}")
    return compiled.unpack_from, compiled.size, convert


_FIXED: Final = {
    ord(code): _fixed(layout, convert)
    for code, layout, convert in (
        ("t", "B", bool),
        ("b", "b", Byte),
        ("B", "B", UByte),
        ("s", "h", Short),
        ("U", "h", Short),  # the specification's own, which nobody writes
        ("u", "H", UShort),
        ("I", "i", Int),
        ("i", "I", UInt),
        ("l", "q", int),
        ("L", "q", int),
        ("f", "f", Float),
        ("d", "d", float),
        ("k", "c", lambda octet: Char(octet.decode("latin-1"))),
    )
}
_SIZED: Final[dict[int, Callable[[bytes], Any]]] = {
    ord("S"): text_or_octets,
    ord("x"): bytes,
    ord("c"): lambda data: data.decode("latin-1"),
    ord("C"): lambda data: data.decode("utf-16-be", "replace"),
}

TABLES: Final = Tables()
"""The tables of 0-9-1 and 0-9 final, as the brokers have them."""

QPID_TABLES: Final = Tables(in_milliseconds=True)
"""The same tables as Qpid's brokers and clients have them."""

DRAFT_TABLES: Final = Tables("SIDTF", strict_names=True)
"""The tables of the draft 0-9."""
