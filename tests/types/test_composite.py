"""Composites: one declaration, and the encoder and decoder that follow from it."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10.errors import DecodeError, EncodeError
from amqp10.testing.strategies import amqp_values, exact, maps, strings, symbols, timestamps, uuids
from amqp10.types import (
    Array,
    Composite,
    Described,
    Int,
    Limits,
    Symbol,
    UInt,
    ULong,
    UShort,
    as_composite,
    composite,
    decode,
    decode_composite,
    encode,
    field,
    skip,
)


@composite(0xF1, "test:inner:list", provides=("inner",))
class Inner(Composite):
    """What a field may require."""

    number: int = field("uint", mandatory=True)


@composite(0xF2, "test:other:list", provides=("other",))
class Other(Composite):
    """What that field refuses."""


@composite(0xF3, "test:everything:list")
class Everything(Composite):
    """A field of every kind."""

    octet: int | None = field("ubyte")
    short: int = field("ushort", default=65535)
    word: int = field("uint", default=4)
    long: int | None = field("ulong")
    signed: int | None = field("int")
    flag: bool = field("boolean", default=False)
    yes: bool = field("boolean", default=True)
    maybe: bool | None = field("boolean")
    text: str | None = field("string")
    name: str = field("symbol", default="none")
    data: bytes | None = field("binary")
    when: Any = field("timestamp")
    identity: Any = field("uuid")
    properties: dict[Any, Any] | None = field("map", keys="symbol")
    items: list[Any] | None = field("list")
    names: tuple[str, ...] = field("symbol", multiple=True)
    numbers: tuple[int, ...] = field("uint", multiple=True)
    any: Any = field("*")
    inner: Any = field("*", requires="inner")
    inners: dict[Any, Any] | None = field("map", requires="inner")
    mode: str = field("ubyte", default="mixed", choices={"low": 0, "high": 1, "mixed": 2})


@composite(0xF400000001, "test:needy:list")
class Needy(Composite):
    """Mandatory fields of every shape, and a descriptor that needs eight octets."""

    word: int = field("uint", mandatory=True)
    text: str = field("string", mandatory=True)
    names: tuple[str, ...] = field("symbol", multiple=True, mandatory=True)
    last: int | None = field("uint")


NEEDY = b"\x00\x80\x00\x00\x00\xf4\x00\x00\x00\x01"


def wire(code: int, *fields: Any) -> bytes:
    """The encoding of a described list, by the generic codec."""
    return encode(Described(ULong(code), list(fields)))


# The class


def test_construction_by_position_and_by_name() -> None:
    """Every field has its place and its name, and its default when not given."""
    value = Needy(1, "a", last=5)
    assert (value.word, value.text, value.names, value.last) == (1, "a", (), 5)
    assert Everything().word == 4
    assert Everything().names == ()
    with pytest.raises(TypeError):
        Needy(unknown=1)  # type: ignore[call-arg]


def test_equality_repr_and_match() -> None:
    """Composites are values: equal field by field within a class, shown with what differs from the defaults."""
    assert Needy(1, "a") == Needy(1, "a")
    assert Needy(1, "a") != Needy(2, "a")
    one: Any = Inner(1)
    assert one != Needy(1, "a")
    assert repr(Everything(word=4, text="x", names=("a",))) == "Everything(text='x', names=('a',))"
    match Inner(7):
        case Inner(number):
            assert number == 7


def test_slots_hash_and_copies() -> None:
    """Instances have only their fields; the ones without fields cannot change and can be hashed; all can be copied."""
    with pytest.raises(AttributeError):
        Inner(1).extra = 1  # type: ignore[attr-defined]
    assert len({Other(), Other()}) == 1
    with pytest.raises(TypeError):
        hash(Inner(1))
    for value in (Inner(1), Needy(1, "a", ("b",))):
        assert pickle.loads(pickle.dumps(value)) == copy.deepcopy(value) == value


def test_descriptors_and_fields_are_known_on_the_class() -> None:
    """Code, name, fields in wire order, archetypes."""
    assert (Needy.descriptor_code, Needy.descriptor_name) == (0xF400000001, "test:needy:list")
    assert [each.wire_name for each in Needy.fields] == ["word", "text", "names", "last"]
    assert Everything.fields[2].default == 4
    assert Inner.provides == ("inner",)


def test_a_descriptor_belongs_to_one_class() -> None:
    """Neither code nor name can be declared twice; a field's declaration must make sense."""
    with pytest.raises(ValueError, match="taken"):
        composite(0xF1, "test:again:list")(type("Again", (Composite,), {"__annotations__": {}}))
    with pytest.raises(ValueError, match="taken"):
        composite(0xF9, "test:inner:list")(type("Again", (Composite,), {"__annotations__": {}}))
    with pytest.raises(ValueError, match="unknown type"):
        field("milliseconds")
    with pytest.raises(ValueError, match="plain type"):
        field("*", multiple=True)


def test_methods_of_the_class_stay() -> None:
    """What a class defines itself is not replaced."""

    @composite(0xF5, "test:own:list")
    class Own(Composite):
        """One with a constructor of its own."""

        number: int | None = field("uint")

        def __init__(self, text: str) -> None:
            self.number = int(text)

        def __repr__(self) -> str:
            return "own"

        @property
        def double(self) -> int:
            return 2 * (self.number or 0)

    assert repr(Own("4")) == "own"
    assert Own.decode(Own("4").encode()).double == 8


# Encoding


def test_trailing_nulls_and_defaults_are_not_written() -> None:
    """A list ends with its last field that says something; a default is null, an explicit other value is not."""
    assert Everything().encode().hex() == "0053f345"
    assert Everything(word=4, flag=False, yes=True, mode="mixed").encode() == Everything().encode()
    assert Everything(word=UInt(4), short=UShort(65535)).encode() == Everything().encode()
    assert Everything(octet=1).encode().hex() == "0053f3c003015001"
    assert Everything(word=5).encode().hex() == "0053f3c005034040" + "5205"
    assert decode(Everything(flag=True, yes=False).encode()) == Described(ULong(0xF3), [None] * 5 + [True, False])


def test_multiple() -> None:
    """Nothing is null, one value or more are an array, the form that every peer reads."""
    for names, written in (((), None), (("a",), Array("symbol", ["a"])), (("a", "b"), Array("symbol", ["a", "b"]))):
        value = Needy(1, "t", names or ("x",), 2)
        value.names = names
        if written is None:
            with pytest.raises(EncodeError, match="names is mandatory"):
                value.encode()
        else:
            assert exact(decode(value.encode()).value[2]) == exact(decode(encode(written)))
    assert decode(Everything(numbers=(1, 300)).encode()).value[16] == Array("uint", [1, 300])
    assert Everything(names=["a", "b"]).encode() == Everything(names=("a", "b")).encode()  # type: ignore[arg-type]


def test_wide_descriptor_and_wide_list() -> None:
    """A code beyond an octet is written in eight; a long list in the wide form."""
    assert Needy(1, "", ("a",)).encode() == NEEDY + bytes.fromhex("c00b0352" + "01a100e00401a30161")
    value = Needy(1, "x" * 300, ("a",))
    assert value.encode()[10] == 0xD0
    assert Needy.decode(value.encode()) == value


def test_composites_within_values() -> None:
    """A composite is written wherever it stands: in a field, a list, a map."""
    assert encode([Inner(1), {"k": Other()}]) == encode(
        [Described(ULong(0xF1), [UInt(1)]), {"k": Described(ULong(0xF2), [])}]
    )
    inner = Inner(1).encode()
    assert Everything(inner=Inner(1)).encode().endswith(inner)
    assert inner == bytes.fromhex("0053f1c003015201")


def test_str_keys_of_maps_are_symbols() -> None:
    """Maps of composites are `fields` by type, with symbols for keys."""
    assert exact(decode(Everything(properties={"k": "v"}).encode()).value[13]) == exact({Symbol("k"): "v"})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Needy(), "test:needy:list word is mandatory"),
        (Needy(1), "test:needy:list text is mandatory"),
        (Needy(1, "a"), "test:needy:list names is mandatory"),
        (Everything(octet=256), r"octet: 256 is out of range for ubyte, 0\.\.255"),
        (Everything(short=-1), "short: -1 is out of range for ushort"),
        (Everything(word=2**32), "word: .* is out of range for uint"),
        (Everything(word=False), "word: False is not a uint"),
        (Everything(word=True), "word: True is not a uint"),
        (Everything(word=1.0), "word: 1.0 is not a uint"),  # type: ignore[arg-type]
        (Everything(word="4"), "word: '4' is not a uint"),  # type: ignore[arg-type]
        (Everything(long=2**64), "long: .* is out of range for ulong"),
        (Everything(signed=2**31), r"signed: .* is out of range for int, -2147483648\.\.2147483647"),
        (Everything(flag=1), "flag: 1 is not a boolean"),  # type: ignore[arg-type]
        (Everything(yes=0), "yes: 0 is not a boolean"),  # type: ignore[arg-type]
        (Everything(text=b"a"), "text: b'a' is not a string"),  # type: ignore[arg-type]
        (Everything(text=Inner(1)), "text: .* is not a string"),  # type: ignore[arg-type]
        (Everything(text="\udc00"), "text: .* is not Unicode text"),
        (Everything(name="é"), "name: .* is not ASCII"),
        (Everything(name=5), "name: 5 is not a symbol"),  # type: ignore[arg-type]
        (Everything(data="a"), "data: 'a' is not a binary"),  # type: ignore[arg-type]
        (Everything(when=5), "when: 5 is not a timestamp"),
        (Everything(identity="x"), "identity: 'x' is not a uuid"),
        (Everything(properties=[]), "properties: .* is not a map"),  # type: ignore[arg-type]
        (Everything(properties={"k": object()}), "properties: an object has no AMQP type"),
        (Everything(names="ab"), "names: 'ab' is not a tuple"),  # type: ignore[arg-type]
        (Everything(names=("a", 1)), "names: an array of symbol|names: 1 is not a symbol"),  # type: ignore[arg-type]
        (Everything(names=(1,)), "names: 1 is not a symbol"),  # type: ignore[arg-type]
        (Everything(any=object()), "any: an object has no AMQP type"),
        (Everything(inner=Inner()), "inner: test:inner:list number is mandatory"),
        (Everything(mode="other"), "mode: 'other' is not one of low, high, mixed"),
        (Everything(mode=1), "mode: 1 is not one of low, high, mixed"),  # type: ignore[arg-type]
    ],
)
def test_what_does_not_belong_in_a_field(value: Composite, message: str) -> None:
    """A wrong type or range, or a missing mandatory field: an EncodeError that names type and field; no output."""
    out = bytearray(b"before")
    with pytest.raises(EncodeError, match=message):
        value.encode_to(out)
    assert out == b"before"


# Decoding


def test_every_form_of_a_field_is_read() -> None:
    """All encodings of a field's type, both list widths, code and symbol as descriptor."""
    for digits in ("43", "5200", "7000000000"):
        assert Inner.decode(bytes.fromhex("0053f1c0" + f"{len(digits) // 2 + 1:02x}01" + digits)).number == 0
    name = b"test:inner:list".hex()
    for descriptor in ("53f1", "8000000000000000f1", "a30f" + name, "b30000000f" + name):
        for body in ("c003015207", "d0000000060000000152" + "07"):
            data = bytes.fromhex("00" + descriptor + body)
            assert decode_composite(data) == (Inner(7), len(data))
            assert decode_composite(memoryview(b"??" + data + b"?"), 2) == (Inner(7), len(data) + 2)
    assert Other.decode(bytes.fromhex("0053f245")) == Other()
    assert Other.decode(bytes.fromhex("0053f2c00100")) == Other()
    assert Other.decode(bytes.fromhex("0053f2d00000000400000000")) == Other()


def test_null_and_nothing_mean_the_default() -> None:
    """A field that is null, or behind the end of the list, has its default."""
    assert Everything.decode(wire(0xF3)) == Everything()
    assert Everything.decode(wire(0xF3, *[None] * 21)) == Everything()
    assert Everything.decode(wire(0xF3, None, UShort(1))).short == 1


@pytest.mark.parametrize(
    ("written", "names"),
    [
        (None, ()),
        (Array("symbol", []), ()),
        (Array("string", []), ()),
        (Symbol("a"), ("a",)),
        (Array("symbol", ["a"]), ("a",)),
        (Array("symbol", ["a", "b"]), ("a", "b")),
    ],
)
def test_multiple_in_all_its_forms(written: Any, names: tuple[str, ...]) -> None:
    """Null, one bare value and an array are read, always as a tuple."""
    assert Everything.decode(wire(0xF3, *[None] * 15, written)).names == names


def test_required_composites_are_read_as_such() -> None:
    """Where a field requires an archetype, a described value is the composite that it names; unknown ones stay."""
    for descriptor in (ULong(0xF1), Symbol("test:inner:list")):
        data = wire(0xF3, *[None] * 18, Described(descriptor, [UInt(1)]), {"k": Described(descriptor, [UInt(2)])})
        value = Everything.decode(data)
        assert value.inner == Inner(1)
        assert value.inners == {"k": Inner(2)}
    unknown = Described(ULong(0xF9), ["x"])
    assert Everything.decode(wire(0xF3, *[None] * 18, unknown)).inner == unknown
    assert Everything.decode(wire(0xF3, *[None] * 17, unknown)).any == unknown


def test_unknown_descriptors_survive() -> None:
    """What no class is known for is a Described that encodes to the same octets."""
    for data in (wire(0xF9, 1), encode(Described(Symbol("test:unknown:list"), {1: 2})), encode(Described(5, [5]))):
        value, end = decode_composite(data)
        assert type(value) is Described
        assert end == len(data)
        assert encode(value) == data


def test_described_and_composite() -> None:
    """A Described made by the generic decoder becomes the composite on demand."""
    described = decode(Inner(7).encode())
    assert type(described) is Described
    assert as_composite(described) == Inner.from_described(described) == Inner(7)
    assert as_composite("x") == "x"
    unknown = Described([1], 1)
    assert as_composite(unknown) is unknown
    with pytest.raises(DecodeError, match="expected test:other:list, found test:inner:list"):
        Other.from_described(described)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (wire(0xF1), "test:inner:list number is mandatory, but missing"),
        (wire(0xF1, None), "test:inner:list number is mandatory, but missing"),
        (wire(0xF1, "a"), "test:inner:list number: expected uint, found string"),
        (wire(0xF1, ULong(1)), "number: expected uint, found ulong"),
        (wire(0xF1, Described(ULong(1), UInt(1))), "number: expected uint, found a described value"),
        (wire(0xF1, UInt(1), None), "2 fields, where there are 1 at most"),
        (bytes.fromhex("0053f1c0020146"), "unknown constructor 0x46"),
        (bytes.fromhex("0053f1c004015207" + "07"), "size is not that of its fields"),
        (bytes.fromhex("0053f1c002015207"), "size is not that of its fields"),
        (bytes.fromhex("0053f1c00301"), "behind the data"),
        (bytes.fromhex("0053f1c0000152"), "items do not fit into"),
        (bytes.fromhex("0053f1c10100"), "not a list"),
        (bytes.fromhex("0053f1"), "ends within"),
        (bytes.fromhex("0053"), "ends within"),
        (b"", "ends within"),
        (b"\x45", "a described value was expected, found list"),
        (NEEDY + encode([UInt(1), "a"]), "names is mandatory, but missing"),
        (NEEDY + encode([UInt(1), "a", Array("symbol", [])]), "names is mandatory, but missing"),
        (wire(0xF3, *[None] * 15, "a"), "names: expected symbol, found string"),
        (wire(0xF3, *[None] * 15, Array("string", ["a"])), "names: expected symbol, found an array of string"),
        (wire(0xF3, *[None] * 15, Array("symbol", ["a"], [ULong(1)])), "names: expected symbol, found an array"),
        (wire(0xF3, *[None] * 18, Described(ULong(0xF2), [])), "inner: expected inner, not a test:other:list"),
        (wire(0xF3, *[None] * 18, "x"), "inner: expected inner, not a string"),
        (wire(0xF3, *[None] * 19, {1: Described(ULong(0xF2), [])}), "inners: expected inner, not a test:other:list"),
        (wire(0xF3, *[None] * 18, Described(ULong(0xF1), [])), "test:inner:list number is mandatory"),
        (wire(0xF3, *[None] * 13, []), "properties: expected map, found list"),
        (wire(0xF3, *[None] * 5, Int(1)), "flag: expected boolean, found int"),
        (bytes.fromhex("0053f3c007064040404040") + b"\x56", "ends within|behind"),
        (bytes.fromhex("0053f3c008064040404040") + b"\x56\x02", "0x02 is not a boolean"),
        (bytes.fromhex("0053f3c00d0940404040404040" + "4040"[:2] + "a1" + "ff61"), "."),
        (bytes.fromhex("0053f3c00c0a404040404040404040" + "a3ff"), "longer than the whole"),
    ],
)
def test_what_breaks_the_rules_of_its_type(data: bytes, message: str) -> None:
    """Missing, mistyped, too many, cut off: a DecodeError that names what it can."""
    with pytest.raises(DecodeError, match=message):
        decode_composite(data)


def test_decode_takes_exactly_one() -> None:
    """Another type, or octets behind the value, are refused by the class's `decode`."""
    with pytest.raises(DecodeError, match="expected test:inner:list, found test:other:list"):
        Inner.decode(Other().encode())
    with pytest.raises(DecodeError, match="found the descriptor"):
        Inner.decode(wire(0xF9))
    with pytest.raises(DecodeError, match="1 octets follow"):
        Inner.decode(Inner(1).encode() + b"\x40")


def test_limits_hold_within_composites() -> None:
    """Depth and elements are counted through composites."""
    deep = Everything(any=[[[[1]]]])
    assert Everything.decode(deep.encode(), Limits(max_depth=5)) == deep
    for limits in (Limits(max_depth=4), Limits(max_depth=0)):
        with pytest.raises(DecodeError, match="nested too deeply"):
            Everything.decode(deep.encode(), limits)
    with pytest.raises(DecodeError, match="no width"):
        Everything.decode(Everything(any=Array("null", [None] * 50)).encode(), Limits(max_elements=4))


# Properties

VALUES = amqp_values(max_leaves=4)


def _or_none(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


EVERYTHING = st.builds(
    Everything,
    octet=_or_none(st.integers(0, 255)),
    short=st.integers(0, 65535),
    word=st.integers(0, 2**32 - 1),
    long=_or_none(st.integers(0, 2**64 - 1)),
    signed=_or_none(st.integers(-(2**31), 2**31 - 1)),
    flag=st.booleans(),
    yes=st.booleans(),
    maybe=_or_none(st.booleans()),
    text=_or_none(strings()),
    name=symbols(),
    data=_or_none(st.binary(max_size=300)),
    when=_or_none(timestamps()),
    identity=_or_none(uuids()),
    properties=_or_none(maps(keys=symbols())),
    items=_or_none(st.lists(VALUES, max_size=3)),
    names=st.lists(symbols(), max_size=3).map(tuple),
    numbers=st.lists(st.integers(0, 2**32 - 1), max_size=3).map(tuple),
    any=VALUES,
    inner=_or_none(st.builds(Inner, st.integers(0, 2**32 - 1))),
    inners=_or_none(st.dictionaries(symbols(), st.builds(Inner, st.integers(0, 2**32 - 1)), max_size=2)),
    mode=st.sampled_from(["low", "high", "mixed"]),
)


@settings(deadline=None)
@given(EVERYTHING)
def test_round_trip(value: Everything) -> None:
    """Whatever the fields hold comes back, and encodes to the same octets; the generic codec agrees on the wire."""
    data = value.encode()
    again, end = decode_composite(b"?" + data + b"!", 1)
    assert end == len(data) + 1
    assert encode(again) == data
    assert skip(data) == len(data)
    assert encode(decode(data)) == data
    for each in Everything.fields:
        if each.name not in ("inner", "inners"):
            assert _comparable(getattr(again, each.name)) == _comparable(getattr(value, each.name)), each.name


def _comparable(value: Any) -> Any:
    return value if isinstance(value, (int, str, tuple)) else exact(value)


@settings(deadline=None, max_examples=3 * settings().max_examples)
@given(EVERYTHING, st.data())
def test_mutations_never_raise_anything_else(value: Everything, data: st.DataObject) -> None:
    """An encoding with octets changed decodes, or is a DecodeError."""
    mutated = bytearray(value.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        mutated[data.draw(st.integers(3, len(mutated) - 1))] = data.draw(st.integers(0, 255))
    try:
        again, _ = decode_composite(bytes(mutated))
    except DecodeError:
        return
    assert encode(again)
