"""Composite types: one declaration of the fields, from which class, encoder and decoder follow (§1.3, §1.4).

    @composite(0x1D, "amqp:error:list")
    class Error(Composite):
        condition: str = field("symbol", mandatory=True)
        description: str | None = field("string")
        info: dict[str, Any] | None = field("map")

The decorator gives the class slots, `__init__` (every field by position or by name, every field optional, since
what is mandatory is so on the wire), `__eq__`, `__repr__`, and enters it in the registry of descriptors. Encoder
and decoder are Python functions that `_derive` writes for the class when it is declared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar

from ..errors import DecodeError
from ._codes import name_of
from ._decode import BROKEN, DEFAULT_LIMITS, Data, Limits, broken, room_for, skip
from ._encode import WRITERS, encode
from ._keyed import Keys
from ._readers import READERS, Reader
from ._values import TYPE_NAMES, Described, Symbol, ULong


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a composite, as declared.

    Attributes:
        name: the Python name; on the wire a field has only its place.
        type: the AMQP type by name, or "*" for any.
        default: what null means; None when it means that there is no value.
        mandatory: null is an error.
        multiple: a tuple on our side; an array on the wire, null when empty; one bare value is read, too.
        requires: for "*", the archetype that a described value must provide ("source", "delivery-state", ...);
            for "map", that of the described values in it.
        choices: the words of a restricted type and their numbers; on our side the word is the value.
        keys: of a "map", what its keys are: "symbol" (§2.8.13); "annotation", a symbol or ulong (§3.2.10); None: any.
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
        """The name as the specification writes it."""
        return self.name.rstrip("_").replace("_", "-")

    @property
    def absent(self) -> Any:
        """The value of the field where null was read, or nothing."""
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

    Fields of a restricted type have its source's type: "uint" for milliseconds, "boolean" for role.
    """
    return Field("", type, default, mandatory, multiple, requires, choices, keys)


class Composite:
    """The base of all composite types.

    Attributes:
        descriptor_code: the numeric descriptor.
        descriptor_name: the symbolic descriptor.
        fields: the declared fields, in wire order.
        provides: the archetypes that the type provides, for fields that require one.
    """

    __slots__ = ()

    descriptor_code: ClassVar[int]
    descriptor_name: ClassVar[Symbol]
    fields: ClassVar[tuple[Field, ...]]
    provides: ClassVar[tuple[str, ...]] = ()

    if TYPE_CHECKING:

        def encode_to(self, out: bytearray) -> None:
            """Append the encoding: trailing nulls left out, a value equal to its default written as null.

            Raises:
                EncodeError: a mandatory field is None, or a value is not of its field's type; `out` is unchanged.
            """

    def encode(self) -> bytes:
        """Encode the composite as a described list.

        Raises:
            EncodeError: a mandatory field is None, or a value is not of its field's type.
        """
        out = bytearray()
        self.encode_to(out)
        return bytes(out)

    @classmethod
    def decode(cls, data: Data, limits: Limits = DEFAULT_LIMITS) -> Self:
        """Decode `data`, which must be exactly one value of this type.

        Raises:
            DecodeError: it is something else, or breaks the type's rules; type and field are named.
        """
        value, end = decode_composite(data, 0, limits)
        if type(value) is not cls:
            raise DecodeError(f"expected {cls.descriptor_name}, found {_what(value)}")
        if end != len(data):
            raise DecodeError(f"{len(data) - end} octets follow the {cls.descriptor_name}")
        return value

    @classmethod
    def from_described(cls, described: Described) -> Self:
        """Convert a value that was decoded as a plain `Described` to this type.

        Raises:
            DecodeError: it is something else, or breaks the type's rules.
        """
        return cls.decode(encode(described))


def _what(value: object) -> str:
    if isinstance(value, Composite):
        return value.descriptor_name
    return f"the descriptor {value.descriptor!r}" if isinstance(value, Described) else type(value).__name__


WRITERS[Composite] = lambda out, value: value.encode_to(out)

# From the descriptor to the decoder of what it describes.
_BY_CODE: Final[dict[Any, Reader]] = {}
_BY_NAME: Final[dict[Any, Reader]] = {}
# From either descriptor to the type.
_TYPES: Final[dict[Any, type[Composite]]] = {}


def is_taken(code: int, name: str) -> bool:
    """Return whether a type has one of these descriptors."""
    return code in _BY_CODE or name in _BY_NAME


def register(cls: type[Composite], reader: Reader) -> None:
    """Enter a type, and the reader for what follows its descriptor, under both of its descriptors."""
    code, name = cls.descriptor_code, cls.descriptor_name
    provided.update(cls.provides)
    _BY_CODE[code] = _BY_NAME[name] = reader
    _TYPES[code] = _TYPES[name] = cls


C = TypeVar("C", bound=Composite)

# The archetypes that composites provide: where one is required, a value of no composite type is refused.
provided: Final[set[str]] = set()

# These are the types of fields rather than archetypes: there are no others to come that would provide them.
CLOSED: Final = frozenset({"error"})


def decode_composite(data: Data, at: int = 0, limits: Limits = DEFAULT_LIMITS) -> tuple[Composite | Described, int]:
    """Decode the described value that begins at the offset `at`; return it and the offset after it.

    A value whose descriptor (number or symbol) is that of a known composite becomes an instance of its class,
    any other a `Described`.

    Raises:
        DecodeError: there is no valid described value at `at`, it breaks the rules of its type, or exceeds the limits.
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

    `room` is what `room_for` gave for several values of the same data together.

    Raises:
        DecodeError: it breaks the rules of the type, or exceeds the limits.
    """
    if room is None:
        room = room_for(data)
    try:
        return _BY_CODE[cls.descriptor_code](data, at, room)
    except DecodeError:
        room[0] = DEFAULT_LIMITS.max_depth  # for the next value that has the same room
        raise
    except BROKEN as e:
        room[0] = DEFAULT_LIMITS.max_depth
        raise broken(e) from None


def type_at(data: bytes, at: int) -> type[Composite] | None:
    """Return the composite type that the descriptor at `at` names, None if it names none.

    What it describes is not read, nor a descriptor that is neither number nor symbol.
    """
    code = data[at] if at < len(data) else 0
    if code not in (0x53, 0x80, 0x44, 0xA3, 0xB3):
        return None
    try:
        return _TYPES.get(READERS[code](data, at + 1, [])[0])
    except BROKEN:
        return None


def read_composite(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
    """Read the described value whose descriptor is at `at`, as a composite if its type is known."""
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
    """Return `value` as the composite that its descriptor names, or unchanged if no known type has it.

    Raises:
        DecodeError: it breaks the rules of the type that its descriptor names.
    """
    if type(value) is not Described:
        return value
    known = _BY_CODE if type(value.descriptor) is ULong else _BY_NAME if type(value.descriptor) is Symbol else ()
    return decode_composite(encode(value))[0] if value.descriptor in known else value


def check_archetype(code: int, data: bytes, at: int, archetype: str, what: str) -> None:
    """Refuse what a field that requires an archetype may not hold, before it is read (§1.4).

    Args:
        code: the constructor of the value.
        at: the offset after it.
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
    """Return whether a field that requires an archetype may hold the value (§1.4).

    A described value of no known type may, for it may be an extension's; so may any where no known type provides it.
    """
    kind = type(value)
    if kind is Described:
        known = _TYPES.get(value.descriptor) if type(value.descriptor) in (Symbol, ULong) else None
        return archetype not in CLOSED if known is None else archetype in known.provides
    return archetype in value.provides if isinstance(value, Composite) else archetype not in provided


def as_archetype(value: Any, archetype: str, what: str) -> Any:
    """Return a `Described` as the composite that its descriptor names; anything else, and an unknown one, as it is.

    Raises:
        DecodeError: the type does not provide the archetype, or the value breaks its rules.
    """
    composite = as_composite(value)
    if isinstance(composite, Composite) and archetype not in composite.provides:
        raise DecodeError(f"{what}: expected {archetype}, not a {composite.descriptor_name}")
    return composite
