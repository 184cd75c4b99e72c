"""Composite types: class, encoder and decoder from one declaration of the fields (§1.3, §1.4).

    @composite(0x1D, "amqp:error:list")
    class Error(Composite):
        condition: str = field("symbol", mandatory=True)
        description: str | None = field("string")
        info: dict[str, Any] | None = field("map")

The decorator gives the class slots, `__init__`, `__eq__` and `__repr__`, and registers its descriptors. `__init__`
takes fields by position or name, all optional: mandatory fields are only checked on encoding. `_codegen` writes the
encoder and decoder as Python functions when the class is declared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar

from ..errors import DecodeError
from ._constructors import name_of
from ._decode import BROKEN, DEFAULT_LIMITS, Data, Limits, broken, room_for, skip
from ._encode import WRITERS, encode
from ._keyed import Keys
from ._read_primitive import READERS, Reader
from ._values import TYPE_NAMES, Described, Symbol, ULong


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a composite, as declared.

    Attributes:
        name: the Python name; on the wire a field has only its place.
        type: the AMQP type by name, or "*" for any.
        default: the value that null stands for; None if null means no value.
        mandatory: null is an error.
        multiple: a tuple in Python, an array on the wire, null if empty; a single bare value is also read.
        requires: for "*", the archetype that a described value must provide ("source", "delivery-state", ...);
            for "map", the archetype of described values in the map.
        choices: the names of a restricted type and their numbers; in Python the name is the value.
        keys: the kind of keys of a "map": "symbol" (§2.8.13), "annotation" for symbol or ulong (§3.2.10), None for any.
    """

    name: str
    type: str
    default: Any = None
    mandatory: bool = False
    multiple: bool = False
    requires: str | None = None
    choices: Mapping[str, Any] | None = None
    keys: Keys | None = None

    def __post_init__(self) -> None:
        if self.type != "*" and self.type not in TYPE_NAMES:
            raise ValueError(f"the field {self.name} has the unknown type {self.type!r}")
        if self.multiple and (self.type in ("*", "null") or self.choices or self.default is not None):
            raise ValueError(f"the multiple field {self.name} needs one plain type")
        if self.requires is not None and self.choices:
            raise ValueError(f"the field {self.name} cannot have both requires and choices")
        if self.keys is not None and self.type != "map":
            raise ValueError(f"keys need a field of type map, which {self.name} is not")

    @property
    def wire_name(self) -> str:
        """The name in the specification's spelling."""
        return self.name.rstrip("_").replace("_", "-")

    @property
    def absent(self) -> Any:
        """The value of the field if null was read, or nothing."""
        return () if self.multiple else self.default


def field(
    type: str,  # noqa: A002
    *,
    default: Any = None,
    mandatory: bool = False,
    multiple: bool = False,
    requires: str | None = None,
    choices: Mapping[str, Any] | None = None,
    keys: Keys | None = None,
) -> Any:
    """Declare a field in the body of a composite class; `Field` explains the arguments.

    A field of a restricted type takes the source type: "uint" for milliseconds, "boolean" for role.
    """
    return Field("", type, default, mandatory, multiple, requires, choices, keys)


class Composite:
    """The base class of composite types.

    Attributes:
        descriptor_code: the numeric descriptor.
        descriptor_name: the symbolic descriptor.
        fields: the declared fields, in wire order.
        provides: the archetypes that the type provides (§1.4).
    """

    __slots__ = ()

    descriptor_code: ClassVar[int]
    descriptor_name: ClassVar[Symbol]
    fields: ClassVar[tuple[Field, ...]]
    provides: ClassVar[tuple[str, ...]] = ()

    if TYPE_CHECKING:

        def encode_to(self, out: bytearray) -> None:
            """Append the encoding to `out`: trailing nulls are omitted, and default values are written as null.

            Raises:
                EncodeError: a mandatory field is None, or a value has the wrong type; `out` is unchanged.
            """

    def encode(self) -> bytes:
        """Encode the composite as a described list.

        Raises:
            EncodeError: a mandatory field is None, or a value has the wrong type.
        """
        out = bytearray()
        self.encode_to(out)
        return bytes(out)

    @classmethod
    def decode(cls, data: Data, limits: Limits = DEFAULT_LIMITS) -> Self:
        """Decode `data`, which must be exactly one value of this type.

        Raises:
            DecodeError: `data` is another value, or breaks the type's rules. The message names the type and the field.
        """
        value, end = decode_composite(data, 0, limits)
        if type(value) is not cls:
            raise DecodeError(f"expected {cls.descriptor_name}, found {_what(value)}")
        if end != len(data):
            raise DecodeError(f"{len(data) - end} octets follow the {cls.descriptor_name}")
        return value

    @classmethod
    def from_described(cls, described: Described) -> Self:
        """Convert a plain `Described` to this type.

        Raises:
            DecodeError: `described` has another descriptor, or breaks the type's rules.
        """
        return cls.decode(encode(described))


def _what(value: object) -> str:
    if isinstance(value, Composite):
        return value.descriptor_name
    return f"the descriptor {value.descriptor!r}" if isinstance(value, Described) else type(value).__name__


WRITERS[Composite] = lambda out, value: value.encode_to(out)

# The reader of the described value, by descriptor.
_BY_CODE: Final[dict[Any, Reader]] = {}
_BY_NAME: Final[dict[Any, Reader]] = {}
# The type, by either of its descriptors.
_TYPES: Final[dict[Any, type[Composite]]] = {}


def is_taken(code: int, name: str) -> bool:
    """Return whether a type is registered for one of the descriptors."""
    return code in _BY_CODE or name in _BY_NAME


def register(cls: type[Composite], reader: Reader) -> None:
    """Register a type and its reader, which begins after the descriptor, under both descriptors."""
    code, name = cls.descriptor_code, cls.descriptor_name
    provided.update(cls.provides)
    _BY_CODE[code] = _BY_NAME[name] = reader
    _TYPES[code] = _TYPES[name] = cls


C = TypeVar("C", bound=Composite)

# The archetypes that composites provide. A field that requires one of them refuses values that are not composites.
provided: Final[set[str]] = set()

# Field types rather than archetypes: no extension may provide them.
CLOSED: Final = frozenset({"error"})


def decode_composite(data: Data, at: int = 0, limits: Limits = DEFAULT_LIMITS) -> tuple[Composite | Described, int]:
    """Decode the described value that begins at the offset `at`; return it and the offset after it.

    A value whose descriptor (code or symbol) belongs to a known composite becomes an instance of its class, any other a
    `Described`.

    Raises:
        DecodeError: no valid described value is at `at`, or the value breaks its type's rules or exceeds the limits.
    """
    if type(data) is not bytes:
        end = skip(data, at)
        return decode_composite(bytes(data[at:end]), 0, limits)[0], end
    try:
        if data[at]:
            raise DecodeError(f"a described value was expected, found {name_of(data[at])}")
        return read_composite(data, at + 1, room_for(data, limits))
    except BROKEN as e:
        raise broken(e) from None


def decode_fields(cls: type[C], data: bytes, at: int, room: list[int] | None = None) -> tuple[C, int]:
    """Decode the list of fields at the offset `at`, after the descriptor, as an instance of `cls`.

    `room` is the result of `room_for`, shared by several values of the same data.

    Raises:
        DecodeError: the list breaks the type's rules, or exceeds the limits.
    """
    if room is None:
        room = room_for(data)
    try:
        return _BY_CODE[cls.descriptor_code](data, at, room)
    except DecodeError:
        room[0] = DEFAULT_LIMITS.max_depth  # for the next value that shares `room`
        raise
    except BROKEN as e:
        room[0] = DEFAULT_LIMITS.max_depth
        raise broken(e) from None


def type_at(data: bytes, at: int) -> type[Composite] | None:
    """Return the composite type whose descriptor is at `at`; None for an unknown descriptor.

    The described value is not read, nor a descriptor that is neither code nor symbol.
    """
    code = data[at] if at < len(data) else 0
    if code not in (0x53, 0x80, 0x44, 0xA3, 0xB3):
        return None
    try:
        return _TYPES.get(READERS[code](data, at + 1, [])[0])
    except BROKEN:
        return None


def read_composite(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    """Read the described value whose descriptor is at `at`, as a composite if the type is known."""
    start = at
    if data[at] == 0x53:
        reader = _BY_CODE.get(data[at + 1])
        at += 2
    else:
        descriptor, at = READERS[data[at]](data, at + 1, room)
        if type(descriptor) is ULong:
            reader = _BY_CODE.get(descriptor)
        elif type(descriptor) is Symbol:
            reader = _BY_NAME.get(descriptor)
        else:
            reader = None
    if reader is not None:
        return reader(data, at, room)
    return READERS[0](data, start, room)


def as_composite(value: Any) -> Any:
    """Return `value` as the composite that its descriptor names, or unchanged if the descriptor is unknown.

    Raises:
        DecodeError: `value` breaks the rules of that type.
    """
    if type(value) is not Described:
        return value
    known = _BY_CODE if type(value.descriptor) is ULong else _BY_NAME if type(value.descriptor) is Symbol else ()
    return decode_composite(encode(value))[0] if value.descriptor in known else value


def check_archetype(code: int, data: bytes, at: int, archetype: str, what: str) -> None:
    """Refuse, before reading it, a value that a field of this archetype may not hold (§1.4).

    Args:
        code: the constructor of the value.
        at: the offset after the constructor.
    """
    if code:
        if archetype in provided:
            raise DecodeError(f"{what}: expected {archetype}, not a {name_of(code)}")
        return
    kind = type_at(data, at)
    if kind is None and archetype in CLOSED:
        raise DecodeError(f"{what}: expected {archetype}, not a described value of an unknown type")
    if kind is not None and archetype not in kind.provides:
        raise DecodeError(f"{what}: expected {archetype}, not a {kind.descriptor_name}")


def provides(value: Any, archetype: str) -> bool:
    """Return whether a field that requires `archetype` may hold `value` (§1.4).

    It may hold a described value of an unknown type, which an extension may define, and any value if no known type
    provides `archetype`.
    """
    kind = type(value)
    if kind is Described:
        known = _TYPES.get(value.descriptor) if type(value.descriptor) in (Symbol, ULong) else None
        return archetype not in CLOSED if known is None else archetype in known.provides
    return archetype in value.provides if isinstance(value, Composite) else archetype not in provided


def as_archetype(value: Any, archetype: str, what: str) -> Any:
    """Return a `Described` as the composite that its descriptor names; return any other value unchanged.

    Raises:
        DecodeError: the type does not provide the archetype, or the value breaks its rules.
    """
    composite = as_composite(value)
    if isinstance(composite, Composite) and archetype not in composite.provides:
        raise DecodeError(f"{what}: expected {archetype}, not a {composite.descriptor_name}")
    return composite
