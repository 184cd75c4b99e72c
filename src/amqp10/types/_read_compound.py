"""The readers of lists, maps, arrays and described values, for the table in `_read_primitive` (§1.6.22-24, §1.2).

A compound checks its size and count against the octets present before it reads its items, and its end after them. So a
peer's claims allocate nothing, and no value reads beyond its parent.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from itertools import repeat
from typing import Any, Final, cast

from ..errors import DecodeError, EncodeError
from ._compiled import fast
from ._constructors import CODES, name_of
from ._encode import encode
from ._read_primitive import READERS, SMALL_VALUES, Reader, beyond, reads, symbol_of, unpack_words
from ._shapes import CONTAINERS, Entry, Shapes, read_by
from ._values import (
    Array,
    Described,
    Int,
    Map,
    Short,
    Symbol,
    TypeName,
    UInt,
    ULong,
    UShort,
)

# Compound (§1.6.22-23)


def check_compound(data: bytes, at: int, end: int, count: int) -> None:
    """Refuse a compound or array with an impossible size or count, before its items at `at` are read."""
    if end > len(data):
        raise beyond(end, data)
    if count > end - at:
        raise DecodeError(f"{count} items do not fit into {max(end - at, 0)} octets")


def _compound(code: int, read: Callable[[bytes, int, int, int, list[int]], tuple[Any, int]]) -> None:
    """Register `read` for a size and count of one octet each, and of four with the constructor `code` + 0x10."""

    def read_narrow(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
        return read(data, at + 2, at + 1 + data[at], data[at + 1], room)

    def read_wide(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
        size, count = unpack_words(data, at)
        return read(data, at + 8, at + 4 + size, count, room)

    READERS[code], READERS[code + 0x10] = read_narrow, read_wide


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


def _entries(data: bytes, at: int, end: int, count: int, room: list[int]) -> tuple[Any, int]:
    if end > len(data) or count > end - at:
        check_compound(data, at, end, count)
    if count & 1:
        raise DecodeError(f"a map has a key without a value: {count} items")
    if not room[0]:
        raise DecodeError("the value is nested too deeply")
    count >>= 1
    if count > _SHAPE_ENTRIES:
        room[0] -= 1
        return _large_map(data, at, end, count, room)
    first = at + 2 + data[at + 1] if at + 1 < end else at
    beginning = data[at - 1 : first]
    shaped = _shaped.get(beginning)
    if shaped is not None:
        found = read_by(shaped, data, first, end, room)
        if found is not None:
            return found, end
    room[0] -= 1
    begin = at
    if count > _TRUSTED_ENTRIES:
        found, end = _large_map(data, at, end, count, room)
        if type(found) is dict:
            map_shapes.note(beginning, data, begin, found)
        return found, end
    readers, known = READERS, _keys.get
    entries: dict[Any, Any] = {}
    for _ in repeat(None, count):
        try:
            stop = at + 2 + data[at + 1]
        except IndexError:  # a key without a value: the reader of the value raises the error
            stop = at
        key = known(data[at:stop])
        if key is None:
            key, at = _read_key(data, at, room)
        else:
            at = stop
        try:
            repeated = key in entries
        except TypeError:  # unhashable: a list, a map, or a signaling NaN
            repeated = True
        if repeated:
            value, at = readers[data[at]](data, at + 1, room)
            pairs = [*entries.items(), (key, value)]
            return _more_pairs(data, at, end, count - len(pairs), pairs, room)
        entries[key], at = readers[data[at]](data, at + 1, room)
    if at != end:
        raise DecodeError("the size of a map is not that of its entries")
    room[0] += 1
    if 1 < count <= _SHAPE_ENTRIES:
        map_shapes.note(beginning, data, begin, entries)
    return entries, end


# Keys by their octets, with constructor and length, since the same few keys recur. A peer that sends many different
# keys displaces the others, which costs its neighbors only reading their keys anew. Threads may share the table even
# without the GIL, because its entries are independent of each other.
_keys: dict[bytes, Any] = {}
_KEYS_KEPT: Final = 1024
_KEY_OCTETS: Final = 64


def _read_key(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    """Read the key at `at`; cache a short string or symbol."""
    code = data[at]
    key, stop = KEY_READERS[code](data, at + 1, room)
    if (code == 0xA1 or code == 0xA3) and stop - at <= _KEY_OCTETS:
        if len(_keys) >= _KEYS_KEPT:
            _keys.clear()
        _keys[data[at:stop]] = key
    return key, stop


# The shapes of maps, by the octets of the count and the first key: maps that begin alike most likely have the same
# keys.
_SHAPE_ENTRIES: Final = 127  # the most whose count takes one octet


def _entries_of(data: bytes, at: int, entries: dict[Any, Any]) -> list[Entry] | None:
    """Return the entries of a map read at `at`; None if a key is not short text, or a value is described.

    Nested maps are passed over: else they would be looked at again for each level above them.
    """
    room = [1 << 30, 1 << 30]  # the map was read within the limits before
    seen: list[Entry] = []
    for key in entries:
        if type(key) is not str and type(key) is not Symbol:
            return None
        _, stop = KEY_READERS[data[at]](data, at + 1, room)
        code = data[stop]
        if stop - at > _KEY_OCTETS or not code:
            return None
        seen.append(Entry(data[at:stop] if seen else b"", key, code))
        if code not in CONTAINERS:
            _, at = READERS[code](data, stop + 1, room)
        else:
            at = stop + (2 + data[stop + 1] if code & 0x10 == 0 else 5 + unpack_words(data, stop + 1)[0])
    return seen


map_shapes: Final = Shapes(_entries_of)
_shaped: Final = map_shapes.readers


def _more_pairs(
    data: bytes, at: int, end: int, count: int, pairs: list[tuple[Any, Any]], room: list[int]
) -> tuple[Any, int]:
    """Read the rest of a map that a dict cannot hold: `count` more pairs at `at`, to follow `pairs`."""
    readers, key_readers = READERS, KEY_READERS
    for _ in repeat(None, count):
        key, at = key_readers[data[at]](data, at + 1, room)
        value, at = readers[data[at]](data, at + 1, room)
        pairs.append((key, value))
    if at != end:
        raise DecodeError("the size of a map is not that of its entries")
    # "A map in which there exist two identical key values is invalid."
    try:
        distinct = len({encode(key) for key, _ in pairs})
    except EncodeError as e:  # nested deeper than the interpreter's recursion limit
        raise DecodeError(str(e)) from None
    if distinct != len(pairs):
        raise DecodeError("a map has the same key twice")
    room[0] += 1
    return Map(pairs), end


# Keys of equal hash make a dict quadratic, and the peer chooses the hashes of all types but text and binary, whose
# hashes depend on a secret of the process. A map with more entries than this becomes a dict as it is read only while
# its keys are of these types; otherwise the hashes are checked first.
_TRUSTED_ENTRIES = 64
_SAME_HASHES = 16
_SECRET_HASHES: Final = frozenset((str, bytes, Symbol))


def _large_map(data: bytes, at: int, end: int, count: int, room: list[int]) -> tuple[Any, int]:
    readers, known = READERS, _keys.get
    entries: dict[Any, Any] = {}
    for _ in repeat(None, count):
        stop = at + 2 + data[at + 1] if at + 1 < end else at
        key = known(data[at:stop])
        if key is None:
            key, at = _read_key(data, at, room)
        else:
            at = stop
        value, at = readers[data[at]](data, at + 1, room)
        if type(key) not in _SECRET_HASHES or key in entries:
            pairs = [*entries.items(), (key, value)]
            return _checked_map(data, at, end, count - len(pairs), pairs, room)
        entries[key] = value
    if at != end:
        raise DecodeError("the size of a map is not that of its entries")
    room[0] += 1
    return entries, end


def _checked_map(
    data: bytes, at: int, end: int, count: int, pairs: list[tuple[Any, Any]], room: list[int]
) -> tuple[Any, int]:
    """Read the rest of a map as `_more_pairs` does; return a dict if few keys have the same hash."""
    value, end = _more_pairs(data, at, end, count, pairs, room)
    try:
        if max(Counter(hash(key) for key in value).values()) <= _SAME_HASHES:
            entries = dict(value.pairs)
            if len(entries) == len(value.pairs):
                return entries, end
    except TypeError:
        pass
    return value, end


# Array (§1.6.24)


# Elements that are read all at once: the format of `struct`, and the Python type.
_LAYOUTS: Final[dict[int, tuple[str, type | None]]] = {
    0x60: ("H", UShort),
    0x61: ("h", Short),
    0x70: ("I", UInt),
    0x71: ("i", Int),
    0x80: ("Q", ULong),
    0x81: ("q", None),
    0x82: ("d", None),
}


# The memory of an empty list, in references.
_LIST0_COST: Final = 8


def _elements(data: bytes, at: int, end: int, count: int, room: list[int]) -> tuple[Any, int]:
    if end > len(data):
        raise beyond(end, data)
    if not room[0]:
        raise DecodeError("the value is nested too deeply")
    room[0] -= 1
    descriptors: list[Any] = []
    code = data[at]
    while not code:
        # Each description of a description is one level of nesting.
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
            raise DecodeError(f"{count} elements do not fit into {max(end - at, 0)} octets")
    else:
        # Zero-width elements take no bytes: only this limit keeps a small array from using all memory.
        room[1] -= count * _LIST0_COST if code == 0x45 else count
        if room[1] < 0:
            raise DecodeError("too many array elements of no width")
    items: list[Any]
    if code in SMALL_VALUES:
        values = SMALL_VALUES[code]
        items = [values[octet] for octet in data[at : at + count]]
        at += count
    elif code in _LAYOUTS:
        layout, python = _LAYOUTS[code]
        numbers = struct.Struct(f">{count}{layout}").unpack_from(data, at)
        items = list(numbers if python is None else map(python, numbers))
        at += count * width
    else:
        read = READERS[code]
        items = []
        append = items.append
        for _ in repeat(None, count):
            item, at = read(data, at, room)
            append(item)
    if at != end:
        raise DecodeError("the size of an array is not that of its elements")
    room[0] += 1
    return Array(cast("TypeName", name), items, descriptors), end


_compound(0xC0, _items)
_compound(0xC1, _entries)
_compound(0xE0, _elements)

# Described (§1.2)


@reads(0x00)
def _described(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    if not room[0]:
        raise DecodeError("the value is nested too deeply")
    room[0] -= 1
    readers = READERS
    descriptor, at = readers[data[at]](data, at + 1, room)
    value, at = readers[data[at]](data, at + 1, room)
    room[0] += 1
    return Described(descriptor, value), at


if fast is not None:
    fast.use_tables(_keys, symbol_of, READERS)
    for _code in (0xC0, 0xC1, 0xD0, 0xD1):
        READERS[_code] = fast.Compound(_code, READERS[_code])


# Keys of maps

_KEY_LEVELS: Final = 12


def _within_key(read: Reader) -> Reader:
    """Read a key that contains values. They must be few, because keys are compared by encoding, anew at every level."""

    def read_key(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
        levels = room[0]
        room[0] = min(levels, _KEY_LEVELS)
        key, at = read(data, at, room)
        room[0] = levels
        return key, at

    return read_key


KEY_READERS: Final = [_within_key(read) if code in CONTAINERS else read for code, read in enumerate(READERS)]
