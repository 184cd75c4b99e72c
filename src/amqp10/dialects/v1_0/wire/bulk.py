"""Transfers read many at a time (§2.7.5).

Of a run that looks alike the common octets are compared once for many: benchmarks/budget.py, "receive";
benchmarks/run.py, "receive settled": a tenth. Transfers of several links by turns are read without the steps that all
frames have: benchmarks/budget.py, "receive_links". Each function returns the same as repeated calls of
`FrameReader.next`.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Final

from .transfer import ID_FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .transfer import TransferLayout

Alike = tuple[int, bytes, bytes]
"""One transfer of a run: delivery-id, delivery-tag and payload."""

Mixed = tuple["TransferLayout", int, bytes, bytes]
"""One transfer among others: its layout, delivery-id, delivery-tag and payload."""

KEY: Final = 8
"""Bytes that distinguish layouts in a list8: sizes, and the handle if it is a small one."""

Layouts = dict[bytes, "TransferLayout | int"]
"""Layouts by their first bytes, `KEY` of them; where these are not enough, they map to how many are."""

MIN_RUN: Final = 24
"""The number of frames of one size from which on it pays to compare all of them at once, octet by octet."""


def read_run(
    data: bytes, at: int, channel: int, layout: TransferLayout, most: int, largest: int
) -> tuple[list[Alike], int]:
    """Return the complete frames from `at` on, of this channel, layout and at most `largest` octets, and their end.

    Args:
        most: the greatest number of frames to return.
    """
    length, _, before, between, after, _, unpack = layout
    before = b"\x02\x00" + channel.to_bytes(2, "big") + before
    length += 8
    end_of_data = len(data)
    last = end_of_data - length
    found: list[Alike] = []
    if at <= last:
        size = unpack(data, at)[0]
        many = length <= size <= largest and min(most, (end_of_data - at) // size) >= MIN_RUN
        if many and _same(data, at, size, before):
            octets = ID_FORMATS[before[-1]][0]
            tag = length - 4 - len(before) - octets - len(between) - len(after)
            found, at = _read_even(data, at, size, most, (before, octets, between, tag, after))
            most -= len(found)
    while at <= last and most:
        size, same, number, still, tag_, always = unpack(data, at)
        end = at + size
        if same != before or still != between or always != after or not length <= size <= largest:
            break
        if end > end_of_data:
            break
        found.append((number, tag_, data[at + length : end]))
        at = end
        most -= 1
    return found, at


def read_mixed(
    data: bytes,
    at: int,
    channel: int,
    layouts: Layouts,
    before: TransferLayout | None,
    most: int,
    largest: int,
) -> tuple[list[Mixed], int]:
    """Return the complete frames from `at` on, of this channel and known layouts, and their end.

    Args:
        before: the layout of the frame before; where two follow each other that look alike, a run begins.
        most: the greatest number of frames to return.
        largest: the most octets that one may have.
    """
    header = b"\x02\x00" + channel.to_bytes(2, "big")
    end_of_data = len(data)
    found: list[Mixed] = []
    for _ in range(most):
        body = at + 8
        known = layouts.get(data[body : body + KEY])
        if isinstance(known, int):
            known = by_longer_key(layouts, data, body, known)
        if known is None or known is before:
            break
        length, _, first, between, after, _, unpack = known
        if body + length > end_of_data:
            break
        size, same, number, still, tag, always = unpack(data, at)
        end = at + size
        if same != header + first or still != between or always != after or not length + 8 <= size <= largest:
            break
        if end > end_of_data:
            break
        found.append((known, number, tag, data[body + length : end]))
        before = known
        at = end
    return found, at


def by_longer_key(layouts: Layouts, data: bytes, body: int, length: int) -> TransferLayout | None:
    """Return the layout that only its first `length` bytes tell apart from others, or even more of them.

    None: it is not known, or the data ends within these bytes. (What is cut short may be equal to a shorter key.)
    """
    while body + length <= len(data):
        known = layouts.get(data[body : body + length])
        if not isinstance(known, int):
            return known
        length = known
    return None


def _same(data: bytes, at: int, size: int, before: bytes) -> bool:
    """Return whether the second frame, and the last of the fewest, would begin as those of the run do, in this size.

    Else all frames that there are would be compared for a run of two: links that send by turns may have one size.
    """
    head = data[at : at + 4] + before
    return data.startswith(head, at + size) and data.startswith(head, at + (MIN_RUN - 1) * size)


def _read_even(
    data: bytes, at: int, size: int, most: int, form: tuple[bytes, int, bytes, int, bytes]
) -> tuple[list[Alike], int]:
    """Return the frames of one size, as long as there are many of them."""
    columns, unpack_all = _columns(size, form)
    count = min(most, (len(data) - at) // size)
    for offset, octet in columns:
        first = at + offset
        column = data[first : first + count * size - size + 1 : size]
        if column != octet * count:
            count -= len(column.lstrip(octet))
            if count < MIN_RUN:
                return [], at
    end = at + count * size
    return list(unpack_all(memoryview(data)[at:end])), end


@lru_cache(maxsize=256)
def _columns(
    size: int, form: tuple[bytes, int, bytes, int, bytes]
) -> tuple[list[tuple[int, bytes]], Callable[[memoryview], Iterator[Alike]]]:
    """Return the octets that all frames share, by place, and what cuts out the rest of each."""
    before, number, between, tag, after = form
    same = [(place, bytes((octet,))) for place, octet in enumerate(size.to_bytes(4, "big") + before)]
    at = len(same) + number
    same += [(place, bytes((octet,))) for place, octet in enumerate(between, at)]
    at += len(between) + tag
    same += [(place, bytes((octet,))) for place, octet in enumerate(after, at)]
    at += len(after)
    letter = ID_FORMATS[before[-1]][1]
    cut = Struct(f">{4 + len(before)}x{letter}{len(between)}x{tag}s{len(after)}x{size - at}s")
    return sorted(same, key=lambda each: each[0] != 3), cut.iter_unpack
