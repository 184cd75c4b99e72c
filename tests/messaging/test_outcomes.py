"""`messaging/_outcomes.py`: delivery states and errors on the wire."""

from __future__ import annotations

import pytest
from hypothesis import given

from amqp10.errors import DecodeError, EncodeError
from amqp10.messaging import (
    ACCEPTED,
    RELEASED,
    Accepted,
    DeliveryState,
    Error,
    Modified,
    Received,
    Rejected,
    Released,
    Returned,
    Undone,
)
from amqp10.testing.strategies import delivery_states
from amqp10.types import Described, Symbol, ULong, decode_composite, encode


@given(delivery_states())
def test_states_survive_the_wire(state: DeliveryState) -> None:
    """Every delivery state is read back equal, and of its class."""
    read, end = decode_composite(encode(state))
    assert read == state
    assert type(read) is type(state)
    assert end == len(encode(state))


def test_the_constants_are_values() -> None:
    """Accepted and released say nothing else, so that one object of each does."""
    assert Accepted() == ACCEPTED
    assert Released() == RELEASED
    assert len({ACCEPTED, RELEASED, Accepted(), Released()}) == 2
    assert (ACCEPTED.encode(), RELEASED.encode()) == (b"\0\x53\x24\x45", b"\0\x53\x26\x45")


def test_a_rejection_carries_its_error() -> None:
    """The error is read as an Error, its info with symbols for keys."""
    rejected = Rejected.decode(Rejected(Error("amqp:decode-error", "why", {"key": 1})).encode())
    assert rejected == Rejected(Error("amqp:decode-error", "why", {Symbol("key"): 1}))
    assert rejected.error is not None
    assert rejected.error.info is not None
    assert [type(key) for key in rejected.error.info] == [Symbol]


def test_a_modification_carries_annotations() -> None:
    """Text keys of the annotations are sent as symbols."""
    modified = Modified.decode(Modified(True, None, {"x-opt-why": "busy"}).encode())
    assert modified == Modified(delivery_failed=True, message_annotations={Symbol("x-opt-why"): "busy"})
    assert modified.undeliverable_here is None


def test_mandatory_fields_are_demanded() -> None:
    """`received` without offset, and an error without condition, are refused both ways."""
    with pytest.raises(EncodeError, match="section-offset"):
        Received(1, None).encode()  # type: ignore[arg-type]
    with pytest.raises(DecodeError, match="section-offset"):
        Received.decode(encode(Described(ULong(0x23), [])).replace(b"\x45", b"\xc0\x03\x01\x52\x01"))
    with pytest.raises(DecodeError, match="condition"):
        Error.decode(b"\0\x53\x1d\x45")


def test_other_composites_are_no_error() -> None:
    """Only an error stands where a rejection has its error, both ways."""
    with pytest.raises(DecodeError, match="expected error, not a amqp:accepted:list"):
        Rejected.decode(encode(Described(ULong(0x25), [ACCEPTED])))
    with pytest.raises(TypeError, match=r"error must be an Error, such as .*, not an Accepted"):
        Rejected(ACCEPTED)  # type: ignore[arg-type]
    rejected = Rejected()
    rejected.error = ACCEPTED  # type: ignore[assignment]
    with pytest.raises(EncodeError, match="expected error, not"):
        rejected.encode()


def test_outcomes_with_more_than_the_wire_has() -> None:
    """`Returned` is equal to, and hashed as, any other `Released`; `Undone` to any `Rejected` with that error."""
    error, other = Error(Symbol("amqp:not-found"), "no"), Error(Symbol("amqp:not-allowed"), "no")
    assert Returned(error) == Returned(error) == Released() == RELEASED == Returned(other)
    assert len({Returned(error), Released(), RELEASED}) == 1
    assert Returned(error) != Accepted()
    assert encode(Returned(error)) == encode(Released())
    undone = Undone(error, RELEASED)
    assert undone == Undone(error, Rejected(error)) == Rejected(error)
    assert Rejected(error) == undone
    assert undone != Rejected(other)
    with pytest.raises(TypeError):
        hash(undone)
