"""`messaging/_body.py`: the explicit forms of a body."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.errors import EncodeError
from amqp10.messaging import AmqpSequence, AmqpValue, Data
from amqp10.types import UInt


def test_data_keeps_its_sections() -> None:
    """Data is its sections in order, and all of them in one piece as bytes."""
    data = Data(b"a", bytearray(b"b"), memoryview(b"c"))
    assert data.parts == tuple(data) == (b"a", b"b", b"c")
    assert all(type(part) is bytes for part in data)
    assert (bytes(data), len(data)) == (b"abc", 3)
    assert repr(data) == "Data(b'a', b'b', b'c')"


def test_data_is_a_value() -> None:
    """Equal sections make equal data; joining them does not."""
    assert Data(b"a", b"b") == Data(b"a", b"b")
    assert Data(b"a", b"b") != Data(b"ab")
    assert Data(b"a") != b"a"
    assert len({Data(b"a"), Data(b"a")}) == 1


def test_sequences_keep_their_sections() -> None:
    """AmqpSequence is its lists in order."""
    sequence = AmqpSequence([1, "a"], (UInt(2),))
    assert sequence.parts == tuple(sequence) == ([1, "a"], [2])
    assert len(sequence) == 2
    assert sequence == AmqpSequence([1, "a"], [UInt(2)])
    assert sequence != AmqpSequence([1, "a", UInt(2)])
    assert repr(sequence) == "AmqpSequence([1, 'a'], [UInt(2)])"


def test_values_hold_one() -> None:
    """AmqpValue is its value."""
    assert AmqpValue(b"a").value == b"a"
    assert AmqpValue(1) == AmqpValue(1)
    assert AmqpValue(1) != AmqpValue(2)
    assert AmqpValue(1) != 1
    assert repr(AmqpValue("a")) == "AmqpValue('a')"


def test_a_body_has_a_section_of_the_right_type() -> None:
    """No section at all, and sections that are something else, are refused at once."""
    no_data: list[list[Any]] = [[], ["text"], [5], [b"a", None]]
    for wrong in no_data:
        with pytest.raises(EncodeError):
            Data(*wrong)
    no_sequences: list[list[Any]] = [[], ["text"], [5], [[1], {}]]
    for wrong in no_sequences:
        with pytest.raises(EncodeError):
            AmqpSequence(*wrong)
