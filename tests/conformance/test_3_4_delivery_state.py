"""Delivery states (§3.4): their descriptors and fields on the wire."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.errors import DecodeError
from amqp10.messaging import Accepted, Error, Modified, Received, Rejected, Released
from amqp10.types import Composite, Described, Symbol, UInt, ULong, decode_composite, encode

STATES = [
    pytest.param(
        Received(2, 1 << 40),
        (0x23, "amqp:received:list", [UInt(2), ULong(1 << 40)]),
        marks=pytest.mark.spec("3.4.1", "received: section-number and section-offset"),
    ),
    pytest.param(Accepted(), (0x24, "amqp:accepted:list", []), marks=pytest.mark.spec("3.4.2", "accepted: no fields")),
    pytest.param(
        Rejected(), (0x25, "amqp:rejected:list", []), marks=pytest.mark.spec("3.4.3", "rejected: the error is optional")
    ),
    pytest.param(
        Rejected(Error("amqp:decode-error", "why", {"where": 3})),
        (
            0x25,
            "amqp:rejected:list",
            [Described(ULong(0x1D), [Symbol("amqp:decode-error"), "why", {Symbol("where"): 3}])],
        ),
        marks=pytest.mark.spec("3.4.3", "rejected: an error"),
    ),
    pytest.param(Released(), (0x26, "amqp:released:list", []), marks=pytest.mark.spec("3.4.4", "released: no fields")),
    pytest.param(
        Modified(), (0x27, "amqp:modified:list", []), marks=pytest.mark.spec("3.4.5", "modified: all is optional")
    ),
    pytest.param(
        Modified(True, False, {"x-opt-why": "busy"}),
        (0x27, "amqp:modified:list", [True, False, {Symbol("x-opt-why"): "busy"}]),
        marks=pytest.mark.spec("3.4.5", "modified: delivery-failed, undeliverable-here, message-annotations"),
    ),
]


@pytest.mark.parametrize(("state", "wire"), STATES)
def test_states(state: Composite, wire: tuple[int, str, list[Any]]) -> None:
    """Each state is the described list of the specification, and is known by either descriptor."""
    code, name, fields = wire
    assert state.encode() == encode(Described(ULong(code), fields))
    assert decode_composite(state.encode())[0] == state
    assert decode_composite(encode(Described(Symbol(name), fields)))[0] == state


@pytest.mark.spec("3.4.1", "both fields of received are mandatory")
@pytest.mark.parametrize("fields", [[], [UInt(1)], [None, ULong(1)], [UInt(1), None], ["1", ULong(1)]])
def test_received_is_complete(fields: list[Any]) -> None:
    """A received without both its fields, or with others, is refused."""
    with pytest.raises(DecodeError):
        decode_composite(encode(Described(ULong(0x23), fields)))


@pytest.mark.spec("3.4.5", "the types of the fields of modified")
@pytest.mark.parametrize("fields", [[1], [None, "no"], [None, None, []], [None] * 4])
def test_modified_types(fields: list[Any]) -> None:
    """A modified with a field of another type, or one too many, is refused."""
    with pytest.raises(DecodeError):
        decode_composite(encode(Described(ULong(0x27), fields)))


@pytest.mark.spec("2.8.14", "an error has a condition, and may have a description and info")
def test_errors() -> None:
    """The condition is mandatory and a symbol, the description a string, the info a map."""
    assert Error.decode(encode(Described(ULong(0x1D), [Symbol("amqp:not-found")]))) == Error("amqp:not-found")
    wrong: list[Any] = [[], ["amqp:not-found"], [Symbol("a"), Symbol("b")], [Symbol("a"), None, []]]
    for fields in wrong:
        with pytest.raises(DecodeError):
            Error.decode(encode(Described(ULong(0x1D), fields)))
