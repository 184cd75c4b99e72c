"""Wire vectors that were computed by hand from the specification, in `vectors.json`: both decoders, both ways."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from amqp10.dialects.fast.wire.commands import COMMANDS, ConnectionPing, MessageHead
from amqp10.dialects.fast.wire.frames import INITIATION, CommandReader, decode_command, encode_command
from amqp10.errors import RemoteProtocolError

from ...kit.dialects.fast.second_decoder import GRAMMAR, Refused, read, read_head, write

VECTORS = json.loads(Path(__file__).with_name("vectors.json").read_text())
GOOD = [vector for vector in VECTORS["good"] if vector["kind"] == "command"]
BAD = [vector for vector in VECTORS["bad"] if vector["name"] != "bad-initiation"]
TITLES: dict[str, Any] = {command.title(): command for command in COMMANDS.values()}


def named(vectors: list[dict[str, Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vector", vectors, ids=[vector["name"] for vector in vectors])


def plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields of a vector, as our records have them: names of Python, tables without types, octets."""
    return {
        name.replace("-", "_"): (
            {key: next(iter(typed.values())) for key, typed in value.items()}
            if isinstance(value, dict)
            else value.encode()
            if name in ("selector", "message-list")
            else value
        )
        for name, value in fields.items()
    }


def typed(fields: dict[str, Any]) -> dict[str, Any]:
    """The same as the second decoder has them."""
    return {
        name: (
            {key: {kind: text.encode() for kind, text in one.items()} for key, one in value.items()}
            if isinstance(value, dict)
            else value.encode()
            if name in ("selector", "message-list")
            else value
        )
        for name, value in fields.items()
    }


@named(GOOD)
def test_decoded(vector: dict[str, Any]) -> None:
    """The bytes of a vector are read as the vector says, with the message, in portions of any size."""
    octets = bytes.fromhex(vector["hex"])
    assert octets == bytes.fromhex("".join(octets for _, octets in vector["segments"]))
    for chunk in (1, 3, len(octets)):
        reader = CommandReader(1 << 20)
        got = None
        for start in range(0, len(octets), chunk):
            assert got is None
            reader.feed(octets[start : start + chunk])
            got = reader.next()
        assert got is not None
        command, content = got
        assert command == TITLES[vector["command"]](**plain(vector["fields"]))
        assert not reader.within_frame
        if "head" in vector:
            head, at = MessageHead.read(content, 0, len(content))
            assert head == MessageHead(**plain(vector["head"]))
            content = content[at:]
        assert content == vector.get("body", "").encode()


@named(GOOD)
def test_encoded(vector: dict[str, Any]) -> None:
    """The values of a vector are written as its bytes."""
    content = vector.get("body", "").encode()
    if "head" in vector:
        content = MessageHead(**plain(vector["head"])).write() + content
    assert encode_command(TITLES[vector["command"]](**plain(vector["fields"])), content).hex() == vector["hex"]


@named(GOOD)
def test_second(vector: dict[str, Any]) -> None:
    """The second decoder reads and writes the same."""
    name, fields, content = read(bytes.fromhex(vector["hex"]))
    assert (name, fields) == (vector["command"], typed(vector["fields"]))
    assert write(name, fields) + content == bytes.fromhex(vector["hex"])
    if "head" in vector:
        head, content = read_head(content)
        assert head == vector["head"]
    assert content == vector.get("body", "").encode()


def test_long_size() -> None:
    """A command of more than 65534 octets has the escape and a size of four octets; a short one may have it, too."""
    (vector,) = VECTORS["good-long"]
    ((octet, count),) = [vector["repeat"]]
    octets = bytes.fromhex(vector["hex-prefix"]) + bytes.fromhex(octet) * count + bytes.fromhex(vector["hex-suffix"])
    fields = vector["fields"] | {"selector": "a" * count}
    command = TITLES[vector["command"]](**plain(fields))
    assert encode_command(command) == octets
    reader = CommandReader(1 << 20)
    reader.feed(octets)
    assert reader.next() == (command, b"")
    assert read(octets) == (vector["command"], fields | {"selector": b"a" * count}, b"")
    reader.feed(bytes.fromhex("ffff00000003 0e01ce"))
    assert reader.next() == (ConnectionPing(respond=True), b"")


@named(BAD)
def test_refused(vector: dict[str, Any]) -> None:
    """Malformed bytes are refused by both."""
    octets = bytes.fromhex(vector["hex"])
    reader = CommandReader()
    reader.feed(octets)
    with pytest.raises(RemoteProtocolError):
        reader.next()
    with pytest.raises(Refused):
        read(octets)


def test_initiation() -> None:
    """A connection begins with two octets, protocol and version; what is another protocol's is not ours."""
    (vector,) = [vector for vector in VECTORS["good"] if vector["kind"] == "initiation"]
    (other,) = [vector for vector in VECTORS["bad"] if vector["name"] == "bad-initiation"]
    assert bytes.fromhex(vector["hex"]) == INITIATION != bytes.fromhex(other["hex"])
    reader = CommandReader()
    reader.feed(INITIATION[:1])
    assert reader.initiation() is None
    reader.feed(INITIATION[1:])
    assert reader.initiation() == INITIATION


def test_all_commands() -> None:
    """There are 28, of the names, codes and fields of the table; three of them carry messages."""
    table = GRAMMAR["commands"]
    ours = {
        command.title(): (command.code, [one.name.replace("_", "-") for one in fields(command)])
        for command in COMMANDS.values()
    }
    assert ours == {one["name"]: (one["code"], [field["name"] for field in one["fields"]]) for one in table}
    assert len(ours) == 28
    assert {command.title() for command in COMMANDS.values() if command.carries} == {
        one["name"] for one in table if "carries" in one
    }


def test_no_code_zero() -> None:
    """The base of commands is none."""
    with pytest.raises(RemoteProtocolError):
        decode_command(b"\0", 0, 1)
