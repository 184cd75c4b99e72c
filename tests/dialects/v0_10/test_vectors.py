"""Octets that no code of ours made: each is written by us as it stands, and read back to what it says.

`vectors.json` is a copy of the vectors of the project's facts on AMQP 0-10 (made by hand from the specification's
tables; the same octets were accepted by Qpid Broker-J 10.1.0); `specification.json` are those tables.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from amqp10.dialects.v0_10.wire import commands, controls, rare_commands
from amqp10.dialects.v0_10.wire.commands import DeliveryProperties, MessageProperties, ReplyTo
from amqp10.dialects.v0_10.wire.frames import CONTROL, PROTOCOL_HEADER, FrameReader, encode_command, encode_control
from amqp10.dialects.v0_10.wire.struct import (
    COMMANDS,
    CONTROLS,
    STRUCTS,
    Command,
    Packed,
    Struct,
    decode_command,
    decode_control,
    decode_header,
)
from amqp10.errors import DecodeError, EncodeError, RemoteProtocolError

HERE = Path(__file__).parent
VECTORS: dict[str, Any] = json.loads((HERE / "vectors.json").read_text())
SPECIFICATION: dict[str, Any] = json.loads((HERE / "specification.json").read_text())
KINDS: dict[str, type[Packed]] = {
    each.spec_name: each
    for module in (commands, controls)
    for each in (*vars(module).values(), *rare_commands.UNIMPLEMENTED.values(), *STRUCTS.values())
    if isinstance(each, type) and issubclass(each, Packed) and hasattr(each, "spec_name")
}
DOMAINS = {each["name"]: each["type"] for each in SPECIFICATION["domains"]}


def value(given: Any, kind: str) -> Any:
    """A field of a vector as ours."""
    if isinstance(given, dict) and given.keys() == {"hex"}:
        octets = bytes.fromhex(given["hex"])
        return UUID(bytes=octets) if kind == "uuid" else octets
    if kind == "sequence-set":
        return tuple(tuple(each) for each in given)
    if kind == "message.reply-to":
        return ReplyTo(**{name.replace("-", "_"): each for name, each in given.items()})
    return given


def build(kind: type[Packed], fields: dict[str, Any]) -> Any:
    types = {each.name: each.type for each in kind.fields}
    named = {name.replace("-", "_"): given for name, given in fields.items()}
    return kind(**{name: value(given, types[name]) for name, given in named.items()})


def test_header() -> None:
    """The protocol header is the one of the specification."""
    assert bytes.fromhex(VECTORS["header"]) == PROTOCOL_HEADER


@pytest.mark.parametrize("vector", VECTORS["good"], ids=lambda vector: f"{vector['name']}-{vector['hex'][:4]}")
def test_vector(vector: dict[str, Any]) -> None:
    """A vector is written octet by octet, and read back as the same."""
    octets = bytes.fromhex(vector["hex"])
    said = build(KINDS[vector["name"]], vector["fields"])
    if isinstance(said, Command):
        header = body = None
        if "header" in vector:
            structs = [build(KINDS[name], fields) for each in vector["header"] for name, fields in each.items()]
            header = b"".join(each.encode_struct32() for each in structs)
            body = vector["body"].encode()
        written = encode_command(vector["channel"], said.encode(vector["sync"]), header, body, 65_523)
    else:
        written = encode_control(vector["channel"], said.encode())
    assert written.hex() == octets.hex()

    reader = FrameReader()
    for at in range(0, len(octets), 7):  # in portions
        reader.feed(octets[at : at + 7])
    assembly = reader.next()
    assert assembly is not None
    assert assembly.channel == vector["channel"]
    if assembly.kind == CONTROL:
        assert decode_control(assembly.front) == said
    else:
        command = decode_command(assembly.front)
        assert command == said
        assert command.sync == vector["sync"]
        if "header" in vector:
            assert assembly.header is not None
            assert decode_header(assembly.header) == structs
            assert assembly.payload == vector["body"].encode()
    assert reader.next() is None


@pytest.mark.parametrize("vector", VECTORS["good"], ids=lambda vector: f"{vector['name']}-{vector['hex'][:4]}")
def test_cut_vector(vector: dict[str, Any]) -> None:
    """A value that ends too early or is too long is refused, and nothing else happens."""
    reader = FrameReader()
    reader.feed(bytes.fromhex(vector["hex"]))
    assembly = reader.next()
    assert assembly is not None
    front = assembly.front
    read = decode_control if assembly.kind == CONTROL else decode_command
    for size in range(len(front)):
        with pytest.raises(DecodeError):
            read(front[:size])
    with pytest.raises(DecodeError):
        read(front + b"\0")


def declared() -> list[tuple[str, dict[str, Any]]]:
    """Every control, command and struct of the specification, but the session header, which is written in place."""
    found = [(each["name"], each) for each in SPECIFICATION["structs"] if each["name"] != "session.header"]
    for group in SPECIFICATION["classes"]:
        for each in (*group.get("controls", ()), *group.get("commands", ())):
            found.append((f"{group['name']}.{each['name']}", each))
    return found


@pytest.mark.parametrize(("name", "entry"), declared(), ids=lambda each: each if isinstance(each, str) else "")
def test_declaration(name: str, entry: dict[str, Any]) -> None:
    """Each declaration has the code, the widths, and the fields with type and place, of the specification's table."""
    kind = KINDS[name]
    code = int(entry.get("encoded-type", "0"), 16)
    assert kind.spec_code == code
    if code:
        registry: Any = STRUCTS if issubclass(kind, Struct) else CONTROLS | COMMANDS
        assert registry[code] is kind
    assert kind.size_width == entry.get("size-width", 0)
    assert kind.pack_width == entry.get("pack-width", 2)
    fields = entry.get("fields", [])
    assert [each.name.rstrip("_").replace("_", "-") for each in kind.fields] == [each["name"] for each in fields]
    for ours, theirs in zip(kind.fields, fields, strict=True):
        wanted = theirs["type"]
        while wanted in DOMAINS:
            wanted = DOMAINS[wanted]
        assert ours.type == wanted
        optional = wanted == "bit" or name == "queue.queue-query-result"  # nothing says that there is no such queue
        assert ours.required == (theirs.get("required", False) and not optional)
    if kind.spec_code in COMMANDS and issubclass(kind, Command):
        assert kind.has_content == ("segments" in entry)
        assert kind.result == entry.get("result")


def test_counts() -> None:
    """Nothing of the specification is missing: so many controls, commands and structs has it."""
    counts = SPECIFICATION["counts"]
    assert len(CONTROLS) == counts["controls"]
    assert len(COMMANDS) == counts["commands"]
    assert len([each for each in KINDS.values() if issubclass(each, Struct)]) == counts["structs"] - 1


def test_required() -> None:
    """A required field that is missing is an error on both sides, and named."""
    with pytest.raises(EncodeError, match=r"session\.attach\.name is required"):
        controls.SessionAttach().encode()
    with pytest.raises(DecodeError, match=r"session\.attach\.name is required"):
        decode_control(bytes.fromhex("02010000"))


def test_unknown_flags() -> None:
    """A flag of no field cannot be skipped, so it is an error."""
    with pytest.raises(DecodeError, match="of unknown fields"):
        decode_control(bytes.fromhex("02010004"))


def test_no_such_code() -> None:
    """Controls and commands that do not exist are refused."""
    for octets in (b"", b"\x01", b"\x01\x0d\0\0", b"\x63\1\0\0"):
        with pytest.raises(DecodeError):
            decode_control(octets)
        with pytest.raises(DecodeError):
            decode_command(octets)


def test_bad_session_header() -> None:
    """The session header is one octet of flags with one flag, or nothing."""
    assert decode_command(bytes.fromhex("0301000000")).sync is False
    for octets in ("030101020000", "03010200000000", "0301"):
        with pytest.raises(DecodeError):
            decode_command(bytes.fromhex(octets))


def test_header_segment_of_strangers() -> None:
    """A struct that is not known, and other defaults, survive in a header segment."""
    stranger = bytes.fromhex("00000004f0f00000")
    known = DeliveryProperties(routing_key="q").encode_struct32()
    other = MessageProperties().encode_struct32()
    found = decode_header(stranger + known + other)
    assert len(found) == 3
    assert found[1] == DeliveryProperties(routing_key="q")
    assert found[2] == MessageProperties()
    with pytest.raises(DecodeError):
        decode_header(stranger + known[:-1])


BAD_FRAMES = {
    "version": "4f00000c0000000000000000",
    "reserved flags": "1f00000c0000000000000000",
    "segment type": "0f04000c0000000000000000",
    "size below the head": "0f00000b0000000000000000",
    "content without a command": "0703000c0001000100000000",
    "a frame that continues nothing": "0501000c0001000100000000",
    "an assembly that begins with a header": "0b02000c0001000100000000",
    "an assembly within another": "0b01000c00010001000000000b01000c0001000100000000",
    "control within an open control": "0b00000c00000001000000000f00000c0000000100000000",
    "a second body": "0b01000c00010001000000000303000c00010001000000000703000c0001000100000000",
    "a header after the body": "0b01000c00010001000000000303000c00010001000000000702000c0001000100000000",
    "another segment in the midst of one": "0901000c00010001000000000702000c0001000100000000",
    "another first frame in the midst of a segment": (
        "0b01000c00010001000000000203000c00010001000000000703000c0001000100000000"
    ),
}


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_bad_frames(name: str) -> None:
    """Frames that cannot be, or stand where they cannot, are the peer's fault."""
    reader = FrameReader()
    reader.feed(bytes.fromhex(BAD_FRAMES[name]))
    with pytest.raises(RemoteProtocolError):
        while reader.next() is not None:
            pass


def test_limits() -> None:
    """A frame above the limit is refused by its head alone; of a message above it the rest is dropped, to its end."""
    reader = FrameReader(max_frame_size=4096)
    reader.feed(bytes.fromhex("0f0110010001000100000000"))
    with pytest.raises(RemoteProtocolError, match="4097"):
        reader.next()
    reader = FrameReader(max_size=100_000)
    for size in (100_001, 500_000, 1):
        reader.feed(encode_command(1, b"\4\1\1\0\0\0", None, bytes(size), 60_000))
        assembly = reader.next()
        assert assembly is not None
        assert assembly.excess is (size > 1)
        assert reader.next() is None
