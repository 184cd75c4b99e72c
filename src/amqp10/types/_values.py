"""The Python types of AMQP values that have no built-in type of their own (§1.6).

    null None          boolean bool        long int            double float        string str
    ubyte UByte        ushort UShort       uint UInt           ulong ULong         symbol Symbol
    byte Byte          short Short         int Int             float Float         char Char
    binary bytes       uuid uuid.UUID      list list           map dict or Map     array Array
    decimal32 Decimal32    decimal64 Decimal64    decimal128 Decimal128 or decimal.Decimal
    timestamp datetime.datetime (aware), or Timestamp where that cannot hold the moment

The number and text classes only name the AMQP type: `UInt(5) == 5`. Ranges are checked on encoding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar, Final, Literal, get_args

from .._arguments import without_secrets

TypeName = Literal[
    "null",
    "boolean",
    "ubyte",
    "ushort",
    "uint",
    "ulong",
    "byte",
    "short",
    "int",
    "long",
    "float",
    "double",
    "decimal32",
    "decimal64",
    "decimal128",
    "char",
    "timestamp",
    "uuid",
    "binary",
    "string",
    "symbol",
    "list",
    "map",
    "array",
]
TYPE_NAMES: Final[tuple[str, ...]] = get_args(TypeName)


class _Integer(int):
    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({int.__repr__(self)})"

    def __str__(self) -> str:
        return int.__repr__(self)


class UByte(_Integer):
    """An unsigned integer of 8 bits (§1.6.3)."""

    __slots__ = ()


class UShort(_Integer):
    """An unsigned integer of 16 bits (§1.6.4)."""

    __slots__ = ()


class UInt(_Integer):
    """An unsigned integer of 32 bits (§1.6.5)."""

    __slots__ = ()


class ULong(_Integer):
    """An unsigned integer of 64 bits (§1.6.6)."""

    __slots__ = ()


class Byte(_Integer):
    """A signed integer of 8 bits (§1.6.7)."""

    __slots__ = ()


class Short(_Integer):
    """A signed integer of 16 bits (§1.6.8)."""

    __slots__ = ()


class Int(_Integer):
    """A signed integer of 32 bits (§1.6.9). A plain `int` is a long, of 64 bits (§1.6.10)."""

    __slots__ = ()


class Timestamp(_Integer):
    """A moment that `datetime` cannot hold, before year 1 or after 9999, in ms since 1970-01-01 UTC (§1.6.17)."""

    __slots__ = ()


class Float(float):
    """A binary floating point number of 32 bits (§1.6.11). A plain `float` is a double, of 64 bits (§1.6.12)."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Float({float.__repr__(self)})"

    def __str__(self) -> str:
        return float.__repr__(self)


class _Decimal(Decimal):
    """A decimal number. A signaling NaN equals nothing; `Decimal` raises, and a peer may send one in any value."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        try:
            return super().__eq__(other)
        except InvalidOperation:
            return False

    def __ne__(self, other: object) -> bool:
        try:
            return super().__ne__(other)
        except InvalidOperation:
            return True

    def __hash__(self) -> int:
        return super().__hash__()

    def __repr__(self) -> str:
        return f"{type(self).__name__}('{self}')"


class Decimal32(_Decimal):
    """A decimal number of 7 digits (§1.6.13)."""

    __slots__ = ()


class Decimal64(_Decimal):
    """A decimal number of 16 digits (§1.6.14)."""

    __slots__ = ()


class Decimal128(_Decimal):
    """A decimal number of 34 digits (§1.6.15). A plain `decimal.Decimal` is written as this."""

    __slots__ = ()


class Char(str):
    """One Unicode character (§1.6.16)."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Char({str.__repr__(self)})"


class Symbol(str):
    """ASCII text from a constrained domain (§1.6.21). It equals the same text as `str`, also as a key of a dict."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Symbol({str.__repr__(self)})"


class Described:
    """A value with a descriptor of unknown meaning (§1.2).

    By the specification, `descriptor` is a `ULong` or a `Symbol`; any other descriptor that was read is kept.
    """

    __slots__ = ("descriptor", "value")
    __match_args__ = ("descriptor", "value")

    def __init__(self, descriptor: Any, value: Any) -> None:
        self.descriptor: Any = descriptor
        self.value: Any = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Described):
            return NotImplemented
        return bool(self.descriptor == other.descriptor and self.value == other.value)

    def __hash__(self) -> int:
        return hash((self.descriptor, self.value))

    def __repr__(self) -> str:
        return f"Described({self.descriptor!r}, {self.value!r})"


class Array(list[Any]):
    """A sequence of values of one AMQP type (§1.6.24).

    Attributes:
        type: the AMQP type of every element, by its name in the specification: "uint", "symbol", "list", ...
        descriptors: the common descriptor of described elements; several for descriptions of descriptions, the
            outermost first. The elements themselves are undescribed.

    Elements may be plain numbers and text: `Array("ushort", [1, 2])`, `Array("symbol", ["a"])`.
    """

    __slots__ = ("descriptors", "type")

    def __init__(self, type: TypeName, items: Iterable[Any] = (), descriptors: Iterable[Any] = ()) -> None:  # noqa: A002
        if type not in TYPE_NAMES:
            raise ValueError(f"{without_secrets(type)} is not an AMQP type; the types are {', '.join(TYPE_NAMES)}")
        super().__init__(items)
        self.type: TypeName = type
        self.descriptors: tuple[Any, ...] = tuple(descriptors)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Array):
            return self.type == other.type and self.descriptors == other.descriptors and list.__eq__(self, other)
        return list.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Array, (self.type, list(self), self.descriptors)

    def __repr__(self) -> str:
        described = f", descriptors={self.descriptors!r}" if self.descriptors else ""
        return f"Array({self.type!r}, {list.__repr__(self)}{described})"


class Map:
    """A map whose keys a `dict` cannot hold side by side: `UInt(1)` and `Int(1)`, or a list (§1.6.23).

    An ordered sequence of `(key, value)` pairs; a lookup compares the AMQP type and value of keys.
    """

    __slots__ = ("pairs",)

    def __init__(self, pairs: Iterable[tuple[Any, Any]] = ()) -> None:
        self.pairs: list[tuple[Any, Any]] = list(pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self.pairs)

    def items(self) -> list[tuple[Any, Any]]:
        """Return the pairs in order."""
        return list(self.pairs)

    def __getitem__(self, key: Any) -> Any:
        for candidate, value in self.pairs:
            if type(candidate) is type(key) and candidate == key:
                return value
        raise KeyError(key)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Map):
            return NotImplemented
        return self.pairs == other.pairs

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Map({self.pairs!r})"
