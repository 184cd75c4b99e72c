"""Both decoders, each reading what the other wrote, and both what nobody would write."""

from __future__ import annotations

from dataclasses import fields
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10.dialects.fast.wire.command_table import Command
from amqp10.dialects.fast.wire.commands import ChannelAck, ConnectionOpen, HandleQuery, MessageHead
from amqp10.dialects.fast.wire.frames import CommandReader, encode_command
from amqp10.errors import DecodeError, EncodeError, RemoteProtocolError

from ....kit.dialects.fast.second_decoder import (
    BY_CODE,
    GRAMMAR,
    Refused,
    read,
    read_fields,
    read_head,
    write,
    write_fields,
)
from ....kit.dialects.fast.second_decoder import Octets as SecondOctets
from ....kit.dialects.fast.strategies import BY_TYPE, table


def values_of(fields: list[dict[str, str]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({one["name"]: BY_TYPE[one["type"]] for one in fields})


def commands() -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    return st.one_of(
        [st.tuples(st.just(one["name"]), values_of(one["fields"])) for one in GRAMMAR["commands"]],
    )


def ours(values: dict[str, Any]) -> dict[str, Any]:
    """The second decoder's values as the first has them."""
    return {
        name.replace("-", "_"): table(value) if isinstance(value, dict) else value for name, value in values.items()
    }


def names(record: Command | MessageHead) -> list[str]:
    return [one.name for one in fields(record)]


def first(octets: bytes) -> Command:
    reader = CommandReader(1 << 24)
    reader.feed(octets)
    got = reader._read_command()
    assert got is not None
    return got


@given(commands())
def test_commands(drawn: tuple[str, dict[str, Any]]) -> None:
    """Each reads what the other wrote, and writes it octet for octet the same."""
    name, values = drawn
    octets = write(name, values) if all_fit(values) else None
    if octets is None:
        return
    command = first(octets)
    assert command.title() == name
    assert {one: getattr(command, one) for one in names(command)} == ours(values)
    assert encode_command(command) == octets
    assert read(octets) == (name, values, b"")


def all_fit(values: dict[str, Any]) -> bool:
    """No string is longer than its length can say."""
    try:
        return all(
            len(value.encode()) < 256 if isinstance(value, str) else len(value) < 65536
            for value in values.values()
            if isinstance(value, str | bytes)
        )
    except UnicodeEncodeError:
        return False


@pytest.mark.slow
@given(values_of(GRAMMAR["message-head"]), st.binary(max_size=20))
def test_heads(values: dict[str, Any], body: bytes) -> None:
    """The same for heads of messages."""
    octets = write_fields(GRAMMAR["message-head"], values) + body
    head, at = MessageHead.read(octets, 0, len(octets))
    assert {one: getattr(head, one) for one in names(head)} == ours(values)
    assert head.write() == octets[:at]
    assert read_head(octets) == (values, body)


@given(st.sampled_from(sorted(BY_CODE)), st.binary(max_size=60))
@example(20, bytes.fromhex("0001 0000 03 0004 01 6b 53 00"))
@example(10, bytes.fromhex("01 00 0003 01 6b 78"))
def test_any_octets(code: int, octets: bytes) -> None:
    """Of octets that mean nothing both take the same, and refuse the same."""
    framed = (len(octets) + 2).to_bytes(2, "big") + bytes([code]) + octets + b"\xce"
    try:
        taken: tuple[str, dict[str, Any]] | None = read(framed)[:2]
    except Refused:
        taken = None
    try:
        command = first(framed)
    except RemoteProtocolError:
        assert taken is None
        return
    assert taken is not None
    assert command.title() == taken[0]
    assert {one: getattr(command, one) for one in names(command)} == ours(taken[1])


@given(st.binary(max_size=300), st.integers(1, 7))
def test_any_stream(octets: bytes, chunk: int) -> None:
    """Whatever comes in, whole or in pieces: commands come out, or it is refused; and both ways are the same."""
    results: list[tuple[list[Any], str | None]] = []
    for size in (max(1, len(octets)), chunk):
        reader, got = CommandReader(), list[Any]()
        try:
            for start in range(0, len(octets), size):
                reader.feed(octets[start : start + size])
                while (one := reader.next()) is not None:
                    got.append(one)
            results.append((got, None))
        except RemoteProtocolError as error:
            results.append((got, str(error)))
    assert results[0] == results[1]


def test_limits() -> None:
    """Nothing is held that is larger than was agreed: neither a command nor a fragment."""
    reader = CommandReader(100)
    reader.feed(b"\0\x65")
    with pytest.raises(RemoteProtocolError, match="101 octets exceeds the agreed 100"):
        reader.next()
    reader = CommandReader(100)
    reader.feed(write("handle-ready", {"handle-id": 1, "message-size": 5}))
    assert reader.next() is not None
    sending = dict.fromkeys(("partial", "out-of-band", "recovery", "streaming"), False)
    reader.feed(
        write("handle-send", {"handle-id": 1, "confirm-tag": 0, "fragment-size": 101, "dest-name": ""} | sending)
    )
    with pytest.raises(RemoteProtocolError, match="fragment of 101"):
        reader.next()


def test_deep_tables() -> None:
    """Tables in tables are read to a depth, and then refused."""
    octets = b""
    for _ in range(100):
        octets = b"\x01kF" + len(octets).to_bytes(4, "big") + octets
    framed = write("connection-challenge", {"version": 1, "mechanisms": "", "challenges": {}})[:-3]
    framed = (int.from_bytes(framed[:2], "big") + len(octets)).to_bytes(2, "big") + framed[2:]
    framed += len(octets).to_bytes(2, "big") + octets + b"\xce"
    with pytest.raises(RemoteProtocolError, match="must be nested at most"):
        first(framed)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (ConnectionOpen(client_name="x" * 256), "client_name"),
        (ConnectionOpen(client_name="x\0"), "NUL"),
        (HandleQuery(selector=b"x" * 65536), "selector"),
        (ConnectionOpen(options={"x": 1.5}), "options"),
        (ConnectionOpen(options={"x": 1 << 31}), "options"),
        (ConnectionOpen(options={"x": "y" * 65536}), "65535"),
        (ConnectionOpen(options={"x": Decimal("1e-300")}), "places"),
        (ChannelAck(message_nbr=1 << 32), "out of range"),
    ],
)
def test_cannot_be_said(record: Command, reason: str) -> None:
    """A value that a command cannot carry is refused before anything is written, and the error names it."""
    with pytest.raises(EncodeError, match=reason):
        record.write()


def test_ends_early() -> None:
    """A head that is cut off is refused wherever that is."""
    octets = MessageHead(body_size=3, identifier="m", headers={"k": "v"}).write()
    for size in range(len(octets)):
        with pytest.raises(DecodeError):
            MessageHead.read(octets[:size], 0, size)
    assert read_fields(SecondOctets(octets), GRAMMAR["message-head"])["body-size"] == 3


@pytest.mark.parametrize("size", [0xFFFE, 0xFFFF, 0x10000])
def test_around_the_escape(size: int) -> None:
    """A size of 0xFFFF is the escape, and so is said behind it itself."""
    command = HandleQuery(handle_id=1, selector=b"x" * 65_000)
    command.dest_name = "d" * 255
    command.mime_type = "m" * 200
    command.selector += b"y" * (size - len(encode_command(command)) + 2)
    data = encode_command(command)
    assert len(data) == size + (2 if size < 0xFFFF else 6)
    reader = CommandReader(1 << 20)
    reader.feed(data)
    assert reader.next() == (command, b"")
