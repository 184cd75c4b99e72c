"""Decimals in BID against vectors made elsewhere, and exactness both ways."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10.errors import EncodeError
from amqp10.testing.strategies import decimal32s, decimal64s, decimal128s, exact
from amqp10.types import Decimal32, Decimal64, Decimal128, decode, encode

# (type, hexadecimal digits of the BID encoding, number), from IEEE 754-2008 §3.5.2; those of 128 bits are also in
# the corpus of BSON, whose decimal128 is the same format with the octets the other way round.
VECTORS: list[tuple[type[Decimal], str, str]] = [
    (Decimal32, "32800000", "0"),
    (Decimal32, "b2800000", "-0"),
    (Decimal32, "32800001", "1"),
    (Decimal32, "b2800001", "-1"),
    (Decimal32, "32000001", "0.1"),
    (Decimal32, "3200000f", "1.5"),
    (Decimal32, "32ffffff", "8388607"),
    (Decimal32, "6ca00000", "8388608"),
    (Decimal32, "6cb8967f", "9999999"),
    (Decimal32, "77f8967f", "9.999999E+96"),
    (Decimal32, "00000001", "1E-101"),
    (Decimal32, "78000000", "Infinity"),
    (Decimal32, "f8000000", "-Infinity"),
    (Decimal32, "7c000000", "NaN"),
    (Decimal32, "fc000000", "-NaN"),
    (Decimal32, "7e000000", "sNaN"),
    (Decimal32, "7c00007b", "NaN123"),
    (Decimal64, "31c0000000000000", "0"),
    (Decimal64, "31c0000000000001", "1"),
    (Decimal64, "b1a000000000000f", "-1.5"),
    (Decimal64, "31dfffffffffffff", "9007199254740991"),
    (Decimal64, "6c70000000000000", "9007199254740992"),
    (Decimal64, "6c7386f26fc0ffff", "9999999999999999"),
    (Decimal64, "77fb86f26fc0ffff", "9.999999999999999E+384"),
    (Decimal64, "0000000000000001", "1E-398"),
    (Decimal64, "7800000000000000", "Infinity"),
    (Decimal64, "7c00000000000000", "NaN"),
    (Decimal64, "fe00000000000000", "-sNaN"),
    (Decimal128, "30400000000000000000000000000000", "0"),
    (Decimal128, "b0400000000000000000000000000000", "-0"),
    (Decimal128, "30400000000000000000000000000001", "1"),
    (Decimal128, "303e0000000000000000000000000001", "0.1"),
    (Decimal128, "303a00000000000000000000000004d2", "1.234"),
    (Decimal128, "5ffe0000000000000000000000000000", "0E+6111"),
    (Decimal128, "00000000000000000000000000000000", "0E-6176"),
    (Decimal128, "3041ed09bead87c0378d8e63ffffffff", "9999999999999999999999999999999999"),
    (Decimal128, "5fffed09bead87c0378d8e63ffffffff", "9.999999999999999999999999999999999E+6144"),
    (Decimal128, "00000000000000000000000000000001", "1E-6176"),
    (Decimal128, "78000000000000000000000000000000", "Infinity"),
    (Decimal128, "7c000000000000000000000000000000", "NaN"),
    (Decimal128, "7e000000000000000000000000000000", "sNaN"),
]
CODES: dict[type[Decimal], str] = {Decimal32: "74", Decimal64: "84", Decimal128: "94"}


@pytest.mark.parametrize(("python", "digits", "number"), VECTORS)
def test_vectors(python: type[Decimal], digits: str, number: str) -> None:
    """Each number has exactly this encoding, and the encoding is exactly this number, sign and exponent too."""
    encoded = bytes.fromhex(CODES[python] + digits)
    assert encode(python(number)) == encoded
    assert exact(decode(encoded)) == exact(python(number))


@pytest.mark.parametrize(
    ("digits", "number"),
    [
        ("7432ffffff", "8388607"),
        ("746cb89680", "0"),  # significand 10,000,000: one too many
        ("74ecbfffff", "-0"),
        ("846c7386f26fc10000", "0"),
        ("943041ed09bead87c0378d8e6400000000", "0"),  # 10**34
        ("946c100000000000000000000000000000", "0"),  # the form with the implied 100 is beyond 34 digits always
    ],
)
def test_significands_that_are_not_canonical_are_zero(digits: str, number: str) -> None:
    """A significand with more digits than the width allows means zero, with sign and exponent as they stand."""
    value = decode(bytes.fromhex(digits))
    assert value == Decimal(number)
    assert value.is_signed() == number.startswith("-")


@pytest.mark.parametrize("digits", ["74787fffff", "847bffffffffffffff", "947b" + "ff" * 15])
def test_infinity_ignores_the_rest(digits: str) -> None:
    """Bits behind the mark of an infinity say nothing."""
    assert decode(bytes.fromhex(digits)) == Decimal("Infinity")


def test_nan_payload_that_is_not_canonical() -> None:
    """A payload of too many digits counts as none."""
    assert exact(decode(bytes.fromhex("747c0fffff"))) == exact(Decimal32("NaN"))


@pytest.mark.parametrize(
    ("python", "number"),
    [
        (Decimal32, "12345678"),
        (Decimal32, "1E+97"),
        (Decimal32, "1E-102"),
        (Decimal32, "1.5E-101"),
        (Decimal32, "NaN1234567"),
        (Decimal64, "12345678901234567"),
        (Decimal128, "1E+6145"),
        (Decimal128, "1.00000000000000000000000000000000001"),
        (Decimal, "12345678901234567890123456789012345"),
    ],
)
def test_what_does_not_fit_exactly_is_refused(python: type[Decimal], number: str) -> None:
    """A decimal is never rounded: more digits or a larger exponent than the width has is an error."""
    with pytest.raises(EncodeError, match=r"exactly|too many digits"):
        encode(python(number))


@pytest.mark.parametrize(
    ("python", "number"),
    [
        (Decimal32, "1E+96"),  # exponent beyond the highest, zeros fit behind the digits
        (Decimal32, "9.9E+96"),
        (Decimal32, "10E-102"),  # exponent below the lowest, a zero can go
        (Decimal32, "1234567000"),
        (Decimal32, "0E+500"),
        (Decimal32, "-0E-500"),
        (Decimal64, "1E+384"),
        (Decimal128, "1E+6144"),
        (Decimal, "1.50000000000000000000000000000000000000000"),
    ],
)
def test_an_exponent_moves_where_the_number_stays_the_same(python: type[Decimal], number: str) -> None:
    """Zeros go into the exponent or out of it when that makes the number fit exactly; so does zero's own exponent."""
    value = decode(encode(python(number)))
    assert value == Decimal(number)
    assert value.is_signed() == Decimal(number).is_signed()


@settings(deadline=None)
@given(st.one_of(decimal32s(), decimal64s(), decimal128s()))
def test_exact_both_ways(value: Decimal) -> None:
    """Sign, digits, exponent, infinity, NaN, its payload and its signal all come back."""
    assert exact(decode(encode(value))) == exact(value)


@settings(deadline=None)
@given(st.sampled_from([("74", 4), ("84", 8), ("94", 16)]), st.binary(min_size=16, max_size=16))
def test_every_pattern_has_a_meaning(kind: tuple[str, int], octets: bytes) -> None:
    """Any bits decode, and what they mean encodes to bits that mean the same."""
    code, width = kind
    value = decode(bytes.fromhex(code) + octets[:width])
    assert exact(decode(encode(value))) == exact(value)


@pytest.mark.parametrize("python", [Decimal32, Decimal64, Decimal128])
def test_a_signaling_nan_equals_nothing(python: type[Decimal]) -> None:
    """A signaling NaN of a peer can be compared with any value, also within lists and maps; other numbers as ever."""
    nan = python("sNaN")
    for other in (1, 1.5, python("sNaN"), python(1), Decimal(1), Decimal128("NaN"), "x", None, [nan]):
        for one, two in ((nan, other), (other, nan), ([nan, 1], [other, 1]), ({"a": nan}, {"a": other})):
            assert one != two
            assert not one == two  # noqa: SIM201
    assert python("1.0") == python(1) == Decimal(1) == 1
    assert python(1) != python(2)
    assert hash(python(1)) == hash(1)
    with pytest.raises(TypeError):
        hash(nan)
