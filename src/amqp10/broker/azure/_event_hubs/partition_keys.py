"""The partition of a partition key, computed as Azure's clients do, with Bob Jenkins' hash "lookup3"."""

from __future__ import annotations

from typing import Final

_MASK: Final = 0xFFFFFFFF
_SEED: Final = 0xDEADBEEF
_BLOCK: Final = 12


def partition_of(key: str, partitions: int) -> int:
    """Return the number of the partition for events with this key, in a hub of `partitions` partitions."""
    first, second = _lookup3(key.encode())
    code = (first ^ second) & 0xFFFF
    if code >= 0x8000:
        code = 0x10000 - code  # the absolute value of a signed 16-bit number
    return code % partitions


def _rotated(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (32 - bits))) & _MASK


def _words(block: bytes) -> tuple[int, int, int]:
    """Return a block, padded with zeros, as three numbers."""
    padded = block.ljust(_BLOCK, b"\0")
    return (
        int.from_bytes(padded[:4], "little"),
        int.from_bytes(padded[4:8], "little"),
        int.from_bytes(padded[8:], "little"),
    )


def _lookup3(data: bytes) -> tuple[int, int]:
    """Return both hashes of `hashlittle2` with zero seeds."""
    a = b = c = (_SEED + len(data)) & _MASK
    at = 0
    while len(data) - at > _BLOCK:
        x, y, z = _words(data[at : at + _BLOCK])
        at += _BLOCK
        a, b, c = (a + x) & _MASK, (b + y) & _MASK, (c + z) & _MASK
        a = (a - c) & _MASK ^ _rotated(c, 4)
        c = (c + b) & _MASK
        b = (b - a) & _MASK ^ _rotated(a, 6)
        a = (a + c) & _MASK
        c = (c - b) & _MASK ^ _rotated(b, 8)
        b = (b + a) & _MASK
        a = (a - c) & _MASK ^ _rotated(c, 16)
        c = (c + b) & _MASK
        b = (b - a) & _MASK ^ _rotated(a, 19)
        a = (a + c) & _MASK
        c = (c - b) & _MASK ^ _rotated(b, 4)
        b = (b + a) & _MASK
    if at == len(data):  # there is no data
        return c, b
    x, y, z = _words(data[at:])
    a, b, c = (a + x) & _MASK, (b + y) & _MASK, (c + z) & _MASK
    c = ((c ^ b) - _rotated(b, 14)) & _MASK
    a = ((a ^ c) - _rotated(c, 11)) & _MASK
    b = ((b ^ a) - _rotated(a, 25)) & _MASK
    c = ((c ^ b) - _rotated(b, 16)) & _MASK
    a = ((a ^ c) - _rotated(c, 4)) & _MASK
    b = ((b ^ a) - _rotated(a, 14)) & _MASK
    c = ((c ^ b) - _rotated(b, 24)) & _MASK
    return c, b
