"""A check that properties are well-formed, without decoding them: what nobody asks for is never decoded.

benchmarks/amqp091.py with properties that differ from message to message: a fifth of what decoding takes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from .properties import BasicProperties

# Field type -> octets of its value; -1: the size goes before the value.
_SIZES: Final = dict(zip(b"tbBsuIilfdTVSx", (1, 1, 1, 2, 2, 4, 4, 8, 4, 8, 8, 0, -1, -1), strict=True))


def is_well_formed(properties: bytes) -> bool:
    """Return whether flags and values of the basic class are certainly well-formed, by 0-9-1.

    False means unknown: decode them to find out. Rare values give False: tables in tables, arrays, decimals.
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
    """Return the types of the properties that are present; None if further flags follow, or a flag has no property."""
    bits = int.from_bytes(flags, "big")
    if len(flags) < 2 or bits & 3:
        return None
    return tuple(field.type for index, field in enumerate(BasicProperties.fields) if bits & 0x8000 >> index)
