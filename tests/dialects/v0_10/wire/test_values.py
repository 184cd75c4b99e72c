"""Typed values: each type of 0-10 with its octets, what is refused, and that everything made comes back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.dialects.v0_10.wire.commands import (
    MessageAccept,
    MessageProperties,
    MessageTransfer,
    RecoverResult,
    ReplyTo,
    Xid,
)
from amqp10.dialects.v0_10.wire.frames import FrameReader, encode_command
from amqp10.dialects.v0_10.wire.struct import COMMANDS, CONTROLS, STRUCTS, Packed, decode_command, decode_control
from amqp10.dialects.v0_10.wire.values import Array010, Raw, encode_map, encode_value, read_map, read_value
from amqp10.errors import AmqpError, DecodeError, EncodeError
from amqp10.types import (
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Float,
    Int,
    Short,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)

KNOWN = [
    (None, 0xF0, ""),
    (True, 0x08, "01"),
    (Byte(-1), 0x01, "ff"),
    (UByte(255), 0x02, "ff"),
    (Short(-2), 0x11, "fffe"),
    (UShort(2), 0x12, "0002"),
    (Int(-5), 0x21, "fffffffb"),
    (UInt(5), 0x22, "00000005"),
    (-5, 0x31, "fffffffffffffffb"),
    (ULong(2**64 - 1), 0x32, "ffffffffffffffff"),
    (Float(1.5), 0x23, "3fc00000"),
    (1.5, 0x33, "3ff8000000000000"),
    (Char("€"), 0x27, "000020ac"),
    (datetime(1970, 1, 2, tzinfo=UTC), 0x38, "0000000000015180"),
    (UUID(int=1), 0x48, "00000000000000000000000000000001"),
    ("é", 0x95, "0002c3a9"),
    (b"ab", 0xA0, "000000026162"),
    (Decimal32("-1.25"), 0xC8, "02ffffff83"),
    (Decimal64("7"), 0xD8, "000000000000000007"),
    ({"a": True}, 0xA8, "00000008000000010161" + "0801"),
    ([None, UByte(1)], 0xA9, "0000000700000002" + "f0" + "0201"),
    (Array010(0x95, ["a"]), 0xAA, "0000000895" + "00000001" + "000161"),
    (Raw(0x00, b"\7"), 0x00, "07"),
    (Raw(0x8F, b"xyz"), 0x8F, "0378797a"),
    (Raw(0xC0, b"12345"), 0xC0, "3132333435"),
    (Raw(0xD0, b"123456789"), 0xD0, "313233343536373839"),
    (Raw(0x70, bytes(128)), 0x70, "00" * 128),
]


@pytest.mark.parametrize(("value", "code", "octets"), KNOWN, ids=lambda each: repr(each)[:30])
def test_known_octets(value: Any, code: int, octets: str) -> None:
    """A value has its type's code and octets, and they are read as the same value of the same kind."""
    written = encode_value(value)
    assert (written[0], written[1].hex()) == (code, octets)
    back, end = read_value(written[1], 0, code)
    assert back == value
    assert type(back) is type(value)
    assert end == len(written[1])


READ_ONLY = [
    (0x04, "a4", Char("€")),
    (0x80, "0161", b"a"),
    (0x84, "01a4", "€"),
    (0x85, "0161", "a"),
    (0x86, "04feff0061", "a"),
    (0x90, "000161", b"a"),
    (0x94, "0001a4", "€"),
    (0x96, "0004feff0061", "a"),
    (0xA8, "00000000", {}),
    (0xA9, "00000000", []),
    (0xAA, "00000000", []),
    (0xAB, "00000000", None),
    (0xAB, "0000000c040308010000000201610000", None),
    (0x38, "7fffffffffffffff", Timestamp((2**63 - 1) * 1000)),
]


@pytest.mark.parametrize(("code", "octets", "value"), READ_ONLY)
def test_what_is_only_read(code: int, octets: str, value: Any) -> None:
    """Types that we never write are read: Latin text, UTF-16, short widths, empty compounds without a count."""
    if octets.startswith("0000000c"):
        with pytest.raises(DecodeError):
            read_value(bytes.fromhex(octets), 0, code)
        return
    assert read_value(bytes.fromhex(octets), 0, code) == (value, len(octets) // 2)


REFUSED = [
    (0xB0, "00"),
    (0xE0, "00"),
    (0x31, "00"),
    (0x95, "0002c3"),
    (0x95, "0001c3"),
    (0x86, "03feff00"),
    (0x27, "0000d800"),
    (0xA8, "0000000100"),
    (0xA8, "00000004ffffffff"),
    (0xA8, "0000000800000001" + "0361" + "08" + "01"),
    (0xA8, "0000000800000001" + "01ff" + "08" + "01"),
    (0xA8, "0000000900000001" + "0161" + "08" + "0100"),
    (0xA9, "00000004ffffffff"),
    (0xA9, "0000000600000002f0f1"[:-2]),
    (0xA9, "0000000600000001f0f0"),
    (0xAA, "0000000295"),
    (0xAA, "0000000508ffffffff"),
    (0xAA, "0000000708000000010101"),
    (0xAB, "0000000104"),
    (0xAB, "000000030401ff"),
]


@pytest.mark.parametrize(("code", "octets"), REFUSED)
def test_refused(code: int, octets: str) -> None:
    """A value that is cut off, counts too much or leaves octets over is refused before any of it is used."""
    with pytest.raises(DecodeError):
        read_value(bytes.fromhex(octets), 0, code)


def test_depth() -> None:
    """Values nested without end are refused, not followed."""
    value: Any = []
    for _ in range(60):
        value = [value]
    with pytest.raises(DecodeError, match="nested"):
        read_value(encode_value(value)[1], 0, 0xA9)


UNWRITABLE = [
    2**63,
    UByte(256),
    Int(2**31),
    Float(1e300),
    "x" * 65_536,
    "\ud800",
    Char("ab"),
    Char("\ud800"),
    datetime(2020, 1, 1),
    datetime(2020, 1, 1, 0, 0, 0, 5, tzinfo=UTC),
    Timestamp(5),
    Decimal32("1E-300"),
    Decimal32("NaN"),
    Decimal64(2**63),
    Decimal("1"),
    object(),
    {1: 2},
    {"x" * 256: 1},
    {"a": object()},
    Array010(0x08, [1]),
    Array010(0x85, [b"a"]),
    Raw(0x00, b""),
    Raw(0xB0, b""),
]


@pytest.mark.parametrize("value", UNWRITABLE, ids=lambda each: repr(each).partition(" at ")[0][:30])
def test_unwritable(value: Any) -> None:
    """A value without a type, or that does not fit its type, is an error of this side; no value is changed to fit."""
    with pytest.raises(EncodeError):
        encode_value(value)


def test_array_of_structs() -> None:
    """An array of xids, as `dtx.recover` gives it, comes back."""
    result = RecoverResult([])
    result.in_doubt = Array010(0xAB, [Xid(1, b"g", b"b"), Xid(2, b"", b"")])
    code, octets = encode_value(result)
    assert read_value(octets, 0, code)[0] == result


def test_array_widths() -> None:
    """Text and octets in an array take the width that the array says, and numbers the type."""
    for code, items in ((0x85, ["a"]), (0x80, [b"a"]), (0x90, [b"a"]), (0x21, [Int(5)]), (0x12, [UShort(1)])):
        octets = encode_value(Array010(code, items))[1]
        assert read_value(octets, 0, 0xAA)[0] == Array010(code, items)


int64 = st.integers(-(2**63), 2**63 - 1)
kinds = st.one_of(
    st.none(),
    st.booleans(),
    int64,
    st.integers(0, 255).map(UByte),
    st.integers(0, 2**16 - 1).map(UShort),
    st.integers(0, 2**32 - 1).map(UInt),
    st.integers(0, 2**64 - 1).map(ULong),
    st.integers(-128, 127).map(Byte),
    st.integers(-(2**15), 2**15 - 1).map(Short),
    st.integers(-(2**31), 2**31 - 1).map(Int),
    st.floats(allow_nan=False),
    st.floats(width=32, allow_nan=False).map(Float),
    st.characters(codec="utf-8").map(Char),
    st.text(st.characters(codec="utf-8")),
    st.binary(),
    st.uuids(),
    st.datetimes(timezones=st.just(UTC)).map(lambda each: each.replace(microsecond=0)),
    st.tuples(st.integers(-(2**31), 2**31 - 1), st.integers(0, 255)).map(
        lambda each: Decimal32(Decimal(each[0]).scaleb(-each[1]))
    ),
    st.builds(Raw, st.just(0x8E), st.binary(max_size=255)),
)
keys = st.text(st.characters(codec="utf-8"), max_size=60)
values = st.recursive(
    kinds, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)), max_leaves=20
)


@given(st.dictionaries(keys, values, max_size=8))
def test_any_map_comes_back(value: dict[str, Any]) -> None:
    """A map of anything is read as it was written, each value with its kind."""
    octets = encode_map(value)
    back = read_map(octets[4:])
    assert back == value
    assert [type(each) for each in back.values()] == [type(each) for each in value.values()]


ranges = st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)), max_size=5).map(tuple)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "uint8": st.integers(0, 255),
    "uint16": st.integers(0, 2**16 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "uint64": st.integers(0, 2**64 - 1),
    "sequence-no": st.integers(0, 2**32 - 1),
    "datetime": int64,
    "uuid": st.uuids(),
    "str8": keys,
    "str16": st.text(st.characters(codec="utf-8")),
    "vbin8": st.binary(max_size=255),
    "vbin16": st.binary(),
    "vbin32": st.binary(),
    "map": st.dictionaries(keys, values, max_size=3),
    "array": st.lists(keys, max_size=3),
    "sequence-set": ranges,
    "byte-ranges": ranges,
    "struct32": st.one_of(st.builds(Xid, st.just(3), st.binary(max_size=9), st.binary(max_size=9))),
    "bit": st.booleans(),
    "message.reply-to": st.builds(ReplyTo, keys, keys),
    "dtx.xid": st.builds(Xid, st.integers(0, 9), st.binary(max_size=64), st.binary(max_size=64)),
}
DECLARED = [*CONTROLS.values(), *COMMANDS.values(), *STRUCTS.values()]


@given(st.data())
def test_every_declaration_comes_back(data: st.DataObject) -> None:
    """Any control, command or struct with any fields, present or absent, is read as it was written."""
    kind: type[Packed] = data.draw(st.sampled_from(DECLARED))
    fields = {}
    for each in kind.fields:
        given_value = FIELDS[each.type]
        needed = each.required or each.type == "bit" or each.default is not None
        fields[each.name] = data.draw(given_value if needed else st.none() | given_value)
    said: Any = kind(**fields)
    if kind.spec_code in CONTROLS and CONTROLS[kind.spec_code] is kind:
        assert decode_control(said.encode()) == said
    elif kind.spec_code in COMMANDS and COMMANDS[kind.spec_code] is kind:
        sync = data.draw(st.booleans())
        back = decode_command(said.encode(sync))
        assert back == said
        assert back.sync is sync
    else:
        code, octets = encode_value(said)
        assert read_value(octets, 0, code) == (said, len(octets))


@given(st.binary(max_size=200))
def test_noise(data: bytes) -> None:
    """Whatever comes, the decoders say `DecodeError` or give something that can be written again."""
    for code in (0xA8, 0xA9, 0xAA, 0xAB, *data[:1]):
        try:
            value, _ = read_value(data, 0, code)
        except DecodeError:
            continue
        assert value is None or encode_again(value)
    for decode in (decode_control, decode_command):
        try:
            decode(data)
        except DecodeError:
            pass


def encode_again(value: Any) -> bool:
    """It can be written, but for the few widths of text that are not ours (long Latin text grows in UTF-8)."""
    try:
        encode_value(value)
    except EncodeError as error:
        return "in an array" in str(error) or "exceed the limit" in str(error)
    return True


@given(
    st.integers(0, 65_535),
    st.binary(max_size=300),
    st.none() | st.binary(max_size=300),
    st.none() | st.binary(max_size=9000),
    st.integers(1, 400),
    st.integers(1, 50),
)
def test_any_assembly_comes_back(
    channel: int, front: bytes, header: bytes | None, body: bytes | None, room: int, portion: int
) -> None:
    """Whatever frames an assembly is cut into, and in whatever portions they come, it is read as it was."""
    octets = encode_command(channel, front, header, body, room)
    reader = FrameReader()
    found = []
    for at in range(0, len(octets), portion):
        reader.feed(octets[at : at + portion])
        while (assembly := reader.next()) is not None:
            found.append(assembly)
    (assembly,) = found
    assert assembly.channel == channel
    assert assembly.front == front
    assert (assembly.header, assembly.payload) == (header, body or b"")


def test_two_channels_at_once() -> None:
    """Frames of different channels and tracks may come in turn."""
    one = encode_command(1, b"11", None, bytes(100), 30)
    two = encode_command(2, b"22", None, bytes(100), 30)
    frames = [one[:14], two[:14], one[14:98], two[14:98], one[98:], two[98:]]
    reader = FrameReader()
    found = []
    for frame in frames:
        reader.feed(frame)
        while (assembly := reader.next()) is not None:
            found.append((assembly.channel, assembly.front, len(assembly.payload)))
    assert found == [(1, b"11", 100), (2, b"22", 100)]


def test_says_what_it_is() -> None:
    """Commands show the fields that say something, and have no fields but theirs."""
    assert repr(MessageAccept(((1, 2),))) == "MessageAccept(transfers=((1, 2),))"
    assert repr(MessageTransfer("q", 0, 0)) == "MessageTransfer(destination='q')"
    assert MessageTransfer("q") != MessageAccept(())
    with pytest.raises(TypeError, match="nothing"):
        MessageAccept(nothing=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        MessageAccept(1, 2)  # type: ignore[call-arg,arg-type]
    with pytest.raises(AmqpError, match="message-properties"):
        MessageProperties(correlation_id="text").encode()  # type: ignore[arg-type]
    assert (timedelta(seconds=1), repr(Raw(1, b""))) == (timedelta(seconds=1), "Raw(0x01, b'')")
