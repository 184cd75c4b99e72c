"""Payloads that are not bytes yet: large ones, and messages of other protocols.

What is large is in the buffers that it was read into, joined only where it is needed as one. That spares all copies of
a large body but one, from these buffers into the body: benchmarks/run.py, "receive 64 KiB".

What came in the words of another protocol has a body, and becomes sections when one of the others is asked for:
benchmarks/amqp091.py, "consume".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..errors import DecodeError
from ._codec import data_head, wide_data_head
from ._layout import DATA, scan, section_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LARGE: Final = 1 << 15
"""Bytes of a payload or frame from which on a copy costs more than the steps that spare it."""

_WIDE_DATA: Final = wide_data_head(0)[:4]
_MOST_HEAD: Final = 4096  # bytes of the sections before a body that are worth a look


class Pieces:
    """The bytes of these buffers, one after the other; `bytes(pieces)` joins them.

    Attributes:
        buffers: what they lie in; these are not written to again.
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
        """Return the sections before the body, and the body, if that is one data section and the last; else None.

        The pieces are these from then on: what they were read into is let go.
        """
        first, *others = self.buffers
        start = bytes(first[:_MOST_HEAD])
        at = 0
        try:
            while start[at : at + 4] != _WIDE_DATA:
                code, _, at = section_at(start, at)
                if code >= DATA:
                    return None
            if at:
                scan(start[:at])
        except DecodeError:  # or it is longer: whoever looks at all of it will see
            return None
        begin = at + 8
        size = self._size - begin
        if begin > len(start) or size < 256 or int.from_bytes(start[at + 4 : begin], "big") != size:
            return None
        body = b"".join((memoryview(first)[begin:], *others))
        self.buffers = [start[:begin], body]
        return start[:at], body


class Unmapped(tuple["Callable[[bytes, bytes], bytes]", bytes, bytes, bytes]):
    """A message of another protocol: what makes the sections before the body, what it makes them of, and the body.

    That is one data section, and the last. It is a tuple, so that many are made without a call for each.
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
        """Return the size of the body; the size of the rest shows when it is made."""
        return len(self[3])
