"""A second decoder and encoder of AMQP/Fast, for the tests to hold the first one against.

It shares no code with it, nor its way of working: everything follows from `commands.json`, which says of each command
what the specification's grammar says, and values are plain dicts under the specification's own names.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

GRAMMAR = json.loads(Path(__file__).with_name("commands.json").read_text())
BY_CODE = {command["code"]: command for command in GRAMMAR["commands"]}
BY_NAME = {command["name"]: command for command in GRAMMAR["commands"]}
SIZES = {"octet": 1, "short": 2, "long": 4}


class Refused(Exception):
    """The octets are none of this protocol's."""


class Octets(io.BytesIO):
    """Reads exactly, or refuses."""

    def exactly(self, count: int) -> bytes:
        got = self.read(count)
        if len(got) != count:
            raise Refused(f"{count - len(got)} octets are missing")
        return got

    def number(self, count: int) -> int:
        total = 0
        for octet in self.exactly(count):
            total = total * 256 + octet
        return total

    @property
    def left(self) -> int:
        return len(self.getbuffer()) - self.tell()


def grouped(fields: list[dict[str, str]]) -> list[list[dict[str, str]]]:
    """The fields, contiguous bits together, eight at most."""
    groups: list[list[dict[str, str]]] = []
    for one in fields:
        last = groups[-1] if groups else []
        if one["type"] == "bit" and last and last[0]["type"] == "bit" and len(last) < 8:
            last.append(one)
        else:
            groups.append([one])
    return groups


def read_fields(source: Octets, fields: list[dict[str, str]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for group in grouped(fields):
        name, kind = group[0]["name"], group[0]["type"]
        if kind == "bit":
            octet = source.number(1)
            for one in group:
                values[one["name"]] = octet % 2 == 1
                octet //= 2
        elif kind in SIZES:
            values[name] = source.number(SIZES[kind])
        elif kind == "shortstr":
            raw = source.exactly(source.number(1))
            if 0 in raw:
                raise Refused(f"{name} has a NUL")
            try:
                values[name] = str(raw, "utf-8")
            except UnicodeDecodeError:
                raise Refused(f"{name} is not UTF-8") from None
        else:
            raw = source.exactly(source.number(2))
            values[name] = raw if kind == "longstr" else read_table(Octets(raw))
    return values


def read_table(source: Octets) -> dict[str, dict[str, Any]]:
    """{name: {type: value}}; of two of one name the first."""
    table: dict[str, dict[str, Any]] = {}
    while source.left:
        name = source.exactly(source.number(1))
        if 0 in name:
            raise Refused("a name has a NUL")
        kind = chr(source.number(1))
        value: Any
        if kind == "S":
            value = source.exactly(source.number(4))
        elif kind == "I":
            value = source.number(4)
            value -= (value >> 31) << 32
        elif kind == "D":
            places, value = source.number(1), source.number(4)
            value = [value - ((value >> 31) << 32), places]
        elif kind == "T":
            value = source.number(8)
        elif kind == "F":
            value = read_table(Octets(source.exactly(source.number(4))))
        else:
            raise Refused(f"no type {kind!r}")
        try:
            table.setdefault(name.decode(), {kind: value})
        except UnicodeDecodeError:
            raise Refused("a name is not UTF-8") from None
    return table


def read(octets: bytes) -> tuple[str, dict[str, Any], bytes]:
    """Name and fields of the command that begins here, and what comes after it."""
    source = Octets(octets)
    size = source.number(2)
    if size == 65535:
        size = source.number(4)
    if size < 2:
        raise Refused("too small")
    inner = source.exactly(size)
    if inner[-1:] != b"\xce":
        raise Refused("no end octet")
    if inner[0] not in BY_CODE:
        raise Refused(f"no command {inner[0]}")
    command, fields = BY_CODE[inner[0]], Octets(inner[1:-1])
    values = read_fields(fields, command["fields"])
    if fields.left:
        raise Refused("octets are left")
    return command["name"], values, source.read()


def read_head(octets: bytes) -> tuple[dict[str, Any], bytes]:
    """The head of a message, and the body behind it."""
    source = Octets(octets)
    return read_fields(source, GRAMMAR["message-head"]), source.read()


def write_fields(fields: list[dict[str, str]], values: dict[str, Any]) -> bytes:
    out = b""
    for group in grouped(fields):
        name, kind = group[0]["name"], group[0]["type"]
        if kind == "bit":
            out += bytes([sum(2**place for place, one in enumerate(group) if values[one["name"]])])
        elif kind in SIZES:
            out += big(values[name], SIZES[kind])
        elif kind == "shortstr":
            raw = values[name].encode()
            out += big(len(raw), 1) + raw
        else:
            raw = values[name] if kind == "longstr" else write_table(values[name])
            out += big(len(raw), 2) + raw
    return out


def write_table(table: dict[str, dict[str, Any]]) -> bytes:
    out = b""
    for name, typed in table.items():
        ((kind, value),) = typed.items()
        raw = name.encode()
        out += big(len(raw), 1) + raw + kind.encode()
        if kind == "S":
            out += big(len(value), 4) + value
        elif kind == "I":
            out += big(value % 2**32, 4)
        elif kind == "D":
            out += big(value[1], 1) + big(value[0] % 2**32, 4)
        elif kind == "T":
            out += big(value, 8)
        else:
            inner = write_table(value)
            out += big(len(inner), 4) + inner
    return out


def write(name: str, values: dict[str, Any]) -> bytes:
    """A command."""
    command = BY_NAME[name]
    inner = big(command["code"], 1) + write_fields(command["fields"], values) + b"\xce"
    return (big(len(inner), 2) if len(inner) < 65535 else b"\xff\xff" + big(len(inner), 4)) + inner


def big(number: int, count: int) -> bytes:
    return bytes(number // 256**place % 256 for place in reversed(range(count)))
