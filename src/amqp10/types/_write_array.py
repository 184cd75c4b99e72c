"""The encoder of arrays: one constructor for all elements, the narrowest that fits all of them (§1.6.24).

Zero-width encodings (true, uint0, list0, ...) are read but not written, except null, which has no other encoding: a few
octets of them can stand for any number of elements, which readers rightly distrust.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from ..errors import EncodeError
from ._encode import WRITERS, Writer, check_types, close_compound, typed_writer
from ._values import Array

_Elements = Callable[[bytearray, Sequence[Any]], None]


def write_array(out: bytearray, value: Array) -> None:
    start = len(out)
    out += b"\xe0\0\0"
    for descriptor in value.descriptors:
        out.append(0)
        WRITERS[type(descriptor)](out, descriptor)
    _ELEMENTS[value.type](out, value)
    close_compound(out, start, len(value))


WRITERS[Array] = write_array


def _nulls(out: bytearray, items: Sequence[Any]) -> None:
    if any(item is not None for item in items):
        raise EncodeError("an array of null has an element that is not None")
    out.append(0x40)


def _booleans(out: bytearray, items: Sequence[Any]) -> None:
    if any(item is not True and item is not False for item in items):
        raise EncodeError("an array of boolean has an element that is not a bool")
    out.append(0x56)
    out += bytes(items)


def _integers(name: str, wide: int, layout: str, narrow: int = 0) -> _Elements:
    low, high, narrow_layout = (-128, 127, "b") if layout.islower() else (0, 255, "B")

    def write(out: bytearray, items: Sequence[Any]) -> None:
        check_types(name, items)
        if narrow and (not items or (low <= min(items) and max(items) <= high)):
            out.append(narrow)
            out += struct.pack(f">{len(items)}{narrow_layout}", *items)
            return
        out.append(wide)
        try:
            out += struct.pack(f">{len(items)}{layout}", *items)
        except struct.error:
            raise EncodeError(f"an element of an array is out of range for {name}") from None

    return write


def _doubles(out: bytearray, items: Sequence[Any]) -> None:
    check_types("double", items)
    out.append(0x82)
    out += struct.pack(f">{len(items)}d", *items)


def _fixed(name: str, code: int) -> _Elements:
    write_one = typed_writer(name)

    def write(out: bytearray, items: Sequence[Any]) -> None:
        out.append(code)
        for item in items:
            at = len(out)
            write_one(out, item)
            del out[at]  # the element's own constructor

    return write


def _variable(name: str, narrow: int) -> _Elements:
    write_one = typed_writer(name)

    def write(out: bytearray, items: Sequence[Any]) -> None:
        start = len(out)
        out.append(narrow)
        ends: list[int] = []
        wide = False
        for item in items:
            at = len(out)
            write_one(out, item)
            if out[at] == narrow:
                del out[at]
                ends.append(len(out))
            else:
                wide = True
                break
        if wide:
            del out[start:]
            out.append(narrow + 0x10)
            for item in items:
                at = len(out)
                write_one(out, item)
                if out[at] == narrow:
                    out[at : at + 2] = struct.pack(">I", out[at + 1])
                else:
                    del out[at]

    return write


def _compound(name: str, narrow: int) -> _Elements:
    def write(out: bytearray, items: Sequence[Any]) -> None:
        write_one = typed_writer(name)
        encoded: list[tuple[int, bytearray]] = []
        wide = False
        for item in items:
            content = bytearray()
            write_one(content, item)
            code = content[0]
            if code == 0x45:
                encoded.append((0, content[1:]))
            elif code == narrow:
                encoded.append((content[2], content[3:]))
            else:
                wide = True
                encoded.append((int.from_bytes(content[5:9], "big"), content[9:]))
        out.append(narrow + 0x10 if wide else narrow)
        for count, content in encoded:
            out += struct.pack(">II", len(content) + 4, count) if wide else bytes((len(content) + 1, count))
            out += content

    return write


_ELEMENTS: Final[dict[str, _Elements]] = {
    "null": _nulls,
    "boolean": _booleans,
    "ubyte": _integers("ubyte", 0x50, "B"),
    "ushort": _integers("ushort", 0x60, "H"),
    "uint": _integers("uint", 0x70, "I", 0x52),
    "ulong": _integers("ulong", 0x80, "Q", 0x53),
    "byte": _integers("byte", 0x51, "b"),
    "short": _integers("short", 0x61, "h"),
    "int": _integers("int", 0x71, "i", 0x54),
    "long": _integers("long", 0x81, "q", 0x55),
    "float": _fixed("float", 0x72),
    "double": _doubles,
    "decimal32": _fixed("decimal32", 0x74),
    "decimal64": _fixed("decimal64", 0x84),
    "decimal128": _fixed("decimal128", 0x94),
    "char": _fixed("char", 0x73),
    "timestamp": _fixed("timestamp", 0x83),
    "uuid": _fixed("uuid", 0x98),
    "binary": _variable("binary", 0xA0),
    "string": _variable("string", 0xA1),
    "symbol": _variable("symbol", 0xA3),
    "list": _compound("list", 0xC0),
    "map": _compound("map", 0xC1),
    "array": _compound("array", 0xE0),
}


def elements_writer(name: str) -> Writer:
    """Return a function that writes a sequence as an array of undescribed elements of the type `name`."""
    write_all = _ELEMENTS[name]

    def write(out: bytearray, items: Sequence[Any]) -> None:
        start = len(out)
        out += b"\xe0\0\0"
        write_all(out, items)
        close_compound(out, start, len(items))

    return write
