"""Maps that are `fields` or annotations: which keys they have, wherever frames carry them (§2.8.13, §3.2.10)."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.engine import ConnectionEnded
from amqp10.errors import DecodeError, EncodeError, RemoteProtocolError
from amqp10.messaging import Error, Modified, Source, Target
from amqp10.testing import Attach, Begin, Close, Flow, Open
from amqp10.types import Array, Composite, Described, Int, Map, Symbol, UInt, ULong, encode

from ..kit.conformance.play import Play

# Where frames have such maps, and the fields before them.
FIELDS: list[tuple[type[Composite], list[Any]]] = [
    (Open, ["c", *[None] * 8]),
    (Begin, [None, UInt(0), UInt(1), UInt(1), *[None] * 3]),
    (Attach, ["l", UInt(0), False, *[None] * 6, UInt(0), *[None] * 3]),
    (Flow, [None, UInt(1), UInt(0), UInt(1), *[None] * 6]),
    (Source, [None] * 5),  # dynamic-node-properties
    (Source, [None] * 7),  # filter
    (Target, [None] * 5),
    (Error, [Symbol("c"), None]),
]
NO_SYMBOLS: list[Any] = [Int(1), 1, None, True, b"k", [], {}, Array("symbol", ["k"]), Described(Symbol("k"), 1), "é"]


@pytest.mark.spec("2.8.13", "the keys of fields are symbols")
@pytest.mark.deviation(
    "2.8.13",
    "a string as a key of fields or annotations in a frame is taken as the symbol of that name",
    "peers that send a string mean the symbol, and no key of another type has that name",
)
@pytest.mark.parametrize(("kind", "before"), FIELDS)
def test_keys(kind: type[Composite], before: list[Any]) -> None:
    """Any other key is refused both ways, be it one that no dict can hold; a string is the symbol that it spells."""

    def on_wire(entries: Any) -> bytes:
        return encode(Described(ULong(kind.descriptor_code), [*before, entries]))

    name = kind.fields[len(before)].name
    for key in NO_SYMBOLS:
        with pytest.raises(DecodeError, match=f"{kind.descriptor_name} .*: (the|a) key"):
            kind.decode(on_wire(Map([(key, None)])))
        written = kind.decode(on_wire({}))
        setattr(written, name, Map([(key, None)]))
        with pytest.raises(EncodeError, match=f"{kind.descriptor_name} .*: the key"):
            written.encode()
    for key in (Symbol("k"), "k"):
        read = kind.decode(on_wire({key: None}))
        assert [(type(each), each) for each in getattr(read, name)] == [(Symbol, "k")]
        assert read.encode() == on_wire({Symbol("k"): None})
    with pytest.raises(DecodeError, match="the key 'k' comes twice"):
        kind.decode(on_wire(Map([(Symbol("k"), None), ("k", None)])))


@pytest.mark.spec("3.4.5", "keys of the annotations are symbols or ulongs")
def test_keys_of_annotations() -> None:
    """An int stands for a ulong on our side; on the wire it is a long, and no key."""
    for key in (Symbol("k"), ULong(7)):
        assert Modified.decode(Modified(message_annotations={key: 1}).encode()).message_annotations == {key: 1}
    assert Modified(message_annotations={7: 1}).encode() == Modified(message_annotations={ULong(7): 1}).encode()
    wrong: Any
    for wrong in (Int(1), 1.5, [], UInt(7)):
        with pytest.raises(EncodeError, match="it has to be a symbol or ulong"):
            Modified(message_annotations=Map([(wrong, 1)])).encode()  # type: ignore[arg-type]
    for wrong in (7, 1.5, [], UInt(7)):
        with pytest.raises(DecodeError, match="it has to be a symbol or ulong"):
            Modified.decode(encode(Described(ULong(0x27), [None, None, Map([(wrong, 1)])])))


@pytest.mark.spec("2.8.13", "a frame whose fields have another key ends the connection with a decode error")
@pytest.mark.parametrize("key", [[], UInt(1)])
def test_in_frames(play_client: Play, play_server: Play, key: Any) -> None:
    """Both roles say why, by a close."""
    for play in (play_client, play_server):
        script = play()
        body = encode(Described(ULong(0x11), [None, UInt(0), UInt(1), UInt(1), None, None, None, Map([(key, 1)])]))
        script.send_bytes((8 + len(body)).to_bytes(4, "big") + b"\2\0\0\0" + body)
        script.expect(Close, error=lambda error: error.condition == "amqp:decode-error")
        assert isinstance(script.expect_event(ConnectionEnded).error, RemoteProtocolError)
