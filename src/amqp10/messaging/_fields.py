"""Encodes and decodes the sections other than the body, by tables derived from their declarations.

A field takes only the Python types of its AMQP types, and its table finds the writer by `type(value)`. Some values are
converted here: `ttl` from a `timedelta`, a `str` to a symbol where a symbol is due, and an `int` to a ulong in a
message-id or an annotation key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from ..errors import DecodeError, EncodeError
from ..types import (
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Field,
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
    decode_from,
)
from ..types.codec import (
    BROKEN,
    DEFAULT_LIMITS,
    PLAN_SCOPE,
    READERS,
    WRITERS,
    Entry,
    Part,
    Plans,
    ShapeReader,
    Shapes,
    Writer,
    broken,
    close_compound,
    decode_fields,
    forget_oldest,
    keep_key,
    map_shapes,
    path_to_fault,
    plans_of,
    read_by,
    read_map,
    room_for,
    values_reader,
    write_entries,
    write_reader,
    write_string,
    write_symbol,
    write_ubyte,
    write_uint,
    write_ulong,
)
from ._section_index import (
    APPLICATION_PROPERTIES,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    MESSAGE_ANNOTATIONS,
    NAMES,
    SectionSpan,
)
from ._sections import Header, Properties

_MILLISECOND: Final = timedelta(milliseconds=1)


def milliseconds(ttl: timedelta) -> int:
    """Return a time-to-live in milliseconds, rounded up so that a short one does not become 0.

    Raises:
        EncodeError: `ttl` is not a timedelta, is negative, or exceeds 2³²-1 ms (49.7 days).
    """
    if not isinstance(ttl, timedelta):
        raise EncodeError(f"a timedelta is required, not {type(ttl).__qualname__}")
    ms = -(-ttl // _MILLISECOND)
    if not 0 <= ms <= 0xFFFF_FFFF:
        raise EncodeError(f"{ttl} is out of range; a time-to-live is 0 to 4294967295 ms")
    return ms


def _write_ttl(out: bytearray, value: timedelta) -> None:
    write_uint(out, milliseconds(value))


class Writers(dict[type, Writer]):
    """The writers of a field that takes only some AMQP types, by Python type.

    A subclass, such as a `StrEnum`, is written as its base, unless it has an AMQP type of its own, as `bool` and `Char`
    do.
    """

    __slots__ = ("_taken", "_wanted")

    def __init__(self, wanted: str, writers: Mapping[type, Writer]) -> None:
        super().__init__(writers)
        self._wanted = wanted
        self._taken = frozenset(writers)

    def __missing__(self, python: type) -> Writer:
        for base in python.__mro__:
            if base in self._taken:
                self[python] = self[base]
                return self[base]
            if base in _AMQP_TYPES:
                break
        raise EncodeError(f"{self._wanted} is required, not {python.__qualname__}")


_INTEGERS: Final = (int, UByte, UShort, UInt, ULong, Byte, Short, Int)
_SIMPLE_TYPES: Final = (
    *(type(None), bool, *_INTEGERS, float, Float, Decimal, Decimal32, Decimal64, Decimal128),
    *(Char, datetime, Timestamp, UUID, bytes, str, Symbol),
)
_AMQP_TYPES: Final = frozenset((*_SIMPLE_TYPES, list, dict, tuple, object))


def _as(writer: Writer, *types: type) -> dict[type, Writer]:
    return dict.fromkeys(types, writer)


def _own(*types: type) -> dict[type, Writer]:
    return {python: WRITERS[python] for python in types}


_BINARY: Final = _own(bytes, bytearray, memoryview)
_MESSAGE_ID: Final = Writers("an int, UUID, bytes or str", _as(write_ulong, int, ULong) | _own(UUID, str) | _BINARY)
# By the type of the field; for a field of any type, by its archetype.
_FIELD_WRITERS: Final = {
    "boolean": Writers("a bool", _own(bool)),
    "ubyte": Writers("an int", _as(write_ubyte, *_INTEGERS)),
    "uint": Writers("an int", _as(write_uint, *_INTEGERS)),
    "binary": Writers("bytes", _BINARY),
    "string": Writers("a str", _as(write_string, str, Symbol)),
    "symbol": Writers("a str", _as(write_symbol, str, Symbol)),
    "timestamp": Writers("an aware datetime", _own(datetime, Timestamp)),
    "message-id": _MESSAGE_ID,
}
_TTL_WRITERS: Final = Writers("a timedelta", _as(_write_ttl, timedelta))
# The Python types of a message-id (§3.2.11-14).
_MESSAGE_IDS: Final = frozenset((type(None), ULong, UUID, bytes, str))

# By writer and Python type: the type that a field is written as. See `Part`.
_PLANNED: Final[dict[Writer, dict[type, type]]] = {
    write_string: {str: str, Symbol: str},
    write_symbol: {str: Symbol, Symbol: Symbol},
    **{WRITERS[kind]: {kind: kind} for kind in (bytes, datetime, UUID)},
}
# Headers are short, and most messages have the same. A peer cannot fill the table with more than this.
_HEADERS_KEPT: Final = 256
_HEADER_LENGTH: Final = 24
_NULLS: Final = [b"\x40" * n for n in range(16)]


def _writers_of(field: Field) -> Writers:
    if field.name == "ttl":
        return _TTL_WRITERS
    return _FIELD_WRITERS[field.requires or field.type]


class FieldsSection:
    """A section that is a list of named fields: header (§3.2.1) or properties (§3.2.4)."""

    def __init__(self, declared: type[Header] | type[Properties]) -> None:
        self.code: int = declared.descriptor_code
        self.declared = declared
        self.defaults: dict[str, Any] = {field.name: field.default for field in declared.fields}
        self._head = bytes((0, 0x53, self.code, 0xC0, 0, 0))
        self._fields = [(field.name, _writers_of(field), field.default) for field in declared.fields]
        self._ids = [field.name for field in declared.fields if field.requires == "message-id"]
        self._names = tuple(self.defaults)
        self._defaults = any(default is not None for default in self.defaults.values())
        self.plans: Plans = Plans(PLAN_SCOPE, self._head[:4], self._parts, self._count)
        self._read = values_reader(declared)
        self._whole = frozenset(field.name for field in declared.fields if field.type == "uint")
        self.shapes: Shapes = Shapes(self._entries, self._reader)
        self._headers: dict[bytes, dict[str, Any]] = {}  # decoded before, by their octets

    def write(self, out: bytearray, fields: Mapping[str, Any]) -> None:
        """Append the section with the values in `fields`, or nothing if all have their defaults.

        Raises:
            EncodeError: a field is of the wrong type or out of range. The message names the field.
        """
        try:
            if not self._defaults and self.plans.write(out, fields):
                return
        except EncodeError:
            pass
        self._write_by_field(out, fields)

    def _parts(self, fields: Mapping[str, Any]) -> list[Part]:
        """Return the parts to write of a message with `fields`: see `Plans`."""
        numbers = {name: number for number, name in enumerate(fields) if fields[name] is not None}
        parts: list[Part] = []
        nulls = b""
        for name, writers, _ in self._fields:
            if name not in numbers:
                nulls += b"\x40"
                continue
            kind = type(fields[name])
            write = writers[kind]
            parts.append(Part(numbers[name], nulls, _PLANNED.get(write, {}).get(kind, object), write))
            nulls = b""
        return parts

    def _count(self, parts: Sequence[Part]) -> int:
        """Return how many fields a section of `parts` has, including nulls."""
        return sum(len(part.octets) + 1 for part in parts)

    def _write_by_field(self, out: bytearray, fields: Mapping[str, Any]) -> None:
        """Append the section field by field, without a plan."""
        start = len(out)
        out += self._head
        get = fields.get
        nulls = count = 0
        name = ""
        try:
            for name, writers, default in self._fields:
                value = get(name)
                if value is None or (value == default and type(value) in writers):
                    nulls += 1
                    continue
                if nulls:
                    out += _NULLS[nulls]
                    count += nulls
                    nulls = 0
                writers[type(value)](out, value)
                count += 1
        except EncodeError as e:
            raise EncodeError(f"{name}: {e}") from None
        if count:
            close_compound(out, start + 3, count)
        else:
            del out[start:]

    def read(self, payload: bytes, place: SectionSpan, room: list[int] | None = None) -> Any:
        """Decode the section at `place` as `Header` or `Properties`; all sections of a message share `room`.

        Raises:
            DecodeError: the section is not a list, has too many fields, or a field of the wrong type.
        """
        section, end = decode_fields(self.declared, payload, place[1], room)
        if end != place[2]:
            raise DecodeError(f"the {NAMES[self.code]} section is not as long as it says")
        for name in self._ids:
            value = getattr(section, name)
            if type(value) not in _MESSAGE_IDS:
                raise DecodeError(f"{name}: a {type(value).__name__} cannot be a message-id")
        return section

    def read_values(self, payload: bytes, place: SectionSpan, room: list[int]) -> dict[str, Any]:
        """Decode the section at `place` to the fields of a message, by name, in a dict that must not be changed.

        Raises:
            DecodeError: as for `read`.
        """
        begin, value_at, end = place
        if self._defaults and (known := self._headers.get(payload[begin:end])) is not None:
            return known
        if payload[value_at] == 0xC0:
            at = value_at + 3
            beginning = payload[at - 1 : at + 1]  # the number of fields, and the first constructor
        elif payload[value_at] == 0xD0 and payload[value_at + 5 : value_at + 8] == b"\0\0\0":
            # go-amqp and Java clients write a list with a long head, whatever its size. It has the same shapes.
            at = value_at + 9
            beginning = payload[at - 1 : at + 1]
        else:
            at, beginning = 0, b""
        readers = self.shapes.readers.get(beginning)
        if readers is not None:
            values = read_by(readers, payload, at, end, room)
            if values is not None:
                return values
        try:
            fields, read_to = self._read(payload, value_at, room)
        except DecodeError:
            room[0] = DEFAULT_LIMITS.max_depth
            raise
        except BROKEN as e:
            room[0] = DEFAULT_LIMITS.max_depth
            raise broken(e) from None
        if read_to != end:
            raise DecodeError(f"the {NAMES[self.code]} section is not as long as it says")
        values = dict(zip(self._names, fields, strict=True))
        for name in self._ids:
            if type(values[name]) not in _MESSAGE_IDS:
                raise DecodeError(f"{name}: a {type(values[name]).__name__} cannot be a message-id")
        if len(beginning) == 2 and not self._defaults:
            self.shapes.note(beginning, payload, at, beginning[0])
        if values.get("ttl") is not None:
            values["ttl"] = timedelta(milliseconds=values["ttl"])
        if self._defaults and end - begin <= _HEADER_LENGTH:
            if len(self._headers) >= _HEADERS_KEPT:
                forget_oldest(self._headers)
            self._headers[bytes(payload[begin:end])] = values
        return values

    def _entries(self, payload: bytes, at: int, count: int) -> list[Entry]:
        """Return the fields read at `at` as entries of a shape."""
        room = room_for(payload)
        seen = []
        for name in self._names[:count]:
            seen.append(Entry(b"", name, payload[at]))
            _, at = READERS[payload[at]](payload, at + 1, room)
        return seen

    def _reader(self, known: Sequence[tuple[bytes, Any, frozenset[int]]]) -> ShapeReader:
        return write_reader(known, self._names[len(known) :], self._whole)


class MapSection:
    """A section that is a map: the annotations and the footer (§3.2.2-3, §3.2.9), or application-properties."""

    def __init__(
        self, code: int, keys: Writers, read_keys: Iterable[type], values: Mapping[type, Writer], simple: bool
    ) -> None:
        self.code = code
        self.name = NAMES[code].replace("-", "_")
        self._head = bytes((0, 0x53, code, 0xC1, 0, 0))
        self._keys = keys
        self._values = values
        self._read_keys = frozenset(read_keys)
        self._read_values = frozenset(_SIMPLE_TYPES) if simple else None
        self._shaped = map_shapes.simple if simple else map_shapes.symbols
        # The encodings of str keys, since the same few keys recur.
        self._known: dict[str, bytes] = {}
        self.plans = plans_of(self._head[:4], self._write_key, values)

    def write(self, out: bytearray, entries: Mapping[Any, Any]) -> None:
        """Append the section with `entries`, or nothing if `entries` is empty.

        Raises:
            EncodeError: a key or a value is of the wrong type or out of range. The message names the section and the
                key.
        """
        try:
            if entries and self.plans.write(out, entries):
                return
        except EncodeError:
            pass
        if type(entries) is not dict and not isinstance(entries, Mapping):
            raise EncodeError(f"{self.name}: a mapping is required, not {type(entries).__qualname__}")
        if not entries:
            return
        start = len(out) + 3
        out += self._head
        try:
            write_entries(out, entries, self._known, self._write_key, self._values)
        except EncodeError:
            self._blame(entries)
            raise
        close_compound(out, start, 2 * len(entries))

    def _write_key(self, out: bytearray, key: Any) -> None:
        start = len(out)
        self._keys[type(key)](out, key)
        keep_key(self._known, key, out, start)

    def _blame(self, entries: Mapping[Any, Any]) -> None:
        """Raise the EncodeError that names the key of the entry that cannot be written."""
        for key, value in entries.items():
            try:
                self._keys[type(key)](bytearray(), key)
                self._values[type(value)](bytearray(), value)
            except EncodeError as e:
                within = path_to_fault(value) if self._read_values is None else ""
                raise EncodeError(f"{self.name}[{key!r:.80}]{within}: {e}") from None

    def read(self, payload: bytes, place: SectionSpan, room: list[int] | None = None) -> dict[Any, Any]:
        """Decode the entries of the section at `place`; all sections of a message share `room`.

        Raises:
            DecodeError: the section is not a map, has a key twice, or has a key or value of a forbidden type.
        """
        _, value_at, section_end = place
        if room is None:
            room = room_for(payload)
        known = read_map(self._shaped, payload, value_at, section_end, room)
        if known is not None:
            return known
        entries, end = decode_from(payload, value_at, room=room)
        if end != section_end:
            raise DecodeError(f"the {NAMES[self.code]} section is not as long as it says")
        if type(entries) is Map and self._read_keys.issuperset(map(type, entries)):
            raise DecodeError(f"{self.name}: the map has a key twice")
        if type(entries) is not dict:
            raise DecodeError(f"{self.name}: a map is required, not {type(entries).__name__}")
        if not self._read_keys.issuperset(map(type, entries)):
            raise DecodeError(f"{self.name}: a key has a type that is not allowed there")
        if self._read_values is not None and not self._read_values.issuperset(map(_simple_type, entries.values())):
            raise DecodeError(f"{self.name}: a value must have a simple type")
        return entries


def _simple_type(value: Any) -> type:
    """Return the type of a value, or of what it describes: Azure's SDKs describe durations, times and URIs so."""
    return type(value.value if type(value) is Described else value)


def _write_described(out: bytearray, value: Described) -> None:
    _SIMPLE_WRITERS[type(value.value)]  # refuses what is not simple
    WRITERS[Described](out, value)


_ANNOTATION_KEYS: Final = Writers("a Symbol, str or int", _as(write_symbol, Symbol, str) | _as(write_ulong, ULong, int))
_SIMPLE_WRITERS: Final = Writers("a value of a simple type", _own(*_SIMPLE_TYPES, bytearray, memoryview))
PROPERTY_WRITERS: Final = Writers("a value of a simple type", {**_SIMPLE_WRITERS, Described: _write_described})


def _annotations(code: int) -> MapSection:
    return MapSection(code, _ANNOTATION_KEYS, (Symbol, ULong), WRITERS, simple=False)


HEADER_FIELDS: Final = FieldsSection(Header)
PROPERTIES_FIELDS: Final = FieldsSection(Properties)
MAPS: Final = {
    DELIVERY_ANNOTATIONS: _annotations(DELIVERY_ANNOTATIONS),
    MESSAGE_ANNOTATIONS: _annotations(MESSAGE_ANNOTATIONS),
    APPLICATION_PROPERTIES: MapSection(
        APPLICATION_PROPERTIES, Writers("a str", _own(str)), (str,), PROPERTY_WRITERS, simple=True
    ),
    FOOTER: _annotations(FOOTER),
}
