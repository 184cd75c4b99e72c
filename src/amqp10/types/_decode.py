"""The decoder: a table of 256 readers, one for each constructor octet (§1.2)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

from ..errors import DecodeError
from . import _read_compound as _read_compound  # registers its readers
from ._constructors import CODES, name_of
from ._read_primitive import READERS

Data = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a decoder; everything else is bounded by the length of the data.

    Attributes:
        max_depth: nesting of lists, maps, arrays and described values.
        max_elements: zero-width array elements (null, true, uint0, ...) of all arrays of the data together. Each 8
            bytes of the data allow one more. A list0 counts as 8 elements.
    """

    max_depth: int = 32
    max_elements: int = 256


DEFAULT_LIMITS: Final = Limits()


def room_for(data: Data, limits: Limits = DEFAULT_LIMITS) -> list[int]:
    """Return the `room` of the readers for `data`: levels, and zero-width array elements.

    A caller that reads the values of a message or frame one by one passes the same room for each, so that the limits
    hold for all together.
    """
    return [limits.max_depth, limits.max_elements + (len(data) >> 3)]


# Raised by readers if the data ends early, text is not UTF-8, or nesting exceeds the interpreter's recursion limit.
BROKEN: Final = (IndexError, struct.error, UnicodeDecodeError, RecursionError)


def decode(data: Data, limits: Limits = DEFAULT_LIMITS) -> Any:
    """Decode `data`, which must be exactly one value.

    Raises:
        DecodeError: the data is not exactly one valid encoding, or exceeds the limits.
    """
    value, end = decode_from(data, 0, limits)
    if end != len(data):
        raise DecodeError(f"{len(data) - end} octets follow the value")
    return value


def decode_from(
    data: Data, at: int = 0, limits: Limits = DEFAULT_LIMITS, room: list[int] | None = None
) -> tuple[Any, int]:
    """Decode the value that begins at the offset `at`; return it and the offset after it.

    `bytes` are read in place; the octets of another buffer are copied first. `room` is the result of `room_for`, shared
    by several values of the same data.

    Raises:
        DecodeError: no valid encoding is at `at`, or it exceeds the limits.
    """
    if type(data) is not bytes:
        end = skip(data, at)
        return decode_from(bytes(data[at:end]), 0, limits, room)[0], end
    if room is None:
        room = [limits.max_depth, limits.max_elements + (len(data) >> 3)]
    try:
        return READERS[data[at]](data, at + 1, room)
    except DecodeError:
        room[0] = limits.max_depth  # for the next value that shares `room`
        raise
    except BROKEN as e:
        room[0] = limits.max_depth
        raise broken(e) from None


def skip(data: Data, at: int = 0) -> int:
    """Return the offset after the value at `at`, without checking its content.

    Raises:
        DecodeError: an unknown constructor, or the data ends before the value does.
    """
    due = 1  # values left to skip; a described value adds two, its descriptor and its value
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
    """Return the DecodeError for an error of `BROKEN`."""
    if isinstance(error, RecursionError):
        return DecodeError("the value is nested too deeply")
    if isinstance(error, UnicodeDecodeError):
        return DecodeError(f"a string is not UTF-8: {error.reason}")
    return DecodeError("the data ends within a value")
