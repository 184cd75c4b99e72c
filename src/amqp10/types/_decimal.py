"""Decimals of 32, 64 and 128 bits, in the binary integer encoding (BID) of IEEE 754-2008 (§1.6.13-15).

From the top bit down: the sign, the exponent, the significand as a binary integer. If the exponent would begin with
`11`, those two bits mark another form: the exponent stands two bits further right, and the significand begins with an
implied `100`. In place of the exponent, `11110` is infinity and `11111` NaN, whose next bit is set if it signals. A
significand with more digits than the width allows is not canonical and means zero.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Final

from ..errors import EncodeError
from ._values import Decimal32, Decimal64, Decimal128


def _reader(bits: int, exponent_bits: int, digits: int, python: type[Decimal]) -> Callable[[int], Decimal]:
    """Return a function from the encoding, an unsigned integer, to the decimal."""
    low = bits - 1 - exponent_bits
    bias = 3 * (1 << (exponent_bits - 3)) + digits - 2
    payload_limit = 10 ** (digits - 1)
    limit = 10**digits

    def read(encoded: int) -> Decimal:
        sign = "-" if encoded >> (bits - 1) else ""
        if (encoded >> (bits - 3)) & 3 != 3:
            exponent = (encoded >> low) & ((1 << exponent_bits) - 1)
            significand = encoded & ((1 << low) - 1)
        elif (encoded >> (bits - 5)) & 15 != 15:
            exponent = (encoded >> (low - 2)) & ((1 << exponent_bits) - 1)
            significand = (4 << (low - 2)) | encoded & ((1 << (low - 2)) - 1)
        elif (encoded >> (bits - 6)) & 1 == 0:
            return python(sign + "Infinity")
        else:
            payload = encoded & ((1 << (low - 3)) - 1)
            kind = "sNaN" if (encoded >> (bits - 7)) & 1 else "NaN"
            return python(f"{sign}{kind}{payload if 0 < payload < payload_limit else ''}")
        if significand >= limit:
            significand = 0
        return python(f"{sign}{significand}E{exponent - bias}")

    return read


def _writer(bits: int, exponent_bits: int, digits: int) -> Callable[[Decimal], int]:
    """Return a function from a decimal to its encoding, an unsigned integer.

    A number keeps its exponent if the width has it. Otherwise it gets the nearest exponent with the same value.
    """
    low = bits - 1 - exponent_bits
    bias = 3 * (1 << (exponent_bits - 3)) + digits - 2
    top = 3 * (1 << (exponent_bits - 2)) - 1
    infinity = 0b11110 << (bits - 6)
    nan = 0b111110 << (bits - 7)
    signaling_nan = 0b111111 << (bits - 7)
    to_text = Decimal.__str__

    def write(value: Decimal) -> int:
        # Such as "-12.50", whose exponent is -2. The digits one by one take three times as long.
        whole, _, fraction = to_text(value).partition(".")
        if (whole + fraction).lstrip("-").isdecimal() and len(whole) + len(fraction) <= digits:
            significand = abs(int(whole + fraction))
            if significand < 1 << low:
                return (whole[0] == "-") << (bits - 1) | bias - len(fraction) << low | significand
        negative, digit_tuple, exponent = value.as_tuple()
        sign = negative << (bits - 1)
        if isinstance(exponent, str):
            if exponent == "F":
                return sign | infinity
            payload = int("".join(map(str, digit_tuple)) or "0")
            if payload >= 10 ** (digits - 1):
                raise EncodeError(f"the payload of {value} has too many digits for decimal{bits}")
            return sign | (nan if exponent == "n" else signaling_nan) | payload
        text = "".join(map(str, digit_tuple)).lstrip("0")
        biased = exponent + bias
        if not text:
            return sign | min(max(biased, 0), top) << low
        # The value stays the same: trailing zeros move into the exponent if there are too many digits or the exponent
        # is too low, and out of it if it is too high.
        surplus = max(len(text) - digits, -biased)
        if surplus > 0:
            if len(text) <= surplus or text[-surplus:].strip("0"):
                raise EncodeError(f"{value} does not fit decimal{bits} exactly")
            text = text[:-surplus]
            biased += surplus
        if biased > top:
            missing = biased - top
            if len(text) + missing > digits:
                raise EncodeError(f"{value} does not fit decimal{bits} exactly")
            text += "0" * missing
            biased = top
        significand = int(text)
        if significand < 1 << low:
            return sign | biased << low | significand
        return sign | 3 << (bits - 3) | biased << (low - 2) | significand & ((1 << (low - 2)) - 1)

    return write


read_decimal32: Final = _reader(32, 8, 7, Decimal32)
read_decimal64: Final = _reader(64, 10, 16, Decimal64)
read_decimal128: Final = _reader(128, 14, 34, Decimal128)
write_decimal32: Final = _writer(32, 8, 7)
write_decimal64: Final = _writer(64, 10, 16)
write_decimal128: Final = _writer(128, 14, 34)
