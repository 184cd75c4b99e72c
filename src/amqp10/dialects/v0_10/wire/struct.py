"""Declarations of controls, commands and structs; encoder and decoder follow from them (0-10 §3.7 "Packing").

    class MessageAccept(Command, code=0x0402, name="message.accept"):
        transfers: Ranges = field("sequence-set", required=True)

Fields come packed, after a set of flags: bit i for field i, counted from the lowest bit of the first octet. A field
whose flag is 0 is absent and takes up no octets. A field of type bit consists of its flag alone.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct as Layout
from typing import Any, ClassVar, Final, Self, dataclass_transform

from ....errors import DecodeError, EncodeError
from ..._kit.fields import Field, Fields
from .values import (
    _COMPOUNDS,
    STRUCT32,
    Array010,
    Raw,
    encode_map,
    encode_value,
    extent,
    read_array,
    read_map,
    read_value,
    sized8,
    sized16,
    sized32,
    text,
)

Ranges = tuple[tuple[int, int], ...]
"""A sequence-set, or byte-ranges: lower and upper bound of each range, both included."""


def field(type: str, *, required: bool = False, default: Any = None) -> Any:  # noqa: A002
    """Declare a field in the body of a class; see `Field`."""
    return Field("", type, False if type == "bit" else default, required)


@dataclass_transform()
class Packed(Fields):
    """The base of controls, commands and structs: a sequence of fields.

    Attributes:
        spec_code: class code and own code, as two octets; 0 for a struct without one.
        spec_name: the specification's name, such as "message.transfer".
        size_width: octets of the size before the fields; 0 for controls and commands.
        pack_width: octets of flags; 0: every field is present.
    """

    spec_code: ClassVar[int] = 0
    spec_name: ClassVar[str]
    size_width: ClassVar[int] = 0
    pack_width: ClassVar[int] = 2
    _codecs: ClassVar[tuple[tuple[int, str, Any, Any, bool], ...]]
    _flags_known: ClassVar[int]

    def __init_subclass__(cls, *, name: str = "", code: int = 0) -> None:
        if not name:
            return  # the base of a kind
        super().__init_subclass__()
        cls.spec_name, cls.spec_code = name, code
        cls._flags_known = (1 << len(cls.fields)) - 1
        codecs = []
        for place, each in enumerate(cls.fields):
            write, read = _CODECS[each.type] if each.type in _CODECS else _of_struct(_BY_NAME[each.type])
            codecs.append((1 << place, each.name, write, read, each.required))
        cls._codecs = tuple(codecs)

    def encode_fields(self) -> bytes:
        """Encode flags and fields.

        Raises:
            EncodeError: a required field is None, or a value does not fit its field.
        """
        flags = 0
        parts = [b""]
        for flag, name, write, _, required in self._codecs:
            value = getattr(self, name)
            if write is None:  # a bit
                if value:
                    flags |= flag
            elif value is not None:
                flags |= flag
                try:
                    parts.append(write(value))
                except (TypeError, AttributeError, ValueError) as error:
                    raise EncodeError(f"{self.spec_name}.{name}: {error}") from None
            elif required or not self.pack_width:
                raise EncodeError(f"{self.spec_name}.{name} is required")
        parts[0] = flags.to_bytes(self.pack_width, "little")
        return b"".join(parts)

    @classmethod
    def decode_fields(cls, data: bytes, at: int, end: int) -> Self:
        """Decode the fields between `at` and `end`, which they must fill completely.

        Raises:
            DecodeError: a field is malformed, missing, or unknown.
        """
        width = cls.pack_width
        if at + width > end:
            raise DecodeError(f"{cls.spec_name} ends within its packing flags")
        flags = int.from_bytes(data[at : at + width], "little") if width else cls._flags_known
        if flags & ~cls._flags_known:
            raise DecodeError(f"{cls.spec_name} has packing flags of unknown fields: 0x{flags:x}")
        at += width
        found = cls.__new__(cls)
        try:
            for flag, name, write, read, required in cls._codecs:
                if not flags & flag:
                    if required and cls._defaults[name] is None:
                        raise DecodeError(f"{cls.spec_name}.{name} is required")
                elif write is None:
                    setattr(found, name, True)
                else:
                    value, at = read(data, at)
                    setattr(found, name, value)
        except IndexError:
            raise DecodeError(f"{cls.spec_name} ends within a field") from None
        if at != end:
            raise DecodeError(
                f"{cls.spec_name}: its fields end {abs(end - at)} octets {'early' if at < end else 'late'}"
            )
        return found


class Control(Packed):
    """A control of a connection or session; controls have no numbers."""

    def __init_subclass__(cls, *, name: str, code: int) -> None:
        super().__init_subclass__(name=name, code=code)
        CONTROLS[code] = cls

    def encode(self) -> bytes:
        """Encode the payload of the control's frame."""
        return self.spec_code.to_bytes(2, "big") + self.encode_fields()


class Command(Packed):
    """A command of a session: it has a number, and the peer completes it.

    Attributes:
        result: the name of the struct that `execution.result` brings; None: the command has no result.
        has_content: header and body segments may follow.
        sync: the peer wants to know soon that the command is completed.
    """

    sync = False
    result: ClassVar[str | None] = None
    has_content: ClassVar[bool] = False

    def __init_subclass__(cls, *, name: str, code: int, result: str | None = None, content: bool = False) -> None:
        super().__init_subclass__(name=name, code=code)
        cls.result, cls.has_content = result, content
        COMMANDS[code] = cls

    def encode(self, sync: bool = False) -> bytes:
        """Encode the payload of the command's segment, with the session header."""
        return self.spec_code.to_bytes(2, "big") + (b"\1\1" if sync else b"\1\0") + self.encode_fields()


class Struct(Packed):
    """A struct: fields within a field, map or header segment. Its name is a type for fields."""

    size_width: ClassVar[int] = 4
    pack_width: ClassVar[int] = 2

    def __init_subclass__(cls, *, name: str, code: int = 0, size_width: int = 4, pack_width: int = 2) -> None:
        super().__init_subclass__(name=name, code=code)
        cls.size_width, cls.pack_width = size_width, pack_width
        _BY_NAME[name] = cls
        if code:
            STRUCTS[code] = cls

    def encode(self) -> bytes:
        """Encode size, code if the struct has one, flags and fields."""
        coded = (self.spec_code.to_bytes(2, "big") if self.spec_code else b"") + self.encode_fields()
        return len(coded).to_bytes(self.size_width, "big") + coded if self.size_width else coded

    def encode_struct32(self) -> bytes:
        """Encode the struct as the content of a struct32, with its size and code.

        Raises:
            EncodeError: the struct does not have a code, or a field cannot be encoded.
        """
        if not self.spec_code:
            raise EncodeError(f"{self.spec_name} has no code")
        return sized32(self.spec_code.to_bytes(2, "big") + self.encode_fields())


CONTROLS: Final[dict[int, type[Control]]] = {}
COMMANDS: Final[dict[int, type[Command]]] = {}
STRUCTS: Final[dict[int, type[Struct]]] = {}
_BY_NAME: Final[dict[str, type[Struct]]] = {}

# The codecs of fields: a function that writes a value, and one that reads it at an offset.


def _fixed(layout: str) -> tuple[Callable[[Any], bytes], Callable[[bytes, int], tuple[Any, int]]]:
    packer = Layout(layout)

    def write(value: Any) -> bytes:
        try:
            return packer.pack(value)
        except Exception as error:  # struct.error is its own kind
            raise EncodeError(f"{value!r:.40}: {error}") from None

    def read(data: bytes, at: int) -> tuple[Any, int]:
        end = at + packer.size
        if end > len(data):
            raise DecodeError(f"{packer.size} octets expected, not {len(data) - at}")
        return packer.unpack_from(data, at)[0], end

    return write, read


def _valued(code: int, write: Callable[[Any], bytes]) -> tuple[Any, Any]:
    return write, lambda data, at: read_value(data, at, code)


def _write_ranges(width: int) -> Callable[[Ranges], bytes]:
    def write(ranges: Ranges) -> bytes:
        return sized16(b"".join(bound.to_bytes(width, "big") for each in ranges for bound in each))

    return write


def _read_ranges(width: int) -> Callable[[bytes, int], tuple[Ranges, int]]:
    def read(data: bytes, at: int) -> tuple[Ranges, int]:
        start, end = extent(data, at, 0x90)
        if (end - start) % (2 * width):
            raise DecodeError(f"a set of ranges cannot have {end - start} octets")
        bounds = [int.from_bytes(data[i : i + width], "big") for i in range(start, end, width)]
        return tuple(zip(bounds[::2], bounds[1::2], strict=True)), end

    return read


def _within(code: int, reader: Callable[[bytes], Any]) -> Callable[[bytes, int], tuple[Any, int]]:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        start, end = extent(data, at, code)
        return reader(data[start:end]), end

    return read


def read_struct32(data: bytes, depth: int = 0) -> Struct | Raw | None:
    """Decode the content of a struct32, after its size; keep it as `Raw` if its code is not known.

    Raises:
        DecodeError: the content breaks the rules of its struct.
    """
    if not data:
        return None
    if len(data) < 2:
        raise DecodeError("a struct32 ends within its code")
    kind = STRUCTS.get(int.from_bytes(data[:2], "big"))
    return kind.decode_fields(data, 2, len(data)) if kind is not None else Raw(STRUCT32, data)


_COMPOUNDS[STRUCT32] = read_struct32


def _write_struct32(value: Struct | Raw) -> bytes:
    return sized32(value.octets) if isinstance(value, Raw) else value.encode_struct32()


def _write_array(value: Any) -> bytes:
    return encode_value(value if isinstance(value, Array010) else Array010(0x95, value))[1]


_CODECS: Final[dict[str, tuple[Any, Any]]] = {
    "uint8": _fixed(">B"),
    "uint16": _fixed(">H"),
    "uint32": _fixed(">I"),
    "uint64": _fixed(">Q"),
    "sequence-no": _fixed(">I"),
    "datetime": _fixed(">q"),
    "uuid": _valued(0x48, lambda value: value.bytes),
    "str8": _valued(0x85, lambda value: sized8(text(value))),
    "str16": _valued(0x95, lambda value: sized16(text(value))),
    "vbin8": _valued(0x80, sized8),
    "vbin16": _valued(0x90, sized16),
    "vbin32": _valued(0xA0, sized32),
    "map": (encode_map, _within(0xA8, read_map)),
    "array": (_write_array, _within(0xAA, read_array)),
    "sequence-set": (_write_ranges(4), _read_ranges(4)),
    "byte-ranges": (_write_ranges(8), _read_ranges(8)),
    "struct32": (_write_struct32, _within(STRUCT32, read_struct32)),
    "bit": (None, None),
}


def _of_struct(kind: type[Struct]) -> tuple[Any, Any]:
    if kind.size_width == 4:
        return _write_struct32, _within(STRUCT32, lambda data: _expect(kind, read_struct32(data)))
    return Struct.encode, _within({1: 0x80, 2: 0x90}[kind.size_width], lambda d: kind.decode_fields(d, 0, len(d)))


def _expect(kind: type[Struct], found: Any) -> Any:
    if type(found) is not kind:
        raise DecodeError(f"expected {kind.spec_name}, found {found!r:.80}")
    return found


def decode_control(data: bytes) -> Control:
    """Decode the control in a frame's payload.

    Raises:
        DecodeError: no control has this code, or the control is malformed.
    """
    kind = CONTROLS.get(int.from_bytes(data[:2], "big"))
    if kind is None or len(data) < 2:
        raise DecodeError(f"there is no control with the code 0x{data[:2].hex()}")
    return kind.decode_fields(data, 2, len(data))


def decode_command(data: bytes) -> Command:
    """Decode the command in a segment, and its session header into `sync`.

    Raises:
        DecodeError: no command has this code, or the command is malformed.
    """
    kind = COMMANDS.get(int.from_bytes(data[:2], "big"))
    if kind is None or len(data) < 3:
        raise DecodeError(f"there is no command with the code 0x{data[:2].hex()}")
    at = 3 + data[2]
    if at > len(data) or data[2] > 1 or (data[2] and data[3] > 1):
        raise DecodeError(f"{kind.spec_name} has a malformed session header")
    found = kind.decode_fields(data, at, len(data))
    found.sync = data[2] == 1 and data[3] == 1
    return found


def decode_header(data: bytes) -> list[Struct | Raw]:
    """Decode the structs in a header segment.

    Raises:
        DecodeError: the segment has something other than struct32 values.
    """
    found = []
    at = 0
    while at < len(data):
        value, at = read_value(data, at, STRUCT32)
        if value is not None:
            found.append(value)
    return found
