"""Makes a class of declared fields a composite type: writes its methods as Python source.

Straight code with one short block per field is several times as fast as a loop over the fields: common types need no
call and no lookup. The source of the decoder reads as

    if count == 3: break            # the fields end here; the rest keep their defaults
    code = data[at]
    if code == 0x52: f3 = data[at + 1]; at += 2
    ...
    else: raise wrong(3, code)

and that of the encoder as

    v = self.handle
    if v is None: raise missing(4)
    if n != 4: out += NULLS[4 - n]  # the nulls before this field; trailing nulls are never written
    n = 5
    ...

For a value that the short block does not handle, it calls the strict writer of the type, which raises the error.
"""

from __future__ import annotations

import linecache
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, dataclass_transform

from ..errors import DecodeError, EncodeError
from ._composite import (
    CLOSED,
    Composite,
    Field,
    as_archetype,
    check_archetype,
    is_taken,
    provides,
    read_composite,
    register,
)
from ._constructors import CODES, name_of
from ._encode import (
    BINARY_HEAD,
    STRING_HEAD,
    SYMBOL_HEAD,
    UINT_SMALL,
    ULONG_SMALL,
    WRITERS,
    Writer,
    close_compound,
    encode,
    pack_long,
    pack_octet,
    pack_short,
    pack_word,
    typed_writer,
)
from ._keyed import keyed_as_read, keyed_to_write
from ._read_compound import check_compound
from ._read_primitive import READERS, Reader, symbol_of, unpack_ulong, unpack_word, unpack_words
from ._values import Array, Described, Map, Symbol, ULong
from ._write_array import elements_writer

C = TypeVar("C", bound=Composite)

_FAILURES: Final = (TypeError, AttributeError, ValueError, ArithmeticError, LookupError, RecursionError, struct.error)


@dataclass_transform()
def composite(code: int, name: str, *, provides: tuple[str, ...] = ()) -> Callable[[type[C]], type[C]]:
    """Make a class of declared fields a composite type with the descriptors `code` and `name`.

    Raises:
        ValueError: a descriptor is already taken.
    """

    def declare(bare: type[C]) -> type[C]:
        if is_taken(code, name):
            raise ValueError(f"the descriptor 0x{code:02x} or {name} is taken")
        namespace = {key: value for key, value in vars(bare).items() if key not in ("__dict__", "__weakref__")}
        fields = []
        for key in bare.__annotations__:
            declared = namespace.get(key)
            if isinstance(declared, Field):
                del namespace[key]
                fields.append(replace(declared, name=key))
        namespace |= {
            "__slots__": tuple(each.name for each in fields),
            "__match_args__": tuple(each.name for each in fields),
            "descriptor_code": code,
            "descriptor_name": Symbol(name),
            "fields": tuple(fields),
        }
        # The body of the class may also set `provides`.
        archetypes = provides or namespace.get("provides", ())
        namespace["provides"] = archetypes
        metaclass: Any = type(bare)
        cls: type[C] = metaclass(bare.__name__, bare.__bases__, namespace)
        cls.__qualname__ = bare.__qualname__
        derived = derive(cls, defined=namespace)
        for method in derived.methods:
            setattr(cls, method.__name__, method)
        if "__hash__" not in vars(bare):
            # Equality is by value, so only an immutable composite may be hashable.
            cls.__hash__ = None if fields else _hash_of_type  # type: ignore[assignment]
        register(cls, derived.reader)
        return cls

    return declare


def _hash_of_type(self: Composite) -> int:
    return hash(type(self))


@dataclass(frozen=True, slots=True)
class Derived:
    """The generated methods of a class, and the reader of its list after the descriptor."""

    methods: list[Callable[..., Any]]
    reader: Reader


def derive(cls: type[Composite], defined: Mapping[str, Any]) -> Derived:
    """Write and compile the methods of `cls`, except those in `defined` (its own namespace)."""
    scope = _scope(cls)
    wanted = [name for name in _METHODS if name not in defined]
    source = [_decoder(cls), *(_METHODS[name](cls) for name in wanted)]
    _run("\n".join(source), f"<amqp10 {cls.__name__}>", scope)
    return Derived([scope[name] for name in wanted], scope["read"])


def values_reader(cls: type[Composite]) -> Reader:
    """Return a reader that returns the fields of `cls` as a tuple, without making the object."""
    scope = _scope(cls)
    _run(_decoder(cls, whole=False), f"<amqp10 values of {cls.__name__}>", scope)
    read: Reader = scope["read"]
    return read


def _run(source: str, name: str, scope: dict[str, Any]) -> None:
    """Run generated source under a file name that lets tracebacks and profilers show its lines."""
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    exec(compile(source, name, "exec"), scope)


def _scope(cls: type[Composite]) -> dict[str, Any]:
    """Return the globals of the source generated for `cls`."""
    scope: dict[str, Any] = {
        "cls": cls,
        "new": cls.__new__,
        "READERS": READERS,
        "WRITERS": WRITERS,
        "DecodeError": DecodeError,
        "EncodeError": EncodeError,
        "Symbol": Symbol,
        "BINARY_HEAD": BINARY_HEAD,
        "STRING_HEAD": STRING_HEAD,
        "SYMBOL_HEAD": SYMBOL_HEAD,
        "UINT_SMALL": UINT_SMALL,
        "ULONG_SMALL": ULONG_SMALL,
        "NULLS": [b"\x40" * n for n in range(len(cls.fields) + 1)],
        "HEAD": encode(Described(ULong(cls.descriptor_code), None))[:-1] + b"\xc0\0\0",
        "FAILURES": _FAILURES,
        "check_compound": check_compound,
        "close_compound": close_compound,
        "explain": _explain,
        "symbol_of": symbol_of,
        "unpack_ulong": unpack_ulong,
        "unpack_word": unpack_word,
        "unpack_words": unpack_words,
        "pack_long": pack_long,
        "pack_octet": pack_octet,
        "pack_short": pack_short,
        "pack_word": pack_word,
        "missing": lambda index: EncodeError(f"{_place(cls, index)} is mandatory"),
        "absent": lambda index: DecodeError(f"{_place(cls, index)} is mandatory, but missing"),
        "wrong": lambda index, code: _wrong(cls, index, code),
        "misfit": lambda what: DecodeError(f"{cls.descriptor_name}: {what}"),
    }
    for index, each in enumerate(cls.fields):
        scope[f"default{index}"] = each.absent
        scope[f"write{index}"] = field_writer(each)
        scope[f"special{index}"] = _special_reader(cls, index)
        if each.choices:
            scope[f"words{index}"] = {number: word for word, number in each.choices.items()}
            scope[f"numbers{index}"] = dict(each.choices)
    return scope


def _place(cls: type[Composite], index: int) -> str:
    return f"{cls.descriptor_name} {cls.fields[index].wire_name}"


def _wrong(cls: type[Composite], index: int, code: int) -> DecodeError:
    return DecodeError(f"{_place(cls, index)}: expected {cls.fields[index].type}, found {name_of(code)}")


# The ordinary methods


def _initializer(cls: type[Composite]) -> str:
    arguments = "".join(f", {each.name}=default{i}" for i, each in enumerate(cls.fields))
    body = [f"    self.{each.name} = {each.name}" for each in cls.fields] or ["    pass"]
    return "\n".join((f"def __init__(self{arguments}):", *body))


def _equality(cls: type[Composite]) -> str:
    same = "".join(f" and self.{each.name} == other.{each.name}" for each in cls.fields)
    return f"def __eq__(self, other):\n    if other.__class__ is not cls: return NotImplemented\n    return True{same}"


def _representation(cls: type[Composite]) -> str:
    lines = ["def __repr__(self):", "    shown = []"]
    for i, each in enumerate(cls.fields):
        lines.append(f"    v = self.{each.name}")
        lines.append(f"    if v is not None and v != default{i}: shown.append(f'{each.name}={{v!r}}')")
    lines.append(f"    return '{cls.__name__}(' + ', '.join(shown) + ')'")
    return "\n".join(lines)


# The encoder


def field_writer(declared: Field) -> Writer:
    """Return the writer of a field's values other than None. It raises EncodeError for a value of another type."""
    if declared.multiple:
        several = elements_writer(declared.type)

        # One value could stand alone, without an array (§1.4). Other clients write the array, and RabbitMQ 4 reads the
        # capabilities of a source only as an array.
        def write_multiple(out: bytearray, value: Any) -> None:
            if not isinstance(value, (tuple, list)):
                raise EncodeError(f"{value!r} is not a tuple")
            if value:
                several(out, value)
            else:
                out.append(0x40)

        return write_multiple
    if declared.type == "*":
        return _archetype_writer(declared.requires)
    if declared.type == "map":
        return _map_writer(declared)
    plain = typed_writer(declared.type)
    if declared.choices is None:
        return plain
    choices = declared.choices

    def write_choice(out: bytearray, value: Any) -> None:
        number = choices.get(value) if isinstance(value, str) else None
        if number is None:
            raise EncodeError(f"{value!r} is not one of {', '.join(choices)}")
        plain(out, number)

    return write_choice


def _map_writer(declared: Field) -> Writer:
    """Return the writer of a map, whose keys may be of one kind and whose described values of one archetype."""
    keys, requires, plain = declared.keys, declared.requires, typed_writer("map")

    def write(out: bytearray, value: Any) -> None:
        if isinstance(value, Mapping | Map):
            value = keyed_to_write(value, keys) if keys is not None else value
            for _, item in value.items() if requires is not None else ():
                if isinstance(item, Composite) and requires not in item.provides:
                    raise EncodeError(f"expected {requires}, not {item!r:.80}")
        plain(out, value)

    return write


def _archetype_writer(archetype: str | None) -> Writer:
    """Return the writer of a field of any type, or of the types that provide `archetype` (§1.4)."""

    def write(out: bytearray, value: Any) -> None:
        if archetype is not None and not provides(value, archetype):
            raise EncodeError(f"expected {archetype}, not {value!r:.80}")
        WRITERS[type(value)](out, value)

    return write


def _explain(self: Composite, error: Exception) -> EncodeError:
    """Return the error that names the field that could not be encoded."""
    scratch = bytearray()
    for index, each in enumerate(self.fields):
        place = _place(type(self), index)
        try:
            value = getattr(self, each.name)
            if value is not None:
                field_writer(each)(scratch, value)
        except EncodeError as e:
            return EncodeError(f"{place}: {e}")
        except RecursionError:
            return EncodeError(f"{place}: the value is nested too deeply, or contains itself")
        except AttributeError:
            return EncodeError(f"{place} was never set")
    return error if isinstance(error, EncodeError) else EncodeError(f"{self.descriptor_name}: {error}")


def _encoder(cls: type[Composite]) -> str:
    lines = ["def encode_to(self, out):", "    start = len(out)"]
    if not cls.fields:
        return "\n".join((*lines[:1], "    out += HEAD[:-3]", "    out.append(0x45)"))
    lines += ["    try:", "        out += HEAD", "        n = 0"]
    for index, each in enumerate(cls.fields):
        lines += ["        " + line for line in _write_field(index, each)]
    lines += [
        "        if n: close_compound(out, start + len(HEAD) - 3, n)",
        "        else: out[-3:] = b'\\x45'",
        "    except EncodeError as e:",
        "        del out[start:]",
        "        raise explain(self, e) from None",
        "    except FAILURES as e:",
        "        del out[start:]",
        "        raise explain(self, e) from e",
    ]
    return "\n".join(lines)


def _write_field(index: int, each: Field) -> list[str]:
    lead = [f"if n != {index}: out += NULLS[{index} - n]", f"n = {index + 1}"]
    if index == 0:
        lead = lead[1:]

    def block(condition: str, *body: str) -> list[str]:
        return [condition, *("    " + line for line in (*lead, *body))]

    lines = [f"v = self.{each.name}"]
    if each.mandatory:
        lines.append(f"if {'not v' if each.multiple else 'v is None'}: raise missing({index})")
    strict = f"write{index}(out, v)"
    differs = f"v != default{index}"
    given = "v is not None" if each.default is None else f"v is not None and (v.__class__ is bool or {differs})"
    if each.multiple:
        return lines + block("if v:", strict)
    if each.choices:
        return lines + block(f"if v is not None and {differs}:", strict)
    if each.type == "boolean":
        true = ["if v is True: pass"] if each.default is True else block("if v is True:", "out.append(0x41)")
        false = ["elif v is False: pass"] if each.default is False else block("elif v is False:", "out.append(0x42)")
        return lines + true + false + block("elif v is not None:", strict)
    fast = _FAST_WRITES.get(each.type)
    if fast is None or (each.type == "*" and each.requires not in _PLAIN_ARCHETYPES):
        return lines + block(f"if {given}:", strict)
    classes, body = fast
    usual = " or ".join(f"v.__class__ is {python}" for python in classes.split())
    unusual = f"elif {given}:"
    if each.default is None:
        return lines + block(f"if {usual}:", *body) + block(unusual, strict)
    # A value equal to the default is omitted, but False is not 0.
    return [
        *lines,
        f"if {usual}:",
        *("    " + line for line in block(f"if {differs}:", *body)),
        *block(unusual, strict),
    ]


def _octets_write(head: str, code: int, raw: str) -> list[str]:
    return [
        f"v = {raw}",
        "k = len(v)",
        f"if k < 256: out += {head}[k]",
        f"else: out += pack_word({code:#x}, k)",
        "out += v",
    ]


_FAST_WRITES: Final[dict[str, tuple[str, Sequence[str]]]] = {
    "ubyte": ("int", ["out += pack_octet(0x50, v)"]),
    "ushort": ("int", ["out += pack_short(0x60, v)"]),
    "uint": ("int", ["if 0 <= v < 256: out += UINT_SMALL[v]", "else: out += pack_word(0x70, v)"]),
    "ulong": ("int", ["if 0 <= v < 256: out += ULONG_SMALL[v]", "else: out += pack_long(0x80, v)"]),
    "string": ("str", _octets_write("STRING_HEAD", 0xB1, "v.encode()")),
    "symbol": ("str Symbol", _octets_write("SYMBOL_HEAD", 0xB3, "v.encode('ascii')")),
    "binary": ("bytes", _octets_write("BINARY_HEAD", 0xB0, "v")),
    "*": ("str", _octets_write("STRING_HEAD", 0xB1, "v.encode()")),
}


_METHODS: Final[dict[str, Callable[[type[Composite]], str]]] = {
    "__init__": _initializer,
    "__eq__": _equality,
    "__repr__": _representation,
    "encode_to": _encoder,
}


# The decoder


def _decoder(cls: type[Composite], *, whole: bool = True) -> str:
    fields = cls.fields
    lines = [
        "def read(data, at, room):",
        "    code = data[at]",
        "    if code == 0xC0:",
        "        end = at + 2 + data[at + 1]",
        "        count = data[at + 2]",
        "        at += 3",
        "    elif code == 0x45:",
        "        count = 0",
        "        at += 1",
        "        end = at",
        "    elif code == 0xD0:",
        "        size, count = unpack_words(data, at + 1)",
        "        end = at + 5 + size",
        "        at += 9",
        "    else:",
        "        raise misfit('its value is not a list')",
        "    if end > len(data) or count > end - at: check_compound(data, at, end, count)",
        f"    if count > {len(fields)}: raise misfit(f'{{count}} fields, where there are {len(fields)} at most')",
    ]
    nests = any(each.type in ("*", "list", "map", "array") for each in fields)
    if nests:
        lines += ["    if not room[0]: raise misfit('nested too deeply')", "    room[0] -= 1"]
    lines += [f"    f{i} = {_null(i, each)}" for i, each in enumerate(fields)]
    if fields:
        lines.append("    while count:")
        for i, each in enumerate(fields):
            lines += ["        " + line for line in _read_field(i, each)]
            lines.append("        break" if i == len(fields) - 1 else f"        if count == {i + 1}: break")
    lines.append("    if at != end: raise misfit('its size is not that of its fields')")
    for i, each in enumerate(fields):
        if each.mandatory:
            lines.append(f"    if {f'not f{i}' if each.multiple else f'f{i} is None'}: raise absent({i})")
    if nests:
        lines.append("    room[0] += 1")
    if not whole:
        return "\n".join((*lines, f"    return ({''.join(f'f{i}, ' for i in range(len(fields)))}), end"))
    lines.append("    self = new(cls)")
    lines += [f"    self.{each.name} = f{i}" for i, each in enumerate(fields)]
    lines.append("    return self, end")
    return "\n".join(lines)


def _null(index: int, each: Field) -> str:
    simple = each.absent is None or isinstance(each.absent, (bool, int)) or each.absent == ()
    return repr(each.absent) if simple else f"default{index}"


def _read_field(index: int, each: Field) -> list[str]:
    fast = _FAST_READS.get(each.type)
    if each.requires in _PLAIN_ARCHETYPES:
        fast, other = _octets_read(0xA1, _TEXT), f"else: f{index}, at = special{index}(code, data, at + 1, room)"
    elif fast is None or each.multiple or each.choices or each.requires:
        return [
            "code = data[at]",
            "if code == 0x40: at += 1",
            f"else: f{index}, at = special{index}(code, data, at + 1, room)",
        ]
    else:
        other = f"else: raise wrong({index}, code)"
    read = [re.sub(r"\bF\b", f"f{index}", line) for line in fast]
    # Null is tested second: after its usual type, a field is most often null.
    second = next((at for at, line in enumerate(read) if line.startswith("elif")), len(read))
    return ["code = data[at]", *read[:second], "elif code == 0x40: at += 1", *read[second:], other]


_TEXT: Final = "data[at + 2:stop].decode()"

# No described type provides these archetypes, and the values are nearly always strings (§3.2.11-15).
_PLAIN_ARCHETYPES: Final = frozenset({"message-id", "address"})


def _octets_read(narrow: int, slice_: str) -> list[str]:
    """Return the lines that read a field of octets: a short value inline, a long one by its reader."""
    return [
        f"if code == {narrow:#x}:",
        "    stop = at + 2 + data[at + 1]",
        "    if stop > end: raise misfit('a field is longer than the whole')",
        f"    F = {slice_}",
        "    at = stop",
        f"elif code == {narrow + 0x10:#x}: F, at = READERS[code](data, at + 1, room)",
    ]


_FAST_READS: Final[dict[str, Sequence[str]]] = {
    "boolean": [
        "if code == 0x41:",
        "    F = True",
        "    at += 1",
        "elif code == 0x42:",
        "    F = False",
        "    at += 1",
        "elif code == 0x56: F, at = READERS[0x56](data, at + 1, room)",
    ],
    "ubyte": ["if code == 0x50:", "    F = data[at + 1]", "    at += 2"],
    "ushort": ["if code == 0x60:", "    F = data[at + 1] << 8 | data[at + 2]", "    at += 3"],
    "uint": [
        "if code == 0x52:",
        "    F = data[at + 1]",
        "    at += 2",
        "elif code == 0x70:",
        "    F = unpack_word(data, at + 1)[0]",
        "    at += 5",
        "elif code == 0x43:",
        "    F = 0",
        "    at += 1",
    ],
    "ulong": [
        "if code == 0x53:",
        "    F = data[at + 1]",
        "    at += 2",
        "elif code == 0x80:",
        "    F = unpack_ulong(data, at + 1)[0]",
        "    at += 9",
        "elif code == 0x44:",
        "    F = 0",
        "    at += 1",
    ],
    "timestamp": ["if code == 0x83: F, at = READERS[0x83](data, at + 1, room)"],
    "string": _octets_read(0xA1, _TEXT),
    "symbol": _octets_read(0xA3, "symbol_of(data[at + 2:stop])"),
    "binary": _octets_read(0xA0, "data[at + 2:stop]"),
}


def _special_reader(cls: type[Composite], index: int) -> Callable[[int, bytes, int, list[int]], tuple[Any, int]]:
    """Return the reader of a field without inline code. It takes the constructor and the offset after it."""
    declared = cls.fields[index]
    place = _place(cls, index)
    codes = frozenset(code for code, (name, _) in CODES.items() if declared.type in ("*", name))
    requires, choices, keys = declared.requires, declared.choices, declared.keys
    closed = requires in CLOSED
    words = {number: word for word, number in choices.items()} if choices else {}

    def read_any(code: int, data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
        if requires is None:
            return READERS[code](data, at, room)
        if code or closed:
            check_archetype(code, data, at, requires, place)
            if code:
                return READERS[code](data, at, room)
        value, at = read_composite(data, at, room)
        if isinstance(value, Composite) and requires not in value.provides:
            raise DecodeError(f"{place}: expected {requires}, not a {value.descriptor_name}")
        return value, at

    def read_several(code: int, data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
        if code in codes:
            value, at = READERS[code](data, at, room)
            return (value,), at
        if code not in (0xE0, 0xF0):
            raise _wrong(cls, index, code)
        array: Array
        array, at = READERS[code](data, at, room)
        if array.descriptors or (array.type != declared.type and array):
            raise DecodeError(f"{place}: expected {declared.type}, found an array of {array.type}")
        return tuple(array), at

    def read_plain(code: int, data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
        if code not in codes:
            raise _wrong(cls, index, code)
        value, at = READERS[code](data, at, room)
        if keys is not None:
            try:
                value = keyed_as_read(value, keys)
            except DecodeError as error:
                raise DecodeError(f"{place}: {error}") from None
        if choices:
            if value not in words:
                raise DecodeError(f"{place}: {value} is not one of the choices")
            return words[value], at
        if requires is not None and type(value) is dict:
            for key, item in value.items():
                value[key] = as_archetype(item, requires, place)
        elif requires is not None and type(value) is Map:
            value.pairs = [(key, as_archetype(item, requires, place)) for key, item in value.pairs]
        return value, at

    if declared.multiple:
        return read_several
    return read_any if declared.type == "*" else read_plain
