"""Writers for maps, and lists of named fields, whose keys and types of values recur.

Such a map gets a writer as Python source: straight code without a lookup or branch for each entry, in which keys are
already encoded and values of fixed width are packed at once. For a string and two numbers it reads as

    try:
        v0, v1, v2, = values
        r0 = v0.encode()
        raw = join((k0, STRING_HEAD[len(r0)], r0, pack1(k1, v1, k2, v2)))
    except FAILURES:
        return False
    size = len(raw)
    if size < 256:
        out += heads[size]
        out += raw
    else:
        out += pack_wide(wide, size + 3, 6)
        out += raw[1:]

If a step fails, nothing was written, and the general writer starts again and raises the error. Values without straight
code, such as lists and maps, are written last, by the writers of their types. An error there is the first one of the
map, and is raised at once: so a fault at the bottom of nested maps is not looked for anew at each level. The source
contains only numbers, never the names or values of a program.
"""

from __future__ import annotations

import struct
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from ..errors import EncodeError
from ._values import Symbol

Writer = Callable[[bytearray, Any], None]

# Types of fixed width: constructor, `struct` format, and the expression that is packed.
_FIXED: Final[dict[type, tuple[bytes, str, str]]] = {
    float: (b"\x82", "d", "{}"),
    datetime: (b"\x83", "q", "({} - EPOCH) // MILLISECOND"),
    UUID: (b"\x98", "16s", "{}.int.to_bytes(16, 'big')"),
    bool: (b"", "B", "0x41 if {} else 0x42"),
    type(None): (b"\x40", "", ""),
}
# The heads of short texts, the constructor of long ones, and the expression for the octets.
_TEXTS: Final = {
    str: ("STRING_HEAD", 0xB1, "{}.encode()"),
    Symbol: ("SYMBOL_HEAD", 0xB3, "{}.encode('ascii')"),
    bytes: ("BINARY_HEAD", 0xB0, "{}"),
}


class Part(NamedTuple):
    """One value to write.

    Attributes:
        number: its index among the values of the dict.
        octets: the octets before it: its key.
        kind: the type it is written as; types missing from the tables above are written last, by `write`.
        write: its writer.
    """

    number: int
    octets: bytes
    kind: type
    write: Writer


Look = Callable[[Mapping[Any, Any]], "Sequence[Part] | None"]


class _Source:
    """The source of a writer: `pieces` are joined; values of fixed width are gathered for one `pack`."""

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self.scope = dict(scope)
        self.lines: list[str] = []
        self.last: list[str] = []
        self.pieces: list[str] = []
        self._layout = ""
        self._packed: list[str] = []

    def known(self, octets: bytes) -> str:
        """Return a name for constant octets."""
        name = f"k{len(self.scope)}"
        self.scope[name] = octets
        return name

    def expect(self, octets: bytes) -> None:
        self._layout += f"{len(octets)}s"
        self._packed.append(self.known(octets))

    def value(self, part: Part) -> None:
        """Add a value."""
        number, key, kind, write = part
        name = f"v{number}"
        if kind in _FIXED:
            code, letter, packed = _FIXED[kind]
            self.expect(key + code)
            if letter:
                self._layout += letter
                self._packed.append(packed.format(name))
            return
        self.flush()
        if key:
            self.pieces.append(self.known(key))
        if kind is int:
            self.pieces.append(f"(small({name}) or pack_long(0x81, {name}))")
            return
        raw = f"r{number}"
        if kind in _TEXTS:
            head, long, encoded = _TEXTS[kind]
            self.lines.append(f"{raw} = {encoded.format(name)}")
            self.pieces.append(f"({head}[n] if (n := len({raw})) < 256 else pack_word({long}, n))")
        else:
            self.scope[f"write{number}"] = write
            self.lines.append(f"{raw} = bytearray()")
            self.last.append(f"write{number}({raw}, {name})")
        self.pieces.append(raw)

    def flush(self) -> None:
        if len(self._packed) == 1:
            self.pieces += self._packed
        elif self._packed:
            name = f"pack{len(self.scope)}"
            self.scope[name] = struct.Struct(f">{self._layout}").pack
            self.pieces.append(f"{name}({', '.join(self._packed)})")
        self._layout = ""
        self._packed = []


PlanWriter = Callable[[bytearray, Iterable[Any]], bool]

_FAILURES: Final = (EncodeError, TypeError, ValueError, LookupError, ArithmeticError, struct.error)
_MAX_SIZE: Final = 0xFFFF_FFFF - 3
_BEFORE: Final = 8
_WAITING: Final = 1024
_ENTRIES: Final = 127  # the most whose count takes one octet
_ENTRIES_KEPT: Final = 16_384
_KEY_LENGTH: Final = 64
_SMALL_KEYS: Final = range(-128, 256)
# As in `_shapes`: generating a writer takes up to a tenth of a millisecond for each entry.
_WRITTEN_AT_ONCE: Final = 8192
_WRITTEN_FOR_ONE: Final = 500
_FRAME: Final = 2


_LIKE_DICT: Final = frozenset((OrderedDict, defaultdict))
"""Types whose entries are those of a dict. Other subclasses may give others."""


def _may_recur(key: Any) -> bool:
    """Return whether a key may be that of many maps: a short text, or a number of one octet."""
    return len(key) <= _KEY_LENGTH if isinstance(key, str) else isinstance(key, int) and key in _SMALL_KEYS


def forget_oldest(table: dict[Any, Any]) -> Any:
    """Remove from a table what was entered first; return its key. Other threads may change the table meanwhile."""
    with suppress(RuntimeError, StopIteration):
        oldest = next(iter(table))
        table.pop(oldest, None)
        return oldest
    return None


class Plans:
    """The writers of frequent maps or lists of fields, by their keys and the types of keys and values.

    Threads may share it even without the GIL, because the writers are independent of each other.

    Args:
        scope: the globals of the source.
        head: the octets before each map, up to the constructor of the short form.
        look: returns the parts to write, which may be empty; None to leave the map to the general writer.
        count: returns the number of elements of a list or map with these parts.
    """

    def __init__(
        self, scope: Mapping[str, Any], head: bytes, look: Look, count: Callable[[Sequence[Part]], int]
    ) -> None:
        self._scope = scope
        self._heads = [head + bytes((size,)) for size in range(256)]
        self._wide_head = head[:-1] + bytes((head[-1] + 0x10,))
        self._look = look
        self._count = count
        self._times: dict[tuple[Any, ...], int] = {}
        self._known: dict[tuple[Any, ...], PlanWriter] = {}
        self._written = 0
        self._noted = 0

    @property
    def count(self) -> int:
        """The number of kinds of maps with a writer."""
        return len(self._known)

    def clear(self) -> None:
        """Forget all writers."""
        self._times.clear()
        self._known.clear()

    def write(self, out: bytearray, entries: Mapping[Any, Any]) -> bool:
        """Append the map if its kind is frequent, and return True; otherwise leave `out` unchanged.

        Raises:
            Exception: from the writer of a value without straight code; the general writer would raise the same.
        """
        if (type(entries) is not dict and type(entries) not in _LIKE_DICT) or len(entries) > _ENTRIES:
            return False
        values = entries.values()
        kind = (*entries, *map(type, entries), *map(type, values))
        try:
            plan = self._known[kind]
        except KeyError:
            self._note(kind, entries)
            return False
        return plan(out, values)

    def _note(self, kind: tuple[Any, ...], entries: Mapping[Any, Any]) -> None:
        """Count maps of a kind without a writer; generate a writer once the kind is frequent."""
        times = self._times.get(kind, 0)
        self._noted += len(entries)
        if not times:
            if not all(map(_may_recur, entries)):
                return
            if len(self._times) >= _WAITING:
                forget_oldest(self._times)
        if times < _BEFORE:
            self._times[kind] = times + 1
        elif times == _BEFORE and self._written < _WRITTEN_AT_ONCE + self._noted // _WRITTEN_FOR_ONE:
            self._written += len(entries) + _FRAME
            self._times[kind] = _BEFORE + 1
            with suppress(EncodeError):
                plan = self._written_for(entries)
                if plan is not None:
                    self._known[kind] = plan
                    self._times.pop(kind, None)
            while len(self._known) > 1 and sum(len(each) // 3 + _FRAME for each in list(self._known)) > _ENTRIES_KEPT:
                forget_oldest(self._known)

    def _written_for(self, entries: Mapping[Any, Any]) -> PlanWriter | None:
        """Generate and compile a writer; return None if the map is left to the general writer."""
        parts = self._look(entries)
        if parts is None:
            return None
        count = self._count(parts)
        source = _Source(self._scope)
        source.scope |= {
            "FAILURES": _FAILURES,
            "heads": self._heads,
            "wide": self._wide_head,
            "pack_wide": struct.Struct(f">{len(self._wide_head)}sII").pack,
        }
        for place, part in enumerate(parts):
            source.value(part if place else part._replace(octets=bytes((count,)) + part.octets))
        source.flush()
        names = "".join(f"v{number}, " for number in range(len(entries)))
        pieces = f"({', '.join(source.pieces)},)"
        if source.last:
            source.last.append("raw = join(raw)")
        lines = [
            "try:",
            f"    {names}= values",
            *("    " + line for line in source.lines),
            f"    raw = {pieces}" if source.last else f"    raw = join({pieces})",
            "except FAILURES:",
            "    return False",
            *source.last,
            "size = len(raw)",
            "if size < 256:",
            "    out += heads[size]",
            "    out += raw",
            f"elif size < {_MAX_SIZE}:",
            f"    out += pack_wide(wide, size + 3, {count})",
            "    out += raw[1:]",
            "else:",
            "    return False",
            "return True",
        ]
        if not parts:
            lines = ["return True"]
        exec("\n".join(("def write(out, values):", *("    " + line for line in lines))), source.scope)
        write: PlanWriter = source.scope["write"]
        return write
