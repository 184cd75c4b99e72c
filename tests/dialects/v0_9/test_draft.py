"""The draft 0-9: hand-computed vectors, the checks that it asks for, and structured content."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from amqp10.dialects.v0_9 import DRAFT
from amqp10.dialects.v0_9.codes import Fault
from amqp10.dialects.v0_9.message.from_basic import FromBasic
from amqp10.dialects.v0_9.message.places import NATIVE_ANNOTATION
from amqp10.dialects.v0_9.message.to_basic import ToBasic
from amqp10.dialects.v0_9.wire.draft import Assembler
from amqp10.dialects.v0_9.wire.frames import FrameReader
from amqp10.dialects.v0_9.wire.framing import BODY, HEADER, METHOD
from amqp10.dialects.v0_9.wire.methods import ChannelOpen, ConnectionClose, ConnectionStartOk
from amqp10.dialects.v0_9.wire.properties import BasicProperties
from amqp10.dialects.v0_9.wire.tables import DRAFT_TABLES, TABLES
from amqp10.dialects.v0_9.wire.variant import V0_9_DRAFT
from amqp10.engine import ConnectionEnded, ConnectionOpened, ConnectionTerms, Engine, SessionBegun
from amqp10.errors import DecodeError
from amqp10.messaging import Message
from amqp10.sasl import Authenticator

VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text())
FRAMING, METHODS = V0_9_DRAFT.framing, V0_9_DRAFT.methods


def named(vectors: list[dict[str, Any]]) -> Any:
    return [pytest.param(vector, id=vector["name"]) for vector in vectors]


def python_name(name: str) -> str:
    return "global_" if name == "global" else name.replace("-", "_")


def plain(value: Any) -> Any:
    """A value as the vectors write it."""
    return value.decode("latin-1") if isinstance(value, bytes) else value


FRAMES = [vector for vector in VECTORS["good"] if vector["kind"] == "frames"]


@pytest.mark.parametrize("vector", named(FRAMES))
def test_frames_that_are_to_be_read(vector: dict[str, Any]) -> None:
    """Each frame of a vector comes out with its type, channel, method and fields, and is written as it was."""
    data = bytes.fromhex(vector["hex"])
    reader = FrameReader(FRAMING, 1 << 20)
    for octet in data:  # in the smallest portions
        reader.feed(bytes((octet,)))
    found = list(reader.frames())
    assert len(found) == len(vector["frames"])
    again = b""
    for (kind, channel, payload), frame in zip(found, vector["frames"], strict=True):
        assert (kind, channel) == (frame["type"], frame["channel"])
        if kind == METHOD:
            method = METHODS.decode(payload)
            assert method is not None
            assert method.name == frame["method"]
            for name, value in frame["fields"].items():
                ours = getattr(method, python_name(name))
                if name == "server-properties":
                    assert ours == {"product": "x"}
                else:
                    assert plain(ours) == value
            payload = METHODS.encode(method)
        elif kind == HEADER:
            assert int.from_bytes(payload[2:4], "big") == frame["weight"]
            assert int.from_bytes(payload[4:12], "big") == frame["body-size"]
            said = BasicProperties.decode(payload, DRAFT_TABLES, 12)
            assert {name.replace("_", "-"): value for name, value in vars(said).items()} == frame["properties"]
        elif kind == BODY:
            assert payload.decode() == frame["body"]
        again += FRAMING.frame(kind, channel, payload)
    if "cycle" not in vector["frames"][0]:
        assert again == data


def test_the_header() -> None:
    """The one that the draft shares with 0-8."""
    vector = next(vector for vector in VECTORS["good"] if vector["kind"] == "header")
    assert DRAFT.headers == (bytes.fromhex(vector["hex"]),)


def test_a_field_table_with_all_types() -> None:
    """S, I, D, T and F, read and written to the octet."""
    vector = next(vector for vector in VECTORS["good"] if vector["kind"] == "table")
    data = bytes.fromhex(vector["hex"])
    table, end = DRAFT_TABLES.read(data, 0)
    assert end == len(data)
    assert list(table) == list(vector["table"])
    assert (table["s"], table["i"], str(table["d"]), table["f"]) == ("hi", -1, "1.25", {})
    assert DRAFT_TABLES.encode(table) == data


# What is to be refused


def server() -> Engine:
    """A server whose client has opened a connection, and channel 1."""
    authenticator = Authenticator(anonymous=True).for_connection(secure=True)
    engine = DRAFT.server(ConnectionTerms("server"), authenticator)
    engine.start()
    engine.receive_data(DRAFT.headers[0])
    say(engine, 0, ConnectionStartOk({}, "ANONYMOUS"))
    say(engine, 0, "connection.tune-ok", 100, 0, 0)
    say(engine, 0, "connection.open", "/")
    assert any(isinstance(event, ConnectionOpened) for event in engine.events())
    engine.open()
    say(engine, 1, ChannelOpen())
    for event in engine.events():
        if isinstance(event, SessionBegun):
            event.session.begin()
    engine.data_to_send()
    return engine


def say(engine: Engine, channel: int, method: Any, *fields: Any) -> None:
    if isinstance(method, str):
        method = next(kind for kind in METHODS if kind.name == method)(*fields)
    engine.receive_data(FRAMING.frame(METHOD, channel, METHODS.encode(method)))


def told(engine: Engine) -> int | None:
    """The reply code with which it closed; None if it ended without a word."""
    data = engine.data_to_send()
    assert any(isinstance(event, ConnectionEnded) for event in engine.events())
    if not data:
        return None
    reader = FrameReader(FRAMING, 1 << 20)
    reader.feed(data)
    closes = [METHODS.decode(payload) for kind, _, payload in reader.frames() if kind == METHOD]
    assert isinstance(closes[-1], ConnectionClose)
    return closes[-1].reply_code


BAD = {vector["name"]: vector for vector in VECTORS["bad"]}


@pytest.mark.parametrize("vector", named([vector for vector in VECTORS["bad"] if vector["name"] != "bad-field-name"]))
def test_frames_that_are_to_be_refused(vector: dict[str, Any]) -> None:
    """With the code that the draft gives, or by closing the socket without another octet."""
    engine = server()
    engine.receive_data(bytes.fromhex(vector["hex"]))
    expected = vector["error"] if isinstance(vector["error"], int) else None
    assert told(engine) == expected


def test_amq_wlp_table_01() -> None:
    """A field name that begins with a digit: 503, whatever method it comes in."""
    with pytest.raises(DecodeError):
        DRAFT_TABLES.read(bytes.fromhex(BAD["bad-field-name"]["hex"]), 0)
    engine = server()
    declare = bytes.fromhex("0032000a0000017100" + BAD["bad-field-name"]["hex"])
    engine.receive_data(FRAMING.frame(METHOD, 1, declare))
    assert told(engine) == 503


def test_a_frame_larger_than_agreed() -> None:
    """501: it is not waited for."""
    engine = server()
    engine.receive_data(FRAMING.head.pack(METHOD, 1, 0x7FFF_FFFF))
    assert told(engine) == 501


def test_a_method_within_content() -> None:
    """Incomplete content: 501."""
    engine = server()
    say(engine, 1, "basic.publish", 0, "", "q")
    say(engine, 1, "basic.publish", 0, "", "q")
    assert told(engine) == 501


def test_out_of_band_frames() -> None:
    """They are read, and refused as not implemented."""
    engine = server()
    engine.receive_data(FRAMING.frame(4, 1, b""))
    assert told(engine) == 540


def test_trace_and_heartbeat_are_dropped() -> None:
    """On channel 0 they are no more than signs of life, whatever their cycle is."""
    engine = server()
    for name in ("trace", "heartbeat", "cycle-nonzero-heartbeat"):
        engine.receive_data(bytes.fromhex(next(each for each in VECTORS["good"] if each["name"] == name)["hex"]))
    assert not engine.events()
    assert engine.opened


# Structured content


def header(weight: int, size: int) -> bytes:
    return bytes.fromhex("003c") + weight.to_bytes(2, "big") + size.to_bytes(8, "big") + b"\0\0"


def test_contents_within_a_content() -> None:
    """Children come between header and bodies, to any depth."""
    assembler = Assembler()
    for is_header, payload in (
        (True, header(2, 1)),
        (True, header(1, 2)),
        (True, header(0, 0)),
        (False, b"pp"),
        (True, header(0, 1)),
        (False, b"c"),
    ):
        (assembler.header if is_header else assembler.body)(payload)
        assert assembler.whole is None
    assembler.body(b"x")
    whole = assembler.whole
    assert whole is not None
    assert whole.body == b"x"
    assert [(child.body, len(child.children)) for child in whole.children] == [(b"pp", 1), (b"c", 0)]


@pytest.mark.parametrize(
    "steps",
    [
        [(True, header(1, 1)), (False, b"x")],  # a body where a content is due
        [(True, header(0, 2)), (True, header(0, 1))],  # a content where a body is due
        [(True, header(0, 1)), (False, b"xx")],  # more than the size says
    ],
)
def test_weights_that_do_not_fit(steps: list[tuple[bool, bytes]]) -> None:
    """501, like other incomplete content."""
    assembler = Assembler()
    with pytest.raises(Fault) as raised:
        for is_header, payload in steps:
            (assembler.header if is_header else assembler.body)(payload)
    assert raised.value.code == 501


def test_nested_without_end() -> None:
    """So deep, and no deeper."""
    assembler = Assembler()
    for _ in range(16):
        assembler.header(header(1, 1))
    with pytest.raises(Fault) as raised:
        assembler.header(header(1, 1))
    assert raised.value.code == 540


def test_contents_of_nothing() -> None:
    """Messages within a message count for its size even if their bodies are empty, because headers are kept, too."""
    assembler = Assembler()
    assembler.header(header(3, 10))
    assert assembler.octets == 10
    for size in (0, 0, 5):
        assembler.header(header(0, size))
    assert assembler.octets == 15 + 3 * len(header(0, 0))


def test_a_structured_message_comes_back() -> None:
    """As an annotation in AMQP 1.0, and as frames with weight again, in the vector's octets."""
    vector = next(each for each in VECTORS["good"] if each["name"] == "structured-content")
    reader = FrameReader(FRAMING, 1 << 20)
    reader.feed(bytes.fromhex(vector["hex"]))
    assembler = Assembler()
    for kind, _, payload in reader.frames():
        (assembler.header if kind == HEADER else assembler.body)(payload)
    whole = assembler.whole
    assert whole is not None
    payload = FromBasic(DRAFT_TABLES).map(b"\0\0\1q", whole.properties, whole.body, whole.children)
    message = Message.decode(payload)
    assert message.body == b"pp"
    assert [Message.decode(child).body for child in message.message_annotations[NATIVE_ANNOTATION]["children"]] == [
        b"c"
    ]
    route, body = ToBasic(DRAFT_TABLES, "", "q").map(payload)
    again = FRAMING.message(1, 60, route.properties, body, 4096, route.children)
    assert again == bytes.fromhex(vector["hex"])


def test_a_structured_message_through_another_dialect() -> None:
    """0-9-1 has no weight: the children wait in a header."""
    native = {"children": [Message(b"c").encode()]}
    payload = Message(b"pp", message_annotations={NATIVE_ANNOTATION: native}).encode()
    route, body = ToBasic(TABLES, "", "q").map(payload)
    back = Message.decode(FromBasic(TABLES).map(b"\0\0\1q", route.properties, body))
    assert back.message_annotations[NATIVE_ANNOTATION]["children"] == native["children"]
