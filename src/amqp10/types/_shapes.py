"""Readers for maps, and lists of fields, that recur with other values.

A shape is a guess. If its beginning is frequent, a reader is generated as Python source, as in `_codegen`: straight
code without a loop, which reads all values of fixed width between two texts at once. For a map of a string, a number
and a boolean it reads as

    if data[at] != 161: return None
    stop = at + 2 + data[at + 1]
    v0 = data[at + 2 : stop].decode()
    at = stop + 20
    if from_bytes(data[stop:at], "little") & mask4 != octets4: return None
    v1, v2, = unpack4(data, stop)
    if at != end: return None
    return {k0: v0, k1: v1, k2: booleans[v2]}

It returns the general reader's result, or None at the first octet that it does not expect. Then the general reader
starts again, so that irregular and malformed data is judged in one place. The source contains only numbers of what a
peer sent.

Values that contain values are passed over by their size, and read after all else was as expected. From then on, nothing
is read again, whatever is wrong in them. So each is read once, however many shapes begin alike at each level.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from ..errors import DecodeError
from ._encode import EPOCH
from ._plans import forget_oldest
from ._read_primitive import READERS, SMALL_VALUES, known_symbols, new_uuid, symbol_of
from ._values import Int, Symbol, UInt, ULong

ShapeReader = Callable[[bytes, int, int, list[int]], "dict[Any, Any] | None"]


class Entry(NamedTuple):
    """One key and its value.

    Attributes:
        octets: the encoded key.
        key: the key in Python.
        code: the constructor of the value.
    """

    octets: bytes
    key: Any
    code: int


# Values of zero width, by constructor.
_CONSTANTS: Final = {0x40: "None", 0x41: "True", 0x42: "False", 0x43: "uint0", 0x44: "ulong0"}
# Values of fixed width: the format of `struct`, and the expression for its result.
_FIXED: Final = {
    0x52: ("B", "small0x52[{}]"),
    0x53: ("B", "small0x53[{}]"),
    0x54: ("B", "small0x54[{}]"),
    0x55: ("b", "{}"),
    0x70: ("I", "UInt({})"),
    0x71: ("i", "Int({})"),
    0x80: ("Q", "ULong({})"),
    0x81: ("q", "{}"),
    0x82: ("d", "{}"),
    0x83: ("q", "EPOCH + {} * MILLISECOND"),
    0x98: ("16s", "new_uuid({})"),
}
_CONTAINERS: Final = {
    **dict.fromkeys((0xC0, 0xC1, 0xE0), "{there} = {here} + 1 + data[{here}]"),
    **dict.fromkeys((0xD0, 0xD1, 0xF0), "{there} = {here} + 4 + from_bytes(data[{here} : {here} + 4], 'big')"),
}
"""How values that contain values are passed over, by constructor."""
_TEXTS: Final = {0xA1: "{}.decode()", 0xA3: "known_symbols.get(raw := {}) or symbol_of(raw)", 0xA0: "{}"}
_BOOLEANS: Final = {0x41: True, 0x42: False, 0x40: None}
CONTAINERS: Final = frozenset((0x00, *_CONTAINERS))
# The order in which varying constructors are tested.
_FREQUENT: Final = (0xA1, 0x55, 0x40, 0x81)


class _Within(Exception):
    """A fault inside a value that contains values; all around it was as expected."""


_SCOPE: Final[dict[str, Any]] = {
    "EPOCH": EPOCH,
    "Within": _Within,
    "MILLISECOND": timedelta(milliseconds=1),
    "Int": Int,
    "UInt": UInt,
    "ULong": ULong,
    "booleans": _BOOLEANS,
    "from_bytes": int.from_bytes,
    "known_symbols": known_symbols,
    "readers": READERS,
    "new_uuid": new_uuid,
    "symbol_of": symbol_of,
    "uint0": UInt(0),
    "ulong0": ULong(0),
    **{f"small{code:#x}": values for code, values in SMALL_VALUES.items()},
}


class _Source:
    """The source of a reader under construction: values of fixed width are gathered, and read at once by `flush`.

    Each step begins where the one before ended. Two variables hold the offsets by turns: `here` and `there`.
    """

    def __init__(self) -> None:
        self.lines = ["def read(data, at, end, room):"]
        self.later: list[str] = []  # values that contain values
        self.scope = dict(_SCOPE)
        self._here, self._there = "at", "stop"
        self._parts: list[bytes | tuple[str, str]] = []

    def write(self, *lines: str) -> None:
        """Write lines; `{here}` and `{there}` stand for the variables."""
        self.lines += ["    " + line.format(here=self._here, there=self._there) for line in lines]

    def step(self, *lines: str) -> None:
        """Write lines that set `{there}`, where the next step begins."""
        self.write(*lines)
        self._here, self._there = self._there, self._here

    def expect(self, octets: bytes) -> None:
        """Gather octets that must be present."""
        if self._parts and isinstance(self._parts[-1], bytes):
            octets = self._parts.pop() + octets  # type: ignore[operator]
        if octets:
            self._parts.append(octets)

    def take(self, letter: str, name: str) -> None:
        """Gather a value that `struct` reads."""
        self._parts.append((letter, name))

    def flush(self) -> None:
        """Read the gathered values."""
        parts, self._parts = self._parts, []
        fixed = [each for each in parts if isinstance(each, bytes)]
        names = [each[1] for each in parts if not isinstance(each, bytes)]
        number = len(self.lines)
        if not parts:
            return
        if not names:
            self.scope[f"octets{number}"] = octets = fixed[0]
            self.step(
                f"{{there}} = {{here}} + {len(octets)}", f"if data[{{here}}:{{there}}] != octets{number}: return None"
            )
            return
        once = len(fixed) == 1 and parts[0] is fixed[0]
        passed = "s" if once else "x"
        layout = "".join(f"{len(each)}{passed}" if isinstance(each, bytes) else each[0] for each in parts)
        packed = struct.Struct(f">{layout}")
        self.scope[f"unpack{number}"] = packed.unpack_from
        if once:
            self.scope[f"octets{number}"] = fixed[0]
            self.step(
                f"octets, {', '.join(names)} = unpack{number}(data, {{here}})",
                f"if octets != octets{number}: return None",
                f"{{there}} = {{here}} + {packed.size}",
            )
            return
        wanted = [each if isinstance(each, bytes) else bytes(struct.calcsize(f">{each[0]}")) for each in parts]
        masked = [b"\xff" * len(each) if part is each else each for part, each in zip(parts, wanted, strict=True)]
        self.scope[f"octets{number}"] = int.from_bytes(b"".join(wanted), "little")
        self.scope[f"mask{number}"] = int.from_bytes(b"".join(masked), "little")
        self.step(
            f"{{there}} = {{here}} + {packed.size}",
            f"if from_bytes(data[{{here}}:{{there}}], 'little') & mask{number} != octets{number}: return None",
            f"{', '.join(names)}, = unpack{number}(data, {{here}})",
        )

    def text(self, name: str, code: int) -> None:
        """Read text or binary with a length of one octet, which is read together with numbers before it."""
        if not self._parts:
            value = _TEXTS[code].format("data[{here} + 2 : {there}]")
            self.step(
                f"if data[{{here}}] != {code}: return None",
                "{there} = {here} + 2 + data[{here} + 1]",
                f"{name} = {value}",
            )
            return
        self.expect(bytes((code,)))
        if len(self._parts) > 1:
            self.take("B", "size")
            self.flush()
            self.step("{there} = {here} + size", f"{name} = {_TEXTS[code].format('data[{here}:{there}]')}")
            return
        self.flush()
        value = _TEXTS[code].format("data[{here} + 1 : {there}]")
        self.step("{there} = {here} + 1 + data[{here}]", f"{name} = {value}")

    def one_of(self, name: str, codes: frozenset[int], *, plain: bool) -> None:
        """Read a value whose constructor varies, together with the octets before it."""
        before = b""
        if self._parts and isinstance(last := self._parts[-1], bytes):
            before = last
            del self._parts[-1]
        self.flush()
        number = len(self.lines)
        self.step(f"{{there}} = {{here}} + {len(before) + 1}", "code = data[{here}:{there}]")
        if not codes.isdisjoint(_CONTAINERS):
            self.later.append(name)
            self.write(f"at_{name} = 0")
        word = "if"
        for code in sorted(codes, key=lambda each: (each not in _FREQUENT, each)):
            lines = self._alone(name, code)
            if plain and code != 0x40:
                lines.append(f"{name} = int({name})")
            self.scope[f"code{number}_{code}"] = before + bytes((code,))
            self.write(f"{word} code == code{number}_{code}:", *("    " + line for line in lines))
            word = "elif"
        self.step("else: return None")

    def _alone(self, name: str, code: int) -> list[str]:
        """Return the lines that read a value after its constructor."""
        if code in _CONSTANTS:
            return [f"{name} = {_CONSTANTS[code]}", "{there} = {here}"]
        if code in SMALL_VALUES:
            return [f"{name} = small{code:#x}[data[{{here}}]]", "{there} = {here} + 1"]
        if code in _FIXED:
            letter, value = _FIXED[code]
            packed = struct.Struct(f">{letter}")
            self.scope[f"unpack_{code}"] = packed.unpack_from
            lines = [f"{name}, = unpack_{code}(data, {{here}})", f"{{there}} = {{here}} + {packed.size}"]
            return lines if value == "{}" else [*lines, f"{name} = {value.format(name)}"]
        if code in _TEXTS:
            value = _TEXTS[code].format("data[{here} + 1 : {there}]")
            return ["{there} = {here} + 1 + data[{here}]", f"{name} = {value}"]
        if code in _CONTAINERS:
            return [f"{name}, at_{name} = None, {{here}}", _CONTAINERS[code]]
        self.scope[f"read{code}"] = READERS[code]
        return [f"{name}, {{there}} = read{code}(data, {{here}}, room)"]


_Known = Sequence[tuple[bytes, Any, frozenset[int]]]


def write_reader(entries: _Known, absent: Sequence[Any] = (), plain: frozenset[Any] = frozenset()) -> ShapeReader:
    """Generate a reader for `entries` in this order: octets, key and constructors of the value.

    Args:
        absent: keys to add as None after the entries.
        plain: keys whose integers are plain ints, because the field fixes their AMQP type.
    """
    source = _Source()
    made: dict[Any, str] = {}
    for number, (octets, key, codes) in enumerate(entries):
        name, only = f"v{number}", min(codes)
        source.expect(octets)
        made[key] = name
        if codes <= {0x41, 0x42}:
            source.take("B", name)
            made[key] = f"booleans[{name}]"
        elif len(codes) > 1:
            source.one_of(name, codes, plain=key in plain)
        elif only in _CONSTANTS:
            source.expect(bytes(codes))
            made[key] = "0" if key in plain and only != 0x40 else _CONSTANTS[only]
        elif only in _FIXED:
            letter, value = _FIXED[only]
            source.expect(bytes(codes))
            source.take(letter, name)
            made[key] = name if key in plain else value.format(name)
        elif only in _TEXTS:
            source.text(name, only)
        else:
            source.one_of(name, codes, plain=False)
    source.flush()
    made |= dict.fromkeys(absent, "None")
    source.scope |= {f"k{number}": key for number, key in enumerate(made)}
    pairs = ", ".join(f"k{number}: {value}" for number, value in enumerate(made.values()))
    source.write("if {here} != end: return None")
    if not source.later:
        source.write(f"return {{{{{pairs}}}}}")
    else:
        source.write(f"found = {{{{{pairs}}}}}")
        later = [(name, f"k{number}") for number, name in enumerate(made.values()) if name in source.later]
        reads = (
            f"if at_{name}: found[{key}], _ = readers[data[at_{name} - 1]](data, at_{name}, room)"
            for name, key in later
        )
        source.write("room[0] -= 1", "try:", *("    " + each for each in reads))
        source.write("except Exception as fault: raise Within(fault) from None", "room[0] += 1", "return found")
    exec("\n".join(source.lines), source.scope)
    read: ShapeReader = source.scope["read"]
    return read


# Errors of a reader on unexpected octets.
_UNEXPECTED: Final = (LookupError, struct.error, UnicodeDecodeError, OverflowError, DecodeError, RecursionError)


Readers = dict[bytes, tuple[ShapeReader, ...]]


def read_by(readers: Sequence[ShapeReader], data: bytes, at: int, end: int, room: list[int]) -> dict[Any, Any] | None:
    """Read the value from `at` to `end` by one of `readers`; return None if it fits no reader.

    Raises:
        Exception: from the reader of a value inside it; the general reader would raise the same.
    """
    for reader in readers:
        try:
            if (found := reader(data, at, end, room)) is not None:
                return found
        except _Within as fault:
            raise fault.args[0] from None
        except _UNEXPECTED:
            continue
    return None


def read_map(table: Readers, data: bytes, at: int, end: int, room: list[int]) -> dict[Any, Any] | None:
    """Read the map from its constructor at `at` to `end`, if its shape is known. The size was checked before."""
    code = data[at]
    if code == 0xC1:
        at += 4
    elif code == 0xD1 and data[at + 5 : at + 8] == b"\0\0\0":
        at += 10
    else:
        return None
    if at >= end:
        return None
    first = at + 1 + data[at]
    readers = table.get(data[at - 2 : first])
    if not readers:
        return None
    levels, elements = room
    try:
        return read_by(readers, data, first, end, room)
    except _UNEXPECTED:  # the general reader says what is wrong
        room[:] = levels, elements
        return None


class _Variant:
    """A sequence of keys seen after a beginning, and the constructors of their values."""

    __slots__ = ("codes", "keys", "looks", "reader")

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.keys = [each.key for each in entries]
        self.codes = [_ONLY[each.code] for each in entries]
        self.looks = 0
        self.reader: ShapeReader | None = None


class _Seen:
    """The variants seen for one beginning; they are evaluated when `due` reaches 0."""

    __slots__ = ("due", "variants")

    def __init__(self) -> None:
        self.due = _BEFORE
        self.variants: dict[tuple[bytes, ...], _Variant] = {}


_ONLY: Final = [frozenset((code,)) for code in range(256)]
_BEFORE: Final = 16
_LOOKS: Final = 8
_WAITING: Final = 512
_VARIANTS: Final = 4
_OCTETS: Final = 64
_ENTRIES_KEPT: Final = 16_384
# Generating a reader takes up to a tenth of a millisecond for each entry, as long as reading a hundred entries. So one
# entry is allowed for each `_READ_FOR_ONE` keys and values that were read without a reader, and `_WRITTEN_AT_ONCE`
# more: a peer whose maps never look alike costs little more. What a reader has beside its entries counts as `_FRAME`.
_WRITTEN_AT_ONCE: Final = 8192
_READ_FOR_ONE: Final = 1000
_FRAME: Final = 2


class Shapes:
    """The shapes of frequent maps or lists of fields.

    Beginnings wait without a reader until they are frequent. So a peer whose maps never begin alike displaces only
    what waits.

    Threads may share it even without the GIL, because the readers are independent of each other.

    Args:
        look: returns the entries of a map that was read, or None if it cannot have a shape.
        write: generates the reader of entries.
    """

    def __init__(
        self,
        look: Callable[[bytes, int, Any], Sequence[Entry] | None],
        write: Callable[[_Known], ShapeReader] = write_reader,
    ) -> None:
        self._look = look
        self._write = write
        self._waiting: dict[bytes, _Seen] = {}
        self._kept: dict[bytes, _Seen] = {}
        self._written = 0
        self._noted = 0
        self.readers: Readers = {}
        self.simple: Readers = {}
        """The readers of maps whose keys are strings, and whose values contain no values."""
        self.symbols: Readers = {}
        """The readers of maps whose keys are symbols."""

    def clear(self) -> None:
        """Forget all shapes."""
        for table in (self._waiting, self._kept, self.readers, self.simple, self.symbols):
            table.clear()

    def note(self, beginning: bytes, data: bytes, at: int, found: Any) -> None:
        """Count a map that the general reader read at `at`; generate a reader once `beginning` is frequent.

        The first octet of `beginning` is the count of the map or list.
        """
        seen = self._kept.get(beginning) or self._waiting.get(beginning)
        if seen is None:
            if len(beginning) > _OCTETS:
                return
            if len(self._waiting) >= _WAITING:
                forget_oldest(self._waiting)
            seen = self._waiting[beginning] = _Seen()
        self._noted += beginning[0]
        seen.due -= 1
        if seen.due >= 0:
            return
        entries = self._look(data, at, found)
        octets = () if entries is None else tuple(each.octets for each in entries)
        variant = seen.variants.get(octets)
        if variant is None:
            if entries is None or len(seen.variants) >= _VARIANTS:
                seen.due = _BEFORE
                return
            variant = seen.variants[octets] = _Variant(entries)
        for number, entry in enumerate(entries or ()):
            if entry.code not in variant.codes[number]:
                variant.codes[number] |= {entry.code}
        variant.looks += 1
        if variant.looks < _LOOKS:
            return
        seen.due = _BEFORE
        if self._written < _WRITTEN_AT_ONCE + self._noted // _READ_FOR_ONE:
            self._written += len(octets) + _FRAME
            variant.looks = 0
            variant.reader = self._write(list(zip(octets, variant.keys, variant.codes, strict=True)))
            self._keep(beginning, seen)

    def _keep(self, beginning: bytes, seen: _Seen) -> None:
        """Register the readers of a beginning; forget the oldest ones where there are too many."""
        self._waiting.pop(beginning, None)
        self._kept[beginning] = seen
        variants = list(seen.variants.values())  # other threads may add one meanwhile
        for table, fits in ((self.readers, _any), (self.simple, _is_simple), (self.symbols, _has_symbols)):
            table[beginning] = tuple(each.reader for each in variants if each.reader is not None and fits(each))
        while len(self._kept) > 1 and self._entries() > _ENTRIES_KEPT:
            oldest = forget_oldest(self._kept)
            for table in (self.readers, self.simple, self.symbols):
                table.pop(oldest, None)

    def _entries(self) -> int:
        """Return how many entries the kept variants have together."""
        return sum(len(variant) + _FRAME for seen in list(self._kept.values()) for variant in list(seen.variants))


def _any(variant: _Variant) -> bool:
    return True


def _is_simple(variant: _Variant) -> bool:
    return {str}.issuperset(map(type, variant.keys)) and CONTAINERS.isdisjoint(set().union(*variant.codes))


def _has_symbols(variant: _Variant) -> bool:
    return {Symbol}.issuperset(map(type, variant.keys))
