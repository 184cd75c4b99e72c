"""What methods and property sets are declared with: fields of the elementary types (0-9-1 §4.2.5).

    class BasicAck(Method, name="basic.ack", code=(60, 80)):
        delivery_tag: int = longlong()
        multiple: bool = bit()

From the declaration follows how the fields are read and written; the rest is in `_kit.fields`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final

from ....errors import DecodeError, EncodeError
from ....types import Timestamp
from ..._kit.fields import Field
from .tables import Tables, octets_of, read_text


def octet(default: int = 0) -> Any:
    return Field("", "octet", default)


def short(default: int = 0) -> Any:
    return Field("", "short", default)


def long(default: int = 0) -> Any:
    return Field("", "long", default)


def longlong(default: int = 0) -> Any:
    return Field("", "longlong", default)


def shortstr(default: str = "") -> Any:
    """Declare text of at most 255 octets."""
    return Field("", "shortstr", default)


def raw_shortstr() -> Any:
    """Declare a short string in whatever encoding: exchange or routing key of a message."""
    return Field("", "shortstr", "", lenient=True)


def longstr(default: bytes = b"") -> Any:
    return Field("", "longstr", default)


def bit(default: bool = False) -> Any:
    """Declare a bit. Neighbors share an octet; the first one is its lowest bit."""
    return Field("", "bit", default)


def table() -> Any:
    return Field("", "table", None)


def instant() -> Any:
    """Declare a moment, mostly in whole seconds."""
    return Field("", "timestamp", None)


def content() -> Any:
    """Declare the body of a message.transfer of 0-9: an octet (inline, or by reference), then a long string."""
    return Field("", "content", (0, b""))


# Writing

Writer = Callable[[bytearray, Any, Tables], None]


def _pack(layout: str) -> Writer:
    pack = struct.Struct(f">{layout}").pack

    def write(out: bytearray, value: int, _: Tables) -> None:
        try:
            out += pack(value)
        except struct.error:
            raise EncodeError(f"{value!r} is out of range") from None

    return write


def write_shortstr(out: bytearray, value: str, _: Tables) -> None:
    data = octets_of(value)
    if len(data) > 255:
        raise EncodeError(f"a short string must have at most 255 octets, not {len(data)}")
    out.append(len(data))
    out += data


def _write_longstr(out: bytearray, value: bytes | str, _: Tables) -> None:
    data = value.encode() if isinstance(value, str) else value
    out += len(data).to_bytes(4, "big")
    out += data


def _write_table(out: bytearray, value: dict[str, Any] | None, tables: Tables) -> None:
    tables.write(out, value or {})


def _write_timestamp(out: bytearray, value: datetime | Timestamp, tables: Tables) -> None:
    out += tables.instant(value).to_bytes(8, "big")


def _write_content(out: bytearray, value: tuple[int, bytes], tables: Tables) -> None:
    out.append(value[0])
    _write_longstr(out, value[1], tables)


WRITERS: Final[dict[str, Writer]] = {
    "octet": _pack("B"),
    "short": _pack("H"),
    "long": _pack("I"),
    "longlong": _pack("Q"),
    "shortstr": write_shortstr,
    "longstr": _write_longstr,
    "table": _write_table,
    "timestamp": _write_timestamp,
    "content": _write_content,
}


def write_fields(out: bytearray, fields: Iterable[Field], values: Any, tables: Tables) -> None:
    """Append these fields of `values`, bits packed.

    Raises:
        EncodeError: a value is out of range; the field is named.
    """
    bits = 0  # of the octet that is last in `out`
    for field in fields:
        value = getattr(values, field.name)
        if field.type == "bit":
            if bits % 8 == 0:
                out.append(0)
            out[-1] |= bool(value) << bits % 8
            bits += 1
            continue
        bits = 0
        try:
            WRITERS[field.type](out, value, tables)
        except (EncodeError, TypeError, AttributeError) as error:
            raise EncodeError(f"{field.name}: {error}") from None


# Reading: (data, offset, tables) -> (value, offset after it); a fault is an IndexError, or a DecodeError.

Reader = Callable[[bytes, int, Tables], tuple[Any, int]]


def _unpack(size: int) -> Reader:
    def read(data: bytes, at: int, _: Tables) -> tuple[int, int]:
        end = at + size
        if end > len(data):
            raise IndexError
        return int.from_bytes(data[at:end], "big"), end

    return read


def read_shortstr(data: bytes, at: int, _: Tables | None = None) -> tuple[str, int]:
    end = at + 1 + data[at]
    if end > len(data):
        raise IndexError
    try:
        return data[at + 1 : end].decode(), end
    except UnicodeDecodeError:
        raise DecodeError("a short string is not UTF-8") from None


def read_any_shortstr(data: bytes, at: int, _: Tables | None = None) -> tuple[str, int]:
    """Read a short string that may be in another encoding than UTF-8, as other programs write it: that is no error."""
    end = at + 1 + data[at]
    if end > len(data):
        raise IndexError
    return read_text(data[at + 1 : end]), end


def _read_longstr(data: bytes, at: int, _: Tables) -> tuple[bytes, int]:
    start = at + 4
    end = start + int.from_bytes(data[at:start], "big")
    if start > len(data) or end > len(data):
        raise IndexError
    return data[start:end], end


def _read_table(data: bytes, at: int, tables: Tables) -> tuple[dict[str, Any], int]:
    return tables.read(data, at)


def _read_timestamp(data: bytes, at: int, tables: Tables) -> tuple[datetime | Timestamp, int]:
    if at + 8 > len(data):
        raise IndexError
    return tables.moment(int.from_bytes(data[at : at + 8], "big")), at + 8


def _read_content(data: bytes, at: int, tables: Tables) -> tuple[tuple[int, bytes], int]:
    value, end = _read_longstr(data, at + 1, tables)
    return (data[at], value), end


READERS: Final[dict[str, Reader]] = {
    "octet": _unpack(1),
    "short": _unpack(2),
    "long": _unpack(4),
    "longlong": _unpack(8),
    "shortstr": read_shortstr,
    "longstr": _read_longstr,
    "table": _read_table,
    "timestamp": _read_timestamp,
    "content": _read_content,
}


def read_fields(data: bytes, at: int, fields: Iterable[Field], tables: Tables) -> tuple[dict[str, Any], int]:
    """Return the values of `fields`, and the offset after them.

    Raises:
        DecodeError: the data ends within a field, or one is malformed.
    """
    values: dict[str, Any] = {}
    bits = 0
    name = ""
    try:
        for field in fields:
            name = field.name
            if field.type == "bit":
                if bits % 8 == 0:
                    at += 1
                values[name] = bool(data[at - 1] >> bits % 8 & 1)
                bits += 1
                continue
            bits = 0
            read = read_any_shortstr if field.lenient else READERS[field.type]
            values[name], at = read(data, at, tables)
    except IndexError:
        raise DecodeError(f"the data ends within the field {name}") from None
    return values, at
