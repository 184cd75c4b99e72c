"""Bytes -> values: the reader of the first octet's constructor does it all, found in a table of 256 slots (§1.2)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

from ..errors import DecodeError
from . import _compounds as _compounds  # enters its readers in the table
from ._codes import CODES, name_of
from ._readers import READERS

Data = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Limits:
    """What a decoder accepts; everything else is bounded by the bytes themselves.

    Attributes:
        max_depth: levels of lists, maps, arrays and described values within each other.
        max_elements: array elements that take no bytes (null, true, uint0, ...), all arrays of the data together. To
            these, one is added for every 8 bytes of the data. An element that is a list0 counts as 8.
    """

    max_depth: int = 32
    max_elements: int = 256


DEFAULT_LIMITS: Final = Limits()


def room_for(data: Data, limits: Limits = DEFAULT_LIMITS) -> list[int]:
    """Return the `room` of the readers for this data: levels, and array elements that take no bytes.

    Callers that read the values of a message or frame one by one share one room, so that the limit holds for all
    of them together.
    """
    return [limits.max_depth, limits.max_elements + (len(data) >> 3)]


# What a reader may raise when the data ends early, text is not UTF-8, or values nest deeper than the interpreter goes.
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

    `bytes` are read in place; of another buffer the octets of the value are copied first. `room` is what `room_for`
    gave for several values of the same data together.

    Raises:
        DecodeError: there is no valid encoding at `at`, or it exceeds the limits.
    """
    if type(data) is not bytes:
        end = skip(data, at)
        return decode_from(bytes(data[at:end]), 0, limits, room)[0], end
    if room is None:
        room = [limits.max_depth, limits.max_elements + (len(data) >> 3)]
    try:
        return READERS[data[at]](data, at + 1, room)
    except DecodeError:
        room[0] = limits.max_depth  # for the next value that has the same room
        raise
    except BROKEN as e:
        room[0] = limits.max_depth
        raise broken(e) from None


def skip(data: Data, at: int = 0) -> int:
    """Return the offset after the value that begins at `at`; only its extent is checked, not its content.

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
    """Return the DecodeError that tells of one of `BROKEN`."""
    if isinstance(error, RecursionError):
        return DecodeError("the value is nested too deeply")
    if isinstance(error, UnicodeDecodeError):
        return DecodeError(f"a string is not UTF-8: {error.reason}")
    return DecodeError("the data ends within a value")
