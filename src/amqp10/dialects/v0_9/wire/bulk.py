"""Runs of frames that look alike, read many at a time: what is the same in all is compared without a step for each.

The result is the same as frame by frame: tests/dialects/v0_9/wire/test_bulk.py. benchmarks/budget.py, "consume_0_9_1":
together with what each message then no longer needs, it saves four fifths of the steps.
"""

from __future__ import annotations

from itertools import repeat
from struct import Struct, iter_unpack
from struct import error as struct_error
from typing import TYPE_CHECKING, Final

from ....messaging.payloads import ForeignPayload
from ..._kit.lazy_deliveries import LazyRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ....engine import IncomingDelivery
    from .framing import Framing

DeliveryColumns = tuple[tuple[bytes, ...], tuple[bytes, ...], tuple[bytes, ...], tuple[bytes, ...]]
"""Columns of a run of messages: the octets of their delivery numbers, their routes, their properties, their bodies."""

MIN_RUN: Final = 8
"""The number of messages of one size from which on it is worth reading them all at once."""

_END: Final = 0xCE
_METHOD, _HEADER, _BODY = 1, 2, 3
_ACK: Final = b"\0\x3c\0\x50"
_ONE: Final = bytes((0, _END))  # not `multiple`, and the end of the frame
_CONTENT: Final = b"\0\x3c\0\0"  # class and weight


class DeliveryScanner:
    """Reads messages of one consumer: deliver, content header, and one body frame.

    Args:
        begin: the payload of deliver up to the end of the consumer's tag.
    """

    def __init__(self, framing: Framing, channel: int, begin: bytes) -> None:
        method, header, body = (framing.head.pack(kind, channel, 0)[:-4] for kind in (_METHOD, _HEADER, _BODY))
        end = bytes((_END,))
        self._starts = method, begin, end + header, end + body
        self._method = Struct(f">{len(method)}sI{len(begin)}s8s")
        self._header = Struct(f">{1 + len(header)}sI4sQ")
        self._body = Struct(f">{1 + len(body)}sI")

    def read(self, data: bytes, at: int, most: int, limit: int) -> tuple[DeliveryColumns | None, int]:
        """Read messages from `at` on that scanner so and are whole, in frames with at most `limit` octets of payload.

        Returns:
            At most `most` of them, as columns or None; and the offset after them.
        """
        unpack, unpack_header, unpack_body = self._method.unpack_from, self._header.unpack_from, self._body.unpack_from
        width, header_width, body_width = self._method.size, self._header.size, self._body.size
        method, begin, header, body = self._starts
        head_width = len(method) + 4
        end_of_data = len(data)
        found: list[tuple[bytes, bytes, bytes, bytes]] = []
        next_try = 0  # messages before the next try; doubled each time, so that tries in vain are few
        try:
            while most:
                start, size, tag, number = unpack(data, at)
                route_at, route_end = at + width, at + head_width + size
                if start != method or tag != begin or size > limit or route_end < route_at:
                    break
                start, size, content, body_size = unpack_header(data, route_end)
                if start != header or content != _CONTENT or not 14 <= size <= limit or not 0 < body_size <= limit:
                    break
                properties_at = route_end + header_width
                properties_end = properties_at + size - 12
                body_at = properties_end + body_width
                end = body_at + body_size
                if unpack_body(data, properties_end) != (body, body_size) or end >= end_of_data or data[end] != _END:
                    break
                route, properties = data[route_at:route_end], data[properties_at:properties_end]
                if len(found) == next_try:
                    next_try += next_try + 1
                    length = end + 1 - at
                    widths = route_at - 8 - at, body_at - route_at, body_size
                    count = min(most, (end_of_data - at) // length)
                    if count >= MIN_RUN and _seem_even(data, at, length, *widths[:2]):
                        numbers, bodies = _read_even(data, at, MIN_RUN if found else count, length, widths)
                        count = len(numbers)
                        if count >= MIN_RUN:
                            if found:
                                break  # they are what is read next
                            return (numbers, (route,) * count, (properties,) * count, bodies), at + count * length
                found.append((number, route, properties, data[body_at:end]))
                at = end + 1
                most -= 1
        except struct_error:
            pass  # the data ends
        if not found:
            return None, at
        numbers, routes, all_properties, bodies = zip(*found, strict=True)
        return (numbers, routes, all_properties, bodies), at


def _seem_even(data: bytes, at: int, length: int, before: int, between: int) -> bool:
    """Return whether a try seems worthwhile: the second message repeats the first's middle, the last its beginning."""
    middle = at + before + 8
    second, last = middle + length, at + (MIN_RUN - 1) * length
    return data.startswith(data[middle : middle + between], second) and data.startswith(data[at : at + before], last)


def _read_even(
    data: bytes, at: int, count: int, length: int, widths: tuple[int, int, int]
) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """Return numbers and bodies of up to `count` messages that are like the first one in everything else.

    Each step looks at twice as many messages as were found alike, so at most that many are looked at in vain.

    Args:
        length: octets of each message.
        widths: octets before the number, between number and body, and of the body.
    """
    before, between, body = widths
    layout = f"{before}s8s{between}s{body}ss"
    view = memoryview(data)
    like = data[at : at + before], data[at + before + 8 : at + before + 8 + between], bytes((_END,))
    numbers: tuple[bytes, ...] = ()
    bodies: tuple[bytes, ...] = ()
    while (here := len(numbers)) < count:
        part = view[at + here * length : at + min(count, max(MIN_RUN, 2 * here)) * length]
        starts, more_numbers, middles, more_bodies, ends = zip(*iter_unpack(layout, part), strict=True)
        alike = [*map(like.__eq__, zip(starts, middles, ends, strict=True))]
        all_alike = False not in alike
        found = len(alike) if all_alike else alike.index(False)
        numbers += more_numbers[:found]
        bodies += more_bodies[:found]
        if not all_alike:
            break
    return numbers, bodies


def read_confirms(framing: Framing, data: bytes, at: int, channel: int) -> tuple[list[int], int]:
    """Return the numbers in whole frames of basic.ack without `multiple` from `at` on, and the offset after them."""
    begin = framing.head.pack(_METHOD, channel, 13) + _ACK
    width, last = len(begin), len(data) - len(begin) - 10
    found: list[int] = []
    while at <= last and data.startswith(begin, at) and data[at + width + 8 : at + width + 10] == _ONE:
        found.append(int.from_bytes(data[at + width : at + width + 8], "big"))
        at += width + 10
    return found, at


class ContentRun(LazyRun):
    """Messages that are mapped when they are asked for.

    Args:
        head: makes the sections before the body from route and properties.
    """

    __slots__ = ("_columns",)
    taken: int

    def __init__(
        self,
        kind: type[IncomingDelivery],
        settled: bool,
        numbers: Sequence[int],
        head: Callable[[bytes, bytes], bytes],
        run: DeliveryColumns,
    ) -> None:
        super().__init__(kind, settled, numbers, run[0])
        self._columns = head, run

    def payloads(self, part: slice) -> Iterable[ForeignPayload]:
        head, (_, routes, properties, bodies) = self._columns
        return map(ForeignPayload, zip(repeat(head), routes[part], properties[part], bodies[part]))

    def cut(self, most: int) -> ContentRun:
        """Split off the next `most` messages as a run of their own; this run keeps the others, at no cost."""
        part = slice(self.taken, self.taken + most)
        head, (tags, routes, properties, bodies) = self._columns
        columns = tags[part], routes[part], properties[part], bodies[part]
        cut = ContentRun(self.kind, self.settled, self.numbers[part], head, columns)
        self.taken += len(cut.numbers)
        return cut
