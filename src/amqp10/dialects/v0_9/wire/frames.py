"""Cutting what the peer writes into frames (0-9-1 §4.2.3); `bulk` reads many of them at a time."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from ..codes import NO_FRAME, Fault
from .bulk import read_confirms

if TYPE_CHECKING:
    from .bulk import DeliveryColumns, DeliveryScanner
    from .framing import Framing


class FrameReader:
    """Cuts what the peer writes into frames.

    Attributes:
        limit: the largest payload of a frame that is taken, octets.
    """

    def __init__(self, framing: Framing, limit: int) -> None:
        self._framing = framing
        self.limit = limit
        self._data = b""
        self._begin = self._at = 0  # where the last frame given out begins, and where it ends
        self._waiting: list[bytes] = []  # behind `_data`, not enough of it yet
        self._needed = 0
        self._size = 0

    def feed(self, data: bytes) -> None:
        self._waiting.append(data)
        self._size += len(data)

    @property
    def within_frame(self) -> bool:
        """Return whether what was fed last brought neither a whole frame nor the beginning of one."""
        return bool(self._waiting)

    def take(self, size: int) -> bytes | None:
        """Take the next `size` octets, whatever they are; return None while they are not all here."""
        data = self._joined()
        if len(data) < size:
            return None
        self._data = data[size:]
        self._size -= size
        return data[:size]

    def starts_with(self, octets: bytes) -> bool:
        """Return whether the next octets are `octets`, or are too few to tell and agree so far."""
        # Not `_joined`: what waits is the middle of a frame, which `within_frame` has to tell.
        begin = b"".join((self._data, *self._waiting))[: len(octets)]
        return octets.startswith(begin) and bool(begin)

    def _joined(self) -> bytes:
        if self._waiting:
            self._data = b"".join((self._data, *self._waiting)) if self._data else b"".join(self._waiting)
            self._waiting.clear()
        return self._data

    def frames(self) -> Generator[tuple[int, int, bytes], None, None]:
        """Yield type, channel and payload of each frame that is whole.

        Raises:
            Fault: the data is not a frame, or the frame is larger than `limit`.
        """
        if self._size < self._needed:
            return
        data = self._joined()
        framing = self._framing
        unpack, width = framing.head.unpack_from, framing.head.size
        at = self._at = 0
        have = len(data)
        self._needed = 0
        try:
            while have - at >= width:
                kind, channel, size = unpack(data, at)
                if size > self.limit or kind not in framing.types:
                    self._refuse(kind, size)
                start = at + width
                stop = start + size
                if stop >= have:
                    self._needed = stop + 1 - at
                    break
                if data[stop] != 0xCE:
                    raise Fault(NO_FRAME, f"a frame ends with 0x{data[stop]:02x}, not with 0xce")
                self._begin, self._at = at, stop + 1
                yield kind, channel, data[start:stop]
                at = self._at
        finally:
            self._data = data[self._at :]
            self._size = have - self._at
            self._at = 0

    def run(self, scanner: DeliveryScanner, most: int, largest: int) -> DeliveryColumns | None:
        """Take whole messages that fit `scanner`, from the frame given out last on; return at most `most` of them.

        Their frames have at most `largest` octets of payload. They are not given out again, nor is that first frame.
        """
        found, end = scanner.read(self._data, self._begin, most, min(largest, self.limit))
        if found is not None:
            self._at = end
        return found

    def confirms(self, channel: int) -> list[int]:
        """Take single confirms, from the frame given out last on; return the numbers of their publishes."""
        found, end = read_confirms(self._framing, self._data, self._begin, channel)
        if found:
            self._at = end
        return found

    def _refuse(self, kind: int, size: int) -> None:
        if kind not in self._framing.types:
            raise Fault(NO_FRAME, f"a frame of the unknown type {kind}")
        raise Fault(501, f"a frame of {size} octets exceeds the limit of {self.limit}")
