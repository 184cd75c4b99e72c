"""Field tables: what the types are on the wire, what is refused, and what draft 0-9 lacks."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.dialects.v0_9.wire.tables import DRAFT_TABLES, TABLES, BadName
from amqp10.errors import DecodeError, EncodeError
from amqp10.types import Byte, Char, Float, Int, Short, UByte, UInt, ULong, UShort

MOMENT = datetime(2026, 11, 21, 15, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "octets"),
    [
        (True, "7401"),
        (Byte(-1), "62ff"),
        (UByte(255), "42ff"),
        (Short(-2), "73fffe"),
        (UShort(65535), "75ffff"),
        (Int(-1), "49ffffffff"),
        (UInt(1), "6900000001"),
        (5, "6c0000000000000005"),
        (Float(1.5), "663fc00000"),
        (1.5, "643ff8000000000000"),
        (Decimal("1.25"), "44020000007d"),
        ("hi", "53000000026869"),
        (b"hi", "78000000026869"),
        (MOMENT, "54000000006b01b1f0"),
        (["a", None], "4100000007530000000161" + "56"),
        ({"b": False}, "460000000401627400"),
        (None, "56"),
    ],
)
def test_types_on_the_wire(value: Any, octets: str) -> None:
    """Each Python type has its field type, and comes back as it was."""
    data = TABLES.encode({"n": value})
    assert data[6:].hex() == octets
    read, end = TABLES.read(data, 0)
    assert end == len(data)
    assert read == {"n": value}
    assert type(read["n"]) is type(value)


@pytest.mark.parametrize(
    ("octets", "value"),
    [
        ("4c0000000000000005", 5),  # RabbitMQ reads L as l
        ("55fffe", Short(-2)),  # the specification's own octet for it
        ("6b41", Char("A")),
        ("63000000026869", "hi"),
        ("4300000004006800690", None),
        ("5300000001ff", b"\xff"),  # binary from peers that have no x
    ],
)
def test_types_that_are_only_read(octets: str, value: Any) -> None:
    """Values that other peers write, and this package does not."""
    if value is None:
        octets, value = octets[:-1], "hi"
    body = bytes.fromhex("016e" + octets)
    assert TABLES.read(len(body).to_bytes(4, "big") + body, 0)[0] == {"n": value}


def test_the_first_of_two_fields_of_a_name_counts() -> None:
    """As the specification says of duplicates."""
    body = b"\1aI\0\0\0\1\1aI\0\0\0\2"
    assert TABLES.read(len(body).to_bytes(4, "big") + body, 0)[0] == {"a": 1}


@pytest.mark.parametrize(
    "value",
    [
        2**63,
        ULong(2**63),
        object(),
        {"x" * 256: 1},
        Decimal("1e-300"),
        Decimal(2**31),
        Decimal("NaN"),
        datetime(2026, 1, 1),
    ],
)
def test_what_no_table_can_have(value: Any) -> None:
    """It is refused, and the field is named."""
    with pytest.raises(EncodeError, match="field"):
        TABLES.encode({"field": value})


def test_a_table_that_contains_itself() -> None:
    """It is refused like any value that cannot be written."""
    table: dict[str, Any] = {}
    table["self"] = table
    with pytest.raises(EncodeError, match="nested"):
        TABLES.encode(table)


@pytest.mark.parametrize(
    "octets",
    [
        "00000005016149000000",  # ends within a value
        "0000000301614a",  # an unknown type
        "000000050573",  # ends within a name
        "00000003016141",  # ends within the length of an array
        "000000080161410000000f56",  # an array longer than the table
        "0000000601615300000009",  # a string longer than the table
        "ffffffff",  # a length beyond the data
    ],
)
def test_malformed_tables(octets: str) -> None:
    """Each fault is a DecodeError, never another exception."""
    with pytest.raises(DecodeError):
        TABLES.read(bytes.fromhex(octets), 0)


def test_tables_nested_without_end() -> None:
    """Depth is bounded."""
    data = b"\0\0\0\0"
    for _ in range(40):
        data = (len(data) + 3).to_bytes(4, "big") + b"\1aF" + data
    with pytest.raises(DecodeError, match="nested"):
        TABLES.read(data, 0)


@given(st.binary(max_size=60))
def test_any_octets(data: bytes) -> None:
    """Whatever comes is a table or a DecodeError."""
    try:
        table, end = TABLES.read(data, 0)
    except DecodeError:
        return
    assert end <= len(data)
    if not any(isinstance(value, float) and math.isnan(value) for value in table.values()):
        assert TABLES.read(data, 0)[0] == table or "nan" in repr(table)


@pytest.mark.parametrize("value", [True, 1.5, b"x", None, [1], 2**31])
def test_the_draft_has_five_types(value: Any) -> None:
    """S, I, D, T and F; anything else is refused, or does not come back as it was."""
    assert not DRAFT_TABLES.holds(value)
    assert DRAFT_TABLES.encode({"a": Int(1), "s": "x"})[:4] == b"\0\0\0\x0f"


def test_the_draft_is_strict_about_names() -> None:
    """A name begins with a letter, $ or #, and goes on with these, digits and underscores."""
    with pytest.raises(BadName):
        DRAFT_TABLES.read(bytes.fromhex("0000000701314900000001"), 0)
    with pytest.raises(EncodeError):
        DRAFT_TABLES.encode({"x-death": 1})
    assert DRAFT_TABLES.spelled("x-opt-amqp10") == "x_opt_amqp10"
