"""The constructor codes of Part 1: the AMQP type and the length of the value that each announces (§1.2, §1.6)."""

from __future__ import annotations

from typing import Final

# For each code: the type, and the least number of octets after the constructor. For 0xA_ to 0xF_ these are the size
# field, and for compounds and arrays the count field too.
CODES: Final[dict[int, tuple[str, int]]] = {
    0x40: ("null", 0),
    0x41: ("boolean", 0),
    0x42: ("boolean", 0),
    0x43: ("uint", 0),
    0x44: ("ulong", 0),
    0x45: ("list", 0),
    0x50: ("ubyte", 1),
    0x51: ("byte", 1),
    0x52: ("uint", 1),
    0x53: ("ulong", 1),
    0x54: ("int", 1),
    0x55: ("long", 1),
    0x56: ("boolean", 1),
    0x60: ("ushort", 2),
    0x61: ("short", 2),
    0x70: ("uint", 4),
    0x71: ("int", 4),
    0x72: ("float", 4),
    0x73: ("char", 4),
    0x74: ("decimal32", 4),
    0x80: ("ulong", 8),
    0x81: ("long", 8),
    0x82: ("double", 8),
    0x83: ("timestamp", 8),
    0x84: ("decimal64", 8),
    0x94: ("decimal128", 16),
    0x98: ("uuid", 16),
    0xA0: ("binary", 1),
    0xA1: ("string", 1),
    0xA3: ("symbol", 1),
    0xB0: ("binary", 4),
    0xB1: ("string", 4),
    0xB3: ("symbol", 4),
    0xC0: ("list", 2),
    0xC1: ("map", 2),
    0xD0: ("list", 8),
    0xD1: ("map", 8),
    0xE0: ("array", 3),
    0xF0: ("array", 9),
}


def name_of(code: int) -> str:
    """Return the name of the constructor's type for an error."""
    if code == 0:
        return "a described value"
    known = CODES.get(code)
    return known[0] if known is not None else f"the unknown constructor 0x{code:02x}"
