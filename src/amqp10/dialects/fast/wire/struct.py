"""A record: fields in order, declared once; how it is read and written follows from that.

    class ConnectionPing(Command, code=14):
        respond: Bit = False

The annotations are names of `_READERS`, `_WRITERS` and `_FIXED`. What has a fixed size is read in one step with its
neighbors; contiguous bits share an octet, the first one in its lowest bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from struct import Struct
from struct import error as OutOfRange  # noqa: N812  # it says nothing else
from typing import Any, ClassVar, Final, Self, TypeAlias, dataclass_transform

from ....errors import DecodeError, EncodeError
from .values import Table as Table
from .values import read_longstr, read_shortstr, read_table, write_longstr, write_shortstr, write_table

Octet: TypeAlias = int
Short: TypeAlias = int
Long: TypeAlias = int
Bit: TypeAlias = bool
ShortStr: TypeAlias = str
LongStr: TypeAlias = bytes

_FIXED: Final = {"Octet": "B", "Short": "H", "Long": "I"}
_READERS: Final[dict[str, Callable[[bytes, int, int], tuple[Any, int]]]] = {
    "ShortStr": read_shortstr,
    "LongStr": read_longstr,
    "Table": read_table,
}
_WRITERS: Final[dict[str, Callable[[Any], bytes]]] = {
    "ShortStr": write_shortstr,
    "LongStr": write_longstr,
    "Table": write_table,
}


class _Run:
    """Neighbors of fixed size: for each octet, short or long its name, and for each octet of bits their names."""

    def __init__(self) -> None:
        self.format = ">"
        self.parts: list[str | list[str]] = []
        self.struct = Struct(">")

    def add(self, name: str, kind: str) -> None:
        last = self.parts[-1] if self.parts else None
        if kind == "Bit" and isinstance(last, list) and len(last) < 8:
            last.append(name)
            return
        self.format += _FIXED.get(kind, "B")
        self.parts.append([name] if kind == "Bit" else name)
        self.struct = Struct(self.format)

    def read(self, data: bytes, at: int, end: int, values: dict[str, Any]) -> int:
        stop = at + self.struct.size
        if stop > end:
            raise DecodeError(f"it ends within {self.parts[0]}")
        for part, value in zip(self.parts, self.struct.unpack_from(data, at), strict=True):
            if isinstance(part, str):
                values[part] = value
            else:
                for place, name in enumerate(part):
                    values[name] = value >> place & 1 == 1
        return stop

    def write(self, record: Record) -> bytes:
        try:
            return self.struct.pack(*(self._value(record, part) for part in self.parts))
        except OutOfRange:
            values = {part: getattr(record, part) for part in self.parts if isinstance(part, str)}
            raise EncodeError(f"one of {values} is out of range") from None

    @staticmethod
    def _value(record: Record, part: str | list[str]) -> int:
        if isinstance(part, str):
            return getattr(record, part)  # type: ignore[no-any-return]
        return sum(1 << place for place, name in enumerate(part) if getattr(record, name))


@dataclass_transform(kw_only_default=True, eq_default=True)
class Record:
    """The base of commands, and of the head of a message."""

    _steps: ClassVar[tuple[_Run | tuple[str, str], ...]] = ()

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        dataclass(kw_only=True)(cls)
        steps: list[_Run | tuple[str, str]] = []
        for one in fields(cls):  # type: ignore[arg-type]
            kind = str(one.type)
            if kind in _READERS:
                steps.append((one.name, kind))
                continue
            if not steps or not isinstance(steps[-1], _Run):
                steps.append(_Run())
            run = steps[-1]
            assert isinstance(run, _Run)
            run.add(one.name, kind)
        cls._steps = tuple(steps)

    @classmethod
    def read(cls, data: bytes, at: int, end: int) -> tuple[Self, int]:
        """Return the record that begins at `at`, and the offset where it ends.

        Raises:
            DecodeError: the record runs past `end`, or a field is malformed.
        """
        values: dict[str, Any] = {}
        for step in cls._steps:
            if isinstance(step, _Run):
                at = step.read(data, at, end, values)
            else:
                name, kind = step
                try:
                    values[name], at = _READERS[kind](data, at, end)
                except DecodeError as error:
                    raise DecodeError(f"{name}: {error}") from None
        return cls(**values), at

    def write(self) -> bytes:
        """Encode the fields.

        Raises:
            EncodeError: a field does not fit its type; the message names the field.
        """
        parts = []
        for step in self._steps:
            if isinstance(step, _Run):
                parts.append(step.write(self))
            else:
                name, kind = step
                try:
                    parts.append(_WRITERS[kind](getattr(self, name)))
                except EncodeError as error:
                    raise EncodeError(f"{name}: {error}") from None
        return b"".join(parts)
