"""Whether properties are well-formed, found without decoding them: what nobody asks for is never decoded.

benchmarks/amqp091.py with properties that differ from message to message: a fifth of what decoding takes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from ._properties import BasicProperties

# Octets of a field's value by its type, where that says it; -1: its size goes before it.
_SIZES: Final = dict(zip(b"tbBsuIilfdTVSx", (1, 1, 1, 2, 2, 4, 4, 8, 4, 8, 8, 0, -1, -1), strict=True))


def sound(properties: bytes) -> bool:
    """Whether flags and values of the basic class are surely well-formed, by 0-9-1; False: whoever decodes them knows.

    It is not sure of what few say: tables in tables, arrays, decimals.
    """
    kinds = _kinds(properties[:2])
    if kinds is None:
        return False
    size = len(properties)
    at = 2
    try:
        for kind in kinds:
            if kind == "shortstr":
                at += 1 + properties[at]
            elif kind == "table":
                end = at + 4 + int.from_bytes(properties[at : at + 4], "big")
                at += 4
                if end > size:
                    return False
                while at < end:
                    at += 1 + properties[at]
                    width = _SIZES.get(properties[at], size)
                    at += 1 + width if width >= 0 else 5 + int.from_bytes(properties[at + 1 : at + 5], "big")
                if at > end:
                    return False
            else:
                at += 8 if kind == "timestamp" else 1
    except IndexError:
        return False
    return at == size


@lru_cache(maxsize=256)
def _kinds(flags: bytes) -> tuple[str, ...] | None:
    """The types of the properties that are there; None if further flags follow, or one is of no property."""
    bits = int.from_bytes(flags, "big")
    if len(flags) < 2 or bits & 3:
        return None
    return tuple(field.type for index, field in enumerate(BasicProperties.fields) if bits & 0x8000 >> index)
