"""Serial number arithmetic on 32 bits (RFC 1982), for delivery and transfer ids (§2.8.10).

Two numbers exactly 2**31 apart have no order: `serial_lt` is False both ways, and `serial_compare` raises.
"""

from __future__ import annotations

SERIAL_MASK = 0xFFFF_FFFF
"""The largest serial number, which 0 follows."""
_HALF = 0x8000_0000


def serial_add(number: int, increment: int) -> int:
    """Return the serial number `increment` steps after `number`, or before it if `increment` is negative."""
    return (number + increment) & SERIAL_MASK


def serial_diff(later: int, earlier: int) -> int:
    """Return the number of steps from `earlier` to `later`: -2**31 to 2**31 - 1, negative if `later` is behind."""
    return ((later - earlier + _HALF) & SERIAL_MASK) - _HALF


def serial_lt(left: int, right: int) -> bool:
    """Return whether `left` comes before `right`."""
    return 0 < (right - left) & SERIAL_MASK < _HALF


def serial_compare(left: int, right: int) -> int:
    """Return -1 if `left` comes before `right`, 0 if they are equal, 1 if it comes after.

    Raises:
        ValueError: the two are exactly 2**31 apart, where RFC 1982 defines no order.
    """
    distance = (right - left) & SERIAL_MASK
    if distance == _HALF:
        raise ValueError(f"serial numbers {left} and {right} are half the circle apart and have no order")
    return -1 if 0 < distance < _HALF else int(distance != 0)
