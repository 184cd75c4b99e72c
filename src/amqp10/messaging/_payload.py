"""Payloads that are not bytes yet: large ones, and messages of other dialects.

A large payload stays in its read buffers until it is needed in one piece, which spares all copies of a large body but
one: benchmarks/run.py, "receive 64 KiB". A message of another dialect has its body, and is converted to sections when
another section is read: benchmarks/amqp091.py, "consume".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..errors import DecodeError
from ._codec import data_head, wide_data_head
from ._section_index import DATA, scan, section_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LARGE: Final = 1 << 15
"""The size of a payload or frame, in bytes, from which a copy costs more than the steps that avoid it."""

_WIDE_DATA: Final = wide_data_head(0)[:4]
_MAX_HEAD: Final = 4096  # bytes of sections before the body to search


class SplitPayload:
    """A payload in several buffers; `bytes(pieces)` joins them.

    Attributes:
        buffers: the buffers, which are not written to again.
    """

    __slots__ = ("_size", "buffers")

    def __init__(self, buffers: Iterable[bytes | memoryview]) -> None:
        self.buffers: list[bytes | memoryview] = list(buffers)
        self._size = sum(map(len, self.buffers))

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self.buffers)

    def body_apart(self) -> tuple[bytes, bytes] | None:
        """Return the sections before the body, and the body, if it is one data section and the last; else None.

        The pieces then hold these two instead of the read buffers.
        """
        first, *others = self.buffers
        start = bytes(first[:_MAX_HEAD])
        at = 0
        try:
            while start[at : at + 4] != _WIDE_DATA:
                code, _, at = section_at(start, at)
                if code >= DATA:
                    return None
            if at:
                scan(start[:at])
        except DecodeError:  # malformed, or the head is longer; a later scan tells
            return None
        begin = at + 8
        size = self._size - begin
        if begin > len(start) or size < 256 or int.from_bytes(start[at + 4 : begin], "big") != size:
            return None
        body = b"".join((memoryview(first)[begin:], *others))
        self.buffers = [start[:begin], body]
        return start[:at], body


class ForeignPayload(tuple["Callable[[bytes, bytes], bytes]", bytes, bytes, bytes]):
    """A message of another dialect: the function for the sections before the body, its arguments, and the body.

    The body is one data section, and the last. The class is a tuple, so that many are made without a call for each.
    """

    __slots__ = ()

    @property
    def body(self) -> bytes:
        return self[3]

    def head(self) -> bytes:
        """Return the sections before the body."""
        return self[0](self[1], self[2])

    def __bytes__(self) -> bytes:
        return b"".join((self.head(), data_head(len(self[3])), self[3]))

    def __len__(self) -> int:
        """Return the size of the body alone, because the rest is not made yet."""
        return len(self[3])
